"""How a setting is declared: one field of a section holds its type, rule, default and description.

A rule reads a JSON value, describes itself in words, and has a JSON Schema.

    class Chunking(Section):
        tokens: int = setting(whole(1), 400, "How long a chunk may be, in tokens of about four characters.")

    class MemorySearch(Section):
        chunking: Chunking = Chunking()

A type checker sees fields with ordinary types, and that each agrees with its rule. Reading, origins, the JSON Schema
and ``docs/settings.md`` all come from these declarations.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, dataclass_transform, overload

from mdrecall.errors import suggest_name
from mdrecall.patterns import camel_case
from mdrecall.types.documents import Secret

T = TypeVar("T")
U = TypeVar("U")
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


def _make_rule(
    accepts: str, schema: Mapping[str, Any], is_valid: Callable[[Any], bool], convert: Callable[[Any], T]
) -> Rule[T]:
    def read(value: Any) -> T:
        if not is_valid(value):
            raise _invalid(value, accepts)
        return convert(value)

    return Rule(accepts, read, schema)


def flag() -> Rule[bool]:
    return _make_rule("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool), bool)


def whole(least: int = 0, most: int | None = None) -> Rule[int]:
    accepts = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"

    def is_valid(value: Any) -> bool:
        return _is_number(value) and value == math.floor(value) and least <= value <= (value if most is None else most)

    schema = {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})
    return _make_rule(accepts, schema, is_valid, int)


def number(least: float, most: float) -> Rule[float]:
    accepts, schema = f"a number from {least:g} to {most:g}", {"type": "number", "minimum": least, "maximum": most}
    return _make_rule(accepts, schema, lambda value: _is_number(value) and least <= value <= most, float)


def text(most: int | None = None) -> Rule[str]:
    accepts = "a string" if most is None else f"a string of at most {most} characters"
    schema = {"type": "string"} | ({} if most is None else {"maxLength": most})
    return _make_rule(accepts, schema, lambda value: isinstance(value, str) and _fits(value, most), str)


def choice(*options: S) -> Rule[S]:
    accepts, schema = "one of " + ", ".join(options), {"enum": list(options)}
    return _make_rule(accepts, schema, options.__contains__, lambda value: options[options.index(value)])


def list_of(item: Rule[T], most: int | None = None) -> Rule[tuple[T, ...]]:
    accepts = f"a list, each {item.accepts}" if most is None else f"a list of at most {most}, each {item.accepts}"

    def read_items(value: list[Any]) -> tuple[T, ...]:
        return tuple(_read_inner(item, entry, f"[{index}]") for index, entry in enumerate(value))

    schema = {"type": "array", "items": item.schema} | ({} if most is None else {"maxItems": most})
    return _make_rule(accepts, schema, lambda value: isinstance(value, list) and _fits(value, most), read_items)


def map_of(item: Rule[T]) -> Rule[dict[str, T]]:
    accepts = f"an object whose values are {item.accepts}"

    def read_items(value: dict[str, Any]) -> dict[str, T]:
        return {key: _read_inner(item, entry, f".{key}") for key, entry in value.items()}

    schema = {"type": "object", "additionalProperties": item.schema}
    return _make_rule(accepts, schema, lambda value: isinstance(value, dict), read_items)


def record(fields: Mapping[str, Rule[Any]], required: tuple[str, ...] = ()) -> Rule[dict[str, Any]]:
    """Accept a small object with the given fields, inside a list or as a value; it has no defaults."""
    accepts = "an object with " + ", ".join(fields)

    def read_fields(value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            if key not in fields:
                raise InvalidValue(f"is not a known key{suggest_name(key, fields)}", f".{key}")
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
    return _make_rule(accepts, schema, lambda value: isinstance(value, dict), read_fields)


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
        total = math.inf
        if _is_number(value) and value >= 0:
            total = value * _UNIT_MS["m"]
        elif isinstance(value, str) and (bare := value.strip()):
            parts = list(re.finditer(_DURATION, bare, re.IGNORECASE))
            single = len(parts) == 1
            if "".join(part[0] for part in parts) == bare and (single or all(part[2] for part in parts)):
                total = sum(float(part[1]) * _UNIT_MS[(part[2] or "m").lower()] for part in parts)
        if total > _MAX_NUMBER:
            raise _invalid(value, accepts)
        return round(total)

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


def _fits(value: Sized, most: int | None) -> bool:
    return most is None or len(value) <= most


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


class Setting(NamedTuple):
    """One setting."""

    rule: Rule[Any]
    default: Any
    about: str
    fix: Callable[[Any], Any] | None = None
    """Brings an accepted value into the range that is used."""
    hide: Callable[[Any], Any] | None = None
    """Wraps a secret value, so that it is not shown by chance; None if the value may be shown."""


@overload
def setting(rule: Rule[T], default: None, about: str) -> T | None: ...
@overload
def setting(rule: Rule[T], default: T, about: str) -> T: ...
@overload
def setting(rule: Rule[T], default: U, about: str, *, fix: Callable[[T], U]) -> U: ...
@overload
def setting(rule: Rule[T], default: None, about: str, *, hide: Callable[[T], U]) -> U | None: ...
@overload
def setting(rule: Rule[T], default: object, about: str, *, hide: Callable[[T], U]) -> U: ...
def setting(
    rule: Rule[Any],
    default: Any,
    about: str,
    *,
    fix: Callable[[Any], Any] | None = None,
    hide: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a setting as the default of a field; a type checker takes it for a value of the field's type."""
    return Setting(rule, default, about, fix, hide)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section:
    """The base of a group of settings. An attribute is the configured value, else the default of its declaration."""

    entries: ClassVar[Mapping[str, "Setting | type[Section]"]] = {}
    """By their names in a configuration file."""
    fields: ClassVar[Mapping[str, str]] = {}
    """The attribute of each name."""
    is_strict: ClassVar[bool] = True
    """True if an unknown name is an error; False where OpenClaw keeps other settings in the same object."""
    dropped: ClassVar[tuple[str, ...]] = ()
    """Names of settings of OpenClaw or of earlier versions that have no effect: accepted with any value."""

    def __init_subclass__(cls, *, is_strict: bool = True, dropped: tuple[str, ...] = ()) -> None:
        declared = [(field, value) for field, value in vars(cls).items() if isinstance(value, Setting | Section)]
        cls.fields = {camel_case(field): field for field, _ in declared}
        entries = (value if isinstance(value, Setting) else type(value) for _, value in declared)
        cls.entries = dict(zip(cls.fields, entries, strict=True))
        cls.is_strict, cls.dropped = is_strict, dropped
        for field, value in declared:
            setattr(cls, field, value.default if isinstance(value, Setting) else value)

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._asdict() == other._asdict()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def _asdict(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.fields.values()}

    def _replace(self, **changes: Any) -> Self:
        return type(self)(**vars(self) | changes)


def each_setting(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """Yield every setting of a section with its dotted name."""
    for name, entry in section.entries.items():
        if isinstance(entry, Setting):
            yield prefix + name, entry
        else:
            yield from each_setting(entry, f"{prefix}{name}.")


def hide_text(value: Any) -> Secret | Any:
    """Wrap a secret that is given as text; a reference to one is not a secret."""
    return Secret(value) if isinstance(value, str) else value


def hide_values(values: Mapping[str, str]) -> Mapping[str, Any]:
    """Wrap every value of an object."""
    return {name: Secret(value) for name, value in values.items()}
