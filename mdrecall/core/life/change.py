"""Recognise a changed fact: two statements about the same thing that say something different of it.

No model is asked. What both hold is their subject, and what only one holds is its value. A change has the same subject
and exactly one value on each side, of the same kind and in the same place. Statements that differ in two places are
most often about two things: "Anna's phone is 1" and "Ben's phone is 2".
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from mdrecall.core.life import change_words as words_for
from mdrecall.core.life.statements import Statement, Unit
from mdrecall.core.text.stem import stem
from mdrecall.core.text.words import fold
from mdrecall.named_tuple import NamedTuple

ChangeKind: TypeAlias = Literal["number", "date", "name", "state", "negation"]

#: Two words say what a statement is about; one hardly ever does, unless it is a label.
_MIN_SUBJECT = 2.0
#: A label of three characters, such as 办公室, is one word.
_MIN_CHARS_SUBJECT = 1.5
#: A value is a few words; what is longer is another statement.
_MAX_VALUE, _MAX_NEW_VALUE = 4, 8
_MAX_PLAIN_VALUE = 3
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
    return value.after > 0 or value.previous in _NUMBERED


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


_NUMBERED = frozenset(map(stem, words_for.NUMBERED))
