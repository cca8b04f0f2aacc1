"""``mdrecall install`` and ``uninstall``: the right files, and afterwards every file as it was, byte for byte."""

import errno
import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

import mdrecall
from mdrecall.cli.main import main
from mdrecall.hosts.pieces import INSTALLABLE
from mdrecall.hosts.table import find_host, render_hooks
from mdrecall.mcp_server.install import replace_text
from tests.conftest import live_in

PROJECT = Path(__file__).parents[2]
PLUGIN = PROJECT / "mdrecall/hosts/plugin"
#: Files as people have them: with comments, other servers, other hooks, tabs, and without an end of line.
OTHERS = {
    ".claude.json": '{"numStartups": 3, "mcpServers": {}}',
    ".claude/settings.json": '{\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}\n}\n',
    ".claude/skills/other/SKILL.md": "---\nname: other\n---\n",
    ".codex/config.toml": 'model = "m"   # mine\n\n[mcp_servers.other]\ncommand = "other"',
    ".codex/hooks.json": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"beep"}]}],"SessionStart":[]}}',
    ".config/goose/config.yaml": "extensions:\n  other: {}\n",
    ".config/goose/.goosehints": "Be kind.",
    ".config/zed/settings.json": '{\n\t// the theme\n\t"theme": "One Dark",\n}\n',
    ".copilot/mcp-config.json": '{"mcpServers": {"other": {"command": "other"}}}\n',
    ".hermes/config.yaml": "model: m  # mine\r\nmemory:\r\n  provider: 'mem0'  # or none\r\nmcp:\r\n- a\r\n",
    ".gemini/settings.json": '{"security": {}}\r\n',
    ".qwen/settings.json": '{\r\n  "hooks": {\r\n    "Stop": []\r\n  }\r\n}\r\n',
    ".codeium/windsurf/memories/global_rules.md": "# Rules\n",
}
#: Where OpenClaw is set up, its workspace is the memory: tests/mcp_server/test_install_openclaw.py installs it.
SCOPES = [
    (host, scope)
    for host in INSTALLABLE
    for scope in ("user", "project")
    if (host, scope) not in (("copilot", "project"), ("hermes", "project")) and host != "openclaw"
]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the files of a person, and a project, in which the commands run."""
    if sys.platform == "darwin":
        pytest.skip("The folders of this system's programs are others.")
    live_in(tmp_path / "home", tmp_path / "project", monkeypatch)
    for name, text in OTHERS.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (tmp_path / "project/AGENTS.md").write_text("# Rules of this project\n")
    return tmp_path


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its content, and every folder; mdrecall's own notes and state left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(("home/.local", "home/mdrecall", "project/MEMORY.md")):
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def install(*arguments: str) -> None:
    assert main(["install", *arguments]) == 0


@pytest.mark.parametrize(("host", "scope"), SCOPES)
def test_uninstall_leaves_every_file_as_it_was(base: Path, host: str, scope: str) -> None:
    before = tree(base)
    install(host, "--scope", scope)
    changed = tree(base)
    assert changed != before
    install(host, "--scope", scope)
    assert tree(base) == changed
    assert main(["uninstall", host, "--scope", scope]) == 0
    assert tree(base) == before


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_an_update_in_between_changes_nothing_of_that(base: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(base)
    install(host)
    monkeypatch.setattr("mdrecall.cli.install.choose_command", lambda scope: ("/opt/new place/mdrecall",))
    install(host)
    written = b"".join(filter(None, tree(base).values())).decode()
    assert "'/opt/new place/mdrecall' hook stop" in written
    assert written.count("hook stop") == 1
    main(["uninstall", host])
    assert tree(base) == before


def test_a_server_that_was_there_before_comes_back(base: Path) -> None:
    main(["mcp", "install", "qwen", "--workspace", str(base)])
    before = tree(base)
    install("qwen")
    assert tree(base) != before
    main(["uninstall", "qwen"])
    assert tree(base) == before


def test_what_others_change_after_the_installation_stays(base: Path) -> None:
    home = base / "home"
    install("codex")
    config, hooks = home / ".codex/config.toml", home / ".codex/hooks.json"
    config.write_text(config.read_text() + '\n[projects."/x"]\ntrust_level = "trusted"\n')
    values = json.loads(hooks.read_text())
    values["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "beep twice"}]})
    hooks.write_text(json.dumps(values))
    main(["uninstall", "codex"])
    left = tomllib.loads(config.read_text())
    assert set(left) == {"model", "mcp_servers", "projects"}
    assert set(left["mcp_servers"]) == {"other"}
    commands = [group["hooks"][0]["command"] for group in json.loads(hooks.read_text())["hooks"]["Stop"]]
    assert commands == ["beep", "beep twice"]


@pytest.mark.parametrize(
    ("before", "added", "indent", "after"),
    [
        ('{\n  "theme": "dark"\n}\n', {"$version": 4}, 2, '{\n  "theme": "dark",\n  "$version": 4\n}'),
        ('{"theme":"dark"}', {}, 4, '{"theme":"dark"}'),
    ],
    ids=["something is added", "only the spaces differ"],
)
def test_what_a_host_has_written_anew_stays_only_where_it_says_something_else(
    base: Path, before: str, added: dict[str, int], indent: int, after: str
) -> None:
    settings = base / "home/.qwen/settings.json"
    settings.write_text(before)
    install("qwen")
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **added}, indent=indent))
    main(["uninstall", "qwen"])
    assert settings.read_text() == after


def test_a_file_of_mdrecalls_that_somebody_has_edited_is_copied_before_it_goes(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("claude-code")
    skill = base / "home/.claude/skills/mdrecall/skills/recall/SKILL.md"
    skill.write_text(skill.read_text() + "My own line.\n")
    main(["uninstall", "claude-code"])
    assert not skill.exists()
    assert "My own line." in skill.with_name("SKILL.md.bak").read_text()
    assert "SKILL.md.bak" in capsys.readouterr().err


def test_a_skill_of_the_same_name_is_neither_overwritten_nor_removed(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skill = base / "home/.codex/skills/recall/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: recall\n---\nAnother one.\n")
    before = tree(base)
    assert main(["install", "codex"]) == 2
    assert "was not changed" in capsys.readouterr().err
    assert main(["uninstall", "codex"]) == 0
    assert tree(base) == before


@pytest.mark.parametrize("written", range(3))
def test_an_installation_that_breaks_off_can_be_undone(
    base: Path, written: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(base)
    left = [None] * written

    def write(path: str, text: str, new_mode: int) -> None:
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        left.pop()
        replace_text(path, text, new_mode)

    monkeypatch.setattr("mdrecall.hosts.install.replace_text", write)
    assert main(["install", "codex"]) == 2
    assert "No space left on device" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(base / "home"))
    monkeypatch.chdir(base / "project")
    assert main(["uninstall", "codex"]) == 0
    assert tree(base) == before
    assert doctor(capsys) == []


def test_no_file_is_made_that_nothing_is_written_to(base: Path) -> None:
    config = base / "home/.codex/config.toml"
    config.unlink()
    (base / "home/.codex/hooks.json").unlink()
    install("codex", "--scope", "project")
    assert not config.exists()


HERMES_PLUGIN = ".hermes/plugins/mdrecall"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "memory:\n  provider: mdrecall\n"),
        ("# mine\nmodel: m", "# mine\nmodel: m\nmemory:\n  provider: mdrecall\n"),
        ("memory:\n  provider: mem0\n", "memory:\n  provider: mdrecall\n"),
        ("memory: # x\n\n  # y\n  honcho:\n    provider: z\nb:\n- c", None),
        ("a: |\n  memory:\n    provider: b\nmemory:\n    provider:   # none\n    limit: 2", None),
    ],
)
def test_hermes_gets_one_line_and_everything_comes_back(base: Path, text: str | None, expected: str | None) -> None:
    config = base / "home/.hermes/config.yaml"
    config.unlink() if text is None else config.write_text(text)
    before = tree(base)
    assert main(["install", "hermes", "--dry-run"]) == 0
    assert tree(base) == before
    install("hermes")
    written = config.read_text()
    assert expected in (written, None)
    added = set(written.split("\n")) - set((text or "").split("\n"))
    assert [line.partition(" #")[0].strip() for line in added if "provider" in line] == ["provider: mdrecall"]
    # Python leaves what it has compiled beside a file that it imports.
    (base / "home" / HERMES_PLUGIN / "__pycache__").mkdir()
    (base / "home" / HERMES_PLUGIN / "__pycache__/__init__.cpython-311.pyc").write_bytes(b"\xff")
    install("hermes")
    assert main(["install", "hermes", "--remove"]) == 0
    assert tree(base) == before


@pytest.mark.parametrize(
    "text",
    ["memory: {limit: 2}\n", "memory:\n  provider: &x mem0\n", "{}", "a: 'b\n'\n", "memory:\n  provider: a\n    b\n",
     "memory:\n  limit: 2\nmemory:\n  limit: 3\n", "a: 1\n---\nb: 1\n"],
)  # fmt: skip
def test_what_is_not_sure_in_hermes_is_for_a_person(base: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = base / "home/.hermes/config.yaml"
    config.write_text(text)
    before = tree(base)
    install("hermes")
    assert 'which mdrecall does not edit:\n\nmemory:\n  provider: "mdrecall"\n' in capsys.readouterr().out
    assert config.read_text() == text
    assert main(["install", "hermes", "--remove"]) == 0
    assert "Remove mdrecall from memory in it yourself" in capsys.readouterr().err
    assert tree(base) == before


def test_hermes_goes_back_to_its_provider_although_it_has_written_its_file_anew(base: Path) -> None:
    config = base / "home/.hermes/config.yaml"
    install("hermes")
    assert config.read_bytes().splitlines()[2] == b"  provider: mdrecall  # or none"
    config.write_text("memory:\n  limit: 2\n  provider: mdrecall\n  provider_note: x\nadded: 1\n")
    install("hermes")
    assert main(["install", "hermes", "--remove"]) == 0
    assert config.read_text() == "memory:\n  limit: 2\n  provider: 'mem0'\n  provider_note: x\nadded: 1\n"
    config.write_text("memory:\n  provider: mdrecall\n")
    # Without a receipt nobody knows what was there.
    assert main(["install", "hermes", "--remove"]) == 0
    assert config.read_text() == "memory:\n  provider: ''\n"


@pytest.mark.parametrize(
    ("arguments", "has_home", "message"),
    [
        (("--remove", "--workspace", "x"), True, "--workspace does not work with --remove."),
        (("--workspace", "x"), True, "--workspace does not work with hermes"),
        (("--scope", "project"), True, "no configuration for a project"),
        ((), False, "There is no folder of Hermes at"),
    ],
)
def test_what_makes_no_sense_for_hermes_writes_nothing(
    base: Path, arguments: tuple[str, ...], has_home: bool, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not has_home:
        shutil.rmtree(base / "home/.hermes")
    before = tree(base)
    assert main(["install", "hermes", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert tree(base) == before


def test_the_other_home_of_hermes_is_where_its_variable_says(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(base / "other"))
    (base / "other").mkdir()
    (base / "other/mdrecall.json").write_text(json.dumps({"workspace": "/srv/notes"}))
    install("hermes")
    out = capsys.readouterr().out
    assert "Memory: /srv/notes." in out
    assert "into the Python of Hermes" in out
    assert (base / "other/config.yaml").read_text() == "memory:\n  provider: mdrecall\n"
    assert not (base / "home" / HERMES_PLUGIN).exists()
    assert ("good", "hermes imports mdrecall") in doctor(capsys)


def test_a_linked_file_stays_linked(base: Path) -> None:
    settings = base / "home/.qwen/settings.json"
    kept = base / "dotfiles.json"
    settings.rename(kept)
    settings.symlink_to(kept)
    before = kept.read_bytes()
    install("qwen")
    assert settings.is_symlink()
    assert b"mdrecall hook stop" in kept.read_bytes()
    main(["uninstall", "qwen"])
    assert settings.is_symlink()
    assert kept.read_bytes() == before


def test_a_dry_run_shows_the_change_and_writes_nothing(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in base.rglob("*")}
    install("codex", "--dry-run")
    assert "+[mcp_servers.mdrecall]" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in base.rglob("*")} == before
    install("codex")
    capsys.readouterr()
    installed = tree(base)
    assert main(["uninstall", "codex", "--dry-run"]) == 0
    assert "-[mcp_servers.mdrecall]" in capsys.readouterr().out.splitlines()
    assert tree(base) == installed


def test_a_workspace_that_cannot_be_made_or_written_down_is_told_with_the_way_out(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = base / "home/.local/state/mdrecall/mdrecall.json"
    config.parent.mkdir(parents=True)
    broken = '{"agents": {"defaults": {}, "defaults": {}}}'
    config.write_text(broken)
    (base / "file").write_text("")
    for folder, said in (
        ("../file", f"{base}/file is not a folder.\n          Choose another one with --workspace."),
        ("../file/x", f"{base}/file is not a folder.\n          Choose another one with --workspace."),
        (
            "notes",
            f"{config} was not changed: a name occurs in it twice.\n          Move it away, or change it yourself",
        ),
    ):
        assert main(["install", "codex", "--workspace", folder]) == 2
        assert said in capsys.readouterr().err
    assert config.read_text() == broken
    assert not (base / "project/notes").exists()


def list_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("scope", ["user", "project"])
def test_the_last_host_takes_what_the_installation_wrote_of_notes_and_settings(base: Path, scope: str) -> None:
    before = list_files(base)
    install("claude-code", "--scope", scope)
    install("codex", "--scope", scope)
    shared = {path: text for path, text in list_files(base).items() if path.name in ("mdrecall.json", "MEMORY.md")}
    assert len(shared) == (2 if scope == "user" else 1)
    main(["uninstall", "codex", "--scope", scope])
    assert shared.items() <= list_files(base).items()
    main(["uninstall", "claude-code", "--scope", scope])
    assert list_files(base) == before
    assert not (base / "home/mdrecall").exists()


def test_a_project_that_is_gone_needs_no_workspace_any_more(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = base / "home/.local/state/mdrecall/mdrecall.json"
    for name in ("gone", "old"):
        (base / name).mkdir()
    monkeypatch.chdir(base / "gone")
    install("codex")
    monkeypatch.chdir(base / "old")
    install("qwen")
    install("zed", "--scope", "project")
    monkeypatch.chdir(base / "project")
    for name in ("gone", "old"):
        shutil.rmtree(base / name)
    main(["uninstall", "qwen"])
    assert config.exists()
    main(["uninstall", "codex"])
    assert not config.exists()


def test_a_workspace_that_was_configured_before_is_configured_again(base: Path) -> None:
    config = base / "home/.local/state/mdrecall/mdrecall.json"
    config.parent.mkdir(parents=True)
    (base / "first").mkdir()
    config.write_text(json.dumps({"agents": {"defaults": {"workspace": str(base / "first")}}}))
    before = list_files(base)
    install("codex", "--workspace", "../second")
    install("codex", "--workspace", "../third")
    assert not (base / "second/MEMORY.md").exists()
    main(["uninstall", "codex"])
    assert list_files(base) == before
    install("codex", "--workspace", "../second")
    config.write_text(config.read_text().replace("{", '{"mdrecall": {"hosts": {"digest": false}},', 1))
    install("codex", "--workspace", "../third")
    main(["uninstall", "codex"])
    assert json.loads(config.read_text())["agents"]["defaults"]["workspace"] == str(base / "first")


def test_notes_and_settings_of_others_stay_when_the_last_host_goes(base: Path) -> None:
    config, note = base / "home/.local/state/mdrecall/mdrecall.json", base / "home/mdrecall/MEMORY.md"
    install("codex")
    note.write_text("# Memory\n\nAna prefers tea.\n")
    config.write_text(config.read_text().replace("{", '{"mdrecall": {"hosts": {"digest": false}},', 1))
    main(["uninstall", "codex"])
    assert note.read_text() == "# Memory\n\nAna prefers tea.\n"
    assert json.loads(config.read_text()) == {"mdrecall": {"hosts": {"digest": False}}}


def test_a_person_stands_in_one_memory_while_hosts_use_another(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = base / "other-notes"
    other.mkdir()
    (other / "walrus.md").write_text("The walrus sleeps in the harbour.\n")
    install("claude-code")
    (base / "home/mdrecall/MEMORY.md").write_text("The walrus of the office plays chess.\n")
    monkeypatch.chdir(other)
    capsys.readouterr()
    assert main(["search", "walrus"]) == 0
    found = capsys.readouterr()
    assert ("harbour" in found.out, "chess" in found.out, found.err) == (True, False, "")
    assert main(["note", "tea", "--file", "drinks"]) == 0
    assert list(base.rglob("drinks.md")) == [other / "drinks.md"]
    assert main(["context"]) == 0
    shown = capsys.readouterr()
    assert "plays chess" in shown.out
    assert "Using the memory in ~/mdrecall (from ~/.local/state/mdrecall/mdrecall.json" in shown.err
    monkeypatch.chdir(base / "project")
    assert main(["search", "walrus"]) == 0
    assert "plays chess" in capsys.readouterr().out


def test_without_the_receipt_only_the_pieces_of_mdrecall_are_taken_out(base: Path) -> None:
    install("codex")
    for receipt in (base / "home/.local/state/mdrecall/installed").iterdir():
        receipt.unlink()
    main(["uninstall", "codex"])
    left = tree(base / "home/.codex")
    assert sorted(left) == ["config.toml", "hooks.json", "skills", "skills/recall"]
    assert "mdrecall" not in str(left)


def test_the_memory_is_the_configured_one_else_the_folder_with_notes_else_one_in_the_home(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = base / "home/.local/state/mdrecall/mdrecall.json"
    install("claude-code")
    assert "Memory: ~/mdrecall." in capsys.readouterr().out
    assert json.loads(config.read_text()) == {"agents": {"defaults": {"workspace": "~/mdrecall"}}}
    assert (base / "home/mdrecall/MEMORY.md").exists()
    install("codex", "--workspace", "notes")
    assert json.loads(config.read_text())["agents"]["defaults"]["workspace"] == str(base / "project/notes")
    config.unlink()
    Path("MEMORY.md").write_text("# Here\n")
    install("qwen")
    assert json.loads(config.read_text())["agents"]["defaults"]["workspace"] == str(base / "project")


def test_for_a_project_the_memory_is_in_it_and_the_command_holds_on_every_machine(base: Path) -> None:
    install("claude-code", "--scope", "project")
    hooks = Path(".claude/skills/mdrecall/hooks/hooks.json").read_text()
    assert '"mdrecall hook session-start --host claude-code"' in hooks
    assert Path("MEMORY.md").exists()
    assert not (base / "home/.local/state/mdrecall/mdrecall.json").exists()


def doctor(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """What doctor says about coding agents."""
    capsys.readouterr()
    main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)
    return [(finding["verdict"], finding["said"]) for finding in findings if finding["check"] == "coding agent"]


def test_doctor_finds_a_command_that_is_gone_and_files_of_another_version(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = base / "mdrecall"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setattr("mdrecall.cli.install.choose_command", lambda scope: (str(command),))
    install("qwen")
    assert doctor(capsys) == [("good", f"qwen calls {command}")]
    (base / "home/.qwen/skills/recall/SKILL.md").write_text("The skill of mdrecall 0.0.1\n")
    assert [verdict for verdict, said in doctor(capsys) if "another version" in said] == ["note"]
    command.unlink()
    assert doctor(capsys) == [("wrong", f"qwen runs {command}, which does not exist")]


def test_doctor_finds_a_name_that_only_one_environment_has(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "venv/bin").mkdir(parents=True)
    (base / "venv/bin/mdrecall").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(base / "venv/bin"))
    install("qwen", "--scope", "project")
    assert [verdict for verdict, _ in doctor(capsys)] == ["good"]
    (base / "venv/pyvenv.cfg").touch()
    said = f"qwen in {base}/project runs mdrecall, which is not on every PATH"
    assert doctor(capsys) == [("wrong", said)]


def test_doctor_counts_the_hooks_that_codex_has_not_approved(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("codex")
    (verdict, said), *others = doctor(capsys)
    assert (verdict, others) == ("note", [])
    assert "not approved 5 of" in said
    config, hooks = base / "home/.codex/config.toml", base / "home/.codex/hooks.json"
    for name in ("session_start", "user_prompt_submit", "pre_compact", "stop", "session_end"):
        state = f'\n[hooks.state."{hooks}:{name}:0:0"]\ntrusted_hash = "sha256:00"\n'
        config.write_text(config.read_text() + state)
    assert [verdict for verdict, _ in doctor(capsys)] == ["good"]
    approved = config.read_text()
    install("codex")
    assert config.read_text() == approved


@pytest.mark.parametrize("title", ["", "[hooks.state]\n"])
def test_what_codex_wrote_when_hooks_were_approved_goes_with_them(base: Path, title: str) -> None:
    config, hooks = base / "home/.codex/config.toml", base / "home/.codex/hooks.json"
    hooks.unlink()
    before = config.read_text()
    install("codex")
    states = "".join(f'\n[hooks.state."{hooks}:{name}:0:0"]\ntrusted_hash = "x"\n' for name in ("stop", "session_end"))
    config.write_text(f"{config.read_text()}\n{title}{states}\n[tui]\nx = 1  # mine\n")
    main(["uninstall", "codex"])
    assert config.read_text() == before + "\n\n[tui]\nx = 1  # mine\n"


def test_the_plugin_in_the_wheel_is_what_would_be_installed_with_the_command_by_its_name() -> None:
    claude = find_host("claude-code")
    assert claude
    hooks = {name: [group] for name, group in render_hooks(claude, "mdrecall", is_named=False).items()}
    assert json.loads((PLUGIN / "hooks/hooks.json").read_text()) == {"hooks": hooks}
    assert json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())["version"] == mdrecall.__version__
    market = json.loads((PROJECT / ".claude-plugin/marketplace.json").read_text())
    assert [PROJECT / plugin["source"] for plugin in market["plugins"]] == [PLUGIN]


def test_the_command_line_of_a_hook_is_the_same_in_every_version() -> None:
    """Codex asks for a new approval when it changes, and other hosts may hold an old copy of the plugin."""
    hooks = json.loads((PLUGIN / "hooks/hooks.json").read_text())["hooks"]
    events = ("session-start", "prompt", "before-compaction", "stop", "session-end")
    commands = [group["hooks"][0]["command"] for [group] in hooks.values()]
    assert commands == [f"mdrecall hook {event}" for event in events]
