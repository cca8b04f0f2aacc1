"""From one provider to another, and from one model to the next: what is there serves until something better is."""

import importlib.util
import threading
import time
from pathlib import Path

import pytest

from mdrecall.engine.builtin import BuiltinBackend
from mdrecall.errors import EmbedderUnavailable, install_command
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.embed.tiny_gguf import Tiny, write_tiny
from tests.providers.faults import hang
from tests.providers.server import ProviderServer
from tests.providers.settings import NOTES, OTHER_KEY, configure, down, opened, provider, told, written
from tests.providers.test_fallback import QUERY, is_paid_for_once, spaces
from tests.providers.wire import Recorded

PATIENT_MS = 60_000


def backend(memory: Memory) -> BuiltinBackend:
    assert isinstance(memory._backend, BuiltinBackend)
    return memory._backend


def wait_for_end(request: Recorded) -> None:
    """Return when the server is done with a request: a hanging one ends when the client closes the connection."""
    while not request.has_ended:
        time.sleep(0.001)


def wait_for_filling(memory: Memory) -> None:
    filling = backend(memory)._refresh._vectors._thread
    assert filling
    filling.join()


# Providers.


def test_from_offline_to_openai_to_voyage_and_back_every_search_is_answered_by_a_whole_space(
    workspace: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    written(workspace)
    opened(workspace).sync()
    settings = [
        ("openai", provider(openai)),
        ("voyage", {"provider": "voyage", "remote": {"baseUrl": voyage.url, "apiKey": OTHER_KEY}}),
        ("offline", {"provider": "offline"}),
    ]
    for name, search in settings:
        configure(workspace, search)
        memory = opened(workspace)
        assert memory.sync().issues == ()
        answer = memory.search(QUERY)
        assert (answer.provider, answer.fallback, answer[0].path) == (name, "", "memory/walrus.md")
        assert spaces(workspace) == {name: len(NOTES)}
        memory.close()
    configure(workspace, provider(openai))
    asked = len(openai.embedded_texts())
    again = opened(workspace)
    assert again.sync().issues == ()
    assert set(openai.embedded_texts()[asked:]) <= {"ping"}
    assert again.search(QUERY).provider == "openai"


def test_the_offline_space_serves_while_that_of_a_provider_is_filled(
    workspace: Workspace, openai: ProviderServer
) -> None:
    opened(written(workspace)).sync()
    configure(workspace, provider(openai), queryTimeoutMs=PATIENT_MS)
    openai.faults.add(hang().when(lambda request: "ping" not in str(request.body)))
    memory = opened(workspace)
    first = memory.search(QUERY)
    assert (first.provider, first.fallback) == ("offline", "there are no vectors from openai yet")
    openai.wait_for(2)
    during = memory.search(QUERY)
    assert (during.provider, during.degraded) == ("offline", "")
    status = memory.status()
    assert (status.requested_provider, status.provider, status.dirty) == ("openai", "offline", True)
    assert status.fallback == {"from": "openai", "reason": "There are no vectors from openai yet."}
    memory.close()
    later = opened(workspace)
    assert later.sync().issues == ()
    assert later.search(QUERY).provider == "openai"
    assert spaces(workspace) == {"openai": len(NOTES)}


def test_a_provider_that_cannot_be_used_leaves_the_offline_space_serving(
    workspace: Workspace, openai: ProviderServer
) -> None:
    opened(written(workspace)).sync()
    configure(workspace, provider(openai))
    openai.faults.add(down())
    memory = opened(workspace)
    assert "returned status 401" in told(memory)
    answer = memory.search(QUERY)
    assert (answer.provider, bool(answer.fallback)) == ("offline", True)
    status = memory.status()
    assert status.fallback is not None
    assert "returned status 401" in status.fallback["reason"]


def test_no_query_goes_to_a_provider_that_was_left(
    workspace: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    configure(written(workspace), provider(openai))
    opened(workspace).sync()
    asked = len(openai.requests)
    models = {"openai": {"baseUrl": openai.url, "apiKey": "sk-still-here"}}
    search = {"provider": "voyage", "remote": {"baseUrl": voyage.url, "apiKey": OTHER_KEY}}
    configure(workspace, search, models=models)
    voyage.faults.add(down())
    memory = opened(workspace)
    memory.sync()
    assert memory.search("walrus").mode == "keyword"
    assert len(openai.requests) == asked


def test_another_address_of_the_same_model_serves_with_the_old_vectors(
    workspace: Workspace, openai: ProviderServer
) -> None:
    configure(written(workspace), provider(openai))
    opened(workspace).sync()
    with ProviderServer("openai") as moved:
        moved.faults.add(down().when(lambda request: QUERY not in str(request.body)))
        configure(workspace, provider(moved))
        memory = opened(workspace)
        memory.sync()
        answer = memory.search(QUERY)
        assert (answer.provider, answer.degraded, answer[0].path) == ("openai", "", "memory/walrus.md")
        moved.faults.clear()
        assert memory.sync().issues == ()
        assert is_paid_for_once(moved)


def test_what_failed_is_tried_again_by_whoever_follows_the_files(workspace: Workspace, openai: ProviderServer) -> None:
    configure(written(workspace), provider(openai))
    openai.faults.add(down())
    memory = opened(workspace)
    memory.sync()
    openai.faults.clear()
    refresh = backend(memory)._refresh
    refresh.sync_changes(lambda progress: None, lambda: False)
    assert refresh._vectors._thread is None, "it rests for a while"
    refresh = backend(later := opened(workspace))._refresh
    refresh.sync_changes(lambda progress: None, lambda: False)
    wait_for_filling(later)
    assert later.search(QUERY).provider == "openai"


def test_a_memory_that_is_closed_while_it_embeds_lets_go_of_the_request(
    workspace: Workspace, openai: ProviderServer
) -> None:
    configure(written(workspace), provider(openai))
    openai.faults.add(hang().when(lambda request: "ping" not in str(request.body)).times(None))
    failures: list[object] = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        memory = opened(workspace)
        assert memory.search("walrus")[0].path == "memory/walrus.md"
        openai.wait_for(2)
        memory.close()
        wait_for_filling(memory)
    finally:
        threading.excepthook = before
    assert failures == []
    for request in openai.requests:
        wait_for_end(request)


# Vectors of another length.


def test_a_model_that_has_changed_behind_its_address_is_paid_for_only_when_the_index_is_built_anew(
    workspace: Workspace, openai: ProviderServer
) -> None:
    configure(written(workspace), provider(openai))
    other = opened(workspace)
    other.sync()
    assert other.search(QUERY).provider == "openai"
    openai.dimensions = 64
    paid = len(openai.embedded_texts())
    memory = opened(workspace)
    for _ in range(2):
        answer = memory.search("walrus")
        assert (answer.mode, answer[0].path) == ("keyword", "memory/walrus.md")
        assert "returned a vector of 64 dimensions, but the index holds vectors of 384" in answer.degraded
        assert "index again with force" in answer.degraded
        assert memory.sync().issues == ()
    assert set(openai.embedded_texts()[paid:]) == {"walrus"}
    workspace.write("memory/new.md", "Another note.")
    assert "vectors of 64 numbers instead of 384 as before. If the model at this address has changed," in told(memory)
    assert memory.sync(force=True).issues == ()
    for each in (memory, other, opened(workspace)):
        answer = each.search(QUERY)
        assert (answer.provider, answer.degraded) == ("openai", "")
        assert each.status().vector["dims"] == 64
    workspace.write("memory/newer.md", "One more note.")
    assert other.sync().issues == ()
    assert spaces(workspace) == {"openai": len(NOTES) + 2}


# A model file.


@pytest.fixture
def tiny(workspace: Workspace) -> Path:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("not installed: xllamacpp; sh scripts/test installs it")
    path = write_tiny(workspace.home / "tiny.gguf")
    configure(
        written(workspace), {"provider": "local", "local": {"modelPath": "~/tiny.gguf"}}, queryTimeoutMs=PATIENT_MS
    )
    return path


def test_a_model_file_serves_a_memory(workspace: Workspace, tiny: Path) -> None:
    memory = opened(workspace)
    assert "dims" not in memory.status().vector
    assert memory.sync().issues == ()
    answer = memory.search("the database pool")
    assert (answer.provider, answer.model, answer.degraded) == ("local", str(tiny), "")
    assert answer[0].path == "memory/pool.md"
    status = memory.status()
    assert (status.provider, status.vector["dims"], status.fallback) == ("local", 32, None)
    write_tiny(tiny, Tiny(seed=2, size=16))
    assert memory.sync().issues == ()
    assert memory.search("the database pool").provider == "local"
    assert memory.status().vector["dims"] == 16


@pytest.mark.parametrize("lacks", ["whole file", "package"])
def test_a_model_that_cannot_be_loaded_leaves_the_words_and_says_why(
    workspace: Workspace, tiny: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    def missing() -> None:
        raise EmbedderUnavailable("The package xllamacpp is missing.", hint=problem)

    if lacks == "package":
        problem = install_command("gguf")
        monkeypatch.setattr("mdrecall.extras.gguf.model.require_package", missing)
    else:
        problem = str(tiny)
        tiny.write_bytes(b"GGUF" + bytes(100))
    memory = opened(workspace)
    assert problem in told(memory)
    answer = memory.search("walrus")
    assert (answer.mode, answer[0].path) == ("keyword", "memory/walrus.md")
    assert problem in answer.degraded
