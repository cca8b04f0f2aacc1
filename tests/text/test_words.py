import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.text.words import Analyser, common_beginning, fold, is_plain, name_terms, stem, surface_words, tokens
from tests.text.test_index_terms import engine_terms


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("Café", "cafe"),
        ("CAFE\u0301", "cafe"),
        ("Zürich", "zurich"),
        ("Łódź", "lodz"),
        ("ＤＥＣ－００５４", "dec-0054"),
        ("Straße", "strasse"),
        ("Ærø", "aero"),
        ("שָׁלוֹם", "שלום"),
        ("が", "が"),
        ("ﾃﾞﾌﾟﾛｲ", "デプロイ"),
    ],
)
def test_accents_case_and_width_are_folded(written: str, folded: str) -> None:
    assert fold(written) == folded


@pytest.mark.parametrize(
    ("identifier", "whole", "parts"),
    [
        ("DEC-0054", "dec-0054", ["dec", "0054"]),
        ("src/db/pool.ts", "src/db/pool.ts", ["src", "db", "pool", "ts"]),
        ("memorySearch.query.hybrid", "memorysearch.query.hybrid", ["memorysearch", "query", "hybrid"]),
        ("alice@example.com", "alice@example.com", ["alice", "example", "com"]),
        ("v2026.4.10", "v2026.4.10", ["v2026", "4", "10"]),
        ("snake_case", "snake_case", ["snake", "case"]),
        ("C++", "c++", ["c"]),
        ("C#", "c#", ["c"]),
    ],
)
def test_an_identifier_is_one_token_with_a_name_and_words(identifier: str, whole: str, parts: list[str]) -> None:
    assert tokens(f"see {identifier}, please") == ["see", identifier, "please"]
    assert name_terms(identifier)[0] == whole
    assert surface_words(identifier) == parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain words", True), ("dash — and “quotes” …", True), ("emoji 🔭 are not letters", True), ("café", False),
     ("cafe\u0301", False), ("東京", False), ("²", False)],
)  # fmt: skip
def test_text_with_letters_or_marks_beyond_ascii_is_not_plain(text: str, expected: bool) -> None:
    assert is_plain(text) is expected


def test_names_are_found_wherever_they_stand_in_a_text() -> None:
    text = "DEC-0054\n- (src/db/pool.ts), `a.b`;see x/y.\nc++ and HTTPServer, plain end."
    assert Analyser().indexable(text)[1].split() == [
        "dec-0054", "src/db/pool.ts", "a.b", "x/y", "c++", "http", "server",
    ]  # fmt: skip


def test_what_is_remembered_is_bounded_and_does_not_change_the_terms() -> None:
    forgetful, plain = Analyser(max_remembered=3), Analyser()
    text = "DEC-1 DEC-2 DEC-3 DEC-4 DEC-5 memorySearch running runs"
    for _ in range(3):
        assert forgetful.indexable(text) == plain.indexable(text)
        assert forgetful.terms(text) == plain.terms(text)


@given(
    st.text("aeiouysdgnrtlz", min_size=1, max_size=8),
    st.sampled_from(("", *["s", "ed", "ing", "y", "ies", "eed", "ation", "ational"])),
)
def test_a_word_begins_with_the_common_beginning_of_its_stem(word: str, ending: str) -> None:
    assert (word + ending).startswith(common_beginning(stem(word + ending)))


@pytest.mark.parametrize("word", ["yyed", "yying"])
def test_a_word_of_which_only_a_letter_is_left_has_a_stem(word: str) -> None:
    assert stem(word) == "y"


@given(st.text("abcdeSTUV 019.-_/:@,;!?'()[]#\n\t", max_size=80))
def test_plain_text_gives_the_index_the_words_that_the_analyser_knows(text: str) -> None:
    words, _ = Analyser().indexable(text)
    assert words == text
    assert engine_terms(words) == [stem(word) for token in tokens(text) for word in surface_words(token)]


@given(st.text("aéüßñł ÀΣяй東京しり배포ไทย-./’—1２", max_size=60))
def test_other_text_reaches_the_index_as_the_analyser_folded_it(text: str) -> None:
    words, _ = Analyser().indexable(text)
    if not is_plain(text):
        known = [word for token in tokens(text) for word in surface_words(token)]
        # What is ASCII is passed on with its signs, for the index to split.
        bits = [bit for bit in words.split() if any(map(str.isalnum, bit))]
        split = [map(surface_words, tokens(bit)) if bit.isascii() else [[bit]] for bit in bits]
        assert [word for found in split for part in found for word in part] == known


@given(st.text(max_size=200))
def test_any_text_can_be_analysed(text: str) -> None:
    words, names = Analyser().indexable(text)
    assert isinstance(words, str)
    assert "\n" not in names
    assert Analyser().terms(text) is not None


@pytest.mark.parametrize("word", ["a828e60", "0054", "go", "наши", "東京", "z" * 65])
def test_numbers_short_or_endless_words_and_other_scripts_are_not_stemmed(word: str) -> None:
    assert stem(word) == word
