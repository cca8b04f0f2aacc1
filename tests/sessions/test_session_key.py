import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mdrecall.sessions.visibility import SessionKey, parse

WORDS = (
    "agent", "main", "direct", "dm", "group", "channel", "subagent", "cron", "acp", "hook", "thread", "topic",
    "room", "dashboard", "explicit", "active-memory", "heartbeat", "node", "internal-session-effects",
    "telegram", "work", "42", "", " ",
)  # fmt: skip
keys = st.one_of(
    st.text(max_size=60), st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), max_size=9).map(":".join)
)
unknown_parts = st.text(st.characters(exclude_characters=":"), max_size=8).filter(
    lambda part: part.strip().lower() not in WORDS[:19]
)


def understood(key: str) -> tuple[str, str, str, str, str]:
    found = parse(key)
    return found.kind, found.channel, found.account, found.peer, found.thread


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("main", ("direct", "", "", "", "")),
        ("direct:alice", ("direct", "", "", "alice", "")),
        ("telegram:work:direct:42", ("direct", "telegram", "work", "42", "")),
        ("matrix:direct:@alice:example.org", ("direct", "matrix", "", "@alice:example.org", "")),
        ("discord:channel:9", ("channel", "discord", "", "9", "")),
        ("telegram:group:-100:topic:5", ("group", "telegram", "", "-100", "5")),
        ("slack:channel:c1:thread:17.5:x", ("channel", "slack", "", "c1", "17.5:x")),
        ("subagent:run-1:subagent:run-2", ("subagent", "", "", "run-1:subagent:run-2", "")),
        ("telegram:direct:42:subagent:run-1", ("subagent", "", "", "run-1", "")),
        ("cron:daily:run:3", ("cron", "", "", "daily:run:3", "")),
        ("hook:9d1f", ("hook", "", "", "9d1f", "")),
        ("matrix:room:!x", ("group", "matrix", "", "!x", "")),
        ("explicit:9:a", ("explicit", "", "", "9:a", "")),
        ("main:thread:7:subagent:run-1", ("subagent", "", "", "run-1", "")),
    ],
)
def test_every_form_is_understood_with_an_agent_and_without(rest: str, expected: tuple[str, ...]) -> None:
    assert understood(rest) == expected
    assert understood(f"agent:Home:{rest}") == expected
    assert (parse(f"agent:Home:{rest}").agent, parse(rest).agent) == ("home", "")
    assert parse(f"agent:Home:{rest}").rest == rest


@pytest.mark.parametrize(
    "key",
    [
        "", " ", ":", ":::", "agent", "agent:", "agent:main", "agent::main", "agent:main:", "agent:main:openai:1",
        "agent:a:agent:b:main", "telegram:direct", "direct", "group", "main:5", "main:thread", "a:b:c:direct:5",
        "direct:thread:5", "direct:x:group:y", "telegram:direct:x:channel:y", "direct:x:cron:y", "agent:main:global",
        "dashboard", "explicit", "dashboard:x:group:y", "main:active-memory:0", "direct:x:active-memory:0",
        "main:heartbeat",
        "main:thread:1:active-memory:0", "telegram:group:x:heartbeat", "node:x", "internal-session-effects:main",
        "主要", "x" * 10_000, ":".join("x" * 5_000), "main\x00", "\ufeffmain",
    ],
)  # fmt: skip
def test_what_is_none_of_the_forms_is_unknown(key: str) -> None:
    found = parse(key)
    assert (found.kind, found.chat_type, found.is_main, found.is_private) == ("unknown", "unknown", False, False)


def test_only_the_first_of_group_and_channel_counts() -> None:
    assert parse("slack:group:channel:1").chat_type == "group"
    assert parse("slack:channel:group:1").chat_type == "channel"


def test_only_the_main_session_itself_is_main() -> None:
    assert parse("agent:a:main").is_main
    assert not parse("agent:a:home").is_private
    assert not parse("agent:a:main:thread:1").is_main


def test_a_key_belongs_to_the_agent_that_it_names() -> None:
    assert parse("AGENT:My Bot:main").belongs_to("my-bot")
    assert parse("agent:my-bot:main").belongs_to(" My Bot ")
    assert not parse("agent:my-bot:main").belongs_to("main")
    assert not parse("main").belongs_to("main")
    assert not parse("agent:main").belongs_to("main")


@given(keys)
@example("agent:ΑΣ:ΑΣ:direct:ΟΔΟΣ")
def test_any_text_is_read_and_reading_again_changes_nothing(key: str) -> None:
    found = parse(key)
    assert isinstance(found, SessionKey)
    assert parse(found.raw) == found
    assert parse(f" {key.replace(':', ' :: ')}\n") == found


@given(keys)
def test_case_does_not_matter(key: str) -> None:
    swapped = "".join(char.upper() if char.isascii() else char for char in key)
    assert parse(swapped) == parse(key)


@given(st.lists(unknown_parts, max_size=6))
def test_nothing_made_of_unknown_parts_is_private(parts: list[str]) -> None:
    assert not parse(":".join(parts)).is_private
    assert not parse(":".join(["agent", *parts])).is_private


@given(keys, st.sampled_from(["group", "channel", "subagent", "cron", "acp", "hook", "agent"]), st.booleans())
def test_no_key_with_the_word_of_a_shared_or_machine_session_is_private(key: str, word: str, scoped: bool) -> None:
    thread_free = key.lower().replace("thread", "x").replace("topic", "x")
    assert not parse(f"{'agent:a:' * scoped}x:{word}:{thread_free}").is_private
    assert not parse(f"{'agent:a:' * scoped}direct:x:{word}:{thread_free}").is_private
