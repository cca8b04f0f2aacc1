"""Bring the index in line with an agent's transcripts: only what was appended is read, cut and embedded.

A transcript is indexed in parts of a few chunks. All but the last are closed and stay as they are; the last is made
again when the file grows. What proves that the closed parts are still those of the file is that it has only grown, and
a seal over its beginning and the bytes before the last part; any other file is indexed anew.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from mdrecall.core.conversation.transcript import Spoken, spoken
from mdrecall.core.text.chunk import chunk_markdown
from mdrecall.core.text.title import title_text
from mdrecall.core.text.words import Analyser
from mdrecall.engine.indexer import ChunkSize, FileChanges
from mdrecall.errors import FileMissing, ReadError
from mdrecall.interfaces import OpenedTranscript, Store, TranscriptSource
from mdrecall.types import (
    Chunk,
    Document,
    FileChange,
    IndexedChunk,
    Issue,
    Progress,
    ProgressCallback,
    Stamp,
    Stop,
    SyncReport,
    Transcript,
    never,
)
from mdrecall.types.parts import part_path

_CHUNKS_A_PART = 6
_UNITS_A_TOKEN = 4
# A part ends after so many bytes of the file, however little is said in them: tools may write much between two words.
_PART_BYTES = 1 << 20
_CHARS_AT_ONCE = 500_000
_PARTS_AT_ONCE = 200
_SEALED_BYTES = 4096
_MOST_NAMED = 100


class Patience(NamedTuple):
    """When a conversation that goes on is worth indexing."""

    bytes: int
    messages: int
    idle_s: float = 600.0
    """One that nothing was added to for so long is indexed whatever it has grown by."""


class _Part(NamedTuple):
    start: int
    record: int
    lines: list[Spoken]


class TranscriptIndexer:
    """Writes what the transcripts say into a store."""

    def __init__(
        self,
        store: Store,
        source: TranscriptSource,
        size: ChunkSize,
        analyser: Analyser,
        *,
        redact: Callable[[str], str],
        patience: Patience,
        index_format: str,
        issues: tuple[Issue, ...] = (),
    ) -> None:
        """``issues`` are told with those of every look."""
        self._store = store
        self._source = source
        self._size = size
        self._analyser = analyser
        self._redact = redact
        self._patience = patience
        self._part_chars = _CHUNKS_A_PART * _UNITS_A_TOKEN * size.tokens
        self._issues = issues
        self.index_format = index_format

    def on(self, store: Store) -> "TranscriptIndexer":
        """The same for another store."""
        return TranscriptIndexer(
            store,
            self._source,
            self._size,
            self._analyser,
            redact=self._redact,
            patience=self._patience,
            index_format=self.index_format,
            issues=self._issues,
        )

    @property
    def source(self) -> TranscriptSource:
        return self._source

    def look(self, *, everything: bool = False) -> FileChanges:
        """Compare the files with the index; without ``everything``, a little more talk is not worth a sync."""
        listing = self._source.scan()
        known = self._store.transcripts()
        stamps = listing.stamps
        changed = [path for path, stamp in stamps.items() if not _is_known(known.get(path), stamp)]
        due = [path for path in changed if everything or self._is_due(path, known.get(path), stamps[path])]
        due.sort(key=lambda path: (-stamps[path][1], path))
        vanished = [] if listing.lost else sorted(known.keys() - stamps.keys())
        done = {path: at for path in due if path in known and (at := self._done(path, known[path]))}
        listing = listing._replace(issues=self._issues + listing.issues)
        return FileChanges(dict.fromkeys(known, ()), listing, due, vanished, done)

    def look_at(self, path: str) -> FileChanges:
        """The same for one transcript, whatever it has grown by; the others are left alone."""
        look = self.look(everything=True)
        return look._replace(unsettled=[due for due in look.unsettled if due == path], vanished=[])

    def changed(self, look: FileChanges) -> Iterator[bool]:
        """For each file that a look has found, whether there is something to index in it: not if it cannot be read."""
        for path in look.unsettled:
            try:
                with self._source.open(path):
                    yield True
            except ReadError:
                yield False

    def is_young(self, look: FileChanges) -> bool:
        """Whether what a look has found is indexed as it is: never."""
        return not look.is_dirty

    def sync(
        self,
        *,
        look: FileChanges | None = None,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        embed: Callable[[], object] | None = None,
    ) -> SyncReport:
        """Index what was said since the last time, forget what vanished."""
        look = look or self.look(everything=True)
        known = self._store.transcripts()
        changes: list[FileChange] = []
        failed: list[Issue] = []
        done = 0
        for path in look.unsettled:
            if stop():
                break
            if progress:
                progress(Progress(done, len(look.unsettled), path))
            try:
                if not self._index(path, known.get(path), stop, embed):
                    break
                changes.append(FileChange(path, "changed" if path in known else "added"))
            except FileMissing:
                pass
            except ReadError as error:
                failed.append(Issue(path, str(error)))
            done += 1
        left = len(look.unsettled) - done
        gone = [path for path in look.vanished if path in known and self._is_gone(path)] if not left else []
        if gone:
            self._store.remove_transcripts(gone)
        if progress and look.unsettled:
            progress(Progress(done, len(look.unsettled), ""))
        changes += [FileChange(path, "removed") for path in gone]
        return _report(look, changes, failed, left)

    def _is_due(self, path: str, known: Transcript | None, stamp: Stamp) -> bool:
        """Whether a transcript has grown by enough, has been quiet for long, or is another one than before."""
        grown = stamp[0] - (known.until if known else 0)
        wanted = self._patience
        if grown < 0 or grown >= wanted.bytes or (known and known.inode != stamp[3]):
            return True
        if abs(time.time() - stamp[1] / 1e9) > wanted.idle_s:
            return True
        if not wanted.messages:
            return False
        try:
            with self._source.open(path) as opened:
                new = opened.between(stamp[0] - grown, stamp[0])
        except ReadError:
            return True
        return new.count(b"\n") >= wanted.messages

    def _is_gone(self, path: str) -> bool:
        try:
            with self._source.open(path):
                return False
        except FileMissing:
            return True
        except ReadError:
            return False

    def _done(self, path: str, known: Transcript) -> int:
        """Up to where a transcript need not be read again, as it is now."""
        try:
            with self._source.open(path) as opened:
                return known.tail if _is_sealed(opened, _beginning(opened), known) else 0
        except ReadError:
            return 0

    def _index(self, path: str, known: Transcript | None, stop: Stop, embed: Callable[[], object] | None) -> bool:
        """Read a transcript from where its last part begins, or from its beginning if it is another one now.

        What is done when ``stop`` says so is kept; gives whether that is everything.
        """
        with self._source.open(path) as opened:
            # What is written over the file while it is read must break the seal: its beginning is taken before.
            beginning = _beginning(opened)
            if known is None or not _is_sealed(opened, beginning, known):
                known = Transcript(path, 0, 0, 0, 0, 0, 1, 0, b"")
            run = _Run(path, known, opened.stamp)
            for part, end, is_last in self._parts(opened, known):
                run.add(self._document(path, part, run.number, opened.stamp), part, end, is_last)
                # The last part is made anew the next time: with it alone nothing would ever be gained.
                is_stopped = len(run.parts) > 1 and stop()
                if is_last or is_stopped or run.is_full:
                    self._write(run, _seal(opened, beginning, part.start), embed)
                    if is_stopped and not is_last:
                        return False
        return True

    def _write(self, run: "_Run", seal: bytes, embed: Callable[[], object] | None) -> None:
        with self._store.transaction():
            self._store.put_transcript(run.state(seal), run.keep, run.parts, self.index_format)
            if embed:
                embed()
        run.written()

    def _parts(self, opened: OpenedTranscript, known: Transcript) -> Iterator[tuple[_Part, int, bool]]:
        """The parts from the last known one on, each with where what was read of it ends; the last stays open."""
        part = _Part(known.tail, known.record, [])
        chars, number, end = 0, known.record - 1, known.tail
        for line_end, line in opened.lines(known.tail):
            number += 1
            is_full = chars >= self._part_chars or end - part.start >= _PART_BYTES
            if is_full and line_end > 0:
                yield part, end, False
                part, chars = _Part(end, number, []), 0
            for found in spoken([line], self._redact, first=number):
                part.lines.append(found)
                chars += len(found.text) + 1
            end = line_end if line_end > 0 else end
        yield part, end, True

    def _document(self, path: str, part: _Part, number: int, stamp: Stamp) -> tuple[Document, list[IndexedChunk]]:
        text = "\n".join(line.text for line in part.lines)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        said_ns = next((at for line in reversed(part.lines) if (at := _noon_ns(line.day))), stamp[1])
        # What is stored of a part does not depend on when it was indexed: it stays while the file grows.
        stamp = (len(text), said_ns, *stamp[2:])
        document = Document("sessions", part_path(path, number), "", digest, stamp, time.time_ns())
        return document, list(self._chunks(text, part.lines))

    def _chunks(self, text: str, lines: list[Spoken]) -> Iterator[IndexedChunk]:
        for chunk in chunk_markdown(text, tokens=self._size.tokens, overlap=self._size.overlap):
            own = lines[chunk.start_line - 1 : chunk.end_line]
            records = tuple(line.record for line in own)
            day = next((line.day for line in own if line.day), "")
            trail = (f"# {day}",) if day else ()
            there = Chunk(records[0], records[-1], chunk.text, chunk.overlap, trail, records)
            words, names = self._analyser.indexable(chunk.text)
            title_words, title_names = self._analyser.indexable(title_text(day)) if day else ("", "")
            yield IndexedChunk(there, words, f"{names} {title_names}".strip(), title_words)


class _Run:
    """What has come of one transcript so far."""

    def __init__(self, path: str, known: Transcript, stamp: Stamp) -> None:
        self.number = self.keep = known.parts
        self.parts: list[tuple[Document, list[IndexedChunk]]] = []
        self._chars = 0
        self._path = path
        self._stamp = stamp
        self._last = known

    def add(self, document: tuple[Document, list[IndexedChunk]], part: _Part, end: int, is_last: bool) -> None:
        self.parts.append(document)
        self._chars += sum(len(line.text) for line in part.lines)
        size, mtime_ns, _, inode = self._stamp
        until = end
        self._last = Transcript(
            self._path, size if is_last else until, mtime_ns, inode, until, part.start, part.record, self.number, b""
        )
        self.number += 1

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        return self._chars >= _CHARS_AT_ONCE or len(self.parts) >= _PARTS_AT_ONCE

    def state(self, seal: bytes) -> Transcript:
        return self._last._replace(seal=seal)

    def written(self) -> None:
        """What was written is kept; the part that is still open is made anew with the next."""
        self.keep, self.parts, self._chars = self.number, [], 0


def _is_known(known: Transcript | None, stamp: Stamp) -> bool:
    return known is not None and (known.size, known.mtime_ns, known.inode) == (stamp[0], stamp[1], stamp[3])


def _beginning(opened: OpenedTranscript) -> bytes:
    return opened.between(0, _SEALED_BYTES)


def _is_sealed(opened: OpenedTranscript, beginning: bytes, known: Transcript) -> bool:
    """Whether a file has grown since it was indexed, and is the same up to the last part as far as can be told."""
    size, _, _, inode = opened.stamp
    return inode == known.inode and size > known.size and _seal(opened, beginning, known.tail) == known.seal


def _seal(opened: OpenedTranscript, beginning: bytes, end: int) -> bytes:
    """What would be another if the file had been written anew: its beginning, and the bytes before a point."""
    last = opened.between(max(0, end - _SEALED_BYTES), end)
    return hashlib.sha256(beginning[:end] + b"\0" + last).digest()


def _noon_ns(day: str) -> int:
    """The middle of a day, in nanoseconds since 1970; nothing, if it is none."""
    try:
        return int(datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp() * 1e9) if day else 0
    except (ValueError, OverflowError):
        return 0


def _report(look: FileChanges, changes: list[FileChange], failed: list[Issue], left: int) -> SyncReport:
    count = {kind: sum(change.kind == kind for change in changes) for kind in ("added", "changed", "removed")}
    return SyncReport(
        added=count["added"],
        changed=count["changed"],
        removed=count["removed"],
        unchanged=len(look.listing.stamps) - count["added"] - count["changed"] - len(failed) - left,
        left=left,
        failed=tuple(failed),
        kept=look.kept(),
        issues=look.listing.issues,
        changes=tuple(changes[:_MOST_NAMED]),
    )
