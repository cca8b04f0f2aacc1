"""Same subject, other value: two lines that state the same of one thing with another value.

What both lines hold is their subject, with the heading and the file that they stand below. What only one holds is its
value: a number, a date, a name or a quoted text. Lines that differ in two places are most often about two things:
"Anna's phone is 1" and "Ben's phone is 2". The strongest sign is a verb of change beside the old value.

The words that are listed are negations, signs of a change, *is* and the past; one that is missing makes a change harder
to recognise, and invents none.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache, lru_cache
from itertools import compress, dropwhile, pairwise
from typing import NamedTuple

from mdrecall.patterns import compile_later, drop_ending
from mdrecall.text.days import note_day
from mdrecall.text.words import common_beginning, count_unspaced, find_stop_words, fold, is_unspaced, stem

# The kinds of the words that tell how two lines differ: English, German, French, Spanish, Italian, Portuguese and Dutch
# in one, folded, then Chinese and Japanese. A weak sign is also said of what has not changed: "the new laptop". To move
# is to live elsewhere, so these verbs have the same subject.
_WORDS = {
    "not": """not no never none cannot without nicht kein keine keinen keinem keiner nie niemals ohne pas jamais aucun
        aucune sans nunca sin ninguno ninguna non senza nessuno nao sem nenhum niet geen nooit zonder""",
    "verb": """switched changed replaced replaces renamed migrated rescheduled postponed upgraded downgraded raised
        lowered increased reduced became dropped instead extended shortened took-over gewechselt wechselt geandert
        verschoben verlegt ersetzt umbenannt ubernommen ubernimmt umgestellt getauscht erhoht gesenkt aktualisiert
        stattdessen remplace deplace reporte renomme passe repris reprend augmente baisse abandonne cambio cambiado
        cambia reemplazado sustituido renombrado subio sube actualizado asumio cambiato spostato sostituito rinominato
        aggiornato aumentato passato trocou substituido renomeado atualizado aumentou assumiu passou gewijzigd
        verplaatst vervangen hernoemd overgenomen verhoogd verlaagd overgestapt 改成 改为 改為 改到 换成 換成 换到 变成
        變成 升级到 涨到 漲到 升到 降到 调到 調到 现在 現在 変更 変え 変わ になった になりました 今は""",
    "move": """moved moves relocated umgezogen gezogen zog demenage mudo mudado mudada traslado trasferito trasferita
        mudou verhuisd 搬到 搬去 搬家到 引っ越""",
    "live": "live lives lived based wohnt lebt habite vit vive abita mora woont 住在 住 住ん",
    "sign": """now nowadays currently anymore longer as-of jetzt nun inzwischen mittlerweile neuerdings
        maintenant desormais ahora ya actualmente adesso ora ormai agora ja atualmente nu tegenwoordig since seit
        depuis desde sinds""",
    "weak": """another again already actually update updated correction new newly these days over ab wieder mehr neu
        neue neuer neues neuen andere anderer plus autre nouveau nouvelle mas otro otra nuevo nueva dal piu altro
        nuovo mais outro novo meer nieuwe""",
    "is": "is are be ist sind est sont es esta estan e sono sao zijn heisst lautet betragt : ： → 是 在 为 為 用 は が",
    "past": """was were had went met saw ate paid sent made ran got gave slept spent read wrote bought felt left came
        took war waren hatte etait ont avait era eran fue foi erano aveva""",
    "from": "from von de da van",
    "to": "to auf nach a al naar para",
    "the": """the our my der die das unser unsere mein meine le la les notre mon ma el los del nuestro nuestra mi il lo
        nostro het ons""",
    "link": """away down off out over up stored kept saved located hosted gespeichert aufbewahrt guardado
        的 了 我 你 他 她 它 们 們 把 将 將 已 有 和 与 與 也 都 就 很 之 于 於""",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_HAN_VERBS = "|".join(word for kind in ("verb", "move", "live") for word in _WORDS[kind].split() if not word.isascii())
_HAN_NEGATIONS = "[不没沒未]|ない|ません|なく"
#: What a unit says about a subject: a character of a script without spaces is about half a word.
_WEIGHTS = {"word": 1.0, "name": 1.0, "live": 1.0, "char": 0.5, "value": 0.5}
_SHARED_KINDS = (*_WEIGHTS, "move", "aside")
_SINCE = ("from", "starting", "von", "de", "da", "van", "dal", "del", "vanaf")
_TYPED, _VERBS, _LINKS = ("value", "date", "name"), ("verb", "move"), ("link", "not", "from", "to", "past", "the")
#: A longer sentence says more than one thing, and a value is a few words, not far from its verb.
_MAX_CHARS, _MAX_VALUE, _MAX_NEW_VALUE, _NEAR = 300, 4, 8, 5
#: Two words say what a line is about, in Chinese three characters; three words do so whatever heading is above them.
_SUBJECT, _CHARS_SUBJECT, _SURE_SUBJECT = 2.0, 1.5, 3.0
#: The share of both lines, apart from the values, that they have in common.
_LIKENESS = 0.6

# A list mark, a time, and a speaker.
_OPENING = compile_later(
    r"^(?:[-*+>]\s+|\d{1,3}[.)]\s+)*"
    r"(?:[\[(]?(?:\d{4}-\d\d-\d\d(?:[ Tt]\d\d?:\d\d(?::\d\d)?)?|\d\d?:\d\d(?::\d\d)?)[\])]?\s*(?:[-–—:|]\s+)?)?"
    r"(?:(?i:user|assistant|human|agent|me)\s?:\s+)?"
)
_COMMENT = compile_later(r"<!--.*?-->")
# Not after a number or an initial: "4. Mai" and "Dr. Weiss" go on.
_SENTENCE_END = compile_later(r"\s(?:(?<=\n)|(?<=[^\W\d_]{3}[.!?]\s)(?<!Mrs\.\s)(?<!Prof\.\s)\s*)")
# Headings, tasks, captions in brackets, and lines of JSON, markup or shell. Questions, what leads to a list, and code.
_NO_CLAIM = compile_later(r"^\s*(?:#|[-*+]\s+\[[ xX]\]|(?:[-*+]\s+)?\[[^\]]*\]\s*$|[\"{}<$|]|```)")
_BEGINS, _NO_END = frozenset("_\"'“„«`¿¡「"), frozenset("?？:：;{(")
_CODE = compile_later(r"\w\(\"|\.[a-z]{1,4}\b(?!\.).*\w\.[a-z]{1,4}\b(?!\.)")
_TOKEN = compile_later(
    r"\"[^\"]{1,60}\"|“[^”]{1,60}”|„[^“”]{1,60}[“”]|«[^»]{1,60}»|`[^`]{1,60}`|「[^」]{1,60}」|[:：=→](?=\s|[^\x00-\x7f]|$)"
    r"|\w(?:[\w.,:/@+%-]*[\w%])?"
)
_QUOTES = '"“”„«»`「」 '
# In a script without spaces: a word in other letters, a verb, a weekday, a number with what it counts, or a character.
_HAN_TOKEN = compile_later(
    r"[A-Za-z0-9](?:[A-Za-z0-9.,:/@_-]*[A-Za-z0-9])?(?:[年月日号號時时点點分楼樓階层元円人歳岁시분층]+\d*)*|"
    rf"{_HAN_VERBS}|[月火水木金土日]曜日?|(?:星期|周|週|礼拜)[一二三四五六日天]|[월화수목금토일]요일"
    r"|[一二三四五六七八九十百千万两]+[年月日号時时点楼樓階层元円人週周个個]|[一二三四五六七八九十百千万两]{2,}|."
)
_SHORT_NOT = compile_later(r"n['’]t\b")
_DAY = compile_later(r"\d+([-./])\d+\1")
_ASIDE = compile_later(r"(?<=\w)\s?[(（][^()（）]*[)）]")
# Few words share this many first letters, and only short ones have fewer.
_WORD, _BEGINNING = compile_later(r"[^\W\d_]+"), 5
_HOME_WORDS = [word for word, kind in _KINDS.items() if kind in ("live", "move")]
_HOMES = compile_later(rf"\b(?:{'|'.join(_HOME_WORDS)})\b")
# A name with digits in it: GPT4, iPhone15, 1Password.
_NAME = compile_later(r"[a-z]?[A-Z][A-Za-z-]+\d|\d+[A-Z][a-z]")
_AND = frozenset(["and", "und", "et", "y", "e", "en", "&", "和", "与", "與", "と"])
_NEW = ("new", "neu", "nouv", "nuev", "nuov", "nov", "nieuw")  # how words for "new" begin
#: After these words, a day is when a change begins: "as of today", "ab morgen".
_NOT_FROM = "(?<!ab )(?<!om )(?<!as of )(?<!from )"
_OF_ONESELF = compile_later(r"(?:I|we|ich|wir|je|nous|yo|io|eu|ik|wij) ", re.IGNORECASE)
_MEASURED = compile_later(r"\d+[.,]\d")


class Unit(NamedTuple):
    """A part of a sentence: a word, a name, a value such as a number, a date, a character, a link or a sign."""

    text: str
    key: str
    kind: str


class Claim(NamedTuple):
    """A sentence that says that something is so."""

    text: str
    units: tuple[Unit, ...]
    keys_of: tuple[Sequence[str], ...]
    """What each of its units is known by."""
    keys: frozenset[str]
    """What may be shared with another one: words, names and values; pairs for characters."""
    context: frozenset[str]
    """The words of the heading above it, and of the name of its file."""
    file: str
    """What its file is about by its name, such as a person."""
    is_lasting: bool
    """True if its note has no date, and so tells what holds."""
    is_denied: bool


class Change(NamedTuple):
    """How a newer line differs from an older one about the same thing."""

    kind: str
    """``value``, ``date``, ``name``, ``word``, ``negation``, or ``version``: two machines have edited the line."""
    old: str
    new: str
    """What each of them says, as written; empty where one only denies the other."""
    is_sure: bool = True
    """False if both may hold, so that nothing but the order of an answer should depend on it."""


def read_claims(text: str, heading: str = "", path: str = "") -> list[Claim]:
    """Return the claims of a text, line by line, below a heading of a note."""
    return [claim for sentence in list_sentences(text) if (claim := read_claim(sentence, heading, path))]


def find_beginnings(claims: Iterable[Claim]) -> frozenset[str]:
    """Return how the words begin that a line must have one of to change one of the claims."""
    words = {word for claim in claims for word in (*claim.keys, *claim.context)}
    moves = _HOME_WORDS if "=live" in words else []
    return frozenset(common_beginning(word)[:_BEGINNING] for word in (*words, *moves) if word[:1].isalpha())


def may_change(line: str, beginnings: Set[str]) -> bool:
    """True unless a line has none of the words; that is known without reading it as a claim."""
    starts = (word[:size] for word in _WORD.findall(fold(line)) for size in range(1, _BEGINNING + 1))
    return count_unspaced(line) > 0 or not beginnings.isdisjoint(starts)


def fold_homes(text: str) -> str:
    """Return a folded text with one word for to live and to move, since who moves lives elsewhere."""
    folded = fold(text)
    return _HOMES.sub("lives", folded) if any(map(folded.__contains__, _HOME_WORDS)) else folded


def list_sentences(text: str) -> list[str]:
    """Return the sentences of a text that may be claims: no questions, tasks, headings, data or lists of files."""
    found: list[str] = []
    for line in text.split("\n"):
        if line.lstrip()[:1] not in '#-*+["{}<$|`' or not _NO_CLAIM.match(line):
            bare = (_COMMENT.sub("", line) if "<!--" in line else line).replace("**", "").strip()
            bare = bare if bare[:1].isalpha() and ":" not in bare else _OPENING.sub("", bare, count=1)
            found += _SENTENCE_END.split(bare if bare.isascii() else re.sub("[。！？]", r"\g<0>\n", bare))
    said = [one for one in found if 2 < len(one) <= _MAX_CHARS and one[-1] not in _NO_END]
    said = [one for one in said if one[0].isalnum() or one[0] in _BEGINS]
    # Counting dots takes a tenth of the time of looking for two file names.
    return [one for one in said if (one.count(".") < 2 and '("' not in one) or not _CODE.search(one)]


def read_claim(sentence: str, heading: str = "", path: str = "") -> Claim | None:
    """Return a sentence as a claim; None if there is nothing in it to compare."""
    spelled = _SHORT_NOT.sub(" not", sentence) if "n" in sentence else sentence
    # What is said beside a statement changes nothing: "Severity: P2 (degraded but not down)".
    asides, spelled = _ASIDE.findall(spelled), _ASIDE.sub("", spelled)
    parts: list[str] = _TOKEN.findall(spelled.replace("took over", "took-over").replace(" as of ", " as-of "))
    if "_" in spelled or not spelled.isascii():
        han = (_HAN_TOKEN.findall(one) if one[0] not in _QUOTES and count_unspaced(one) else () for one in parts)
        parts = [part for one, chars in zip(parts, han, strict=True) for part in chars or [one.strip("_")]]
    outside, parts = len(parts), [*parts, *_TOKEN.findall(" ".join(asides))]
    words = list(map(str.lower if spelled.isascii() else fold, parts))
    stops = find_stop_words(words)
    pairs = enumerate(zip(parts, words, strict=True))
    read = [(place, _read_unit(part, word, word in stops, not place)) for place, (part, word) in pairs if part]
    units = tuple([one if place < outside else one._replace(kind="aside") for place, one in read if one])
    kinds = {unit.kind for unit in units}
    # With a verb of change, the word before "to" is its object: "raised the goal to 14".
    if not kinds.isdisjoint(("to", "is")) and kinds.isdisjoint((*_VERBS, "sign")):
        units = _mark_bringing(units)
    keys_of = tuple(_list_keys(units) if "char" in kinds else [(unit.key,) for unit in units])
    keys = {key for unit, each in zip(units, keys_of, strict=True) for key in each if unit.kind in _SHARED_KINDS}
    if not keys:
        return None
    file, is_dated = _read_name(path)
    context = _read_context("" if any(map(str.isdigit, heading)) else heading) | _read_context(file)
    # Beside a Portuguese article, *no* means *in the*.
    is_denied = "not" in kinds and not {"o", "os", "da", "do", "em"}.intersection(words)
    is_denied = is_denied or (count_unspaced(sentence) > 0 and re.search(_HAN_NEGATIONS, sentence) is not None)
    return Claim(sentence, units, keys_of, frozenset(keys), context, file, bool(path) and not is_dated, is_denied)


def _mark_bringing(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Return the units with any verb marked that brings their subject to a value: "went up to 14", "renewed: 95"."""
    marked = list(units)
    said = [place for place, unit in enumerate(units) if unit.kind not in ("link", "weak")]
    for place, to, at in zip(said, said[1:], [*said[2:], len(units)], strict=False):
        verb, link = units[place], units[to]
        is_verb = place and verb.kind in ("word", "past") and len(verb.text) > 2 and to - place <= _NEAR
        is_valued = link.kind == "to" and at - place <= _NEAR and units[at:] and units[at].kind in ("value", "date")
        if is_verb and (is_valued or (verb.text.endswith("ed") and link.text in ("to", ":"))):
            marked[place] = verb._replace(kind="bring")
    return tuple(marked)


@lru_cache(1 << 10)
def _read_name(path: str) -> tuple[str, bool]:
    """Return what a file is about by its name, and whether it is the note of a day."""
    name, is_dated = drop_ending(path.rpartition("/")[2]), note_day(path, "") is not None
    return "" if is_dated or name.isupper() else fold(name), is_dated


@lru_cache(1 << 13)
def _read_unit(text: str, folded: str, is_stop: bool, begins: bool) -> Unit | None:
    """Return a part of a sentence with its kind; what begins one may be capitalised. None for a single letter."""
    kind, key = _KINDS.get(folded, ""), folded
    if kind:
        key = "=live" if kind in ("move", "live") else folded
    elif text[0] in _QUOTES:
        kind, key = "value", folded.strip(_QUOTES)
    elif not text.isascii() and is_unspaced(text[0]):
        is_day = re.search("[曜周週星礼요]", text)
        kind = "link" if "\u3041" <= text <= "\u309f" else "char"
        kind = kind if len(text) == 1 else "verb" if re.fullmatch(_HAN_VERBS, text) else "date" if is_day else "value"
    elif folded.rstrip("s") in _time_words("months", "weekdays") and not (is_stop and (begins or text.islower())):
        kind, key = "date", folded.rstrip("s")
    elif is_stop and not (text.isupper() and len(text) > 1):
        kind = "link"
    elif re.search(r"[\d@_]|^[a-z].*(?:://|\w\.\w\w)", text) or folded.rstrip("s") in _time_words("numbers"):
        kind = "value"
    else:
        kind, key = "name" if text[0].isupper() and not begins else "word", stem(folded)
    return Unit(text, key, kind) if len(key) > 1 or not key.isalpha() or not key.isascii() else None


@cache
def _time_words(*fields: str) -> frozenset[str]:
    from mdrecall.text.time_reader import LANGUAGES

    words = (word for one in LANGUAGES.values() for field in fields for word in getattr(one, field))
    return frozenset(fold(word).rstrip("s") for word in words if len(word) > 1)


@cache
def _read_context(text: str) -> frozenset[str]:
    words = [fold(word) for word in re.findall(r"[^\W_]+", text)]
    return frozenset(map(stem, set(words) - find_stop_words(words) - _time_words("months", "weekdays")))


def is_event(claim: Claim) -> bool:
    """True if a claim tells of one day or of what was done, such as "called": "is called" says what is so."""
    units, said, kinds = claim.units, fold(claim.text), [unit.kind for unit in claim.units]
    days = (rf"{_NOT_FROM}\b{word}\b" if word.isascii() else word for word in _time_words("days") if word in said)
    if "past" in kinds or any(re.search(day, said) for day in days):
        return True
    # "Preferred airline: KLM" says what is so.
    befores = (Unit("", "", "is" if kinds[:3] == ["word", "word", "is"] else "link"), *units)
    return any(
        one.text[-2:] == "ed" and one.kind == "word" and len(one.text) > 4 and before.kind != "is"
        for before, one in zip(befores, units, strict=False)
    )


def _list_keys(units: Sequence[Unit]) -> Iterator[Sequence[str]]:
    """Yield what each unit is known by: a character by the pairs that it is in, unless it stands alone."""
    for place, unit in enumerate(units):
        pairs = pairwise(units[max(0, place - 1) : place + 2]) if unit.kind == "char" else ()
        yield [one.key + two.key for one, two in pairs if one.kind == two.kind] or (unit.key,)


class _Slot(NamedTuple):
    """A run of units that only one of two claims holds."""

    units: tuple[Unit, ...]
    before: float
    """The weight of what both hold before it."""
    is_linked: bool
    """True if *is* or a colon stands before it."""
    link: str
    """The link directly before it."""
    follower: str
    """What both hold directly after it."""
    is_split: bool
    """True if a link stands inside it."""
    replaced: int
    """How many of its units come before the "to" of a change: one in "moved from 9:30 to 10:00"."""
    is_subject: bool
    """True if *is* or a colon comes after it: it says what the line is about."""

    @property
    def kinds(self) -> set[str]:
        return {"date" if unit.kind == "value" else unit.kind for unit in self.units}

    @property
    def size(self) -> float:
        """How many words it has; two characters of a script without spaces are one."""
        return sum(0.5 if unit.kind == "char" else 1.0 for unit in self.units if unit.kind != "date")

    def is_holder(self, unit: Unit) -> bool:
        """True if a line begins with a name: "Carol owns …". Its first word is capitalised in any case."""
        return not self.before and unit.text[0].isupper() and not unit.text.endswith("ed")

    def split(self) -> tuple[str, str, str]:
        """Return the words before its numbers, dates and names, these as written, and the word after them."""
        typed = [place for place, unit in enumerate(self.units) if unit.kind in _TYPED or self.is_holder(unit)]
        typed = typed or [0, len(self.units) - 1]
        first = max(typed[0], self.replaced if self.replaced <= typed[-1] else 0)
        value, words = self.units[first : typed[-1] + 1], [unit.key for unit in self.units]
        shown = ("" if any(unit.kind == "char" for unit in value) else " ").join(unit.text for unit in value)
        return " ".join(words[: typed[0]]), shown.strip(_QUOTES), "".join(words[typed[-1] + 1 : typed[-1] + 2])


def find_change(old: Claim, new: Claim) -> Change | None:
    """Return how the newer of two claims changes the older; None if both can hold, or are about two things."""
    shared = (old.keys | old.context) & (new.keys | new.context)
    if "=live" in shared and all(unit.kind != "live" for unit in (*old.units, *new.units)):
        shared -= {"=live"}
    quoted = [one for one in (old, new) if one.units[0].text[0] in _QUOTES]
    # "`port` (8080): …" and "`host`: …" define two things.
    defined = {one.units[0].key for one in quoted if any(unit.text == ":" for unit in one.units[1:3])}
    if not shared or old.text == new.text or len(defined) > 1:
        return None
    whole, new = new, _drop_preamble(new, shared)
    held, also = ([not shared.isdisjoint(keys) for keys in claim.keys_of] for claim in (old, new))
    old_weight = _weigh(old, new, held)
    weight, kinds = min(old_weight, _weigh(new, old, also)), {unit.kind for unit in new.units}
    kinds -= {"sign"} if new.units[0].kind == "sign" else set()
    # Who moves need not have changed anything but the place to live. A meeting moves to another time.
    to_time = any(one.kind == "to" and two.kind in ("value", "date") for one, two in pairwise(new.units))
    is_moved = "move" in kinds and (to_time or "=live" in old.keys or weight >= _SUBJECT)
    is_told = is_moved or not kinds.isdisjoint(("verb", "sign"))
    announced = is_told or "bring" in kinds
    # What an older line announces too is not news: then other words are about another thing.
    kinds_of_news = (*_VERBS, "sign", "bring")
    said, says = ({unit.text.lower() for unit in one.units if unit.kind in kinds_of_news} for one in (old, new))
    is_news = announced and not says <= said
    # Below two headings, or in the files of two persons, the same words are about two things.
    is_apart = bool(old.context - new.keys - new.context) and bool(new.context - old.keys - old.context)
    if is_apart and ((old.file and new.file) or weight < _SUBJECT):
        return None
    befores, afters = _find_slots(old, held, announced=is_news), _find_slots(new, also, announced=is_news)
    if old.is_denied != new.is_denied:
        is_like = weight >= max(_CHARS_SUBJECT, _LIKENESS * max(_sum(old.units), _sum(new.units))) and not is_apart
        is_same = is_like and not (befores and afters) and all(slot.before for slot in (*befores, *afters))
        is_same = is_same and (_denies(old, held) if old.is_denied else _denies(new, also))
        return Change("negation", "", "") if is_same else None
    if announced and (named := _find_named(old, new, shared, old_weight)):
        return named
    before, after = (_pick(*each, announced=announced) for each in ((befores, afters), (afters, befores)))
    if not before or not after or before.size > _MAX_VALUE or after.size > _MAX_NEW_VALUE:
        return None
    if {unit.key for unit in before.units} == {unit.key for unit in after.units}:
        return None
    if weight < _LIKENESS * max(_sum(old.units) - _sum(before.units), _sum(new.units) - _sum(after.units)):
        return None
    is_holder = before.is_holder(before.units[0]) and after.is_holder(after.units[0]) and "move" not in kinds
    is_placed = bool(before.before and after.before) and not (before.is_subject or after.is_subject)
    # "Lead: Dana" and "Farid is lead".
    sides = ((before, after), (after, before))
    is_holder |= weight >= _SUBJECT and any(
        one.is_linked and one.units[0].text[0].isupper() and other.is_holder(other.units[0]) for one, other in sides
    )
    is_named = all(any(one.kind == "name" or _NAME.match(one.text) for one in each.units) for each in (before, after))
    kinds = before.kinds & after.kinds | ({"name"} if is_holder or is_named else set())
    kind = next((one for one in ("date", "name") if one in kinds), "word" if before.kinds == after.kinds else "")
    # A number right after the first word is part of a name: "Invoice 1041 is paid".
    is_numbered = before.units[0].kind == "value" and before.before <= 1 and not (before.link or before.is_linked)
    is_numbered = is_numbered and not _OF_ONESELF.match(old.text)
    if not kind or not (is_placed or is_holder or (announced and kind != "word")):
        return None
    is_other_link = kind == "word" and before.link != after.link
    if not announced and (is_numbered or is_other_link or is_event(old) or (new is whole and is_event(new))):
        return None
    is_told = is_told and weight >= _SUBJECT
    if kind != "word" and not is_holder and _differ_inside(before, after, announced=announced, is_told=is_told):
        return None
    if kind == "name" and weight < _SUBJECT and not is_holder and after.split()[0]:
        # What somebody took over says nothing about where they live.
        return None
    is_sure = _is_sure(old, new, before, after, weight, announced=announced, kind=kind)
    shown = "value" if kind == "date" and all(unit.kind != "date" for unit in (*before.units, *after.units)) else kind
    return Change(shown, before.split()[1], after.split()[1], is_sure and (not is_apart or weight >= _SURE_SUBJECT))


def _drop_preamble(claim: Claim, shared: Set[str]) -> Claim:
    """Drop the words that lead up to something new, such as "met" in "Met the new landlord, Mrs Lindgren"."""
    news = [at for at, unit in enumerate(claim.units[:-1]) if unit.kind == "weak" and unit.text.startswith(_NEW)]
    held = [not shared.isdisjoint(keys) for keys in claim.keys_of] if news else []
    if (at := next((at for at in news if held[at + 1]), None)) is None or all(held[at + 1 :]):
        return claim
    kept = [n >= at or held[n] or unit.kind not in ("word", "past") for n, unit in enumerate(claim.units)]
    return claim._replace(units=tuple(compress(claim.units, kept)), keys_of=tuple(compress(claim.keys_of, kept)))


def _is_sure(old: Claim, new: Claim, before: _Slot, after: _Slot, weight: float, *, announced: bool, kind: str) -> bool:
    """True if only one of two claims can hold."""
    if not before.before or not after.before:
        if kind == "date" and announced:
            return weight >= _SUBJECT
        # "Carol is the owner of …" can be said of one person.
        rests = (claim.units[len(slot.units) :] for claim, slot in ((old, before), (new, after)))
        is_single = all([unit.kind for unit in rest[:2]] == ["is", "the"] for rest in rests)
        return kind == "name" and weight >= _SUBJECT and (announced or is_single)
    # A day and a number are values of two things, unless what is counted says otherwise.
    is_counted, is_lasting = before.follower == after.follower != "", old.is_lasting or new.is_lasting
    days = [any(unit.kind == "date" or _DAY.match(unit.text) for unit in slot.units) for slot in (before, after)]
    if kind == "date" and days[0] != days[1] and not is_counted:
        return False
    # After a few words, a colon no longer says what a thing is, but tells of it.
    told = [dropwhile(lambda unit: unit.text not in ":：", claim.units) for claim in (old, new)]
    is_short = all(sum(unit.kind in _WEIGHTS for unit in each) <= _MAX_VALUE for each in told)
    is_linked = before.is_linked and after.is_linked and is_short
    # A word that follows the values of both is what they are counted in.
    weight -= is_counted and kind == "date"
    is_same_link = is_linked or before.link == after.link != ""
    is_enough = weight >= (_CHARS_SUBJECT if any(unit.kind == "char" for unit in old.units) else _SUBJECT)
    is_enough = is_enough or (weight >= 1 and (announced or (is_same_link and is_lasting)))
    if kind == "date":
        # A number after a word at the end numbers a title: "Apollo phase 2". What is quoted may be any example.
        is_open = before.link or before.follower or old.text[-1] in ".。" or any(one.kind == "is" for one in old.units)
        is_quoted = not is_linked and any(one.units[0].text[0] in _QUOTES for one in (before, after))
        return is_enough and not is_quoted and (announced or bool(is_open))
    if kind == "name":
        return is_enough and (is_same_link or announced)
    is_placed = announced or (before.link == after.link == ":" and is_lasting)
    is_inside = bool(before.follower) and before.size == after.size == 1
    is_moved = "=live" in old.keys and any(unit.kind == "move" for unit in new.units)
    # "Renamed the branch to main" says what the branch is called as "is" does.
    is_linked |= before.is_linked and announced and after.link in _WORDS["to"].split()
    is_placed = is_linked and (is_placed or is_inside)
    return is_enough and (is_moved or is_placed) and max(before.size, after.size) <= _MAX_VALUE / 2


def _denies(claim: Claim, held: Sequence[bool]) -> bool:
    """True if a claim denies what both say: "not public" beside "public", and not beside "cheap"."""
    at = next((place for place, unit in enumerate(claim.units) if unit.kind == "not"), len(claim.units))
    denied = next((n for n, unit in enumerate(claim.units) if n > at and unit.kind in _WEIGHTS), None)
    return at == len(claim.units) if denied is None else held[denied]


def _find_slots(claim: Claim, held: Sequence[bool], *, announced: bool) -> list[_Slot]:
    """Return the runs of a claim that the other one does not hold. What both hold and *is* end a run.

    Beside a verb of change, words without a value are other words for the same: "runs" and "upgraded to".
    """
    runs: list[tuple[tuple[Unit, ...], float, bool, str, str, bool, int]] = []
    run: list[Unit] = []
    is_change = any(unit.kind in _VERBS for unit in claim.units)
    before, start, is_linked, link, opening, is_split, replaced = 0.0, 0.0, False, "", "", False, 0
    for place, (unit, is_shared) in enumerate(zip((*claim.units, Unit("", "", "is")), (*held, False), strict=True)):
        if run and unit.kind != "aside" and (is_shared or unit.kind == "is"):
            runs.append((tuple(run), start, is_linked, opening, unit.key if is_shared else "", is_split, replaced))
            run, is_split, replaced = [], False, 0
        if is_shared:
            before, link = before + _WEIGHTS.get(unit.kind, 0.0), ""
        elif unit.kind == "is" or unit.kind in _LINKS:
            link, is_linked = link if run else unit.key, is_linked or (unit.kind == "is" and unit.text != "")
            is_replaced = is_change and unit.kind == "to" and run and run[-1].kind in _TYPED
            replaced = len(run) if is_replaced else replaced
        elif unit.kind in _WEIGHTS or unit.kind == "date":
            start, opening = (start, opening) if run else (before, link)
            is_split = bool(run) and (is_split or claim.units[place - 1].kind in _LINKS)
            run.append(unit)
    found = [_Slot(*each, is_subject=is_linked and not each[2]) for each in runs]
    typed = [one for one in found if announced and (one.kinds.intersection(_TYPED) or one.is_holder(one.units[0]))]
    return typed or found


def _sum(units: Sequence[Unit]) -> float:
    return sum([_WEIGHTS[unit.kind] for unit in units if unit.kind in _WEIGHTS])


def _weigh(claim: Claim, other: Claim, held: Sequence[bool]) -> float:
    """Return what a claim says of the subject that it shares; its heading counts if the other one says it."""
    said = sum([_WEIGHTS.get(unit.kind, unit.kind in ("move", "aside")) for unit in compress(claim.units, held)])
    return said + len((claim.context & other.keys) - claim.keys)


def _pick(slots: list[_Slot], others: list[_Slot], *, announced: bool) -> _Slot | None:
    """Return the slot with the value of a claim; None if it differs from the other one in more than that."""
    if len(slots) > 1 and slots[0].kinds == {"date"} and not slots[0].before:
        # "As of July, …"
        slots = slots[1:]
    if len(slots) > len(others) == 1:
        # The day since when something holds, and what is added after the value, are no other values.
        is_dated = any(unit.kind == "date" for unit in others[0].units)
        first, *rest = [slot for slot in slots if is_dated or any(unit.kind != "date" for unit in slot.units)] or slots
        is_beside = all(one.kinds == {"word"} or (one.kinds == {"date"} and one.link in _SINCE) for one in rest)
        slots = [first] if first.kinds & others[0].kinds and is_beside else slots
        # "The doctor raised it to 75 mg": beside a verb of change, a word before the value is no other thing.
        alike = [slot for slot in slots if "date" in slot.kinds & others[0].kinds]
        is_beside = announced and all(one.kinds == {"word"} for one in slots if one not in alike)
        slots = alike if len(alike) == 1 and is_beside else slots
    return slots[0] if len(slots) == 1 else None


def _differ_inside(before: _Slot, after: _Slot, *, announced: bool, is_told: bool) -> bool:
    """True if the words around two values tell that they are values of two things, or measured on two days."""
    kinds = [unit.kind for slot in (before, after) for unit in (*slot.units, Unit("", "", "link"))]
    threes = zip(kinds, kinds[1:], kinds[2:], strict=False)
    is_between = any(one in _TYPED and two == "word" and three in _TYPED for one, two, three in threes)
    if {"name", "date"} <= before.kinds & after.kinds or is_between:
        return True
    if before.is_split and after.is_split and "name" in before.kinds & after.kinds and not before.is_linked:
        return not announced
    (opening, value, unit), (other, _, other_unit) = before.split(), after.split()
    is_measured = _MEASURED.fullmatch(value) is not None and bool(unit or before.follower)
    is_other_unit = bool(unit and other_unit) and unit[:3] != other_unit[:3]
    if bool(opening and other) or (is_other_unit and not is_told):
        return True
    return not announced and (bool(opening or other) or is_measured)


def _find_named(old: Claim, new: Claim, shared: Set[str], held: float) -> Change | None:
    """Return the change if a line of change names both values: "moved from Jira to Linear". A colon begins a reason."""
    units = new.units[: next((n for n, one in enumerate(new.units) if one.text == ":" and n > _MAX_VALUE), None)]
    kinds = {unit.key: unit.kind for unit in (*old.units, *units) if unit.kind in ("name", "value")}
    # A name before a verb of change: "Oskar took over".
    holder = units[:1] if len(units) > 1 and units[1].kind in _VERBS and units[0].kind == "word" else ()
    is_move = any(unit.kind == "move" for unit in units)
    # Of "Jira and Slack", neither is the value that the other one replaces.
    alone = [(at, one) for at, one in enumerate(units) if not {each.text for each in units[at + 1 : at + 2]} & _AND]
    for place, unit in [(at, one) for at, one in alone if one.key in kinds and one.key in old.keys]:
        values = [one for one in units if one.key not in shared and (one.kind == kinds[unit.key] or one in holder)]
        near = next((one for one in units[place + 1 :] if one.kind in _WEIGHTS or one.kind == "date"), None)
        before = next((one.kind for one in reversed(units[:place]) if one.kind != "link"), "")
        # A line that repeats all of an older one beside a verb of change takes it back.
        is_left = before in (*_VERBS, "from") or held >= _sum(old.units) >= _SUBJECT
        is_like = held >= _LIKENESS * _sum(old.units) and held + _sum(values) >= _LIKENESS * _sum(units)
        if values and is_like and (is_left or (near in values and not is_move)) and held - _sum([unit]) >= 1:
            was = [one for one in units[place : place + 2] if one.kind == unit.kind and one.key in old.keys]
            before, now = (" ".join(one.text for one in each).strip(_QUOTES) for each in (was, values))
            return Change("name", before, now)
    return None
