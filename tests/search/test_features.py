"""Which terms of a query a text holds, whatever other texts were read before."""

from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import parse_query
from mdrecall.search.score import TermFinder, TextMemory, Weights, weigh
from mdrecall.text.markdown import split_passages
from mdrecall.text.words import Analyser
from mdrecall.types.search import Match

WORDS = (
    "deploy",
    "Deploying",
    "DEPLOYED",
    "memorySearch",
    "search",
    "v1.2.3",
    "1",
    "2",
    "3",
    "to-do",
    "do",
    "東京都",
    "x",
)


def finder_for(query: str) -> TermFinder:
    matches = [Match(term, {1: 1.0}, 1) for term in parse_query(query) if not term.stop]
    return TermFinder(weigh(matches, 10), Analyser())


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=4))
def test_the_words_that_a_text_holds_are_those_among_its_terms(texts: list[list[str]]) -> None:
    wanted = {"deploy", "search", "x"}
    finder = finder_for("deploy search x")
    for written in texts:
        text = " ".join(written)
        assert finder.find(text) == Analyser().terms(text) & wanted


PIECES = (*WORDS, "un-deploy", "deploy_key", "redeploy", "x-ray", "c++", "\n", "\n\n", "# ", "- ", ". ", "word " * 30)


@given(
    st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(["deploy search x", "v1.2.3 deploy", "東京都 x"])
)
def test_passages_hold_the_same_together_and_one_by_one(pieces: list[str], query: str) -> None:
    text = " ".join(pieces)
    passages = split_passages(text)
    each = finder_for(query).find_each(text, passages)
    assert each == [finder_for(query).find(text[entry.start : entry.end]) for entry in passages]


def test_a_name_is_held_if_all_its_words_are_there_even_stop_words() -> None:
    finder = finder_for("to-do walrus")
    assert finder.find("what to buy, and what to do") == {"to-do"}
    assert finder.find("to-do") == {"to-do"}
    assert finder.find("do it") == set()


def test_the_words_of_an_identifier_must_be_side_by_side() -> None:
    matches = [Match(term, {1: 1.0}, 1) for term in parse_query("v1.2.3")]
    finder = TermFinder(weigh(matches, 10, frozenset({"v1.2.3"})), Analyser())
    assert finder.find("we run v1 2 3 now") == {"v1", "2", "3", "v1.2.3"}
    assert finder.find("v1 has 2 faults and 3 fixes") == {"v1", "2", "3"}


def test_shares_are_of_the_weight_of_the_query() -> None:
    finder = finder_for("deploy search")
    assert finder.share(finder.find("nothing of it")) == 0
    assert finder.share(finder.find("search the deployed")) == 1
    assert 0 < finder.share(finder.find("search")) < 1


NOTE = st.lists(
    st.sampled_from(
        (
            "pool",
            "Pools",
            "POOLING",
            "limit.",
            "limitless",
            "db-pool",
            "poolLimit",
            "“pool”",
            "é",
            "Café",
            "İ",
            "猫",
            "\u3000",
            "\n\n",
            "\n- ",
            "# Plan\n",
            "x" * 300,
        )
    )
)


@given(NOTE, st.sampled_from(("pool limit", "cafes", "lim", "i", "猫 pool")))
def test_a_passage_holds_the_terms_that_reading_all_its_words_gives(words: list[str], query: str) -> None:
    text, terms = " ".join(words), parse_query(query)
    weights = weigh([Match(term, {1: 1.0}, 1, is_loose) for term in terms for is_loose in (False, True)], 10)
    texts = TextMemory()
    for _ in range(2):
        passages = texts.split(text)
        found = TermFinder(weights, Analyser(), texts).find_each(text, passages)
        assert found == [_read_terms(text[entry.start : entry.end], weights) for entry in passages]


def _read_terms(text: str, weights: Weights) -> frozenset[str]:
    terms = Analyser().terms(text)
    begun = {one for one in weights.beginnings if any(term.startswith(one) for term in terms)}
    return (terms & weights.by_term.keys()) | begun


def test_only_so_much_text_is_remembered() -> None:
    texts = TextMemory()
    notes = [f"note {number} " + "word " * 20_000 for number in range(50)]
    passages = [texts.split(note) for note in notes]
    assert texts.split(notes[-1]) is passages[-1]
    assert texts.split(notes[0]) is not passages[0]
