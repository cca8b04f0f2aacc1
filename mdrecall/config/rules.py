"""What settings accept: each rule reads a JSON value, describes itself in words, and has a JSON Schema."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from mdrecall.errors import suggest_name

T = TypeVar("T")
S = TypeVar("S", bound=str)

#: The largest whole number that every JSON reader keeps exact: most read numbers as 64-bit floats.
_MAX_NUMBER = 2**53


class InvalidValue(ValueError):
    """A value that a rule does not accept; ``at`` is the path inside the value."""

    def __init__(self, message: str, at: str = "") -> None:
        super().__init__(message)
        self.at = at


class Rule(NamedTuple, Generic[T]):
    """How one kind of value is read."""

    accepts: str
    """In words, for messages and documentation."""
    read: Callable[[Any], T]
    schema: Mapping[str, Any]


def flag() -> Rule[bool]:
    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise _invalid(value, "true or false")
        return value

    return Rule("true or false", read, {"type": "boolean"})


def whole(least: int = 0, most: int | None = None) -> Rule[int]:
    accepts = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"

    def read(value: Any) -> int:
        if not _is_number(value) or value != math.floor(value) or value < least or (most is not None and value > most):
            raise _invalid(value, accepts)
        return int(value)

    schema = {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})
    return Rule(accepts, read, schema)


def number(least: float, most: float) -> Rule[float]:
    accepts = f"a number from {least:g} to {most:g}"

    def read(value: Any) -> float:
        if not _is_number(value) or not least <= value <= most:
            raise _invalid(value, accepts)
        return float(value)

    return Rule(accepts, read, {"type": "number", "minimum": least, "maximum": most})


def text() -> Rule[str]:
    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise _invalid(value, "a string")
        return value

    return Rule("a string", read, {"type": "string"})


def choice(*options: S) -> Rule[S]:
    accepts = "one of " + ", ".join(options)

    def read(value: Any) -> S:
        if value not in options:
            raise _invalid(value, accepts)
        return options[options.index(value)]

    return Rule(accepts, read, {"enum": list(options)})


def list_of(item: Rule[T]) -> Rule[tuple[T, ...]]:
    accepts = f"a list, each {item.accepts}"

    def read(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise _invalid(value, accepts)
        return tuple(_read_inner(item, entry, f"[{index}]") for index, entry in enumerate(value))

    return Rule(accepts, read, {"type": "array", "items": item.schema})


def map_of(item: Rule[T]) -> Rule[dict[str, T]]:
    accepts = f"an object whose values are {item.accepts}"

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _invalid(value, accepts)
        return {key: _read_inner(item, entry, f".{key}") for key, entry in value.items()}

    return Rule(accepts, read, {"type": "object", "additionalProperties": item.schema})


def record(fields: Mapping[str, Rule[Any]], required: tuple[str, ...] = ()) -> Rule[dict[str, Any]]:
    """Accept a small object with the given fields, inside a list or as a value; it has no defaults."""
    accepts = "an object with " + ", ".join(fields)

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _invalid(value, accepts)
        for key in value:
            if key not in fields:
                raise InvalidValue(f"is not a known setting{suggest_name(key, fields)}", f".{key}")
        for key in required:
            if key not in value:
                raise InvalidValue(f"is missing; it must be {fields[key].accepts}", f".{key}")
        return {key: _read_inner(fields[key], entry, f".{key}") for key, entry in value.items()}

    schema = {
        "type": "object",
        "properties": {key: rule.schema for key, rule in fields.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Rule(accepts, read, schema)


def either(*rules: Rule[Any]) -> Rule[Any]:
    accepts = ", or ".join(rule.accepts for rule in rules)

    def read(value: Any) -> Any:
        deepest: InvalidValue | None = None
        for rule in rules:
            try:
                return rule.read(value)
            except InvalidValue as invalid:
                if invalid.at:
                    deepest = invalid
        raise deepest or _invalid(value, accepts)

    return Rule(accepts, read, {"anyOf": [rule.schema for rule in rules]})


_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = r"(\d+(?:\.\d+)?)(ms|[smhd])?"


def duration_ms() -> Rule[int]:
    """Accept ``90s``, ``5m``, ``1h30m`` or a bare number of minutes; read it as milliseconds."""
    accepts = "a duration such as 90s, 5m or 1h30m (a bare number is minutes)"

    def read(value: Any) -> int:
        total: float
        if _is_number(value) and value >= 0:
            total = value * _UNIT_MS["m"]
            if total <= _MAX_NUMBER:
                return round(total)
        if isinstance(value, str) and (bare := value.strip()):
            parts = list(re.finditer(_DURATION, bare, re.IGNORECASE))
            single = len(parts) == 1
            if "".join(part[0] for part in parts) == bare and (single or all(part[2] for part in parts)):
                total = sum(float(part[1]) * _UNIT_MS[(part[2] or "m").lower()] for part in parts)
                if total <= _MAX_NUMBER:
                    return round(total)
        raise _invalid(value, accepts)

    return Rule(accepts, read, {"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}]})


_SIZE = r"(\d+(?:\.\d+)?)\s*(?:(b)|([kmgt])b?)?"


def size_bytes() -> Rule[int]:
    """Accept ``2097152``, ``2mb`` or ``512k``, with units as powers of 1024; read it as bytes."""
    accepts = "a number of bytes, or a size such as 512k or 2mb"

    def read(value: Any) -> int:
        if _is_number(value) and value >= 0 and value == math.floor(value):
            return int(value)
        if isinstance(value, str) and (match := re.fullmatch(_SIZE, value.strip(), re.IGNORECASE)):
            size = float(match[1]) * math.pow(1024, " kmgt".index(match[3].lower()) if match[3] else 0)
            if size <= _MAX_NUMBER:
                return int(size)
        raise _invalid(value, accepts)

    return Rule(accepts, read, {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MAX_NUMBER <= value <= _MAX_NUMBER


def _read_inner(rule: Rule[T], value: Any, at: str) -> T:
    try:
        return rule.read(value)
    except InvalidValue as invalid:
        raise InvalidValue(str(invalid), at + invalid.at) from None


def _invalid(value: Any, accepts: str) -> InvalidValue:
    import json

    shown = json.dumps(value, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return InvalidValue(f"is {shown}, but must be {accepts}")
