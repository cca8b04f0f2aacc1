"""mcporter between us and qmd: its configuration, its daemon, its errors."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config import settings
from mdrecall.errors import (
    ProgramBusy,
    ProgramFailed,
    ProgramMissing,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.extras.qmd.mcporter import Mcporter
from mdrecall.extras.qmd.process import Program
from tests.processes import PATIENCE_S
from tests.qmd.fake_qmd import FakeQmd

QMD_ENV = {"XDG_CACHE_HOME": "/a/cache", "QMD_CONFIG_DIR": "/a/config", "OPENAI_API_KEY": "secret", "PATH": "/bin"}


class Porter:
    """A fake mcporter and who asks it."""

    def __init__(self, folder: Path, start_daemon: bool = True) -> None:
        self.fake = FakeQmd(folder / "fake", "mcporter")
        self.folder = folder / "m"
        env = {"PATH": os.environ["PATH"], "MCPORTER_CONFIG": "/foreign", "TMPDIR": str(folder)}
        self.porter = Mcporter(
            Program((str(self.fake.path),), env=env),
            Program(("node", "/x/qmd.js"), env=QMD_ENV),
            settings.Mcporter()._replace(server_name="qmd", start_daemon=start_daemon),
            folder=str(self.folder),
            index=str(folder / "index.sqlite"),
        )

    def reply(self, *when: str, **reply: Any) -> "Porter":
        self.fake.reply("--config", self.porter.config_path, *when, **reply)
        return self

    def call(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        return self.porter.call("query", {"query": "it's"}, timeout_s=timeout_s)

    @property
    def asked(self) -> list[list[str]]:
        """What was asked, without the configuration that every call names."""
        assert all(call[:2] == ["--config", self.porter.config_path] for call in self.fake.calls)
        return [call[2:] for call in self.fake.calls]


@pytest.fixture
def porter(tmp_path: Path) -> Iterator[Porter]:
    made = Porter(tmp_path)
    yield made
    made.porter.close()


def test_a_call_names_server_tool_arguments_and_time(porter: Porter) -> None:
    porter.reply("call", out='{"results": []}')
    assert porter.call() == {"results": []}
    assert porter.asked == [[
        "call", "--server", "qmd", "--tool", "query", "--args", '{"query": "it\'s"}', "--output", "json",
        "--timeout", str(int(PATIENCE_S * 1000)),
    ]]  # fmt: skip


def test_its_configuration_holds_one_server_and_no_secrets_and_is_written_once(porter: Porter) -> None:
    porter.reply("call", out='{"results": []}')
    porter.call()
    before = (porter.folder / "mcporter.json").stat()
    porter.call()
    assert (porter.folder / "mcporter.json").stat().st_ino == before.st_ino
    assert json.loads((porter.folder / "mcporter.json").read_text()) == {
        "mcpServers": {
            "qmd": {
                "command": "node",
                "args": ["/x/qmd.js", "mcp"],
                "cwd": "/",
                "env": {"XDG_CACHE_HOME": "/a/cache", "QMD_CONFIG_DIR": "/a/config"},
                "lifecycle": "keep-alive",
            }
        },
        "imports": [],
        "daemonIdleTimeoutMs": 600_000,
    }
    assert all("MCPORTER_CONFIG" not in env for env in porter.fake.environments)


def test_when_the_index_is_replaced_the_configuration_is_another_one(porter: Porter, tmp_path: Path) -> None:
    porter.reply("call", out='{"results": []}')
    told = []
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).rename(tmp_path / "index.sqlite")
        porter.call()
        porter.call()
        told.append(Path(porter.porter.config_path).read_text())
    assert told[0] != told[1]


def test_without_a_daemon_every_call_stands_alone(tmp_path: Path) -> None:
    content = {"content": [{"type": "text", "text": "x"}]}
    porter = Porter(tmp_path, start_daemon=False).reply("call", out=json.dumps(content))
    assert porter.call() == content
    porter.porter.close()
    assert [asked[0] for asked in porter.asked] == ["call"]
    config = json.loads((porter.folder / "mcporter.json").read_text())
    assert config["mcpServers"]["qmd"]["lifecycle"] == "ephemeral"


def test_the_daemon_is_stopped_by_who_started_it(porter: Porter) -> None:
    porter.reply("call", out="{}")
    porter.call()
    porter.porter.close()
    porter.porter.close()
    assert porter.asked[1:] == [["daemon", "stop"]]
    with pytest.raises(ProgramStopped, match="closed"):
        porter.call()


def test_the_daemon_has_a_private_folder_that_is_removed(porter: Porter, tmp_path: Path) -> None:
    porter.reply("call", out="{}").call()
    folder = Path(porter.fake.environments[0]["MCPORTER_DAEMON_DIR"])
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    porter.porter.close()
    assert not folder.exists()


def trouble(raw: str, kind: str = "other") -> str:
    return json.dumps({"server": "qmd", "tool": "query", "error": "x", "issue": {"kind": kind, "rawMessage": raw}})


@pytest.mark.parametrize(
    ("out", "err", "code", "error", "words"),
    [
        (trouble("MCP error -32602: Tool q not found"), "", 1, ProgramFailed, "Tool q not found"),
        (trouble("Call timed out after 10ms."), "", 1, ProgramTimedOut, "did not answer"),
        (trouble("SqliteError: database is locked"), "", 1, ProgramBusy, "locked"),
        ('{"content": [{"type": "text", "text": "Error: bad"}], "isError": true}', "", 1, ProgramFailed, "Error: bad"),
        ("", "Error: Unable to parse --args\n    at x", 1, ProgramFailed, "Unable to parse"),
        ("", "", 0, ProgramUnreadable, "JSON"),
        ("{ results: [Array] }", "", 0, ProgramUnreadable, "JSON"),
        ("3", "", 0, ProgramUnreadable, "object"),
    ],
)
def test_every_way_to_fail_has_its_error(
    porter: Porter, out: str, err: str, code: int, error: type[Exception], words: str
) -> None:
    porter.reply("call", out=out, err=err, code=code)
    with pytest.raises(error, match=words):
        porter.call()


def test_a_missing_mcporter_is_told(tmp_path: Path) -> None:
    program = Program(("mcporter-that-is-not-there",), env={"PATH": "/bin"})
    porter = Mcporter(program, Program(("qmd",), env={}), settings.Mcporter(), folder=str(tmp_path / "m"))
    with pytest.raises(ProgramMissing) as told:
        porter.call("query", {}, timeout_s=1)
    assert "mcporter" in told.value.hint
    porter.close()
