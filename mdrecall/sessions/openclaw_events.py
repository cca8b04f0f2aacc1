"""What is said in the events of an OpenClaw conversation, and who it comes from.

An event is a line of a JSONL transcript or a row of OpenClaw's database. OpenClaw puts text of its own into messages,
and whole turns of its own into conversations. Neither is what somebody said, and OpenClaw does not index it either.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.sessions.jsonl import AGENT, OWNER, SYSTEM, UNTRUSTED, as_object, day_of, one_line
from mdrecall.sessions.messages import is_silent

_SPEAKERS = {"user": "User", "assistant": "Assistant"}
_SPEAKERS_AND_TOOLS = {**_SPEAKERS, "toolResult": "Tool", "bashExecution": "Tool"}
_TEXT_BLOCKS = ("text", "input_text", "output_text")
_CALL_BLOCKS = ("toolCall", "tool_use", "toolUse")
#: The tools whose turns repeat notes, or are about nothing.
_RECALLS = ("memory_search", "memory_get")
_HEARTBEAT = "heartbeat"
#: The agent's answer to a heartbeat that found nothing.
_NOTHING_TO_REPORT = "HEARTBEAT_OK"
#: How a message of the user begins that OpenClaw wrote itself: an event, the prompt of a timed job or a heartbeat.
_GENERATED = compile_later(
    r"System(?: \(untrusted\))?: \[[^\]]+\]|\[cron:[^\]]+\]"
    r"|\[OpenClaw (?:heartbeat poll|exec completion|cron wake|session event)\]"
    r"|Read HEARTBEAT\.md if it exists|Follow the heartbeat monitor scratch context when provided\."
)
#: The moment that OpenClaw writes before a message, such as ``[Sat 2026-05-02 08:00 UTC]``.
_MOMENT = compile_later(r"\s*\[[A-Za-z]{3} \d{4}-\d{2}-\d{2} \d{2}:\d{2}[^\]]*\][ ]*")
#: Ends a line above facts about the sender or the chat, which OpenClaw adds to what arrives on a channel.
_FACTS = "⟦openclaw:ctx⟧"
#: The same above what was said before in a channel; it goes on to the end of the message.
_EARLIER = f"Context: {_FACTS}"
#: How an older OpenClaw begins a message from a group or channel; what a newer one writes about such a chat.
_OF_GROUP = compile_later(
    r"\A\s*\[[^\]\n]{0,300}?(?: id:-\d|@g\.us| channel id:| #\w| topic:\d| id:[\w+/]{20,}=)[^\]\n]*\]"
    r'|"is_group_chat"\s*:\s*true|"group_(?:subject|channel|space|members)"\s*:'
)
#: How a message begins with which OpenClaw gives a task to a timed job, a sub-agent or a hook.
_TASK = compile_later(r"\s*(?:\[cron:|\[Subagent |SECURITY NOTICE: The following content is from an EXTERNAL)")
#: A transcript without any of these has nothing that the two above find, and need not be parsed for it.
CHAT_WORDS = (
    *(b" id:", b"@g.us", b" #", b" topic:", b"is_group_chat", b"group_"),
    *(b"[cron:", b"[Subagent ", b"SECURITY NOTICE"),
)
#: What OpenClaw writes about a chat stands at the beginning of a message.
_ENVELOPE_CHARS = 4_000
_DELIVERY_HINT = compile_later(r"Delivery: .*`message` tool")
_RECALLED = compile_later(
    r"^[ \t]*Context:[ \t]*\n[ \t]*<active_memory_plugin>.*?^[ \t]*</active_memory_plugin>[ \t]*$", re.M | re.S
)
_INTERNAL_BEGIN, _INTERNAL_END = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
_INTERNAL = compile_later(f"{_INTERNAL_BEGIN}.*?(?:{_INTERNAL_END}|\\Z)", re.S)


#: What somebody says, as a ``TranscriptRecord`` holds it: the speaker, the text on one line, the day and the origin.
Message: TypeAlias = tuple[str, str, str, str]


class Turn(NamedTuple):
    """What is known of a message of the user and of the answers to it."""

    origin: str = UNTRUSTED
    is_left_out: bool = False
    """True if it is a heartbeat, or repeats what memory has found."""


class EventParser:
    """Parses the events of one conversation in their order."""

    def __init__(self, find_turn: Callable[[], Turn] = Turn, *, with_tools: bool = False) -> None:
        """``find_turn`` returns the turn that was going on before the first event; it is asked only if it matters.

        ``with_tools`` also takes calls of tools and their results for messages.
        """
        self._find_turn = find_turn
        self._with_tools = with_tools
        self._turn: Turn | None = None

    @property
    def turn(self) -> Turn:
        """The turn that is going on."""
        if self._turn is None:
            self._turn = self._find_turn()
        return self._turn

    def parse(self, event: dict[str, Any]) -> Message | None:
        """Return what is said in an event; None if nobody says anything.

        Headers, thoughts, summaries of compactions and branches are never messages.
        """
        message = event.get("message") if event.get("type") == "message" else None
        role = message.get("role") if isinstance(message, dict) else None
        speakers = _SPEAKERS_AND_TOOLS if self._with_tools else _SPEAKERS
        speaker = speakers.get(role) if isinstance(role, str) else None
        if not isinstance(message, dict) or not speaker:
            return None
        if role == "user":
            self._turn = begin_turn(message)
        # Another session of an agent may write in the name of the user.
        is_foreign = role == "user" and as_object(message.get("provenance")).get("kind") == "inter_session"
        text = "" if self.turn.is_left_out or is_foreign else _text_of(message)
        if self._with_tools and role == "assistant" and not self.turn.is_left_out:
            text = " ".join(filter(None, (text, *_list_calls(message.get("content")))))
        if not text:
            return None
        return speaker, text, day_of(event.get("timestamp")), _origin_of(message, self.turn)


def _list_calls(content: Any) -> Iterator[str]:
    """Yield the calls of tools in the content of a message."""
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in _CALL_BLOCKS:
            arguments = block.get("arguments", block.get("input"))
            yield one_line(f"[call of {block.get('name')}: {json.dumps(arguments, ensure_ascii=False)}]")


def find_chat_type(event: dict[str, Any]) -> str:
    """Return ``group`` if a message tells of one, ``unknown`` if a program gives a task in it, else nothing."""
    if not is_user_event(event):
        return ""
    text = _strip_moment(_join_blocks(as_object(event.get("message")).get("content"))[:_ENVELOPE_CHARS])
    if _OF_GROUP.search(text):
        return "group"
    return "unknown" if _TASK.match(text) else ""


def is_user_event(event: dict[str, Any]) -> bool:
    """True if an event is a message of the user, with which a turn begins."""
    return event.get("type") == "message" and as_object(event.get("message")).get("role") == "user"


def begin_turn(message: dict[str, Any]) -> Turn:
    """Return the turn that begins with a message of the user."""
    provenance = as_object(message.get("provenance"))
    if provenance.get("kind") == "internal_system":
        return Turn(SYSTEM, provenance.get("sourceTool") in (_HEARTBEAT, *_RECALLS))
    return Turn(OWNER if as_object(message.get("__openclaw")).get("senderIsOwner") is True else UNTRUSTED)


def _origin_of(message: dict[str, Any], turn: Turn) -> str:
    if message.get("role") == "user":
        return turn.origin
    if as_object(message.get("__openclaw")).get("turnTainted") is True:
        return UNTRUSTED
    return AGENT if turn.origin == OWNER else turn.origin


def _text_of(message: dict[str, Any]) -> str:
    """Return what a message says on one line; empty if that is nothing, or OpenClaw wrote it."""
    is_user = message.get("role") == "user"
    text = strip_added(_join_blocks(message.get("content")), is_user=is_user)
    text = one_line(text)
    is_generated = _GENERATED.match(text) if is_user else text == _NOTHING_TO_REPORT
    return "" if is_generated or is_silent(text) else text


def _join_blocks(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") in _TEXT_BLOCKS]
    return "\n".join(text for text in texts if isinstance(text, str))


def strip_added(text: str, *, is_user: bool) -> str:
    """Return a message without what OpenClaw added to it: facts about the chat, recalled notes, internal context."""
    if _INTERNAL_BEGIN in text:
        text = _INTERNAL.sub("\n", text)
    if not is_user:
        return text
    text = _strip_moment(text)
    if "<active_memory_plugin>" in text:
        text = _RECALLED.sub("", text)
    if _FACTS not in text and "`message` tool" not in text:
        return text
    return _strip_moment(_strip_facts(text))


def _strip_moment(text: str) -> str:
    found = _MOMENT.match(text)
    return text[found.end() :] if found else text


def _strip_facts(text: str) -> str:
    """Return a text without the blocks below a marked line: a fence, or what precedes the next empty line."""
    kept: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        shown = line.strip()
        if shown == _EARLIER:
            break
        if shown.endswith(_FACTS):
            is_fenced = (first := next(lines, "").strip()) == "```json"
            while first and (following := next(lines, None)) is not None:
                if following.strip() == ("```" if is_fenced else ""):
                    break
        elif not _DELIVERY_HINT.match(shown):
            kept.append(line)
    return "\n".join(kept).strip("\n")
