import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.core.ranking.query import parse_query
from mdrecall.core.ranking.score import Weights, weigh
from mdrecall.core.ranking.snippet import MAX_SNIPPET_UNITS, best_passage, cut_units, snippet_around, utf16_units
from mdrecall.core.text.words import Analyser
from mdrecall.types import Match


def weights_for(query: str) -> Weights:
    return weigh([Match(term, {1: 0.5}, 1) for term in parse_query(query)], 50)


def snippet_for(text: str, query: str) -> str:
    return snippet_around(text, best_passage(text, weights_for(query), Analyser()))


def test_the_snippet_shows_the_match_however_deep_in_the_chunk_it_is() -> None:
    lines = [f"filler line number {number} with nothing in it" for number in range(60)]
    lines[47] = "the recovery code is ZX-00007-129"
    text = "\n".join(lines)
    passage = best_passage(text, weights_for("recovery code ZX-00007-129"), Analyser())
    assert (passage.first_line, passage.last_line) == (47, 47)
    snippet = snippet_around(text, passage)
    assert "ZX-00007-129" in snippet
    before, after = snippet.split("the recovery code is ZX-00007-129")
    assert abs(before.count("\n") - after.count("\n")) <= 1


def test_the_snippet_shows_a_match_inside_a_very_long_line() -> None:
    text = "nothing here. " * 400 + "The canary is called Pip. " + "nothing there. " * 400
    snippet = snippet_for(text, "canary Pip")
    assert "canary is called Pip" in snippet
    assert utf16_units(snippet) <= MAX_SNIPPET_UNITS


def test_two_lines_that_together_hold_the_query_beat_one_that_repeats_a_word() -> None:
    text = "pool pool pool pool\n\nwe changed the database\nand its pool size"
    passage = best_passage(text, weights_for("database pool"), Analyser())
    assert (passage.first_line, passage.last_line) == (2, 3)


def test_a_name_written_with_spaces_is_a_match_for_the_name() -> None:
    passage = best_passage("nothing\nsee DEC 0054 there", weights_for("DEC-0054"), Analyser())
    assert passage.first_line == 1
    assert passage.coverage > 0.99


def test_a_text_without_a_match_gives_its_beginning() -> None:
    assert snippet_for("first line\nsecond line", "zebra") == "first line\nsecond line"


def test_lines_of_a_passage_that_do_not_fit_are_left_out_whole() -> None:
    text = "one one one\ntwo pool\nsix data\nten ten ten"
    passage = best_passage(text, weights_for("pool data"), Analyser())
    assert (passage.first_line, passage.last_line) == (1, 2)
    assert snippet_around(text, passage, max_units=17) == "two pool\nsix data"
    assert snippet_around(text, passage, max_units=16) == "two pool"


@pytest.mark.parametrize("query", ["pool", "pool data"])
def test_the_first_line_of_a_passage_is_cut_if_even_it_does_not_fit(query: str) -> None:
    text = "one\ntwo\nthe size of the pool\nand its data\nten"
    passage = best_passage(text, weights_for(query), Analyser())
    assert passage.first_line == 2
    assert snippet_around(text, passage, max_units=8) == "the size"


def test_lengths_count_astral_characters_twice_and_cuts_never_split_them() -> None:
    assert utf16_units("a😀") == 3
    assert cut_units("😀😀😀", 5) == "😀😀"


@given(
    st.lists(st.text("pool data x😀東\t", max_size=400), max_size=30),
    st.sampled_from(["pool", "data x", "東", "zebra"]),
)
def test_a_snippet_is_a_piece_of_the_text_within_its_bound(lines: list[str], query: str) -> None:
    text = "\n".join(lines)
    snippet = snippet_for(text, query)
    assert snippet in text
    assert utf16_units(snippet) <= MAX_SNIPPET_UNITS
