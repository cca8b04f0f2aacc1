"""Times in queries, through Memory with the offline embedder, on Thursday 12 March 2026."""

from collections.abc import Mapping
from datetime import UTC, date, datetime

import pytest

from mdrecall.types.search import SearchAnswer
from tests.conftest import Workspace, values_of

NOW = datetime(2026, 3, 12, 12, tzinfo=UTC)
NOTES = {
    "memory/2026-03-11.md": "# Wednesday\n\n- lunch with Ana at the harbour\n- Meier repaired the boiler\n",
    "memory/2026-03-10.md": "# Tuesday\n\n- the team plan costs 12 EUR from now on\n- called the dentist\n",
    "memory/2026-03-03.md": "# Tuesday\n\n- the team plan costs 10 EUR\n- Rod has standup at 10\n",
    "memory/2026-03-03-standup.md": "# Standup\n\n- the release is late\n",
    "memory/2025-07-03.md": "- told the office about the trip to Lisbon\n",
    "memory/2025-06-15.md": "- the trip to Lisbon is booked\n",
    "memory/2025-02-10.md": "- the trip to Lisbon is over, the hotel was bad\n",
    "memory/dentist.md": "---\ndate: 2026-03-04\n---\n# Dentist\n\n- Dr Blau, 044 123\n",
    "MEMORY.md": "- my sister is Eva\n",
}


@pytest.fixture(name="filled")
def _filled(workspace: Workspace) -> Workspace:
    return fill(workspace, NOTES)


def fill(workspace: Workspace, notes: Mapping[str, str]) -> Workspace:
    for path, text in notes.items():
        workspace.write(path, text)
    return workspace


def paths(answer: SearchAnswer) -> list[str]:
    return [result.path.removeprefix("memory/") for result in answer]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("what happened yesterday?", ["2026-03-11.md"]),
        ("what did we do last week", ["dentist.md", "2026-03-03.md", "2026-03-03-standup.md"]),
        ("昨天发生了什么？", ["2026-03-11.md"]),
    ],
)
def test_a_question_about_a_time_only_lists_its_notes_the_newest_first(
    filled: Workspace, query: str, found: list[str]
) -> None:
    answer = filled.memory().search(query, now=NOW)
    assert paths(answer) == found
    assert {result.confidence for result in answer} == {"high"}


def test_a_date_lists_its_notes_before_what_its_words_find(filled: Workspace) -> None:
    filled.write("notes.md", "on 2026-03-03 the contract was signed\n")
    filled.configure("{memorySearch: {extraPaths: ['notes.md']}}")
    found = paths(filled.memory().search("2026-03-03", now=NOW))
    assert found[:3] == ["2026-03-03.md", "2026-03-03-standup.md", "notes.md"]


def test_the_users_day_is_that_of_the_users_time_zone(filled: Workspace) -> None:
    filled.configure("{agents: {defaults: {userTimezone: 'Asia/Tokyo'}}}")
    late = datetime(2026, 3, 11, 16, tzinfo=UTC)
    assert paths(filled.memory().search("yesterday", now=late)) == ["2026-03-11.md"]


def test_a_note_of_the_named_time_is_above_its_equals(filled: Workspace) -> None:
    memory = filled.memory()
    assert paths(memory.search("trip to Lisbon in June", now=NOW))[0] == "2025-06-15.md"
    assert paths(memory.search("trip to Lisbon in February 2025", now=NOW))[0] == "2025-02-10.md"
    answer = memory.search("what did the team plan cost last week", now=NOW, explain=True)
    assert paths(answer)[0] == "2026-03-03.md"
    assert [values_of(result)["time"] for result in answer][:2] == [0.1, 0.0]


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"since": "last week"}, {"2026-03-10.md", "2026-03-03.md"}),
        ({"since": date(2026, 3, 4)}, {"2026-03-10.md"}),
        ({"until": "2026-03-09"}, {"2026-03-03.md"}),
        ({"since": "9 days ago", "until": "9 days ago"}, {"2026-03-03.md"}),
    ],
)
def test_a_search_can_be_limited_to_days(
    filled: Workspace, mode: str, limits: dict[str, object], found: set[str]
) -> None:
    answer = filled.memory().search("team plan", now=NOW, mode=mode, max_results=2, **limits)  # type: ignore[arg-type]
    assert {path for path in paths(answer) if path in ("2026-03-10.md", "2026-03-03.md")} == found


def test_an_undated_note_is_limited_by_its_last_change(workspace: Workspace) -> None:
    import os

    workspace.write("memory/walrus.md", "the walrus sleeps\n")
    stamp = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
    os.utime(workspace.path / "memory/walrus.md", (stamp, stamp))
    memory = workspace.memory()
    assert len(memory.search("walrus", now=NOW, since="2026-03-01", until="2026-03-01")) == 1
    assert len(memory.search("walrus", now=NOW, since="2026-03-02")) == 0
