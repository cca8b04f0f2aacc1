"""Memory plugins: one of them, the plugin in the memory slot, gives an agent its memory tools and hooks.

The names below are public; the modules that hold them are not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdrecall.plugins.contract import Hooks, MemoryPlugin, NoHooks, OpenedPlugin, PluginContext
    from mdrecall.plugins.registry import open_slot

__all__ = [
    "Hooks",
    "MemoryPlugin",
    "NoHooks",
    "OpenedPlugin",
    "PluginContext",
    "open_slot",
]


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is used: most servers never need the registry.
    if name not in __all__:
        raise AttributeError(f"module 'mdrecall.plugins' has no attribute {name!r}")
    from importlib import import_module

    home = "registry" if name == "open_slot" else "contract"
    return getattr(import_module(f"mdrecall.plugins.{home}"), name)
