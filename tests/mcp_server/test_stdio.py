"""The server as a process on pipes: what is written there, and how it ends."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from mdrecall.errors import install_command
from mdrecall.mcp_server.start import exit_on_signals
from tests.conftest import Workspace
from tests.mcp_server.servers import AS_OBJECT, mdrecall_command, process_env, start_process
from tests.processes import PATIENCE_S

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

_PRINTING = """
import os, subprocess, sys
from mdrecall.mcp_server.stdio import serve, take_streams
streams = take_streams()
print("before a memory", flush=True)
from mdrecall.mcp_server.answers import Answers
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.memories import Selection, select_memories
from mdrecall.tools.toolset import Toolset, ToolSpec, answer

class Printing:
    spec = ToolSpec("printing", "Prints.", {"type": "object", "properties": {}})

    def call(self, arguments):
        print("from Python", flush=True)
        os.write(1, b"from below Python\\n")
        subprocess.run(["echo", "from a program"])
        return answer({"read": sys.stdin.read(), "long": "x" * 300_000})

memories = Memories(select_memories(Selection(workspaces=(sys.argv[1],))))
answers = Answers(memories, make_tools=lambda memory, key, author: Toolset([Printing()]))
serve(answers, *streams)
answers.close()
"""


def lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def greeting(*more: dict[str, Any]) -> str:
    return lines({"id": 1, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"}, *more)


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": AS_OBJECT}}


def serve(workspace: Workspace, *more: str) -> "subprocess.Popen[str]":
    command = mdrecall_command("mcp", "--workspace", str(workspace.path), *more)
    return start_process(command, process_env(workspace.env), cwd=workspace.path)


def test_the_sdks_client_finds_reads_and_leaves_over_pipes(workspace: Workspace) -> None:
    workspace.write("memory/2026-02-10.md", "# Pricing\n\nThe team plan costs 20 francs.\n")
    command, *arguments = mdrecall_command("mcp", "--workspace", str(workspace.path))
    parameters = StdioServerParameters(command=command, args=arguments, env=process_env(workspace.env))

    async def act() -> tuple[str, Any, list[str]]:
        async with Client(stdio_client(parameters)) as client:
            found = await client.call_tool("memory_search", {"query": "team plan"}, meta=AS_OBJECT)
            listed = await client.list_resources()
            assert client.server_info
            return client.server_info.name, found.structured_content, [each.uri for each in listed.resources]

    name, found, listed = asyncio.run(act())
    assert name == "mdrecall"
    assert found["results"][0]["path"] == "memory/2026-02-10.md"
    assert listed == ["mdrecall://main/memory/2026-02-10.md"]


@pytest.mark.parametrize("options", [[], ["--workspace", "."]], ids=["started there", "named"])
def test_in_a_cloned_repository_that_nobody_has_named_agents_search_and_do_not_write(
    workspace: Workspace, options: list[str]
) -> None:
    workspace.write("MEMORY.md", "# Walrus\n\nThe walrus likes ice.\n")
    workspace.write(".git/config", '[remote "origin"]\n\turl = https://github.com/ana/shop.git\n')
    process = start_process(mdrecall_command("mcp", *options), process_env(workspace.env), cwd=workspace.path)
    calls = [call(2, "memory_search", query="walrus"), call(3, "memory_append", text="- Ana likes tea.")]
    out, err = process.communicate(greeting(*calls), timeout=PATIENCE_S)
    answers = {each["id"]: each.get("result", {}) for each in map(json.loads, out.splitlines())}
    hello, found = answers[1], answers[2]
    assert found["structuredContent"]["results"][0]["path"] == "MEMORY.md"
    assert ("memory_append" in hello["instructions"]) == bool(options)
    assert (workspace.path / "memory").exists() == bool(options)
    assert ("This folder is in a repository with a remote" in err) != bool(options)
    # What is written says in which project.
    notes = [path.read_text() for path in workspace.path.glob("memory/*.md")]
    assert [bool(re.search(r"tea\.\n<!-- by .+ in shop-[0-9a-f]{8} -->\n$", note)) for note in notes] == [True] * len(
        options[:1]
    )


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        ([], ["memory_search", "memory_get", "memory_append"]),
        (["--read-only"], ["memory_search", "memory_get"]),
        (["--session-key", "agent:main:subagent:x"], []),
    ],
)
def test_the_first_answers_have_the_tools_of_the_conversation(
    workspace: Workspace, options: list[str], tools: list[str]
) -> None:
    process = serve(workspace, *options)
    out, _ = process.communicate(greeting({"id": 2, "method": "tools/list"}), timeout=PATIENCE_S)
    hello, listed = (json.loads(line)["result"] for line in out.splitlines())
    assert [tool["name"] for tool in listed["tools"]] == tools
    assert ("memory_append" in hello.get("instructions", "")) == ("memory_append" in tools)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_quietly_while_the_pipe_is_open(workspace: Workspace, number: signal.Signals) -> None:
    workspace.write("MEMORY.md", "# Walrus\n\nThe walrus likes ice.\n")
    process = serve(workspace)
    assert process.stdin
    assert process.stdout
    process.stdin.write(greeting(call(2, "memory_search", query="walrus")))
    process.stdin.flush()
    assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 2]
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 0
    _, err = process.communicate()
    assert err == ""
    # The index was closed: what SQLite keeps beside an open one is gone.
    assert [path.suffix for path in workspace.state.glob("index/*-wal")] == []


def test_a_signal_before_anything_is_open_ends_the_program_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    exit_on_signals()
    assert set(handlers) == {signal.SIGINT, signal.SIGTERM}
    for number, handler in handlers.items():
        with pytest.raises(SystemExit) as ended:
            handler(number, None)
        assert ended.value.code == 0


def test_nothing_but_the_protocol_is_on_standard_output_whoever_prints(workspace: Workspace) -> None:
    command = [sys.executable, "-W", "error", "-c", _PRINTING, str(workspace.path)]
    process = start_process(command, process_env(workspace.env))
    out, err = process.communicate(greeting(call(2, "printing")), timeout=PATIENCE_S)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [each["id"] for each in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["read"] == ""
    assert err.split("\n") == ["before a memory", "from Python", "from below Python", "from a program", ""]


def test_only_the_protocol_reads_what_the_client_sends() -> None:
    code = (
        "import os; from mdrecall.mcp_server.stdio import take_streams; streams = take_streams();"
        "print(os.read(0, 99), os.read(streams[0], 99), flush=True); os.write(streams[1], b'answer')"
    )
    command, env = [sys.executable, "-c", code], {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=env, input=b"request", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"answer", b"b'' b'request'\n")


def test_without_the_sdk_pipes_are_served_and_the_way_to_get_http_is_told(workspace: Workspace) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; sys.modules['mcp_types'] = None;"
        "from mdrecall.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    env = process_env(workspace.env)

    def run(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], env=env, cwd=workspace.path, capture_output=True, text=True,
            input=text, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    refused = run("serve")
    assert refused.returncode == 2
    assert install_command("mcp") in refused.stderr
    assert run("mcp", "install", "codex", "--dry-run").returncode == 0
    served = run("mcp", text=greeting({"id": 2, "method": "tools/list"}, {"id": 3, "method": "resources/list"}))
    assert (served.returncode, served.stderr) == (0, "")
    assert sorted(json.loads(line)["id"] for line in served.stdout.splitlines()) == [1, 2, 3]


def test_the_inspector_accepts_the_server(workspace: Workspace, inspector: list[str]) -> None:
    workspace.write("MEMORY.md", "# Walrus\n\nThe walrus likes ice.\n")
    python, *arguments = [sys.executable, "-m", "mdrecall", "mcp", "--workspace", str(workspace.path)]
    env = process_env({**workspace.env, "PATH": os.pathsep.join((str(Path(inspector[0]).parent), os.environ["PATH"]))})
    passed = [part for name in ("PYTHONPATH", "MDRECALL_STATE_DIR", "HOME") for part in ("-e", f"{name}={env[name]}")]

    def ask(*method: str) -> Any:
        command = [*inspector, *passed, python, *arguments, "--method", *method]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert [tool["name"] for tool in ask("tools/list", "--strict")["tools"]][:2] == ["memory_search", "memory_get"]
    found = ask("tools/call", "--tool-name", "memory_search", "--tool-arg", "query=walrus")
    assert "\nMEMORY.md#L1-L3 " in found["content"][0]["text"]
