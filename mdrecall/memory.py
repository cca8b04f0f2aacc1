"""Memory: the face that Python users open."""

import os
from collections.abc import Callable, Mapping
from math import isnan
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from mdrecall.backends.open import open_backend
from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import Settings
from mdrecall.errors import MemoryDisabled, PathRefused, QueryError
from mdrecall.interfaces import Backend
from mdrecall.types import (
    Appended,
    Conversation,
    Issue,
    Probe,
    ProgressCallback,
    ReadResult,
    SearchAnswer,
    SearchOptions,
    SearchRequest,
    SourceCount,
    Status,
    Stop,
    SyncReport,
    WatchEvent,
    never,
)

if TYPE_CHECKING:
    from datetime import datetime

    from mdrecall.backends.pool import BackendPool
    from mdrecall.sources.notes import NotePath


class Memory:
    """One workspace's memory. Use it as a context manager, or call ``close()`` when done."""

    def __init__(
        self,
        settings: Settings,
        backend: Backend,
        loaded: Loaded | None = None,
        let_go: Callable[[], None] | None = None,
    ) -> None:
        """``loaded`` is what the settings came with, for plugins; ``let_go`` ends the use of a shared backend."""
        self.settings = settings
        self.loaded = loaded
        self._backend = backend
        self._let_go = let_go or backend.close

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
        """Open the memory of a workspace: the one given, else the one OpenClaw is configured for, else this folder.

        ``overrides`` are ``memorySearch`` settings by their dotted name that win over every file. ``one_shot`` says
        that one question will be asked: nothing is loaded then that pays only for many.
        """
        loaded = load(
            env=env,
            workspace=None if workspace is None else os.fspath(workspace),
            agent=agent,
            config=None if config is None else os.fspath(config),
            overrides=overrides,
        )
        return cls.of(loaded, one_shot=one_shot)

    @classmethod
    def of(cls, loaded: "Loaded", *, one_shot: bool = False, shared: "BackendPool | None" = None) -> Self:
        """Open the memory that settings ask for which have been loaded already.

        With ``shared``, all memories of the same agent and settings stand on one backend, which ends with the last.
        """
        if not loaded.settings.memory_search.enabled:
            origin = loaded.values["memorySearch.enabled"].origin
            message = f"The memory of agent {loaded.settings.agent_id} is switched off ({origin})."
            raise MemoryDisabled(message, hint="Set memorySearch.enabled to true to use it.")
        if shared is not None:
            backend, let_go = shared.acquire(loaded)
            return cls(loaded.settings, backend, loaded, let_go)
        return cls(loaded.settings, open_backend(loaded, one_shot=one_shot), loaded)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchAnswer:
        """The best snippets for a query, best first; an empty answer says why and what to do.

        ``mode`` is ``keyword``, ``vector`` or ``hybrid``; without it, what the settings say (by default hybrid).
        ``source`` is ``memory`` for notes or ``sessions`` for transcripts; without it, all that is indexed.
        ``progress`` is told how far the indexing of changed files is, which comes first. A ``session_key`` that is
        new begins a conversation, for ``sync.onSessionStart``.
        """
        request = SearchRequest(query, **options)
        if request.min_score is not None and isnan(request.min_score):
            raise QueryError("The lowest score is not a number.", hint="Give one from 0 to 1, or none.")
        return self._backend.search(request)

    def read(self, path: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """Lines of a memory file, straight from the disk; a ``ReadError`` says why a path is refused."""
        return self._backend.read(path, from_line=from_line, lines=lines)

    #: OpenClaw's name for it.
    read_file = read

    def append(
        self, text: str, *, file: str | None = None, now: "datetime | None" = None, session_key: str = ""
    ) -> Appended:
        """Append a text to a note as it is; nothing that stands there is changed.

        ``file`` is a day (``YYYY-MM-DD``), a note by its name or its path in ``memory/``, or ``MEMORY.md``; without it,
        the note of the day that it is ``now`` for the user. Under a ``session_key`` that is not the agent's main
        private conversation only that one is written, as in a memory flush. Sections that the note has already are
        left out; a ``WriteError`` says why a text is not written.
        """
        from mdrecall.sources.notes import append_note

        place = self._place(file or "", now, session_key)
        return append_note(self.settings.workspace, text, place, max_bytes=self.settings.mdrecall.max_file_bytes)

    def _place(self, file: str, now: "datetime | None", session_key: str) -> "NotePath":
        from mdrecall.core.conversation.session_key import parse
        from mdrecall.sources.files import MemoryFiles
        from mdrecall.sources.notes import resolve_note, user_time

        files = MemoryFiles(self.settings, self.loaded.home if self.loaded else os.sep)
        is_plain = files.is_whole_folder() and bool(files.scan().stamps)
        today = user_time(now, None, self.settings.defaults.user_timezone).date().isoformat()
        place, days = (resolve_note(name, today=today, is_plain=is_plain) for name in (file, ""))
        if place != days and session_key.strip() and not parse(session_key).is_main_of(self.settings.agent_id):
            hint = f"Write to {days.shown}, the only note that this conversation may append to."
            raise PathRefused(f"{place.shown} is not the note of the day.", path=place.shown, hint=hint)
        return place

    def sync(self, *, force: bool = False, progress: ProgressCallback | None = None, stop: Stop = never) -> SyncReport:
        """Bring the index in line with the files; ``force`` builds a new index beside the one that answers.

        ``stop`` is asked between files: once it says yes, what is done is kept, and the report says what is left.
        """
        return self._backend.sync(force=force, progress=progress, stop=stop)

    def sessions(self) -> list[Conversation]:
        """The transcripts of this agent's conversations, the last changed first."""
        return self._backend.sessions.list_all()

    def compacted(self, session: str) -> SyncReport:
        """Tell that a conversation was compacted: its transcript is indexed whatever it has grown by.

        Whether that is waited for is up to ``compaction.postIndexSync``.
        """
        return self._backend.sessions.note_compaction(session)

    def read_session(self, session: str, *, from_line: int | None = None, lines: int | None = None) -> ReadResult:
        """What is said in some records of a transcript, without secrets; ``session`` is an id, file name or path."""
        return self._backend.sessions.read(session, from_line=from_line, lines=lines)

    def watch(self) -> None:
        """Follow the files in the background until the memory is closed, as ``sync.watch`` and its like have it."""
        self._backend.watch.start()

    def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        """Follow the files in this thread, telling what happens, until ``stop_following`` is called."""
        self._backend.watch.run(tell)

    def stop_following(self) -> None:
        """End ``follow``, from another thread or a signal."""
        self._backend.watch.stop()

    def status(self) -> Status:
        """What is indexed, where, and how."""
        return self._backend.status()

    def counts(self) -> tuple[SourceCount, ...]:
        """How many files and chunks of each source are indexed."""
        return self._backend.admin.counts()

    def issues(self) -> tuple[Issue, ...]:
        """What there is to say about the files: links, missing or closed folders, names that are not Unicode."""
        return self._backend.admin.issues()

    def check(self) -> tuple[str, ...]:
        """What is wrong with the index file; nothing, if it is sound."""
        return self._backend.admin.check()

    def index_files(self) -> list[tuple[str, int]]:
        """Every file that belongs to the index, with its size in bytes."""
        return self._backend.admin.index_sizes()

    def reset(self) -> None:
        """Delete the index and nothing else; the next search or sync makes it again from the notes."""
        self._backend.admin.reset()

    def probe_embedding(self) -> Probe:
        """Whether embeddings can be made."""
        return self._backend.admin.probe_embedding()

    def probe_vectors(self) -> bool:
        """Whether vectors can be searched."""
        return self._backend.admin.probe_vectors()

    def close(self) -> None:
        """Let go of the index; may be called twice."""
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
