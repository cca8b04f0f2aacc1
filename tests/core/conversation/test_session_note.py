from mdrecall.core.conversation.digest import (
    MAX_CHECKPOINT_CHARS,
    MAX_CHECKPOINT_MESSAGES,
    Message,
    checkpoint_text,
    note_name,
)


def plain(text: str) -> str:
    return text


def test_the_last_messages_stand_under_a_heading_with_the_time() -> None:
    messages = [Message("user", "Where do\n\nwe meet?"), Message("assistant", "At noon,\n# by the lake.")]
    assert checkpoint_text(messages, "2026-02-16 10:00", plain) == (
        "## Checkpoint before compaction, 2026-02-16 10:00\n\n"
        "- User: Where do we meet?\n- Assistant: At noon, # by the lake.\n"
    )


def test_only_what_people_and_the_model_said_counts() -> None:
    messages = [Message("tool", "x"), Message("system", "y"), Message("user", " /new"), Message("user", "  ")]
    messages.append(Message("assistant", "NO_REPLY"))
    assert checkpoint_text(messages, "now", plain) == ""


def test_it_is_bounded() -> None:
    text = checkpoint_text([Message("user", f"{number} " + "x" * 9999) for number in range(99)], "now", plain)
    lines = text.splitlines()[2:]
    assert len(lines) == MAX_CHECKPOINT_MESSAGES
    assert lines[-1].startswith("- User: 98 ")
    assert max(map(len, lines)) == MAX_CHECKPOINT_CHARS + len("- User: ")


def test_what_is_secret_is_redacted_before_it_is_cut_or_joined() -> None:
    seen: list[str] = []

    def redact(text: str) -> str:
        seen.append(text)
        return text.replace("hush\nhush", "***")

    assert "- User: say ***\n" in checkpoint_text([Message("user", "say hush\nhush")], "now", redact)
    assert seen == ["say hush\nhush"]


def test_the_name_of_a_note_has_the_day_and_a_few_words() -> None:
    assert note_name("2026-02-10", "The Walrus & Co!") == "2026-02-10-the-walrus-co.md"
    assert note_name("2026-02-10", " -_- ") == "2026-02-10.md"
    assert note_name("2026-02-10", "word " * 20) == f"2026-02-10-{'word-' * 7}word.md"
