"""Everything that could be promoted: the recall records of mdrecall and of OpenClaw, and what recent notes repeat.

Each record is looked up again in its note, because only what stands there now may be promoted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.core.life.promotion import Entry, Record, explain_unfit, find_entries, find_tags
from mdrecall.core.text.days import Moment, format_day, note_day
from mdrecall.errors import ReadError
from mdrecall.life.openclaw_recalls import read_openclaw_recalls
from mdrecall.life.recalls import MAX_DAYS, Recall, hash_text, is_dated_note, read_recalls
from mdrecall.sources.files import MemoryFiles
from mdrecall.sources.opening import decode, read_below
from mdrecall.sources.tombstones import open_tombstones

#: OpenClaw reads the notes of as many days each night, counts an entry of at most as many characters, at this score.
_DAILY_DAYS, _DAILY_CHARS, _DAILY_SCORE = 14, 280, 0.62

#: The longest list marker with its blank, such as ``- [x] ``.
_MARKER_CHARS = 6


class Located(NamedTuple):
    """A record, and the entries of its note that say it now; none if it was removed or changed."""

    record: Record
    entries: tuple[Entry, ...]


class Collected(NamedTuple):
    """All records, and what could not be read."""

    located: tuple[Located, ...]
    invalid: int = 0
    problem: str = ""
    """Why OpenClaw's records could not be read."""


class _Notes:
    """The entries of the notes of a workspace, each note read once, without what was forgotten."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._forgotten = open_tombstones(settings).load()
        self._known: dict[str, list[Entry]] = {}

    def find(self, path: str) -> list[Entry]:
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def mask(self, text: str) -> str:
        return self._forgotten.mask(text) if self._forgotten else text

    def _read(self, path: str) -> list[Entry]:
        try:
            max_bytes = self._settings.mdrecall.max_file_bytes
            text = decode(read_below(self._settings.workspace, path, shown=path, max_bytes=max_bytes).data)
        except ReadError:
            return []
        return find_entries((self._forgotten.mask(text, path) if self._forgotten else text).split("\n"))


def collect(settings: Settings, home: str, moment: Moment) -> Collected:
    """Return every record of a workspace, with the entries of the notes that say it now."""
    notes = _Notes(settings)
    repeated = _find_repeated(notes, _list_recent(settings, home, moment))
    own = [_locate(recall, notes, repeated) for recall in read_recalls(settings.index_path)]
    known = {hash_text(one.record.snippet) for one in own}
    read = [_describe_repeated(text, days, moment) for text, days in repeated.items() if text not in known]
    theirs = read_openclaw_recalls(settings.state_dir, settings.workspace, moment.ms)
    located = [_locate_theirs(record, notes) for record in theirs.records if is_dated_note(record.path)]
    return Collected((*own, *read, *located), theirs.invalid, theirs.problem)


def _list_recent(settings: Settings, home: str, moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield the path and the day of every dated note of the last two weeks."""
    for path in sorted(MemoryFiles(settings, home).scan().stamps):
        day = note_day(path, "") if is_dated_note(path) else None
        if day is not None and moment.today - _DAILY_DAYS < day <= moment.today:
            yield path, format_day(day)


class _Repeated(NamedTuple):
    """Where recent notes say the same."""

    path: str
    entry: Entry
    days: tuple[str, ...]


def _find_repeated(notes: _Notes, recent: Iterable[tuple[str, str]]) -> dict[str, _Repeated]:
    """Return the statements of recent notes, by the hash of their text."""
    found: defaultdict[str, list[tuple[str, Entry, str]]] = defaultdict(list)
    for path, day in recent:
        for entry in notes.find(path):
            if len(entry.text) <= _DAILY_CHARS and not entry.is_superseded and not explain_unfit(entry.text):
                found[hash_text(entry.text)].append((path, entry, day))
    return {
        text: _Repeated(places[0][0], places[0][1], tuple(sorted({day for _, _, day in places})))
        for text, places in found.items()
    }


def _locate(recall: Recall, notes: _Notes, repeated: dict[str, _Repeated]) -> Located:
    there = [entry for entry in notes.find(recall.path) if hash_text(entry.text) == recall.hash]
    nearest = sorted(there, key=lambda entry: abs(entry.start_line - recall.start_line))[:1]
    days = repeated[recall.hash].days if recall.hash in repeated else ()
    record = Record(
        key=recall.key,
        path=recall.path,
        start_line=nearest[0].start_line if nearest else recall.start_line,
        end_line=nearest[0].end_line if nearest else recall.end_line,
        snippet=nearest[0].text if nearest else "",
        recalls=recall.recalls,
        daily=len(days),
        total_score=recall.total_score + _DAILY_SCORE * len(days),
        max_score=recall.max_score,
        queries=len(recall.queries),
        first_ms=recall.first_ms,
        last_ms=recall.last_ms,
        days=tuple(sorted({*recall.days, *days}))[-MAX_DAYS:],
        recall_days=recall.days,
        tags=find_tags(nearest[0].text) if nearest else (),
        origin=recall.origin,
        claim_hash=recall.hash,
    )
    return Located(record, tuple(nearest))


def _describe_repeated(text: str, place: _Repeated, moment: Moment) -> Located:
    entry = place.entry
    count = len(place.days)
    record = Record(
        key=f"memory:claim:{text}",
        path=place.path,
        start_line=entry.start_line,
        end_line=entry.end_line,
        snippet=entry.text,
        daily=count,
        total_score=_DAILY_SCORE * count,
        max_score=_DAILY_SCORE,
        first_ms=moment.ms,
        last_ms=moment.ms,
        days=place.days,
        tags=find_tags(entry.text),
        claim_hash=text,
    )
    return Located(record, (entry,))


def _locate_theirs(record: Record, notes: _Notes) -> Located:
    """Return OpenClaw's record with the entries that its text holds, those of its own lines if there are such."""
    # A long entry is cut in the record, after its list marker.
    most = max(1, len(record.snippet) - _MARKER_CHARS)
    held = [entry for entry in notes.find(record.path) if entry.text[:most] in record.snippet]
    own = [entry for entry in held if entry.start_line <= record.end_line and entry.end_line >= record.start_line]
    return Located(record._replace(snippet=notes.mask(record.snippet)), tuple(own or held))
