"""The programs that can start this server: where each keeps its configuration, and how an entry looks there."""

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

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
