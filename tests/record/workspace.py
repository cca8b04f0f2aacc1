"""The fixed workspace that the record is made on."""

import json
import os
from pathlib import Path
from typing import Any

from mdrecall.config.load import load

# The times of files are part of some answers, and a file that was just written is looked at again.
FILE_TIME_NS = 1_770_000_000_000_000_000

NOTES: dict[str, str | bytes] = {
    "MEMORY.md": "# Team\n\nAna keeps the billing keys.\n\n## Pricing\n\nThe team plan costs 49 a month.\n",
    "memory/2026-02-09.md": "# Monday\n\nOrdered new chairs for the office.\n",
    "memory/2026-02-10.md": (
        "# Tuesday\n\nMet Ana about the billing migration.\nIt waits for report DEC-0054.\n\n"
        "## Deploy\n\n`parse_user_id()` fails with E_CONN_RESET in v2.13.1, see src/app/main.py.\n"
    ),
    "memory/garden.md": "# Garden\n\n" + "".join(f"Row {number}: beans and basil.\n\n" for number in range(1, 60)),
    "memory/会议.md": "# 会议\n\n我们决定每周五在图书馆见面。\n",
    "memory/日本.md": "# 東京\n\n会議は金曜日に図書館で行います。\n",
    "memory/café.md": "# Café\n\nNaïve résumé über Größe: der Kaffee kostet 3 €.\n",
    "memory/empty.md": "",
    "memory/latin.md": b"caf\xe9 on the pier\n",
    "memory/large.md": "x" * 60_001,
    "elsewhere.md": "not a memory file\n",
}
MESSAGES = (
    ("user", "Where is the lighthouse key?"),
    ("assistant", "In the blue drawer, next to the walrus."),
    ("user", "And who paints the boat house?"),
    ("assistant", "Ana paints it in spring."),
)
# The encoder's vectors come when they are made, and differ in their last bits between machines.
CONFIG: dict[str, Any] = {
    "memorySearch": {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}},
    "mdrecall": {"maxFileBytes": 60_000, "tools": {"append": True}, "encoder": False},
}
CONVERSATION: dict[str, Any] = {
    "id": "c-1", "title": "Trip to Lisbon", "create_time": 1_715_500_000, "current_node": "b",
    "mapping": {
        "a": {"message": {"author": {"role": "user"}, "content": {"parts": ["When does the train leave?"]}}},
        "b": {"message": {"author": {"role": "assistant"}, "content": {"parts": ["At 9:05."]}}, "parent": "a"},
    },
}  # fmt: skip
QUESTIONS = (
    {"query": "team pricing", "expect": ["MEMORY.md#L5-L7"]},
    {"query": "DEC-0054", "expect": ["memory/2026-02-10.md"]},
    {"query": "what does coffee cost", "expect": ["memory/café.md"]},
    {"query": "zeppelin", "expect": ["memory/none.md"]},
)


def make_workspace(base: Path) -> dict[str, str]:
    """Write the workspace ``notes`` and all that belongs to it below ``base``; return the environment to use."""
    for name, content in NOTES.items():
        _write(base / "notes" / name, content)
    lines = [
        {"type": "message", "timestamp": f"2026-02-10T10:0{number}:00Z", "message": {"role": role, "content": text}}
        for number, (role, text) in enumerate(MESSAGES)
    ]
    _write(base / "state/mdrecall.json", json.dumps(CONFIG))
    _write(base / "questions.jsonl", "".join(json.dumps(line) + "\n" for line in QUESTIONS))
    _write(base / "broken-questions.jsonl", '{"query": "team pricing"}\nno json\n')
    _write(base / "wrong.json", json.dumps({"memorySearch": {"query": {"minScore": "high", "maxResult": 3}}}))
    _write(base / "notes-only.json", "{}")
    _write(base / "conversations.json", json.dumps([CONVERSATION, {"title": "Draft"}]))
    _write(base / "qmd.json", json.dumps({"memory": {"backend": "qmd"}, "mdrecall": {"encoder": False}}))
    _write(base / "two-agents.json", json.dumps({"agents": {"list": [{"id": "first"}, {"id": "second"}]}}))
    for folder in ("home", "no-notes", "bin"):
        (base / folder).mkdir()
    env = {
        "HOME": str(base / "home"),
        "MDRECALL_STATE_DIR": str(base / "state"),
        "PATH": str(base / "bin"),
        "TZ": "UTC",
    }
    sessions = Path(load(env=env, workspace=str(base / "notes")).settings.sessions_dir)
    _write(sessions / "talk.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    return env


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, ns=(FILE_TIME_NS, FILE_TIME_NS))
