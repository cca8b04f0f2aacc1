"""What ``mdrecall status --json`` has besides, under OpenClaw's names: scan and recall records."""

from typing import Any

from mdrecall.life.promotion_json import audit_to_json
from mdrecall.memory import Memory
from mdrecall.types import Status


def add_details(record: dict[str, Any], memory: Memory, status: Status) -> None:
    """Add to the record of an agent what OpenClaw's has."""
    state = "empty" if not status.chunks else "ready" if status.vector.get("available") else "unavailable"
    record["status"]["vector"]["index"] = {"state": state}
    sources: list[dict[str, Any]] = [
        {
            "source": count.source,
            "totalFiles": len(memory.notes()) if count.eligible is None else count.eligible,
            "issues": list(count.issues),
        }
        for count in status.source_counts
    ]
    issues = [issue for count in status.source_counts for issue in count.issues]
    record["scan"] = {"sources": sources, "totalFiles": sum(each["totalFiles"] for each in sources), "issues": issues}
    record["audit"] = audit_to_json(memory.settings)
