"""What a thorough ``mdrecall status --json`` has besides, under OpenClaw's names: storage, scan and recall records."""

import os
from typing import Any

from mdrecall.life.promotion_json import audit_to_json
from mdrecall.memory import Memory
from mdrecall.types import Issue, Status

#: Where the header of a SQLite file has the size of a page and how many pages are free.
_PAGE_SIZE, _FREE_PAGES, _HEADER_BYTES = slice(16, 18), slice(36, 40), 100
#: A page of 65,536 bytes is written as 1, because the field has two bytes.
_LARGEST_PAGE = 65_536


def add_details(record: dict[str, Any], memory: Memory, status: Status, issues: tuple[Issue, ...]) -> None:
    """Add to the record of an agent what OpenClaw's has."""
    shown = record["status"]
    shown["storage"] = {
        "databaseBytes": _size(status.db_path),
        "walBytes": _size(f"{status.db_path}-wal"),
        "reusableBytes": _count_free_bytes(status.db_path),
        "embeddingCacheEntries": status.cache.get("entries", 0),
    }
    state = "empty" if not status.chunks else "ready" if status.vector.get("available") else "unavailable"
    shown["vector"]["index"] = {"state": state}
    found = {"memory": len(memory.notes())}
    if "sessions" in status.sources:
        found["sessions"] = len(memory.sessions())
    problems = [f"{issue.path}: {issue.problem}" for issue in issues]
    sources = [
        {"source": source, "totalFiles": found.get(source, 0), "issues": problems if source == "memory" else []}
        for source in status.sources
    ]
    record["scan"] = {"sources": sources, "totalFiles": sum(found.values()), "issues": problems}
    for count in shown["sourceCounts"]:
        count["eligible"] = found.get(count["source"], 0)
    record["audit"] = audit_to_json(memory.settings)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _count_free_bytes(path: str) -> int:
    """Return how many bytes of a SQLite file are free for new rows, as its header says."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError:
        return 0
    page, free = (int.from_bytes(head[part], "big") for part in (_PAGE_SIZE, _FREE_PAGES))
    return free * (_LARGEST_PAGE if page == 1 else page)
