"""What ``explain`` says about a search as a whole: it must be what happened."""

from datetime import UTC, datetime

import pytest

from mdrecall.types.search import SearchAnswer
from mdrecall.wire import result_to_json
from tests.conftest import Workspace, values_of

NOW = datetime(2026, 3, 12, 12, tzinfo=UTC)


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    for day in range(1, 13):
        billing = "\n\n".join(f"The billing migration goes on, step {step}, {'as ever ' * 30}." for step in range(6))
        workspace.write(f"memory/2026-03-{day:02d}.md", f"# Day {day}\n\n{billing}\n\n## Tea\n\nAna likes tea {day}.")
    talk = ("Ana: we meet at the library", "Bob: it is closed on Monday", "Ana: pity", "Bob: the park then")
    workspace.write("memory/talk.md", "\n\n".join(talk))
    chat = ("User: I like green tea", "Assistant: I recommend tea from Assam", "User: thanks")
    workspace.write("memory/chat.md", "\n\n".join(chat))
    workspace.write("memory/decisions.md", "# Decisions\n\n- DEC-0054 moves the billing\n\n- DEC-0055 does not\n")
    workspace.write("memory/zh.md", "# 图书馆\n\n我们在图书馆见面。\n")
    return workspace


def test_a_note_that_is_listed_by_its_day_says_so(filled: Workspace) -> None:
    listed = search(filled, "what happened yesterday?")
    assert [values_of(result)["listed"] for result in listed] == [
        "it is a note of the time that the query asks for, newest first"
    ] * len(listed)
    (filled.path / "memory/2026-03-11.md").unlink()
    nearest = search(filled, "what happened yesterday?")[0]
    assert "nearest day before" in values_of(nearest)["listed"]
    assert result_to_json(nearest)["why"] == values_of(nearest)


def search(workspace: Workspace, query: str, mode: str = "hybrid", **options: int) -> SearchAnswer:
    return workspace.memory().search(query, mode=mode, explain=True, now=NOW, **options)  # type: ignore[arg-type]
