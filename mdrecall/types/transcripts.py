"""Transcripts: records, conversations, steps of coding agents, and how far one has been indexed."""

from collections.abc import Callable
from typing import Literal, NamedTuple

#: Who speaks in text that a person has pasted.
PASTED = "Pasted"


class TranscriptRecord(NamedTuple):
    """One record of a transcript: a line of a JSONL file, a row of a table, a message of a JSON file."""

    number: int
    """Its number in the transcript, from 1. Citations name it."""
    end: int | None
    """The offset to read on from after it; None while it may still be incomplete."""
    size: int
    """About how many bytes it takes up."""
    speaker: str = ""
    """``User`` or ``Assistant``; empty if the record is not a message, such as a header or a tool call."""
    text: str = ""
    """The message on one line."""
    day: str = ""
    """The day of the message, such as ``2026-02-10``; empty if the record has no time."""
    origin: str = ""
    """Who it comes from: ``owner``, ``agent``, ``system`` or ``untrusted``; empty if the record is not a message."""
    own: str = ""
    """The person's own words in the message, if others are in it as well, such as a pasted log."""
    pasted: str = ""
    """The others."""
    problem: str = ""
    """Why the record was not read, such as ``has 40,000,000 bytes; …``; empty if it was."""

    @property
    def line(self) -> str:
        """The message as it is indexed and shown: ``User: …``."""
        return f"{self.speaker}: {self.text}"

    @property
    def is_message(self) -> bool:
        """True if a person or the agent speaks in the record."""
        return bool(self.speaker)

    def redact_text(self, redact: Callable[[str], str]) -> "TranscriptRecord":
        """Return the record with its text redacted."""
        return self._replace(text=redact(self.text)) if self.text else self


class Step(NamedTuple):
    """One thing that happened in a conversation with a coding agent."""

    kind: Literal["user", "assistant", "call", "result"]
    text: str = ""
    """What was said, without injected text; the shell command of a call; the end of a result's output."""
    files: tuple[str, ...] = ()
    """The files that a call writes."""
    call: str = ""
    """An id that joins a call and its result."""
    is_ok: bool | None = None
    """How a result ended, if the host says so."""


class HostRecord(NamedTuple):
    """One record of the transcript of a coding agent, with the steps in it: see ``TranscriptRecord``."""

    number: int
    end: int | None
    at: str = ""
    """When it was written, as ISO 8601; empty if it does not say."""
    steps: tuple[Step, ...] = ()
    size: int = 0
    problem: str = ""


class Conversation(NamedTuple):
    """One transcript."""

    session: str
    path: str
    bytes: int
    changed_s: float
    """When something was last added, in seconds since 1970."""
    archived: bool
    """True if the conversation was ended by a reset."""
    host: str = ""
    """The coding agent that keeps the transcript, such as ``claude-code``; empty if it is one of this agent's own."""
    folder: str = ""
    """The folder that the coding agent worked in."""
    branch: str = ""
    title: str = ""
    session_key: str = ""
    """The name that OpenClaw gives the conversation, such as ``agent:main:main``; empty if it is not known."""
    chat_type: str = ""
    """``direct``, ``group`` or ``channel``, if OpenClaw says so."""
    channel: str = ""
    """Where it takes place, such as ``telegram``."""
    parent_key: str = ""
    """The session key of the conversation that began it, for a sub-agent's."""
    participants: tuple[str, ...] = ()
    """Who has taken part, by the ids that OpenClaw has for them; empty if it does not say."""
    hook_source: str = ""
    """Which outside program a hook brought text from, such as ``gmail``; empty if OpenClaw does not say."""


class MessagePage(NamedTuple):
    """Some messages of a conversation, in their order."""

    conversation: Conversation
    messages: tuple[TranscriptRecord, ...]
    total: int
    """How many messages the conversation has."""
    after: int
    """How many messages come after these."""
    is_redacted: bool = False
    """True if a secret was masked in them."""


class Transcript(NamedTuple):
    """How far a transcript has been indexed: in closed parts, which no longer change, and a last part, which grows."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    until: int
    """The offset up to which every complete record has been read."""
    tail: int
    """The offset where the last part begins."""
    record: int
    """The number of the first record of the last part."""
    parts: int
    """How many parts are closed."""
    seal: bytes
    """A digest that changes if what precedes the last part is no longer the same."""
