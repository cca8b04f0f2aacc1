"""Conversations in the index: what is new is found, what was indexed stays, and it all equals an index made anew."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mdrecall import platform
from mdrecall.errors import FileUnreadable
from mdrecall.types.documents import Issue, Space, part_path
from tests.engine.transcript_folder import LONG_AGO, TranscriptFolder, message


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[TranscriptFolder]:
    found = TranscriptFolder(tmp_path)
    yield found
    found.store.admin.close()


def test_a_chunk_cites_the_records_it_is_from(agent: TranscriptFolder) -> None:
    header = '{"type": "session"}\n'
    agent.write(
        "a.jsonl", header, message("the walrus"), "\n", message("sleeps", "assistant"), "{broken\n", message("on")
    )
    report = agent.indexer.sync()
    assert (report.added, report.failed) == (1, ())
    ((path, _, _, start, end, trail, records, text),) = agent.content()
    assert (path, start, end, records) == (part_path("sessions/a.jsonl", 0), 2, 6, "2,4,6")
    assert (trail, text) == ("# 2026-02-10", "User: the walrus\nAssistant: sleeps\nUser: on")


def test_closed_parts_stay_as_they_are_when_a_conversation_grows(agent: TranscriptFolder) -> None:
    agent.write("a.jsonl", *(message(f"number {number} " + "word " * 20) for number in range(200)))
    agent.indexer.sync()
    before = agent.chunk_ids()
    agent.write("a.jsonl", message("one more"))
    assert agent.indexer.sync().changed == 1
    assert len(before) > 100
    assert len(before - agent.chunk_ids()) < 10
    assert agent.content() == agent.reindexed()


def test_a_torn_last_line_is_read_when_it_is_whole(agent: TranscriptFolder) -> None:
    whole = message("the walrus sleeps")
    agent.write("a.jsonl", message("first"), whole[:40])
    agent.indexer.sync()
    assert [row[-1] for row in agent.content()] == ["User: first"]
    agent.write("a.jsonl", whole[40:])
    agent.indexer.sync()
    assert [row[-1] for row in agent.content()] == ["User: first\nUser: the walrus sleeps"]
    assert agent.content() == agent.reindexed()


def test_a_last_line_without_its_end_counts_if_it_is_whole(agent: TranscriptFolder) -> None:
    agent.write("a.jsonl", message("first"), message("second").rstrip("\n"))
    agent.indexer.sync()
    assert [row[-1] for row in agent.content()] == ["User: first\nUser: second"]
    agent.write("a.jsonl", "\n", message("third"))
    agent.indexer.sync()
    assert [row[6] for row in agent.content()] == ["1,2,3"]


def test_half_an_emoji_a_broken_byte_or_a_nul_keeps_nothing_from_being_indexed(agent: TranscriptFolder) -> None:
    path = agent.write("a.jsonl", message("half \ud83d of one"), message("a \0 in it"))
    with path.open("ab") as file:
        file.write(message("caf# au lait").encode().replace(b"#", b"\xe9"))
        file.write(b"\xef\xbb\xbf" + message("a mark").encode().replace(b"\n", b"\r\n"))
    assert agent.indexer.sync().failed == ()
    (row,) = agent.content()
    assert row[-1] == "User: half \ufffd of one\nUser: a \0 in it\nUser: caf\ufffd au lait\nUser: a mark"


def test_an_edit_that_keeps_the_length_of_a_file_is_noticed(agent: TranscriptFolder) -> None:
    path = agent.write("a.jsonl", *(message(f"number {number:04d} " + "word " * 20) for number in range(300)))
    agent.indexer.sync()
    text = path.read_bytes().replace(b"number 0150", b"FIGURE 0150")
    with path.open("r+b") as file:
        file.write(text)
    os.utime(path, (LONG_AGO, LONG_AGO))
    agent.indexer.sync(changes=agent.indexer.compare())
    assert agent.content() == agent.reindexed()


def test_a_file_that_is_written_over_while_it_is_read_is_read_again(
    agent: TranscriptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = agent.write("a.jsonl", *(message(f"number {number:04d} " + "word " * 20) for number in range(3_000)))
    other = path.read_bytes().replace(b"number", b"FIGURE")
    put = agent.store.documents.put

    def meanwhile(*arguments: Any, **more: Any) -> None:
        put(*arguments, **more)
        with path.open("r+b") as file:
            file.write(other + message("more").encode())

    monkeypatch.setattr(agent.store.documents, "put", meanwhile)
    agent.indexer.sync()
    monkeypatch.undo()
    agent.indexer.sync()
    assert agent.content() == agent.reindexed()


def test_what_tools_have_written_is_not_read_again_and_again(
    agent: TranscriptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = message("x" * 100_000, "toolResult")
    path = agent.write("a.jsonl", message("first"), *[tool] * 100)
    agent.indexer.sync()
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(platform, "pread", lambda *where: (found := pread(*where), read.append(len(found)))[0])  # type: ignore[func-returns-value]
    agent.write("a.jsonl", message("one more"))
    agent.indexer.sync()
    monkeypatch.undo()
    assert sum(read) < 2_500_000 < path.stat().st_size / 3
    assert agent.content() == agent.reindexed()


def test_a_long_line_is_put_together_once(agent: TranscriptFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.sessions.jsonl._BLOCK_BYTES", 7)
    agent.write("a.jsonl", message("the walrus"), "\n", message("sleeps " * 500), message("on").rstrip())
    agent.indexer.sync()
    monkeypatch.undo()
    assert agent.content() == agent.reindexed()


def test_growth_is_stored_without_looking_at_what_is_there(agent: TranscriptFolder) -> None:
    agent.write("a.jsonl", message("the walrus"))
    agent.indexer.sync()
    store = agent.store
    space = store.vectors.ensure_space(Space("p", "m", "f", 4)).id
    (state,) = store.documents.transcripts().values()
    ran: list[tuple[str, Any]] = []
    with store._file.transaction(), store._file.writing() as db:
        db.exec_trace = lambda cursor, sql, bindings: ran.append((sql.strip(), bindings)) or True  # type: ignore[func-returns-value]
        store.documents.put((), "format", state=state, keep=0)
        store.vectors.pending(space, 0, 10)
        db.exec_trace = None
    db = apsw.Connection(store.file_path)
    asks = [(sql, bindings) for sql, bindings in ran if sql.startswith(("SELECT", "DELETE", "UPDATE"))]
    steps = [row[3] for sql, bindings in asks for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
    db.close()
    assert len(steps) > 10
    # There are few spaces, and the history keeps a bounded number of revisions.
    bounded = ("VIRTUAL", "spaces", "history")
    assert [step for step in steps if "SCAN" in step and not any(word in step for word in bounded)] == []


@pytest.mark.parametrize("how", ["shorter", "other beginning", "another file"])
def test_a_file_that_was_written_anew_is_indexed_anew(agent: TranscriptFolder, how: str) -> None:
    path = agent.write("a.jsonl", *(message(f"number {number} " + "word " * 20) for number in range(100)))
    agent.indexer.sync()
    text = path.read_text()
    if how == "shorter":
        path.write_text(message("quite different"))
    elif how == "other beginning":
        path.write_text(text.replace("number 0 ", "NUMBER 0 ") + message("more"))
    else:
        path.unlink()
        (agent.folder / "kept").write_text("")
        path.write_text(text.replace("number", "figure") + message("more"))
    agent.indexer.sync()
    assert agent.content() == agent.reindexed()


@pytest.mark.parametrize("how", ["in place, before the last part", "in the middle of another file"])
def test_an_edit_that_comes_with_growth_is_noticed(agent: TranscriptFolder, how: str) -> None:
    path = agent.write("a.jsonl", *(message(f"number {number:04d} " + "word " * 20) for number in range(400)))
    agent.indexer.sync()
    tail = agent.store.documents.transcripts()["sessions/a.jsonl"].tail
    data = bytearray(path.read_bytes())
    at = data.rindex(b"number", 0, tail) if how.startswith("in place") else data.index(b"number", tail // 2)
    assert at > 4096
    data[at : at + 6] = b"FIGURE"
    target = path if how.startswith("in place") else path.with_name("new")
    with target.open("r+b" if target is path else "wb") as file:
        file.write(bytes(data) + message("more").encode())
    target.replace(path)
    agent.indexer.sync()
    assert "FIGURE" in "".join(row[-1] for row in agent.content())
    assert agent.content() == agent.reindexed()


def test_what_vanishes_leaves_the_index_and_a_reset_keeps_its_words(agent: TranscriptFolder) -> None:
    path = agent.write("a.jsonl", message("the walrus"))
    agent.write("b.jsonl", message("the seal"))
    agent.indexer.sync()
    path.rename(agent.folder / "a.jsonl.reset.2026-02-10T10-00-00.000Z")
    (agent.folder / "b.jsonl").unlink()
    report = agent.indexer.sync()
    assert (report.added, report.removed) == (1, 2)
    assert [row[0] for row in agent.content()] == [part_path("sessions/a.jsonl.reset.2026-02-10T10-00-00.000Z", 0)]


def test_a_folder_that_cannot_be_looked_at_deletes_nothing(agent: TranscriptFolder) -> None:
    agent.write("a.jsonl", message("the walrus"))
    agent.indexer.sync()
    before = agent.content()
    agent.folder.rename(agent.base / "away")
    agent.folder.write_text("no folder")
    report = agent.indexer.sync()
    assert report.removed == 0
    assert [issue.path for issue in report.kept] == ["sessions"]
    assert agent.content() == before


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (FileUnreadable("It cannot be read.", path="a.jsonl"), "It cannot be read."),
        (ZeroDivisionError("a bug"), "cannot be indexed, which is a bug: ZeroDivisionError: a bug"),
    ],
)
def test_a_conversation_that_fails_is_named_and_the_others_are_indexed(
    agent: TranscriptFolder, monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str
) -> None:
    for name in "abc":
        agent.write(f"{name}.jsonl", message(f"the walrus {name}"))
    source = agent.indexer.source
    real = source.open

    def open_some(path: str) -> Any:
        if path == "sessions/b.jsonl":
            raise error
        return real(path)

    agent.indexer.sync()
    for name in "abc":
        agent.write(f"{name}.jsonl", message("and more"))
    changes = agent.indexer.compare(everything=True)
    monkeypatch.setattr(source, "open", open_some)
    report = agent.indexer.sync(changes=changes)
    assert report.failed == (Issue("sessions/b.jsonl", problem),)
    assert (report.changed, report.left) == (2, 0)
    if isinstance(error, FileUnreadable):
        states = [agent.indexer.examine(path, changes.listing)[0] for path in changes.unsettled]
        assert sorted(states) == ["changed", "changed", "gone"]
    monkeypatch.undo()
    assert agent.indexer.sync().changed == 1


@pytest.mark.parametrize("name", ["notes.txt", "a.jsonl.bak", ".hidden.jsonl", "a.jsonl.lock", "sessions.json"])
def test_other_files_are_no_transcripts(agent: TranscriptFolder, name: str) -> None:
    agent.write(name, message("the walrus"))
    assert agent.indexer.compare().listing.stamps == {}


def test_a_link_is_not_followed(agent: TranscriptFolder) -> None:
    secret = agent.base / "secret.jsonl"
    secret.write_text(message("of another agent"))
    (agent.folder / "a.jsonl").symlink_to(secret)
    report = agent.indexer.sync()
    assert agent.content() == []
    assert [issue.problem for issue in report.issues] == ["is a symbolic link, which is not followed"]


def test_who_is_stopped_keeps_the_part_at_hand_and_goes_on_from_there(agent: TranscriptFolder) -> None:
    agent.write("long.jsonl", *(message(f"sentence {number} " * 40) for number in range(300)))
    looks = 0

    def stop() -> bool:
        """Not before the transcript is begun, and then at once."""
        nonlocal looks
        looks += 1
        return looks > 1

    sizes = []
    for _ in range(3):
        looks = 0
        agent.indexer.sync(stop=stop)
        sizes.append(len(agent.content()))
    assert 0 < sizes[0] < sizes[1] < sizes[2] < len(agent.reindexed())
    agent.indexer.sync()
    assert agent.content() == agent.reindexed()


#: What makes a conversation that goes on due: after so many bytes, or so many messages.
THRESHOLDS = [
    ((100_000, 5), ["more"] * 4, False),
    ((100_000, 5), ["more"] * 5, True),
    ((2_000, 0), ["x" * 1_000], False),
    ((2_000, 0), ["x" * 1_000] * 2, True),
    ((0, 50), ["x"] * 60, True),
    ((100_000, 0), ["x"] * 60, False),
]


@pytest.fixture
def waiting(agent: TranscriptFolder) -> TranscriptFolder:
    """A folder whose conversations are indexed when enough has been said."""
    agent.indexer = agent.indexer_on(agent.store, (100_000, 50))
    return agent


@pytest.mark.parametrize(("thresholds", "said", "due"), THRESHOLDS)
def test_a_conversation_that_goes_on_is_indexed_when_enough_has_been_said(
    agent: TranscriptFolder, thresholds: tuple[int, int], said: list[str], due: bool
) -> None:
    agent.indexer = agent.indexer_on(agent.store, thresholds)
    agent.write("a.jsonl", message("the first"))
    agent.indexer.sync()
    agent.write("a.jsonl", *map(message, said))
    assert bool(agent.indexer.compare().unsettled) is due
    assert agent.indexer.compare(everything=True).unsettled == ["sessions/a.jsonl"]
    agent.indexer.sync(changes=agent.indexer.compare())
    assert bool(agent.indexer.compare().unsettled) is False


@pytest.mark.parametrize(("quiet_s", "due"), [(0, False), (500, False), (700, True), (10**9, True), (-(10**9), True)])
def test_a_conversation_is_indexed_after_ten_quiet_minutes_or_with_a_time_in_the_future(
    waiting: TranscriptFolder, quiet_s: int, due: bool
) -> None:
    path = waiting.write("a.jsonl", message("the first"))
    os.utime(path, (time.time() - quiet_s,) * 2)
    assert bool(waiting.indexer.compare().unsettled) is due


@pytest.mark.parametrize("how", ["shorter", "another file"])
def test_what_is_not_the_same_transcript_is_indexed_at_once(waiting: TranscriptFolder, how: str) -> None:
    path = waiting.write("a.jsonl", message("the first"), message("the second"))
    waiting.indexer.sync()
    if how == "shorter":
        os.truncate(path, len(message("the first")))
    else:
        waiting.write("new", path.read_text(), message("the third")).replace(path)
    assert waiting.indexer.compare().unsettled == ["sessions/a.jsonl"]


def test_the_newest_conversation_is_indexed_first_and_of_two_of_one_time_the_first_by_name(
    agent: TranscriptFolder,
) -> None:
    ages = {"d": 0, "c": 20, "b": 20, "a": 10}
    for length, (name, age) in enumerate(ages.items()):
        path = agent.write(f"{name}.jsonl", message("word " * (length + 1)))
        os.utime(path, (LONG_AGO - age, LONG_AGO - age))
    report = agent.indexer.sync(changes=agent.indexer.compare())
    assert [change.path for change in report.changes] == [f"sessions/{name}.jsonl" for name in "dabc"]


def test_a_report_counts_every_transcript_once(agent: TranscriptFolder) -> None:
    for name in "abc":
        agent.write(f"{name}.jsonl", message("the walrus"))
    first = agent.indexer.sync()
    assert (first.added, first.changed, first.unchanged, first.left) == (3, 0, 0, 0)
    agent.write("a.jsonl", message("the seal"))
    agent.write("d.jsonl", message("the auk"))
    second = agent.indexer.sync()
    assert (second.added, second.changed, second.unchanged, second.left) == (1, 1, 2, 0)
    agent.write("b.jsonl", message("the seal"))
    stopped = agent.indexer.sync(stop=lambda: True)
    assert stopped.added + stopped.changed + stopped.unchanged + stopped.left == 4
    assert agent.indexer.sync().unchanged >= 3
