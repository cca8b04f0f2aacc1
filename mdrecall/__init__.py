"""Long-term memory for AI agents in plain Markdown: search it, read it, keep it."""

# Importing `typing` takes as long as a quarter of a start of Python; type checkers know this name as well.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mdrecall.aio import AsyncMemory
    from mdrecall.errors import RecallError
    from mdrecall.memory import Memory
    from mdrecall.several import search_several
    from mdrecall.types.documents import Appended
    from mdrecall.types.search import ReadResult, SearchAnswer, SearchResult
    from mdrecall.types.sync import Status, SyncReport

__version__ = "0.1.0"
__all__ = [
    "Appended",
    "AsyncMemory",
    "Memory",
    "ReadResult",
    "RecallError",
    "SearchAnswer",
    "SearchResult",
    "Status",
    "SyncReport",
    "__version__",
    "search_several",
]

_HOMES = {
    "AsyncMemory": "mdrecall.aio",
    "Memory": "mdrecall.memory",
    "RecallError": "mdrecall.errors",
    "search_several": "mdrecall.several",
}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'mdrecall' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "mdrecall.types")), name)
