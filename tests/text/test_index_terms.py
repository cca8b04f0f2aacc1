"""The terms of the index: ours and FTS5's are the same."""

import re
import sys
from functools import cache
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.store.sqlite.tables import create_tables
from mdrecall.text.index_terms import index_terms
from mdrecall.text.words import Analyser, porter_stem, stem

ROOT = Path(__file__).parents[2]
ENDINGS = (
    "", "s", "ed", "ing", "ies", "ly", "ness", "ation", "ational", "ement", "ful", "able", "ibly", "er", "e", "y",
    "eed", "ss", "sses", "ll", "sion", "ical", "icate", "ative", "alize", "iciti", "ousli", "logi", "iviti",
)  # fmt: skip
MIXED = "aeiouyYbsSdDgGéÀßñłΣяйİﬁ東京しりが배포ไทยहिन्दी\u0301\u0327\u200d\ue02d-./_:@’—…🔭12２²\n\t\0"


@cache
def index_tokenizer() -> apsw.FTS5Tokenizer:
    """The tokenizer that the schema of the index asks for."""
    db = apsw.Connection(":memory:")
    create_tables(db)
    sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'keyword'").get
    found = re.search('tokenize="([^"]*)"', str(sql))
    assert found
    name, *options = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", found[1])]
    return db.fts5_tokenizer(name, options)


def engine_terms(text: str) -> list[str]:
    """What FTS5 makes of a text."""
    found = index_tokenizer()(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return [str(term) for term in found]


@given(st.text(MIXED, max_size=60) | st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_text_in_any_script_has_the_terms_of_the_index(text: str) -> None:
    assert index_terms(text) == engine_terms(text)


@given(st.lists(st.tuples(st.text("aeiouybcdlstwxz", max_size=7), st.sampled_from(ENDINGS), st.sampled_from(ENDINGS))))
def test_words_with_endings_have_the_stems_of_the_index(words: list[tuple[str, str, str]]) -> None:
    text = " ".join(map("".join, words))
    assert index_terms(text) == engine_terms(text)


@given(st.text("aeyй東\ue02d", max_size=5), st.sampled_from(ENDINGS), st.integers(55, 70))
def test_endings_are_taken_off_in_any_script_up_to_the_same_length(bare: str, ending: str, length: int) -> None:
    for word in (bare + ending, bare.ljust(length - len(ending), "o") + ending):
        assert index_terms(word) == engine_terms(word)


@pytest.mark.parametrize("first", range(0, 0x20000, 0x4000))
def test_every_character_separates_or_is_folded_as_in_the_index(first: int) -> None:
    codes = (code for code in range(first, first + 0x4000) if not 0xD800 <= code < 0xE000)
    text = " ".join(f"x{chr(code)}x" for code in codes)
    assert index_terms(text) == engine_terms(text)


def test_characters_beyond_the_known_planes_are_letters() -> None:
    text = " ".join(f"x{chr(code)}x" for code in range(0x20000, sys.maxunicode, 997))
    assert index_terms(text) == engine_terms(text)


def test_the_words_of_the_documentation_have_the_terms_of_the_index() -> None:
    texts = [path.read_text() for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]]
    assert texts
    analyser = Analyser()
    for text in texts:
        assert index_terms(text) == engine_terms(text)
        for indexed in analyser.indexable(text):
            assert index_terms(indexed) == engine_terms(indexed)


@pytest.mark.parametrize(
    ("word", "indexed", "searched"),
    [
        ("days", "dai", "day"),
        ("key", "kei", "key"),
        ("deploy", "deploi", "deploy"),
        ("deployment", "deploy", "deploy"),
        ("happy", "happi", "happi"),
        ("runs", "run", "run"),
        ("яing", "яing", "яing"),
        ("яaing", "яa", "яaing"),
    ],
)
def test_queries_keep_a_y_after_a_vowel_and_words_in_other_scripts(word: str, indexed: str, searched: str) -> None:
    assert (porter_stem(word), stem(word)) == (indexed, searched)
    assert engine_terms(word) == [indexed]


@given(st.text("abcdelmnoprstuvwxz", max_size=12))
def test_apart_from_that_queries_and_the_index_stem_alike(word: str) -> None:
    assert stem(word) == porter_stem(word)
