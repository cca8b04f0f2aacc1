"""The tools that a model is given: schemas, calls, and answers as JSON in which a note cannot pass for an instruction.

The names below are public; the modules that hold them are not.
"""

from typing import TYPE_CHECKING, Any

from mdrecall.tools.toolset import Tool, Toolset, ToolSpec, answer, read_choice, read_integer, read_number, read_text

if TYPE_CHECKING:
    from mdrecall.tools.notes import memory_tools

__all__ = [
    "Tool", "ToolSpec", "Toolset", "answer", "memory_tools", "read_choice", "read_integer", "read_number", "read_text",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Imported when it is used: a server greets its client before it loads the memory.
    if name != "memory_tools":
        raise AttributeError(f"module 'mdrecall.tools' has no attribute {name!r}")
    from mdrecall.tools import notes

    return notes.memory_tools
