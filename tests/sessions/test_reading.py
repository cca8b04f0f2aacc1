"""Transcripts as people and agents read them: in pages, in order, by any of their names."""

import json
import os
from pathlib import Path

import pytest

from mdrecall.errors import FileMissing
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.readers import find_conversation, last_messages, list_conversations, read_transcript


def write(folder: Path, name: str, *texts: str, at_s: int = 1_700_000_000) -> None:
    lines = [json.dumps({"type": "message", "message": {"role": "user", "content": text}}) for text in texts]
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (at_s, at_s))


@pytest.fixture
def reader(tmp_path: Path) -> OpenClawTranscripts:
    return OpenClawTranscripts(str(tmp_path))


def test_the_last_changed_is_listed_first(tmp_path: Path, reader: OpenClawTranscripts) -> None:
    for name, at_s in (("a", 10), ("b", 30), ("c", 20), ("d", 30)):
        write(tmp_path, f"{name}.jsonl", at_s=at_s)
    assert [entry.session for entry in list_conversations(reader)] == ["b", "d", "c", "a"]


def test_of_several_resets_the_latest_counts_whatever_their_names(tmp_path: Path, reader: OpenClawTranscripts) -> None:
    write(tmp_path, "a.jsonl.reset.2026-02-10T10-00-00.000Z", "late", at_s=20)
    write(tmp_path, "a.jsonl.reset.2026-02-11T10-00-00.000Z", "early", at_s=10)
    found = find_conversation(reader, "a")
    assert (found.path, found.session, found.archived) == ("sessions/a.jsonl.reset.2026-02-10T10-00-00.000Z", "a", True)
    write(tmp_path, "a.jsonl", "now")
    assert find_conversation(reader, "a").path == "sessions/a.jsonl"


@pytest.mark.parametrize("name", ["a", "a.jsonl", "sessions/a.jsonl"])
def test_a_session_is_found_by_its_id_file_name_or_path(tmp_path: Path, reader: OpenClawTranscripts, name: str) -> None:
    write(tmp_path, "a.jsonl")
    assert find_conversation(reader, name).session == "a"
    assert find_conversation(reader, str(tmp_path / "a.jsonl")).session == "a"
    with pytest.raises(FileMissing) as caught:
        find_conversation(reader, f"{name}b")
    assert "mdrecall" not in caught.value.hint


def test_a_transcript_is_read_in_pages(tmp_path: Path, reader: OpenClawTranscripts) -> None:
    write(tmp_path, "a.jsonl", "one", "two", "three")
    page = read_transcript(reader, "a", str, max_chars=24)
    assert (page.text, page.truncated, page.next_from) == ("1  User: one", True, 2)
    rest = read_transcript(reader, "a", str, from_line=2)
    assert (rest.text, rest.truncated, rest.next_from) == ("2  User: two\n3  User: three", False, None)


def test_a_range_says_where_to_read_on(tmp_path: Path, reader: OpenClawTranscripts) -> None:
    write(tmp_path, "a.jsonl", "one", "two", "three")
    first, last = (read_transcript(reader, "a", str, from_line=start, lines=2) for start in (1, 2))
    assert (first.line_count, first.total_lines, first.next_from) == (2, 3, 3)
    assert (last.text, last.next_from) == ("2  User: two\n3  User: three", None)


def test_a_message_that_is_longer_than_a_page_is_cut_and_not_lost(tmp_path: Path, reader: OpenClawTranscripts) -> None:
    write(tmp_path, "a.jsonl", "x" * 100, "next")
    page = read_transcript(reader, "a", str, max_chars=20)
    assert (page.text, page.truncated, page.next_from) == ("1  User: " + "x" * 11, True, 2)


def test_the_last_messages_leave_out_commands_and_secrets(tmp_path: Path, reader: OpenClawTranscripts) -> None:
    write(tmp_path, "a.jsonl", "one", "two", "/new", "my secret")
    found = last_messages(reader, "sessions/a.jsonl", lambda text: text.replace("secret", "***"), 2)
    assert [(record.number, record.line) for record in found] == [(2, "User: two"), (4, "User: my ***")]
