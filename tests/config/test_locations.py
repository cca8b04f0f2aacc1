import os
import sys
import zlib
from pathlib import Path

import pytest

from mdrecall.config.environment import default_workspace, expand, find_locations, shorten
from mdrecall.config.layers import normalize_agent_id
from mdrecall.config.load import load
from mdrecall.errors import WorkspaceError
from tests.config import files_below, folder, loaded, openclaw_home, write


def system_state(home: Path, xdg: Path | None = None) -> str:
    if sys.platform == "darwin":
        return str(home / "Library" / "Application Support" / "mdrecall")
    return str((xdg or home / ".local" / "state") / "mdrecall")


def own_index(workspace: Path, state: str) -> str:
    real = os.path.realpath(workspace)
    digest = f"{zlib.crc32(os.fsencode(real)):08x}"
    return os.path.join(state, "index", f"{os.path.basename(real)}-{digest}.sqlite")


@pytest.mark.parametrize(
    ("env", "name", "found"),
    [
        ({"HOME": "/h"}, "home", "/h"),
        ({"HOME": "/h", "USERPROFILE": "/u"}, "home", "/h"),
        ({"HOME": "  ", "USERPROFILE": "/u"}, "home", "/u"),
        ({"HOME": "/h", "OPENCLAW_HOME": "  /o  "}, "home", "/o"),
        ({"HOME": "/h", "OPENCLAW_HOME": "   "}, "home", "/h"),
        ({"HOME": "/h", "OPENCLAW_HOME": "~/claw"}, "home", "/h/claw"),
        ({"USERPROFILE": "/u", "OPENCLAW_HOME": "~/claw"}, "home", "/u/claw"),
        ({"HOME": "/h", "OPENCLAW_HOME": "~name"}, "home", "/c/~name"),
        ({"HOME": "/h"}, "state_dir", "/h/.openclaw"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "  ~/s  "}, "state_dir", "/h/s"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": "/s", "CLAWDBOT_STATE_DIR": "/old"}, "state_dir", "/s"),
        ({"HOME": "/h", "OPENCLAW_STATE_DIR": " ", "CLAWDBOT_STATE_DIR": "~/old"}, "state_dir", "/h/old"),
        ({"HOME": "/h", "MOLTBOT_STATE_DIR": "/m"}, "state_dir", "/h/.openclaw"),
        ({"HOME": "/h", "OPENCLAW_CONFIG_PATH": " ~/x.json "}, "config_path", "/h/x.json"),
        ({"HOME": "/h", "OPENCLAW_CONFIG_PATH": "/x", "CLAWDBOT_CONFIG_PATH": "/old"}, "config_path", "/x"),
        ({"HOME": "/h", "OPENCLAW_CONFIG_PATH": "/x", "OPENCLAW_STATE_DIR": "/s"}, "config_path", "/x"),
        ({"HOME": "/h", "MOLTBOT_CONFIG_PATH": "/m.json"}, "config_path", None),
    ],
)
def test_a_place_is_the_first_one_that_the_environment_names(env: dict[str, str], name: str, found: str | None) -> None:
    assert getattr(find_locations(env, "/c"), name) == found


@pytest.mark.parametrize(
    ("there", "name", "found"),
    [
        ([".moltbot/x", ".moldbot/x"], "state_dir", ".moldbot"),
        ([".moltbot/x", ".moldbot/x", ".clawdbot/x"], "state_dir", ".clawdbot"),
        ([".clawdbot/x", ".openclaw/x"], "state_dir", ".openclaw"),
        ([".openclaw/openclaw.json", ".openclaw/clawdbot.json"], "config_path", ".openclaw/openclaw.json"),
        ([".openclaw/moldbot.json", ".openclaw/clawdbot.json"], "config_path", ".openclaw/clawdbot.json"),
        ([".openclaw/moltbot.json", ".clawdbot/openclaw.json"], "config_path", ".openclaw/moltbot.json"),
        ([".clawdbot/clawdbot.json", ".moltbot/moltbot.json"], "config_path", ".clawdbot/clawdbot.json"),
    ],
)
def test_a_legacy_folder_or_file_counts_only_without_a_later_one(
    tmp_path: Path, there: list[str], name: str, found: str
) -> None:
    for file in there:
        write(tmp_path / file, "{}")
    assert getattr(find_locations({"HOME": str(tmp_path)}, "/c"), name) == str(tmp_path / found)


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("~", "/h"),
        ("~\\x", "/h/x"),
        ("  ~/x ", "/h/x"),
        ("~name/x", "/c/~name/x"),
        ("x/../y", "/c/y"),
        ("/a/~/b", "/a/~/b"),
    ],
)
def test_only_a_leading_tilde_alone_or_before_a_slash_is_the_home(path: str, absolute: str) -> None:
    assert expand(path, "/h", "/c") == absolute


@pytest.mark.parametrize(("path", "short"), [("/h", "~"), ("/h/x", "~/x"), ("/hx", "/hx"), ("/y/h", "/y/h")])
def test_a_path_below_the_home_is_shown_with_a_tilde(path: str, short: str) -> None:
    assert shorten(path, "/h") == short


def test_a_folder_with_the_name_of_the_configuration_file_is_not_taken_for_it(tmp_path: Path) -> None:
    folder(tmp_path / ".openclaw" / "openclaw.json")
    assert find_locations({"HOME": str(tmp_path)}, "/c").config_path is None


def test_the_own_state_folder_follows_the_system_unless_the_environment_names_one(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    xdg = {**env, "XDG_STATE_HOME": str(tmp_path / "xdg")}
    assert find_locations(env, "/c").own_state_dir == system_state(tmp_path)
    assert find_locations(xdg, "/c").own_state_dir == system_state(tmp_path, tmp_path / "xdg")
    assert find_locations({**env, "XDG_STATE_HOME": "relative"}, "/c").own_state_dir == system_state(tmp_path)
    assert find_locations({**xdg, "MDRECALL_STATE_DIR": "~/mine"}, "/c").own_state_dir == str(tmp_path / "mine")


def test_the_own_configuration_file_is_in_the_own_state_folder_or_named_by_the_environment(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": "~/own"}
    assert find_locations(env, "/c").own_config_path is None
    path = write(tmp_path / "own" / "mdrecall.json", "{}")
    assert find_locations(env, "/c").own_config_path == str(path)
    assert find_locations({**env, "MDRECALL_CONFIG": " ~/x.json "}, "/c").own_config_path == str(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        (None, "workspace"),
        (" Default ", "workspace"),
        ("dev", "workspace-dev"),
    ],
)
def test_a_profile_has_its_own_default_workspace(tmp_path: Path, profile: str | None, name: str) -> None:
    env = openclaw_home(tmp_path, {}) | ({} if profile is None else {"OPENCLAW_PROFILE": profile})
    expected = str(folder(tmp_path / ".openclaw" / name))
    assert default_workspace(find_locations(env, "/c"), env) == expected
    assert load(env=env, cwd="/").settings.workspace == expected


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("  Work ", "work"),
        ("a_b-c9", "a_b-c9"),
        ("--x--", "x"),
        ("a  &&  b", "a-b"),
        ("!!!", "main"),
        ("Ärger", "rger"),
        ("x" * 65, "x" * 64),
        ("é" + "x" * 70, "x" * 64),
    ],
)
def test_an_agent_id_is_brought_into_the_form_that_openclaw_writes(given: str, normal: str) -> None:
    assert normalize_agent_id(given) == normal


def test_the_workspace_of_the_defaults_is_the_default_agents(tmp_path: Path) -> None:
    folder(tmp_path / "notes")
    result = loaded(tmp_path, {"agents": {"defaults": {"workspace": "~/no\0tes"}}})
    assert result.settings.workspace == str(tmp_path / "notes")
    assert result.values["workspace"].origin == "~/.openclaw/openclaw.json: agents.defaults.workspace"


def test_another_agents_workspace_is_in_the_state_folder_and_not_that_of_the_defaults(tmp_path: Path) -> None:
    folder(tmp_path / "notes")
    expected = folder(tmp_path / ".openclaw" / "workspace-second")
    agents = {"defaults": {"workspace": "~/notes"}, "list": [{"id": "main", "default": True}, {"id": "second"}]}
    assert loaded(tmp_path, {"agents": agents}).settings.workspace == str(tmp_path / "notes")
    assert loaded(tmp_path, {"agents": agents}, agent="second").settings.workspace == str(expected)


def test_a_missing_workspace_is_named_with_the_place_it_came_from(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError) as caught:
        loaded(tmp_path, {"agents": {"defaults": {"workspace": "~/gone"}}})
    assert str(tmp_path / "gone") in str(caught.value)
    assert "~/.openclaw/openclaw.json: agents.defaults.workspace" in str(caught.value)
    assert "another folder" in caught.value.hint


def test_a_workspace_that_is_a_file_is_refused(tmp_path: Path) -> None:
    note = write(tmp_path / "note.md", "hello")
    with pytest.raises(WorkspaceError, match=r"note\.md' is not a folder \(from --workspace\)"):
        load(env={"HOME": str(tmp_path)}, cwd="/", workspace=str(note))


def test_a_workspace_flag_is_taken_from_the_current_folder_and_gets_an_index_of_its_own(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {})
    notes = folder(tmp_path / "notes")
    result = load(env=env, cwd=str(tmp_path), workspace="notes")
    assert result.settings.workspace == str(notes)
    assert result.values["workspace"].origin == "--workspace"
    assert result.settings.index_path == own_index(notes, env["MDRECALL_STATE_DIR"])
    assert result.settings.index_path_is_ours is True
    assert load(env=env, cwd="/", workspace="~/notes").settings.index_path == result.settings.index_path


def test_without_openclaw_the_current_folder_is_the_memory(tmp_path: Path) -> None:
    notes = folder(tmp_path / "notes")
    result = load(env={"HOME": str(tmp_path), "MDRECALL_STATE_DIR": "~/own"}, cwd=str(notes))
    assert result.settings.standalone is True
    assert result.settings.workspace == str(notes)
    assert result.values["workspace"].origin == "the current folder"
    assert result.settings.index_path == own_index(notes, str(tmp_path / "own"))
    assert result.files == ()


def test_in_an_openclaw_home_the_index_stands_beside_openclaws_own(tmp_path: Path) -> None:
    folder(tmp_path / ".openclaw" / "workspace-second")
    agents = {"agents": {"list": [{"id": "main", "default": True}, {"id": "Second"}]}}
    memory = tmp_path / ".openclaw" / "memory"
    assert loaded(tmp_path, agents).settings.index_path == str(memory / "main.mdrecall.sqlite")
    second = loaded(tmp_path, agents, agent="second").settings
    assert second.index_path == str(memory / "second.mdrecall.sqlite")
    assert (second.index_path_is_ours, second.standalone) == (True, False)


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("~/{agentId}/{agentId}.db", "home/main/main.mdrecall.db"),
        (" ~/i\0ndex.db ", "home/index.mdrecall.db"),
        ("{root}/x", "x.mdrecall.sqlite"),
    ],
)
def test_a_configured_index_path_is_filled_in_and_made_absolute(tmp_path: Path, configured: str, expected: str) -> None:
    store = {"store": {"path": configured.replace("{root}", str(tmp_path))}}
    result = loaded(tmp_path / "home", {"agents": {"defaults": {"memorySearch": store}}})
    assert result.settings.index_path == str(tmp_path / expected)
    assert result.settings.index_path_is_ours is True
    place = "~/.openclaw/openclaw.json: agents.defaults.memorySearch.store.path"
    assert result.values["index"].origin == f"{place}, beside OpenClaw's own"


def test_a_path_in_openclaws_file_is_for_openclaws_workspace_only_and_one_in_mdrecalls_for_all(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {"memorySearch": {"store": {"path": "~/shared.db"}}})
    notes = folder(tmp_path / "notes")
    elsewhere = load(env=env, cwd="/", workspace=str(notes)).settings
    assert elsewhere.index_path == own_index(notes, env["MDRECALL_STATE_DIR"])
    write(tmp_path / "own/mdrecall.json", {"memorySearch": {"store": {"path": "~/mine.db"}}})
    for workspace in (None, str(notes)):
        settings = load(env=env, cwd="/", workspace=workspace).settings
        assert (settings.index_path, settings.index_path_is_ours) == (str(tmp_path / "mine.db"), False)


def test_looking_creates_nothing(tmp_path: Path) -> None:
    loaded(tmp_path, {})
    load(env={"HOME": str(tmp_path)}, cwd="/", workspace=str(folder(tmp_path / "notes")))
    assert files_below(tmp_path) == [".openclaw", ".openclaw/openclaw.json", ".openclaw/workspace", "notes"]


def test_the_state_of_a_folder_is_its_own(tmp_path: Path) -> None:
    first, second = folder(tmp_path / "a" / "notes"), folder(tmp_path / "b" / "notes")
    env = {"HOME": str(tmp_path), "MDRECALL_STATE_DIR": str(tmp_path / "own")}
    settings = [load(env=env, cwd=str(place)).settings for place in (first, second)]
    for kind in ("sessions_dir", "agent_dir", "state_dir", "qmd_dir", "index_path"):
        one, other = (getattr(each, kind) for each in settings)
        assert one != other
        assert one.startswith(str(tmp_path / "own"))
    assert {each.shared_dir for each in settings} == {str(tmp_path / "own")}
    assert load(env=env, cwd="/", workspace=str(first)).settings == settings[0]


def test_openclaws_state_belongs_to_openclaws_workspace_however_it_is_named(tmp_path: Path) -> None:
    env, notes = openclaw_home(tmp_path, {}), folder(tmp_path / "notes")
    openclaws = load(env=env, cwd="/").settings
    assert openclaws.sessions_dir == str(tmp_path / ".openclaw/agents/main/sessions")
    assert load(env=env, cwd="/", workspace="~/.openclaw/workspace").settings == openclaws
    own = load(env=env, cwd="/", workspace=str(notes)).settings
    assert (own.standalone, openclaws.standalone) == (True, False)
    for kind in ("sessions_dir", "agent_dir", "state_dir", "qmd_dir", "index_path"):
        assert getattr(own, kind).startswith(str(tmp_path / "own"))


def test_the_database_is_in_the_agents_folder_and_never_that_of_another_workspace(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {"agents": {"list": [{"id": "main", "agentDir": "~/elsewhere"}]}})
    assert load(env=env, cwd="/").settings.agent_dir == str(tmp_path / "elsewhere")
    own = load(env=env, cwd="/", workspace=str(folder(tmp_path / "notes"))).settings
    assert own.agent_dir.startswith(str(tmp_path / "own"))


@pytest.mark.parametrize(
    ("store", "folder_name", "database"),
    [
        ("~/.openclaw/agents/{agentId}/sessions/sessions.json", ".openclaw/agents/main/sessions", ""),
        ("~/data/agents/{agentId}/sessions/sessions.json", "data/agents/main/sessions", "data/agents/main/agent/*"),
        ("~/data/{agentId}/sessions.json", "data/main", "data/main/*"),
        ("~/data/talks.json", "data", "data/talks.sqlite"),
        ("~/data/all.sqlite", "data", "data/all.sqlite"),
        ("~/data/agents/ops/agent/all.sqlite", "data/agents/ops/sessions", "data/agents/ops/agent/all.sqlite"),
        ("data/all.sqlite", ".openclaw/data", ".openclaw/data/all.sqlite"),
        ("  ", ".openclaw/agents/main/sessions", ""),
    ],
)
def test_the_store_of_sessions_may_be_elsewhere(tmp_path: Path, store: str, folder_name: str, database: str) -> None:
    env = openclaw_home(tmp_path, {"session": {"store": store}})
    settings = load(env=env, cwd="/").settings
    file = (database or ".openclaw/agents/main/agent/*").replace("*", "openclaw-agent.sqlite")
    assert (settings.sessions_dir, settings.session_database) == (str(tmp_path / folder_name), str(tmp_path / file))
    assert settings.agent_dir == str(tmp_path / ".openclaw/agents/main/agent")
    assert settings.agent_folder == str(tmp_path / ".openclaw/agents/main")
    own = load(env=env, cwd="/", workspace=str(folder(tmp_path / "notes"))).settings
    assert own.sessions_dir.startswith(str(tmp_path / "own"))


def test_agents_that_share_a_list_of_sessions_have_a_database_each(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {"session": {"store": "~/data/talks.json"}})
    (folder(tmp_path / "data") / "talks.main.sqlite").touch()
    assert load(env=env, cwd="/").settings.session_database == str(tmp_path / "data/talks.main.sqlite")


@pytest.mark.parametrize("note", ["memory.md", "memory/people/x.md", "会议.md"])
def test_the_current_folder_wins_over_openclaws_workspace_if_it_has_notes(tmp_path: Path, note: str) -> None:
    env = openclaw_home(tmp_path, {"agents": {"defaults": {"workspace": "~/.openclaw/workspace"}}})
    notes = write(tmp_path / "notes" / note, "hello").parents[note.count("/")]
    result = load(env=env, cwd=str(notes))
    assert (result.settings.workspace, result.is_elsewhere) == (str(notes), False)
    assert result.values["workspace"].origin == "the current folder"
    assert result.settings == load(env=env, cwd="/", workspace=str(notes)).settings
    named = load(env=env, cwd=str(notes), agent="main")
    assert (named.settings.workspace, named.is_elsewhere) == (str(tmp_path / ".openclaw/workspace"), True)


@pytest.mark.parametrize("name", ["AGENTS.md", "README.zh-CN.md", "memory/x.py", "sub/x.md"])
def test_a_folder_without_notes_leaves_openclaw_its_place(tmp_path: Path, name: str) -> None:
    env = openclaw_home(tmp_path, {})
    write(tmp_path / "project" / name, "hello")
    result = load(env=env, cwd=str(tmp_path / "project"))
    assert (result.settings.workspace, result.is_elsewhere) == (str(tmp_path / ".openclaw/workspace"), True)


def test_a_home_folder_is_not_taken_for_a_memory_and_openclaws_own_folders_are_openclaws(tmp_path: Path) -> None:
    env = openclaw_home(tmp_path, {})
    write(tmp_path / "MEMORY.md", "hello")
    write(tmp_path / ".openclaw/workspace/memory/x.md", "hello")
    for place, is_elsewhere in ((tmp_path, True), (tmp_path / ".openclaw/workspace/memory", False)):
        result = load(env=env, cwd=str(place))
        assert (result.settings.workspace, result.is_elsewhere) == (str(tmp_path / ".openclaw/workspace"), is_elsewhere)


def test_a_folder_with_notes_wins_over_the_workspace_in_mdrecalls_own_file_for_a_person_only(tmp_path: Path) -> None:
    env, chosen = openclaw_home(tmp_path, {}), folder(tmp_path / "chosen")
    notes, bare = write(tmp_path / "notes/ideas.md", "hello").parent, folder(tmp_path / "bare")
    own = write(tmp_path / "own/mdrecall.json", {"agents": {"defaults": {"workspace": str(chosen)}}})
    assert load(env=env, cwd=str(notes)).settings.workspace == str(notes)
    for result in (
        load(env=env, cwd=str(bare)),
        load(env=env, cwd=str(notes), is_automatic=True),
        load(env=env, cwd=str(notes), config=str(own)),
        load(env=env, cwd=str(notes), agent="main"),
    ):
        assert (result.settings.workspace, result.is_elsewhere) == (str(chosen), True)
