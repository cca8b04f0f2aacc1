"""Decompressing zstd with what this Python has: its own module since 3.14, or an installed package."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import Any, TypeAlias

#: Returns the content of a frame; None if the frame is damaged, or holds more than so many bytes.
Decompress: TypeAlias = Callable[[bytes, int], bytes | None]

#: The module of Python 3.14, then packages that people have installed.
_MODULES = ("compression.zstd", "zstandard", "pyzstd")


def find_decompressor() -> Decompress | None:
    """Return what decompresses zstd here; None if nothing can."""
    for name in _MODULES:
        try:
            module = import_module(name)
        except ImportError:
            continue
        return partial(_decompress, module)
    return None


def _decompress(module: Any, data: bytes, most: int) -> bytes | None:
    try:
        with _open(module, data) as stream:
            content: bytes = stream.read(most + 1)
    except (module.ZstdError, EOFError):
        return None
    return content if len(content) <= most else None


def _open(module: Any, data: bytes) -> Any:
    """Return a stream: what a frame claims to hold is not allocated before it is there."""
    if module.__name__ == "zstandard":
        return module.ZstdDecompressor().stream_reader(data)
    return module.ZstdFile(BytesIO(data))
