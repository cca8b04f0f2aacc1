"""The encoder beside the table, with random weights: a vector for every passage, made where nobody waits for it."""

import json
import os
import signal
import subprocess
import sys

import apsw
import pytest

from mdrecall.memory import Memory
from mdrecall.store.sqlite.vectors import find_vectors
from tests.conftest import Workspace, examples
from tests.embed.encoder_files import NAME, write_encoder
from tests.processes import until
from tests.reliability.content import files_beside

NOTES = {
    "memory/health.md": "# Health\n\nThe doctor said to cut down on sugar and walk every day.\n",
    "memory/car.md": "# Car\n\nThe vehicle failed its inspection because of worn brakes.\n" + "It is old. " * 60,
    "memory/garden.md": "# Garden\n\nTomatoes were planted in May beside the fence.\n",
}
SWITCHED_ON = '{"mdrecall": {"encoder": true}}'
# Runs the command line with other weights than those of the wheel.
RUN = """
import sys
from mdrecall.cli.main import main
from mdrecall.engine import embedders
embedders.ENCODER_FILE = {!r}
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "encoder.bin"
    write_encoder(path)
    return str(path)


@pytest.fixture
def notebook(workspace: Workspace, weights: str, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr("mdrecall.engine.embedders.ENCODER_FILE", weights)
    workspace.configure(SWITCHED_ON)
    for path, text in NOTES.items():
        workspace.write(path, text)
    return workspace


def count_vectors(memory: Memory) -> int:
    found: int = memory.status().vector["beside"]["chunks"]
    return found


def test_a_sync_that_waits_makes_a_vector_for_every_passage(notebook: Workspace) -> None:
    memory = notebook.memory()
    seen: list[str] = []
    report = memory.sync(waits_for_encoder=True, progress=lambda progress: seen.append(progress.label))
    assert report.issues == ()
    assert "vectors" in seen
    assert memory.status().vector["beside"] == {"provider": "encoder", "model": NAME, "chunks": 3}
    answer = memory.search("what is wrong with my automobile")
    assert answer.model == f"mdrecall-words-v1 + {NAME}"


def test_a_sync_and_a_search_leave_it_to_the_background(notebook: Workspace) -> None:
    memory = notebook.memory()
    assert memory.search("doctor")[0].path == "memory/health.md"
    until(lambda: count_vectors(memory) == 3)
    notebook.write("memory/new.md", "one more")
    assert memory.sync().issues == ()
    until(lambda: count_vectors(memory) == 4)


def test_a_single_command_leaves_it_alone(notebook: Workspace) -> None:
    with Memory.open(notebook.path, env=notebook.env, one_shot=True) as memory:
        assert memory.search("doctor")[0].path == "memory/health.md"
        memory.sync()
        assert count_vectors(memory) == 0


@pytest.mark.parametrize("provider", ["auto", "offline"])
def test_a_setting_switches_it_off_and_its_vectors_go(notebook: Workspace, provider: str) -> None:
    with Memory.open(notebook.path, env=notebook.env, overrides={"provider": provider}) as memory:
        memory.sync(waits_for_encoder=True)
        assert count_vectors(memory) == 3
    notebook.configure('{"mdrecall": {"encoder": false}}')
    with Memory.open(notebook.path, env=notebook.env, overrides={"provider": provider}) as memory:
        notebook.write("memory/new.md", "one more")
        memory.sync(waits_for_encoder=True)
        assert "beside" not in memory.status().vector
    notebook.configure(SWITCHED_ON)
    with Memory.open(notebook.path, env=notebook.env, one_shot=True) as memory:
        assert count_vectors(memory) == 0


@pytest.mark.parametrize(
    ("query", "is_asked"),
    [
        ("what did the physician recommend?", True),
        ("what was planted beside the fence?", False),
        ('physician "cut down"', False),
        ("physician recommendation in garden.md", False),
        ("what did the physician recommend on 2026-03-04?", False),
    ],
)
def test_it_is_asked_only_where_words_are_silent(notebook: Workspace, query: str, is_asked: bool) -> None:
    memory = notebook.memory()
    memory.sync(waits_for_encoder=True)
    answer = memory.search(query, explain=True)
    assert (NAME in (answer.model or "")) is is_asked
    # There the words that are found are there by chance, so meaning counts for more than the setting says.
    why = {part: value for part, value, _ in answer[0].why}
    assert why["vectorWeight"] == pytest.approx(0.595 if is_asked else 0.35)
    assert NAME not in (memory.search(query, is_prompt=True).model or "")


def test_a_memory_that_is_closed_meanwhile_stops_it_and_the_next_one_goes_on(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the weights of the wheel, which take seconds for so much."""
    # On a busy machine it would give way for longer than a test waits.
    monkeypatch.setattr("mdrecall.engine.refresh._NICENESS", 0)
    workspace.configure(SWITCHED_ON)
    for number in range(40):
        workspace.write(
            f"memory/{number}.md", "".join(f"Line {line} of note {number} is here.\n" for line in range(60))
        )
    with Memory.open(workspace.path, env=workspace.env) as memory:
        assert memory.sync().unencoded
        assert until(lambda: count_vectors(memory) > 0)
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        beside = memory.status().vector["beside"]
        assert beside.keys() == {"provider", "model", "chunks"}, "to be interrupted is no failure"
        assert 0 < beside["chunks"] < memory.status().chunks
    assert files_beside(workspace.index) == []


def start(notebook: Workspace, weights: str, *arguments: str) -> "subprocess.Popen[str]":
    env = {**notebook.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RUN.format(weights), *arguments]
    return subprocess.Popen(command, cwd=notebook.path, env=env, stdout=subprocess.PIPE, text=True)


def test_the_command_index_waits_unless_told_not_to(notebook: Workspace, weights: str) -> None:
    for options, count in ((["--no-wait", "--json"], 0), (["--json"], 3)):
        out, _ = start(notebook, weights, "index", *options).communicate(timeout=60)
        assert json.loads(out)[0]["unencoded"] == 3 - count
        with Memory.open(notebook.path, env=notebook.env, one_shot=True) as memory:
            assert count_vectors(memory) == count
    out, _ = start(notebook, weights, "status").communicate(timeout=60)
    assert f"encoder, {NAME}" in out


def read_vectors(index: str) -> dict[int, bytes]:
    """Return the encoder's vectors in the index, by chunk."""
    db = apsw.Connection(index, flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(10_000)
    spaces = list(db.execute("SELECT id FROM spaces WHERE provider='encoder'"))
    found = {number: held for (space,) in spaces for number, held in find_vectors(db, space, range(1, 1_000)).items()}
    db.close()
    return found


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_where_it_stopped(notebook: Workspace, weights: str) -> None:
    for number in range(40):
        notebook.write(
            f"memory/{number}.md", "".join(f"Line {number} of note {line}, and more.\n" for line in range(60))
        )
    start(notebook, weights, "index", "--no-wait").communicate(timeout=60)
    index = str(notebook.index)
    so_far: dict[int, bytes] = {}
    for _ in range(examples(3)):
        running = start(notebook, weights, "index")
        until(lambda: len(read_vectors(index)) > len(so_far) or running.poll() is not None)  # noqa: B023
        running.send_signal(signal.SIGKILL)
        running.communicate()
        now = read_vectors(index)
        # Nothing is lost, and nothing is made twice.
        assert now.items() >= so_far.items()
        so_far = now
    start(notebook, weights, "index").communicate(timeout=120)
    whole = read_vectors(index)
    assert whole.items() >= so_far.items()
    with Memory.open(notebook.path, env=notebook.env, one_shot=True) as memory:
        assert count_vectors(memory) == len(whole) == memory.status().chunks > len(so_far)
