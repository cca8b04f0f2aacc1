"""What the times of a query mean for notes: which are of that time, which are newest, and when a time is all there is.

A time never filters: a note of the time gains a little, because people tell of a day on other days too. Only a query
that asks for nothing but a time lists the notes of that time.
"""

import re
from collections.abc import Iterable, Sequence

from mdrecall.core.ranking.times import QueryTimes, remove_spans
from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import surface_words, tokens

# What a note of the day, the week or the year gains; larger values lost questions about conversations.
_BONUS = 0.1
# A month is named on purpose, and its notes are many.
_MONTH_BONUS = 0.12
# People still tell of a month in the two weeks after it.
_MONTH_GRACE_DAYS = 14
# How much more the newest of near equals counts than the oldest.
_NEWEST_GAIN = 0.35
#: Results with less than this share of the best one's worth are no near equals.
NEAR_EQUAL = 0.6
#: If there is no note of the time, the nearest earlier day counts within this many days.
NEAREST_DAYS = 3

# Words of questions such as "what happened", "what did we discuss" or "my notes of", which say nothing about a subject.
_VAGUE_WORDS = (
    "happen happened happening happens note notes entry entries memory memories journal diary log logs discuss"
    " discussed talk talked work worked working write wrote written new news day days week summary summarize summarise"
    " summarized recap list event events activity activities did everything all"
    " passiert passierte geschehen geschah notiz notizen eintrag eintrage tagebuch besprochen geredet gemacht getan"
    " gearbeitet neues geschrieben los alles"
    " passe arrive discute parle travaille ecrit journee notes fait faits tout"
    " paso ocurrio ocurrido pasado notas nota hicimos hice hablamos trabajamos escribi escribimos sucedio diario todo"
    " s t"
)
_VAGUE = frozenset(_VAGUE_WORDS.split())
_VAGUE_UNSPACED = re.compile(
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
    every = [word for token in tokens(query) for word in surface_words(token)]
    idle = find_stop_words(every) | _VAGUE
    left = _VAGUE_UNSPACED.sub(" ", remove_spans(query, times)) if not query.isascii() else remove_spans(query, times)
    return all(word in idle for token in tokens(left) for word in surface_words(token))


def time_bonus(times: QueryTimes, day: int | None) -> float:
    """Return what a note of a day gains; nothing for a date whose words find its note already."""
    if day is None:
        return 0.0
    gains = (
        _MONTH_BONUS if one.precision == "month" else _BONUS
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
