"""What models pass as arguments, read leniently in form and strictly in kind."""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mdrecall.errors import ArgumentError

_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")
_NUMBER = re.compile(r"\s*[-+]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})(e[-+]?\d{1,2})?\s*", re.IGNORECASE)
_MOST_SHOWN = 60


def as_object(arguments: object) -> Mapping[str, Any]:
    """The arguments as an object: one already, the JSON of one, or nothing at all."""
    if arguments is None:
        return {}
    if isinstance(arguments, str | bytes):
        if not arguments.strip():
            return {}
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise ArgumentError("The arguments are not JSON.", name="arguments", hint=_OBJECT) from error
    if not isinstance(arguments, Mapping):
        raise ArgumentError("The arguments are not an object.", name="arguments", hint=_OBJECT)
    return arguments


_OBJECT = 'Give a JSON object, such as {"query": "team pricing"}.'


def snake(name: str) -> str:
    """``maxResults`` as ``max_results``."""
    return _SNAKE.sub("_", name).lower()


def given(arguments: Mapping[str, Any], name: str) -> Any:
    """An argument by its name, or by its name in snake_case; None if it is not there."""
    value = arguments.get(name)
    return arguments.get(snake(name)) if value is None else value


def text(arguments: Mapping[str, Any], name: str, *, required: bool = False, trim: bool = True) -> str:
    """A text; a number stands for its digits."""
    value = given(arguments, name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        # A number that is too long to be written stays one, and is refused below.
        with suppress(ValueError):
            value = str(value)
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{name} must be a text, not {_shown(value)}.", name=name)
    value = value or ""
    if required and not value.strip():
        raise ArgumentError(f"{name} required", name=name, hint=f"Give {name} as a text that is not blank.")
    return value.strip() if trim else value


def number(arguments: Mapping[str, Any], name: str) -> float | None:
    """A number, or a text that is one."""
    value = given(arguments, name)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ArgumentError(f"{name} must be a number, not {_shown(value)}.", name=name)


def whole(arguments: Mapping[str, Any], name: str, *, least: int, most: int) -> int | None:
    """A whole number, what follows the point cut off, held between two bounds."""
    value = number(arguments, name)
    return None if value is None else int(max(least, min(most, value)))


def choice(arguments: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str | None:
    """One of some words, in any case."""
    value = text(arguments, name)
    if not value:
        return None
    if value.lower() not in choices:
        raise ArgumentError(f"{name} must be one of {', '.join(choices)}, not {_shown(value)}.", name=name)
    return value.lower()


def _shown(value: object) -> str:
    try:
        said = repr(value)
    except Exception:
        said = type(value).__name__
    return said if len(said) <= _MOST_SHOWN else said[:_MOST_SHOWN] + "…"
