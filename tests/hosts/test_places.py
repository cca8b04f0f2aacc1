"""Where sessions take place, and what they share: in repositories, worktrees and other folders, as hosts call hooks."""

import json
import os
import re
import shutil
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.recall import Machine, Session, run
from tests.doors.mcp import McpServer
from tests.processes import until

EIGHT_DAYS = timedelta(days=8)
QUESTION = "On which port does the staging database listen?"
#: What was said in each place. All of it would answer the question.
PORTS = {"shop": "6544", "observatory": "7391", "moved": "5813", "letters": "9302", "home": "4475"}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=ana", "-c", "user.email=ana@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Somebody who has talked in several places eight days ago. One of the repositories was moved since."""
    machine = Machine(tmp_path_factory.mktemp("places"), {})
    shop = machine.project("shop")
    git(shop, "commit", "--allow-empty", "-m", "Begin")
    git(shop, "worktree", "add", "../hotfix")
    for folder in (shop / "src", machine.home / "code" / "hotfix" / "src", machine.home / "letters"):
        folder.mkdir()
    (machine.home / "link").symlink_to(shop)
    git(machine.project("moved"), "remote", "add", "origin", "git@example.org:ana/till.git")
    places = {"home": machine.home, "letters": machine.home / "letters"}
    for name, port in PORTS.items():
        words = f"On {name}: the staging database listens on port {port}, and {name}ish Vega watches it."
        talk(machine, places.get(name) or machine.project(name), f"said-in-{name}", words)
    shutil.move(machine.project("moved"), machine.home / "code" / "till")
    return machine


def talk(machine: Machine, folder: Path, session: str, words: str, *, is_indexed: bool = True) -> None:
    turns = [("user", words), ("assistant", f"Noted: {words}")]
    with machine.entered(folder):
        for _ in machine.live(folder, Session(session, datetime.now(UTC) - EIGHT_DAYS, turns)):
            pass
        if is_indexed:
            run(["index"])


def ask(machine: Machine, folder: Path, *events: str) -> str:
    """All that a model is told in a session whose first prompt is the question, or at some events of it."""
    session = f"ask-{uuid.uuid4().hex}"
    with machine.entered(folder):
        told = (
            machine.hook(event, folder, session, prompt=QUESTION) for event in events or ("session-start", "prompt")
        )
        return "\n".join(told)


def read_known(told: str) -> list[str]:
    """The places of which a text says something. The mark around a text is random and may hold the digits of a port."""
    return [name for name, port in PORTS.items() if re.search(rf"\b{port}\b|{name}ish", told)]


@pytest.mark.parametrize(
    ("folder", "known"),
    [
        ("code/shop", ["shop"]),
        ("code/shop/src", ["shop"]),
        ("code/hotfix", ["shop"]),
        ("code/hotfix/src", ["shop"]),
        ("link/src", ["shop"]),
        ("code/observatory", ["observatory"]),
        ("code/till", ["moved"]),
        ("letters", ["letters"]),
        ("", ["home"]),
        ("code", []),
    ],
)
def test_a_session_knows_what_was_said_in_its_project_and_in_no_other(
    machine: Machine, folder: str, known: list[str]
) -> None:
    assert read_known(ask(machine, machine.home / folder)) == known


@pytest.mark.parametrize(
    ("folder", "known"), [("code/hotfix/src", ["shop"]), ("code/observatory", ["observatory"]), ("notes", list(PORTS))]
)
def test_the_tools_of_a_session_know_no_more_than_it(machine: Machine, folder: str, known: list[str]) -> None:
    days = [f"memory/{path.name}" for path in (machine.notes / "memory").iterdir()]
    with machine.entered(machine.home / folder):
        env = dict(os.environ)
    with McpServer(str(machine.notes), env, machine.home / folder) as server:
        found, _ = server.call("memory_search", {"query": QUESTION, "maxResults": 100, "minScore": 0})
        read = [server.call("memory_get", {"path": path})[0] for path in days]
        said = [server.call("session_get", {"path": f"sessions/claude-code/said-in-{name}.jsonl"}) for name in PORTS]
    assert read_known(json.dumps(found)) == known
    assert read_known(json.dumps(read)) == known
    assert read_known(json.dumps([body for body, is_error in said if not is_error])) == known


def test_repositories_below_a_folder_of_notes_know_nothing_of_each_other(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {})
    for name in ("shop", "observatory"):
        folder = machine.notes / name
        (folder / "src").mkdir(parents=True)
        git(folder, "init")
        words = f"On {name}: the staging database listens on port {PORTS[name]}, and {name}ish Vega watches it."
        talk(machine, folder, f"said-in-{name}", words)
    assert read_known(ask(machine, machine.notes / "shop" / "src")) == ["shop"]
    assert read_known(ask(machine, machine.notes)) == ["shop", "observatory"]


def test_the_next_session_knows_what_was_said_a_moment_ago(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {})
    shop = machine.project("shop")
    talk(machine, shop, "first", "The garden fence gets a second coat of paint.")
    talk(machine, shop, "last", f"The staging database listens on port {PORTS['shop']}.", is_indexed=False)
    # At the end of the session a process that nobody waits for has begun to index it.
    assert until(lambda: read_known(ask(machine, shop, "prompt")) == ["shop"])
