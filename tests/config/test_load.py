from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import hide_secret, list_agent_ids, load
from mdrecall.config.settings import ExtraPath, list_settings
from mdrecall.errors import ConfigError
from tests.config import folder, loaded, nested, openclaw_home, value, write

MAX = "memorySearch.query.maxResults"

#: What the settings that have no default of their own become, because of others.
CHOSEN = {"memorySearch.rememberAcrossConversations": True, "mdrecall.sessions.withNotes": False}
DEFAULTS = {name: setting.default for name, setting in list_settings().items()} | CHOSEN


def test_a_setting_that_is_not_given_has_its_default(tmp_path: Path) -> None:
    values = loaded(tmp_path, {}).values
    for name, default in DEFAULTS.items():
        value, origin = values[name]
        assert (value, type(value), origin) == (default, type(default), "default"), name
    assert list(values) == ["agent", "workspace", "index", *DEFAULTS]


def layered(agent_search: object, search: object) -> dict[str, Any]:
    """One default agent with its own values over those for all agents."""
    entry = {"id": "main", "default": True, "memorySearch": agent_search}
    return {"agents": {"defaults": {"memorySearch": search}, "list": [entry]}}


def test_each_leaf_is_the_agents_then_the_defaults_then_the_builtin_one(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, layered({"query": {"maxResults": 3}}, {"query": {"maxResults": 9, "minScore": 0.5}})
    ).values
    file = "~/.openclaw/openclaw.json"
    assert found[MAX] == (3, f"{file}: agents.list[0].memorySearch.query.maxResults")
    assert found["memorySearch.query.minScore"] == (0.5, f"{file}: agents.defaults.memorySearch.query.minScore")
    assert found["memorySearch.query.hybrid.enabled"] == (True, "default")


@pytest.mark.parametrize(
    ("name", "mine", "everyones"),
    [("enabled", False, True), ("model", "", "big")],
)
def test_an_agents_value_counts_even_if_it_is_false_or_empty(
    tmp_path: Path, name: str, mine: object, everyones: object
) -> None:
    assert value(tmp_path, layered({name: mine}, {name: everyones}), f"memorySearch.{name}") == mine


def test_the_values_of_another_agent_do_not_count(tmp_path: Path) -> None:
    other = {"id": "second", "memorySearch": {"query": {"maxResults": 1}}}
    content = {"agents": {"list": [{"id": "main", "default": True}, other]}}
    folder(tmp_path / ".openclaw" / "workspace-second")
    assert value(tmp_path, content, MAX) is None
    assert value(tmp_path, content, MAX, agent="second") == 1


def test_extra_paths_are_joined_trimmed_and_without_repeats_the_defaults_first(tmp_path: Path) -> None:
    docs = {"path": " docs ", "pattern": "*.md"}
    content = layered({"extraPaths": ["c", " a ", docs, docs, ""]}, {"extraPaths": ["a", "  ", " b ", "a", "docs"]})
    found = loaded(tmp_path, content).values["memorySearch.extraPaths"]
    assert found.value == (ExtraPath("a"), ExtraPath("b"), ExtraPath("docs"), ExtraPath("c"), ExtraPath("docs", "*.md"))
    assert found.origin == (
        "~/.openclaw/openclaw.json: agents.defaults.memorySearch.extraPaths, "
        "~/.openclaw/openclaw.json: agents.list[0].memorySearch.extraPaths"
    )


def test_headers_are_replaced_whole(tmp_path: Path) -> None:
    content = layered(
        {"remote": {"headers": {"B": "2"}}}, {"remote": {"headers": {"A": "1", "B": "1"}, "baseUrl": "u"}}
    )
    found = loaded(tmp_path, content).values
    assert found["memorySearch.remote.headers"].value == {"B": "2"}
    assert found["memorySearch.remote.baseUrl"].value == "u"


PLACES = [
    ("agents.entries.main.memory.search", 1),
    ("agents.entries.main.memorySearch", 2),
    ("memory.search", 3),
    ("agents.defaults.memorySearch", 4),
    ("memorySearch", 5),
]


def merge(into: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    for name, entry in more.items():
        into[name] = merge(into[name], entry) if name in into else entry
    return into


@pytest.mark.parametrize("strongest", range(len(PLACES)))
def test_the_newer_places_beat_the_older_and_the_agents_beat_those_for_all(tmp_path: Path, strongest: int) -> None:
    content: dict[str, Any] = {"agents": {"entries": {"main": {"default": True}}}}
    for path, number in PLACES[strongest:]:
        merge(content, nested(path, {"query": {"maxResults": number}}))
    place, number = PLACES[strongest]
    assert loaded(tmp_path, content).values[MAX] == (
        number,
        f"~/.openclaw/openclaw.json: {place}.query.maxResults",
    )


def test_the_own_file_is_laid_over_openclaws(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {"memory": {"citations": "on", "backend": "qmd"}, "memorySearch": {"model": "a"}})
    write(tmp_path / "own" / "mdrecall.json", {"memory": {"citations": "off"}, "memorySearch": {"fallback": "local"}})
    result = load(env=env, cwd="/")
    assert result.files == ("~/own/mdrecall.json", "~/.openclaw/openclaw.json")
    assert result.values["memory.citations"] == ("off", "~/own/mdrecall.json: memory.citations")
    assert result.values["memory.backend"] == ("qmd", "~/.openclaw/openclaw.json: memory.backend")
    assert result.settings.memory_search.model == "a"
    assert result.settings.memory_search.fallback == "local"


def test_the_config_flag_uses_only_that_file(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {"memory": {"citations": "on"}, "no": "matter"})
    write(tmp_path / "own" / "mdrecall.json", "not even JSON")
    write(tmp_path / "only.json", {"memory": {"backend": "qmd"}})
    for name in ("~/only.json", "only.json", str(tmp_path / "only.json")):
        result = load(env=env, cwd=str(tmp_path), config=name)
        assert result.files == ("~/only.json",)
        assert (result.settings.memory.citations, result.settings.memory.backend) == ("auto", "qmd")
        assert result.settings.standalone is False


@pytest.mark.parametrize(
    ("agents", "ids"),
    [
        ({}, ["main"]),
        ({"list": [{"id": "b"}, {"id": "a", "default": True}, {"id": "c", "default": True}]}, ["a", "b", "c"]),
        ({"list": [{"id": "b"}, {"id": "a", "default": "true"}]}, ["b", "a"]),
        ({"list": [{"id": " My Agent! "}, {}]}, ["my-agent", "main"]),
        ({"entries": {"Ops": {}, "dev": {"default": True}}}, ["dev", "ops"]),
    ],
)
def test_the_default_agent_is_the_first_marked_one_or_else_the_first(
    tmp_path: Path, agents: dict[str, Any], ids: list[str]
) -> None:
    env = openclaw_home(tmp_path, {"agents": agents})
    assert list_agent_ids(env=env, cwd="/") == ids
    notes = str(folder(tmp_path / "notes"))
    assert load(env=env, cwd="/", workspace=notes).settings.agent_id == ids[0]
    assert list_agent_ids(env=env, cwd="/", workspace=notes) == [ids[0]]


def test_an_agent_is_chosen_by_its_id_in_any_spelling(tmp_path: Path) -> None:
    folder(tmp_path / ".openclaw" / "workspace-my-agent")
    found = loaded(tmp_path, {"agents": {"list": [{"id": "x"}, {"id": "My Agent"}]}}, agent=" my agent ").values
    assert found["agent"] == ("my-agent", "--agent")


def test_an_unknown_agent_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, {"agents": {"list": [{"id": "main"}, {"id": "research"}]}}, agent="reserch")
    assert str(caught.value) == "There is no agent 'reserch'; did you mean research? Known here: main, research."
    assert "these agents" in caught.value.hint
    with pytest.raises(ConfigError, match="There is no agent 'other'; known here: main"):
        loaded(tmp_path, {}, agent="other")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("memorySearch.remote.headers", True),
        ("plugins.entries.memory-lancedb.config.embedding.apiKey", True),
        ("memorySearch.remote.baseUrl", False),
        ("workspace", False),
    ],
)
def test_keys_and_headers_are_secret(name: str, secret: bool) -> None:
    assert (hide_secret(name, "hush") == "***") is secret


def test_auto_may_be_said_and_is_not_the_same_as_saying_nothing(tmp_path: Path) -> None:
    assert value(tmp_path, {"memorySearch": {"provider": "auto"}}, "memorySearch.provider") == "auto"
    assert value(tmp_path, {}, "memorySearch.provider") is None
    assert loaded(tmp_path, {"memorySearch": {"provider": "auto"}}).settings.memory_search.model == ""


def test_an_agent_has_its_own_limits_before_those_of_all_agents(tmp_path: Path) -> None:
    defaults = {"bootstrapMaxChars": 5_000, "bootstrapTotalMaxChars": 100}
    entry = {"bootstrapMaxChars": 7_000, "userTimezone": "UTC"}
    config = {"agents": {"defaults": defaults, "entries": {"main": entry, "other": {}}}}
    own = loaded(tmp_path, config).settings.defaults
    assert (own.bootstrap_max_chars, own.bootstrap_total_max_chars) == (7_000, 100)
    assert own.user_timezone is None  # OpenClaw has it for all agents only
    folder(tmp_path / ".openclaw/workspace-other")
    assert loaded(tmp_path, config, "other").settings.defaults.bootstrap_max_chars == 5_000
