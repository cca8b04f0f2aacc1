"""Searches that are limited to tags, paths, collections, days and projects."""

from typing import Any

import pytest

from mdrecall.errors import FileMissing, QueryError
from mdrecall.memory import Memory
from tests.conftest import Workspace


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """An Obsidian vault: folders, front matter, tags, links and a settings folder."""
    workspace = Workspace(tmp_path_factory.mktemp("vault"))
    workspace.write(".obsidian/app.json", "{}")
    workspace.write(".obsidian/plugins/templates/readme.md", "coffee #person of a plugin\n")
    workspace.write(".trash/deleted.md", "coffee #person that was deleted\n")
    workspace.write("People/Ana.md", "---\naliases: [Ana Morais]\ntags: [person, work/design]\n---\nlikes coffee\n")
    workspace.write("People/Bob.md", "#person drinks coffee with [[Ana Morais|Ana]]\n")
    workspace.write("Projects/Cafe/plan.md", "# Plan\ncoffee machine for [[Bob]] #work #buy\n")
    workspace.write("Projects/Cafe/notes.txt.md", "```\n#person in code, coffee\n```\n")
    workspace.write("Daily/2026-11-14.md", "coffee at nine #person\n")
    workspace.write("Daily/2026-11-15-late-talk.md", "coffee at ten\n")
    return workspace


@pytest.fixture
def memory(vault: Workspace) -> Memory:
    return vault.memory()


def found(memory: Memory, **options: Any) -> list[str]:
    return sorted({result.path for result in memory.search("coffee", max_results=20, min_score=0, **options)})


PERSONS = ["Daily/2026-11-14.md", "People/Ana.md", "People/Bob.md"]
FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"tags": ["person"]}, PERSONS),
    ({"tags": ["#Person"]}, PERSONS),
    ({"tags": ["work"]}, ["People/Ana.md", "Projects/Cafe/plan.md"]),
    ({"tags": ["work/design"]}, ["People/Ana.md"]),
    ({"tags": ["work", "buy"]}, ["Projects/Cafe/plan.md"]),
    ({"paths": ["People"]}, ["People/Ana.md", "People/Bob.md"]),
    ({"paths": ["./People/"]}, ["People/Ana.md", "People/Bob.md"]),
    ({"paths": ["People/Ana.md"]}, ["People/Ana.md"]),
    ({"paths": ["**/plan.md"]}, ["Projects/Cafe/plan.md"]),
    ({"paths": ["Proj*"]}, ["Projects/Cafe/notes.txt.md", "Projects/Cafe/plan.md"]),
    ({"paths": ["People", "Daily"], "tags": ["person"]}, PERSONS),
    ({"paths": ["Daily"], "since": "2026-11-15"}, ["Daily/2026-11-15-late-talk.md"]),
    ({"paths": ["Daily"], "until": "2026-11-14"}, ["Daily/2026-11-14.md"]),
    ({"tags": ["person"], "mode": "keyword"}, PERSONS),
    ({"tags": ["person"], "mode": "vector"}, PERSONS),
]


@pytest.mark.parametrize(("options", "paths"), FILTERS)
def test_a_filter_limits_a_search(memory: Memory, options: dict[str, Any], paths: list[str]) -> None:
    assert found(memory, **options) == paths


def test_a_question_about_a_day_respects_the_filter(memory: Memory) -> None:
    assert memory.search("2026-11-14", paths=["Daily"])[0].path == "Daily/2026-11-14.md"
    assert not memory.search("2026-11-14", paths=["People"], mode="keyword").results


def test_links_and_backlinks_of_a_vault(vault: Workspace, memory: Memory) -> None:
    ana = memory.links("Ana Morais")
    assert (ana.path, [(link.path, link.line) for link in ana.backlinks]) == ("People/Ana.md", [("People/Bob.md", 1)])
    bob = memory.links("People/Bob.md")
    assert [link.target for link in bob.links] == ["People/Ana.md"]
    assert [link.path for link in bob.backlinks] == ["Projects/Cafe/plan.md"]
    with pytest.raises(FileMissing, match="no note 'Nobody'"):
        memory.links("Nobody")


def test_links_follow_the_files(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "[[b]]\n")
    workspace.write("memory/b.md", "text\n")
    memory = workspace.memory()
    assert len(memory.links("b").backlinks) == 1
    workspace.write("memory/a.md", "nothing any more\n")
    assert memory.links("b").backlinks == ()


COLLECTIONS = (
    '{mdrecall: {collections: {people: {path: "People"}, plans: {path: "Projects", pattern: "**/plan.md", weight: 3}}}}'
)


def test_a_collection_is_a_filter_and_has_a_weight(workspace: Workspace) -> None:
    workspace.write("People/Ana.md", "the coffee machine is broken\n")
    workspace.write("Projects/x/plan.md", "the machine for coffee beans is in the budget of next year, perhaps\n")
    workspace.write("Projects/x/other.md", "coffee\n")
    plain = workspace.memory().search("coffee machine broken", mode="keyword", min_score=0)
    assert plain[0].path == "People/Ana.md"
    workspace.configure(COLLECTIONS)
    memory = workspace.memory()
    assert found(memory, collections=["people"]) == ["People/Ana.md"]
    assert found(memory, collections=["plans"]) == ["Projects/x/plan.md"]
    assert found(memory, collections=["plans", "people"]) == ["People/Ana.md", "Projects/x/plan.md"]
    scores = {result.path: result.score for result in memory.search("coffee beans", mode="keyword", min_score=0)}
    before = {result.path: result.score for result in plain}
    assert scores["Projects/x/plan.md"] > before["Projects/x/plan.md"]
    assert max(scores.values()) <= 1
    with pytest.raises(QueryError, match="no collection 'peple'; did you mean people"):
        memory.search("coffee", collections=["peple"])


def test_a_collection_elsewhere_is_searched_and_a_light_one_hides_nothing(workspace: Workspace) -> None:
    workspace.beside_openclaw()
    elsewhere = workspace.path.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.md").write_text("the zeppelin is silver\n")
    workspace.configure(f'{{mdrecall: {{collections: {{far: {{path: "{elsewhere}", weight: 0.1}}}}}}}}')
    (best,) = workspace.memory().search("zeppelin silver", mode="keyword")
    assert (best.path.endswith("elsewhere/a.md"), best.origin) == (True, "untrusted")


def test_entries_of_other_projects_are_left_out_only_where_a_project_is_known(workspace: Workspace) -> None:
    workspace.write(
        "MEMORY.md",
        "- deploy with make <!-- project: github.com/ana/app -->\n"
        "- deploy with cargo <!-- project: GitHub.com/ana/tool; path:/w/tool -->\n"
        "- deploy on Fridays never\n"
        "- deploy by hand <!-- project: -->\n",
    )
    memory = workspace.memory()

    def lines(*projects: str) -> list[int]:
        answer = memory.search("deploy", min_score=0, projects=projects)
        return sorted(result.start_line for result in answer)

    assert lines() == [1, 2, 3]
    assert lines("github.com/ana/app") == [1, 3]
    assert lines("GITHUB.com/ana/tool") == [2, 3]
    assert lines("path:/w/tool", "github.com/ana/app") == [1, 2, 3]
    assert lines("github.com/ana/other") == [3]
    assert memory.search("deploy").withheld.startswith("1 entry was left out")
    assert memory.search("deploy", projects=["x.y/z"]).withheld.startswith("3 entries were left out")
    assert memory.search("Fridays never").withheld == ""


def test_many_entries_of_another_project_crowd_nothing_out(workspace: Workspace) -> None:
    foreign = "".join(f"- deploy step {number} with make <!-- project: x.y/z -->\n" for number in range(300))
    workspace.write("MEMORY.md", f"{foreign}- deploy needs a key\n")
    answer = workspace.memory().search("deploy with make", projects=["a.b/c"], min_score=0)
    assert [result.start_line for result in answer] == [301]
