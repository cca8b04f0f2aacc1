"""The history of a note in the browser, from a real git, also in repositories that were made to do harm."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page

from mdrecall.errors import RecallError
from mdrecall.ui import git as git_module
from tests.conftest import Workspace
from tests.ui.axe import find_faults
from tests.ui.conftest import Site, serve
from tests.ui.worlds import open_page

GIT = shutil.which("git") or ""
pytestmark = pytest.mark.skipif(not GIT, reason="Git is not installed.")
WHO = {
    f"GIT_{who}_{what}": f"Ana{'@x' * (what == 'EMAIL')}"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


@pytest.fixture(autouse=True)
def own_settings(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of whoever runs the tests play no part."""
    monkeypatch.setenv("HOME", str(workspace.home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(folder: Path, *arguments: str, given: str = "", **env: str) -> str:
    """Run git as somebody in a terminal would; failures are not looked at."""
    own = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **WHO, **env}
    command = [GIT, "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(command, cwd=folder, env=own, input=given, capture_output=True, text=True, check=False).stdout


def commit(folder: Path, message: str) -> None:
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    # The notes of a test all have the same time, by which git would take a change for none.
    (folder / ".git/index").unlink(missing_ok=True)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def commits(body: str) -> list[str]:
    return re.findall(r"commit=([0-9a-f]{40}|now)", body)


def test_somebody_looks_at_what_a_note_was(site: Site, page: Page) -> None:
    space = site.workspace
    space.write("memory/a.md", "# Desk\n\nIt is in Rome.\nIt is old.\nIt is brown.\n")
    commit(space.path, "The desk")
    git(space.path, "mv", "memory/a.md", "memory/desk.md")
    commit(space.path, "Another name")
    space.write("memory/desk.md", "# Desk\n\nIt is in Lisbon.\nIt is old.\nIt is brown.\n")
    commit(space.path, "It moved <b>")
    space.write("memory/desk.md", "# Desk\n\nIt is in Lisbon.\nIt is old.\nIt is green.\n")
    open_page(site, page, "note?path=memory/desk.md")
    page.get_by_role("link", name="History").click()
    rows = page.get_by_role("list", name="Commits").locator("li").all_inner_texts()
    assert [row.split("\n")[0] for row in rows] == [
        "Not committed yet", "It moved <b>", "Another name", "The desk"]  # fmt: skip
    assert "moved from memory/a.md" in rows[2]
    assert "Ana" in rows[1]
    page.get_by_role("link", name="It moved <b>").click()
    assert page.locator("del").all_text_contents() == ["− It is in Rome.\n"]
    assert page.locator("ins").all_text_contents() == ["+ It is in Lisbon.\n"]
    assert page.locator(".raw").inner_text().split("\n")[2:5] == ["It is in Lisbon.", "It is old.", "It is brown."]
    assert find_faults(page, page.url) == []
    page.goto(page.url)
    page.get_by_role("link", name="Before").click()
    page.get_by_text("The text is the same.").wait_for()
    page.get_by_role("link", name="Before").click()
    assert "It is in Rome." in page.locator(".raw").inner_text()
    page.get_by_role("link", name="All commits").click()
    page.get_by_role("link", name="Not committed yet").click()
    assert page.locator("ins").all_text_contents() == ["+ It is green.\n"]


def test_what_a_long_note_was_makes_no_heavy_page(site: Site) -> None:
    space = site.workspace
    lines = [f"{number} " + "old words " * 20 for number in range(600)]
    space.write("memory/a.md", "\n".join(lines))
    commit(space.path, "first")
    space.write("memory/a.md", "\n".join(lines).replace("old", "new"))
    body = site.get("history", path="memory/a.md", commit="now").body
    assert len(body) < 130_000
    assert "more lines …" in body
    assert "more lines are not shown" in body


def test_a_note_without_history_says_why(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    space = site.workspace
    space.write("memory/a.md", "one\n")
    assert ">History<" not in site.get("note", path="memory/a.md").body
    assert "not in a git repository" in site.get("history", path="memory/a.md").body
    git(space.path, "init", "-q")
    assert "does not have any commits yet" in site.get("history", path="memory/a.md").body
    commit(space.path, "first")
    space.write("memory/new.md", "new\n")
    assert ">History<" in site.get("note", path="memory/new.md").body
    assert "never committed" in site.get("history", path="memory/new.md").body
    assert site.get("history", path="memory/none.md").status == 404
    monkeypatch.setenv("PATH", str(space.home))
    assert "Git is not installed" in site.get("history", path="memory/a.md").body
    (space.path / ".git/HEAD").write_text("nonsense")
    monkeypatch.setenv("PATH", os.path.dirname(GIT))
    assert "not a git repository" in site.get("history", path="memory/a.md").body


def test_the_repository_may_lie_above_and_hold_other_things(site: Site) -> None:
    space = site.workspace
    above = space.path.parent
    (above / ".gitignore").write_text("home\nstate\n")
    (above / "secret.txt").write_text("secret-outside")
    space.write("memory/a.md", "one\n")
    commit(above, "first")
    (above / "secret.txt").write_text("secret-outside, changed")
    commit(above, "second")
    body = site.get("history", path="memory/a.md").body
    (first,) = set(commits(body))
    assert site.get("history", path="memory/a.md", commit=first).status == 200
    others = git(above, "rev-list", "--objects", "HEAD").split()
    for other in [*others, "HEAD", "HEAD:secret.txt", "--help", "-p", f"{first}^", first[:10], "\0", "x" * 5000]:
        if other != first:
            reply = site.get("history", path="memory/a.md", commit=other)
            assert reply.status == 404
            assert "secret-outside" not in reply.body


@pytest.mark.parametrize(
    "name", ["-p.md", "--output=x.md", "a*.md", ":(exclude)a.md", "ä 文.md", 'q"<b>.md', "a\nb.md"]
)
def test_any_name_is_the_name_of_one_note(site: Site, name: str) -> None:
    site.workspace.write("memory/abc.md", "other\n")
    commit(site.workspace.path, "another note")
    site.workspace.write(f"memory/{name}", "one\n")
    commit(site.workspace.path, "this note")
    body = site.get("history", path=f"memory/{name}").body
    (found,) = set(commits(body))
    assert "this note" in body
    assert "another note" not in body
    assert "+ one\n" in site.get("history", path=f"memory/{name}", commit=found).body


def test_a_name_at_the_top_that_begins_with_a_dash_is_no_option(tmp_path: Path) -> None:
    (tmp_path / "-p.md").write_text("one\n")
    commit(tmp_path, "first")
    history = git_module.read_history(str(tmp_path / "-p.md"), os.environ)
    assert [version.path for version in history.versions] == ["-p.md"]


def test_merges_removals_and_strange_commits_are_shown(site: Site) -> None:
    space = site.workspace
    space.write("memory/a.md", "one\n")
    commit(space.path, "first")
    git(space.path, "checkout", "-q", "-b", "side")
    space.write("memory/a.md", "two\n")
    commit(space.path, "side")
    git(space.path, "checkout", "-q", "main")
    space.write("memory/a.md", "three\n")
    commit(space.path, "main")
    git(space.path, "merge", "-q", "side")
    space.write("memory/a.md", "two and three\n")
    commit(space.path, "merged")
    merge = git(space.path, "rev-parse", "HEAD").strip()
    shown = site.get("history", path="memory/a.md", commit=merge).body
    assert "− three\n" in shown
    assert "+ two and three\n" in shown
    (space.path / "memory/a.md").unlink()
    commit(space.path, "gone")
    tree = git(space.path, "rev-parse", "HEAD^{tree}").strip()
    author = "\x01<script>\x1b[31m <x> 99999999999999999 +0000"
    raw = f"tree {tree}\nparent {merge}\nauthor {author}\ncommitter x <x> 0 +0000\n\n"
    odd = git(space.path, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", given=raw).strip()
    git(space.path, "reset", "-q", "--soft", odd)
    space.write("memory/a.md", "back\n")
    commit(space.path, "")
    body = site.get("history", path="memory/a.md").body
    assert "<script>" not in body.partition("<main")[2]
    assert all(site.get("history", path="memory/a.md", commit=each).status == 200 for each in commits(body))


def test_a_shallow_clone_says_that_there_was_more(site: Site) -> None:
    origin = site.workspace.path.parent / "origin"
    (origin / "memory").mkdir(parents=True)
    for number in range(3):
        (origin / "memory/a.md").write_text(f"text {number}\n")
        commit(origin, f"commit {number}")
    git(site.workspace.path.parent, "clone", "-q", "--depth", "2", f"file://{origin}", str(site.workspace.path))
    body = site.get("history", path="memory/a.md").body
    assert "commit 1" in body
    assert "commit 0" not in body
    assert "shallow clone" in body


def test_what_is_too_much_is_cut(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    space = site.workspace
    for number in range(4):
        space.write("memory/a.md", f"text {number}\n" * 200)
        commit(space.path, f"commit {number}")
    monkeypatch.setattr(git_module, "MAX_COMMITS", 2)
    body = site.get("history", path="memory/a.md").body
    assert len(commits(body)) == 2
    assert "There are older ones" in body
    monkeypatch.setattr(git_module, "MAX_COMMITS", 200)
    monkeypatch.setattr(git_module, "_MAX_LOG_BYTES", 600)
    body = site.get("history", path="memory/a.md").body
    assert 0 < len(commits(body)) < 4
    assert "more than 600 bytes" in body
    blob = git(space.path, "rev-parse", "HEAD:memory/a.md").strip()
    with pytest.raises(RecallError, match="more than 100 bytes"):
        git_module.read_blob(str(space.path / "memory/a.md"), blob, os.environ, 100)


def wrap_git(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git first in the path that does something before it becomes the real one."""
    folder.mkdir(exist_ok=True)
    (folder / "git").write_text(f'#!/bin/sh\n{line}\nexec {GIT} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_git_that_never_ends_is_stopped_with_all_it_has_started(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site.workspace.write("memory/a.md", "one\n")
    commit(site.workspace.path, "first")
    wrap_git(tmp_path / "bin", f'{GIT} "$@"\nsleep 600 &\necho $! >{tmp_path}/child\nwait', monkeypatch)
    monkeypatch.setattr(git_module, "_MAX_SECONDS", 1.0)
    body = site.get("history", path="memory/a.md").body
    assert "was stopped" in body
    assert "first" in body, "what it has told before is shown"
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_a_repository_of_another_user_is_not_read(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site.workspace.write("memory/a.md", "one\n")
    commit(site.workspace.path, "first")
    wrap_git(tmp_path / "bin", "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1", monkeypatch)
    reply = site.get("history", path="memory/a.md")
    assert reply.status == 400
    assert "Another user owns the repository" in reply.body
    assert "safe.directory" in reply.body
    (site.workspace.home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    assert "first" in site.get("history", path="memory/a.md").body, "what the user trusts is read"


def test_others_than_the_owner_see_no_history(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "one\n")
    commit(workspace.path, "first")
    with serve(workspace, session_key="agent:main:telegram:dm:1") as site:
        assert ">History<" not in site.get("note", path="memory/a.md").body
        assert "is for the owner of the memory" in site.get("history", path="memory/a.md").body


class Traps:
    """Programs that leave a trace when they run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._traces = folder / "traces"
        self._traces.mkdir(parents=True)

    def lay(self, name: str) -> str:
        """Return the path of a program that leaves this name."""
        program = self.folder / name
        program.write_text(f"#!/bin/sh\ntouch {self._traces}/{name}\n")
        program.chmod(0o755)
        return str(program)

    def sprung(self) -> set[str]:
        """Return the names that were left, and clear them."""
        found = {path.name for path in self._traces.iterdir()}
        for name in found:
            (self._traces / name).unlink()
        return found


@pytest.fixture
def hostile(site: Site) -> Traps:
    """A repository in which every setting that names a program names one of ours."""
    root, traps = site.workspace.path, Traps(site.workspace.home / "traps")
    site.workspace.write("memory/a.md", "one\n")
    commit(root, "first")
    site.workspace.write("memory/a.md", "two\n")
    commit(root, "second")
    head, _, message = git(root, "cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    signed = git(root, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{head}\n{signature}\n\n{message}")
    git(root, "update-ref", "refs/heads/main", signed.strip())
    (root / ".gitattributes").write_text("*.md diff=trap filter=trap\n")
    settings = {
        "core.fsmonitor": "fsmonitor", "core.pager": "pager", "pager.log": "pager-log", "core.editor": "editor",
        "diff.external": "external", "diff.trap.command": "command", "diff.trap.textconv": "textconv",
        "filter.trap.clean": "clean", "filter.trap.smudge": "smudge", "gpg.program": "gpg", "core.sshCommand": "ssh",
        "core.askPass": "askpass", "credential.helper": "credential", "core.alternateRefsCommand": "refs",
    }  # fmt: skip
    for name, trap in settings.items():
        git(root, "config", name, traps.lay(trap))
    for command in ("log", "cat-file"):
        git(root, "config", f"alias.{command}", f"!{traps.lay('alias')}")
    git(root, "config", "log.showSignature", "true")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(traps.lay(hook), root / ".git/hooks" / hook)
    traps.sprung()
    return traps


def lack_the_newest_text(root: Path, url: str) -> None:
    """Make a partial clone of a repository, whose server is at an address."""
    blob = git(root, "rev-parse", "HEAD:memory/a.md").strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    settings = {
        "core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
        "remote.origin.url": url, "protocol.ext.allow": "always", "protocol.allow": "always",
    }  # fmt: skip
    for name, value in settings.items():
        git(root, "config", name, value)


def test_nothing_that_a_repository_configures_is_run(
    site: Site, hostile: Traps, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = site.workspace.path
    careless = (
        ("log", "-p", "--ext-diff"),
        ("log", "-p", "--no-ext-diff"),
        ("status",),
        ("cat-file", "--filters", "HEAD:memory/a.md"),
        ("checkout", "--", "memory/a.md"),
    )
    for command in careless:
        git(root, *command)
    expected = {"fsmonitor", "command", "textconv", "smudge", "gpg", "post-checkout", "post-index-change"}
    assert expected <= hostile.sprung(), "the traps work"
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EDITOR"):
        monkeypatch.setenv(name, hostile.lay(name))
    monkeypatch.setenv("GIT_DIR", str(root / "elsewhere"))
    git(root, "config", "core.worktree", "/etc")
    found = commits(site.get("history", path="memory/a.md").body)
    assert len(found) == 2
    bodies = [site.get("history", path="memory/a.md", commit=each).body for each in found]
    assert "+ two\n" in bodies[0]
    assert "+ one\n" in bodies[1]
    assert hostile.sprung() == set()


@pytest.mark.parametrize("knows_no_lazy_fetch", [True, False])
@pytest.mark.parametrize("kind", ["ssh", "ext"])
def test_no_server_is_asked_for_what_a_clone_lacks(
    site: Site, hostile: Traps, monkeypatch: pytest.MonkeyPatch, kind: str, knows_no_lazy_fetch: bool
) -> None:
    root = site.workspace.path
    lack_the_newest_text(root, {"ssh": "ssh://example.invalid/x", "ext": f"ext::{hostile.lay('ext')} %S"}[kind])
    git(root, "cat-file", "blob", "HEAD:memory/a.md")
    assert kind in hostile.sprung(), "the trap works"
    if not knows_no_lazy_fetch:
        variables: Mapping[str, str] = git_module._VARIABLES
        without = {name: value for name, value in variables.items() if name != "GIT_NO_LAZY_FETCH"}
        monkeypatch.setattr(git_module, "_VARIABLES", without)
    (newest, *_) = [each for each in commits(site.get("history", path="memory/a.md").body) if each != "now"]
    reply = site.get("history", path="memory/a.md", commit=newest)
    assert reply.status == 400
    assert "Git has failed" in reply.body
    assert hostile.sprung() == set()
