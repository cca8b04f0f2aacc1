"""mdrecall in the memory slot of the real OpenClaw: its tools, its prompt, its commands, and the way back."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.adapters import memory_commands
from mdrecall.adapters.hermes import HermesMemory
from mdrecall.adapters.langgraph import markdown_store
from mdrecall.cli.main import main
from mdrecall.memory import Memory
from tests.adapters.conftest import skip_without
from tests.adapters.test_model_files import forget
from tests.hosts.model import Model, serve_model
from tests.hosts.wire import Call
from tests.openclaw.program import PATIENCE_S, OpenClaw

pytestmark = pytest.mark.openclaw

SEARCH = "openclaw:memory-mdrecall:memory_search"
#: What is written through each seat.
FACTS = {
    "memory tool": "Quibblethorpe is allergic to zorkberries",
    "store": "Marrowby repairs the flimdrake",
    "hermes": "Tansley hides the wexel",
    "openclaw": "Ostrander collects brindlecaps",
}


@pytest.fixture(scope="module")
def taught() -> Iterator[Model]:
    """A model that searches its memory for two questions, and then reads."""
    with serve_model() as model:
        for words in ("first tandem", "second tandem"):
            search = Call("tool_call", {"id": SEARCH, "args": {"query": "Where is the tandem?"}})
            read = Call("tool_call", {"id": "memory_get", "args": {"path": "memory/2026-01-02.md"}})
            model.teach(words, Call("tool_search", {"query": "memory search notes"}), search, read, say="In the dock.")
        model.teach("time for tea", say="Sure.")
        recall = Call("tool_call", {"id": SEARCH, "args": {"query": "tandem"}})
        model.teach("do you remember", recall, say="The tandem is in dock seventeen.")
        note = {"path": "memory/2026-02-03.md", "content": f"# Noted\n\n- {FACTS['openclaw']}.\n"}
        model.teach("please note", Call("write", note), say="Noted.")
        for words in ("first roll call", "second roll call"):
            asked = (Call("tool_call", {"id": SEARCH, "args": {"query": fact}}) for fact in FACTS.values())
            model.teach(words, *asked, say="That is all.")
        yield model


@pytest.fixture(scope="module")
def before() -> dict[str, bytes]:
    """The bytes of OpenClaw's file before the installation."""
    return {}


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory, taught: Model, before: dict[str, bytes]) -> Iterator[OpenClaw]:
    """OpenClaw with mdrecall in its slot."""
    folder = tmp_path_factory.mktemp("slot")
    openclaw = OpenClaw(folder / "state", taught.url)
    workspace = openclaw.state / "workspace"
    (workspace / "memory").mkdir()
    (workspace / "MEMORY.md").write_text("# Memory\n\n- Ada drinks green tea. <!-- trigger: tea -->\n")
    (workspace / "memory/2026-01-02.md").write_text("# Dock\n\nThe tandem is kept in dock seventeen.\n")
    openclaw.env["MDRECALL_STATE_DIR"] = str(folder / "own")
    before["file"] = (openclaw.state / "openclaw.json").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "OPENCLAW_STATE_DIR", "MDRECALL_STATE_DIR"):
            patch.setenv(name, openclaw.env[name])
        assert main(["install", "openclaw"]) == 0
        yield openclaw


def list_servers(openclaw: OpenClaw) -> list[int]:
    """Return the processes of mdrecall that serve a workspace."""
    wanted = os.fsencode(openclaw.state / "workspace")
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in arguments and b"mcp" in arguments:
            found.append(int(path.parent.name))
    return found


def test_openclaw_accepts_the_file_and_the_plugin(plugged: OpenClaw) -> None:
    validated = plugged.run("config", "validate")
    assert validated.code == 0, validated
    inspected = plugged.run("plugins", "inspect", "memory-mdrecall", "--runtime", "--json").json["plugin"]
    assert (inspected["status"], inspected["memorySlotSelected"]) == ("loaded", True)
    assert sorted(inspected["toolNames"]) == ["memory_get", "memory_search"]


def test_its_commands_are_those_of_mdrecall(plugged: OpenClaw) -> None:
    indexed = plugged.run("memory", "index")
    assert (indexed.code, "2 files" in indexed.out) == (0, True), indexed
    (status,) = plugged.run("memory", "status", "--json").json
    assert (status["agentId"], status["status"]["files"]) == ("main", 2)
    for asked in (["dock seventeen"], ["--query", "dock seventeen", "--agent", "main"], ["--agent=main", "dock"]):
        found = plugged.run("memory", "search", "--json", *asked)
        assert found.json["results"][0]["path"] == "memory/2026-01-02.md", found
    assert plugged.run("memory", "search", "zzz").code == 1


def test_a_model_gets_hits_also_after_the_child_was_killed(plugged: OpenClaw, taught: Model) -> None:
    with plugged.gateway() as gateway:
        assert gateway.say("agent:main:main", "Where is the first tandem?") == "In the dock."
        (server,) = list_servers(plugged)
        os.kill(server, signal.SIGKILL)
        assert gateway.say("agent:main:main", "Where is the second tandem?") == "In the dock."
        (other,) = list_servers(plugged)
        assert other != server
        log = gateway.log.read_text()
    assert "name conflict" not in log
    assert "excluding automatic memory context" not in log
    assert log.count("mdrecall gives no answer") == 1
    for words in ("first tandem", "second tandem"):
        *_, last = taught.requests_with(words)
        said = [str(message["content"]) for message in last.body["messages"]]
        assert "## Memory\n\nBefore you answer anything about earlier work" in said[0]
        assert "Ada drinks green tea." in said[0]  # MEMORY.md
        assert [SEARCH in text and "dock seventeen" in text for text in said].count(True) >= 1
    # It ends with its pipe, a moment after the gateway.
    end = time.monotonic() + PATIENCE_S
    while list_servers(plugged) and time.monotonic() < end:
        time.sleep(0.2)
    assert list_servers(plugged) == []


def test_active_memory_recalls_by_trigger_and_by_search(plugged: OpenClaw, taught: Model) -> None:
    file = plugged.state / "openclaw.json"
    installed = file.read_bytes()
    config = json.loads(installed)
    config["plugins"]["entries"]["active-memory"] = {
        "enabled": True,
        # On busy cores its own time limit is too short for a turn of the model.
        "config": {"enabled": True, "agents": ["main"], "timeoutMs": 120_000},
    }
    plugged.write_config(config)
    with plugged.gateway() as gateway:
        gateway.say("agent:main:main", "It is time for tea")
        gateway.say("agent:main:main", "do you remember where I keep the tandem?")
    file.write_bytes(installed)
    asked = [str(request.body["messages"][-2:]) for request in taught.requests_with("<active_memory_plugin>")]
    assert any("Ada drinks green tea. (Source: MEMORY.md#L3)" in text for text in asked)
    assert any("<active_memory_plugin>\\nThe tandem is in dock seventeen." in text for text in asked)


def test_what_one_seat_writes_all_find_and_forget(plugged: OpenClaw, taught: Model) -> None:
    skip_without("langgraph.store.base", "langgraph")
    folder = str(plugged.state / "workspace")
    hermes = HermesMemory(plugged.env["HOME"])
    hermes.save_config({"workspace": folder}, plugged.env["HOME"])
    hermes.initialize("s1", platform="cli", agent_context="primary")
    with Memory.open(folder) as memory, plugged.gateway() as gateway:
        created = {"command": "create", "path": "/memories/x.txt", "file_text": f"{FACTS['memory tool']}.\n"}
        assert not memory_commands(memory).run(created)[1]
        markdown_store(memory).put(("users", "q"), "k", {"text": f"{FACTS['store']}."})
        assert "bytes" in hermes.handle_tool_call("memory_append", {"text": f"{FACTS['hermes']}."})
        assert gateway.say("agent:main:main", "please note what Ostrander does") == "Noted."

        def find_all(words: str) -> list[str]:
            """Return what each seat finds, as one text."""
            assert gateway.say("agent:main:main", f"This is the {words}.") == "That is all."
            *_, last = taught.requests_with(words)
            answers = [str(each["content"]) for each in last.body["messages"] if each["role"] == "tool"]
            return [
                " ".join(hit.snippet for fact in FACTS.values() for hit in memory.search(fact)),
                " ".join(hermes.handle_tool_call("memory_search", {"query": fact}) for fact in FACTS.values()),
                " ".join(hermes.prefetch(fact) for fact in FACTS.values()),
                " ".join(answers[-len(FACTS) :]),
            ]

        for found in find_all("first roll call"):
            assert [fact for fact in FACTS.values() if fact not in found] == []
        for fact in FACTS.values():
            forget(memory, fact)
        words = [fact.rpartition(" ")[2] for fact in FACTS.values()]
        for found in find_all("second roll call"):
            # What was asked stands in an answer, what was found does not.
            assert [fact for fact in FACTS.values() if f"{fact}." in found] == []
        viewed = memory_commands(memory).run({"command": "view", "path": "/memories/x.txt"})[0]
        kept = viewed + str([item.value for item in markdown_store(memory).search(())])
        kept += "".join(path.read_text() for path in (plugged.state / "workspace").rglob("*.md"))
        assert [word for word in words if word in kept] == []
    hermes.shutdown()


def test_a_process_that_never_answers_lets_the_turn_go_on(plugged: OpenClaw, taught: Model) -> None:
    search = Call("tool_call", {"id": SEARCH, "args": {"query": "Where is the tandem?"}})
    taught.teach("third tandem", search, say="I cannot look now.")
    file = plugged.state / "openclaw.json"
    installed = file.read_bytes()
    config = json.loads(installed)
    config["plugins"]["entries"]["memory-mdrecall"]["config"]["command"] = ["sh", "-c", "exec sleep 600"]
    plugged.write_config(config)
    with plugged.gateway() as gateway:
        seen = len(gateway.log.read_text())
        assert gateway.say("agent:main:main", "Where is the third tandem?") == "I cannot look now."
        assert gateway.log.read_text()[seen:].count("mdrecall gives no answer") == 1
    file.write_bytes(installed)
    *_, last = taught.requests_with("third tandem")
    assert "mdrecall does not answer, so nothing was searched" in str(last.body["messages"])


def test_the_removal_restores_the_file(plugged: OpenClaw, before: dict[str, bytes]) -> None:
    """It is the last test of this file: the others need the plugin."""
    assert main(["install", "openclaw", "--remove"]) == 0
    assert (plugged.state / "openclaw.json").read_bytes() == before["file"]
    assert not (plugged.state / "extensions").exists()
    assert plugged.run("config", "validate").code == 0
    described = json.loads(plugged.run("plugins", "inspect", "memory-core", "--json").out)
    assert described["plugin"]["enabled"] is True
