"""Counts what a backtracking matcher does with a pattern, so that tests can say "in proportion" without a clock."""

import re
import re._constants as ops  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

_GREEDY, _LAZY, _POSSESSIVE = ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT
_ONE = (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY)


def count_steps(pattern: re.Pattern[str], text: str) -> int:
    """How many places of the pattern are compared with the text to find every match."""
    return _Counter(pattern, text).run()


@cache
def _parse(pattern: re.Pattern[str]) -> list[Any]:
    return list(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))


class _Counter:
    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self.tree = _parse(pattern)
        self.flags = pattern.flags
        self.text = text
        self.steps = 0

    def run(self) -> int:
        at = 0
        while at <= len(self.text):
            end = next(self.ends(self.tree, at), None)
            at = end if end is not None and end > at else at + 1
        return self.steps

    def ends(self, tree: list[Any], at: int) -> Iterator[int]:
        """Where a match of these items that begins here may end, best first."""
        if not tree:
            yield at
            return
        for middle in self.item(tree[0], at):
            yield from self.ends(tree[1:], middle)

    def item(self, node: Any, at: int) -> Iterator[int]:
        op, args = node
        self.steps += 1
        if op in _ONE:
            if self.takes(node, at):
                yield at + 1
        elif op in (_GREEDY, _LAZY, _POSSESSIVE):
            yield from self.repeat(op, args, at)
        elif op is ops.ATOMIC_GROUP:
            yield from islice(self.ends(list(args), at), 1)
        elif op is ops.SUBPATTERN:
            yield from self.ends(list(args[3]), at)
        elif op is ops.BRANCH:
            for branch in args[1]:
                yield from self.ends(list(branch), at)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            if self.looks(args[0], args[1], at) == (op is ops.ASSERT):
                yield at
        elif op is ops.AT:
            if _place(args, self.text, at):
                yield at
        else:
            raise NotImplementedError(op)

    def looks(self, direction: int, tree: Any, at: int) -> bool:
        start = at - tree.getwidth()[0] if direction < 0 else at
        return start >= 0 and next(self.ends(list(tree), start), None) is not None

    def repeat(self, op: Any, args: Any, at: int) -> Iterator[int]:
        least, most, body = args[0], args[1], list(args[2])
        if len(body) == 1 and body[0][0] in _ONE:
            yield from self.repeat_one(op, least, most, body[0], at)
            return
        reached = [at]
        if op is not _LAZY:
            while len(reached) <= most:
                end = next(self.ends(body, reached[-1]), None)
                if end is None or end == reached[-1]:
                    break
                reached.append(end)
            ends = reached[least:][::-1]
            yield from ends[:1] if op is _POSSESSIVE else ends
            return
        yield from self.lazily(body, least, most, at)

    def lazily(self, body: list[Any], least: int, most: int, at: int) -> Iterator[int]:
        if least <= 0:
            yield at
        if most > 0:
            for end in self.ends(body, at):
                yield from self.lazily(body, least - 1, most - 1, end)

    def repeat_one(self, op: Any, least: int, most: int, node: Any, at: int) -> Iterator[int]:
        end = at
        while end - at < most and self.takes(node, end):
            end += 1
            self.steps += 1
            if op is _LAZY and end - at >= least:
                break
        if end - at < least:
            return
        if op is _POSSESSIVE:
            yield end
        elif op is _LAZY:
            yield from range(at + least, at + least + 1)
            while end - at < most and self.takes(node, end):
                end += 1
                self.steps += 1
                yield end
        else:
            for stop in range(end, at + least - 1, -1):
                self.steps += 1
                yield stop

    def takes(self, node: Any, at: int) -> bool:
        return at < len(self.text) and _in(repr(node), _Box(node), self.text[at], self.flags)


class _Box:
    """A place of a pattern; equal to any other, since its text is compared beside it."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Box)

    def __hash__(self) -> int:
        return 0


@cache
def _in(_: str, box: _Box, char: str, flags: int) -> bool:
    forms = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
    return any(_is_taken(box.node[0], box.node[1], ord(form)) for form in forms if len(form) == 1)


def _is_taken(op: Any, args: Any, code: int) -> bool:
    if op is ops.ANY:
        return code != 10
    if op in (ops.LITERAL, ops.NOT_LITERAL):
        return bool(code == args) == (op is ops.LITERAL)
    negated = args[0][0] is ops.NEGATE
    return any(_is_item(item, value, code) for item, value in args) != negated


def _is_item(op: Any, value: Any, code: int) -> bool:
    char = chr(code)
    if op is ops.LITERAL:
        return bool(code == value)
    if op is ops.RANGE:
        return bool(value[0] <= code <= value[1])
    if op is ops.CATEGORY:
        name = str(value)
        kinds = {"DIGIT": char.isdecimal(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}
        return kinds[name.rsplit("_", 1)[1]] != ("_NOT_" in name)
    return False


def _place(where: Any, text: str, at: int) -> bool:
    if where in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
        return at == 0
    if where in (ops.AT_END, ops.AT_END_STRING):
        return at == len(text)
    before, after = at > 0 and text[at - 1].isalnum(), at < len(text) and text[at].isalnum()
    return (before != after) == (where is ops.AT_BOUNDARY)
