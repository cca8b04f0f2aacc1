"""Finds what the rules find, joins what overlaps and puts masks in its place.

Every rule looks at the whole text, never at slices of it, and a mask is never longer than one line, so the lines of a
text stay as many as they were. What was masked is looked at again until nothing is found, which is why redacting
twice changes nothing. That ends: each round takes characters away that are not part of a mask.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mdrecall.core.redact import pem
from mdrecall.core.redact.rules import RULES, Rule

SHORTEST_SHOWN = 18
SHOWN_FIRST, SHOWN_LAST = 6, 4
ELLIPSIS, STARS = "…", "***"

#: Patterns of the user are tried on pieces of this size, so that a slow one is slow in proportion to the text only.
_PIECE, _STEP = 4096, 2048

_LINES = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BREAK = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_NOTHING = re.compile(rf"[*{ELLIPSIS}\s]*")
_TRAILING = ",;.:!?)]}>`*"


class Finding(NamedTuple):
    """Characters that are a secret, and which rule says so."""

    start: int
    end: int
    kind: str
    whole: bool = False
    """Nothing of it is shown, however long it is."""


def redact(text: str, *, more: Sequence[re.Pattern[str]] = ()) -> str:
    """The text with every secret masked; it keeps its lines. ``more`` are patterns of the user."""
    while found := find(text, more=more):
        text = "".join(_masked(text, found))
    return text


def find(text: str, *, more: Sequence[re.Pattern[str]] = ()) -> list[Finding]:
    """The secrets of a text in order, without overlap and without what is masked already."""
    lower = text.lower()
    spans = [*pem.blocks(text, lower)]
    found = [Finding(start, end, "private key", True) for start, end in spans]
    for rule in RULES:
        if any(hint in lower for hint in rule.hints):
            found += _by_rule(rule, text)
    for pattern in more:
        found += [Finding(start, end, "own pattern") for start, end in _by_pattern(pattern, text)]
    joined = _join(piece for one in found for piece in _lines_of(text, one))
    return [one for one in joined if not _is_masked(text, one.start, one.end)]


def mask(secret: str) -> str:
    """``***``, or the first six and the last four UTF-16 units of at least eighteen; no character is cut in two."""
    if _units(secret) < SHORTEST_SHOWN:
        return STARS
    first, last = secret[:SHOWN_FIRST], secret[-SHOWN_LAST:]
    while _units(first) > SHOWN_FIRST:
        first = first[:-1]
    while _units(last) > SHOWN_LAST:
        last = last[1:]
    return first + ELLIPSIS + last


def _units(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text)


def _masked(text: str, found: Iterable[Finding]) -> Iterator[str]:
    end = 0
    for one in found:
        yield text[end : one.start]
        yield STARS if one.whole else mask(text[one.start : one.end])
        end = one.end
    yield text[end:]


def _by_rule(rule: Rule, text: str) -> Iterator[Finding]:
    for match in rule.compiled().finditer(text):
        start, end = _secret(match)
        end = _trimmed(text, start, end) if rule.trim else end
        if start < end and (rule.judge is None or rule.judge(match, text[start:end])):
            yield Finding(start, end, rule.name, rule.whole)


def _by_pattern(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """A match belongs to the piece in whose first half it begins, and may go on to the end of the piece."""
    for at in range(0, max(len(text), 1), _STEP):
        is_last = at + _PIECE >= len(text)
        for match in pattern.finditer(text, at, min(at + _PIECE, len(text))):
            if match.start() >= at + _STEP and not is_last:
                break
            yield _secret(match)
        if is_last:
            return


def _secret(match: re.Match[str]) -> tuple[int, int]:
    """The last group that is not empty, or all of it."""
    for group in range(match.re.groups, 0, -1):
        if match[group]:
            return match.span(group)
    return match.span()


def _trimmed(text: str, start: int, end: int) -> int:
    bare = text[start:end].rstrip(_TRAILING)
    return start + len(bare) if bare else end


def _lines_of(text: str, one: Finding) -> Iterator[Finding]:
    """A secret of several lines as one for each line, of which nothing is shown."""
    if not _BREAK.search(text, one.start, one.end):
        yield one
        return
    for line in _LINES.finditer(text, one.start, one.end):
        bare = line[0].strip()
        if bare:
            start = line.start() + line[0].index(bare)
            yield Finding(start, start + len(bare), one.kind, True)


def _join(found: Iterable[Finding]) -> list[Finding]:
    """In order, those that overlap or touch as one, under the name of the first."""
    joined: list[Finding] = []
    for one in sorted(found):
        if joined and one.start <= joined[-1].end:
            last = joined[-1]
            joined[-1] = last._replace(end=max(last.end, one.end), whole=last.whole or one.whole)
        elif one.start < one.end:
            joined.append(one)
    return joined


def _is_masked(text: str, start: int, end: int) -> bool:
    """Whether this is a mask, or the part of one that is shown."""
    if _NOTHING.fullmatch(text, start, end):
        return True
    secret = text[start:end]
    first, dots, last = secret.partition(ELLIPSIS)
    if dots:
        return _is_first(first) and _is_last(last)
    return (_is_first(secret) and text[end : end + 1] == ELLIPSIS) or (
        _is_last(secret) and text[start - 1 : start] == ELLIPSIS and start > 0
    )


def _is_first(shown: str) -> bool:
    return SHOWN_FIRST - 1 <= _units(shown) <= SHOWN_FIRST


def _is_last(shown: str) -> bool:
    return SHOWN_LAST - 1 <= _units(shown) <= SHOWN_LAST
