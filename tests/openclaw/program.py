"""The real OpenClaw, as npm installs it for the tests, with a state folder of its own and a model on loopback."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_CHECKOUT = Path(__file__).resolve().parents[2]
_FOLDERS = (_CHECKOUT / ".npm-openclaw", _CHECKOUT / ".npm-test")
_TOKEN = "token-of-the-test"
#: A command takes 2 to 12 s alone, and several times that on busy cores; a gateway 10 to 60 s to start.
PATIENCE_S = 240.0


class Finished(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class OpenClaw:
    """OpenClaw with one state folder."""

    def __init__(self, state: Path, model_url: str) -> None:
        self.state = state
        self.folder = state / "agents" / "main"
        self.database = self.folder / "agent" / "openclaw-agent.sqlite"
        self._command = find_openclaw()
        self._port = _find_port()
        home = state.with_name(f"{state.name}-home")
        for folder in (state / "workspace", home):
            folder.mkdir(parents=True)
        node = os.pathsep.join(str(folder / "node_modules/.bin") for folder in _npm_folders())
        self.env = {
            "HOME": str(home),
            "PATH": f"{node}{os.pathsep}{os.environ['PATH']}",
            "OPENCLAW_STATE_DIR": str(state),
            "OPENCLAW_SKIP_CHANNELS": "1",
            "TMPDIR": str(home),
            "TERM": "dumb",
            "NO_COLOR": "1",
        }
        self.write_config(_make_config(state, model_url, self._port))

    def write_config(self, config: dict[str, Any]) -> None:
        (self.state / "openclaw.json").write_text(json.dumps(config, indent=2))

    def run(self, *arguments: str) -> Finished:
        """Run a command."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=self.state / "workspace",
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def gateway(self) -> Iterator["Gateway"]:
        """Run a gateway until the block ends; it must end by itself when it is asked to."""
        log = self.state / "gateway.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [*self._command, "gateway", "run"],
                cwd=self.state / "workspace",
                env=self.env,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                gateway = Gateway(self, f"http://127.0.0.1:{self._port}", log)
                gateway.wait(process)
                yield gateway
                process.terminate()
                process.wait(PATIENCE_S)
            finally:
                process.kill()
                process.wait()


class Gateway(NamedTuple):
    """A gateway that is running."""

    openclaw: OpenClaw
    url: str
    log: Path

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until it answers."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise AssertionError(f"The gateway does not answer:\n{self.log.read_text()}")

    def say(self, key: str, text: str) -> str:
        """Say something in a session, and return the answer."""
        body = {"model": "openclaw/main", "messages": [{"role": "user", "content": text}]}
        headers = {"authorization": f"Bearer {_TOKEN}", "content-type": "application/json"}
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {**headers, "x-openclaw-session-key": key},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            said: str = json.load(answer)["choices"][0]["message"]["content"]
        return said

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the gateway."""
        wait = str(int(PATIENCE_S * 1000))
        called = ("gateway", "call", method, "--json", "--timeout", wait, "--params", json.dumps(params))
        done = self.openclaw.run(*called)
        assert done.code == 0, done
        return done.json


def find_openclaw() -> list[str]:
    """Return the command of OpenClaw; without it the test is skipped."""
    for folder in _npm_folders():
        program = folder / "node_modules/openclaw/openclaw.mjs"
        if program.exists():
            node = folder / "node_modules/.bin/node"
            return [str(node) if node.exists() else "node", str(program)]
    pytest.skip("OpenClaw is not installed: sh scripts/openclaw installs it and runs these tests.")


def _npm_folders() -> tuple[Path, ...]:
    named = os.environ.get("MDRECALL_TEST_NPM")
    return (_FOLDERS[0], Path(named)) if named else _FOLDERS


def _find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _make_config(state: Path, model_url: str, port: int) -> dict[str, Any]:
    model = {"id": "test-model", "name": "test", "contextWindow": 32000, "maxTokens": 4000, "input": ["text"]}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    provider = {"baseUrl": f"{model_url}/v1", "apiKey": "x", "api": "openai-completions"}
    models = [{**model, "reasoning": False, "cost": cost}]
    workspace = {"workspace": str(state / "workspace"), "skipBootstrap": True}
    return {
        "agents": {"defaults": {**workspace, "model": {"primary": "test/test-model"}}},
        "models": {"mode": "replace", "providers": {"test": {**provider, "models": models}}},
        "gateway": {
            "mode": "local",
            "port": port,
            "bind": "loopback",
            "auth": {"mode": "token", "token": _TOKEN},
            "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
        },
        "discovery": {"mdns": {"mode": "off"}},
        "memory": {"search": {"provider": "none"}},
        "update": {"checkOnStart": False},
    }
