"""Names in a query: identifiers, quoted phrases, and the paths, file names and headings that it asks for by name."""

import re
from collections.abc import Iterable, Sequence

from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import fold, tokens
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Term

# What a passage gains by the way it is named. Each is more than a passage can gain by its words over the next.
_PATH, _FILE, _STEM, _SLUG, _HEADING = 2.0, 1.6, 1.2, 1.0, 0.8
# What follows the day in the name of a note: 2026-11-14-late-talk.
_AFTER_DAY = r"\d{4}-\d\d-\d\d[-_ ](.+)"
_QUOTED = r"\"([^\"\n]{3,200})\"|“([^”\n]{3,200})”|「([^」\n]{2,200})」|«([^»\n]{3,200})»"
_EDGES = " \t\r\n\"'`“”‘’«»?？!！.。,，:：;()[]"
# Ordinals, times of day, sizes and the like are written with a digit and letters too, and name nothing.
_QUANTITY = r"\d{1,4}(?:st|nd|rd|th|am|pm|h|m|s|k|x|d|ms|kg|km|cm|mm|gb|mb|kb|tb|min|hrs?|usd|eur)"
_HASH_LETTERS, _MIN_HASH_CHARS = frozenset("abcdef"), 7
_MIN_DIGITS = 5
_MIN_CHARS = 3


class Naming(NamedTuple):
    """What a query names."""

    identifiers: frozenset[str]
    """Its terms that name one thing, such as ``DEC-0054``, a hash, a version or an error code."""
    phrases: tuple[str, ...]
    """What it puts in quotation marks, folded."""
    whole: str
    """The query itself as a name might be written: folded, with spaces for hyphens."""
    files: frozenset[str]
    """Its words that look like a path or a file name, folded."""
    file: str = ""
    """The query itself if it may be a path or a file name, folded; empty if it is a plain word or a sentence."""

    def find_phrases(self, text: str) -> int:
        """Return how many of the quoted phrases a text holds."""
        if not self.phrases:
            return 0
        there = " ".join(fold(text).split())
        return sum(phrase in there for phrase in self.phrases)

    def file_bonus(self, path: str) -> float:
        """Return what a file gains if the query names it: most for its path, least for its name without an ending."""
        folded = fold(path)
        name = folded.rsplit("/", 1)[-1]
        stem = name.rsplit(".", 1)[0]
        if folded in self.files or folded == self.file:
            return _PATH
        if name in self.files or name == self.file or folded.rsplit(".", 1)[0] in self.files:
            return _FILE
        if stem in self.files or stem == self.file or _normalise(stem) == self.whole:
            return _STEM
        slug = re.fullmatch(_AFTER_DAY, stem) if self.file and stem[:4].isdigit() else None
        return _SLUG if slug and self.file in (slug[1], f"{slug[1]}.md") else 0.0

    def heading_bonus(self, heading: str) -> float:
        """Return what a passage gains if the whole query is the heading above it."""
        if len(heading) < len(self.whole) and heading.isascii():
            return 0.0
        return _HEADING if heading and _normalise(fold(heading).strip(_EDGES)) == self.whole else 0.0


def read_naming(query: str, terms: Iterable[Term]) -> Naming:
    """Return the names in a query with these terms."""
    has_quotes = any(mark in query for mark in '"“「«')
    matches = re.finditer(_QUOTED, query) if has_quotes else ()
    phrases = (" ".join(fold(next(filter(None, match.groups()))).split()) for match in matches)
    files = set(filter(_can_name_file, map(fold, tokens(query))))
    return Naming(
        _find_identifiers(list(terms)),
        tuple(dict.fromkeys(phrases)),
        _normalise(fold(query).strip(_EDGES)),
        frozenset(files),
        _read_file(fold(query)),
    )


def _read_file(query: str) -> str:
    """Return a folded query as the path or the name of a file; empty if it cannot be one, or is a plain word."""
    name = query.strip(_EDGES).replace("\\", "/").lstrip("/")
    has_sign = any(sign in name for sign in "-_/.") or any(map(str.isdigit, name))
    return name if has_sign and (" " not in name or name.endswith(".md")) else ""


def _can_name_file(token: str) -> bool:
    """True if a word of a sentence may be a file's name: the 2 of "about 2 weeks" does not ask for ``2.md``."""
    if "/" in token or "." in token:
        return True
    if not any(map(str.isdigit, token)):
        return False
    return not (token.isdigit() and len(token) < _MIN_DIGITS) and re.fullmatch(_QUANTITY, token) is None


def is_spelled_out(name: str, text: str) -> bool:
    """True if a text has the words of a name side by side, whatever joins them: ``DEC 54`` for ``dec-54``."""
    words = re.findall(r"[^\W_]+", name)
    return re.search(r"(?<![^\W_])" + r"[\W_]{1,3}".join(map(re.escape, words)) + r"(?![^\W_])", fold(text)) is not None


def _find_identifiers(terms: Sequence[Term]) -> frozenset[str]:
    names = [term for term in terms if term.parts and _is_name(term)]
    inside = {part for term in names for part in term.parts}
    words = [term for term in terms if not term.parts and term.surface not in inside and _is_code(term.surface)]
    return frozenset(term.text for term in (*names, *words))


def _is_name(term: Term) -> bool:
    """True if a term with joiners names one thing: ``src/app.py`` and ``v1.2``, but not ``long-term`` or ``and/or``."""
    if any(map(str.isdigit, term.surface)):
        return len(term.surface) >= _MIN_CHARS
    stop_words = find_stop_words(term.parts)
    if all(part in stop_words or len(part) == 1 for part in term.parts):
        return False
    return any(joiner in term.surface.strip("./:#") for joiner in "_/@\\.")


def _is_code(word: str) -> bool:
    """True if a word without joiners is a code: a digit among letters, a long number, or a hash of letters only."""
    if word.isdigit():
        return len(word) >= _MIN_DIGITS
    if not word.isascii() or len(word) < _MIN_CHARS:
        return False
    if any(map(str.isdigit, word)):
        return not re.fullmatch(_QUANTITY, word)
    return len(word) >= _MIN_HASH_CHARS and set(word) <= _HASH_LETTERS


def _normalise(name: str) -> str:
    return " ".join(name.replace("-", " ").replace("_", " ").split())
