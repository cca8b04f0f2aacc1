"""Conversations in the index: what is new is found, what was indexed stays, and it all equals an index made anew."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mdrecall.engine.transcripts import Patience
from mdrecall.types import Space
from mdrecall.types.parts import part_path
from tests.engine.talks import LONG_AGO, Desk, message


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
    assert (path, start, end, records) == (part_path("sessions/a.jsonl", 0), 2, 6, "2,4,6")
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


def test_half_an_emoji_a_broken_byte_or_a_nul_keeps_nothing_from_being_indexed(desk: Desk) -> None:
    path = desk.write("a.jsonl", message("half \ud83d of one"), message("a \0 in it"))
    with path.open("ab") as file:
        file.write(message("caf# au lait").encode().replace(b"#", b"\xe9"))
        file.write(b"\xef\xbb\xbf" + message("a mark").encode().replace(b"\n", b"\r\n"))
    assert desk.indexer.sync().failed == ()
    (row,) = desk.content()
    assert row[-1] == "User: half \ufffd of one\nUser: a \0 in it\nUser: caf\ufffd au lait\nUser: a mark"


def test_an_edit_that_keeps_the_length_of_a_file_is_noticed(desk: Desk) -> None:
    path = desk.write("a.jsonl", *(message(f"number {number:04d} " + "word " * 20) for number in range(300)))
    desk.indexer.sync()
    text = path.read_bytes().replace(b"number 0150", b"FIGURE 0150")
    with path.open("r+b") as file:
        file.write(text)
    os.utime(path, (LONG_AGO, LONG_AGO))
    desk.indexer.sync(look=desk.indexer.look())
    assert desk.content() == desk.anew()


def test_a_file_that_is_written_over_while_it_is_read_is_read_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.write("a.jsonl", *(message(f"number {number:04d} " + "word " * 20) for number in range(3_000)))
    other = path.read_bytes().replace(b"number", b"FIGURE")
    put = desk.store.put_transcript

    def meanwhile(*arguments: Any) -> None:
        put(*arguments)
        with path.open("r+b") as file:
            file.write(other + message("more").encode())

    monkeypatch.setattr(desk.store, "put_transcript", meanwhile)
    desk.indexer.sync()
    monkeypatch.undo()
    desk.indexer.sync()
    assert desk.content() == desk.anew()


def test_a_stop_in_the_middle_of_a_conversation_is_told_and_taken_up_again(desk: Desk) -> None:
    desk.write("gone.jsonl", message("the seal"))
    desk.indexer.sync()
    (desk.folder / "gone.jsonl").unlink()
    desk.write("a.jsonl", *(message(f"number {number} " + "word " * 20) for number in range(10_000)))
    asked: list[bool] = []
    report = desk.indexer.sync(stop=lambda: asked.append(True) or len(asked) > 1)  # type: ignore[func-returns-value]
    assert (report.left, report.added, report.removed) == (1, 0, 0)
    assert desk.content()
    assert desk.indexer.look(everything=True).new_bytes < (desk.folder / "a.jsonl").stat().st_size
    desk.indexer.sync()
    assert desk.content() == desk.anew()


def test_what_tools_have_written_is_not_read_again_and_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = message("x" * 100_000, "toolResult")
    path = desk.write("a.jsonl", message("first"), *[tool] * 100)
    desk.indexer.sync()
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *where: (found := pread(*where), read.append(len(found)))[0])  # type: ignore[func-returns-value]
    desk.write("a.jsonl", message("one more"))
    desk.indexer.sync()
    monkeypatch.undo()
    assert sum(read) < 2_500_000 < path.stat().st_size / 3
    assert desk.content() == desk.anew()


def test_a_long_line_is_put_together_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.sources.sessions._BLOCK_BYTES", 7)
    desk.write("a.jsonl", message("the walrus"), "\n", message("sleeps " * 500), message("on").rstrip())
    desk.indexer.sync()
    monkeypatch.undo()
    assert desk.content() == desk.anew()


def test_growth_is_stored_without_looking_at_what_is_there(desk: Desk) -> None:
    from mdrecall.store.sqlite import transcripts, vectors

    desk.write("a.jsonl", message("the walrus"))
    desk.indexer.sync()
    space = vectors.ensure_space(db := apsw.Connection(desk.store.file_path), Space("p", "m", "f", 4))
    ran: list[tuple[str, Any]] = []
    db.exec_trace = lambda cursor, sql, bindings: ran.append((sql.strip(), bindings)) or True  # type: ignore[func-returns-value]
    transcripts.put(db, desk.store.transcripts()["sessions/a.jsonl"], 0, (), "recipe")
    vectors.pending(db, space, 0, 10)
    db.exec_trace = None
    asks = [(sql, bindings) for sql, bindings in ran if sql.startswith(("SELECT", "DELETE", "UPDATE"))]
    steps = [row[3] for sql, bindings in asks for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
    db.close()
    assert len(steps) > 10
    assert [step for step in steps if "SCAN" in step and "VIRTUAL" not in step and "spaces" not in step] == []


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
    assert [row[0] for row in desk.content()] == [part_path("sessions/a.jsonl.reset.2026-02-10T10-00-00.000Z", 0)]


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

    def test_a_time_in_the_future_does_not_keep_it_waiting(self, tmp_path: Path) -> None:
        desk = self.desk(tmp_path, Patience(100_000, 50))
        path = desk.write("a.jsonl", message("the first"))
        os.utime(path, (4_000_000_000, 4_000_000_000))
        assert desk.indexer.look().unsettled == ["sessions/a.jsonl"]
        desk.store.close()

    @pytest.mark.parametrize(("patience", "due"), [(Patience(0, 50), True), (Patience(100_000, 0), False)])
    def test_no_bytes_are_any_growth_and_no_messages_are_no_threshold(
        self, tmp_path: Path, patience: Patience, due: bool
    ) -> None:
        desk = self.desk(tmp_path, patience)
        desk.write("a.jsonl", message("the first"))
        desk.indexer.sync()
        desk.write("a.jsonl", *(message("x") for _ in range(60)))
        assert bool(desk.indexer.look().unsettled) is due
        desk.store.close()

    def test_or_when_nothing_more_is_said(self, tmp_path: Path) -> None:
        desk = self.desk(tmp_path, Patience(100_000, 50))
        path = desk.write("a.jsonl", message("the first"))
        assert desk.indexer.look().unsettled == []
        os.utime(path, (LONG_AGO, LONG_AGO))
        assert desk.indexer.look().unsettled == ["sessions/a.jsonl"]
        desk.store.close()
