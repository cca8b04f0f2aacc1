"""OpenClaw's transcripts in JSONL: ``<session>.jsonl`` in one agent's folder.

A *reset* ends a conversation: OpenClaw goes on in another file, and keeps this one as ``<session>.jsonl.reset.<time>``.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial

from mdrecall.config.settings import Settings
from mdrecall.errors import PathOutside, ReadError
from mdrecall.sources.opening import stamp_of
from mdrecall.sources.transcripts.jsonl import (
    OpenJsonl,
    ParseLine,
    open_jsonl,
    parse_blocks,
    parse_object,
    read_blocks,
)
from mdrecall.sources.transcripts.openclaw_entries import KnownSessions, SessionFacts
from mdrecall.sources.transcripts.openclaw_events import (
    CHAT_WORDS,
    EventParser,
    Message,
    Turn,
    find_chat_type,
    is_user_event,
)
from mdrecall.types import Conversation, Issue, Listing, SourceName, Stamp, TranscriptRecord

_FOLDER = "sessions"
_PREFIX = "sessions/"
_ENDING = ".jsonl"
_RESET = ".jsonl.reset."
# A session id may be followed by a topic, and after a reset by its time.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%!~*'()-]{0,255}\.jsonl(\.reset\.[0-9TZ.:-]{1,40})?")
#: How much is read first, and at most, to find the message that began a turn: tools may write much in between.
_LOOK_BYTES, _TURN_BYTES = 1 << 12, 1 << 24
_USER = re.compile(rb'"role"\s*:\s*"user"')
#: The file in which the facts about transcripts are kept.
_KEPT = "mdrecall-session-keys.json"
#: The first messages of a transcript: whoever writes in a group is named in each of them.
_HEAD_BYTES = 1 << 14


class OpenClawJsonl:
    """The transcripts of one OpenClaw agent, and of no other agent."""

    name: SourceName = "sessions"

    def __init__(self, folder: str, kept: str = "") -> None:
        """``kept`` is the file in which the facts about transcripts are kept."""
        self.folder = folder
        self.known = KnownSessions(folder, kept)

    @classmethod
    def from_settings(cls, settings: Settings) -> "OpenClawJsonl":
        """Return the reader of the configured agent's transcripts."""
        return cls(settings.sessions_dir, os.path.join(settings.agent_folder, _KEPT))

    def scan(self) -> Listing:
        """List every transcript with its stamp. Links are reported and not followed."""
        stamps: dict[str, Stamp] = {}
        issues: list[Issue] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name):
                        _add_entry(entry, stamps, issues)
        except FileNotFoundError:
            return Listing({}, (), (), {}, (self.folder,))
        except OSError as error:
            problem = f"cannot be listed: {error.strerror}"
            return Listing({}, (Issue(self.folder, problem),), (_FOLDER,), {}, ())
        self.known.refresh()
        return Listing(stamps, tuple(issues), (), {_FOLDER: (self.folder, _FOLDER)}, (self.folder,))

    def owns(self, path: str) -> bool:
        """True if a path has the form of a transcript's."""
        return path.startswith(_PREFIX) and _NAME.fullmatch(path.removeprefix(_PREFIX)) is not None

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of a session. If only transcripts from before a reset are left, it is the latest of them."""
        inside = os.path.basename(session) if os.path.dirname(session) == self.folder else session
        for path in (inside, _PREFIX + inside, f"{_PREFIX}{inside}{_ENDING}"):
            if path in listing.stamps:
                return path
        archived = [path for path in listing.stamps if path.startswith(f"{_PREFIX}{inside}{_RESET}")]
        return max(archived, key=lambda path: (listing.stamps[path][1], path), default=None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return a transcript's session id, size, time of the last change, if a reset ended it, and whose it is."""
        name = path.removeprefix(_PREFIX)
        session, _, reset = name.partition(_ENDING)
        self.known.refresh()
        facts = self.known.facts
        names = (name, f"{session}{_ENDING}", session)
        key, chat_type, channel, parent = next((facts[each] for each in names if each in facts), SessionFacts())
        return Conversation(
            session,
            path,
            stamp[0],
            stamp[1] / 1e9,
            bool(reset),
            session_key=key,
            chat_type=chat_type,
            channel=channel,
            parent_key=parent,
        )

    def read_chat_type(self, path: str) -> str:
        """Return the kind of chat that the first messages of a transcript tell of; empty if they tell of none."""
        try:
            with self.open(path) as opened:
                head = b"".join(opened.blocks(0, _HEAD_BYTES))
                lines = head.split(b"\n") if any(word in head for word in CHAT_WORDS) else ()
                return next(filter(None, (find_chat_type(parse_object(line)) for line in lines)), "")
        except ReadError:
            return "unknown"

    def export_name(self, path: str) -> str:
        """Return the file name without ``.jsonl``; after a reset, the whole file name."""
        return path.removeprefix(_PREFIX).removesuffix(_ENDING)

    def path_of_export(self, name: str) -> str | None:
        """Return the path of the transcript with this export name."""
        path = f"{_PREFIX}{name}" if _RESET in name else f"{_PREFIX}{name}{_ENDING}"
        return path if self.owns(path) else None

    def size_of(self, session: str, file: str = "") -> int:
        """Return the size of a session's file, 0 if there is none."""
        try:
            return os.stat(os.path.join(self.folder, file or f"{session}{_ENDING}")).st_size
        except OSError:
            return 0

    def open(self, path: str, *, with_tools: bool = False) -> AbstractContextManager[OpenJsonl]:
        """Open a transcript by its path, ``sessions/<name>``."""
        if not self.owns(path):
            raise PathOutside(f"{path} is not a transcript of this agent.", path=path)
        parser_at = partial(_parser_at, with_tools=with_tools)
        return open_jsonl(self.folder, path.removeprefix(_PREFIX), parser_at, shown=path)

    def read_file(self, file: str) -> Iterator[TranscriptRecord]:
        """Yield the records of any JSONL file. What is not OpenClaw's has no messages."""
        with open(file, "rb") as opened:
            parser = EventParser()
            yield from parse_blocks(read_blocks(opened), lambda line: parser.parse(parse_object(line)))


def parse_message(line: bytes) -> Message | None:
    """Return what is said in a single line; None if nobody says anything. Its turn is not known."""
    return EventParser().parse(parse_object(line))


def _parser_at(file: OpenJsonl, start: int, *, with_tools: bool) -> ParseLine:
    parser = EventParser(lambda: _find_turn(file, start), with_tools=with_tools)
    return lambda line: parser.parse(parse_object(line))


def _find_turn(file: OpenJsonl, start: int) -> Turn:
    """Return the turn that is going on at an offset; nothing is known of one that began too long ago."""
    size = _LOOK_BYTES
    while start:
        begin = max(0, start - size)
        lines = b"".join(file.blocks(begin, start)).split(b"\n")
        for line in reversed(lines if begin == 0 else lines[1:]):
            if _USER.search(line) and is_user_event(event := parse_object(line)):
                parser = EventParser()
                parser.parse(event)
                return parser.turn
        if begin == 0 or size >= _TURN_BYTES:
            break
        size *= 8
    return Turn()


def fingerprint(messages: Sequence[TranscriptRecord]) -> str:
    """Return OpenClaw's hash of the messages of a transcript."""
    content = "\n".join(message.line for message in messages)
    numbers = ",".join(str(message.number) for message in messages)
    return hashlib.sha256(f"{content}\n{numbers}".encode("utf-8", "surrogatepass")).hexdigest()


def _add_entry(entry: "os.DirEntry[str]", stamps: dict[str, Stamp], issues: list[Issue]) -> None:
    path = _PREFIX + entry.name
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISREG(found.st_mode):
        stamps[path] = stamp_of(found)
    elif stat.S_ISLNK(found.st_mode):
        issues.append(Issue(path, "is a symbolic link, which is not followed"))
