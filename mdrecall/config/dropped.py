"""The settings that OpenClaw had in 2.x and has dropped since, found in a file from before, such as its backup.

mdrecall still has them. OpenClaw refuses a file with them, so they belong in ``mdrecall.json``.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mdrecall.config.layers import AgentEntry, Layer, agent_layers, default_layers, layers_at, read_agents

#: Below each place of the search settings; an object stands for everything in it.
_SEARCH = (
    "chunking", "sync", "query.hybrid", "cache.maxEntries", "remote.batch.wait", "remote.batch.concurrency",
    "remote.batch.pollIntervalMs", "remote.batch.timeoutMinutes", "local.modelCacheDir",
)  # fmt: skip
_REST = (
    "memory.backend", "memory.qmd", "agents.defaults.compaction.reserveTokens",
    "agents.defaults.compaction.reserveTokensFloor", "agents.defaults.compaction.memoryFlush.prompt",
    "agents.defaults.compaction.memoryFlush.systemPrompt", "agents.defaults.timeFormat",
    "agents.defaults.contextTokens",
)  # fmt: skip


class DroppedSetting(NamedTuple):
    """A setting of a 2.x file, and its place in ``mdrecall.json``."""

    path: tuple[str, ...]
    value: Any
    origin: str
    """Where it is in the file."""


def list_dropped(file: Layer) -> list[DroppedSetting]:
    """Return every setting of a file that newer OpenClaws do not have; of several places the strongest counts."""
    found: dict[tuple[str, ...], DroppedSetting] = {}
    entries = read_agents([file], [])
    for setting in (*_of_search(file, entries), *_of_the_rest(file)):
        found.setdefault(setting.path, setting)
    return list(found.values())


def _of_search(file: Layer, entries: list[AgentEntry]) -> Iterator[DroppedSetting]:
    shared = default_layers(file, [])
    for layer in shared:
        yield from _of_layer(layer, ("memorySearch",))
    if any("sessions" in (_find(layer.values, ["sources"]) or ()) for layer in shared) and not any(
        _find(layer.values, ["experimental", "sessionMemory"]) for layer in shared
    ):
        # Conversations had no effect before. In the newer place they have one.
        yield DroppedSetting(("memorySearch", "sources"), ["memory"], f"{shared[0].at}.sources")
    for entry in entries:
        for layer in agent_layers(file, [entry], []):
            yield from _of_layer(layer, ("agents", "entries", entry.id, "memorySearch"))


def _of_layer(layer: Layer, place: tuple[str, ...]) -> Iterator[DroppedSetting]:
    for name in _SEARCH:
        for path, value in _leaves(_find(layer.values, name.split("."))):
            full = (*name.split("."), *path)
            yield DroppedSetting((*place, *full), value, f"{layer.at}.{'.'.join(full)}")


def _of_the_rest(file: Layer) -> Iterator[DroppedSetting]:
    for name in _REST:
        group, _, last = name.rpartition(".")
        for layer in layers_at([file], group, []):
            for path, value in _leaves(_find(layer.values, [last])):
                full = (*name.split("."), *path)
                yield DroppedSetting(full, value, ".".join(full))


def _find(values: Any, path: list[str]) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _leaves(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the settings in an object; ``memory.qmd.scope``, an object with a list of rules, is one setting."""
    if isinstance(value, dict) and "rules" not in value and "default" not in value:
        for name, inner in value.items():
            yield from (((name, *path), leaf) for path, leaf in _leaves(inner))
    elif value is not None:
        yield (), value
