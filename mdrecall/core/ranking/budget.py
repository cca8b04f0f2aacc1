"""Snippets with their citations, cut to a number of characters in all."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from mdrecall.core.ranking.snippet import cut_units, utf16_units
from mdrecall.types import SearchResult

# Less of a snippet than this is not worth its place.
_LEAST_UNITS = 40
# The name of a file may have these, and would go on below the line that says where a snippet is from.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class CitedSnippet(NamedTuple):
    """A snippet and where it is from; without a citation, empty."""

    snippet: str
    citation: str


class FittedSnippets(NamedTuple):
    """As many snippets as there was room for, each with its source."""

    texts: tuple[str, ...]
    is_cut: bool
    """Whether a snippet was shortened or left out."""


def add_source(cited: CitedSnippet) -> str:
    """The snippet with a line that says where it is from."""
    return f"{cited.snippet.strip()}\n\n{_footer(cited)}" if cited.citation else cited.snippet


def fit_snippets(snippets: Sequence[CitedSnippet], most_units: int) -> FittedSnippets:
    """The first snippets, as long as there is room; the last one may be shortened, its source never is.

    The first is there in any case, however little there is room for.
    """
    texts: list[str] = []
    left = most_units
    for cited in snippets:
        text = add_source(cited)
        if utf16_units(text) <= left:
            texts.append(text)
            left -= utf16_units(text)
            continue
        room = left - utf16_units(add_source(cited._replace(snippet="")))
        if room >= _LEAST_UNITS or not texts:
            texts.append(add_source(cited._replace(snippet=cut_units(cited.snippet.strip(), max(room, _LEAST_UNITS)))))
        return FittedSnippets(tuple(texts), True)
    return FittedSnippets(tuple(texts), False)


def fit_results(results: Sequence[SearchResult], most_units: int) -> list[SearchResult]:
    """As many results as there is room for, the snippet of the last one shortened to what is left."""
    kept = fit_snippets([CitedSnippet(result.snippet, "") for result in results], most_units)
    return [result._replace(snippet=text) for result, text in zip(results, kept.texts, strict=False)]


def _footer(cited: CitedSnippet) -> str:
    return f"Source: {_BREAKS.sub(' ', cited.citation)}"
