"""Text to index terms: the one analyser that indexing, queries and snippets share.

Text is cut into *tokens* (runs of word characters, with single joiners such as ``-``, ``.`` or ``/``
inside kept, so ``DEC-0054`` is one token). Each token gives two kinds of terms:

* *words*: folded (case, accents, width) and lightly stemmed; scripts written without spaces become
  overlapping character pairs. ``DEC-0054`` gives ``dec 0054``.
* *names*: what makes identifiers findable whole and by part. ``DEC-0054`` gives ``dec-0054``;
  ``memorySearch.query`` gives ``memorysearch.query memory search``.

The store indexes both; a query is analysed by the same code.
"""

import re
import unicodedata

from mdrecall.core.stem import stem

#: What may stand inside a token besides word characters.
JOINERS = "-./:@\\#&=?%~+"

#: Changes whenever the same text would give other terms; part of every document's recipe.
ANALYSER_VERSION = 1

MAX_WORD_CHARS = 64
MAX_NAME_CHARS = 160

# Vowel signs and tone marks of scripts whose words Python's \w would cut in pieces.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORD = rf"[\w{_MARKS}]"
_JOIN = f"['’{re.escape(JOINERS)}]{{1,3}}+"
_TOKEN = re.compile(rf"{_WORD}++(?:{_JOIN}{_WORD}++)*+(?:\+\+|#)?")
_ASCII_TOKEN = re.compile(rf"[A-Za-z0-9_]++(?:{_JOIN}[A-Za-z0-9_]++)*+(?:\+\+|#)?")
_JOINER = re.compile(rf"_|[^\w{_MARKS}]")
_PART = re.compile(rf"[^\W_{_MARKS}][^\W_]*(?:[{_MARKS}]+[^\W_]*)*|[{_MARKS}]+[^\W_]*")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL_HINT = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")

# Written without spaces between words: Han, kana, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3105-\u312f"
    "\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
UNSPACED = re.compile(f"[{_UNSPACED}]")
_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")

_FOLD_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]+")
_FOLD_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h", "ŧ": "t"}
)


def fold(text: str) -> str:
    """Lower case, without accents, width variants or letter variants: ``Café`` and ``ＣＡＦＥ`` are ``cafe``."""
    if text.isascii():
        return text.lower()
    bare = _FOLD_MARKS.sub("", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFKC", bare).translate(_FOLD_LETTERS)


def pairs(run: str) -> list[str]:
    """Overlapping character pairs, and the last character alone so that every character begins a term."""
    return [run[i : i + 2] for i in range(len(run))]


def surface_words(token: str) -> list[str]:
    """The folded words and character pairs of one token, in reading order, before stemming."""
    found: list[str] = []
    for part in _PART.findall(_join_apostrophes(token)):
        folded = fold(part)
        if folded.isascii():
            found.append(folded[:MAX_WORD_CHARS])
            continue
        for run in _RUNS.findall(folded):
            if UNSPACED.match(run):
                found.extend(pairs(run))
            else:
                found.append(run[:MAX_WORD_CHARS])
    return found


def word_terms(token: str) -> list[str]:
    """The word terms of one token, in reading order."""
    return [stem(word) for word in surface_words(token)]


def name_terms(token: str) -> list[str]:
    """The name terms of one token: the whole identifier and the parts of camelCase; nothing for plain words."""
    token = _join_apostrophes(token)
    names: list[str] = []
    if _JOINER.search(token):
        names.append(fold(token)[:MAX_NAME_CHARS])
    if _CAMEL_HINT.search(token):
        for part in _PART.findall(token):
            pieces = _CAMEL.findall(part)
            if len(pieces) > 1:
                names.extend(stem(fold(piece)) for piece in pieces)
    return names


def tokens(text: str) -> list[str]:
    """The tokens of a text in reading order, width-normalised but otherwise as written."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _TOKEN.findall(unicodedata.normalize("NFKC", text))


def _join_apostrophes(token: str) -> str:
    """``Caroline's`` is the word ``Caroline``; ``don't`` is ``dont``, not ``don`` and ``t``."""
    if "'" not in token and "’" not in token:
        return token
    if token.endswith(("'s", "’s", "'S", "’S")):
        token = token[:-2]
    return token.replace("'", "").replace("’", "")


class Analyser:
    """Remembers what a token became, because the same few thousand tokens make up most text."""

    def __init__(self, max_remembered: int = 200_000) -> None:
        self._words: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._max_remembered = max_remembered

    def terms(self, text: str) -> tuple[str, str]:
        """Word terms in reading order, and name terms (each once), as strings with spaces between."""
        if len(self._words) > self._max_remembered:
            self._words.clear()
            self._names.clear()
        known, learn, named = self._words.get, self._learn, self._names
        found = tokens(text)
        words = [known(token) or learn(token) for token in found]
        names = dict.fromkeys([named[token] for token in found if token in named])
        return " ".join(words), " ".join(names)

    def _learn(self, token: str) -> str:
        terms = " ".join(word_terms(token))
        self._words[token] = terms
        if names := name_terms(token):
            self._names[token] = " ".join(names)
        return terms
