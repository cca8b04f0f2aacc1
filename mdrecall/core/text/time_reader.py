"""The reader of times: finds the phrases of ``time_words`` in a query and computes the days that they mean."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from mdrecall.core.text.days import (
    DayRange,
    Unit,
    calendar_date,
    day_number,
    month_range,
    unit_range,
    weekday,
    year_range,
)
from mdrecall.core.text.time_words import LANGUAGES, YEAR_WORDS, Language, Rule

# The languages that are written with spaces between words; the others are found by their script.
_SPACED = ("en", "de", "fr", "es")
_WORD = re.compile(r"[^\W\d_]+")
_YEAR_DIGITS = re.compile(r"(?:19|20)\d\d")
_WIDE_DIGITS = {0xFF10 + digit: str(digit) for digit in range(10)}
_HAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|`[^`]*`|「[^」]*」|『[^』]*』|(?<!\w)'[^']*'(?!\w)")
# Joined to other characters, a time word is part of an identifier, a path or an address.
_JOINER = r"[-./:@\\#&=?%~+]"
_LEFT = rf"(?<!\w)(?<!\w{_JOINER})(?<![@#/\\])(?:"
_RIGHT = rf")(?!\w|{_JOINER}\w|[/\\])"
_BETWEEN = re.compile(r"\b(?:between|zwischen|entre)\s*$", re.IGNORECASE)
_TO = re.compile(r"\s*(?:to|until|till|through|bis|à|au|hasta|al?|[-–—~〜]|到|至|から)\s*", re.IGNORECASE)
_AND = re.compile(r"\s*(?:and|und|et|y)\s*", re.IGNORECASE)

_NUMERIC = (
    Rule(
        "title_date",
        r"{year}-(?P<month>\d{1,2})-{day}|(?P<year_2>(?:19|20)\d\d)/(?P<month_2>\d{1,2})/(?P<day_2>\d{1,2})",
    ),
    Rule("date", r"{year}\.\s?(?P<month>\d{1,2})\.\s?{day}\.?"),
    Rule("date", r"{day}\.\s?(?P<month>\d{1,2})\.\s?{year}"),
    Rule("date", r"{day}[/-](?P<month>\d{1,2})[/-]{year}"),
    Rule("date", r"(?P<month>\d{1,2})[/-]{day}[/-]{year}"),
    Rule("month", r"{year}-(?P<month>0[1-9]|1[0-2])"),
    Rule(
        "year",
        r"(?:in|during|since|until|till|from|of|throughout|(?:the |in the )?year|im jahre?|jahr|seit|bis|ab|en|depuis"
        r"|jusqu['’]en|l['’]année|desde|hasta|durante|el año|del año) {year}",
    ),
)
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
_DAY = r"(?P<day>3[01]|[12]\d|0?[1-9])(?!\d)"
# What "a few" of a unit ago may mean, in days.
_FEW: Mapping[Unit, tuple[int, int]] = {"day": (7, 2), "week": (42, 14), "month": (240, 60), "year": (2000, 700)}
_UNIT_DAYS: Mapping[Unit, int] = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
# From 29 February 1896 to the next one: 1900 was no leap year.
_MOST_YEARS_WITHOUT_A_LEAP_DAY = 8


class _Found(NamedTuple):
    start: int
    end: int
    range: DayRange


class _Compiled:
    """The rules of one language as patterns, compiled at first use because that takes milliseconds."""

    def __init__(self, key: str) -> None:
        self._key = key

    @cached_property
    def hints(self) -> frozenset[str]:
        """The words without which no rule can match."""
        language = LANGUAGES[self._key]
        phrases = (*language.days, *language.units, *language.weekdays, *language.months, *language.cues.split("|"))
        return frozenset(word for phrase in phrases if len(word := _longest_word(phrase)) > 2)

    @cached_property
    def rules(self) -> list[tuple[Rule, re.Pattern[str]]]:
        language = LANGUAGES[self._key]
        return [(rule, _compile(rule.pattern, language, self._key not in _SPACED)) for rule in language.rules]

    @cached_property
    def cues(self) -> re.Pattern[str]:
        pattern = LANGUAGES[self._key].cues.replace(" ", r"\s")
        return re.compile(f"{_LEFT}{pattern}{_RIGHT}" if self._key in _SPACED else pattern, re.IGNORECASE)


class _Patterns:
    """All patterns."""

    def __init__(self) -> None:
        self.languages = {key: _Compiled(key) for key in LANGUAGES}

    @cached_property
    def numeric(self) -> list[tuple[Rule, re.Pattern[str]]]:
        return [(rule, _compile(rule.pattern, LANGUAGES["en"], False)) for rule in _NUMERIC]


_PATTERNS = _Patterns()


def find_times(query: str, today: int) -> tuple[tuple[DayRange, ...], tuple[tuple[int, int], ...]]:
    """Return the times that a query speaks of, and the characters that name them."""
    words = frozenset(_WORD.findall(query.lower()))
    text = _hide_quotes(query).translate(_WIDE_DIGITS)
    found = _choose(_find_all(text, find_languages(query), today))
    found = [one for one in found if not (query[one.start : one.end].lower() == "hier" and _is_german(words))]
    return _join(text, found), tuple(dict.fromkeys((one.start, one.end) for one in found))


def find_cues(query: str, spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return where the words are that ask for what holds at present, apart from the words for times."""
    text = _hide_quotes(query)
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    keys = find_languages(query)
    found = {match.span() for key in keys for match in _PATTERNS.languages[key].cues.finditer(text)}
    if any(query[start:end].lower() == "actual" for start, end in found) and not _is_spanish(query):
        found = {(start, end) for start, end in found if query[start:end].lower() != "actual"}
    return tuple(sorted(found))


def hint_words() -> frozenset[str]:
    """Return the words without which a query in a language with spaces has neither a time nor a cue."""
    return frozenset().union(*(_PATTERNS.languages[key].hints for key in _SPACED))


def find_languages(query: str) -> list[str]:
    """Return the languages that a query may speak of times in, by its words and its script."""
    words = frozenset(_WORD.findall(query.lower()))
    keys = [key for key in _SPACED if not words.isdisjoint(_PATTERNS.languages[key].hints)]
    if not query.isascii():
        keys += [key for key, script in (("han", _HAN), ("ko", _HANGUL)) if script.search(query)]
    return keys


def _hide_quotes(query: str) -> str:
    return _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), query)


def _find_all(text: str, keys: list[str], today: int) -> Iterator[_Found]:
    if _YEAR_DIGITS.search(text):
        yield from _find(text, _PATTERNS.numeric, LANGUAGES["en"], today)
    for key in keys:
        yield from _find(text, _PATTERNS.languages[key].rules, LANGUAGES[key], today)


def _find(text: str, rules: list[tuple[Rule, re.Pattern[str]]], language: Language, today: int) -> Iterator[_Found]:
    for rule, pattern in rules:
        for match in pattern.finditer(text):
            found = _READERS[rule.kind](_Reading(match, language, today, rule.offset))
            if found is not None:
                yield _Found(*match.span(), found)


def _choose(found: Iterator[_Found]) -> list[_Found]:
    """Return the longest of times that overlap; both readings of a date that can be read in two ways."""
    chosen: list[_Found] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if chosen and one.start < chosen[-1].end:
            if one[:2] == chosen[-1][:2] and one not in chosen and one.range.precision == "day":
                chosen.append(one)
            continue
        chosen.append(one)
    return chosen


def _join(text: str, found: list[_Found]) -> tuple[DayRange, ...]:
    """Return the ranges, "from … to …" as one."""
    ranges: list[DayRange] = []
    for place, one in enumerate(found):
        before = found[place - 1] if place else None
        if before and ranges and one.range.last > before.range.first and _is_span(text, before, one):
            ranges[-1] = ranges[-1]._replace(last=one.range.last)
        elif one.range not in ranges:
            ranges.append(one.range)
    return tuple(ranges)


def _is_span(text: str, first: _Found, second: _Found) -> bool:
    """True if the words between two times make one range of them."""
    between = text[first.end : second.start]
    if _TO.fullmatch(between):
        return True
    return _AND.fullmatch(between) is not None and _BETWEEN.search(text[: first.start]) is not None


def _is_spanish(query: str) -> bool:
    """True if *actual* is rather the Spanish word for "current" than the English one."""
    from mdrecall.core.text.words import count_words

    words = frozenset(_WORD.findall(query.lower()))
    return count_words(words, "es") > 0 and not words & {"the", "is", "of", "what"}


def _is_german(words: frozenset[str]) -> bool:
    """True if *hier* is rather the German word for "here" than the French one for "yesterday"."""
    from mdrecall.core.text.words import count_words

    return count_words(words - {"hier"}, "de") > count_words(words - {"hier"}, "fr")


class _Reading(NamedTuple):
    """A match of a rule, with what its meaning depends on."""

    match: re.Match[str]
    language: Language
    today: int
    offset: int

    def text(self, name: str) -> str:
        """Return what a group has matched, in lower case; empty if it has matched nothing."""
        groups = self.match.groupdict()
        values = (groups.get(key) for key in (name, f"{name}_2", f"{name}_3"))
        return " ".join(next(filter(None, values), "").lower().split())

    def number(self, name: str) -> int:
        """Return the number that a group has matched, in digits or as a word; 0 if it has matched nothing."""
        text = self.text(name)
        return int(text) if text.isdecimal() else self.language.numbers.get(text, 0)

    @property
    def unit(self) -> Unit:
        return self.language.units.get(self.text("unit"), "day")

    @property
    def month(self) -> int:
        return self.language.months.get(self.text("month")) or self.number("month")

    @property
    def year(self) -> int:
        """The year that is named, in digits or as a word such as 去年; 0 if none is."""
        word = self.text("year_word")
        return calendar_date(self.today)[0] + YEAR_WORDS[word] if word else self.number("year")


def _read_word(reading: _Reading) -> DayRange | None:
    return unit_range(reading.today, "day", reading.language.days[reading.text("word")])


def _read_ago(reading: _Reading) -> DayRange | None:
    count, unit, today = reading.number("number"), reading.unit, reading.today
    if not count or (unit == "year" and count >= 100) or count > 5000:
        return None
    if unit == "week":
        # "Two weeks ago" is seldom meant to the day.
        middle = today - 7 * count
        return DayRange(middle - 3, middle + 3, "week", is_relative=True)
    return unit_range(today, unit, -count)


def _read_few(reading: _Reading) -> DayRange | None:
    most, least = _FEW.get(reading.unit, _FEW["day"])
    return DayRange(reading.today - most, reading.today - least, "week", is_relative=True)


def _read_back(reading: _Reading) -> DayRange | None:
    unit = reading.unit
    days = (reading.number("number") or 1) * _UNIT_DAYS[unit]
    if days > reading.today - 1:
        return None
    return DayRange(reading.today - days, reading.today, "week" if _UNIT_DAYS[unit] < 30 else unit, is_relative=True)


def _read_period(reading: _Reading) -> DayRange | None:
    # "The last day of the trip" is no time.
    return None if reading.unit == "day" else unit_range(reading.today, reading.unit, reading.offset)


def _read_period_word(reading: _Reading) -> DayRange | None:
    unit, offset = reading.language.periods[reading.text("period")]
    return unit_range(reading.today, unit, offset)


def _read_weekday(reading: _Reading) -> DayRange | None:
    """Return the last such day before today."""
    back = (weekday(reading.today) - reading.language.weekdays[reading.text("weekday")] - 1) % 7 + 1
    return unit_range(reading.today, "day", -back)


def _read_weekday_in_week(reading: _Reading) -> DayRange | None:
    wanted = reading.language.weekdays[reading.text("weekday")]
    return unit_range(reading.today, "day", wanted - weekday(reading.today) + 7 * reading.offset)


def _read_month(reading: _Reading) -> DayRange | None:
    """Return a month; without a year the last one that has begun, and with *last* one that is over."""
    month = reading.month
    if reading.year:
        return month_range(reading.year, month)
    year, current, _ = calendar_date(reading.today)
    is_over = month < current or (month == current and not reading.offset)
    return month_range(year if is_over else year - 1, month)


def _read_date(reading: _Reading) -> DayRange | None:
    """Return a day; without a year the last such day until today."""
    day, month, year = reading.number("day"), reading.month, reading.year
    this_year = calendar_date(reading.today)[0]
    years = [year] if year else range(this_year, this_year - _MOST_YEARS_WITHOUT_A_LEAP_DAY - 1, -1)
    found = (day_number(one, month, day) for one in years)
    number = next((one for one in found if one is not None and (year or one <= reading.today)), None)
    return None if number is None else DayRange(number, number, "day")


def _read_title_date(reading: _Reading) -> DayRange | None:
    found = _read_date(reading)
    return found and found._replace(is_in_title=True)


def _read_year(reading: _Reading) -> DayRange | None:
    return year_range(reading.year)


_READERS: Mapping[str, Callable[[_Reading], DayRange | None]] = {
    "word": _read_word,
    "ago": _read_ago,
    "few": _read_few,
    "back": _read_back,
    "period": _read_period,
    "period_word": _read_period_word,
    "weekday": _read_weekday,
    "weekday_in_week": _read_weekday_in_week,
    "month": _read_month,
    "date": _read_date,
    "title_date": _read_title_date,
    "year": _read_year,
}


def _compile(pattern: str, language: Language, is_unspaced: bool) -> re.Pattern[str]:
    months = {word for word in language.months if word not in ("may", "march")}
    groups = {
        "word": _any_of(language.days),
        "number": rf"\d{{1,4}}|{_any_of(language.numbers)}",
        "unit": _any_of(language.units),
        "period": _any_of(language.periods),
        "month": _any_of(language.months),
        **{f"weekday{place}": _any_of(language.weekdays) for place in ("", "_2", "_3")},
    }
    pattern = pattern.replace("{sure_month}", f"(?P<month>{_any_of(months)})")
    pattern = pattern.replace("{year}", _YEAR)
    day = rf"(?P<day>3[01]|[12]\d|0?[1-9]|{_any_of(language.numbers)})(?!\d)" if is_unspaced else _DAY
    pattern = pattern.replace("{day}", day)
    for name, words in groups.items():
        pattern = pattern.replace(f"{{{name}}}", f"(?P<{name}>{words})")
    pattern = pattern.replace(" ", r"\s")
    return re.compile(pattern if is_unspaced else f"{_LEFT}{pattern}{_RIGHT}", re.IGNORECASE)


def _longest_word(phrase: str) -> str:
    return max(re.split("[ '’-]", phrase), key=len)


def _any_of(words: Mapping[str, object] | set[str]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))
