"""The transcripts of one agent: which of them a conversation may see, and what was said in them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mdrecall.config.settings import Settings
from mdrecall.engine.refresh import IndexRefresh
from mdrecall.types import EVERYTHING, Conversation, MessagePage, ReadResult, SearchRequest, SyncReport, Visible

if TYPE_CHECKING:
    from mdrecall.backends.builtin import IndexRepair


class BuiltinSessions:
    """The transcripts of one agent, read from the disk."""

    def __init__(self, settings: Settings, refresh: IndexRefresh, repair: "IndexRepair") -> None:
        self._settings = settings
        self._refresh = refresh
        self._repair = repair

    def list_all(self, session_key: str = "") -> list[Conversation]:
        """Return the transcripts that a conversation may see, the one that changed last first."""
        from mdrecall.sources.transcripts.readers import list_conversations, open_transcripts
        from mdrecall.sources.transcripts.visibility import filter_visible

        found = list_conversations(open_transcripts(self._settings))
        visible, _ = filter_visible(self._settings, found, session_key)
        redact = self._make_redactor()
        return [each._replace(title=redact(each.title)) if each.title else each for each in visible]

    def find_visible(self, request: SearchRequest) -> Visible:
        """Return which transcripts the conversation of a request may see."""
        is_searched = "sessions" in self._settings.memory_search.sources and request.source != "memory"
        if not is_searched or not (request.session_key.strip() or request.session):
            return EVERYTHING
        from mdrecall.sources.transcripts.readers import open_transcripts
        from mdrecall.sources.transcripts.visibility import find_visible

        return find_visible(self._settings, open_transcripts(self._settings), request.session_key, request.session)

    def read(
        self,
        session: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        session_key: str = "",
    ) -> ReadResult:
        """Return the messages of a transcript that a conversation may see, without secrets."""
        from mdrecall.sources.transcripts.readers import open_transcripts, read_transcript
        from mdrecall.sources.transcripts.visibility import find_readable

        transcripts = open_transcripts(self._settings)
        path = find_readable(self._settings, transcripts, session, session_key).path
        redact = self._make_redactor()
        return read_transcript(transcripts, path, redact, from_line=from_line, lines=lines, from_char=from_char)

    def read_messages(
        self,
        session: str,
        *,
        limit: int,
        offset: int = 0,
        record: int | None = None,
        session_id: str = "",
        session_key: str = "",
        with_tools: bool = False,
    ) -> MessagePage:
        """Return the last messages before ``offset`` others, or those around a record, without secrets."""
        from mdrecall.sources.transcripts.readers import open_transcripts, read_messages
        from mdrecall.sources.transcripts.visibility import find_readable

        transcripts = open_transcripts(self._settings)
        found = find_readable(self._settings, transcripts, session, session_key, session_id)
        return read_messages(
            transcripts, found, self._make_redactor(), limit=limit, offset=offset, record=record, with_tools=with_tools
        )

    def _make_redactor(self) -> Callable[[str], str]:
        from mdrecall.sources.tombstones import open_masks

        return open_masks(self._settings).redact

    def note_compaction(self, session: str) -> SyncReport:
        """Index a transcript whose conversation was just compacted, as the settings say."""
        from mdrecall.sources.transcripts.readers import find_conversation, open_transcripts

        how, search = self._settings.compaction.post_index_sync, self._settings.memory_search
        if how == "off" or "sessions" not in search.sources or not search.sync.sessions.post_compaction_force:
            return SyncReport()
        path = find_conversation(open_transcripts(self._settings), session).path
        within_s = 0.0 if how == "async" else None
        return self._repair.run(lambda: self._refresh.sync_file(path, within_s=within_s))
