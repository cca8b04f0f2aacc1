"""Settings given for one opening: they win over every file, and what is wrong with them is said like for a file."""

from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import ExtraPath
from mdrecall.errors import ConfigError
from tests.config import openclaw_home

CONFIG = {
    "agents": {
        "defaults": {"memorySearch": {"query": {"minScore": 0.5, "maxResults": 9}, "extraPaths": ["shared"]}},
        "list": [{"id": "main", "memorySearch": {"query": {"minScore": 0.6}, "extraPaths": ["own"]}}],
    }
}


def loaded(home: Path, overrides: dict[str, Any]) -> Loaded:
    return load(env=openclaw_home(home, CONFIG), cwd=str(home), overrides=overrides)


def test_an_override_wins_over_the_agents_own_setting_and_leaves_the_others(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"query.minScore": 0.1, "query.hybrid.enabled": False})
    query = found.settings.memory_search.query
    assert (query.min_score, query.max_results, query.hybrid.enabled) == (0.1, 9, False)
    assert found.values["memorySearch.query.minScore"].origin == "override: memorySearch.query.minScore"


def test_overridden_extra_paths_replace_all_others(tmp_path: Path) -> None:
    assert loaded(tmp_path, {}).settings.memory_search.extra_paths == (ExtraPath("shared"), ExtraPath("own"))
    assert loaded(tmp_path, {"extraPaths": []}).settings.memory_search.extra_paths == ()
    assert loaded(tmp_path, {"extraPaths": ["more"]}).settings.memory_search.extra_paths == (ExtraPath("more"),)


def test_a_later_override_wins_over_an_earlier_group(tmp_path: Path) -> None:
    query = loaded(tmp_path, {"query": {"minScore": 0.2}, "query.minScore": 0.3}).settings.memory_search.query
    assert query.min_score == 0.3


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"query.minScor": 0.1}, "memorySearch.query.minScor is not a known setting; did you mean minScore?"),
        ({"query.minScore": 7}, "memorySearch.query.minScore is 7, but must be a number from 0 to 1"),
        ({"": 3}, "memorySearch. is not a known setting"),
        ({"query.minScore.": 3}, 'is {"": 3}, but must be a number'),
    ],
)
def test_a_wrong_override_is_named_with_what_would_be_right(
    tmp_path: Path, overrides: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, overrides)
    assert said in str(caught.value)
    assert "docs/settings.md" in caught.value.hint


def test_every_wrong_override_is_named_in_order_and_a_secret_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, {"query.minScore": "much", "remote.apiKey": 1234})
    first, second = caught.value.problems
    assert "minScore" in first
    assert "apiKey" in second
    assert "1234" not in second
