"""Which embedder is chosen by which settings, keys and files; each gets what is meant for it, and nothing else."""

import importlib.util
from typing import Any

import pytest

from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.errors import install_command
from tests.conftest import Workspace
from tests.providers.server import KEY, ProviderServer
from tests.providers.settings import (
    NOTES,
    choose,
    configure,
    named,
    names,
    opened,
    provider,
    told,
    with_openclaw,
    written,
)

KEYS = {
    "OPENAI_API_KEY": "sk-1",
    "GEMINI_API_KEY": "AIza-1",
    "VOYAGE_API_KEY": "pa-1",
    "MISTRAL_API_KEY": "mi-1",
    "OLLAMA_API_KEY": "ol-1",
}
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"


def first(chosen: Any) -> RemoteEmbedder:
    embedder = chosen.embedders[0]
    assert isinstance(embedder, RemoteEmbedder)
    return embedder


def keys_of(chosen: Any) -> list[str]:
    key = first(chosen).client.endpoint.key
    return [key.reveal()] if key else []


# Nothing named.


def test_without_any_setting_the_offline_embedder_is_used_and_nothing_is_complained_of(workspace: Workspace) -> None:
    chosen = choose(workspace)
    assert (names(chosen), chosen.unusable_reason, chosen.note) == (["offline"], "", "")
    memory = opened(written(workspace))
    assert memory.sync().issues == ()
    status = memory.status()
    assert (status.provider, status.requested_provider, status.fallback) == ("offline", "auto", None)
    assert "providerNote" not in status.custom
    answer = memory.search("walrus")
    assert (answer.provider, answer.fallback, answer.degraded) == ("offline", "", "")


@pytest.mark.parametrize("explicitly", [True, False])
def test_auto_takes_the_first_that_has_a_key(workspace: Workspace, explicitly: bool) -> None:
    with_openclaw(workspace)
    search = {"provider": "auto"} if explicitly else {}
    left = dict(KEYS)
    for name, variable in [("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY"),
                           ("voyage", "VOYAGE_API_KEY"), ("mistral", "MISTRAL_API_KEY")]:  # fmt: skip
        chosen = choose(workspace, search, left)
        assert (names(chosen), chosen.note) == ([name], "")
        assert keys_of(chosen) == [left.pop(variable)]
    assert names(choose(workspace, search, left)) == ["offline"]


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "GEMINI_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY"])
def test_standing_alone_a_key_in_the_environment_sends_no_note_anywhere(workspace: Workspace, variable: str) -> None:
    chosen = choose(workspace, env={variable: "sk-1"})
    assert names(chosen) == ["offline"]
    assert chosen.note.startswith(f"{variable} is set, but notes are sent to {variable[:-8].lower()} only if")
    memory = opened(workspace, {variable: "sk-1"})
    assert memory.status().custom["providerNote"] == chosen.note
    assert memory.sync().issues == ()


OPENAI, VOYAGE = {"OPENAI_API_KEY": "sk-1"}, {"VOYAGE_API_KEY": "pa-1"}
SMALL, LARGE = "text-embedding-3-small", "text-embedding-3-large"
NO_KEY = "There is no API key for "
ALONE, BESIDE = False, True


@pytest.mark.parametrize(
    ("beside_openclaw", "search", "env", "chosen", "said"),
    [
        # Standing alone, a key in the environment counts once a provider is set.
        (ALONE, {"provider": "auto"}, OPENAI, [("openai", SMALL)], ""),
        (ALONE, {"provider": "voyage"}, VOYAGE, [("voyage", "voyage-4-large")], ""),
        # A model counts for its own provider only.
        (BESIDE, {"model": LARGE}, OPENAI, [("openai", LARGE)], ""),
        (BESIDE, {"model": "my-own"}, VOYAGE, [("voyage", "my-own")], ""),
        (BESIDE, {"model": "voyage-3"}, OPENAI, [("openai", SMALL)], "memorySearch.model is ignored: it looks like"),
        # What needs no key is taken as it is named.
        (ALONE, {"provider": "ollama"}, KEYS, [("ollama", "nomic-embed-text")], ""),
        (ALONE, {"provider": "offline"}, KEYS, ["offline"], ""),
        (ALONE, {"provider": "local"}, KEYS, ["local"], ""),
        # A provider without its key.
        (ALONE, {"remote": {"baseUrl": "https://api.voyageai.com/v1"}}, {}, ["offline"], f"{NO_KEY}voyage"),
        (ALONE, {"provider": "openai", "fallback": "openai"}, {}, [], f"{NO_KEY}openai"),
        (ALONE, {"provider": "openai", "fallback": "none"}, {}, [], f"{NO_KEY}openai"),
        (ALONE, {"provider": "openai", "fallback": "gemini"}, {}, [],
         f"The fallback gemini cannot be used either: {NO_KEY}gemini"),
        # The fallback, which is never the first one again, nor needed by the offline table.
        (ALONE, {"provider": "openai", "fallback": "openai"}, OPENAI, [("openai", SMALL)], ""),
        (ALONE, {"provider": "openai", "fallback": "gemini"}, OPENAI, [("openai", SMALL)],
         f"The fallback gemini cannot be used: {NO_KEY}gemini"),
        (ALONE, {"provider": "offline", "fallback": "openai"}, OPENAI, ["offline"], ""),
        (BESIDE, {"fallback": "voyage", "model": LARGE}, OPENAI | VOYAGE,
         [("openai", LARGE), ("voyage", "voyage-4-large")], ""),
    ],
)  # fmt: skip
def test_settings_and_keys_choose_the_embedders(
    workspace: Workspace, beside_openclaw: bool, search: dict[str, Any], env: dict[str, str], chosen: Any, said: str
) -> None:
    if beside_openclaw:
        with_openclaw(workspace)
    found = choose(workspace, search, env)
    shown = [named(one) if isinstance(wanted, tuple) else one.provider
             for one, wanted in zip(found.embedders, chosen, strict=True)]  # fmt: skip
    assert shown == chosen
    told = found.unusable_reason + found.note
    assert said in told
    assert bool(said) is bool(told)


def test_a_key_in_the_configuration_counts_but_not_for_ollama_unless_that_is_named(workspace: Workspace) -> None:
    with_openclaw(workspace)
    configure(workspace, models={"ollama": {"apiKey": "ol", "baseUrl": "http://127.0.0.1:1"}})
    assert names(choose(workspace, env={"OLLAMA_API_KEY": "ol"})) == ["offline"]
    configure(workspace, models={"mistral": {"apiKey": "mi-1"}})
    assert names(choose(workspace)) == ["mistral"]


# A model file.


@pytest.mark.parametrize("prefix", ["", "~/"])
def test_auto_takes_a_model_file_before_any_key(workspace: Workspace, prefix: str) -> None:
    pytest.importorskip("xllamacpp", reason="needs xllamacpp: pip install -e '.[gguf]'")
    with_openclaw(workspace)
    path = workspace.home / "tiny.gguf"
    path.write_bytes(b"GGUF")
    named_as = f"{prefix}tiny.gguf" if prefix else str(path)
    chosen = choose(workspace, {"local": {"modelPath": named_as}}, KEYS)
    assert named(chosen.embedders[0]) == ("local", str(path))


@pytest.mark.parametrize("path", ["", "missing.gguf", "hf:a/b/c.gguf", "https://example.com/c.gguf"])
def test_auto_takes_no_model_that_is_not_a_file_already(workspace: Workspace, path: str) -> None:
    with_openclaw(workspace)
    (workspace.home / "folder.gguf").mkdir()
    for model_path in (path, str(workspace.home / "folder.gguf")):
        chosen = choose(workspace, {"local": {"modelPath": model_path}}, KEYS)
        assert names(chosen) == ["openai"]


def test_auto_leaves_a_model_file_alone_for_which_the_package_is_missing_and_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.home / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    chosen = choose(workspace, {"local": {"modelPath": "~/tiny.gguf"}})
    assert names(chosen) == ["offline"]
    assert "~/tiny.gguf is ignored" in chosen.note
    assert install_command("gguf") in chosen.note


# Whose is memorySearch.remote?


@pytest.mark.parametrize(
    ("search", "owner"),
    [
        ({"remote": {"apiKey": "x", "baseUrl": "https://api.voyageai.com/v1"}}, "voyage"),
        ({"remote": {"apiKey": "x", "baseUrl": "https://API.mistral.ai/v1/"}}, "mistral"),
        ({"remote": {"apiKey": "x", "baseUrl": GOOGLE}}, "gemini"),
        ({"remote": {"apiKey": "x"}, "model": "voyage-3"}, "voyage"),
        ({"remote": {"apiKey": "x"}, "model": "Mistral-embed"}, "mistral"),
        ({"remote": {"apiKey": "x"}, "model": "codestral-embed"}, "mistral"),
        ({"remote": {"apiKey": "x"}, "model": "gemini-embedding-001"}, "gemini"),
        ({"remote": {"apiKey": "x"}, "model": "models/text-embedding-004"}, "gemini"),
        ({"remote": {"apiKey": "x"}, "model": "text-embedding-004"}, "gemini"),
        ({"remote": {"apiKey": "x"}, "model": "text-embedding-3-large"}, "openai"),
        ({"remote": {"apiKey": "AIzaSy"}}, "gemini"),
        ({"remote": {"apiKey": "pa-x"}}, "voyage"),
        ({"remote": {"apiKey": "sk-x"}}, "openai"),
        ({"remote": {"apiKey": "x"}}, "openai"),
        ({"remote": {"apiKey": "pa-x", "baseUrl": "https://api.openai.com/v1"}, "model": "voyage-3"}, "openai"),
        ({"remote": {"apiKey": "pa-x", "baseUrl": "http://127.0.0.1:9/v1"}}, "voyage"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_in_auto_the_remote_block_belongs_to_one_provider(
    workspace: Workspace, search: dict[str, Any], owner: str, alone: bool
) -> None:
    if not alone:
        with_openclaw(workspace)
    chosen = choose(workspace, search)
    assert (names(chosen), keys_of(chosen)) == ([owner], [search["remote"]["apiKey"]])
    assert first(chosen).model == first(chosen)._row.model_name(search.get("model", ""))


def test_a_key_of_another_provider_never_goes_to_openai(workspace: Workspace) -> None:
    with_openclaw(workspace)
    search = {"model": "voyage-3", "remote": {"apiKey": "pa-x", "baseUrl": "http://127.0.0.1:9/v1"}}
    chosen = choose(workspace, search, {"OPENAI_API_KEY": "sk-1"})
    assert (named(first(chosen)), keys_of(chosen)) == (("openai", "text-embedding-3-small"), ["sk-1"])
    assert first(chosen).client.endpoint.url == "https://api.openai.com/v1"
    assert "memorySearch.remote is ignored: it looks like one for voyage" in chosen.note
    assert names(choose(workspace, {"remote": {"apiKey": "pa-x"}}, {"GEMINI_API_KEY": "AIza-1"})) == ["gemini"]


# A provider that is named.


@pytest.mark.parametrize("name", ["openai", "gemini", "voyage", "mistral"])
def test_a_named_provider_without_a_key_leaves_the_words_and_says_which_key_is_missing(
    workspace: Workspace, name: str
) -> None:
    others = {variable: key for variable, key in KEYS.items() if not variable.startswith(name.upper())}
    configure(written(workspace), {"provider": name})
    memory = opened(workspace, others)
    reason = f"There is no API key for {name}"
    assert reason in told(memory)
    answer = memory.search("walrus")
    assert (answer.mode, answer.provider, answer[0].path) == ("keyword", "", "memory/walrus.md")
    assert reason in answer.degraded
    assert f"Set {name.upper()}_API_KEY" in answer.degraded
    status = memory.status()
    assert (status.provider, status.model, status.requested_provider) == ("none", None, name)
    assert reason in str(status.custom["providerUnavailableReason"])
    assert reason in str(status.vector["loadError"])
    assert reason in memory.probe_embedding().error


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        ({"provider": "openai-compatible", "model": "m"}, "Set memorySearch.remote.baseUrl"),
        ({"provider": "openai-compatible", "remote": {"baseUrl": "http://127.0.0.1:9"}}, "Set memorySearch.model"),
        ({"provider": "ollama", "remote": {"baseUrl": "127.0.0.1:11434"}}, "'127.0.0.1:11434' of ollama cannot be"),
        ({"provider": "ollama", "remote": {"baseUrl": "http://h:99999"}}, "cannot be used"),
        ({"provider": "ollama", "remote": {"baseUrl": "http://me:pw@h/v1"}}, "contains a user name or password"),
        ({"provider": "ollama", "remote": {"baseUrl": "${NOT_SET}"}}, "NOT_SET"),
        ({"provider": "ollama", "remote": {"headers": {"X-A": "${NOT_SET}"}}}, "NOT_SET"),
    ],
)
def test_settings_that_cannot_work_leave_the_words_and_say_why(
    workspace: Workspace, search: dict[str, Any], problem: str
) -> None:
    configure(written(workspace), search)
    memory = opened(workspace)
    assert problem in told(memory)
    answer = memory.search("walrus")
    assert (answer.mode, answer[0].path) == ("keyword", "memory/walrus.md")
    assert problem in answer.degraded
    assert "pw" not in answer.degraded.split()


def test_in_auto_an_address_that_cannot_work_leaves_the_words_too(workspace: Workspace) -> None:
    with_openclaw(workspace)
    configure(written(workspace), models={"openai": {"apiKey": "sk-1", "baseUrl": "ftp://nowhere"}})
    memory = opened(workspace)
    assert "'ftp://nowhere' of openai cannot be used" in memory.search("walrus").degraded
    configure(workspace, {"remote": {"baseUrl": "${NOT_SET}", "apiKey": "x"}})
    assert "NOT_SET" in opened(workspace).search("walrus").degraded


@pytest.mark.parametrize("key", [None, KEY])
def test_a_server_of_ones_own_needs_no_key(workspace: Workspace, key: str | None) -> None:
    with ProviderServer("openai-compatible", key=key) as server:
        own = {"baseUrl": server.url} | ({"apiKey": key} if key else {})
        configure(written(workspace), {"provider": "openai-compatible", "model": "local-embed", "remote": own})
        memory = opened(workspace, KEYS)
        assert memory.sync().issues == ()
        answer = memory.search("walrus")
        assert (answer.provider, answer.model, answer.mode) == ("openai-compatible", "local-embed", "hybrid")
        sent = {request.headers.get("authorization") for request in server.requests}
        assert sent == {f"Bearer {key}" if key else None}


@pytest.mark.parametrize("name", ["openai", "gemini", "voyage", "mistral", "ollama"])
def test_a_named_provider_is_asked_for_notes_and_queries_and_named_in_the_answer(
    workspace: Workspace, name: Any
) -> None:
    with ProviderServer(name) as server:
        configure(written(workspace), provider(server))
        memory = opened(workspace, KEYS)
        assert memory.sync().issues == ()
        answer = memory.search("walrus")
        assert (answer.provider, answer.fallback, answer.degraded, answer.mode) == (name, "", "", "hybrid")
        assert answer[0].path == "memory/walrus.md"
        embedded = " ".join(server.embedded_texts())
        assert all(text.rpartition("\n")[2] in embedded for text in NOTES.values())
        status = memory.status()
        assert (status.provider, status.model, status.dirty) == (name, answer.model, False)
        assert (status.vector["dims"], status.vector["chunks"]) == (384, len(NOTES))


def test_how_long_vectors_are_is_not_known_before_the_first_answer(workspace: Workspace) -> None:
    with ProviderServer("openai") as server:
        configure(written(workspace), provider(server))
        memory = opened(workspace)
        status = memory.status()
        assert (status.provider, "dims" in status.vector, server.requests) == ("openai", False, [])
        assert choose(workspace).embedders[0].dimensions == 0
        assert memory.search("walrus", mode="keyword")[0].path == "memory/walrus.md"
        memory.sync()
        later = opened(workspace)
        asked = len(server.requests)
        assert later.status().vector["dims"] == 384
        assert later.status().dirty is False
        assert len(server.requests) == asked


def test_a_probe_tells_whether_the_provider_works(workspace: Workspace) -> None:
    with ProviderServer("openai") as server:
        configure(workspace, provider(server))
        memory = opened(workspace)
        probe = memory.probe_embedding()
        assert (probe.ok, probe.dims, probe.error) == (True, 384, "")
        server.key = "another"
        probe = opened(workspace).probe_embedding()
        assert (probe.ok, "memorySearch.remote.apiKey" in probe.error) == (False, True)


@pytest.mark.parametrize(
    ("search", "types"),
    [
        ({}, ("", "")),
        ({"inputType": "both"}, ("both", "both")),
        ({"inputType": "both", "queryInputType": "ask"}, ("ask", "both")),
        ({"queryInputType": "ask", "documentInputType": "note"}, ("ask", "note")),
    ],
)
def test_input_types_are_for_the_configured_model(
    workspace: Workspace, search: dict[str, str], types: tuple[str, str]
) -> None:
    address = {"provider": "openai-compatible", "model": "m", "remote": {"baseUrl": "http://127.0.0.1:9/v1"}}
    embedder = first(choose(workspace, {**address, **search}))
    asked = [embedder.make_request(["x"], is_query=is_query).input_type for is_query in (True, False)]
    assert tuple(asked) == types
