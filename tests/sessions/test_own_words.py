"""What a person has written by hand in a prompt, and the copy of it that is kept."""

import stat
from pathlib import Path

import pytest

from mdrecall.sessions.host_conversations import HostState, HostTranscripts
from mdrecall.sessions.host_formats import About
from mdrecall.sessions.messages import wrap_memory
from mdrecall.sessions.own_words import MAX_CHARS, split_words
from mdrecall.types.transcripts import TranscriptRecord


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("请用中文回答。", "请用中文回答。"),
        ("why is it slow?\n\n[06/18/26 18:46 ~/src] make\n✓ done 3/3", "why is it slow?"),
        ("look:\n```\nraise ValueError\n```\nmend it", "look:\nmend it"),
        ("> you wrote this\nI disagree", "I disagree"),
        ("| a | b |\n| - | - |\nsort it", "sort it"),
        ('Traceback (most recent call last):\nFile "a.py", line 3\nwhat is this?', "what is this?"),
        ("2026-11-18 04:00:01 INFO started\nis that right?", "is that right?"),
        ("why?\n$ make\n\nNo rule was found.\n\n$\nmend it", "why?\nmend it"),
        ("✅ Sync complete!\n3 sessions were read\n✨ Done\nAdd a divider", "Add a divider"),
        ("Build this:\n# Plan\n\nWe always use tabs.", "Build this:"),
        ("0x7f 0x11 0x12 --- ***\nmend it", "mend it"),
    ],
)
def test_what_was_pasted_is_left_out(text: str, own: str) -> None:
    assert split_words(text)[0] == own


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/review 12",
        "!ls",
        "<command-name>/exit</command-name>",
        "[Request interrupted by user]",
        wrap_memory("use tabs", "5e1f09ab"),
        "word " * (MAX_CHARS // 4),
    ],
)
def test_commands_their_expansion_and_long_texts_have_no_own_words(text: str) -> None:
    assert split_words(text)[0] == ""


def test_the_rest_is_kept_apart() -> None:
    assert split_words("mend it\n> said before\n```\nx = 1\n```") == ("mend it", "> said before\n```\nx = 1\n```")


ABOUT = About("/home/ana/shop", "shop@main")
PATH = "sessions/claude-code/a1.jsonl"


def said(number: int, text: str) -> TranscriptRecord:
    return TranscriptRecord(number, None, 0, "User", text, "2026-02-10")


def kept(folder: Path) -> list[tuple[int, str]]:
    reader = HostTranscripts(str(folder))
    with reader.open(PATH) as opened:
        return [(record.number, record.text) for record in opened.records() if record.is_message]


def test_words_are_kept_under_the_numbers_of_their_records_and_never_twice(tmp_path: Path) -> None:
    state = HostState(str(tmp_path))
    state.keep_words("claude-code", "a1", ABOUT, [said(3, "Use tabs."), said(7, "No, spaces.")])
    state.keep_words("claude-code", "a1", ABOUT, [said(7, "No, spaces."), said(9, "Done.")])
    assert kept(tmp_path) == [(3, "Use tabs."), (7, "No, spaces."), (9, "Done.")]
    assert state.read_about("claude-code", "a1").folder == ABOUT.folder
    file = tmp_path / "hosts" / "claude-code" / "a1.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_line_that_a_killed_process_has_begun_is_written_again(tmp_path: Path) -> None:
    state = HostState(str(tmp_path))
    state.keep_words("claude-code", "a1", ABOUT, [said(1, "Use tabs.")])
    file = tmp_path / "hosts" / "claude-code" / "a1.jsonl"
    whole = file.read_bytes()
    state.keep_words("claude-code", "a1", ABOUT, [said(2, "No, spaces.")])
    both = file.read_bytes()
    for end in range(len(whole), len(both)):
        file.write_bytes(both[:end])
        state.keep_words("claude-code", "a1", ABOUT, [said(2, "No, spaces.")])
        assert file.read_bytes() == both
