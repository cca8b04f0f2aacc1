"""What the times of a query mean for notes: which are of that time, which are newest, and when a time is all there is.

A time never filters: a note of the time gains a little, because people tell of a day on other days too. Only a query
that asks for nothing but a time lists the notes of that time.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from mdrecall.core.ranking.days import chunk_day, format_day
from mdrecall.core.ranking.features import find_cost
from mdrecall.core.ranking.stages import Candidate, RankingContext, score_of
from mdrecall.core.ranking.times import QueryTimes, read_range, remove_spans
from mdrecall.core.text.stopwords import find_stop_words, stop_words_of
from mdrecall.core.text.words import surface_words, tokens
from mdrecall.errors import QueryError
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import SearchAnswer, Term

# What a note of the week or the year gains; larger values lost questions about conversations.
_BONUS = 0.1
# A query that says "yesterday" or "last Friday" means the note of that day. Less than this did not lift it above notes
# of other days that say the same in more words.
_RELATIVE_DAY_BONUS = 0.2
# A month is named on purpose, and its notes are many.
_MONTH_BONUS = 0.12
# People still tell of a month in the two weeks after it.
_MONTH_GRACE_DAYS = 14
# How much more the newest of near equals counts than the oldest.
_NEWEST_GAIN = 0.35
#: What the oldest of near equals counts beside the newest.
OLDEST_FACTOR = 1 / (1 + _NEWEST_GAIN)
# Results with less than this share of the best one's worth are no near equals, nor are those after the first few.
_NEAR_EQUAL = 0.6
_MAX_NEAR_EQUALS = 6
# Nor are those with less than this share of the words: a note that is only like the question states something else.
_NEAR_COVERAGE = 0.8
#: If there is no note of the time, the nearest earlier day counts within this many days.
NEAREST_DAYS = 3

# Words of questions such as "what happened", "what did we discuss" or "my notes of", which say nothing about a subject.
_VAGUE_WORDS = (
    "happen happened happening happens note notes entry entries memory memories journal diary log logs discuss"
    " discussed talk talked work worked working write wrote written new news day days week summary summarize summarise"
    " summarized recap list noted recorded event events activity activities did everything all"
    " passiert passierte geschehen geschah notiz notizen eintrag eintrage tagebuch besprochen geredet gemacht getan"
    " gearbeitet neues geschrieben notiert notierte notieren aufgeschrieben los alles"
    " passe arrive note discute parle travaille ecrit journee notes fait faits tout"
    " paso ocurrio ocurrido pasado notas nota hicimos hice hablamos trabajamos escribi escribimos anote"
    " anotamos apunte apuntamos sucedio diario todo"
    " s t"
)
_VAGUE = frozenset(_VAGUE_WORDS.split())
# A plain string: the few queries that need it compile it.
_VAGUE_UNSPACED = (
    "发生|發生|什么|什麼|我们|我們|笔记|筆記|记录|記錄|日记|日記|事情|讨论|討論|聊天|大家|哪些|有没有|有沒有|一下|"
    "[的了过過做干幹聊说說写寫我你事都有是吗呢在]|"
    "出来事|何か|なに|メモ|ノート|ログ|日誌|起きた|起こった|ありました|しました|話しました|話した|書いた|やった|あった|した|私|"
    "[何をはがにのかでとも。]|"
    "무엇|무슨|뭐|했나요|했어요|했습니까|했는지|했지|했어|했나|했니|했|있었어|있었나|있었지|있었|메모|노트|일기|기록|우리|내가|나는|"
    "일이|일은|일|을|를|이|가|은|는|의|에|어|나요|지|요|논의|이야기"
)


def is_only_time(query: str, times: QueryTimes) -> bool:
    """True if a query asks for a time and for nothing else."""
    if not times.ranges:
        return False
    idle = find_stop_words(_words(query)) | _VAGUE | _stop_words_by_times(query)
    left = remove_spans(query, times.spans)
    left = left if left.isascii() else re.sub(_VAGUE_UNSPACED, " ", left)
    return all(word in idle for token in tokens(left) for word in surface_words(token))


def _stop_words_by_times(query: str) -> frozenset[str]:
    """Return the stop words of the language that the words for times are in, if that is not English."""
    from mdrecall.core.ranking.time_reader import find_languages

    spoken = [key for key in find_languages(query) if key in ("en", "de", "fr", "es")]
    return frozenset() if not spoken or "en" in spoken else frozenset().union(*map(stop_words_of, spoken))


def time_bonus(times: QueryTimes, day: int | None) -> float:
    """Return what a note of a day gains; nothing for a date whose words find its note already."""
    if day is None:
        return 0.0
    gains = (
        _MONTH_BONUS
        if one.precision == "month"
        else _RELATIVE_DAY_BONUS
        if one.precision == "day" and one.is_relative
        else _BONUS
        for one in times.ranges
        if not one.is_in_title and one.has(day, _MONTH_GRACE_DAYS if one.precision == "month" else 0)
    )
    return max(gains, default=0.0)


def newest_factors(days: Sequence[int | None]) -> list[float]:
    """Return a factor for each of several near equals: 1 for the newest, less for older ones by their rank.

    A note without a date, such as ``MEMORY.md``, tells what holds, so it counts as the newest.
    """
    order = sorted({day for day in days if day is not None})
    most = len(order) - 1
    ranks = {day: place / most if most else 1.0 for place, day in enumerate(order)}
    return [(1 + _NEWEST_GAIN * (1.0 if day is None else ranks[day])) / (1 + _NEWEST_GAIN) for day in days]


def nearest_days(days: Iterable[int], times: QueryTimes) -> set[int]:
    """Return those of the days that a query asks for; if there is none, the nearest one shortly before."""
    known = set(days)
    if found := {day for day in known if times.has(day)}:
        return found
    first = min(one.first for one in times.ranges)
    earlier = [day for day in known if first - NEAREST_DAYS <= day < first]
    return {max(earlier)} if earlier else set()


def quiet_time_words(terms: Sequence[Term], query: str, times: QueryTimes) -> tuple[Term, ...]:
    """Return the terms of a query with the words of relative times, and the cue words, as stop words.

    A query for "last Tuesday" or "the current address" is not looking for notes that say "Tuesday" or "current".
    """
    quiet = times.cues
    if all(one.is_relative for one in times.ranges):
        quiet += times.spans
    if not quiet:
        return tuple(terms)
    inside = _words(" ".join(query[start:end] for start, end in quiet)) - _words(remove_spans(query, quiet))
    return tuple(term._replace(stop=True) if term.surface in inside else term for term in terms)


def prefer_times(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Let notes of the time that the query names gain a little."""
    if not context.times.ranges:
        return list(candidates)
    changed = []
    for entry in candidates:
        bonus = time_bonus(context.times, chunk_day(entry.chunk))
        changed.append(entry._replace(worth=entry.worth + bonus, time=bonus) if bonus else entry)
    return changed


def prefer_newest(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Put the newest of near equals first if the query asks for what holds at present; nothing is dropped."""
    if not context.times.cues or len(candidates) < 2:
        return list(candidates)
    first = candidates[:_MAX_NEAR_EQUALS]
    places = _find_near_equals(first, context)
    factors = newest_factors([chunk_day(first[place].chunk) for place in places])
    near = [age_among(first[place], factor, context) for place, factor in zip(places, factors, strict=True)]
    ordered = list(candidates)
    for place, entry in zip(places, sorted(near, key=lambda entry: -entry.score), strict=True):
        ordered[place] = entry
    return ordered


def _find_near_equals(first: Sequence[Candidate], context: RankingContext) -> list[int]:
    """Return the places of the candidates that may state the same: nearly as good, with nearly as many of the words."""
    best = max(first, key=lambda entry: entry.worth - entry.weight)
    least = _NEAR_EQUAL * _raw_worth(best, context)
    good = [place for place, entry in enumerate(first) if _raw_worth(entry, context) >= least]
    covered = {place: found.coverage for place in good if (found := first[place].features)}
    most = max(covered.values(), default=0.0)
    return [
        place
        for place in good
        if covered.get(place, 0.0) >= _NEAR_COVERAGE * most and _share_of_names(first[place]) == _share_of_names(best)
    ]


def age_among(entry: Candidate, factor: float, context: RankingContext) -> Candidate:
    """Return a candidate with its worth as a share times a factor, and its score by that."""
    if factor == 1:
        return entry
    lost = (1 - factor) * _raw_worth(entry, context)
    changed = entry._replace(worth=entry.worth - lost, recency=factor)
    return changed._replace(score=score_of(changed, context))


def _raw_worth(entry: Candidate, context: RankingContext) -> float:
    """Return the worth of a candidate as a share, without what the query costs and what its collection weighs."""
    return entry.worth - entry.weight + (find_cost(entry.features, context.query) if entry.features else 0.0)


def _share_of_names(entry: Candidate) -> float:
    return entry.features.identified if entry.features else 0.0


def _words(text: str) -> set[str]:
    return {word for token in tokens(text) for word in surface_words(token)}


class DayLike(Protocol):
    """A ``datetime.date``, as far as it is needed here; the core has no clock."""

    def toordinal(self) -> int: ...


class DayLimits(NamedTuple):
    """The days to search, both included; None means no limit."""

    first: int | None = None
    last: int | None = None

    def has(self, day: int) -> bool:
        """True if a day is within the limits."""
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)

    def explain_empty(self) -> SearchAnswer:
        """Return an empty answer that says that no note is within the limits."""
        since = "" if self.first is None else f" since {format_day(self.first)}"
        until = "" if self.last is None else f" until {format_day(self.last)}"
        return SearchAnswer((), reason="no_match", action=f"There is no note{since}{until}. Choose other days.")


def read_limits(since: str | DayLike | None, until: str | DayLike | None, today: int) -> DayLimits | None:
    """Return the days that a request is limited to; None if it is not. Raise ``QueryError`` for what is no time."""
    if since is None and until is None:
        return None
    first = None if since is None else _read_limit("since", since, today)[0]
    last = None if until is None else _read_limit("until", until, today)[1]
    if first is not None and last is not None and first > last:
        message = f"No day is since {format_day(first)} and until {format_day(last)}."
        raise QueryError(message, hint="Let the range begin before it ends.", name="until")
    return DayLimits(first, last)


def _read_limit(name: str, value: str | DayLike, today: int) -> tuple[int, int]:
    if not isinstance(value, str):
        return value.toordinal(), value.toordinal()
    found = read_range(value, today)
    if found is None:
        hint = "Give a date such as 2026-03-01, or a time such as yesterday, last week or 3 days ago."
        raise QueryError(f"{name}: {value[:80]!r} is not a date.", hint=hint, name=name)
    return found.first, found.last
