"""The official SDK, loaded as quickly as it can be, or a sentence on how to get it."""

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from mdrecall.errors import RecallError

#: What a server on standard input and output needs; the packages that hold these also import all clients.
_PARTS = ("mcp.server.lowlevel.server", "mcp.server.stdio")


def require_sdk() -> None:
    """Refuse to go on without the SDK."""
    # The second one came with version 2.
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp_types") is None:
        message = "The MCP server needs the package mcp, version 2 or later, which is not installed."
        raise RecallError(message, hint="Install it with: pip install 'mdrecall[mcp]'")


def load_sdk(*, whole: bool = False) -> None:
    """Import the SDK's server; ``whole``, with the packages around it as they are.

    The SDK is most of what a start takes. Without its clients and without garbage collection, which finds nothing
    while modules are loaded, it takes three quarters of that.
    """
    require_sdk()
    with _no_collection():
        if whole or "mcp" in sys.modules:
            import_module("mcp")
        else:
            with _bare_packages():
                for part in _PARTS:
                    import_module(part)


@contextmanager
def _no_collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _bare_packages() -> Iterator[None]:
    """``mcp`` and ``mcp.server`` without what their own files import; whoever imports them later gets all of it."""
    spec = importlib.util.find_spec("mcp")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    bare = {"mcp": folders, "mcp.server": [os.path.join(folder, "server") for folder in folders]}
    for name, places in bare.items():
        module = ModuleType(name)
        module.__path__ = places
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in bare:
            del sys.modules[name]
