import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.errors import QueryError
from mdrecall.memory import Memory
from tests.conftest import Workspace, examples, values_of


def test_a_natural_question_finds_the_note_that_answers_it(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "We decided to put PgBouncer in front of Postgres.\n")
    workspace.write("memory/b.md", "The weather was fine and we had lunch in the park.\n")
    answer = workspace.memory().search("what did we decide about pgbouncer and where is it?")
    assert answer[0].path == "memory/a.md"


def test_stop_words_are_looked_up_if_nothing_else_of_the_query_is_found(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "To be or not to be.\n")
    workspace.write("memory/b.md", "Lunch.\n")
    memory = workspace.memory()
    for query in ("to be or not to be", "to be a zyxwvut"):
        assert [result.path for result in memory.search(query, mode="keyword", min_score=0)] == ["memory/a.md"]


def test_the_heading_above_the_match_is_given(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "# Plan\n\n## Easter\n\ngift wrapping\n\n## Summer\n\nparasols\n")
    memory = workspace.memory()
    assert memory.search("wrapping")[0].heading == "Plan › Easter"
    assert memory.search("parasols")[0].heading == "Plan › Summer"


def test_a_question_with_a_date_finds_the_note_of_that_day(workspace: Workspace) -> None:
    for day in range(1, 29):
        workspace.write(f"memory/2026-02-{day:02d}.md", "we had a meeting about the budget\n")
    assert workspace.memory().search("budget meeting on February 17")[0].path == "memory/2026-02-17.md"


def test_exact_ids_come_first_among_hundreds_of_similar_notes(workspace: Workspace) -> None:
    draw = random.Random(7)
    for day in range(365):
        ids = " ".join(f"TCK-{draw.randint(0, 99999):05d}" for _ in range(3))
        name = f"memory/{2025 - day // 336}-{day // 28 % 12 + 1:02d}-{day % 28 + 1:02d}.md"
        talk = "the ticket was discussed at length\n" * 8
        workspace.write(name, f"# Day\n\n{talk}\nclosed ZX-{day:05d} and {ids}\n")
    memory = workspace.memory()
    for day in range(0, 365, 7):
        best = memory.search(f"recovery ticket ZX-{day:05d}", max_results=1)[0]
        assert f"ZX-{day:05d}" in best.snippet


def test_repeating_a_common_word_does_not_beat_holding_the_rare_one(workspace: Workspace) -> None:
    workspace.write("memory/rare.md", "a long note " * 60 + "with the word walrus in it and one pool")
    for number in range(30):
        workspace.write(f"memory/{number}.md", "pool " * 50)
    results = workspace.memory().search("pool walrus", min_score=0).results
    assert results[0].path == "memory/rare.md"
    assert results[0].score >= 0.7 > results[1].score


@pytest.mark.parametrize("count", [5, 1500])
def test_a_score_means_the_same_in_small_and_large_workspaces(workspace: Workspace, count: int) -> None:
    workspace.write("memory/right.md", "the recovery code of the vault is hidden under the stone\n")
    for number in range(count):
        workspace.write(f"memory/{number}.md", f"note {number} about the weather and lunch code\n")
    answer = workspace.memory().search("recovery code vault", min_score=0)
    assert answer[0].score == pytest.approx(0.955, abs=0.01)
    assert answer[1].score < 0.5


def test_results_are_sorted_bounded_and_the_same_every_time(workspace: Workspace) -> None:
    for number in range(40):
        workspace.write(f"memory/{number:02d}.md", f"pool database {'pool ' * (number % 5)} filler {number}\n")
    memory = workspace.memory()
    first = memory.search("pool database", max_results=20)
    scores = [result.score for result in first]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert [r.path for r in first] == [r.path for r in memory.search("pool database", max_results=20)]
    memory.sync(force=True)
    assert [r.path for r in first] == [r.path for r in memory.search("pool database", max_results=20)]


def test_max_results_and_min_score_are_kept(workspace: Workspace) -> None:
    for number in range(10):
        workspace.write(f"memory/{number}.md", "pool")
    memory = workspace.memory()
    assert len(memory.search("pool")) == 10
    assert len(memory.search("pool", max_results=2)) == 2
    assert memory.search("pool", min_score=1.0).reason == "below_min_score"


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_a_blank_query_is_an_error(workspace: Workspace, query: str) -> None:
    workspace.write("MEMORY.md", "text")
    with pytest.raises(QueryError, match="blank"):
        workspace.memory().search(query)


def test_an_empty_answer_says_why_and_what_to_do(workspace: Workspace) -> None:
    empty = workspace.memory().search("anything")
    assert (empty.reason, "no Markdown file" in empty.action) == ("index_empty", True)
    workspace.write("MEMORY.md", "walrus and penguin on the ice")
    memory = workspace.memory()
    assert memory.search("zebra", mode="keyword").reason == "no_match"
    assert memory.search("!!! ???").reason == "no_searchable_words"
    low = memory.search("walrus zebra giraffe lion tiger", min_score=0.95)
    assert low.reason == "below_min_score"
    assert "MEMORY.md#L1" in low.action
    far = memory.search("quarterly revenue")
    assert far.reason in ("no_match", "below_min_score")
    assert all(answer.action for answer in (memory.search("zebra", mode="keyword"), memory.search("!!!"), low, far))


def test_an_empty_workspace_with_a_memory_folder_says_where_to_write(workspace: Workspace) -> None:
    (workspace.path / "memory").mkdir()
    answer = workspace.memory().search("anything")
    assert "There is no Markdown file" in answer.action


def test_a_workspace_whose_only_note_is_a_link_says_so(workspace: Workspace) -> None:
    (workspace.path / "MEMORY.md").symlink_to("/dev/null")
    answer = workspace.memory().search("anything")
    assert "symbolic link" in answer.action


def test_explanations_name_the_terms_and_what_is_missing(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "the walrus sleeps")
    terms = values_of(workspace.memory().search("walrus zebra", explain=True)[0])["terms"]
    assert {term["term"]: term["held"] for term in terms} == {"walrus": True, "zebra": False}
    assert workspace.memory().search("walrus")[0].why == ()


def test_without_sync_on_search_the_index_is_used_as_it_is(workspace: Workspace) -> None:
    workspace.configure("{memorySearch: {sync: {onSearch: false}}}")
    workspace.write("MEMORY.md", "walrus")
    memory = workspace.memory()
    assert not memory.search("walrus").results
    memory.sync()
    assert memory.search("walrus").results


@pytest.fixture
def asked(workspace: Workspace) -> Memory:
    """A memory that indexes nothing while it is asked."""
    workspace.write("MEMORY.md", "alpha beta NEAR gamma AND delta")
    workspace.configure("{memorySearch: {sync: {onSearch: false}}}")
    memory = workspace.memory()
    memory.sync()
    return memory


SYNTAX = st.text("ab \"'*()^:-+ANDORNOTNEAR{}[]~%\\;", max_size=40)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(query=st.one_of(SYNTAX, st.text(max_size=60)))
def test_no_query_is_an_error_but_a_blank_one(asked: Memory, query: str) -> None:
    if query.strip():
        answer = asked.search(query)
        assert answer.results or answer.reason


def test_words_beyond_the_row_budget_keep_their_true_weight(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.store.common.ROW_BUDGET", 20)
    workspace.write("memory/both.md", "zebra quagga")
    workspace.write("memory/one.md", "zebra project plan budget. project plan budget.")
    workspace.write("memory/other.md", "zebra")
    for number in range(120):
        workspace.write(f"memory/{number:03d}.md", "project plan budget" if number % 5 < 3 else "lunch")
    results = workspace.memory().search("zebra quagga project plan budget", explain=True, min_score=0).results
    assert results[0].path == "memory/both.md"
    weights = {term["term"]: term["weight"] for term in values_of(results[0])["terms"]}
    assert weights["project"] < weights["zebra"] / 3


def test_a_comment_in_a_fence_is_not_the_heading_of_a_result(workspace: Workspace) -> None:
    code = "\n".join(f"value_{number} = {number}  # filler" for number in range(150))
    workspace.write(
        "memory/a.md", f"# Real\n\n```python\n# walrus comment\n{code}\n# near the end\nzebra = 1\n```\n\nquagga\n"
    )
    memory = workspace.memory()
    for query in ("zebra", "quagga", "walrus"):
        assert memory.search(query)[0].heading == "Real"


def test_equal_notes_rank_alike_whatever_was_indexed_first(workspace: Workspace) -> None:
    for number in range(60):
        workspace.write(f"memory/n{number:03d}.md", "zebra note")
    memory = workspace.memory()
    fresh = [result.path for result in memory.search("zebra note")]
    for number in range(20):
        workspace.write(f"memory/n{number:03d}.md", "something else")
    memory.sync()
    for number in range(20):
        workspace.write(f"memory/n{number:03d}.md", "zebra note")
    assert [result.path for result in memory.search("zebra note")] == fresh


def test_of_a_very_long_query_only_the_beginning_is_embedded(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "the walrus sleeps")
    memory = workspace.memory()
    long = "walrus " + "ice " * 2_000
    assert memory.search(long + "and more " * 100_000, min_score=0).results == memory.search(long, min_score=0).results


@pytest.mark.parametrize(
    ("typed", "found"),
    [("kuberentes", True), ("electrcity", True), ("xlectricity", False), ("strem", False)],
)
def test_a_word_that_no_note_holds_may_be_misspelt(workspace: Workspace, typed: str, found: bool) -> None:
    workspace.write("memory/a.md", "Kubernetes needs electricity from the stream\n")
    workspace.write("memory/b.md", "lunch with Ana\n")
    answer = workspace.memory().search(typed, mode="keyword")
    assert [result.path for result in answer] == (["memory/a.md"] if found else [])
