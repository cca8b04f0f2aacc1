"""The user's own patterns (``logging.redactPatterns``): parsed as OpenClaw parses them, refused if they could hang.

A pattern is a regular expression that ignores case, or ``/expression/flags``. A pattern that could take exponential or
polynomial time is recognised by its form: a repetition inside a repetition, two unlimited repetitions in a row that can
match the same characters, or more ways to match one text than can be tried.
"""

import re
import re._constants as ops  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

#: A longer pattern is most likely a mistake, and checking it takes time.
MAX_PATTERN_CHARS = 1000
#: A repetition with a limit up to this is bounded; a higher limit counts as none.
MAX_BOUND = 64
#: How many ways there may be to match from one place. Up to here a text of 100,000 characters takes seconds at most.
MAX_WAYS = 8192
#: An unlimited repetition can end in as many places as a text is searched in at once.
_UNLIMITED_WAYS = 4096

_SLASHED = re.compile(r"/(.*)/([a-z]*)", re.DOTALL)
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "g": re.RegexFlag(0), "u": re.RegexFlag(0),
          "y": re.RegexFlag(0)}  # fmt: skip
_SCRIPTS_GROUP = re.compile(r"\(\?<(?=[A-Za-z_])")
_BY_ALPHABET = re.compile(r"\\[bBwWdD]")
#: One character of each sort represents all of them.
_SAMPLE = frozenset(map(chr, range(256))) | frozenset("猫あ가яλ٣ 　😀")
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_NESTED = "a repetition inside a repetition, or a choice inside one, can take forever"
_CHAINED = "two unlimited repetitions of the same characters can take forever; give them a limit such as {0,64}"
_AMBIGUOUS = "a repetition inside a repetition, or several of the same characters, can match in too many ways"

Tree: TypeAlias = Iterable[tuple[Any, Any]]


class Compiled(NamedTuple):
    """The patterns that can be used, and the problem of each that cannot."""

    patterns: tuple[re.Pattern[str], ...]
    problems: tuple[str, ...]


class _Step(NamedTuple):
    """One element of a pattern: its characters, whether it must match one, and how many lengths it can have."""

    chars: frozenset[str]
    required: bool
    unlimited: bool
    lengths: int = 1


def compile_patterns(patterns: Sequence[str]) -> Compiled:
    """Compile every pattern, once with ASCII letters and once with all letters for ``\\b``, ``\\w`` and ``\\d``."""
    good: list[re.Pattern[str]] = []
    problems: list[str] = []
    for pattern in patterns:
        try:
            good += _compile(pattern)
        except (ValueError, re.error, OverflowError, RecursionError) as error:
            problems.append(f"{_quote(pattern)}: {error}")
    return Compiled(tuple(good), tuple(problems))


def _compile(pattern: str) -> list[re.Pattern[str]]:
    if not pattern.strip():
        raise ValueError("the pattern is empty")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"the pattern has more than {MAX_PATTERN_CHARS} characters")
    expression, flags = _split_flags(pattern)
    tree = parser.parse(expression, flags)
    any_case = bool(tree.state.flags & re.IGNORECASE) or any(map(_ignores_case, _inside(tree)))
    _spell_out_references(tree, any_case, {})
    if reason := _find_danger(tree, any_case):
        raise ValueError(reason)
    if max(_count_ways(tree, frozenset(), any_case), _count_in_row(_steps(tree, any_case))) > MAX_WAYS:
        raise ValueError(_AMBIGUOUS)
    found = [re.compile(expression, flags)]
    if _BY_ALPHABET.search(expression) and not tree.state.flags & re.ASCII:
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


def _quote(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 80 else pattern[:79] + "…")


def _ignores_case(node: tuple[Any, Any]) -> bool:
    op, args = node
    return op is ops.SUBPATTERN and bool(args[1] & re.IGNORECASE)


def _spell_out_references(tree: Any, any_case: bool, groups: dict[int, tuple[Any, Any]]) -> None:
    """Put in the place of each reference to a group, such as ``\\1``, what it can match: characters of that group."""
    for place, (op, args) in enumerate(tree):
        for branch in _children(op, args):
            _spell_out_references(branch, any_case, groups)
        if op is ops.SUBPATTERN and args[0]:
            chars = frozenset().union(*(step.chars for step in _steps(args[3], any_case)))
            # The capital of ß is SS, which is two characters.
            items = [(ops.LITERAL, ord(char)) for char in frozenset().union(*chars)]
            groups[args[0]] = ops.MAX_REPEAT, (*args[3].getwidth(), [(ops.IN, items)] if items else [])
        elif op is ops.GROUPREF:
            tree[place] = groups[args]


def _find_danger(tree: Tree, any_case: bool) -> str:
    """Return why a pattern could hang; empty if it cannot."""
    tree = list(tree)
    for op, args in tree:
        if op in _REPEATS and args[1] > MAX_BOUND and any(_varies(inner) for inner in _inside(args[2])):
            return _NESTED
        for branch in _children(op, args):
            if reason := _find_danger(branch, any_case):
                return reason
    return _CHAINED if _is_chained(_steps(tree, any_case)) else ""


def _is_chained(steps: Iterable[_Step]) -> bool:
    running: list[frozenset[str]] = []
    for step in steps:
        if step.unlimited and any(chars & step.chars for chars in running):
            return True
        if step.required:
            running = [chars for chars in running if chars & step.chars]
        if step.unlimited:
            running.append(step.chars)
    return False


def _count_lengths(args: Any) -> int:
    """Return how many lengths a repetition can have."""
    return _UNLIMITED_WAYS if args[1] > MAX_BOUND else max(1, int(args[1]) - int(args[0]) + 1)


def _count_in_row(steps: Iterable[_Step]) -> int:
    """Return the most ways in which repetitions in a row can share out the same characters."""
    most, running = 1, list[tuple[frozenset[str], int]]()
    for step in steps:
        ways = step.lengths * max((ways for chars, ways in running if chars & step.chars), default=1)
        most = max(most, ways)
        if step.required:
            running = [(chars, ways) for chars, ways in running if chars & step.chars]
        if step.lengths > 1:
            running.append((step.chars, ways))
    return most


def _count_ways(tree: Tree, follow: frozenset[str], any_case: bool) -> int:
    """Return an upper bound of the ways to match a sequence, before one of the characters of ``follow``.

    Only ways that a text can tell apart late count: a repetition that ends where it must has one.
    """
    ways = 1
    for op, args in reversed(list(tree)):
        ways = min(ways * _count_ways_of(op, args, follow, any_case), MAX_WAYS + 1)
        chars, is_required = _first_characters([(op, args)], any_case)
        follow = chars if is_required else chars | follow
    return ways


def _count_ways_of(op: Any, args: Any, follow: frozenset[str], any_case: bool) -> int:
    if op in _REPEATS:
        chars = frozenset().union(*(step.chars for step in _steps(args[2], any_case)))
        most = min(int(args[1]), MAX_BOUND)
        again = _first_characters(args[2], any_case)[0] if most > 1 else frozenset()
        inside = _count_ways(args[2], follow | again, any_case)
        lengths = _count_lengths(args) if chars & follow else 1
        return lengths * min(int(inside**most), MAX_WAYS + 1)
    if op is ops.BRANCH:
        counts = [_count_ways(branch, follow, any_case) for branch in args[1]]
        firsts = [_first_characters(branch, any_case) for branch in args[1]]
        seen = [chars if is_required else chars | follow | {""} for chars, is_required in firsts]
        overlaps = any(one & other for at, one in enumerate(seen) for other in seen[:at])
        return sum(counts) if overlaps else max(counts)
    return max((_count_ways(branch, follow, any_case) for branch in _children(op, args)), default=1)


def _first_characters(tree: Tree, any_case: bool) -> tuple[frozenset[str], bool]:
    """Return the characters that a sequence can begin with, and True if it must match one."""
    chars: frozenset[str] = frozenset()
    for op, args in tree:
        for step in _firsts(op, args, any_case):
            chars |= step.chars
            if step.required:
                return chars, True
    return chars, False


def _firsts(op: Any, args: Any, any_case: bool) -> list[_Step]:
    """Return the steps that one element can begin with."""
    if op in (ops.BRANCH, ops.GROUPREF_EXISTS):
        found = [_first_characters(branch, any_case) for branch in _children(op, args)]
        chars = frozenset().union(*(chars for chars, _ in found))
        return [_Step(chars, all(is_required for _, is_required in found), False)]
    return list(_steps([(op, args)], any_case))


def _varies(node: tuple[Any, Any]) -> bool:
    op, args = node
    return op is ops.BRANCH or (op in _REPEATS and args[0] != args[1])


def _inside(tree: Tree) -> Iterator[tuple[Any, Any]]:
    for op, args in tree:
        yield op, args
        for branch in _children(op, args):
            yield from _inside(branch)


def _children(op: Any, args: Any) -> list[Tree]:
    if op in _REPEATS:
        return [args[2]]
    if op is ops.SUBPATTERN:
        return [args[3]]
    if op is ops.BRANCH:
        return list(args[1])
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [args[1]]
    if op is ops.ATOMIC_GROUP:
        return [args]
    if op is ops.GROUPREF_EXISTS:
        return [branch for branch in args[1:] if branch]
    return []


def _steps(tree: Tree, any_case: bool) -> Iterator[_Step]:
    for op, args in tree:
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            continue
        children = [list(_steps(branch, any_case)) for branch in _children(op, args)]
        if op in _REPEATS:
            chars = frozenset().union(*(step.chars for step in children[0]))
            is_required = args[0] > 0 and any(step.required for step in children[0])
            yield _Step(chars, is_required, args[1] > MAX_BOUND, _count_lengths(args))
        elif op in (ops.BRANCH, ops.GROUPREF_EXISTS):
            yield from (step._replace(required=False) for steps in children for step in steps)
        elif children:
            yield from children[0]
        elif op in (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY):
            yield _Step(_characters(op, args, any_case), True, False)


def _characters(op: Any, args: Any, any_case: bool) -> frozenset[str]:
    """Return the characters of the sample that one element of a pattern matches."""
    if op is ops.ANY:
        return _SAMPLE
    if op is ops.NOT_LITERAL:
        return _SAMPLE - {chr(args)}
    chars = frozenset((chr(args),)) if op is ops.LITERAL else _in_set(args)
    return chars.union(*((char.lower(), char.upper()) for char in chars)) if any_case else chars


def _in_set(items: Sequence[tuple[Any, Any]]) -> frozenset[str]:
    chars: set[str] = set()
    for op, args in items:
        if op is ops.LITERAL:
            chars.add(chr(args))
        elif op is ops.RANGE:
            chars.update(char for char in _SAMPLE if args[0] <= ord(char) <= args[1])
        elif op is ops.CATEGORY:
            chars |= _CATEGORIES[args]
    return _SAMPLE - chars if items[0][0] is ops.NEGATE else frozenset(chars)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CATEGORIES: dict[Any, frozenset[str]] = {
    ops.CATEGORY_DIGIT: frozenset(filter(str.isdecimal, _SAMPLE)),
    ops.CATEGORY_SPACE: frozenset(filter(str.isspace, _SAMPLE)),
    ops.CATEGORY_WORD: frozenset(filter(_is_word, _SAMPLE)),
}
_CATEGORIES |= {
    ops.CATEGORY_NOT_DIGIT: _SAMPLE - _CATEGORIES[ops.CATEGORY_DIGIT],
    ops.CATEGORY_NOT_SPACE: _SAMPLE - _CATEGORIES[ops.CATEGORY_SPACE],
    ops.CATEGORY_NOT_WORD: _SAMPLE - _CATEGORIES[ops.CATEGORY_WORD],
}
