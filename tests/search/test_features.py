"""Which terms of a query a text holds, whatever other texts were read before."""

from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import find_matches, find_stems, parse_query
from mdrecall.search.score import TermFinder, Weights, read_words, weigh
from mdrecall.text.markdown import split_passages
from mdrecall.text.words import Analyser, stem
from mdrecall.types.search import Match

WORDS = (
    "deploy", "Deploying", "DEPLOYED", "memorySearch", "search", "v1.2.3", "1", "2", "3", "to-do", "do", "東京都", "x",
)  # fmt: skip


class Finder:
    """A ``TermFinder`` that tells its terms instead of their bits."""

    def __init__(self, weights: Weights) -> None:
        self.finder, self._terms = TermFinder(weights, Analyser()), list(weights.by_term)

    def find(self, text: str) -> set[str]:
        held = self.find_bits(text)
        return {term for place, term in enumerate(self._terms) if held >> place & 1}

    def find_bits(self, text: str) -> int:
        return self.finder.add_names(self.finder.find_each([read_words(text)], [0])[0], text)


def finder_for(query: str) -> Finder:
    return Finder(weigh([Match(term, {1: 1.0}, 1) for term in parse_query(query) if not term.stop], 10))


def test_a_name_is_held_if_all_its_words_are_there_even_stop_words() -> None:
    finder = finder_for("to-do walrus")
    assert finder.find("what to buy, and what to do") == {"to-do"}
    assert finder.find("to-do") == {"to-do"}
    assert finder.find("do it") == set()


def test_the_words_of_an_identifier_must_be_side_by_side() -> None:
    matches = [Match(term, {1: 1.0}, 1) for term in parse_query("v1.2.3")]
    finder = Finder(weigh(matches, 10, frozenset({"v1.2.3"})))
    assert finder.find("we run v1 2 3 now") == {"v1", "2", "3", "v1.2.3"}
    assert finder.find("v1 has 2 faults and 3 fixes") == {"v1", "2", "3"}


def test_a_text_without_spaces_holds_a_term_in_the_passage_that_has_it() -> None:
    text = "我们在东京开会。" * 20 + "预算是九百万。" * 20
    passages = split_passages(text)
    terms = parse_query("预算")
    finder = TermFinder(weigh([Match(term, {1: 1.0}, 1) for term in terms], 10), Analyser())
    found = finder.find_each([read_words(text)], [passage.start for passage in passages])
    assert [bool(held) for held in found] == ["预算" in text[entry.start : entry.end] for entry in passages]


def test_a_name_may_have_many_underscores() -> None:
    matches = [Match(term, {1: 1.0}, 1) for term in parse_query("retry____limit")]
    finder = Finder(weigh(matches, 10, frozenset({"retry____limit"})))
    assert "retry____limit" in finder.find("we set retry____limit to 5")


def test_shares_are_of_the_weight_of_the_query() -> None:
    finder = finder_for("deploy search")
    shares = [finder.finder.shares[finder.find_bits(text)] for text in ("none of it", "search the deployed", "search")]
    assert shares[:2] == [0, 1]
    assert 0 < shares[2] < 1


NOTE = st.lists(st.sampled_from((
    "pool", "Pools", "POOLING", "limit.", "limitless", "db-pool", "poolLimit", "“pool”",
    "é", "Café", "İ", "猫", "\u3000", "\n\n", "\n- ", "# Plan\n", "x" * 300,
)))  # fmt: skip


@given(NOTE, st.sampled_from(("pool limit", "cafes", "lim", "i", "猫 pool")))
def test_a_passage_holds_the_terms_that_reading_all_its_words_gives(words: list[str], query: str) -> None:
    text, terms = " ".join(words), parse_query(query)
    weights = weigh([Match(term, {1: 1.0}, 1, is_loose) for term in terms for is_loose in (False, True)], 10)
    finder = Finder(weights)
    for _ in range(2):
        assert finder.find(text) == _read_terms(text, weights)


def _read_terms(text: str, weights: Weights) -> frozenset[str]:
    terms = Analyser().terms(text)
    begun = {one for one in weights.beginnings if any(term.startswith(one) for term in terms)}
    return (terms & weights.by_term.keys()) | begun


@given(st.lists(st.sampled_from((*WORDS, "go", "goes", "a", "studies", "study", "Hoping", "hoped", "hop"))))
def test_the_words_that_are_marked_are_those_with_a_stem_of_the_query(words: list[str]) -> None:
    stems = find_stems("deployed x study go hope")
    marked = [" ".join(words)[start:end] for start, end in find_matches(" ".join(words), stems)]
    plain = [word for word in words if word.isalnum() and word.isascii()]
    assert [word for word in marked if word in plain] == [word for word in plain if stem(word.lower()) in stems]
