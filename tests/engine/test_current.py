"""A changed fact in a real search: the newer line comes first, and the older one is still cited."""

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from mdrecall.memory import Memory
from mdrecall.notes.repository import read_line_days
from mdrecall.types.search import SearchAnswer
from tests.conftest import Workspace
from tests.text.changed_facts import CHANGED, GROUP, NOT_CHANGED, Pair

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
FIRST_OLD, FIRST_NEW = date(2026, 1, 5), date(2026, 5, 4)


def name_note(first: date, place: int) -> str:
    return f"memory/{first + timedelta(days=place)}.md"


@pytest.fixture(name="notebook")
def _notebook(workspace: Workspace) -> Memory:
    """One memory with every pair: the older line months before the newer one, each beside lines of other matters."""
    for place, pair in enumerate(CHANGED):
        other, another = NOT_CHANGED[place]
        workspace.write(name_note(FIRST_OLD, place), f"# Notes\n\n- {other}\n- {pair.old}\n")
        workspace.write(name_note(FIRST_NEW, place), f"# Notes\n\n- {pair.new}\n- {another}\n")
    return workspace.memory()


def find_places(answer: SearchAnswer, pair: Pair, place: int) -> tuple[int, int]:
    """Return the places of the newer and the older line among the results; 99 for one that is not there."""
    paths = [result.path for result in answer]
    new, old = name_note(FIRST_NEW, place), name_note(FIRST_OLD, place)
    return paths.index(new) if new in paths else 99, paths.index(old) if old in paths else 99


def ask(memory: Memory, places: Sequence[int]) -> list[str]:
    """Return what is wrong with the answers about pairs."""
    wrong = []
    for place in places:
        pair = CHANGED[place]
        new, old = find_places(memory.search(pair.query, now=NOW), pair, place)
        if new > old or new != 0 or old == 99:
            wrong.append(f"{pair.query}: the newer is at {new}, the older at {old}")
    return wrong


@pytest.mark.parametrize("first", [0, GROUP, 2 * GROUP], ids=("open", "held-back", "one-word"))
def test_the_newer_of_a_changed_fact_is_first_and_both_are_cited(notebook: Memory, first: int) -> None:
    wrong = ask(notebook, range(first, first + GROUP))
    assert len(wrong) <= GROUP * 0.1, wrong


MARK = "<!-- status: superseded | by: memory/new.md | on: 2026-05-01 -->"


def test_a_marked_line_comes_after_what_replaces_it_and_after_its_equals(workspace: Workspace) -> None:
    workspace.write("memory/old.md", f"- the harbour gate code is 4471 {MARK}\n- the weather was fine\n")
    workspace.write("memory/new.md", "- harbour gate code since May: see the blue book\n")
    workspace.write("memory/other.md", "- the harbour gate code was asked for by Tom\n")
    answer = workspace.memory().search("harbour gate code", now=NOW)
    assert answer[-1].path == "memory/old.md"
    assert (answer[-1].superseded, answer[-1].superseded_by) == (True, "memory/new.md")
    assert "4471" in answer[-1].snippet
    assert "weather" not in answer[-1].snippet


def test_the_older_value_is_named_beside_the_newer_one(workspace: Workspace) -> None:
    workspace.write("memory/2026-02-10.md", "# Gym\n\n- Open late.\n- The **gym** membership costs 39 EUR a month.\n")
    workspace.write("memory/2026-06-10.md", "- The gym membership costs 45 EUR a month.\n")
    workspace.write("memory/2026-06-11.md", "- The gym has a new pool.\n")
    first, second, *_ = workspace.memory().search("what does the gym membership cost", now=NOW)
    assert (first.path, first.was) == ("memory/2026-06-10.md", "39 until 2026-06-10 (memory/2026-02-10.md#L4)")
    assert (second.path, second.was) == ("memory/2026-02-10.md", "")


# An older and a newer line that answer one question in words of their own.
ANEW = (
    ("Croissants sell for 2.40", "Croissants are 2.60 from today", "What do croissants cost?"),
    ("A croissant costs 2.40 euros", "Croissants: 2.60 each from today", "What does a croissant cost?"),
    ("Cello lesson with Mrs Adeyemi is 42 euros, cash.", "Mrs Adeyemi: 48 per cello lesson, bank transfer only",
     "What does a cello lesson cost?"),
    ("Standup is at 9:30 on weekdays.", "Standup at 10:00, with the door open", "When is the standup?"),
    ("Mira swims on Wednesdays at 16:00 (city pool)", "Mira's swimming is on Fridays at 17:00 now, in the north.",
     "When does Mira swim?"),
    ("Proben dienstags um 19:30 im Pfarrsaal", "Die Proben sind ab Juni donnerstags um 20 Uhr, im Gasthaus.",
     "Wann sind die Proben?"),
    ("Vereinsbeitrag: 120 Euro, fällig im März", "Der Vereinsbeitrag steigt im Juli auf 135 Euro je Person.",
     "Wie viel kostet der Vereinsbeitrag?"),
    ("工会会费：每人三十元，年底交", "会费从七月起每人四十元，可以用手机交。", "会费是多少？"),
)  # fmt: skip
# The newer line has the words of the question, and a number of something else.
BESIDE = (
    ("Croissants sell for 2.40", "Ordered 40 croissants for Sunday.", "What do croissants cost?"),
    ("Rent of the shop: 1,850 euros", "Rent of the shop paid on the 3rd.", "How much is the rent of the shop?"),
    ("The choir has 27 members.", "The choir of the neighbours has 40 seats.", "How many members does the choir have?"),
    ("The oak table did cost 300 euros.", "An oak table costs 500 euros today.", "How much did the oak table cost?"),
)


@pytest.mark.parametrize(("old", "new", "query"), [*ANEW, *BESIDE])
def test_the_newer_of_two_numbers_that_a_question_asks_for_is_first(
    workspace: Workspace, old: str, new: str, query: str
) -> None:
    workspace.write("memory/2026-02-10.md", f"- {old}\n- the lamp is new\n")
    workspace.write("memory/2026-06-10.md", f"- {new}\n- the door was painted\n")
    expected = "memory/2026-06-10.md" if (old, new, query) in ANEW else "memory/2026-02-10.md"
    assert workspace.memory().search(query, now=NOW)[0].path == expected


@pytest.mark.parametrize("question", ["where does Clara live?", "Wo wohnt Clara?"])
def test_where_somebody_moved_to_is_where_they_live(workspace: Workspace, question: str) -> None:
    workspace.write("MEMORY.md", "# Long-term memory\n\n- My sister Clara lives in Porto and works as a vet.\n")
    workspace.write("memory/2026-05-10.md", "# Notes\n\n- Clara moved to Lisbon last week.\n- Paid the gym.\n")
    found = workspace.memory().search(question, now=NOW)
    assert [result.path for result in found] == ["memory/2026-05-10.md", "MEMORY.md"]


def test_an_entry_that_the_index_saw_coming_is_newer_than_an_older_note(workspace: Workspace) -> None:
    changed = NOW.timestamp()
    workspace.write("memory/2026-06-10.md", "- The shop belongs to Hugo Marin.\n")
    workspace.write("MEMORY.md", "# Facts\n\n- The office is closed on Mondays.\n")
    memory = workspace.memory()
    memory.sync()
    workspace.write("MEMORY.md", "# Facts\n\n- The office is closed on Mondays.\n- The shop belongs to Rosa Marin.\n")
    os.utime(workspace.path / "MEMORY.md", (changed, changed))
    question = "who does the shop belong to"
    first = memory.search(question, now=NOW)[0]
    assert (first.path, first.was) == ("MEMORY.md", "Hugo until 2026-08-01 (memory/2026-06-10.md#L1)")
    # Built again from the notes, the index knows it still.
    memory.sync(force=True)
    assert memory.search(question, now=NOW)[0].path == "MEMORY.md"
    workspace.write("memory/2026-09-10.md", "- The shop belongs to Ida Marin.\n")
    assert memory.search(question, now=NOW + timedelta(days=60))[0].path == "memory/2026-09-10.md"


def test_the_age_of_an_entry_is_that_of_its_commit(workspace: Workspace) -> None:
    def commit(day: str) -> None:
        times = {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
        names = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
        for command in (["init", "-q"], ["add", "-A"], [*names, "commit", "-qm", day]):
            subprocess.run(["git", *command], cwd=workspace.path, env={**os.environ, **times}, check=True)

    entries = ["# Facts", "", "- The rent of the flat is 900 EUR.", "- The office key is at Rosa's.", ""]
    workspace.write("MEMORY.md", "\n".join(entries))
    commit("2026-01-10")
    entries[3] = "- The shop belongs to Rosa Marin."
    workspace.write("MEMORY.md", "\n".join(entries))
    commit("2026-07-01")
    workspace.write("memory/2026-06-10.md", "- The shop belongs to Hugo Marin.\n- The rent of the flat is 950 EUR.\n")
    memory = workspace.memory()
    assert memory.search("who does the shop belong to", now=NOW)[0].path == "MEMORY.md"
    # What the first commit holds may be much older than that.
    assert memory.search("how much is the rent of the flat", now=NOW)[0].path == "memory/2026-06-10.md"


def test_no_program_of_a_repository_is_run_for_the_age_of_a_line(tmp_path: Path) -> None:
    def git(*command: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=tmp_path, check=True)

    git("init", "-q")
    for text in ("- a\n", "- a\n- b\n"):
        (tmp_path / "MEMORY.md").write_text(text)
        git("add", "-A")
        git("commit", "-qm", "x")
    (tmp_path / ".git" / "info" / "attributes").write_text("*.md diff=x filter=x\n")
    for key in ("diff.x.textconv", "filter.x.clean", "filter.x.smudge", "core.fsmonitor"):
        git("config", key, f"touch {tmp_path}/ran; cat")
    assert list(read_line_days(str(tmp_path), "MEMORY.md")) == ["- b"]
    assert not (tmp_path / "ran").exists()
    assert read_line_days(str(tmp_path / "none"), "MEMORY.md") == read_line_days(str(tmp_path), "none.md") == {}
