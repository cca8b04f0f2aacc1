"""A `qmd mcp` that stays, with everything that can go wrong on the other side of the pipes."""

import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mdrecall.errors import (
    ProgramFailed,
    ProgramStopped,
    ProgramTimedOut,
    ProgramUnreadable,
)
from mdrecall.extras.qmd.process import spawn
from mdrecall.extras.qmd.session import Connection, Session
from tests.processes import PATIENCE_S, marked, until
from tests.qmd.fake_qmd import FakeQmd

MARK = f"mdrecall-test-{uuid.uuid4().hex}"
ANSWER = {"content": [{"type": "text", "text": "1 result"}], "structuredContent": {"results": [1]}}


@pytest.fixture
def session(fake_qmd: FakeQmd) -> Iterator[Session]:
    fake_qmd.tool("query", result=ANSWER)
    before = set(threading.enumerate())
    made = Session((str(fake_qmd.path),), env={"PATH": os.environ["PATH"], "MARK": MARK})
    yield made
    made.close()
    assert until(lambda: not marked(MARK))
    assert not [thread for thread in {*threading.enumerate()} - before if thread.name.startswith("mdrecall")]


def call(session: Session, tool: str = "query", timeout_s: float = PATIENCE_S, **arguments: object) -> object:
    return session.call(tool, arguments, timeout_s=timeout_s)


def test_one_server_answers_every_question(session: Session, fake_qmd: FakeQmd) -> None:
    assert call(session) == call(session) == {"results": [1]}
    assert fake_qmd.calls == [["mcp"]]
    assert [message["method"] for message in fake_qmd.messages] == [
        "initialize", "notifications/initialized", "tools/call", "tools/call",
    ]  # fmt: skip


def test_a_tool_that_fails_is_an_error_and_not_the_end(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("get", result={"isError": True, "content": [{"type": "text", "text": "Document not found: x"}]})
    with pytest.raises(ProgramFailed, match="qmd mcp get failed: Document not found: x"):
        call(session, "get")
    with pytest.raises(ProgramFailed, match="Tool not found") as told:
        call(session, "nothing")
    assert told.value.code == -32602
    assert call(session) == {"results": [1]}
    assert fake_qmd.calls == [["mcp"]]


def test_lines_that_are_no_messages_are_passed_over(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.server(chatter='loading [model]\n{"half\n\n42\n"text"\n{"id": 99, "result": {}}\n{"id": null}')
    assert call(session) == {"results": [1]}


def test_a_server_that_dies_is_told_and_started_again(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("bad", die="TypeError: fetch failed\n    at x")
    with pytest.raises(ProgramFailed, match="TypeError: fetch failed") as told:
        call(session, "bad")
    assert told.value.code == 3
    assert call(session) == {"results": [1]}
    assert fake_qmd.calls == [["mcp"], ["mcp"]]


def test_a_server_that_never_introduces_itself_is_given_up(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.server(silent_at_start=True)
    with pytest.raises(ProgramTimedOut, match=r"within 0\.2 seconds"):
        call(session, timeout_s=0.2)


def test_the_time_that_the_start_took_is_a_part_of_the_limit_that_is_told(
    session: Session, fake_qmd: FakeQmd, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_qmd.server(silent_at_start=True)
    connect = session._connect

    def connect_slowly() -> Connection:
        time.sleep(0.3)
        return connect()

    monkeypatch.setattr(session, "_connect", connect_slowly)
    with pytest.raises(ProgramTimedOut, match=r"within 0\.4 seconds"):
        call(session, timeout_s=0.4)


def test_an_endless_line_is_no_answer(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("bad", endless=True)
    with pytest.raises(ProgramUnreadable):
        call(session, "bad")
    assert call(session) == {"results": [1]}


def test_a_question_that_is_given_up_leaves_the_server_to_finish(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("slow", result=ANSWER, after="go")
    call(session)
    with pytest.raises(ProgramTimedOut):
        call(session, "slow", timeout_s=0.2)
    assert call(session) == {"results": [1]}
    (fake_qmd.folder / "go").write_text("")
    assert call(session, "slow") == {"results": [1]}
    assert fake_qmd.calls == [["mcp"]]


@pytest.mark.parametrize("fault", [{"after": "never"}, {"deaf": True}, {"silent_at_start": True}])
def test_too_many_forgotten_questions_end_it(session: Session, fake_qmd: FakeQmd, fault: dict[str, Any]) -> None:
    fake_qmd.tool("slow", result=ANSWER, **fault).server(**fault)
    session.warm_up()
    assert until(lambda: bool(fake_qmd.calls))
    for _ in range(4):
        with pytest.raises(ProgramTimedOut):
            call(session, "slow", timeout_s=0.2)
    fake_qmd.server(silent_at_start=False)
    assert call(session) == {"results": [1]}
    assert len(fake_qmd.calls) == 2


def test_a_question_longer_than_a_pipe_goes_through(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("echo", echo=True)
    long = "é\n" * 200_000
    assert call(session, "echo", query=long) == {"query": long}


def connected(fake: FakeQmd) -> Connection:
    process = spawn((str(fake.path), "mcp"), env={"PATH": os.environ["PATH"], "MARK": MARK}, with_input=True)
    return Connection(process, "qmd mcp")


def test_a_deaf_server_cannot_hold_up_who_asks_at_length(fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("bad", deaf=True)
    connection = connected(fake_qmd)
    connection.request("ping", {}, timeout_s=PATIENCE_S)
    for length in (1, 300_000):
        with pytest.raises(ProgramTimedOut):
            connection.request("tools/call", {"name": "bad", "arguments": "x" * length}, timeout_s=0.2)
    assert connection.failure
    connection.close()


def test_many_ask_at_once_and_each_gets_its_own_answer(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("echo", echo=True)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: call(session, "echo", number=number), range(100)))
    assert answers == [{"number": number} for number in range(100)]
    assert fake_qmd.calls == [["mcp"]]


def test_closing_tells_who_waits(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("slow", result=ANSWER, after="never")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(call, session, "slow")
        assert until(lambda: any(message.get("method") == "tools/call" for message in fake_qmd.messages))
        session.close()
        session.close()
        with pytest.raises(ProgramStopped):
            waiting.result(PATIENCE_S)
    with pytest.raises(ProgramStopped, match="closed"):
        call(session)


def test_it_starts_before_it_is_asked(session: Session, fake_qmd: FakeQmd) -> None:
    session.warm_up()
    session.warm_up()
    assert until(lambda: len(fake_qmd.messages) == 2)
    assert call(session) == {"results": [1]}
    assert fake_qmd.calls == [["mcp"]]


def test_a_server_whose_index_was_replaced_is_started_again(fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("query", result=ANSWER)
    index = fake_qmd.folder / "index.sqlite"
    session = Session((str(fake_qmd.path),), env={"PATH": os.environ["PATH"]}, index=str(index))
    call(session)
    index.write_text("made by the server")
    call(session)
    call(session)
    assert len(fake_qmd.calls) == 1
    (fake_qmd.folder / "another").write_text("made by somebody else")
    (fake_qmd.folder / "another").replace(index)
    call(session)
    call(session)
    session.close()
    assert len(fake_qmd.calls) == 2


def test_who_waits_for_a_server_that_is_replaced_may_ask_another_way(session: Session) -> None:
    call(session)
    connection = session._connection
    assert connection
    connection.close("was replaced")
    with pytest.raises(ProgramFailed, match="was replaced"):
        connection.request("ping", {}, timeout_s=PATIENCE_S)


def test_a_server_that_has_closed_its_ears_is_killed(session: Session, fake_qmd: FakeQmd) -> None:
    fake_qmd.tool("deaf", ears_closed=True)
    session.warm_up()
    assert until(lambda: len(fake_qmd.messages) == 2)
    with pytest.raises(ProgramTimedOut):
        call(session, "deaf", timeout_s=0.5)
    assert until(lambda: bool(fake_qmd.hanging))
    connection = session._connection
    assert connection
    with pytest.raises(ProgramFailed):
        connection.request("ping", {}, timeout_s=PATIENCE_S)
    assert connection.failure
    assert call(session) == {"results": [1]}
