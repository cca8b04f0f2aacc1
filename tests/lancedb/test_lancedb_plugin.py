"""memory-lancedb in the slot: put together from the settings, offline by default, with OpenAI as OpenClaw has it."""

import importlib.util
import json
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from mdrecall.config.load import Loaded, load
from mdrecall.errors import ConfigError, KeyRefused, PluginError
from mdrecall.extras.lancedb.plugin import database_uri, has_own_embedder, make_embedder
from mdrecall.extras.lancedb.table import PLUGIN
from mdrecall.plugins import open_slot
from tests.conftest import Workspace
from tests.providers.server import KEY, ProviderServer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("lancedb") is None, reason="not installed: lancedb; sh scripts/test installs it"
)
Configure = Callable[..., Loaded]


@pytest.fixture
def configured(workspace: Workspace) -> Configure:
    """The settings with memory-lancedb in the slot."""

    def configure(config: dict[str, Any] | None = None, agent: str | None = None, **env: str) -> Loaded:
        plugins = {"slots": {"memory": "memory-lancedb"}, "entries": {"memory-lancedb": {"config": config or {}}}}
        agents = {"list": [{"id": "main", "default": True}, {"id": "other"}]}
        workspace.configure(json.dumps({"plugins": plugins, "agents": agents}))
        return load(workspace=str(workspace.path), env=workspace.env | env, agent=agent)

    return configure


def test_the_plugin_works_offline_without_any_setting_of_its_own(configured: Configure) -> None:
    slot = open_slot(configured(), "agent:main:main")
    assert slot.diagnostics == ()
    assert slot.toolset.names == ("memory_recall", "memory_store", "memory_forget")
    assert slot.toolset.call("memory_store", {"text": "I prefer dark mode"}).details["action"] == "created"
    assert "dark mode" in slot.hooks.before_agent_start("which mode do I prefer, dark?", "agent:main:main")
    slot.close()
    other = open_slot(configured(agent="other"))
    assert other.toolset.call("memory_recall", {"query": "I prefer dark mode"}).details == {"count": 0}
    other.close()


def test_rows_without_an_owner_are_the_default_agents(configured: Configure) -> None:
    assert configured().default_agent == configured(agent="other").default_agent == "main"


def test_a_sub_agent_has_no_tools(configured: Configure) -> None:
    slot = open_slot(configured(), "agent:main:subagent:x")
    slot.close()
    assert (slot.plugin, slot.toolset.names) == ("memory-lancedb", ())


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("~/memories", "{home}/memories"),
        ("${PLACE}/memories", "/srv/memories"),
        ("memories", "{state}/memories"),
        ("s3://bucket/memories", "s3://bucket/memories"),
        ("gs://bucket/${PLACE}", "gs://bucket//srv"),
        ("  ", "{state}/memory/lancedb"),
    ],
)
def test_a_path_is_expanded_and_an_address_passed_on(
    configured: Configure, workspace: Workspace, path: str, found: str
) -> None:
    loaded = configured({"dbPath": path}, PLACE="/srv")
    assert database_uri(loaded) == found.format(home=workspace.home, state=workspace.state)


def test_a_variable_that_is_not_set_is_told(configured: Configure) -> None:
    with pytest.raises(ConfigError, match=r"dbPath refers to \$\{NOWHERE\}"):
        database_uri(configured({"dbPath": "${NOWHERE}/x"}))
    slot = open_slot(configured({"dbPath": "${NOWHERE}/x"}))
    assert [(found.level, "NOWHERE" in found.problem) for found in slot.diagnostics] == [("error", True)]


@pytest.mark.parametrize(
    ("embedding", "provider", "model"),
    [
        ({}, "offline", ""),  # the embedder of the notes
        ({"apiKey": "${MY_KEY}", "dimensions": 512}, "openai", "text-embedding-3-small"),  # as in OpenClaw
        ({"baseUrl": "http://127.0.0.1:9/v1", "model": "m"}, "openai-compatible", "m"),
        ({"provider": "openai", "baseUrl": "http://127.0.0.1:9/v1", "model": "m"}, "openai-compatible", "m"),
        ({"provider": "ollama", "model": "mxbai-embed-large"}, "ollama", "mxbai-embed-large"),
        ({"provider": "lmstudio", "model": "m"}, "openai-compatible", "m"),
        ({"provider": "offline"}, "offline", ""),
    ],
)
def test_what_is_said_about_embedding_makes_the_embedder(
    configured: Configure, embedding: dict[str, Any], provider: str, model: str
) -> None:
    config = {"embedding": embedding} if embedding else {"autoCapture": True}
    loaded = configured(config, MY_KEY="sk-test-1", OPENAI_API_KEY="sk-hush")
    with closing(make_embedder(loaded)) as embedder:
        assert embedder.provider == provider
        if provider != "offline":
            assert embedder.model == model
        if "baseUrl" in embedding:
            assert embedder.traits.host == "127.0.0.1:9"
    assert has_own_embedder(loaded) == bool(embedding)
    assert "sk-test-1" not in repr(loaded.settings)


@pytest.mark.parametrize(
    ("embedding", "error", "words"),
    [
        ({"apiKey": "${NOT_SET}"}, KeyRefused, rf"plugins\.entries\.{PLUGIN}\.config\.embedding\.apiKey refers to"),
        ({"model": "text-embedding-3-large"}, KeyRefused, "There is no API key for openai"),
        ({"provider": "bedrock"}, PluginError, "cannot use the provider 'bedrock'"),
    ],
)
def test_a_missing_key_and_a_provider_that_cannot_be_used_are_told(
    configured: Configure, embedding: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make_embedder(configured({"embedding": embedding}))


def test_a_server_embeds_each_memory_once_and_is_asked_only_when_needed(configured: Configure) -> None:
    with ProviderServer("openai", dimensions=64) as server:
        config = {"embedding": {"apiKey": KEY, "baseUrl": server.url, "model": "text-embedding-3-small"}}
        slot = open_slot(configured(config))
        assert server.embedded_texts() == []
        assert slot.toolset.call("memory_store", {"text": "I prefer dark mode"}).details["action"] == "created"
        slot.close()
        again = open_slot(configured(config))
        found = again.toolset.call("memory_recall", {"query": "I prefer dark mode"}).details
        assert [memory["text"] for memory in found["memories"]] == ["I prefer dark mode"]
        again.close()
        assert server.embedded_texts() == ["ping", "I prefer dark mode", "I prefer dark mode"]


def test_a_server_that_fails_is_an_answer_and_not_an_error(configured: Configure) -> None:
    with ProviderServer("openai", dimensions=64, key="sk-another") as server:
        slot = open_slot(configured({"embedding": {"apiKey": KEY, "baseUrl": server.url}}))
        answer = slot.toolset.call("memory_recall", {"query": "tea"})
        assert (answer.is_error, KEY in answer.text) == (True, False)
        assert slot.hooks.before_agent_start("which tea do I prefer?") == ""
        slot.close()


def test_no_embedder_at_all_is_told(workspace: Workspace) -> None:
    workspace.configure('{"memorySearch": {"provider": "openai"}}')
    with pytest.raises(PluginError, match="There is no embedder for memories"):
        make_embedder(load(workspace=str(workspace.path), env=workspace.env))


def test_the_folder_is_closed_to_others(configured: Configure, workspace: Workspace) -> None:
    slot = open_slot(configured())
    slot.toolset.call("memory_store", {"text": "I prefer dark mode"})
    slot.close()
    assert os.stat(workspace.state / "memory" / "lancedb").st_mode & 0o077 == 0


def test_a_query_and_each_memory_are_cut_to_what_is_recalled(configured: Configure) -> None:
    slot = open_slot(configured({"recallMaxChars": 100}), "agent:main:main")
    memory = "I prefer dark mode in every editor " + "and in every terminal too " * 20
    assert slot.toolset.call("memory_store", {"text": memory}).details["action"] == "created"
    prompt = "which mode do I prefer, dark mode in every editor?"
    block = slot.hooks.before_agent_start(prompt, "agent:main:main")
    assert [len(line) for line in block.splitlines() if line.startswith("1. ")] == [len("1. [preference] ") + 100]
    answer = slot.toolset.call("memory_recall", {"query": prompt})
    assert f"{memory[:60]}" in answer.text
    assert memory[:101] not in answer.text
    # What is beyond the limit of a query does not count.
    assert slot.toolset.call("memory_recall", {"query": "zzz " * 30 + prompt}).details["count"] == 0
    slot.close()


def test_a_phrase_of_the_user_makes_a_message_a_memory(configured: Configure) -> None:
    settings = {"autoCapture": True, "customTriggers": ["log entry"]}
    said = [{"role": "user", "content": "Log entry: the boat leaves at nine"}]
    for config, count in ((settings, 1), ({"autoCapture": True}, 0)):
        slot = open_slot(configured({**config, "dbPath": f"{count}"}), "agent:main:main")
        slot.hooks.agent_end(said, True, "agent:main:main")
        assert slot.toolset.call("memory_recall", {"query": "when does the boat leave?"}).details["count"] == count
        slot.close()
