import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.sessions.messages import NO_REPLY, ReplyStream, is_silent, visible_text


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("NO_REPLY", True), (" \n NO_REPLY\t\n", True), ("no_reply", False), ("NO_REPLY.", False), ("", False),
        ("NO_REPLY NO_REPLY", False), ("Saved. NO_REPLY", False),
    ],
)  # fmt: skip
def test_silent_is_the_whole_text_and_only_in_capitals(text: str, silent: bool) -> None:
    assert is_silent(text) is silent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("NO_REPLY", ""),
        ("  NO_REPLY \n", ""),
        ("Saved.\n\nNO_REPLY\n", "Saved."),
        ("Saved. **NO_REPLY", "Saved."),
        ("Saved. **NO_REPLY**", "Saved."),
        ("**NO_REPLY**", ""),
        ("Saved.NO_REPLY", "Saved.NO_REPLY"),
        ("NO_REPLY is what I say", "NO_REPLY is what I say"),
        ("say no_reply", "say no_reply"),
        ("XNO_REPLY", "XNO_REPLY"),
        ("plain text \n", "plain text \n"),
        ("a * b *", "a * b *"),
        ("", ""),
    ],
)
def test_a_token_at_the_end_is_not_shown(text: str, shown: str) -> None:
    assert visible_text(text) == shown


def streamed(pieces: list[str]) -> str:
    stream = ReplyStream()
    return "".join([stream.feed(piece) for piece in pieces]) + stream.end()


def test_nothing_of_a_silent_answer_is_ever_shown() -> None:
    stream = ReplyStream()
    assert [stream.feed(letter) for letter in " NO_REPLY \n"] == [""] * 11
    assert stream.end() == ""


def test_what_begins_like_the_token_is_shown_as_soon_as_it_is_something_else() -> None:
    stream = ReplyStream()
    assert [stream.feed(letter) for letter in "Now"] == ["", "No", "w"]
    stream = ReplyStream()
    assert [stream.feed(piece) for piece in ("NO", ", never")] == ["", "NO, never"]
    stream = ReplyStream()
    assert [stream.feed(piece) for piece in ("no_re", "ply", "ing")] == ["", "", "no_replying"]
    stream = ReplyStream()
    assert (stream.feed("no_reply"), stream.end()) == ("", "no_reply")


def test_only_an_end_that_may_become_the_token_is_held_back() -> None:
    stream = ReplyStream()
    assert stream.feed("Saved. **NO_RE") == "Saved."
    assert stream.feed("ADER ") == " **NO_READER"
    assert stream.end() == " "
    stream = ReplyStream()
    assert stream.feed("Saved. NO_REPLY") == "Saved."
    assert stream.feed(" after") == " NO_REPLY after"


words = st.lists(
    st.sampled_from([NO_REPLY, "NO", "N", "_", "no_", "*", "**", " ", "\n", "Saved.", "x", "é"]), max_size=8
)


@given(words, st.data())
def test_however_a_text_is_cut_the_same_is_shown(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert streamed(pieces) == visible_text(text)
    assert streamed(list(text)) == visible_text(text)


@given(words)
def test_what_was_shown_early_is_a_beginning_of_what_is_shown_in_the_end(parts: list[str]) -> None:
    stream, shown = ReplyStream(), ""
    for index, part in enumerate(parts):
        shown += stream.feed(part)
        assert visible_text("".join(parts[: index + 1])).startswith(shown)


def test_a_long_run_of_blanks_takes_no_time() -> None:
    assert len(streamed(["*" * 200_000, " " * 200_000, "x"])) == 400_001
