"""What annotations, importance and names change in the results of a search."""

import pytest

from tests.conftest import Workspace


def test_annotations_are_neither_found_nor_shown_but_can_be_read(workspace: Workspace) -> None:
    line = "- The van is red <!-- trigger: zeppelin --> <!-- importance: 9 -->"
    workspace.write("MEMORY.md", f"# Memory\n\n{line}\n- The boat is blue\n")
    memory = workspace.memory()
    best = memory.search("van red")[0]
    assert (best.snippet, best.importance, best.triggers) == ("- The van is red", 9, ("zeppelin",))
    assert best.citation == "MEMORY.md#L3"
    assert not memory.search("zeppelin", mode="keyword").results
    assert line in memory.read("MEMORY.md").text


def test_user_md_is_searched_beside_openclaw(workspace: Workspace) -> None:
    workspace.beside_openclaw()
    workspace.write("USER.md", "- Prefers oat milk\n- Lives in Porto\n")
    workspace.write("SOUL.md", "oat milk is not a memory here\n")
    found = workspace.memory().search("oat milk")
    assert [(result.path, result.start_line, result.end_line) for result in found] == [("USER.md", 1, 1)]


def test_importance_decides_only_between_entries_that_hold_the_same_words(workspace: Workspace) -> None:
    workspace.write(
        "MEMORY.md",
        "- The printer in the office needs toner\n"
        "- The printer in the kitchen needs paper <!-- importance: 10 -->\n"
        "- The printer in the hall needs a new printer cable, says the printer <!-- importance: 1 -->\n"
        "- The scanner is important <!-- importance: 10 -->\n",
    )
    memory = workspace.memory()
    assert memory.search("printer needs", mode="keyword")[0].start_line == 2
    assert memory.search("printer office toner", mode="keyword")[0].start_line == 1
    assert memory.search("printer hall cable", mode="keyword")[0].start_line == 3


def test_importance_changes_no_score(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "- The printer needs toner\n")
    plain = workspace.memory().search("printer toner")[0].score
    workspace.write("MEMORY.md", "- The printer needs toner <!-- importance: 1 -->\n")
    assert workspace.memory().search("printer toner")[0].score == plain


def test_entries_of_the_project_at_hand_come_before_others_with_the_same_words(workspace: Workspace) -> None:
    workspace.write(
        "MEMORY.md",
        "- The server deploys from branch blue <!-- project: github.com/ana/other -->\n"
        "- The server deploys from branch grey\n"
        "- The server deploys from branch pink <!-- project: GitHub.com/ana/shop -->\n",
    )
    memory = workspace.memory()
    current = memory.search("server deploys from branch", current_projects=["github.com/ana/shop"])
    assert [result.start_line for result in current] == [3, 2, 1]
    before = {result.start_line: result.score for result in memory.search("server deploys from branch")}
    assert before == pytest.approx({result.start_line: result.score for result in current}, abs=0.001)
    named = memory.search("server deploys from branch blue", current_projects=["github.com/ana/shop"])
    assert named[0].start_line == 1
    assert current.withheld == ""
