"""Stages for time: notes of a time that the query names, the newest of near equals, and lines that replace others.

A time never filters: a note of the time gains a little, because people tell of a day on other days too. Only a query
that asks for nothing but a time lists the notes of that time.

A line that was replaced stays a result, because who asks may want to know what was said before.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeAlias

from mdrecall.patterns import host_of
from mdrecall.search.query import QueryTimes, remove_spans
from mdrecall.search.score import Memo, find_cost
from mdrecall.search.stages import Candidate, RankingContext, identifier_share, score_of, shown_span
from mdrecall.text.days import Moment, Place, chunk_day, is_newer
from mdrecall.text.markdown import Passage, heading_above, is_role
from mdrecall.text.statements import (
    Statement,
    find_change,
    list_beginnings,
    list_sentences,
    may_change,
    read_claim,
    read_statement,
)
from mdrecall.text.words import find_stop_words, fold, is_unspaced, stop_words_of, surface_words, tokens
from mdrecall.types.search import Term

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
    from mdrecall.text.time_reader import find_languages

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
        if covered.get(place, 0.0) >= _NEAR_COVERAGE * most and identifier_share(first[place]) == identifier_share(best)
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


def _words(text: str) -> set[str]:
    return {word for token in tokens(text) for word in surface_words(token)}


# Only what may become a result is compared, and of a long passage only its first statements: it bounds the work.
_MAX_COMPARED = 8
_MAX_STATEMENTS = 8
# A stem may end otherwise than its word; so much of both is the same.
_SURE_CHARS = 3
# A statement that answers a query holds more than one of its words, if it has as many.
_MIN_WORDS = 2


#: A candidate, where it was written down, and its sentences about what the query asks for with how their words begin.
_Claim: TypeAlias = tuple[Candidate, Place, list[tuple[str, frozenset[str]]]]
#: The statements of sentences, each with the passage that it is from and the headings and the text of its chunk.
_Statements: TypeAlias = Memo[tuple[str, tuple[str, ...], str, Passage], Statement | None]


def prefer_current(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Put a line that replaces another one before it, and what the notes mark as replaced below its equals.

    A query that names a time asks for what held then, so its results stay as they are.
    """
    if len(candidates) < 2 or context.times.ranges:
        return list(candidates)
    count = min(len(candidates), max(context.options.max_results, 2), _MAX_COMPARED)
    first = [
        age_among(entry, OLDEST_FACTOR, context) if entry.chunk.marks.is_superseded else entry
        for entry in candidates[:count]
    ]
    ordered = _sink_replaced(_lift_newer(first, context))
    return [*ordered, *candidates[count:]]


def _sink_replaced(entries: list[Candidate]) -> list[Candidate]:
    """Move what is marked as replaced below the candidates after it that are as good."""
    ordered = list(entries)
    for entry in reversed(entries):
        if entry.chunk.marks.is_superseded:
            place = ordered.index(entry)
            below = place + 1
            while below < len(ordered) and _is_as_good(ordered[below], entry):
                below += 1
            ordered.insert(below, entry)
            del ordered[place]
    return ordered


def _is_as_good(other: Candidate, entry: Candidate) -> bool:
    marks = entry.chunk.marks
    if _naming_of(entry) > _naming_of(other):
        return False
    replaces = bool(marks.superseded_by) and marks.superseded_by.partition("#")[0] == other.chunk.path
    return not other.chunk.marks.is_superseded and (replaces or other.shown_score >= entry.shown_score)


def _naming_of(entry: Candidate) -> tuple[float, float]:
    """Return how much of what the query names a candidate is: its file or heading, and identifiers."""
    return entry.features.naming if entry.features else 0.0, identifier_share(entry)


def _lift_newer(entries: list[Candidate], context: RankingContext) -> list[Candidate]:
    """Move a newer statement before the older one that it changes, and let it count as much."""
    asked = read_statement(context.text)
    beginnings = sorted({key[:_SURE_CHARS] for key in asked.subject_keys if key[0] != "="}) if asked else []
    # To look for beginnings of words costs less than to read statements, and most queries have no two to compare.
    least = 1 if any(map(is_unspaced, "".join(beginnings))) else min(_MIN_WORDS, len(beginnings))
    found = [(entry, _find_lines(entry, beginnings, least)) for entry in entries]
    if sum(bool(lines) for _, lines in found) < 2:
        return entries
    claims: list[_Claim] = []
    for entry, lines in found:
        sentences = list_sentences("\n".join(lines))[:_MAX_STATEMENTS] if lines else []
        claims.append((entry, _find_place(entry), [(each, list_beginnings(each)) for each in sentences]))
    place = 0
    read: _Statements = Memo(lambda claim: read_claim(claim[0], heading_above(*claim[1:]).rpartition(" › ")[2]))
    while place < len(claims):
        others = range(place + 1, len(claims))
        newer = next((n for n in others if _replaces(claims[n], claims[place], context.text, read)), None)
        if newer is None:
            place += 1
            continue
        entry, where, said = claims.pop(newer)
        claims.insert(place, (_count_as_much(entry, claims[place][0]), where, said))
        # The lifted one may itself be older than another; each step brings a newer day to this place.
    return [entry for entry, *_ in claims]


def _find_place(entry: Candidate) -> Place:
    """Return where and when a candidate was written down."""
    chunk = entry.chunk
    return Place(chunk.path, chunk.line(entry.passage.first_line), chunk_day(chunk), Moment(chunk.mtime_ns / 1e6).today)


def _count_as_much(newer: Candidate, older: Candidate) -> Candidate:
    is_reranked = newer.reranked is not None and older.reranked is not None
    return newer._replace(
        worth=max(newer.worth, older.worth),
        score=max(newer.score, older.score),
        reranked=max(newer.reranked or 0.0, older.reranked or 0.0) if is_reranked else newer.reranked,
    )


def _find_lines(entry: Candidate, beginnings: Sequence[str], least: int) -> list[str]:
    """Return the lines of a candidate that hold at least ``least`` words of the query.

    A conversation between people has none: a sentence in it seldom says what it is about, and what one person says does
    not replace what another has said. A digest has none either: it quotes. What a coding agent keeps replaces no note.
    """
    is_quote = entry.chunk.marks.origin == "digest" or host_of(entry.chunk.path)
    if is_quote or (entry.passage.speaker and not is_role(entry.passage.speaker)):
        return []
    span = shown_span(entry)
    text = entry.chunk.text[span.start : span.end]
    if _count_held(fold(text), beginnings) < least:
        return []
    return [line for line in text.split("\n") if _count_held(fold(line), beginnings) >= least]


def _count_held(line: str, beginnings: Sequence[str]) -> int:
    """Return how many of these beginnings of words a line holds."""
    return sum([beginning in line for beginning in beginnings])


def _replaces(newer: _Claim, older: _Claim, query: str, read: _Statements) -> bool:
    (new_entry, new_place, new_ones), (old_entry, old_place, old_ones) = newer, older
    if not new_ones or not old_ones or not is_newer(new_place, old_place):
        return False
    # What holds for one project says nothing about another.
    if new_entry.chunk.marks.project != old_entry.chunk.marks.project:
        return False
    if _naming_of(old_entry) > _naming_of(new_entry):
        return False
    for (old, words), (new, others) in product(old_ones, new_ones):
        if not may_change(words, others):
            continue
        before = read[old, old_entry.chunk.trail, old_entry.chunk.text, old_entry.passage]
        if before and (after := read[new, new_entry.chunk.trail, new_entry.chunk.text, new_entry.passage]):
            change = find_change(before, after)
            # Who names a number looks for it, though another one holds today.
            if change and not (change.kind in ("number", "date") and _names(query, change.old)):
                return True
    return False


def _names(query: str, value: str) -> bool:
    return not set(map(fold, tokens(query))).isdisjoint(map(fold, tokens(value)))
