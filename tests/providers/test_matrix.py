"""Whatever a provider does, a memory answers by words, says what is wrong and where, and shows no key."""

import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from mdrecall.embed.remote import client, embedder, transport
from mdrecall.embed.remote.client import RetryPolicy
from mdrecall.errors import EmbedderError
from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer
from mdrecall.types.sync import SyncReport
from tests.conftest import Workspace
from tests.embed.asking import address_of, asking, embed, everything_said
from tests.providers import faults
from tests.providers.matrix import KINDS, ROWS, SHAPES, Row
from tests.providers.server import KEY, Kind, ProviderServer

LONG_S = 60.0
SHORT_S = 0.02
OWN = "own-secret-0123456789"
FAILED = [row for row in ROWS if row.error]


def cases(situation: int, *, one_text: bool = False) -> list[tuple[Kind, Row]]:
    """Every fault with one of the three forms of answers, in each situation with another one.

    With MDRECALL_EXAMPLES a fault is tried with all of them in each situation.
    """
    found = []
    for number, row in enumerate(ROWS):
        kinds = [kind for kind in row.kinds if kind in SHAPES and not (one_text and kind in row.not_for_one)]
        at = (number + situation) % len(kinds)
        found += [(kind, row) for kind in (kinds if os.environ.get("MDRECALL_EXAMPLES") else kinds[at : at + 1])]
    return found


ONCE, ALWAYS = cases(0), cases(1, one_text=True)


def named(cases: list[tuple[Kind, Row]]) -> list[str]:
    return [f"{row.what}-{kind}" for kind, row in cases]


class Scene(NamedTuple):
    """A workspace whose memory asks a stand-in."""

    workspace: Workspace
    stand_in: ProviderServer
    monkeypatch: pytest.MonkeyPatch
    log: pytest.LogCaptureFixture
    output: pytest.CaptureFixture[str]

    def url_for(self, row: Row) -> str:
        return self.stand_in.url if row.make else faults.dead_url(self.stand_in.shape.base)

    def host_for(self, row: Row) -> str:
        return self.url_for(row).removeprefix("http://").partition("/")[0]

    def memory(self, url: str = "", query_s: float = LONG_S) -> Memory:
        """The memory, with this patience for queries."""
        remote = {"baseUrl": url or self.stand_in.url, "apiKey": KEY, "headers": {"X-Own": OWN}}
        search = {"provider": self.stand_in.kind, "model": self.stand_in.shape.models[0], "remote": remote}
        own = {"queryTimeoutMs": round(query_s * 1000)}
        self.workspace.configure(json.dumps({"memorySearch": search, "mdrecall": own}))
        return self.workspace.memory()

    def fault(self, row: Row, times: int | None = 1) -> None:
        """From now on it goes wrong, and little patience is had with what hangs."""
        self.policy(SHORT_S if row.hangs else LONG_S)
        if row.make:
            self.stand_in.faults.add(row.make().times(times))

    def all_is_well(self) -> None:
        self.stand_in.faults.clear()
        self.policy(LONG_S)

    def policy(self, seconds: float) -> None:
        """How long vectors are waited for: those for the index, and those of queries in a memory opened from now on."""
        self.monkeypatch.setattr(embedder, "_BULK", RetryPolicy(seconds, retries=3))
        self.monkeypatch.setattr(embedder, "_QUERY_S", seconds)

    def check(self, memory: Memory, *said: object) -> None:
        """The index is sound, no thread is left, and no key is anywhere."""
        assert memory.check() == ()
        texts = [repr(said), repr(memory.status()), self.log.text, *self.output.readouterr()]
        self.workspace.close()
        for thread in threading.enumerate():
            if thread.name.startswith("mdrecall"):
                thread.join(LONG_S)
                assert not thread.is_alive()
        for path in self.workspace.state.rglob("*"):
            if path.is_file() and path.name != "mdrecall.json":
                texts.append(path.read_bytes().decode("latin-1"))
        for secret in (KEY, OWN):
            assert not any(secret in text for text in texts)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Notes that are indexed by their words, without any vector."""
    space = Workspace(tmp_path_factory.mktemp("indexed"))
    space.write("MEMORY.md", "# Zoo\n\nthe walrus sleeps in the pool\n")
    space.write("memory/tax.md", "tax returns are due in May\n")
    space.configure(json.dumps({"memorySearch": {"provider": "openai"}}))
    space.memory().sync()
    space.close()
    return space


@pytest.fixture(scope="module")
def stand_ins() -> Iterator[Mapping[Kind, ProviderServer]]:
    with ExitStack() as stack:
        yield {kind: stack.enter_context(ProviderServer(kind, dimensions=16)) for kind in KINDS}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Retries come at once, and a long answer ends soon."""
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(client, "_MAX_PAUSE_S", 0.01)
    monkeypatch.setattr(transport, "_MAX_BYTES", 1 << 20)
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def scene(
    kind: Kind,
    indexed: Workspace,
    stand_ins: Mapping[Kind, ProviderServer],
    tmp_path: Path,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Scene]:
    space = Workspace(tmp_path)
    space.path = indexed.path
    shutil.copytree(indexed.state, space.state)
    found = Scene(space, stand_ins[kind], monkeypatch, caplog, capsys)
    found.all_is_well()
    yield found
    space.close()


def search(memory: Memory, mode: str) -> SearchAnswer:
    """A search that finds the note in any case, in this mode, and says why if meaning is left out."""
    answer = memory.search("walrus")
    assert [result.path for result in answer][:1] == ["MEMORY.md"]
    assert (answer.mode, bool(answer.degraded)) == (mode, mode == "keyword")
    return answer


def told(answer: SearchAnswer) -> list[object]:
    return list(vars(answer).values())


def problems(report: SyncReport) -> str:
    return " ".join(issue.problem for issue in report.issues)


@pytest.mark.parametrize(("kind", "row"), ONCE, ids=named(ONCE))
def test_a_fault_that_happens_once(scene: Scene, row: Row) -> None:
    memory = scene.memory()
    said: list[object] = []
    scene.fault(row)
    if row.once == "next sync":
        report = memory.sync()
        assert scene.host_for(row) in problems(report)
        said += [report]
        assert row.hangs or scene.stand_in.faults.unplayed == []
        scene.all_is_well()
    report = memory.sync()
    assert report.issues == ()
    said += [report, told(search(memory, "hybrid"))]
    assert scene.stand_in.faults.unplayed == []
    scene.check(memory, *said)


@pytest.fixture(scope="module")
def with_vectors() -> dict[Kind, str]:
    """Where the index with its vectors is kept, by provider, once it is made."""
    return {}


@pytest.mark.parametrize(("kind", "row"), ALWAYS, ids=named(ALWAYS))
def test_a_fault_that_happens_every_time_once_all_is_indexed(
    scene: Scene, kind: Kind, row: Row, with_vectors: dict[Kind, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = scene.workspace.state
    if kind not in with_vectors:
        assert scene.memory().sync().issues == ()
        scene.workspace.close()
        with_vectors[kind] = shutil.copytree(state, str(tmp_path_factory.mktemp("filled") / "state"))
    shutil.rmtree(state)
    shutil.copytree(with_vectors[kind], state)
    scene.fault(row, times=None)
    memory = scene.memory(scene.url_for(row), query_s=SHORT_S if row.hangs else LONG_S)
    answer = search(memory, "hybrid" if row.always == "used" else "keyword")
    assert row.always == "used" or scene.host_for(row) in answer.degraded
    scene.check(memory, memory.probe_embedding(), *told(answer))


@pytest.mark.parametrize("row", FAILED, ids=[row.what for row in FAILED])
def test_the_error_is_what_the_docs_say_and_nothing_behind_it_shows_a_key(
    indexed: Workspace,
    stand_ins: Mapping[Kind, ProviderServer],
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    row: Row,
) -> None:
    for kind in row.kinds:
        scene = Scene(indexed, stand_ins[kind], monkeypatch, caplog, capsys)
        scene.all_is_well()
        scene.fault(row, times=None)
        address = address_of(scene.stand_in, url=scene.url_for(row), headers={"X-Own": OWN})
        with asking(scene.stand_in, address) as made, pytest.raises(row.error or EmbedderError) as caught:
            embed(made, "one", "two")
        assert scene.host_for(row) in str(caught.value), kind
        said = everything_said(caught.value) + scene.log.text
        assert (KEY in said, OWN in said) == (False, False), kind
