"""Times in queries: the words and phrases of seven languages, and the days that they mean.

A rule is a pattern with named groups and what it means. In a pattern, ``{number}``, ``{unit}``, ``{weekday}``,
``{month}``, ``{day}`` and ``{year}`` stand for groups of that name, and a space for any white space. Compiled for this
project. Words that mean something else as often (*may*, *march*, *second*, *mars*, 一日) count only in phrases that
leave no doubt.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import repeat
from typing import NamedTuple, TypeAlias, TypeVar

from mdrecall.patterns import compile_later
from mdrecall.text.days import DayRange, Unit, calendar_date, day_number, month_range, unit_range, weekday, year_range
from mdrecall.text.words import count_words

_T = TypeVar("_T")


class Rule(NamedTuple):
    """A way to say a time: the kind of ``_Reading``, a pattern, and for *last*, *this* and their like an offset.

    The offset says which day, week or weekday is meant, counted from the present one.
    """

    kind: str
    pattern: str
    offset: int = 0


class Language(NamedTuple):
    """The time words of a language, folded to lower case."""

    days: Mapping[str, int]
    """Words for a day near today, with its distance."""
    units: Mapping[str, Unit]
    numbers: Mapping[str, int]
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    rules: tuple[Rule, ...]
    cues: str
    """The words that ask for what holds at present, separated by ``|``."""
    periods: Mapping[str, tuple[Unit, int]] = {}
    """Single words for a period, such as *last week* in Chinese."""


def _by_word(words_of: Mapping[_T, str]) -> dict[str, _T]:
    """Return what each word means; the words of one meaning are separated by ``|``."""
    return {word: meaning for meaning, words in words_of.items() for word in words.split("|") if word}


def _number(words: str, first: int = 1) -> dict[str, int]:
    """Return the words of a table by their place; ``a|b`` are two words for one place."""
    return _by_word(dict(enumerate(words.split(), first)))


def _units(day: str, week: str, month: str, year: str, weekend: str = "") -> dict[str, Unit]:
    return _by_word({"day": day, "week": week, "month": month, "year": year, "weekend": weekend})


# "May 5 people come?" and "march 3 miles" are no dates: without a year or an ordinal, something else must say so.
_SURE_DAY = r"(?:st|nd|rd|th)"
_AFTER_DAY = r"(?!\d|[.,:]\d| ?(?:%|am\b|pm\b|o'clock|people|persons|times|miles|km|days|weeks|hours|minutes|of))"
_EN_BEFORE_DAY = "on|since|until|till|by|from|before|after|of"
_EN_IN = (
    "in|during|since|until|till|from|of|by|for|before|after|through|throughout|mid|early in|late in"
    "|(?<!how )early|(?<!how )late|beginning of|start of|middle of|end of|as of"
)

_ENGLISH = Language(
    days=_by_word({
        -1: "yesterday|last night", -2: "day before yesterday|the day before yesterday",
        0: "today|tonight|this morning|this afternoon|this evening",
    }),
    units=_units("day|days", "week|weeks", "month|months", "year|years", "weekend|weekends"),
    numbers=_number("one|a|an two three four five six seven eight nine ten eleven twelve")
    | dict.fromkeys(("couple", "a couple", "couple of", "a couple of"), 2),
    months=_number(
        "january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sept|sep october|oct"
        " november|nov december|dec"
    ),
    weekdays=_number("monday tuesday wednesday thursday friday saturday sunday", 0),
    rules=(
        Rule("word", r"{word}(?:'s|’s)?(?: (?:morning|afternoon|evening|night))?"),
        Rule("ago", r"(?:about |around )?{number} {unit} (?:ago|back)"),
        Rule("few", r"(?:a few|some|several) {unit} (?:ago|back)"),
        Rule("back", r"(?:(?:in|over|during|within|for|from) )?(?:the )?(?:last|past|previous) {number} {unit}"),
        Rule("back", r"(?:(?:in|over|during|within|for|from) )?(?:the |this )past {unit}"),
        Rule("period", r"(?:the )?(?:last|previous) {unit}(?:'s|’s)?", -1),
        Rule("period", r"this {unit}(?:'s|’s)?", 0),
        Rule("period", r"(?:the )?{unit} before last", -2),
        Rule("weekday",
             r"(?:(?:on|last|past|this past) )?(?<!every )(?<!each )(?<!next )(?<!coming )(?<!by ){weekday}(?:'s|’s)?"),
        Rule("weekday_in_week", r"(?:on )?{weekday} (?:of )?last week|last week(?:'s)?(?: on)? {weekday_2}", -1),
        Rule("weekday_in_week",
             r"(?:on )?{weekday} (?:of )?this week|this week(?:'s)?(?: on)? {weekday_2}|this {weekday_3}", 0),
        Rule("month", rf"(?:{_EN_IN})[ -](?:the month of )?{{month}}(?! \d{{1,2}}\b)(?:,? (?:of )?{{year}})?"),
        Rule("month", r"{month},? (?:of )?{year}"),
        Rule("month", r"last {month}(?! \d)", -1),
        Rule("month", r"this {sure_month}(?! \d)"),
        Rule("month", "(?P<month>january|february|july|september|october|november|december)"),
        Rule("title_date",
             rf"(?:(?:{_EN_BEFORE_DAY}) )?(?:the )?{{day}}(?:{_SURE_DAY})?(?: of)? {{sure_month}}(?:,? {{year}})?"),
        Rule("title_date", rf"(?:the )?{{day}}{_SURE_DAY}(?: of)? {{month}}(?:,? {{year}})?"),
        Rule("title_date", r"(?:the )?{day} {month},? {year}"),
        Rule("title_date", r"{day} (?P<month>(?-i:May|March))"),
        Rule("title_date", rf"{{sure_month}}\.? {{day}}{_SURE_DAY}?(?:,? {{year}})?{_AFTER_DAY}"),
        Rule("title_date", rf"(?:{_EN_BEFORE_DAY}) {{month}} {{day}}{_SURE_DAY}?(?:,? {{year}})?{_AFTER_DAY}"),
        Rule("title_date", rf"{{month}} {{day}}(?:{_SURE_DAY}|(?=$|\?|\.$|!))(?:,? {{year}})?"),
        Rule("title_date", rf"{{month}} {{day}}{_SURE_DAY}?,? {{year}}"),
    ),
    cues=(
        "latest|newest|most recent|most recently|current|currently|now|nowadays|still|at the moment|at present"
        "|presently|any more|anymore|these days|up to date|up-to-date"
    ),
)  # fmt: skip

_DE_IN = "im|in|seit|bis|ab|vom|anfang|ende|mitte|seit anfang|seit ende|seit mitte|im monat"

_GERMAN = Language(
    days=_by_word({-1: "gestern", -2: "vorgestern", -3: "vorvorgestern", 0: "heute"}),
    units=_units("tag|tage|tagen", "woche|wochen", "monat|monate|monaten|monats", "jahr|jahre|jahren|jahres",
                 "wochenende|wochenenden"),
    numbers=_number(
        "ein|eine|einem|einer|einen zwei drei vier fünf|fuenf sechs sieben acht neun zehn elf zwölf|zwoelf"
    ),
    months=_number(
        "januar|jänner|jan februar|feb märz|maerz april mai juni juli august september|sept oktober november dezember"
    ),
    weekdays=_number("montag dienstag mittwoch donnerstag freitag samstag|sonnabend sonntag", 0),
    rules=(
        Rule("word", r"{word}(?: (?:morgen|früh|vormittag|mittag|nachmittag|abend|nacht))?"),
        Rule("ago", r"vor (?:etwa |rund |ungefähr )?{number} {unit}"),
        Rule("few", r"vor (?:ein paar|einigen|wenigen|mehreren) {unit}"),
        Rule("back", r"(?:(?:in|während) )?(?:den |der |die )?(?:letzten|vergangenen|vorigen) {number} {unit}"),
        Rule("period", r"(?:(?:in|im|am) )?(?:der |die |das |den )?(?:letzte|vorige|vergangene)[nrms]? {unit}", -1),
        Rule("period", r"(?:(?:in|im|am) )?diese[nrms]? {unit}", 0),
        Rule("period", r"(?:(?:in|im|am) )?(?:der |die |das |den )?vorletzte[nrms]? {unit}", -2),
        Rule("weekday", r"(?:(?:am|letzten|vergangenen|vorigen) )?(?<!jeden )(?<!nächsten )(?<!kommenden ){weekday}"
             r"(?: (?:morgen|vormittag|nachmittag|abend))?"),
        Rule("weekday_in_week", r"(?:am )?{weekday} (?:der )?(?:letzte|vorige|vergangene)[rn] woche"
             r"|(?:letzte|vorige|vergangene) woche(?: am)? {weekday_2}", -1),
        Rule("weekday_in_week",
             r"(?:am )?{weekday} dieser woche|diese woche(?: am)? {weekday_2}|diesen {weekday_3}", 0),
        Rule("month", rf"(?:{_DE_IN}) {{month}}(?: (?:des jahres )?{{year}})?"),
        Rule("month", r"{month} {year}"),
        Rule("month", r"(?:im )?(?:letzten|vergangenen|vorigen) {month}", -1),
        Rule("month", "(?P<month>januar|jänner|februar|märz|juli|oktober|november|dezember)"),
        Rule("date", r"(?:(?:am|vom|seit dem|bis zum|der|den) )?{day}\. ?{month}(?: {year})?"),
    ),
    cues=(
        "neueste|neuesten|neuester|neuestes|neustes|neueste|neusten|aktuell|aktuelle|aktuellen|aktueller|aktuelles"
        "|aktuellste|aktuellsten|derzeit|derzeitige|derzeitigen|momentan|im moment|jetzt|zurzeit|zur zeit|noch"
        "|inzwischen|mittlerweile|heutzutage|gegenwärtig|nicht mehr"
    ),
)  # fmt: skip

_FR_IN = "en|depuis|jusqu['’]en|début|fin|mi[ -]|courant|au mois de|au mois d['’]|dès"

_FRENCH = Language(
    days=_by_word({
        -1: "hier", -2: "avant-hier|avant hier",
        0: "aujourd'hui|aujourd’hui|ce matin|ce soir|cet après-midi|cette nuit",
    }),
    units=_units("jour|jours", "semaine|semaines", "mois", "an|ans|année|années|annee", "week-end|week-ends|weekend"),
    numbers=_number("un|une deux trois quatre cinq six sept huit neuf dix onze douze"),
    months=_number(
        "janvier février|fevrier mars avril mai juin juillet août|aout septembre octobre novembre décembre|decembre"
    ),
    weekdays=_number("lundi mardi mercredi jeudi vendredi samedi dimanche", 0),
    rules=(
        Rule("word", r"{word}(?: (?:matin|après-midi|midi|soir|nuit))?"),
        Rule("ago", r"il y a (?:environ )?{number} {unit}"),
        Rule("few", r"il y a (?:quelques|plusieurs) {unit}"),
        Rule("back", r"(?:au cours |durant |pendant )?(?:ces |les |des )?{number} derni(?:er|ère)s {unit}"),
        Rule("period", r"(?:la |le |l['’])?{unit} (?:derni[eè]re?|pass[ée]e?|pr[ée]c[ée]dente?)", -1),
        Rule("period", r"(?:ce|cet|cette) {unit}(?:-ci)?", 0),
        Rule("weekday", r"(?:le )?(?<!chaque )(?<!les ){weekday}(?: (?:derniere?|dernier|passé))?(?! prochain)"
             r"(?: (?:matin|après-midi|soir))?"),
        Rule("weekday_in_week",
             r"(?:le )?{weekday} de la semaine (?:dernière|passée)|la semaine (?:dernière|passée) (?:le )?{weekday_2}",
             -1),
        Rule("weekday_in_week", r"ce {weekday}", 0),
        Rule("month", rf"(?:{_FR_IN}) ?{{month}}(?: (?:de )?{{year}})?"),
        Rule("month", r"{month} {year}"),
        Rule("month", r"(?:en )?{month} dernier", -1),
        Rule("month", "(?P<month>janvier|février|juin|juillet|août|septembre|octobre|novembre|décembre)"),
        Rule("date", r"(?:le |du |au )?{day}(?:er)? {month}(?: {year})?"),
    ),
    cues=(
        "actuel|actuelle|actuels|actuelles|actuellement|maintenant|en ce moment|désormais|encore|toujours"
        "|dernier|dernière|derniers|dernières|plus récent|plus récente|plus récents|plus récentes|à présent"
    ),
)  # fmt: skip

_ES_IN = (
    "en|desde|hasta|durante|a principios de|a finales de|a mediados de|a fines de|en el mes de|el mes de|a comienzos de"
)

_SPANISH = Language(
    days=_by_word({
        -1: "ayer|anoche", -2: "anteayer|antier|antes de ayer", 0: "hoy|esta mañana|esta tarde|esta noche",
    }),
    units=_units("día|días|dia|dias", "semana|semanas", "mes|meses", "año|años", "fin de semana|fines de semana"),
    numbers=_number("un|una|uno dos tres cuatro cinco seis siete ocho nueve diez once doce"),
    months=_number(
        "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre"
    ),
    weekdays=_number("lunes martes miércoles|miercoles jueves viernes sábado|sabado domingo", 0),
    rules=(
        Rule("word", r"{word}(?! en d[ií]a)(?: por la (?:mañana|tarde|noche))?"),
        Rule("ago", r"hace (?:unos |unas |casi )?{number} {unit}"),
        Rule("few", r"hace (?:unos|unas|algunos|algunas|pocos|pocas|varios|varias) {unit}"),
        Rule("back", r"(?:en |durante )?(?:los |las )?[uú]ltim[oa]s {number} {unit}"),
        Rule("period", r"(?:la |el )?{unit} (?:pasad[oa]|anterior)", -1),
        Rule("period", r"est[ea] {unit}", 0),
        Rule("period", r"(?:la |el )?{unit} antepasad[oa]", -2),
        Rule("weekday", r"(?:el )?(?<!cada )(?<!los )(?<!próximo ){weekday}(?: pasado)?(?! que viene)"
             r"(?: por la (?:mañana|tarde|noche))?"),
        Rule("weekday_in_week", r"(?:el )?{weekday} de la semana pasada|la semana pasada(?:,? el)? {weekday_2}", -1),
        Rule("weekday_in_week", r"este {weekday}", 0),
        Rule("month", rf"(?:{_ES_IN}) {{month}}(?: del? {{year}})?"),
        Rule("month", r"{month}(?: del?)? {year}"),
        Rule("month", r"(?:en |el )?{month} pasado", -1),
        Rule("month", "(?P<month>enero|febrero|junio|julio|septiembre|octubre|noviembre|diciembre)"),
        Rule("date", r"(?:el |del )?{day} de {month}(?:,? (?:del? )?{year})?"),
    ),
    cues=(
        "actual|actuales|actualmente|ahora|todavía|aún|sigue|siguen|hoy en día|hoy en dia|en este momento|más reciente"
        "|más recientes|mas reciente|último|última|últimos|últimas|ya no"
    ),
)  # fmt: skip

_HAN_NUMBERS = _number(
    "一 二|两|兩 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十"
) | _number("_ " * 20 + "二十一 二十二 二十三 二十四 二十五 二十六 二十七 二十八 二十九 三十 三十一")

# Chinese and Japanese: no spaces show where a word ends, so each rule names what would make another word of it.
_HAN_YEAR = r"(?:{year} ?年|(?P<year_word>去年|今年|前年|昨年|一昨年)) ?[的の]?"
_HAN_MONTH = r"(?<![\d个個〇零一二三四五六七八九十])(?P<month>\d{1,2}|十[一二]?|[一二三四五六七八九]) ?月"

_ZH_WEEK = "(?:周|週|星期|礼拜|禮拜)"
# 周一次 is "once a week", 上周一共 "last week altogether", 上周三个 "last week three of".
_ZH_WEEKDAY = "(?P<weekday>[一二三四五六日天])(?![次个個共般直起样樣边邊期名件条])"

_HAN = Language(
    days=_by_word({
        0: "今天|今日|今早|今晚|今朝|今夜|きょう|今儿", -1: "昨天|昨日|昨晚|昨夜|きのう|昨儿",
        -2: "前天|一昨日|おととい", -3: "大前天",
    }),
    units=_units("天|日", "周|週|星期|礼拜|禮拜|个星期|個星期|个礼拜|個禮拜|週間",
                 "个月|個月|か月|ヶ月|カ月|ヵ月|ケ月|箇月", "年"),
    numbers=_HAN_NUMBERS,
    months={},
    weekdays=_number("一 二 三 四 五 六 日|天", 0) | _number("月 火 水 木 金 土", 0),
    rules=(
        Rule("word", r"(?<![以之目年月日周期])(?<!\d){word}(?![候气氣])"
             r"(?:早上|上午|下午|中午|晚上|夜里|の朝|の夜|の午後)?"),
        Rule("ago", r"(?<![\d第]){number} ?{unit}(?:之|以)?前(?![后後])"),
        Rule("few", r"[几幾数數何]{unit}か?(?:之|以)?前|前[几幾](?P<unit_2>天|周|个月)"),
        Rule("back", r"(?:最近|过去|過去|近|ここ|この)(?:的|の)? ?{number} ?{unit}"),
        Rule("period_word", r"(?<![以晚]){period}(?![期边邊围圍长長身亮台球度])"),
        Rule("weekday", rf"(?<![每下一二两三四五六七八九十\d]){_ZH_WEEK}{_ZH_WEEKDAY}"),
        Rule("weekday", r"(?<!毎週)(?<!来週)(?<!来週の)(?:この前の|前の)?(?P<weekday>[月火水木金土日])曜日?"),
        Rule("weekday_in_week", rf"上[个個]?{_ZH_WEEK}的?{_ZH_WEEK}?{_ZH_WEEKDAY}", -1),
        Rule("weekday_in_week", rf"[这這本][个個]?{_ZH_WEEK}的?{_ZH_WEEK}?{_ZH_WEEKDAY}"),
        Rule("weekday_in_week", r"先週の?(?P<weekday>[月火水木金土日])曜日?", -1),
        Rule("weekday_in_week", r"今週の?(?P<weekday>[月火水木金土日])曜日?"),
        Rule("month", rf"(?:{_HAN_YEAR})?{_HAN_MONTH}(?!前)(?:份|中旬|上旬|下旬|初|末|底|頃)?"),
        Rule("date", rf"(?:{_HAN_YEAR})?{_HAN_MONTH} ?{{day}} ?[日号號]"),
        Rule("year", r"(?<!\d){year} ?年(?![前间間代])度?"),
    ),
    cues="最新|最近|目前|当前|當前|现在|現在|如今|至今|仍然|仍旧|依然|还在|還在|直近|今の|今でも|今は|いまだに|未だに|まだ|いま",
    periods=_by_word({
        ("week", -1): "上周|上週|上星期|上个星期|上個星期|上礼拜|上禮拜|上个礼拜|先週",
        ("week", 0): "这周|這週|本周|本週|这个星期|這個星期|这星期|今週",
        ("week", -2): "上上周|上上週|上上个星期|先々週", ("weekend", -1): "上周末|上週末|先週末",
        ("weekend", 0): "这周末|本周末|今週末", ("month", -1): "上个月|上個月|上月|先月",
        ("month", 0): "这个月|這個月|本月|今月", ("month", -2): "上上个月|上上個月|先々月", ("year", -1): "去年|昨年",
        ("year", 0): "今年|本年", ("year", -2): "前年|一昨年|おととし",
    }),
)  # fmt: skip

_KO_PARTICLE = r"(?:에는|에도|에|은|는|의|부터|까지|이|가|도|자)?(?![가-힣])"
_KO_NOT_NEXT = "(?<!매주 )(?<!다음 )(?<!다음 주 )(?<!다음주 )(?<![가-힣])"
_KO_YEAR = r"(?:{year} ?년|(?P<year_word>작년|올해|재작년|지난해))"

_HANGUL = Language(
    days=_by_word({0: "오늘", -1: "어제|어젯밤|간밤", -2: "그저께|그제|엊그제|엊그저께"}),
    units=_units("일", "주|주일", "개월|달", "년|해"),
    numbers=_number("한|일 두|이 세|삼 네|사 다섯|오 여섯|육 일곱|칠 여덟|팔 아홉|구 열|십"),
    months={},
    weekdays=_number("월 화 수 목 금 토 일", 0),
    rules=(
        Rule("word", rf"(?<![가-힣]){{word}}(?: (?:아침|오전|오후|저녁|밤))?{_KO_PARTICLE}"),
        Rule("ago", rf"(?<![가-힣]){{number}} ?{{unit}} ?전{_KO_PARTICLE}"),
        Rule("few", r"(?<![가-힣])(?:며칠|몇 ?{unit}) ?전에?"),
        Rule("back", r"(?<![가-힣])(?:최근|지난) ?{number} ?{unit}(?: ?간| ?동안)?"),
        Rule("period_word", rf"(?<![가-힣]){{period}}{_KO_PARTICLE}"),
        Rule("weekday", rf"{_KO_NOT_NEXT}(?:지난 ?|저번 ?)?{{weekday}}요일{_KO_PARTICLE}"),
        Rule("weekday_in_week", rf"(?<![가-힣])(?:지난 ?주|저번 ?주) ?{{weekday}}요일{_KO_PARTICLE}", -1),
        Rule("weekday_in_week", rf"(?<![가-힣])이번 ?주? ?{{weekday}}요일{_KO_PARTICLE}", 0),
        Rule("month", rf"(?:{_KO_YEAR} ?)?(?<!\d)(?P<month>\d{{1,2}}) ?월{_KO_PARTICLE}"),
        Rule("date", rf"(?:{_KO_YEAR} ?)?(?<!\d)(?P<month>\d{{1,2}}) ?월 ?{{day}} ?일{_KO_PARTICLE}"),
        Rule("year", rf"(?<!\d){{year}} ?년(?! ?전){_KO_PARTICLE}"),
    ),
    cues="최신|최근|현재|지금|아직|아직도|여전히|요즘|요새",
    periods=_by_word({
        ("week", -1): "지난주|지난 주|저번주|저번 주", ("week", 0): "이번주|이번 주",
        ("week", -2): "지지난주|지지난 주", ("weekend", -1): "지난 주말|지난주말", ("weekend", 0): "이번 주말",
        ("month", -1): "지난달|지난 달|저번달|저번 달", ("month", 0): "이번달|이번 달|이달", ("month", -2): "지지난달",
        ("year", -1): "작년|지난해", ("year", 0): "올해|금년", ("year", -2): "재작년",
    }),
)  # fmt: skip

#: Years as words, with their distance from this year, as they stand before a month.
YEAR_WORDS: Mapping[str, int] = {
    word: offset for language in (_HAN, _HANGUL) for word, (unit, offset) in language.periods.items() if unit == "year"
}

#: The languages by the key that ``times`` finds them with.
LANGUAGES = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH, "es": _SPANISH, "han": _HAN, "ko": _HANGUL}

# The languages that are written with spaces between words; the others are found by their script.
_SPACED = ("en", "de", "fr", "es")
# The key of dates in digits, which are the same in all of them.
_DIGITS = "digits"
_WORD = compile_later(r"[^\W\d_]+")
_YEAR_DIGITS = compile_later(r"(?:19|20)\d\d")
_WIDE_DIGITS = {0xFF10 + digit: str(digit) for digit in range(10)}
_HAN_SCRIPT = compile_later("[\u3040-\u30ff\u4e00-\u9fff]")
_HANGUL_SCRIPT = compile_later("[\uac00-\ud7a3]")
_QUOTED = compile_later(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|`[^`]*`|「[^」]*」|『[^』]*』|(?<!\w)'[^']*'(?!\w)")
# Joined to other characters, a time word is part of an identifier, a path or an address.
_JOINER = r"[-./:@\\#&=?%~+]"
_LEFT = rf"(?<!\w)(?<!\w{_JOINER})(?<![@#/\\])(?:"
_RIGHT = rf")(?!\w|{_JOINER}\w|[/\\])"
_BETWEEN = compile_later(r"\b(?:between|zwischen|entre)\s*$", re.IGNORECASE)
_TO = compile_later(r"\s*(?:to|until|till|through|bis|à|au|hasta|al?|[-–—~〜]|到|至|から)\s*", re.IGNORECASE)
_AND = compile_later(r"\s*(?:and|und|et|y)\s*", re.IGNORECASE)
_SINCE = compile_later(
    r"(?i)\b(?:since|seit|depuis|desde)\s(?:\w\w\w?\s)?\0|\0(?:since|seit|depuis|desde)|\0\s?(?:[以之][来來后後]|から|부터|이후)|부터\0"
)

_NUMERIC = (
    Rule("title_date",
         r"{year}-(?P<month>\d{1,2})-{day}|(?P<year_2>(?:19|20)\d\d)/(?P<month_2>\d{1,2})/(?P<day_2>\d{1,2})"),
    Rule("date", r"{year}\.\s?(?P<month>\d{1,2})\.\s?{day}\.?"),
    Rule("date", r"{day}\.\s?(?P<month>\d{1,2})\.\s?{year}"),
    Rule("date", r"{day}[/-](?P<month>\d{1,2})[/-]{year}"),
    Rule("date", r"(?P<month>\d{1,2})[/-]{day}[/-]{year}"),
    Rule("month", r"{year}-(?P<month>0[1-9]|1[0-2])"),
    Rule("year", r"(?:in|during|since|until|till|from|of|throughout|(?:the |in the )?year|im jahre?|jahr|seit|bis|ab|en"
         r"|depuis|jusqu['’]en|l['’]année|desde|hasta|durante|el año|del año) {year}"),
)  # fmt: skip
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
# What "a few" of a unit ago may mean, in days.
_FEW: Mapping[Unit, tuple[int, int]] = {"day": (7, 2), "week": (42, 14), "month": (240, 60), "year": (2000, 700)}
_UNIT_DAYS: Mapping[Unit, int] = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
# From 29 February 1896 to the next one: 1900 was no leap year.
_MOST_YEARS_WITHOUT_A_LEAP_DAY = 8
#: Where a time is named in a text, and the days that it means.
_Found: TypeAlias = tuple[int, int, DayRange]


@cache
def _hints(key: str) -> frozenset[str]:
    """Return the words without which no rule of a language can match."""
    language = LANGUAGES[key]
    phrases = (*language.days, *language.units, *language.weekdays, *language.months, *language.cues.split("|"))
    longest = (max(re.split("[ '’-]", phrase), key=len) for phrase in phrases)
    return frozenset(word for word in longest if len(word) > 2)


#: Which words of a language a rule needs, by its kind; any other kind needs a month.
_NEEDED = {"word": "days", "weekday": "weekdays", "weekday_in_week": "weekdays"}
_NEEDED |= dict.fromkeys(("ago", "few", "back", "period"), "units")


@cache
def _needs(key: str, kind: str) -> tuple[str, ...]:
    """Return how a word ends that every match of a rule has; in a script without spaces, no word is needed."""
    phrases = getattr(LANGUAGES[key], _NEEDED.get(kind, "months")) if key in _SPACED else ("",)
    return tuple(max(re.split("[ '’-]", phrase), key=len) for phrase in phrases)


def find_times(query: str, today: int) -> tuple[tuple[DayRange, ...], tuple[tuple[int, int], ...]]:
    """Return the times that a query speaks of, and the characters that name them."""
    words = frozenset(_WORD.findall(query.lower()))
    text = _hide_quotes(query).translate(_WIDE_DIGITS)
    found = _choose(_find_all(text, find_languages(query), today))
    others = words - {"hier"}
    if count_words(others, "de") > count_words(others, "fr"):
        # The German word for "here", not the French one for "yesterday".
        found = [one for one in found if query[one[0] : one[1]].lower() != "hier"]
    return _join(text, found, today), tuple(dict.fromkeys((start, end) for start, end, _ in found))


def find_cues(query: str, spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return where the words are that ask for what holds at present, apart from the words for times."""
    text = _hide_quotes(query)
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    edges = {key: (_LEFT, _RIGHT) if key in _SPACED else ("", "") for key in find_languages(query)}
    patterns = (f"{left}{LANGUAGES[key].cues}{right}".replace(" ", r"\s") for key, (left, right) in edges.items())
    found = {match.span() for pattern in patterns for match in re.finditer(pattern, text, re.IGNORECASE)}
    words = frozenset(_WORD.findall(query.lower()))
    if not count_words(words, "es") or words & {"the", "is", "of", "what"}:
        # The English word, not the Spanish one for "current".
        found = {(start, end) for start, end in found if query[start:end].lower() != "actual"}
    return tuple(sorted(found))


def find_languages(query: str) -> list[str]:
    """Return the languages that a query may speak of times in, by its words and its script."""
    words = frozenset(_WORD.findall(query.lower()))
    keys = [key for key in _SPACED if not words.isdisjoint(_hints(key))]
    if not query.isascii():
        keys += [key for key, script in (("han", _HAN_SCRIPT), ("ko", _HANGUL_SCRIPT)) if script.search(query)]
    return keys


def _hide_quotes(query: str) -> str:
    return _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), query)


def _find_all(text: str, keys: list[str], today: int) -> Iterator[_Found]:
    words = _WORD.findall(text.lower()) or [""]
    for key in (_DIGITS, *keys) if _YEAR_DIGITS.search(text) else keys:
        for rule in _NUMERIC if key == _DIGITS else LANGUAGES[key].rules:
            # To compile a rule takes a millisecond, and most of them cannot match.
            if any(map(str.endswith, words, repeat(_needs(key, rule.kind)))):
                for match in _compile(key, rule.pattern).finditer(text):
                    if found := _Reading(match, LANGUAGES.get(key, _ENGLISH), today, rule.offset).read(rule.kind):
                        yield *match.span(), found


def _choose(found: Iterator[_Found]) -> list[_Found]:
    """Return the longest of times that overlap; both readings of a date that can be read in two ways."""
    chosen: list[_Found] = []
    for one in sorted(found, key=lambda one: (one[0], -one[1])):
        is_second_reading = chosen and one[:2] == chosen[-1][:2] and one not in chosen and one[2].precision == "day"
        if not chosen or one[0] >= chosen[-1][1] or is_second_reading:
            chosen.append(one)
    return chosen


def _join(text: str, found: list[_Found], today: int) -> tuple[DayRange, ...]:
    """Return the ranges, "from … to …" as one; "since …" goes on until today."""
    ranges: list[DayRange] = []
    for place, (start, end, days) in enumerate(found):
        if days.first <= today and _SINCE.search(f"{text[:start]}\0{text[start:end]}\0{text[end:]}"):
            days = days._replace(last=max(days.last, today), precision="week", is_in_title=False)
        before_start, before_end, before = found[place - 1]
        between = text[before_end:start]
        is_span = _TO.fullmatch(between) or (_AND.fullmatch(between) and _BETWEEN.search(text[:before_start]))
        if place and days.last > before.first and is_span:
            ranges[-1] = ranges[-1]._replace(last=days.last)
        elif days not in ranges:
            ranges.append(days)
    return tuple(ranges)


class _Reading:
    """A match of a rule, with what its meaning depends on."""

    def __init__(self, match: re.Match[str], language: Language, today: int, offset: int) -> None:
        self._groups, self._language, self._today, self._offset = match.groupdict(), language, today, offset

    def read(self, kind: str) -> DayRange | None:
        """Return the days that the match means by a rule of some kind; None if it means none."""
        today, unit, language = self._today, self._language.units.get(self._text("unit"), "day"), self._language
        match kind:
            case "word":
                return unit_range(today, "day", language.days[self._text("word")])
            case "ago":
                return self._read_ago(unit, self._number("number"))
            case "few":
                most, least = _FEW.get(unit, _FEW["day"])
                return DayRange(today - most, today - least, "week", is_relative=True)
            case "back":
                days = (self._number("number") or 1) * _UNIT_DAYS[unit]
                precision = "week" if _UNIT_DAYS[unit] < 30 else unit
                return DayRange(today - days, today, precision, is_relative=True) if days < today else None
            case "period":
                # "The last day of the trip" is not a time.
                return None if unit == "day" else unit_range(today, unit, self._offset)
            case "period_word":
                return unit_range(today, *language.periods[self._text("period")])
            case "weekday" | "weekday_in_week":
                ahead = language.weekdays[self._text("weekday")] - weekday(today)
                # By itself, the last such day before today.
                return unit_range(today, "day", ahead + 7 * self._offset if "_" in kind else -((-ahead - 1) % 7 + 1))
            case "month":
                return self._read_month()
            case "year":
                return year_range(self._year())
        found = self._read_date()
        return found._replace(is_in_title=True) if found and kind == "title_date" else found

    def _read_ago(self, unit: Unit, count: int) -> DayRange | None:
        if not count or (unit == "year" and count >= 100) or count > 5000:
            return None
        if unit == "week":
            # "Two weeks ago" is seldom meant to the day.
            middle = self._today - 7 * count
            return DayRange(middle - 3, middle + 3, "week", is_relative=True)
        return unit_range(self._today, unit, -count)

    def _read_month(self) -> DayRange | None:
        """Return a month; without a year the last one that has begun, and with *last* one that is over."""
        month, year = self._month(), self._year()
        if year:
            return month_range(year, month)
        year, current, _ = calendar_date(self._today)
        is_over = month < current or (month == current and not self._offset)
        return month_range(year if is_over else year - 1, month)

    def _read_date(self) -> DayRange | None:
        """Return a day; without a year the last such day until today."""
        day, month, year = self._number("day"), self._month(), self._year()
        this_year = calendar_date(self._today)[0]
        years = [year] if year else range(this_year, this_year - _MOST_YEARS_WITHOUT_A_LEAP_DAY - 1, -1)
        found = (day_number(one, month, day) for one in years)
        number = next((one for one in found if one is not None and (year or one <= self._today)), None)
        return None if number is None else DayRange(number, number, "day")

    def _text(self, name: str) -> str:
        """Return what a group has matched, in lower case; empty if it has matched nothing."""
        values = (self._groups.get(key) for key in (name, f"{name}_2", f"{name}_3"))
        return " ".join(next(filter(None, values), "").lower().split())

    def _number(self, name: str) -> int:
        """Return the number that a group has matched, in digits or as a word; 0 if it has matched nothing."""
        text = self._text(name)
        return int(text) if text.isdecimal() else self._language.numbers.get(text, 0)

    def _month(self) -> int:
        return self._language.months.get(self._text("month")) or self._number("month")

    def _year(self) -> int:
        """Return the year that is named, in digits or as a word such as 去年; 0 if none is."""
        word = self._text("year_word")
        return calendar_date(self._today)[0] + YEAR_WORDS[word] if word else self._number("year")


@cache
def _compile(key: str, pattern: str) -> re.Pattern[str]:
    language, is_unspaced = LANGUAGES.get(key, _ENGLISH), key not in (_DIGITS, *_SPACED)
    months = {word for word in language.months if word not in ("may", "march")}
    groups = {
        "word": _any_of(language.days),
        "number": rf"\d{{1,4}}|{_any_of(language.numbers)}",
        "unit": _any_of(language.units),
        "period": _any_of(language.periods),
        "month": _any_of(language.months),
        **{f"weekday{place}": _any_of(language.weekdays) for place in ("", "_2", "_3")},
    }
    day = rf"3[01]|[12]\d|0?[1-9]|{_any_of(language.numbers)}" if is_unspaced else r"3[01]|[12]\d|0?[1-9]"
    pattern = pattern.replace("{sure_month}", f"(?P<month>{_any_of(months)})").replace("{year}", _YEAR)
    pattern = pattern.replace("{day}", rf"(?P<day>{day})(?!\d)")
    for name, words in groups.items():
        pattern = pattern.replace(f"{{{name}}}", f"(?P<{name}>{words})")
    pattern = pattern.replace(" ", r"\s")
    return re.compile(pattern if is_unspaced else f"{_LEFT}{pattern}{_RIGHT}", re.IGNORECASE)


def _any_of(words: Mapping[str, object] | set[str]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))
