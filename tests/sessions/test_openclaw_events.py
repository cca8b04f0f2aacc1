"""What is said in OpenClaw's events, what is left out, and who each line comes from."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.openclaw_events import EventParser

MARK = "⟦openclaw:ctx⟧"


def event(role: str, content: Any, **more: Any) -> dict[str, Any]:
    own = {"__openclaw": more.pop("own")} if "own" in more else {}
    return {"type": "message", "message": {"role": role, "content": content, **more, **own}}


def owner(text: str = "hello") -> dict[str, Any]:
    return event("user", text, own={"senderIsOwner": True})


def stranger(text: str = "hello") -> dict[str, Any]:
    return event("user", text, own={"senderIsOwner": False})


def system(tool: str = "subagent", text: str = "a report") -> dict[str, Any]:
    return event("user", text, provenance={"kind": "internal_system", "sourceTool": tool})


def answer(text: str = "yes", **own: Any) -> dict[str, Any]:
    return event("assistant", [{"type": "text", "text": text}], own=own)


def lines_of(*events: dict[str, Any]) -> list[tuple[str, str]]:
    parser = EventParser()
    return [(f"{said[0]}: {said[1]}", said[3]) for each in events if (said := parser.parse(each))]


@pytest.mark.parametrize(
    ("events", "origins"),
    [
        ([owner()], "owner"),
        ([stranger()], "untrusted"),
        ([event("user", "x")], "untrusted"),
        ([event("user", "x", own="owner")], "untrusted"),
        ([event("user", "x", own={"senderIsOwner": "true"})], "untrusted"),
        ([event("user", "x", own={"senderIsOwner": 1})], "untrusted"),
        ([event("user", "x", senderIsOwner=True)], "untrusted"),
        ([system()], "system"),
        ([event("user", "x", own={"senderIsOwner": True}, provenance={"kind": "internal_system"})], "system"),
        ([event("user", "x", own={"senderIsOwner": True}, provenance={"kind": "external_user"})], "owner"),
        ([event("user", "x", provenance={"kind": "external_user"})], "untrusted"),
        ([event("user", "x", provenance="internal_system")], "untrusted"),
        ([answer()], "untrusted"),
        ([answer(senderIsOwner=True)], "untrusted"),
        ([owner(), answer()], "owner agent"),
        ([owner(), answer(turnTainted=True)], "owner untrusted"),
        ([owner(), answer(turnTainted=True), answer()], "owner untrusted agent"),
        ([stranger(), answer()], "untrusted untrusted"),
        ([system(), answer()], "system system"),
        ([system(), answer(turnTainted=True)], "system untrusted"),
        ([owner(), stranger(), answer()], "owner untrusted untrusted"),
        ([stranger(), answer(), owner(), answer()], "untrusted untrusted owner agent"),
        ([owner(), event("toolResult", "from a web page"), answer()], "owner agent"),
        ([owner(), {"type": "compaction", "summary": "s"}, answer()], "owner agent"),
        ([owner(), {"type": "reset", "reason": "new"}, stranger(), answer()], "owner untrusted untrusted"),
    ],
)
def test_a_line_is_the_owners_only_if_openclaw_says_so(events: list[dict[str, Any]], origins: str) -> None:
    assert [origin for _, origin in lines_of(*events)] == origins.split()


@pytest.mark.parametrize(
    "events",
    [
        [system("heartbeat", "look around"), answer("the kettle is on")],
        [system("memory_search", "notes: the walrus"), answer("the walrus")],
        [system("memory_get", "the walrus")],
        [event("user", "hi", provenance={"kind": "inter_session"})],
        [stranger("System: [2026-05-02 08:00] node connected")],
        [stranger("System (untrusted): [2026-05-02] gateway restarted")],
        [stranger("[cron:daily water the plants] do it")],
        [stranger("[OpenClaw heartbeat poll]")],
        [stranger("[Sat 2026-05-02 08:00 UTC] [cron:x y] z")],
        [answer("HEARTBEAT_OK")],
        [answer("NO_REPLY")],
        [stranger(f"Sender: {MARK}\n```json\n{{}}\n```\n")],
    ],
)
def test_what_openclaw_wrote_itself_is_left_out(events: list[dict[str, Any]]) -> None:
    assert lines_of(*events) == []


def test_only_the_turn_of_a_heartbeat_is_left_out() -> None:
    found = lines_of(system("heartbeat"), answer("nothing"), owner("the kettle is on"), answer("I hear it"))
    assert [line for line, _ in found] == ["User: the kettle is on", "Assistant: I hear it"]


@pytest.mark.parametrize(
    "text",
    [
        "[Sat 2026-05-02 08:00 UTC] the kettle is on",
        f'Conversation info: {MARK}\n```json\n{{"id": 7}}\n```\n\nSender: {MARK}\n```json\n{{}}\n```\nthe kettle is on',
        f"Chat history: {MARK}\nBob: hi\nEve: the password is tulip\n\nthe kettle is on",
        f"the kettle is on\n\nContext: {MARK}\nsomething of a channel\n\nand more",
        "Context:\n<active_memory_plugin>\nthe walrus\n</active_memory_plugin>\n\nthe kettle is on",
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecret plans\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nthe kettle is on",
        "the kettle is on\n<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nwithout an end",
        "Delivery: to send a message, use the `message` tool.\nthe kettle is on",
    ],
)
def test_what_openclaw_added_to_a_message_is_left_out(text: str) -> None:
    assert lines_of(stranger(text)) == [("User: the kettle is on", "untrusted")]


@pytest.mark.parametrize(
    "text",
    [
        "what does ⟦openclaw:ctx⟧ in the middle mean?",
        "Context: the kettle is on",
        "[draft] a title",
        "System: the kettle",
        "Delivery: tomorrow",
    ],
)
def test_what_a_person_wrote_stays(text: str) -> None:
    assert lines_of(stranger(text)) == [(f"User: {text}", "untrusted")]


def test_every_kind_of_text_block_counts() -> None:
    blocks = [{"type": kind, "text": kind} for kind in ("text", "input_text", "output_text", "image")]
    assert lines_of(event("user", blocks)) == [("User: text input_text output_text", "untrusted")]


@pytest.mark.parametrize("noise", [0, 10_000, 200_000])
def test_an_answer_has_the_origin_of_its_turn_wherever_reading_begins(tmp_path: Path, noise: int) -> None:
    tool = {"type": "message", "message": {"role": "toolResult", "content": "x" * noise}}
    events = [stranger(), answer("one"), owner(), tool, answer("two"), system("heartbeat"), tool, answer("three")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in [*events, owner("last")]))
    with OpenClawTranscripts(str(tmp_path)).open("sessions/a.jsonl") as opened:
        whole = list(opened.records())
        for at, record in enumerate(whole):
            assert record.end is not None
            assert list(opened.records(record.end, record.number + 1)) == whole[at + 1 :]
    assert [(record.text, record.origin) for record in whole if record.is_message] == [
        ("hello", "untrusted"),
        ("one", "untrusted"),
        ("hello", "owner"),
        ("two", "agent"),
        ("last", "owner"),
    ]
