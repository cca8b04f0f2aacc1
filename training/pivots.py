"""Make dictionaries into English from dictionaries into other languages that have one into English.

WikDict's dictionaries (from Wiktionary, by way of DBnary) are freely licensed, and Debian has them for many pairs of
languages, but for few pairs with English. So a German word is translated into Polish, Finnish, Greek, Bulgarian …, and
from there into English. What several languages agree on is a translation. What only one of them says may be another
meaning of the word in between.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mdrecall.text.words import fold
from training.dictionaries import Glosses, Package, read_files

VERSION = "2022.12.07-2"
#: The languages in between. German comes last: its own way into English leads through the others.
BETWEEN = ("pol", "fin", "ell", "bul", "jpn", "ind", "nor")
#: The dictionaries of WikDict that are read; Debian has no others between these languages.
DICTIONARIES = """
    pol-eng fin-eng ell-eng eng-fin eng-bul eng-ind eng-nor eng-jpn
    deu-pol pol-deu deu-fin fin-deu deu-ell deu-bul deu-ind
    fra-pol pol-fra fra-fin fin-fra fra-ell ell-fra fra-bul fra-jpn fra-deu deu-fra
    pol-spa ell-spa deu-spa
    ita-pol pol-ita ita-fin fin-ita ita-ell ell-ita ita-bul ita-jpn ita-ind ita-nor
    pol-por fin-por ell-por
    pol-rus ell-rus deu-rus
"""

_HEAD = re.compile(r"(.+?)(?: /.*/)* <([^<>]*)>$")
_NUMBERED = re.compile(r"\d+\. ")
_LEFT_OVER = re.compile(r"\s*\d+\.\s*$")
_NOTE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
# A word that is translated into more words than these is a list of relatives rather than a translation.
_MOST_TRANSLATIONS = 12
_MOST_GLOSSES = 6
# Translations that get less than this share of the best one's votes are other meanings of a word in between.
_LEAST_SHARE = 0.3

Pairs = dict[str, list[str]]


@cache
def read_glosses(language: str, packages: Path) -> Glosses:
    """Return the English glosses of a language's words, those with the most votes first."""
    english = {between: _link(between, "eng", packages) for between in BETWEEN}
    if language != "deu":
        german = read_glosses("deu", packages)
        english["deu"] = {word: {gloss: 1 / len(found) for gloss in found} for word, found in german.items()}
    votes: dict[str, dict[str, float]] = defaultdict(dict)
    for between in english:
        for word, meanings in _link(language, between, packages).items():
            for middle, share in meanings.items():
                for gloss, weight in english[between].get(middle, {}).items():
                    _add(votes[word], gloss, share * weight)
    return {word: _choose(counted) for word, counted in votes.items() if counted}


def _choose(votes: dict[str, float]) -> list[str]:
    best = sorted(votes.items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST_GLOSSES]
    return [gloss for gloss, count in best if count >= _LEAST_SHARE * best[0][1]]


@cache
def _link(one: str, other: str, packages: Path) -> dict[str, dict[str, float]]:
    """Return the translations of one language's words with the weight of each, from both directions' dictionaries."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for word, translations in _read(one, other, packages).items():
        for place, translation in enumerate(translations):
            _add(found[word], translation, 1 / (1 + place / 2))
    for word, translations in _read(other, one, packages).items():
        for place, translation in enumerate(translations):
            _add(found[translation], word, 1 / (1 + place / 2))
    for weights in found.values():
        total = sum(weights.values())
        weights.update({translation: weight / total for translation, weight in weights.items()})
    return found


def _add(weights: dict[str, float], translation: str, weight: float) -> None:
    weights[translation] = weights.get(translation, 0.0) + weight


def _read(one: str, other: str, packages: Path) -> Pairs:
    """Return a dictionary of WikDict; empty if there is none for this direction."""
    if f"{one}-{other}" not in DICTIONARIES.split():
        return {}
    package = Package("debian", f"dict-freedict-{one}-{other}", VERSION, r"\.dict\.dz$")
    return dict(_entries(read_files(package, packages)[0].decode("utf-8", "replace")))


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    found: dict[str, list[str]] = defaultdict(list)
    head = ""
    is_first = False
    for line in text.splitlines():
        if match := _HEAD.match(line):
            head, is_first = _tidy(match[1]), match[2] != "suffix"
        elif head and (is_first or _NUMBERED.match(line)):
            found[head] += _split(line)
            is_first = False
    yield from ((word, list(dict.fromkeys(some))[:_MOST_TRANSLATIONS]) for word, some in found.items() if some)


def _split(line: str) -> list[str]:
    line = _LEFT_OVER.sub("", _NUMBERED.sub("", _NOTE.sub("", line), count=1))
    return [word for part in re.split("[,;]", line) if (word := _tidy(part))]


def _tidy(word: str) -> str:
    return " ".join(_NOTE.sub("", word).split()).lower()


def single_words(glosses: Glosses) -> Glosses:
    """Return the entries of one word, by their folded form; the first of several that are equal is kept."""
    found: Glosses = {}
    for word, translations in glosses.items():
        if word.isalpha():
            found.setdefault(fold(word), translations)
    return found
