"""What somebody meets who has just begun: files in the wrong place, servers that are down, Ctrl-C, long transcripts."""

import signal
import subprocess
import sys

import pytest

from tests.cli.conftest import Run, own_env
from tests.conftest import Workspace
from tests.providers.faults import Fault, answer_lost, dead_url, status
from tests.providers.server import ProviderServer
from tests.providers.settings import configure, written


def compatible(url: str) -> dict[str, object]:
    return {"provider": "openai-compatible", "model": "local-embed", "remote": {"baseUrl": url}}


@pytest.mark.parametrize("command", ["status", "doctor", "providers", "config check"])
def test_a_configuration_among_the_notes_is_not_read_and_named(workspace: Workspace, run: Run, command: str) -> None:
    workspace.write("mdrecall.json", '{"memorySearch": {"provider": "offline"}}')
    lost, right = workspace.path / "mdrecall.json", workspace.state / "mdrecall.json"
    done = run(*command.split())
    said = done.out + done.err
    assert f"{lost} is not read. Move it to {right}, or" in said
    assert done.code == 0
    assert "is not read" not in run(*command.split(), "--config", str(lost)).out


def test_a_first_memory_file_does_not_hide_the_other_notes(workspace: Workspace, run: Run) -> None:
    assert "There are no notes to index." in run("index").err
    workspace.write("walrus.md", "the walrus sleeps")
    assert run("search", "walrus").code == 0
    workspace.write("MEMORY.md", "# x\n")
    assert "walrus.md#L1" in run("search", "walrus").out


def test_beside_openclaw_an_empty_answer_names_what_is_not_searched(workspace: Workspace, run: Run) -> None:
    workspace.beside_openclaw()
    for name in ("walrus.md", "docs/b.md", "AGENTS.md", "bad\x1b[2J.md", "node_modules/g.md", ".h/i.md"):
        workspace.write(name, "the walrus sleeps")
    for _ in range(2):
        ran = run("search", "walrus", "--workspace", str(workspace.path))
        assert ran.code == 1
        assert "not walrus.md, docs/b.md: to search more, add files or folders to memorySearch.extraPaths" in ran.err
        workspace.write("MEMORY.md", "# x\n")


def test_ctrl_c_ends_an_index_run_at_once_and_the_notes_are_found(workspace: Workspace, run: Run) -> None:
    written(workspace)
    with ProviderServer("openai-compatible", key=None, latency_s=60) as server:
        configure(workspace, compatible(server.url))
        # A process in the background of a shell script ignores Ctrl-C, and so would its children.
        heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        code = f"{heed}; import sys; from mdrecall.cli.main import main; sys.exit(main(['index']))"
        command = [sys.executable, "-c", code]
        env = own_env(workspace)
        running = subprocess.Popen(
            command, cwd=workspace.path, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        server.wait_for(1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert err == "Stopped. Everything indexed so far is kept; run `mdrecall index` to continue.\n"
    assert "memory/walrus.md" in run("search", "walrus").out


@pytest.mark.parametrize(
    ("fault", "said"),
    [(status(503), "returned status 503"), (answer_lost(), "cannot be reached")],
    ids=["refused", "cut"],
)
def test_a_probe_asks_once(workspace: Workspace, run: Run, fault: Fault, said: str) -> None:
    with ProviderServer("openai-compatible", key=None) as server:
        server.faults.add(fault.times(None))
        configure(workspace, compatible(server.url))
        assert said in run("status", "--deep").out
        assert len(server.requests) == 1


def test_what_waits_for_vectors_is_not_called_a_change_on_disk(workspace: Workspace, run: Run) -> None:
    written(workspace)
    configure(workspace, compatible(dead_url()))
    done = run("index")
    assert done.code == 2
    assert "is without some vectors" in done.err
    assert "embeddings are missing; `mdrecall index` adds them" in run("status").out
    workspace.write("memory/new.md", "new")
    assert "files have changed" in run("status").out


def test_the_doctor_says_a_thing_once(workspace: Workspace, run: Run) -> None:
    written(workspace)
    with ProviderServer("openai") as server:
        search = {"provider": "openai", "remote": {"baseUrl": server.url, "apiKey": "wrong"}, "fallback": "offline"}
        configure(workspace, search)
        done = run("doctor")
    assert done.out.count("returned status 401") == 1
    assert "1 error." in done.out


def test_no_context_is_told_and_the_first_of_all_days_has_no_yesterday(workspace: Workspace, run: Run) -> None:
    done = run("context", "--today", "0001-01-01")
    assert (done.code, done.out) == (1, "")
    assert "There is no note from today or yesterday" in done.err
