"""Questions as word lists for an engine that wants every word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.extras.qmd.search import MAX_KEYWORDS, build_word_lists, extract_keywords


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("what did Ana say about the billing migration?", ["Ana", "billing", "migration"]),
        ("¿Cuándo es la reunión con María?", ["reunión", "María"]),
        ("DEC-0054", ["DEC-0054"]),
        ("where is memorySearch.query?", ['"memorysearch query"']),
        ("mail of james@cortexai.dev", ["mail", '"james cortexai dev"']),
        ("what's James Liu's email?", ["James", "Liu", "email"]),
        ("我", ["我"]),
        ("支付网关", ["支付", "付网", "网关"]),
        ("결제 이전", ["결제", "이전"]),
        ("QMD 升级", ["QMD", "升级"]),
        # A question of little words keeps them.
        ("to be or not to be", ["to", "be", "or", "not"]),
        # Leaving out alone cannot be asked, and a dash alone or inside a word leaves nothing out.
        ("-clean", ["clean"]),
        ("multi-agent - plan --verbose -5", ["multi-agent", "plan", "verbose", "5"]),
        *((nothing, []) for nothing in ("", "?!", '""', "-")),
    ],
)
def test_only_what_tells_something_is_looked_up(question: str, words: list[str]) -> None:
    assert extract_keywords(question) == (words, [], [])
    assert bool(build_word_lists(words, [], [])) == bool(words)


def test_what_is_quoted_or_left_out_stands_in_every_list() -> None:
    asked = extract_keywords('postponed "billing  migration" -ana -"old plan"')
    assert asked == (["postponed"], ['"billing migration"'], ['-"old plan"', "-ana"])
    assert build_word_lists(*asked) == [
        '"billing migration" postponed -"old plan" -ana',
        '"billing migration" -"old plan" -ana',
    ]


def test_the_fullest_list_comes_first_and_each_word_alone_last() -> None:
    lists = build_word_lists(["a1", "b2", "c3"], [], [])
    assert lists == ["a1 b2 c3", "b2 c3", "a1 c3", "a1 b2", "a1", "b2", "c3"]
    assert build_word_lists(["a1", "b2"], [], []) == ["a1 b2", "a1", "b2"]
    assert build_word_lists(["a1"], [], []) == ["a1"]


def test_a_long_question_gives_no_more_than_its_longest_words() -> None:
    asked = extract_keywords(" ".join(f"word{'x' * number}" for number in range(40)))
    assert len(asked[0]) == MAX_KEYWORDS
    assert len(build_word_lists(*asked)) == MAX_KEYWORDS + 1


@given(st.text())
def test_every_list_is_one_line_with_its_quotes_closed_and_something_to_find(question: str) -> None:
    for line in build_word_lists(*extract_keywords(question)):
        assert line.count('"') % 2 == 0
        assert len(line.splitlines()) == 1
        assert not all(word.startswith("-") for word in line.split())
