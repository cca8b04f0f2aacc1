"""What coding agents keep themselves as Markdown: found with its origin, in its project alone, and never written."""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mdrecall import Memory, SearchResult
from mdrecall.config.load import load
from mdrecall.engine.conversations import open_files
from mdrecall.errors import PathRefused
from mdrecall.life.forget import ForgetRequest, Forgetting
from mdrecall.life.supersede import find_replaced, list_conflicts
from mdrecall.memory import limit_memory
from mdrecall.notes.repository import project_of
from mdrecall.patterns import host_of
from mdrecall.sessions.host_conversations import HostChoice, HostState
from mdrecall.sessions.host_notes import is_loaded_by
from mdrecall.types.documents import Origin
from tests.conftest import Workspace
from tests.sessions.host_transcripts import write_host

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


class Machine:
    """A home folder with hosts and two repositories, and a memory that follows the hosts."""

    def __init__(self, workspace: Workspace, base: Path) -> None:
        self.workspace, self.home = workspace, workspace.home
        self.shop, self.bank = (self.repository(base / name) for name in ("shop", "bank"))
        workspace.write("memory/plain.md", "The plain note about a queue is called daisy.\n")

    def repository(self, path: Path) -> Path:
        (path / ".git").mkdir(parents=True)
        return path

    def talk(self, host: str, folder: Path) -> Path:
        """Write a conversation; return the folder that the host has for it."""
        return Path(write_host(self.home, host, folder=str(folder))).parent

    def follow(self, host: str, folder: str = "") -> None:
        loaded = load(env=self.workspace.env, cwd=str(self.workspace.path))
        HostChoice(host, loaded, self.workspace.env, folder).follow()

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def find(self, query: str, *projects: Path) -> list[SearchResult]:
        """Search among notes, in one project or in none."""
        keys = [project_of(str(each)) for each in projects]
        return list(self.memory().search(query, source="memory", projects=keys, min_score=0.0))

    def memory(self) -> Memory:
        memory = self.workspace.memory()
        memory.sync()
        return memory

    def paths(self) -> list[str]:
        settings = self.memory().settings
        return sorted(filter(host_of, open_files(settings, str(self.home)).scan().stamps))


@pytest.fixture
def machine(workspace: Workspace, tmp_path: Path) -> Machine:
    return Machine(workspace, tmp_path / "src")


def _names(results: list[SearchResult]) -> list[str]:
    return [result.path.rpartition("/")[2] for result in results]


def test_nothing_is_read_until_a_host_is_followed(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.write(at / "memory" / "pool.md", "The deploy queue is called marigold.\n")
    machine.write(machine.home / ".claude" / "CLAUDE.md", "The global queue is called peony.\n")
    assert machine.paths() == []
    assert _names(machine.find("queue")) == ["plain.md"]
    machine.follow("claude-code")
    assert len(machine.paths()) == 2
    assert sorted(_names(machine.find("queue"))) == ["CLAUDE.md", "plain.md", "pool.md"]


def test_a_memory_is_found_in_its_project_alone(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.write(at / "memory" / "pool.md", "The deploy queue is called marigold.\n")
    machine.write(machine.home / ".claude" / "CLAUDE.md", "The global queue is called peony.\n")
    machine.follow("claude-code")
    assert sorted(_names(machine.find("queue", machine.shop))) == ["CLAUDE.md", "plain.md", "pool.md"]
    assert sorted(_names(machine.find("queue", machine.bank))) == ["CLAUDE.md", "plain.md"]
    (found,) = (each for each in machine.find("queue", machine.shop) if each.path.endswith("pool.md"))
    assert (found.project, found.origin, host_of(found.path)) == (project_of(str(machine.shop)), "agent", "claude-code")
    text = "The deploy queue is called marigold.\n"
    assert machine.memory().read(found.path).text == text
    assert limit_memory(machine.memory(), (found.project,)).read(found.path).text == text
    for path in (found.path, str(at / "memory" / "pool.md")):
        assert limit_memory(machine.memory(), (project_of(str(machine.bank)),)).read(path).text == ""


def test_worktrees_share_the_memory_of_their_repository(machine: Machine, tmp_path: Path) -> None:
    git = machine.shop / ".git" / "worktrees" / "feature"
    machine.write(git / "commondir", "../..\n")
    worktree = tmp_path / "src" / "feature"
    machine.write(worktree / ".git", f"gitdir: {git}\n")
    at = machine.talk("claude-code", worktree)
    name = str(machine.shop).replace("/", "-").replace("_", "-").replace(".", "-")
    machine.write(at.parent / name / "memory" / "pool.md", "The deploy queue is called marigold.\n")
    machine.write(machine.shop / "CLAUDE.md", "The queue of the shop is called peony.\n")
    machine.follow("claude-code")
    assert sorted(_names(machine.find("queue", worktree))) == ["CLAUDE.md", "plain.md", "pool.md"]
    assert sorted(_names(machine.find("queue", machine.shop))) == ["CLAUDE.md", "plain.md", "pool.md"]


def test_instructions_of_a_repository_are_untrusted_and_for_it_alone(machine: Machine) -> None:
    machine.talk("claude-code", machine.shop / "api")
    for name in ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"):
        machine.write(machine.shop / name, f"The queue in {name} is a dahlia.\n<!-- project: bank; shop -->\n")
    machine.write(machine.bank / "CLAUDE.md", "The queue of the bank is a tulip.\n")
    machine.follow("claude-code")
    found = [each for each in machine.find("queue dahlia", machine.shop) if host_of(each.path)]
    assert sorted(_names(found)) == ["AGENTS.md", "CLAUDE.local.md", "CLAUDE.md", "CLAUDE.md"]
    assert {each.origin for each in found} == {"untrusted"}
    assert {each.project for each in found} == {project_of(str(machine.shop))}
    assert _names(machine.find("queue dahlia", machine.bank)) == ["plain.md"]
    # Nobody had a conversation there.
    assert not any("bank" in path for path in machine.paths())


def test_a_project_counts_once_however_many_days_it_took(machine: Machine) -> None:
    file = Path(write_host(machine.home, "codex", folder=str(machine.bank)))
    os.utime(file.parent, (1e9, 1e9))
    for day in range(60):
        other = machine.write(file.parents[1] / f"d{day:02}" / file.name, file.read_text().replace("/bank", "/shop"))
        os.utime(other.parent, (2e9, 2e9))
    machine.write(machine.bank / "AGENTS.md", "The queue is a dahlia.\n")
    machine.follow("codex")
    assert "AGENTS.md" in _names(machine.find("dahlia", machine.bank))


def test_only_the_folders_that_are_followed_count(machine: Machine) -> None:
    for folder in (machine.shop, machine.bank):
        at = machine.talk("claude-code", folder)
        machine.write(at / "memory" / "pool.md", f"The deploy queue is called {folder.name}.\n")
        machine.write(folder / "CLAUDE.md", "The queue is a dahlia.\n")
    machine.follow("claude-code", str(machine.shop))
    assert len(machine.paths()) == 2
    assert all("/shop-" in path for path in machine.paths())


def test_a_memory_of_codex_is_found_in_the_one_project_that_it_names(machine: Machine) -> None:
    machine.talk("codex", machine.shop)
    memories = machine.home / ".codex" / "memories"
    machine.write(memories / "rollout_summaries" / "a.md", f"cwd: {machine.shop}\n\nThe queue is a marigold.\n")
    machine.write(memories / "rollout_summaries" / "b.md", f"cwd: {machine.bank}\n\nThe queue is a hydrangea.\n")
    group = f"# Task Group: queues\napplies_to: cwd={machine.shop}; reuse_rule=safe\n\n- The queue is a lupin.\n"
    index = machine.write(memories / "MEMORY.md", group)
    machine.write(memories / "memory_summary.md", "v1\nReports about a queue are short as a snowdrop.\n")
    machine.write(machine.home / ".codex" / "AGENTS.md", "Every queue gets a test, says the iris.\n")
    machine.follow("codex")

    def flowers(*projects: Path) -> set[str]:
        text = " ".join(each.snippet for each in machine.find("queue", *projects))
        return {one for one in ("marigold", "hydrangea", "lupin", "snowdrop", "iris") if one in text}

    assert flowers(machine.shop) == {"marigold", "lupin", "iris"}
    assert flowers(machine.bank) == {"hydrangea", "iris"}
    index.write_text(f"{group}\n# Task Group: the bank\napplies_to: cwd={machine.bank}\n\n- It pays by hand.\n")
    assert flowers(machine.shop) == {"marigold", "iris"}
    assert flowers() == {"marigold", "hydrangea", "lupin", "snowdrop", "iris"}


@pytest.mark.parametrize(
    ("host", "own", "repository"),
    [
        ("gemini", ".gemini/GEMINI.md", "GEMINI.md"),
        ("qwen", ".qwen/QWEN.md", "QWEN.md"),
        ("copilot", "", ".github/copilot-instructions.md"),
        ("opencode", "", "AGENTS.md"),
    ],
)
def test_the_files_of_other_hosts_are_found(host: str, own: str, repository: str, machine: Machine) -> None:
    machine.talk(host, machine.shop)
    machine.write(machine.shop / repository, "The queue of the shop is a dahlia.\n")
    if own:
        machine.write(machine.home / own, "Every queue gets a test, says the iris.\n")
    machine.follow(host)
    expected = [Path(each).name for each in (own, repository) if each]
    assert sorted(_names(machine.find("queue", machine.shop))) == sorted([*expected, "plain.md"])
    assert sorted(_names(machine.find("queue", machine.bank))) == sorted([*expected[:-1], "plain.md"])


def test_links_are_not_followed(machine: Machine, tmp_path: Path) -> None:
    at = machine.talk("claude-code", machine.shop)
    secret = machine.write(tmp_path / "secret.md", "The secret queue is a dahlia.\n")
    machine.write(tmp_path / "elsewhere" / "CLAUDE.md", "The secret queue is a tulip.\n")
    (machine.shop / "CLAUDE.md").symlink_to(secret)
    (machine.shop / ".claude").symlink_to(tmp_path / "elsewhere")
    (at / "memory").mkdir()
    (at / "memory" / "pool.md").symlink_to(secret)
    machine.follow("claude-code")
    assert machine.paths() == []
    answer = machine.memory().search("queue", source="memory")
    assert _names(list(answer)) == ["plain.md"]
    # The names of projects are nobody else's business.
    assert not answer.issues


def test_secrets_are_masked(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.write(at / "memory" / "key.md", f"The key of the queue is {SECRET}.\n")
    machine.follow("claude-code")
    (found,) = (each for each in machine.find("queue key") if host_of(each.path))
    assert SECRET not in found.snippet
    assert SECRET not in machine.memory().read(found.path).text
    assert SECRET.encode() not in machine.workspace.index.read_bytes()


def test_nothing_is_written_to_them(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.write(at / "memory" / "pool.md", "The deploy queue is called marigold.\n")
    machine.write(machine.shop / "CLAUDE.md", "The queue of the shop is a dahlia.\n")
    machine.follow("claude-code")
    before = _hash_tree(machine.home, machine.shop)
    memory = machine.memory()
    (path,) = (each for each in machine.paths() if each.endswith("pool.md"))
    with pytest.raises(PathRefused):
        memory.append("more", file=path)
    memory.append("The deploy queue is called lilac now.", file="memory/plain.md")
    assert path not in [each.path for each in memory.notes()]
    assert _hash_tree(machine.home, machine.shop) == before


def _hash_tree(*folders: Path) -> dict[str, str]:
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_fact_that_a_note_has_too_comes_once(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.workspace.write("memory/queue.md", "* The deploy QUEUE is called marigold, since May.\n")
    machine.write(at / "memory" / "pool.md", "---\nname: pool\n---\n\nThe deploy queue is called marigold.\n")
    machine.write(machine.shop / "CLAUDE.md", "The deploy queue is called marigold.\n")
    machine.write(machine.home / ".claude" / "CLAUDE.md", "In production the deploy queue has the name marigold.\n")
    machine.follow("claude-code")
    # The files of the host, which the query names, come first.
    found = [each.path for each in machine.find("CLAUDE.md deploy queue marigold", machine.shop)]
    assert [path for path in found if host_of(path)] == ["hosts/claude-code/~/CLAUDE.md"]
    assert "memory/queue.md" in found[:2]


def test_they_replace_no_note(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.workspace.write("memory/2026-01-05.md", "The deploy pool has 12 connections.\n")
    machine.write(at / "memory" / "2026-05-05.md", "The deploy pool has 20 connections.\n")
    machine.follow("claude-code")
    memory = machine.memory()
    assert not list_conflicts(memory).found
    appended = memory.append("The deploy pool has 30 connections.", file="2026-06-01")
    replaced = find_replaced(memory, "The deploy pool has 30 connections.", appended)
    assert [line.path for line in replaced] == ["memory/2026-01-05.md"]


def test_what_was_forgotten_is_masked_and_the_hosts_file_is_named(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    file = machine.write(at / "memory" / "pool.md", "The deploy queue is called marigold.\nIt has 12 places.\n")
    machine.follow("claude-code")
    before = _hash_tree(machine.home)
    memory = machine.memory()
    (path,) = machine.paths()
    forgetting, now = Forgetting(memory), datetime(2026, 6, 1, tzinfo=UTC)
    plan = forgetting.plan(ForgetRequest(phrases=("called marigold",)), now)
    assert [(place.kind, place.citation) for place in plan.places] == [("host", f"{path}#L1")]
    assert str(file) in plan.places[0].warning
    assert forgetting.apply(plan, now)
    assert "marigold" not in machine.memory().read(path).text
    assert "12 places" in machine.memory().read(path).text
    assert not any("marigold" in each.snippet for each in machine.find("deploy queue marigold"))
    assert b"marigold" not in machine.workspace.index.read_bytes()
    whole = forgetting.plan(ForgetRequest(paths=(path,)), now)
    forgetting.apply(whole, now)
    assert "12 places" not in machine.memory().read(path).text
    assert "pool.md" not in _names(machine.find("12 places"))
    assert _hash_tree(machine.home) == before


def test_a_memory_that_is_open_notices_a_change(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    facts = [machine.write(at / "memory" / "pool.md", "x\n"), machine.write(machine.shop / "CLAUDE.md", "y\n")]
    machine.follow("claude-code")
    memory = machine.memory()
    for number, file in enumerate((*facts, at / "memory" / "new.md")):
        assert not any("zinnia" in each.snippet for each in memory.search(f"queue zinnia{number}"))
        file.write_text(f"The queue is called zinnia{number}.\n")
        assert f"zinnia{number}" in memory.search(f"queue zinnia{number}")[0].snippet
        file.write_text("The queue has no name.\n")


def test_a_file_of_a_host_that_is_no_longer_followed_gives_no_text(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.write(at / "memory" / "pool.md", "The deploy queue is called marigold.\n")
    machine.workspace.write("hosts/codex/own/note.md", "The own queue is called peony.\n")
    machine.follow("claude-code")
    settings = machine.memory().settings
    files = open_files(settings, str(machine.home))
    listing = files.scan()
    HostState(settings.agent_folder).forget("claude-code")
    files.roots()
    texts = {path: files.read(path, listing).text for path in filter(host_of, listing.stamps)}
    assert sorted(texts.values()) == ["", "The own queue is called peony.\n"]


def test_they_leave_the_index_with_the_host(machine: Machine) -> None:
    at = machine.talk("claude-code", machine.shop)
    machine.write(at / "memory" / "pool.md", "The deploy queue is called marigold.\n")
    machine.follow("claude-code")
    assert "pool.md" in _names(machine.find("marigold"))
    loaded = load(env=machine.workspace.env, cwd=str(machine.workspace.path))
    HostChoice("claude-code", loaded, machine.workspace.env, "").state.forget("claude-code")
    assert "pool.md" not in _names(machine.find("marigold"))


def _result(path: str, origin: Origin) -> SearchResult:
    return SearchResult(path, 1, 1, 0.9, "", "memory", 1, 1, "", origin=origin)


def test_a_host_loads_its_own_files_but_no_single_fact() -> None:
    assert is_loaded_by(_result("hosts/claude-code/~/CLAUDE.md", ""), "claude-code")
    assert is_loaded_by(_result("hosts/claude-code/shop-1a2b/memory/MEMORY.md", "agent"), "claude-code")
    assert is_loaded_by(_result("hosts/claude-code/shop-1a2b/AGENTS.md", "untrusted"), "codex")
    assert is_loaded_by(_result("hosts/claude-code/shop-1a2b/CLAUDE.md", "untrusted"), "codex")
    assert not is_loaded_by(_result("hosts/claude-code/shop-1a2b/memory/pool.md", "agent"), "claude-code")
    assert not is_loaded_by(_result("hosts/claude-code/~/CLAUDE.md", ""), "codex")
    assert not is_loaded_by(_result("CLAUDE.md", "untrusted"), "claude-code")
    assert host_of("hosts/web.md") == host_of("hosts/servers/web.md") == host_of("memory/hosts/codex/~/a.md") == ""
