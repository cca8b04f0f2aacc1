"""Bring the index in line with an agent's transcripts: only what was appended is read, chunked and embedded.

A transcript is indexed in parts of a few chunks. All but the last are closed and no longer change; the last is indexed
again when the transcript grows. The closed parts are still valid if the transcript has only grown and its seal, a
digest of what precedes the last part, is the same. Otherwise the transcript is indexed from its beginning.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from mdrecall.config.settings import Chunking
from mdrecall.engine.indexer import FileChanges, FileState, SyncWork
from mdrecall.errors import BUGS, FileMissing, ReadError
from mdrecall.notes.repository import project_of
from mdrecall.notes.tombstones import TombstoneFiles
from mdrecall.text.annotations import least_trusted
from mdrecall.text.chunk import iter_chunks, title_text
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Chunk, Document, IndexedChunk, Issue, Listing, Marks, Stamp, part_path
from mdrecall.types.sync import FileChange, ProgressCallback, Stop, SyncReport, never
from mdrecall.types.transcripts import PASTED, Transcript, TranscriptRecord

if TYPE_CHECKING:
    from mdrecall.interfaces import DocumentWriter, OpenTranscript, TranscriptReader

#: A part is indexed as a whole when a transcript grows, so it is small; but each part is a document of the index.
_CHUNKS_PER_PART = 6
#: A token has about four characters; it decides only how long a part is.
_CHARS_PER_TOKEN = 4
#: A part ends after this many bytes, however few messages they hold: tools may write much between two messages, and
#: the last part is read again each time.
_PART_BYTES = 1 << 20
#: More of one message is not indexed: its chunks are in memory together, and nobody says that much at once.
_MESSAGE_CHARS = 1_000_000
#: A transaction is written after this many characters or parts, so that memory stays bounded and a stop loses little.
_WRITE_CHARS = 500_000
_WRITE_PARTS = 200
#: A transcript that has not changed for this long is indexed however little it has grown.
_IDLE_S = 600.0


class _Part(NamedTuple):
    start: int
    number: int
    messages: list[TranscriptRecord]


class TranscriptIndexer:
    """Writes the messages of transcripts into a store."""

    def __init__(
        self,
        documents: "DocumentWriter",
        source: "TranscriptReader",
        size: Chunking,
        analyser: Analyser,
        *,
        redact: Callable[[str], str],
        thresholds: tuple[int, int],
        index_format: str,
        forgotten: TombstoneFiles | None = None,
        issues: tuple[Issue, ...] = (),
    ) -> None:
        """``thresholds`` are the bytes and messages by which a transcript must grow before a search indexes it again.

        ``issues`` are reported with those of every scan.
        """
        self._documents = documents
        self.source = source
        self._size = size
        self._analyser = analyser
        self._redact = redact
        self._thresholds = thresholds
        self._part_chars = _CHUNKS_PER_PART * _CHARS_PER_TOKEN * size.tokens
        self._issues = issues
        self._forgotten = forgotten or TombstoneFiles("")
        self.index_format = index_format
        """What chunks and terms depend on besides the text."""

    def compare(self, *, everything: bool = False) -> FileChanges:
        """Compare the transcripts with the index; unless ``everything``, growth below the thresholds does not count."""
        listing = self.source.scan()
        known = self._documents.transcripts()
        stamps = listing.stamps
        changed = [path for path, stamp in stamps.items() if not _is_known(known.get(path), stamp)]
        due = [path for path in changed if everything or self._is_due(path, known.get(path), stamps[path])]
        due.sort(key=lambda path: (-stamps[path][1], path))
        vanished = [] if listing.lost else sorted(known.keys() - stamps.keys())
        done = {path: known[path].size for path in due if path in known and known[path].size <= stamps[path][0]}
        listing = listing._replace(issues=self._issues + listing.issues)
        return FileChanges(dict.fromkeys(known, ()), listing, due, vanished, done)

    def examine(self, path: str, listing: Listing) -> tuple[FileState, str]:
        """Return that a transcript has something to index if it can be read; what cannot be is reported then."""
        try:
            with self.source.open(path):
                return "changed", ""
        except ReadError:
            return "gone", ""

    def sync(
        self,
        *,
        changes: FileChanges | None = None,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        embed: Callable[[], object] | None = None,
    ) -> SyncReport:
        """Index what was added since the last time, and remove transcripts that no longer exist."""
        work = SyncWork(changes or self.compare(everything=True), progress)
        known = self._documents.transcripts()
        for path in work.plan.unsettled:
            if stop():
                break
            work.report_progress(path)
            try:
                if not self._index(path, known.get(path), stop, embed, work.issues):
                    break
                work.note([FileChange(path, "changed" if path in known else "added")])
            except FileMissing:
                pass
            except ReadError as error:
                work.failed.append(Issue(path, str(error)))
            except BUGS as error:
                problem = f"cannot be indexed, which is a bug: {type(error).__name__}: {error}"
                work.failed.append(Issue(path, problem))
            work.done += 1
        if work.done == len(work.plan.unsettled):
            self._remove_gone(work, known)
        work.report_progress("")
        return work.report()

    def _is_due(self, path: str, known: Transcript | None, stamp: Stamp) -> bool:
        """True if a transcript has grown by enough, has not changed for long, or is a different file."""
        grown = stamp[0] - (known.size if known else 0)
        most_bytes, most_messages = self._thresholds
        if grown < 0 or grown >= most_bytes or (known and known.inode != stamp[3]):
            return True
        if abs(time.time() - stamp[1] / 1e9) > _IDLE_S:
            return True
        if not most_messages:
            return False
        try:
            with self.source.open(path) as opened:
                return opened.records_after(known.until if known else 0) >= most_messages
        except ReadError:
            return True

    def _remove_gone(self, work: SyncWork, known: Mapping[str, Transcript]) -> None:
        """Remove transcripts that no longer exist from the index."""
        gone = [path for path in work.plan.vanished if path in known and self._is_gone(path)]
        if gone:
            self._documents.remove({"sessions": gone})
        # Until the bytes of a forgotten one are erased, an empty one stands for it: every run knows what is left to do.
        for path in gone:
            if path in work.plan.listing.forgotten:
                self._documents.put((), self.index_format, self._documents.state()[1], state=_make_empty(path))
        work.note(FileChange(path, "removed") for path in gone)

    def _is_gone(self, path: str) -> bool:
        """True if a transcript no longer exists, or no reader knows its format any more."""
        if not self.source.owns(path):
            return True
        try:
            with self.source.open(path):
                return False
        except FileMissing:
            return True
        except ReadError:
            return False

    def _index(
        self, path: str, known: Transcript | None, stop: Stop, embed: Callable[[], object] | None, issues: list[Issue]
    ) -> bool:
        """Index a transcript from its last part on, or from its beginning if it has been rewritten.

        Return False if ``stop`` ended it early. What was indexed by then is kept. ``issues`` gets what was left out.
        """
        # What was forgotten by now is masked in all that is read from here on.
        masks = self._forgotten.load().fingerprint
        with self.source.open(path) as opened:
            if known is None or not _has_only_grown(opened, known):
                known = _make_empty(path)
            size, mtime_ns, _, inode = opened.stamp
            keep = known.parts
            made: list[tuple[Document, list[IndexedChunk]]] = []
            chars = 0

            def write() -> None:
                self._documents.put(made, self.index_format, masks, state=state, keep=keep)
                if embed:
                    embed()

            for number, (part, end, is_last) in enumerate(self._parts(opened, known, issues), known.parts):
                made.append(self._document(path, part, number, opened.stamp))
                chars += sum(len(message.line) for message in part.messages)
                # The last part is indexed again the next time: after that one alone, no progress would be kept.
                is_stopped = len(made) > 1 and stop()
                if is_last or is_stopped or chars >= _WRITE_CHARS or len(made) >= _WRITE_PARTS:
                    indexed, seal = size if is_last else end, opened.seal(part.start)
                    state = Transcript(path, indexed, mtime_ns, inode, end, part.start, part.number, number, seal)
                    self._documents.commit(write)
                    keep, made, chars = number + 1, [], 0
                    if is_stopped and not is_last:
                        return False
        return True

    def _parts(
        self, opened: "OpenTranscript", known: Transcript, issues: list[Issue]
    ) -> Iterator[tuple[_Part, int, bool]]:
        """Yield the parts from the last known one on, with the offset where each ends and True for the last."""
        part = _Part(known.tail, known.record, [])
        chars, size, end = 0, 0, known.tail
        for record in opened.records(known.tail, known.record):
            is_full = chars >= self._part_chars or size >= _PART_BYTES
            if is_full and record.end is not None:
                yield part, end, False
                part, chars, size = _Part(end, record.number, []), 0, 0
            if record.problem:
                issues.append(Issue(known.path, f"record {record.number} {record.problem}"))
            for one in self._split(record) if record.is_message else ():
                message = _cut_message(one.redact_text(self._redact), known.path, issues)
                part.messages.append(message)
                chars += len(message.line) + 1
            if record.end is not None:
                end, size = record.end, size + record.size
        yield part, end, True

    def _split(self, record: TranscriptRecord) -> Iterator[TranscriptRecord]:
        """Yield a message as it is indexed: what the person has pasted is not theirs."""
        if record.own or not record.pasted:
            yield record._replace(text=record.own) if record.pasted else record
        if record.pasted:
            yield record._replace(speaker=PASTED, text=record.pasted, origin="untrusted")

    def _document(self, path: str, part: _Part, number: int, stamp: Stamp) -> tuple[Document, list[IndexedChunk]]:
        import hashlib

        text = "\n".join(message.line for message in part.messages)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        said_ns = next((at for message in reversed(part.messages) if (at := _noon_ns(message.day))), stamp[1])
        # A stored part does not depend on when it was indexed, so that it stays the same while the transcript grows.
        stamp = (len(text), said_ns, *stamp[2:])
        document = Document("sessions", part_path(path, number), "", digest, stamp, time.time_ns())
        about = self.source.describe(path, stamp)
        # Only conversations of a coding agent are about a project.
        project = project_of(about.folder) if about.host else ""
        return document, list(self._chunks(text, part.messages, project))

    def _chunks(self, text: str, messages: list[TranscriptRecord], project: str) -> Iterator[IndexedChunk]:
        for chunk in iter_chunks(text, tokens=self._size.tokens, overlap=self._size.overlap):
            own = messages[chunk.start_line - 1 : chunk.end_line]
            records = tuple(message.number for message in own)
            day = next((message.day for message in own if message.day), "")
            trail = (f"# {day}",) if day else ()
            speaker = "" if chunk.text.startswith(f"{own[0].speaker}: ") else own[0].speaker
            origin = least_trusted(message.origin for message in own)
            marks = Marks(origin=origin, project=project, speaker=speaker)
            cited = Chunk(records[0], records[-1], chunk.text, chunk.overlap, trail, records, marks)
            words, names = self._analyser.indexable(chunk.text)
            title_words, title_names = self._analyser.indexable(title_text(day)) if day else ("", "")
            yield IndexedChunk(cited, words, f"{names} {title_names}".strip(), title_words)


def _cut_message(message: TranscriptRecord, path: str, issues: list[Issue]) -> TranscriptRecord:
    """Return as much of a message as is indexed, and add an issue if that is not all of it."""
    if len(message.text) <= _MESSAGE_CHARS:
        return message
    problem = f"record {message.number} has {len(message.text):,} characters; the first {_MESSAGE_CHARS:,} are searched"
    issues.append(Issue(path, problem))
    return message._replace(text=message.text[:_MESSAGE_CHARS])


def _make_empty(path: str) -> Transcript:
    """Return the state of a transcript of which nothing is indexed."""
    return Transcript(path, 0, 0, 0, 0, 0, 1, 0, b"")


def _is_known(known: Transcript | None, stamp: Stamp) -> bool:
    return known is not None and (known.size, known.mtime_ns, known.inode) == (stamp[0], stamp[1], stamp[3])


def _has_only_grown(opened: "OpenTranscript", known: Transcript) -> bool:
    """True if a transcript has grown since it was indexed and, as far as its seal tells, is otherwise the same."""
    size, _, _, inode = opened.stamp
    return inode == known.inode and size > known.size and opened.seal(known.tail) == known.seal


def _noon_ns(day: str) -> int:
    """Return noon of a day in UTC, in nanoseconds since 1970; 0 if it is not a day."""
    try:
        return int(datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp() * 1e9) if day else 0
    except (ValueError, OverflowError):
        return 0
