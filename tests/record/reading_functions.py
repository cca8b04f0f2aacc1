"""What the functions that read notes and queries return for inputs of every kind: times, days, words and passages."""

import base64
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, product

from mdrecall.errors import QueryError
from mdrecall.life import promotion
from mdrecall.search import recency
from mdrecall.search.query import QueryTimes, explain_filter, parse_query, read_limits, read_range, read_times
from mdrecall.text import days
from mdrecall.text.change import find_change, read_claims
from mdrecall.text.redact.masking import find, make_fingerprint, redact
from mdrecall.text.redact.user_patterns import compile_patterns
from mdrecall.text.time_reader import LANGUAGES
from mdrecall.types.documents import SourceName, StoredChunk, StoredDocument

#: Wednesday, 15 July 2026, and the last day of a leap month, a Thursday.
TODAY, LEAP_DAY = days.day_number(2026, 7, 15) or 0, days.day_number(2024, 2, 29) or 0
#: How each language says a number of units ago, some units ago, a weekday, and a month with its year.
PHRASES = {
    "en": ("{} {} ago", "a few {} ago", "{}", "{} 2025"),
    "de": ("vor {} {}", "vor ein paar {}", "{}", "{} 2025"),
    "fr": ("il y a {} {}", "il y a quelques {}", "{}", "{} 2025"),
    "es": ("hace {} {}", "hace unos {}", "{}", "{} 2025"),
    "han": ("{}{}前", "几{}前", "周{}", ""),
    "ko": ("{} {} 전", "몇 {} 전에", "{}요일", ""),
}
TIMES = (
    "last month", "previous year", "this week", "this year's", "the month before last", "the last day",
    "the last 3 days", "past week", "this past month", "the last weekend", "in the past 2 years", "last 9999 years",
    "the last 2 weekends", "2 weeks ago",
    "1 day ago", "0 days ago", "5000 days ago", "5001 days ago", "99 years ago", "100 years ago", "3 weekends ago",
    "some years back", "every friday", "on Friday", "friday of last week", "last week on Friday", "Monday of this week",
    "this week's sunday", "this wednesday", "wednesday", "next monday",
    "in July", "in June 2024", "last july", "last june", "since Monday", "since july 1", "may 5", "on may 5", "May 5th",
    "5 May", "5 may", "march 3 miles", "july 15", "since friday until monday", "29 february", "29 february 2023",
    "2026-07-15", "2026/7/5", "2026. 7. 5", "5.7.2026", "5/7/2026", "13/7/2026", "7/13/2026", "2026-07", "2026-13",
    "in 2025", "2025", "jan 2025 to mar 2025", "between june 1 and july 4", "june 1 and july 4",
    "from july 4 until june 1", "yesterday - today", "２０２６-０７-０５", '"last week" now', "last-week.md", "‘now’",
    "it's 'today' here", "wie ist es hier", "hier nous étions là", "hier", "the actual port", "el puerto actual",
    "what is actual", "actual port", "the actual current port", "昨天今天", "now or yesterday or the latest",
    "latest or current", "yesterday's latest", "up to date?",
)  # fmt: skip
OTHER_TIMES = (
    "letzten Monat", "in diesem Jahr", "vorletzte Woche", "die letzten zwei Tage", "am Freitag letzter Woche",
    "diese Woche am Montag", "diesen Montag", "letzten Juli", "am 3. Mai", "seit dem 3. Mai", "jeden Freitag",
    "gestern abend",
    "la semaine dernière", "cette année", "ces deux dernières semaines", "les deux derniers mois",
    "lundi de la semaine dernière", "ce lundi", "juin dernier", "le 1er mai 2025", "début juin", "mardi prochain",
    "la semana pasada", "este mes", "el año antepasado", "los últimos 2 días", "el lunes de la semana pasada",
    "este lunes", "julio pasado", "desde el 3 de mayo", "hoy en día", "lunes que viene",
    "最近三天", "过去2个月", "前几天", "上周一", "上周一共", "本周五", "先週の金曜日", "今週の月曜日", "来週の月曜日",
    "去年三月", "2025年3月5日", "今年 3 月", "三月二十一日", "上周以来", "13月", "2024年前", "每周一", "现在最新",
    "最近", "今の住所", "先週から", "지난주부터", "지난 3주", "며칠 전", "지난주 월요일", "다음 월요일",
    "작년 3월", "2025년 3월 5일", "3월 5일", "2024년", "현재 최신",
)  # fmt: skip
ONLY_TIMES = (
    "yesterday", "What happened yesterday?", "the boat yesterday", "boat", "was war gestern los", "gestern Boot",
    "qu'avons-nous fait hier ?", "le bateau hier", "¿qué hicimos ayer?", "el barco ayer", "昨天发生了什么", "昨天的船",
    "어제 뭐 했어?", "어제 배", "what changed since Monday?", "昨日から何が変わった",
    "what did we discuss on friday and hier", "", "la barca hier",
)  # fmt: skip
LIMITS = (
    (None, None), ("2026-07-01", None), (None, "last week"), ("june", "june"), ("2026-07-02", "2026-07-01"),
    ("2026-07-01", "2026-07-01"), ("soon", None), (None, "x" * 90), ("last week or so", None), ("in", None),
)  # fmt: skip


def _show_times(found: QueryTimes, query: str, today: int) -> str:
    ranges = [
        f"{one.first - today:+d}..{one.last - today:+d} {one.precision}"
        + (" relative" if one.is_relative else "")
        + (" title" if one.is_in_title else "")
        for one in found.ranges
    ]
    spans = [query[start:end] for start, end in found.spans]
    return f"{', '.join(ranges) or '-'} {spans} {[query[start:end] for start, end in found.cues]}"


def record_time_words() -> Iterator[str]:
    """Yield the days that words for times mean in every language, from word to word and in phrases."""
    for key, language in LANGUAGES.items():
        ago, few, day, month = PHRASES[key]
        unit = next(iter(language.units))
        asked = {
            "days": language.days,
            "periods": language.periods,
            "ago": [ago.format(2, word) for word in language.units],
            "few": [few.format(word) for word in language.units],
            "numbers": [ago.format(word, unit) for word in language.numbers],
            "weekdays": [day.format(word) for word in language.weekdays],
            "months": [month.format(word) for word in language.months if month],
        }
        for name, phrases in asked.items():
            yield f"{key} {name}: {_join_equal(map(_show_range, phrases))}"
    yield f"months {_join_equal(_show_range(f'{number}{word}') for word in '月월' for number in range(14))}"
    yield from (f"{query}: {_show_times(read_times(query, TODAY), query, TODAY)}" for query in OTHER_TIMES)


def record_times() -> Iterator[str]:
    """Yield the days that English phrases and dates mean, on a usual day and on unusual ones."""
    yield from (f"{query}: {_show_times(read_times(query, TODAY), query, TODAY)}" for query in TIMES)
    for query in ("last year", "29 february", "february", "last february", "a month ago", "2 years ago", "thursday"):
        yield f"leap day {query}: {_show_times(read_times(query, LEAP_DAY), query, LEAP_DAY)}"
    early = "the last 2 days, 3 days ago, a year ago, last month"
    yield from (f"day {today}: {_show_times(read_times(early, today), early, today)}" for today in (1, 2, 3, 4, 366))


def _show_range(text: str) -> str:
    found = read_range(text, TODAY)
    if found is None:
        return "-"
    first, last = found.first - TODAY, found.last - TODAY
    return f"{first}{found.precision[0]}" if first == last else f"{first}..{last}{found.precision[0]}"


def _join_equal(shown: Iterable[str]) -> str:
    """Return the texts in a row, with the number of those that are the same."""
    counted = [(text, len(list(same))) for text, same in groupby(shown)]
    return " ".join(text if count == 1 else f"{text}*{count}" for text, count in counted)


def record_days() -> Iterator[str]:
    """Yield days of the calendar, the days that notes are about, and which notes are newer."""
    wrong = ((0, 1, 1), (10_000, 1, 1), (2023, 2, 29), (2024, 2, 29), (2023, 4, 31), (2023, 12, 31), (2023, 1, 0))
    yield str([days.day_number(*one) for one in wrong])
    units: tuple[days.Unit, ...] = ("day", "week", "weekend", "month", "year")
    for today, unit in product((TODAY, LEAP_DAY, 3), units):
        found = [days.unit_range(today, unit, offset) for offset in (-30, -3, -1, 0, 1, 11)]
        shown = [f"{one.first - today}..{one.last - today}{one.is_relative:d}" if one else "-" for one in found]
        yield f"{today} {unit} {' '.join(shown)}"
    names = (
        "memory/2026-07-15.md", "2026-07-15x.md", "2026-07-151.md", "2026-07-15-a/b.md", "2026-7-15.md",
        "2026-02-30.md",
        "2026/07/15.md", "2026/07/15/x.md", "2026_07_15.md", "2026-07_15.md", "20260715.md", "log_20260715a.md",
        "1820-01-01.md",
        "a2026-07-15.md", "12026.07.15.md", "18991231.md", "a.md", "２０２６-07-15.md", "2026-07-1.md",
    )  # fmt: skip
    yield str([day and days.format_day(day) for name in names if (day := days.note_day(name, "")) or True])
    heads = (
        "---\ndate: 2026-07-15\n---\n", "--- \r\nday: '2026-07-15'\n---", "---\nupdated: 2026-07-15\n---",
        "---\ndate: 2026-07-15",
        "date: 2026-07-15", "---\nCreated :\t\"2026-07-15T09:00\"\n---\n", "---\ndate: 2026-13-15\n---",
    )  # fmt: skip
    yield str([days.note_day("a.md", head) for head in heads])
    noon = 86_400_000 * (TODAY - days.EPOCH) + 43_200_000
    yield str([days.Moment(noon, offset * 3_600_000.0).today - TODAY for offset in (-13, -12, 0, 11.9, 12)])
    yield str([days.ms_of_day(days.EPOCH + number) for number in (-1, 0, 1)])
    sources: tuple[SourceName, ...] = ("memory", "sessions")
    for source, line, mtime in product(sources, (1, 2), (0, noon * 10**6)):
        chunk = StoredChunk(1, source, "a.md", line, line, heads[0], (), mtime)
        document = StoredDocument(1, source, ("a.md", "2026-07-15.md")[line - 1], mtime, "")
        near = [(TODAY + first, TODAY + last) for first, last in ((-2, -1), (-1, 0), (0, 1), (1, 2))]
        among = [days.is_of_days(document, ranges) for ranges in (*([one] for one in near), near)]
        yield f"{source} {line} {bool(mtime)} {days.chunk_day(chunk)} {days.document_day(document)} {among}"
    places = [
        days.Place(path, line, day, changed)
        for path, line, day,
        changed in (("a", 1, 5, 9), ("a", 2, 5, 9), ("b", 1, 5, 5), ("c", 1, None, 5), ("d", 1, 6, 1))
    ]  # fmt: skip
    yield str([int(days.is_newer(one, other)) for one, other in product(places, repeat=2)])


def record_recency() -> Iterator[str]:
    """Yield what times mean for notes: which are of a time, and what they gain."""
    for query in ONLY_TIMES:
        found = read_times(query, TODAY)
        quiet = [term.surface for term in recency.quiet_time_words(parse_query(query), query, found) if term.stop]
        yield f"{query}: {recency.is_only_time(query, found)} {quiet}"
    for query in ("last friday at the current address", "in june at the current pool", "june 3 and yesterday", "now"):
        found = read_times(query, TODAY)
        terms = recency.quiet_time_words(parse_query(query), query, found)
        yield f"{query}: {[term.surface for term in terms if not term.stop]}"
    for query in ("in june", "last week", "yesterday", "2026-07-14", "in 2025", "last month and yesterday", "boat"):
        found = read_times(query, TODAY)
        near = [day for one in found.ranges for edge in one[:2] for day in range(edge - 1, edge + 2)]
        gains = [f"{day - TODAY}:{recency.time_bonus(found, day):g}" for day in (*near, TODAY, TODAY - 1, TODAY - 2)]
        yield f"{query}: {' '.join(gains)} {recency.time_bonus(found, None)}"
        if found.ranges:
            first, last = found.ranges[0][:2]
            known = ((), (last,), (first, last + 1), (first - 1, first - 3), (first - 3,), (first - 4,), (last + 1,))
            yield str([sorted(day - first for day in recency.nearest_days(one, found)) for one in known])
    for dates in ((), (None,), (5,), (5, 5), (5, None, 7), (9, 5, 7, 5)):
        yield f"{dates} {[round(factor, 4) for factor in recency.newest_factors(dates)]}"
    for since, until in LIMITS:
        try:
            limits = read_limits(since, until, TODAY)
        except QueryError as error:
            yield f"{error} {error.hint} {error.name}"
        else:
            near = (
                []
                if limits is None
                else [limits.has(day) for edge in limits if edge for day in range(edge - 1, edge + 2)]
            )
            yield f"{since} {until} {limits} {near} {explain_filter(None, limits).action if limits else ''}"


#: Patterns of users at every limit of what may take long, each beside the next one that is refused.
OWN_PATTERNS = (
    "x", " ", "x" * 1000, "x" * 1001, "(" + "x" * 79, "(" + "x" * 80, "/x/", "/x/gimsuy", "/x/im", "/x/q", "a/b",
    "/a/b",
    r"\bx", r"/\bx/", r"(?a)\bx", r"\d", r"\W", r"\sx", r"(?<n>x)", r"(?<=x)y", r"(?<!x)y", "x{", "[",
    r"(?:a{2})*b", r"(?:a{1,2})*b", r"(?:a{2,3}){1,64}b", r"(?:ab?){1,64}c", r"(?:ab?){1,65}c", r"(?:ab|cd)*x",
    r"(?:a++)*",
    r"(?=(?:a+)+)", r"(?!(?:a+)+)", r"(?>(?:a+)+)", r"(?>a+)x", r"(x)?(?(1)(?:a+)+|y)", r"(x)?(?(1)y|(?:a+)+)",
    r"(x)?(?(1)(?:a+)+)", r"bc|(?:a+)+", r"(?:(?:a+))+", r"(?:a+?)+x", r"(?:a*+)+x",
    r".*=.*", r".*?=.*", r"a*a{0,64}x", r"a*a{0,65}x", r"a*b*a*x", r"a*b+a*x", r"a*b?a*x", r"a*(?:b|c?)a*x",
    r"a*(?=b)a*x",
    r"a*(?:bc|de)a*x", r"a*(?:ab|ad)a*x", r"a*(?:b?){1,2}a*x", r"a*(?:b){0,1}a*x", r"a*(?:b){1,2}a*x",
    r"(x)?a*(?(1)b|c)a*x",
    r"a*(?>b)a*x", r"a*(b)a*x", r"a*b{0}a*x", r"a*(?:)a*x", r"a*^a*x", r"(a)\1*\1*x",
    r"a*A*x", r"/a*A*x/", r"я*Я*x", r".*a*x", r"[^a]*a*x", r"[^a]*b*x", r"[^ab]*b*x", r"[b-e]*b*x", r"[b-e]*e*x",
    r"[b-e]*a*x", r"[b-e]*f*x", r"\d*\w*x", r"\d*\s*x", r"\s*\S*x", r"\D*\d*x", r"\W*\s*x", r"\W*\w*x", r"[\d-]*-*x",
    r"[^\d]*\d*x", r"[^\d]*a*x", r"_*\w*x", r"猫*\w*x", r"😀*\W*x", r"\S*😀*x", r"٣*\d*x", r"ÿ*[ý-Ā]*x", r"　*\s*x",
    r"a{0,63}a{0,63}a?x", r"a{0,63}a{0,63}a{0,2}x", r"a*a?x", r"a*a{0,2}x", r"a{0,63}b{0,63}b{0,2}x", r"a{5}a*a?x",
    r"a{0,63}ca{0,63}a{0,2}x", r"a{0,63}a{0,63}b?a{0,2}x", r"a{0,63}a{0,63}ba{0,2}x", r"(?:ab|ac){1,13}x",
    r"(?:ab|ac){1,14}x",
    r"(?:ab|cd){1,64}x", r"(?:ab|b?){1,12}x", r"(?:ab|b?){1,14}x", r"(?:a|a){1,14}b", r"(a{1,30}){1,2}b",
    r"(a{1,30}){1,3}b",
    r"(?:a{1,90}b){1,2}", r"(?:a{1,90}b?){1}a", r"(?:x{0,3}y{0,3}){1,3}z", r"(?:x{0,3}y{0,3}){1,9}z",
    r"(?:c|a{1,20}){1,20}d",
    r"(?=(a{1,30}){1,30}b)", r"(?>(a{1,30}){1,30}b)", r"(?:ab|ac|ad){1,8}x", r"(?:ab|ac|ad){1,9}x",
    r"(?:(?=a)a{1,9}){1,4}a",
    r"a{0,64}a{0,64}x", r"a*(?:b?c){1,2}a*x", r"(?:a{0,9}(?:b|c?)){1,5}x", r"(?:a{1,9}b){1,14}x",
    r"(?:b?a{1,99}a?b?)?x", r"(?:b{0,63}a{1,2}b{0,63}){1,2}x", r"(?:ab|cd|[ac]e){1,9}x",
    r"(x)?(?(1)b|(?:a{1,30}){1,3})c", r"/(?i:a*A*)x/", r"/(?i:a*)b*x/", r"(a*)\1x", r"(a{1,64})\1x",
    r"(a{1,64})\1\1x", r"(\d)\1{3}", r"()\1*\1*x", r"(\b)\1*x", r"<(\w+)>[^<]*</\1>", r"<(\w+)>.*</\1>", r"(ß)\1*s*x",
    r"(x)?(a)(?(1)\2*|b)\2*x", "()" + "".join(rf"(\{at}\{at})" for at in range(1, 90)) + "x",
    r"(x)?(?:(?(1)ab|ac)a?){1,13}x", r"(?:a?){1,13}x", r"(?:a?){1,12}x", r"(?:ab?){1,64}x", r"(?:ab?b?){1,64}x",
)  # fmt: skip
OWN_TEXT = "x XY a/b\nay aéx ٣ bc aab é"
_BASE64 = [base64.b64encode(text.encode()).decode() for text in ("user:pass12", "userpass12", ":password", "username:")]
_WORDS = "abandon ability able about above absent absorb abstract absurd abuse access accident acid acoustic".split()  # noqa: SIM905
_MIXED = "a1B2c3D4e5" * 5
#: Texts with secrets, and with what only looks like one. Put together, so that no
#: scanner takes them for real.
SECRETS = (
    "password: *** next", "***password:*** hunter2", "***" + "x" * 20 + " password:*** next1",
    "***" + "x" * 21 + " password:*** next1", "PIN: 4711", "pin: 471", "pin: 123456789012", "pin: 1234567890123",
    "spin: 4711",
    "pin: 47a1", "password: none", "password: <x>", "pwd: /home", "pwd: ~x", "pwd: .x", "pwd: abc", "password: /home",
    "password | hunter22 |", "password | hunter |", "password == hunter22", "password === hunter", "password == hunter",
    "password = hunter", "key: hunter22", "key: hunter2", "key: hunter", "api key: hunter", "public key: hunter22",
    "max token: hunter22", "max token: hunter", "token: hunter", "clave: hunter", "clave: hunter22", "MY_KEY=hunter",
    "AB KEY=hunter", "MY_key=hunter", "secret: Hunter", "SECRET: Hunter", "password: Hunter", "secret: hunter",
    "secret: a.b",
    "secret: a_b", "secret: None", "passwd: abc", "kennwort: Abc", "пароль: Abc", 'key: "a b c d 1"', "key: 2026-07-15",
    "key: plan2026.md", "key: abcdefgh", "key: 12345678",
    "the pin is 4711", "the pin code is 47", "the password is interesting", "the password is stored",
    "the token is hunter",
    "the token is hunter22", 'das passwort ist "geheim"', "das passwort ist geheim", "das passwort lautet geheim",
    "das passwort ist geheim1", "das passwort ist ge-heim", "the password is geheim", "the password was set to geheim",
    "pass: hunter2!", "pass: hunter", "pass: hunt3r", "pass: hunt3", "my_pass: abc", "my-pass: abc", "PASS: abc",
    "pass: none",
    "pass: 123456", "pass: a.b1", "my_pass: a.b", "pass: 2026-07-15a", "pass: notes/a1", "pass: [x]",
    f"pa-{_MIXED}", f"pa-{'a' * 50}", f"pa-{'1' * 50}", *(f'"auth": "{text}"' for text in (*_BASE64, "AAAAAAAAA")),
    f"seed: {' '.join(_WORDS[:12])}", f"seed: {' '.join(_WORDS[:13])}",
    *(f"seed: {' '.join((_WORDS * 2)[:count])}" for count in (15, 16, 18, 21, 24)),
    f"seed: {' '.join(_WORDS[:11])} from",
    "Authorization: Bearer abc", "Authorization: abcdefg1", "Authorization: abcdefg", "Authorization: none",
    f"-----BEGIN {'PRIVATE'} KEY----- {_MIXED} -----END {'PRIVATE'} KEY-----",
    f"{'eyJ'}hbGciOiJ9", f"{'eyJ'}hbGciOiJ9.{'eyJ'}zdWIi", f"{'eyJ'}hbGciOiJ9.abc", f"{'eyJ'}hbGciOiJ9.abc.def",
    *(f"card {number}" for number in ("4" + "1" * 15, "4" + "1" * 14 + "2", "9" + "1" * 15, "4111-1111-1111-1111")),
)  # fmt: skip
#: Each with patterns of its own: how much of a secret is shown, and where one begins and ends.
MASKED = (
    ("<abcdefghijklmnop>", "<.*>"), ("<abcdefghijklmnopq>", "<.*>"), ("<😀bcdefghijklmno>", "<.*>"),
    ("<😀bcdefghijklmnop>", "<.*>"),
    ("<bcde😀fghijklmnop😀>", "<.*>"), ("<bcd😀😀fghijklmn😀😀>", "<.*>"), ("ab<c d>ef", "b<|<c|d>"),
    ("abcdef", "ab|ef"), ("abcdef", "ab|cd"),
    ("abcd", "ab, bc"), ("abcd", "abcd, bc"), ("one two", "(one) (x)?two"), ("one two", "(one) (two)"),
    ("one two", "one (x*)two"), ("a <b\n  c \r\n\n d> e", "<[^>]+>"),
    ("a\u200bbc ａｂｃ abc", "abc"), ("\u200babc\u200b", "abc"), ("＿１Ａ", "_1a"),
    ("abc…defg abcdef…defg abcde…efg abcdefg…xyzw", "[a-z]{3,7}"),
    ("abcdef…ghij", "abcdef…ghij"), ("abcdef…ghijk", "abcdef…ghijk"), ("abcd…ghij", "abcd…ghij"),
    ("abcde…ghi", "abcde…ghi"),
    ("abcdef…gh", "abcdef…gh"), ("*** … x", r"\\S+"), ("", "x*"), ("…", "…"), ("ghij…", "ghij"), ("…ghij", "ghij"),
    ("…ghi", "ghi"), ("…gh", "gh"),
    ("BEGIN\nabcdefghijklmnopqrst\nEND", "/BEGIN.*?END/s, [a-z]{20}"), ("abcdef…", "abcdef"), ("abcdef.", "abcdef"),
)  # fmt: skip


def record_own_patterns() -> Iterator[str]:
    """Yield which patterns of users are refused, and what the others find."""
    for pattern in OWN_PATTERNS:
        compiled, problems = compile_patterns([pattern])
        shown = pattern if len(pattern) < 60 else f"{pattern[:2]}*{len(pattern)}"
        for problem in problems:
            yield f"{shown} - {'…' in problem:d} {problem[-24:]}"
        for one in compiled[-1:]:
            masked = redact(OWN_TEXT, more=compiled)
            yield f"{shown} + {len(compiled)} {one.flags} {masked!r}"
    yield " ".join(make_fingerprint(own) for own in ((), ("a",), ("a", "b"), ("ab",), ("\ud800",)))


def record_masks() -> Iterator[str]:
    """Yield texts with their secrets masked."""
    yield from map(redact, SECRETS)
    for text, patterns in MASKED:
        compiled, _ = compile_patterns(patterns.split(", "))
        found = [tuple(one) for one in find(text, more=compiled)]
        yield f"{text!r} {patterns} {[one[:2] + one[3:] for one in found]} {redact(text, more=compiled)!r}"
    long, _ = compile_patterns(["<[^>]*>"])
    for before, size in product((0, 2040, 2047, 2048, 4089, 4090), (8, 2048, 2049, 5_000)):
        text = f"{'x' * before}<{'y' * size}>{'z' * 3_000}"
        yield f"{before} {size} {[one[:2] for one in find(text, more=long)]}"


#: Claims about a few things, each of which is compared with all others.
CLAIMS = (
    "The garden shed is red.", "The garden shed is green.", "The garden shed is not red.",
    "The garden shed is now green.",
    "The garden shed is in Oslo.", "The garden shed is in Bergen.", "The garden shed is under the big old oak tree.",
    "The garden shed costs 900 EUR.", "The garden shed costs 950 EUR.", "The garden shed opens at 14:00.",
    "The garden shed opens on Monday.", "The garden shed opens on 3 March.", "The garden shed moved to Bergen.",
    "The garden shed 2 is red.", "Anna is the owner of the garden shed.", "Ben is the owner of the garden shed.",
    "Ben owns the garden shed.", "Carol Marsh owns the garden shed.", "As of July, the garden shed is green.",
    "The garden shed is used by Anna and her three dogs on Sundays.", "The garden shed never leaks.",
    "The garden shed leaks.",
    "We painted the garden shed red.", "We painted the garden shed green.", "Is the garden shed green?",
    "Office: Oslo", "Office: Bergen", "Office: 12", "Office is now 14", "My office is in Oslo.",
    "My office is in Bergen.",
    "The office is in Oslo.", "My office was in Bergen.", "My dentist is Ana Ruiz.", "My dentist is Ben Moss.",
    "My brother is Ana Ruiz.", "My brother is Ben Moss.", "My brother is now Tom.", "Status: open", "Status: closed",
    "办公室在北京", "办公室在上海", "办公室现在在上海", "牙医是李雷", "牙医是王芳", "会议是周一", "会议是周五",
    "办公室不在北京",
    "회의는 월요일", "회의는 금요일", "Mon médecin est Ana.", "Mon médecin est Ben.",
    "Invoice 7 is paid.", "Invoice 8 is paid.",
    "The phone of Ana Ruiz is 12.", "The phone of Ben Ruiz is 14.", "The phone of Ana Ruiz is 14.",
    "Task ends at noon.",
    "The rent is 9 EUR.", "The rent changed to 12 EUR.", "The rent is 12 EUR a month.", "Rent was 7 EUR.",
)  # fmt: skip
UNFIT = (
    "# Plan", "| a | b |", "> said", "[x] done it all", "recalls=3 of the boat", "Themes: the boat",
    "HEARTBEAT_OK all is well",
    "All quiet on the boat today.", "User: the boat is blue", "[2026-01-01 10:00 UTC] it runs",
    "2026-01-01 10:00 it runs",
    "error: it does not run", "ValueError: it does not run", "$ make all of it", "git commit -m now && ls",
    "make it run && then go",
    "`ls`", "{a}", "name = value", "a.b: the boat is blue", "the boat is as follows:", "is the boat blue?",
    "The boat leaks", "The boat leaks now", "The boat leaks.", "boat leaks very badly",
    "boat leaks rocks sails masts keels", "boat leaks rocks sails masts",
    "a b c d123", "a b c d1234", "The Big Blue Boat Of Ana Is", "It is The Boat", "It is The Boat.",
    "Boat Rope Sail Mast Keel Oars tar",
    "Boat Rope Sail mast keel oars", "Boat Rope Sail mast keel oars tar", "船是蓝色的很旧了", "船是蓝色的很旧",
    "12 34 56 the a of is 78 90 12 34",
    "a b c d 123456", "a b c d 12345678", "[the boat is blue](x.md) today", "**The boat is [[x|blue]] now.**",
    "x " * 700 + "?",
    "see notes/a.md", "The boat at https://a.b/c leaks", "the boat (of Ana)", "the boat is here!", "the boat is here…",
)  # fmt: skip
ENTRY_NOTES = (
    "# A\n\nOne line\ngoes on. \nNext line\n- item\n  more\n- two\n\n1) three\n\n    code\n\tcode\n- x\n    inside",
    "a\n```\ncode\n```\nb\n| t |\n--- | ---\n===\n***\n<!-- c -->\nd <!-- status: superseded -->\n- e!\nf",
    "<!-- status:superseded-->\nold\n\n<!-- openclaw:dreaming:x:start -->\n- m\n<!-- OpenClaw:dreaming:x:END-->\n- k",
    "x\n<!-- status: superseded -->\n- new\n\n- <!-- c -->\n- y <!-- open\nstill -->\n.",
)
CONTENTS = (
    "", "The boat leaks.", "Boats leaking", "The boat does not leak.", "the boat leaks near rocks",
    "one two three four five six seven eight nine boats leak", "one two three four five six seven eight nine boats",
    "never",
)  # fmt: skip
TAGGED = (
    "", "We met Ana at the harbour in Lisbon with boat-7 and the old anchor", "ab abc abcd abcde",
    "x" * 32 + " " + "y" * 33,
    "Ana ana harbour Harbour", "the the and", "/etc/hosts 2026-01-02 12 `a b` `abc` notes.md https://a.b/c abc_d",
    "備份在 サーバー 도서관 很长的一句话在这里",
    "one three fifth seventh Ninth eleven-1 thirteenth_x fifteenth seventeenth nineteenth",
    "<!-- hidden --> 12a --- ...abc#", "- Boat boat", "meet Ana here",
)  # fmt: skip


def record_changes() -> Iterator[str]:
    """Yield which claims change which, and how."""
    claims = [next(iter(read_claims(text)), None) for text in CLAIMS]
    for old in claims:
        found = [old and new and find_change(old, new) for new in claims]
        told = [
            f"{at} {one.kind}{'' if one.is_sure else '?'} {one.old} > {one.new}" for at, one in enumerate(found) if one
        ]
        yield f"{old and old.text}: {'; '.join(told)}"


def record_entries() -> Iterator[str]:
    """Yield the entries of notes, which of them are statements, and what they are about."""
    yield from (f"{text[:60]!r} {promotion.explain_unfit(text) or '+'}" for text in UNFIT)
    for note in ENTRY_NOTES:
        yield str([(*one[:3], int(one.is_superseded)) for one in promotion.find_entries(note.split("\n"))])
    clocks = (
        "9:30 x",
        "[09:30:15] - x",
        "9:3 x",
        "09:30",
        "12:30: x",
        "x 9:30",
        "9:30–10:00 x",
        "9:30 5 x",
        "9:30pm x",
    )
    yield str([promotion.strip_clock(text) for text in clocks])
    contents = [promotion.find_content(text) for text in CONTENTS]
    yield str([sorted(content) for content in contents])
    for new in contents:
        yield "".join("+" if promotion.adds_nothing(new, old) else "-" for old in contents)
    yield from (f"{promotion.find_tags(text)} {promotion.choose_triggers(text)}" for text in TAGGED)


READINGS: dict[str, Callable[[], Iterator[str]]] = {
    "changes": record_changes,
    "days": record_days,
    "entries": record_entries,
    "masks": record_masks,
    "own-patterns": record_own_patterns,
    "recency": record_recency,
    "time-words": record_time_words,
    "times": record_times,
}
