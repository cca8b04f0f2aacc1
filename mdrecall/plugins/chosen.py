"""Which plugin the settings choose for the memory slot, told without loading any."""

from typing import NamedTuple

from mdrecall.config.settings import Plugins

#: The plugin of the notes in Markdown.
CORE = "memory-core"


class Choice(NamedTuple):
    """Which plugin is the memory."""

    id: str
    """Empty if there is none."""
    why: str = ""
    """Why there is none although the slot names one."""


def chosen(plugins: Plugins) -> Choice:
    """The plugin that the settings choose; ``plugins.enabled``, ``deny`` and ``allow`` overrule the slot."""
    wanted = plugins.slots.memory.strip()
    if wanted.lower() == "none":
        return Choice("")
    if not plugins.enabled:
        return Choice("", "plugins.enabled is false")
    if wanted in (name.strip() for name in plugins.deny):
        return Choice("", f"plugins.deny has {wanted}")
    allowed = [name.strip() for name in plugins.allow]
    if allowed and wanted not in allowed:
        return Choice("", f"plugins.allow does not have {wanted}")
    return Choice(wanted)
