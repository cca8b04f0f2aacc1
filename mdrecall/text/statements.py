"""Statements, and changed facts: two statements about the same thing that say something different of it.

A unit is a word, a number, or a single character of a script without spaces. Each has a role: what a statement is
about, a time or a unit of measure, a link such as *is*, or a word that announces a change.

No model is asked. What both hold is their subject, and what only one holds is its value. A change has the same subject
and exactly one value on each side, of the same kind and in the same place. Statements that differ in two places are
most often about two things: "Anna's phone is 1" and "Ben's phone is 2".
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.text import change_words as words_for
from mdrecall.text.days import Place, is_newer
from mdrecall.text.words import count_unspaced, find_stop_words, fold, is_unspaced, stem, tokens

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
_SENTENCE_END = compile_later(r"\s(?<=[^\W\d_]{3}[.!?]\s)\s*|(?<=[。！？])")
_ASCII_SENTENCE_END = compile_later(r"\s(?<=[A-Za-z]{3}[.!?]\s)\s*")
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
    read = (read_claim(sentence, topic) for sentence in list_sentences(text))
    return [statement for statement in read if statement]


def list_sentences(text: str) -> list[str]:
    """Return the sentences of a text that may be claims."""
    lines = (line for line in text.split("\n") if not _is_no_claim(line))
    every = (sentence for line in lines for sentence in _split_sentences(_clean(line)))
    return [sentence for sentence in every if 0 < len(sentence) <= _MAX_CHARS]


def read_claim(sentence: str, topic: str) -> Statement | None:
    """Return a sentence as a statement; None if it claims nothing."""
    statement = _read(sentence)
    if statement is None or not statement.is_claim:
        return None
    return statement._replace(topic="" if any(map(str.isdigit, topic)) else fold(topic.strip()))


def list_beginnings(sentence: str) -> frozenset[str]:
    """Return how the words of a sentence begin; nothing if there are others than ASCII ones."""
    return frozenset([word[:_BEGINNING] for word in _RUNS.findall(sentence.lower())] if sentence.isascii() else ())


def may_change(old: Set[str], new: Set[str]) -> bool:
    """True if two sentences share enough words for the newer one to be a change of the older.

    Comparing the beginnings of their words takes a tenth of the time of reading both as statements.
    """
    most = max(_MAX_DIFFERENT, len(old & new))
    return (len(old - new) <= most and len(new - old) <= most + _MAX_NEW_VALUE - _MAX_VALUE) or not (old and new)


def read_statement(text: str) -> Statement | None:
    """Return a line as one statement; None if there is nothing in it to compare, or too much."""
    bare = _clean(text)
    statement = _read(bare) if 0 < len(bare) <= _MAX_CHARS else None
    return statement._replace(is_claim=False) if statement and _is_no_claim(text) else statement


# To look for the characters of a pattern first takes a tenth of the time that the pattern takes, compiled or not.


def _is_no_claim(line: str) -> bool:
    return line.lstrip()[:1] in _NO_CLAIM_SIGNS and _NO_CLAIM.match(line) is not None


def _split_sentences(line: str) -> list[str]:
    end = _ASCII_SENTENCE_END if line.isascii() else _SENTENCE_END
    return end.split(line) if _holds_any(line, ".!?。！？") else [line]


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


ChangeKind: TypeAlias = Literal["number", "date", "name", "state", "negation"]

#: Two words say what a statement is about; one hardly ever does, unless it is a label.
_MIN_SUBJECT = 2.0
#: A label of three characters, such as 办公室, is one word.
_MIN_CHARS_SUBJECT = 1.5
#: A value is a few words; what is longer is another statement.
_MAX_VALUE, _MAX_NEW_VALUE = 4, 8
_MAX_PLAIN_VALUE = 3
#: A value with as many links and dates in it, counted by the beginnings of words, is no longer one.
_MAX_DIFFERENT, _BEGINNING = 10, 3
#: The roles of words that announce a change; others need not be looked up.
_ANNOUNCING = ("cue", "verb")
#: A denial repeats most of what it denies.
_MIN_DENIED = 0.6


class Change(NamedTuple):
    """How a newer statement differs from an older one about the same thing."""

    kind: ChangeKind
    old: str
    new: str
    """What each of them says of it, as written; empty where one only denies the other."""


class _Value(NamedTuple):
    """A run of units that only one of two statements holds."""

    units: tuple[Unit, ...]
    before: float
    """The weight of the shared units before it."""
    after: float
    link: str
    """The link directly before it; empty if it follows a shared word directly."""
    is_linked: bool
    """True if a strong link, such as *is*, stands between the subject and it."""
    is_located: bool
    """True if it says where something is: a word such as *in* stands between the link and it."""
    previous: str
    """The shared word before it."""
    end: int
    """The place of the unit after it."""


def find_change(old: Statement, new: Statement) -> Change | None:
    """Return how the newer of two statements changes what the older one says; None if it does not."""
    shared = old.subject_keys & new.subject_keys
    if not shared or not old.is_claim or not new.is_claim:
        return None
    is_announced = _announces_change(new)
    soft = old.soft_keys & new.soft_keys
    before, after = _find_values(old, shared, soft), _find_values(new, shared, soft)
    weight = min(_shared_weight(old, shared), _shared_weight(new, shared))
    if old.is_denied != new.is_denied:
        denying = old if old.is_denied else new
        is_denial = _denies(denying, shared) and _is_denial(before, after, weight, old.weight, new.weight)
        return Change("negation", "", "") if is_denial else None
    if not before and len(after) == 1 and weight >= _MIN_SUBJECT and is_announced:
        return Change("name", old.text, _show(after[0]))
    if len(before) != 1 or len(after) != 1 or not _has_subject(old, new, before[0], after[0], weight):
        return None
    return _compare_values(old, new, before[0], after[0])


def _is_shared(units: Sequence[Unit], place: int, shared: frozenset[str]) -> bool:
    """True if the other statement holds a unit too; of a character it must hold a pair."""
    unit = units[place]
    if unit.role != "char":
        return unit.key in shared
    before = units[place - 1].key if place and units[place - 1].role == "char" else ""
    after = units[place + 1].key if place + 1 < len(units) and units[place + 1].role == "char" else ""
    return bool(before and before + unit.key in shared) or bool(after and unit.key + after in shared)


def _shared_weight(statement: Statement, shared: frozenset[str]) -> float:
    units = statement.units
    return sum(unit.weight for place, unit in enumerate(units) if unit.weight and _is_shared(units, place, shared))


def _find_values(statement: Statement, shared: frozenset[str], soft: frozenset[str]) -> list[_Value]:
    """Return the runs of a statement that the other one does not hold. A shared word or a strong link ends a run.

    Times and units that both hold go with either a subject or a value, so they end no run.
    """
    found: list[_Value] = []
    run: list[Unit] = []
    before, start, link, previous, is_linked, is_located = 0.0, 0.0, "", "", False, False
    units = statement.units
    for place, unit in enumerate(units):
        is_shared = bool(unit.weight) and _is_shared(units, place, shared)
        if run and (is_shared or unit.role == "strong"):
            found.append(_Value(tuple(run), start, 0.0, link, is_linked, is_located, previous, place))
            run = []
        if is_shared:
            before, link, previous, is_linked, is_located = before + unit.weight, "", unit.key, False, False
        elif unit.role in ("strong", "link"):
            if not run:
                link, is_linked = unit.key, is_linked or unit.role == "strong"
                is_located = is_linked and (is_located or unit.key in words_for.PLACE_LINKS)
        elif not (unit.role == "cue" or unit.key in soft or _is_change_verb(unit)):
            start = start if run else before
            run.append(unit)
    if run:
        found.append(_Value(tuple(run), start, 0.0, link, is_linked, is_located, previous, len(units)))
    return _drop_openings([value._replace(after=before - value.before) for value in found])


def _drop_openings(values: list[_Value]) -> list[_Value]:
    """Return the values without a time in front, as in "As of July, the rent is 900"."""
    if len(values) > 1 and not values[0].before and all(unit.role in ("date", "unit") for unit in values[0].units):
        return values[1:]
    return values


def _denies(statement: Statement, shared: frozenset[str]) -> bool:
    """True if what a statement denies is what both say: "not public" beside "public", and not beside "cheap"."""
    units = statement.units
    content = [place for place, unit in enumerate(units) if unit.weight]
    denials = [place for place, unit in enumerate(units) if unit.key in words_for.NEGATIONS]
    if not denials:
        return True
    following = (next((place for place in content if place > denial), None) for denial in denials)
    return any(place is None or _is_shared(units, place, shared) for place in following)


def _is_denial(values: list[_Value], others: list[_Value], shared: float, weight: float, other: float) -> bool:
    """True if two statements say the same apart from a negation."""
    is_other_subject = any(not value.before for value in (*values, *others))
    is_enough = shared >= _MIN_SUBJECT and shared >= _MIN_DENIED * min(weight, other)
    return is_enough and shared * 2 >= max(weight, other) and not is_other_subject and not (values and others)


def _has_subject(old: Statement, new: Statement, value: _Value, other: _Value, weight: float) -> bool:
    """True if what two statements share is enough to say what they are about."""
    if weight >= _MIN_SUBJECT:
        return True
    if any(unit.role == "char" for unit in old.units) and weight >= _MIN_CHARS_SUBJECT:
        return True
    if weight < 1 or not value.before:
        return False
    is_typed = bool(_roles_of(value) & _roles_of(other) & {"number", "date", "name"})
    return (is_typed and _announces_change(new)) or _is_label(old, new, value, other)


def _is_label(old: Statement, new: Statement, value: _Value, other: _Value) -> bool:
    """True if a single word is the subject: as the label of a short value, in sections about the same thing."""
    is_short = max(_size(value), _size(other)) <= _MAX_PLAIN_VALUE
    if not (is_short and value.is_linked and other.is_linked) or value.previous in words_for.PLAIN_LABELS:
        return False
    if any(unit.key in words_for.PAST_COPULAS for unit in new.units):
        return False
    roles, others = _roles_of(value), _roles_of(other)
    is_typed = bool(roles & others & {"number", "date"}) or roles == others == {"name"}
    is_valued = value.link == ":" or is_typed or bool(_states_of(value) & _states_of(other))
    is_placed = value.is_located and _is_definite(old) and _is_definite(new)
    is_valued = is_valued or is_placed or _has_label(old, words_for.SINGLE)
    is_same_place = value.link == other.link or (value.is_located and other.is_located and roles != {"name"})
    return is_valued and is_same_place and (old.topic == new.topic or (_is_own(old) and _is_own(new)))


def _has_label(statement: Statement, labels: frozenset[str]) -> bool:
    """True if one of the labels stands before the first strong link, such as *dentist* in "My dentist is"."""
    units = statement.units
    end = next((place for place, unit in enumerate(units) if unit.role == "strong"), 0)
    start = end
    while start and units[start - 1].role == "char":
        start -= 1
    if start == end:
        return end > 0 and fold(units[end - 1].text) in labels
    return any("".join(unit.text for unit in units[place:end]) in labels for place in range(start, end))


def _is_definite(statement: Statement) -> bool:
    """True if a statement begins with a single thing that is known: "the office", "my car"."""
    first = statement.units[0]
    return first.role == "char" or first.key in words_for.DEFINITE or _is_own(statement)


def _is_own(statement: Statement) -> bool:
    return statement.units[0].key in words_for.OWN


def _compare_values(old: Statement, new: Statement, before: _Value, after: _Value) -> Change | None:
    """Return a change if two values are of the same kind, at a place where a statement has its value."""
    is_same = {unit.key for unit in before.units} == {unit.key for unit in after.units}
    if is_same or _size(before) > _MAX_VALUE or _size(after) > _MAX_NEW_VALUE:
        return None
    is_announced = _announces_change(new)
    if not before.before or not after.before:
        is_change = _names_holder(old, before) and _names_holder(new, after)
        return Change("name", _show(before), _show(after)) if is_change else None
    if (old.is_event and new.is_event and not is_announced) or _is_numbered(before) or _is_numbered(after):
        return None
    if _is_in_subject(old, before) or _is_in_subject(new, after):
        return None
    if _has_label(old, words_for.SEVERAL) and not is_announced and not before.is_located:
        return None
    kind = _find_kind(before, after, is_announced=is_announced)
    return Change(kind, _show(before), _show(after)) if kind else None


def _find_kind(before: _Value, after: _Value, *, is_announced: bool) -> ChangeKind | None:
    """Return what kind of value both are; None if they are of different kinds, and one may hold beside the other."""
    roles, others = _roles_of(before), _roles_of(after)
    if "unit" in roles and "unit" in others:
        return None
    # Another name with another number is most often another thing.
    if "name" in roles & others and {"number", "date"} & roles and {"number", "date"} & others:
        return None
    if roles & others & {"number", "date"} or ((roles | others) >= {"number", "date"} and _is_time(before, after)):
        return "date" if "date" in roles or _is_time(before, after) else "number"
    if roles & {"number", "date"} and others & {"word", "name"} and not is_announced:
        return None
    if bool(before.after) != bool(after.after) and not is_announced:
        return None
    is_located = before.is_located and after.is_located and roles == others
    states, other_states = _states_of(before), _states_of(after)
    if (states or other_states) and not is_located:
        return "state" if states & other_states else None
    is_placed = before.is_linked or not before.after
    if "name" in roles and "name" in others and (is_announced or (before.link and is_placed)):
        return "name"
    is_short = max(_size(before), _size(after)) <= _MAX_PLAIN_VALUE or roles == {"char"}
    is_same_place = (before.is_linked and before.link == after.link) or is_located or is_announced
    is_plain = not {"number", "date"} & (roles | others)
    return "state" if is_short and is_plain and is_placed and is_same_place else None


def _is_time(*values: _Value) -> bool:
    return all(any(unit.role == "date" or ":" in unit.text for unit in value.units) for value in values)


def _roles_of(value: _Value) -> set[str]:
    return {"word" if unit.role == "verb" else unit.role for unit in value.units}


def _states_of(value: _Value) -> set[int]:
    # "Herr Braun" is no colour; after a colon any word may be capitalised.
    words = {fold(unit.text) for unit in value.units if unit.role != "name" or value.link == ":"}
    return {number for number, group in enumerate(words_for.STATES) if words & group}


def _is_numbered(value: _Value) -> bool:
    """True if a number is part of a name, as in "phase 2" or "Invoice 1041 is paid"."""
    if value.units[0].role != "number" or value.link:
        return False
    return value.after > 0 or value.previous in _stem_numbered()


def _is_in_subject(statement: Statement, value: _Value) -> bool:
    """True if a verb such as *is* follows: what stands before it says what the statement is about."""
    return value.end < len(statement.units) and statement.units[value.end].role == "strong"


def _names_holder(statement: Statement, value: _Value) -> bool:
    """True if a statement begins with the name of the only one it can be true of: "Carol is the owner of …"."""
    if value.before or not all(unit.text[:1].isupper() for unit in value.units):
        return False
    rest = [fold(unit.text) for unit in statement.units[value.end : value.end + 2]]
    is_definite = len(rest) == 2 and rest[0] in words_for.COPULAS and rest[1] in words_for.DEFINITE
    return value.after >= 1 and (is_definite or (bool(rest) and rest[0] in words_for.EXCLUSIVE))


def _is_change_verb(unit: Unit) -> bool:
    return unit.role in _ANNOUNCING and fold(unit.text) in words_for.CHANGE_VERBS


def _announces_change(statement: Statement) -> bool:
    """True if a statement says that something is no longer as it was."""
    announcing = (unit for unit in statement.units if unit.role in _ANNOUNCING)
    return any(_is_change_verb(unit) or unit.text in words_for.CJK_CUES for unit in announcing)


def _size(value: _Value) -> float:
    """Return how many words a value has; two characters of a script without spaces are one."""
    return sum(0.5 if unit.role == "char" else 1.0 for unit in value.units if unit.role not in ("date", "unit"))


def _show(value: _Value) -> str:
    glue = "" if all(unit.role == "char" for unit in value.units) else " "
    return glue.join(unit.text for unit in value.units)


@cache
def _stem_numbered() -> frozenset[str]:
    return frozenset(map(stem, words_for.NUMBERED))


#: A word of more statements than this says little about what one of them is about.
_MAX_POSTINGS = 20
#: Of each statement, its rarest words are looked up; two statements about the same thing share one of them.
_RAREST = 3
#: A few seconds of comparing; the report says what is left.
MAX_COMPARED = 100_000
#: A statement that differs from this many others is an entry of a list or a log, not a contradiction.
_SERIES = 4


class Claim(NamedTuple):
    """A statement of a note, and where it is."""

    statement: Statement
    place: Place


class Conflict(NamedTuple):
    """Two claims of which only one can hold."""

    old: Claim
    new: Claim
    change: Change
    is_ordered: bool
    """True if the notes tell which of them is newer."""


class Conflicts(NamedTuple):
    """What contradicts itself."""

    found: tuple[Conflict, ...]
    is_complete: bool = True
    """False if there was too much to compare."""


def find_conflicts(claims: Sequence[Claim], *, max_compared: int = MAX_COMPARED) -> Conflicts:
    """Return the claims that contradict each other, in their order. Lists and logs of one thing are left out."""
    found: list[tuple[int, int, Conflict]] = []
    compared = 0
    for first, second in _find_candidates(claims):
        compared += 1
        if compared > max_compared:
            break
        if conflict := _compare(claims[first], claims[second]):
            found.append((first, second, conflict))
    partners: dict[str, set[str]] = defaultdict(set)
    for first, second, _ in found:
        one, other = claims[first].statement.text, claims[second].statement.text
        partners[one].add(other)
        partners[other].add(one)
    series = {text for text, others in partners.items() if len(others) >= _SERIES}
    kept = {
        (conflict.old.statement.text, conflict.new.statement.text): conflict
        for first, second, conflict in found
        if not series & {claims[first].statement.text, claims[second].statement.text}
    }
    return Conflicts(tuple(kept.values()), compared <= max_compared)


def _compare(one: Claim, other: Claim) -> Conflict | None:
    """Return the conflict of two claims, the older one first where that is known."""
    if is_newer(one.place, other.place):
        one, other = other, one
    change = find_change(one.statement, other.statement)
    return Conflict(one, other, change, is_newer(other.place, one.place)) if change else None


def _find_candidates(claims: Sequence[Claim]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share one of their rarest words, each once."""
    postings: dict[str, list[int]] = defaultdict(list)
    for number, claim in enumerate(claims):
        for key in claim.statement.subject_keys:
            postings[key].append(number)
    for number, claim in enumerate(claims):
        rarest = sorted(claim.statement.subject_keys, key=lambda key: (len(postings[key]), key))
        shared = [key for key in rarest if 1 < len(postings[key]) <= _MAX_POSTINGS][:_RAREST]
        for other in sorted({other for key in shared for other in postings[key] if other > number}):
            yield number, other
