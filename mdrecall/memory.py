"""Memory: what Python users open."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from math import isnan
from typing import TYPE_CHECKING, Any, Self, cast

from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import Settings
from mdrecall.engine.conversations import load_note, open_conversation, open_readers
from mdrecall.errors import CorruptIndex, FileMissing, MemoryDisabled, PathRefused, QueryError
from mdrecall.types.documents import Appended, Issue, NoteFile, parse_citation
from mdrecall.types.search import MOST_RESULTS, ReadResult, SearchAnswer, SearchRequest, check_like
from mdrecall.types.sync import Probe, ProgressCallback, SourceStatus, Status, Stop, SyncReport, WatchEvent, never

if TYPE_CHECKING:
    from datetime import datetime

    from mdrecall.interfaces import Index, IndexedBackend
    from mdrecall.notes.files import MemoryFiles
    from mdrecall.notes.notes import NotePath
    from mdrecall.notes.reader import LinkedNotes
    from mdrecall.text.notes import NoteLinks
    from mdrecall.types.documents import NearNote
    from mdrecall.types.transcripts import Conversation, MessagePage


#: Why no conversation is found where conversations are switched off.
SESSIONS_OFF = (
    "Conversations are not indexed. Add sessions to memorySearch.sources, and set"
    " memorySearch.experimental.sessionMemory to true."
)


class Memory:
    """One workspace's memory. Use it as a context manager, or call ``close()`` when done."""

    def __init__(self, settings: Settings, backend: IndexedBackend | None, loaded: Loaded | None = None) -> None:
        """``loaded`` is the configuration behind the settings.

        If ``backend`` is None, one is opened from ``loaded`` when it is first needed: a note is read without any.
        """
        self.settings = settings
        self.loaded = loaded
        self._opened = backend
        self._opening = threading.Lock()
        self._linked: LinkedNotes | None = None
        self._projects: tuple[str, ...] = ()

    @property
    def _backend(self) -> IndexedBackend:
        if self._opened is None:
            from mdrecall.engine.open import open_backend

            with self._opening:
                self._opened = self._opened or open_backend(cast(Loaded, self.loaded), one_shot=True)
        return self._opened

    def _index(self) -> Index:
        """Return the index that answers now."""
        return next(self._backend.indexes())

    @classmethod
    def open(
        cls,
        workspace: str | os.PathLike[str] | None = None,
        *,
        agent: str | None = None,
        config: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        one_shot: bool = False,
    ) -> Self:
        """Open the memory of a workspace: by default the current folder if it has notes, else the configured one.

        ``overrides`` are ``memorySearch`` settings by their dotted name. ``one_shot`` says that the process asks one
        question: nothing is started that pays off only for more.
        """
        folder, file = (None if path is None else os.fspath(path) for path in (workspace, config))
        loaded = load(env=env, workspace=folder, agent=agent, config=file, overrides=overrides)
        return cls.of(loaded, one_shot=one_shot)

    @classmethod
    def of(cls, loaded: Loaded, *, one_shot: bool = False) -> Self:
        """Open a memory with settings that are loaded already."""
        if not loaded.settings.memory_search.enabled:
            origin = loaded.values["memorySearch.enabled"].origin
            message = f"The memory of agent {loaded.settings.agent_id} is switched off ({origin})."
            raise MemoryDisabled(message, hint="Set memorySearch.enabled to true to use it.")
        if one_shot:
            return cls(loaded.settings, None, loaded)
        from mdrecall.engine.open import open_backend

        return cls(loaded.settings, open_backend(loaded), loaded)

    @check_like(SearchRequest)
    def search(self, query: str, **options: Any) -> SearchAnswer:
        """Return the best passages for a query, best first; an empty answer says why, and what to do.

        The options are the fields of ``SearchRequest``: ``max_results``, ``min_score``, ``mode`` (``keyword``,
        ``vector`` or ``hybrid``), ``explain``, ``source`` (``memory`` or ``sessions``), ``session_key``, ``session``,
        ``progress``, ``since``, ``until``, ``now``, ``queries``, ``tags``, ``paths``, ``collections``, ``projects`` and
        ``current_projects``. Changed files are indexed first.
        """
        request = SearchRequest(query, **options)
        request = request._replace(projects=self._projects or request.projects)
        if request.progress and request.session_key.strip():
            # The names of transcripts that are indexed meanwhile are not for every conversation.
            tell = request.progress
            request = request._replace(progress=lambda progress: tell(progress._replace(label="")))
        if request.min_score is not None and isnan(request.min_score):
            raise QueryError("The minimum score is not a number.", hint="Give one from 0 to 1, or none.")
        answer = self._search_all(request)
        if request.source != "sessions" or answer.results or answer.stale or not query.strip():
            return answer
        return self._explain_no_sessions(answer)

    def _search_all(self, request: SearchRequest) -> SearchAnswer:
        """Return one answer to several ways to ask, or to several questions in one message."""
        from mdrecall.search.query import split_questions
        from mdrecall.search.results import fuse_answers, list_queries, stop

        is_one = request.is_prompt or request.queries
        queries = list_queries(request.query, request.queries) if is_one else split_questions(request.query)
        if len(queries) == 1:
            return self._backend.search(request)
        answers = [self._backend.search(request._replace(query=entry, queries=())) for entry in queries]
        limit, stops = limit_results(self.settings, request)
        most = max(limit, *map(len, answers)) if request.max_results is None else limit
        return stop(
            fuse_answers(queries, answers, most, in_turns=not is_one), request.query if stops and is_one else ""
        )

    def _explain_no_sessions(self, answer: SearchAnswer) -> SearchAnswer:
        """Return an empty answer that says if there is no conversation to search."""
        action = SESSIONS_OFF
        if self.settings.searches_sessions:
            if any(count.files for count in self.counts() if count.source == "sessions"):
                return answer
            action = (
                f"No conversation belongs to this workspace. Transcripts are read from {self.settings.sessions_dir};"
                " conversations of a coding agent have to be followed or imported first."
            )
        return answer.replace(reason="no_match", action=action, provider="", model="")

    def read(
        self,
        path: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        max_chars: int | None = None,
    ) -> ReadResult:
        """Return lines of a memory file, read from the disk; a ``ReadError`` says why a path is refused.

        ``path`` may be a citation, such as ``memory/2026-02-10.md#L3-L9``. At most ``max_chars`` (50,000) are returned:
        ``next_from`` is the line, and ``next_char`` the ``from_char``, to continue from.
        """
        from mdrecall.notes.reader import MAX_READ_UNITS, select_lines

        path, first, count = parse_citation(path)
        if from_line is None and lines is None:
            from_line, lines = first, count
        is_here = True
        try:
            shown, text = load_note(self.settings, self._home, path, self._projects)
        except FileMissing:
            elsewhere = self._index().find_text(path) if self.loaded and self.loaded.shared_store else None
            if elsewhere is None:
                raise
            is_here, shown, text = False, path, elsewhere
        if self._projects:
            from mdrecall.sessions.digest import hide_others

            text = hide_others(text, self._projects)
        read = select_lines(shown, text, from_line, lines, max_chars or MAX_READ_UNITS, from_char)
        return read if is_here else read._replace(is_from_index=True)

    #: OpenClaw's name for ``read``.
    read_file = read

    def append(
        self,
        text: str,
        *,
        file: str | None = None,
        now: datetime | None = None,
        session_key: str = "",
        author: str = "",
    ) -> Appended:
        """Append a text to a note without the sections that it has already; a ``WriteError`` says why it is refused.

        ``file`` is a day (``YYYY-MM-DD``) or the name of a note, by default the note of the user's day at ``now``; a
        new one is made in ``memory/``. ``author`` is noted in a comment after the text. With a ``session_key`` of
        another conversation than the agent's main one, only the note of the day may be written.
        """
        from mdrecall.notes.notes import append_note
        from mdrecall.notes.tombstones import open_tombstones
        from mdrecall.patterns import WISHES_FILE

        note = self._resolve_note(file or "", now, session_key)
        if WISHES_FILE.fullmatch(note.shown):
            # Sessions follow what it says: no program may add a line as the person's.
            hint = "Edit it with an editor, or write to another note."
            raise PathRefused(f"{note.shown} holds wishes, and nothing is appended to it.", path=note.shown, hint=hint)
        max_bytes = self.settings.mdrecall.max_file_bytes
        text = open_tombstones(self.settings).load().mask(text)
        return append_note(self.settings.workspace, text, note, max_bytes=max_bytes, author=author)

    def _resolve_note(self, file: str, now: datetime | None, session_key: str) -> NotePath:
        from mdrecall.notes.clock import user_time
        from mdrecall.notes.notes import find_existing, resolve_daily, resolve_note
        from mdrecall.sessions.visibility import parse

        files, ignored, workspace = self._open_files(), self.settings.mdrecall.ignore, self.settings.workspace
        is_plain = files.is_plain_folder() and bool(files.scan().stamps)
        today = user_time(now, None, self.settings.defaults.user_timezone).date().isoformat()

        def resolve(name: str) -> NotePath:
            day = name.strip() or today
            new = resolve_daily(workspace, day, ignored)
            if new is None or not any(files.find_covering(os.path.join(workspace, new.shown))):
                new = resolve_note(name, today=today, is_plain=is_plain, ignored=ignored)
            return new if day == today else find_existing(workspace, day, new, self._open_links().find)

        note, daily = map(resolve, (file, ""))
        if note != daily and session_key.strip() and not parse(session_key).is_main_of(self.settings.agent_id):
            hint = f"Write to {daily.shown}, the only note that this conversation may append to."
            raise PathRefused(f"{note.shown} is not the note of the day.", path=note.shown, hint=hint)
        return note

    def sync(
        self,
        *,
        force: bool = False,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        reason: str = "manual",
        waits_for_encoder: bool = False,
    ) -> SyncReport:
        """Bring the index up to date with the files; ``force`` builds a new index beside the one that answers.

        The encoder's vectors take minutes for thousands of notes, so they are made in the background unless the caller
        waits for them.
        ``reason`` is only logged. Once ``stop``, which is called between files, returns True, the sync ends: what is
        done is kept, and the report says what is left.
        """
        # A process that has not loaded it keeps no log.
        if logging := sys.modules.get("logging"):
            logging.getLogger(__name__).debug("Syncing the memory of %s: %s.", self.settings.agent_id, reason)
        return self._backend.sync(force=force, progress=progress, stop=stop, waits_for_encoder=waits_for_encoder)

    def sessions(self, session_key: str = "") -> list[Conversation]:
        """Return the transcripts of this agent that the conversation of a key may see, the last changed first."""
        from mdrecall.sessions.readers import filter_visible, list_conversations

        transcripts, masks = open_readers(self.settings)
        visible, _ = filter_visible(self.settings, list_conversations(transcripts), session_key)
        return [each._replace(title=masks.redact(each.title)) if each.title else each for each in visible]

    def compacted(self, session: str) -> SyncReport:
        """Index what a conversation that was just compacted has said, as ``compaction.postIndexSync`` says."""
        from mdrecall.engine.background import run_in_background
        from mdrecall.sessions.readers import find_conversation, open_transcripts

        how, rules = self.settings.compaction.post_index_sync, self.settings.memory_search.sync.sessions
        if how == "off" or not (self.settings.searches_sessions and rules.post_compaction_force):
            return SyncReport()
        find_conversation(open_transcripts(self.settings), session)
        if how == "await":
            return self._backend.sync()
        run_in_background(self._backend.sync, name="mdrecall-compacted")
        return SyncReport(left=1)

    def read_session(
        self,
        session: str,
        *,
        from_line: int | None = None,
        lines: int | None = None,
        from_char: int = 0,
        session_key: str = "",
    ) -> ReadResult:
        """Return messages of a transcript, without secrets; ``session`` is a session key, an id, a file name or a path.

        Lines are records. A conversation, named by its ``session_key``, that may not search may not read either
        (``ScopeDenied``), and a transcript that it may not see is missing (``FileMissing``).
        """
        from mdrecall.sessions.readers import read_transcript

        transcripts, found, redact = open_conversation(self.settings, session, session_key, projects=self._projects)
        return read_transcript(transcripts, found.path, redact, from_line=from_line, lines=lines, from_char=from_char)

    def read_messages(
        self,
        session: str,
        *,
        limit: int = 100,
        offset: int = 0,
        record: int | None = None,
        session_id: str = "",
        session_key: str = "",
        with_tools: bool = False,
    ) -> MessagePage:
        """Return the last messages of a conversation, without secrets and at most ``limit``.

        ``session`` is as for ``read_session``, or ``current`` for the conversation that asks. ``offset`` leaves out the
        newest ones; ``record`` asks for those around the record of that number. ``session_id`` chooses one of several
        transcripts. ``with_tools`` adds calls of tools and their results.
        """
        from mdrecall.sessions.readers import read_messages

        opened = open_conversation(self.settings, session, session_key, session_id, self._projects)
        limit, offset = max(1, limit), max(0, offset)
        return read_messages(*opened, limit=limit, offset=offset, record=record, with_tools=with_tools)

    def watch(self) -> None:
        """Watch the files in the background until the memory is closed, as the ``sync`` settings say."""
        self._backend.watch.start()

    def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        """Watch the files in this thread until ``stop_following``; ``tell`` is called for each event."""
        self._backend.watch.run(tell)

    def stop_following(self) -> None:
        """End ``follow``, from another thread or a signal handler."""
        if self._opened:
            self._opened.watch.stop()

    def status(self) -> Status:
        """Return what is indexed, where, and how."""
        return self._backend.status()

    def notes(self) -> tuple[NoteFile, ...]:
        """Return every note that is searched, the one that changed last first; the disk is asked, not the index."""
        stamps = self._open_files().scan().stamps
        found = [NoteFile(path, size, changed_ns / 1e9) for path, (size, changed_ns, *_) in stamps.items()]
        return tuple(sorted(found, key=lambda note: (-note.changed_s, note.path)))

    def near(self, path: str, count: int = 6) -> tuple[NearNote, ...]:
        """Return the notes that are most similar in meaning to a note, best first; none without vectors."""
        return self._index().find_near(path, max(1, count))

    def links(self, name: str) -> NoteLinks:
        """Return which notes a note, named by its path, file name, alias or title, links to and which link to it."""
        return self._open_links().links_of(name)

    def _open_links(self) -> LinkedNotes:
        from mdrecall.notes.reader import LinkedNotes
        from mdrecall.notes.tombstones import open_tombstones

        if self._linked is None:
            self._linked = LinkedNotes(self._open_files(), open_tombstones(self.settings))
        return self._linked

    def _open_files(self) -> MemoryFiles:
        from mdrecall.notes.files import MemoryFiles

        return MemoryFiles(self.settings, self._home)

    @property
    def _home(self) -> str:
        return self.loaded.home if self.loaded else os.sep

    def counts(self) -> tuple[SourceStatus, ...]:
        """Return how many files and chunks of each source are indexed."""
        if self._opened or self.settings.memory.backend == "qmd" or cast(Loaded, self.loaded).shared_store:
            return self._index().counts()
        # A session waits for this when it starts, and to load all that searches an index takes longer.
        from mdrecall.store.common import order_counts
        from mdrecall.store.sqlite import open_store

        store = open_store(self.settings, one_shot=False)
        with suppress(CorruptIndex), closing(store.admin):
            return order_counts(store.chunks.count_by_source(), self.settings.memory_search.sources)
        return self._index().counts()

    def issues(self) -> tuple[Issue, ...]:
        """Return problems with the files: links, missing or unreadable folders, names that are not Unicode."""
        return self._index().issues()

    def check(self) -> tuple[str, ...]:
        """Return what is damaged in the index; empty if it is sound."""
        return self._index().check()

    def index_files(self) -> list[tuple[str, int]]:
        """Return every file that belongs to the index, with its size in bytes."""
        return [each for index in self._backend.indexes() for each in index.sizes()]

    def reset(self) -> None:
        """Delete the index and nothing else; the next search or sync builds it again from the notes."""
        for index in self._backend.indexes():
            index.reset()

    def purge(self, progress: ProgressCallback | None = None) -> bool:
        """Leave nothing in the index of what was forgotten; False if another process still reads an earlier state."""
        from mdrecall.store.sqlite import delete_former

        delete_former(self.settings)
        is_done = [index.purge(progress) for index in self._backend.indexes()]
        return all(is_done)

    def probe_embedding(self) -> Probe:
        """Check that texts can be embedded."""
        return self._index().probe_embedding()

    def probe_vectors(self) -> bool:
        """True if vectors can be searched."""
        return self._index().probe_vectors()

    def close(self) -> None:
        """Release the index; may be called twice."""
        if self._opened:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def limit_results(settings: Settings, request: SearchRequest) -> tuple[int, bool]:
    """Return how many results an answer may have, and True if it stops where they get weak."""
    is_qmd = settings.memory.backend == "qmd"
    usual = settings.memory.qmd.limits.max_results if is_qmd else settings.memory_search.query.max_results
    most = usual if request.max_results is None else max(1, request.max_results)
    return most or MOST_RESULTS, request.stops and not is_qmd and settings.memory_search.query.stops


def limit_memory(memory: Memory, projects: tuple[str, ...]) -> Memory:
    """Return a memory without conversations and entries of other projects; without a project, all of it."""
    limited = Memory(memory.settings, memory._backend, memory.loaded)
    limited._projects = projects
    return limited
