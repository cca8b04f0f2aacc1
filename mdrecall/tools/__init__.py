"""The tools that a model is given: schemas, calls, and answers as JSON in which a note cannot pass for an instruction.

The names below are public; the modules that hold them are not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdrecall.tools.notes import memory_tools
    from mdrecall.tools.toolset import (
        Tool,
        Toolset,
        ToolSpec,
        answer,
        read_choice,
        read_integer,
        read_number,
        read_text,
    )

__all__ = [
    "Tool",
    "ToolSpec",
    "Toolset",
    "answer",
    "memory_tools",
    "read_choice",
    "read_integer",
    "read_number",
    "read_text",
]


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is used: a server greets its client before it loads the memory.
    if name not in __all__:
        raise AttributeError(f"module 'mdrecall.tools' has no attribute {name!r}")
    from importlib import import_module

    home = "notes" if name == "memory_tools" else "toolset"
    return getattr(import_module(f"mdrecall.tools.{home}"), name)
