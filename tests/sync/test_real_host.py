"""Two homes with a real coding agent: what one is told, the other one knows, and both forget it."""

import subprocess
from pathlib import Path

import pytest

from tests.hosts.model import Model, serve_model
from tests.hosts.programs import Host, call_shell
from tests.hosts.test_scenario import APPEND, WAIT, ask, find_texts, read_notes
from tests.hosts.wire import Call
from tests.processes import marked, until
from tests.sync.real import make_remote

NAME = "claude-code"
FACT = "The quokka enclosure is painted in sea green RAL-6029."


def finish(host: Host) -> None:
    """Wait for what a session and its syncs have started."""
    assert until(lambda: not marked(host.mark)), marked(host.mark)


@pytest.mark.real
def test_what_one_machine_is_told_is_in_the_first_request_of_the_other_until_one_forgets_it(tmp_path: Path) -> None:
    with serve_model() as model:
        follow_a_fact(tmp_path, model)


def follow_a_fact(tmp_path: Path, model: Model) -> None:
    one, two = (Host(NAME, tmp_path / name, model) for name in ("one", "two"))
    url, project = make_remote(tmp_path / "remote.git"), tmp_path / "project"
    project.mkdir()

    def run(host: Host, *arguments: str, code: int = 0) -> str:
        done = host.mdrecall(*arguments, cwd=host.home / "mdrecall" if (host.home / "mdrecall").exists() else host.home)
        assert done.code == code, done
        return done.out + done.err

    for host in (one, two):
        assert host.mdrecall("install", NAME, cwd=project).code == 0
    run(one, "sync", "init", url)
    run(two, "sync", "join", url)

    model.teach("which colour the fence got", call_shell(NAME, WAIT), Call(APPEND[NAME], {"text": FACT}), say="Noted.")
    ask(one, "Please keep which colour the fence got.", project)
    assert FACT in read_notes(one)
    # Nobody has asked for a sync, here or there.
    pushed = ["git", "--git-dir", url, "grep", "-q", "sea green", "mdrecall"]
    assert until(lambda: not subprocess.run(pushed, check=False).returncode)
    finish(one)
    model.teach("a first hello", say="Hello.")
    ask(two, "Well, a first hello.", project)
    assert until(lambda: FACT in read_notes(two))
    finish(two)
    model.teach("good evening", say="Good evening.")
    ask(two, "Well, good evening to you.", project)
    assert FACT in model.requests_with("good evening to you")[0].text
    assert "RAL-6029" in run(two, "search", "colour of the quokka enclosure")
    finish(two)

    run(one, "forget", "sea green RAL-6029", "--apply")
    run(one, "sync")
    assert "forgotten" in run(two, "sync")
    assert "RAL-6029" not in run(two, "search", "quokka enclosure", code=1) + read_notes(two)
    model.teach("good night", say="Good night.")
    ask(two, "Well, good night to you.", project)
    assert "RAL-6029" not in model.requests_with("good night to you")[0].text
    finish(two)
    # The host keeps its own conversations, and git its history.
    kept = {path for path in find_texts(two.home, "RAL-6029") if not {".claude", "git"} & {*path.parts}}
    assert kept == set()
