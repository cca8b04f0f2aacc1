"""Claude Code and Codex call the hooks: what they did is in the note, and their model is asked for a flush once."""

import json
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import Host, call_shell
from tests.processes import until

EVENTS = {
    "SessionStart": "session-start",
    "PreCompact": "before-compaction",
    "Stop": "stop",
    "SessionEnd": "session-end",
}
FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json"}
MORE = {"claude-code": (), "codex": ("--dangerously-bypass-hook-trust",)}


def add_hooks(host: Host) -> None:
    hooks = {}
    for event, name in EVENTS.items():
        command = shlex.join([sys.executable, "-P", "-m", "mdrecall", "hook", name, "--host", host.name])
        hooks[event] = [
            {"hooks": [{"type": "command", "command": command, "timeout": 3 if name == "session-end" else 60}]}
        ]
    path = host.home / FILES[host.name]
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), "hooks": hooks}))


def notes(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted((folder / "memory").glob("*.md")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    (project / "memory").mkdir(parents=True)
    (project / "MEMORY.md").write_text("# Memory\n")
    return project


@pytest.mark.hosts
@pytest.mark.parametrize("name", FILES)
def test_what_a_session_did_is_in_the_note_and_in_the_first_request_of_the_next_one(
    name: str, real_host: OpenHost, model: Model, folder: Path
) -> None:
    host = real_host(name)
    add_hooks(host)
    model.teach(
        "mend the fence", call_shell(name, "touch fence && false"), say="We keep the gate open because of the cat."
    )
    done = host.ask("Please mend the fence.", folder, *MORE[name])
    assert done.code == 0, done
    assert until(lambda: "- Decided: " in notes(folder)), (done, notes(folder))
    text = notes(folder)
    assert text.count(": Please mend the fence.\n") == 1
    assert text.count("We keep the gate open because of the cat.") == 1
    model.teach("what about the gate", say="It is open.")
    host.ask("So what about the gate?", folder, *MORE[name])
    (request, *_) = model.requests_with("what about the gate")
    assert "We keep the gate open because of the cat." in request.text


@pytest.mark.hosts
def test_a_fork_repeats_nothing_of_its_original(real_host: OpenHost, model: Model, folder: Path) -> None:
    host = real_host("claude-code")
    add_hooks(host)
    model.teach("mend the fence", say="We keep the gate open because of the cat.")
    done = host.ask("Please mend the fence.", folder)
    model.teach("paint the barn", say="We paint it red instead of blue.")
    session = json.loads(done.out)["session_id"]
    host.ask("Now paint the barn.", folder, "--resume", session, "--fork-session")
    assert until(lambda: "red instead of blue" in notes(folder)), notes(folder)
    assert notes(folder).count("Please mend the fence.") == 1
    assert notes(folder).count("because of the cat") == 1
    assert len(set(re.findall(r"session=(\S+)", notes(folder)))) == 2


@pytest.mark.parametrize("name", FILES)
def test_a_wish_becomes_a_candidate_and_a_headless_run_is_asked_nothing(
    name: str, real_host: OpenHost, model: Model, folder: Path
) -> None:
    host = real_host(name)
    add_hooks(host)
    model.teach("mend the fence", say="The fence is mended. I always use nails.")
    done = host.ask("Please mend the fence. Always answer me in verse.", folder, *MORE[name])
    assert done.code == 0, done
    assert until(lambda: "- Always answer me in verse. (" in notes(folder)), notes(folder)
    assert "- I always use nails" not in notes(folder)
    assert not model.requests_with('kind "wish"')


@pytest.mark.hosts
def test_a_compaction_finds_the_digest_written_and_repeats_nothing_of_it(
    real_host: OpenHost, model: Model, folder: Path
) -> None:
    host = real_host("claude-code")
    add_hooks(host)
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
