"""The extras by name: what a pip extra or an outside program switches on. Nothing else in the core knows them."""

from importlib import import_module
from typing import Any

#: The package that each extra needs; none if it needs an outside program.
_PACKAGES = {"gguf": "xllamacpp", "lancedb": "lancedb", "postgres": "psycopg", "qmd": "", "sync": "pyrage"}


def import_extra(name: str, part: str = "") -> Any:
    """Return an extra, or a module of it. ``ImportError`` is raised if that needs a package that is missing."""
    assert name in _PACKAGES, name
    return import_module(f"mdrecall.extras.{name}.{part}" if part else f"mdrecall.extras.{name}")


def is_installed(name: str) -> bool:
    """True if the package that an extra needs is there."""
    from importlib.util import find_spec

    return not _PACKAGES[name] or find_spec(_PACKAGES[name]) is not None
