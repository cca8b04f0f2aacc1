"""Transcripts for people and agents: which there are, and what is said in them, without secrets."""

from collections import deque
from collections.abc import Callable

from mdrecall.core.ranking.snippet import cut_units, utf16_units
from mdrecall.errors import FileMissing, TranscriptRefused
from mdrecall.interfaces import TranscriptReader
from mdrecall.types import Conversation, ReadResult, TranscriptRecord

#: The same limit as for notes: what a model can read at once without filling its context.
MAX_READ_UNITS = 50_000


def list_conversations(reader: TranscriptReader) -> list[Conversation]:
    """Return every transcript, the last changed first."""
    found = [reader.describe(path, stamp) for path, stamp in reader.scan().stamps.items()]
    return sorted(found, key=lambda entry: (-entry.changed_s, entry.path))


def find_conversation(reader: TranscriptReader, session: str) -> Conversation:
    """Return the transcript of a session given by its id, file name or path. Raise ``FileMissing`` if there is none."""
    listing = reader.scan()
    if path := reader.find(session, listing):
        return reader.describe(path, listing.stamps[path])
    hint = "Give the id, the file name or the path of a session from the list of sessions."
    raise FileMissing(f"There is no transcript {session}.", path=session, hint=hint)


def refuse_transcript(reader: TranscriptReader, path: str) -> None:
    """Raise ``TranscriptRefused`` if a path is that of a transcript: who reads memory files need not see those."""
    if reader.owns(path):
        name = path.strip()
        hint = "Read it as a session instead."
        raise TranscriptRefused(f"{name} is a transcript, not one of the memory files.", path=name, hint=hint)


def read_transcript(
    reader: TranscriptReader,
    session: str,
    redact: Callable[[str], str],
    *,
    from_line: int | None = None,
    lines: int | None = None,
    max_chars: int = MAX_READ_UNITS,
) -> ReadResult:
    """Return the messages in a range of records, a line each, with the number of the record before it."""
    path = find_conversation(reader, session).path
    first = max(1, from_line or 1)
    last = first + max(1, lines) - 1 if lines else None
    shown: list[str] = []
    used, total, following = 0, 0, None
    with reader.open(path) as transcript:
        for record in transcript.records():
            total = record.number
            is_wanted = first <= total and (last is None or total <= last) and following is None
            if not is_wanted or not record.is_message:
                continue
            line = f"{total}  {record.redact_text(redact).line}"
            used += utf16_units(line) + 1
            if used > max_chars and shown:
                following = total
            else:
                shown.append(cut_units(line, max_chars))
    if following is None and last is not None and last < total:
        following = last + 1
    return ReadResult(path, "\n".join(shown), first, len(shown), total, used > max_chars, following)


def last_messages(
    reader: TranscriptReader, path: str, redact: Callable[[str], str], count: int
) -> list[TranscriptRecord]:
    """Return the last messages of a transcript without commands; only these are held in memory and redacted."""
    with reader.open(path) as transcript:
        said = (record for record in transcript.records() if record.is_message and not record.is_command)
        last = deque(said, maxlen=count)
    return [record.redact_text(redact) for record in last]
