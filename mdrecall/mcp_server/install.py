"""Adds this server to the configuration file of a client, which starts it, and loses nothing that is in it."""

import contextlib
import difflib
import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.errors import RecallError

if TYPE_CHECKING:
    from mdrecall.config.environment import ProgramFolders

CLIENTS = ("claude-code", "claude-desktop", "codex", "cursor", "vscode")
SCOPES = ("user", "project")


class Entry(NamedTuple):
    """One server in a client's configuration."""

    name: str
    command: str
    args: tuple[str, ...]


class Target(NamedTuple):
    """The file that an entry belongs into, and the table in that file."""

    path: str
    table: str
    has_type: bool = False
    """True if an entry must say that it is about standard input and output."""

    @property
    def is_toml(self) -> bool:
        return self.path.endswith(".toml")

    def values(self, entry: Entry) -> dict[str, object]:
        """Return the entry as the file has it."""
        kind: dict[str, object] = {"type": "stdio"} if self.has_type else {}
        return kind | {"command": entry.command, "args": list(entry.args)}


def target_of(client: str, scope: str, folders: "ProgramFolders", project: str) -> Target:
    """Return the configuration file of a client, for all projects of this user or for one."""
    home, config = folders.home, folders.config
    support = os.path.join(home, "Library", "Application Support") if sys.platform == "darwin" else config
    files = {
        ("claude-code", "user"): Target(os.path.join(folders.claude, ".claude.json"), "mcpServers", True),
        ("claude-code", "project"): Target(os.path.join(project, ".mcp.json"), "mcpServers", True),
        ("claude-desktop", "user"): Target(os.path.join(support, "Claude", "claude_desktop_config.json"), "mcpServers"),
        ("codex", "user"): Target(os.path.join(folders.codex, "config.toml"), "mcp_servers"),
        ("codex", "project"): Target(os.path.join(project, ".codex", "config.toml"), "mcp_servers"),
        ("cursor", "user"): Target(os.path.join(home, ".cursor", "mcp.json"), "mcpServers"),
        ("cursor", "project"): Target(os.path.join(project, ".cursor", "mcp.json"), "mcpServers"),
        ("vscode", "user"): Target(os.path.join(support, "Code", "User", "mcp.json"), "servers", True),
        ("vscode", "project"): Target(os.path.join(project, ".vscode", "mcp.json"), "servers", True),
    }
    target = files.get((client, scope))
    if target is None:
        raise RecallError(f"{client} has no configuration for a {scope}.", hint="Leave out --scope.")
    return target


def own_command() -> tuple[str, ...]:
    """Return the command that starts this very mdrecall from any folder."""
    beside = os.path.join(os.path.dirname(sys.executable), "mdrecall")
    if os.access(beside, os.X_OK) and os.path.isfile(beside):
        return (beside,)
    return (sys.executable, "-m", "mdrecall")


class Plan(NamedTuple):
    """A configuration file as it is, and as it would be."""

    path: str
    before: str | None
    """None if there is no file."""
    after: str

    @property
    def changes(self) -> bool:
        return self.after != self.before

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        before, after = (self.before or "").splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = difflib.unified_diff(
            before, after, self.path if self.before is not None else os.devnull, self.path, n=2
        )
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def snippet(target: Target, entry: Entry) -> str:
    """Return the entry alone, as an empty file would get it."""
    values = target.values(entry)
    if target.is_toml:
        lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
        return "\n".join((f"[{target.table}.{entry.name}]", *lines)) + "\n"
    return json.dumps({target.table: {entry.name: values}}, indent=2, ensure_ascii=False) + "\n"


def plan(target: Target, entry: Entry) -> Plan:
    """Return what would be written; raise for a file that cannot be changed without a loss."""
    path = os.path.realpath(target.path)
    before = _read(path)
    if before is None or not before.strip("\ufeff \t\r\n"):
        return Plan(path, before, snippet(target, entry))
    merge = _merge_toml if target.is_toml else _merge_json
    return Plan(path, before, merge(before, path, target, entry))


def write(change: Plan) -> str:
    """Write the change in one step; return the path of the backup, empty if there was no file before."""
    folder = os.path.dirname(change.path)
    try:
        os.makedirs(folder, exist_ok=True)
        mode = os.stat(change.path).st_mode & 0o777 if change.before is not None else 0o600
        backup = _back_up(change.path, change.before, mode) if change.before is not None else ""
        if _read(change.path) != change.before:
            raise RecallError(f"{change.path} has just been changed by another program.", hint="Try again.")
        _replace(folder, change.path, change.after, mode)
    except OSError as error:
        message = f"Cannot write {change.path}: {error.strerror or error}."
        raise RecallError(message, hint="Fix the permissions, or use --print and add the lines yourself.") from error
    return backup


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RecallError(f"Cannot read {path}: {reason}.", hint="Fix it, or use --print.") from error


def _merge_json(before: str, path: str, target: Target, entry: Entry) -> str:
    values = _parse_json(before.removeprefix("\ufeff"), path, target, entry)
    servers = values.setdefault(target.table, {})
    if not isinstance(servers, dict) or not isinstance(servers.get(entry.name, {}), dict):
        raise _refusal(path, f"{target.table} is not a table of servers", target, entry)
    wanted = {**servers.get(entry.name, {}), **target.values(entry)}
    if servers.get(entry.name) == wanted:
        return before
    servers[entry.name] = wanted
    after = json.dumps(values, indent=_indent(before), ensure_ascii=False)
    if before.endswith("\n"):
        after += "\n"
    if "\r\n" in before:
        after = after.replace("\n", "\r\n")
    return "\ufeff" + after if before.startswith("\ufeff") else after


def _parse_json(text: str, path: str, target: Target, entry: Entry) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise _refusal(path, "a name occurs in it twice", target, entry)
        return dict(pairs)

    try:
        values = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        place = f" from line {error.lineno}, column {error.colno} on" if isinstance(error, json.JSONDecodeError) else ""
        raise _refusal(path, f"it is not plain JSON{place} (comments would be lost)", target, entry) from error
    if not isinstance(values, dict):
        raise _refusal(path, "it is not an object", target, entry)
    return values


def _indent(text: str) -> int | str:
    """Return what the file indents with."""
    for line in text.splitlines():
        bare = line.lstrip(" \t")
        if bare and bare != line:
            return line[: len(line) - len(bare)]
    return 2


def _merge_toml(before: str, path: str, target: Target, entry: Entry) -> str:
    import tomllib

    try:
        values = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        raise _refusal(path, f"it is not TOML: {error}", target, entry) from error
    servers = values.get(target.table, {})
    existing = servers.get(entry.name) if isinstance(servers, dict) else None
    wanted = target.values(entry)
    if isinstance(existing, dict) and {**existing, **wanted} == existing:
        return before
    if existing is not None:
        why = f"[{target.table}.{entry.name}] is there already with other values"
        raise _refusal(path, why, target, entry, way_out="Replace it with this, or choose another --name")
    end = "\r\n" if "\r\n" in before else "\n"
    after = before + ("" if before.endswith("\n") else end) + end + snippet(target, entry).replace("\n", end)
    try:
        is_safe = tomllib.loads(after) == {**values, target.table: {**servers, entry.name: wanted}}
    except (tomllib.TOMLDecodeError, TypeError):
        is_safe = False
    if not is_safe:
        raise _refusal(path, f"{target.table} is written in a way that allows no addition", target, entry)
    return after


def _refusal(path: str, why: str, target: Target, entry: Entry, *, way_out: str = "Add this yourself") -> RecallError:
    return RecallError(f"{path} was not changed: {why}.", hint=f"{way_out}:\n\n{snippet(target, entry)}")


def _back_up(path: str, text: str, mode: int) -> str:
    """Copy a file to the first free name beside it."""
    for number in range(1, 1000):
        backup = f"{path}.bak" if number == 1 else f"{path}.bak{number}"
        with contextlib.suppress(FileExistsError):
            file = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(file, "w", encoding="utf-8", newline="") as out:
                out.write(text)
            return backup
    raise RecallError(f"There are too many backups of {path}.", hint=f"Remove some: {path}.bak*")


def _replace(folder: str, path: str, text: str, mode: int) -> None:
    file, temporary = tempfile.mkstemp(dir=folder, prefix=".mdrecall-")
    try:
        with open(file, "w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
