"""How sure an answer is: stages for whether it names what the question asks for and how far it leads, and its caution.

A passage may hold every word of a question and still lack the answer: "How much was the boiler?" is not answered by
"The boiler was fixed". The lines with the most words of the question are looked at; what they say besides those words
must hold a thing of the kind. Each kind is told by a few words in the languages that are shipped. A kind that cannot be
told in a script, such as a name in Chinese, is taken to be there.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import nlargest

from mdrecall.search.query import HINTS, drop_question_words, find_matches, find_stems
from mdrecall.search.score import TITLE_WEIGHT
from mdrecall.search.stages import Candidate, RankingContext, find_named_speakers, score_of
from mdrecall.text.days import chunk_day
from mdrecall.text.words import find_language, find_stop_words, is_unspaced_text
from mdrecall.types.search import SearchAnswer, confidence_of

#: What a passage loses that lacks what the question asks for. One in ten right answers of the question sets and of
#: generated notebooks lacks it, and four in five of those that are beside the point.
LACKING_COST = 0.2
# What a first result gains in worth by its lead over the second, as far as it is not sure by itself.
_LEAD_GAIN = 0.75
# The share of the question from which on that lead counts in full: in a script without spaces less, because most pairs
# of characters are no words.
_HELD, _HELD_UNSPACED = 1 / 2, 1 / 3
# Below this, a best match is right about every fourth time.
_WEAK = 0.2
# Only the best passages are looked at, and no long message: it has several sentences, and asks for more than one thing.
_MOST_PASSAGES = 12
_MOST_CHARS = 200
_SENTENCES, _ENDS = r"(?:[^\W\d_]{3}[.!?]\s|[。！？])\s*[^\s\"'”’)»」]", frozenset(".!?。！？")
# A question for the day of something that has happened, which the date of its note tells.
_PAST = r"\b(?:did|was|were|had|war|hat|haben|wurden?|fue|ha|han|a|ont|était|as-tu)\b|了|た"
# A person is often told by what they are to somebody, such as the landlord: then a line says something besides.
_FEW_WORDS = 2

# A question for what happened once, which no other day changes.
_DONE = r"\b(?:did|was|were|had|hat|hatte|haben|wurden?|fue|fueron|ont|était|étaient)\b|了[？?]?$|ました|た[か？?]"
# A number, the sign inside it, and the word after it; or the name of a time.
_COUNTED = r"((?:\d+|[一二两兩三四五六七八九十百千万萬]+)(?:([.,:])\d+)*)\s?([^\W\d_一二两兩三四五六七八九十百千万萬]*)"
_TIMED = rf"{_COUNTED}|\b({'|'.join(HINTS.split())})(?=s?\b)|([月火水木金土日]曜|[월화수목금토일]요일)"
# What follows an amount of money, or the price of one.
_OF_MONEY = frozenset((
    "euro", "euros", "eur", "dollar", "dollars", "usd", "pound", "pounds", "gbp", "chf", "francs", "franken", "pesos",
    "per", "each", "pro", "je", "par", "por", "al", "la",
))  # fmt: skip
_NUMBERS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|hundred|thousand"
    r"|half|once|twice|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|deux|trois|quatre"
    r"|cinq|sept|huit|neuf|dix|douze|cent|mille|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce|cien|mil"
)
_NUMBER = rf"\d|\b(?:{_NUMBERS})\b|[二两兩三四五六七八九十百千万萬半]|[일이삼사오육칠팔구십백천만]+ ?[원명개시월년일]"
# What has digits but is not a number to be asked for: a date, a time of day, a rank, the number of a list item.
_NO_NUMBER = r"\d{4}-\d\d(?:-\d\d)?|\b\d{1,2}(?::\d\d|st|nd|rd|th)\b|^\s*\d+[.)]\s"
_TIME = (
    rf"{_NUMBER}|\b(?:{'|'.join(HINTS.split())}|after|before|until|since|during|by|every|daily|weekly|monthly|noon"
    r"|spring|summer|autumn|winter|easter|christmas|breakfast|lunch|dinner|nach|vor|bis|seit|jeden?|herbst|sommer"
    r"|ostern|weihnachten|depuis|jusqu|chaque|automne|été|hiver|noël|después|desde|hasta|cada|otoño|verano"
    r"|invierno|navidad)\b|[年月日号點点时時周週期天早晚午前后後曜朝夜昨明今춘]|[월일시주]"
)
_PLACE = (
    r"\b(?:in|at|on|under|near|behind|from|with|inside|into|im|am|auf|unter|bei|beim|aus|neben|hinter|zu|zum|zur|dans"
    r"|sur|sous|chez|au|aux|près|en|bajo|sobre|junto|detrás)\b|\bà |[在里裡上中到去]|[でにへ]|에"
)
_REASON = (
    r"\b(?:because|since|so|due|reason|therefore|thanks|avoid|as|cause[ds]?|for|until|to|too|weil|denn|da|damit|wegen"
    r"|deshalb|um|zu|parce|car|puisque|afin|pour|trop|porque|pues|para|por|debido|demasiado)\b|[,;:–—]"
    r"|因|所以|由于|为|為|太|ため|から|ので|때문|[아어]서"
)


#: Each kind of thing: words that ask for it; phrases that do, by a part to look for before a pattern is compiled; what
#: does in other scripts; and what is in a text that may hold one. A name, in capitals, is a person or a place; nothing
#: else tells a person.
_KINDS: dict[str, tuple[str, dict[str, str], str, str]] = {
    "time": (
        "wann uhr quand cuándo",
        {"when": r"^\W*(?:since |until |by |from )?when\b", "what ": r"\bwhat (?:time|day|date|year|month)\b",
         "quel": r"\bquel(?:le (?:heure|date)| jour)\b", "qué ": r"\bqué (?:hora|día|fecha)\b"},
        r"什么时候|什麼時候|何时|几点|哪[天年月]|几[号月]|いつ|何[時日月曜]|언제|몇 시", _TIME,
    ),
    "number": (
        "combien cost costs price phone telefon telefonnummer preis prix téléphone precio teléfono",
        {"how ": r"\bhow (?:much|many|long|far|old|tall|big|often|large|high|heavy|fast|wide|deep)\b",
         "wie ": r"\bwie (?:viele?[nr]?|teuer|lange|weit|alt|hoch|oft|groß|schnell|schwer)\b",
         "was k": r"\bwas kostete?n?\b", "quel ": r"\bquel (?:âge|prix)\b", "cuánt": r"\bcuánt[oa]s?\b"},
        (r"多少|几[个人次岁年天块元]|多[大长久远高贵重]|价格|价钱|電話|电话|値段"
         r"|いくら|いくつ|何[人個円歳回冊本枚台年分]|どのくらい|얼마|몇"), _NUMBER,
    ),
    "person": (
        "wer wem wen wessen quién quiénes",
        {"who": r"^\W*(?:to |with |from |by |for )?(?:who|whom|whose)\b",
         "qui": r"^\W*(?:[àa] |avec |de |par |pour )?qui\b"}, r"谁|誰|누가|누구", "",
    ),
    "reason": (
        "warum wieso weshalb pourquoi",
        {"why": r"^\W*why\b", " the reason": r"\bwhat(?:'s| is| was) the reason\b", "por qué": r"\bpor qué\b"},
        r"为什么|為什麼|为何|なぜ|どうして|왜", _REASON,
    ),
    "place": (
        "wo wohin woher où dónde", {"where": r"^\W*(?:from )?where\b"}, r"哪里|哪儿|哪裡|在哪|どこ|어디", _PLACE
    ),
}  # fmt: skip


@lru_cache(1 << 4)
def find_kind(query: str) -> str:
    """Return the kind of thing that a question asks for, such as ``number``; empty if it cannot be told."""
    if len(query) > _MOST_CHARS or (not _ENDS.isdisjoint(query[:-1]) and re.search(_SENTENCES, query)):
        return ""
    words = frozenset(re.findall(r"\w+", asked := query.lower()))
    for kind, (single, phrases, others, _) in _KINDS.items():
        patterns = [pattern for part, pattern in phrases.items() if part in asked] + [others] * (not asked.isascii())
        if not words.isdisjoint(single.split()) or any(re.search(pattern, asked) for pattern in patterns):
            return kind
    return ""


def prefer_asked(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Rank passages lower that lack what the question asks for, such as a number."""
    kind = find_kind(context.text)
    if not kind or context.query.by_vectors_only:
        return list(candidates)
    stems, changed = find_stems(drop_question_words(context.text)), list(candidates)
    is_past = kind == "time" and re.search(_PAST, context.text.lower())
    for place in nlargest(_MOST_PASSAGES, range(len(changed)), key=lambda place: candidates[place].worth):
        entry = candidates[place]
        if is_past and chunk_day(entry.chunk) is not None:
            continue
        said = entry.chunk.text[entry.passage.start : entry.passage.end]
        if not holds_asked(said, kind, stems):
            changed[place] = entry._replace(worth=entry.worth - LACKING_COST, lacks=kind)
    return changed


def holds_asked(text: str, kind: str, stems: frozenset[str]) -> bool:
    """True if the lines of a text with most of the words hold a thing of a kind besides these words."""
    lines = [line for line in text.split("\n") if not re.match(r"\s*#+ ", line)]
    spans = {line: list(find_matches(line, stems)) for line in lines}
    most = max(map(len, spans.values()), default=0)
    if not most:
        return True
    return any(_has_thing(line, found, kind) for line, found in spans.items() if len(found) == most)


def _has_thing(line: str, found: Sequence[tuple[int, int]], kind: str) -> bool:
    rest, end = "", 0
    for start, after in found:
        rest, end = f"{rest}{line[end:start]} · ", after
    rest += line[end:]
    if kind == "number":
        rest = re.sub(_NO_NUMBER, " ", rest)
    holds = _KINDS[kind][3]
    if holds and re.search(holds, rest.lower()):
        return True
    if kind not in ("person", "place"):
        return False
    words = re.findall(r"[^\W\d_]{3,}", rest)
    idle = find_stop_words(map(str.lower, words)).union(HINTS.split())
    new = [word for word in words if word.lower() not in idle]
    # Unless something else shows the kind, a person may be named by what they are to somebody.
    is_told = not holds and len(new) >= _FEW_WORDS
    return is_told or is_unspaced_text(line) or any(map(str.istitle, new))


def has_other_value(old: str, new: str, query: str) -> bool:
    """True if a query asks for a number or a time that may change, and the newer of two texts names another one."""
    if (kind := find_kind(query)) not in ("number", "time") or re.search(_DONE, query.lower()):
        return False
    before, after = (set(_read_values(text.lower(), kind)) for text in (old, new))
    return not {form for form, _ in before}.isdisjoint(form for form, _ in after - before)


def _read_values(text: str, kind: str) -> Iterator[tuple[object, str]]:
    """Yield the numbers or times of a text, each with its form or with what it counts.

    Only values of one form are compared: 40 croissants are not what a croissant costs.
    """
    for value, sign, counted, *words in re.findall(_TIMED if kind == "time" else _COUNTED, text):
        if kind == "time":
            yield not value, value or "".join(words)
        else:
            yield sign or ("" if counted in _OF_MONEY else counted), value


def trust_leader(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Raise the score of the first candidate by its lead: what stands alone is right more often than one of many.

    If even the first lacks what the question asks for, all lose by that: the memory may hold no answer at all.
    """
    first, *others = candidates
    if context.options.is_prompt or context.query.by_vectors_only or first.reranked is not None:
        return list(candidates)
    if first.lacks:
        lower = [entry._replace(worth=entry.worth - LACKING_COST, lead=-LACKING_COST) for entry in candidates]
        return [entry._replace(score=score_of(entry, context)) for entry in lower]
    lead = _LEAD_GAIN * (first.score - others[0].score) * (1 - first.score) if others else 0.0
    if first.features:
        # What holds little of the question, in any language, leads by chance, and so does what anybody but the named
        # speaker said.
        held = first.features.coverage + min(first.features.title, TITLE_WEIGHT) + (first.features.translated or 0.0)
        enough = _HELD_UNSPACED if context.query.is_unspaced else _HELD
        lead *= 0.0 if first.speaker else min(1.0, held / enough)
    if lead <= 0:
        return list(candidates)
    first = first._replace(worth=first.worth + lead, lead=lead)
    return [first._replace(score=score_of(first, context)), *others]


# What is said of an answer that is weak, of one that is uncertain, and if there is none, in the language of the query:
# who asks in it may read it.
_HINTS = {
    "en": (
        "Not sure: the best match is weak, and the memory may hold no answer.",
        "Not sure: the best match may not answer the query.",
        "Nothing in the memory matches these words: try others, or part of a name.",
    ),
    "de": (
        "Unsicher: Der beste Treffer ist schwach, vielleicht steht die Antwort nicht im Gedächtnis.",
        "Unsicher: Der beste Treffer ist vielleicht nicht die Antwort.",
        "Zu diesen Wörtern steht nichts im Gedächtnis: Versuche andere oder einen Teil eines Namens.",
    ),
    "fr": (
        "Pas sûr : le meilleur résultat est faible, et la mémoire n'a peut-être pas la réponse.",
        "Pas sûr : le meilleur résultat n'est peut-être pas la réponse.",
        "Rien dans la mémoire ne correspond à ces mots : essayez-en d'autres, ou une partie d'un nom.",
    ),
    "es": (
        "No es seguro: el mejor resultado es débil y quizá la memoria no tenga la respuesta.",
        "No es seguro: quizá el mejor resultado no sea la respuesta.",
        "Nada en la memoria coincide con estas palabras: prueba con otras o con parte de un nombre.",
    ),
    "zh": (
        "不确定：最佳结果相关性很弱，记忆里可能没有答案。",
        "不确定：最佳结果可能不是答案。",
        "记忆里没有与这些词相符的内容：请换个词，或只写名字的一部分。",
    ),
    "ja": (
        "不確か：最も近い結果も関連が弱く、記憶に答えがないかもしれません。",
        "不確か：最も近い結果が答えではないかもしれません。",
        "記憶にこの言葉に合うものはありません。別の言葉か、名前の一部で試してください。",
    ),
    "ko": (
        "확실하지 않음: 가장 가까운 결과도 관련이 약하며, 기억에 답이 없을 수 있습니다.",
        "확실하지 않음: 가장 가까운 결과가 답이 아닐 수 있습니다.",
        "기억에 이 낱말과 맞는 것이 없습니다. 다른 낱말이나 이름의 일부로 찾아보세요.",
    ),
}


def describe_doubt(candidates: Sequence[Candidate], context: RankingContext) -> str:
    """Return a sentence if the best result probably does not answer the query; empty if there is no reason to doubt."""
    best = max(candidates, key=lambda entry: entry.score)
    speaker = best.passage.speaker
    if best.speaker and speaker:
        other = f"The query names another speaker: the best match was said by {speaker}."
        return "" if find_named_speakers([speaker], context.text) else other
    if best.lacks:
        return f"Not sure: the best match names no {best.lacks}, which the query asks for."
    if confidence_of(best.score) != "low":
        return ""
    weak, unsure, _ = _HINTS.get(find_language(context.text), _HINTS["en"])
    return weak if best.score < _WEAK else unsure


def explain_no_match(query: str) -> SearchAnswer:
    """Return an empty answer for a query that nothing matches."""
    *_, hint = _HINTS.get(find_language(query), _HINTS["en"])
    return SearchAnswer((), reason="no_match", action=hint)
