"""Several queries in one search, through every door: the same passages, each once, with the query that it suits."""

import json
from typing import Any

import pytest

from mdrecall.aio import AsyncMemory
from mdrecall.errors import QueryError
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.conftest import Workspace


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    workspace.write("memory/pool.md", "We put PgBouncer in front of Postgres.\n")
    workspace.write("memory/tea.md", "Ana prefers green tea in the morning.\n")
    workspace.write("memory/trip.md", "The train to Basel leaves at noon.\n")
    return workspace


def found(answer: Any) -> list[tuple[str, str]]:
    return [(result.path, result.query) for result in answer]


def test_each_query_finds_its_passage(notes: Workspace) -> None:
    answer = notes.memory().search("PgBouncer Postgres", queries=["green tea", "train to Basel"])
    assert set(found(answer)) >= {
        ("memory/pool.md", "PgBouncer Postgres"),
        ("memory/tea.md", "green tea"),
        ("memory/trip.md", "train to Basel"),
    }
    assert [result.score for result in answer] == sorted((result.score for result in answer), reverse=True)
    assert len({result.path for result in answer}) == len(answer)


def test_a_passage_found_by_several_has_the_best_of_its_scores(notes: Workspace) -> None:
    memory = notes.memory()
    alone = [memory.search(query)[0].score for query in ("tea", "who likes green tea in the morning")]
    answer = memory.search("tea", queries=["who likes green tea in the morning"])
    assert answer[0].path == "memory/tea.md"
    assert answer[0].score == max(alone)
    assert [result.path for result in answer].count("memory/tea.md") == 1


def test_one_query_is_answered_as_ever(notes: Workspace) -> None:
    memory = notes.memory()
    assert memory.search("tea", queries=[]) == memory.search("tea")
    assert memory.search("tea")[0].query == ""


def test_no_more_results_come_than_for_one_query(notes: Workspace) -> None:
    for number in range(30):
        notes.write(f"memory/more-{number}.md", f"Tea and trains, part {number}.\n")
    memory = notes.memory()
    assert len(memory.search("tea", queries=["trains"])) == len(memory.search("tea"))
    assert len(memory.search("tea", queries=["trains"], max_results=2)) == 2


def test_an_empty_answer_says_why(notes: Workspace) -> None:
    answer = notes.memory().search("xylophone", queries=["zeppelin"], mode="keyword")
    assert (answer.reason, len(answer)) == ("no_match", 0)


@pytest.mark.parametrize("queries", [[""], ["tea", " "], ["a", "b", "c", "d", "e"], "tea"])
def test_what_cannot_be_asked_is_refused(notes: Workspace, queries: Any) -> None:
    with pytest.raises(QueryError):
        notes.memory().search("tea", queries=queries)


def test_with_asyncio(notes: Workspace) -> None:
    import asyncio

    async def search() -> Any:
        async with await AsyncMemory.open(notes.path, env=notes.env) as memory:
            return await memory.search("PgBouncer", queries=["green tea"])

    assert {path for path, _ in found(asyncio.run(search()))} >= {"memory/pool.md", "memory/tea.md"}


def test_a_model_may_ask_in_several_ways(notes: Workspace) -> None:
    tools = Toolset(memory_tools(notes.memory()))
    answer = tools.call("memory_search", {"query": "PgBouncer", "queries": ["green tea"]})
    assert {(result["path"], result["query"]) for result in answer.details["results"]} >= {
        ("memory/pool.md", "PgBouncer"),
        ("memory/tea.md", "green tea"),
    }
    # Models forget the first query, or give a text where a list is asked for.
    for arguments in ({"queries": ["PgBouncer", "green tea"]}, {"query": "PgBouncer", "queries": "green tea"}):
        assert tools.call("memory_search", arguments).details["results"] == answer.details["results"]


@pytest.mark.parametrize("queries", [[""], [3], {"a": 1}, ["a", "b", "c", "d", "e", "f"], 7])
def test_a_model_is_told_what_it_may_not_ask(notes: Workspace, queries: Any) -> None:
    answer = Toolset(memory_tools(notes.memory())).call("memory_search", {"query": "tea", "queries": queries})
    assert answer.is_error
    assert "quer" in json.dumps(answer.details)


def test_on_the_command_line(notes: Workspace, run: Run) -> None:
    ran = run("search", "--query", "PgBouncer", "--query", "green tea", "--json")
    assert {(result["path"], result["query"]) for result in ran.json["results"]} >= {
        ("memory/pool.md", "PgBouncer"),
        ("memory/tea.md", "green tea"),
    }
    ran = run("search", "--query", "PgBouncer", "--query", "green tea")
    assert 'for "PgBouncer"' in ran.out
    assert 'for "green tea"' in ran.out
    ran = run("search", "--query", "tea", "--query", " ")
    assert (ran.code, ran.out) == (2, "")
    assert "One of the queries is blank" in ran.err
