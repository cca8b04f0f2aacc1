"""A memory whose index is in Postgres: the same answers as from a file, and several machines that share it."""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mdrecall import Memory
from mdrecall.errors import ConfigError, FileMissing, RecallError, StoreError, StoreUnavailable
from mdrecall.life.forget import ForgetRequest, Forgetting
from tests.cli.conftest import Ran, run_in_this_process
from tests.postgres_server import Server, count_statements
from tests.processes import until

NOTES = {
    "MEMORY.md": "# Ada\n\n- The lighthouse key is in the blue drawer.\n- Prefers tea to coffee.\n",
    "memory/2026-02-10.md": "# Tuesday\n\nWe chose DEC-0054 for the pool, limit 20.\n\n- [ ] paint the gate\n",
    "memory/2026-02-11.md": "The deployment failed at noon; configuration of the pool was wrong.\n",
    "memory/projects/pool.md": "---\ntags: [database]\n---\n\n# Pool\n\nSee src/db/pool.ts for limits.\n",
    "memory/旅行.md": "# 旅行\n\n我们计划明年春天去京都看樱花。\n",
    "memory/long.md": "\n\n".join(
        f"Paragraph {n} is about walrus number {n} and its {n % 7} friends." for n in range(120)
    ),
}
LONG_LINE = " ".join(f"word{number}" for number in range(2_000))
QUERIES = (
    "lighthouse key", "DEC-0054", "pool limit", "configurat", "京都樱花", "walrus 57", "what does Ada drink", "gate",
)  # fmt: skip


LONG_AGO_S = 1_700_000_000


class Machine:
    """A home with a folder of notes, and a configuration that names the database."""

    def __init__(self, base: Path, server: Server | None, notes: dict[str, str] = NOTES, name: str = "") -> None:
        self.folder = base / "notes"
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, text in notes.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
            # Not just now: as long as a file may still be changing, its stamp proves nothing.
            os.utime(self.folder / path, (LONG_AGO_S, LONG_AGO_S))
        store = {"kind": "postgres", "dsn": "${STORE}", "workspace": name or str(base)}
        own = {"store": store if server else {}, "qmd": {"firstRetrySeconds": 1}}
        (base / "mdrecall.json").write_text(json.dumps({"mdrecall": own}))
        self.env = {"HOME": str(base), "MDRECALL_CONFIG": str(base / "mdrecall.json")}
        self.env |= {"STORE": server.dsn} if server else {}

    def open(self) -> Memory:
        return Memory.open(self.folder, env=self.env)

    def sync(self) -> None:
        with self.open() as memory:
            memory.sync()

    def answers(self) -> list[tuple[object, ...]]:
        with self.open() as memory:
            memory.sync()
            found = [memory.search(query, min_score=0, max_results=10) for query in QUERIES]
        return [(hit.citation, hit.snippet, round(hit.score, 9), hit.date) for answer in found for hit in answer]


def test_both_stores_give_the_same_answers_with_the_same_scores(tmp_path: Path, postgres: Server) -> None:
    in_file, shared = Machine(tmp_path / "a", None), Machine(tmp_path / "b", postgres)
    assert shared.answers() == in_file.answers() != []
    for notes in (in_file, shared):
        (notes.folder / "memory/2026-02-11.md").write_text("The deployment went well; the walrus helped.\n")
        (notes.folder / "memory/long.md").unlink()
        (notes.folder / "memory/new.md").write_text("A penguin joined the pool.\n")
    assert shared.answers() == in_file.answers()
    with shared.open() as memory:
        assert memory.check() == ()
        memory.sync(force=True)
        assert memory.status().db_path.startswith("postgres ")
    assert shared.answers() == in_file.answers()


def test_a_search_and_a_changed_file_take_few_statements(tmp_path: Path, postgres: Server) -> None:
    machine = Machine(tmp_path, postgres)
    with machine.open() as memory:
        for number in range(3):
            (machine.folder / "memory/2026-02-11.md").write_text(f"The deployment of DEC-0{number} went well.\n")
            with count_statements() as sent:
                answer = memory.search(f"DEC-0{number}")
            assert f"DEC-0{number}" in answer[0].snippet
        # Each is a round trip. The last file was changed by one transaction, and found by another; one more asks if
        # the encoder has something to do.
        assert len(sent) <= 31
        with count_statements() as sent:
            assert memory.search("DEC-02")
        assert len(sent) <= 10


def test_a_machine_without_the_notes_searches_and_removes_nothing(tmp_path: Path, postgres: Server) -> None:
    here = Machine(tmp_path / "here", postgres, NOTES | {"memory/one.md": LONG_LINE}, name="team")
    before = here.answers()
    elsewhere = Machine(tmp_path / "elsewhere", postgres, {}, name="team")
    with elsewhere.open() as memory:
        report = memory.sync()
        assert (report.removed, report.issues, memory.issues()) == (0, (), ())
        assert "blue drawer" in memory.search("lighthouse key")[0].snippet
        with pytest.raises(StoreUnavailable, match="on another machine"):
            memory.sync(force=True)
        with pytest.raises(StoreUnavailable, match="on another machine"):
            memory.reset()
        expected = {path: NOTES[path] for path in ("MEMORY.md", "memory/long.md")} | {"memory/one.md": LONG_LINE}
        for path, text in expected.items():
            read = memory.read(path)
            assert (read.is_from_index, read.text.rstrip("\n")) == (True, text.rstrip("\n"))
        with pytest.raises(FileMissing):
            memory.read("memory/nowhere.md")
    shown = run_in_this_process(["get", "MEMORY.md", "--lines", "1"], elsewhere.env, elsewhere.folder)
    from_index = "The note is on another machine; this is what the shared index holds of it.\n"
    assert (shown.code, shown.out, shown.err) == (0, "# Ada\n", from_index)
    shutil.rmtree(elsewhere.folder)
    elsewhere.folder.mkdir()
    assert here.answers() == before
    (here.folder / "memory/long.md").unlink()
    with here.open() as memory:
        assert memory.sync().removed == 1, "Where the notes are, a file that is gone was deleted."


def test_two_machines_with_copies_do_not_index_in_turns(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = {name: Machine(tmp_path / name, postgres, name="copies") for name in ("first", "second")}

    def sync_both() -> list[tuple[int, int, int]]:
        counts = []
        for name, machine in machines.items():
            monkeypatch.setattr("socket.gethostname", lambda name=name: name)
            with machine.open() as memory:
                report = memory.sync()
            counts.append((report.added, report.changed, report.removed))
        return counts

    assert sync_both() == [(len(NOTES), 0, 0), (0, 0, 0)]
    assert sync_both() == [(0, 0, 0)] * 2
    (machines["second"].folder / "memory/new.md").write_text("Only the second machine has it.\n")
    assert sync_both() == [(0, 0, 0), (1, 0, 0)]
    assert sync_both() == [(0, 0, 0)] * 2, "The first machine does not remove what it does not have yet."
    (machines["first"].folder / "memory/2026-02-11.md").write_text("The deployment went well in the end.\n")
    assert sync_both() == [(0, 1, 0), (0, 0, 0)], "The second machine does not bring its old copy back."
    with machines["second"].open() as memory:
        assert "in the end" in memory.search("deployment")[0].snippet


def texts_of(server: Server, name: str) -> bytes:
    """Return every text that the database holds of a workspace."""
    import psycopg

    mine = "(SELECT id FROM mdrecall.workspaces WHERE name = %s)"
    with psycopg.connect(server.dsn) as db:
        found = db.execute(f"SELECT text FROM mdrecall.chunks WHERE workspace_id = {mine}", (name,)).fetchall()
    return b"\n".join(text for (text,) in found)


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("by", ["first", "second"])
def test_what_one_machine_forgets_no_other_brings_back(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch, by: str, is_copied: bool
) -> None:
    name = str(tmp_path)
    machines = {each: Machine(tmp_path / each, postgres, name=name) for each in ("first", "second")}
    machines["third"] = Machine(tmp_path / "third", postgres, {}, name=name)

    @contextmanager
    def on(each: str) -> Iterator[Memory]:
        monkeypatch.setattr("socket.gethostname", lambda: each)
        with machines[each].open() as memory:
            yield memory

    def sync_all() -> list[tuple[object, ...]]:
        reports: list[tuple[object, ...]] = []
        for each in machines:
            with on(each) as memory:
                report = memory.sync()
            reports.append((report.added, report.changed, report.removed, report.rebuilt, report.issues))
        return reports

    nothing = (0, 0, 0, False, ())
    sync_all()
    assert sync_all() == [nothing] * 3
    with on(by) as memory:
        forgetting, now = Forgetting(memory), datetime.now(UTC)
        plan = forgetting.plan(ForgetRequest(phrases=("We chose DEC-0054 for the pool",)), now)
        assert forgetting.apply(plan, now)
    assert b"DEC-0054" not in texts_of(postgres, name)
    # Not just now, as above.
    os.utime(machines[by].folder / "memory/2026-02-10.md", (LONG_AGO_S, LONG_AGO_S))
    if is_copied:
        # As git would do it, which leaves the other machine's own note alone.
        for each in {*machines} - {by}:
            shutil.copytree(machines[by].folder / ".mdrecall", machines[each].folder / ".mdrecall")
    for each in machines:
        with on(each) as memory:
            answer = memory.search("DEC-0054 pool limit", min_score=0)
            assert not [hit for hit in answer if "DEC-0054" in hit.snippet], each
            assert answer.issues == (), each
            assert "DEC-0054" not in memory.read("memory/2026-02-10.md").text
        assert b"DEC-0054" not in texts_of(postgres, name), each
    # Those that were emptied with the old index are filled once more at most; then nobody has anything to do.
    sync_all()
    assert sync_all() == [nothing] * 3
    assert b"DEC-0054" not in texts_of(postgres, name)
    for each in machines:
        with on(each) as memory:
            memory.search("lighthouse key")
            with count_statements() as sent:
                assert "blue drawer" in memory.search("lighthouse key")[0].snippet
            assert len(sent) <= 10, each
    # What comes back from a backup on the other machine is a changed file, and is masked.
    other = "second" if by == "first" else "first"
    note = machines[other].folder / "memory/2026-02-10.md"
    note.write_text(NOTES["memory/2026-02-10.md"] + "\nA heron.\n")
    os.utime(note, (LONG_AGO_S, LONG_AGO_S))
    with on(other) as memory:
        assert "A heron." in memory.search("heron", min_score=0)[0].snippet
    assert b"DEC-0054" not in texts_of(postgres, name)
    with on(other) as memory:
        Forgetting(memory).undo(plan.entry.id)
        assert "DEC-0054" in memory.search("DEC-0054 pool limit", min_score=0)[0].snippet
    for _ in range(2):
        sync_all()
    assert sync_all() == [nothing] * 3


def test_a_machine_that_cannot_keep_what_others_forgot_indexes_nothing(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = {each: Machine(tmp_path / each, postgres, name=str(tmp_path)) for each in ("first", "second")}
    monkeypatch.setattr("socket.gethostname", lambda: "first")
    with machines["first"].open() as memory:
        memory.sync()
        forgetting, now = Forgetting(memory), datetime.now(UTC)
        forgetting.apply(forgetting.plan(ForgetRequest(phrases=("We chose DEC-0054 for the pool",)), now), now)
    monkeypatch.setattr("socket.gethostname", lambda: "second")
    # Nobody can write below a file, not even the superuser.
    (machines["second"].folder / ".mdrecall").write_text("")
    with machines["second"].open() as memory:
        answer = memory.search("pool limit", min_score=0)
        assert answer.results
        assert "is kept in the workspace" in answer.issues[0].problem
        with pytest.raises(StoreUnavailable, match="is kept in the workspace"):
            memory.sync()
    assert b"DEC-0054" not in texts_of(postgres, str(tmp_path))


def test_two_folders_of_a_machine_with_one_name_are_not_mixed(tmp_path: Path, postgres: Server) -> None:
    with Machine(tmp_path / "a", postgres, name="mixed").open() as memory:
        memory.sync()
    other = Machine(tmp_path / "b", postgres, {"MEMORY.md": "Other notes.\n"}, name="mixed")
    with other.open() as memory, pytest.raises(StoreUnavailable, match="another folder of this machine"):
        memory.sync()


def test_a_saved_schema_is_restored_into_another_database(tmp_path: Path, postgres: Server) -> None:
    import psycopg

    machine = Machine(tmp_path, postgres)
    before = machine.answers()
    saved = str(postgres.folder / "saved.sql")
    postgres.run("pg_dump", "-d", postgres.own_dsn, "--schema=mdrecall", "-f", saved)
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("CREATE DATABASE restored")
    restored = psycopg.conninfo.make_conninfo(postgres.own_dsn, dbname="restored")
    postgres.run("psql", "-d", restored, "-q", "-v", "ON_ERROR_STOP=1", "-f", saved)
    machine.env["STORE"] = restored
    with machine.open() as memory:
        assert memory.check() == ()
        report = memory.sync()
    assert (report.added, report.changed, report.removed) == (0, 0, 0)
    assert machine.answers() == before


def test_a_database_that_is_not_named_or_not_there_is_a_clear_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path, None)
    (tmp_path / "mdrecall.json").write_text('{"mdrecall": {"store": {"kind": "postgres"}}}')
    with pytest.raises(ConfigError, match="No database is named"):
        machine.open()
    pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")
    machine.env["MDRECALL_STORE_DSN"] = f"host={tmp_path} user=ada password=hunter2secret dbname=none"
    with machine.open() as memory, pytest.raises(StoreError) as raised:
        memory.sync()
    assert "hunter2secret" not in str(raised.value) + repr(raised.value.__cause__)


def test_the_store_command_sets_up_checks_moves_and_drops(tmp_path: Path, postgres: Server) -> None:
    machine = Machine(tmp_path, postgres)

    def run(*arguments: str) -> Ran:
        return run_in_this_process((*arguments, "--workspace", str(machine.folder)), machine.env, tmp_path)

    assert "The tables are there" in run("store", "setup").out
    assert "Nobody has indexed notes yet." in run("store", "check").out
    assert f"workspace {tmp_path}\n" in run("index").out
    assert "No problems found." in run("doctor").out
    checked = run("store", "check")
    assert (checked.code, "is a superuser" in checked.out, str(machine.folder) in checked.out) == (1, True, True)
    assert "blue drawer" in run("search", "lighthouse key").out
    assert "from now on" in run("store", "move").out
    refused = run("store", "grant")
    assert (refused.code, "Which role?" in refused.err) == (2, True)
    assert run("store", "grant", "nobody; DROP SCHEMA mdrecall").code == 2
    kept = run("store", "drop")
    assert (kept.code, "deletes all rows" in kept.out + kept.err) == (2, True)
    assert "Deleted." in run("store", "drop", "--yes").out
    assert "Nobody has indexed notes yet." in run("store", "check").out


@pytest.mark.parametrize(
    ("options", "said", "can_index"),
    [
        ((), "search and index: {place}", True),
        (("--read-only",), "search: {place}", False),
        (("--all",), "search and index: every memory in the database", True),
    ],
)
def test_a_role_may_do_what_it_was_granted(
    tmp_path: Path, postgres: Server, options: tuple[str, ...], said: str, can_index: bool
) -> None:
    machine, role = Machine(tmp_path, postgres), f"role_{time.time_ns()}"
    postgres.run("psql", "-d", postgres.own_dsn, "-q", "-c", f"CREATE ROLE {role} LOGIN")

    def run(*arguments: str) -> Ran:
        return run_in_this_process((*arguments, "--workspace", str(machine.folder)), machine.env, tmp_path)

    machine.sync()
    granted = run("store", "grant", role, "--json", *options).json
    assert granted == {
        "place": granted["place"],
        "role": role,
        "readOnly": "--read-only" in options,
        "all": "--all" in options,
    }
    assert run("store", "grant", role, *options).out == f"{role} may {said.format(place=granted['place'])}.\n"
    machine.env["STORE"] = postgres.dsn.replace("user=postgres", f"user={role}")
    checked = run("store", "check")
    assert (checked.code, checked.out.splitlines()[0]) == (0, f"All is well: {granted['place']}.")
    (machine.folder / "memory/new.md").write_text("A penguin joined the pool.\n")
    assert (run("index").code == 0) is can_index
    assert "blue drawer" in run("search", "lighthouse key").out


def test_a_rebuild_under_eight_searching_threads_gives_no_error_and_no_mixed_answer(
    tmp_path: Path, postgres: Server
) -> None:
    here = Machine(tmp_path / "here", postgres, {}, name=str(tmp_path))
    elsewhere = Machine(tmp_path / "elsewhere", postgres, {}, name=str(tmp_path))

    def write(version: int) -> None:
        for note in range(12):
            (here.folder / f"walrus{note}.md").write_text(f"Walrus {note} has version{version} of its friends.\n")

    over, seen = threading.Event(), set[str]()
    problems: list[object] = []

    def search(memory: Memory) -> None:
        while not over.is_set():
            try:
                found = memory.search("walrus friends", min_score=0, max_results=30)
            except RecallError as error:
                problems.append(error)
                return
            seen.update(versions := {hit.snippet.split("version")[1].split()[0] for hit in found})
            if len(versions) != 1 or len(found) != 12:
                problems.append((versions, len(found)))

    write(0)
    with here.open() as writer, elsewhere.open() as one, elsewhere.open() as other:
        writer.sync()
        threads = [threading.Thread(target=search, args=(memory,)) for memory in (one, other) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in range(1, 3):
            write(version)
            writer.sync(force=True)
        until(lambda: "2" in seen)
        over.set()
        for thread in threads:
            thread.join()
        assert writer.check() == ()
    assert problems == []
    assert {"2"} < seen, "They have searched before and after a rebuild."


def test_the_status_says_how_much_the_server_holds(tmp_path: Path, postgres: Server) -> None:
    machine = Machine(tmp_path, postgres)
    machine.sync()
    with machine.open() as memory:
        status = memory.status()
    (notes,) = status.source_counts
    assert status.storage
    assert 0 < (notes.chunk_bytes or 0) < status.storage["databaseBytes"]
    assert (notes.dirty, notes.eligible, status.storage["walBytes"]) == (False, len(NOTES), 0)
