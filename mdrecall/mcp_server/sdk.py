"""The official SDK, loaded as quickly as it can be, or a sentence on how to get it."""

import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from mdrecall.errors import RecallError

#: Packages whose own files import all clients and a second kind of server.
_PACKAGES = ("mcp", "mcp.server")
#: What a server on standard input and output needs.
_PARTS = ("mcp.server.lowlevel.server", "mcp.server.stdio")


def require_sdk() -> None:
    """Refuse to go on without the SDK."""
    # The second one came with version 2.
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp_types") is None:
        message = "The MCP server needs the package mcp, version 2 or later, which is not installed."
        raise RecallError(message, hint="Install it with: pip install 'mdrecall[mcp]'")


def load_sdk() -> None:
    """Import the SDK's server.

    The SDK is most of what a start takes. Without its clients and without garbage collection, which finds nothing
    while modules are loaded, it takes three quarters of that.
    """
    require_sdk()
    with _no_collection():
        for name in _PACKAGES:
            if name not in sys.modules:
                _put_off(name)
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


def _put_off(name: str) -> None:
    """Have a package there whose own file is not run before somebody asks for something that is in it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, module = spec.loader, importlib.util.module_from_spec(spec)

    def run_it(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        del module.__getattr__
        loader.exec_module(module)
        return getattr(module, wanted)

    module.__getattr__ = run_it  # type: ignore[method-assign]
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
