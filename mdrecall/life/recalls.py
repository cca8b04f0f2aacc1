"""Recall records: which entries of dated notes searches have found, when, and by how many different queries.

They are kept only if ``mdrecall.recalls.record`` is on, in a file beside the index that holds no text: paths, lines,
hashes, scores and moments. What cannot be written down is left out; a search never fails because of it.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from mdrecall.config.settings import Settings
from mdrecall.errors import ReadError
from mdrecall.life.promotion import Entry, Record, find_entries
from mdrecall.locks import FileLock, describe_holder
from mdrecall.notes.clock import user_time
from mdrecall.notes.opening import decode, read_below
from mdrecall.patterns import NOTE_ENDING_PATTERN
from mdrecall.search.query import parse_query
from mdrecall.sessions.visibility import parse
from mdrecall.state_files import load, make_private_folder, save
from mdrecall.text.tombstones import Tombstones
from mdrecall.text.words import stem, surface_words, tokens
from mdrecall.types.search import SearchAnswer, SearchResult

#: As many records, queries and days as OpenClaw keeps: a season of daily use, and a file of a few hundred kilobytes.
MAX_RECORDS, MAX_QUERIES, MAX_DAYS = 512, 32, 16
#: The same query within an hour is one search that was repeated, not a second need.
_REPEAT_MS = 3_600_000
#: How long a search waits for another process that writes: longer than that takes, and too short to be felt.
_WAIT_S = 0.2
#: How long forgetting waits.
_FORGET_WAIT_S = 5.0
_VERSION = 1
_STORED = Record._fields[: Record._fields.index("snippet")]
_KEY = re.compile(r"memory:(.+?):\d+:\d+(?::[0-9a-f]+)?", re.DOTALL)
_DATED = re.compile(r"(?:.*/)?\d{4}-\d\d-\d\d(?:-[^/]+)?" + NOTE_ENDING_PATTERN, re.IGNORECASE)
_GENERATED = re.compile(r"(?:.*/)?memory/(?:dreaming|\.dreams)/")


def recalls_path(index_path: str) -> str:
    """Return the file with the recall records of an index."""
    return f"{index_path}.recalls"


def lock_path(index_path: str) -> str:
    """Return the file that a process locks while it changes recall records."""
    return f"{index_path}.recalls.lock"


def is_dated_note(path: str) -> bool:
    """True if a path is that of a dated note, which a statement can be promoted from."""
    return bool(_DATED.fullmatch(path)) and not _GENERATED.match(path) and not path.startswith(("../", "/"))


def hash_text(text: str) -> str:
    """Return what stands for the text of an entry."""
    return hashlib.sha1(" ".join(text.split()).encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:12]


def record_answer(
    settings: Settings, query: str, answer: SearchAnswer, *, now: datetime | None = None, session_key: str = ""
) -> int:
    """Write down what a search has found, and return how many entries were counted.

    Nothing is written unless the setting is on, nor for a conversation that others take part in or a machine leads:
    they must not decide what is remembered. The best result counts, and every other one that is not weak.
    """
    is_private = not session_key.strip() or parse(session_key).is_private
    if not settings.mdrecall.recalls.record or not is_private:
        return 0
    strong = [one for place, one in enumerate(answer) if place == 0 or one.confidence != "low"]
    hits = [(one, entry) for one in strong if one.source == "memory" for entry in _find_recalled(settings, query, one)]
    if not hits:
        return 0
    moment = user_time(now, None, settings.defaults.user_timezone)
    try:
        with lock_recalls(settings.index_path, _WAIT_S) as state:
            salt = str(state.content.setdefault("salt", os.urandom(16).hex()))
            records = {record.key: record for record in state.records}
            counted = 0
            for result, entry in hits:
                words = " ".join((result.query or query).casefold().split()).encode("utf-8", "replace")
                hashed = hashlib.blake2b(words, key=salt.encode()[:64], digest_size=8).hexdigest()
                counted += _count(records, result, entry, hashed, moment)
            state.set_records(sorted(records.values(), key=lambda record: -record.last_ms)[:MAX_RECORDS])
            state.save()
            return counted
    except OSError:
        return 0


def forget_paths(index_path: str, paths: Collection[str]) -> None:
    """Remove every record of some notes, also that something of them was promoted. Raise ``OSError`` if that fails."""
    if not os.path.lexists(recalls_path(index_path)):
        return
    with lock_recalls(index_path, _FORGET_WAIT_S) as state:
        state.set_records(record for record in state.records if record.path not in paths)
        # ``memory:<path>:<first>:<last>[:<hash>]``
        named = {key: found[1] if (found := _KEY.fullmatch(key)) else "" for key in state.promoted}
        state.content["promoted"] = {key: day for key, day in state.promoted.items() if named[key] not in paths}
        state.save()


class RecallState:
    """The file with the recall records and what was promoted, while this process alone may change it."""

    def __init__(self, index_path: str) -> None:
        self._path = recalls_path(index_path)
        content: dict[str, Any] = load(self._path)
        self.content: dict[str, Any] = content if content.get("version") == _VERSION else {"version": _VERSION}

    @property
    def records(self) -> list[Record]:
        """The recall records; none if there is no file, or it cannot be read."""
        found, stored = [], self.content.get("records")
        for raw in stored if isinstance(stored, list) else ():
            # Anything but a record is left out.
            with suppress(TypeError, KeyError):
                found.append(Record(**raw | {"days": tuple(raw["days"])}))
        return found

    @property
    def promoted(self) -> dict[str, str]:
        """The keys of what was promoted, with the day."""
        found = self.content.get("promoted")
        return {str(key): str(day) for key, day in found.items()} if isinstance(found, dict) else {}

    def set_records(self, records: Iterable[Record]) -> None:
        self.content["records"] = [dict(zip(_STORED, record, strict=False)) for record in records]

    def save(self) -> None:
        """Write the file, whole or not at all; raise ``OSError`` if that fails."""
        save(self._path, self.content)


@contextmanager
def lock_recalls(index_path: str, wait_s: float) -> Iterator[RecallState]:
    """Keep other processes from changing the file meanwhile; ``OSError`` if another one does for too long."""
    make_private_folder(os.path.dirname(index_path))
    lock = FileLock(lock_path(index_path))
    if not lock.acquire(wait_s, "changing the recall records"):
        raise OSError(f"The recall records are kept by {describe_holder(lock.holder())}.")
    try:
        yield RecallState(index_path)
    finally:
        lock.release()


def read_entries(settings: Settings, path: str, forgotten: Tombstones | None = None) -> list[Entry]:
    """Return the entries of a note, without what was forgotten; none if it cannot be read."""
    try:
        text = decode(read_below(settings.workspace, path, shown=path, max_bytes=settings.mdrecall.max_file_bytes))
    except ReadError:
        return []
    return find_entries((forgotten.mask(text, path) if forgotten else text).split("\n"))


def _find_recalled(settings: Settings, query: str, result: SearchResult) -> list[Entry]:
    """Return the entries among the lines of a result that have the most words of the query."""
    if not is_dated_note(result.path):
        return []
    wanted = {term.text for term in parse_query(result.query or query) if not term.stop}
    counts = [(entry, _count_words(entry.text, wanted)) for entry in read_entries(settings, result.path)]

    def choose(first: int, last: int) -> tuple[int, list[Entry]]:
        """Return the most words that an entry among some lines has, and the entries that have as many."""
        near = [(entry, count) for entry, count in counts if entry.start_line <= last and entry.end_line >= first]
        most = max((count for _, count in near), default=0)
        return most, [entry for entry, count in near if count == most]

    most, best = choose(result.match_start_line, result.match_end_line)
    # A line beside the match that has more of the words, and not just one by chance, is what was looked for.
    more, beside = choose(result.start_line, result.end_line)
    return beside if more > max(1, most) else best


def _count_words(text: str, wanted: set[str]) -> int:
    return len(wanted.intersection(stem(word) for token in tokens(text) for word in surface_words(token)))


def _count(records: dict[str, Record], result: SearchResult, entry: Entry, query: str, moment: datetime) -> bool:
    """Add a recall to the records; False if the same query was counted within the hour."""
    at_ms, text_hash = moment.timestamp() * 1000, hash_text(entry.text)
    known = next((one for one in records.values() if one.path == result.path and one.hash == text_hash), None)
    key = f"memory:{result.path}:{entry.start_line}:{entry.end_line}:{text_hash}"
    old = known or Record(key, result.path, 0, 0, text_hash, first_ms=at_ms, last_ms=at_ms)
    if query in old.queries and abs(at_ms - old.queries[query]) < _REPEAT_MS:
        return False
    queries = {**{name: ms for name, ms in old.queries.items() if name != query}, query: at_ms}
    score = min(1.0, max(0.0, result.score))
    records[old.key] = old._replace(
        start_line=entry.start_line,
        end_line=entry.end_line,
        recalls=old.recalls + 1,
        total_score=old.total_score + score,
        max_score=max(old.max_score, score),
        last_ms=max(old.last_ms, at_ms),
        queries=dict(list(queries.items())[-MAX_QUERIES:]),
        days=tuple(sorted({*old.days, moment.date().isoformat()}))[-MAX_DAYS:],
        origin=result.origin,
    )
    return True
