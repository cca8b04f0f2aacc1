"""Statements from past private conversations, as dated notes that can be recalled and promoted: a preview first.

What the owner has said, or the agent in answer to that, is taken; nothing of groups, jobs, hooks or strangers. Each
statement becomes one line of ``memory/import/sessions/<year>/<day>.md``, once, with the mark of an import.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.core.life.entries import explain_unfit
from mdrecall.core.life.imported import Item, find_blocks
from mdrecall.errors import FileUnreadable, ReadError
from mdrecall.life.imports.reading import Read, Skipped
from mdrecall.life.imports.writer import Target, apply_import, lock_imports, plan_import
from mdrecall.sources.editing import hash_content, remove_note, replace_content
from mdrecall.sources.files import MemoryFiles
from mdrecall.sources.opening import decode, read_below
from mdrecall.sources.tombstones import open_masks
from mdrecall.sources.transcripts.readers import Transcripts, list_conversations, open_transcripts
from mdrecall.sources.transcripts.visibility import is_private
from mdrecall.types import Conversation, TranscriptRecord

SOURCE = "sessions"
FOLDER = f"import/{SOURCE}"
#: As many days as OpenClaw takes at a time: about a season.
DEFAULT_DAYS, MAX_DAYS = 92, 3650
#: Longer than a sentence is; what is longer is a paragraph, which says more than one thing.
_MAX_CHARS = 280
#: So that one long conversation does not fill a day; OpenClaw's limit of a file.
_MAX_OF_SESSION = 80
#: What is shown of a day.
_MAX_SHOWN = 5
_TRUSTED = ("owner", "agent")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{3}[.!?])\s+|(?<=[。！？])")


class Choice(NamedTuple):
    """Which conversations and days to take."""

    since: str = ""
    until: str = ""
    max_days: int = DEFAULT_DAYS
    """The earliest days with statements count; a later run goes on after them."""
    files: tuple[str, ...] = ()
    """Further transcripts, anywhere on the disk."""
    excluded: Mapping[str, Any] = {}
    """OpenClaw's ``memoryPolicy.excludeSessions``."""


class Day(NamedTuple):
    """What would be, or was, taken of one day."""

    day: str
    statements: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return OpenClaw's fields."""
        top = list(self.statements[:_MAX_SHOWN])
        return {"day": self.day, "candidateCount": len(self.statements), "topCandidates": top}


class Backfill(NamedTuple):
    """What a run takes."""

    days: tuple[Day, ...]
    written: int
    skipped: tuple[Skipped, ...]
    """Transcripts and notes that could not be read or written."""

    @property
    def candidates(self) -> int:
        return sum(len(day.statements) for day in self.days)


def backfill(settings: Settings, home: str, choice: Choice, *, apply: bool = False) -> Backfill:
    """Return the statements that are new, by day; with ``apply`` they are written."""
    found = list(_read(settings, choice))
    target = Target(settings, home, SOURCE, FOLDER)
    plan = plan_import(lambda: iter(found), target)
    new: dict[str, list[Item]] = {}
    for item in found:
        if isinstance(item, Item) and (change := plan.changes.get(item.key)) and change.action == "new":
            new.setdefault(_day_of(item), []).append(item)
    days = sorted(new)[: choice.max_days]
    chosen = [item for day in days for item in new[day]]
    failed = apply_import(lambda: iter(chosen), target, plan) if apply and chosen else []
    shown = tuple(Day(day, tuple(item.text for item in new[day])) for day in days)
    written = len(chosen) - len(failed) if apply else 0
    return Backfill(shown, written, (*plan.skipped, *failed))


def undo_backfill(settings: Settings, home: str) -> int:
    """Remove the lines that backfills have written and nobody has edited, and return how many there were."""
    files = MemoryFiles(settings, home)
    removed = 0
    with lock_imports(settings):
        for path in files.scan().stamps:
            if path.startswith("memory/"):
                removed += _remove_blocks(settings, path)
    return removed


def _remove_blocks(settings: Settings, path: str) -> int:
    try:
        opened = read_below(settings.workspace, path, shown=path, max_bytes=settings.mdrecall.max_file_bytes)
    except ReadError:
        # What cannot be read was not written by a backfill, or is left alone like any other note.
        return 0
    note = decode(opened.data).replace("\r\n", "\n")
    blocks = [block for block in find_blocks(note) if block.source == SOURCE and not block.is_edited]
    if not blocks:
        return 0
    for block in reversed(blocks):
        note = note[: block.start].rstrip("\n") + "\n" * bool(block.start) + note[block.end :]
    if note.strip():
        replace_content(settings.workspace, path, note.encode(), hash_content(opened.data))
    else:
        remove_note(settings.workspace, path, hash_content(opened.data))
    return sum(len(block.keys) for block in blocks)


def _read(settings: Settings, choice: Choice) -> Iterator[Read]:
    """Yield every statement once, the earliest first, and what could not be read."""
    reader, redact = open_transcripts(settings), open_masks(settings).redact
    items: dict[str, Item] = {}
    skipped: list[Skipped] = []
    for conversation in list_conversations(reader):
        if _is_taken(settings, conversation, choice.excluded):
            try:
                with reader.open(conversation.path) as transcript:
                    records = (record.redact_text(redact) for record in transcript.records())
                    _add_items(items, records, conversation.session, choice)
            except ReadError as error:
                skipped.append(Skipped(conversation.path, str(error)))
    for file in choice.files:
        _add_file(items, reader, file, choice, redact)
    yield from sorted(items.values(), key=_day_of)
    yield from skipped


def _add_file(
    items: dict[str, Item], reader: Transcripts, file: str, choice: Choice, redact: Callable[[str], str]
) -> None:
    try:
        records = reader.read_file(file) or ()
        _add_items(items, (record.redact_text(redact) for record in records), "", choice)
    except OSError as error:
        raise FileUnreadable(f"Cannot read {file}: {error.strerror or error}.", path=file) from error


def _is_taken(settings: Settings, conversation: Conversation, excluded: Mapping[str, Any]) -> bool:
    kinds = {
        "hookExternalContentSources": conversation.hook_source,
        "channels": conversation.channel,
        "chatTypes": conversation.chat_type,
    }
    if conversation.host or conversation.hook_source or not is_private(settings, conversation):
        return False
    return not any(value and value in (excluded.get(name) or ()) for name, value in kinds.items())


def _add_items(items: dict[str, Item], records: Iterator[TranscriptRecord], session: str, choice: Choice) -> None:
    """Add the statements of a transcript; of one that is said again, the earliest stays."""
    count = 0
    for record in records:
        is_in_range = record.day >= choice.since and (not choice.until or record.day <= choice.until)
        if not record.day or not is_in_range or record.origin not in _TRUSTED or record.is_command:
            continue
        for statement in find_statements(record.text):
            key = " ".join(statement.casefold().split()).rstrip(".!。！")
            if key in items:
                if record.day < _day_of(items[key]):
                    items[key] = _make_item(key, statement, record.day, session)
            elif count < _MAX_OF_SESSION:
                items[key] = _make_item(key, statement, record.day, session)
                count += 1


def find_statements(text: str) -> Sequence[str]:
    """Return the sentences of a message that can stand by themselves."""
    sentences = (sentence.strip() for sentence in _SENTENCE_END.split(text))
    return [one for one in sentences if one and len(one) <= _MAX_CHARS and not explain_unfit(one)]


def _make_item(key: str, statement: str, day: str, session: str) -> Item:
    # Its note has the day in its name, so that it need not be said in every line.
    return Item(key, statement[:_MAX_CHARS], statement, path=f"{day[:4]}/{day}", is_entry=True, session=session)


def _day_of(item: Item) -> str:
    return item.path.rpartition("/")[2]
