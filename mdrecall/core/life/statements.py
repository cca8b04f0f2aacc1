"""Statements: sentences and list items, cut into units so that two of them can be compared.

A unit is a word, a number, or a single character of a script without spaces. Each has a role: what a statement is
about, a time or a unit of measure, a link such as *is*, or a word that announces a change.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from mdrecall.core.life import change_words as words_for
from mdrecall.core.text.stem import stem
from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import count_unspaced, fold, is_unspaced, tokens
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later

Role: TypeAlias = Literal["word", "name", "number", "char", "date", "unit", "link", "strong", "cue", "verb"]

#: A longer statement says more than one thing, and comparing it would cost more than it tells.
_MAX_CHARS = 300
#: A character of a script without spaces is about half a word, and a number says less than a word.
_WEIGHTS: dict[str, float] = {"word": 1.0, "name": 1.0, "char": 0.5, "number": 0.5}

_MARKS = compile_later(r"^\s*(?:[-*+>]\s+|\d{1,3}[.)]\s+|#{1,6}\s+)*(?:\[[ xX]\]\s+)?")
_STAMP = compile_later(
    r"^[\[(]?(?:\d{4}-\d\d-\d\d(?:[ T]\d\d?:\d\d(?::\d\d)?)?|\d\d?:\d\d(?::\d\d)?)[\])]?\s*(?:[-–—:|]\s+)?"
)
_SPEAKER = compile_later(r"^(?:user|assistant|human|agent|me)\s?:\s+", re.IGNORECASE)
_COMMENT = compile_later(r"<!--.*?-->")
_EMPHASIS = compile_later(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")
# Not after a number or an initial: "4. Mai" and "Dr. Weiss" go on.
_SENTENCE_END = compile_later(r"(?<=[^\W\d_]{3}[.!?])\s+|(?<=[。！？])")
_COLON = compile_later(r"[:：=→](?=\s|[^\x00-\x7f]|$)|(?<=[^\x00-\x7f])：")
_RUNS = compile_later(r"\d[\d.,:/-]*\d|\d|[^\W\d_]+|[^\W]")
# In a script without spaces: "PostgreSQL", "abc123", "14:00".
_FOREIGN_RUN = compile_later(r"[A-Za-z0-9](?:[A-Za-z0-9.,:/@_-]*[A-Za-z0-9])?")
_NOT = compile_later(r"n['’]t\b")
# Tasks, captions in brackets, and lines of JSON, markup or shell.
_NO_CLAIM = compile_later(r"^\s*(?:[-*+]\s+\[[ xX]\]|(?:[-*+]\s+)?\[[^\]]*\]\s*$|[\"{}<$|`])")
_NO_CLAIM_SIGNS = '-*+["{}<$|`'
_CJK_CUES = (*words_for.CJK_CUES, *words_for.CJK_ENDINGS)


class Unit(NamedTuple):
    text: str
    key: str
    role: Role
    weight: float = 0.0


class Statement(NamedTuple):
    """A sentence or list item, cut into units so that it can be compared with many others."""

    text: str
    units: tuple[Unit, ...]
    subject_keys: frozenset[str]
    """What may be shared with another statement: words, names and numbers; pairs for characters."""
    soft_keys: frozenset[str]
    """Its times and units."""
    weight: float
    """About how many words it has that say something."""
    is_denied: bool
    is_event: bool
    """True if it tells of something that happened, which may happen again."""
    is_claim: bool
    """False for a task, a question, data or a caption: none of them says that something is so."""
    topic: str = ""
    """The heading above it, folded."""


def read_statements(text: str, topic: str = "") -> list[Statement]:
    """Return the claims of a text, line by line; those that are too short or too long to compare are left out.

    ``topic`` is the heading above them. A date is none.
    """
    about = "" if any(map(str.isdigit, topic)) else fold(topic.strip())
    found = []
    for line in text.split("\n"):
        if _is_no_claim(line):
            continue
        for sentence in _split_sentences(_clean(line)):
            if 0 < len(sentence) <= _MAX_CHARS and (statement := _read(sentence)) and statement.is_claim:
                found.append(statement._replace(topic=about))
    return found


def read_statement(text: str) -> Statement | None:
    """Return a line as one statement; None if there is nothing in it to compare, or too much."""
    bare = _clean(text)
    statement = _read(bare) if 0 < len(bare) <= _MAX_CHARS else None
    return statement._replace(is_claim=False) if statement and _is_no_claim(text) else statement


# To look for the characters of a pattern first takes a tenth of the time that the pattern takes, compiled or not.


def _is_no_claim(line: str) -> bool:
    return line.lstrip()[:1] in _NO_CLAIM_SIGNS and _NO_CLAIM.match(line) is not None


def _split_sentences(line: str) -> list[str]:
    return _SENTENCE_END.split(line) if _holds_any(line, ".!?。！？") else [line]


def _clean(line: str) -> str:
    bare = (_COMMENT.sub("", line) if "<!--" in line else line).strip()
    if not bare[:1].isalpha():
        bare = _STAMP.sub("", _MARKS.sub("", bare), count=1)
    bare = _SPEAKER.sub("", bare) if ":" in bare else bare
    return (_EMPHASIS.sub("", bare) if _holds_any(bare, "*_`") else bare).strip()


def _holds_any(text: str, signs: str) -> bool:
    return any(sign in text for sign in signs)


def _read(text: str) -> Statement | None:
    whole = _NOT.sub(" not", text) if _holds_any(text, "'’") else text
    pieces = [_cut(piece) for piece in (_COLON.split(whole) if _holds_any(whole, ":：=→") else [whole])]
    words = [folded for piece in pieces for _, folded in piece]
    stops = _find_stops(words)
    units: list[Unit] = []
    for number, piece in enumerate(pieces):
        if number:
            units.append(Unit(":", ":", "strong"))
        for place, (word, folded) in enumerate(piece):
            if folded in words_for.TITLES and _is_before_name(piece, place):
                units.append(Unit(word, folded, "cue"))
            elif word.isascii() or not count_unspaced(word):
                units.append(_read_word(word, folded, stops, begins=not number and not place))
            else:
                units += _read_characters(word)
    keys = {unit.key for unit in units if unit.weight and unit.role != "char"} | set(_pairs(units))
    if not keys:
        return None
    return Statement(
        text,
        tuple(units),
        frozenset(keys),
        frozenset(unit.key for unit in units if unit.role in ("date", "unit")),
        sum(unit.weight for unit in units),
        _is_denied(text, words, stops),
        any(map(_is_event, units)) or text.rstrip("。").endswith(words_for.JAPANESE_PAST),
        not text.endswith(("?", "？")),
    )


def _find_stops(words: Sequence[str]) -> frozenset[str]:
    """Return the stop words of a statement. "Mon médecin est …" is too short to tell its language otherwise."""
    stops = find_stop_words(words)
    is_own = bool(words) and words[0] in words_for.OWN and not words_for.COPULAS.isdisjoint(words)
    return stops | ({words[0]} | words_for.COPULAS | words_for.DEFINITE).intersection(words) if is_own else stops


def _is_before_name(piece: Sequence[tuple[str, str]], place: int) -> bool:
    return place + 1 < len(piece) and piece[place + 1][0][0].isupper()


def _is_denied(text: str, words: list[str], stops: frozenset[str]) -> bool:
    found = {word for word in words if word in words_for.NEGATIONS and (len(word) > 3 or word in stops)}
    if "no" in found and words_for.PORTUGUESE.intersection(words):
        found.discard("no")
    return bool(found) or _has_cjk_negation(text)


def _is_event(unit: Unit) -> bool:
    text = unit.text
    return unit.role == "word" and ((len(text) > 4 and text.endswith("ed")) or text.lower() in words_for.EVENTS)


def _has_cjk_negation(text: str) -> bool:
    return count_unspaced(text) > 0 and any(word in text for word in words_for.CJK_NEGATIONS)


def _cut(piece: str) -> list[tuple[str, str]]:
    """Return the words of a text, as written and folded; what has a digit or an address stays whole."""
    parts: list[str] = []
    for token in tokens(piece):
        is_whole = token.isalpha() or "@" in token or any(map(str.isdigit, token))
        parts += [token] if is_whole else _RUNS.findall(token)
    return [(part, fold(part)) for part in parts]


def _read_word(word: str, folded: str, stops: frozenset[str], *, begins: bool) -> Unit:
    role = words_for.ROLES.get(folded)
    if role == "verb":
        return Unit(word, words_for.ALIKE[folded], "verb", 1.0)
    if role == "cue":
        return Unit(word, folded, "cue")
    if role == "number" or (not word.isalpha() and any(map(str.isdigit, word))):
        return Unit(word, folded, "number", _WEIGHTS["number"])
    if role == "date" and not (begins and folded in stops):
        return Unit(word, folded.rstrip("s"), "date")
    if role == "strong" or (folded in stops and folded in words_for.COPULAS):
        return Unit(word, folded, "strong")
    if role == "link" or folded in stops:
        return Unit(word, folded, "link")
    if role == "unit":
        return Unit(word, folded, "unit")
    is_name = not begins and word[:1].isupper()
    return Unit(word, stem(folded), "name" if is_name else "word", 1.0)


def _read_characters(token: str) -> Iterator[Unit]:
    """Yield the units of a token of a script without spaces: characters, and the numbers and words between them."""
    text, particle = _split_particle(token)
    place, last = 0, ""
    while place < len(text):
        if cue := next((cue for cue in _CJK_CUES if text.startswith(cue, place)), ""):
            yield Unit(cue, cue, "cue")
            place += len(cue)
        elif is_unspaced(text[place]):
            is_counted, is_day = last in ("number", "date"), text[place + 1 : place + 2] in ("曜", "요")
            unit = Unit(text[place], text[place], "date") if is_day else _read_character(text[place], is_counted)
            last = unit.role
            yield unit
            place += 1
        else:
            run = _FOREIGN_RUN.match(text, place) or _RUNS.match(text, place)
            part = run[0] if run else text[place]
            last = "number" if any(map(str.isdigit, part)) else "name"
            yield Unit(part, fold(part), "number" if last == "number" else "name", 1.0)
            place += len(part)
    if particle:
        yield Unit(particle, particle, "strong" if particle in words_for.STRONG_PARTICLES else "link")


def _split_particle(token: str) -> tuple[str, str]:
    """Return a Korean word and the particle at its end; any other token as it is."""
    if not "\uac00" <= token[-1] <= "\ud7a3":
        return token, ""
    ending = next((end for end in words_for.PARTICLES if token.endswith(end) and len(token) > len(end)), "")
    return token.removesuffix(ending), ending


def _read_character(char: str, is_counted: bool) -> Unit:
    """Return a character as a unit; after a number (``is_counted``) it may be a unit of measure or time."""
    if char in words_for.STRONG_CHARS:
        return Unit(char, char, "strong")
    if char in words_for.FUNCTION_CHARS:
        return Unit(char, char, "link")
    if char in words_for.NUMBER_CHARS:
        return Unit(char, char, "number", _WEIGHTS["number"])
    if char in words_for.WEEK_CHARS or (is_counted and char in words_for.COUNTED_CHARS):
        return Unit(char, char, "date")
    return Unit(char, fold(char), "char", _WEIGHTS["char"])


def _pairs(units: Sequence[Unit]) -> Iterator[str]:
    for first, second in pairwise(units):
        if first.role == "char" and second.role == "char":
            yield first.key + second.key
