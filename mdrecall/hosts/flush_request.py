"""Ask a host's own model to write down what matters, once between two compactions."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.core.conversation.flush import DEFAULT_WINDOW, FlushHistory, Turn, decide, make_request
from mdrecall.flush import flush_rules, local_moment
from mdrecall.hosts.progress import MAX_BYTES, lock_progress, progress_path, stamp_of_transcript

if TYPE_CHECKING:
    from mdrecall.hosts.events import HookEvent

_ENDING = ".flush"


class _Context(NamedTuple):
    """What is known about the context of a session, and when its model was asked."""

    number: int = 0
    """The last record that was read."""
    offset: int = 0
    tokens: int = 0
    compactions: int = 0
    requests: int = 0
    """How many times the model was asked."""
    asked_at: int = -1
    """The number of compactions when it was asked last; -1 if it never was."""


def ask_for_flush(event: "HookEvent", settings: Settings, now: datetime) -> str:
    """Return what to ask the host's model at a stop, if its context is nearly full; empty if nothing is to be asked.

    A request costs a turn, so it is recorded before it is made: one that gets lost is not repeated.
    """
    if not _may_ask(event, settings):
        return ""
    path = progress_path(settings, event.host.name, event.session) + _ENDING
    with lock_progress(settings) as is_ours:
        if not is_ours:
            return ""
        known = _load(path)
        context = _read_on(known, event)
        turn = Turn(
            context_window=settings.defaults.context_tokens or DEFAULT_WINDOW,
            total_tokens=context.tokens,
            compaction_count=context.compactions,
        )
        history = FlushHistory(flushed_count=context.asked_at if context.asked_at >= 0 else None)
        is_due = decide(flush_rules(settings), turn, history).run
        if is_due:
            context = context._replace(requests=context.requests + 1, asked_at=context.compactions)
        if context != known:
            state_files.save(path, context._asdict())
    if not is_due:
        return ""
    custom = settings.compaction.memory_flush.prompt
    return make_request(local_moment(settings, now), settings.workspace, user=custom)


def _may_ask(event: "HookEvent", settings: Settings) -> bool:
    """True if the host's model may be asked for a turn: at a real stop of a session that a person sits in front of."""
    hosts = settings.mdrecall.hosts
    is_stop = event.event == "stop" and not event.is_stop_active and not event.is_subagent
    is_seen = not event.is_headless or hosts.flush_headless
    return bool(is_stop and is_seen and hosts.flush and event.session and stamp_of_transcript(event.transcript))


def _read_on(context: _Context, event: "HookEvent") -> _Context:
    """Return the context after the records that were added since; what is too much for once comes next time."""
    from mdrecall.sources.transcripts.hosts import read_steps

    size = 0
    for record in read_steps(event.host.name, event.transcript, offset=context.offset, number=context.number):
        if record.end is None or size >= MAX_BYTES:
            break
        size += record.size
        compactions = sum(step.kind == "compaction" for step in record.steps)
        context = context._replace(
            number=record.number,
            offset=record.end,
            # What was counted before a compaction says nothing about what is left after it.
            tokens=record.tokens or (0 if compactions else context.tokens),
            compactions=context.compactions + compactions,
        )
    return context


def _load(path: str) -> _Context:
    found, new = state_files.load(path), _Context()
    return new._replace(**{name: found[name] for name in new._fields if type(found.get(name)) is int})
