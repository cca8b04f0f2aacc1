"""Conflicted copies: what programs that sync folders leave beside a note that was edited on two machines."""

from collections.abc import Collection, Iterator
from datetime import datetime
from os.path import basename
from typing import Any

from mdrecall.errors import FileUnwritable, RecallError, message_with_hint
from mdrecall.life.curate import Curator
from mdrecall.memory import Memory
from mdrecall.notes.editing import hash_content, replace_content
from mdrecall.patterns import NOTE_ENDING_PATTERN, compile_later
from mdrecall.sync.merge import merge_trees, split_note
from mdrecall.sync.run import is_note, sweep

#: Syncthing, ownCloud; Dropbox and Nextcloud (the word begins alike in most languages of Europe). A person may have
#: chosen iCloud's "note 2.md".
_COPY = compile_later(
    r"\A(.+?)(?:\.sync-conflict-\d{8}-\d{6}(?:-\w{7})?|_conflict-\d{8}-\d{6}"
    rf"| \([^()/]*(?i:[ck]onfli)[^()/]*\d{{4}}-\d\d-\d\d[^()/]*(?:\(\d+\))?\))({NOTE_ENDING_PATTERN})\Z"
)


def find_copies(paths: Collection[str]) -> dict[str, str]:
    """Return the conflicted copies among notes, each with the note beside it that it is a copy of."""
    # A copy of a copy comes before the copy. Files that agents take for instructions are left out.
    notes = {path: _COPY.sub(r"\1\2", path) for path in sorted(paths, key=lambda path: (-len(path), path))}
    return {path: note for path, note in notes.items() if note != path and note in paths and is_note(basename(note))}


def merge_copies(memory: Memory, now: datetime, *, is_preview: bool) -> Iterator[dict[str, Any]]:
    """Merge each copy into its note and move it to the trash; yield what each adds, or why it cannot be merged."""
    curator, settings = Curator(memory), memory.settings
    for path, name in find_copies({note.path for note in memory.notes()}).items():
        record: dict[str, Any] = {"path": path, "note": name, "entries": 0, "problem": ""}
        try:
            note, copy = curator.read(name), curator.read(path)
            kept = sweep(settings, {path: copy.data})[0].get(path, b"")
            merged = merge_trees({}, {name: note.data}, {name: kept}).get(name, b"")
            before, after = (sum(map(len, split_note(data)[:2])) for data in (note.data, merged))
            record["entries"] = after - before
            if len(merged) > settings.mdrecall.max_file_bytes:
                raise FileUnwritable(f"{name} would be too large.", path=name, hint="Split the note.")
            if not is_preview:
                replace_content(note.root, note.inside, merged, note.hash)
                replace_content(copy.root, copy.inside, kept, copy.hash)
                curator.delete(path, hash_content(kept), now)
        except RecallError as error:
            record["problem"] = message_with_hint(error)
        yield record
