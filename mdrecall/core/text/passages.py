"""Passages: the few lines that are compared, shown and cited. A chunk is cut into them where a reader would cut.

A passage begins at a heading, at a turn of a conversation, after a blank line or at a list item, and holds about sixty
tokens. Index and search cut the same text in the same way, so a passage is known by its place among the others.
"""

from mdrecall.core.text.words import count_unspaced
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later

#: About sixty tokens. Longer passages show less of what answers within the same number of characters, and shorter ones
#: need more citations for it.
PASSAGE_UNITS = 240
#: A longer line is a paragraph, and is cut into sentences.
LONG_LINE = 320
_SENTENCES = compile_later(r"(?s).{80,239}(?:[.!?](?=\s|[^\x00-\x7f]|$)|[。！？])\s?|.{1,240}(?:\s|$)|.{1,240}")
_BULLETS = frozenset(mark + space for mark in "-*+" for space in " \t")
_DIGITS = "0123456789"
_NUMBERED = compile_later(r"\d{1,9}[.)][ \t]")
_HEADING = compile_later(r" {0,3}#{1,6}(?:[ \t]|$)")

# ``Name:`` at the beginning of a line, possibly after a list marker or a time, bold, or in angle brackets.
_TURN = compile_later(
    r"\s*(?:[-*>]\s+)?(?:\[[^\]\n]{1,40}\]\s*)?(?:\*\*|__)?<?([^\W\d_][\w.'’ -]{0,30}?)>?(?:\*\*|__)?"
    r"(?:\s*\([^)\n]{1,40}\))?\s?[:：](?:\*\*|__)?(?=\s|$|\"|“|「|[^\x00-\x7f])"
)
_USER_ROLES = frozenset(
    ("user", "human", "me", "用户", "使用者", "ユーザー", "사용자", "benutzer", "utilisateur", "usuario")
)
_ROLES = _USER_ROLES | {
    "assistant", "ai", "bot", "agent", "system", "tool", "助手", "助理", "アシスタント", "어시스턴트", "asistente",
}  # fmt: skip
# Other labels are names only if they return, as in a conversation; ``Status: done`` stands for itself.
_MIN_TURNS = 3


class Passage(NamedTuple):
    """A stretch of a chunk: its character offsets, its lines counted from 0, and who speaks."""

    start: int
    end: int
    first_line: int
    last_line: int
    heading: int = -1
    """The line of the last heading above its text; -1 if that is not in the chunk."""
    speaker: str = ""
    """Who says it, as written; empty outside of conversations."""


#: For what has not been cut yet.
NO_PASSAGE = Passage(0, 0, 0, 0)


def split_passages(text: str) -> list[Passage]:
    """Cut a chunk into passages; each begins and ends with a line, or a sentence of a long line, that is not blank."""
    lines = text.split("\n")
    turns = _find_turns(lines) if ":" in text or "：" in text else {}
    is_ascii = text.isascii()
    passages: list[Passage] = []
    offset, heading, speaker, blanks = 0, -1, "", 0
    begin = first = last = last_end = size = 0
    last_heading, who, has_text = -1, "", False
    # One loop without objects or calls, because it sees every line of every note.
    for number, line in enumerate(lines):
        bare = line.lstrip()
        if not bare:
            blanks += 1
            offset += len(line) + 1
            continue
        # Whether a passage always ends before this line, and whether it does once it is half full.
        ends = number in turns
        if bare[0] == "#" and _HEADING.match(line):
            heading, speaker, ends = number, "", True
        elif ends:
            speaker = turns[number]
        may_end = blanks > 0 or bare[:2] in _BULLETS or (bare[0] in _DIGITS and _NUMBERED.match(bare) is not None)
        for start, end in ((0, len(line)),) if len(line) <= LONG_LINE else split_line(line):
            # Blank lines count too: a passage must not reach over a thousand of them.
            length = blanks + end - start + (0 if is_ascii else count_unspaced(line[start:end]))
            # A heading alone says little, so it stays with what follows it, even if that is another heading.
            if size and (
                size + length > PASSAGE_UNITS or (may_end and size * 2 >= PASSAGE_UNITS) or (ends and has_text)
            ):
                passages.append(Passage(begin, last_end, first, last, last_heading, who))
                size = 0
            if not size:
                begin, first, who = offset + start, number, speaker
            last, last_end, last_heading, has_text = number, offset + end, heading, heading != number
            size += length
            ends = may_end = False
            blanks = 0
        offset += len(line) + 1
    if size:
        return [*passages, Passage(begin, last_end, first, last, last_heading, who)]
    return [Passage(0, len(text), 0, text.count("\n"))]


def split_line(line: str) -> list[tuple[int, int]]:
    """Return where the sentences of a long line begin and end; a shorter one is not split."""
    if len(line) <= LONG_LINE:
        return [(0, len(line))]
    return [part.span() for part in _SENTENCES.finditer(line)]


def is_user(speaker: str) -> bool:
    """True if a speaker is the person who talks to an assistant."""
    return speaker.casefold() in _USER_ROLES


def is_role(speaker: str) -> bool:
    """True if a speaker is named only by a role, such as ``Assistant``."""
    return speaker.casefold() in _ROLES


def _find_turns(lines: list[str]) -> dict[int, str]:
    """Return the lines that begin a turn of a conversation, each with its speaker."""
    labels = {
        number: match[1].strip()
        for number, line in enumerate(lines)
        # A label is short; looking for one in the middle of a long line would take long.
        if (line.find(":", 0, 80) >= 0 or (not line.isascii() and line.find("：", 0, 80) >= 0))
        and (match := _TURN.match(line))
    }
    if not labels:
        return {}
    roles = {number: label for number, label in labels.items() if is_role(label)}
    names = {number: label for number, label in labels.items() if not label[0].islower() and number not in roles}
    distinct = len(set(names.values()))
    if len(names) < _MIN_TURNS or distinct * 3 > len(names) * 2:
        return roles
    spoken = sum(1 for line in lines if line and not line.isspace())
    return names | roles if len(names) * 2 >= spoken else roles
