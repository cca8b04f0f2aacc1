"""How a setting is declared: one field of a NamedTuple holds its type, rule, default and description.

    class Chunking(NamedTuple):
        tokens: int = setting(whole(1), 400, "How long a chunk may be, in tokens of about four characters.")

    class MemorySearch(NamedTuple):
        chunking: Chunking = section(Chunking)

A type checker sees fields with ordinary types, and that each agrees with its rule. Reading, origins, the JSON Schema
and the table in ``docs/config.md`` all come from these declarations.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast, overload

from mdrecall.config.rules import Rule
from mdrecall.types import Secret

T = TypeVar("T")
U = TypeVar("U")


class Setting(NamedTuple):
    """One setting."""

    rule: Rule[Any]
    default: Any
    about: str
    fix: Callable[[Any], Any] | None = None
    """Brings an accepted value into the range that is used."""
    hide: Callable[[Any], Any] | None = None
    """Wraps a secret value, so that it is not shown by chance."""

    @property
    def secret(self) -> bool:
        """True if the value must not be shown."""
        return self.hide is not None


class Section(NamedTuple):
    """A group of settings, and the NamedTuple that their values are read into."""

    shape: Callable[..., Any]
    entries: Mapping[str, "Setting | Section"]
    """By their names in a configuration file."""
    strict: bool = True
    """True if an unknown name is an error; False where OpenClaw keeps other settings in the same object."""


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


def section(shape: type[T], *, strict: bool = True) -> T:
    """Declare a group of settings as the default of a field."""
    return cast(T, section_of(shape, strict=strict))


def section_of(shape: type[Any], *, strict: bool = True) -> Section:
    """Read the declarations of a NamedTuple, and give its fields their real defaults."""
    entries = {json_name(field): entry for field, entry in shape._field_defaults.items()}
    shape.__new__.__defaults__ = tuple(
        entry.default if isinstance(entry, Setting) else entry.shape() for entry in entries.values()
    )
    return Section(shape, entries, strict)


def json_name(field: str) -> str:
    """Return the name of a field as configuration files spell it: ``maxResults`` for ``max_results``."""
    first, *more = field.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in more)


def each_setting(section: Section, prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """Yield every setting of a section with its dotted name."""
    for name, entry in section.entries.items():
        if isinstance(entry, Setting):
            yield prefix + name, entry
        else:
            yield from each_setting(entry, f"{prefix}{name}.")


def hide_text(value: Any) -> Secret | Any:
    """Wrap a secret that stands there as a text; a reference to one is no secret."""
    return Secret(value) if isinstance(value, str) else value


def hide_values(values: Mapping[str, str]) -> Mapping[str, Any]:
    """Wrap every value of an object."""
    return {name: Secret(value) for name, value in values.items()}
