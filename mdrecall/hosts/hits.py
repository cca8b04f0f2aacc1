"""Passages of notes that a hook shows to a model: only sure ones, and none twice in a session."""

import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from mdrecall import state_files
from mdrecall.hosts.events import HookCall, HookEvent
from mdrecall.memory import Memory
from mdrecall.sources.repository import project_keys
from mdrecall.types import SearchResult

#: The session of a person with an agent of their own, as OpenClaw names it: MEMORY.md is for it.
SESSION_KEY = "main"
#: The beginning of a passage says what it is about; its path and lines lead to the rest.
_MAX_HIT_CHARS = 400
#: Sessions that are remembered, and passages of each. Both bound a file that is read and written at each prompt.
_MAX_SESSIONS, _MAX_SHOWN = 40, 200


class Cited(Protocol):
    """What is shown with its lines."""

    @property
    def citation(self) -> str: ...


def find_sure_hits(
    call: HookCall, memory: Memory, query: str, *, most: int, by_name: bool = False
) -> list[SearchResult]:
    """Return the passages that surely fit a query, the best first.

    A passage is sure if its score says so; with ``by_name`` also if it is likely and holds every identifier of the
    query. Without an index there are none, because building it takes longer than a host waits. qmd would have to be
    started, and is not asked.
    """
    settings = call.settings
    if not query or settings.memory.backend != "builtin" or not os.path.exists(settings.index_path):
        return []
    has_sessions = "sessions" in settings.memory_search.sources
    answer = memory.search(
        query,
        max_results=2 * most,
        explain=by_name,
        source="memory" if has_sessions else None,
        now=call.now,
        current_projects=project_keys(call.event.cwd, settings.workspace),
    )
    return [hit for hit in answer if _is_sure(hit) and not hit.superseded][:most]


def _is_sure(hit: SearchResult) -> bool:
    is_named = any(part == "identified" and share >= 1 for part, share, _ in hit.why)
    return hit.confidence == "high" or (hit.confidence == "medium" and is_named)


def render_hits(hits: Iterable[SearchResult], room: int) -> str:
    """Return each passage on a line with its path and lines, as many as there is room for."""
    lines: list[str] = []
    for hit in hits:
        text = " ".join(hit.snippet.split())
        line = f"- {hit.citation}: {text[: _MAX_HIT_CHARS - 1] + '…' if len(text) > _MAX_HIT_CHARS else text}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def list_shown(call: HookCall) -> list[str]:
    """Return the passages that the model of this session has been shown."""
    shown = state_files.load(_path_of(call)).get(_key_of(call.event))
    return [entry for entry in shown if isinstance(entry, str)] if isinstance(shown, list) else []


def remember_shown(call: HookCall, hits: Iterable[Cited], *, earlier: Sequence[str] = ()) -> None:
    """Remember what the model has been shown. The session used last is at the end, and the oldest are forgotten."""
    sessions = state_files.load(_path_of(call))
    sessions.pop(_key_of(call.event), None)
    sessions[_key_of(call.event)] = [*earlier, *(hit.citation for hit in hits)][-_MAX_SHOWN:]
    try:
        state_files.save(_path_of(call), dict(list(sessions.items())[-_MAX_SESSIONS:]))
    except OSError as error:
        call.log(f"What was shown cannot be remembered: {error.strerror or error}.")


def _path_of(call: HookCall) -> str:
    return os.path.join(call.settings.state_dir, "mdrecall-hosts", "shown", "hits.json")


def _key_of(event: HookEvent) -> str:
    return f"{event.host.name} {event.session}"
