"""The real qmd and mcporter: that they do what this room believes of them, and that nothing of them is left."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from mdrecall.config import settings
from mdrecall.errors import ProgramBusy, ProgramFailed, ProgramStopped, ProgramTimedOut
from mdrecall.extras.qmd.mcporter import Mcporter
from mdrecall.extras.qmd.process import Program, index_path, parse_command
from mdrecall.extras.qmd.search import Mode, QmdSearch
from mdrecall.extras.qmd.session import Session
from tests.processes import marked, until
from tests.qmd.agent_home import AgentHome
from tests.qmd.real import PATIENCE_S, Agent, Tools, node_of

FOX = "# Fox\n\nThe red fox sleeps under the hedge.\n"
POOL = "# Pool\n\nwe open twenty connections in the database pool\n"


def files(results: list[dict[str, Any]]) -> list[str]:
    return [str(result["file"]).removeprefix("qmd://") for result in results]


def search(agent: Agent, query: str, program: Program | None = None) -> list[str]:
    arguments = ["search", "--json", "-c", "notes", "--", query]
    return files(json.loads((program or agent.program()).run(arguments, timeout_s=PATIENCE_S).stdout))


def ask(calls: Session | Mcporter, query: str) -> list[str]:
    searches = [{"type": "lex", "query": query}]
    arguments = {"searches": searches, "rerank": False, "limit": 5, "collections": ["notes"]}
    return files(calls.call("query", arguments, timeout_s=PATIENCE_S)["results"])


def session_of(agent: Agent) -> Session:
    return Session((agent.tools.qmd,), env=agent.env)


def porter_of(agent: Agent, start_daemon: bool = True) -> Mcporter:
    return Mcporter(
        agent.program((agent.tools.mcporter,)),
        agent.program((agent.tools.qmd,)),
        settings.Mcporter()._replace(server_name="qmd", start_daemon=start_daemon),
        folder=str(agent.qmd_dir / "mcporter"),
    )


def test_a_question_that_begins_with_a_dash_is_a_question(agent: Agent) -> None:
    agent.index(fox=FOX)
    assert search(agent, "fox -wolf") == ["notes/fox.md"]
    assert search(agent, "-c fox") == ["notes/fox.md"]
    assert search(agent, "--json") == []


def test_a_failure_is_told_in_one_line(agent: Agent) -> None:
    agent.index(fox=FOX)
    with pytest.raises(ProgramFailed, match=r"^qmd search ended with code 1: Collection not found: nope$"):
        agent.program().run(["search", "--json", "-c", "nope", "--", "fox"], timeout_s=PATIENCE_S)
    for suffix in ("-wal", "-shm"):
        Path(index_path(str(agent.qmd_dir)) + suffix).unlink(missing_ok=True)
    Path(index_path(str(agent.qmd_dir))).write_text("no database" * 1000)
    with pytest.raises(ProgramFailed, match=r"SqliteError: file is not a database$"):
        search(agent, "fox")


@contextmanager
def locked(agent: Agent) -> Iterator[None]:
    """Keep the agent's database from being written, while there is something to write."""
    (agent.notes / "fox.md").write_text(FOX + "more\n")
    with apsw.Connection(index_path(str(agent.qmd_dir))) as other:
        other.execute("update documents set active = active")
        yield


def test_a_locked_database_is_told_before_long(agent: Agent) -> None:
    agent.index(fox=FOX)
    with locked(agent), pytest.raises(ProgramBusy):
        agent.program().run(["update"], timeout_s=PATIENCE_S, quiet=True)


@pytest.mark.parametrize("how", ["time-out", "stop"])
def test_nothing_is_left_of_what_is_killed(agent: Agent, how: str) -> None:
    """The launcher of qmd leaves the process that works alive when it alone is killed."""
    agent.index(fox=FOX)
    env = {**agent.env, "QMD_SQLITE_BUSY_TIMEOUT": "100000"}
    program = Program((agent.tools.qmd,), env=env)
    with locked(agent):
        if how == "stop":
            with pytest.raises(ProgramStopped):
                program.run(["update"], timeout_s=PATIENCE_S, stop=lambda: len(marked(agent.mark)) >= 2)
        else:
            with pytest.raises(ProgramTimedOut):
                program.run(["update"], timeout_s=2.0)
        assert until(lambda: not marked(agent.mark))


def test_the_command_may_have_spaces_and_arguments(agent: Agent, tmp_path: Path) -> None:
    agent.index(fox=FOX)
    folder = tmp_path / "QMD Tools"
    folder.mkdir()
    (folder / "qmd").write_text(f'#!/bin/sh\nexec "{agent.tools.qmd}" "$@"\n')
    (folder / "qmd").chmod(0o755)
    script = Path(os.path.realpath(agent.tools.qmd)).parent.parent / "dist" / "cli" / "qmd.js"
    for text in (f"{folder}/qmd", f'"{folder}/qmd"', f"{node_of(agent.tools)} {script}"):
        assert search(agent, "fox", agent.program(parse_command(text))) == ["notes/fox.md"]


def test_a_foreign_configuration_above_the_folder_changes_nothing(real_tools: Tools, tmp_path: Path) -> None:
    """Below such a file qmd forgets its environment; that is why it runs in the root."""
    (tmp_path / ".qmd").mkdir()
    (tmp_path / ".qmd" / "index.yml").write_text(f"collections:\n  foreign:\n    path: {tmp_path}\n")
    agent = Agent(real_tools, tmp_path / "agent").index(fox=FOX)
    below = subprocess.run(
        [real_tools.qmd, "collection", "list"], env=agent.env, cwd=tmp_path / "agent", capture_output=True, check=True
    )
    assert b"foreign" in below.stdout
    assert "foreign" not in agent.program().run(["collection", "list"], timeout_s=PATIENCE_S).stdout
    session = session_of(agent)
    assert search(agent, "fox") == ask(session, "fox") == ["notes/fox.md"]
    assert [found["name"] for found in session.call("status", {}, timeout_s=PATIENCE_S)["collections"]] == ["notes"]
    session.close()


@pytest.mark.parametrize(
    "open_ways",
    [
        (porter_of, session_of),
        pytest.param((porter_of, porter_of), marks=pytest.mark.soak),
        pytest.param((session_of, session_of), marks=pytest.mark.soak),
    ],
    ids=("both ways", "mcporter", "server"),
)
def test_agents_do_not_see_each_other(
    real_tools: Tools, tmp_path: Path, open_ways: tuple[Callable[[Agent], Session | Mcporter], ...]
) -> None:
    one = Agent(real_tools, tmp_path / "one").index(fox=FOX)
    two = Agent(real_tools, tmp_path / "two").index(owl="# Owl\n\nThe owl sleeps by day.\n")
    ways = [open_way(agent) for open_way, agent in zip(open_ways, (one, two), strict=True)]
    try:
        assert [search(agent, "sleeps") for agent in (one, two)] == [["notes/fox.md"], ["notes/owl.md"]]
        assert [ask(way, "sleeps") for way in ways] == [["notes/fox.md"], ["notes/owl.md"]]
        assert len(marked(one.mark)) >= 2
        ways[0].close()
        assert until(lambda: not marked(one.mark))
        assert len(marked(two.mark)) >= 2
    finally:
        for way in ways:
            way.close()
    assert until(lambda: not marked(two.mark))


def test_mcporter_without_a_daemon_leaves_nothing(agent: Agent) -> None:
    agent.index(fox=FOX)
    porter = porter_of(agent, start_daemon=False)
    with pytest.raises(ProgramFailed, match="Document not found: nothing"):
        porter.call("get", {"file": "nothing"}, timeout_s=PATIENCE_S)
    assert until(lambda: not marked(agent.mark))
    porter.close()


def test_a_session_sees_what_is_indexed_after_its_start(agent: Agent) -> None:
    session = session_of(agent)
    session.call("status", {}, timeout_s=PATIENCE_S)
    agent.index(fox=FOX)
    assert ask(session, "fox") == ["notes/fox.md"]
    session.close()
    assert until(lambda: not marked(agent.mark))


def test_every_way_of_searching_works_with_the_models_of_the_user(
    real_tools: Tools, models: dict[str, str], tmp_path: Path
) -> None:
    """They lie where the user's own qmd keeps them, and are named as they are there."""
    cache = tmp_path / "agent" / "home" / ".cache" / "qmd" / "models"
    cache.mkdir(parents=True)
    for path in models.values():
        shutil.copy(path, cache)
    names = {variable: os.path.basename(path) for variable, path in models.items()}
    agent = Agent(real_tools, tmp_path / "agent", names).index(pool=POOL, fox=FOX)
    assert "Embedded 2 chunks" in agent.program().run(["embed"], timeout_s=PATIENCE_S, quiet=True).stdout
    question = "how many connections open the database pool"
    flags = ["--json", "--min-score", "0.01", "-c", "notes", "--", question]
    found = agent.program().run(["vsearch", *flags], timeout_s=PATIENCE_S)
    assert files(json.loads(found.stdout))[0] == "notes/pool.md"
    session = session_of(agent)
    home = AgentHome(tmp_path)
    both = QmdSearch(agent.program(), home.collections(agent.program()), session)
    modes: list[Mode] = ["search", "vsearch", "query"]
    for mode in modes:
        hits, issues = both.search(question, mode, ["notes"], limit=5, within_s=PATIENCE_S)
        assert (hits[0].collection, hits[0].path, issues) == ("notes", "pool.md", ()), mode
    session.close()
