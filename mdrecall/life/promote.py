"""Promotion: often recalled statements of dated notes become entries of ``MEMORY.md``. No model takes part.

``plan`` says what would be written and why the rest is not. ``apply`` writes it, whole or not at all, and ``undo``
restores the bytes of before. Markers in the file itself say what was promoted, so that neither a kill nor a second
process can write an entry twice. To undo, no copy of the file is kept: a size and two hashes prove what to cut off.

What could be promoted are the recall records; a recent note that repeats a statement counts as a signal. Each record is
looked up again in its note, because only what stands there now may be promoted.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import FileBusy, FileChanged, FileMissing, FileUnwritable
from mdrecall.life import promotion
from mdrecall.life.journal import drop_entry, entry_file
from mdrecall.life.promotion import Candidate, Choice, Entry, Record
from mdrecall.life.recalls import MAX_DAYS, RecallState, hash_text, is_dated_note, lock_recalls, read_entries
from mdrecall.notes.clock import user_moment, user_time
from mdrecall.notes.editing import find_codec, hash_content, remove_note, replace_content
from mdrecall.notes.files import ROOT_FILES, MemoryFiles
from mdrecall.notes.notes import create_file
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.tombstones import open_masks, open_tombstones
from mdrecall.text.days import Moment, format_day, note_day
from mdrecall.types.documents import format_citation

#: How long to wait for another process that promotes or records.
_WAIT_S = 10.0
#: Somebody may write to the file between reading and writing. After as many times another program keeps at it.
_TRIES = 3
#: The entry of the journal by which the last promotion is undone.
_UNDO = "promotion"
#: As many keys are remembered as promoted; a marker in the file itself is found anyway.
_MAX_PROMOTED = 2_000
#: OpenClaw reads the notes of as many days each night, counts an entry of at most as many characters, at this score.
_DAILY_DAYS, _DAILY_CHARS, _DAILY_SCORE = 14, 280, 0.62

#: A record, and the entry of its note that says it now; None if it was removed or changed.
Located: TypeAlias = tuple[Record, Entry | None]


class Plan(NamedTuple):
    """What would be promoted now."""

    judged: tuple[Candidate, ...]
    """Every candidate that reaches OpenClaw's thresholds, or that was asked for, best first."""
    section: str
    """The text that would be appended; empty if nothing would."""
    path: str
    """``MEMORY.md``, in whichever spelling it is there."""
    data: bytes | None
    """Its content as it was read; None if there is no such file."""
    recalled: int
    """How many statements were ever recalled."""
    reconciled: tuple[str, ...] = ()
    """Keys that stand in the file although nobody wrote down that they were promoted."""

    @property
    def text(self) -> str:
        return decode(self.data or b"")

    @property
    def promotions(self) -> tuple[Candidate, ...]:
        return tuple(one for one in self.judged if not one.refusal)


def choose(settings: Settings, **changes: Any) -> Choice:
    """Return the choice that the settings make; ``changes`` are fields of it that are not None."""
    options, theirs = settings.mdrecall.promote, settings.dreaming
    max_chars = min(options.max_chars, settings.defaults.bootstrap_max_chars)
    choice = Choice(
        theirs.min_score, theirs.min_recall_count, theirs.min_unique_queries, theirs.max_age_days, options.min_days,
        theirs.limit, max_chars,
    )  # fmt: skip
    return choice._replace(**{name: value for name, value in changes.items() if value is not None})


def plan(settings: Settings, home: str, choice: Choice, now: datetime | None = None) -> Plan:
    """Return what would be promoted now, and why the rest would not; nothing is written."""
    zone = settings.defaults.user_timezone
    moment = user_moment(now, zone)
    collected = collect(settings, home, moment)
    path, data = _read_memory(settings)
    text = decode(data or b"")
    in_file, promoted = promotion.find_promoted_keys(text), RecallState(settings.index_path).promoted
    located = {record.key: entry for record, entry in collected}
    dated = [
        record._replace(promoted_on=promoted.get(record.key) or ("earlier" if record.key in in_file else ""))
        for record, _ in collected
    ]
    candidates = promotion.rank(dated, moment.ms, settings.dreaming.recency_half_life_days)
    if not choice.lists_all:
        candidates = [one for one in candidates if promotion.passes_gates(one, choice)]
        candidates = [one for one in candidates if choice.include_promoted or not one.record.promoted_on]
    judge = _Judge(settings, choice, path, text, user_time(now, None, zone).date().isoformat())
    judged = tuple(judge.judge(one, located[one.record.key]) for one in candidates)
    reconciled = tuple(sorted((in_file & located.keys()) - promoted.keys()))
    return Plan(judged, judge.section, path, data, len(collected), reconciled)


def collect(settings: Settings, home: str, moment: Moment) -> list[Located]:
    """Return every recall record of a workspace with the entry that says it now."""
    find = cache(partial(read_entries, settings, forgotten=open_tombstones(settings).load()))
    repeated = _find_repeated(find, MemoryFiles(settings, home).scan().stamps, moment)
    records = RecallState(settings.index_path).records
    return [_locate(record, find, sorted(repeated.get(record.hash, ()))) for record in records]


def _find_repeated(find: Callable[[str], list[Entry]], paths: Iterable[str], moment: Moment) -> dict[str, set[str]]:
    """Return the days of the last two weeks whose notes make a statement, by the hash of its text."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in filter(is_dated_note, paths):
        day = note_day(path, "")
        for entry in find(path) if day is not None and moment.today - _DAILY_DAYS < day <= moment.today else ():
            if len(entry.text) <= _DAILY_CHARS and not entry.is_superseded and not promotion.explain_unfit(entry.text):
                found[hash_text(entry.text)].add(format_day(day or 0))
    return found


def _locate(record: Record, find: Callable[[str], list[Entry]], days: list[str]) -> Located:
    there = [entry for entry in find(record.path) if hash_text(entry.text) == record.hash]
    nearest = min(there, key=lambda entry: abs(entry.start_line - record.start_line), default=None)
    at, text = nearest or record, nearest.text if nearest else ""
    record = record._replace(
        start_line=at.start_line, end_line=at.end_line, snippet=text, tags=promotion.find_tags(text), daily=len(days),
        total_score=record.total_score + _DAILY_SCORE * len(days),
        days=tuple(sorted({*record.days, *days}))[-MAX_DAYS:], recall_days=record.days,
    )  # fmt: skip
    return record, nearest


def find_judged(made: Plan, selector: str) -> Candidate | None:
    """Return the best candidate with this key, or whose key, path or text holds the selector."""
    wanted = selector.strip().casefold()
    named = [(one, (*one.record[:2], one.record.snippet)) for one in made.judged if wanted]
    exact = (one for one, texts in named if texts[0].casefold() == wanted)
    return next(exact, None) or next((one for one, texts in named if wanted in "\n".join(texts).casefold()), None)


def apply(settings: Settings, home: str, choice: Choice, now: datetime | None = None) -> Plan:
    """Write what is to be promoted, and return the plan that was carried out."""
    day = user_time(now, None, settings.defaults.user_timezone).date().isoformat()
    for left in reversed(range(_TRIES)):
        with _lock(settings) as state:
            made = plan(settings, home, choice, now)
            try:
                _write(settings, made, day)
            except (FileChanged, FileBusy):
                if not left:
                    raise
                continue
            # An entry that a person deletes later must not come back.
            if keys := (*made.reconciled, *(one.record.key for one in made.promotions)):
                promoted = state.promoted | dict.fromkeys(keys, day)
                state.content["promoted"] = dict(list(promoted.items())[-_MAX_PROMOTED:])
                state.save()
            return made
    raise AssertionError("the last attempt returns or raises")


def undo(settings: Settings) -> dict[str, Any] | None:
    """Take the last promotion back, byte for byte; None if there is none. It is not promoted again by itself.

    Return its ``path``, ``day`` and number of ``entries``. Raise ``FileChanged`` if the file was changed since.
    """
    with _lock(settings):
        now_path, now = _read_memory(settings)
        last, data = state_files.load(entry_file(settings.index_path, _UNDO)), now or b""
        # One that was killed before it was written, or after its undo, is none.
        if not last or hash_content(data) == last["before"]:
            return None
        path, day, size = str(last["path"]), str(last["day"]), int(last["size"])
        before = data[:size] if size >= 0 else b""
        if now_path != path or hash_content(data) != last["after"] or hash_content(before) != last["before"]:
            hint = f'Delete what you do not want from the section "Promoted From Short-Term Memory ({day})" by hand.'
            raise FileChanged(f"{path} was changed after the promotion of {day}.", path=path, hint=hint)
        if size >= 0:
            replace_content(settings.workspace, path, before, last["after"])
        else:
            remove_note(settings.workspace, path, last["after"])
        drop_entry(settings.index_path, _UNDO)
        return {"path": path, "day": day, "entries": int(last["entries"])}


class _Judge:
    """Decides about candidates one after the other: each that is promoted takes room, and says something already."""

    def __init__(self, settings: Settings, choice: Choice, path: str, text: str, day: str) -> None:
        self._choice = choice
        self._path = path
        self._length = len(text)
        self._day = day
        self._redactor = open_masks(settings)
        self._promoted = promotion.find_promoted_keys(text)
        # The entries of the file are read once for all candidates.
        entries = promotion.find_entries(text.split("\n"))
        self._contents = [(entry, promotion.find_content(entry.text)) for entry in entries]
        self._chosen: list[tuple[Candidate, AbstractSet[str]]] = []

    @property
    def section(self) -> str:
        return promotion.render_section(self._day, (one for one, _ in self._chosen)) if self._chosen else ""

    def judge(self, candidate: Candidate, entry: Entry | None) -> Candidate:
        """Return what becomes of a candidate; ``entry`` is what its note says now."""
        plain = promotion.strip_clock(entry.text) if entry else ""
        is_fit = entry and not entry.is_superseded and not promotion.explain_unfit(plain)
        judged = candidate._replace(text=promotion.shorten_statement(plain) if is_fit else "")
        judged = judged._replace(refusal=self._explain(judged, entry))
        if not judged.refusal:
            self._chosen.append((judged, promotion.find_content(judged.text)))
        return judged

    def _explain(self, judged: Candidate, entry: Entry | None) -> str:
        record = judged.record
        if record.key in self._promoted:
            return f"{self._path} already has it"
        if record.promoted_on and not self._choice.include_promoted:
            return f"it was promoted on {record.promoted_on}"
        if reason := promotion.explain_refusal(judged, self._choice):
            return reason
        if entry is None:
            return f"{record.path} does not say it any more"
        if entry.is_superseded:
            return "it was superseded"
        if not judged.text:
            return promotion.explain_unfit(promotion.strip_clock(entry.text))
        if not promotion.is_writable_key(record.key):
            return "its file name cannot stand in a comment"
        if self._redactor.redact(judged.text) != judged.text:
            return "it contains what looks like a secret"
        content = promotion.find_content(judged.text)
        for one, known in self._chosen:
            if promotion.adds_nothing(content, known):
                return f"{one.citation} says the same"
        for known_entry, old in self._contents:
            if promotion.adds_nothing(content, old):
                return f"{format_citation(self._path, *known_entry[:2])} already says it"
        if len(self._chosen) >= self._choice.limit:
            return f"the limit of {self._choice.limit} is reached"
        length = self._length + len(promotion.render_section(self._day, [*(one for one, _ in self._chosen), judged]))
        if length > self._choice.max_chars:
            most = f"may have {self._choice.max_chars:,} characters"
            return f"{self._path} {most} and would have {length:,}: shorten it to make room"
        return ""


def _read_memory(settings: Settings) -> tuple[str, bytes | None]:
    """Return the path and the content of ``MEMORY.md``; None if there is no such file."""
    workspace, max_bytes = settings.workspace, settings.mdrecall.max_file_bytes
    path = next((name for name in ROOT_FILES if os.path.lexists(os.path.join(workspace, name))), ROOT_FILES[0])
    with suppress(FileMissing):
        return path, read_below(workspace, path, shown=path, max_bytes=max_bytes)
    return path, None


@contextmanager
def _lock(settings: Settings) -> Iterator[RecallState]:
    try:
        with lock_recalls(settings.index_path, _WAIT_S) as state:
            yield state
    except OSError as error:
        hint = "Nothing was changed. Check the disk and the permissions, and try again."
        message = f"Cannot promote: {error.strerror or error}."
        raise FileUnwritable(message, path=settings.index_path, hint=hint) from error


def _write(settings: Settings, made: Plan, day: str) -> None:
    """Append the section to the file; before, write down how to take it back."""
    if not made.section:
        return
    before = made.data or b""
    after = _append(before, made.section)
    size = -1 if made.data is None else len(before)
    known = {"path": made.path, "day": day, "size": size, "entries": len(made.promotions)}
    hashes = {"before": hash_content(before), "after": hash_content(after)}
    state_files.save(entry_file(settings.index_path, _UNDO), known | hashes)
    if made.data is None:
        create_file(settings.workspace, made.path, after)
    else:
        replace_content(settings.workspace, made.path, after, hashes["before"])


def _append(before: bytes, section: str) -> bytes:
    """Return the content of the file with a section at its end, in its encoding and with its line ends."""
    codec = find_codec(before)
    text = before.decode(codec, "replace").removeprefix("\ufeff")
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    ends = text.replace("\r\n", "\n")
    gap = "" if not ends.strip() else "\n" * max(0, 2 - (len(ends) - len(ends.rstrip("\n"))))
    return before + (gap + section).replace("\n", newline).encode(codec)


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """Convert a candidate. ``text`` is what would be written, ``refused`` why it is not; neither is OpenClaw's."""
    record = candidate.record
    json: dict[str, Any] = {
        "key": record.key,
        "path": record.path,
        "startLine": record.start_line,
        "endLine": record.end_line,
        "source": "memory",
        "snippet": record.snippet,
        "recallCount": record.recalls,
        "dailyCount": record.daily,
        "groundedCount": 0,
        "signalCount": record.signals,
        "avgScore": candidate.components["relevance"],
        "maxScore": record.max_score,
        "uniqueQueries": len(record.queries),
        "claimHash": record.hash,
        "promotedAt": record.promoted_on,
        "firstRecalledAt": _iso(record.first_ms),
        "lastRecalledAt": _iso(record.last_ms),
        "ageDays": candidate.age_days,
        "score": candidate.score,
        "recallDays": list(record.days),
        "conceptTags": list(record.tags),
        "components": dict(candidate.components),
        "provenance": {"originClass": record.origin or "agent", "sessionKind": "unknown", "observedAt": record.last_ms},
        "text": candidate.text,
        "refused": candidate.refusal,
    }
    optional = ("claimHash", "promotedAt", "text", "refused")
    return {name: value for name, value in json.items() if value or name not in optional}


def _iso(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
