"""Several memories as one answer: order, names, repeated passages, failures, and why nothing was found."""

import pytest

from mdrecall.errors import QueryError, RecallError, StoreError
from mdrecall.search.results import join_sources, merge_memories
from mdrecall.types.documents import Issue, SourceName
from mdrecall.types.search import MemoryReport, Reason, SearchAnswer, SearchResult, confidence_of


def result(path: str, score: float, *, line: int = 1, source: SourceName = "memory") -> SearchResult:
    return SearchResult(path, line, line, score, f"text of {path}", source, line, line, "", (), confidence_of(score))


def answer(*results: SearchResult, reason: Reason = "", action: str = "", stale: str = "") -> SearchAnswer:
    return SearchAnswer(results, reason=reason, action=action, stale=stale)


def order(found: SearchAnswer) -> list[tuple[str, str]]:
    return [(each.workspace, each.path) for each in found]


def test_the_best_of_all_come_first_and_equals_by_name() -> None:
    outcomes = {
        "z": answer(result("one.md", 0.9), result("two.md", 0.4)),
        "a": answer(result("three.md", 0.9), result("four.md", 0.6)),
    }
    found = merge_memories(outcomes, 3, {})
    assert order(found) == [("a", "three.md"), ("z", "one.md"), ("a", "four.md")]
    assert found.memories == (MemoryReport("z", 1), MemoryReport("a", 2))


def test_no_result_comes_before_one_that_its_own_memory_has_put_above_it() -> None:
    outcomes = {"a": answer(result("new.md", 0.5), result("superseded.md", 0.9)), "b": answer(result("other.md", 0.7))}
    assert order(merge_memories(outcomes, 9, {})) == [("b", "other.md"), ("a", "new.md"), ("a", "superseded.md")]


def test_memories_of_one_place_show_a_note_once_but_each_its_own_transcripts() -> None:
    both = answer(result("MEMORY.md", 0.8), result("sessions/talk.jsonl", 0.7, source="sessions"))
    found = merge_memories({"a": both, "b": both}, 9, {"a": "/notes", "b": "/notes"})
    talk = "sessions/talk.jsonl"
    assert order(found) == [("a", "MEMORY.md"), ("a", talk), ("b", talk)]
    assert len(merge_memories({"a": both, "b": both}, 9, {"a": "/notes", "b": "/other"})) == 4


def test_one_that_fails_does_not_stop_the_others_and_its_reason_is_told() -> None:
    damaged = StoreError("The index is damaged.", hint="Rebuild it.")
    found = merge_memories({"a": damaged, "b": answer(result("b.md", 0.3))}, 9, {})
    assert order(found) == [("b", "b.md")]
    assert found.memories[0] == MemoryReport("a", error="The index is damaged.", action="Rebuild it.")


def test_if_all_fail_the_error_is_raised() -> None:
    with pytest.raises(QueryError, match="empty"):
        merge_memories({"a": QueryError("The query is empty."), "b": QueryError("The query is empty.")}, 9, {})
    with pytest.raises(RecallError, match=r"None of the memories.* a: Damaged\. b: Switched off\."):
        merge_memories({"a": StoreError("Damaged."), "b": RecallError("Switched off.")}, 9, {})


def test_an_empty_answer_says_why_for_each_memory() -> None:
    outcomes = {
        "a": answer(reason="index_empty", action="Write a note."),
        "b": answer(reason="below_min_score", action="Lower it."),
    }
    found = merge_memories(outcomes, 9, {})
    assert (found.reason, found.action) == ("below_min_score", "a: Write a note. b: Lower it.")
    assert found.memories == (
        MemoryReport("a", 0, "index_empty", "Write a note."),
        MemoryReport("b", 0, "below_min_score", "Lower it."),
    )
    same = {
        "a": answer(reason="no_match", action="Other words."),
        "b": answer(reason="no_match", action="Other words."),
    }
    assert merge_memories(same, 9, {}).action == "Other words."


def test_what_limits_one_memory_is_told_with_its_name() -> None:
    limited = answer(result("a.md", 0.5), stale="2 files have changed.").replace(
        issues=(Issue("x.md", "x.md is too large"), Issue("y.md", "is not Unicode"))
    )
    found = merge_memories({"a": limited, "b": answer(reason="no_match", action="Other words.")}, 9, {})
    assert (found.stale, found.reason, found.action) == ("a: 2 files have changed.", "", "")
    assert found.issues == (Issue("a: x.md", "a: x.md is too large"), Issue("a: y.md", "is not Unicode"))
    assert found.memories[1].reason == "no_match"


def test_if_neither_notes_nor_conversations_hold_it_the_notes_say_why() -> None:
    empty = answer(reason="no_match", action="Try other words.")
    assert join_sources(empty, answer(reason="index_empty"), 3) == empty
