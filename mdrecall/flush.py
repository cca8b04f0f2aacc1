"""The memory flush for any agent loop: write down what matters before a long conversation is compacted.

*Compaction* replaces a conversation by a summary. Before each turn, call ``check``. If it says run, call ``begin``, ask
the model with ``prompt``, ``append`` its answer, and call ``done``. If that fails, call ``failed``.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple, Self

from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import Settings
from mdrecall.errors import SessionsError
from mdrecall.notes.clock import user_time
from mdrecall.notes.notes import append_daily
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.sessions.flush import (
    DEFAULT_WINDOW,
    Decision,
    FlushHistory,
    Prompts,
    Rules,
    Turn,
    count_attempt,
    daily_path,
    decide,
    make_prompts,
    record_flush,
)
from mdrecall.sessions.messages import visible_text
from mdrecall.sessions.openclaw_entries import Entry, StoredFlushes, read_entry, update_history
from mdrecall.text.annotations import BY_FLUSH
from mdrecall.types.documents import Appended

__all__ = ["Appended", "Decision", "Flush", "FlushHistory", "Prompts", "State"]


class State(NamedTuple):
    """What the loop knows about its session; the rest is taken from ``sessions.json`` and the settings."""

    context_window: int | None = None
    total_tokens: int | None = None
    total_is_fresh: bool | None = None
    prompt_tokens: int = 0
    """The size of the last prompt, as the model's answer counted it."""
    output_tokens: int = 0
    """The size of the answer."""
    estimated_tokens: int = 0
    """How much the next prompt will add."""
    transcript_bytes: int | None = None
    compaction_count: int | None = None
    reserve_tokens: int | None = None
    is_heartbeat: bool = False
    is_cli_provider: bool = False
    is_sandboxed: bool = False
    workspace_access: str = "rw"


class Flush:
    """The flushes of one session, which is named by its session key."""

    def __init__(self, loaded: Loaded, session_key: str) -> None:
        self.settings = loaded.settings
        self.session_key = session_key.strip()
        self._folder = loaded.settings.sessions_dir
        self._state = State()
        self._has_begun = False

    @classmethod
    def open(
        cls,
        session_key: str,
        workspace: str | os.PathLike[str] | None = None,
        *,
        agent: str | None = None,
        config: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Open the flushes of a session; the workspace and the settings are found as by ``Memory.open``."""
        where, file = (None if path is None else os.fspath(path) for path in (workspace, config))
        return cls(load(env=env, workspace=where, agent=agent, config=file), session_key)

    def check(self, state: State | None = None, *, history: FlushHistory | None = None) -> Decision:
        """Decide whether to flush before the next turn; ``history`` is for loops that do not use ``sessions.json``."""
        self.expect(state or State())
        entry = None if history or not self.session_key else self._read_entry()
        found = entry or Entry(history or FlushHistory(has_entry=self.settings.standalone))
        return decide(flush_rules(self.settings, self._state.reserve_tokens), self._turn(found), found.history)

    def expect(self, state: State) -> None:
        """Set what the loop knows without a decision, for a process that only records how a flush ended."""
        self._state = state

    def begin(self) -> None:
        """Count an attempt before it is made, so that one that kills the process counts too."""
        self._update_history(lambda entry: count_attempt(entry.history, self._count(entry)), None)
        self._has_begun = True

    def prompt(
        self, now: datetime | None = None, zone: str | tzinfo | None = None, *, extra_system: str = ""
    ) -> Prompts:
        """Return the prompts for the model; ``extra_system`` is the rest of the run's system prompt."""
        custom = self.settings.compaction.memory_flush
        prompts = make_prompts(
            self._user_time(now, zone),
            user=custom.prompt,
            system=custom.system_prompt,
            extra_system=extra_system,
            twelve_hours=self.settings.defaults.time_format == "12",
        )
        return prompts._replace(model=custom.model or "")

    def append(
        self, text: str, now: datetime | None = None, zone: str | tzinfo | None = None, *, path: str | None = None
    ) -> Appended:
        """Append to the note of the present day; an answer of ``NO_REPLY`` appends nothing.

        ``path`` is where the model means to write. Any file but the day's note is refused.
        """
        moment, said = self._user_time(now, zone), visible_text(text)
        if text.strip() and not said.strip():
            return Appended(daily_path(moment), 0)
        limit, day = self.settings.mdrecall.max_file_bytes, str(moment.date())
        masked = open_tombstones(self.settings).load().mask(said)
        return append_daily(self.settings.workspace, masked, day, path=path, max_bytes=limit, author=BY_FLUSH)

    def done(self, now: datetime | None = None, *, compaction_count: int | None = None) -> None:
        """Record that the flush succeeded; give the count of compactions if ``sessions.json`` has an older one."""
        moment = now or datetime.now(UTC)

        def change(entry: Entry) -> FlushHistory:
            count = self._count(entry) if compaction_count is None else compaction_count
            return record_flush(entry.history, count, self._bytes(entry))

        self._update_history(change, int(moment.timestamp() * 1000))
        self._has_begun = False

    def failed(self) -> None:
        """Record that the flush failed; after three failures the session is not flushed until the next compaction."""
        if not self._has_begun:
            self.begin()
        self._has_begun = False

    def _update_history(self, change: Callable[[Entry], FlushHistory], now_ms: int | None) -> None:
        if not self.session_key:
            raise SessionsError("There is no session to record a flush for.", hint="Give a session key.")
        if not self._open_stored().update(self.session_key, change):
            update_history(self._folder, self.session_key, change, now_ms=now_ms, create=self.settings.standalone)

    def _read_entry(self) -> Entry | None:
        """Return the session's entry in OpenClaw's database, or else in ``sessions.json``."""
        return self._open_stored().read(self.session_key) or read_entry(self._folder, self.session_key)

    def _open_stored(self) -> StoredFlushes:
        return StoredFlushes(self.settings.session_database, self.settings.index_path)

    def _turn(self, entry: Entry) -> Turn:
        state, configured = self._state, self.settings.defaults.context_tokens
        given_total = state.total_tokens is not None
        fresh = given_total or entry.total_is_fresh if state.total_is_fresh is None else state.total_is_fresh
        said = {name: value for name, value in state._asdict().items() if name in Turn._fields}
        known = {
            "context_window": state.context_window or entry.context_tokens or configured or DEFAULT_WINDOW,
            "total_tokens": state.total_tokens if given_total else entry.total_tokens,
            "total_is_fresh": fresh,
            "transcript_bytes": self._bytes(entry),
            "compaction_count": self._count(entry),
        }
        return Turn(**said | known)

    def _user_time(self, now: datetime | None, zone: str | tzinfo | None) -> datetime:
        return user_time(now, zone, self.settings.defaults.user_timezone)

    def _count(self, entry: Entry) -> int:
        given = self._state.compaction_count
        return entry.compaction_count if given is None else given

    def _bytes(self, entry: Entry) -> int:
        if self._state.transcript_bytes is not None:
            return self._state.transcript_bytes
        if entry.visible_bytes is not None:
            return entry.visible_bytes
        file = entry.file or (f"{entry.session}.jsonl" if entry.session else "")
        try:
            return os.stat(os.path.join(self._folder, file)).st_size if file else 0
        except OSError:
            return 0


def flush_rules(settings: Settings, reserve_tokens: int | None = None) -> Rules:
    """Return the configured rules; ``reserve_tokens`` is what the loop keeps free by itself, if known."""
    compaction = settings.compaction
    flush = compaction.memory_flush
    return Rules(
        enabled=flush.enabled,
        soft_threshold_tokens=flush.soft_threshold_tokens,
        force_bytes=flush.force_flush_transcript_bytes,
        reserve_tokens=compaction.reserve_tokens if reserve_tokens is None else reserve_tokens,
        reserve_tokens_floor=compaction.reserve_tokens_floor,
    )
