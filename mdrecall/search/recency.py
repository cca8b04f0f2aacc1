"""Stages for time: notes of a time that the query names, the newest of near equals, and lines that replace others.

A time never filters: a note of the time gains a little, because people tell of a day on other days too. Only a query
that asks for nothing but a time lists the notes of that time.

A line that was replaced stays a result, because people may want to know what was said before.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice, product
from typing import TypeAlias

from mdrecall.patterns import host_of
from mdrecall.search.query import QueryTimes, remove_spans
from mdrecall.search.score import Memo, find_cost
from mdrecall.search.slots import has_other_value
from mdrecall.search.stages import Candidate, RankingContext, identifier_share, score_of, shown_span
from mdrecall.text.change import Change, Claim, find_change, fold_homes, list_sentences, read_claim
from mdrecall.text.days import Moment, Place, chunk_day, entry_day, format_day, is_known_newer, is_newer
from mdrecall.text.markdown import heading_above, is_role
from mdrecall.text.words import (
    LATIN_STOP_WORDS,
    find_stop_words,
    fold,
    is_unspaced,
    stop_words_of,
    surface_words,
    tokens,
)
from mdrecall.types.documents import format_citation
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
    " summarized recap list noted recorded event events activity activities did everything all changed change changes"
    " passiert passierte geschehen geschah notiz notizen eintrag eintrage tagebuch besprochen geredet gemacht getan"
    " gearbeitet neues geschrieben notiert notierte notieren aufgeschrieben los alles geandert neu"
    " passe arrive note discute parle travaille ecrit journee notes fait faits tout nouveau"
    " paso ocurrio ocurrido pasado notas nota hicimos hice hablamos trabajamos escribi escribimos anote"
    " anotamos apunte apuntamos sucedio diario todo cambio cambiado nuevo"
    " s t"
)
_VAGUE = frozenset(_VAGUE_WORDS.split())
# A plain string: the few queries that need it compile it.
_VAGUE_UNSPACED = (
    "发生|發生|什么|什麼|我们|我們|笔记|筆記|记录|記錄|日记|日記|事情|讨论|討論|聊天|大家|哪些|有没有|有沒有|一下|变化|變化|"
    "[以之][来來后後]|[的了过過做干幹聊说說写寫我你事都有是吗呢在从從自]|以降|変わった|"
    "出来事|何か|なに|メモ|ノート|ログ|日誌|起きた|起こった|ありました|しました|話しました|話した|書いた|やった|あった|した|私|"
    "[何をはがにのかでともら。]|"
    "무엇|무슨|뭐|했나요|했어요|했습니까|했는지|했지|했어|했나|했니|했|있었어|있었나|있었지|있었|메모|노트|일기|기록|우리|내가|나는|"
    "일이|일은|일|을|를|이후|부터|이|가|은|는|의|에|어|나요|지|요|논의|이야기|바뀐|것"
)


def is_only_time(query: str, times: QueryTimes) -> bool:
    """True if a query asks for a time and for nothing else."""
    if not times.ranges:
        return False
    from mdrecall.text.time_reader import find_languages

    # The stop words of the language that the words for times are in, if that is not English.
    spoken = [key for key in find_languages(query) if key in ("en", "de", "fr", "es")]
    idle = find_stop_words(_words(query)).union(_VAGUE, *map(stop_words_of, () if "en" in spoken else spoken))
    left = remove_spans(query, times.spans)
    left = left if left.isascii() else re.sub(_VAGUE_UNSPACED, " ", left)
    return all(word in idle for token in tokens(left) for word in surface_words(token))


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
    quiet = times.cues + (times.spans if all(one.is_relative for one in times.ranges) else ())
    if not quiet:
        return tuple(terms)
    inside = _words(" ".join(query[start:end] for start, end in quiet)) - _words(remove_spans(query, quiet))
    return tuple(term._replace(stop=True) if term.surface in inside else term for term in terms)


def prefer_times(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Let notes of the time that the query names gain a little."""
    if not context.times.ranges:
        return list(candidates)
    gains = [time_bonus(context.times, chunk_day(entry.chunk)) for entry in candidates]
    pairs = zip(candidates, gains, strict=True)
    return [entry._replace(worth=entry.worth + gain, time=gain) if gain else entry for entry, gain in pairs]


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


# Only what may become a result is compared, and of a long passage only its first sentences: it bounds the work. A line
# that replaces the first result may be far below, because it says less: "switched from Trello to Linear".
_MAX_COMPARED, _MAX_SENTENCES = 14, 8
# At most this many sentences are read for their claims. In 380 searches that read more, nearly all further changes were
# pairs by chance; with 16, the notebook's newest line came first as often as without a bound, with 10 less often.
_MAX_CLAIMS = 20
# A stem may not end like its word; this many letters of both are the same.
_SURE_CHARS = 3
_PRICES = ("cost", "price", "kost", "preis", "cout", "prix", "cuest", "precio")
# A line about what a query asks for holds a third of its words; of a long one, as many. A line that tells of a change
# often says less than the one that it changes: "Upgraded Postgres to 16."
_MOST_HELD = 3
# Two sentences about one thing share one word of as many, by the beginnings of their words.
_MIN_SHARED, _MAX_DIFFERENT = 4, 12
_Sentence: TypeAlias = tuple[str, frozenset[str], frozenset[str]]
_NOWHERE = Place("", 0, None, 0)


class _Said:
    """A candidate, where it was written down, and its sentences about what the query asks for."""

    def __init__(self, entry: Candidate, place: Place = _NOWHERE, sentences: Sequence[_Sentence] = ()) -> None:
        """``sentences`` are given with how their words begin, and with those words of the query that they hold."""
        self.entry, self.place, self.sentences = entry, place, sentences

    @cached_property
    def heading(self) -> str:
        """The nearest heading above it."""
        return heading_above(self.entry.chunk.trail, self.entry.chunk.text, self.entry.passage).rpartition(" › ")[2]

    def find_line(self, value: str) -> int:
        """Return the number of the line that states a value."""
        chunk, span = self.entry.chunk, shown_span(self.entry)
        sentence = next((text for text, *_ in self.sentences if value in text), "")
        lines = chunk.text[span.start : span.end].replace("**", "").split("\n")
        return chunk.line(span.first_line + next((at for at, line in enumerate(lines) if sentence in line), 0))

    def with_entry(self, entry: Candidate) -> "_Said":
        return _Said(entry, self.place, self.sentences)


def prefer_current(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Put a line that replaces the first one before it, and what the notes mark as replaced below its equals.

    A query that names a time asks for what held then: the newest value of that time comes first.
    """
    if len(candidates) < 2:
        return list(candidates)
    count = min(len(candidates), max(context.options.max_results, 2), _MAX_COMPARED)
    first = list(candidates[:count])
    if not context.times.ranges:
        first = [age_among(one, OLDEST_FACTOR, context) if one.chunk.marks.is_superseded else one for one in first]
    ordered = _order_changes(first, context)
    return [*(ordered if context.times.ranges else _sink_replaced(ordered)), *candidates[count:]]


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
    replaces = bool(marks.superseded_by) and marks.superseded_by.partition("#")[0] == other.chunk.path
    is_as_high = replaces or other.shown_score >= entry.shown_score
    return is_as_high and not other.chunk.marks.is_superseded and _naming_of(entry) <= _naming_of(other)


def _naming_of(entry: Candidate) -> tuple[float, float]:
    """Return how well a candidate fits what the query names: its file or heading, and identifiers."""
    return entry.features.naming if entry.features else 0.0, identifier_share(entry)


def _order_changes(entries: list[Candidate], context: RankingContext) -> list[Candidate]:
    """Put what holds before the first entry if it changes that one, let it count as much, and tell what was before."""
    find = _make_finder(asked := _list_asked(context), context.text)
    if not (best := find(entries[0])).sentences:
        return entries
    said = [best, *map(find, entries[1:])]
    read = Memo[tuple[str, ...], Claim | None](lambda one: read_claim(*one) if len(read) < _MAX_CLAIMS else None)
    stems = [term.text[:-1] if len(term.text) > _SURE_CHARS else term.text for term in asked]
    at, last_day = 1, max((one.last for one in context.times.ranges), default=None)
    while at < len(said):
        best, other = said[0], said[at]
        newer, older = (other, best) if is_newer(other.place, best.place) else (best, other)
        is_comparable = bool(other.sentences) and is_newer(newer.place, older.place)
        at += 1
        if not is_comparable or not (change := _compare(older, newer, context.text, read, stems)):
            continue
        is_later = last_day is not None and newer.place.day is not None and newer.place.day > last_day
        holds, told = (older, older) if is_later else (newer, _tell_before(newer, older, change))
        if holds is best:
            said[0] = told
        else:
            # It may itself be older than another; each step brings another day to the first place.
            lifted, at = told.with_entry(_count_as_much(told.entry, best.entry)), 1
            said = [lifted, *[one for one in said if one is not other]]
    return [one.entry for one in said]


def _list_asked(context: RankingContext) -> list[Term]:
    """Return the terms of a query that tell what it is about."""
    # No line needs the words of a time to state what held then.
    timed = _words(" ".join(context.text[start:end] for start, end in context.times.spans))
    asked = [match.term for match in context.matches if not match.term.stop and match.term.surface not in timed]
    # Nor does it need to say *cost* to name a price.
    return [term for term in asked if not term.surface.startswith(_PRICES)] or asked


def _make_finder(asked: Iterable[Term], query: str) -> Callable[[Candidate], _Said]:
    """Return what finds the sentences of a candidate that are about these terms of a query."""
    # A line that says where somebody moved answers where they live.
    fold_text = fold_homes if fold_homes(query) != fold(query) else fold
    words = (term.text if fold_text is fold else fold_homes(term.surface) for term in asked)
    beginnings = sorted({word[:_SURE_CHARS] for word in words})
    # To look for beginnings of words costs less than to read claims, and most queries have no two to compare.
    is_spaced = not any(map(is_unspaced, "".join(beginnings)))
    least = min((len(beginnings) + 2) // 3, _MOST_HELD) if is_spaced else 1
    return partial(_find_sentences, beginnings=beginnings, least=least, fold_text=fold_text)


def _tell_before(newer: _Said, older: _Said, change: Change) -> _Said:
    """Return a candidate that tells the value that it has replaced: "1,200 until 2026-05-03 (MEMORY.md#L4)"."""
    if newer.entry.was or not change.is_sure or not change.old:
        return newer
    is_known = newer.place.day is not None and is_known_newer(newer.place, older.place)
    until = f" until {format_day(newer.place.day or 0)}" if is_known else ""
    where = format_citation(older.place.path, line := older.find_line(change.old), line)
    return newer.with_entry(newer.entry._replace(was=f"{change.old}{until} ({where})"))


def _count_as_much(lifted: Candidate, other: Candidate) -> Candidate:
    is_reranked = lifted.reranked is not None and other.reranked is not None
    return lifted._replace(
        worth=max(lifted.worth, other.worth),
        score=max(lifted.score, other.score),
        reranked=max(lifted.reranked or 0.0, other.reranked or 0.0) if is_reranked else lifted.reranked,
    )


def _find_sentences(entry: Candidate, beginnings: Sequence[str], least: int, fold_text: Callable[[str], str]) -> _Said:
    """Return the sentences of a candidate that hold at least ``least`` words of the query, with those above them.

    A conversation between people has none: a sentence in it seldom says what it is about, and what one person says does
    not replace what another has said. A digest has none either: it quotes. What a coding agent keeps replaces no note.
    """
    chunk, span = entry.chunk, shown_span(entry)
    is_said = bool(entry.passage.speaker) and not is_role(entry.passage.speaker)
    text = chunk.text[span.start : span.end]
    said = "" if is_said or chunk.marks.origin == "digest" or host_of(chunk.path) else fold_text(text)
    held = [beginning for beginning in beginnings if beginning in said]
    above = _find_held(f"{chunk.path} {' '.join(chunk.trail)}", beginnings) if len(held) < least else ()
    if not held or len({*held, *above}) < least:
        return _Said(entry)
    pairs = zip(text.split("\n"), said.split("\n"), strict=True)
    kept = [line for line, folded in pairs if len({*[one for one in held if one in folded], *above}) >= least]
    line, changed = chunk.line(entry.passage.first_line), Moment(chunk.mtime_ns / 1e6).today
    place = Place(chunk.path, line, entry_day(chunk), changed)
    return _Said(entry, place, _read_sentences("\n".join(kept), held, fold_text))


def _find_held(text: str, beginnings: Sequence[str]) -> list[str]:
    """Return which of these beginnings of words a text holds."""
    folded = fold(text)
    return [beginning for beginning in beginnings if beginning in folded]


def _read_sentences(text: str, held: Sequence[str], fold_text: Callable[[str], str]) -> list[_Sentence]:
    """Return the first sentences that hold some beginnings of words; those beyond ASCII without how all words begin."""
    every = ((each, fold_text(each)) for each in list_sentences(text))
    found = ((each, folded, frozenset([one for one in held if one in folded])) for each, folded in every)
    first = islice((each for each in found if each[2]), _MAX_SENTENCES)
    return [(one, _find_beginnings(folded) if one.isascii() else frozenset(), own) for one, folded, own in first]


def _find_beginnings(folded: str) -> frozenset[str]:
    """Return how the words of a sentence begin that say something: no stop words and no numbers."""
    words = [word for word in folded.split() if word not in LATIN_STOP_WORDS and word[0].isalpha()]
    return frozenset([word[:_SURE_CHARS] for word in words])


def _may_change(old: frozenset[str], new: frozenset[str]) -> bool:
    """True if two sentences may be a change of each other: both hold a quarter of the shorter one, and little else."""
    shared, (few, many) = len(old & new), sorted((len(old), len(new)))
    return not few or (_MIN_SHARED * shared >= few and many - shared <= max(_MAX_DIFFERENT, shared))


def _compare(
    older: _Said, newer: _Said, query: str, read: Mapping[tuple[str, ...], Claim | None], stems: Sequence[str]
) -> Change | None:
    """Return how one candidate changes another, if it does; two answers to one question are a change of the order."""
    # What holds for one project says nothing about another.
    is_same_project = older.entry.found.chunk.marks.project == newer.entry.found.chunk.marks.project
    if not is_same_project or _naming_of(older.entry) > _naming_of(newer.entry):
        return None
    anew = None
    for (old, words, held), (new, others, also) in product(older.sentences, newer.sentences):
        if held.isdisjoint(also) or not _may_change(words, others):
            continue
        before, after = read[old, older.heading, older.place.path], read[new, newer.heading, newer.place.path]
        change = find_change(before, after) if before and after else None
        # Who names a value looks for it, though another one holds today.
        if change and (change.is_sure or held <= also):
            asked, value = (set(map(fold, tokens(text))) for text in (query, change.old))
            if asked.isdisjoint(value):
                return change
        if held <= also and has_other_value(old, new, query):
            texts = (f"{said.place.path} {said.heading} {text}" for said, text in ((older, old), (newer, new)))
            own, theirs = (_find_held(text, stems) for text in texts)
            # Half of the words say what a question is about; in a script without spaces most pairs are no words.
            if 2 * len(own) >= (len(stems) if "".join(stems).isascii() else 1) and {*own} <= {*theirs}:
                anew = Change("value", "", "", is_sure=False)
    return anew
