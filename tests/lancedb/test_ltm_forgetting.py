"""Forgetting in the long-term memories: rows go, and so does every earlier version of the table."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mdrecall.extras.lancedb.plugin import LongTermPlaces, database_uri, open_memories
from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.memory import Memory
from tests.cli.conftest import run_in_this_process
from tests.conftest import Workspace
from tests.life.traces import find_traces

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PHRASE = "Quibblethorpe is allergic to zorkberries"


def test_no_version_of_the_table_has_it_and_no_capture_brings_it_back(workspace: Workspace) -> None:
    pytest.importorskip("lancedb", reason="needs lancedb: pip install -e '.[lancedb]'")
    workspace.configure(json.dumps({"plugins": {"slots": {"memory": "memory-lancedb"}}}))
    workspace.write("MEMORY.md", "# Long\n")
    with workspace.memory() as memory:
        assert memory.loaded
        memories = open_memories(memory.loaded)
        first = memories.store(f"{PHRASE}, says the doctor.").row
        memories.store("The harbour opens at nine.")
        memories.store(f"Corrected: {PHRASE} and nuts.", replaces=first.id)
        folder = Path(database_uri(memory.loaded))
        assert find_traces([folder], "zorkberries")
        forgetting = Forgetting(memory, [LongTermPlaces(memory.loaded)])
        plan = forgetting.plan(ForgetRequest(phrases=(PHRASE,)), NOW)
        assert [(place.kind, place.action) for place in plan.places] == [("memory", "delete")]
        assert find_traces([folder], "zorkberries")
        assert forgetting.apply(plan, NOW)
        assert find_traces([folder, workspace.state], "zorkberries") == []
        assert [row.text for row in memories.list_all()] == ["The harbour opens at nine."]
        stored = memories.store(f"Heard again: {PHRASE}. The ferry leaves at ten.")
        assert stored.row.text == "[forgotten] The ferry leaves at ten."
        assert find_traces([folder], "zorkberries") == []
        assert not forgetting.plan(ForgetRequest(phrases=(PHRASE,)), NOW).has_work
        memories.close()


def test_without_the_package_everything_else_is_cleared(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    note = workspace.write("MEMORY.md", f"# Long\n\n- {PHRASE}.\n- Tea.\n")
    with workspace.memory() as memory:
        assert memory.loaded
        folder = Path(database_uri(memory.loaded))
        folder.mkdir(parents=True)

    def run(*arguments: str) -> tuple[int, str]:
        ran = run_in_this_process(["forget", *arguments], workspace.env, workspace.path)
        return ran.code, ran.out + ran.err

    why = f"The database of long-term memories {folder} cannot be cleared: The plugin memory-lancedb needs"
    code, shown = run(PHRASE)
    assert (code, why in shown, "MEMORY.md#L3  remove" in shown) == (0, True, True)
    code, shown = run(PHRASE, "--apply")
    assert (code, why in shown, "Everything else was cleared." in shown) == (2, True, True)
    assert note.read_text() == "# Long\n\n- Tea.\n"
    with Memory.open(workspace.path, env=workspace.env) as memory:
        assert not [hit for hit in memory.search("zorkberries") if "zorkberries" in hit.snippet]
        (entry,) = Forgetting(memory).list_forgotten()
        assert not entry.is_done
    assert run("--session", "s1", "--apply")[0] == 2
    folder.rmdir()
    assert run(PHRASE, "--apply")[0] == 0
