"""Times in a query: dates, relative times such as "last Tuesday", and words that ask for what holds at present.

``read_times`` reads English, Chinese, Japanese, Korean, German, French and Spanish, seen from the day of the question.
Quoted text and identifiers, such as ``"last week"`` or ``last-week.md``, are not read. Most queries speak of no time:
they are recognised here by a few words, and the rules are loaded only for the others.
"""

from collections.abc import Sequence

from mdrecall.core.ranking.days import DayRange
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later

#: A longer query is a text that somebody pasted: its dates are not what the question is about.
MAX_CHARS = 400

_WORD = compile_later(r"[^\W\d_]+")
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
    if query.isascii() and _HINTS.isdisjoint(_WORD.findall(query.lower())) and not _YEAR.search(query):
        return NO_TIMES
    from mdrecall.core.ranking.time_reader import find_cues, find_times

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
