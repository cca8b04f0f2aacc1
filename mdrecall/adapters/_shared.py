"""What the adapters have in common: choosing tools, importing a framework, and looking at files without links."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from mdrecall import platform
from mdrecall.errors import FileMissing, PackageMissing, ReadError, install_command
from mdrecall.memory import Memory
from mdrecall.notes.opening import open_parent
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset, ToolSpec


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


def find_status(workspace: str, inside: str) -> os.stat_result | None:
    """Return the status of a file or folder of the workspace, None if there is none; no link is followed."""
    try:
        above, name = open_parent(workspace, inside, shown=inside)
    except FileMissing:
        return None
    try:
        return platform.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return None
    finally:
        os.close(above)


def list_folder(workspace: str, inside: str) -> list[tuple[str, os.stat_result]]:
    """Return what a folder of the workspace holds, each name with its status; no link is followed."""
    try:
        folder, _ = open_parent(workspace, f"{inside}/x", shown=inside)
    except ReadError:
        return []
    try:
        with platform.scandir(folder) as entries:
            return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except FileNotFoundError:
        # One of them was removed meanwhile.
        return list_folder(workspace, inside)
    finally:
        os.close(folder)
