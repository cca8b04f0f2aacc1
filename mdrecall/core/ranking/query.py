"""A query as the terms to look up, and the words of a text that match it.

Everything in a query is plain text: there are no operators.
"""

import re
from collections.abc import Collection, Iterator

from mdrecall.core.text.stem import stem
from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import fold, is_unspaced, name_terms, surface_words, tokens
from mdrecall.types import Term

#: The rest of a longer query is ignored: somebody may paste a whole text, and each term costs a lookup.
MAX_QUERY_CHARS = 4_000
MAX_TERMS = 64
# Shorter terms begin too many other words to be looked up as prefixes; letters only need one more than numbers do.
_MIN_PREFIX_CHARS = 3
_MIN_LETTERS_PREFIX_CHARS = 4
_WORD = re.compile(r"[^\W_]+")


def parse_query(query: str) -> tuple[Term, ...]:
    """Return the distinct terms of a query in the order of typing; none if it has no letter or digit."""
    terms: dict[str, Term] = {}
    by_token = [(token, _query_words(surface_words(token))) for token in tokens(query[:MAX_QUERY_CHARS])]
    stop_words = find_stop_words(word for _, words in by_token for word in words)
    for token, words in by_token:
        for word in words:
            term = _word(word, word in stop_words)
            terms.setdefault(term.text, term)
        whole = [name for name in name_terms(token)[:1] if not name.isalnum()]
        if whole and words:
            terms.setdefault(whole[0], Term(whole[0], whole[0], parts=tuple(words), prefix=True))
    if len(terms) > MAX_TERMS:
        informative = [term for term in terms.values() if not term.stop]
        return tuple((informative or list(terms.values()))[:MAX_TERMS])
    return tuple(terms.values())


def _query_words(words: list[str]) -> list[str]:
    """Return the words without single characters that end a run of pairs: the pair before contains them already."""
    return [
        word
        for index, word in enumerate(words)
        if not (len(word) == 1 and index and is_unspaced(word) and words[index - 1][-1] == word)
    ]


def _word(word: str, is_stop: bool) -> Term:
    lone = len(word) == 1 and is_unspaced(word)
    least = _MIN_LETTERS_PREFIX_CHARS if word.isalpha() else _MIN_PREFIX_CHARS
    stemmed = stem(word)
    return Term(
        stemmed,
        word,
        # The index stems "deploy" to "deploi" and "deployment" to "deploy", so both forms are looked up.
        also=(stemmed, stemmed + "ment") if stemmed.endswith(("ay", "ey", "oy")) else (),
        stop=is_stop,
        prefix=len(word) >= least and not is_unspaced(word[0]),
        always_prefix=lone,
    )


def find_stems(query: str) -> frozenset[str]:
    """Return the stems of the words of a query, without those that hardly count if there are others."""
    terms = [term for term in parse_query(query) if not term.parts]
    return frozenset(term.text for term in terms if not term.stop) or frozenset(term.text for term in terms)


def find_matches(text: str, stems: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each stretch of a text that has one of these stems, in order."""
    if not stems:
        return
    for word in _WORD.finditer(text):
        if any(map(is_unspaced, word[0])):
            yield from _find_pairs(word[0], word.start(), stems)
        elif any(stem(part) in stems for part in surface_words(word[0])):
            yield word.span()


def _find_pairs(run: str, offset: int, stems: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a script without spaces whose pairs of characters, or single ones, are in a query."""
    start = end = -1
    for place in range(len(run)):
        size = 2 if fold(run[place : place + 2]) in stems else 1 if fold(run[place]) in stems else 0
        if not size:
            continue
        if place > end:
            if end >= 0:
                yield offset + start, offset + end
            start = place
        end = max(end, min(place + size, len(run)))
    if end >= 0:
        yield offset + start, offset + end
