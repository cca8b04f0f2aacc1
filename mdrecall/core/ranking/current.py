"""What holds comes before what it replaced: lines that the notes mark, and changed facts among the results.

Both stay results, because who asks may want to know what was said before.
"""

from collections.abc import Sequence

from mdrecall.core.life.statements import Statement, read_statement, read_statements
from mdrecall.core.ranking.days import Moment, Place, chunk_day, is_newer
from mdrecall.core.ranking.recency import OLDEST_FACTOR, age_among
from mdrecall.core.ranking.snippet import heading_above
from mdrecall.core.ranking.stages import Candidate, RankingContext, identifier_share, shown_span
from mdrecall.core.text.passages import is_role
from mdrecall.core.text.words import fold, is_unspaced, tokens
from mdrecall.named_tuple import NamedTuple

# Only what may become a result is compared, and of a long passage only its first statements: it bounds the work.
_MAX_COMPARED = 8
_MAX_STATEMENTS = 8
# A stem may end otherwise than its word; so much of both is the same.
_SURE_CHARS = 3
# A statement that answers a query holds more than one of its words, if it has as many.
_MIN_WORDS = 2


class _Claim(NamedTuple):
    """What a candidate states about what the query asks for."""

    entry: Candidate
    place: Place
    statements: tuple[Statement, ...]


def prefer_current(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Put a line that replaces another one before it, and what the notes mark as replaced below its equals.

    A query that names a time asks for what held then, so its results stay as they are.
    """
    if len(candidates) < 2 or context.times.ranges:
        return list(candidates)
    count = min(len(candidates), max(context.options.max_results, 2), _MAX_COMPARED)
    first = [_lower_replaced(entry, context) for entry in candidates[:count]]
    ordered = _sink_replaced(_lift_newer(first, context))
    return [*ordered, *candidates[count:]]


def _lower_replaced(entry: Candidate, context: RankingContext) -> Candidate:
    return age_among(entry, OLDEST_FACTOR, context) if entry.chunk.marks.is_superseded else entry


def _sink_replaced(entries: list[Candidate]) -> list[Candidate]:
    """Move what is marked as replaced below the candidates after it that are as good."""
    ordered = list(entries)
    for entry in reversed(entries):
        if entry.chunk.marks.is_superseded:
            place = ordered.index(entry)
            below = place + 1
            while below < len(ordered) and _is_as_good(ordered[below], entry):
                below += 1
            ordered.insert(below, entry)
            del ordered[place]
    return ordered


def _is_as_good(other: Candidate, entry: Candidate) -> bool:
    marks = entry.chunk.marks
    if _naming_of(entry) > _naming_of(other):
        return False
    replaces = bool(marks.superseded_by) and marks.superseded_by.partition("#")[0] == other.chunk.path
    return not other.chunk.marks.is_superseded and (replaces or other.shown_score >= entry.shown_score)


def _naming_of(entry: Candidate) -> tuple[float, float]:
    """Return how much of what the query names a candidate is: its file or heading, and identifiers."""
    return entry.features.naming if entry.features else 0.0, identifier_share(entry)


def _lift_newer(entries: list[Candidate], context: RankingContext) -> list[Candidate]:
    """Move a newer statement before the older one that it changes, and let it count as much."""
    asked = read_statement(context.text)
    beginnings = sorted({key[:_SURE_CHARS] for key in asked.subject_keys if key[0] != "="}) if asked else []
    # To look for beginnings of words costs less than to read statements, and most queries have no two to compare.
    least = 1 if any(map(is_unspaced, "".join(beginnings))) else min(_MIN_WORDS, len(beginnings))
    found = [(entry, _find_lines(entry, beginnings, least)) for entry in entries]
    if sum(bool(lines) for _, lines in found) < 2:
        return entries
    claims = [_Claim(entry, _place_of(entry), _read_claims(entry, lines)) for entry, lines in found]
    place = 0
    while place < len(claims):
        newer = next(
            (n for n in range(place + 1, len(claims)) if _replaces(claims[n], claims[place], context.text)), None
        )
        if newer is None:
            place += 1
            continue
        claim = claims.pop(newer)
        claims.insert(place, claim._replace(entry=_count_as_much(claim.entry, claims[place].entry)))
        # The lifted one may itself be older than another; each step brings a newer day to this place.
    return [claim.entry for claim in claims]


def _count_as_much(newer: Candidate, older: Candidate) -> Candidate:
    is_reranked = newer.reranked is not None and older.reranked is not None
    return newer._replace(
        worth=max(newer.worth, older.worth),
        score=max(newer.score, older.score),
        reranked=max(newer.reranked or 0.0, older.reranked or 0.0) if is_reranked else newer.reranked,
    )


def _find_lines(entry: Candidate, beginnings: Sequence[str], least: int) -> list[str]:
    """Return the lines of a candidate that hold at least ``least`` words of the query.

    A conversation between people has none: a sentence in it seldom says what it is about, and what one person says does
    not replace what another has said.
    """
    if entry.passage.speaker and not is_role(entry.passage.speaker):
        return []
    span = shown_span(entry)
    text = entry.chunk.text[span.start : span.end]
    if _count_held(fold(text), beginnings) < least:
        return []
    return [line for line in text.split("\n") if _count_held(fold(line), beginnings) >= least]


def _read_claims(entry: Candidate, lines: Sequence[str]) -> tuple[Statement, ...]:
    """Return the statements of a candidate in some of its lines."""
    if not lines:
        return ()
    heading = heading_above(entry.chunk.trail, entry.chunk.text, entry.passage).rpartition(" › ")[2]
    return tuple(read_statements("\n".join(lines), heading)[:_MAX_STATEMENTS])


def _count_held(line: str, beginnings: Sequence[str]) -> int:
    """Return how many of these beginnings of words a line holds."""
    return sum([beginning in line for beginning in beginnings])


def _replaces(newer: _Claim, older: _Claim, query: str) -> bool:
    if not newer.statements or not older.statements or not is_newer(newer.place, older.place):
        return False
    # What holds for one project says nothing about another.
    if newer.entry.chunk.marks.project != older.entry.chunk.marks.project:
        return False
    if _naming_of(older.entry) > _naming_of(newer.entry):
        return False
    from mdrecall.core.life.change import find_change

    changes = (find_change(old, new) for old in older.statements for new in newer.statements)
    # Who names a number looks for it, though another one holds today.
    return any(change and not (change.kind in ("number", "date") and _names(query, change.old)) for change in changes)


def _names(query: str, value: str) -> bool:
    return not set(map(fold, tokens(query))).isdisjoint(map(fold, tokens(value)))


def _place_of(entry: Candidate) -> Place:
    chunk = entry.chunk
    changed_day = Moment(chunk.mtime_ns / 1e6).today
    return Place(chunk.path, chunk.line(entry.passage.first_line), chunk_day(chunk), changed_day)
