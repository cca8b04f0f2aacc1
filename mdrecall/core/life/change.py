"""Recognise a changed fact: two statements about the same thing that say something different of it.

No model is asked. Both statements are cut into units: words, numbers, or single characters of scripts without spaces.
What both hold is their subject, and what only one holds is its value. A change has the same subject and exactly one
value on each side, of the same kind and in the same place. Statements that differ in two places are most often about
two things: "Anna's phone is 1" and "Ben's phone is 2".
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.core.life import change_words as words_for
from mdrecall.core.text.stem import stem
from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import count_unspaced, fold, is_unspaced, tokens

ChangeKind: TypeAlias = Literal["number", "date", "name", "state", "negation"]
_Role: TypeAlias = Literal["word", "name", "number", "char", "date", "unit", "link", "strong", "cue", "verb"]

#: A longer statement says more than one thing, and comparing it would cost more than it tells.
_MAX_CHARS = 300
#: Two words say what a statement is about; one hardly ever does, unless it is a label.
_MIN_SUBJECT = 2.0
#: A character of a script without spaces is about half a word, and a number says less than a word.
_WEIGHTS: dict[str, float] = {"word": 1.0, "name": 1.0, "char": 0.5, "number": 0.5}
#: A label of three characters, such as 办公室, is one word.
_MIN_CHARS_SUBJECT = 1.5
#: A value is a few words; what is longer is another statement.
_MAX_VALUE, _MAX_NEW_VALUE = 4, 8
_MAX_PLAIN_VALUE = 3
#: A denial repeats most of what it denies.
_MIN_DENIED = 0.6

_MARKS = re.compile(r"^\s*(?:[-*+>]\s+|\d{1,3}[.)]\s+|#{1,6}\s+)*(?:\[[ xX]\]\s+)?")
_STAMP = re.compile(
    r"^[\[(]?(?:\d{4}-\d\d-\d\d(?:[ T]\d\d?:\d\d(?::\d\d)?)?|\d\d?:\d\d(?::\d\d)?)[\])]?\s*(?:[-–—:|]\s+)?"
)
_SPEAKER = re.compile(r"^(?:user|assistant|human|agent|me)\s?:\s+", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->")
_EMPHASIS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")
# Not after a number or an initial: "4. Mai" and "Dr. Weiss" go on.
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{3}[.!?])\s+|(?<=[。！？])")
_COLON = re.compile(r"[:：=→](?=\s|[^\x00-\x7f]|$)|(?<=[^\x00-\x7f])：")
_RUNS = re.compile(r"\d[\d.,:/-]*\d|\d|[^\W\d_]+|[^\W]")
_NOT = re.compile(r"n['’]t\b")
# Tasks, captions in brackets, and lines of JSON, markup or shell.
_NO_CLAIM = re.compile(r"^\s*(?:[-*+]\s+\[[ xX]\]|(?:[-*+]\s+)?\[[^\]]*\]\s*$|[\"{}<$|`])")


class Change(NamedTuple):
    """How a newer statement differs from an older one about the same thing."""

    kind: ChangeKind
    old: str
    new: str
    """What each of them says of it, as written; empty where one only denies the other."""


class _Unit(NamedTuple):
    text: str
    key: str
    role: _Role
    weight: float = 0.0


class Statement(NamedTuple):
    """A sentence or list item, cut into units so that it can be compared with many others."""

    text: str
    units: tuple[_Unit, ...]
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


class _Value(NamedTuple):
    """A run of units that only one of two statements holds."""

    units: tuple[_Unit, ...]
    before: float
    """The weight of the shared units before it."""
    after: float
    link: str
    """The link directly before it; empty if it follows a shared word directly."""
    is_linked: bool
    """True if a strong link, such as *is*, stands between the subject and it."""
    previous: str
    """The shared word before it."""
    end: int
    """The place of the unit after it."""


def read_statements(text: str, topic: str = "") -> list[Statement]:
    """Return the claims of a text, line by line; those that are too short or too long to compare are left out.

    ``topic`` is the heading above them. A date is none.
    """
    about = "" if any(map(str.isdigit, topic)) else fold(topic.strip())
    found = []
    for line in text.split("\n"):
        if _NO_CLAIM.match(line):
            continue
        for sentence in _SENTENCE_END.split(_clean(line)):
            if 0 < len(sentence) <= _MAX_CHARS and (statement := _read(sentence)) and statement.is_claim:
                found.append(statement._replace(topic=about))
    return found


def read_statement(text: str) -> Statement | None:
    """Return a line as one statement; None if there is nothing in it to compare, or too much."""
    bare = _clean(text)
    statement = _read(bare) if 0 < len(bare) <= _MAX_CHARS else None
    return statement._replace(is_claim=False) if statement and _NO_CLAIM.match(text) else statement


def find_change(old: Statement, new: Statement) -> Change | None:
    """Return how the newer of two statements changes what the older one says; None if it does not."""
    shared = old.subject_keys & new.subject_keys
    if not shared or not old.is_claim or not new.is_claim:
        return None
    is_announced = _announces_change(new)
    if len(shared) < _MIN_SUBJECT and not is_announced and not (":" in old.text or "：" in old.text):
        return None
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


def _clean(line: str) -> str:
    bare = _COMMENT.sub("", line).strip()
    bare = _STAMP.sub("", _MARKS.sub("", bare), count=1)
    return _EMPHASIS.sub("", _SPEAKER.sub("", bare)).strip()


def _read(text: str) -> Statement | None:
    pieces = _COLON.split(_NOT.sub(" not", text))
    words = [fold(word) for piece in pieces for token in tokens(piece) for word in _RUNS.findall(token)]
    stops = find_stop_words(words)
    units: list[_Unit] = []
    for number, piece in enumerate(pieces):
        if number:
            units.append(_Unit(":", ":", "strong"))
        units += _read_piece(piece, stops, is_first=not number)
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
        any(_is_event(unit) for unit in units),
        not text.endswith(("?", "？")),
    )


def _is_denied(text: str, words: list[str], stops: frozenset[str]) -> bool:
    found = {word for word in words if word in words_for.NEGATIONS and (len(word) > 3 or word in stops)}
    if "no" in found and words_for.PORTUGUESE.intersection(words):
        found.discard("no")
    return bool(found) or _has_cjk_negation(text)


def _is_event(unit: _Unit) -> bool:
    text = unit.text
    return text.lower() in words_for.EVENTS or (unit.role == "word" and len(text) > 4 and text.endswith("ed"))


def _has_cjk_negation(text: str) -> bool:
    return count_unspaced(text) > 0 and any(word in text for word in words_for.CJK_NEGATIONS)


def _read_piece(piece: str, stops: frozenset[str], *, is_first: bool) -> Iterator[_Unit]:
    for place, token in enumerate(tokens(piece)):
        if count_unspaced(token):
            yield from _read_characters(token)
            continue
        parts = [token] if any(map(str.isdigit, token)) or "@" in token else _RUNS.findall(token)
        for part in parts:
            yield _read_word(part, stops, begins=is_first and not place)


def _read_word(word: str, stops: frozenset[str], *, begins: bool) -> _Unit:
    folded = fold(word)
    if folded in words_for.ALIKE:
        return _Unit(word, words_for.ALIKE[folded], "verb", 1.0)
    if folded in words_for.CHANGE_VERBS or folded in words_for.CUES:
        return _Unit(word, folded, "cue")
    if any(map(str.isdigit, word)):
        return _Unit(word, folded, "number", _WEIGHTS["number"])
    if folded in words_for.DATES:
        return _Unit(word, folded.rstrip("s"), "date")
    if folded in words_for.LINKING_VERBS or (folded in stops and folded in words_for.COPULAS):
        return _Unit(word, folded, "strong")
    if folded in stops or folded in words_for.NEGATIONS:
        return _Unit(word, folded, "link")
    if folded in words_for.UNITS:
        return _Unit(word, folded, "unit")
    is_name = word[:1].isupper() and not begins
    return _Unit(word, stem(folded), "name" if is_name else "word", 1.0)


def _read_characters(token: str) -> Iterator[_Unit]:
    """Yield the units of a token of a script without spaces: characters, and the numbers and words between them."""
    text, particle = _split_particle(token)
    place, last = 0, ""
    while place < len(text):
        if cue := next((cue for cue in words_for.CJK_CUES if text.startswith(cue, place)), ""):
            yield _Unit(cue, cue, "cue")
            place += len(cue)
        elif is_unspaced(text[place]):
            unit = _read_character(text[place], is_counted=last in ("number", "date"))
            last = unit.role
            yield unit
            place += 1
        else:
            run = _RUNS.match(text, place)
            part = run[0] if run else text[place]
            last = "number" if part[0].isdigit() else "name"
            yield _Unit(part, fold(part), "number" if last == "number" else "name", 1.0)
            place += len(part)
    if particle:
        yield _Unit(particle, particle, "strong" if particle in words_for.STRONG_PARTICLES else "link")


def _split_particle(token: str) -> tuple[str, str]:
    """Return a Korean word and the particle at its end; any other token as it is."""
    if not "\uac00" <= token[-1] <= "\ud7a3":
        return token, ""
    ending = next((end for end in words_for.PARTICLES if token.endswith(end) and len(token) > len(end)), "")
    return token.removesuffix(ending), ending


def _read_character(char: str, *, is_counted: bool) -> _Unit:
    """Return a character as a unit; after a number (``is_counted``) it may be a unit of measure or time."""
    if char in words_for.STRONG_CHARS:
        return _Unit(char, char, "strong")
    if char in words_for.FUNCTION_CHARS:
        return _Unit(char, char, "link")
    if char in words_for.NUMBER_CHARS:
        return _Unit(char, char, "number", _WEIGHTS["number"])
    if char in words_for.WEEK_CHARS or (is_counted and char in words_for.COUNTED_CHARS):
        return _Unit(char, char, "date")
    return _Unit(char, fold(char), "char", _WEIGHTS["char"])


def _pairs(units: Sequence[_Unit]) -> Iterator[str]:
    for first, second in itertools.pairwise(units):
        if first.role == "char" and second.role == "char":
            yield first.key + second.key


def _is_shared(units: Sequence[_Unit], place: int, shared: frozenset[str]) -> bool:
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
    run: list[_Unit] = []
    before, start, link, previous, is_linked = 0.0, 0.0, "", "", False
    units = statement.units
    for place, unit in enumerate(units):
        is_shared = bool(unit.weight) and _is_shared(units, place, shared)
        if run and (is_shared or unit.role == "strong"):
            found.append(_Value(tuple(run), start, 0.0, link, is_linked, previous, place))
            run = []
        if is_shared:
            before, link, previous, is_linked = before + unit.weight, "", unit.key, False
        elif unit.role in ("strong", "link"):
            if not run:
                link, is_linked = unit.key, is_linked or unit.role == "strong"
        elif not (unit.role == "cue" or unit.key in soft or _is_change_verb(unit)):
            start = start if run else before
            run.append(unit)
    if run:
        found.append(_Value(tuple(run), start, 0.0, link, is_linked, previous, len(units)))
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
    if any(unit.role == "char" for unit in old.units):
        return weight >= _MIN_CHARS_SUBJECT
    if weight < 1 or not value.before:
        return False
    # A single word is a subject as the label of a short value, in sections about the same thing.
    is_label = value.link == other.link == ":" and value.previous not in words_for.PLAIN_LABELS
    is_short = max(_size(value), _size(other)) <= _MAX_PLAIN_VALUE
    is_typed = bool(_roles_of(value) & _roles_of(other) & {"number", "date", "name"})
    return (is_typed and _announces_change(new)) or (is_label and is_short and old.topic == new.topic)


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
    states, other_states = _states_of(before), _states_of(after)
    if states or other_states:
        return "state" if states & other_states else None
    is_placed = before.is_linked or not before.after
    if "name" in roles and "name" in others and (is_announced or (before.link and is_placed)):
        return "name"
    is_short = max(_size(before), _size(after)) <= _MAX_PLAIN_VALUE or roles == {"char"}
    is_same_place = (before.is_linked and before.link == after.link) or is_announced
    is_plain = not {"number", "date"} & (roles | others)
    return "state" if is_short and is_plain and is_placed and is_same_place else None


def _is_time(*values: _Value) -> bool:
    return all(any(unit.role == "date" or ":" in unit.text for unit in value.units) for value in values)


def _roles_of(value: _Value) -> set[str]:
    return {"word" if unit.role == "verb" else unit.role for unit in value.units}


def _states_of(value: _Value) -> set[int]:
    words = {fold(unit.text) for unit in value.units}
    return {number for number, group in enumerate(words_for.STATES) if words & group}


def _is_numbered(value: _Value) -> bool:
    """True if a number is part of a name, as in "phase 2" or "Invoice 1041 is paid"."""
    if value.units[0].role != "number" or value.link:
        return False
    return value.after > 0 or value.previous in _NUMBERED


def _names_holder(statement: Statement, value: _Value) -> bool:
    """True if a statement begins with the name of the only one it can be true of: "Carol is the owner of …"."""
    if value.before or not all(unit.text[:1].isupper() for unit in value.units):
        return False
    rest = [fold(unit.text) for unit in statement.units[value.end : value.end + 2]]
    is_definite = len(rest) == 2 and rest[0] in words_for.COPULAS and rest[1] in words_for.DEFINITE
    return value.after >= 1 and (is_definite or (bool(rest) and rest[0] in words_for.EXCLUSIVE))


def _is_change_verb(unit: _Unit) -> bool:
    return fold(unit.text) in words_for.CHANGE_VERBS


def _announces_change(statement: Statement) -> bool:
    """True if a statement says that something is no longer as it was."""
    return any(_is_change_verb(unit) or unit.text in words_for.CJK_CUES for unit in statement.units)


def _size(value: _Value) -> float:
    """Return how many words a value has; two characters of a script without spaces are one."""
    return sum(0.5 if unit.role == "char" else 1.0 for unit in value.units if unit.role not in ("date", "unit"))


def _show(value: _Value) -> str:
    glue = "" if all(unit.role == "char" for unit in value.units) else " "
    return glue.join(unit.text for unit in value.units)


_NUMBERED = frozenset(map(stem, words_for.NUMBERED))
