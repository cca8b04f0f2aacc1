import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.search.query import MAX_TERMS, parse_query


def telling(query: str) -> list[str]:
    """The surfaces of the terms that count."""
    return [term.surface for term in parse_query(query) if not term.stop]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("that thing we discussed about the API", ["discussed", "api"]),
        ("what was the solution for the bug", ["solution", "bug"]),
        ("¿qué hicimos ayer con la base de datos?", ["hicimos", "base", "datos"]),
    ],
)
def test_the_golden_keywords_of_openclaw_are_the_terms_that_count(query: str, expected: list[str]) -> None:
    assert telling(query) == expected


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("之前讨论的那个方案", ["讨论", "方案"]),
        ("我今天讨论API方案", ["讨论", "api", "方案"]),
        ("昨日のデプロイ設定について", ["デプ", "プロ", "ロイ", "設定"]),
        ("어제 논의한 API에서 배포 전략을", ["논의", "api", "배포", "전략"]),
    ],
)
def test_golden_keywords_of_unspaced_scripts_are_looked_up_in_pairs(query: str, found: list[str]) -> None:
    assert set(found) <= set(telling(query))


def test_words_of_the_query_are_the_words_of_the_golden_full_text_queries() -> None:
    assert [term.surface for term in parse_query("hello world")] == ["hello", "world"]
    assert telling("memory/2026-02-01.md")[:5] == ["memory", "2026", "02", "01", "md"]
    assert [term.surface for term in parse_query("don't")] == ["don", "t"]
    assert telling("foo_bar-baz café") == ["foo", "bar", "baz", "foo_bar-baz", "cafe"]
    assert parse_query("!!!") == ()


def test_a_name_is_looked_up_whole_and_as_its_words() -> None:
    (dec, number, name) = parse_query("DEC-0054")
    assert (dec.text, number.text) == ("dec", "0054")
    assert name.text == "dec-0054"
    assert name.parts == ("dec", "0054")
    assert name.prefix


@pytest.mark.parametrize(
    "syntax", ['"quoted phrase"', "a AND b OR NOT c", "NEAR(x y)", "words:foo", "foo*", "(((", "^a"]
)
def test_search_syntax_is_plain_text(syntax: str) -> None:
    assert all(term.surface.strip('"*^()') == term.surface for term in parse_query(syntax))


def test_a_pasted_page_is_cut_to_the_words_that_count() -> None:
    terms = parse_query(" ".join(f"the word{number}" for number in range(2000)))
    assert len(terms) == MAX_TERMS
    assert not any(term.stop for term in terms)


@given(st.text(max_size=300))
def test_any_query_can_be_parsed(query: str) -> None:
    assert len(parse_query(query)) <= max(MAX_TERMS, len(query))
