"""Make dictionaries into English from dictionaries into other languages that have one into English.

WikDict's dictionaries (from Wiktionary, by way of DBnary) are freely licensed, and Debian has them for many pairs of
languages, but for few pairs with English. So a German word is translated into Polish, Finnish, Greek, Bulgarian …, and
from there into English. What several languages agree on is a translation. What only one of them says may be another
meaning of the word in between.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from mdrecall.core.text.words import fold
from training.corpus import Unavailable
from training.dictionaries import Glosses, Package, read_files

VERSION = "2022.12.07-2"
#: The languages in between, with the direction of their dictionaries: ("pol", "eng") is Polish to English.
TO_ENGLISH = (("pol", "eng"), ("fin", "eng"), ("ell", "eng"), ("eng", "fin"), ("eng", "bul"), ("eng", "ind"),
              ("eng", "nor"), ("eng", "jpn"))  # fmt: skip
BETWEEN = ("pol", "fin", "ell", "bul", "jpn", "ind", "nor")

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


def read_glosses(language: str, packages: Path) -> Glosses:
    """Return the English glosses of a language's words, those with the most votes first."""
    english = {between: _to_english(between, packages) for between in BETWEEN}
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for between in BETWEEN:
        for word, meanings in _link(language, between, packages).items():
            found: Counter[str] = Counter()
            for middle, share in meanings.items():
                glosses = english[between].get(middle, {})
                for gloss, weight in glosses.items():
                    found[gloss] += share * weight  # type: ignore[assignment]
            for gloss, weight in found.items():
                votes[word][gloss] += weight
    return {word: _choose(counted) for word, counted in votes.items() if counted}


def _choose(votes: Counter[str]) -> list[str]:
    best = votes.most_common(_MOST_GLOSSES)
    return [gloss for gloss, count in best if count >= _LEAST_SHARE * best[0][1]]


def _to_english(between: str, packages: Path) -> dict[str, dict[str, float]]:
    return _link(between, "eng", packages)


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
    package = Package("debian", f"dict-freedict-{one}-{other}", VERSION, r"\.dict\.dz$")
    try:
        files = read_files(package, packages)
    except Unavailable:
        return {}
    text = files[0].decode("utf-8", "replace")
    return dict(_entries(text)) if "WikDict" in text else {}


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
