"""Transcripts for people and agents: which there are, and what is said in them, without secrets."""

from collections import deque
from collections.abc import Callable, Iterator

from mdrecall.core.conversation.transcript import Spoken, spoken
from mdrecall.core.ranking.snippet import cut_units, utf16_units
from mdrecall.sources.sessions import PREFIX, Sessions, transcript_of
from mdrecall.types import Conversation, ReadResult

MAX_READ_UNITS = 50_000


def conversations(source: Sessions) -> list[Conversation]:
    """Every transcript, the last changed first."""
    found = []
    for path, stamp in source.scan().stamps.items():
        session, _, archived = path.removeprefix(PREFIX).partition(".jsonl")
        found.append(Conversation(session, path, stamp[0], stamp[1] / 1e9, bool(archived)))
    return sorted(found, key=lambda entry: (-entry.changed_s, entry.path))


def read_transcript(
    source: Sessions,
    session: str,
    redact: Callable[[str], str],
    *,
    from_line: int | None = None,
    lines: int | None = None,
    max_chars: int = MAX_READ_UNITS,
) -> ReadResult:
    """What is said in some records of a transcript, a line each, with the number of the record before it."""
    path = transcript_of(session, source.scan())
    first = max(1, from_line or 1)
    last = first + max(1, lines) - 1 if lines else None
    kept: list[str] = []
    used, total, following = 0, 0, None
    for number, raw in _records(source, path):
        total = number
        if number < first or (last is not None and number > last) or following is not None:
            continue
        for entry in spoken([raw], redact, first=number):
            line = f"{number}  {entry.text}"
            used += utf16_units(line) + 1
            if used > max_chars and kept:
                following = number
            else:
                kept.append(cut_units(line, max_chars))
    if following is None and last is not None and last < total:
        following = last + 1
    cut = used > max_chars
    return ReadResult(path, "\n".join(kept), first, len(kept), total, cut, following)


def last_spoken(source: Sessions, path: str, redact: Callable[[str], str], most: int) -> list[Spoken]:
    """The last that is said in a transcript, commands left out; no more than that is masked, or held in memory."""
    said = (entry for number, raw in _records(source, path) for entry in spoken([raw], str, first=number))
    last = deque((entry for entry in said if not entry.is_command), maxlen=most)
    return [entry.masked(redact) for entry in last]


def _records(source: Sessions, path: str) -> Iterator[tuple[int, bytes]]:
    with source.open(path) as opened:
        for number, (_, line) in enumerate(opened.lines(0), 1):
            yield number, line
