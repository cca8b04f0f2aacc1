"""Promotion: the entries of a note, how much one deserves to become long-term, and the section that it gets.

An entry is a list item, or the lines of a paragraph up to one that ends a sentence. Only a statement can stand alone: a
heading, a row of a table, a command, a path or what a program has logged says nothing to somebody who has not seen the
lines around it.

The numbers are those of OpenClaw 2026.9. ``explain_refusal`` adds what a score cannot know: recalls of a single day
prove nothing, however many there are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf, isfinite, log
from typing import NamedTuple

from mdrecall.patterns import compile_later
from mdrecall.text.days import day_number
from mdrecall.text.markdown import INSIDE_BLOCK, Line, read_lines
from mdrecall.text.words import count_unspaced, find_stop_words, fold, is_unspaced, stem, surface_words, tokens
from mdrecall.types.documents import format_citation

#: A statement has a subject, a verb and something about it; with fewer words it is a title.
_MIN_WORDS = 4
#: Without a full stop or a stop word, a text of as many words that are mostly in lower case is still a sentence.
_MIN_PLAIN_WORDS = 6
#: As many characters of a script without spaces say as much.
_MIN_UNSPACED = 8
#: At least this share of a sentence are letters and blanks; of code, tables and numbers it is less.
_MIN_LETTERS = 0.7
#: Above this share of known words a text adds nothing worth a line.
_SAME_SHARE = 0.9
#: What a text is, its beginning shows. Patterns take time by the square of the length.
_MAX_READ_CHARS = 1_000

_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
_COMMENT = compile_later(r"<!--.*?(?:-->|$)", re.DOTALL)
# Comments, and the figures that promotion writes behind an entry.
_UNREAD = compile_later(r"<!--.*?(?:-->|$)|\[score=[^\]]*\]", re.DOTALL)
_ITEM = compile_later(r"\s*(?:[-*+]|\d{1,9}[.)])\s+")
_TABLE = compile_later(r"\s*(?:\||:?-{2,}:?\s*\|)")
_UNDERLINE = compile_later(r"\s*(?:={2,}|-{2,}|\*{3,}|_{3,}|(?:[-*_]\s){2,}[-*_])\s*")
_REGION = compile_later(r"<!--\s*openclaw:dreaming:[a-z0-9-]+:(start|end)\s*-->", re.IGNORECASE)
_SUPERSEDED = compile_later(r"<!--[^>]*\bstatus:\s*superseded\b", re.IGNORECASE)
_TIME = r"\d{1,2}:\d\d(?::\d\d)?(?:\s?(?:[ap]m|uhr)\b)?"
# "14:05 ", "[14:05]", "2:05pm - ", "14:05–15:00: "; in a script without spaces nothing need follow.
_CLOCK = compile_later(
    rf"\[?{_TIME}(?:\s?[-–—]\s?{_TIME})?(?:\]\s*[-–—:|,]?|\s*[-–—:|,]|(?=\s|[^\x00-\x7f]))\s*(?=\S)", re.IGNORECASE
)
_WORD = compile_later(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
# [words](address), [[page]] and [[page|words]], of which the words are read.
_LINK = compile_later(r"(?<!!)\[([^\[\]]*)\]\([^()]*\)|(?<!!)\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_NO_PROSE = compile_later(
    r"!\[[^\]]*\]\([^)]*\)|https?://\S+|(?<![\w/])(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]*)*|\b[\w.-]+/[\w./-]+\.\w{1,5}\b"
    r"|\b[\w-]+\.(?:md|txt|py|js|ts|json|ya?ml|toml|sh|sql|csv|log)\b|`[^`]*`|\b[0-9a-f]{7,}\b"
)
_PROGRAMS = (
    "apt|apt-get|aws|bash|brew|bun|cargo|cat|cd|chmod|chown|cmake|cp|curl|docker|echo|export|find|gcloud|gh|git|go|grep"
    "|helm|journalctl|kubectl|ls|make|mkdir|mv|node|npm|npx|openclaw|pip3?|pnpm|psql|python3?|rm|rsync|scp|sed|sh|ssh"
    "|sudo|systemctl|tar|terraform|uv|wget|yarn"
)
_NEGATING = """
no not never none without cannot cant dont doesnt didnt isnt arent wasnt wont don doesn didn isn aren wasn won nicht
kein keine keinen nie ohne ne pas jamais sans non nunca sin nao sem niet geen nooit mai не нет без
"""
_NEGATIONS = frozenset(_NEGATING.split())
_GENERATED = (
    r".*(?:openclaw-memory-promotion:|openclaw:dreaming:|mdrecall:\w|\[\s*score=|\brecalls[=:]\s*\d"
    r"|\bconfidence:\s*\d|\bevidence:\s*\S|\bstatus:\s*staged\b|\bdreaming-narrative\b|\bNO_REPLY\b"
    r"|\bsession[ _-]?(?:key|id)\s*[:=]|\bSTRICT RULES:|write a dream diary)"
)
_ROUTINE = (
    r"\W*(?:all (?:quiet|clear|good|systems)|nothing (?:new|to report|to do|urgent|happened)"
    r"|no (?:new |open |urgent |pending )*(?:messages?|mails?|emails?|changes?|updates?|alerts?|events?|tasks?"
    r"|issues?|action|activity)\b)"
)
#: What is not a statement: a pattern for its beginning, and what it is. The first that matches counts.
_UNFIT_PATTERNS = (
    (r"#{1,6}(?:\s|$)", "it is a heading"),
    (r"\||.*\|.*\|", "it is a row of a table"),
    (r">", "it is a quotation"),
    (r"\[[ x~-]\]\s", "it is a task"),
    (_GENERATED, "a program has generated it"),
    (r"(?:candidate|reflections?|conversation summary|theme|lasting truth)s?\s*:", "a program has generated it"),
    (r".*\bHEARTBEAT_OK\b|\W*heartbeat\b|\W*(?:cron|scheduled job|delivery report)\b.*:", "it is a routine report"),
    (_ROUTINE, "it is a routine report"),
    (r"(?:user|assistant|system|human|agent|tool|bot|ai)\s*(?:\[[^\]]*\])?\s*:", "it is a turn of a conversation"),
    (r"\[[^\]]*(?:cron|gmt|utc|\d:\d\d)[^\]]*\]", "it is a line of a log"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?:info|warn(?:ing)?|error|debug|trace|fatal)\b\s*[:\]]", "it is a line of a log"),
    (r"(?:traceback \(|at \S+\(|file \"|[\w.]*(?:error|exception):\s)", "it is a line of a log"),
    (r"(?:[$%]\s|~?/\S+\s*$)", "it is a command or a path"),
    (rf"(?-i:{_PROGRAMS})\s.*(?:\s--?\w|\s?&&|\s\|\s|\$\(|[\w.~]*/[\w.])", "it is a command or a path"),
    (r".*(?:\s&&\s|\$\(|\s2>&1|\|\|)", "it is a command or a path"),
    (r"`[^`]*`[.:]?$", "it is a command or a path"),
    (r"[{\[<(]|.*(?:[;{}]\s*$|=>|\(\)|[{}\]]\s*[:,]|\"\s*:|[=!]=|</\w)", "it is code or configuration"),
    (r"[\w.-]+\s*=\s*\S|[\w-]+(?:[._][\w-]+)+\s*:\s*\S", "it is code or configuration"),
    (r".*[:：]$", "it only introduces what follows"),
    (r".*[?？]$", "it is a question"),
)
_UNFIT = [(compile_later(pattern, re.IGNORECASE), reason) for pattern, reason in _UNFIT_PATTERNS]


class Entry(NamedTuple):
    """A list item of a note, or lines of a paragraph."""

    start_line: int
    end_line: int
    text: str
    """What it says, on one line, without the list marker and comments."""
    is_superseded: bool = False


def find_entries(lines: Sequence[str]) -> list[Entry]:
    """Return the entries of a note in reading order: no headings, tables, code, comments or generated regions."""
    found = []
    for block in _find_blocks(lines):
        raw = [lines[number] for number in block]
        above = lines[block[0] - 1] if block[0] else ""
        # A status on a line of its own is about the next line.
        marked = "\n".join(raw if _COMMENT.sub("", above).strip() else [above, *raw])
        if text := " ".join(_ITEM.sub("", _COMMENT.sub(" ", "\n".join(raw)), count=1).split()):
            found.append(Entry(block[0] + 1, block[-1] + 1, text, bool(_SUPERSEDED.search(marked))))
    return found


def _find_blocks(lines: Sequence[str]) -> Iterator[list[int]]:
    """Yield the numbers of the lines of each entry, counted from 0."""
    block: list[int] = []
    is_generated = False
    for number, (line, role) in enumerate(zip(lines, read_lines(list(lines)), strict=True)):
        if region := _REGION.search(line):
            is_generated = region[1].lower() == "start"
        is_text = not is_generated and _is_text(line, role)
        if block and (not is_text or _ITEM.match(line) or _ends_statement(lines, block)):
            yield block
            block = []
        if is_text and (block or _ITEM.match(line) or not line.startswith(("    ", "\t"))):
            block.append(number)
    if block:
        yield block


def _is_text(line: str, role: Line) -> bool:
    """True if a line is part of an entry."""
    if role.cut == INSIDE_BLOCK or role.level or role.blank:
        return False
    bare = _COMMENT.sub("", line).strip()
    is_border = bare.startswith(("```", "~~~")) or _TABLE.match(line) or _UNDERLINE.fullmatch(line)
    return bool(bare) and not is_border


def _ends_statement(lines: Sequence[str], block: Sequence[int]) -> bool:
    """True if the last line of a paragraph ends a sentence, so that the next line says something else."""
    last = _COMMENT.sub("", lines[block[-1]]).rstrip()
    return last.endswith(_SENTENCE_ENDS) and not _ITEM.match(lines[block[0]])


def strip_clock(text: str) -> str:
    """Return a text without the time of day that it begins with, as log entries do."""
    clock = _CLOCK.match(text)
    return text[clock.end() :] if clock else text


def explain_unfit(text: str) -> str:
    """Return why a text cannot stand by itself as a statement; empty if it can."""
    bare = _LINK.sub(r"\1\2", text.strip()[:_MAX_READ_CHARS]).strip("*_ ")
    for pattern, reason in _UNFIT:
        if pattern.match(bare):
            return reason
    prose = _NO_PROSE.sub(" ", bare)
    if count_unspaced(prose) >= _MIN_UNSPACED:
        return ""
    words = _WORD.findall(prose)
    if len(words) < _MIN_WORDS:
        return "it is too short for a statement"
    if sum(char.isalpha() or char.isspace() for char in bare) < _MIN_LETTERS * len(bare):
        return "it is mostly numbers and signs"
    return "" if _is_sentence(bare, words) else "it is a title, not a statement"


def _is_sentence(text: str, words: Sequence[str]) -> bool:
    if text.endswith((".", "!", "…", ")")) and not words[-1].istitle():
        return True
    folded = [word for token in tokens(text) for word in surface_words(token)]
    is_title = all(word[0].isupper() or len(word) < 4 for word in words)
    if find_stop_words(folded) and not is_title:
        return True
    return len(words) >= _MIN_PLAIN_WORDS and 2 * sum(word.islower() for word in words) > len(words)


def adds_nothing(new: AbstractSet[str], old: AbstractSet[str]) -> bool:
    """True if the ``find_content`` of a text is in that of an older one, as good as all, and no negation differs."""
    if not new or new & _NEGATIONS != old & _NEGATIONS:
        return False
    return new <= old or (old <= new and len(old) >= _SAME_SHARE * len(new))


def find_content(text: str) -> frozenset[str]:
    """Return the words of a text that count, in a form that is the same for all their endings."""
    words = [word for token in tokens(_UNREAD.sub(" ", text)) for word in surface_words(token)]
    stop = find_stop_words(words) - _NEGATIONS
    return frozenset(word if word in _NEGATIONS else stem(word) for word in words if word not in stop)


#: The weights of the six parts, which are 1 together.
_WEIGHTS = {"frequency": 0.24, "relevance": 0.30, "diversity": 0.15, "recency": 0.15, "consolidation": 0.10,
            "conceptual": 0.06}  # fmt: skip
#: From here on more signals, queries, days, days between the first and the last, and tags add nothing.
_FULL_SIGNALS, _FULL_QUERIES, _FULL_DAYS, _FULL_SPAN_DAYS, _FULL_TAGS = 10, 5, 5, 7.0, 6
#: A part of the consolidation is the number of days, the other the span between them. One day alone is a fixed value.
_DAYS_SHARE, _SPAN_SHARE, _ONE_DAY = 0.55, 0.45, 0.2
_MS_A_DAY = 86_400_000.0
#: Importance of a promoted entry: OpenClaw writes nothing below 3, because the text has passed its gates.
_MIN_IMPORTANCE, _MAX_IMPORTANCE = 3, 10
#: Text of such origin is never promoted: it would speak for the user in every later session.
_BLOCKED_ORIGINS = frozenset(("untrusted", "system"))


class Record(NamedTuple):
    """The recalls of one entry of a note, and from ``snippet`` on what is known of it now, which is not stored."""

    key: str
    path: str
    start_line: int
    end_line: int
    hash: str = ""
    """Stands for the text of the entry."""
    recalls: int = 0
    total_score: float = 0.0
    max_score: float = 0.0
    first_ms: float = 0.0
    last_ms: float = 0.0
    queries: Mapping[str, float] = {}
    """When each query was counted last; a hash stands for its text."""
    days: tuple[str, ...] = ()
    """The days of the user, oldest first."""
    origin: str = ""
    snippet: str = ""
    """The text, on one line."""
    daily: int = 0
    """How many notes of the last days say it; their days are among the days."""
    recall_days: tuple[str, ...] = ()
    """The days of the recalls alone."""
    tags: tuple[str, ...] = ()
    promoted_on: str = ""
    """When it was promoted; empty if it was not."""

    @property
    def signals(self) -> int:
        return self.recalls + self.daily


class Candidate(NamedTuple):
    """A record with its score, what would be written for it, and why it is not."""

    record: Record
    score: float
    age_days: float
    """Days since the last recall."""
    components: Mapping[str, float]
    """The six parts of the score by their names, each from 0 to 1."""
    text: str = ""
    """The statement; empty if the note has none any more."""
    refusal: str = ""
    """Why it is not promoted; empty if it is."""

    @property
    def citation(self) -> str:
        """The lines of the note that say it."""
        return format_citation(self.record.path, self.record.start_line, self.record.end_line)


class Choice(NamedTuple):
    """What to promote: what a candidate must reach, and how much is written."""

    min_score: float = 0.75
    min_signals: int = 3
    min_queries: int = 3
    max_age_days: float | None = 30.0
    min_days: int = 2
    """On how many different days it must have been recalled. OpenClaw asks for none."""
    limit: int = 10
    max_chars: int = 10_000
    """How long ``MEMORY.md`` may become."""
    include_promoted: bool = False
    lists_all: bool = False
    """True to judge every record, also those that are far from the thresholds."""


def _score(record: Record, now_ms: float, half_life_days: float) -> Candidate:
    """Return a record with its score at a moment; after ``half_life_days`` a recall counts half."""
    age_days = max(0.0, (now_ms - record.last_ms) / _MS_A_DAY) if record.last_ms else 0.0
    parts = {
        "frequency": _clamp(log(1 + record.signals) / log(1 + _FULL_SIGNALS)),
        "relevance": _clamp(record.total_score / max(1, record.signals)),
        "diversity": _clamp(len(record.queries) / _FULL_QUERIES),
        "recency": _clamp(2.0 ** (-age_days / half_life_days)),
        "consolidation": _consolidate(record.days),
        "conceptual": _clamp(len(record.tags) / _FULL_TAGS),
    }
    weighted = sum(weight * parts[name] for name, weight in _WEIGHTS.items())
    return Candidate(record, _clamp(weighted), age_days, parts)


def rank(records: Iterable[Record], now_ms: float, half_life_days: float) -> list[Candidate]:
    """Return all records with a signal as candidates, best first."""
    found = [_score(record, now_ms, half_life_days) for record in records if record.signals > 0]
    return sorted(found, key=lambda one: (-one.score, -one.record.recalls, one.record.path, one.record.start_line))


def passes_gates(candidate: Candidate, choice: Choice) -> bool:
    """True if a candidate reaches OpenClaw's thresholds."""
    return not any(_find_misses(candidate, choice))


def explain_refusal(candidate: Candidate, choice: Choice) -> str:
    """Return why the numbers of a candidate are not enough; empty if they are."""
    record = candidate.record
    if record.origin in _BLOCKED_ORIGINS:
        return f"its origin is {record.origin}"
    misses = [*_find_misses(candidate, choice)]
    if len(set(record.recall_days)) < choice.min_days:
        misses.append(f"recalled on {_count(len(set(record.recall_days)), 'day')}, not on {choice.min_days}")
    return "; ".join(misses)


def importance_of(score: float) -> int:
    """Return the importance that a promoted entry is given, 3 to 10."""
    return min(_MAX_IMPORTANCE, max(_MIN_IMPORTANCE, int(score * 10 + 0.5)))


def _find_misses(candidate: Candidate, choice: Choice) -> Iterable[str]:
    record = candidate.record
    if candidate.score < choice.min_score:
        yield f"score {candidate.score:.3f} is below {choice.min_score:g}"
    if record.signals < choice.min_signals:
        yield f"{_count(record.signals, 'signal')}, fewer than {choice.min_signals}"
    if (queries := len(record.queries)) < choice.min_queries:
        yield f"found by {_count(queries, 'different query', 'different queries')}, not by {choice.min_queries}"
    if candidate.age_days > (inf if choice.max_age_days is None else choice.max_age_days):
        yield f"last recalled {candidate.age_days:.0f} days ago, more than {choice.max_age_days:g}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _clamp(value: float) -> float:
    return max(0.0, min(1.0, value)) if isfinite(value) else 0.0


def _consolidate(days: Sequence[str]) -> float:
    """Return how well recalls are spread over days."""
    if not days:
        return 0.0
    parts = (re.fullmatch(r"(\d+)-(\d+)-(\d+)", day[:10], re.ASCII) for day in days)
    numbers = sorted(number for part in parts if part and (number := day_number(*map(int, part.groups()))) is not None)
    if len(numbers) < 2:
        return _ONE_DAY
    spacing = _clamp(log(len(numbers)) / log(_FULL_DAYS))
    return _clamp(_DAYS_SHARE * spacing + _SPAN_SHARE * _clamp((numbers[-1] - numbers[0]) / _FULL_SPAN_DAYS))


#: OpenClaw cuts a promoted text here, which is about 160 tokens.
_MAX_CHARS = 640
#: A cut after a sentence or a word is taken if it leaves at least this share of the text.
_SENTENCE_SHARE, _WORD_SHARE = 0.55, 0.65
_MARKER = re.compile(r"<!--\s*openclaw-memory-promotion:([^\n]*?)\s*-->", re.IGNORECASE)
_NO_COMMENT = re.compile(r"<!--+|--+>")
_ENDS = (*_SENTENCE_ENDS, "…")


def shorten_statement(text: str) -> str:
    """Return a statement on one line, without comments, cut to a length that a memory can hold."""
    text = " ".join(_NO_COMMENT.sub(" ", text).split())
    head = text[:_MAX_CHARS]
    sentence, word = max(head.rfind(f"{end} ") for end in _ENDS), head.rfind(" ")
    if head == text:
        return text
    if sentence >= _SENTENCE_SHARE * _MAX_CHARS:
        return head[: sentence + 1]
    return f"{head[: word if word >= _WORD_SHARE * _MAX_CHARS else _MAX_CHARS].rstrip()}..."


def is_writable_key(key: str) -> bool:
    """True if a key can stand in a comment without ending it."""
    return bool(key) and not re.search(r"[\n\r<>]|--", key)


def render_section(day: str, promotions: Iterable[Candidate]) -> str:
    """Return a section with an entry for each statement."""
    lines = [f"## Promoted From Short-Term Memory ({day})", ""]
    for candidate in promotions:
        record, text = candidate.record, candidate.text
        figures = (
            f"[score={candidate.score:.3f} signals={record.signals} recalls={record.recalls}"
            f" avg={candidate.components['relevance']:.3f} source={record.path}:{record.start_line}-{record.end_line}]"
        )
        triggers = ", ".join(choose_triggers(text))
        trigger = f" <!-- trigger: {triggers} -->" if triggers else ""
        importance = f" <!-- importance: {importance_of(candidate.score)} -->"
        marker = f"<!-- openclaw-memory-promotion:{record.key} -->"
        lines += [marker, f"- {text} {figures}{trigger}{importance}"]
    return "\n".join([*lines, ""])


def find_promoted_keys(memory: str) -> frozenset[str]:
    """Return the keys of what was promoted into a text."""
    return frozenset(key for key in map(str.strip, _MARKER.findall(memory)) if key)


#: OpenClaw keeps as many tags of a text, and makes triggers of the first three.
_MAX_TAGS, _MAX_TRIGGERS = 8, 3
#: A shorter word says too little; a longer one is a checksum.
_MIN_CHARS, _MAX_PHRASE_CHARS = 3, 32
#: A shorter word is in too many messages to bring a memory back by itself, unless it is a name.
_MIN_TRIGGER_CHARS = 5
_NO_WORD = compile_later(
    r"<!--.*?(?:-->|$)|https?://\S+|`[^`]*[\s/][^`]*`|\S*/\S*|(?<![\w-])\d[\d.,:/-]*(?![\w-])|\b[\w-]+\.[a-z]{2,4}\b"
)
# Words of scripts without spaces, as far as a change of the script shows where they begin and end.
_HAN = "\u4e00-\u9fff"
_RUN = compile_later(f"(?<![{_HAN}])[{_HAN}]{{2,4}}(?![{_HAN}])|[\u30a0-\u30ff]{{3,12}}|[\uac00-\ud7a3]{{2,8}}")


def find_tags(text: str) -> tuple[str, ...]:
    """Return up to eight words that a text is about, names and identifiers first; no paths, dates or numbers."""
    return tuple(_rank_words(text))[:_MAX_TAGS]


def choose_triggers(text: str) -> tuple[str, ...]:
    """Return up to three words whose use in a message should bring a text back."""
    ranked = _rank_words(text).items()
    good = [word for word, rank in ranked if rank < _PLAIN or len(word) >= _MIN_TRIGGER_CHARS or is_unspaced(word[0])]
    return tuple(good[:_MAX_TRIGGERS])


_IDENTIFIER, _NAME, _PLAIN = range(3)


def _rank_words(text: str) -> dict[str, int]:
    """Return the words with their rank: identifiers, then names, then the longest others."""
    bare = _NO_WORD.sub(" ", text)
    ranks: dict[str, int] = {}
    found = tokens(bare)
    stop = find_stop_words([word for token in found for word in surface_words(token)])
    for place, token in enumerate(found):
        if is_unspaced(token[0]):
            ranks.update({run: _PLAIN for run in _RUN.findall(token) if run not in ranks})
            continue
        word = fold(token.strip("-._:#"))
        if not _MIN_CHARS <= len(word) <= _MAX_PHRASE_CHARS or word in stop or not any(map(str.isalpha, word)):
            continue
        is_identifier = any(map(str.isdigit, word)) or any(sign in word for sign in "-_")
        is_name = token[0].isupper() and place > 0
        ranks[word] = min(ranks.get(word, _PLAIN), _IDENTIFIER if is_identifier else _NAME if is_name else _PLAIN)
    return dict(sorted(ranks.items(), key=lambda pair: (pair[1], -len(pair[0]) if pair[1] == _PLAIN else 0)))
