"""Records of a conversation become lines, each with the number of its record."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.sessions.jsonl import one_line, parse_blocks, parse_object
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.openclaw_events import EventParser
from mdrecall.types.transcripts import TranscriptRecord

KEY = "sk-abcdefghijklmnopqrst"


def record(role: str, content: Any, **more: Any) -> bytes:
    return json.dumps({"type": "message", "message": {"role": role, "content": content}, **more}).encode()


def messages_of(*records: bytes, first: int = 1) -> list[TranscriptRecord]:
    blocks, parser = (line + b"\n" for line in records), EventParser()
    found = parse_blocks(blocks, lambda line: parser.parse(parse_object(line)), number=first)
    return [record for record in found if record.is_message]


def test_openclaws_own_example_has_its_lines_and_its_map() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi "}, {"type": "text", "text": KEY}]
    records = [
        b'{"type": "session", "id": "x"}',
        record("user", "Hello\n\n  there   friend"),
        b"",
        b"{not json",
        record("toolResult", "a result"),
        record("assistant", blocks),
        record("assistant", ""),
    ]
    found = [message.redact_text(lambda text: text.replace(KEY, "sk-abc…qrst")) for message in messages_of(*records)]
    assert [message.line for message in found] == ["User: Hello there friend", "Assistant: Hi sk-abc…qrst"]
    assert [message.number for message in found] == [2, 6]


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'"message"',
        b'{"type": "message"}',
        b'{"type": "message", "message": "text"}',
        b'{"type": "message", "message": {"role": ["user"], "content": "x"}}',
        b'{"type": "message", "message": {"role": "user", "content": {"type": "text", "text": "x"}}}',
        b'{"type": "message", "message": {"role": "user", "content": [7, null, {"type": "text", "text": 7}]}}',
        b'{"type": "custom_message", "message": {"role": "user", "content": "x"}}',
        b'{"type": "compaction", "summary": "they talked"}',
        b"\xff\xfe broken",
        b"[" * 100_000,
    ],
)
def test_what_nobody_says_is_left_out(line: bytes) -> None:
    assert messages_of(line) == []


def test_a_record_tells_its_day() -> None:
    days = [
        message.day
        for message in messages_of(
            record("user", "a", timestamp="2026-02-10T23:59:00.000Z"),
            record("user", "b", timestamp="soon"),
            record("user", "c", timestamp=1771000000000),
            record("user", "d"),
        )
    ]
    assert days == ["2026-02-10", "", "", ""]


@given(st.lists(st.binary(max_size=60) | st.text(max_size=20).map(lambda text: record("user", text)), max_size=12))
def test_whatever_is_in_a_file_each_line_has_one_record_and_no_line_end(lines: list[bytes]) -> None:
    found = messages_of(*lines)
    assert [message.number for message in found] == sorted({message.number for message in found})
    assert all("\n" not in message.line and message.line.startswith(("User: ", "Assistant: ")) for message in found)


@given(st.text(st.sampled_from("ab \t\n\u3000\x1c\u2028")), st.integers(1, 9))
def test_a_long_text_is_put_on_one_line_as_a_short_one_is(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mdrecall.sessions.jsonl._MAX_SPLIT_CHARS", size)
        assert one_line(text) == " ".join(text.split())


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=6), st.integers(1, 9))
def test_a_line_that_is_too_long_is_told_and_costs_no_other_line(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mdrecall.sessions.jsonl.MAX_LINE_BYTES", 6)
        found = list(parse_blocks(blocks, lambda line: ("User", line.hex(), "", ""), start=100, number=5))
    # What follows the last line end is a record only if it is not empty.
    expected = lines if lines and lines[-1] else lines[:-1]
    assert [each.text for each in found] == [line.hex() if len(line) <= 6 else "" for line in expected]
    assert [bool(each.problem) for each in found] == [len(line) > 6 for line in expected]
    assert [each.number for each in found] == list(range(5, 5 + len(expected)))
    ends = [100 + sum(len(line) + 1 for line in lines[: count + 1]) for count in range(len(expected))]
    is_open = bool(lines and lines[-1])
    assert [each.end for each in found] == ([*ends[:-1], None] if is_open else ends)


def test_a_transcript_is_described_with_the_conversation_that_it_belongs_to(tmp_path: Path) -> None:
    key = "agent:main:subagent:x"
    reader, stamp = OpenClawTranscripts(str(tmp_path)), (7, 2_000_000_000, 0, 0)
    unknown = reader.describe("sessions/s1.jsonl", stamp)
    assert unknown == ("s1", "sessions/s1.jsonl", 7, 2.0, False, *[""] * 8, (), "")
    entries = {key: {"sessionId": "s1", "chatType": "direct", "channel": "irc", "spawnedBy": "agent:main:main"}}
    (tmp_path / "sessions.json").write_text(json.dumps(entries))
    known = unknown._replace(session_key=key, chat_type="direct", channel="irc", parent_key="agent:main:main")
    assert reader.describe("sessions/s1.jsonl", stamp) == known
    assert reader.describe("sessions/s1.jsonl.reset.2026", stamp).session_key == key
    assert reader.describe("sessions/s2.jsonl", stamp).session_key == ""
    (tmp_path / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": "s1"}}))
    assert reader.describe("sessions/s1.jsonl", stamp).session_key == "agent:main:main"
