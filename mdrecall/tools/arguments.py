"""The arguments of a tool as models pass them: lenient in form, strict in kind."""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mdrecall.errors import ArgumentError

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_NUMBER = re.compile(r"\s*[-+]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})(e[-+]?\d{1,2})?\s*", re.IGNORECASE)
#: An error quotes this much of a value, which may be of any length.
_MAX_QUOTED_CHARS = 60
_OBJECT_HINT = 'Give a JSON object, such as {"query": "team pricing"}.'


def parse_object(arguments: object) -> Mapping[str, Any]:
    """Return the arguments as an object: one already, the JSON of one, or none at all."""
    if arguments is None:
        return {}
    if isinstance(arguments, str | bytes):
        if not arguments.strip():
            return {}
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise ArgumentError("The arguments are not JSON.", name="arguments", hint=_OBJECT_HINT) from error
    if not isinstance(arguments, Mapping):
        raise ArgumentError("The arguments are not an object.", name="arguments", hint=_OBJECT_HINT)
    return arguments


def read_text(arguments: Mapping[str, Any], name: str, *, required: bool = False, trim: bool = True) -> str:
    """Return a text, empty if it is missing; a number is taken as its digits."""
    value = _get(arguments, name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        # A number with too many digits for Python to print stays a number and is refused below.
        with suppress(ValueError):
            value = str(value)
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{name} must be a text, not {_quote(value)}.", name=name)
    value = value or ""
    if required and not value.strip():
        raise ArgumentError(f"{name} required", name=name, hint=f"Give {name} as a text that is not blank.")
    return value.strip() if trim else value


def read_number(arguments: Mapping[str, Any], name: str) -> float | None:
    """Return a number, or a text that is one; None if it is missing."""
    value = _get(arguments, name)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ArgumentError(f"{name} must be a number, not {_quote(value)}.", name=name)


def read_integer(arguments: Mapping[str, Any], name: str, *, least: int, most: int) -> int | None:
    """Return a number without its decimals, held between two bounds; None if it is missing."""
    value = read_number(arguments, name)
    return None if value is None else int(max(least, min(most, value)))


def read_choice(arguments: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str | None:
    """Return one of several words, in lower case; None if it is missing."""
    value = read_text(arguments, name)
    if not value:
        return None
    if value.lower() not in choices:
        raise ArgumentError(f"{name} must be one of {', '.join(choices)}, not {_quote(value)}.", name=name)
    return value.lower()


def _get(arguments: Mapping[str, Any], name: str) -> Any:
    """Return an argument by its camelCase name or the same in snake_case; None if it is missing."""
    value = arguments.get(name)
    return arguments.get(_CAPITAL.sub("_", name).lower()) if value is None else value


def _quote(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"
