"""The real coding agents, as npm installs them for the tests, each run headless in a home of its own."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.hosts.model import Model
from tests.hosts.wire import Call

_CHECKOUT = Path(__file__).resolve().parents[2]
#: Where scripts/test and scripts/hosts install programs.
_FOLDERS = (_CHECKOUT / ".npm-test", _CHECKOUT / ".npm-hosts")
#: A session takes 5 to 30 s on two busy cores; the first start of OpenCode two minutes.
PATIENCE_S = 240.0


class Finished(NamedTuple):
    """A program that has ended."""

    code: int
    out: str
    err: str


class Program(NamedTuple):
    """How one of the hosts is found and run without an account, a terminal or a question."""

    files: tuple[str, ...]
    """Where its program is below ``node_modules``, with stars for the platform; the first that is there counts."""
    env: Callable[[Path, str], dict[str, str]]
    """Its environment, from its home and the address of the model server."""
    settings: Callable[[str], tuple[str, str]]
    """A file in its home that it needs, and its text."""
    ask: tuple[str, ...]
    """The arguments of a headless session. ``PROMPT`` stands for the prompt; without it, it comes on standard input."""


def _claude_env(home: Path, url: str) -> dict[str, str]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-test", **quiet}


def _codex_settings(url: str) -> tuple[str, str]:
    provider = f'name = "test"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "TEST_KEY"\n'
    return ".codex/config.toml", f'model = "test-model"\nmodel_provider = "test"\n\n[model_providers.test]\n{provider}'


def _copilot_env(home: Path, url: str) -> dict[str, str]:
    provider = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": "x"}
    return {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "COPILOT_MODEL": "test-model", **provider}


def _gemini_env(home: Path, url: str) -> dict[str, str]:
    return {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _qwen_env(home: Path, url: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "test-model"}


def _opencode_settings(url: str) -> tuple[str, str]:
    model = {"name": "test", "limit": {"context": 20000, "output": 4000}}
    options = {"baseURL": f"{url}/v1", "apiKey": "x"}
    package = {"npm": "@ai-sdk/openai-compatible", "name": "test", "options": options}
    settings = {
        "model": "test/test-model",
        "small_model": "test/test-model",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"test": {**package, "models": {"test-model": model}}},
        "permission": {"bash": "allow", "edit": "allow"},
    }
    return ".config/opencode/opencode.json", json.dumps(settings, indent=2) + "\n"


def _json_settings(path: str, auth: str) -> Callable[[str], tuple[str, str]]:
    return lambda _: (path, json.dumps({"security": {"auth": {"selectedType": auth}}}, indent=2) + "\n")


#: It refuses to allow everything when root runs it.
_ALLOWED = "Bash,Read,Write,mcp__mdrecall,mcp__plugin_mdrecall_mdrecall"
_QUIET = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
PROGRAMS = {
    "claude-code": Program(
        ("@anthropic-ai/claude-code-*/claude",),
        _claude_env,
        lambda _: (".claude/settings.json", "{}\n"),
        ("-p", "--output-format", "json", "--allowedTools", _ALLOWED),
    ),
    "codex": Program(
        ("@openai/codex-*/vendor/*/bin/codex",),
        lambda home, _: {"CODEX_HOME": str(home / ".codex"), "TEST_KEY": "x"},
        _codex_settings,
        ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "PROMPT"),
    ),
    "copilot": Program(
        ("@github/copilot-*/copilot", "@github/copilot/index.js"),
        _copilot_env,
        lambda _: (".copilot/config.json", "{}\n"),
        ("--allow-all", "-p", "PROMPT"),
    ),
    "gemini": Program(
        ("@google/gemini-cli/bundle/gemini.js", "@google/gemini-cli/dist/index.js"),
        _gemini_env,
        _json_settings(".gemini/settings.json", "gemini-api-key"),
        ("--yolo", "--skip-trust", "-o", "json", "-p", "PROMPT"),
    ),
    "opencode": Program(
        ("opencode-linux-*/bin/opencode", "opencode-*/bin/opencode"),
        lambda *_: dict(_QUIET),
        _opencode_settings,
        ("run", "--format", "json"),
    ),
    "qwen": Program(
        ("@qwen-code/qwen-code/cli.js", "@qwen-code/qwen-code/dist/cli.js"),
        _qwen_env,
        _json_settings(".qwen/settings.json", "openai"),
        ("--yolo", "-p", "PROMPT"),
    ),
}

#: What scripts/test installs; the others are run by scripts/hosts.
IN_SUITE = ("claude-code", "codex")
HOSTS = [pytest.param(name, marks=[] if name in IN_SUITE else pytest.mark.hosts) for name in PROGRAMS]


class Host:
    """One of the hosts in a home of its own, with a mark by which all that it starts is known."""

    def __init__(self, name: str, home: Path, model: Model) -> None:
        self.name = name
        self.home = home
        self.mark = f"mdrecall-test-{uuid.uuid4().hex}"
        self._program = PROGRAMS[name]
        self._command = find_program(name)
        home.mkdir(exist_ok=True)
        # Node for the hosts that are JavaScript. No mdrecall: a host may run in another terminal than its installation.
        found = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "mdrecall").exists()]
        path = [*_node_folders(), *found]
        own = {"HOME": str(home), "PATH": os.pathsep.join(path), "MDRECALL_TEST_MARK": self.mark, "TERM": "dumb"}
        self.env = {**own, **self._program.env(home, model.url)}
        self.path_with_mdrecall = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
        file, text = self._program.settings(model.url)
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        if not (home / file).exists():
            (home / file).write_text(text)

    def ask(self, prompt: str, cwd: Path, *more: str, **env: str) -> Finished:
        """Run one headless session in a folder, with more arguments after the usual ones."""
        usual = self._program.ask
        arguments = [prompt if argument == "PROMPT" else argument for argument in usual]
        if more and more[0] in ("resume", "fork"):  # Codex has commands for these, which stand before the prompt.
            arguments[1:1], more = more, ()
        return self.run(*arguments, *more, cwd=cwd, stdin="" if "PROMPT" in usual else prompt, **env)

    def run(self, *arguments: str, cwd: Path, stdin: str = "", **env: str) -> Finished:
        """Run a command of the host."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=cwd,
            env=self.env | env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def approve_hooks(self, cwd: Path) -> None:
        """Approve all hooks of Codex as its user does, through the server that its own windows talk to."""
        command = [*self._command, "app-server"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=cwd, env=self.env, text=True, **pipes) as server:  # type: ignore[call-overload]

            def call(method: str, **params: Any) -> Any:
                print(json.dumps({"id": method, "method": method, "params": params}), file=server.stdin, flush=True)
                return next(said for line in server.stdout if (said := json.loads(line)).get("id") == method)["result"]

            call("initialize", clientInfo={"name": "test", "version": "1"})
            hooks = call("hooks/list", cwds=[str(cwd)])["data"][0]["hooks"]
            state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
            call("config/batchWrite", edits=[{"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}])

    def mdrecall(self, *arguments: str, cwd: Path, **env: str) -> Finished:
        """Run mdrecall as the user of this home would, in a terminal whose PATH has it."""
        command = [sys.executable, "-W", "error", "-m", "mdrecall", *arguments]
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.env | {"PATH": self.path_with_mdrecall} | env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)


def call_shell(host: str, command: str) -> Call:
    """Return the call of a host's tool that runs a shell command."""
    if host == "codex":
        return Call("exec_command", {"cmd": command})
    if host in ("gemini", "qwen"):
        return Call("run_shell_command", {"command": command, "is_background": False})
    return Call("Bash" if host == "claude-code" else "bash", {"command": command, "description": "run it"})


def find_program(name: str) -> list[str]:
    """Return the command of a host; without it the test is skipped."""
    named = os.environ.get("MDRECALL_TEST_NPM")
    for folder in (Path(named), _FOLDERS[1]) if named else _FOLDERS:
        for pattern in PROGRAMS[name].files:
            for found in sorted((folder / "node_modules").glob(pattern)):
                return ["node", str(found)] if found.suffix == ".js" else [str(found)]
    pytest.skip(
        f"{name} is not installed: sh scripts/test installs Claude Code and Codex, sh scripts/hosts the others."
    )


def _node_folders() -> list[str]:
    """Return the folders of the Node that npm installs where there is none that is new enough."""
    return [str(folder / "node_modules/.bin") for folder in _FOLDERS if (folder / "node_modules/.bin/node").exists()]
