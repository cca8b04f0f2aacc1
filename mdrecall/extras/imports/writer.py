"""Turn the items of a source into notes: planned first, then written, each whole or not at all, none of them twice.

What was imported before is read from the notes themselves, wherever they are now. A note that came before and that
nobody has edited follows its source; one that somebody has edited is left alone.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import BUGS, FileBusy, FileChanged, ReadError, WriteError
from mdrecall.extras.imports import items
from mdrecall.extras.imports.items import Block, Item, add_mark, find_blocks, hash_key, hash_text
from mdrecall.extras.imports.sources import Read
from mdrecall.locks import FileLock
from mdrecall.notes.editing import hash_content, replace_content
from mdrecall.notes.files import MemoryFiles
from mdrecall.notes.notes import append_note, create_file, resolve_note
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING
from mdrecall.state_files import make_private_folder
from mdrecall.text.redact import make_redactor
from mdrecall.types.documents import Issue

Action: TypeAlias = Literal["new", "changed", "same", "edited", "forgotten", "older"]

#: Entries that share a mark: few enough that each is near it, many enough that the marks do not outweigh the text.
_ENTRIES_IN_BLOCK = 50
#: Room for the mark of a block.
_MARK_BYTES = 1024
#: Another import needs longer than a person waits; what it has written so far is kept.
_WAIT_S = 2.0


class Change(NamedTuple):
    """What becomes of an item."""

    action: Action
    path: str
    """The note that it is in, or will be."""
    title: str
    day: str
    text_hash: str
    bytes: int
    version: float
    is_entry: bool


class Target(NamedTuple):
    """Where and how items are written."""

    settings: Settings
    home: str
    source: str
    into: str
    """The folder below ``memory/``."""
    since: str = ""
    """Items of earlier days, and without a day, are left out; empty to take all."""


#: An item that waits to be written with others: its key, what becomes of it, and its text.
_Entry: TypeAlias = tuple[str, Change, str]


class _Writer:
    """What is known of a workspace while items are planned or written."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.tombstones = open_tombstones(target.settings).load()
        self.redact = make_redactor(target.settings.logging.redact_patterns)
        # What was imported from the source before, by the hash of its key: the note, and the block in it.
        self.known: dict[str, tuple[str, Block]] = dict(_find_known(target))

    def clean(self, path: str, text: str) -> str:
        """Return a text that may be written to a note: nothing active, no secrets, nothing that was forgotten."""
        return self.tombstones.mask(self.redact(items.clean_text(text)), path)

    def prepare(self, item: Item) -> tuple[Change, str]:
        """Return what becomes of an item, and its text in the note; an older one is not even looked at."""
        target = self.target
        item = item._replace(title=items.clean_title(self.clean("", item.title)))
        note = resolve_note(
            f"{target.into}/{items.name_note(item)}{NOTE_ENDING}", today="", ignored=target.settings.mdrecall.ignore
        )
        known = self.known.get(hash_key(item.key))
        path = known[0] if known else note.shown
        facts = item.version, item.is_entry
        if target.since and item.day < target.since:
            return Change("older", path, item.title, item.day, "", 0, *facts), ""
        clean = partial(self.clean, path)
        text = items.render_entry(item, clean) if item.is_entry else items.render_note(item, target.source, clean)
        action = self._decide(item, text, path, known)
        return Change(action, path, item.title, item.day, hash_text(text), len(text.encode()), *facts), text

    def _decide(self, item: Item, text: str, path: str, known: tuple[str, Block] | None) -> Action:
        if not text or (item.session and self.tombstones.is_forgotten_session(item.session, item.day)):
            return "forgotten"
        if known is None:
            is_taken = not item.is_entry and os.path.lexists(os.path.join(self.target.settings.workspace, path))
            return "edited" if is_taken else "new"
        if item.is_entry or known[1].text_hash == hash_text(text):
            return "same"
        return "edited" if known[1].is_edited else "changed"


def _find_known(target: Target) -> Iterator[tuple[str, tuple[str, Block]]]:
    files = MemoryFiles(target.settings, target.home)
    listing = files.scan()
    for path in listing.stamps:
        try:
            text = files.read(path, listing).text
        except ReadError:
            continue
        if "mdrecall:import" in text:
            for block in find_blocks(text.replace("\r\n", "\n")):
                if block.source == target.source:
                    yield from ((key, (path, block)) for key in block.keys)


def plan_import(read: Callable[[], Iterator[Read]], target: Target) -> tuple[dict[str, Change], list[Issue]]:
    """Return what an import would do, by the keys of the items, and what it would leave out. Nothing is written."""
    writer = _Writer(target)
    changes: dict[str, Change] = {}
    skipped: list[Issue] = []
    for found in read():
        if isinstance(found, Issue):
            skipped.append(found)
            continue
        try:
            change, _ = writer.prepare(found)
        except (WriteError, *BUGS) as error:
            skipped.append(Issue(found.title or found.key, str(error) or type(error).__name__))
            continue
        limit = target.settings.mdrecall.max_file_bytes - _MARK_BYTES
        if change.bytes > limit:
            skipped.append(Issue(change.title, f"it has {change.bytes:,} bytes, more than a note may have"))
        elif found.key not in changes or changes[found.key].version < found.version:
            changes[found.key] = change
    return changes, skipped


def apply_import(
    read: Callable[[], Iterator[Read]],
    target: Target,
    changes: Mapping[str, Change],
    *,
    report: Callable[[Change], None] = lambda _: None,
) -> list[Issue]:
    """Write what is planned, and return what could not be written. ``report`` is called for each item that was."""
    failed: list[Issue] = []
    settings = target.settings
    make_private_folder(settings.state_dir)
    lock = FileLock(os.path.join(settings.state_dir, "mdrecall-import.lock"))
    if not lock.acquire(_WAIT_S, "importing"):
        message = "Another import into this workspace is running."
        raise FileBusy(message, path=settings.workspace, hint="Wait until it is done, then try again.")
    try:
        writer = _Writer(target)
        # The entries of a note are written together.
        waiting: defaultdict[str, list[_Entry]] = defaultdict(list)
        for found in read():
            planned = changes.get(found.key) if isinstance(found, Item) else None
            if not isinstance(found, Item) or planned is None or planned.action not in ("new", "changed"):
                continue
            try:
                change, text = writer.prepare(found)
                # Another copy of the item is the planned one, or it was written meanwhile.
                if change != planned:
                    continue
                key = hash_key(found.key)
                if found.is_entry:
                    waiting[change.path].append((key, change, text))
                else:
                    _write_note(target, key, change, text)
                    report(change)
                writer.known[key] = change.path, Block(target.source, (key,), change.text_hash, 0, 0, False)
            except (WriteError, ReadError, *BUGS) as error:
                failed.append(Issue(found.title or found.key, str(error) or type(error).__name__))
        for path, entries in waiting.items():
            try:
                _append_entries(target, path, entries, report)
            except WriteError as error:
                failed.append(Issue(path, str(error)))
    finally:
        lock.release()
    return failed


def _write_note(target: Target, key: str, change: Change, text: str) -> None:
    workspace, path = target.settings.workspace, change.path
    block = add_mark(text, target.source, [key])
    if change.action == "new":
        create_file(workspace, path, block.encode())
        return
    data = read_below(workspace, path, shown=path, max_bytes=target.settings.mdrecall.max_file_bytes)
    note = decode(data).replace("\r\n", "\n")
    blocks = [one for one in find_blocks(note) if one.source == target.source and key in one.keys and not one.is_edited]
    if not blocks:
        raise FileChanged(f"{path} has changed since it was read.", path=path, hint="Nothing was written; try again.")
    old = blocks[0]
    before = f"{note[: old.start]}\n\n" if old.start else ""
    content = f"{before}{block.rstrip()}{note[old.end :]}"
    replace_content(workspace, path, content.encode(), hash_content(data))


def _append_entries(target: Target, path: str, entries: list[_Entry], report: Callable[[Change], None]) -> None:
    settings = target.settings
    parts = (entries[at : at + _ENTRIES_IN_BLOCK] for at in range(0, len(entries), _ENTRIES_IN_BLOCK))
    blocks = (
        add_mark("\n".join(text for _, _, text in part), target.source, [key for key, _, _ in part]) for part in parts
    )
    note = resolve_note(path, today="", ignored=settings.mdrecall.ignore)
    append_note(settings.workspace, "\n".join(blocks), note, max_bytes=settings.mdrecall.max_file_bytes, finishes=True)
    for _, change, _ in entries:
        report(change)
