"""Find changed facts among many statements without comparing all of them with each other."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mdrecall.core.life.change import Change, find_change
from mdrecall.core.life.statements import Statement
from mdrecall.core.ranking.days import Place, is_newer

#: A word of more statements than this says little about what one of them is about.
_MAX_POSTINGS = 20
#: Of each statement, its rarest words are looked up; two statements about the same thing share one of them.
_RAREST = 3
#: A few seconds of comparing; the report says what is left.
MAX_COMPARED = 100_000
#: A statement that differs from this many others is an entry of a list or a log, not a contradiction.
_SERIES = 4


class Claim(NamedTuple):
    """A statement of a note, and where it is."""

    statement: Statement
    place: Place


class Conflict(NamedTuple):
    """Two claims of which only one can hold."""

    old: Claim
    new: Claim
    change: Change
    is_ordered: bool
    """True if the notes tell which of them is newer."""


class Conflicts(NamedTuple):
    """What contradicts itself."""

    found: tuple[Conflict, ...]
    is_complete: bool = True
    """False if there was too much to compare."""


def find_conflicts(claims: Sequence[Claim], *, max_compared: int = MAX_COMPARED) -> Conflicts:
    """Return the claims that contradict each other, in their order. Lists and logs of one thing are left out."""
    found: list[tuple[int, int, Conflict]] = []
    compared = 0
    for first, second in _find_candidates(claims):
        compared += 1
        if compared > max_compared:
            break
        if conflict := _compare(claims[first], claims[second]):
            found.append((first, second, conflict))
    partners: dict[str, set[str]] = defaultdict(set)
    for first, second, _ in found:
        one, other = claims[first].statement.text, claims[second].statement.text
        partners[one].add(other)
        partners[other].add(one)
    series = {text for text, others in partners.items() if len(others) >= _SERIES}
    kept = {
        (conflict.old.statement.text, conflict.new.statement.text): conflict
        for first, second, conflict in found
        if not series & {claims[first].statement.text, claims[second].statement.text}
    }
    return Conflicts(tuple(kept.values()), compared <= max_compared)


def _compare(one: Claim, other: Claim) -> Conflict | None:
    """Return the conflict of two claims, the older one first where that is known."""
    if is_newer(one.place, other.place):
        one, other = other, one
    change = find_change(one.statement, other.statement)
    return Conflict(one, other, change, is_newer(other.place, one.place)) if change else None


def _find_candidates(claims: Sequence[Claim]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share one of their rarest words, each once."""
    postings: dict[str, list[int]] = defaultdict(list)
    for number, claim in enumerate(claims):
        for key in claim.statement.subject_keys:
            postings[key].append(number)
    for number, claim in enumerate(claims):
        rarest = sorted(claim.statement.subject_keys, key=lambda key: (len(postings[key]), key))
        shared = [key for key in rarest if 1 < len(postings[key]) <= _MAX_POSTINGS][:_RAREST]
        for other in sorted({other for key in shared for other in postings[key] if other > number}):
            yield number, other
