"""The tool that forgets: off by default, a preview first, bounded, and only in the agent's own conversation."""

import json

import pytest

from mdrecall.errors import StoreBusy
from mdrecall.life.forget import Forgetting
from mdrecall.memory import Memory
from mdrecall.tools.notes import list_specs, memory_tools
from mdrecall.tools.toolset import Toolset
from tests.conftest import Workspace

PHRASE = "Quibblethorpe is allergic to zorkberries"


def tools_of(workspace: Workspace, session_key: str = "", can_append: bool | None = None) -> Toolset:
    return Toolset(memory_tools(workspace.memory(), session_key, can_append=can_append))


def switch_on(workspace: Workspace) -> None:
    workspace.configure(json.dumps({"mdrecall": {"forget": {"tool": True}}}))


def test_it_is_off_unless_switched_on_and_only_in_the_main_conversation(workspace: Workspace) -> None:
    assert "memory_forget" not in tools_of(workspace).names
    switch_on(workspace)
    assert "memory_forget" in tools_of(workspace).names
    assert "memory_forget" in tools_of(workspace, "agent:main:main").names
    for key in ("agent:main:telegram:group:7", "agent:main:telegram:dm:42", "agent:main:subagent:x"):
        assert "memory_forget" not in tools_of(workspace, key).names
    assert "memory_forget" not in tools_of(workspace, can_append=False).names
    settings = workspace.memory().settings
    assert "memory_forget" in [spec.name for spec in list_specs(settings, can_append=True)]
    assert "memory_forget" not in [spec.name for spec in list_specs(settings, can_append=False)]


def test_the_first_call_shows_and_the_second_forgets(workspace: Workspace) -> None:
    switch_on(workspace)
    note = workspace.write("MEMORY.md", f"# Long\n\n- {PHRASE}. The bike is green.\n")
    tools = tools_of(workspace)
    shown = tools.call("memory_forget", {"text": PHRASE})
    assert not shown.details["forgotten"]
    assert [place["path"] for place in shown.details["places"]] == ["MEMORY.md"]
    assert PHRASE in note.read_text()
    wrong = tools.call("memory_forget", {"text": PHRASE, "confirm": "yes"})
    assert wrong.is_error
    assert PHRASE in note.read_text()
    done = tools.call("memory_forget", {"text": PHRASE, "confirm": shown.details["confirm"]})
    assert done.details["forgotten"]
    assert note.read_text() == "# Long\n\n- The bike is green.\n"
    assert done.details["id"] in done.plain


def test_a_token_is_good_for_the_places_that_were_shown(workspace: Workspace) -> None:
    switch_on(workspace)
    workspace.write("MEMORY.md", f"{PHRASE}.\n")
    tools = tools_of(workspace)
    token = tools.call("memory_forget", {"text": PHRASE}).details["confirm"]
    other = workspace.write("memory/other.md", f"{PHRASE}.\n")
    assert tools.call("memory_forget", {"text": PHRASE, "confirm": token}).is_error
    assert PHRASE in other.read_text()


def test_many_places_short_texts_and_many_calls_are_refused(workspace: Workspace) -> None:
    switch_on(workspace)
    workspace.write("MEMORY.md", "- The harbour is blue.\n" * 30)
    tools = tools_of(workspace)
    many = tools.call("memory_forget", {"text": "harbour is blue"})
    assert many.is_error
    assert "30 places" in many.text
    for text in ("the", "is", "好", ""):
        assert tools.call("memory_forget", {"text": text}).is_error
    for number in range(10):
        text = f"fact number {number} of many"
        workspace.write("memory/facts.md", f"{text}\n")
        token = tools.call("memory_forget", {"text": text}).details["confirm"]
        assert tools.call("memory_forget", {"text": text, "confirm": token}).details["forgotten"]
    assert "10 times today" in tools.call("memory_forget", {"text": "one more fact to forget"}).text


def test_what_could_not_be_finished_or_done_is_told(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    switch_on(workspace)
    workspace.write("MEMORY.md", f"{PHRASE}.\n")
    tools = tools_of(workspace)
    token = tools.call("memory_forget", {"text": PHRASE}).details["confirm"]
    with monkeypatch.context() as patched:
        patched.setattr(Forgetting, "apply", lambda *_: (_ for _ in ()).throw(StoreBusy("It is busy.", hint="Wait.")))
        busy = tools.call("memory_forget", {"text": PHRASE, "confirm": token})
    assert (busy.is_error, busy.details["forgotten"], busy.details["error"]) == (True, False, "It is busy.")
    assert busy.plain.startswith("It is busy. ")
    monkeypatch.setattr(Memory, "purge", lambda self, progress: False)
    done = tools.call("memory_forget", {"text": PHRASE, "confirm": token})
    assert (done.is_error, done.details["forgotten"], done.details["complete"]) == (False, True, False)
    assert done.plain.endswith(" Another process still reads an earlier state of the index; call it again to finish.")
