"""The budget: snippets with their citations, cut to a total number of characters."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from mdrecall.core.ranking.snippet import cut_units, shorten, utf16_units
from mdrecall.types import SearchResult

# A shorter piece of a snippet says too little to be worth its place.
_MIN_UNITS = 40
# A file name may contain line breaks, and so could pretend to be more text below the line that names the source.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class CitedSnippet(NamedTuple):
    """A snippet with its citation, which may be empty."""

    snippet: str
    citation: str


def add_source(cited: CitedSnippet) -> str:
    """Return the snippet followed by a line that names its source."""
    return f"{cited.snippet.strip()}\n\n{_footer(cited)}" if cited.citation else cited.snippet


def remove_source(text: str, citation: str) -> str:
    """Return a text without the line that ``add_source`` put below it."""
    return text.removesuffix(f"\n\n{_footer(CitedSnippet('', citation))}") if citation else text


def fit_snippets(snippets: Sequence[CitedSnippet], max_units: int) -> tuple[tuple[str, ...], bool]:
    """Return the first snippets that fit, each with its source, and True if one was shortened or left out.

    The last one may be shortened, but never its source.
    The first snippet is always included: in a budget too small for its source, without it.
    """
    texts: list[str] = []
    left = max_units
    for cited in snippets:
        text = add_source(cited)
        if utf16_units(text) <= left:
            texts.append(text)
            left -= utf16_units(text)
            continue
        room = left - utf16_units(add_source(cited._replace(snippet="")))
        if room >= _MIN_UNITS:
            texts.append(add_source(cited._replace(snippet=shorten(cited.snippet.strip(), room))))
        elif not texts:
            texts.append(cut_units(cited.snippet.strip(), left))
        return tuple(texts), True
    return tuple(texts), False


def fit_results(results: Sequence[SearchResult], max_units: int) -> list[SearchResult]:
    """Return the first results whose snippets fit; the last snippet may be shortened."""
    texts, _ = fit_snippets([CitedSnippet(result.snippet, "") for result in results], max_units)
    return [result._replace(snippet=text) for result, text in zip(results, texts, strict=False)]


def _footer(cited: CitedSnippet) -> str:
    return f"Source: {_BREAKS.sub(' ', cited.citation)}"
