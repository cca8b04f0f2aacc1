"""The quantised graph as a file, so that it is built once: a line that names the recipe, a digest, the graph."""

import hashlib
import os
from collections.abc import Callable

from mdrecall.embed.minilm.recipe import RECIPE_VERSION

_MAGIC = b"mdrecall minilm graph %d\n" % RECIPE_VERSION
_DIGEST_BYTES = 32


def graph_path(folder: str) -> str:
    """Where the graph of this recipe lies."""
    return os.path.join(folder, f"all-MiniLM-L6-v2-int8-r{RECIPE_VERSION}.graph")


def load_graph(folder: str) -> bytes | None:
    """The graph, unless it is missing, damaged or of another recipe."""
    try:
        with open(graph_path(folder), "rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            digest, graph = file.read(_DIGEST_BYTES), file.read()
    except OSError:
        return None
    return graph if hashlib.sha256(graph).digest() == digest else None


def save_graph(folder: str, build: Callable[[], bytes]) -> bytes:
    """Build the graph and keep it; a process that is killed meanwhile leaves no half file under the final name."""
    graph = build()
    path = graph_path(folder)
    with open(f"{path}.part", "wb") as file:
        file.write(_MAGIC + hashlib.sha256(graph).digest() + graph)
    os.replace(f"{path}.part", path)
    return graph
