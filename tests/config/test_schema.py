import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from mdrecall.config.declare import Setting, each_setting
from mdrecall.config.openclaw_file import json_schema
from mdrecall.config.settings import SECTIONS
from tests.config import nested


def accepts(document: object) -> bool:
    return bool(jsonschema.Draft202012Validator(json_schema()).is_valid(document))


def at(schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The schema of the setting at a dotted path."""
    found: Any = schema
    for name in path.split("."):
        found = found["properties"][name]
    assert isinstance(found, dict)
    return found


def every_setting() -> Iterator[tuple[str, Setting]]:
    """Every setting by each path that it may have in a file."""
    search = SECTIONS["memorySearch"]
    places = [*SECTIONS.items(), ("memory.search", search), ("agents.defaults.memorySearch", search)]
    for place, section in places:
        for name, setting in each_setting(section):
            yield f"{place}.{name}", setting


def test_the_schema_is_itself_valid_and_is_plain_json() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_setting_is_described_and_its_default_is_valid() -> None:
    whole = json_schema()
    for path, setting in every_setting():
        schema = at(whole, path)
        assert schema["description"] == setting.about, path
        assert setting.about.endswith("."), path
        assert ("default" in schema) is (setting.default is not None), path
        if "default" in schema:
            jsonschema.Draft202012Validator(schema).validate(schema["default"])


def test_an_agent_takes_the_same_settings_in_the_list_and_among_the_entries() -> None:
    agents = at(json_schema(), "agents")["properties"]
    agent = agents["list"]["items"]
    assert agents["entries"]["additionalProperties"] == agent
    assert at(agent, "memorySearch") == at(agent, "memory.search") == at(json_schema(), "memorySearch")


GOOD: list[dict[str, Any]] = [
    {},
    {"$schema": "x", "gateway": {"port": 1}, "channels": {}},
    {"agents": {"defaults": {"workspace": "~/notes", "compaction": {"mode": "safeguard", "reserveTokensFloor": 0}}}},
    {"agents": {"list": [{"id": "main", "default": True, "tools": {}, "memorySearch": {"provider": "gemini"}}]}},
    {"agents": {"entries": {"main": {"memory": {"search": {"query": {"maxResults": 1}}, "other": 1}}}}},
    {"memory": {"backend": "qmd", "qmd": {"scope": {"rules": [{"action": "deny", "match": {"keyPrefix": "a"}}]}}}},
    {"memory": {"qmd": {"update": {"interval": "1h30m", "embedInterval": 5}}}},
    {"memorySearch": {"remote": {"apiKey": {"source": "env", "id": "K"}, "headers": {"A": "b"}}}},
    {"plugins": {"load": {"paths": []}, "slots": {"memory": "none", "contextEngine": "x"}}},
    {"plugins": {"entries": {"other": 1, "memory-lancedb": {"enabled": True, "config": {"autoRecall": False}}}}},
]


@pytest.mark.parametrize("document", GOOD)
def test_the_schema_accepts_a_good_document(document: dict[str, Any]) -> None:
    assert accepts(document)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("memorySearch.enabled", "yes"),
        ("memorySearch.fallback", "auto"),
        ("memorySearch.query.minScore", 1.1),
        ("memorySearch.query.maxResult", 1),
        ("memorySearch.extraPaths", [{"pattern": "*"}]),
        ("memorySearch.remote.apiKey", {"source": "sky", "id": "x"}),
        ("memory.searches", {}),
        ("memory.qmd.scope", {"rules": [{}]}),
        ("memory.qmd.update.interval", -1),
        ("agents.list", [{"memorySearch": {"unknown": 1}}]),
        ("agents.entries.main.memory.search.unknown", 1),
        ("plugins.entries.memory-lancedb.config.unknown", 1),
    ],
)
def test_the_schema_rejects_a_bad_document(path: str, wrong: object) -> None:
    assert not accepts(nested(path, wrong))
