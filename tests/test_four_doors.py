"""Python, asyncio, commands (cold and warm), the tools of a model and MCP: the same calls, the same answers."""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall import AsyncMemory, Memory
from tests.doors.calls import APPENDED, CALLS, NOT_APPENDED, Call, furnish
from tests.doors.doors import (
    AsyncDoor,
    CommandDoor,
    Door,
    PythonDoor,
    Told,
    ToolDoor,
    level,
    listening,
    run_in_process,
    run_warm,
    tools_of,
)
from tests.doors.mcp import McpDoor, McpServer

#: Questions that the encoder is asked, because no note has their words.
IN_OTHER_WORDS = [
    Call("search", "Whom do I ask about payment credentials?"),
    Call("search", "seating that was purchased", {"source": "memory"}),
]


class House:
    """The doors to one workspace, all open."""

    def __init__(self, memory: Memory, doors: dict[str, Door], workspace: str, env: dict[str, str]) -> None:
        self.memory = memory
        self.doors = doors
        self.workspace = workspace
        self.env = env
        self.answered: list[str] = []
        """The commands that the process that listens has answered."""
        self.outcomes: dict[str, str] = {}
        """How the calls that were made so far ended."""

    def settle(self) -> None:
        """Index what was written, and wait for the encoder: while it works, the next answer may be a better one."""
        self.memory.sync(waits_for_encoder=True)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    base = tmp_path_factory.mktemp("doors")
    env = furnish(base)
    workspace = str(base / "notes")
    with (
        pytest.MonkeyPatch.context() as patch,
        asyncio.Runner() as runner,
        Memory.open(workspace, env=env) as memory,
        listening(memory, env),
        McpServer(workspace, env) as server,
    ):
        for name in [name for name in os.environ if name.startswith(("OPENCLAW_", "CLAWDBOT_", "MDRECALL_"))]:
            patch.delenv(name)
        for name, value in env.items():
            patch.setenv(name, value)
        same = runner.run(AsyncMemory.open(workspace, env=env))
        doors: dict[str, Door] = {
            "python": PythonDoor(memory),
            "async": AsyncDoor(same, runner),
            "tools": ToolDoor(tools_of(memory)),
            "mcp": McpDoor(server),
            "command": CommandDoor(workspace, run_in_process),
        }
        house = House(memory, doors, workspace, env)
        house.settle()
        doors["warm"] = CommandDoor(workspace, run_warm(env, house.answered))
        yield house
        runner.run(same.close())


def expected(call: Call, house: House) -> Told:
    """What the first door tells that can make the call."""
    return next(level(call, door.ask(call)) for door in house.doors.values() if door.can(call))


def shown(call: Call) -> str:
    options = ",".join(f"{name}={value}" for name, value in call.options.items())
    return f"{call.kind}-{ascii(call.what)[:40]}-{options}"


@pytest.mark.parametrize("call", CALLS, ids=shown)
def test_every_door_gives_the_same_answer(call: Call, house: House) -> None:
    wanted = expected(call, house)
    house.outcomes[repr(call)] = wanted.outcome
    for name, door in house.doors.items():
        if not door.can(call):
            continue
        before = len(house.answered)
        told = level(call, door.ask(call))
        if name == "warm":  # It answers what can be answered, and leaves errors to a process of its own.
            assert len(house.answered) - before == (told.outcome in ("found", "nothing"))
        if name in ("command", "warm") and wanted.outcome != "bad argument" and not call.is_in_range:
            wanted = Told("bad argument", {})
        assert told == wanted, name


def test_the_calls_are_of_every_kind_and_many(house: House) -> None:
    outcomes = Counter(house.outcomes.get(repr(call)) or expected(call, house).outcome for call in CALLS)
    assert len(CALLS) >= 200
    assert set(outcomes) == {"found", "nothing", "missing", "refused", "bad argument"}
    assert min(outcomes.values()) >= 5


def test_every_door_appends_the_same(house: House) -> None:
    told = {
        name: [door.ask(Call("append", text, {"file": f"by {name}"})) for text in APPENDED]
        for name, door in house.doors.items()
    }
    house.settle()
    for name, answers in told.items():
        paths = {answer.body.pop("path", None) for answer in answers} - {None}
        assert paths == {f"memory/by {name}.md"}
        for answer in answers:
            answer.body.pop("citation", None)
        # MCP also notes which client wrote.
        if name != "mcp":
            assert answers == told["python"], name
    files = [(Path(house.workspace) / f"memory/by {name}.md").read_text() for name in house.doors]
    assert len({re.sub(r"<!-- by .*-->\n", "", text) for text in files}) == 1


@pytest.mark.parametrize("file", NOT_APPENDED)
def test_no_door_appends_where_nothing_may_be_written(file: str, house: House) -> None:
    call = Call("append", "x", {"file": file})
    wanted = expected(call, house)
    assert wanted.outcome in ("refused", "bad argument")
    for name, door in house.doors.items():
        assert door.ask(call) == wanted, name


@pytest.mark.parametrize(
    "call",
    [
        Call("search", "会议"),
        Call("search", "zebra crossing", {"min_score": 1}),
        Call("search", "  "),
        *IN_OTHER_WORDS,
        Call("get", "memory/café.md", {"from_line": 3, "lines": 1}),
        Call("get", "memory/none.md"),
        Call("get", "/etc/passwd"),
    ],
    ids=shown,
)
def test_a_command_in_a_process_of_its_own_says_the_same(call: Call, house: House, tmp_path: Path) -> None:
    def run(arguments: list[str]) -> tuple[int, str]:
        command = [sys.executable, "-W", "error", "-m", "mdrecall", *arguments]
        env = {**house.env, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    assert level(call, CommandDoor(house.workspace, run).ask(call)) == expected(call, house)


@pytest.mark.parametrize("call", IN_OTHER_WORDS, ids=shown)
def test_a_question_in_other_words_is_one_for_the_encoder(call: Call, house: House) -> None:
    with Memory.open(house.workspace, env=house.env) as memory:
        assert "encoder" in memory.search(call.what).model
