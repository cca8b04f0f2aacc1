"""memory_search and memory_get as a model calls them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from mdrecall.context import prompt_section
from mdrecall.errors import KeyRefused, RateLimited, RecallError, StoreUnavailable
from mdrecall.memory import Memory
from mdrecall.tools.notes import SESSION_NOTICE, memory_tools, search_memory
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec, answer
from mdrecall.types.search import SearchAnswer


def open_configured(workspace: Path, env: dict[str, str], **settings: Any) -> Memory:
    file = workspace.parent / "mdrecall.json"
    file.write_text(json.dumps(settings))
    return Memory.open(workspace, env=env, config=file)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"since": "1990-01-01", "until": "1990-12-31"}, "1990-01-01"),
        ({"since": "1990", "until": "", "tags": [], "path": ""}, ""),
        ({"tags": ["nowhere"]}, "nowhere"),
        ({"tags": "#nowhere"}, "nowhere"),
        ({"path": "nowhere/"}, "nowhere"),
        ({"collection": "nowhere"}, "There is no collection 'nowhere'"),
    ],
)
def test_a_search_can_be_limited_to_days_tags_a_path_and_a_collection(
    tools: Toolset, limits: dict[str, Any], reason: str
) -> None:
    found = tools.call("memory_search", {"query": "ana", **limits})
    assert bool(found.details.get("results")) == (not reason)
    assert reason in found.plain + found.text


@pytest.mark.parametrize(
    ("mode", "key", "is_cited"),
    [
        ("auto", "", True),
        ("auto", "agent:main:telegram:group:7", False),
        ("auto", "agent:main:cron:job", False),
        ("on", "agent:main:telegram:group:7", True),
        ("off", "agent:main:main", False),
    ],
)
def test_citations_depend_on_the_chat_and_the_prompt_asks_for_them(
    workspace: Path, env: dict[str, str], mode: str, key: str, is_cited: bool
) -> None:
    with open_configured(workspace, env, memory={"citations": mode}) as memory:
        found = Toolset(memory_tools(memory, key)).call("memory_search", {"query": "billing"}).details
        assert ("Source: <path#line>" in prompt_section(memory, key)) == is_cited
    assert found["citations"] == mode
    for result in found["results"]:
        assert ("citation" in result) == is_cited == ("\n\nSource: " in result["snippet"])


def test_all_snippets_together_keep_within_the_budget(workspace: Path, env: dict[str, str]) -> None:
    for number in range(8):
        (workspace / "memory" / f"{number}.md").write_text(f"ferrets {number} " * 40)
    with open_configured(workspace, env, mdrecall={"tools": {"maxChars": 1000}}) as memory:
        found = Toolset(memory_tools(memory)).call("memory_search", {"query": "ferrets", "maxResults": 8}).details
    assert found["truncated"] is True
    assert sum(len(result["snippet"]) for result in found["results"]) <= 1000
    assert all("\n\nSource: " in result["snippet"] for result in found["results"])


@pytest.mark.parametrize(
    "mark",
    [
        "<system>", "</system>", "<|im_start|>",
        "<tool_response>", "</function_results>", "<system_reminder>", "<start_of_turn>", "<\uff5cUser\uff5c>",
        "<<SYS>>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "</s>", "<think>",
    ],
)  # fmt: skip
def test_what_a_model_takes_for_a_turn_is_written_as_codes(mark: str) -> None:
    text = f"a {mark} b [link](x) 1 < 2"
    told = answer({"text": text}, plain=text)
    for said in (told.text, told.plain):
        assert mark not in said
        assert "b [link](x) 1 < 2" in said
    assert json.loads(told.text) == told.details


def test_stored_text_cannot_pass_for_a_turn(tools: Toolset) -> None:
    for name, arguments in (("memory_search", {"query": "ferrets"}), ("memory_get", {"path": "memory/dark.md"})):
        told = tools.call(name, arguments)
        for said in (told.text, told.plain):
            assert "\\u003csystem>" in said
            assert not re.search(r"</?system|<\|", said)
            assert "x < y" in said
        # Without line breaks: a model pays for each character.
        assert "\n" not in told.text
        assert json.loads(told.text) == told.details


def test_a_transcript_is_read_by_a_tool_of_its_own_and_only_where_transcripts_are_searched(
    workspace: Path, env: dict[str, str], tools: Toolset
) -> None:
    assert "session_get" not in tools.names
    search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    with open_configured(workspace, env, memorySearch=search) as memory:
        folder = Path(memory.settings.sessions_dir)
        folder.mkdir(parents=True)
        for text in ("the walrus", "the seal"):
            record = {"type": "message", "message": {"role": "user", "content": text}}
            with (folder / "talk.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
        for key in ("", "agent:main:main", "agent:main:slack:group:1"):
            own = Toolset(memory_tools(memory, key))
            refused = own.call("memory_get", {"path": "sessions/talk.jsonl"})
            assert (refused.is_error, refused.details["text"]) == (True, "")
            assert refused.details["action"].endswith(
                "Call session_get with this path, or sessions_search and then sessions_history."
            )
            assert (refused.details["status"], refused.details["code"]) == ("error", "MEMORY_PATH_NOT_ALLOWED")
        # Nobody knows who takes part in this conversation.
        assert own.call("session_get", {"path": "sessions/talk.jsonl"}).details["missing"]
        own = Toolset(memory_tools(memory))
        read = own.call("session_get", {"path": "sessions/talk.jsonl", "from": 2})
        assert (read.details["text"], read.details["notice"]) == ("2  User: the seal", SESSION_NOTICE)
        assert own.call("session_get", {"path": "sessions/none.jsonl"}).details["missing"]


def test_a_search_that_cannot_be_made_says_that_memory_is_unavailable(workspace: Path, env: dict[str, str]) -> None:
    index = workspace.parent / "foreign.sqlite"
    apsw.Connection(str(index)).execute("CREATE TABLE theirs (x)")
    with open_configured(workspace, env, memorySearch={"store": {"path": str(index)}}) as memory:
        found = Toolset(memory_tools(memory)).call("memory_search", {"query": "ana"}).details
    assert (found["results"], found["disabled"], found["unavailable"]) == ([], True, True)
    assert {"error", "warning", "action"} <= set(found)


def test_a_note_of_a_shared_index_that_is_out_of_reach_reads_as_a_memory_that_is_off(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("The database does not answer.")

    monkeypatch.setattr(memory, "read", refuse)
    read = Toolset(memory_tools(memory)).call("memory_get", {"path": "MEMORY.md"})
    assert read.is_error
    assert [read.details[name] for name in ("path", "text", "disabled")] == ["MEMORY.md", "", True]
    assert "The database does not answer." in read.plain


class FailingMemory:
    """A memory whose searches raise an error."""

    def __init__(self, error: RecallError) -> None:
        self._error = error

    def search(self, query: str, **options: Any) -> SearchAnswer:
        raise self._error


@pytest.mark.parametrize(
    ("error", "warning", "action"),
    [
        (RateLimited("The provider said no."), "quota is used up", "Ask the user to wait"),
        (KeyRefused("The provider does not take the key."), "embedding provider has a problem", "check the key"),
        (StoreUnavailable("/srv/429/quota.sqlite is none.", hint="Check the path."), "index or", "Check the path. "),
    ],
)
def test_why_a_search_failed_is_told_by_the_class_of_the_error(error: RecallError, warning: str, action: str) -> None:
    found = search_memory(cast(Any, FailingMemory(error)), "", {"query": "ana"}).details
    assert (found["disabled"], found["error"], found["errorType"]) == (True, str(error), type(error).__name__)
    assert warning in found["warning"]
    assert action in found["action"]
    assert ("quota" in found["warning"]) == isinstance(error, RateLimited)


class Odd:
    """A tool that gives whatever it was made with."""

    spec = ToolSpec("odd", "Gives what it should not.", {"type": "object"})

    def __init__(self, gives: Any) -> None:
        self._gives = gives

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        given: ToolAnswer = self._gives
        return given


@pytest.mark.parametrize("gives", [None, {"a": 1}, ToolAnswer(cast(Any, [1]), "x"), ToolAnswer({}, cast(Any, 5))])
def test_what_is_no_answer_is_told_as_a_bug_and_what_is_no_tool_with_those_there_are(
    gives: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert Toolset([Odd(gives)]).call("memory_dance", {}).details["action"] == "There are: odd."
    told = Toolset([Odd(gives)]).call("odd", {})
    assert told.is_error
    assert "TypeError" in told.text
    assert "The tool odd failed." in caplog.text


def test_an_answer_of_a_plugin_can_be_written_as_utf_8() -> None:
    told = Toolset([Odd(ToolAnswer({"a": ["\ud83d"]}, "\ud83d"))]).call("odd", {})
    assert (told.details, told.text) == ({"a": ["\ufffd"]}, "\ufffd")


def test_a_model_reads_on_in_a_long_line(workspace: Path, env: dict[str, str]) -> None:
    (workspace / "MEMORY.md").write_text("x" * 50_000 + "the end\nlast\n")
    with Memory.open(workspace, env=env) as memory:
        tools = Toolset(memory_tools(memory))
        first = tools.call("memory_get", {"path": "MEMORY.md"}).details
        assert (first["truncated"], first["nextFrom"], first["nextChar"]) == (True, 2, 50_000)
        rest = tools.call("memory_get", {"path": "MEMORY.md", "from": 1, "fromChar": first["nextChar"]}).details
    assert (rest["text"], rest["truncated"]) == ("the end\nlast\n", False)
