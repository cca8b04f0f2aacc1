"""Conversations in the index: what is new is found, what was indexed stays, and it all equals an index made anew."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mdrecall.core.words import Analyser
from mdrecall.engine.indexer import ChunkSize, recipe_for
from mdrecall.engine.transcripts import Patience, TranscriptIndexer
from mdrecall.sources.sessions import Sessions
from mdrecall.store.sqlite import Owner, SqliteStore

SIZE = ChunkSize(32, 8)
AT_ONCE = Patience(0, 0)
LONG_AGO = 1_600_000_000


def message(text: str, role: str = "user", day: str = "2026-02-10") -> str:
    record = {"type": "message", "timestamp": f"{day}T10:00:00Z", "message": {"role": role, "content": text}}
    return json.dumps(record) + "\n"


class Desk:
    """A folder of transcripts and an index of them."""

    def __init__(self, base: Path, patience: Patience = AT_ONCE) -> None:
        self.folder = base / "sessions"
        self.folder.mkdir()
        self.base = base
        self.store = SqliteStore(str(base / "index.sqlite"), is_ours=True, owner=Owner("main", "/workspace"))
        self.indexer = self.indexer_on(self.store, patience)

    def indexer_on(self, store: SqliteStore, patience: Patience = AT_ONCE) -> TranscriptIndexer:
        source = Sessions(str(self.folder))
        return TranscriptIndexer(
            store, source, SIZE, Analyser(), redact=str, patience=patience, recipe=recipe_for(SIZE)
        )

    def write(self, name: str, *texts: str, mode: str = "a") -> Path:
        path = self.folder / name
        with path.open(mode) as file:
            file.write("".join(texts))
        return path

    def content(self, store: SqliteStore | None = None) -> list[tuple[Any, ...]]:
        db = apsw.Connection((store or self.store).path)
        found = list(
            db.execute(
                """
                SELECT path, hash, ordinal, start_line, end_line, overlap, trail, records, text
                FROM chunks JOIN documents ON documents.id = document_id ORDER BY path, ordinal
                """
            )
        )
        db.close()
        return found

    def chunk_ids(self) -> set[int]:
        db = apsw.Connection(self.store.path)
        found = {number for (number,) in db.execute("SELECT id FROM chunks")}
        db.close()
        return found

    def anew(self) -> list[tuple[Any, ...]]:
        store = SqliteStore(str(self.base / "anew.sqlite"), is_ours=True, owner=Owner("main", "/workspace"))
        try:
            self.indexer_on(store).sync()
            return self.content(store)
        finally:
            store.destroy()
            store.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.store.close()


def test_a_chunk_cites_the_records_it_is_from(desk: Desk) -> None:
    header = '{"type": "session"}\n'
    desk.write(
        "a.jsonl", header, message("the walrus"), "\n", message("sleeps", "assistant"), "{broken\n", message("on")
    )
    report = desk.indexer.sync()
    assert (report.added, report.failed) == (1, ())
    ((path, _, _, start, end, _, trail, records, text),) = desk.content()
    assert (path, start, end, records) == ("sessions/a.jsonl\n000000", 2, 6, "2,4,6")
    assert (trail, text) == ("# 2026-02-10", "User: the walrus\nAssistant: sleeps\nUser: on")


def test_closed_parts_stay_as_they_are_when_a_conversation_grows(desk: Desk) -> None:
    desk.write("a.jsonl", *(message(f"number {number} " + "word " * 20) for number in range(200)))
    desk.indexer.sync()
    before = desk.chunk_ids()
    desk.write("a.jsonl", message("one more"))
    assert desk.indexer.sync().changed == 1
    assert len(before) > 100
    assert len(before - desk.chunk_ids()) < 10
    assert desk.content() == desk.anew()


def test_only_what_was_appended_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a.jsonl", *(message(f"number {number} " + "word " * 20) for number in range(3000)))
    desk.indexer.sync()
    read: list[int] = []
    pread = os.pread

    def counted(file: int, length: int, start: int) -> bytes:
        found = pread(file, length, start)
        read.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counted)
    path = desk.write("a.jsonl", message("one more"))
    desk.indexer.sync()
    assert sum(read) < 30_000 < path.stat().st_size / 10


def test_a_torn_last_line_is_read_when_it_is_whole(desk: Desk) -> None:
    whole = message("the walrus sleeps")
    desk.write("a.jsonl", message("first"), whole[:40])
    desk.indexer.sync()
    assert [row[-1] for row in desk.content()] == ["User: first"]
    desk.write("a.jsonl", whole[40:])
    desk.indexer.sync()
    assert [row[-1] for row in desk.content()] == ["User: first\nUser: the walrus sleeps"]
    assert desk.content() == desk.anew()


def test_a_last_line_without_its_end_counts_if_it_is_whole(desk: Desk) -> None:
    desk.write("a.jsonl", message("first"), message("second").rstrip("\n"))
    desk.indexer.sync()
    assert [row[-1] for row in desk.content()] == ["User: first\nUser: second"]
    desk.write("a.jsonl", "\n", message("third"))
    desk.indexer.sync()
    assert [row[7] for row in desk.content()] == ["1,2,3"]


@pytest.mark.parametrize("how", ["shorter", "other beginning", "another file"])
def test_a_file_that_was_written_anew_is_indexed_anew(desk: Desk, how: str) -> None:
    path = desk.write("a.jsonl", *(message(f"number {number} " + "word " * 20) for number in range(100)))
    desk.indexer.sync()
    text = path.read_text()
    if how == "shorter":
        path.write_text(message("quite different"))
    elif how == "other beginning":
        path.write_text(text.replace("number 0 ", "NUMBER 0 ") + message("more"))
    else:
        path.unlink()
        (desk.folder / "kept").write_text("")
        path.write_text(text.replace("number", "figure") + message("more"))
    desk.indexer.sync()
    assert desk.content() == desk.anew()


def test_what_vanishes_leaves_the_index_and_a_reset_keeps_its_words(desk: Desk) -> None:
    path = desk.write("a.jsonl", message("the walrus"))
    desk.write("b.jsonl", message("the seal"))
    desk.indexer.sync()
    path.rename(desk.folder / "a.jsonl.reset.2026-02-10T10-00-00.000Z")
    (desk.folder / "b.jsonl").unlink()
    report = desk.indexer.sync()
    assert (report.added, report.removed) == (1, 2)
    assert [row[0] for row in desk.content()] == ["sessions/a.jsonl.reset.2026-02-10T10-00-00.000Z\n000000"]


def test_a_folder_that_cannot_be_looked_at_deletes_nothing(desk: Desk) -> None:
    desk.write("a.jsonl", message("the walrus"))
    desk.indexer.sync()
    before = desk.content()
    desk.folder.rename(desk.base / "away")
    desk.folder.write_text("no folder")
    report = desk.indexer.sync()
    assert report.removed == 0
    assert [issue.path for issue in report.kept] == ["sessions"]
    assert desk.content() == before


@pytest.mark.parametrize("name", ["notes.txt", "a.jsonl.bak", ".hidden.jsonl", "a.jsonl.lock", "sessions.json"])
def test_other_files_are_no_transcripts(desk: Desk, name: str) -> None:
    desk.write(name, message("the walrus"))
    assert desk.indexer.look().listing.stamps == {}


def test_a_link_is_not_followed(desk: Desk) -> None:
    secret = desk.base / "secret.jsonl"
    secret.write_text(message("of another agent"))
    (desk.folder / "a.jsonl").symlink_to(secret)
    report = desk.indexer.sync()
    assert desk.content() == []
    assert [issue.problem for issue in report.issues] == ["is a symbolic link, which is not followed"]


def test_who_is_stopped_keeps_the_part_at_hand_and_goes_on_from_there(desk: Desk) -> None:
    desk.write("long.jsonl", *(message(f"sentence {number} " * 40) for number in range(300)))
    looks = 0

    def stop() -> bool:
        """Not before the transcript is begun, and then at once."""
        nonlocal looks
        looks += 1
        return looks > 1

    sizes = []
    for _ in range(3):
        looks = 0
        desk.indexer.sync(stop=stop)
        sizes.append(len(desk.content()))
    assert 0 < sizes[0] < sizes[1] < sizes[2] < len(desk.anew())
    desk.indexer.sync()
    assert desk.content() == desk.anew()


class TestPatience:
    """A conversation that goes on is indexed when enough has been said."""

    def desk(self, base: Path, patience: Patience) -> Desk:
        return Desk(base, patience)

    @pytest.mark.parametrize(("count", "due"), [(4, False), (5, True)])
    def test_after_so_many_messages(self, tmp_path: Path, count: int, due: bool) -> None:
        desk = self.desk(tmp_path, Patience(100_000, 5))
        desk.write("a.jsonl", message("the first"))
        desk.indexer.sync()
        desk.write("a.jsonl", *(message("more") for _ in range(count)))
        assert bool(desk.indexer.look().unsettled) is due
        assert desk.indexer.look(everything=True).unsettled == ["sessions/a.jsonl"]
        desk.store.close()

    def test_after_so_many_bytes(self, tmp_path: Path) -> None:
        desk = self.desk(tmp_path, Patience(2_000, 0))
        desk.write("a.jsonl", message("the first"))
        desk.indexer.sync()
        desk.write("a.jsonl", message("x" * 1_000))
        assert desk.indexer.look().unsettled == []
        desk.write("a.jsonl", message("x" * 1_000))
        assert desk.indexer.look().unsettled == ["sessions/a.jsonl"]
        desk.indexer.sync(look=desk.indexer.look())
        assert desk.indexer.look().unsettled == []
        desk.store.close()

    def test_or_when_nothing_more_is_said(self, tmp_path: Path) -> None:
        desk = self.desk(tmp_path, Patience(100_000, 50))
        path = desk.write("a.jsonl", message("the first"))
        assert desk.indexer.look().unsettled == []
        os.utime(path, (LONG_AGO, LONG_AGO))
        assert desk.indexer.look().unsettled == ["sessions/a.jsonl"]
        desk.store.close()


class Talks(RuleBasedStateMachine):
    """Whatever happens to transcripts, a sync leaves the index as a new one would be."""

    base: Path

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.scratch = tempfile.TemporaryDirectory()
        self.desk = Desk(Path(self.scratch.name))

    names = st.sampled_from(["a.jsonl", "b-topic-7.jsonl", "c.jsonl.reset.2026-02-10T10-00-00.000Z"])
    texts = st.lists(st.sampled_from(["walrus " * 5, "鯨は海にいる" * 20, "x", "word " * 300, ""]), max_size=8)

    @rule(name=names, said=texts, torn=st.booleans())
    def say(self, name: str, said: list[str], torn: bool) -> None:
        lines = "".join(message(text) for text in said)
        self.desk.write(name, lines[:-7] if torn else lines)

    @rule(name=names, said=texts)
    def begin_anew(self, name: str, said: list[str]) -> None:
        self.desk.write(name, *(message(text) for text in said), mode="w")

    @rule(name=names, garbage=st.binary(max_size=40))
    def spoil(self, name: str, garbage: bytes) -> None:
        with (self.desk.folder / name).open("ab") as file:
            file.write(garbage + b"\n")

    @rule(name=names)
    def lose(self, name: str) -> None:
        (self.desk.folder / name).unlink(missing_ok=True)

    @rule()
    def look(self) -> None:
        self.desk.indexer.sync(look=self.desk.indexer.look())

    @invariant()
    def the_index_is_as_a_new_one(self) -> None:
        self.desk.indexer.sync()
        assert self.desk.content() == self.desk.anew()
        assert self.desk.store.check() == ()

    def teardown(self) -> None:
        self.desk.store.close()
        self.scratch.cleanup()


def test_in_whatever_order_things_are_said_the_index_is_as_a_new_one() -> None:
    run_state_machine_as_test(Talks, settings=settings(max_examples=25, stateful_step_count=12, deadline=None))
