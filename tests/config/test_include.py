"""What a configuration includes: other files, and variables for keys."""

from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import list_agent_ids, load
from mdrecall.errors import ConfigError
from tests.config import folder, loaded, openclaw_home, value, write
from tests.config.conftest import revealed

MAX = "memorySearch.query.maxResults"


def included(tmp_path: Path, name: str, content: object) -> None:
    write(tmp_path / ".openclaw" / name, content)


def key_of(tmp_path: Path, content: object, provider: str = "openai", **env: str) -> list[str]:
    variables = {**openclaw_home(tmp_path, content), **env}
    return revealed(load(env=variables, cwd=str(tmp_path)).credentials.access(provider, uses_remote=False))


def test_an_object_may_stand_in_another_file(tmp_path: Path) -> None:
    included(tmp_path, "parts/agents.json5", "{list: [{id: 'ops'}], $include: 'defaults.json5', // more\n}")
    included(tmp_path, "parts/defaults.json5", {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}})
    content = {"agents": {"$include": "./parts/agents.json5"}}
    assert value(tmp_path, content, MAX) == 3
    assert list_agent_ids(env=openclaw_home(tmp_path, content), cwd="/") == ["ops"]


def test_a_list_of_files_is_merged_in_order_and_the_keys_beside_it_win(tmp_path: Path) -> None:
    query = {"maxResults": 3, "minScore": 0.1}
    included(tmp_path, "a.json", {"query": query, "extraPaths": ["a"], "model": "a"})
    included(tmp_path, "b.json", {"query": {"minScore": 0.2}, "extraPaths": ["b"], "model": "b"})
    beside = {"$include": ["a.json", "b.json"], "model": "mine"}
    search = loaded(tmp_path, {"memorySearch": beside}).settings.memory_search
    assert (search.query.max_results, search.query.min_score, search.model) == (3, 0.2, "mine")
    assert [extra.path for extra in search.extra_paths] == ["a", "b"]


def test_the_whole_file_may_be_included_and_mdrecalls_own_includes_too(tmp_path: Path) -> None:
    included(tmp_path, "all.json", {"memory": {"citations": "on"}})
    write(tmp_path / "own/more.json", {"query": {"maxResults": 9}})
    write(tmp_path / "own/mdrecall.json", {"memorySearch": {"$include": "more.json"}})
    result = loaded(tmp_path, {"$include": "all.json"})
    assert (result.values["memory.citations"].value, result.values[MAX].value) == ("on", 9)


def test_what_cannot_be_included_is_named(tmp_path: Path) -> None:
    write(tmp_path / "outside.json", {})
    folder(tmp_path / ".openclaw")
    (tmp_path / ".openclaw/link.json").symlink_to(tmp_path / "outside.json")
    included(tmp_path, "circle.json", {"memory": {"$include": "circle.json"}})
    included(tmp_path, "broken.json", "{")
    included(tmp_path, "large.json", '{"a": "' + "x" * 2_100_000 + '"}')
    for depth in range(12):
        included(tmp_path, f"deep{depth}.json", {"$include": f"deep{depth + 1}.json"})
    for named, said in (
        ("../outside.json", "outside the folder"),
        (str(tmp_path / "outside.json"), "outside the folder"),
        ("link.json", "outside the folder"),
        ("circle.json", "includes itself"),
        ("none.json", "There is no configuration file"),
        ("broken.json", "is not JSON5"),
        ("large.json", "larger than 2 MB"),
        ("deep0.json", "more than 10 levels"),
        ("no\0ne.json", "There is no configuration file"),
        (7, "must be a path or a list"),
        ([], "must be a path or a list"),
    ):
        assert said in loaded(tmp_path, {"memory": {"$include": named}}).problem
        file = write(tmp_path / ".openclaw" / "mine.json", {"memory": {"$include": named}})
        with pytest.raises(ConfigError, match=said) as caught:
            load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), config=str(file))
        assert caught.value.hint
    env = {**openclaw_home(tmp_path, {"$include": "../outside.json"}), "OPENCLAW_INCLUDE_ROOTS": str(tmp_path)}
    assert load(env=env, cwd="/").settings.agent_id == "main"


@pytest.mark.parametrize(
    "env", [{"OPENAI_API_KEY": "sk-1"}, {"vars": {"OPENAI_API_KEY": "sk-1"}}, {"vars": {"OPENAI_API_KEY": "${MINE}"}}]
)
def test_a_key_in_the_configurations_env_is_found(tmp_path: Path, env: dict[str, Any]) -> None:
    assert key_of(tmp_path, {"env": env}, MINE="sk-1") == ["sk-1"]
    assert key_of(tmp_path, {"env": env}, MINE="sk-1", OPENAI_API_KEY="sk-2") == ["sk-2"]
    assert key_of(tmp_path, {"env": env}, MINE="sk-1", OPENAI_API_KEY=" ") == ["sk-1"]


def test_a_key_in_the_state_folders_env_file_wins_over_the_configurations(tmp_path: Path) -> None:
    lines = [
        "# keys",
        "export OPENAI_API_KEY='sk-1' # mine",
        'GEMINI_API_KEY="g\\"1"',
        "VOYAGE_API_KEY=",
        "MISTRAL_API_KEY=m#1 # x",
    ]
    write(tmp_path / ".openclaw/.env", "\n".join(lines))
    config = {"env": {"vars": {"OPENAI_API_KEY": "sk-2", "VOYAGE_API_KEY": "v"}}}
    assert key_of(tmp_path, config) == ["sk-1"]
    assert key_of(tmp_path, config, "gemini") == ['g"1']
    assert key_of(tmp_path, config, "voyage") == ["v"]
    assert key_of(tmp_path, config, "mistral") == ["m#1"]
    assert key_of(tmp_path, config, OPENAI_API_KEY="sk-3") == ["sk-3"]


def test_references_and_programs_see_those_variables(tmp_path: Path) -> None:
    config = {"env": {"vars": {"MINE": "sk-1"}}, "models": {"providers": {"openai": {"apiKey": "${MINE}"}}}}
    assert key_of(tmp_path, config) == ["sk-1"]
    assert loaded(tmp_path, config).environment["MINE"] == "sk-1"


def test_an_env_file_among_the_notes_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / ".env", "OPENAI_API_KEY=sk-1\n")
    write(tmp_path / ".openclaw/workspace/.env", "OPENAI_API_KEY=sk-1\n")
    assert key_of(tmp_path, {}) == []


def test_an_env_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / ".openclaw/.env"
    folder(file.parent)
    file.write_bytes(b"OPENAI_API_KEY=\xff\n")
    assert loaded(tmp_path, {}).warnings == (f"{file} is not used: it is not UTF-8.",)
    file.write_text("X=" + "x" * 2_100_000)
    assert loaded(tmp_path, {}).warnings == (f"{file} is not used: it is larger than 2 MB.",)
