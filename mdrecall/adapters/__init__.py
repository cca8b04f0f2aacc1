"""The memory inside agent frameworks: one thin module for each, which imports its framework when called."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mdrecall.adapters.model_files import ModelFiles
    from mdrecall.memory import Memory


def memory_commands(memory: "Memory") -> "ModelFiles":
    """Return the commands of Anthropic's memory tool for programs that do not use its package: ``run(command)``."""
    from mdrecall.adapters.model_files import ModelFiles

    return ModelFiles(memory)
