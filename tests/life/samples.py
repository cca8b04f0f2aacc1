"""What other programs would export, in small: written by hand after their formats."""

import json
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any


def chatgpt_message(role: str, *parts: Any, at: float | None = None, **more: Any) -> dict[str, Any]:
    content = {"content_type": more.pop("content_type", "text"), "parts": list(parts)}
    return {"author": {"role": role}, "content": content, "create_time": at, **more}


def chatgpt_conversation(key: str, title: str, said: list[dict[str, Any] | None], at: float) -> dict[str, Any]:
    """A conversation whose messages follow each other."""
    mapping = {
        f"n{number}": {
            "id": f"n{number}", "message": message, "parent": f"n{number - 1}" if number else None,
            "children": [f"n{number + 1}"] if number + 1 < len(said) else [],
        }
        for number, message in enumerate(said)
    }  # fmt: skip
    last = f"n{len(said) - 1}"
    return {
        "id": key, "conversation_id": key, "title": title, "create_time": at, "update_time": at + 60,
        "mapping": mapping, "current_node": last,
    }  # fmt: skip


def lisbon() -> dict[str, Any]:
    """A conversation with an answer that was made again, a hidden message, a call of a tool, and a picture."""
    at = 1_715_500_000.5
    conversation = chatgpt_conversation(
        "c-lisbon",
        "Trip to Lisbon",
        [
            None,
            chatgpt_message("system", "be helpful", metadata={"is_visually_hidden_from_conversation": True}),
            chatgpt_message("user", "When does the train to Lisbon leave?", at=at),
            chatgpt_message("assistant", "search(train)", recipient="browser", content_type="code"),
            chatgpt_message("tool", "a timetable"),
            chatgpt_message("assistant", "At 9:05 from platform 4.\ue200cite\ue202turn0search0\ue201", at=at + 50),
            chatgpt_message("user", {"content_type": "image_asset_pointer"}, "Thanks", content_type="multimodal_text"),
        ],
        at,
    )
    conversation["mapping"]["n2"]["children"].append("old")
    old = chatgpt_message("assistant", "At midnight.", at=at + 5)
    conversation["mapping"]["old"] = {"id": "old", "message": old, "parent": "n2", "children": []}
    return conversation


def write_chatgpt(folder: Path) -> Path:
    said = [None, chatgpt_message("user", "A name for a cat?"), chatgpt_message("assistant", "Mittens.")]
    archive = folder / "chatgpt.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("chat.html", "<html>")
        file.writestr("conversations-000.json", json.dumps([lisbon()]))
        cat = chatgpt_conversation("c-cat", "Cat", said, 1_715_600_000)
        file.writestr("conversations-001.json", json.dumps([cat, {"title": "Draft", "id": "c-0", "mapping": {}}]))
    return archive


def claude_message(key: str, sender: str, text: str, at: str, parent: str = "", **more: Any) -> dict[str, Any]:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    known = {"uuid": key, "sender": sender, "text": "", "content": content, "created_at": at}
    return {**known, **({"parent_message_uuid": parent} if parent else {}), **more}


def write_claude(folder: Path) -> Path:
    export = folder / "claude"
    export.mkdir()
    attached = [{"file_name": "plan.pdf", "extracted_content": "a very long text"}]
    messages = [
        claude_message("m1", "human", "Which stove for the cabin?", "2026-01-05T10:00:00Z", "0", attachments=attached),
        claude_message("m2", "assistant", "A gas stove.", "2026-01-05T10:01:00Z", "m1"),
        claude_message("m3", "assistant", "A wood stove, because of the winter.", "2026-01-05T10:02:00Z", "m1"),
    ]
    at = {"created_at": "2026-02-01T08:00:00Z", "updated_at": "2026-02-01T08:00:00Z"}
    planted = [{"uuid": "g1", "sender": "human", "text": "Plant beans in May", **at}]
    garden = {"uuid": "k-garden", "name": "Garden", "chat_messages": planted, **at}
    cabin = {**garden, "uuid": "k-cabin", "name": "", "chat_messages": messages, "created_at": "2026-01-05T10:00:00Z"}
    (export / "conversations.json").write_text(json.dumps([cabin, garden]))
    (export / "users.json").write_text("[]")
    memories = {"conversations_memory": "**Work**\n\nAda repairs boats.", "project_memories": {"p1": "Paint it blue."}}
    (export / "memories.json").write_text(json.dumps([{**memories, "account_uuid": "a1"}]))
    return export


def write_mem0(folder: Path) -> Path:
    file = folder / "mem0.json"
    memories = [
        {"id": "u1", "memory": "Dev works at TechCorp", "user_id": "dev", "created_at": "2026-02-10T09:00:00+00:00",
         "categories": ["work"], "metadata": {"type": "job"}},
        {"id": "u2", "memory": "Dev drinks oolong", "user_id": "dev", "created_at": "2026-02-11T09:00:00Z"},
        {"id": "u3", "memory": "Arjun prefers mornings", "user_id": "arjun"},
        {"id": "u4", "memory": "", "user_id": "dev"},
        {"id": "u5", "memory": "Dev parks in bay 4", "hash": "ab", "user_id": "dev", "expiration_date": "2026-02-20"},
    ]  # fmt: skip
    file.write_text(json.dumps({"count": 5, "results": memories}))
    return file


def write_claude_mem(folder: Path) -> Path:
    """claude-mem's database with the columns of 13.25.3 that say something."""
    file = folder / "claude-mem.db"
    memory, content = "memory_session_id", "content_session_id"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(
            f"CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, {content} TEXT, {memory} TEXT, project TEXT,"
            " user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER, status TEXT);"
            f"CREATE TABLE observations (id INTEGER PRIMARY KEY, {memory} TEXT, project TEXT, text TEXT, type TEXT,"
            " title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,"
            " files_modified TEXT, prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER);"
            f"CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, {memory} TEXT, project TEXT, request TEXT,"
            " investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, created_at TEXT,"
            " created_at_epoch INTEGER);"
            f"CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, {content} TEXT, prompt_number INTEGER,"
            " prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);"
        )
        at = 1_770_700_000_000
        day = "2026-02-10T05:06:40Z"
        database.execute("INSERT INTO sdk_sessions VALUES (1,'s-1','ms-1','shop','fix it',?,?,'completed')", (day, at))
        database.execute("INSERT INTO sdk_sessions VALUES (2,'s-2','ms-2','shop',NULL,?,?,'active')", (day, at))
        database.execute(
            "INSERT INTO observations VALUES (1,'ms-1','shop',NULL,'decision','Keep 12 connections','in the pool',"
            "'[\"The pool had 20\", \"Postgres allows 15\"]','More than 15 fail.','[\"database\"]','[]',"
            "'[\"src/pool.py\"]',1,?,?)", (day, at),
        )  # fmt: skip
        database.execute(
            "INSERT INTO session_summaries VALUES (1,'ms-1','shop','Fix the pool','the settings','12 is enough',"
            "'pool.py','watch it',NULL,?,?)", (day, at),
        )  # fmt: skip
        database.execute("INSERT INTO user_prompts VALUES (1,'s-1',1,'Why does the shop time out?',?,?)", (day, at))
        database.execute(
            f"INSERT INTO observations (id, {memory}, project, type, title, created_at_epoch)"
            " VALUES (2, 'ms-9', 'shop', 'bugfix', 'A row without a session', ?)",
            (at,),
        )
        database.executescript(
            "ALTER TABLE sdk_sessions ADD COLUMN platform_source TEXT NOT NULL DEFAULT 'claude';"
            "ALTER TABLE user_prompts ADD COLUMN session_db_id INTEGER; UPDATE user_prompts SET session_db_id = 1;"
        )
        database.commit()
    return file


#: What writes a sample of each source into a folder, and a word that a search must find after the import.
SAMPLES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "chatgpt": (write_chatgpt, "platform Lisbon"),
    "claude": (write_claude, "wood stove"),
    "mem0": (write_mem0, "oolong"),
    "claude-mem": (write_claude_mem, "connections pool"),
}
