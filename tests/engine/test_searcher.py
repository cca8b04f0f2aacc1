import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.memory import Memory
from tests.conftest import Workspace, examples


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


@pytest.mark.parametrize(
    ("typed", "found"), [("kuberentes", True), ("electrcity", True), ("xlectricity", False), ("strem", False)]
)
def test_a_word_that_no_note_holds_may_be_misspelt(workspace: Workspace, typed: str, found: bool) -> None:
    workspace.write("memory/a.md", "Kubernetes needs electricity from the stream\n")
    workspace.write("memory/b.md", "lunch with Ana\n")
    answer = workspace.memory().search(typed, mode="keyword")
    assert [result.path for result in answer] == (["memory/a.md"] if found else [])
