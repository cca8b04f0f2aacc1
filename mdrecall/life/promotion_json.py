"""Candidates for promotion as JSON, under OpenClaw's names."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mdrecall.config.settings import Settings
from mdrecall.core.text.words import script_share
from mdrecall.life.openclaw_recalls import read_openclaw_recalls
from mdrecall.life.recalls import lock_path, read_promoted, read_recalls, recalls_path
from mdrecall.sources.clock import user_moment

if TYPE_CHECKING:
    # ``mdrecall status`` only needs the state of the records.
    from mdrecall.core.life.promotion import Gates
    from mdrecall.life.promote import Judged

#: The families of scripts that OpenClaw tells apart.
_SCRIPTS = {"latin": ("latin",), "cjk": ("han", "kana", "hangul")}


def judged_to_json(judged: "Judged") -> dict[str, Any]:
    """Convert a candidate. ``text`` is what would be written, ``refused`` why it is not; neither is OpenClaw's."""
    candidate = judged.candidate
    record = candidate.record
    json: dict[str, Any] = {
        "key": record.key,
        "path": record.path,
        "startLine": record.start_line,
        "endLine": record.end_line,
        "source": "memory",
        "snippet": record.snippet,
        "recallCount": record.recalls,
        "dailyCount": record.daily,
        "groundedCount": record.grounded,
        "signalCount": record.signals,
        "avgScore": candidate.components["relevance"],
        "maxScore": record.max_score,
        "uniqueQueries": record.queries,
        "claimHash": record.claim_hash,
        "promotedAt": record.promoted_on,
        "firstRecalledAt": _iso(record.first_ms),
        "lastRecalledAt": _iso(record.last_ms),
        "ageDays": candidate.age_days,
        "score": candidate.score,
        "recallDays": list(record.days),
        "conceptTags": list(record.tags),
        "components": dict(candidate.components),
        "provenance": {
            "originClass": record.origin or "agent",
            "sessionKind": record.session_kind or "unknown",
            "observedAt": record.observed_ms or record.last_ms,
        },
        "text": judged.text,
        "refused": judged.refusal,
        "supersedes": judged.supersedes,
    }
    optional = ("claimHash", "promotedAt", "text", "refused", "supersedes")
    return {name: value for name, value in json.items() if value or name not in optional}


def audit_to_json(settings: Settings) -> dict[str, Any]:
    """Convert the state of the recall records, mdrecall's and OpenClaw's; no note is read."""
    moment = user_moment(None, settings.defaults.user_timezone)
    own, promoted = read_recalls(settings.index_path), read_promoted(settings.index_path)
    theirs = read_openclaw_recalls(settings.state_dir, settings.workspace, moment.ms)
    days = [recall.days for recall in own] + [record.days for record in theirs.records]
    paths = [recall.path for recall in own] + [record.path for record in theirs.records]
    moments = [recall.last_ms for recall in own] + [record.last_ms or 0.0 for record in theirs.records]
    issues = []
    if theirs.problem:
        issues.append({"severity": "warn", "code": "recall-store-unreadable", "message": theirs.problem})
    return {
        "storePath": recalls_path(settings.index_path),
        "lockPath": lock_path(settings.index_path),
        "updatedAt": _iso(max(moments, default=None)),
        "exists": bool(paths),
        "entryCount": len(paths),
        "promotedCount": len(promoted),
        "spacedEntryCount": sum(len(some) > 1 for some in days),
        # Tags of own records are found when they are scored, so each has some.
        "conceptTaggedEntryCount": len(own) + sum(bool(record.tags) for record in theirs.records),
        **_count_scripts([record.tags for record in theirs.records if record.tags]),
        "invalidEntryCount": theirs.invalid,
        "danglingEntryCount": sum(not os.path.isfile(os.path.join(settings.workspace, path)) for path in paths),
        "issues": issues,
    }


def _count_scripts(tags_of_records: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return how many records have tags in which scripts, as far as tags are recorded; nothing if none has any."""
    if not tags_of_records:
        return {}
    counts = dict.fromkeys(("latin", "cjk", "mixed", "other"), 0)
    for tags in tags_of_records:
        scripts = {name for tag in tags for name, own in _SCRIPTS.items() if script_share(tag, own)}
        counts["mixed" if len(scripts) > 1 else next(iter(scripts), "other")] += 1
    return {"conceptTagScripts": {f"{name}EntryCount": count for name, count in counts.items()}}


def explanation_to_json(settings: Settings, judged: "Judged", gates: "Gates") -> dict[str, Any]:
    """Convert a candidate with the thresholds and which of them it reaches."""
    candidate = judged.candidate
    record = candidate.record
    return {
        "workspaceDir": settings.workspace,
        "thresholds": {
            "minScore": gates.min_score,
            "minRecallCount": gates.min_signals,
            "minUniqueQueries": gates.min_queries,
            "maxAgeDays": gates.max_age_days,
            "minDays": gates.min_days,
        },
        "candidate": judged_to_json(judged),
        "passes": {
            "score": candidate.score >= gates.min_score,
            "recallCount": record.signals >= gates.min_signals,
            "uniqueQueries": record.queries >= gates.min_queries,
            "maxAge": gates.max_age_days is None or candidate.age_days <= gates.max_age_days,
            "days": len(set(record.recall_days)) >= gates.min_days,
            "all": not judged.refusal,
        },
    }


def _iso(ms: float | None) -> str | None:
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
