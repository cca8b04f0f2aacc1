"""Stored text reaches a model as data: escaped, on one line, in a fence that it cannot leave."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mdrecall.extras.lancedb.memories import Match
from mdrecall.extras.lancedb.table import Row
from mdrecall.extras.lancedb.tools import escape, number_entries, relevant_block


def match(category: str, text: str, score: float = 0.5) -> Match:
    return Match(Row("", text, 0.7, category, 0.0, *[None] * 5), score)


def test_entities_are_those_of_openclaw() -> None:
    assert escape("""<b> & "x" 'y'""") == "&lt;b&gt; &amp; &quot;x&quot; &#39;y&#39;"


def test_entries_are_numbered_with_category_and_score() -> None:
    matches = [match("fact", "one", 0.614), match("other", "two", -0.1)]
    assert number_entries(matches, with_scores=True) == "1. [fact] one (61%)\n2. [other] two (0%)"
    assert number_entries(matches) == "1. [fact] one\n2. [other] two"


def test_without_memories_there_is_no_block() -> None:
    assert relevant_block([]) == ""


@given(st.lists(st.builds(match, st.text(), st.text()), min_size=1, max_size=4))
def test_no_memory_can_close_the_fence_or_pass_for_another_entry(entries: list[Match]) -> None:
    first, notice, *lines, last = relevant_block(entries).split("\n")
    assert (first, last) == ("<relevant-memories>", "</relevant-memories>")
    assert "untrusted" in notice
    assert len(lines) == len(entries)
    assert not any(sign in line for line in lines for sign in "<>\"'\r\x0b\x0c\x85\u2028")


def test_a_long_memory_is_cut_after_escaping_and_never_inside_an_entity() -> None:
    for length in range(2, 40):
        (line,) = number_entries([match("fact", "<&>" * 10)], length).splitlines()
        shown = line.removeprefix("1. [fact] ")
        assert len(shown) <= length
        assert shown.endswith("…")
        assert re.fullmatch(r"(?:&[a-z]+;)*…", shown)
    assert number_entries([match("fact", "short")], 5) == "1. [fact] short"
