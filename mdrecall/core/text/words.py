"""The analyser that indexing, queries and snippets share: text to terms.

Text is cut into *tokens*: runs of word characters that may contain joiners such as ``-``, ``.`` or ``/``, so that
``DEC-0054`` is one token. Each token gives two kinds of terms:

* *words*: folded (case, accents, width) and stemmed; scripts without spaces between words become overlapping
  character pairs. ``DEC-0054`` gives ``dec 0054``.
* *names*: an identifier as a whole, and the parts of camelCase. ``DEC-0054`` gives ``dec-0054``;
  ``memorySearch.query`` gives ``memorysearch.query memory search``.

The store stems by itself, because full-text engines have Porter's stemmer built in. So it receives words that are
folded but not stemmed, and plain ASCII text unchanged. A test checks that both sides make the same terms.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from mdrecall.core.text.stem import stem
from mdrecall.patterns import compile_later

#: What a token may contain besides word characters.
JOINERS = "-./:@\\#&=?%~+"

#: Changes whenever the same text would give other terms; part of the index format.
ANALYSER_VERSION = 3

#: Vowel signs and tone marks of scripts whose words Python's \w would cut in pieces.
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_JOIN = f"[{re.escape(JOINERS)}]{{1,3}}+"
_ASCII_TOKEN = compile_later(rf"[A-Za-z0-9_]++(?>(?:{_JOIN}[A-Za-z0-9_]++)*)(?:\+\+|#)?")
_ASCII_PART = compile_later("[a-z0-9]+")
_CLASS = re.escape(JOINERS + "_")
# A joiner or a capital inside a word, and the rest of the word. One set of characters comes first, because that is what
# `re` can skip to.
_NAME_HINT = compile_later(
    rf"[{_CLASS}A-Z](?:(?<=[^\W_][{_CLASS}])(?:(?=\S)|(?<=#))|(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])(?=[a-z][a-z]))\S*+"
)
_WORDLIKE = compile_later(r"[^\W_]+")
_CAMEL = compile_later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL_HINT = compile_later(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")

# Written without spaces between words: Han, kana, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3105-\u312f"
    "\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_MAYBE_UNSPACED = compile_later("[^\x00-\u0dff\u1e00-\u3004]")


class _Patterns:
    """The patterns for text beyond ASCII, each compiled at its first use because that takes milliseconds."""

    @cached_property
    def token(self) -> re.Pattern[str]:
        return re.compile(rf"[\w{MARKS}]++(?>(?:{_JOIN}[\w{MARKS}]++)*)(?:\+\+|#)?")

    @cached_property
    def part(self) -> re.Pattern[str]:
        return re.compile(rf"[^\W_{MARKS}][^\W_]*(?:[{MARKS}]+[^\W_]*)*|[{MARKS}]+[^\W_]*")

    @cached_property
    def joiner(self) -> re.Pattern[str]:
        return re.compile(rf"_|[^\w{MARKS}]")

    @cached_property
    def unspaced(self) -> re.Pattern[str]:
        return re.compile(f"[{_UNSPACED}]")

    @cached_property
    def unspaced_runs(self) -> re.Pattern[str]:
        return re.compile(f"[{_UNSPACED}]+")

    @cached_property
    def runs(self) -> re.Pattern[str]:
        return re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")


_PATTERNS = _Patterns()


def is_unspaced(char: str) -> bool:
    """True if a character belongs to a script without spaces between words."""
    return not char.isascii() and _PATTERNS.unspaced.match(char) is not None


def count_unspaced(text: str) -> int:
    """Count the characters of scripts without spaces between words."""
    if text.isascii() or not _MAYBE_UNSPACED.search(text):
        return 0
    return sum(map(len, _PATTERNS.unspaced_runs.findall(text)))


# Categories that the tokenizer of the index takes for parts of words: marks and private characters.
_LIKE_LETTERS = frozenset(("Mn", "Mc", "Me", "Co"))

_FOLD_MARKS = compile_later("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]+")
_FOLD_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h", "ŧ": "t"}
)
_FOLD_HINT = compile_later("[łøđðıæœþħŧ]")


def fold(text: str) -> str:
    """Return the text in lower case without accents and width variants: ``Café`` and ``ＣＡＦＥ`` become ``cafe``."""
    if text.isascii():
        return text.lower()
    import unicodedata

    bare = _FOLD_MARKS.sub("", unicodedata.normalize("NFKD", text).casefold())
    folded = unicodedata.normalize("NFKC", bare)
    # Looking for the letters first is quick; `translate` looks up every character.
    return folded.translate(_FOLD_LETTERS) if _FOLD_HINT.search(folded) else folded


def character_pairs(run: str) -> list[str]:
    """Return overlapping character pairs, and the last character alone, so that every character begins a term."""
    return [run[i : i + 2] for i in range(len(run))]


def surface_words(token: str) -> list[str]:
    """Return the folded words and character pairs of one token in reading order, before stemming."""
    if token.isascii():
        return _ASCII_PART.findall(token.lower())
    found: list[str] = []
    for part in _PATTERNS.part.findall(token):
        folded = fold(part)
        if folded.isascii() or not _MAYBE_UNSPACED.search(folded):
            found += [folded] if folded else []
            continue
        for run in _PATTERNS.runs.findall(folded):
            if is_unspaced(run[0]):
                found.extend(character_pairs(run))
            else:
                found.append(run)
    return found


def name_terms(token: str) -> list[str]:
    """Return the name terms of one token: the whole identifier and the parts of camelCase; none for a plain word."""
    names: list[str] = []
    if not token.isalnum():
        if token.isascii():
            names.append(token.lower())
        elif _PATTERNS.joiner.search(token):
            names.append(fold(token))
    if not token.islower() and _CAMEL_HINT.search(token):
        for part in _WORDLIKE.findall(token):
            pieces = _CAMEL.findall(part)
            if len(pieces) > 1:
                names.extend(map(fold, pieces))
    return names


def tokens(text: str) -> list[str]:
    """Return the tokens of a text in reading order, normalised in width but otherwise unchanged."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _PATTERNS.token.findall(_nfkc(text))


_T = TypeVar("_T")

# A longer run is hardly ever there twice, and remembering many of them would take hundreds of megabytes.
_REMEMBERED_CHARS = 64


class Analyser:
    """Makes terms, and remembers those of each token, because a few thousand tokens make up most text."""

    def __init__(self, max_remembered: int = 50_000) -> None:
        self._terms: dict[str, frozenset[str]] = {}
        self._names: dict[str, str] = {}
        self._names_of_lines: dict[str, tuple[str, ...]] = {}
        self._words: dict[str, str] = {}
        self._max_remembered = max_remembered

    def indexable(self, text: str) -> tuple[str, str]:
        """Return the words for the store to fold and stem, and the name terms, each once; both separated by spaces."""
        if is_plain(text):
            return text, " ".join(self._names_in(text))
        words = " ".join(filter(None, map(self._words_of, tokens(text))))
        return words, " ".join(self._names_in(_nfkc(text)))

    def indexable_lines(self, lines: Sequence[str]) -> tuple[str, str]:
        """Return the same for lines that come again and again, such as headings: their names are remembered."""
        text = "\n".join(lines)
        if not is_plain(text):
            return self.indexable(text)
        found: dict[str, None] = {}
        for line in lines:
            names = self._names_of_lines.get(line)
            if names is None:
                names = tuple(self._names_in(line))
                self._remember(self._names_of_lines, line, names)
            found.update(dict.fromkeys(names))
        return text, " ".join(found)

    def _words_of(self, token: str) -> str:
        """Return the folded words of a token, separated by spaces."""
        words = self._words.get(token)
        if words is None:
            words = " ".join(surface_words(token))
            # A run of a script without spaces is hardly ever there twice, and its pairs would take much memory.
            if " " not in words:
                self._remember(self._words, token, words)
        return words

    def terms_of(self, word: str) -> frozenset[str]:
        """Return the terms of what stands between spaces."""
        terms = self._terms.get(word)
        if terms is None:
            terms = self.terms(word)
            self._remember(self._terms, word, terms)
        return terms

    def terms(self, text: str) -> frozenset[str]:
        """Return all terms of a text."""
        return frozenset().union(*(self._terms.get(token) or self._learn(token) for token in tokens(text)))

    def _names_in(self, text: str) -> dict[str, None]:
        """Return the name terms of a text; to be fast, it reads only words with a joiner or a capital inside."""
        found: dict[str, None] = {}
        end = 0
        text = text.replace("\t", " ")
        for hint in _NAME_HINT.finditer(text):
            middle, stop = hint.span()
            start = max(text.rfind(" ", end, middle), text.rfind("\n", end, middle), end - 1) + 1
            found[self._names_of(text[start:stop])] = None
            end = stop
        found.pop("", None)
        return found

    def _names_of(self, bit: str) -> str:
        names = self._names.get(bit)
        if names is None:
            names = " ".join([name for token in tokens(bit) for name in name_terms(token)])
            self._remember(self._names, bit, names)
        return names

    def _learn(self, token: str) -> frozenset[str]:
        words, names = surface_words(token), name_terms(token)
        terms = frozenset((*map(stem, words), *(stem(name) if name.isalnum() else name for name in names)))
        self._remember(self._terms, token, terms)
        return terms

    def _remember(self, memory: dict[str, _T], token: str, value: _T) -> None:
        if len(memory) >= self._max_remembered:
            memory.clear()
        if len(token) <= _REMEMBERED_CHARS:
            memory[token] = value


def is_plain(text: str) -> bool:
    """True if a text has no letters, digits or marks beyond ASCII, so that every engine folds it the same way."""
    if text.isascii():
        return True
    import unicodedata

    beyond = [char for char in set(text) if not char.isascii()]
    return not any(char.isalnum() or unicodedata.category(char) in _LIKE_LETTERS for char in beyond)


def _nfkc(text: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFKC", text)
