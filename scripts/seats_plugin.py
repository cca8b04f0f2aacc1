"""A plugin for pytest: the tests that other projects have for their own memory run against mdrecall's.

``scripts/seats`` fetches them. What is left out looks into the other project's class, or wants what mdrecall does not
do on purpose; each line of ``LEFT_OUT`` says which.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from mdrecall.adapters.anthropic import async_memory_tool, memory_tool
from mdrecall.adapters.langgraph import markdown_store
from mdrecall.memory import Memory
from mdrecall.text.annotations import MODEL_FOLDER

LEFT_OUT = (
    # They replace private parts of the other class.
    "_created_after_validation", "_before_open", "test_validate_path_", "test_nonnull_migrations",
    "test_vector_store_initialization",
    # They make the folder of the notes, which mdrecall never does.
    "test_mkdir_parents_",
    # They want a link to be followed; mdrecall follows none.
    "test_view_lists_symlinks_",
    # They want the scores of the embedder that they pass, or every item for every query.
    "test_vector_search_with_filters", "test_async_vector_search_with_filters", "test_embed_with_path", "test_scores",
    # They are about SQL, or reach into nested fields with dots.
    "test_sql_injection_vulnerability", "test_filter_keys_with_hyphens_and_digits", "test_escape_glob_literal",
    "test_namespace_match_pattern", "test_list_namespaces_prefix_uses_indexable_condition",
    # They want a store that can only be awaited, or a thread that deletes what has expired: mdrecall never shows it.
    "test_no_running_loop", "test_sync_methods_reject_", "_ttl_sweeper",
    # It wants an item to expire although it was read meanwhile.
    "test_ttl_override_default",
)  # fmt: skip
_open: list[Memory] = []


def open_memory() -> Memory:
    base = Path(tempfile.mkdtemp())
    (base / "workspace").mkdir()
    _open.append(Memory.open(base / "workspace", env={"HOME": str(base), "MDRECALL_STATE_DIR": str(base / "state")}))
    return _open[-1]


class NotesFolder(type(Path())):  # type: ignore[misc]
    """The folder of a model: a text file in it has the ending of a note on the disk."""

    def __truediv__(self, name: str) -> Path:
        return Path(self) / (f"{name}.md" if name.endswith(".txt") else name)


class AsyncNotesFolder(NotesFolder):
    async def is_dir(self) -> bool:
        return Path(self).is_dir()


def find_path(*parts: Any) -> Path:
    path = Path(*parts)
    return NotesFolder(path) if str(path).endswith(MODEL_FOLDER) else path


def make_tool(make: Any, folder: Any) -> Any:
    def build(base_path: str) -> Any:
        memory = open_memory()
        tool, root = make(memory), Path(memory.settings.workspace, MODEL_FOLDER)
        root.mkdir(parents=True)
        tool.base_path, tool.memory_root = memory.settings.workspace, folder(root)
        return tool

    return build


def list_files(base_path: str) -> dict[str, str]:
    root = Path(base_path, MODEL_FOLDER)
    files = (path for path in root.rglob("*") if path.is_file())
    return {f"memories/{path.relative_to(root)}".removesuffix(".md"): path.read_bytes().decode() for path in files}


def make_store(*, index: Any = None, ttl: Any = None) -> Any:
    store: Any = markdown_store(open_memory(), ttl=ttl)
    store.index_config, store.embeddings, store.setup = index, index and index["embed"], lambda: None
    return store


class MemoryStore(BaseStore):  # type: ignore[misc]
    """A store whose class has the two methods, which some tests watch."""

    def __init__(self, **options: Any) -> None:
        self._store = make_store(**options)
        self.index_config, self.embeddings = self._store.index_config, self._store.embeddings

    def batch(self, ops: Any) -> Any:
        return self._store.batch(ops)

    async def abatch(self, ops: Any) -> Any:
        return await self._store.abatch(ops)


class OpenedStore:
    MIGRATIONS = ()

    @staticmethod
    @contextmanager
    def from_conn_string(path: str, **options: Any) -> Iterator[Any]:
        yield make_store(**options)


class OpenedAsyncStore:
    @staticmethod
    @asynccontextmanager
    async def from_conn_string(path: str, **options: Any) -> AsyncIterator[Any]:
        store = make_store(**options)
        sweep = store.sweep_ttl

        async def sweep_ttl() -> int:
            return int(sweep())

        async def setup() -> None:
            pass

        store.setup, store.sweep_ttl = setup, sweep_ttl
        yield store


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = [item for item in items if not any(name in item.name for name in LEFT_OUT)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    stand_ins = {
        "InMemoryStore": MemoryStore, "SqliteStore": OpenedStore, "AsyncSqliteStore": OpenedAsyncStore,
        "BetaLocalFilesystemMemoryTool": make_tool(memory_tool, NotesFolder), "get_directory_snapshot": list_files,
        "BetaAsyncLocalFilesystemMemoryTool": make_tool(async_memory_tool, AsyncNotesFolder),
    }  # fmt: skip
    for module in {item.getparent(pytest.Module).obj for item in items}:  # type: ignore[union-attr]
        if hasattr(module, "get_directory_snapshot"):
            module.Path = find_path
        for name, stand_in in stand_ins.items():
            if hasattr(module, name):
                setattr(module, name, stand_in)


@pytest.fixture(autouse=True)
def close_memories() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()
