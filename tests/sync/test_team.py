"""A shared memory: proposals for review, secrets, and what others forget in it."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.config.environment import find_locations
from mdrecall.config.load import load
from tests.cli.test_sync import Home
from tests.life.traces import find_traces
from tests.sync.real import make_remote


class Member(Home):
    """A machine of somebody with a memory of their own in ``notes``, and the shared one in ``team``."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder)
        self.own, self.team = self.notes, folder / "team"
        self.team.mkdir()
        self.env["USER"] = name

    def in_team(self, *arguments: str) -> str:
        ran = self.run(*arguments, "--workspace", str(self.team))
        assert ran.code in (0, 1), ran.err
        return ran.out


def git(folder: Path | str, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def team(tmp_path: Path) -> Iterator[tuple[Member, Member, str]]:
    ana, bo, url = Member(tmp_path / "ana", "ana"), Member(tmp_path / "bo", "bo"), make_remote(tmp_path / "remote.git")
    (ana.team / "MEMORY.md").write_text("# Team\n\n- The standup is at ten.\n")
    ana.in_team("sync", "init", url, "--shared")
    # Who joins need not say that the memory is shared.
    bo.in_team("sync", "join", url)
    ana.own.joinpath("memory").mkdir()
    text = "# Facts\n\n- The safe is grey.\n\n- The walrus port is 7000.\n<!-- by claude in shop -->\n- private\n"
    (ana.own / "memory/2026-01-12.md").write_text(text)
    yield ana, bo, url
    for member in (ana, bo):
        for folder in (member.own, member.team):
            member.notes = folder
            member.end_syncs()


def test_a_proposal_is_one_entry_on_a_branch_and_is_found_by_others_once_it_is_merged(
    team: tuple[Member, Member, str], tmp_path: Path
) -> None:
    ana, bo, url = team
    before = {path: path.read_bytes() for path in (*ana.own.rglob("*"), *ana.team.rglob("*.md")) if path.is_file()}
    heads = git(url, "for-each-ref", "refs/heads/mdrecall")
    ran = ana.run("sync", "share", "memory/2026-01-12.md#L5", "--to", str(ana.team))
    assert ran.code == 0, ran.err
    branch = ran.out.split()[-1].rstrip(".")
    assert {path: path.read_bytes() for path in before} == before
    assert git(url, "for-each-ref", "refs/heads/mdrecall") == heads
    changed = git(url, "diff", "--name-status", "mdrecall", branch).split()
    assert (changed[0], len(changed)) == ("A", 2)
    assert changed[1].startswith("memory/2026-01-12-")
    wanted = "- The walrus port is 7000.\n<!-- by claude in shop -->\n<!-- by ana -->\n"
    assert git(url, "show", f"{branch}:{changed[1]}") == wanted
    # It is proposed once.
    assert ana.run("sync", "share", "memory/2026-01-12.md#L5", "--to", str(ana.team)).out == ran.out
    assert len(git(url, "for-each-ref", "refs/heads/propose").splitlines()) == 1
    bo.in_team("sync")
    assert "7000" not in bo.in_team("search", "walrus port")
    git(tmp_path, "clone", "-q", "-b", "mdrecall", url, "review")
    git(tmp_path / "review", "merge", "-q", "--no-ff", "-m", "x", f"origin/{branch}")
    git(tmp_path / "review", "push", "-q")
    bo.in_team("sync")
    found = bo.in_team("search", "walrus port", "--json")
    assert "7000" in found
    assert '"origin": "agent"' in found
    assert "7000" not in bo.run("search", "walrus port").out
    ana.in_team("sync")
    assert ana.in_team("sync") == bo.in_team("sync") == "Nothing new.\n"


def test_a_secret_stops_a_proposal_and_is_named(team: tuple[Member, Member, str]) -> None:
    ana, _, url = team
    (ana.own / "keys.md").write_text("# Keys\n\n- api_key = sk-proj-4f8a9b2c7d1e6f3a5b8c9d0e1f2a3b4c\n")
    ran = ana.run("sync", "share", "keys.md#L3", "--to", str(ana.team))
    assert ran.code == 2
    assert "keys.md#L3 looks like a secret" in ran.err
    assert "propose" not in git(url, "for-each-ref")


def test_a_machine_that_joins_a_shared_memory_sends_no_secret(team: tuple[Member, Member, str]) -> None:
    _, bo, _ = team
    (bo.team / "keys.md").write_text("- api_key = sk-proj-4f8a9b2c7d1e6f3a5b8c9d0e1f2a3b4c\n")
    ran = bo.run("sync", "--workspace", str(bo.team))
    assert "keys.md#L1 looks like a secret" in ran.err


@pytest.mark.parametrize(
    ("citation", "to", "problem"),
    [
        ("memory/2026-01-12.md", "team", "is not an entry"),
        ("memory/2026-01-12.md#L90", "team", "is not an entry"),
        ("memory/2026-01-12.md#L2", "team", "is not an entry"),
        ("none.md#L1", "team", "none.md"),
        ("memory/2026-01-12.md#L3", "notes", "is not a shared memory"),
        ("memory/2026-01-12.md#L3", "nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_shared_says_why(team: tuple[Member, Member, str], citation: str, to: str, problem: str) -> None:
    ana, _, url = team
    ran = ana.run("sync", "share", citation, "--to", str(ana.folder / to))
    assert (ran.code, problem in ran.err) == (2, True), ran.err
    assert "propose" not in git(url, "for-each-ref")


@pytest.mark.parametrize(("host", "program"), [("github.com", "gh"), ("gitlab.example.org", "glab")])
def test_the_command_for_a_pull_request_is_printed_and_not_run(
    team: tuple[Member, Member, str], tmp_path: Path, host: str, program: str
) -> None:
    ana, _, url = team
    remote = tmp_path / host / "team.git"
    remote.parent.mkdir()
    Path(url).rename(remote)
    ana.in_team("sync", "leave")
    ana.in_team("sync", "join", str(remote))
    (tmp_path / program).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / program).chmod(stat.S_IRWXU)
    ana.env["PATH"] = f"{tmp_path}{os.pathsep}{ana.env['PATH']}"
    ran = ana.run("sync", "share", "memory/2026-01-12.md#L3", "--to", str(ana.team))
    assert f"{program} " in ran.err
    assert f"create -R {remote} -" in ran.err
    assert not (tmp_path / "ran").exists()


def test_what_others_forget_in_a_shared_memory_leaves_ones_own_alone(team: tuple[Member, Member, str]) -> None:
    ana, bo, _ = team
    for member in (ana, bo):
        (member.team / "safe.md").write_text("- The safe of the team opens with zanzibar.\n- It is grey.\n")
        member.in_team("sync")
    own = bo.own / "own.md"
    own.write_text("- My password is zanzibar.\n")
    settings = load(env=bo.env, workspace=str(bo.team)).settings
    copy = Path(settings.sessions_dir).parent / "hosts/claude-code/c1.jsonl"
    log = Path(find_locations(bo.env, str(bo.team)).hook_log)
    for file in (copy, log):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("zanzibar\n")
    assert "zanzibar" in bo.in_team("search", "safe")
    ana.in_team("forget", "zanzibar", "--apply")
    ana.in_team("sync")
    assert "forgotten here" in bo.in_team("sync")
    assert (bo.team / "safe.md").read_text() == "- It is grey.\n"
    assert "zanzibar" not in bo.in_team("search", "safe")
    assert {*find_traces([bo.folder], "zanzibar")} - {*find_traces([bo.team], "zanzibar")} == {
        str(own), str(copy), str(log),
    }  # fmt: skip
    assert "zanzibar" in bo.run("search", "password").out
    assert bo.in_team("sync") == "Nothing new.\n"
