"""The user's own patterns (``logging.redactPatterns``): parsed as OpenClaw parses them, refused if they could hang.

A pattern is a regular expression that ignores case, or ``/expression/flags``. Python's engine tries every way to match,
so a pattern is refused if a text could have too many: the check reads the pattern from left to right and multiplies the
lengths of repetitions that can share the same characters. A group that it cannot read is refused as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from mdrecall.patterns import compile_later

#: A longer pattern is most likely a mistake, and checking it takes time.
MAX_PATTERN_CHARS = 1000
#: A repetition with a limit up to this is bounded; a higher limit counts as none.
MAX_BOUND = 64
#: How many ways there may be to match from one place. Up to here a text of 100,000 characters takes seconds at most.
MAX_WAYS = 8192
#: An unlimited repetition can end in as many places as a text is searched in at once.
_UNLIMITED_WAYS = 4096

_SLASHED = compile_later(r"/(.*)/([a-z]*)", re.DOTALL)
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "g": re.RegexFlag(0), "u": re.RegexFlag(0),
          "y": re.RegexFlag(0)}  # fmt: skip
_SCRIPTS_GROUP = compile_later(r"\(\?<(?=[A-Za-z_])")
_BY_ALPHABET = compile_later(r"\\[bBwWdD]")
_PART = compile_later(
    r"(?P<open>\((?:\?:|\?P<\w+>|(?!\?)))|(?P<look>\(\?<?[=!])|(?P<same>\\[1-9]\d?|\(\?P=\w+\))|(?P<edge>\\[AbBZ]|[$^])"
    r"|(?P<char>\\(?:N\{[^}]*\}|x.{2}|u.{4}|U.{8}|0[0-7]{0,2}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\()\[|])",
    re.DOTALL,
)
_REPEAT = compile_later(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})[?+]?")
#: One character of each sort represents all of them.
_SAMPLE = "".join(map(chr, range(256))) + "猫あ가яλ٣ 　😀"
_NESTED = "a repetition inside a repetition, or a choice inside one, can take forever"
_AMBIGUOUS = "several repetitions of the same characters can match in too many ways; give them a limit such as {0,64}"


class _Step(NamedTuple):
    """One element of a pattern: its characters, and True if it must match one of them.

    ``lengths`` is how many characters of a row it may leave to the next element, ``choices`` in how many ways it can
    match one and the same text.
    """

    chars: frozenset[str]
    required: bool
    lengths: int = 1
    choices: int = 1


def compile_patterns(patterns: Sequence[str]) -> tuple[tuple[re.Pattern[str], ...], tuple[str, ...]]:
    """Compile every pattern, once with ASCII letters and once with all letters for ``\\b``, ``\\w`` and ``\\d``.

    Return the patterns that can be used, and the problem of each that cannot.
    """
    good: list[re.Pattern[str]] = []
    problems: list[str] = []
    for pattern in patterns:
        try:
            good += _compile(pattern)
        except (ValueError, re.error, OverflowError, RecursionError) as error:
            problems.append(f"{pattern if len(pattern) <= 80 else pattern[:79] + '…'!r}: {error}")
    return tuple(good), tuple(problems)


def _compile(pattern: str) -> list[re.Pattern[str]]:
    if not pattern.strip():
        raise ValueError("the pattern is empty")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"the pattern has more than {MAX_PATTERN_CHARS} characters")
    expression, flags = _split_flags(pattern)
    found = [re.compile(expression, flags)]
    if _count_ways(_PatternReader(found[0]).read()) > MAX_WAYS:
        raise ValueError(_AMBIGUOUS)
    if _BY_ALPHABET.search(expression):
        found.append(re.compile(expression, flags | re.ASCII))
    return found


def _split_flags(pattern: str) -> tuple[str, re.RegexFlag]:
    expression, flags = pattern, re.RegexFlag(re.IGNORECASE)
    if slashed := _SLASHED.fullmatch(pattern):
        expression, flags = slashed[1], re.RegexFlag(0)
        for letter in slashed[2]:
            if letter not in _FLAGS:
                raise ValueError(f"there is no flag {letter!r}; the flags are {', '.join(sorted(_FLAGS))}")
            flags |= _FLAGS[letter]
    return _SCRIPTS_GROUP.sub("(?P<", expression), flags


def _count_ways(steps: Sequence[_Step], *, is_inside: bool = False) -> int:
    """Return in how many ways steps can match; a step that ends before a character that it cannot match has one.

    Anything may follow a group inside of others. At the end of a pattern a match is found, and nothing is retried.
    """
    ways, follow, may_end = 1, frozenset[str](), is_inside
    for step in reversed(steps):
        ways *= step.choices * (step.lengths if may_end or step.chars & follow else 1)
        follow = step.chars | (frozenset() if step.required else follow)
        may_end = may_end and not step.required
    return min(ways, MAX_WAYS + 1)


def _check_row(steps: Sequence[_Step]) -> None:
    """Raise ``ValueError`` if steps in a row can share out the same characters in too many ways."""
    running: list[tuple[frozenset[str], int]] = []
    for step in steps:
        ways = step.lengths * max((ways for chars, ways in running if chars & step.chars), default=1)
        if ways > MAX_WAYS:
            raise ValueError(_AMBIGUOUS)
        if step.required:
            running = [(chars, ways) for chars, ways in running if chars & step.chars]
        if step.lengths > 1:
            running.append((step.chars, ways))


@cache
def _find_chars(part: str, flags: re.RegexFlag, extra: str) -> frozenset[str]:
    """Return the characters of the sample that a part of a pattern matches; all if it is none of them."""
    sample = _SAMPLE + extra
    return frozenset(re.findall(part, sample, flags)) or frozenset(sample)


def _join_chars(steps: Iterable[_Step]) -> frozenset[str]:
    return frozenset[str]().union(*(step.chars for step in steps))


class _PatternReader:
    """Reads a valid pattern as steps."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._text, self._flags, self._names = pattern.pattern, re.RegexFlag(pattern.flags), pattern.groupindex
        self._extra = "" if pattern.pattern.isascii() else pattern.pattern
        self._at = 0
        self._groups: list[list[_Step]] = [[]]

    def read(self) -> list[_Step]:
        """Return the steps up to the end of the pattern, or of the group that is open."""
        branches: list[list[_Step]] = [[]]
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] == "|":
                self._at += 1
                branches.append([])
            else:
                branches[-1] += self._repeat(self._read_part())
        self._at += 1
        for steps in branches:
            _check_row(steps)
        return branches[0] if len(branches) == 1 else [_choose(branches)]

    def _read_part(self) -> list[_Step]:
        part = _PART.match(self._text, self._at)
        if part is None:
            raise ValueError(f"{self._text[self._at : self._at + 4]!r} cannot be checked")
        self._at = part.end()
        if part.lastgroup == "char":
            return [_Step(_find_chars(part[0], self._flags, self._extra), True)]
        if part.lastgroup == "edge":
            return []
        if part.lastgroup == "same":
            name = part[0].strip("\\()?P=")
            number = int(name) if name.isdecimal() else self._names[name]
            if number >= len(self._groups):
                raise ValueError(f"{part[0]!r} cannot be checked")
            return [step._replace(required=False) for step in self._groups[number]]
        return self._read_group(part[0])

    def _read_group(self, opening: str) -> list[_Step]:
        own: list[_Step] = []
        if opening == "(" or opening.startswith("(?P"):
            self._groups.append(own)
        steps = self.read()
        own += steps
        if opening.endswith(("=", "!")):
            return [_Step(frozenset(), False, choices=_count_ways(steps, is_inside=True))]
        return steps

    def _repeat(self, steps: list[_Step]) -> list[_Step]:
        """Return steps with the repetition that follows them, as one step."""
        repeat = _REPEAT.match(self._text, self._at)
        if repeat is None:
            return steps
        self._at = repeat.end()
        least, most = _read_limits(repeat)
        inside = _count_ways(steps, is_inside=True)
        varies = any(step.lengths > 1 or step.choices > 1 for step in steps)
        if most > MAX_BOUND and varies:
            raise ValueError(_NESTED)
        lengths = _UNLIMITED_WAYS if most > MAX_BOUND else most - least + 1
        return [
            _Step(
                _join_chars(steps),
                least > 0 and any(step.required for step in steps),
                lengths * max((step.lengths for step in steps), default=1),
                1 if inside == 1 else min(inside**most, MAX_WAYS + 1),
            )
        ]


def _choose(branches: Sequence[Sequence[_Step]]) -> _Step:
    """Return a choice as one step: branches that can begin with the same character are tried one after the other."""
    counts: Counter[str] = Counter()
    for steps in branches:
        first = next((place for place, step in enumerate(steps, 1) if step.required), None)
        # A branch that may be empty is tried before every character.
        for char in _join_chars(steps[:first]) | frozenset("" if first else _SAMPLE):
            counts[char] += _count_ways(steps, is_inside=True)
    return _Step(
        _join_chars(step for steps in branches for step in steps),
        all(any(step.required for step in steps) for steps in branches),
        max(step.lengths for steps in branches for step in steps) if any(branches) else 1,
        max(counts.values()),
    )


def _read_limits(repeat: re.Match[str]) -> tuple[int, int]:
    """Return the least and the most times of a repetition; without a limit, more than is bounded."""
    sign = repeat[0][0]
    if sign != "{":
        return int(sign == "+"), 1 if sign == "?" else MAX_BOUND + 1
    least = int(repeat[1] or 0)
    return least, int(repeat[3] or MAX_BOUND + 1) if repeat[2] else least
