"""What a message brings to mind: curated entries with a trigger that it holds, found without a model."""

import os
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from mdrecall.errors import ReadError, RecallError
from mdrecall.memory import Memory
from mdrecall.notes.opening import decode, read_beginning
from mdrecall.sessions.messages import MIN_SCORE, Message, combine_scores
from mdrecall.sessions.visibility import parse
from mdrecall.text.annotations import is_for, read_projects
from mdrecall.text.notes import CURATED_FILES, iter_note_chunks
from mdrecall.types.documents import format_citation

#: The limits of OpenClaw for entries that a message brings to mind.
_MAX_TRIGGERED, _TRIGGER_CHARS = 3, 1_800
#: Less of an entry says too little to be worth a line.
_MIN_TRIGGER_CHARS = 80
#: A longer message holds pasted text, whose words nobody meant.
_MAX_MESSAGE_CHARS = 2_000
#: Who may write what an agent is told unasked. The owner's own lines in the curated files have no author.
_TRUSTED = ("", "owner", "agent")


class Recalled(NamedTuple):
    """A curated entry that a message brings to mind."""

    path: str
    start_line: int
    end_line: int
    text: str
    triggers: tuple[str, ...]
    score: float = 0.0

    @property
    def citation(self) -> str:
        return format_citation(self.path, self.start_line, self.end_line)

    def render(self) -> str:
        """Return the entry on a line, with its source as OpenClaw writes it."""
        return f"- {self.text} (Source: {self.citation})"


def recall_triggers(
    memory: Memory, session_key: str, message: str, projects: Collection[str] = ()
) -> tuple[Recalled, ...]:
    """Return the entries of ``MEMORY.md`` and ``USER.md`` whose triggers a message holds, the best first.

    Only in private sessions of this agent, only entries of people and agents that are trusted, none that is
    superseded, and no more than a few lines. Where ``projects`` are known, entries of others are left out. The index is
    searched only where that decides, and must exist.
    """
    if not parse(session_key).is_private_of(memory.settings.agent_id):
        return ()
    said = Message(message[:_MAX_MESSAGE_CHARS])
    entries = read_triggered(memory, read_projects(projects))
    scored = [(entry, said.score_triggers(entry.triggers)) for entry in entries]
    hopeful = [(entry, score) for entry, score in scored if combine_scores(score, 1.0) >= MIN_SCORE]
    is_open = any(combine_scores(score, 0.0) < MIN_SCORE for _, score in hopeful)
    found = _search_scores(memory, message) if is_open else {}
    ranked = [entry._replace(score=combine_scores(score, found.get(entry.citation, 0.0))) for entry, score in hopeful]
    best = sorted((entry for entry in ranked if entry.score >= MIN_SCORE), key=lambda entry: -entry.score)
    return _fit(best)


def _fit(entries: list[Recalled]) -> tuple[Recalled, ...]:
    """Return the first entries that fit into the room for them; a long one is cut."""
    fitting: list[Recalled] = []
    room = _TRIGGER_CHARS
    for entry in entries[:_MAX_TRIGGERED]:
        frame = len(entry.render()) - len(entry.text) + 1
        if room - frame < min(_MIN_TRIGGER_CHARS, len(entry.text)):
            break
        shown = entry.text if len(entry.text) <= room - frame else entry.text[: room - frame - 1] + "…"
        fitting.append(entry._replace(text=shown))
        room -= frame + len(shown)
    return tuple(fitting)


def read_triggered(memory: Memory, projects: frozenset[str]) -> list[Recalled]:
    """Return the entries of the curated files that have triggers and may be shown."""
    entries, workspace, most = [], memory.settings.workspace, memory.settings.mdrecall.max_file_bytes
    is_shared = bool(memory.loaded and memory.loaded.shared_store)
    for path in sorted(CURATED_FILES):
        # Most are missing or have no annotation, which is seen without all that reading a note takes.
        data = read_beginning(os.path.join(workspace, path), most)
        if "<!--" not in decode(data) and (data or not is_shared):
            continue
        try:
            text = memory.read(path, max_chars=most).text
        except ReadError:
            continue
        chunking = memory.settings.memory_search.chunking
        for chunk in iter_note_chunks(path, text, tokens=chunking.tokens, overlap=0):
            marks = chunk.marks
            is_trusted = marks.origin in _TRUSTED and is_for(marks.project, projects)
            if marks.triggers and is_trusted and not marks.is_superseded:
                shown = " ".join(chunk.text.split()).removeprefix("- ")
                entries.append(Recalled(path, chunk.start_line, chunk.end_line, shown, marks.triggers))
    return entries


def _search_scores(memory: Memory, message: str) -> dict[str, float]:
    """Return the scores that a search for a message gives to entries, by their citations."""
    settings = memory.settings
    with suppress(RecallError):
        if settings.memory.backend == "builtin" and os.path.exists(settings.index_path):
            answer = memory.search(message[:_MAX_MESSAGE_CHARS], max_results=10, min_score=0.0)
            return {result.citation: result.score for result in reversed(answer.results)}
    return {}
