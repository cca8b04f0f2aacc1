"""The MCP clients: where each has its configuration, what an entry looks like in it, and which command it starts."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import platform
from mdrecall.errors import RecallError
from mdrecall.mcp_server.config_text import Place, render
from mdrecall.state_files import draft

if TYPE_CHECKING:
    from mdrecall.config.environment import ProgramFolders

SCOPES = ("user", "project")
#: The project's folder in an entry: where most clients start a server, or the variable of an editor.
_START_FOLDER, _EDITOR_FOLDER = PROJECT_FOLDERS = (".", "${workspaceFolder}")
#: How to have a command that stays, on the PATH of every terminal.
LASTING = "Install mdrecall with `uv tool install` or `pipx install`."


class Entry(NamedTuple):
    """One server in a client's configuration."""

    name: str
    command: str
    args: tuple[str, ...]


class Client(NamedTuple):
    """A program that starts MCP servers: where its configuration is, and what an entry looks like in it."""

    user: str
    """The file for all projects; ``{home}``, ``{config}``, ``{support}``, ``{claude}`` and ``{codex}`` are folders,
    ``{openclaw}`` is a file."""
    project: str = ""
    """The file in a project; empty if the client has none."""
    table: str = "mcpServers"
    values: Callable[[Entry], dict[str, Any]] = lambda entry: {"command": entry.command, "args": list(entry.args)}
    folder: str = _START_FOLDER
    """The project's folder in an entry for a project."""


def _with_type(entry: Entry) -> dict[str, Any]:
    return {"type": "stdio", "command": entry.command, "args": list(entry.args)}


def _for_copilot(entry: Entry) -> dict[str, Any]:
    return {"type": "local", "command": entry.command, "args": list(entry.args), "tools": ["*"]}


def _for_opencode(entry: Entry) -> dict[str, Any]:
    return {"type": "local", "command": [entry.command, *entry.args], "enabled": True}


def _for_goose(entry: Entry) -> dict[str, Any]:
    command = {"cmd": entry.command, "args": list(entry.args)}
    # Goose gives up on an extension after these seconds; it is its own default.
    return {"type": "stdio", "name": entry.name, "enabled": True, "timeout": 300, "envs": {}} | command


_CLINE = "{support}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_CLIENTS = {
    "claude-code": Client("{claude}/.claude.json", ".mcp.json", values=_with_type),
    "claude-desktop": Client("{support}/Claude/claude_desktop_config.json"),
    "cline": Client(_CLINE),
    "codex": Client("{codex}/config.toml", ".codex/config.toml", "mcp_servers"),
    "copilot": Client("{home}/.copilot/mcp-config.json", values=_for_copilot),
    "cursor": Client("{home}/.cursor/mcp.json", ".cursor/mcp.json", folder=_EDITOR_FOLDER),
    "gemini": Client("{home}/.gemini/settings.json", ".gemini/settings.json"),
    "goose": Client("{config}/goose/config.yaml", table="extensions", values=_for_goose),
    "lmstudio": Client("{home}/.lmstudio/mcp.json"),
    "openclaw": Client("{openclaw}", table="mcp.servers"),
    "opencode": Client("{config}/opencode/opencode.json", "opencode.json", "mcp", _for_opencode),
    "qwen": Client("{home}/.qwen/settings.json", ".qwen/settings.json"),
    "vscode": Client("{support}/Code/User/mcp.json", ".vscode/mcp.json", "servers", _with_type, _EDITOR_FOLDER),
    "windsurf": Client("{home}/.codeium/windsurf/mcp_config.json"),
    "zed": Client("{config}/zed/settings.json", table="context_servers"),
}
CLIENTS = tuple(_CLIENTS)
#: What most clients that are not in the table accept.
_ANY_CLIENT = Client("the configuration of the client")


class Target(NamedTuple):
    """The file for an entry, and the client that reads it."""

    path: str
    client: Client

    def place(self, name: str) -> Place:
        kind = os.path.splitext(self.path)[1].removeprefix(".")
        return Place(kind if kind in ("toml", "yaml") else "json", self.client.table, name)

    @property
    def is_yaml(self) -> bool:
        """True if a person has to edit the file."""
        return self.place("").kind == "yaml"


def find_client(client: str) -> Client:
    """Return how a client is configured; an empty name is any client that is not in the table."""
    return _CLIENTS[client] if client else _ANY_CLIENT


def target_of(client: str, scope: str, folders: "ProgramFolders", project: str) -> Target:
    """Return the configuration file of a client, for all projects of this user or for one."""
    found = find_client(client)
    if not client:
        return Target(found.user, found)
    if scope == "project" and not found.project:
        raise RecallError(f"{client} has no configuration for a project.", hint="Leave out --scope.")
    support = os.path.join(folders.home, "Library", "Application Support")
    roaming = os.path.join(folders.home, "AppData", "Roaming")
    support = support if sys.platform == "darwin" else roaming if platform.IS_WINDOWS else folders.config
    path = os.path.join(project, found.project) if scope == "project" else ""
    path = path or found.user.format(support=support, **folders._asdict())
    with_comments = f"{path}c"
    return Target(with_comments if path.endswith(".json") and os.path.exists(with_comments) else path, found)


def own_command() -> tuple[str, ...]:
    """Return the command that starts this very mdrecall from any folder, whatever the PATH of a host is.

    A link to it on the PATH, as pipx and uv make one, is preferred: it stays when they move what it leads to.
    """
    import shutil

    _refuse_cache(sys.prefix)
    beside = os.path.join(os.path.dirname(sys.executable), "mdrecall")
    if platform.IS_WINDOWS:
        import sysconfig

        beside = os.path.join(sysconfig.get_path("scripts"), "mdrecall.exe")
    for path in (shutil.which("mdrecall"), shutil.which(beside)):
        if path and os.path.normcase(os.path.realpath(path)) == os.path.normcase(os.path.realpath(beside)):
            return (os.path.abspath(path),)
    # -P: a host runs it in any folder, where Python would otherwise take a folder called mdrecall for this one.
    return (sys.executable, "-P", "-m", "mdrecall")


def _refuse_cache(folder: str) -> None:
    """Raise if a folder lies in a cache, as those of `uvx` and `pipx run` do: such a folder may be deleted any day."""
    above = os.path.dirname(folder)
    while above != os.path.dirname(above) and not os.path.exists(os.path.join(above, "CACHEDIR.TAG")):
        above = os.path.dirname(above)
    if above != os.path.dirname(above):
        message = f"This mdrecall is in a cache, {above}, from which it may be deleted."
        raise RecallError(message, hint=f"{LASTING} Then run this again.")


def is_found_everywhere(command: str) -> bool:
    """True if a host finds a command in every terminal, not only where a virtual environment is active."""
    import shutil

    found = shutil.which(command)
    above = os.path.dirname(os.path.dirname(os.path.abspath(found or "")))
    return bool(found) and (os.path.isabs(command) or not os.path.exists(os.path.join(above, "pyvenv.cfg")))


def diff(path: str, before: str | None, after: str | None) -> str:
    """Return the change of a file as a unified diff; None stands for no file."""
    import difflib

    old, new = ((text or "").splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(old, new, path if before is not None else os.devnull, path, n=2)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def snippet(target: Target, entry: Entry) -> str:
    """Return the entry alone, as an empty file would get it."""
    return render(target.place(entry.name), target.client.values(entry))


def read_text(path: str) -> str | None:
    """Return the text of a file with its line ends; None if there is none. Raise for one that cannot be read."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RecallError(f"Cannot read {path}: {reason}.", hint="Fix it, or use --print.") from error


def back_up(path: str, text: str, mode: int) -> str:
    """Copy a text to the first free name beside its file, and return that."""
    for number in range(1, 1000):
        backup = f"{path}.bak" if number == 1 else f"{path}.bak{number}"
        with contextlib.suppress(FileExistsError):
            file = platform.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(file, "w", encoding="utf-8", newline="") as out:
                out.write(text)
            return backup
    raise RecallError(f"There are too many backups of {path}.", hint=f"Remove some: {path}.bak*")


def replace_text(path: str, text: str, new_mode: int = 0o644) -> None:
    """Write a file in one step, with its folder if there is none; raise ``OSError`` if that fails.

    A file keeps its permissions; a new one gets those of ``new_mode``.
    """
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else new_mode
    with draft(path) as (made, publish):
        made.write(text.encode())
        made.flush()
        os.fsync(made.fileno())
        os.chmod(made.name, mode)
        publish()
