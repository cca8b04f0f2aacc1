"""``mdrecall.named_tuple.NamedTuple`` behaves as the one in ``typing`` does."""

import copy
import inspect
import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest

from mdrecall import named_tuple


class Ours(named_tuple.NamedTuple):
    """A value."""

    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return self.first * 2

    @classmethod
    def of(cls, first: int) -> "Ours":
        return cls(first)


class Standard(typing.NamedTuple):
    """A value."""

    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        return self.first * 2

    @classmethod
    def of(cls, first: int) -> "Standard":
        return cls(first)


class Empty(named_tuple.NamedTuple):
    pass


T = TypeVar("T")


class Boxed(named_tuple.NamedTuple, Generic[T]):
    value: T


def match(value: Any) -> Any:
    match value:
        case Ours(first, second) | Standard(first, second):
            return first, second


USES: list[Callable[[Any], Any]] = [
    lambda kind: kind(1),
    lambda kind: kind(1, "b", (3,)),
    lambda kind: kind(third=(3,), first=1),
    lambda kind: kind.of(4).doubled,
    lambda kind: kind(1)._replace(second="c"),
    lambda kind: kind(1)._asdict(),
    lambda kind: kind._make([1, "b", ()]),
    lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__),
    lambda kind: typing.get_type_hints(kind),
    lambda kind: str(inspect.signature(kind)),
    lambda kind: repr(kind(1, "it's")).partition("(")[2],
    lambda kind: match(kind(1, "b")),
    lambda kind: hash(kind(1)) == hash((1, "two", ())),
    lambda kind: [kind(2), kind(1)] > [kind(1)],
    lambda kind: pickle.loads(pickle.dumps(kind(1))) == copy.deepcopy(kind(1)) == kind(1),
    lambda kind: type(pickle.loads(pickle.dumps(kind(1)))) is kind,
    lambda kind: isinstance(kind(1), tuple) and hasattr(kind(1), "__dict__"),
    lambda kind: kind(),
    lambda kind: kind(1, 2, 3, 4),
    lambda kind: kind(1, fourth=2),
    lambda kind: kind._make([1]),
    lambda kind: kind(1)._replace(fourth=2),
    lambda kind: setattr(kind(1), "first", 2),
    lambda kind: kind(1).fourth,
]


def outcome(use: Callable[[Any], Any], kind: Any) -> Any:
    try:
        return use(kind)
    except Exception as error:
        return type(error), str(error).replace(kind.__name__, "*")


@pytest.mark.parametrize("number", range(len(USES)))
def test_it_does_what_the_standard_one_does(number: int) -> None:
    assert outcome(USES[number], Ours) == outcome(USES[number], Standard)


def test_it_may_have_no_fields() -> None:
    assert Empty() == ()
    assert repr(Empty()) == "Empty()"


@pytest.mark.parametrize("count", [0, 1, 2, 24, 25, 60])
def test_it_may_have_any_number_of_fields(count: int) -> None:
    fields = {f"field_{number}": int for number in range(count)}
    base: Any = named_tuple.NamedTuple
    made = type(base)("Made", (base,), {"__annotations__": fields})
    assert made(*range(count)) == tuple(range(count))
    assert made(**dict.fromkeys(fields, 1))._asdict() == dict.fromkeys(fields, 1)


def test_it_may_have_type_parameters() -> None:
    assert Boxed[int](3).value == Boxed(3)[0] == 3
    assert typing.get_args(Boxed[int]) == (int,)


def test_the_types_of_a_command_are_made_by_it() -> None:
    code = "import collections, sys; made = []; plain = collections.namedtuple\n"
    code += "collections.namedtuple = lambda name, *a, **k: made.append(name) or plain(name, *a, **k)\n"
    code += "import mdrecall.cli.search, mdrecall.memory; print(*(name for name in made))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    # One of functools.
    assert set(done.stdout.split()) <= {"CacheInfo"}
