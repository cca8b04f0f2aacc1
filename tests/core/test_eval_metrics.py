from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.core.eval_metrics import (
    Expectation,
    Reached,
    area_under_curve,
    best_rank,
    calibration_error,
    chars_until_shown,
    compare,
    figure,
    figure_names,
    means,
    rank_all,
    reliability,
)
from mdrecall.types import SearchResult
from tests.conftest import examples

CUTS = (1, 3, 6, 10)
NAMES = figure_names(CUTS)
FOUND, MISSED = Reached((1,)), Reached((None,))

ranks_of_a_question = st.lists(st.none() | st.integers(1, 12), min_size=1, max_size=4).map(tuple).map(Reached)
questions = st.lists(ranks_of_a_question, min_size=1, max_size=12)
pairs = st.lists(st.tuples(ranks_of_a_question, ranks_of_a_question), min_size=1, max_size=12)


def result(path: str, start: int, end: int) -> SearchResult:
    return SearchResult(path, start, end, 0.9, "", "memory", start, end, "")


@pytest.mark.parametrize(
    ("expected", "met"),
    [
        (Expectation("a.md"), True),
        (Expectation("b.md"), False),
        (Expectation("a.md", (1, 4)), False),
        (Expectation("a.md", (1, 5)), True),
        (Expectation("a.md", (6, 7)), True),
        (Expectation("a.md", (1, 99)), True),
        (Expectation("a.md", (9, 9)), True),
        (Expectation("a.md", (10, 10)), False),
        (Expectation("b.md", (6, 7)), False),
    ],
)
def test_an_expectation_is_met_by_its_file_or_by_a_result_that_overlaps_its_lines(
    expected: Expectation, met: bool
) -> None:
    assert expected.is_met_by(result("a.md", 5, 9)) is met


def test_an_expectation_is_cited_as_a_result_is() -> None:
    cited = [Expectation("a.md", lines).citation for lines in (None, (3, 3), (3, 9))]
    assert cited == ["a.md", "a.md#L3", "a.md#L3-L9"]


def test_each_expectation_has_the_place_where_it_is_first_met() -> None:
    results = [result("a.md", 1, 5), result("b.md", 1, 5), result("a.md", 6, 9), result("b.md", 6, 9)]
    expectations = [Expectation("b.md"), Expectation("a.md", (7, 7)), Expectation("c.md")]
    assert rank_all(expectations, results) == (2, 3, None)
    assert best_rank((2, 3, None)) == 2
    assert best_rank((None,)) is None


def test_the_figures_of_a_question() -> None:
    found = {name: figure(name, Reached((2, 5, None, None))) for name in NAMES}
    assert found == {
        "hit@1": 0, "hit@3": 1, "hit@6": 1, "hit@10": 1,
        "recall@1": 0, "recall@3": 0.25, "recall@6": 0.5, "recall@10": 0.5, "mrr": 0.5,
    }  # fmt: skip


def test_the_figures_are_named_once_in_order() -> None:
    assert figure_names([10, 1, 1]) == ["hit@1", "hit@10", "recall@1", "recall@10", "mrr"]
    assert figure_names([1], [4000, 200]) == ["hit@1", "recall@1", "mrr", "shown@200", "shown@4000"]


def test_the_mean_of_thirds_is_exact() -> None:
    assert means(["recall@1"], [Reached((1, None, None))] * 3)["recall@1"] == pytest.approx(1 / 3, abs=0)


@given(questions)
def test_every_figure_lies_between_0_and_1(asked: list[Reached]) -> None:
    assert all(0 <= value <= 1 for value in means(NAMES, asked).values())


@given(questions)
def test_hit_and_recall_never_fall_with_more_results_and_recall_is_never_above_hit(asked: list[Reached]) -> None:
    found = means(NAMES, asked)
    for kind in ("hit", "recall"):
        values = [found[f"{kind}@{cut}"] for cut in CUTS]
        assert values == sorted(values)
    assert all(found[f"recall@{cut}"] <= found[f"hit@{cut}"] for cut in CUTS)


@given(questions)
def test_mrr_lies_between_hit_at_1_and_being_found_at_all(asked: list[Reached]) -> None:
    found = means([*NAMES, "hit@12"], asked)
    assert found["hit@1"] <= found["mrr"] <= found["hit@12"]


@given(questions, st.randoms())
def test_the_order_of_the_questions_and_of_their_expectations_does_not_matter(
    asked: list[Reached], random: Random
) -> None:
    turned = [Reached(reached.ranks[::-1]) for reached in asked]
    random.shuffle(turned)
    assert means(NAMES, turned) == means(NAMES, asked)


@settings(max_examples=examples(5))
@given(questions)
def test_a_run_compared_with_itself_has_no_difference(asked: list[Reached]) -> None:
    for entry in compare(NAMES, asked, asked):
        assert (entry.difference, entry.low, entry.high, entry.could_be_chance) == (0, 0, 0, True)
        assert entry.first == entry.second


@settings(max_examples=examples(5))
@given(pairs)
def test_the_interval_lies_within_the_differences_of_the_questions(asked: list[tuple[Reached, Reached]]) -> None:
    first, second = [list(side) for side in zip(*asked, strict=True)]
    for entry in compare(NAMES, first, second):
        single = [figure(entry.figure, after) - figure(entry.figure, before) for before, after in asked]
        assert min(single) - 1e-9 <= entry.low <= entry.high <= max(single) + 1e-9
        assert entry.difference == pytest.approx(entry.second - entry.first)


@settings(max_examples=examples(5))
@given(pairs)
def test_the_interval_is_the_same_every_time(asked: list[tuple[Reached, Reached]]) -> None:
    first, second = [list(side) for side in zip(*asked, strict=True)]
    assert compare(NAMES, first, second) == compare(NAMES, first, second)


@pytest.mark.parametrize(("better", "chance"), [(1, True), (5, True), (6, False), (40, False)])
def test_a_gain_of_a_few_questions_could_be_chance_and_one_of_many_is_not(better: int, chance: bool) -> None:
    first = [MISSED] * better + [FOUND] * 20
    second = [FOUND] * len(first)
    (found,) = compare(["hit@1"], first, second)
    assert found.difference == pytest.approx(better / len(first))
    assert found.could_be_chance is chance


def test_gains_and_losses_that_balance_could_be_chance() -> None:
    (found,) = compare(["hit@1"], [MISSED] * 10 + [FOUND] * 10, [FOUND] * 11 + [MISSED] * 9)
    assert found.low < 0 < found.high
    assert found.could_be_chance


@pytest.mark.parametrize("gained", [True, False])
def test_an_interval_that_ends_at_zero_could_be_chance(gained: bool) -> None:
    worse = [MISSED] * 9 + [FOUND] * 3
    better = [FOUND] * 9 + [MISSED] * 3
    (found,) = compare(["hit@1"], worse, better) if gained else compare(["hit@1"], better, worse)
    assert (found.low if gained else found.high) == 0
    assert found.difference != 0
    assert found.could_be_chance


def test_changed_questions_are_counted_however_small_their_change() -> None:
    (found,) = compare(["mrr"], [Reached((2,))] * 6, [FOUND] * 6)
    assert not found.could_be_chance


def snippets(*texts: tuple[str, str]) -> list[SearchResult]:
    return [SearchResult(path, 1, 9, 0.9, text, "memory", 1, 9, "") for path, text in texts]


def until(line: str, text: str) -> int | None:
    return chars_until_shown("a.md", [line], snippets(("a.md", text)))


def test_the_snippets_are_read_in_order_until_the_line_is_shown() -> None:
    results = snippets(("a.md", "0123456789"), ("b.md", "abcdefghij"), ("a.md", "and klmnopqrst"))
    assert chars_until_shown("a.md", ["0123456789"], results) == 10
    assert chars_until_shown("a.md", ["klmnopqrst"], results) == 10 + 10 + 14
    assert chars_until_shown("a.md", ["klmnopqrst", "0123456789"], results) == 10
    assert chars_until_shown("a.md", ["abcdefghij"], results) is None
    assert chars_until_shown("b.md", ["abcdefghij"], results) == 20


def test_without_lines_any_snippet_of_the_file_shows_it() -> None:
    results = snippets(("a.md", "x" * 100), ("b.md", "y" * 100), ("c.md", "short"))
    assert [chars_until_shown(path, [], results) for path in ("a.md", "b.md", "c.md", "d.md")] == [60, 160, 205, None]


def test_a_line_is_shown_by_its_beginning_or_its_end() -> None:
    line = "- " + " ".join(f"word{number}" for number in range(40))
    assert until(line, "before " + line[2:62] + "…") == 66
    assert until(line, line[-60:]) == 60
    assert until(line, line[2:60]) is None
    assert until(line, line[-58:]) is None
    assert until(line, line[70:-70]) is None
    assert until("a  line\twith odd spaces", "a line  with odd spaces") == 22
    assert until("# A heading", "A heading") == 9


def test_a_line_of_a_few_characters_counts_only_where_there_is_no_longer_one() -> None:
    braces = snippets(("a.md", "}"))
    assert chars_until_shown("a.md", ["}", "the line that answers the question"], braces) is None
    assert chars_until_shown("a.md", ["}"], braces) == 1
    assert chars_until_shown("a.md", ["", "  "], braces) is None


def test_evidence_counts_if_it_is_shown_within_the_characters() -> None:
    reached = Reached((1, 2, None, None), (300, 4000, 4001, None))
    assert [figure(f"shown@{limit}", reached) for limit in (299, 300, 4000, 9000)] == [0, 0.25, 0.5, 0.75]


def test_the_area_under_the_curve_is_the_share_of_pairs_in_the_right_order() -> None:
    assert area_under_curve([0.9, 0.8], [0.1]) == 1
    assert area_under_curve([0.1], [0.9, 0.8]) == 0
    assert area_under_curve([0.5, 0.5], [0.5]) == 0.5
    assert area_under_curve([0.9, 0.3], [0.5, 0.3]) == (1 + 1 + 0 + 0.5) / 4
    assert area_under_curve([], [0.5]) is None
    assert area_under_curve([0.5], []) is None


@given(
    st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.9]), min_size=1), st.lists(st.sampled_from([0.2, 0.4, 1.0]), min_size=1)
)
def test_the_area_agrees_with_counting_the_pairs(higher: list[float], lower: list[float]) -> None:
    counted = sum((high > low) + (high == low) / 2 for high in higher for low in lower) / (len(higher) * len(lower))
    assert area_under_curve(higher, lower) == pytest.approx(counted)


def test_scores_that_say_how_often_they_are_right_have_no_calibration_error() -> None:
    answers = [(0.25, number < 1) for number in range(4)] + [(0.75, number < 3) for number in range(4)]
    table = reliability(answers)
    assert [(entry.low, entry.questions, entry.share_right) for entry in table] == [(0.2, 4, 0.25), (0.7, 4, 0.75)]
    assert calibration_error(table) == pytest.approx(0)
    assert calibration_error(reliability([(1.0, False), (1.0, False), (0.0, False), (0.05, False)])) == pytest.approx(
        (2 * 1 + 2 * 0.025) / 4
    )
    assert calibration_error([]) is None
