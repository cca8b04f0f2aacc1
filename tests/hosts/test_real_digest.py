"""Claude Code forks and compacts a session: what it did is in the note, and nothing of it twice."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import Host
from tests.processes import until

pytestmark = pytest.mark.hosts


def notes(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted((folder / "memory").glob("*.md")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    (project / "memory").mkdir(parents=True)
    (project / "MEMORY.md").write_text("# Memory\n")
    return project


@pytest.fixture
def host(real_host: OpenHost, folder: Path) -> Host:
    opened = real_host("claude-code")
    assert opened.mdrecall("install", "claude-code", cwd=folder).code == 0
    return opened


def test_a_fork_repeats_nothing_of_its_original(host: Host, model: Model, folder: Path) -> None:
    model.teach("mend the fence", say="We keep the gate open because of the cat.")
    done = host.ask("Please mend the fence.", folder)
    model.teach("paint the barn", say="We paint it red instead of blue.")
    session = json.loads(done.out)["session_id"]
    host.ask("Now paint the barn.", folder, "--resume", session, "--fork-session")
    assert until(lambda: "red instead of blue" in notes(folder)), notes(folder)
    assert notes(folder).count("Please mend the fence.") == 1
    assert notes(folder).count("because of the cat") == 1
    assert len(set(re.findall(r"session=(\S+)", notes(folder)))) == 2


def test_a_compaction_finds_the_digest_written_and_repeats_nothing_of_it(
    host: Host, model: Model, folder: Path
) -> None:
    model.teach("mend the fence", say="We keep the gate open because of the cat.")
    session = json.loads(host.ask("Please mend the fence.", folder).out)["session_id"]
    model.teach("paint the barn", say="We paint it red instead of blue.")
    host.ask("Now paint the barn.", folder, "--resume", session)
    host.ask("/compact", folder, "--resume", session)
    assert model.requests_with("keep names, identifiers, paths and decisions word for word")
    model.teach("water the garden", say="We water it in the evening because of the sun.")
    host.ask("Please water the garden.", folder, "--resume", session)
    assert until(lambda: "water the garden" in notes(folder)), notes(folder)
    parts = [tuple(map(int, part)) for part in re.findall(r"lines=(\d+)-(\d+) -->", notes(folder))]
    assert all(after[0] > before[1] for before, after in pairwise(parts))
    assert "/compact" not in notes(folder)
    for text in ("Please mend the fence.", "because of the cat", "Now paint the barn.", "red instead of blue"):
        assert notes(folder).count(text) == 1, notes(folder)
