"""The entries of a note, and which of them can stand in long-term memory by themselves.

An entry is a list item, or the lines of a paragraph up to one that ends a sentence. Only a statement can stand alone: a
heading, a row of a table, a command, a path or what a program has logged says nothing to somebody who has not seen the
lines around it.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple

from mdrecall.core.text.headings import INSIDE_BLOCK, Line, read_lines
from mdrecall.core.text.stem import stem
from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import count_unspaced, surface_words, tokens
from mdrecall.patterns import compile_later

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
#: What is no statement: a pattern for its beginning, and what it is. The first that matches counts.
_UNFIT = (
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
    (
        r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|(?:info|warn(?:ing)?|error|debug|trace|fatal)\b\s*[:\]])",
        "it is a line of a log",
    ),
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
        if text := _join(raw):
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


def _join(lines: Sequence[str]) -> str:
    whole = _COMMENT.sub(" ", "\n".join(lines))
    return " ".join(_ITEM.sub("", whole, count=1).split())


def strip_clock(text: str) -> str:
    """Return a text without the time of day that it begins with, as entries of a log do."""
    clock = _CLOCK.match(text)
    return text[clock.end() :] if clock else text


def explain_unfit(text: str) -> str:
    """Return why a text cannot stand by itself as a statement; empty if it can."""
    bare = _LINK.sub(r"\1\2", text.strip()[:_MAX_READ_CHARS]).strip("*_ ")
    for pattern, reason in _compile_unfit():
        if pattern.match(bare):
            return reason
    prose = _NO_PROSE.sub(" ", bare)
    unspaced = count_unspaced(prose)
    words = _WORD.findall(prose)
    if unspaced >= _MIN_UNSPACED:
        return ""
    if len(words) < _MIN_WORDS:
        return "it is too short for a statement"
    if sum(char.isalpha() or char.isspace() for char in bare) < _MIN_LETTERS * len(bare):
        return "it is mostly numbers and signs"
    return "" if _is_sentence(bare, words) else "it is a title, not a statement"


@cache
def _compile_unfit() -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns, compiled at their first use, which takes milliseconds."""
    return [(re.compile(pattern, re.IGNORECASE), reason) for pattern, reason in _UNFIT]


def _is_sentence(text: str, words: Sequence[str]) -> bool:
    if text.endswith((".", "!", "…", ")")) and not words[-1].istitle():
        return True
    folded = [word for token in tokens(text) for word in surface_words(token)]
    is_title = all(word[0].isupper() or len(word) < 4 for word in words)
    if find_stop_words(folded) and not is_title:
        return True
    return len(words) >= _MIN_PLAIN_WORDS and 2 * sum(word.islower() for word in words) > len(words)


def adds_nothing(new: AbstractSet[str], old: AbstractSet[str]) -> bool:
    """True if a text says no more than an older one: every word of it that counts is there, and no negation differs.

    Both are given as what ``find_content`` returns of them.
    """
    if not new or new & _NEGATIONS != old & _NEGATIONS:
        return False
    return new <= old or (old <= new and len(old) >= _SAME_SHARE * len(new))


def find_content(text: str) -> frozenset[str]:
    """Return the words of a text that count, in a form that is the same for all their endings."""
    words = [word for token in tokens(_COMMENT.sub(" ", text)) for word in surface_words(token)]
    stop = find_stop_words(words) - _NEGATIONS
    return frozenset(word if word in _NEGATIONS else stem(word) for word in words if word not in stop)
