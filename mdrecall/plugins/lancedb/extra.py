"""The packages of the extra ``lancedb``, imported when they are first needed."""

import importlib
import importlib.util
from typing import Any

from mdrecall.errors import PluginError

PLUGIN = "memory-lancedb"
_PACKAGES = ("lancedb", "pyarrow")


def installed() -> None:
    """Raises ``PluginError`` if a package is missing; nothing is imported."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise _missing(package, "it is not installed")


def need(package: str) -> Any:
    """Import a package of the extra, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _missing(package, str(error)) from error


def _missing(package: str, why: str) -> PluginError:
    message = f"The plugin {PLUGIN} needs the Python package {package}: {why}."
    return PluginError(message, plugin=PLUGIN, hint='Install it: pip install "mdrecall[lancedb]"')
