"""The recall records that OpenClaw keeps in its state database, read and never written."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.core.life.promotion import Hits, Record, find_tags
from mdrecall.errors import ReadError

if TYPE_CHECKING:
    import apsw

#: OpenClaw uses the newest 512 records of a workspace, 32 queries, 16 days and 8 tags of each, and no longer text.
_MAX_RECORDS, _MAX_QUERIES, _MAX_DAYS, _MAX_TAGS, _MAX_SNIPPET_CHARS = 512, 32, 16, 8, 800
_RECALL, _PHASES = "short-term-recall", "short-term-phase-signals"
#: Rows and bytes that are read: OpenClaw's own limit is far below, and a damaged database must not fill the memory.
_MAX_ROWS, _MAX_ROW_BYTES = 10_000, 65_536
_ORIGINS = ("owner", "agent", "system", "untrusted")
_QUERY = (
    "SELECT value_json FROM plugin_state_entries WHERE plugin_id = 'memory-core' AND namespace = ?"
    " AND substr(entry_key, 1, 65) = ? AND (expires_at IS NULL OR expires_at > ?) AND length(value_json) <= ? LIMIT ?"
)


class OpenClawRecalls(NamedTuple):
    """What OpenClaw knows about recalls in a workspace."""

    records: tuple[Record, ...] = ()
    invalid: int = 0
    """How many records could not be read."""
    problem: str = ""
    """Why nothing could be read; empty if the database is not there or was read."""


def database_path(state_dir: str) -> str:
    """Return OpenClaw's state database."""
    return os.path.join(state_dir, "state", "openclaw.sqlite")


def read_openclaw_recalls(state_dir: str, workspace: str, now_ms: float) -> OpenClawRecalls:
    """Return OpenClaw's records of a workspace as they were written; none if there is no database."""
    path = database_path(state_dir)
    if not os.path.lexists(path):
        return OpenClawRecalls()
    owner = hashlib.sha256(os.path.abspath(workspace).encode("utf-8", "surrogateescape")).hexdigest()
    # Imported only where OpenClaw is: it loads SQLite.
    from mdrecall.sources.transcripts.foreign_database import read_snapshot

    def read_rows(connection: "apsw.Connection") -> list[list[Any]]:
        limits = (f"{owner}:", now_ms, _MAX_ROW_BYTES, _MAX_ROWS)
        return [[text for (text,) in connection.execute(_QUERY, (name, *limits))] for name in (_RECALL, _PHASES)]

    try:
        recalls, phases = read_snapshot(path, read_rows)
    except ReadError as error:
        return OpenClawRecalls(problem=f"OpenClaw's recall records cannot be read: {error}")
    hits = dict(_read_phases(_unpack(phases, owner)))
    entries = dict(_unpack(recalls, owner))
    found = [_read_record(key, entry, now_ms) for key, entry in entries.items()]
    records = [_add_hits(record, hits) for record in found if record]
    newest = sorted(records, key=lambda one: (-(one.last_ms or 0), -one.signals, -one.total_score, one.key))
    return OpenClawRecalls(tuple(newest[:_MAX_RECORDS]), len(found) - len(records))


def _unpack(rows: Iterable[Any], owner: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the key and the value of each row of a workspace."""
    for text in rows:
        try:
            row = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            continue
        if isinstance(row, dict) and row.get("workspaceKey") == owner and isinstance(row.get("value"), dict):
            yield str(row.get("key", "")), row["value"]


def _read_record(key: str, entry: Mapping[str, Any], now_ms: float) -> Record | None:
    path, lines = entry.get("path"), (entry.get("startLine"), entry.get("endLine"))
    if not isinstance(path, str) or not path or not all(isinstance(line, int) for line in lines):
        return None
    if entry.get("source") != "memory":
        return None
    daily, grounded = _count(entry.get("dailyCount")), _count(entry.get("groundedCount"))
    snippet = " ".join(_text(entry.get("snippet")).split())
    queries = _texts(entry.get("userQueryHashes"), _MAX_QUERIES)
    if queries is None:
        # Records of older versions have one list; without other signals all of it are queries of people.
        queries = [] if daily or grounded else _texts(entry.get("queryHashes"), _MAX_QUERIES) or []
    days = tuple(day[:10] for day in _texts(entry.get("recallDays")) or ())[-_MAX_DAYS:]
    tags = _texts(entry.get("conceptTags"), _MAX_TAGS)
    origin, kind, observed_ms = _read_origin(entry.get("provenance"))
    return Record(
        key=key or f"memory:{path}:{lines[0]}:{lines[1]}",
        path=path.replace("\\", "/").removeprefix("./"),
        start_line=int(lines[0] or 0),
        end_line=int(lines[1] or 0),
        snippet=snippet[:_MAX_SNIPPET_CHARS].rstrip(),
        recalls=_count(entry.get("recallCount")),
        daily=daily,
        grounded=grounded,
        total_score=max(0.0, _number(entry.get("totalScore"))),
        max_score=min(1.0, max(0.0, _number(entry.get("maxScore")))),
        queries=len(queries),
        first_ms=_read_time(entry.get("firstRecalledAt"), now_ms),
        last_ms=_read_time(entry.get("lastRecalledAt"), now_ms),
        days=days,
        recall_days=days,
        tags=find_tags(snippet) if tags is None else tuple(tag.lower() for tag in tags),
        origin=origin,
        session_kind=kind,
        observed_ms=observed_ms,
        claim_hash=_text(entry.get("claimHash")).strip(),
        promoted_on=_text(entry.get("promotedAt"))[:10],
    )


def _read_phases(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, tuple[Hits, Hits]]]:
    for key, entry in entries:
        light, rem = (
            (_count(entry.get(f"{phase}Hits")), _read_time(entry.get(f"last{phase.title()}At"), None))
            for phase in ("light", "rem")
        )
        yield _text(entry.get("key")).strip() or key, (light, rem)


def _add_hits(record: Record, hits: Mapping[str, tuple[Hits, Hits]]) -> Record:
    light, rem = hits.get(record.key, ((0, None), (0, None)))
    return record._replace(light=light, rem=rem)


def _read_origin(provenance: Any) -> tuple[str, str, float | None]:
    if not isinstance(provenance, dict):
        return "", "", None
    origin = provenance.get("originClass")
    known = origin if origin in _ORIGINS else "untrusted"
    return known, _text(provenance.get("sessionKind")), _number(provenance.get("observedAt")) or None


def _read_time(value: Any, missing: float | None) -> float | None:
    """Return a moment in milliseconds; None if there is a text that says none."""
    if not isinstance(value, str):
        return missing
    try:
        return datetime.fromisoformat(value).timestamp() * 1000
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any, most: int | None = None) -> list[str] | None:
    """Return the distinct texts of a list; None if it is none."""
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(text.strip() for text in value if isinstance(text, str) and text.strip()))[:most]


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else 0.0


def _count(value: Any) -> int:
    return max(0, int(_number(value)))
