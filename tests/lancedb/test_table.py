"""The table itself: OpenClaw's as it is, several writers, few files, other places, and errors that say the way out."""

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import PluginError, RecallError, StoreUnavailable, install_command
from mdrecall.extras.lancedb.memories import LongTermMemory
from mdrecall.extras.lancedb.table import PLUGIN, Table
from tests.lancedb.conftest import START_MS, LtmDatabase, OtherEmbedder

WRITER = """
import sys
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.extras.lancedb.memories import LongTermMemory
from mdrecall.extras.lancedb.table import PLUGIN, Table

folder, name = sys.argv[1:]
memories = LongTermMemory(
    Table(folder), OfflineEmbedder, "main", is_default_agent=True, redact=str, now_ms=lambda: 1.7e12
)
for number in range(2):
    memories.store(f"The locker of {name} has the number {number}")
    memories.store(f"The shared locker has the number {number}")
memories.close()
"""

INSTALLED = "import json, sys; from mdrecall.plugins import import_lancedb; import_lancedb();"


def openclaw_table(folder: Path, dimensions: int, texts: list[str]) -> list[str]:
    """What OpenClaw leaves behind: its six columns, vectors of its own embedder."""
    import lancedb  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    schema = pa.schema(
        [
            ("id", pa.utf8()),
            ("text", pa.utf8()),
            ("vector", pa.list_(pa.float32(), dimensions)),
            ("importance", pa.float64()),
            ("category", pa.utf8()),
            ("createdAt", pa.float64()),
        ]
    )
    embedder = OtherEmbedder(dimensions - 256)
    rows: list[dict[str, Any]] = [
        {
            "id": str(uuid.uuid4()),
            "text": text,
            "vector": memoryview(embedder.embed_query(text, {})).cast("f").tolist(),
            "importance": 0.7,
            "category": "fact",
            "createdAt": START_MS + number,
        }
        for number, text in enumerate(texts)
    ]
    lancedb.connect(str(folder)).create_table("memories", rows, schema=schema)
    return [row["id"] for row in rows]


def test_a_table_of_openclaw_is_read_as_it_is_and_belongs_to_the_default_agent(database: LtmDatabase) -> None:
    ids = openclaw_table(database.folder, 264, ["I prefer dark mode", "My sister is called Martina"])
    main = database.memories(embedder=OtherEmbedder, adopt_unlabelled=True)
    assert [row.id for row in main.list_all()] == ids[::-1]
    assert [one.row.id for one in main.recall("who is Martina?", 3)[0]] == [ids[1]]
    assert main.recall("who is Martina?", 3)[1] == 0
    assert main.store("I prefer the dark mode").action == "duplicate"
    assert main.store("I prefer tea").action == "created"
    assert database.memories("other", embedder=OtherEmbedder, adopt_unlabelled=True).list_all() == []
    assert main.forget(ids[0]) is not None
    assert main.counts()["total"] == 2


def test_several_that_open_a_table_of_openclaw_at_once_all_get_in(database: LtmDatabase) -> None:
    openclaw_table(database.folder, 264, ["I prefer dark mode"])
    opened = [database.memories(embedder=OtherEmbedder, adopt_unlabelled=True) for _ in range(6)]
    together = threading.Barrier(len(opened))
    counted: list[int] = []

    def count(memories: LongTermMemory) -> None:
        together.wait(60)
        counted.append(len(memories.list_all()))

    threads = [threading.Thread(target=count, args=(memories,)) for memories in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counted == [1] * len(opened)


def test_vectors_of_openclaw_are_not_taken_for_those_of_an_embedder_that_it_did_not_name(database: LtmDatabase) -> None:
    openclaw_table(database.folder, 264, ["I prefer dark mode"])
    memories = database.memories(embedder=OtherEmbedder)
    assert memories.recall("I prefer dark mode", 3) == ([], 1)
    assert memories.reembed() == 1
    assert len(memories.recall("I prefer dark mode", 3)[0]) == 1


def test_a_table_of_somebody_else_is_left_alone(database: LtmDatabase) -> None:
    import lancedb

    lancedb.connect(str(database.folder)).create_table("memories", [{"name": "x"}])
    with pytest.raises(PluginError, match="has no id, text, vector"):
        database.memories().list_all()
    assert lancedb.connect(str(database.folder)).open_table("memories").schema.names == ["name"]


def test_two_processes_lose_nothing_and_store_nothing_twice(database: LtmDatabase) -> None:
    command = [sys.executable, "-c", WRITER, str(database.folder)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([*command, name], env=env, stderr=subprocess.PIPE) for name in ("Ann", "Bob")]
    told = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    texts = [row.text for row in database.memories().list_all()]
    assert len(texts) == len(set(texts)) == 6


def test_threads_share_one_memory(database: LtmDatabase) -> None:
    memories = database.memories()
    failed: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for number in range(5):
                memories.store(f"{name} has {number} apples")
                memories.recall("apples", 3)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("Ann", "Bob", "Eve")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert memories.counts()["total"] == 15


def test_what_another_process_writes_is_seen_at_once(database: LtmDatabase) -> None:
    reader, writer = database.memories(), database.memories()
    assert reader.list_all() == []
    writer.store("I prefer tea")
    assert [row.text for row in reader.list_all()] == ["I prefer tea"]
    writer.store("The vault is green")
    assert len(reader.recall("which colour has the vault, green?", 3)[0]) == 1


def test_many_small_writes_do_not_make_many_files(database: LtmDatabase) -> None:
    memories = database.memories()
    for number in range(32):
        memories.store(f"Shelf {number} holds box {number * 7}")
    assert memories.counts()["total"] == 32
    import lancedb

    stats: Any = lancedb.connect(str(database.folder)).open_table("memories").stats()
    assert stats["fragment_stats"]["num_fragments"] <= 30


@pytest.mark.parametrize("scheme", ["memory://", "file://"])
def test_an_address_is_passed_on(database: LtmDatabase, scheme: str) -> None:
    uri = scheme if scheme == "memory://" else f"file://{database.folder}"
    memories = database.memories(uri=uri)
    row = memories.store("I prefer tea").row
    assert [one.row.id for one in memories.recall("do I prefer tea?", 3)[0]] == [row.id]
    assert memories.forget(row.id) == row
    assert memories.counts()["total"] == 0


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path, database: LtmDatabase) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(StoreUnavailable, match="taken"):
        database.memories(uri=str(tmp_path / "taken")).list_all()


def test_damaged_files_are_told_and_not_a_crash(database: LtmDatabase) -> None:
    database.memories().store("I prefer tea")
    for path in (database.folder / "memories.lance/data").iterdir():
        path.write_bytes(b"junk")
    with pytest.raises(RecallError, match=str(database.folder)):
        database.memories().list_all()


def test_nothing_is_made_by_looking(database: LtmDatabase) -> None:
    assert database.memories().list_all() == []
    assert database.memories().recall("tea", 3)[0] == []
    assert list(database.folder.iterdir()) == []


def test_a_missing_package_is_told_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(PluginError) as told:
        Table(str(tmp_path / "lancedb")).count("id IS NOT NULL")
    assert told.value.hint == f"Install it with `{install_command('lancedb')}`."


def test_whether_the_packages_are_there_is_told_without_importing_them() -> None:
    pytest.importorskip("lancedb", reason="needs lancedb: pip install -e '.[lancedb]'")
    code = f"{INSTALLED} print(json.dumps([name for name in ('lancedb', 'pyarrow') if name in sys.modules]))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []
    assert PLUGIN == "memory-lancedb"
