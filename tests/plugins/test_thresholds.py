"""When two memories are one: what differs in a digit or a negation is another fact, however close the vectors."""

import pytest

from benchmarks.memories import CHANGED
from mdrecall.plugins.lancedb.thresholds import same_fact, shared_words, thresholds_for
from mdrecall.types import Traits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I prefer dark mode", "i prefer the dark mode."),
        ("Always answer in German", "Please always answer in German!"),
        ("Ich mag Cafés", "ich mag cafes"),
        ("我喜欢深色模式", "我喜欢深色模式。"),
    ],
)
def test_case_accents_signs_and_small_words_make_no_other_fact(one: str, other: str) -> None:
    assert same_fact(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [*CHANGED, ("I was a vegetarian", "I am a vegetarian"), ("Tom owes Anna ten", "Anna owes Tom ten"), ("a.b", "a-b")],
)
def test_a_number_a_name_a_negation_or_an_order_makes_another_fact(one: str, other: str) -> None:
    assert not same_fact(one, other)


def test_the_cuts_lie_in_the_range_of_the_embedder() -> None:
    thresholds = thresholds_for(Traits(unrelated=0.5, related=0.9))
    assert 0.5 < thresholds.recall < thresholds.prompt < thresholds.candidate < thresholds.similar <= 0.9
    assert thresholds_for(Traits(unrelated=0.1, related=0.6)).recall == pytest.approx(0.2)


def test_shared_words_are_a_cosine() -> None:
    assert shared_words(frozenset("ab"), frozenset("ab")) == pytest.approx(1)
    assert shared_words(frozenset("ab"), frozenset("cd")) == 0
    assert shared_words(frozenset(), frozenset("a")) == 0
