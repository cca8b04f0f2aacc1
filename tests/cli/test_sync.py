"""``mdrecall sync``: what a person types on two machines, and what is forgotten on both."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch
from zipfile import ZipFile

import pytest

from mdrecall.config.load import load
from tests.cli.conftest import Ran, run_in_this_process
from tests.life.traces import find_traces
from tests.postgres_server import Server
from tests.qmd.real import find_tools
from tests.sync.real import list_objects, make_remote

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def wait_for(is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < until
        time.sleep(0.05)


class Home:
    """A machine of a person, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.mkdir(parents=True)
        self.env = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}

    def configure(self, settings: dict[str, object]) -> None:
        (self.folder / "mdrecall.json").write_text(json.dumps(settings))
        self.env["MDRECALL_CONFIG"] = str(self.folder / "mdrecall.json")

    def run(self, *arguments: str, stdin: str = "") -> Ran:
        env = self.env
        if not stdin:
            return run_in_this_process(arguments, env, self.notes)
        command = [sys.executable, "-m", "mdrecall", *arguments]
        done = subprocess.run(
            command, input=stdin, env=env, cwd=self.notes, capture_output=True, text=True, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start_session(self) -> str:
        said = {"session_id": "s", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(self.folder)}
        hook = ("hook", "session-start", "--host", "claude-code", "--workspace", str(self.notes))
        return self.run(*hook, stdin=json.dumps(said)).out

    @property
    def state_folder(self) -> Path:
        return next((self.notes / ".mdrecall/local").glob("*/state.json")).parent

    def rest(self) -> None:
        """Wait for the sync that a command has started to begin, and to end."""
        wait_for((self.state_folder / "waiting").exists)
        wait_for(lambda: not (self.state_folder / "waiting").exists() and not (self.state_folder / "lock").exists())

    def holds(self, text: str) -> list[str]:
        """Return the files that hold a text anywhere, but for objects of git, which are history."""
        return [path for path in find_traces([self.folder], text) if "/git/" not in path]

    def end_syncs(self) -> None:
        """End the syncs that commands have started and nobody has waited for."""
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = process.read_bytes().split(b"\0")
                if b"sync" in words and os.fsencode(self.notes) in words:
                    os.killpg(int(process.parent.name), signal.SIGKILL)


#: Two machines, and the remote.
Homes: TypeAlias = tuple[Home, Home, str]


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[Homes]:
    one, two = Home(tmp_path / "one"), Home(tmp_path / "two")
    (one.notes / "MEMORY.md").write_text("# Facts\n\n- Ana drinks tea.\n- The safe opens with zanzibar.\n")
    yield one, two, make_remote(tmp_path / "remote.git")
    one.end_syncs()
    two.end_syncs()


@pytest.fixture
def alone(homes: Homes) -> tuple[Home, str]:
    """A machine that syncs already, and the remote."""
    homes[0].run("sync", "init", homes[2])
    return homes[0], homes[2]


@pytest.fixture
def joined(homes: Homes, alone: tuple[Home, str]) -> Homes:
    homes[1].run("sync", "join", homes[2])
    return homes


def test_two_commands_bring_a_memory_to_a_second_machine(homes: Homes) -> None:
    one, two, url = homes
    assert one.run("sync", "init", url).out == "1 note sent.\n"
    assert two.run("sync", "join", url).out == "1 note received.\n"
    assert two.run("sync").out == "Nothing new.\n"
    assert "tea" in two.run("search", "what does Ana drink").out
    two.run("note", "Bo", "has", "a", "dog")
    assert two.run("sync").out == "1 note sent.\n"
    assert one.run("sync", "now").out == "1 note received.\n"
    assert two.run("sync", "join", url, str(two.folder / "new")).code == 0
    assert (two.folder / "new/MEMORY.md").exists()
    assert "dog" in one.run("search", "dog").out


def test_two_machines_that_edit_one_line_keep_both_versions_until_somebody_decides(joined: Homes) -> None:
    one, two, _ = joined
    for home, drink in ((one, "green tea"), (two, "black tea")):
        note = home.notes / "MEMORY.md"
        note.write_text(note.read_text().replace("tea", drink))
        home.run("sync")
    one.run("sync")
    for home in (one, two):
        listed = home.run("conflicts").out
        assert "  Ana drinks green tea.\n" in listed
        assert "  Ana drinks black tea.\n" in listed
        assert "versions" not in home.run("search", "what does Ana drink").out
    (conflict,) = one.run("conflicts", "--json").json["conflicts"]
    assert (conflict["kind"], conflict["isOrdered"]) == ("version", False)
    assert one.run("conflicts", "--keep", conflict["old"]["citation"]).code == 0
    one.run("sync")
    two.run("sync")
    assert one.run("conflicts").code == two.run("conflicts").code == 1


def list_revisions(home: Home, server: Server | None) -> dict[str, int]:
    """Return when each file was indexed last."""
    if server:
        import psycopg

        statement = """
            SELECT convert_from(path, 'UTF8'), revision FROM mdrecall.documents
            WHERE workspace_id = (SELECT id FROM mdrecall.workspaces WHERE name = %s)
        """
        with psycopg.connect(server.dsn) as db:
            return dict(db.execute(statement, (str(home.folder),)).fetchall())
    index = load(env=home.env, workspace=str(home.notes)).settings.index_path
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as db:
        return dict(db.execute("SELECT path, revision FROM documents").fetchall())


@pytest.mark.parametrize(
    "where", ["file", "renamed", "moved", "postgres", "lancedb", pytest.param("qmd", marks=pytest.mark.real)]
)
def test_wherever_the_memory_is_kept_one_sync_forgets_and_indexes_nothing_else(
    homes: Homes, where: str, request: pytest.FixtureRequest
) -> None:
    one, two, url = homes
    server = request.getfixturevalue("postgres") if where == "postgres" else None
    if where in ("postgres", "qmd"):
        # An index in a file is not used any more.
        (two.notes / "own.md").write_text("- zanzibar is the word.\n")
        two.run("index")
    if server:
        two.env["STORE"] = server.dsn
        two.configure({"mdrecall": {"store": {"kind": "postgres", "dsn": "${STORE}", "workspace": str(two.folder)}}})
    elif where == "qmd":
        command = find_tools().qmd
        two.configure({"memory": {"backend": "qmd", "qmd": {"command": command, "searchMode": "search"}}})
    elif where == "lancedb":
        pytest.importorskip("lancedb", reason="needs lancedb: pip install -e '.[lancedb]'")
        two.configure({"plugins": {"slots": {"memory": "memory-lancedb"}}})
    for number in range(20):
        (one.notes / f"topic-{number}.md").write_text(f"# Topic {number}\n\nA walrus has number {number}.\n")
    one.run("sync", "init", url)
    two.run("sync", "join", url)
    if where == "renamed":
        # The index of the folder's old name has the text, too.
        two.run("index")
        two.notes = two.notes.rename(two.folder / "elsewhere")
    for name in ("other", "third") if where == "moved" else ():
        # So have those that the settings named before.
        two.run("index")
        two.configure({"memorySearch": {"store": {"path": str(two.folder / name / "index-of-{agentId}.sqlite")}}})
    for note in two.notes.glob("*.md"):
        # What was written a moment ago is looked at again once it has settled, and gets a new revision.
        os.utime(note, (1_700_000_000, 1_700_000_000))
    two.run("index")
    settings = load(env=two.env, workspace=str(two.notes)).settings
    copies = Path(settings.sessions_dir).parent / "hosts/claude-code"
    copies.mkdir(parents=True)
    said = {"type": "message", "timestamp": "2026-11-17T08:00:00Z", "message": {"role": "user", "content": "zanzibar?"}}
    (copies / "c1.jsonl").write_text(json.dumps(said) + "\n")
    (two.notes / "own.md").write_text("- not sent yet: zanzibar is the word.\n- Cy is tall.\n")
    if where == "lancedb":
        assert two.run("ltm", "store", "The password is zanzibar").code == 0
    assert "zanzibar" in two.run("search", "zanzibar").out
    before = list_revisions(two, server) if where != "qmd" else {}
    assert one.run("forget", "zanzibar", "--apply").code == 0
    one.run("sync")
    assert "has not confirmed 1 thing that was forgotten" in one.run("sync", "status").out
    done = two.run("sync")
    assert (done.code, "What was forgotten on another machine is forgotten here." in done.out) == (0, True)
    after = list_revisions(two, server) if where != "qmd" else {}
    if where != "qmd":
        assert {path for path in after if after[path] != before[path]} == {"MEMORY.md", "own.md"}
    assert two.holds("zanzibar") == []
    assert "zanzibar" not in two.run("search", "zanzibar").out + two.run("search", "walrus").out
    assert "tea" in two.run("get", "MEMORY.md").out
    assert "zanzibar" not in two.run("get", "MEMORY.md").out
    assert two.run("get", "own.md").out == "- Cy is tall.\n"
    one.run("sync")
    assert "confirmed" not in one.run("sync", "status").out
    assert one.holds("zanzibar") == []
    assert two.run("export", str(two.folder / "all.zip")).code == 0
    with ZipFile(two.folder / "all.zip") as archive:
        assert not [name for name in archive.namelist() if b"zanzibar" in archive.read(name)]
    if server:
        import psycopg

        with psycopg.connect(server.dsn) as db:
            for table in ("pages", "chunks", "documents", "changes"):
                rows = db.execute(f"SELECT t::text FROM mdrecall.{table} t").fetchall()
                assert not [row for (row,) in rows if "zanzibar" in row or b"zanzibar".hex() in row], table


def test_the_history_can_be_forgotten_and_unsent_notes_survive(joined: Homes) -> None:
    one, two, url = joined
    (two.notes / "own.md").write_text("- not sent yet\n")
    assert one.run("forget", "zanzibar", "--history").code == 2
    ran = one.run("forget", "zanzibar", "--apply", "--history")
    assert "The history is dropped" in ran.out
    two.run("sync")
    one.run("sync")
    assert (one.notes / "own.md").read_text() == "- not sent yet\n"
    subprocess.run(["git", "--git-dir", url, "gc", "--quiet", "--prune=now"], check=True)
    folders = [next((home.notes / ".mdrecall/local").glob("*/git")) for home in (one, two)]
    for folder in (*folders, Path(url)):
        assert b"zanzibar" not in list_objects(folder), folder
    assert one.run("sync").out == two.run("sync").out == "Nothing new.\n"


def test_what_was_forgotten_stays_forgotten_if_it_is_written_again_elsewhere(joined: Homes) -> None:
    one, two, _ = joined
    one.run("forget", "zanzibar", "--apply")
    one.run("sync")
    two.run("sync")
    (two.notes / "again.md").write_text("- zanzibar again\n- other\n")
    two.run("sync")
    one.run("sync")
    assert (one.notes / "again.md").read_text() == "- other\n"


def test_a_session_that_starts_syncs_by_itself_and_says_how_old_the_notes_are(joined: Homes) -> None:
    one, two, _ = joined
    (one.notes / "new.md").write_text("- Bo has a dog.\n")
    one.run("sync")
    last = two.state_folder / "last-sync"
    assert re.search(r"were last synced \d+ seconds? ago with the user's other machines", two.start_session())
    assert not (two.notes / "new.md").exists()
    os.utime(last, (time.time() - 7300,) * 2)
    assert "were last synced 2 hours ago" in two.start_session()
    wait_for((two.notes / "new.md").exists)
    wait_for(lambda: time.time() - last.stat().st_mtime < 60)


#: A server that never answers: it writes down its process, and whether somebody could be asked for a password.
SILENT = """#!/bin/sh
echo $$ >> "$MDRECALL_TEST_FOLDER/waiting"
if [ "$SSH_ASKPASS_REQUIRE" != never ] || [ "$GIT_TERMINAL_PROMPT" != 0 ] || (: < /dev/tty) 2> /dev/null; then
    touch "$MDRECALL_TEST_FOLDER/asked"
fi
exec sleep 600
"""


@pytest.mark.parametrize("is_awaited", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_no_session_waits_for_a_server_that_does_not_answer(alone: tuple[Home, str], is_awaited: bool) -> None:
    one, _ = alone
    folder = one.state_folder
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"url": "ssh://host/memory.git"}))
    os.utime(folder / "last-sync", (time.time() - 7300,) * 2)
    ssh = one.folder / "ssh"
    ssh.write_text(SILENT)
    ssh.chmod(0o755)
    one.env |= {"GIT_SSH": str(ssh), "MDRECALL_TEST_FOLDER": str(one.folder)}
    assert "were last synced" in one.start_session()
    wait_for((one.folder / "waiting").exists)
    (server,) = map(int, (one.folder / "waiting").read_text().split())
    # The hook has answered, and the sync still waits.
    os.kill(server, 0)
    if is_awaited:
        wait_for(lambda: not Path(f"/proc/{server}").exists())
        wait_for((folder / "failed.json").exists)
    else:
        one.end_syncs()
        os.killpg(os.getpgid(server), signal.SIGKILL)
    assert not (one.folder / "asked").exists()


def test_what_is_noted_is_sent_by_itself(joined: Homes) -> None:
    one, two, _ = joined
    one.run("note", "Bo", "has", "a", "dog")
    one.run("note", "Cy", "has", "a", "cat")
    one.rest()
    assert "1 note received" in two.run("sync").out


def test_a_sync_that_nobody_waits_for_writes_down_why_it_failed_and_then_pauses(alone: tuple[Home, str]) -> None:
    one, url = alone
    Path(url).rename(url + ".away")
    assert one.run("sync", "--quiet", stdin="-") == Ran(2, "", "")
    assert re.search(r"the last sync failed \d+ seconds? ago: The remote cannot be", one.run("sync", "status").out)
    one.run("note", "Bo", "has", "a", "dog")
    assert not (one.state_folder / "waiting").exists()
    ran = one.run("sync")
    assert (ran.code, ran.err.startswith("mdrecall: The remote cannot be reached: ")) == (2, True)
    Path(url + ".away").rename(url)
    assert one.run("sync").out == "1 note sent.\n"
    assert "failed" not in one.run("sync", "status").out


def test_a_paused_memory_starts_no_sync(alone: tuple[Home, str]) -> None:
    one, _ = alone
    one.run("sync", "pause")
    with patch.object(subprocess, "Popen", side_effect=AssertionError):
        one.run("note", "Bo", "has", "a", "dog")
    assert ", paused" in one.run("sync", "status").out


def test_status_names_the_machines_and_hides_a_password(homes: Homes) -> None:
    one, _, url = homes
    assert (one.run("sync", "status").code, one.run("sync").code) == (1, 2)
    assert "mdrecall sync init URL" in one.run("sync").err
    one.run("sync", "init", url)
    record = one.run("sync", "status", "--json").json
    assert [machine["isThis"] for machine in record["machines"]] == [True]
    assert record["paused"] is False
    state = one.state_folder / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"url": "https://me:hunter2@host/x.git"}))
    shown = one.run("sync", "status")
    assert "https://host/x.git" in shown.out
    assert "hunter2" not in shown.out


def test_no_text_of_a_note_is_in_the_history_of_commits(alone: tuple[Home, str]) -> None:
    log = subprocess.run(["git", "--git-dir", alone[1], "log", "mdrecall"], capture_output=True, check=True).stdout
    assert b"MEMORY" not in log
    assert b"3 changed" in log


def test_what_waits_is_shown_and_a_machine_that_leaves_without_its_remote_says_what_is_left(joined: Homes) -> None:
    one, two, url = joined
    assert "to send" not in two.run("sync", "status").out
    (two.notes / "MEMORY.md").unlink()
    (two.notes / "own.md").write_text("- own\n")
    assert ", 2 notes to send\n" in two.run("sync", "status").out
    assert two.run("sync", "status", "--json").json["waiting"] == ["MEMORY.md", "own.md"]
    Path(url).rename(url + ".away")
    assert "the other machines still list this one" in two.run("sync", "leave").err
    assert (two.run("sync").code, (two.notes / "own.md").exists()) == (2, True)
    Path(url + ".away").rename(url)
    one.run("sync")
    for machine in one.run("sync", "status", "--json").json["machines"]:
        if not machine["isThis"]:
            (one.notes / f".mdrecall/machines/{machine['id']}.json").unlink()
    one.run("sync")
    assert len(one.run("sync", "status", "--json").json["machines"]) == 1


@pytest.mark.parametrize(
    "arguments", [("status", "x"), ("pause", "--shared"), ("join",), ("share",), ("share", "MEMORY.md#L1")]
)
def test_what_does_not_fit_together_is_refused(homes: Homes, arguments: tuple[str, ...]) -> None:
    ran = homes[0].run("sync", *arguments)
    assert (ran.code, "sync" in ran.err) == (2, True)


@pytest.fixture
def sealed(homes: Homes) -> Homes:
    """Two machines that share an encrypted memory."""
    pytest.importorskip("pyrage", reason="needs pyrage: pip install -e '.[sync]'")
    one, two, url = homes
    for home in (one, two):
        home.env["MDRECALL_SYNC_PASSPHRASE"] = "correct horse"
    ran = one.run("sync", "init", url, "--encrypt")
    assert (ran.out, "If the key is lost" in ran.err) == ("1 note sent.\n", True)
    assert two.run("sync", "join", url, "--invite", stdin=one.run("sync", "invite").out).out == "1 note received.\n"
    return homes


def test_an_invitation_takes_the_key_to_another_machine(homes: Homes) -> None:
    pytest.importorskip("pyrage", reason="needs pyrage: pip install -e '.[sync]'")
    one, two, url = homes
    one.run("sync", "init", url, "--encrypt")
    assert one.run("sync", "invite", stdin="short\n").code == 2
    line = one.run("sync", "invite", stdin="correct horse\n").out
    for given in ("\n", f"{line}correct house\n", f"{line[:90]}\ncorrect horse\n", "x" * 10_000):
        ran = two.run("sync", "join", url, "--invite", stdin=given)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "the invitation is not complete" in ran.err
    ran = two.run("sync", "join", url)
    assert (ran.code, ran.out) == (2, "")
    assert "encrypted, and its key is not on this machine" in ran.err
    assert two.run("sync", "status").code == 1
    assert two.run("sync", "join", url, "--invite", stdin=f"{line}correct horse\n").out == "1 note received.\n"
    for home in (one, two):
        assert home.run("sync", "status", "--json").json["encrypted"] is True
        assert ", encrypted" in home.run("sync", "status").out
    assert one.run("sync", "init", url, "--encrypt").out == "Nothing new.\n"


def test_an_encrypted_history_can_be_forgotten_and_left(sealed: Homes) -> None:
    one, two, url = sealed
    (two.notes / "own.md").write_text("- not sent yet\n- another zanzibar\n")
    assert one.run("forget", "zanzibar", "--apply", "--history").code == 0
    two.run("sync")
    one.run("sync")
    assert (one.notes / "own.md").read_text() == "- not sent yet\n"
    assert one.holds("zanzibar") == two.holds("zanzibar") == []
    assert one.run("sync").out == two.run("sync").out == "Nothing new.\n"
    assert b"drinks tea" not in list_objects(url)
    assert two.run("sync", "leave").code == 0
    assert (two.notes / "MEMORY.md").exists()
    one.run("sync")
    assert len(one.run("sync", "status", "--json").json["machines"]) == 1
    assert two.run("sync", "join", url).out.startswith("Nothing new.")
