"""How much an often recalled text deserves to become long-term: OpenClaw's six parts, its boost and its gates.

The numbers are those of OpenClaw 2026.9, so that both programs agree on the same records. ``explain_refusal`` adds what
a score cannot know: recalls of a single day prove nothing, however many there are.
"""

from collections.abc import Iterable, Sequence
from math import inf, isfinite, log
from typing import NamedTuple

from mdrecall.core.ranking.days import day_number

#: The weights of the six parts, which are 1 together.
FREQUENCY, RELEVANCE, DIVERSITY, RECENCY, CONSOLIDATION, CONCEPTUAL = 0.24, 0.30, 0.15, 0.15, 0.10, 0.06
#: After as many days a recall counts half, unless a setting says otherwise, and so does a hit of a phase.
HALF_LIFE_DAYS = 14.0
#: From here on more signals, queries, days, days between the first and the last, and tags add nothing.
_FULL_SIGNALS, _FULL_QUERIES, _FULL_DAYS, _FULL_SPAN_DAYS, _FULL_TAGS = 10, 5, 5, 7.0, 6
#: A part of the consolidation is the number of days, the other the span between them. One day alone is a fixed value.
_DAYS_SHARE, _SPAN_SHARE, _ONE_DAY = 0.55, 0.45, 0.2
#: As many grounded signals make a text as consolidated as it can be.
_FULL_GROUNDED = 3
#: What OpenClaw's nightly phases can add at most, and how many of their hits it takes.
_LIGHT_BOOST, _REM_BOOST, _FULL_HITS = 0.06, 0.09, 6
_MS_A_DAY = 86_400_000.0
#: Importance of a promoted entry: OpenClaw writes nothing below 3, because the text has passed its gates.
_MIN_IMPORTANCE, _MAX_IMPORTANCE = 3, 10
#: Text of such origin is never promoted: it would speak for the user in every later session.
BLOCKED_ORIGINS = frozenset(("untrusted", "system"))


class PhaseHits(NamedTuple):
    """How often a nightly phase of OpenClaw has met a text, and when last."""

    hits: int = 0
    last_ms: float | None = None


class Record(NamedTuple):
    """What is known about the recalls of a text."""

    key: str
    path: str
    start_line: int
    end_line: int
    snippet: str = ""
    """The text, on one line."""
    recalls: int = 0
    daily: int = 0
    """How many notes of the last days say it."""
    grounded: int = 0
    total_score: float = 0.0
    max_score: float = 0.0
    queries: int = 0
    """How many different queries have found it."""
    first_ms: float | None = None
    last_ms: float | None = None
    days: tuple[str, ...] = ()
    """The days of all signals, as ``YYYY-MM-DD``."""
    recall_days: tuple[str, ...] = ()
    """The days of the recalls alone."""
    tags: tuple[str, ...] = ()
    origin: str = ""
    session_kind: str = ""
    observed_ms: float | None = None
    """When OpenClaw saw who wrote it."""
    claim_hash: str = ""
    promoted_on: str = ""
    """When it was promoted; empty if it was not."""
    light: PhaseHits = PhaseHits()
    rem: PhaseHits = PhaseHits()

    @property
    def signals(self) -> int:
        return self.recalls + self.daily + self.grounded


class Components(NamedTuple):
    """The six parts of a score, each from 0 to 1."""

    frequency: float
    relevance: float
    diversity: float
    recency: float
    consolidation: float
    conceptual: float


class Candidate(NamedTuple):
    """A record with its score."""

    record: Record
    score: float
    age_days: float
    """Days since the last recall."""
    components: Components


class Gates(NamedTuple):
    """What a candidate must reach."""

    min_score: float = 0.75
    min_signals: int = 3
    min_queries: int = 3
    max_age_days: float | None = 30.0
    min_days: int = 2
    """On how many different days it must have been recalled. OpenClaw asks for none."""


def score_record(record: Record, now_ms: float, half_life_days: float = HALF_LIFE_DAYS) -> Candidate:
    """Return a record with its score at a moment."""
    age_days = 0.0 if record.last_ms is None else max(0.0, (now_ms - record.last_ms) / _MS_A_DAY)
    parts = Components(
        frequency=_grow(record.signals, _FULL_SIGNALS),
        relevance=_clamp(record.total_score / max(1, record.signals)),
        diversity=_clamp(record.queries / _FULL_QUERIES),
        recency=_halve(age_days, half_life_days),
        consolidation=max(_consolidate(record.days), _clamp(record.grounded / _FULL_GROUNDED)),
        conceptual=_clamp(len(record.tags) / _FULL_TAGS),
    )
    weights = Components(FREQUENCY, RELEVANCE, DIVERSITY, RECENCY, CONSOLIDATION, CONCEPTUAL)
    weighted = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    boost = _boost(record.light, now_ms, _LIGHT_BOOST) + _boost(record.rem, now_ms, _REM_BOOST)
    return Candidate(record, _clamp(weighted + _clamp(boost)), age_days, parts)


def rank(records: Iterable[Record], now_ms: float, half_life_days: float = HALF_LIFE_DAYS) -> list[Candidate]:
    """Return all records with a signal as candidates, best first."""
    found = [score_record(record, now_ms, half_life_days) for record in records if record.signals > 0]
    return sorted(found, key=lambda one: (-one.score, -one.record.recalls, one.record.path, one.record.start_line))


def passes_gates(candidate: Candidate, gates: Gates) -> bool:
    """True if a candidate reaches OpenClaw's thresholds."""
    return not any(_find_misses(candidate, gates))


def explain_refusal(candidate: Candidate, gates: Gates) -> str:
    """Return why the numbers of a candidate are not enough; empty if they are."""
    record = candidate.record
    if record.origin in BLOCKED_ORIGINS:
        return f"its origin is {record.origin}"
    misses = [*_find_misses(candidate, gates)]
    if len(set(record.recall_days)) < gates.min_days:
        misses.append(f"recalled on {_count(len(set(record.recall_days)), 'day')}, not on {gates.min_days}")
    return "; ".join(misses)


def importance_of(score: float) -> int:
    """Return the importance that a promoted entry is given, 3 to 10."""
    return min(_MAX_IMPORTANCE, max(_MIN_IMPORTANCE, int(score * 10 + 0.5)))


def _find_misses(candidate: Candidate, gates: Gates) -> Iterable[str]:
    record = candidate.record
    if candidate.score < gates.min_score:
        yield f"score {candidate.score:.3f} is below {gates.min_score:g}"
    if record.signals < gates.min_signals:
        yield f"{_count(record.signals, 'signal')}, fewer than {gates.min_signals}"
    if record.queries < gates.min_queries:
        yield f"found by {_count(record.queries, 'different query', 'different queries')}, not by {gates.min_queries}"
    if candidate.age_days > (inf if gates.max_age_days is None else gates.max_age_days):
        yield f"last recalled {candidate.age_days:.0f} days ago, more than {gates.max_age_days:g}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _clamp(value: float) -> float:
    return max(0.0, min(1.0, value)) if isfinite(value) else 0.0


def _grow(count: int, full: int) -> float:
    """Return how far a count has grown, quickly at first, to 1 at ``full``."""
    return _clamp(log(1 + max(0, count)) / log(1 + full))


def _halve(days: float, half_life_days: float = HALF_LIFE_DAYS) -> float:
    return _clamp(2.0 ** (-days / half_life_days))


def _boost(phase: PhaseHits, now_ms: float, most: float) -> float:
    if phase.last_ms is None:
        return 0.0
    return most * _grow(phase.hits, _FULL_HITS) * _halve(max(0.0, (now_ms - phase.last_ms) / _MS_A_DAY))


def _consolidate(days: Sequence[str]) -> float:
    """Return how well recalls are spread over days."""
    if not days:
        return 0.0
    numbers = sorted(number for day in days if (number := _day_number(day)) is not None)
    if len(numbers) < 2:
        return _ONE_DAY
    spacing = _clamp(log(len(numbers)) / log(_FULL_DAYS))
    span = _clamp((numbers[-1] - numbers[0]) / _FULL_SPAN_DAYS)
    return _clamp(_DAYS_SHARE * spacing + _SPAN_SHARE * span)


def _day_number(day: str) -> int | None:
    parts = day[:10].split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    return day_number(*map(int, parts))
