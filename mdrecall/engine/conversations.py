"""The conversations of one agent and the text of a note, read from the disk in the same way for every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.errors import FileMissing, ReadError, ScopeDenied
from mdrecall.optional import import_extra
from mdrecall.patterns import is_note_file
from mdrecall.types.search import SearchAnswer

if TYPE_CHECKING:
    from mdrecall.interfaces import TranscriptReader
    from mdrecall.notes.files import MemoryFiles
    from mdrecall.notes.tombstones import Masks
    from mdrecall.types.transcripts import Conversation


def open_readers(settings: Settings) -> tuple[TranscriptReader, Masks]:
    """Return what reads the transcripts of an agent, and what masks their texts."""
    from mdrecall.notes.tombstones import open_masks
    from mdrecall.sessions.readers import open_transcripts

    return open_transcripts(settings), open_masks(settings)


def open_conversation(
    settings: Settings, session: str, session_key: str, session_id: str = "", projects: tuple[str, ...] = ()
) -> tuple[TranscriptReader, Conversation, Callable[[str], str]]:
    """Return what reads a conversation that another one may read, the conversation, and what masks its texts.

    Raise ``ScopeDenied`` where a search is denied. With ``projects``, a coding agent's in another one is missing.
    """
    from mdrecall.sessions.readers import find_readable

    denial = deny_by_scope(settings, session_key) if settings.memory.backend == "qmd" else None
    if denial is not None:
        message = f"{session} cannot be read in this conversation."
        raise ScopeDenied(message, path=session, hint=denial.action)
    transcripts, masks = open_readers(settings)
    found = find_readable(settings, transcripts, session, session_key, session_id)
    if projects and found.host:
        from mdrecall.notes.repository import project_of

        if project_of(found.folder) not in projects:
            raise FileMissing(f"There is no conversation {session} of this project.", path=session)
    return transcripts, found, masks.redact


def deny_by_scope(settings: Settings, key: str) -> SearchAnswer | None:
    """Return the answer to a session that may not search; None if it may."""
    from mdrecall.sessions.visibility import explain_denial

    denial = explain_denial(settings.memory.qmd.scope, key)
    return SearchAnswer((), reason="scope_denied", action=denial, backend="qmd") if denial else None


def open_files(settings: Settings, home: str, projects: Sequence[str] = ()) -> MemoryFiles:
    """Return the memory files with what hosts keep themselves; if there are ``projects``, that of others is empty."""
    from mdrecall.notes.files import MemoryFiles

    if not settings.searches_sessions:
        return MemoryFiles(settings, home)
    from mdrecall.sessions.host_notes import list_roots

    return MemoryFiles(settings, home, partial(list_roots, settings), projects)


def load_note(settings: Settings, home: str, path: str, projects: Sequence[str] = ()) -> tuple[str, str]:
    """Return the path of a note as results show it, and its text without what was forgotten; raise a ``ReadError``."""
    from mdrecall.notes.reader import read_memory_file
    from mdrecall.notes.tombstones import open_tombstones

    if settings.searches_sessions:
        from mdrecall.sessions.readers import open_transcripts, refuse_transcript

        refuse_transcript(open_transcripts(settings), path)
    if settings.memory.backend == "qmd" and (found := _load_from_collection(settings, home, path.strip())):
        return found
    files, mask = open_files(settings, home, projects), open_tombstones(settings).load().mask
    return read_memory_file(files, settings.workspace, path, max_bytes=settings.mdrecall.max_file_bytes, mask=mask)


def _load_from_collection(settings: Settings, home: str, path: str) -> tuple[str, str] | None:
    """Return the path and text of a note in a collection of qmd; None if it is in none of them."""
    collections = import_extra("qmd", "collections")
    paths = collections.CollectionPaths(settings, collections.plan_collections(settings, home))
    file = paths.resolve_path(path) if path and "\0" not in path else None
    if file is None or not is_note_file(file.inside):
        return None
    try:
        return file.shown, paths.read(file)[0]
    except ReadError:
        if path.startswith("qmd/"):
            raise
        return None
