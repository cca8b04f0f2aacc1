"""The readers of an import: what ChatGPT, Claude, mem0 and claude-mem hold, as items.

Of a conversation, the branch that was seen last is read. claude-mem's database is only read, because claude-mem may be
writing to it, and its layout grows: a column may be missing.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, TypeAlias

import apsw

from mdrecall.config.settings import Settings
from mdrecall.errors import BUGS, NotAFile
from mdrecall.extras.imports.exports import JsonFile, find_json, read_items
from mdrecall.extras.imports.items import Item
from mdrecall.extras.imports.sources import Read, Request, dict_of, dicts_of, first_text, seconds_of, text_of
from mdrecall.sessions.foreign_database import open_snapshot
from mdrecall.types.documents import Issue

#: ``conversations.json``, or since 2026 several numbered files; with what Claude remembers.
_CONVERSATIONS, _MEMORIES = (
    re.compile(rf"{name}(?:[-_]\d+)?\.json", re.IGNORECASE) for name in ("conversations", "memories")
)
_SPEAKERS = {"user": "User", "human": "User", "assistant": "Assistant"}
#: What a person sees of ChatGPT's answers; reasoning, tool calls and settings are stored beside it.
_VISIBLE = ("text", "multimodal_text", "code")
# ChatGPT stands these for a source or a picture, between characters that no font has.
_CITATION = re.compile("\ue200[^\ue201]{0,500}\ue201|【[^】]{0,100}†[^】]{0,100}】")
_MEM0_FILES = re.compile(r"(?:.*memor.*|export.*|mem0.*|.*openmemory.*)\.jsonl?", re.IGNORECASE)
_NOT_IN_NAME = re.compile(r"[^\w.@+-]+")
#: A longer name of a note would be unwieldy.
_MAX_NAME_CHARS = 60
#: More people than one person knows. Each note is written to the disk for itself, so that all others share one.
_MAX_PEOPLE = 200
_TABLES = ("sdk_sessions", "observations", "session_summaries", "user_prompts")
#: What names a session in claude-mem's memory, and in the program that it was held with.
_MEMORY_ID, _CONTENT_ID = "memory_session_id", "content_session_id"
_SUMMARY = {
    "request": "Request", "investigated": "Investigated", "learned": "Learned", "completed": "Completed",
    "next_steps": "Next steps", "notes": "Notes",
}  # fmt: skip
#: Files that an observation names; more are a list that nobody reads.
_MAX_FILES = 20
#: More rows than this one session has not made; the rest of a damaged database is left out.
_MAX_ROWS = 20_000

#: Who said something, the text, and when.
_Message: TypeAlias = tuple[str, str, Any]
_Row: TypeAlias = dict[str, Any]


def make_reader(source: str, path: str, settings: Settings) -> Callable[[], Iterator[Read]]:
    """Return a function that yields the items of a source, from the beginning at each call."""
    request = Request(path, settings.defaults.user_timezone, f"{datetime.now(UTC):%Y-%m-%d}")
    readers = {"claude-mem": read_claude_mem, "mem0": read_mem0, "chatgpt": read_chatgpt, "claude": read_claude}
    return lambda: readers[source](request)


def read_chatgpt(request: Request) -> Iterator[Read]:
    """Yield every conversation of ChatGPT's export."""
    return _read_conversations(request, "ChatGPT", "mapping", _read_chatgpt_conversation)


def read_claude(request: Request) -> Iterator[Read]:
    """Yield every conversation of Claude's export, and what Claude remembers of them."""
    yield from _read_conversations(request, "Claude", "chat_messages", _read_claude_conversation)
    if not request.path.lower().endswith(".json"):
        for value in _read_all(find_json(request.path, _MEMORIES)):
            yield from _read_claude_memories(dict_of(value))


def _read_all(files: Iterable[JsonFile]) -> Iterator[Any]:
    return chain.from_iterable(map(read_items, files))


def _try(name: str, read: Callable[..., Read], *arguments: Any) -> Read:
    """Return what a reader makes of an item; one that nobody has thought of costs that item and not the run."""
    try:
        return read(*arguments)
    except BUGS as error:
        return Issue(name, f"it cannot be read ({type(error).__name__})")


def _read_conversations(
    request: Request, program: str, field: str, read: Callable[[_Row, Request], Read]
) -> Iterator[Read]:
    files = find_json(request.path, _CONVERSATIONS)
    if not files:
        hint = "Name the archive that was downloaded, the folder it was unpacked to, or conversations.json."
        raise NotAFile(f"There is no conversations.json in {request.path}.", path=request.path, hint=hint)
    number = known = 0
    for number, value in enumerate(_read_all(files), 1):
        conversation = dict_of(value)
        name = first_text(conversation, "title", "name") or f"conversation {number}"
        is_one = field in conversation
        known += is_one
        wrong = Issue(name, f"it is not a conversation of {program}")
        yield _try(name, read, conversation, request) if is_one else wrong
    if number and not known:
        message = f"{request.path} has no conversations of {program}."
        raise NotAFile(message, path=request.path, hint="Another program may have exported it.")


def _walk_back(nodes: dict[str, _Row], name: str, parent: str) -> list[_Row]:
    """Return the nodes that lead to one, each naming the one before it in a field; a circle ends."""
    left, branch = dict(nodes), []
    while name in left:
        branch.append(left.pop(name))
        name = text_of(branch[-1].get(parent))
    return branch[::-1]


def _read_chatgpt_conversation(conversation: _Row, request: Request) -> Read:
    nodes = {name: dict_of(node) for name, node in dict_of(conversation["mapping"]).items()}
    times = {name: seconds_of(dict_of(node.get("message")).get("create_time")) for name, node in nodes.items()}
    last = text_of(conversation.get("current_node")) or max(times, key=times.__getitem__, default="")
    found = [_read_chatgpt_message(dict_of(node.get("message"))) for node in _walk_back(nodes, last, "parent")]
    return _make_item(
        first_text(conversation, "conversation_id", "id"), text_of(conversation.get("title")), found, request,
        [conversation.get("create_time"), conversation.get("update_time")], "https://chatgpt.com/c/",
    )  # fmt: skip


def _read_chatgpt_message(message: _Row) -> _Message | None:
    """Return what a person said or saw; None for anything else."""
    speaker = _SPEAKERS.get(text_of(dict_of(message.get("author")).get("role")))
    content, metadata = dict_of(message.get("content")), dict_of(message.get("metadata"))
    is_hidden = metadata.get("is_visually_hidden_from_conversation") or metadata.get("is_user_system_message")
    is_for_tool = message.get("recipient") not in (None, "", "all")
    if not speaker or is_hidden or is_for_tool or content.get("content_type", "text") not in _VISIBLE:
        return None
    texts = [_read_part(part) for part in _each(content.get("parts"))] or [text_of(content.get("text"))]
    text = _CITATION.sub("", "\n\n".join(filter(None, texts))).strip()
    return (speaker, text, message.get("create_time")) if text else None


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return part.strip()
    kind = text_of(dict_of(part).get("content_type"))
    return text_of(dict_of(part).get("text")) or ("[image]" if "image" in kind else "")


def _read_claude_conversation(conversation: _Row, request: Request) -> Read:
    messages = _choose_branch(dicts_of(conversation["chat_messages"]))
    return _make_item(
        text_of(conversation.get("uuid")), text_of(conversation.get("name")), map(_read_claude_message, messages),
        request, [conversation.get("created_at"), conversation.get("updated_at")], "https://claude.ai/chat/",
    )  # fmt: skip


def _choose_branch(messages: list[_Row]) -> list[_Row]:
    """Return the messages of the branch that was seen last; all of them in order if they do not say what they answer.

    An export does not say which branch is the current one: it is that of the message that was written last.
    """
    by_id = {text_of(message.get("uuid")): message for message in messages}
    if not any(text_of(message.get("parent_message_uuid")) in by_id for message in messages):
        return messages
    last = max(enumerate(messages), key=lambda one: (seconds_of(one[1].get("created_at")), one[0]))[1]
    return _walk_back(by_id, text_of(last.get("uuid")), "parent_message_uuid")


def _read_claude_message(message: _Row) -> _Message | None:
    speaker = _SPEAKERS.get(text_of(message.get("sender")))
    shown = [text_of(block.get("text")) for block in dicts_of(message.get("content")) if block.get("type") == "text"]
    text = "\n\n".join(filter(None, shown)) or text_of(message.get("text"))
    files = [*dicts_of(message.get("attachments")), *dicts_of(message.get("files"))]
    names = filter(None, (text_of(file.get("file_name")) for file in files))
    said = "\n\n".join(filter(None, (text, *(f"[file: {name}]" for name in names))))
    return (speaker, said, message.get("created_at")) if speaker and said else None


def _make_item(
    key: str, title: str, found: Iterable[_Message | None], request: Request, times: list[Any], site: str
) -> Read:
    """Return a conversation; ``times`` are when it was begun and when it was changed."""
    messages = [message for message in found if message]
    if not key or not messages:
        return Issue(title or key or "a conversation", "it has no messages" if key else "it has no id")
    said = [at for _, _, at in messages]
    day = next(filter(None, map(request.day, (times[0], *said))), "")
    minutes = [request.day(at, " (%Y-%m-%d %H:%M)") for at in said]
    lines = [f"**{who}**{minute}: {text}" for (who, text, _), minute in zip(messages, minutes, strict=True)]
    version = max(map(seconds_of, (*times, *said)))
    url = f"{site}{key}" if re.fullmatch(r"[\w-]{1,100}", key) else ""
    first_line = messages[0][1].split("\n")[0][:80]
    return Item(key, title or first_line, "\n\n".join(lines), day, url=url, session=key, version=version)


def _read_claude_memories(value: _Row) -> Iterator[Read]:
    account = text_of(value.get("account_uuid"))
    if text := text_of(value.get("conversations_memory")):
        yield Item(f"memory:{account}", "What Claude remembers", text)
    for project, memory in dict_of(value.get("project_memories")).items():
        if text := text_of(memory):
            yield Item(f"memory:{account}:{project}", f"What Claude remembers of a project ({project[:8]})", text)


def read_mem0(request: Request) -> Iterator[Read]:
    """Yield every memory of an export, in the note of the person it is about."""
    is_known = False
    people: set[str] = set()
    for value in _read_all(find_json(request.path, _MEM0_FILES)):
        group = dict_of(value)
        names = ("results", "memories", "data", "items")
        listed = next((group[name] for name in names if isinstance(group.get(name), list)), [value])
        for number, memory in enumerate(listed, 1):
            name = f"memory {number}"
            found = _try(name, _read_memory, dict_of(memory), request, name)
            if isinstance(found, Item):
                is_known = True
                if found.path not in people and len(people) >= _MAX_PEOPLE:
                    found = found._replace(path="memories", tags=(found.path, *found.tags))
                people.add(found.path)
            yield found
    if not is_known:
        hint = "Save the answer of get_all as JSON, with a large top_k."
        raise NotAFile(f"{request.path} has no memories of mem0.", path=request.path, hint=hint)


def _read_memory(memory: _Row, request: Request, otherwise: str) -> Read:
    name = text_of(memory.get("id")) or otherwise
    text = first_text(memory, "memory", "content", "text", "data")
    if not text:
        return Issue(name, "it has no text")
    if "" < text_of(memory.get("expiration_date"))[:10] < request.today:
        return Issue(name, "it has expired")
    owner = first_text(memory, "user_id", "agent_id", "app_id", "run_id")
    changed = memory.get("updated_at") or memory.get("created_at")
    return Item(
        # A memory that was changed is another entry: the one that it replaces stays, as does its day.
        f"{name}\0{text}", text[:60], text, request.day(memory.get("created_at")) or request.day(changed),
        path=_NOT_IN_NAME.sub("-", owner)[:_MAX_NAME_CHARS].strip("-.") or "memories", is_entry=True,
        tags=tuple(filter(None, map(text_of, _each(memory.get("categories"))))), version=seconds_of(changed),
    )  # fmt: skip


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Database:
    """The tables of claude-mem, as far as they have the columns."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # A view, or a virtual table that shows one, may be endless.
        tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        self.columns = {
            row["name"]: {text_of(column["name"]) for column in self.run(f'PRAGMA table_info("{row["name"]}")')}
            for row in self.run(tables)
            if row["name"] in _TABLES
        }
        # The row numbers of a table by the value of a column. Each table is read once: it may have no index.
        self._places: dict[tuple[str, str], dict[Any, list[int]]] = {}

    def rows(self, table: str, column: str, value: Any) -> list[_Row]:
        """Return the rows of a table in which a column holds a value; none if it has no such column."""
        if column not in self.columns.get(table, ()) or not value:
            return []
        if (places := self._places.get((table, column))) is None:
            places = self._places[table, column] = {}
            for number, key in self._connection.execute(f'SELECT rowid, "{column}" FROM "{table}"'):
                places.setdefault(key, []).append(number)
        order = ", ".join(name for name in ("created_at_epoch", "id") if name in self.columns[table]) or "rowid"
        numbers = json.dumps(places.get(value, [])[:_MAX_ROWS])
        chosen = "rowid IN (SELECT value FROM json_each(?))"
        return self.run(f'SELECT * FROM "{table}" WHERE {chosen} ORDER BY {order}', (numbers,))

    def run(self, query: str, values: tuple[Any, ...] = ()) -> list[_Row]:
        cursor = self._connection.execute(query, values)
        rows = ((cursor.get_description(), row) for row in cursor)
        return [{column[0]: value for column, value in zip(about, row, strict=True)} for about, row in rows]


def read_claude_mem(request: Request) -> Iterator[Read]:
    """Yield every session of the database that has something to remember."""
    with open_snapshot(request.path) as connection:
        database = _Database(connection)
        if not {"observations", "session_summaries"} & set(database.columns):
            hint = "Name claude-mem's database, usually ~/.claude-mem/claude-mem.db. Stop claude-mem if it is busy."
            raise NotAFile(f"{request.path} is not a database of claude-mem.", path=request.path, hint=hint)
        for session in _list_sessions(database):
            yield _try(f"session {session['memory']}", _read_session, database, session, request)


def _list_sessions(database: _Database) -> list[_Row]:
    """Return every session, also those that only an observation or a summary names."""
    sessions: dict[str, _Row] = {}
    if "sdk_sessions" in database.columns:
        for row in database.run("SELECT * FROM sdk_sessions ORDER BY id"):
            content, platform = text_of(row.get(_CONTENT_ID)), text_of(row.get("platform_source"))
            # Until the first observation a session has no id of its own in the memory, so that is not its key.
            key = content if platform in ("", "claude") else f"{platform} {content}"
            if memory := text_of(row.get(_MEMORY_ID)) or key:
                sessions[memory] = {**row, "key": key or memory, "memory": memory, "content": content}
    for table in ("observations", "session_summaries"):
        if _MEMORY_ID in database.columns.get(table, ()):
            for row in database.run(f'SELECT DISTINCT "{_MEMORY_ID}" AS name FROM "{table}" ORDER BY 1'):
                if name := text_of(row["name"]):
                    sessions.setdefault(name, {"key": name, "memory": name, "content": ""})
    return list(sessions.values())


def _read_session(database: _Database, session: _Row, request: Request) -> Read:
    memory, content = session["memory"], session["content"]
    observations = database.rows("observations", _MEMORY_ID, memory)
    summaries = database.rows("session_summaries", _MEMORY_ID, memory)
    # Sessions with several programs may have the same id, so that newer prompts name the row of their session.
    prompts = database.rows("user_prompts", "session_db_id", session.get("id"))
    prompts = prompts or database.rows("user_prompts", _CONTENT_ID, content)
    asked = list(dict.fromkeys(filter(None, (text_of(row.get("prompt_text")) for row in prompts))))
    asked = asked or list(filter(None, [text_of(session.get("user_prompt"))]))
    if not observations and not summaries and not asked:
        return Issue(f"session {memory}", "it is empty")
    rows = [session, *prompts, *summaries, *observations]
    times = [row.get("started_at_epoch") or row.get("created_at_epoch") or row.get("created_at") for row in rows]
    project = next(filter(None, (text_of(row.get("project")) for row in rows)), "")
    titles = [text_of(session.get("custom_title")), *(text_of(row.get("request")) for row in summaries), *asked]
    titles += [text_of(row.get("title")) for row in observations]
    title = next(filter(None, titles), f"Session {memory[:8]}")
    prompts_text = "\n\n".join(("## Asked", *(f"**User**: {text}" for text in asked))) if asked else ""
    parts = [f"Project: {project}" if project else "", prompts_text]
    parts += [_show_summary(row) for row in summaries] + [_show_observation(row) for row in observations]
    return Item(
        session["key"], title[:80], "\n\n".join(filter(None, parts)), next(filter(None, map(request.day, times)), ""),
        session=content or memory, version=max(map(seconds_of, times)),
    )  # fmt: skip


def _show_summary(row: _Row) -> str:
    lines = [
        f"- {label}: {' '.join(text.split())}" for name, label in _SUMMARY.items() if (text := text_of(row.get(name)))
    ]
    return "\n".join(("## Summary\n", *lines)) if lines else ""


def _show_observation(row: _Row) -> str:
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
