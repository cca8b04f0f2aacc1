"""Every transcript format as one reader, the transcripts that a conversation may see, and what is read of them.

What people and agents read has no secrets in it. ``READERS`` is the table of formats.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, PathOutside, TranscriptRefused
from mdrecall.notes.tombstones import TombstoneFiles, open_tombstones
from mdrecall.sessions.host_conversations import HostTranscripts, is_host_path
from mdrecall.sessions.openclaw import OpenClawTranscripts, read_rules
from mdrecall.sessions.visibility import Party, Rules, explain_withheld, parse, read_party, why_hidden
from mdrecall.text.markdown import cut_units, utf16_units
from mdrecall.text.tombstones import Tombstones
from mdrecall.types.documents import Listing, SourceName, Stamp
from mdrecall.types.search import ReadResult, Visible
from mdrecall.types.transcripts import Conversation, MessagePage, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.interfaces import OpenTranscript, TranscriptReader

MakeReader: TypeAlias = "Callable[[Settings], TranscriptReader]"

#: One line for each format. If two readers own a path, the first one reads it.
READERS: tuple[MakeReader, ...] = (HostTranscripts.from_settings, OpenClawTranscripts.from_settings)
#: The same limit as for notes: what a model can read at once without filling its context.
MAX_READ_UNITS = 50_000


def open_transcripts(settings: Settings) -> "Transcripts":
    """Return the transcripts of every format."""
    return Transcripts([make(settings) for make in READERS], open_tombstones(settings))


class Transcripts:
    """The source ``sessions``: the transcripts of several readers as one reader."""

    name: SourceName = "sessions"

    def __init__(self, readers: Sequence["TranscriptReader"], forgotten: TombstoneFiles | None = None) -> None:
        """``forgotten`` says which conversations are left out, as if they were not there."""
        self._readers = tuple(readers)
        self._forgotten = forgotten

    def scan(self) -> Listing:
        """List the transcripts of every reader."""
        listings = [reader.scan() for reader in self._readers]
        stamps = {path: stamp for listing in reversed(listings) for path, stamp in listing.stamps.items()}
        forgotten = self._load_forgotten()
        if forgotten.has_sessions:
            stamps = {path: stamp for path, stamp in stamps.items() if not forgotten.is_forgotten_transcript(path)}
        return Listing(
            stamps,
            tuple(issue for listing in listings for issue in listing.issues),
            tuple(dict.fromkeys(lost for listing in listings for lost in listing.lost)),
            {folder: place for listing in reversed(listings) for folder, place in listing.places.items()},
            tuple(dict.fromkeys(folder for listing in listings for folder in listing.folders)),
            frozenset(path for listing in listings for path in listing.forgotten),
        )

    def _load_forgotten(self) -> Tombstones:
        return self._forgotten.load() if self._forgotten else Tombstones()

    def owns(self, path: str) -> bool:
        """True if a path is that of a transcript."""
        return any(reader.owns(path) for reader in self._readers)

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of the first reader that knows a session; None if none does."""
        return next((path for reader in self._readers if (path := reader.find(session, listing))), None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return what ``sessions list`` shows about a transcript."""
        return self._owner(path).describe(path, stamp)

    @contextmanager
    def open(self, path: str, *, with_tools: bool = False) -> Iterator["OpenTranscript"]:
        """Open a transcript by its path; what was forgotten of it is masked."""
        forgotten = self._load_forgotten()
        with self._owner(path).open(path, with_tools=with_tools) as opened:
            yield _UnforgottenTranscript(opened, path, forgotten) if forgotten.has_sessions else opened

    def _owner(self, path: str) -> "TranscriptReader":
        for reader in self._readers:
            if reader.owns(path):
                return reader
        raise PathOutside(f"{path} is not a transcript of this agent.", path=path)


class _UnforgottenTranscript:
    """A transcript without what was forgotten, while it is open."""

    def __init__(self, opened: "OpenTranscript", path: str, forgotten: Tombstones) -> None:
        self._opened, self._path, self._forgotten = opened, path, forgotten
        self.stamp, self.records_after, self.seal = opened.stamp, opened.records_after, opened.seal

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        """Yield every record from an offset on."""
        for record in self._opened.records(start, number):
            yield self._forgotten.mask_record(record, self._path)


def list_conversations(reader: "TranscriptReader") -> list[Conversation]:
    """Return every transcript, the last changed first."""
    found = [reader.describe(path, stamp) for path, stamp in reader.scan().stamps.items()]
    return sorted(found, key=lambda entry: (-entry.changed_s, entry.path))


def find_conversation(reader: "TranscriptReader", session: str) -> Conversation:
    """Return the transcript of a session given by its id, file name or path. Raise ``FileMissing`` if there is none."""
    listing = reader.scan()
    if path := reader.find(session, listing):
        return reader.describe(path, listing.stamps[path])
    raise _missing(session)


def _missing(session: str, which: str = "") -> FileMissing:
    hint = "Give the id, the file name or the path of a session from the list of sessions."
    return FileMissing(f"There is no transcript {session}{which}.", path=session, hint=hint)


def find_visible(settings: Settings, reader: "TranscriptReader", session_key: str, session: str = "") -> Visible:
    """Return what a conversation may see; with ``session``, a session key or id, only of that one."""
    found = list(_describe_all(reader, reader.scan()))
    visible, withheld = filter_visible(settings, found, session_key)
    chosen = visible if not session else [each for each in visible if is_named(each, session, session_key)]
    return Visible(frozenset(each.path for each in chosen), withheld)


def filter_visible(
    settings: Settings, conversations: Iterable[Conversation], session_key: str
) -> tuple[list[Conversation], str]:
    """Return the conversations that one may see, and a sentence if that is not all of them."""
    found = list(conversations)
    if not session_key.strip():
        return found, ""
    rules = read_rules(settings)
    asking = _read_requester(found, session_key, rules)
    visible = [each for each in found if not why_hidden(asking, _read_source(each, rules), rules)]
    return visible, explain_withheld(asking, rules) if len(visible) < len(found) else ""


def find_readable(
    settings: Settings, reader: "TranscriptReader", name: str, session_key: str = "", session_id: str = ""
) -> Conversation:
    """Return a conversation by its session key, id, file name or path; with ``session_id``, its transcript of that id.

    Of several transcripts of one conversation it is the one that changed last. Raise ``FileMissing`` if there is none.
    One that may not be seen is as missing as one that does not exist.
    """
    listing = reader.scan()
    path = reader.find(session_id or name, listing)
    if path and not session_key.strip() and not session_id:
        return reader.describe(path, listing.stamps[path])
    visible, _ = filter_visible(settings, _describe_all(reader, listing), session_key)
    named = [each for each in visible if is_named(each, name, session_key) or (each.path == path and not session_id)]
    named = [each for each in named if not session_id or each.path == path]
    if named:
        return max(named, key=lambda each: (not each.archived, each.changed_s))
    raise _missing(name, " that this conversation may see" if session_key.strip() else "")


def is_named(conversation: Conversation, name: str, session_key: str = "") -> bool:
    """True if a name means a conversation: its session key, ``current`` for one's own, its id, path or file name."""
    if name in (conversation.session, conversation.path, conversation.path.rpartition("/")[2]):
        return True
    wanted, own = parse(session_key if name == "current" else name), parse(conversation.session_key)
    return wanted.rest == own.rest != "" and wanted.agent in ("", own.agent)


def _describe_all(reader: "TranscriptReader", listing: Listing) -> Iterable[Conversation]:
    """Yield every transcript; one of a coding agent without its title, which would have to be read."""
    for path, stamp in listing.stamps.items():
        if is_host_path(path):
            host, _, session = path.removeprefix("sessions/").removesuffix(".jsonl").partition("/")
            yield Conversation(session, path, stamp[0], stamp[1] / 1e9, False, host)
        else:
            yield reader.describe(path, stamp)


def _read_requester(conversations: Iterable[Conversation], session_key: str, rules: Rules) -> Party:
    """Return the conversation that asks, with what its transcripts say about it; the strictest of them counts."""
    own = (each for each in conversations if each.chat_type and is_named(each, session_key))
    known = [read_party(session_key, rules.agent, chat_type=each.chat_type) for each in own]
    return max(known, key=lambda party: party.strictness, default=read_party(session_key, rules.agent))


def _read_source(conversation: Conversation, rules: Rules) -> Party:
    return read_party(
        conversation.session_key,
        rules.agent,
        chat_type=conversation.chat_type,
        parent_key=conversation.parent_key,
        is_owners=bool(conversation.host) or conversation.chat_type == "direct",
    )


def refuse_transcript(reader: "TranscriptReader", path: str) -> None:
    """Raise ``TranscriptRefused`` for the path of a transcript, which a reader of memory files may not see."""
    if reader.owns(path):
        name = path.strip()
        hint = "Read it as a session instead."
        raise TranscriptRefused(f"{name} is a transcript, not an allowed Markdown memory file.", path=name, hint=hint)


def read_transcript(
    reader: "TranscriptReader",
    session: str,
    redact: Callable[[str], str],
    *,
    from_line: int | None = None,
    lines: int | None = None,
    from_char: int = 0,
    max_chars: int = MAX_READ_UNITS,
) -> ReadResult:
    """Return the messages in a range of records, a line each, with the number of the record before it.

    ``from_char`` leaves out the first characters of the first record. What exceeds ``max_chars`` UTF-16 units is cut
    after a record, and a single record that is longer inside it.
    """
    path = find_conversation(reader, session).path
    first = max(1, from_line or 1)
    last = first + max(1, lines) - 1 if lines else None
    shown: list[str] = []
    total, following, cut = 0, None, None
    with reader.open(path) as transcript:
        for record in transcript.records():
            total = record.number
            is_in_range = first <= total and (last is None or total <= last)
            if following is not None or not is_in_range or not (record.is_message or record.problem):
                continue
            text = f"(This record {record.problem}.)" if record.problem else record.redact_text(redact).line
            skipped = max(0, from_char) if total == first else 0
            line = f"{total}  {text[skipped:]}"
            if shown and utf16_units(line) > max_chars:
                following = total
                continue
            shown.append(cut_units(line, max_chars))
            if len(shown[-1]) < len(line):
                # The record that was cut, and how many of its characters have been shown up to now.
                cut = total, skipped + len(shown[-1]) - len(f"{total}  ")
            max_chars -= utf16_units(line) + 1
    is_cut = following is not None or cut is not None
    if following is None and last is not None and last < total:
        following = last + 1
    begin, next_char = cut or (first, None)
    return ReadResult(path, "\n".join(shown), begin, len(shown), total, is_cut, following, next_char)


def read_messages(
    reader: "TranscriptReader",
    conversation: Conversation,
    redact: Callable[[str], str],
    *,
    limit: int,
    offset: int = 0,
    record: int | None = None,
    with_tools: bool = False,
) -> MessagePage:
    """Return the last messages of a transcript before ``offset`` others, or as many around a record.

    It is read twice, so that no other message is held in memory. Raise ``FileMissing`` if nobody speaks in the record.
    """
    total = at = 0
    with reader.open(conversation.path, with_tools=with_tools) as transcript:
        for total, each in enumerate((each for each in transcript.records() if each.is_message), 1):
            at = total if each.number == record else at
    if record is not None and not at:
        message = f"There is no message {record} in {conversation.path}."
        raise FileMissing(message, path=conversation.path, hint="Give the messageId of a search result.")
    # Around a record as many messages follow as precede it, as far as there are any.
    last = min(total, max(limit, at + limit // 2)) if record is not None else max(0, total - offset)
    with reader.open(conversation.path, with_tools=with_tools) as transcript:
        said = (each for each in transcript.records() if each.is_message)
        found = list(islice(said, max(0, last - limit), last))
    shown = tuple(each.redact_text(redact) for each in found)
    is_redacted = any(one.text != other.text for one, other in zip(shown, found, strict=True))
    return MessagePage(conversation, shown, total, total - last, is_redacted)


def last_messages(
    reader: "TranscriptReader", path: str, redact: Callable[[str], str], count: int
) -> list[TranscriptRecord]:
    """Return the last messages of a transcript without commands; only these are held in memory and redacted."""
    with reader.open(path) as transcript:
        said = (record for record in transcript.records() if record.is_message and not record.text.startswith("/"))
        last = deque(said, maxlen=count)
    return [record.redact_text(redact) for record in last]
