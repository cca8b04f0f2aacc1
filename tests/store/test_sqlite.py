import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.core.ranking.query import parse_query
from mdrecall.core.text.chunk import chunk_markdown
from mdrecall.core.text.words import Analyser
from mdrecall.errors import CorruptIndex, ForeignDatabase, NewerIndex, StoreBusy
from mdrecall.store.sqlite import Owner, SqliteStore
from mdrecall.store.sqlite.schema import APPLICATION_ID, MIGRATIONS, VERSION
from mdrecall.types import Document, IndexedChunk

STAMP = (1, 2, 3, 4)
OWNER = Owner("main", "/workspace")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER)
    opened.admin.open()
    yield opened
    opened.admin.close()


def indexed(path: str, text: str, tokens: int = 400) -> tuple[Document, list[IndexedChunk]]:
    analyser = Analyser()
    chunks = [
        IndexedChunk(chunk, *analyser.indexable(chunk.text), path)
        for chunk in chunk_markdown(text, tokens=tokens, overlap=tokens // 5)
    ]
    return Document("memory", path, text, "ab" * 32, STAMP, 10_000_000_000), chunks


def found_in(store: SqliteStore, query: str) -> set[str]:
    matches = store.chunks.match_terms(parse_query(query))
    ids = sorted({chunk for match in matches for chunk in match.chunks})
    return {chunk.path for chunk in store.chunks.load(ids)}


def test_a_document_is_found_by_its_words_names_and_title(store: SqliteStore) -> None:
    store.documents.put([indexed("memory/pool.md", "We use DEC-0054 for the café")], "r")
    for query in ("using", "DEC-0054", "cafe", "0054", "pool", "DEC-00"):
        assert found_in(store, query) == {"memory/pool.md"}, query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ticket DEC-0054 done", "DEC-0054"),
        ("ticket DEC-0054 done", "dec-0054"),
        ("ticket DEC-0054 done", "dec"),
        ("ticket DEC-0054 done", "0054"),
        ("ticket DEC-0054 done", "DEC-00"),
        ("see src/db/pool.ts now", "src/db/pool.ts"),
        ("see src/db/pool.ts now", "db/pool.ts"),
        ("see src/db/pool.ts now", "pool.ts"),
        ("see src/db/pool.ts now", "src/db/po"),
        ("set memorySearch.query.hybrid", "memorySearch.query.hybrid"),
        ("set memorySearch.query.hybrid", "memorySearch.query"),
        ("set memorySearch.query.hybrid", "memory search"),
        ("set memorySearch.query.hybrid", "memorySea"),
        ("commit a828e60f1c is good", "a828e60"),
        ("write alice@example.com", "alice@example.com"),
        ("write alice@example.com", "alice"),
        ("write alice@example.com", "example.com"),
        ("version v2026.4.10 is out", "v2026.4.10"),
        ("version v2026.4.10 is out", "v2026.4"),
        ("im Café Zürich", "cafe zurich"),
        ("深色模式已经打开", "深色模式"),
        ("明天开会讨论", "开会"),
        ("今日はしりとりをした", "しりとり"),
        ("東京タワーに行く", "東京"),
        ("猫を飼う", "猫"),
        ("배포 전략을 논의", "전략"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("ДОМОЙ", "домой"),
        ("ＤＥＣ－００５４", "DEC-0054"),
    ],
)
def test_identifiers_and_every_script_are_found(store: SqliteStore, text: str, query: str) -> None:
    store.documents.put([indexed("notes/right.md", text), indexed("notes/wrong.md", "nothing of the sort")], "r")
    assert found_in(store, query) == {"notes/right.md"}


def test_a_lone_character_is_found_at_the_beginning_inside_and_at_the_end_of_a_run(store: SqliteStore) -> None:
    notes = {"end.md": "我有猫", "begin.md": "猫を飼う", "inside.md": "黒猫が好き", "none.md": "犬を飼う"}
    store.documents.put([indexed(path, text) for path, text in notes.items()], "r")
    assert found_in(store, "猫") == {"end.md", "begin.md", "inside.md"}


def test_a_term_in_every_chunk_has_a_saturation_between_nothing_and_one(store: SqliteStore) -> None:
    store.documents.put([indexed(f"{number}.md", "pool " * (number + 1)) for number in range(5)], "r")
    (match,) = store.chunks.match_terms(parse_query("pool"))
    assert len(match.chunks) == 5
    assert all(0 < saturation < 1 for saturation in match.chunks.values())
    assert match.chunks[5] > match.chunks[1]


def test_common_terms_beyond_the_budget_count_only_where_a_rarer_one_is(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.keyword.ROW_BUDGET", 3)
    store.documents.put([indexed(f"{number}.md", "common words here") for number in range(9)], "r")
    store.documents.put([indexed("rare.md", "common walrus")], "r")
    common, walrus = store.chunks.match_terms(parse_query("common walrus"))
    assert walrus.chunks.keys() == common.chunks.keys()
    assert len(common.chunks) == 1


def test_putting_a_document_again_replaces_it(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "old words"), indexed("b.md", "other")], "r")
    store.documents.put([indexed("a.md", "new text")], "r")
    assert found_in(store, "old") == set()
    assert found_in(store, "new") == {"a.md"}
    assert found_in(store, "other") == {"b.md"}
    assert store.admin.check() == ()


def test_a_removed_document_leaves_nothing_behind(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "word " * 3000), indexed("b.md", "other")], "r")
    store.documents.remove("memory", ["a.md", "never.md"])
    assert found_in(store, "word") == set()
    assert [(count.files, count.chunks) for count in store.chunks.count_by_source()] == [(1, 1)]


def test_stamps_prove_something_only_after_settling(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "text")], "r")
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}
    assert store.documents.known_stamps("memory", 10_000_000_000) == {"a.md": ()}
    document, _ = indexed("a.md", "text")
    newer = document._replace(stamp=(9, 9, 9, 9), seen_ns=20_000_000_000)
    store.documents.refresh_stamps([newer._replace(hash="cd" * 32)])
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}
    store.documents.refresh_stamps([newer])
    assert store.documents.known_stamps("memory", 5) == {"a.md": (9, 9, 9, 9)}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.lists(st.text("word é東\n- #", max_size=80), max_size=40).map("\n".join), tokens=st.integers(8, 60))
def test_chunks_come_back_as_they_went_in(store: SqliteStore, text: str, tokens: int) -> None:
    document, chunks = indexed("a.md", text, tokens)
    store.documents.put([(document, chunks)], "r")
    last = max((chunk for match in store.chunks.match_terms(parse_query("a.md")) for chunk in match.chunks), default=0)
    loaded = store.chunks.load(range(last - len(chunks) + 1, last + 1))
    assert [(c.text, c.start_line, c.end_line, c.trail) for c in loaded] == [
        (c.chunk.text, c.chunk.start_line, c.chunk.end_line, c.chunk.trail) for c in chunks
    ]


def test_a_snapshot_does_not_see_what_is_written_meanwhile(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "text")], "r")
    with store.chunks.snapshot():
        assert store.chunks.count() == 1
        thread = threading.Thread(target=store.documents.put, args=([indexed("b.md", "more")], "r"))
        thread.start()
        thread.join()
        assert store.chunks.count() == 1
    assert store.chunks.count() == 2


def test_every_thread_reads_on_a_connection_of_its_own(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    seen: list[set[str]] = []
    threads = [threading.Thread(target=lambda: seen.append(found_in(store, "walrus"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{"a.md"}] * 4


def test_closing_twice_is_fine_and_the_store_can_be_used_again(store: SqliteStore) -> None:
    store.admin.close()
    store.admin.close()
    assert store.chunks.count() == 0


def test_the_file_says_whose_it_is_and_which_format_it_has(store: SqliteStore) -> None:
    header = Path(store.file_path).read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == VERSION == len(MIGRATIONS)


def test_an_index_of_a_newer_format_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    SqliteStore(str(path), is_ours=True, owner=OWNER).admin.open()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerIndex, match="newer mdrecall"):
        SqliteStore(str(path), is_ours=True, owner=OWNER).admin.open()
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE files(path TEXT PRIMARY KEY)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase, match="another program"):
        SqliteStore(str(path), is_ours=False, owner=OWNER).admin.open()
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_database_is_left_as_it_is_where_others_may_write(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# My notes\n" * 50)
    with pytest.raises(ForeignDatabase, match="not a database"):
        SqliteStore(str(path), is_ours=False, owner=OWNER).admin.open()
    assert path.read_text() == "# My notes\n" * 50


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage" * 1000,
        b"SQLite format 3\0" + b"\0" * 52 + b"mdrc" + b"\xff" * 4000,
        b"SQLite format 3\0" + b"\0" * 52 + b"what" + b"\xff" * 4000,
    ],
)
def test_a_damaged_index_is_set_aside_and_begun_anew(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(garbage)
    store = SqliteStore(str(path), is_ours=True, owner=OWNER)
    store.admin.open()
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert found_in(store, "walrus") == {"a.md"}
    assert Path(store.health.quarantined_path).read_bytes() == garbage
    store.admin.close()


def test_an_empty_file_becomes_an_index(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.touch()
    store = SqliteStore(str(path), is_ours=False, owner=OWNER)
    store.admin.open()
    assert store.chunks.count() == 0
    store.admin.close()


def test_a_file_damaged_inside_is_set_aside_at_the_next_use(store: SqliteStore) -> None:
    store.documents.put([indexed(f"{n}.md", f"walrus {n} " + "word " * 300) for n in range(50)], "r")
    store.admin.close()
    data = bytearray(Path(store.file_path).read_bytes())
    data[8192 : len(data) - 8192] = b"\x5a" * (len(data) - 16384)
    Path(store.file_path).write_bytes(data)
    assert found_in(store, "walrus") == set()
    assert Path(store.health.quarantined_path).read_bytes() == bytes(data)


def test_another_writer_is_waited_for_and_then_named(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.store.sqlite.connect._BUSY_MS", 50)
    other = apsw.Connection(store.file_path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"index\.sqlite"):
        store.documents.put([indexed("a.md", "text")], "r")
    other.execute("ROLLBACK")
    store.documents.put([indexed("a.md", "text")], "r")
    assert store.chunks.count() == 1


def test_where_nothing_can_be_written_an_index_in_a_temporary_folder_stands_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = SqliteStore(str(tmp_path / "file" / "index.sqlite"), is_ours=True, owner=OWNER)
    store.admin.open()
    assert store.health.write_problem.startswith("Cannot create the folder")
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert found_in(store, "walrus") == {"a.md"}
    store.admin.close()


def test_a_failed_write_changes_nothing(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    document, chunks = indexed("a.md", "penguin")
    broken = [(document, chunks), (document._replace(path="b.md", hash="not hex"), chunks)]
    with pytest.raises(ValueError, match="hexadecimal"):
        store.documents.put(broken, "r")
    assert found_in(store, "walrus") == {"a.md"}
    assert found_in(store, "penguin") == set()


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE chunks",
        "ALTER TABLE documents DROP COLUMN recipe",
        "UPDATE documents SET path = CAST(x'ff' AS TEXT)",
        "UPDATE chunks SET text = CAST(x'c328' AS TEXT)",
    ],
)
def test_damage_that_sqlite_itself_does_not_notice_is_damage(store: SqliteStore, damage: str) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.admin.close()
    db = sqlite3.connect(store.file_path)
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(CorruptIndex):
        read_everything(store)


def test_the_index_of_another_agent_is_left_as_it_is(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    with pytest.raises(ForeignDatabase, match="agent main") as raised:
        SqliteStore(store.file_path, is_ours=False, owner=Owner("other", "/workspace")).admin.open()
    assert "{agentId}" in raised.value.hint
    assert found_in(store, "walrus") == {"a.md"}


def test_of_another_workspace_nothing_is_kept(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.admin.close()
    moved = SqliteStore(store.file_path, is_ours=False, owner=Owner("main", "/elsewhere"))
    assert found_in(moved, "walrus") == set()
    moved.documents.put([indexed("b.md", "walrus")], "r")
    assert found_in(moved, "walrus") == {"b.md"}
    assert moved.admin.check() == ()
    moved.admin.close()


def test_only_the_owner_can_read_the_index(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "new/index.sqlite"), is_ours=True, owner=OWNER)
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()} == {0o600}
    store.admin.close()


def test_a_pipe_or_folder_at_the_path_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ForeignDatabase, match="not a file"):
            SqliteStore(str(tmp_path / name), is_ours=True, owner=OWNER).admin.open()


def test_connections_of_ended_threads_are_closed(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    for _ in range(20):
        thread = threading.Thread(target=found_in, args=(store, "walrus"))
        thread.start()
        thread.join()
    assert len(store._file._readers) <= 2


def read_everything(store: SqliteStore) -> None:
    assert found_in(store, "walrus") == {"a.md"}
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}
    assert store.documents.known_document("memory", "a.md")


def test_a_clock_that_goes_backwards_does_not_keep_new_content_out(store: SqliteStore) -> None:
    old, old_chunks = indexed("a.md", "walrus")
    new, new_chunks = indexed("a.md", "penguin")
    store.documents.put([(old._replace(seen_ns=new.seen_ns + 3_600_000_000_000), old_chunks)], "r")
    store.documents.put([(new, new_chunks)], "r")
    assert found_in(store, "penguin") == {"a.md"}
    assert found_in(store, "walrus") == set()


def test_an_index_deleted_while_open_is_made_again_for_the_next_thread(store: SqliteStore) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    for path in Path(store.file_path).parent.glob("index.sqlite*"):
        path.unlink()
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(store.chunks.count()))
    thread.start()
    thread.join()
    assert counts == [0]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the deployment failed", "deploy"),
        ("we deploy today", "deploying"),
        ("we deploy today", "deployment"),
        ("deploying deploys deployed", "deploy"),
        ("the configuration file", "configurat"),
        ("authentication is broken", "authentica"),
        ("a kubernetes cluster", "kube"),
        ("with ❤️love", "love"),
        ("⚠️warning sign", "warning"),
        ("\ue0a0mainline branch", "mainline"),
    ],
)
def test_forms_beginnings_and_words_beside_odd_signs_are_found(store: SqliteStore, text: str, query: str) -> None:
    store.documents.put([indexed("notes/right.md", text), indexed("notes/wrong.md", "nothing of the sort")], "r")
    assert found_in(store, query) == {"notes/right.md"}
