"""Everything that could be promoted: the recall records of mdrecall and of OpenClaw, and what recent notes repeat.

Each record is looked up again in its note, because only what stands there now may be promoted.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import ReadError
from mdrecall.life.promotion import Entry, Hits, Record, explain_unfit, find_entries, find_tags
from mdrecall.life.recalls import MAX_DAYS, Recall, hash_text, is_dated_note, read_recalls
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.text.days import Moment, format_day, note_day

if TYPE_CHECKING:
    import apsw

#: OpenClaw reads the notes of as many days each night, counts an entry of at most as many characters, at this score.
_DAILY_DAYS, _DAILY_CHARS, _DAILY_SCORE = 14, 280, 0.62

#: The longest list marker with its blank, such as ``- [x] ``.
_MARKER_CHARS = 6


#: OpenClaw uses the newest 512 records of a workspace, 32 queries, 16 days and 8 tags of each, and no longer text.
_MAX_RECORDS, _MAX_QUERIES, _MAX_DAYS, _MAX_TAGS, _MAX_SNIPPET_CHARS = 512, 32, 16, 8, 800
_RECALL, _PHASES = "short-term-recall", "short-term-phase-signals"
#: Rows and bytes that are read: OpenClaw's own limit is far below, and a damaged database must not fill the memory.
_MAX_ROWS, _MAX_ROW_BYTES = 10_000, 65_536
_ORIGINS = ("owner", "agent", "system", "untrusted")
_QUERY = (
    "SELECT value_json FROM plugin_state_entries WHERE plugin_id = 'memory-core' AND namespace = ?"
    " AND substr(entry_key, 1, 65) = ? AND (expires_at IS NULL OR expires_at > ?) AND length(value_json) <= ? LIMIT ?"
)


class Located(NamedTuple):
    """A record, and the entries of its note that say it now; none if it was removed or changed."""

    record: Record
    entries: tuple[Entry, ...]


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


def collect(settings: Settings, home: str, moment: Moment) -> tuple[list[Located], str]:
    """Return every record of a workspace with the entries that say it now, and why OpenClaw's cannot be read."""
    notes = _Notes(settings)
    repeated = _find_repeated(notes, _list_recent(settings, home, moment))
    own = [_locate(recall, notes, repeated) for recall in read_recalls(settings.index_path)]
    known = {hash_text(one.record.snippet) for one in own}
    read = [_describe_repeated(text, days, moment) for text, days in repeated.items() if text not in known]
    theirs, problem = read_openclaw_recalls(settings.state_dir, settings.workspace, moment.ms)
    located = [_locate_theirs(record, notes) for record in theirs if is_dated_note(record.path)]
    return [*own, *read, *located], problem


def _list_recent(settings: Settings, home: str, moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield the path and the day of every dated note of the last two weeks."""
    for path in sorted(MemoryFiles(settings, home).scan().stamps):
        day = note_day(path, "") if is_dated_note(path) else None
        if day is not None and moment.today - _DAILY_DAYS < day <= moment.today:
            yield path, format_day(day)


#: Where recent notes say the same: the first of them, its entry, and the days of all.
_Repeated: TypeAlias = tuple[str, Entry, tuple[str, ...]]


def _find_repeated(notes: _Notes, recent: Iterable[tuple[str, str]]) -> dict[str, _Repeated]:
    """Return the statements of recent notes, by the hash of their text."""
    found: defaultdict[str, list[tuple[str, Entry, str]]] = defaultdict(list)
    for path, day in recent:
        for entry in notes.find(path):
            if len(entry.text) <= _DAILY_CHARS and not entry.is_superseded and not explain_unfit(entry.text):
                found[hash_text(entry.text)].append((path, entry, day))
    return {text: (*places[0][:2], tuple(sorted({day for _, _, day in places}))) for text, places in found.items()}


def _locate(recall: Recall, notes: _Notes, repeated: dict[str, _Repeated]) -> Located:
    there = [entry for entry in notes.find(recall.path) if hash_text(entry.text) == recall.hash]
    nearest = sorted(there, key=lambda entry: abs(entry.start_line - recall.start_line))[:1]
    days = repeated[recall.hash][2] if recall.hash in repeated else ()
    at = nearest[0] if nearest else recall
    record = Record(
        recall.key, recall.path, at.start_line, at.end_line, nearest[0].text if nearest else "",
        recalls=recall.recalls, daily=len(days), queries=len(recall.queries), max_score=recall.max_score,
        total_score=recall.total_score + _DAILY_SCORE * len(days), first_ms=recall.first_ms, last_ms=recall.last_ms,
        days=tuple(sorted({*recall.days, *days}))[-MAX_DAYS:], recall_days=recall.days,
        tags=find_tags(nearest[0].text) if nearest else (), origin=recall.origin, claim_hash=recall.hash,
    )  # fmt: skip
    return Located(record, tuple(nearest))


def _describe_repeated(text: str, place: _Repeated, moment: Moment) -> Located:
    path, entry, days = place
    count = len(days)
    record = Record(
        f"memory:claim:{text}", path, entry.start_line, entry.end_line, entry.text,
        daily=count, total_score=_DAILY_SCORE * count, max_score=_DAILY_SCORE, first_ms=moment.ms, last_ms=moment.ms,
        days=days, tags=find_tags(entry.text), claim_hash=text,
    )  # fmt: skip
    return Located(record, (entry,))


def _locate_theirs(record: Record, notes: _Notes) -> Located:
    """Return OpenClaw's record with the entries that its text holds, those of its own lines if there are such."""
    # A long entry is cut in the record, after its list marker.
    most = max(1, len(record.snippet) - _MARKER_CHARS)
    held = [entry for entry in notes.find(record.path) if entry.text[:most] in record.snippet]
    own = [entry for entry in held if entry.start_line <= record.end_line and entry.end_line >= record.start_line]
    return Located(record._replace(snippet=notes.mask(record.snippet)), tuple(own or held))


def database_path(state_dir: str) -> str:
    """Return OpenClaw's state database."""
    return os.path.join(state_dir, "state", "openclaw.sqlite")


def read_openclaw_recalls(state_dir: str, workspace: str, now_ms: float) -> tuple[list[Record], str]:
    """Return the records that OpenClaw keeps of a workspace, and why they cannot be read; they are never written."""
    path = database_path(state_dir)
    if not os.path.lexists(path):
        return [], ""
    owner = hashlib.sha256(os.path.abspath(workspace).encode("utf-8", "surrogateescape")).hexdigest()
    # Imported only where OpenClaw is: it loads SQLite.
    from mdrecall.sessions.foreign_database import read_snapshot

    def read_rows(connection: "apsw.Connection") -> list[list[Any]]:
        limits = (f"{owner}:", now_ms, _MAX_ROW_BYTES, _MAX_ROWS)
        return [[text for (text,) in connection.execute(_QUERY, (name, *limits))] for name in (_RECALL, _PHASES)]

    try:
        recalls, phases = read_snapshot(path, read_rows)
    except ReadError as error:
        return [], f"OpenClaw's recall records cannot be read: {error}"
    hits = dict(_read_phases(_unpack(phases, owner)))
    entries = dict(_unpack(recalls, owner))
    found = filter(None, (_read_record(key, entry, now_ms) for key, entry in entries.items()))
    no_hits: tuple[Hits, Hits] = (0, None), (0, None)
    records = [
        record._replace(light=light, rem=rem) for record in found for light, rem in [hits.get(record.key, no_hits)]
    ]
    newest = sorted(records, key=lambda one: (-(one.last_ms or 0), -one.signals, -one.total_score, one.key))
    return newest[:_MAX_RECORDS], ""


def _unpack(rows: Iterable[Any], owner: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the key and the value of each row of a workspace."""
    for text in rows:
        try:
            row = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            continue
        if isinstance(row, dict) and row.get("workspaceKey") == owner and isinstance(row.get("value"), dict):
            yield str(row.get("key", "")), row["value"]


def _read_record(key: str, entry: Mapping[str, Any], now_ms: float) -> Record | None:
    path, lines = entry.get("path"), (entry.get("startLine"), entry.get("endLine"))
    if not isinstance(path, str) or not path or not all(isinstance(line, int) for line in lines):
        return None
    if entry.get("source") != "memory":
        return None
    daily, grounded = _count(entry.get("dailyCount")), _count(entry.get("groundedCount"))
    snippet = " ".join(_text(entry.get("snippet")).split())
    queries = _texts(entry.get("userQueryHashes"), _MAX_QUERIES)
    if queries is None:
        # Records of older versions have one list; without other signals all of it are queries of people.
        queries = [] if daily or grounded else _texts(entry.get("queryHashes"), _MAX_QUERIES) or []
    days = tuple(day[:10] for day in _texts(entry.get("recallDays")) or ())[-_MAX_DAYS:]
    tags = _texts(entry.get("conceptTags"), _MAX_TAGS)
    origin, kind, observed_ms = _read_origin(entry.get("provenance"))
    return Record(
        key=key or f"memory:{path}:{lines[0]}:{lines[1]}",
        path=path.replace("\\", "/").removeprefix("./"),
        start_line=int(lines[0] or 0),
        end_line=int(lines[1] or 0),
        snippet=snippet[:_MAX_SNIPPET_CHARS].rstrip(),
        recalls=_count(entry.get("recallCount")),
        daily=daily,
        grounded=grounded,
        total_score=max(0.0, _number(entry.get("totalScore"))),
        max_score=min(1.0, max(0.0, _number(entry.get("maxScore")))),
        queries=len(queries),
        first_ms=_read_time(entry.get("firstRecalledAt"), now_ms),
        last_ms=_read_time(entry.get("lastRecalledAt"), now_ms),
        days=days,
        recall_days=days,
        tags=find_tags(snippet) if tags is None else tuple(tag.lower() for tag in tags),
        origin=origin,
        session_kind=kind,
        observed_ms=observed_ms,
        claim_hash=_text(entry.get("claimHash")).strip(),
        promoted_on=_text(entry.get("promotedAt"))[:10],
    )


def _read_phases(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, tuple[Hits, Hits]]]:
    for key, entry in entries:
        light, rem = (
            (_count(entry.get(f"{phase}Hits")), _read_time(entry.get(f"last{phase.title()}At"), None))
            for phase in ("light", "rem")
        )
        yield _text(entry.get("key")).strip() or key, (light, rem)


def _read_origin(provenance: Any) -> tuple[str, str, float | None]:
    if not isinstance(provenance, dict):
        return "", "", None
    origin = provenance.get("originClass")
    known = origin if origin in _ORIGINS else "untrusted"
    return known, _text(provenance.get("sessionKind")), _number(provenance.get("observedAt")) or None


def _read_time(value: Any, missing: float | None) -> float | None:
    """Return a moment in milliseconds; None if there is a text that says none."""
    if not isinstance(value, str):
        return missing
    try:
        return datetime.fromisoformat(value).timestamp() * 1000
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any, most: int | None = None) -> list[str] | None:
    """Return the distinct texts of a list; None if it is none."""
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(text.strip() for text in value if isinstance(text, str) and text.strip()))[:most]


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else 0.0


def _count(value: Any) -> int:
    return max(0, int(_number(value)))
