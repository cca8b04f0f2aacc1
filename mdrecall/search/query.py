"""A request as the search reads it: the terms, times and names of its query, and its limits to days and notes.

Everything in a query is plain text: there are no operators.

``read_times`` reads English, Chinese, Japanese, Korean, German, French and Spanish, seen from the day of the question.
Quoted text and identifiers, such as ``"last week"`` or ``last-week.md``, are not read. Most queries speak of no time:
they are recognised here by a few words, and the rules are loaded only for the others.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from mdrecall.errors import QueryError, suggest_name
from mdrecall.patterns import NOTE_ENDING, compile_later, is_note_file, matches_glob
from mdrecall.text.days import DayRange, format_day
from mdrecall.text.words import find_stop_words, fold, is_unspaced, name_terms, stem, surface_words, tokens
from mdrecall.types.documents import Collection
from mdrecall.types.search import SearchAnswer, SearchRequest, Term

#: The rest of a longer query is ignored: somebody may paste a whole text, and each term costs a lookup.
MAX_QUERY_CHARS = 4_000
MAX_TERMS = 64
# Shorter terms begin too many other words to be looked up as prefixes; letters only need one more than numbers do.
_MIN_PREFIX_CHARS = 3
_MIN_LETTERS_PREFIX_CHARS = 4
_WORD = compile_later(r"[^\W_]+")
# Longer ones come before those that begin them.
_QUESTION_WORDS = (
    "是?(?:什么|什麼|甚麼)(?:时候|時候|地方|样|樣)?|是?在?哪(?:一?[个個年天月家位些里裡儿兒])?"
    "|是?(?:多少|几个|幾個|谁|誰|为什么|為什麼|为何|怎么样?|怎麼樣?|如何|何时|何時)|[吗嗎呢]"
    "|(?:は|が)?(?:いつ|どこ|だれ|誰|なに|何|なぜ|どうして|いくら|いくつ|どの|どんな|どう)(?:です|でした|ます|ました)?か?"
    "|(?:ですか|ますか|でしたか|ましたか)|언제|어디|누구|누가|무엇|뭐|왜|얼마|어떻게|[입습]니까|인가요|나요"
)


@lru_cache(8)  # One question is parsed several times: by each source, and for what is shown of each result.
def parse_query(query: str) -> tuple[Term, ...]:
    """Return the distinct terms of a query in the order of typing; none if it has no letter or digit."""
    terms: dict[str, Term] = {}
    by_token = [(token, _query_words(surface_words(token))) for token in tokens(query[:MAX_QUERY_CHARS])]
    stop_words = find_stop_words(word for _, words in by_token for word in words)
    for token, words in by_token:
        for word in words:
            term = _word(word, word in stop_words)
            terms.setdefault(term.text, term)
        whole = [name for name in name_terms(token)[:1] if not name.isalnum()]
        if whole and words:
            terms.setdefault(whole[0], Term(whole[0], whole[0], parts=tuple(words), prefix=True))
    if len(terms) > MAX_TERMS:
        informative = [term for term in terms.values() if not term.stop]
        return tuple((informative or list(terms.values()))[:MAX_TERMS])
    return tuple(terms.values())


def drop_question_words(query: str) -> str:
    """Return a query in a script without spaces with a space for words such as 什么时候: they are in no answer.

    Together with their neighbours, they would make pairs of characters that nobody has written.
    """
    if query.isascii():
        return query
    rest = re.sub(_QUESTION_WORDS, " ", query)
    return rest if any(map(str.isalnum, rest)) else query


def _query_words(words: list[str]) -> list[str]:
    """Return the words without single characters that end a run of pairs: the pair before contains them already."""
    return [
        word
        for index, word in enumerate(words)
        if not (len(word) == 1 and index and is_unspaced(word) and words[index - 1][-1] == word)
    ]


def _word(word: str, is_stop: bool) -> Term:
    lone = len(word) == 1 and is_unspaced(word)
    least = _MIN_LETTERS_PREFIX_CHARS if word.isalpha() else _MIN_PREFIX_CHARS
    stemmed = stem(word)
    return Term(
        stemmed,
        word,
        # The index stems "deploy" to "deploi" and "deployment" to "deploy", so both forms are looked up.
        also=(stemmed, stemmed + "ment") if stemmed.endswith(("ay", "ey", "oy")) else (),
        stop=is_stop,
        prefix=len(word) >= least and not is_unspaced(word[0]),
        always_prefix=lone,
    )


def find_stems(query: str) -> frozenset[str]:
    """Return the stems of the words of a query, without those that hardly count if there are others."""
    terms = [term for term in parse_query(query) if not term.parts]
    return frozenset(term.text for term in terms if not term.stop) or frozenset(term.text for term in terms)


def find_matches(text: str, stems: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each stretch of a text that has one of these stems, in order."""
    starts = tuple([one[:-1] or one for one in stems])  # Words that begin otherwise need not be stemmed.
    if text.isascii() and not any(map(text.lower().__contains__, starts)):
        return
    for word in _WORD.finditer(text) if stems else ():
        if not (found := word[0]).isascii() and any(map(is_unspaced, found)):
            yield from _find_pairs(found, word.start(), stems)
        elif found.isascii() and not found.lower().startswith(starts):
            continue
        elif any(stem(part) in stems for part in surface_words(found)):
            yield word.span()


def _find_pairs(run: str, offset: int, stems: Container[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a script without spaces whose pairs of characters, or single ones, are in a query."""
    start = end = -1
    for place in range(len(run)):
        size = 2 if fold(run[place : place + 2]) in stems else 1 if fold(run[place]) in stems else 0
        if not size:
            continue
        if place > end:
            if end >= 0:
                yield offset + start, offset + end
            start = place
        end = max(end, min(place + size, len(run)))
    if end >= 0:
        yield offset + start, offset + end


# Where a sentence ends.
_SENTENCE_END = r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+"
#: Each query is a search of its own, so this bounds what one call may cost.
MAX_QUERIES = 5


def split_questions(query: str) -> list[str]:
    """Return the questions of a message that consists of several; any other query as it is.

    A question that names nothing, such as "Since when?", belongs to the one before. In a message that also tells
    something, its sentences explain each other: asked one by one, they find less.
    """
    if query.count("?") + query.count("？") < 2:
        return [query]
    questions: list[str] = []
    for sentence in map(str.strip, re.split(_SENTENCE_END, query[:MAX_QUERY_CHARS])):
        if not any(map(str.isalpha, sentence)):  # Such as the number of a question.
            continue
        if not sentence.endswith(("?", "？")):
            return [query]
        if questions and (len(questions) == MAX_QUERIES or all(term.stop for term in parse_query(sentence))):
            questions[-1] += f" {sentence}"
        else:
            questions.append(sentence)
    return questions or [query]


#: A longer query is a text that somebody pasted: its dates are not what the question is about.
MAX_CHARS = 400

_LETTERS = compile_later(r"[^\W\d_]+")
# What every date in digits has: a year of four digits.
_YEAR = compile_later(r"(?:19|20)\d\d")

#: The words without which a query in English, German, French or Spanish has no time; a test holds them to the rules.
HINTS = """
abril actual actuales actualmente actuel actuelle actuellement actuelles actuels afternoon agosto ahora aktuell
aktuelle aktuellen aktueller aktuelles aktuellste aktuellsten annee année années anoche ans anteayer antes antier
anymore aout août apr april après aug august aujourd avant avril ayer año años aún cette current currently date day
days dec december decembre dernier derniers dernière dernières derzeit derzeitige derzeitigen dezember dia dias
diciembre dienstag dimanche domingo donnerstag décembre désormais día días encore enero evening feb febrero februar
february fevrier freitag friday février gegenwärtig gestern heute heutzutage hier hoy inzwischen jahr jahre jahren
jahres jan januar january janvier jetzt jeudi jour jours jueves juillet juin jul juli julio july jun june juni junio
jänner latest lundi lunes maerz mai maintenant mar march mardi mars martes marzo matin may mayo mañana mercredi mes
meses miercoles mittlerweile mittwoch miércoles mois moment momentan momento monat monate monaten monats monday montag
month months more morning märz neueste neuesten neuester neuestes neusten neustes newest nicht night noch noche nov
november novembre noviembre now nowadays oct october octobre octubre oktober present presently présent recent recently
reciente recientes récent récente récentes récents sabado samedi samstag saturday semaine semaines semana semanas sep
sept september septembre septiembre setiembre sigue siguen soir sonnabend sonntag still sunday sábado tag tage tagen
tarde these thursday todavía today tonight toujours tuesday vendredi viernes vorgestern vorvorgestern wednesday week
weekend weekends weeks woche wochen wochenende wochenenden year years yesterday zeit zurzeit última últimas último
últimos
"""
_HINTS = frozenset(HINTS.split())


class QueryTimes(NamedTuple):
    """The times that a query speaks of."""

    ranges: tuple[DayRange, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    """The characters of the query that name them, as start and end."""
    cues: tuple[tuple[int, int], ...] = ()
    """The characters of the words that ask for what holds at present, such as *latest*, *still* or 现在."""

    @property
    def has_bonus(self) -> bool:
        """True if notes of a time gain by it: words do not find them as they find a date in a title."""
        return any(not one.is_in_title for one in self.ranges)

    def has(self, day: int, grace: int = 0) -> bool:
        """True if a day is in one of the ranges, or at most ``grace`` days after one."""
        return any(one.has(day, grace) for one in self.ranges)


NO_TIMES = QueryTimes()


def read_times(query: str, today: int) -> QueryTimes:
    """Return the times that a query speaks of, seen from the day number ``today``."""
    if len(query) > MAX_CHARS:
        return NO_TIMES
    if query.isascii() and _HINTS.isdisjoint(_LETTERS.findall(query.lower())) and not _YEAR.search(query):
        return NO_TIMES
    from mdrecall.text.time_reader import find_cues, find_times

    ranges, spans = find_times(query, today)
    return QueryTimes(ranges, spans, find_cues(query, spans))


def read_range(text: str, today: int) -> DayRange | None:
    """Return the days that a text names, such as ``2026-03-01``, ``last week`` or ``June``; None if it names none."""
    text = text.strip()
    for tried in (text, f"in {text}"):
        times = read_times(tried, today)
        if times.ranges and not tried[: times.spans[0][0]].strip() and not tried[times.spans[-1][1] :].strip():
            return times.ranges[0]
    return None


def remove_spans(query: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a query without some of its words, such as those for times."""
    for start, end in sorted(spans, reverse=True):
        query = f"{query[:start]} {query[end:]}"
    return query


# What a passage gains by the way it is named. Each is more than a passage can gain by its words over the next.
_PATH, _FILE, _STEM, _SLUG, _HEADING = 2.0, 1.6, 1.2, 1.0, 0.8
# What follows the day in the name of a note: 2026-11-14-late-talk.
_AFTER_DAY = r"\d{4}-\d\d-\d\d[-_ ](.+)"
# Names of notes that are about no one thing.
_EVERYBODYS = frozenset(["memory", "user", "notes", "note", "readme", "todo", "index", "log", "journal"])
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
    words: frozenset[str] = frozenset()
    """Its folded words, but for stop words."""
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
        is_whole = len(stem) >= len(self.whole) and _normalise(stem) == self.whole
        if is_whole or stem in self.files or stem == self.file:
            return _STEM
        slug = re.fullmatch(_AFTER_DAY, stem) if self.file and stem[:4].isdigit() else None
        return _SLUG if slug and self.file in (slug[1], slug[1] + NOTE_ENDING) else 0.0

    def owns(self, name: str) -> bool:
        """True if the query has every word of a file's name, such as that of the person whom a note is about."""
        words = name.split()
        return self.words.issuperset(words) and not _EVERYBODYS.issuperset(words)

    def find_bonuses(self, path: str, headings: Sequence[str]) -> list[float]:
        """Return what the passages below each heading of a file gain."""
        size, names_file = len(self.whole), self.files or self.file
        by_file = self.file_bonus(path) if names_file or size <= len(path) or not path.isascii() else 0.0
        if max(map(len, headings)) < size and "".join(headings).isascii():
            return [by_file] * len(headings)
        return [max(by_file, self.heading_bonus(each)) if each else by_file for each in headings]

    def heading_bonus(self, heading: str) -> float:
        """Return what a passage gains if the whole query is the heading above it."""
        return _HEADING if heading and _normalise(fold(heading).strip(_EDGES)) == self.whole else 0.0


def find_name(path: str) -> str:
    """Return the words of a file's name, with a space between them."""
    return _normalise(fold(path.rsplit("/", 1)[-1].rsplit(".", 1)[0]))


def read_naming(query: str, terms: Iterable[Term]) -> Naming:
    """Return the names in a query with these terms."""
    has_quotes = any(mark in query for mark in '"“「«')
    matches = re.finditer(_QUOTED, query) if has_quotes else ()
    phrases = (" ".join(fold(next(filter(None, match.groups()))).split()) for match in matches)
    terms = list(terms)
    files = set(filter(_can_name_file, map(fold, tokens(query))))
    return Naming(
        _find_identifiers(terms),
        tuple(dict.fromkeys(phrases)),
        _normalise(fold(query).strip(_EDGES)),
        frozenset(files),
        frozenset(term.surface for term in terms if not term.stop and not term.parts),
        _read_file(fold(query)),
    )


def _read_file(query: str) -> str:
    """Return a folded query as the path or the name of a file; empty if it cannot be one, or is a plain word."""
    name = query.strip(_EDGES).replace("\\", "/").lstrip("/")
    has_sign = any(sign in name for sign in "-_/.") or any(map(str.isdigit, name))
    return name if has_sign and (" " not in name or is_note_file(name)) else ""


def _can_name_file(token: str) -> bool:
    """True if a word of a sentence may be a file's name: the 2 of "about 2 weeks" does not ask for ``2.md``."""
    if "/" in token or "." in token:
        return True
    if not any(map(str.isdigit, token)):
        return False
    return not (token.isdigit() and len(token) < _MIN_DIGITS) and re.fullmatch(_QUANTITY, token) is None


def is_spelled_out(name: str, text: str) -> bool:
    """True if a text has the words of a name side by side, whatever joins them: ``DEC 54`` for ``dec-54``."""
    words, parts = _WORD.findall(name), re.split(r"([\W_]+)", fold(text))
    # Words and what joins them take turns.
    size = 2 * len(words) - 1
    runs = (parts[at : at + size] for at in range(0, len(parts) - size + 1, 2) if parts[at] == words[0])
    return any(one[::2] == words and all(len(by) <= 3 or not by.strip("_") for by in one[1::2]) for one in runs)


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


class DayLimits(NamedTuple):
    """The days to search, both included; None means no limit."""

    first: int | None = None
    last: int | None = None

    def has(self, day: int) -> bool:
        """True if a day is within the limits."""
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


def read_limits(since: Any, until: Any, today: int) -> DayLimits | None:
    """Return the days between two texts or dates; None without both. Raise ``QueryError`` for anything but a time."""
    if since is None and until is None:
        return None
    first = None if since is None else _read_limit("since", since, today)[0]
    last = None if until is None else _read_limit("until", until, today)[1]
    if first is not None and last is not None and first > last:
        message = f"No day is since {format_day(first)} and until {format_day(last)}."
        raise QueryError(message, hint="Let the range begin before it ends.", name="until")
    return DayLimits(first, last)


def _read_limit(name: str, value: Any, today: int) -> tuple[int, int]:
    if not isinstance(value, str):
        return value.toordinal(), value.toordinal()
    found = read_range(value, today)
    if found is None:
        hint = "Give a date such as 2026-03-01, or a time such as yesterday, last week or 3 days ago."
        raise QueryError(f"{name}: {value[:80]!r} is not a date.", hint=hint, name=name)
    return found.first, found.last


_GLOB_SIGNS = "*?["


class NoteFilter(NamedTuple):
    """Which notes are searched: those with every tag, in any of the folders, and in any of the collections."""

    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    collections: tuple[Collection, ...] = ()

    def has(self, path: str, tags: Iterable[str]) -> bool:
        """True if a note of this path, with these tags, is not filtered out."""
        if self.paths and not any(is_in_path(path, wanted) for wanted in self.paths):
            return False
        if self.collections and not any(is_in_collection(path, one) for one in self.collections):
            return False
        # A tag holds those below it, as ``work`` holds ``work/travel``.
        own = [f"{_fold(tag)}/" for tag in tags]
        return all(any(tag.startswith(f"{_fold(one)}/") for tag in own) for one in self.tags)

    @property
    def description(self) -> str:
        """The filter in words, to follow "notes"."""
        tags = " and ".join(f"#{tag}" for tag in self.tags)
        parts = [f"with the tag{'s' * (len(self.tags) > 1)} {tags}"] if tags else []
        parts += [f"in {' or '.join(self.paths)}"] if self.paths else []
        names = " or ".join(one.name for one in self.collections)
        return " ".join([*parts, f"in the collection {names}"] if names else parts)


def read_filter(request: SearchRequest, known: Sequence[Collection]) -> NoteFilter | None:
    """Return what a request is limited to; None if it is not.

    Raise ``QueryError`` for a collection that is not known.
    """
    tags = tuple(dict.fromkeys(bare for tag in request.tags if (bare := tag.strip().lstrip("#").strip("/"))))
    paths = tuple(
        dict.fromkeys(bare for path in request.paths if (bare := path.strip().removeprefix("./").rstrip("/")))
    )
    by_name = {one.name: one for one in known}
    for name in request.collections:
        if name not in by_name:
            listed = f" There are: {', '.join(by_name)}." if by_name else " None is configured."
            hint = f"Collections are named in the settings, in mdrecall.collections.{listed}"
            message = f"There is no collection {name[:80]!r}{suggest_name(name, by_name)}."
            raise QueryError(message, hint=hint, name="collection")
    found = NoteFilter(tags, paths, tuple(by_name[name] for name in dict.fromkeys(request.collections)))
    return None if found == NoteFilter() else found


def is_in_path(path: str, wanted: str) -> bool:
    """True if a path is a file, is below a folder, or matches a glob."""
    if any(sign in wanted for sign in _GLOB_SIGNS):
        return matches_glob(path, wanted) or matches_glob(path, f"{wanted}/**")
    return wanted == "." or path == wanted or path.startswith(f"{wanted}/")


def is_in_collection(path: str, collection: Collection) -> bool:
    """True if a path is in the folder of a collection, or is its file, and matches its pattern."""
    if collection.place and path != collection.place and not path.startswith(f"{collection.place}/"):
        return False
    below = path.removeprefix(f"{collection.place}/") if collection.place else path
    return collection.pattern is None or path == collection.place or matches_glob(below, collection.pattern)


def explain_filter(only: NoteFilter | None, limits: DayLimits | None) -> SearchAnswer:
    """Return an empty answer that says that no note is within the limits of a request."""
    first, last = limits or (None, None)
    since = "" if first is None else f" since {format_day(first)}"
    until = "" if last is None else f" until {format_day(last)}"
    which = f" {only.description}{since}{until}. Change the filter or leave it out." if only else ""
    return SearchAnswer((), "no_match", f"There is no note{which or f'{since}{until}. Choose other days.'}")


def name_filter(answer: SearchAnswer, only: NoteFilter | None) -> SearchAnswer:
    """Return an answer that, if it is empty, also says which notes were searched."""
    if only is None or answer.results:
        return answer
    return answer.replace(action=f"{answer.action} Only notes {only.description} were searched.".strip())


def _fold(tag: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", tag).casefold()
