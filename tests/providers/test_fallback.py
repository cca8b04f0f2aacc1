"""The fallback: its own model, address and key; its own space; told wherever one may look; and the way back."""

import pytest

from mdrecall.cli.main import main
from mdrecall.config.load import load
from mdrecall.engine.embedding_status import report_providers
from mdrecall.store.sqlite import SqliteStore
from tests.conftest import Workspace
from tests.providers.server import KEY, ProviderServer
from tests.providers.settings import (
    NOTES,
    OTHER_KEY,
    choose,
    configure,
    down,
    named,
    names,
    opened,
    provider,
    remote,
    told,
    written,
)

QUERY = "which animal sleeps on ice"


@pytest.fixture
def pair(workspace: Workspace, openai: ProviderServer, voyage: ProviderServer) -> Workspace:
    """A memory with openai first, and voyage to stand in for it."""
    search = provider(openai, fallback="voyage", model="text-embedding-3-large", outputDimensionality=128)
    search["remote"]["headers"] = {"X-Team": "ours"}
    configure(written(workspace), search, models={"voyage": {"baseUrl": voyage.url, "apiKey": OTHER_KEY}})
    return workspace


def spaces(workspace: Workspace) -> dict[str, int]:
    """How many vectors of each provider are stored, all of one length."""
    store = SqliteStore(str(workspace.index), is_ours=True, owner=("main", str(workspace.path.resolve())))
    found = {entry.space.provider: store.chunks.count(entry.id) for entry in store.vectors.spaces()}
    assert len(found) == len(store.vectors.spaces())
    store.admin.close()
    return found


def is_paid_for_once(server: ProviderServer) -> bool:
    """Whether no text of a note was sent twice; that a server is there may be asked again."""
    texts = [text for text in server.embedded_texts() if text not in ("ping", QUERY)]
    return len(texts) == len(set(texts))


# What the fallback is given.


def test_nothing_that_is_the_firsts_reaches_the_fallback(
    pair: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    openai.faults.add(down())
    memory = opened(pair)
    memory.sync()
    memory.search(QUERY)
    assert voyage.requests
    assert {request.headers.get("x-team") for request in openai.requests} == {"ours"}
    for request in voyage.requests:
        seen = f"{request.path} {request.headers} {request.body}"
        assert request.headers["authorization"] == f"Bearer {OTHER_KEY}"
        assert (request.body["model"], request.status) == ("voyage-4-large", 200)
        assert not any(
            part in seen for part in (KEY, openai.root, "text-embedding-3-large", "output_dimension", "ours")
        )
    assert not any(OTHER_KEY in f"{request.headers}" for request in openai.requests)


def test_the_remote_block_beside_a_model_on_this_machine_is_the_fallbacks(
    workspace: Workspace, openai: ProviderServer
) -> None:
    local = {"modelPath": str(workspace.home / "gone.gguf")}
    search = {"fallback": "openai", "model": "text-embedding-3-large", "remote": remote(openai), "local": local}
    chosen = choose(workspace, {**search, "provider": "local"})
    assert (names(chosen), chosen.note) == (["local", "openai"], "")
    assert named(chosen.embedders[1]) == ("openai", "text-embedding-3-large")
    configure(written(workspace), {**search, "provider": "local"})
    memory = opened(workspace)
    assert memory.status().custom["providerState"] == {"mode": "pending", "requestedProvider": "local"}
    assert "openai is used instead of local" in told(memory)
    answer = memory.search(QUERY)
    assert (answer.provider, answer.model, answer.degraded) == ("openai", "text-embedding-3-large", "")
    assert "gone.gguf" in answer.fallback
    rows = {row.name: row for row in report_providers(load(env=workspace.env, workspace=str(workspace.path)))}
    assert (rows["openai"].usable, rows["openai"].role) == (True, "fallback")


def test_a_fallback_that_cannot_be_used_is_told_with_the_failure_of_the_first(workspace: Workspace) -> None:
    local = {"modelPath": str(workspace.home / "gone.gguf")}
    configure(written(workspace), {"provider": "local", "fallback": "openai", "local": local})
    memory = opened(workspace)
    memory.sync()
    degraded = memory.search(QUERY).degraded
    assert "gone.gguf" in degraded
    assert "The fallback openai cannot be used: There is no API key for openai" in degraded
    assert memory.status().custom["providerState"]["mode"] == "degraded"


# Where it is told.


def test_the_fallback_serves_and_is_told_in_the_answer_the_report_and_the_status(
    pair: Workspace, openai: ProviderServer
) -> None:
    openai.faults.add(down())
    memory = opened(pair)
    said = told(memory)
    host = openai.root.removeprefix("http://")
    assert "has the vectors of the fallback: " in said
    assert f"openai at {host} returned status 401: Switched off. Check the key from memorySearch.remote.apiKey." in said
    assert "voyage is used instead of openai." in said
    answer = memory.search(QUERY)
    assert (answer.provider, answer.model, answer.degraded) == ("voyage", "voyage-4-large", "")
    assert answer.fallback.startswith("there are no vectors from openai yet: openai at ")
    assert answer[0].path == "memory/walrus.md"
    status = memory.status()
    assert (status.requested_provider, status.provider, status.model) == ("openai", "voyage", "voyage-4-large")
    assert status.fallback is not None
    assert (status.fallback["from"], "returned status 401" in status.fallback["reason"]) == ("openai", True)
    assert (status.vector["dims"], status.vector["chunks"]) == (96, len(NOTES))
    assert spaces(pair) == {"voyage": len(NOTES)}


def test_a_later_process_still_knows_why_the_fallback_serves_until_the_first_works(
    pair: Workspace, openai: ProviderServer
) -> None:
    openai.faults.add(down())
    memory = opened(pair)
    memory.sync()
    memory.close()
    later = opened(pair, one_shot=True)
    status = later.status()
    assert status.fallback is not None
    assert "returned status 401" in status.fallback["reason"]
    assert "returned status 401" in later.search(QUERY).fallback
    later.close()
    openai.faults.clear()
    opened(pair).sync()
    healed = opened(pair, one_shot=True)
    assert (healed.status().fallback, healed.search(QUERY).fallback) == (None, "")


def test_a_first_that_has_no_key_is_replaced_by_the_fallback_and_told_everywhere(
    workspace: Workspace, voyage: ProviderServer
) -> None:
    search = {"provider": "openai", "fallback": "voyage"}
    configure(written(workspace), search, models={"voyage": {"baseUrl": voyage.url, "apiKey": OTHER_KEY}})
    memory = opened(workspace)
    reason = "There is no API key for openai"
    assert reason in told(memory)
    answer = memory.search(QUERY)
    assert (answer.provider, answer.degraded, reason in answer.fallback) == ("voyage", "", True)
    status = memory.status()
    assert (status.requested_provider, status.provider) == ("openai", "voyage")
    assert status.fallback is not None
    assert (status.fallback["from"], reason in status.fallback["reason"]) == ("openai", True)


def test_commands_say_who_stands_in(
    pair: Workspace, openai: ProviderServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    openai.faults.add(down())
    for name, value in pair.env.items():
        monkeypatch.setenv(name, value)
    main(["index", "--workspace", str(pair.path)])
    assert "voyage is used instead of openai" in capsys.readouterr().err
    main(["search", QUERY, "--workspace", str(pair.path)])
    said = capsys.readouterr().err
    assert "Used the embeddings of voyage instead: there are no vectors from openai yet: openai at " in said
    assert "0 chunks" not in said
    main(["status", "--workspace", str(pair.path)])
    assert "voyage instead of openai: openai at " in capsys.readouterr().out


# The way back.


def test_to_and_fro_no_text_is_paid_for_twice(pair: Workspace, openai: ProviderServer, voyage: ProviderServer) -> None:
    memory = opened(pair)
    for number in range(3):
        openai.faults.add(down())
        pair.write(f"memory/more{number}.md", f"Note {number} of the walrus.")
        assert "voyage is used instead" in told(memory)
        assert memory.search(QUERY).provider == "voyage"
        assert spaces(pair)["voyage"] == len(NOTES) + number + 1
        openai.faults.clear()
        assert memory.sync().issues == ()
        assert (memory.search(QUERY).provider, memory.status().fallback) == ("openai", None)
        assert spaces(pair)["openai"] == len(NOTES) + number + 1
    assert is_paid_for_once(openai)
    assert is_paid_for_once(voyage)


def test_an_outage_with_nothing_new_to_embed_lets_the_fallback_serve_too(
    pair: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    memory = opened(pair)
    assert memory.sync().issues == ()
    openai.faults.add(down())
    for _ in range(3):
        assert (memory.search(QUERY).mode, voyage.requests) == ("keyword", [])
    assert memory.status().dirty is True
    assert "returned status 401" in told(memory)
    answer = memory.search(QUERY)
    assert (answer.provider, "returned status 401" in answer.fallback) == ("voyage", True)
    assert spaces(pair) == {"openai": len(NOTES), "voyage": len(NOTES)}
    status = memory.status()
    assert (status.provider, status.dirty, status.fallback and status.fallback["from"]) == ("voyage", False, "openai")
    openai.faults.clear()
    assert (memory.search(QUERY).provider, memory.status().provider) == ("openai", "openai")
    assert is_paid_for_once(openai)


def test_a_first_that_embeds_again_needs_nobody_to_stand_in(
    pair: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    memory = opened(pair)
    memory.sync()
    openai.faults.add(down())
    for _ in range(3):
        assert memory.search(QUERY).mode == "keyword"
    openai.faults.clear()
    pair.write("memory/new.md", "A new note on peanuts.")
    assert memory.sync().issues == ()
    assert memory.search(QUERY).provider == "openai"
    assert voyage.requests == []


def test_an_index_built_anew_while_the_first_is_down_has_the_vectors_of_the_fallback(
    pair: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    memory = opened(pair)
    memory.sync()
    openai.faults.add(down())
    pair.write("memory/new.md", "A new note on peanuts.")
    issues = memory.sync(force=True).issues
    assert len(issues) == len(set(issues))
    assert "voyage is used instead" in issues[0].problem
    assert memory.search(QUERY).provider == "voyage"
    openai.faults.clear()
    assert memory.sync().issues == ()
    assert memory.search(QUERY).provider == "openai"
    assert is_paid_for_once(openai)


def test_a_process_without_the_key_does_not_take_away_the_vectors_of_one_that_has_it(
    workspace: Workspace, openai: ProviderServer
) -> None:
    models = {"openai": {"baseUrl": openai.url}}
    configure(written(workspace), {"provider": "openai", "fallback": "offline"}, models=models)
    with_key = opened(workspace, {"OPENAI_API_KEY": KEY})
    assert with_key.sync().issues == ()
    without = opened(workspace)
    assert "There is no API key for openai" in told(without)
    assert (without.search(QUERY).provider, with_key.search(QUERY).provider) == ("offline", "openai")
    assert spaces(workspace) == {"openai": len(NOTES), "offline": len(NOTES)}
    asked = len(openai.requests)
    assert with_key.sync().issues == ()
    assert len(openai.requests) == asked


def test_a_fallback_that_fails_too_leaves_the_words_and_both_reasons(
    pair: Workspace, openai: ProviderServer, voyage: ProviderServer
) -> None:
    openai.faults.add(down())
    voyage.faults.add(down())
    memory = opened(pair)
    said = told(memory)
    assert "is without some vectors: openai at" in said
    assert "voyage at" in said
    answer = memory.search("walrus")
    assert (answer.mode, answer[0].path) == ("keyword", "memory/walrus.md")
