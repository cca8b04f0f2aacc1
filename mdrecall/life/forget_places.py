"""The places that may hold what is to be forgotten: notes, transcripts, and the files that mdrecall keeps itself."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from glob import escape, glob
from typing import Any, NamedTuple, Protocol, TypeAlias

from mdrecall.config.environment import relative_path
from mdrecall.config.settings import Settings
from mdrecall.engine.conversations import open_files
from mdrecall.errors import FileChanged, ReadError
from mdrecall.life.curate import list_trash_files, original_path, remove_empty_folders
from mdrecall.life.journal import RemovedText, journal_folder
from mdrecall.notes.editing import LineEdit, edit_content, hash_content, remove_leftovers, remove_note, replace_lines
from mdrecall.notes.opening import decode, read_below, stamp_of
from mdrecall.patterns import host_of
from mdrecall.sessions.host_conversations import CACHE_FILE, HostState, copy_name
from mdrecall.state_files import draft
from mdrecall.store.sqlite import list_places
from mdrecall.text.tombstones import FORGOTTEN, Span, Tombstones, cut_line, mask_spans
from mdrecall.types.documents import Listing, format_citation
from mdrecall.types.transcripts import Conversation, TranscriptRecord

#: How much of a place is shown: enough to recognise it.
_MAX_SHOWN_CHARS = 160
#: How often a note that changes meanwhile is read again. If it changes more often, it is kept.
_TRIES = 5


class Place(NamedTuple):
    """A place that holds what is to be forgotten, and what will happen there."""

    kind: str
    """``note``, ``deletion`` (a deleted note), ``host`` (a file that a coding agent keeps), ``transcript``, ``copy``,
    ``state``, or ``memory`` (long-term)."""
    path: str
    start_line: int
    end_line: int
    action: str
    text: str = ""
    warning: str = ""
    """What is not cleared, and where it is."""

    @property
    def citation(self) -> str:
        """``path#L3`` or ``path#L3-L9``; the path alone if it has no lines."""
        return format_citation(self.path, self.start_line or None, self.end_line)


class OtherPlaces(Protocol):
    """Places that lie above this layer, such as a database of long-term memories."""

    @property
    def name(self) -> str:
        """The place as people know it."""

    def find(self, forgotten: Tombstones) -> list[Place]:
        """Return what is to be forgotten there."""

    def clear(self, forgotten: Tombstones) -> None:
        """Remove it, so that no byte of it is left."""


class NoteChange(NamedTuple):
    """What forgetting does to one note."""

    before: str
    """The hash of the content that the edits are for."""
    edits: tuple[LineEdit, ...]
    places: tuple[Place, ...]
    removed: RemovedText
    removes_file: bool


#: A note, or a deleted one: its kind, its path as it is shown, where it is or was, the folder, and the path inside.
_NoteFile: TypeAlias = tuple[str, str, str, str, str]


class Notes:
    """The notes of a workspace, and the deleted ones."""

    def __init__(self, settings: Settings, home: str) -> None:
        self.files = open_files(settings, home)
        self._workspace = settings.workspace
        self._max_bytes = settings.mdrecall.max_file_bytes

    def scan(self) -> Listing:
        """List the notes, and those about single persons, which are not searched but shown to sessions."""
        listing = self.files.scan()
        stamps, places = dict(listing.stamps), dict(listing.places)
        for file in glob(os.path.join(escape(self._workspace), "users", "*", "USER.md")):
            path = relative_path(file, self._workspace)
            with suppress(OSError):
                stamps.setdefault(path, stamp_of(os.lstat(file)))
                places.setdefault(os.path.dirname(path), (self._workspace, ""))
        return listing._replace(stamps=stamps, places=places)

    def deleted_texts(self) -> dict[str, str]:
        """Return the text of every deleted note, by the path where it was."""
        texts: dict[str, str] = {}
        for _, shown, path, root, inside in self._list_deleted():
            with suppress(ReadError):
                data = read_below(root, inside, shown=shown, max_bytes=self._max_bytes)
                texts[path] = "\n".join(filter(None, (texts.get(path), decode(data))))
        return texts

    def find(self, forgotten: Tombstones) -> Iterator[NoteChange]:
        """Yield what forgetting does to each note that holds something of it; a note that cannot be read is left."""
        if not (forgotten.has_phrases or forgotten.has_paths):
            return
        for note in self._list(self.scan()):
            with suppress(ReadError):
                if change := self._change(note, forgotten):
                    yield change

    def clear(self, forgotten: Tombstones) -> None:
        """Remove or mask what is to be forgotten. Raise a ``WriteError`` if a note cannot be written."""
        listing = self.scan()
        notes = [note for note in self._list(listing) if note[0] != "host"]
        for note in notes:
            self._clear_note(note, forgotten)
        folders = {os.path.dirname(os.path.join(root, inside)) for _, _, _, root, inside in notes}
        for folder in folders.union(listing.folders):
            remove_leftovers(folder)

    def _list(self, listing: Listing) -> Iterator[_NoteFile]:
        """Yield every note, and every deleted one."""
        for path in sorted(listing.stamps):
            root, inside = listing.locate(path)
            yield "host" if host_of(path) else "note", path, path, root, inside
        yield from self._list_deleted()

    def _list_deleted(self) -> Iterator[_NoteFile]:
        for inside in list_trash_files(self._workspace):
            yield "deletion", inside, original_path(inside), self._workspace, inside

    def _clear_note(self, note: _NoteFile, forgotten: Tombstones) -> None:
        kind, _, _, root, inside = note
        for left in reversed(range(_TRIES)):
            try:
                change = self._change(note, forgotten)
            except ReadError:
                return
            try:
                if change and change.removes_file:
                    remove_note(root, inside, change.before)
                    if kind == "deletion":
                        remove_empty_folders(self._workspace, inside)
                elif change:
                    replace_lines(root, inside, change.edits, change.before)
                return
            except FileChanged:
                if not left:
                    raise

    def _change(self, note: _NoteFile, forgotten: Tombstones) -> NoteChange | None:
        kind, shown, path, root, inside = note
        data = read_below(root, inside, shown=shown, max_bytes=self._max_bytes)
        text = self.files.clean(path, root, inside, decode(data))[0]
        spans = forgotten.find_spans(text, path)
        is_masked = any(entry.is_masked for entry in forgotten.entries)
        edits = make_edits(text, spans, is_masked=is_masked)
        if not edits:
            return None
        content = edit_content(data, edits)
        removes_file = forgotten.is_forgotten_path(path) and not decode(content).strip()
        action = "delete the note" if removes_file else "mask" if is_masked else "remove"
        warning = f"{host_of(path)} itself keeps it: {os.path.join(root, inside)}" if kind == "host" else ""
        action = "leave out of the index" if warning else action
        removed = RemovedText(root, inside, "", (), data)
        if not removes_file:
            removed = RemovedText(root, inside, hash_content(content), reverse_edits(text, edits))
        places: list[Place] = []
        for start, end in spans:
            if said := text[start:end]:
                first = text.count("\n", 0, start) + 1
                places.append(Place(kind, shown, first, first + said.count("\n"), action, _shorten(said), warning))
        return NoteChange(hash_content(data), edits, tuple(places), removed, removes_file)


def sweep_note(path: str, data: bytes, forgotten: Tombstones) -> bytes | None:
    """Return the content of a note without what was forgotten; None if the note itself was, and nothing is left."""
    text, is_masked = decode(data), any(entry.is_masked for entry in forgotten.entries)
    edits = make_edits(text, spans, is_masked=is_masked) if (spans := forgotten.find_spans(text, path)) else ()
    content = edit_content(data, edits) if edits else data
    return None if edits and forgotten.is_forgotten_path(path) and not decode(content).strip() else content


def make_edits(text: str, spans: Sequence[Span], *, is_masked: bool) -> tuple[LineEdit, ...]:
    """Return the edits of lines that remove or mask spans of a text; a line of which nothing is left goes."""
    after = mask_spans(text, spans, FORGOTTEN if is_masked else "").split("\n")
    edits = []
    for number, (old, new) in enumerate(zip(text.split("\n"), after, strict=True), 1):
        if old != new:
            left = new.rstrip("\r") if is_masked else cut_line(new.rstrip("\r"))
            edits.append(LineEdit(number, number, () if left is None else (left,)))
    return tuple(edits)


def reverse_edits(text: str, edits: Sequence[LineEdit]) -> tuple[LineEdit, ...]:
    """Return the edits that undo edits of single lines."""
    lines = text.split("\n")
    back: list[LineEdit] = []
    gone = 0
    for edit in edits:
        old, at = lines[edit.first - 1].rstrip("\r"), edit.first - gone
        if edit.lines:
            back.append(LineEdit(at, at, (old,)))
        elif back and back[-1].first == at and back[-1].last == at - 1:
            back[-1] = back[-1]._replace(lines=(*back[-1].lines, old))
        else:
            back.append(LineEdit(at, at - 1, (old,)))
        gone += not edit.lines
    return tuple(back)


def find_in_transcript(
    conversation: Conversation,
    records: Iterator[TranscriptRecord],
    forgotten: Tombstones,
    known: Tombstones,
    kept_at: str,
) -> Iterator[Place]:
    """Yield the records of a transcript that hold what is to be forgotten, and was not forgotten before."""
    action, warning = "leave out of the index", f"the transcript itself keeps it: {kept_at}" if kept_at else ""
    for record in (known.mask_record(each, conversation.path) for each in records):
        is_forgotten = record.text not in ("", FORGOTTEN) and (
            forgotten.is_forgotten_transcript(conversation.path, record.day) or forgotten.find_spans(record.text)
        )
        if is_forgotten:
            text = _shorten(record.text)
            yield Place("transcript", conversation.path, record.number, record.number, action, text, warning)


class StateFiles:
    """The files of mdrecall that may hold text besides the index: copies of conversations, titles, unsaved digests."""

    def __init__(self, settings: Settings, more: Sequence[str] = ()) -> None:
        """``more`` lists other files to look through, such as logs."""
        self._agents = list_places(settings)
        self._states = [os.path.normpath(os.path.join(agent, "../../mdrecall-hosts")) for agent in self._agents]
        self._trash = [*map(journal_folder, {settings.index_path}.union(*self._agents.values()))]
        self._more = tuple(more)

    def find(self, forgotten: Tombstones) -> Iterator[Place]:
        """Yield the files that hold what is to be forgotten."""
        for kind, file, transcript in self._list(forgotten):
            if transcript and forgotten.is_forgotten_transcript(transcript):
                yield Place(kind, file, 0, 0, "delete the copy")
            elif any(old != new for old, new in _mask_lines(file, transcript, forgotten)):
                yield Place(kind, file, 0, 0, "mask")

    def clear(self, forgotten: Tombstones) -> None:
        """Mask or delete what is to be forgotten; raise ``OSError`` if that fails."""
        for _, file, transcript in list(self._list(forgotten)):
            if transcript and forgotten.is_forgotten_transcript(transcript):
                os.unlink(file)
            else:
                _rewrite(file, transcript, forgotten)
        # Only a cache, and some of its titles may be of conversations that are forgotten.
        leftovers = [os.path.join(agent, CACHE_FILE) for agent in self._agents]
        leftovers += [file for state in self._states for file in glob(os.path.join(escape(state), ".*.tmp"))]
        for file in leftovers:
            with suppress(FileNotFoundError):
                os.unlink(file)

    def _list(self, forgotten: Tombstones) -> Iterator[tuple[str, str, str]]:
        """Yield kind and path of each file, and the path of the transcript that it is a copy of.

        What is in the trash stays there, if these runs of forgetting use it.
        """
        for hosts in map(HostState, self._agents):
            for host, session, _ in hosts.list_copies():
                inside = copy_name(host, session)
                yield "copy", os.path.join(hosts.copies, inside), f"sessions/{inside}"
        found = [*(os.path.join(agent, CACHE_FILE) for agent in self._agents), *self._more]
        folders = [folder for state in map(escape, self._states) for folder in (state, os.path.join(state, "*"))]
        if not any(entry.keeps_trash for entry in forgotten.entries):
            folders += map(escape, self._trash)
        for folder in folders:
            found += glob(os.path.join(folder, "*"))
        for file in dict.fromkeys(found):
            if os.path.isfile(file) and not os.path.islink(file):
                yield "state", file, ""


def _mask_lines(file: str, transcript: str, forgotten: Tombstones) -> Iterator[tuple[bytes, bytes]]:
    """Yield each line of a file as it is, and without what is to be forgotten."""
    with suppress(FileNotFoundError), open(file, "rb") as opened:
        for line in opened:
            yield line, _mask_line(line, transcript, forgotten)


def _mask_line(line: bytes, transcript: str, forgotten: Tombstones) -> bytes:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        text = line.decode("utf-8", "surrogateescape")
        return forgotten.mask(text).encode("utf-8", "surrogateescape")
    day = str(content.get("timestamp", ""))[:10] if transcript and isinstance(content, dict) else ""
    hides_all = bool(day) and forgotten.is_forgotten_transcript(transcript, day)
    masked = _mask_values(content, (lambda text: FORGOTTEN) if hides_all else forgotten.mask)
    if isinstance(content, dict) and _is_about_forgotten(content, forgotten):
        # Whatever else was said in the session is read again from its transcript.
        masked |= {"outline": {}, "section": "", "number": 0, "offset": 0, "seen": ""}
    if masked == content:
        return line
    return json.dumps(masked, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def _is_about_forgotten(state: dict[str, Any], forgotten: Tombstones) -> bool:
    """True if what a session's file keeps for its section is about a session or a day that was forgotten."""
    outline, days = state.get("outline"), [""]
    if not isinstance(outline, dict):
        return False
    with suppress(ValueError):
        first, last = (date.fromisoformat(str(outline.get(key))[:10]).toordinal() for key in ("start", "at"))
        days += [date.fromordinal(day).isoformat() for day in range(first, last + 1)]
    transcript = f"sessions/{copy_name(str(state.get('host')), str(state.get('session')))}"
    return any(forgotten.is_forgotten_transcript(transcript, day) for day in days)


def _mask_values(value: Any, mask: Callable[[str], str], key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in ("type", "role", "timestamp") else mask(value)
    if isinstance(value, list):
        return [_mask_values(each, mask) for each in value]
    if isinstance(value, dict):
        return {name: _mask_values(each, mask, name) for name, each in value.items()}
    return value


def _rewrite(file: str, transcript: str, forgotten: Tombstones) -> None:
    """Mask a file; it keeps its time, which says when a conversation went on last."""
    if not any(old != new for old, new in _mask_lines(file, transcript, forgotten)):
        return
    found = os.stat(file)
    with draft(file, is_durable=True) as (target, publish):
        for _, new in _mask_lines(file, transcript, forgotten):
            target.write(new)
        publish()
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN_CHARS else line[: _MAX_SHOWN_CHARS - 1] + "…"
