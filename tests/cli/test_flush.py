import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace

KEY = "agent:main:main"


def notes(workspace: Workspace) -> list[Path]:
    return sorted((workspace.path / "memory").glob("*.md"))


def test_a_session_is_flushed_once_in_a_cycle(workspace: Workspace, run: Run) -> None:
    claw = workspace.home / ".openclaw"
    sessions = claw / "agents/main/sessions/sessions.json"
    sessions.parent.mkdir(parents=True)
    (claw / "workspace").mkdir()
    sessions.write_text(json.dumps({KEY: {"totalTokens": 190_000, "other": 1}}))
    assert run("flush", "check", "--session-key", KEY, "--begin").code == 0
    assert json.loads(sessions.read_text())[KEY]["mdrecall"]["flush"]["attempts"] == 1
    assert run("flush", "failed", "--session-key", KEY, "--json").json == {"sessionKey": KEY, "action": "failed"}
    assert run("flush", "check", "--session-key", KEY).code == 0
    assert run("flush", "done", "--session-key", KEY).out == f"Recorded: the flush of {KEY} is done.\n"
    assert json.loads(sessions.read_text())[KEY]["memoryFlushCompactionCount"] == 0
    assert run("flush", "check", "--session-key", KEY).code == 1
    assert run("flush", "check", "--session-key", KEY, "--compaction-count", "1").code == 0
    assert "no entry" in run("flush", "check", "--session-key", "other").out
    assert "has no session 'other'" in run("flush", "done", "--session-key", "other").err
    sessions.write_text("{broken")
    for action in ("check", "done", "failed"):
        ran = run("flush", action, "--session-key", KEY)
        assert (ran.code, str(sessions) in ran.err) == (2, True)
    assert sessions.read_text() == "{broken"


def test_the_prompts_are_printed_with_the_day_in_them(run: Run) -> None:
    asked = run("flush", "prompt", "--zone", "Asia/Tokyo", "--json").json
    assert re.fullmatch(r"memory/\d{4}-\d\d-\d\d\.md", asked["path"])
    assert asked["path"] in asked["system"]
    assert asked["user"].endswith("(Asia/Tokyo)")
    whole = run("flush", "prompt").out
    assert run("flush", "prompt", "--part", "system").out.strip() in whole
    assert run("flush", "prompt", "--part", "user").out.startswith("Memory flush")


def test_append_writes_standard_input_and_says_where(workspace: Workspace, run: Run) -> None:
    ran = run("flush", "append", stdin=b"## Decisions\n- dark mode\n")
    (path,) = notes(workspace)
    assert ran == (0, f"memory/{path.name}#L1-L3  43 bytes\n", "")
    again = run("flush", "append", "--json", stdin=b"\xef\xbb\xbf## Decisions\n- dark mode\n## New\n- \xff\n")
    assert again.json == {
        "path": f"memory/{path.name}", "bytes": 31, "skipped": ["## Decisions"], "startLine": 4, "endLine": 6,
    }  # fmt: skip
    known = run("flush", "append", stdin=b"## Decisions\n- dark mode\n")
    assert known.out == f"Nothing new for memory/{path.name}.\n"
    assert known.err == "Skipped, because it is already there: ## Decisions\n"
    assert path.read_text() == "## Decisions\n- dark mode\n<!-- by flush -->\n## New\n- \ufffd\n<!-- by flush -->\n"


def test_append_takes_silence_and_refuses_nothing_and_other_paths(workspace: Workspace, run: Run) -> None:
    assert run("flush", "append", stdin=b"NO_REPLY\n").out.startswith("Nothing new")
    assert notes(workspace) == []
    blank = run("flush", "append", stdin=b" \n")
    assert (blank.code, "nothing to append" in blank.err) == (2, True)
    outside = run("flush", "append", "--path", "MEMORY.md", stdin=b"text")
    found = re.search(r"Write to (memory/\d{4}-\d\d-\d\d\.md)", outside.err)
    assert found
    assert run("flush", "append", "--path", f"@{found[1]}", stdin=b"text").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "'chek'"),
        (["check", "--total-tokens", "many"], "'many' is not a whole number"),
        (["check", "--part", "user"], "--part does not work with `flush check`"),
        (["done"], "--session-key"),
        (["check", "--begin"], "--session-key"),
        (["check", "--session-key", " "], "is empty"),
        (["prompt", "--zone", "Mars/Olympus"], "'Mars/Olympus'"),
    ],
)
def test_bad_input_is_named_and_exits_with_2(run: Run, arguments: list[str], said: str) -> None:
    ran = run("flush", *arguments)
    assert (ran.code, "Traceback" in ran.err) == (2, False)
    assert said in ran.err
    assert run("flush", *arguments, "--json").code == 2
