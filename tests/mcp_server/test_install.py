"""``mdrecall mcp install``: the right entry in the right file, and nothing else touched."""

import errno
import json
import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mdrecall.cli.main import main
from mdrecall.mcp_server.install import own_command
from tests.conftest import live_in

_CLINE = "home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
FILES = {
    ("claude-code", "user"): ("home/.claude.json", "mcpServers"),
    ("claude-code", "project"): ("project/.mcp.json", "mcpServers"),
    ("claude-desktop", "user"): ("home/.config/Claude/claude_desktop_config.json", "mcpServers"),
    ("cline", "user"): (_CLINE, "mcpServers"),
    ("codex", "user"): ("home/.codex/config.toml", "mcp_servers"),
    ("codex", "project"): ("project/.codex/config.toml", "mcp_servers"),
    ("copilot", "user"): ("home/.copilot/mcp-config.json", "mcpServers"),
    ("cursor", "user"): ("home/.cursor/mcp.json", "mcpServers"),
    ("cursor", "project"): ("project/.cursor/mcp.json", "mcpServers"),
    ("gemini", "user"): ("home/.gemini/settings.json", "mcpServers"),
    ("gemini", "project"): ("project/.gemini/settings.json", "mcpServers"),
    ("lmstudio", "user"): ("home/.lmstudio/mcp.json", "mcpServers"),
    ("opencode", "user"): ("home/.config/opencode/opencode.json", "mcp"),
    ("opencode", "project"): ("project/opencode.json", "mcp"),
    ("qwen", "user"): ("home/.qwen/settings.json", "mcpServers"),
    ("qwen", "project"): ("project/.qwen/settings.json", "mcpServers"),
    ("vscode", "user"): ("home/.config/Code/User/mcp.json", "servers"),
    ("vscode", "project"): ("project/.vscode/mcp.json", "servers"),
    ("windsurf", "user"): ("home/.codeium/windsurf/mcp_config.json", "mcpServers"),
    ("zed", "user"): ("home/.config/zed/settings.json", "context_servers"),
}
#: What an entry has besides command and arguments.
MORE = {
    "claude-code": {"type": "stdio"},
    "copilot": {"type": "local", "tools": ["*"]},
    "opencode": {"type": "local", "enabled": True},
    "vscode": {"type": "stdio"},
}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a project, in which the commands run."""
    if sys.platform == "darwin":
        pytest.skip("The folders of this system's programs are others.")
    live_in(tmp_path / "home", tmp_path / "project", monkeypatch)
    return tmp_path


def servers_in(path: Path, table: str) -> dict[str, Any]:
    text = path.read_text()
    values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    found: dict[str, Any] = values[table]
    return found


def command_of(entry: dict[str, Any]) -> list[str]:
    """The whole command of an entry, from which it is taken out."""
    command = entry.pop("command")
    return command if isinstance(command, list) else [command, *entry.pop("args")]


def install(*arguments: str) -> int:
    return main(["mcp", "install", *arguments])


def uninstall(*arguments: str) -> int:
    return main(["mcp", "uninstall", *arguments])


@pytest.mark.parametrize(("client", "scope"), FILES)
def test_each_client_gets_its_entry_once_where_it_looks_for_it_and_loses_it_again(
    base: Path, client: str, scope: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, table = base / FILES[client, scope][0], FILES[client, scope][1]
    assert install(client, "--scope", scope) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 or scope == "project"
    before = path.read_bytes()
    entry = servers_in(path, table)["mdrecall"]
    command, *arguments = command_of(entry)
    assert entry == MORE.get(client, {})
    if scope == "user":
        assert os.path.isabs(command)
        assert os.access(command, os.X_OK)
        assert arguments[-3:] == ["mcp", "--workspace", str(base / "project")]
    assert install(client, "--scope", scope) == 0
    said = capsys.readouterr().out
    assert "already" in said
    assert said.count(f"Memory: {'this folder' if scope == 'project' else base / 'project'}.") == 2
    assert path.read_bytes() == before
    assert uninstall(client, "--scope", scope) == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude-code", '{\n  "mcpServers": {\n    "other": {"command": ["x"]}\n  },\n  "z": 1\n}\n'),
        ("claude-code", "{}\n"),
        ("claude-code", '\ufeff{\r\n  "mcpServers": {}\r\n}\r\n'),
        ("claude-code", '{\n  "mcpServers": {}\n}\n'),
        ("codex", '# mine\nz = 1\n\n[mcp_servers.other]\ncommand = "x"\n'),
        ("codex", 'model = "gpt"\r\n'),
    ],
)
def test_what_others_have_written_stays(base: Path, client: str, text: str) -> None:
    path = base / FILES[client, "project"][0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    assert install(client, "--scope", "project") == 0
    written = path.read_bytes().decode()
    assert "mdrecall" in written
    assert written.count("\r\n") == (written.count("\n") if "\r" in text else 0)
    assert uninstall(client, "--scope", "project", "--dry-run") == 0
    assert path.read_bytes().decode() == written
    for _ in range(2):
        assert uninstall(client, "--scope", "project") == 0
        assert path.read_bytes() == text.encode()


@pytest.mark.parametrize(("client", "scope"), [key for key in FILES if key[1] == "project"])
def test_the_entry_of_a_project_works_on_another_machine(
    base: Path, client: str, scope: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (base / "project/docs").mkdir()
    folder = "${workspaceFolder}" if client in ("cursor", "vscode") else "."
    for options, name in (([], folder), (["--workspace", "docs"], f"{folder}/docs".removeprefix("./"))):
        (base / FILES[client, scope][0]).unlink(missing_ok=True)
        assert install(client, "--scope", scope, "--read-only", *options) == 0
        entry = servers_in(base / FILES[client, scope][0], FILES[client, scope][1])["mdrecall"]
        assert command_of(entry) == ["mdrecall", "mcp", "--workspace", name, "--read-only"]
    assert "outside of this project" not in capsys.readouterr().err
    assert install(client, "--scope", scope, "--workspace", str(base / "home"), "--print") == 0
    assert "works on this machine only" in capsys.readouterr().err


def test_what_is_there_stays_with_its_form_and_its_permissions(base: Path) -> None:
    path = base / "home/.claude.json"
    there = {"numStartups": 7, "mcpServers": {"other": {"command": "x", "env": {"KEY": "säcret"}}}, "é": [1, 2.5]}
    path.write_text(json.dumps(there, indent=4, ensure_ascii=False))
    path.chmod(0o640)
    assert install("claude-code") == 0
    values = json.loads(path.read_text())
    assert values["mcpServers"].pop("mdrecall")
    assert values == there
    assert '\n    "numStartups": 7' in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert uninstall("claude-code") == 0
    assert path.read_text() == json.dumps(there, indent=4, ensure_ascii=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", '{"servers": {}, "servers": {}}'),
        ("vscode", '{"servers": {"mdrecall": 1}}'),
        ("vscode", "[]"),
        ("vscode", "[" * 5000),
        ("vscode", '{"servers": {"mdrecall": {"command": "x" /* mine */}}}'),
        ("vscode", "{\n  +servers: {}\n}"),
        ("codex", 'mcp_servers = { other = { command = "x" } }\n'),
        ("codex", "mcp_servers = 3\n"),
        ("codex", "mcp_servers.mdrecall = 3\n"),
        ("codex", "not toml\n"),
    ],
)
def test_a_file_that_would_lose_something_is_left_as_it_is_and_the_lines_are_told(
    base: Path, client: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = base / FILES[client, "project"][0]
    path.parent.mkdir()
    path.write_text(text)
    assert install(client, "--scope", "project") == 2
    said = capsys.readouterr().err
    assert "was not changed" in said
    assert ('"mdrecall": {' in said) == (client == "vscode")
    assert ("[mcp_servers.mdrecall]" in said) == (client == "codex")
    assert {file: file.read_text() for file in path.parent.iterdir()} == {path: text}


def test_yaml_is_not_edited_and_the_lines_to_add_or_to_remove_are_told(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = base / "home/.config/goose/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("extensions:\n  other: {}\n")
    assert install("goose") == 0
    told = capsys.readouterr()
    table, name, values = told.out.split(maxsplit=2)
    assert (table, name) == ("extensions:", "mdrecall:")
    entry = json.loads(values)
    assert entry.pop("cmd")
    assert entry.pop("args")[-3:] == ["mcp", "--workspace", str(base / "project")]
    assert entry == {"type": "stdio", "name": "mdrecall", "enabled": True, "timeout": 300, "envs": {}}
    assert "~/.config/goose/config.yaml, which mdrecall does not edit" in told.err
    assert uninstall("goose") == 0
    assert "Remove mdrecall from extensions" in capsys.readouterr().out
    assert path.read_text() == "extensions:\n  other: {}\n"


def test_a_settings_file_with_comments_in_its_name_is_the_one_that_is_changed(base: Path) -> None:
    path = base / "project/opencode.jsonc"
    path.write_text("{}\n")
    assert install("opencode", "--scope", "project") == 0
    assert "mdrecall" in path.read_text()
    assert not (base / "project/opencode.json").exists()


def test_lines_are_printed_that_can_be_pasted(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install("codex", "--print", "--name", "memory_2") == 0
    captured = capsys.readouterr()
    assert tomllib.loads(captured.out)["mcp_servers"]["memory_2"]["args"]
    assert "~/.codex/config.toml" in captured.err
    assert install("--print", "--read-only") == 0
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["mdrecall"]
    assert entry["args"][-4:] == ["mcp", "--workspace", str(base / "project"), "--read-only"]
    assert list((base / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ("--workspace one=a --workspace b --session-key agent:main:main",
         "--workspace one={base}/a --workspace b={base}/b --session-key agent:main:main"),
        ("--agent one --agent two --config c.json", "--agent one --agent two --config {base}/c.json"),
    ],
)  # fmt: skip
def test_the_memories_asked_for_are_in_the_command_with_their_whole_paths(
    base: Path, options: str, arguments: str
) -> None:
    project = base / "project"
    agents = [{"id": name, "workspace": str(project)} for name in ("one", "two")]
    (project / "c.json").write_text(json.dumps({"agents": {"list": agents}}))
    for name in ("a", "b"):
        (project / name).mkdir()
    assert install("cursor", *options.split()) == 0
    args = servers_in(base / "home/.cursor/mcp.json", "mcpServers")["mdrecall"]["args"]
    assert args[args.index("mcp") + 1 :] == arguments.format(base=project).split()


def test_a_file_that_cannot_be_read_or_written_stays_and_nothing_is_left_beside_it(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base / "home/.cursor/mcp.json"
    path.mkdir(parents=True)
    assert install("cursor") == 2
    assert f"Cannot read {path}: Is a directory." in capsys.readouterr().err
    path.rmdir()
    path.write_bytes(b'{"a": "\xff"}')
    assert install("cursor") == 2
    assert f"Cannot read {path}: it is not UTF-8." in capsys.readouterr().err
    path.write_text("{}\n")

    real = os.replace

    def refuse(source: str, destination: str) -> None:
        if destination == str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, destination)

    monkeypatch.setattr(os, "replace", refuse)
    assert install("cursor") == 2
    said = capsys.readouterr().err
    assert f"Cannot write {path}: No space left on device." in said
    assert {file.name: file.read_text() for file in path.parent.iterdir()} == {"mcp.json": "{}\n"}


def test_the_folders_that_the_environment_names_count(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(base / "codex"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(base / "claude"))
    assert install("codex") == install("claude-code") == 0
    assert (base / "codex/config.toml").exists()
    assert (base / "claude/.claude.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["install"], "Which client?"),
        (["install", "claude-desktop", "--scope", "project"], "has no configuration for a project"),
        (["install", "codex", "--name", "a b"], "is not a valid name"),
        (["install", "cursor", "--agents-md"], "works only with `mdrecall mcp install openclaw`"),
        (["install", "codex", "--workspace", "missing"], "There is no workspace folder"),
        (["--dry-run"], "--dry-run works only with"),
    ],
)
def test_what_makes_no_sense_is_told(
    base: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_dry_run_shows_a_line_without_an_end(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (base / "project/.mcp.json").write_text('{\n  "mcpServers": {}\n}')
    assert install("claude-code", "--scope", "project", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"--- {base}/project/.mcp.json", f"+++ {base}/project/.mcp.json"]
    assert '-  "mcpServers": {}' in lines
    assert lines.count("\\ No newline at end of file") == 1


@pytest.mark.parametrize("beside", ["program", "folder", "data"])
def test_the_command_is_the_program_beside_python_or_else_python_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    program = tmp_path / "mdrecall"
    if beside == "folder":
        program.mkdir()
    elif beside != "nothing":
        program.touch(mode=0o755 if beside == "program" else 0o644)
    python = str(tmp_path / "python3")
    monkeypatch.setattr(sys, "executable", python)
    assert own_command() == ((str(program),) if beside == "program" else (python, "-P", "-m", "mdrecall"))


def test_the_command_is_the_link_on_the_path_that_leads_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pipx and uv have it: ``~/.local/bin/mdrecall`` leads to an environment, which they may move."""
    for name in ("tool", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mdrecall").touch(mode=0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mdrecall").symlink_to(tmp_path / "tool/mdrecall")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "tool/python3"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert own_command() == (str(tmp_path / "bin/mdrecall"),)
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    assert own_command() == (str(tmp_path / "tool/mdrecall"),)


@pytest.mark.parametrize("command", [["install", "codex"], ["mcp", "install", "codex"]], ids=" ".join)
def test_a_program_in_a_cache_is_not_written_into_any_configuration(
    base: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `uvx` and `pipx run` have it. An environment that uv has made has the tag, too, but lies in no cache."""
    cache = base / "home/.cache/uv"
    (cache / "archive-v0/x").mkdir(parents=True)
    (cache / "archive-v0/x/CACHEDIR.TAG").touch()
    monkeypatch.setattr(sys, "prefix", str(cache / "archive-v0/x"))
    assert main(command) == 0
    (base / "home/.codex/config.toml").unlink()
    (cache / "CACHEDIR.TAG").touch()
    capsys.readouterr()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert f"is in a cache, {cache}," in said
    assert "`uv tool install`" in said
    assert not (base / "home/.codex/config.toml").exists()
    assert main([*command[:-2], "uninstall", "codex"]) == 0


@pytest.mark.parametrize("command", [["install", "codex"], ["mcp", "install", "codex"]], ids=" ".join)
def test_the_name_of_the_command_is_warned_about_if_only_one_environment_has_it(
    base: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = base / "venv/bin/mdrecall"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    said = "mdrecall is not on the PATH of every terminal"
    assert main([*command, "--scope", "project"]) == 0
    assert said not in capsys.readouterr().err
    (base / "venv/pyvenv.cfg").touch()
    assert main([*command, "--scope", "project"]) == 0
    assert said in capsys.readouterr().err
