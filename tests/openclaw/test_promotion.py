"""The real OpenClaw and mdrecall score the same recall records alike."""

import json
from datetime import datetime
from typing import Any

import pytest

from mdrecall.life.promotion import Record, rank
from tests.openclaw.program import OpenClaw

pytestmark = pytest.mark.openclaw

MS_A_DAY = 86_400_000


def make_record(found: dict[str, Any]) -> Record:
    return Record(
        found["key"], found["path"], found["startLine"], found["endLine"], recalls=found["signalCount"],
        total_score=found["avgScore"] * found["signalCount"],
        queries=dict.fromkeys(map(str, range(found["uniqueQueries"])), 0.0),
        last_ms=datetime.fromisoformat(found["lastRecalledAt"]).timestamp() * 1000,
        days=tuple(found["recallDays"]), tags=tuple(found["conceptTags"]),
    )  # fmt: skip


def test_scores_of_its_own_records_are_the_same(openclaw: OpenClaw) -> None:
    workspace = openclaw.state / "workspace"
    (workspace / "memory").mkdir(parents=True, exist_ok=True)
    (workspace / "memory" / "2026-11-14.md").write_text("- The greenhouse pump must be replaced before winter.\n")
    (workspace / "memory" / "2026-11-15-garden.md").write_text("- The compost heap belongs to the neighbour.\n")
    config = json.loads((openclaw.state / "openclaw.json").read_text())
    openclaw.write_config(config | {"memory": {"search": {"provider": "none"}}})
    assert openclaw.run("memory", "index", "--force").code == 0
    for query in ("greenhouse pump", "pump before winter", "compost neighbour"):
        assert openclaw.run("memory", "search", "--query", query, "--json").json["results"], query
    none = ("--min-score", "0", "--min-recall-count", "0", "--min-unique-queries", "0")
    theirs = openclaw.run("memory", "promote", "--json", *none).json["candidates"]
    assert len(theirs) == 2
    first = theirs[0]
    now_ms = round(datetime.fromisoformat(first["lastRecalledAt"]).timestamp() * 1000 + first["ageDays"] * MS_A_DAY)
    ours = {one.record.key: one for one in rank(map(make_record, theirs), now_ms, 14.0)}
    for one in theirs:
        assert ours[one["key"]].score == pytest.approx(one["score"], abs=1e-9)
        assert ours[one["key"]].components == pytest.approx(one["components"], abs=1e-9)
