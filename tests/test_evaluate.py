from typing import Any

import pytest

from mdrecall.evaluate import evaluate, parse_questions
from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer
from mdrecall.types.sync import Progress
from tests.conftest import Workspace


def ask(memory: Memory, *lines: str, **how: Any) -> Any:
    return evaluate(memory, parse_questions("\n".join(lines)), **how)


def test_an_evaluation_tells_where_each_right_answer_stands(workspace: Workspace) -> None:
    workspace.configure('{"memorySearch": {"provider": "none"}}')
    workspace.write("memory/a.md", "the walrus sleeps on the ice\n")
    workspace.write("memory/b.md", "walrus walrus\n")
    found = ask(
        workspace.memory(),
        '{"query": "where does the walrus sleep", "expect": "memory/a.md#L1"}',
        '{"query": "where does the walrus sleep", "expect": ["memory/b.md", "memory/a.md"]}',
        '{"query": "zebra", "expect": "memory/a.md"}',
    )
    first, second, third = found.outcomes
    assert (first.rank, first.came_first) == (1, "memory/a.md#L1")
    assert second.ranks == (2, 1)
    assert (third.rank, third.came_first, third.reason) == (None, "", "no_match")
    assert found.figures([1])["hit@1"] == pytest.approx(2 / 3)
    assert (found.mode, found.issues) == ("keyword", ())


def test_expectations_that_no_answer_can_meet_are_told(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "the walrus sleeps\n")
    workspace.write("secret.txt", "the walrus sleeps\n")
    found = ask(
        workspace.memory(),
        '{"query": "walrus", "expect": ["memory/gone.md#L3", "secret.txt", "memory/a.md"]}',
    )
    assert [(issue.path, issue.problem.partition(", ")[2]) for issue in found.issues] == [
        ("memory/gone.md#L3", "but it is not among the notes that are searched"),
        ("secret.txt", "but it is not among the notes that are searched"),
    ]


def test_a_note_that_cannot_be_read_is_told_once(workspace: Workspace) -> None:
    workspace.configure('{"mdrecall": {"maxFileBytes": 100}}')
    workspace.write("memory/a.md", "the walrus sleeps\n")
    workspace.write("memory/large.md", "walrus " * 100)
    lines = ['{"query": "walrus", "expect": "memory/a.md"}'] * 3
    assert [issue.path for issue in ask(workspace.memory(), *lines).issues] == ["memory/large.md"]


def test_more_results_than_configured_are_looked_at(workspace: Workspace) -> None:
    workspace.configure('{"memorySearch": {"query": {"maxResults": 2}}}')
    for number in range(5):
        workspace.write(f"memory/{number}.md", "walrus\n")
    line = '{"query": "walrus", "expect": "memory/4.md"}'
    assert ask(workspace.memory(), line).outcomes[0].rank == 5


def test_as_many_results_are_asked_for_as_are_configured_or_wanted(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus\n")
    line = '{"query": "walrus", "expect": "memory/a.md"}'
    for configured, depth, asked in ((3, 10, 10), (30, 10, 30)):
        workspace.configure(f'{{"memorySearch": {{"query": {{"maxResults": {configured}}}}}}}')
        memory: Any = Searched(workspace.memory())
        ask(memory, line, depth=depth)
        assert memory.asked[0]["max_results"] == asked


def test_progress_is_told_after_each_question(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus\n")
    told: list[Progress] = []
    ask(workspace.memory(), '{"query": "walrus", "expect": "memory/a.md"}', progress=told.append)
    assert told[-1] == Progress(1, 1, "walrus")


class Searched:
    """A memory that notes how it is asked."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.settings = memory.settings
        self.asked: list[dict[str, Any]] = []

    def search(self, query: str, **how: Any) -> SearchAnswer:
        self.asked.append(how)
        return SearchAnswer((), reason="no_match", mode="keyword")

    def read(self, path: str, **how: Any) -> Any:
        return self.memory.read(path, **how)
