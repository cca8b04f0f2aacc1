"""A process that has texts embedded for money is killed: the next one pays for at most one request again, or none."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from mdrecall.embed.remote.providers import PROVIDERS
from tests.conftest import Workspace
from tests.engine.batch_workspace import WORDS, BatchWorkspace
from tests.processes import PATIENCE_S
from tests.providers import faults
from tests.providers.faults import Fault
from tests.providers.server import Kind, ProviderServer
from tests.providers.wire import Recorded, Wire
from tests.reliability.content import content_of

TEXTS_IN_ONE = 2
EMBEDDINGS = "POST *mbed*"

_SYNC = """
import os, signal, sys
from mdrecall.embed.remote.providers import PROVIDERS
from mdrecall.memory import Memory
from mdrecall.store.sqlite.store import SqliteEmbeddingCache
from mdrecall.store.sqlite.vectors import SqliteVectors

kind, inputs, force, dies_at, when, count = sys.argv[1:]
PROVIDERS[kind] = PROVIDERS[kind]._replace(request_inputs=int(inputs))
if dies_at:
    role, _, method = dies_at.partition(".")
    part = {"cache": SqliteEmbeddingCache, "vectors": SqliteVectors}[role]
    act, left = getattr(part, method), int(count)

    def last(*args, **more):
        global left
        left -= 1
        if left or when == "after":
            done = act(*args, **more)
        if left:
            return done
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(part, method, last)
with Memory.open(os.getcwd(), env=dict(os.environ)) as memory:
    memory.sync(force=bool(force))
"""


class Victim:
    """A process that syncs, to be killed."""

    def __init__(
        self, batches: BatchWorkspace, *, force: bool = False, dies: tuple[str, str, int] = ("", "", 0)
    ) -> None:
        arguments = [batches.server.kind, str(TEXTS_IN_ONE), "yes" if force else "", *map(str, dies)]
        self._process: subprocess.Popen[bytes] | None = None
        self._arguments = [sys.executable, "-c", _SYNC, *arguments]
        self._batches = batches

    def run(self) -> None:
        """Let it live until it is killed."""
        place, env = self._batches.workspace.path, self._batches.process_env
        with subprocess.Popen(self._arguments, cwd=place, env=env) as self._process:
            assert self._process.wait(PATIENCE_S) == -9, "it was not killed"

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def at(self, pattern: str, number: int, how: str) -> Fault:
        """The fault that kills it at the so-manieth such request, when it is asked, half answered, or answered.

        What is ``ignored`` is not even done.
        """

        def send(wire: Wire, head: bytes, body: bytes) -> bool:
            told = {"answered": head + body, "half": head + body[: len(body) // 2]}.get(how, b"")
            if told:
                wire.send(told)
            self.kill()
            return False

        reply = faults.hang().reply if how == "ignored" else None
        return Fault(how, path=pattern, send=send, reply=reply, only=_numbered(number))


def _numbered(number: int) -> Callable[[Recorded], bool]:
    seen = 0

    def only(_: Recorded) -> bool:
        nonlocal seen
        seen += 1
        return seen == number

    return only


@pytest.fixture
def batches_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Kind], BatchWorkspace]]:
    opened: list[ProviderServer] = []

    def make(kind: Kind) -> BatchWorkspace:
        few = PROVIDERS[kind]._replace(request_inputs=TEXTS_IN_ONE)
        monkeypatch.setitem(PROVIDERS, kind, few)
        opened.append(ProviderServer(kind, dimensions=8))
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        batches = BatchWorkspace(Workspace(folder), opened[-1])
        batches.write(*WORDS)
        return batches

    yield make
    for server in opened:
        with server:
            pass


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The vectors of an index whose making nobody has disturbed."""
    with ProviderServer("openai", dimensions=8) as server:
        batches = BatchWorkspace(Workspace(tmp_path_factory.mktemp("fresh")), server)
        batches.configure(enabled=False)
        batches.write(*WORDS)
        batches.sync()
        return list(content_of(batches.index).vectors.values())


def vectors_of(batches: BatchWorkspace) -> list[Any]:
    return list(content_of(batches.index).vectors.values())


def soak(*values: object) -> ParameterSet:
    """Return a moment whose state on the disk or at the provider is nearly that of one before or after it."""
    return pytest.param(*values, marks=pytest.mark.soak)


DIRECT = [
    (1, "asked", False),
    soak(2, "answered", False),
    (3, "half", False),
    (4, "ignored", False),
    soak(3, "asked", True),
]


@pytest.mark.parametrize(("number", "how", "force"), DIRECT)
def test_killed_between_requests_a_process_pays_for_one_again_at_most(
    batches_of: Callable[[Kind], BatchWorkspace], fresh: list[Any], number: int, how: str, force: bool
) -> None:
    batches = batches_of("openai")
    batches.configure(enabled=False)
    victim = Victim(batches, force=force)
    batches.server.faults.add(victim.at(EMBEDDINGS, number, how))
    victim.run()
    assert batches.sync(force=force).issues == ()
    assert set(batches.direct) == set(WORDS)
    assert len(batches.direct) - len(WORDS) <= TEXTS_IN_ONE
    assert vectors_of(batches) == fresh


STORING = [
    ("cache.put", "before", 3),
    soak(("vectors.put", "before", 3)),
    ("vectors.put", "after", 5),
    soak(("vectors.mark_filled", "before", 1)),
]


@pytest.mark.parametrize("dies", STORING, ids=str)
def test_killed_while_it_stores_an_answer_a_process_pays_for_one_request_again_at_most(
    batches_of: Callable[[Kind], BatchWorkspace], fresh: list[Any], dies: tuple[str, str, int]
) -> None:
    batches = batches_of("openai")
    batches.configure(enabled=False)
    Victim(batches, dies=dies).run()
    assert batches.sync().issues == ()
    again = TEXTS_IN_ONE if dies[:2] == ("cache.put", "before") else 0
    assert (len(batches.direct), set(batches.direct)) == (len(WORDS) + again, set(WORDS))
    assert vectors_of(batches) == fresh


JOB = [
    soak("openai", "upload", 1, "asked"),
    ("openai", "upload", 1, "answered"),
    ("openai", "create", 1, "ignored"),
    ("openai", "create", 1, "asked"),
    ("gemini", "create", 1, "asked"),
    soak("openai", "create", 1, "answered"),
    ("openai", "poll", 1, "asked"),
    soak("openai", "poll", 2, "answered"),
    ("openai", "output", 1, "half"),
    soak("openai", "output", 1, "answered"),
]


@pytest.mark.parametrize(("kind", "what", "number", "how"), JOB)
def test_killed_at_any_request_of_a_job_a_process_pays_for_nothing_again(
    batches_of: Callable[[Kind], BatchWorkspace], fresh: list[Any], kind: Kind, what: str, number: int, how: str
) -> None:
    batches = batches_of(kind)
    batches.plan(polls_until_done=3)
    victim = Victim(batches)
    batches.server.faults.add(victim.at(batches.at(what), number, how))
    victim.run()
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(WORDS), [], 1, [])
    assert vectors_of(batches) == fresh


WRITING = [
    (("cache.put_job", "before", 1), False),
    (("cache.put_job", "after", 1), False),
    soak(("cache.put_job", "after", 1), True),
    soak(("cache.put_job", "before", 2), False),
    (("cache.put_job", "after", 2), False),
    soak(("cache.put", "before", 1), False),
    (("cache.put", "after", 1), False),
    (("vectors.put", "after", 1), False),
    soak(("cache.put_job", "before", 3), False),
    (("cache.put_job", "before", 3), True),
    (("cache.put_job", "after", 3), False),
]


@pytest.mark.parametrize(("dies", "force"), WRITING, ids=str)
def test_killed_at_any_note_that_it_makes_of_a_job_a_process_pays_for_nothing_again(
    batches_of: Callable[[Kind], BatchWorkspace], fresh: list[Any], dies: tuple[str, str, int], force: bool
) -> None:
    batches = batches_of("openai")
    Victim(batches, force=force, dies=dies).run()
    assert batches.sync(force=force).issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(WORDS), [], 1, [])
    assert vectors_of(batches) == fresh


def test_killed_again_and_again_a_process_pays_for_no_job_twice(batches_of: Callable[[Kind], BatchWorkspace]) -> None:
    batches = batches_of("voyage")
    batches.plan(polls_until_done=4)
    for _ in range(2):
        victim = Victim(batches)
        batches.server.faults.add(victim.at(batches.at("poll"), 1, "answered"))
        victim.run()
        batches.unhindered()
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct, len(batches.made), batches.kept()) == (sorted(WORDS), [], 1, [])
