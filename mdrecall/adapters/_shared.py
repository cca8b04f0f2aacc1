"""What the adapters have in common: choosing tools, importing a framework, and changing files that others change."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any, TypeVar

from mdrecall.errors import FileBusy, FileChanged, PackageMissing, install_command
from mdrecall.memory import Memory
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset, ToolSpec

_T = TypeVar("_T")
#: How often a change is tried again.
_TRIES = 20


def toolset_from(tools: Toolset | Memory, session_key: str = "") -> Toolset:
    """Return a toolset unchanged, or the tools that a memory has in the conversation with this session key."""
    return tools if isinstance(tools, Toolset) else Toolset(memory_tools(tools, session_key))


def copy_schema(spec: ToolSpec) -> dict[str, Any]:
    """Return the schema of a tool's arguments as a copy, which a framework may change."""
    return deepcopy(spec.parameters)


def get_field(of: Any, name: str) -> Any:
    """Return a field of a client's object, or of the same object as a dictionary; None if it is missing."""
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Raise ``PackageMissing`` with the command that installs a framework if an import in the block fails."""
    try:
        yield
    except ImportError as error:
        hint = f"Install it with `{install_command(extra)}`."
        raise PackageMissing(f"The adapter for {extra} cannot be used: {error}.", extra=extra, hint=hint) from error


def try_again(name: str, change: Callable[[], _T]) -> _T:
    """Return what a change returns; make it again if another process has changed the same file meanwhile."""
    for _ in range(_TRIES):
        with suppress(FileChanged):
            return change()
    raise FileBusy(f"Other processes keep changing {name}.", path=name)
