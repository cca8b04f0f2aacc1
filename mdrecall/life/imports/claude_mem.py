"""What claude-mem remembers: its SQLite database, one note for each session with its prompts, summaries, observations.

The database belongs to claude-mem, which may be writing to it: it is opened read-only. Its layout has changed over the
years, so only columns that are there are read.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw

from mdrecall.core.life.imported import Item
from mdrecall.errors import BUGS, NotAFile
from mdrecall.life.imports.reading import Read, Request, Skipped, seconds_of, text_of
from mdrecall.sources.transcripts.foreign_database import open_snapshot

#: What a session and the rows that belong to it are called now, and were called in 2025.
_MEMORY_IDS = ("memory_session_id", "sdk_session_id", "session_id")
_CONTENT_IDS = ("content_session_id", "claude_session_id", "session_id")
_SUMMARY = {
    "request": "Request", "investigated": "Investigated", "learned": "Learned", "completed": "Completed",
    "next_steps": "Next steps", "notes": "Notes",
}  # fmt: skip
#: Files that an observation names; more are a list that nobody reads.
_MAX_FILES = 20
#: More rows than this one session has not made; the rest of a damaged database is left out.
_MAX_ROWS = 20_000
_HINT = "Name claude-mem's database, usually ~/.claude-mem/claude-mem.db. Stop claude-mem if it is busy."


class _Database(NamedTuple):
    connection: apsw.Connection
    columns: dict[str, set[str]]
    places: dict[tuple[str, str], dict[Any, list[int]]]
    """The row numbers of a table by the value of a column. Each table is read once: it may have no index."""

    def rows(self, table: str, names: tuple[str, ...], value: Any) -> list[dict[str, Any]]:
        """Return the rows of a table in which the first of these columns that it has holds a value."""
        column = self.find_column(table, names)
        if not column or not value:
            return []
        if (places := self.places.get((table, column))) is None:
            places = self.places[table, column] = {}
            for number, key in self.connection.execute(f'SELECT rowid, "{column}" FROM "{table}"'):
                places.setdefault(key, []).append(number)
        order = ", ".join(name for name in ("created_at_epoch", "id") if name in self.columns[table]) or "rowid"
        chosen = "rowid IN (SELECT value FROM json_each(?))"
        numbers = json.dumps(places.get(value, [])[:_MAX_ROWS])
        return self.run(f'SELECT * FROM "{table}" WHERE {chosen} ORDER BY {order}', (numbers,))

    def find_column(self, table: str, names: tuple[str, ...]) -> str:
        return next((name for name in names if name in self.columns.get(table, ())), "")

    def run(self, query: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        cursor = self.connection.execute(query, values)
        rows = ((cursor.get_description(), row) for row in cursor)
        return [{column[0]: value for column, value in zip(about, row, strict=True)} for about, row in rows]


def read_claude_mem(request: Request) -> Iterator[Read]:
    """Yield every session of the database that has something to remember."""
    with open_snapshot(request.path) as connection:
        database = _Database(connection, {}, {})
        for table in ("sdk_sessions", "observations", "session_summaries", "user_prompts"):
            # A view, or a virtual table that shows one, may be endless.
            if database.run("SELECT 1 FROM pragma_table_list WHERE name = ? AND type = 'table'", (table,)):
                found = database.run(f'PRAGMA table_info("{table}")')
                database.columns[table] = {text_of(row["name"]) for row in found}
        if not {"observations", "session_summaries"} & set(database.columns):
            raise NotAFile(f"{request.path} is not a database of claude-mem.", path=request.path, hint=_HINT)
        for session in _list_sessions(database):
            try:
                yield _read_session(database, session, request)
            except BUGS as error:
                yield Skipped(f"session {session['memory']}", f"it cannot be read ({type(error).__name__})")


def _list_sessions(database: _Database) -> list[dict[str, Any]]:
    """Return every session, also those that only an observation or a summary names."""
    sessions: dict[str, dict[str, Any]] = {}
    if "sdk_sessions" in database.columns:
        for row in database.run("SELECT * FROM sdk_sessions ORDER BY id"):
            content, platform = _first(row, _CONTENT_IDS), text_of(row.get("platform_source"))
            # Until the first observation a session has no id of its own in the memory, so that is not its key.
            key = content if platform in ("", "claude") else f"{platform} {content}"
            if memory := _first(row, _MEMORY_IDS) or key:
                sessions[memory] = {**row, "key": key or memory, "memory": memory, "content": content}
    for table in ("observations", "session_summaries"):
        if column := database.find_column(table, _MEMORY_IDS):
            for row in database.run(f'SELECT DISTINCT "{column}" AS name FROM "{table}" ORDER BY 1'):
                if name := text_of(row["name"]):
                    sessions.setdefault(name, {"key": name, "memory": name, "content": ""})
    return list(sessions.values())


def _read_session(database: _Database, session: dict[str, Any], request: Request) -> Read:
    memory, content = session["memory"], session["content"]
    observations = database.rows("observations", _MEMORY_IDS, memory)
    summaries = database.rows("session_summaries", _MEMORY_IDS, memory)
    # Sessions with several programs may have the same id, so that newer prompts name the row of their session.
    prompts = database.rows("user_prompts", ("session_db_id",), session.get("id"))
    prompts = prompts or database.rows("user_prompts", _CONTENT_IDS, content)
    asked = list(dict.fromkeys(filter(None, (text_of(row.get("prompt_text")) for row in prompts))))
    asked = asked or [text for text in [text_of(session.get("user_prompt"))] if text]
    if not observations and not summaries and not asked:
        return Skipped(f"session {memory}", "it is empty")
    rows = [session, *prompts, *summaries, *observations]
    times = [row.get("started_at_epoch") or row.get("created_at_epoch") or row.get("created_at") for row in rows]
    project = next(filter(None, (text_of(row.get("project")) for row in rows)), "")
    title = text_of(session.get("custom_title")) or next(
        filter(None, [*(text_of(row.get("request")) for row in summaries), *asked,
                      *(text_of(row.get("title")) for row in observations)]),
        f"Session {memory[:8]}",
    )  # fmt: skip
    parts = [f"Project: {project}" if project else "", _show_prompts(asked)]
    parts += [_show_summary(row) for row in summaries] + [_show_observation(row) for row in observations]
    return Item(
        session["key"], title[:80], "\n\n".join(filter(None, parts)), next(filter(None, map(request.day, times)), ""),
        session=content or memory, version=max(map(seconds_of, times)),
    )  # fmt: skip


def _show_prompts(asked: list[str]) -> str:
    return "\n\n".join(("## Asked", *(f"**User**: {text}" for text in asked))) if asked else ""


def _show_summary(row: dict[str, Any]) -> str:
    lines = [
        f"- {label}: {' '.join(text.split())}" for name, label in _SUMMARY.items() if (text := text_of(row.get(name)))
    ]
    return "\n".join(("## Summary\n", *lines)) if lines else ""


def _show_observation(row: dict[str, Any]) -> str:
    kind, title = text_of(row.get("type")), text_of(row.get("title"))
    body = [text_of(row.get(name)) for name in ("subtitle", "narrative", "text")]
    facts = "\n".join(f"- {' '.join(fact.split())}" for fact in _list(row.get("facts")))
    files = list(dict.fromkeys([*_list(row.get("files_modified")), *_list(row.get("files_read"))]))
    more = [("Concepts", _list(row.get("concepts"))), ("Files", files[:_MAX_FILES])]
    about = " · ".join(f"{label}: {', '.join(values)}" for label, values in more if values)
    heading = ": ".join(filter(None, (kind, " ".join(title.split()))))
    shown = [*dict.fromkeys(filter(None, body)), facts, about]
    return "\n\n".join(filter(None, (f"## {heading}" if heading else "", *shown)))


def _list(value: Any) -> list[str]:
    """Return a list of texts that is stored as JSON; a plain text is one of them."""
    text = text_of(value)
    try:
        found = json.loads(text) if text.startswith("[") else [text]
    except (ValueError, RecursionError):
        found = [text]
    return [one for one in map(text_of, found) if one]


def _first(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return next(filter(None, (text_of(row.get(name)) for name in names)), "")
