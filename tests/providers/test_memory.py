"""A memory and its provider: several requests at once, closing in the middle, and failures half way."""

import threading
from collections.abc import Iterator

import pytest

from mdrecall.embed.remote import client as module
from mdrecall.embed.remote.providers import PROVIDERS
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.embed.test_remote_transport import in_thread
from tests.providers import faults
from tests.providers.faults import Fault
from tests.providers.server import ProviderServer
from tests.providers.settings import configure, provider

LONG_S = 60.0
WORDS = ("fern", "kiln", "moss", "oboe", "paint", "plum", "pool", "raft", "rope", "salt", "tax", "walrus")


@pytest.fixture
def stand_in(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """A provider that takes one text in a request, though six are looked at together, for a workspace of twelve."""
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setitem(PROVIDERS, "openai", PROVIDERS["openai"]._replace(request_inputs=2, request_bytes=60))
    for word in WORDS:
        workspace.write(f"memory/{word}.md", f"all about the {word}, and no more than is needed\n")
    with ProviderServer("openai", dimensions=16) as server:
        yield server
        workspace.close()


def opened(workspace: Workspace, stand_in: ProviderServer, concurrency: int = 1) -> Memory:
    configure(workspace, provider(stand_in), remote={"concurrency": concurrency}, queryTimeoutMs=60_000)
    return workspace.memory()


def vectors(memory: Memory) -> object:
    return memory.status().vector.get("chunks", 0)


def texts_of(stand_in: ProviderServer) -> list[str]:
    return [text for text in stand_in.embedded_texts() if text != "ping"]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mdrecall")]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_every_text_is_paid_for_once(workspace: Workspace, stand_in: ProviderServer, concurrency: int) -> None:
    with opened(workspace, stand_in, concurrency) as memory:
        assert memory.sync().issues == ()
        assert vectors(memory) == len(texts_of(stand_in)) == len(set(texts_of(stand_in))) == 12
        assert memory.search("walrus").mode == "hybrid"
    assert threads() == []


def test_whoever_has_stopped_following_may_still_sync(workspace: Workspace, stand_in: ProviderServer) -> None:
    with opened(workspace, stand_in) as memory:
        memory.stop_following()
        assert memory.sync().unembedded == 0
        assert vectors(memory) == 12


@pytest.mark.parametrize("concurrency", [1, 3])
def test_closing_ends_what_hangs_and_begins_nothing_more(
    workspace: Workspace, stand_in: ProviderServer, concurrency: int
) -> None:
    stand_in.faults.add(faults.fine(), faults.hang().times(None))
    memory = opened(workspace, stand_in, concurrency)
    syncing = in_thread(memory.sync)
    stand_in.wait_for(1 + concurrency)
    memory.close()
    assert "memory is closing" in str(syncing())
    assert len(stand_in.requests) == 1 + concurrency
    assert threads() == []


def test_a_query_that_hangs_leaves_no_thread_when_the_memory_is_closed(
    workspace: Workspace, stand_in: ProviderServer
) -> None:
    memory = opened(workspace, stand_in)
    memory.sync()
    before = len(stand_in.requests)
    stand_in.faults.add(faults.hang())
    searching = in_thread(lambda: memory.search("walrus", mode="vector").degraded)
    stand_in.wait_for(before + 1)
    memory.close()
    searching()
    for thread in threading.enumerate():
        if thread.name.startswith("mdrecall"):
            thread.join(LONG_S)
    assert threads() == []


@pytest.mark.parametrize("fault", [faults.zero_vectors(), faults.error(400)], ids=lambda fault: fault.name)
def test_a_provider_that_turns_bad_half_way_does_not_leave_chunks_for_refused(
    workspace: Workspace, stand_in: ProviderServer, fault: Fault
) -> None:
    stand_in.faults.add(*[faults.fine()] * 3, fault.times(None))
    memory = opened(workspace, stand_in)
    assert "is without some vectors" in str(memory.sync().issues)
    assert (vectors(memory), len(stand_in.requests)) == (2, 5)
    stand_in.faults.clear()
    assert memory.sync().issues == ()
    assert vectors(memory) == 12


def test_one_strange_answer_to_the_first_word_does_not_fix_the_length(
    workspace: Workspace, stand_in: ProviderServer
) -> None:
    stand_in.faults.add(faults.wrong_dimension())
    with opened(workspace, stand_in) as memory:
        assert "instead of 7 as before" in str(memory.sync().issues)
    with opened(workspace, stand_in) as memory:
        assert memory.sync().issues == ()
        assert memory.search("walrus").mode == "hybrid"


def test_one_strange_answer_to_a_query_spoils_no_other(workspace: Workspace, stand_in: ProviderServer) -> None:
    opened(workspace, stand_in).sync()
    workspace.close()
    stand_in.faults.add(faults.wrong_dimension())
    with opened(workspace, stand_in) as memory:
        first = memory.search("walrus")
        assert (first.mode, "127.0.0.1" in first.degraded) == ("keyword", True)
        assert memory.search("walrus").mode == "hybrid"
