"""Find secrets by the rules, join those that overlap, and replace them by masks.

Every rule sees the whole text, never slices of it. A mask never spans lines, so a text keeps its number of lines. The
result is redacted again until nothing is found, so redacting twice changes nothing. That ends, because each round
removes characters that are not part of a mask.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from mdrecall.patterns import compile_later
from mdrecall.text.markdown import utf16_units
from mdrecall.text.redact.rules import RULES, Rule
from mdrecall.text.redact.user_patterns import compile_patterns

#: Increase it whenever the same text would be masked differently: everything stored is then indexed again.
REDACTION_VERSION = 3

#: The same numbers as OpenClaw's, so that a mask is the same wherever it was made: a secret of fewer UTF-16 units is
#: hidden entirely, of a longer one the first and the last are shown.
SHORTEST_SHOWN = 18
SHOWN_FIRST, SHOWN_LAST = 6, 4
ELLIPSIS, STARS = "…", "***"

#: User patterns are tried on overlapping pieces, so that the time of a slow one grows only in proportion to the text.
_PIECE, _STEP = 4096, 2048

# What hides a word from a pattern, and not from a reader: invisible characters inside it, and letters of full width.
_HIDDEN = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_INVISIBLE = compile_later(f"[{_HIDDEN}]")
_DISGUISES = compile_later(f"[{_HIDDEN}\uff10-\uff19\uff21-\uff3a\uff3f\uff41-\uff5a]")
# A wide letter or digit is as far from the plain one as all others are.
_WIDE = {code + 0xFEE0: chr(code) for code in range(ord("0"), ord("z") + 1) if chr(code).isalnum() or code == ord("_")}
_LINES = compile_later(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BREAK = compile_later(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_NOTHING = compile_later(rf"[*{ELLIPSIS}\s]*")
_TRAILING = ",;.:!?)]}>`*"
# Many rules share a hint, and a short text is searched for all of them in less time than it takes to ask each rule.
_RULES_OF_HINTS: dict[str, list[int]] = {}
for _number, _rule in enumerate(RULES):
    for _hint in _rule.hints:
        _RULES_OF_HINTS.setdefault(_hint, []).append(_number)


class Finding(NamedTuple):
    """A secret in a text, and the kind of the rule that found it; ``hide_all`` if nothing of it is shown."""

    start: int
    end: int
    kind: str
    hide_all: bool = False


def make_redactor(patterns: Sequence[str]) -> Callable[[str], str]:
    """Return what redacts a text by the built-in rules and those user patterns that can be used."""
    return partial(redact, more=compile_patterns(patterns)[0])


def make_fingerprint(patterns: Sequence[str]) -> str:
    """Return a short text that changes with the built-in rules and with the user patterns."""
    own = ""
    if patterns:
        # Slow to import, and most users have no patterns.
        import hashlib

        own = hashlib.sha256("\0".join(patterns).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"r{REDACTION_VERSION}{own}"


def redact(text: str, *, more: Sequence[re.Pattern[str]] = ()) -> str:
    """Return the text with every secret masked and its lines kept. ``more`` are user patterns."""
    while found := find(text, more=more):
        text = mask_all(text, found)
    return text


def mask_all(text: str, found: Iterable[Finding]) -> str:
    """Return a text with these secrets masked."""
    parts, end = [], 0
    for one in found:
        parts += [text[end : one.start], STARS if one.hide_all else mask(text[one.start : one.end])]
        end = one.end
    return "".join((*parts, text[end:]))


def find(text: str, *, more: Sequence[re.Pattern[str]] = ()) -> list[Finding]:
    """Return the secrets of a text in order, without overlaps and without masks."""
    found = _find_plainly(text, more)
    if _DISGUISES.search(text):
        places = [at for at, char in enumerate(text) if not _INVISIBLE.match(char)]
        plain = "".join(text[at] for at in places).translate(_WIDE)
        found += [
            one._replace(start=places[one.start], end=places[one.end - 1] + 1) for one in _find_plainly(plain, more)
        ]
    return [one for one in _join(found) if not _is_masked(text, one.start, one.end)]


def _find_plainly(text: str, more: Sequence[re.Pattern[str]]) -> list[Finding]:
    lower = text.lower()
    found = [Finding(*span, "private key", True) for span in _find_key_blocks(text)] if "private key" in lower else []
    for number in {number for hint, numbers in _RULES_OF_HINTS.items() if hint in lower for number in numbers}:
        found += _find_by_rule(RULES[number], text)
    for pattern in more:
        found += [Finding(*span, "own pattern") for span in _find_by_pattern(pattern, text)]
    joined = _join(piece for one in found for piece in _split_lines(text, one))
    return [one for one in joined if not _is_masked(text, one.start, one.end)]


def mask(secret: str) -> str:
    """Return ``***``, or for eighteen UTF-16 units and more the first six and the last four, in whole characters."""
    if utf16_units(secret) < SHORTEST_SHOWN:
        return STARS
    first, last = secret[:SHOWN_FIRST], secret[-SHOWN_LAST:]
    while utf16_units(first) > SHOWN_FIRST:
        first = first[:-1]
    while utf16_units(last) > SHOWN_LAST:
        last = last[1:]
    return first + ELLIPSIS + last


def _find_by_rule(rule: Rule, text: str) -> Iterator[Finding]:
    for match in rule.compile().finditer(text):
        start, end = _secret_span(match)
        if rule.trim and (bare := text[start:end].rstrip(_TRAILING)):
            end = start + len(bare)
        if start < end and (rule.check is None or rule.check(match, text[start:end])):
            yield Finding(start, end, rule.name, rule.hide_all)


def _find_by_pattern(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a pattern. A match counts in the piece in whose first half it begins."""
    for at in range(0, max(len(text), 1), _STEP):
        is_last = at + _PIECE >= len(text)
        for match in pattern.finditer(text, at, min(at + _PIECE, len(text))):
            if match.start() >= at + _STEP and not is_last:
                break
            yield _secret_span(match)
        if is_last:
            return


def _secret_span(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of the last group that is not empty, or of the whole match."""
    for group in range(match.re.groups, 0, -1):
        if match[group]:
            return match.span(group)
    return match.span()


def _split_lines(text: str, one: Finding) -> Iterator[Finding]:
    """Yield a secret of several lines as one secret for each line, of which nothing is shown."""
    if not _BREAK.search(text, one.start, one.end):
        yield one
        return
    for line in _LINES.finditer(text, one.start, one.end):
        if bare := line[0].strip():
            start = line.start() + line[0].index(bare)
            yield Finding(start, start + len(bare), one.kind, True)


def _join(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings in order; those that overlap or touch become one, with the kind of the first."""
    joined: list[Finding] = []
    for one in sorted(found):
        if joined and one.start <= joined[-1].end:
            last = joined[-1]
            joined[-1] = last._replace(end=max(last.end, one.end), hide_all=last.hide_all or one.hide_all)
        elif one.start < one.end:
            joined.append(one)
    return joined


def _is_masked(text: str, start: int, end: int) -> bool:
    """True if a span is a mask, or the part of one that is shown."""
    if _NOTHING.fullmatch(text, start, end):
        return True
    first, dots, last = text[start:end].partition(ELLIPSIS)
    if dots:
        return _is_shown(first, SHOWN_FIRST) and _is_shown(last, SHOWN_LAST)
    is_first = _is_shown(first, SHOWN_FIRST) and text[end : end + 1] == ELLIPSIS
    return is_first or (_is_shown(first, SHOWN_LAST) and start > 0 and text[start - 1] == ELLIPSIS)


def _is_shown(part: str, most: int) -> bool:
    """True if a part is as long as what a mask shows of a secret."""
    return most - 1 <= utf16_units(part) <= most


_MARK = compile_later(r"-{4,5} ?(BEGIN|END) [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5}", re.IGNORECASE)
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Subject):[^\r\n]{0,80}[\r\n]"
_BETWEEN = r"[\s>|#*\"'+,;:\\]*+"
_BODY = compile_later(
    rf"(?>(?:\s*{_HEADER})*)(?:(?>(?:{_BETWEEN}[A-Za-z0-9+/=]{{16,}}+)+)(?:{_BETWEEN}[A-Za-z0-9+/=]++)?)?",
    re.IGNORECASE,
)


def _find_key_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of every key: with its marks if it is on one line, else what is between them."""
    begin: re.Match[str] | None = None
    for mark in (*_MARK.finditer(text), None):
        is_end = mark is not None and mark[1].upper() == "END"
        if begin is not None:
            first, start = begin.span()
            if mark and is_end:
                stop, last = mark.span()
            else:
                body = _BODY.match(text, start, mark.start() if mark else len(text))
                stop = last = body.end() if body else start
            is_one_line = text.find("\n", start, stop) < 0 and text.find("\r", start, stop) < 0
            if is_end or text[start:stop].strip():
                yield (first, last) if is_one_line else (start, stop)
        begin = None if is_end else mark
