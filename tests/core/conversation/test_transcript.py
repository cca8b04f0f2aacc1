"""Records of a conversation become lines, each with the number of its record."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.core.conversation.transcript import Spoken, fingerprint, spoken

KEY = "sk-abcdefghijklmnopqrst"


def record(role: str, content: Any, **more: Any) -> bytes:
    return json.dumps({"type": "message", "message": {"role": role, "content": content}, **more}).encode()


def as_it_is(text: str) -> str:
    return text


def lines_of(*records: bytes) -> list[Spoken]:
    return list(spoken(records, as_it_is))


def test_openclaws_own_example_has_its_lines_its_map_and_its_hash() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Hi "},
        {"type": "text", "text": KEY},
    ]
    records = [
        b'{"type": "session", "id": "x"}',
        record("user", "Hello\n\n  there   friend"),
        b"",
        b"{not json",
        record("toolResult", "a result"),
        record("assistant", blocks),
        record("assistant", ""),
    ]
    found = list(spoken(records, lambda text: text.replace(KEY, "sk-abc…qrst")))
    assert [line.text for line in found] == ["User: Hello there friend", "Assistant: Hi sk-abc…qrst"]
    assert [line.record for line in found] == [2, 6]
    assert fingerprint(found).startswith("200abab880d95532")


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"null",
        b"7",
        b'"message"',
        b'{"type": "message"}',
        b'{"type": "message", "message": "text"}',
        b'{"type": "message", "message": {"role": ["user"], "content": "x"}}',
        b'{"type": "message", "message": {"role": "user", "content": {"type": "text", "text": "x"}}}',
        b'{"type": "message", "message": {"role": "user", "content": [7, null, {"type": "text", "text": 7}]}}',
        b'{"type": "custom_message", "message": {"role": "user", "content": "x"}}',
        b'{"type": "compaction", "summary": "they talked"}',
        b'{"type": "branch_summary", "summary": "another way"}',
        b"\xff\xfe broken",
        b"[" * 100_000,
    ],
)
def test_what_nobody_says_is_left_out(line: bytes) -> None:
    assert lines_of(line) == []


def test_a_record_tells_its_day() -> None:
    days = [
        line.day
        for line in lines_of(
            record("user", "a", timestamp="2026-02-10T23:59:00.000Z"),
            record("user", "b", timestamp="soon"),
            record("user", "c", timestamp=1771000000000),
            record("user", "d"),
        )
    ]
    assert days == ["2026-02-10", "", "", ""]


def test_numbers_go_on_from_where_a_part_begins() -> None:
    assert [line.record for line in spoken([record("user", "a"), record("user", "b")], as_it_is, first=41)] == [41, 42]


@given(st.lists(st.binary(max_size=60) | st.text(max_size=20).map(lambda text: record("user", text)), max_size=12))
def test_whatever_is_in_a_file_each_line_has_one_record_and_no_line_end(lines: list[bytes]) -> None:
    found = lines_of(*lines)
    assert [line.record for line in found] == sorted({line.record for line in found})
    assert all("\n" not in line.text and line.text.startswith(("User: ", "Assistant: ")) for line in found)
