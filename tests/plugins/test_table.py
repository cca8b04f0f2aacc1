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

from mdrecall.errors import PluginError, RecallError, StoreUnavailable
from mdrecall.plugins.lancedb import extra
from mdrecall.plugins.lancedb.memories import LongTermMemory
from mdrecall.plugins.lancedb.table import Table
from tests.plugins.conftest import START_MS, Desk, OtherEmbedder

WRITER = """
import sys
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.plugins.lancedb.memories import LongTermMemory, Owner
from mdrecall.plugins.lancedb.table import Table

folder, name = sys.argv[1:]
memories = LongTermMemory(Table(folder), OfflineEmbedder, Owner("main", True), redact=str, now_ms=lambda: 1.7e12)
for number in range(4):
    memories.store(f"The locker of {name} has the number {number}")
    memories.store(f"The shared locker has the number {number}")
memories.close()
"""

INSTALLED = "import json, sys; from mdrecall.plugins.lancedb.extra import installed; installed();"


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


def test_a_table_of_openclaw_is_read_as_it_is_and_belongs_to_the_default_agent(desk: Desk) -> None:
    ids = openclaw_table(desk.folder, 264, ["I prefer dark mode", "My sister is called Martina"])
    main = desk.memories(embedder=OtherEmbedder, adopts=True)
    assert [row.id for row in main.everything()] == ids[::-1]
    assert [one.row.id for one in main.recall("who is Martina?", 3).found] == [ids[1]]
    assert main.recall("who is Martina?", 3).unsearched == 0
    assert main.store("I prefer the dark mode").action == "duplicate"
    assert main.store("I prefer tea").action == "created"
    assert desk.memories("other", embedder=OtherEmbedder, adopts=True).everything() == []
    assert main.forget(ids[0]) is not None
    assert main.counts().total == 2


def test_several_that_open_a_table_of_openclaw_at_once_all_get_in(desk: Desk) -> None:
    openclaw_table(desk.folder, 264, ["I prefer dark mode"])
    opened = [desk.memories(embedder=OtherEmbedder, adopts=True) for _ in range(6)]
    together = threading.Barrier(len(opened))
    counted: list[int] = []

    def count(memories: LongTermMemory) -> None:
        together.wait(60)
        counted.append(len(memories.everything()))

    threads = [threading.Thread(target=count, args=(memories,)) for memories in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counted == [1] * len(opened)


def test_vectors_of_openclaw_are_not_taken_for_those_of_an_embedder_that_it_did_not_name(desk: Desk) -> None:
    openclaw_table(desk.folder, 264, ["I prefer dark mode"])
    memories = desk.memories(embedder=OtherEmbedder)
    recalled = memories.recall("I prefer dark mode", 3)
    assert (recalled.found, recalled.unsearched) == ((), 1)
    assert memories.reembed() == 1
    assert len(memories.recall("I prefer dark mode", 3).found) == 1


def test_a_table_of_somebody_else_is_left_alone(desk: Desk) -> None:
    import lancedb

    lancedb.connect(str(desk.folder)).create_table("memories", [{"name": "x"}])
    with pytest.raises(PluginError, match="has no id, text, vector"):
        desk.memories().everything()
    assert lancedb.connect(str(desk.folder)).open_table("memories").schema.names == ["name"]


def test_two_processes_lose_nothing_and_store_nothing_twice(desk: Desk) -> None:
    command = [sys.executable, "-c", WRITER, str(desk.folder)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([*command, name], env=env, stderr=subprocess.PIPE) for name in ("Ann", "Bob")]
    told = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    texts = [row.text for row in desk.memories().everything()]
    assert len(texts) == len(set(texts)) == 12


def test_threads_share_one_memory(desk: Desk) -> None:
    memories = desk.memories()
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
    assert memories.counts().total == 15


def test_what_another_process_writes_is_seen_at_once(desk: Desk) -> None:
    reader, writer = desk.memories(), desk.memories()
    assert reader.everything() == []
    writer.store("I prefer tea")
    assert [row.text for row in reader.everything()] == ["I prefer tea"]
    writer.store("The vault is green")
    assert len(reader.recall("which colour has the vault, green?", 3).found) == 1


def test_many_small_writes_do_not_make_many_files(desk: Desk) -> None:
    memories = desk.memories()
    for number in range(60):
        memories.store(f"Shelf {number} holds box {number * 7}")
    assert memories.counts().total == 60
    import lancedb

    stats: Any = lancedb.connect(str(desk.folder)).open_table("memories").stats()
    assert stats["fragment_stats"]["num_fragments"] <= 30


@pytest.mark.parametrize("scheme", ["memory://", "file://"])
def test_an_address_is_passed_on(desk: Desk, scheme: str) -> None:
    uri = scheme if scheme == "memory://" else f"file://{desk.folder}"
    memories = desk.memories(uri=uri)
    row = memories.store("I prefer tea").row
    assert [one.row.id for one in memories.recall("do I prefer tea?", 3).found] == [row.id]
    assert memories.forget(row.id) == row
    assert memories.counts().total == 0


def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path, desk: Desk) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(StoreUnavailable, match="taken"):
        desk.memories(uri=str(tmp_path / "taken")).everything()


def test_damaged_files_are_told_and_not_a_crash(desk: Desk) -> None:
    desk.memories().store("I prefer tea")
    for path in (desk.folder / "memories.lance/data").iterdir():
        path.write_bytes(b"junk")
    with pytest.raises(RecallError, match=str(desk.folder)):
        desk.memories().everything()


def test_nothing_is_made_by_looking(desk: Desk) -> None:
    assert desk.memories().everything() == []
    assert desk.memories().recall("tea", 3).found == ()
    assert list(desk.folder.iterdir()) == []


def test_a_missing_package_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(PluginError) as told:
        Table(str(tmp_path / "lancedb")).count("id IS NOT NULL")
    assert told.value.hint == 'Install it: pip install "mdrecall[lancedb]"'


def test_whether_the_packages_are_there_is_told_without_importing_them() -> None:
    code = f"{INSTALLED} print(json.dumps([name for name in ('lancedb', 'pyarrow') if name in sys.modules]))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []
    assert extra.PLUGIN == "memory-lancedb"
