"""What every adapter begins with: the tools to offer, and the framework to offer them in."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from mdrecall.errors import PackageMissing
from mdrecall.memory import Memory
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset, ToolSpec


def offered(tools: Toolset | Memory, session_key: str = "") -> Toolset:
    """Tools as they are given, or those that a memory has for a conversation."""
    return tools if isinstance(tools, Toolset) else Toolset(memory_tools(tools, session_key))


def schema(spec: ToolSpec) -> dict[str, Any]:
    """The schema of a tool's arguments, for a framework to do with as it likes."""
    return deepcopy(spec.parameters)


def part(of: Any, name: str) -> Any:
    """What a client's object, or the same as a dictionary, has under a name."""
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Imports of a framework; one that fails is told with the command that installs it."""
    try:
        yield
    except ImportError as error:
        hint = f"pip install 'mdrecall[{extra}]'"
        raise PackageMissing(f"The adapter for {extra} cannot be used: {error}.", extra=extra, hint=hint) from error
