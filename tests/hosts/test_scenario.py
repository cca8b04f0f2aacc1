"""The whole way with the real programs: install, a session, a compaction, another session that remembers, uninstall."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.hosts.digest import finish_digests
from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import HOSTS, IN_SUITE, Host, call_shell
from tests.hosts.wire import Call
from tests.processes import until

FACT = "The quokka enclosure is painted in sea green RAL-6029, because the old blue frightened them."
#: What each host calls the tool of mdrecall's server.
APPEND = {
    "claude-code": "mcp__plugin_mdrecall_mdrecall__memory_append",
    "codex": "mcp__mdrecall__memory_append",
    "copilot": "mdrecall-memory_append",
    "gemini": "mcp_mdrecall_memory_append",
    "opencode": "mdrecall_memory_append",
    "qwen": "mcp__mdrecall__memory_append",
}
#: The tokens that the first session claims to have, and what makes the host compact at so many. Qwen Code
#: compacts at a share of the window of its model, so it claims more. Gemini CLI compacts nothing before the second
#: prompt of a conversation: it is asked for in ``resume_and_compact``.
COMPACTION: dict[str, tuple[int, tuple[str, ...], dict[str, str]]] = {
    "claude-code": (150_000, ("--autocompact", "100k"), {}),
    "codex": (9_000, ("-c", "model_auto_compact_token_limit=3000"), {}),
    "copilot": (15_900, (), {"COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "16000"}),
    "opencode": (19_500, (), {}),
    "qwen": (900_000, (), {}),
}
#: How each host records that it has compacted.
COMPACTED = {
    "claude-code": "compact_boundary",
    "codex": '"type":"compacted"',
    "opencode": '"type":"compaction"',
    "qwen": '"subtype":"chat_compression"',
    "copilot": '"session.compaction_complete","data":{"success":true',
    "gemini": "<state_snapshot>The fence was painted.",
}

#: Waits until the MCP server of the session runs: then it answers commands, too. A moment later the host has its tools.
WAIT = "for n in $(seq 100); do ls ~/.local/state/mdrecall/warm/*.pipe 2>/dev/null && break; sleep 0.1; done; sleep 1"


def ask(host: Host, prompt: str, cwd: Path, *more: str, **env: str) -> str:
    done = host.ask(prompt, cwd, *more, **env)
    assert done.code == 0, done
    assert "mdrecall" not in done.err, done.err
    return done.out


def list_files(host: Host) -> dict[str, Path]:
    """The files in the folders that the hosts have in a home."""
    names = [".claude", ".codex", ".copilot", ".gemini", ".config", ".qwen"]
    found = [path for name in names for path in (host.home / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(host.home)): path for path in found}


def read_settings(host: Host) -> dict[str, bytes]:
    """The files by which a host is configured. It writes others as it runs: conversations, logs, databases."""
    names = {"config.json", "config.toml", "hooks.json", "mcp-config.json", "opencode.json", "settings.json"}
    return {name: path.read_bytes() for name, path in list_files(host).items() if path.name in names}


def read_notes(host: Host) -> str:
    """The notes of all days."""
    return "\n".join(path.read_text() for path in (host.home / "mdrecall/memory").glob("*.md"))


def read_finished_notes(host: Host) -> str:
    """The notes when every session is over: not every host says that one has ended."""
    settings = load(env=host.env, cwd=str(host.home), workspace=str(host.home / "mdrecall")).settings
    finish_digests(settings, datetime.now(UTC) + timedelta(hours=2))
    return read_notes(host)


def resume_and_compact(host: Host, model: Model, project: Path) -> None:
    """Resume the last conversation of Gemini CLI with a long prompt, at such a low threshold that it compacts it."""
    file = host.home / ".gemini/settings.json"
    before = file.read_bytes()
    settings = json.loads(before)
    file.write_text(json.dumps({**settings, "model": {"compressionThreshold": 0.0001}}))
    model.teach("<state_snapshot>", say="<state_snapshot>The fence was painted.</state_snapshot>")
    model.teach("whatever the weather", say="That was all.")
    ask(host, "Go on, whatever the weather.", project, "--resume", "latest")
    file.write_bytes(before)


def find_texts(folder: Path, words: str) -> list[Path]:
    """The files below a folder that hold some words."""
    return [path for path in folder.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", HOSTS)
def test_what_one_session_learns_the_next_one_knows_and_uninstall_leaves_nothing(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host = real_host(name)
    project = tmp_path / "project"
    project.mkdir()
    if name not in IN_SUITE:
        # At their first start these write their version and the like into their files.
        ask(host, "Hello.", project)
    before = read_settings(host)
    other = tmp_path / "other-notes"
    other.mkdir()
    (other / "quokkas.md").write_text("The quokkas of the other zoo live in a blue enclosure.\n")
    assert host.mdrecall("install", name, cwd=project).code == 0
    if name == "codex":
        assert "has not approved 5 of mdrecall's hooks" in host.mdrecall("doctor", cwd=project).out
        host.approve_hooks(project)
    assert f"{name} calls " in host.mdrecall("doctor", cwd=project).out

    tokens, arguments, env = COMPACTION.get(name, (100, (), {}))
    # Codex does not wait for a server, and Claude Code compacts nothing after one call only.
    calls = [call_shell(name, WAIT), Call(APPEND[name], {"text": FACT})]
    if name == "copilot":
        # It compacts beside the turn, which has to last as long.
        calls.append(call_shell(name, "sleep 5"))
    model.teach("which colour the fence got", *calls, say="Written down. TODO: paint the gate too.", tokens=tokens)
    # These forget the prompt when they compact, and go on with a text of their own; OpenCode and Qwen after one call.
    model.teach("continued from a previous conversation", say="Written down. TODO: paint the gate too.")
    model.teach("Continue if you have next steps", calls[1], say="Written down. TODO: paint the gate too.")
    # Qwen keeps the first call.
    model.teach("Resume the prior task", *calls, say="Written down. TODO: paint the gate too.")
    # The long prompt is worth summing up: a summary that is no shorter is thrown away.
    prompt = "Please keep which colour the fence got, the marsupials matter." + " It has many planks." * 100
    ask(host, prompt, project, *arguments, **env)
    if name == "gemini":
        resume_and_compact(host, model, project)
    assert find_texts(host.home, COMPACTED[name]), "The host has not compacted."
    assert FACT in read_notes(host)
    assert until(lambda: f"mdrecall:digest host={name}" in read_finished_notes(host))

    # A person who stands among other notes means those; the host uses its own memory there, too.
    found = host.mdrecall("search", "quokka enclosure", cwd=other)
    assert ("blue enclosure" in found.out, "sea green" in found.out) == (True, False), found
    model.teach("good morning", say="Good morning.")
    ask(host, "Well, good morning to you.", other)
    assert until(lambda: "Open: TODO: paint the gate too." in read_finished_notes(host))
    notes = read_notes(host)
    assert notes.count("the marsupials matter") == 1, "The digest quotes the prompt once."
    assert notes.count("Open: TODO: paint the gate too.") == 1, "The digest has the open end once."
    first = model.requests_with("good morning to you")[0]
    assert "mdrecall-memory" in first.text
    assert FACT not in first.text, "What an agent kept in one project is not shown unasked in another."
    model.teach("good evening", say="Good evening.")
    ask(host, "Well, good evening to you.", project)
    assert FACT in model.requests_with("good evening to you")[0].text

    assert host.mdrecall("hosts", "follow", name, cwd=project).code == 0
    found = host.mdrecall("search", "--source", "sessions", "--json", "the marsupials matter", cwd=project)
    assert "the marsupials matter" in str([hit["snippet"] for hit in json.loads(found.out)["results"]]), found

    assert host.mdrecall("uninstall", name, cwd=project).code == 0
    assert read_settings(host) == before
    assert not [name for name in list_files(host) if "mdrecall" in name], "Files of mdrecall are left."
    assert not (host.home / ".local/state/mdrecall/mdrecall.json").exists()
    assert not (host.home / "mdrecall/MEMORY.md").exists(), "Nobody has touched the first note."
    assert FACT in read_notes(host)
