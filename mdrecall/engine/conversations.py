"""The conversations of one agent and the text of a note, read from the disk in the same way for every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.errors import ReadError, ScopeDenied
from mdrecall.optional import import_extra
from mdrecall.patterns import is_note_file
from mdrecall.types import Conversation, MessagePage, ReadResult, SearchAnswer

if TYPE_CHECKING:
    from mdrecall.interfaces import TranscriptReader
    from mdrecall.notes.tombstones import Masks


class Transcripts:
    """The transcripts of one agent, as far as a conversation may see them, without secrets."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def list_all(self, session_key: str = "") -> list[Conversation]:
        """Return the transcripts that a conversation may see, the one that changed last first."""
        from mdrecall.sessions.readers import filter_visible, list_conversations

        transcripts, masks = self._open()
        visible, _ = filter_visible(self._settings, list_conversations(transcripts), session_key)
        return [each._replace(title=masks.redact(each.title)) if each.title else each for each in visible]

    def read(
        self, session: str, session_key: str, *, from_line: int | None, lines: int | None, from_char: int
    ) -> ReadResult:
        """Return the messages in a range of records."""
        from mdrecall.sessions.readers import read_transcript

        transcripts, masks = self._open()
        path = self._find(transcripts, session, session_key).path
        return read_transcript(transcripts, path, masks.redact, from_line=from_line, lines=lines, from_char=from_char)

    def read_messages(
        self,
        session: str,
        *,
        limit: int,
        offset: int,
        record: int | None,
        session_id: str,
        session_key: str,
        with_tools: bool,
    ) -> MessagePage:
        """Return the last messages before ``offset`` others, or those around a record."""
        from mdrecall.sessions.readers import read_messages

        transcripts, masks = self._open()
        found = self._find(transcripts, session, session_key, session_id)
        return read_messages(
            transcripts, found, masks.redact, limit=limit, offset=offset, record=record, with_tools=with_tools
        )

    def _open(self) -> tuple[TranscriptReader, Masks]:
        from mdrecall.notes.tombstones import open_masks
        from mdrecall.sessions.readers import open_transcripts

        return open_transcripts(self._settings), open_masks(self._settings)

    def _find(
        self, transcripts: TranscriptReader, session: str, session_key: str, session_id: str = ""
    ) -> Conversation:
        """Return a conversation that another one may read; raise ``ScopeDenied`` where a search is denied."""
        from mdrecall.sessions.readers import find_readable

        denial = deny_by_scope(self._settings, session_key) if self._settings.memory.backend == "qmd" else None
        if denial is not None:
            message = f"{session} cannot be read in this conversation."
            raise ScopeDenied(message, path=session, hint=denial.action)
        return find_readable(self._settings, transcripts, session, session_key, session_id)


def deny_by_scope(settings: Settings, key: str) -> SearchAnswer | None:
    """Return the answer to a session that may not search; None if it may."""
    from mdrecall.sessions.visibility import explain_denial

    denial = explain_denial(settings.memory.qmd.scope, key)
    return SearchAnswer((), reason="scope_denied", action=denial, backend="qmd") if denial else None


def load_note(settings: Settings, home: str, path: str) -> tuple[str, str]:
    """Return the path of a note as results show it, and its text without what was forgotten; raise a ``ReadError``."""
    from mdrecall.notes.files import MemoryFiles
    from mdrecall.notes.reader import read_memory_file
    from mdrecall.notes.tombstones import open_tombstones

    if settings.searches_sessions:
        from mdrecall.sessions.readers import open_transcripts, refuse_transcript

        refuse_transcript(open_transcripts(settings), path)
    if settings.memory.backend == "qmd" and (found := _load_from_collection(settings, home, path.strip())):
        return found
    mask = open_tombstones(settings).load().mask
    return read_memory_file(
        MemoryFiles(settings, home), settings.workspace, path, max_bytes=settings.mdrecall.max_file_bytes, mask=mask
    )


def _load_from_collection(settings: Settings, home: str, path: str) -> tuple[str, str] | None:
    """Return the path and text of a note in a collection of qmd; None if it is in none of them."""
    paths = import_extra("qmd", "collections").open_paths(settings, home)
    file = paths.resolve_path(path) if path and "\0" not in path else None
    if file is None or not is_note_file(file.inside):
        return None
    try:
        return file.shown, paths.read(file)[0]
    except ReadError:
        if path.startswith("qmd/"):
            raise
        return None
