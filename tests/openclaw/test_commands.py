"""The JSON of commands has the keys that the real OpenClaw prints for the same workspace."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.openclaw.program import Finished, OpenClaw

pytestmark = pytest.mark.openclaw

#: What mdrecall does not have: see docs/differences-from-openclaw.md.
_WITHOUT = (
    "audit",
    "dreamingAudit",
    "passes",
    "thresholds",
    "status.custom.automaticRebuildNotice",
    "status.custom.providerState.requestedProvider",
    "results.textScore",
    "results.vectorScore",
    "results.provenance",
    "artifacts.",
)


def list_keys(value: Any, above: str = "") -> Iterator[str]:
    """Yield the path of every key; items of a list count as one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{above}{name}"
            yield from list_keys(inner, f"{above}{name}.")
    for inner in value if isinstance(value, list) else ():
        yield from list_keys(inner, above)


@pytest.fixture(scope="module")
def filled(openclaw: OpenClaw) -> OpenClaw:
    workspace = openclaw.state / "workspace"
    (workspace / "memory").mkdir(parents=True, exist_ok=True)
    (workspace / "MEMORY.md").write_text("# Memory\n\n- Ada drinks green tea.\n")
    (workspace / "memory" / "2026-11-14.md").write_text("- The greenhouse pump must be replaced before winter.\n")
    config = json.loads((openclaw.state / "openclaw.json").read_text())
    openclaw.write_config(config | {"memory": {"search": {"provider": "none"}}})
    assert openclaw.run("memory", "index", "--force").code == 0
    # A search writes a recall record, without which there is nothing to promote or to explain.
    assert openclaw.run("memory", "search", "--query", "greenhouse pump", "--json").code == 0
    (openclaw.state / "mdrecall.json").write_text('{"mdrecall": {"recalls": {"record": true}}}')
    assert run_ours(openclaw, "search", "greenhouse pump").code == 0
    return openclaw


def run_ours(openclaw: OpenClaw, *arguments: str) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "mdrecall", *arguments],
        cwd=openclaw.state / "workspace",
        env=openclaw.env
        | {"PYTHONPATH": os.pathsep.join(sys.path), "MDRECALL_CONFIG": str(openclaw.state / "mdrecall.json")},
        capture_output=True,
        text=True,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("search", "--query", "greenhouse pump"),
        ("promote", "--min-score", "0", "--min-recall-count", "0", "--min-unique-queries", "0"),
        ("promote-explain", "greenhouse pump"),
        ("forget", "--session", "nobody", "--dry-run"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_key_of_openclaws_is_there(filled: OpenClaw, arguments: tuple[str, ...]) -> None:
    theirs = set(list_keys(filled.run("memory", *arguments, "--json").json))
    named_here = ("promote", "--explain") if arguments[0] == "promote-explain" else arguments[:1]
    ours = set(list_keys(run_ours(filled, *named_here, *arguments[1:], "--json").json))
    missing = {key for key in theirs - ours if not key.startswith(_WITHOUT)}
    assert sorted(missing) == []
    assert theirs
