"""Every setting is described where a configuration file may have it; the record has the whole schema."""

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from mdrecall.config.declare import Setting, each_setting
from mdrecall.config.openclaw_file import json_schema
from mdrecall.config.settings import SECTIONS


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


def test_every_setting_is_described_and_its_default_is_valid() -> None:
    whole = json_schema()
    for path, setting in every_setting():
        schema = at(whole, path)
        assert schema["description"] == setting.about, path
        assert setting.about.endswith("."), path
        assert ("default" in schema) is (setting.default is not None), path
        if "default" in schema:
            jsonschema.Draft202012Validator(schema).validate(schema["default"])
