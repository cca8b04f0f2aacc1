"""An answer ends where its results get weak, unless the caller or the settings name a number or a score."""

from pathlib import Path
from typing import Any

import pytest

from mdrecall.memory import Memory
from mdrecall.search.query import find_stems
from mdrecall.search.results import find_answers, find_lines
from mdrecall.several import search_several
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from mdrecall.types.search import SearchResult
from tests.conftest import Workspace

QUERY = "what is the door code of the harbour office?"


@pytest.mark.parametrize(
    ("scores", "query", "kept"),
    [
        ([], "which code?", []),
        ([0.95, 0.7, 0.3, 0.2], "which code?", [0, 1]),
        ([0.3, 0.1, 0.04, 0.01], "which code?", [0, 1, 2]),
        ([1.0, 1.0, 0.9], "which code?", [0, 1]),
        # What replaces another line comes first, however weak it is.
        ([0.1, 0.95, 0.2], "which code?", [0, 1]),
        ([0.95, 0.7, 0.4, 0.2], "list all the codes", [0, 1, 2]),
        ([0.95, 0.7, 0.4, 0.2], "有哪些密码？", [0, 1, 2]),
    ],
)
def test_what_is_much_weaker_than_the_best_is_left_out(scores: list[float], query: str, kept: list[int]) -> None:
    assert find_answers(scores, query) == kept


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    workspace.configure('{"memorySearch": {"provider": "none"}}')
    workspace.write("memory/code.md", "The door code of the harbour office is 4711.\n")
    for number in range(5):
        workspace.write(f"memory/{number}.md", f"The office was painted, part {number}.\n")
    return workspace


def test_a_search_stops_after_the_answer_and_counts_the_rest(notes: Workspace) -> None:
    memory = notes.memory()
    answer = memory.search(QUERY)
    assert ([result.path for result in answer], answer.weaker) == (["memory/code.md"], 5)
    again = memory.search(QUERY, queries=["harbour office"])
    assert ([result.path for result in again], again.weaker) == (["memory/code.md"], 5)


@pytest.mark.parametrize("more", [{"max_results": 4}, {"max_results": 20}, {"min_score": 0.0}])
def test_a_number_or_a_score_gives_as_many_as_are_asked_for(notes: Workspace, more: dict[str, Any]) -> None:
    answer = notes.memory().search(QUERY, **more)
    assert (len(answer), answer.weaker) == (min(6, more.get("max_results", 20)), 0)


def test_a_number_in_the_settings_is_kept(notes: Workspace) -> None:
    notes.configure('{"memorySearch": {"provider": "none", "query": {"maxResults": 3}}}')
    answer = notes.memory().search(QUERY)
    assert (len(answer), answer.weaker) == (3, 0)


def test_several_memories_stop_at_the_best_of_all(notes: Workspace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "MEMORY.md").write_text("The office was painted.\n")
    with Memory.open(tmp_path / "other", env=notes.env, overrides={"provider": "none"}) as other:
        both = {"a": notes.memory(), "b": other}
        merged = search_several(both, QUERY)
        assert ([(result.workspace, result.path) for result in merged], merged.weaker) == ([("a", "memory/code.md")], 6)
        assert [report.results for report in merged.memories] == [1, 0]
        assert len(search_several(both, QUERY, max_results=20)) == 7
    same = search_several({"a": notes.memory(), "b": notes.memory()}, QUERY)
    assert (len(same), same.weaker) == (1, 5)


def test_a_model_is_told_how_many_were_left_out(notes: Workspace) -> None:
    found = Toolset(memory_tools(notes.memory())).call("memory_search", {"query": QUERY})
    assert (len(found.details["results"]), found.details["weaker"]) == (1, 5)
    assert "5 weaker results: maxResults 6." in found.plain


def line_result(*lines: str, first: int = 1, match: tuple[int, int] = (1, 99), last: int = 0) -> SearchResult:
    last = last or first + len(lines) - 1
    match = (match[0], min(match[1], last))
    return SearchResult("a.md", first, last, 0.5, "\n".join(lines), "memory", *match, "")


@pytest.mark.parametrize(
    ("result", "around", "shown"),
    [
        (line_result("# Log", "", "- rain", "- the walrus sleeps", "- sun", "- tea"), 1, "rain|*the walrus sleeps|sun"),
        (line_result("- walrus", "- a", "- b", "- c", "- d", "- walrus"), 1, "*walrus|a|…|d|*walrus"),
        # A line that holds most of the words stands for one that holds a few.
        (line_result("- walrus", "- a", "- the walrus sleeps well"), 0, "*the walrus sleeps well"),
        # Only what was ranked matches.
        (line_result("- walrus", "- b", "- walrus", match=(3, 3)), 0, "*walrus"),
        # Found by its meaning alone.
        (line_result("- a", "- b", "- c", match=(2, 3)), 0, "*b|*c"),
        # A blank line stays one.
        (line_result("- walrus", "", "", "- a"), 3, "*walrus||a"),
        # Records of a transcript whose numbers have gaps.
        (line_result("User: a", "Ana: walrus", first=3, last=9, match=(9, 9)), 0, "*Ana: walrus"),
    ],
)
def test_the_lines_with_the_words_of_the_query_are_shown(result: SearchResult, around: int, shown: str) -> None:
    found = find_lines(result, find_stems("where does the walrus sleep?"), around)
    assert "|".join(("*" if is_match else "") + line.removeprefix("- ") for line, is_match in found) == shown
