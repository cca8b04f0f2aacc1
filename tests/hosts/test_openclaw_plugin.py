"""The plugin for OpenClaw's memory slot, in a plain Node: what it registers, and what it does without mdrecall."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from mdrecall.sessions.flush import Rules, make_prompts, threshold
from tests.conftest import Workspace

MDRECALL = [sys.executable, "-P", "-m", "mdrecall"]
#: Long enough for a process to start on a busy machine; what is dead or hangs is given less.
PATIENT = 60_000


class Host(NamedTuple):
    """A Node with the plugin in it."""

    process: "subprocess.Popen[str]"

    def ask(self, command: str, **params: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"command": command, **params}) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        assert "error" not in said, said
        return said["answer"]

    def search(self, query: str, **context: Any) -> Any:
        return self.ask("tool", name="memory_search", args={"query": query}, **context)

    def call(self, name: str, *args: Any) -> Any:
        return self.ask("manager", call=name, args=args)


Start = Callable[..., Host]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that an installation writes."""
    home = tmp_path_factory.mktemp("openclaw")
    (home / ".openclaw/workspace").mkdir(parents=True)
    (home / ".openclaw/openclaw.json").write_text("{}")
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    subprocess.run([*MDRECALL, "install", "openclaw"], env=env, cwd=home, capture_output=True, check=True)
    return home / ".openclaw/extensions/memory-mdrecall"


@pytest.fixture
def start(workspace: Workspace, plugin: Path) -> Iterator[Start]:
    """Start hosts for a workspace; mdrecall is the given command."""
    npm = Path(os.environ.get("MDRECALL_TEST_NPM", "")) / "node_modules/.bin/node"
    node = str(npm) if npm.exists() else shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed.")
    hosts: list[subprocess.Popen[str]] = []

    def run(command: list[str] | None = None, timeout_ms: int = PATIENT) -> Host:
        config = json.dumps({"command": command or MDRECALL, "timeoutMs": timeout_ms})
        args = [node, str(Path(__file__).with_name("openclaw_api.mjs")), str(plugin / "index.js")]
        env = {**os.environ, **workspace.env}
        hosts.append(
            subprocess.Popen(
                [*args, str(workspace.path), config],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=env,
                cwd=workspace.home,
            )
        )
        return Host(hosts[-1])

    yield run
    for process in hosts:
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stdout
        process.stdout.close()


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    workspace.write(
        "MEMORY.md", "# Memory\n\n- Ada drinks green tea. <!-- trigger: tea; drink -->\n- The vault is grey.\n"
    )
    workspace.write("memory/2026-01-02.md", "# Dock\n\nThe tandem is kept in dock seventeen.\n")
    workspace.write("memory/import/old.md", "Lisbon trams are yellow.\n")
    return workspace


def test_it_registers_what_its_manifest_names(start: Start, plugin: Path) -> None:
    manifest = json.loads((plugin / "openclaw.plugin.json").read_text())
    package = json.loads((plugin / "package.json").read_text())
    about = start().ask("about")
    assert (about["id"], about["kind"]) == (manifest["id"], manifest["kind"]) == ("memory-mdrecall", "memory")
    assert sorted(about["tools"]) == manifest["contracts"]["tools"]
    assert about["cli"] == manifest["cliCommands"][0]["name"]
    assert "dependencies" not in package


def test_a_model_searches_and_reads(start: Start, notes: Workspace) -> None:
    host = start()
    found = host.search("Where is the tandem?", sessionKey="agent:main:main")
    assert "dock seventeen" in found["content"][0]["text"]
    (result,) = found["details"]["results"]
    assert (result["path"], "snippet" in result) == ("memory/2026-01-02.md", False)
    read = host.ask("tool", name="memory_get", args={"path": "memory/2026-01-02.md", "from": 3, "lines": 1})
    assert "dock seventeen" in read["content"][0]["text"]
    assert "dock seventeen" in read["details"]["text"]
    missing = host.ask("tool", name="memory_get", args={"path": "memory/2020-01-01.md"})
    assert missing["details"] == {"path": "memory/2020-01-01.md", "text": ""}
    assert host.ask("warnings") == []


def test_the_key_of_the_session_is_passed_on(start: Start, notes: Workspace) -> None:
    refused = start().search("Where is the tandem?", sessionKey="agent:main:subagent:1")
    assert list(refused["details"]) == ["error"]
    assert "tandem is kept" not in refused["content"][0]["text"]


def test_a_memory_that_is_off_has_no_tools_and_no_words(start: Start) -> None:
    host, off = start(), {"memory": {"search": {"enabled": False}}}
    assert host.search("tea", cfg=off) is None
    own = {
        "memory": {"search": {"enabled": False}},
        "agents": {"entries": {"main": {"memory": {"search": {"enabled": True}}}}},
    }
    assert host.search("tea", cfg=own) is not None
    assert host.ask("prompt", tools=["read"]) == []
    cited, uncited = (host.ask("prompt", tools=["memory_search"], citationsMode=mode)[0] for mode in ("auto", "off"))
    assert ("Cite the file" in cited, "Cite the file" in uncited, "Name no files" in uncited) == (True, False, True)
    assert host.ask("prompt", tools=["memory_search"])[0].startswith("## Memory\n")


def test_a_child_that_was_killed_is_started_again_with_one_warning(
    start: Start, notes: Workspace, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f'echo $$ >> {pids}; exec "$@"'
    host = start(["sh", "-c", script, "sh", *MDRECALL])
    assert "dock seventeen" in host.search("tandem")["content"][0]["text"]
    os.kill(int(pids.read_text().split()[-1]), signal.SIGKILL)
    assert "dock seventeen" in host.search("tandem")["content"][0]["text"]
    assert "dock seventeen" in host.search("tandem")["content"][0]["text"]
    assert len(pids.read_text().split()) == 2
    (warning,) = host.ask("warnings")
    assert "it has ended" in warning


@pytest.mark.parametrize(
    "command", [["/nowhere/mdrecall"], ["sh", "-c", "exit 3"], ["sh", "-c", "read line; echo '{}'; cat >/dev/null"]]
)
def test_without_mdrecall_a_lookup_is_empty_and_one_warning_and_the_tool_say_so(
    start: Start, command: list[str]
) -> None:
    host = start(command, 300)
    for _ in range(2):
        assert host.call("search", "tea", {"lexicalOnly": True}) == []
        assert host.call("listTriggerCandidates") == []
    answer = host.search("tea")
    assert (answer["details"]["results"], answer["details"]["unavailable"]) == ([], True)
    assert "nothing was searched" in answer["content"][0]["text"]
    assert host.ask("prompt", tools=["memory_search"])
    (warning,) = host.ask("warnings")
    assert warning.startswith("memory-mdrecall: mdrecall gives no answer (")
    assert host.call("status")["provider"] == "none"


def test_openclaw_itself_searches_reads_and_asks_for_the_status(start: Start, notes: Workspace) -> None:
    host = start()
    (hit, *_) = host.call("search", "green tea", {"maxResults": 3, "minScore": 0, "sources": ["memory"]})
    assert (hit["path"], hit["startLine"], hit["source"], hit["triggers"]) == ("MEMORY.md", 3, "memory", "tea; drink")
    assert hit["provenance"]["originClass"] == "agent"
    assert "Source:" not in hit["snippet"]
    (imported, *_) = host.call("search", "yellow trams")
    assert (imported["path"], imported["provenance"]["originClass"]) == ("memory/import/old.md", "untrusted")
    (entry,) = host.call("listTriggerCandidates", {"activeProjectKeys": []})
    assert (entry["triggers"], entry["snippet"], entry["startLine"]) == ("tea; drink", "Ada drinks green tea.", 3)
    read = host.call("readFile", {"relPath": "MEMORY.md", "from": 4, "lines": 1})
    assert (read["status"], "vault" in read["text"]) == ("ok", True)
    missing = host.call("readFile", {"relPath": "memory/2020-01-01.md"})
    assert (missing["status"], missing["text"]) == ("not_found", "")
    status = host.ask("manager", call="status", purpose="status")
    assert (status["backend"], status["files"]) == ("builtin", 3)
    assert host.call("search", "tea", {"sources": ["sessions"]}) == []
    assert isinstance(host.call("probeVectorAvailability"), bool)
    host.ask("close")
    assert host.call("search", "green tea")


def test_a_path_outside_of_the_memory_is_refused(start: Start, notes: Workspace) -> None:
    host = start()
    host.process.stdin.write('{"command": "manager", "call": "readFile", "args": [{"relPath": "../../etc/passwd"}]}\n')  # type: ignore[union-attr]
    host.process.stdin.flush()  # type: ignore[union-attr]
    assert "error" in json.loads(host.process.stdout.readline())  # type: ignore[union-attr]


def test_files_are_classified_by_who_wrote_them(start: Start, notes: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("Not a note.\n")
    (notes.path / "memory/link.md").symlink_to(tmp_path / "secret.md")
    notes.write("memory/dreaming/deep/2026-01-02.md", "A dream.\n")
    notes.write("USER.md", "Likes tea.\n<!-- mdrecall:import id=1 -->\n")
    wanted = {
        "MEMORY.md": "agent",
        "memory/2026-01-02.md": "agent",
        "memory/import/old.md": "untrusted",
        "memory/dreaming/deep/2026-01-02.md": "system",
        "memory/link.md": "untrusted",
        "memory/missing.md": "untrusted",
        "USER.md": "untrusted",
        "AGENTS.md": "untrusted",
        "../secret.md": "untrusted",
    }
    found = start().ask("classify", relativePaths=list(wanted))
    assert {each["relativePath"]: each["originClass"] for each in found} == wanted
    # What OpenClaw has read elsewhere is judged by the path that it says; without one it is not trusted.
    sources = [{"relativePath": "MEMORY.md", "canonicalRelativePath": "MEMORY.md"}, {"relativePath": "USER.md"}]
    found = start().ask("classify", relativePaths=["MEMORY.md", "USER.md"], readSources=sources)
    assert [each["originClass"] for each in found] == ["agent", "untrusted"]


@pytest.mark.parametrize("window", [1_000_000, 200_000, 128_000, 32_000, 16_000, 8_000])
def test_a_flush_comes_when_mdrecall_would_flush(start: Start, window: int) -> None:
    plan = start().ask("flush", cfg={}, contextWindowTokens=window)
    due = window - plan["reserveTokensFloor"] - plan["softThresholdTokens"]
    assert due == threshold(Rules(), window)
    assert plan["forceFlushTranscriptBytes"] == Rules().force_bytes


def test_a_flush_has_the_words_of_mdrecall(start: Start) -> None:
    zone = ZoneInfo("Europe/Berlin")
    moment = datetime(2026, 3, 1, 23, 30, tzinfo=ZoneInfo("UTC")).astimezone(zone)
    rules = {"softThresholdTokens": 1000, "forceFlushTranscriptBytes": "1.5mb", "model": " ollama/q "}
    defaults = {"userTimezone": str(zone), "compaction": {"memoryFlush": rules}}
    host = start()
    plan = host.ask("flush", cfg={"agents": {"defaults": defaults}}, nowMs=moment.timestamp() * 1000)
    prompts = make_prompts(moment)
    assert plan["prompt"].split("\n")[0] == prompts.user.split("\n")[0]
    assert plan["prompt"].split("\n")[1].startswith("Current time: Monday")
    assert (plan["systemPrompt"], plan["relativePath"]) == (prompts.system, prompts.path)
    assert (plan["softThresholdTokens"], plan["forceFlushTranscriptBytes"]) == (1000, 1_572_864)
    assert plan["model"] == "ollama/q"
    off = {"agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}}}
    assert host.ask("flush", cfg=off) is None
