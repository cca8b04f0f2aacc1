"""Two files, several agents, odd values: each of these once went wrong."""

from pathlib import Path

import pytest

from mdrecall.config.declare import InvalidValue, duration_ms, size_bytes, whole
from mdrecall.config.load import list_agent_ids, load
from mdrecall.errors import ConfigError
from tests.config import write


def home(tmp_path: Path, openclaw: str | None, own: str | None = None) -> dict[str, str]:
    """An environment with OpenClaw's file, mdrecall's file, or both, and folders to be workspaces."""
    for name in ("a", "b", ".openclaw", "state"):
        (tmp_path / name).mkdir()
    if openclaw is not None:
        (tmp_path / ".openclaw/openclaw.json").write_text(openclaw)
    if own is not None:
        (tmp_path / "state/mdrecall.json").write_text(own)
    return {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": str(tmp_path / "state")}


def test_an_overlay_does_not_change_the_default_agent_unless_it_says_so(tmp_path: Path) -> None:
    openclaw = '{agents: {list: [{id: "main", workspace: "~/a"}, {id: "work", workspace: "~/b"}]}}'
    env = home(tmp_path, openclaw, '{agents: {list: [{id: "work", memorySearch: {query: {maxResults: 9}}}]}}')
    assert load(env=env, cwd=str(tmp_path)).settings.agent_id == "main"
    work = load(env=env, cwd=str(tmp_path), agent="work").settings
    assert (work.workspace, work.memory_search.query.max_results) == (str(tmp_path / "b"), 9)
    assert list_agent_ids(env=env, cwd=str(tmp_path)) == ["main", "work"]


def test_an_agent_in_both_files_is_the_same_with_and_without_naming_it(tmp_path: Path) -> None:
    env = home(
        tmp_path,
        '{agents: {list: [{id: "work", workspace: "~/b"}]}}',
        '{agents: {list: [{id: "work", workspace: "~/a"}]}}',
    )
    spaces = {load(env=env, cwd=str(tmp_path), agent=agent).settings.workspace for agent in (None, "work")}
    assert spaces == {str(tmp_path / "a")}


THREE = "{query: {maxResults: 3}}"


@pytest.mark.parametrize(
    ("openclaw", "own"),
    [
        (
            "{memory: {search: {query: {maxResults: 1}}}}",
            f"{{agents: {{defaults: {{memorySearch: {THREE}}}}}}}",
        ),
        ("{agents: {defaults: {memorySearch: {query: {maxResults: 1}}}}}", f"{{memorySearch: {THREE}}}"),
        ('{agents: {list: [{id: "main", memorySearch: {}}]}}', f"{{memorySearch: {THREE}}}"),
    ],
)
def test_what_lies_over_always_wins(tmp_path: Path, openclaw: str, own: str) -> None:
    env = home(tmp_path, openclaw, own)
    loaded = load(env=env, cwd=str(tmp_path), workspace=str(tmp_path / "a"))
    assert loaded.settings.memory_search.query.max_results == 3


def test_a_blank_workspace_is_none(tmp_path: Path) -> None:
    env = home(tmp_path, '{agents: {defaults: {workspace: "~/b"}, list: [{id: "main", workspace: "  "}]}}')
    assert load(env=env, cwd=str(tmp_path)).settings.workspace == str(tmp_path / "b")


def test_the_vector_library_path_is_expanded(tmp_path: Path) -> None:
    env = home(tmp_path, '{memorySearch: {store: {vector: {extensionPath: "~/v.so"}}}}')
    settings = load(env=env, cwd=str(tmp_path), workspace=str(tmp_path / "a")).settings
    assert settings.memory_search.store.vector.extension_path == str(tmp_path / "v.so")


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e306, float("inf"), float("nan")])
def test_numbers_beyond_reason_are_refused(value: float) -> None:
    for rule in (whole(), duration_ms(), size_bytes()):
        with pytest.raises(InvalidValue):
            rule.read(value)


@pytest.mark.parametrize("rule", [duration_ms(), size_bytes()])
def test_texts_of_numbers_beyond_reason_are_refused(rule: object) -> None:
    with pytest.raises(InvalidValue):
        rule.read("9" * 400)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{memroy: {citations: "on"}}', "memroy is not a known setting; did you mean memory?"),
        ("{agents: {default: {}}}", "agents.default is not a known setting; did you mean defaults?"),
    ],
)
def test_a_name_at_the_top_of_mdrecalls_own_file_that_is_not_known_is_an_error(
    tmp_path: Path, content: str, said: str
) -> None:
    env = home(tmp_path, None, content)
    with pytest.raises(ConfigError) as caught:
        load(env=env, cwd=str(tmp_path))
    assert said in str(caught.value)
    file = tmp_path / "named.json"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), config=str(file))
    assert said in str(caught.value)
    # A copy of OpenClaw's file has names that mdrecall does not read.
    file.rename(tmp_path / "openclaw.json.bak")
    load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), config=str(tmp_path / "openclaw.json.bak"))


def test_openclaws_own_names_stay_openclaws_and_a_schema_may_be_named(tmp_path: Path) -> None:
    own = '{$schema: "x.json", env: {}, models: {}, auth: {}, secrets: {}, logging: {}, agents: {}, bindings: []}'
    env = home(tmp_path, '{"gateway": {}, "memroy": {}}', own)
    (tmp_path / ".openclaw/workspace").mkdir()
    assert load(env=env, cwd=str(tmp_path)).settings.agent_id == "main"


def test_a_setting_of_an_earlier_version_is_accepted_and_named_as_not_used(tmp_path: Path) -> None:
    own = write(tmp_path / "own.json", {"mdrecall": {"activity": {"record": False}, "maxPerFile": 2}})
    result = load(env={"HOME": str(tmp_path), "MDRECALL_CONFIG": str(own)}, cwd=str(tmp_path))
    assert (result.unused, result.settings.mdrecall.max_per_file) == (("mdrecall.activity",), 2)
