import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from mdrecall import Memory, RecallError, SearchAnswer, SearchResult
from mdrecall.errors import MemoryDisabled, WorkspaceError
from tests.conftest import Workspace


def test_the_readme_example(workspace: Workspace) -> None:
    workspace.write("memory/2026-02-10.md", "We meet at the canal café.\n")
    with Memory.open(workspace=workspace.path, env=workspace.env) as memory:
        (result,) = memory.search("where do we meet?")
    assert result.citation == "memory/2026-02-10.md#L1"


def test_results_are_frozen_and_answers_are_sequences(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "walrus")
    answer = workspace.memory().search("walrus")
    assert isinstance(answer[0], SearchResult)
    assert [result.path for result in answer] == ["MEMORY.md"]
    assert len(answer) == 1
    assert pickle.loads(pickle.dumps(answer)).results == answer.results
    with pytest.raises(AttributeError):
        answer[0].score = 1.0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        answer.reason = "no_match"  # type: ignore[misc]


def test_a_missing_workspace_is_an_error_of_the_tree(tmp_path: Path) -> None:
    with pytest.raises(RecallError) as raised:
        Memory.open(tmp_path / "nowhere", env={"HOME": str(tmp_path)})
    assert isinstance(raised.value, WorkspaceError)
    assert raised.value.hint


def test_one_memory_serves_several_threads(workspace: Workspace) -> None:
    for number in range(20):
        workspace.write(f"memory/{number}.md", f"walrus{number} on the ice")
    memory = workspace.memory()
    memory.sync()
    wrong: list[str] = []

    def ask(number: int) -> None:
        for _ in range(5):
            found = memory.search(f"walrus{number}")
            if found[0].path != f"memory/{number}.md":
                wrong.append(repr(found))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_index_in_a_configured_place_is_used(workspace: Workspace, tmp_path: Path) -> None:
    workspace.configure(f'{{memorySearch: {{store: {{path: "{tmp_path}/kept/{{agentId}}.sqlite"}}}}}}')
    workspace.write("MEMORY.md", "walrus")
    assert workspace.memory().search("walrus").results
    assert (tmp_path / "kept/main.sqlite").is_file()


def test_a_memory_that_is_switched_off_says_where(workspace: Workspace) -> None:
    workspace.configure("{memorySearch: {enabled: false}}")
    with pytest.raises(MemoryDisabled, match=r"mdrecall\.json: memorySearch\.enabled"):
        workspace.memory()


def test_an_answer_takes_its_fields_and_nothing_else() -> None:
    assert SearchAnswer(()) == SearchAnswer(results=())
    assert SearchAnswer((), reason="no_match") != SearchAnswer(())
    every_wrong: list[dict[str, Any]] = [{}, {"results": (), "reasons": ""}]
    for wrong in every_wrong:
        with pytest.raises(TypeError, match="SearchAnswer takes results, reason"):
            SearchAnswer(**wrong)


def test_notes_below_the_home_folder_are_listed_searched_and_linked(workspace: Workspace) -> None:
    workspace.configure('{"memorySearch": {"extraPaths": ["~/more"]}}')
    more = workspace.home / "more"
    more.mkdir()
    (more / "boats.md").write_text("The walrus boat is blue. See [[MEMORY]].\n")
    workspace.write("MEMORY.md", "# Team\n")
    memory = workspace.memory()
    (path,) = [note.path for note in memory.notes() if note.path.endswith("boats.md")]
    assert memory.search("walrus boat")[0].path == path
    assert [link.path for link in memory.links("MEMORY").backlinks] == [path]
