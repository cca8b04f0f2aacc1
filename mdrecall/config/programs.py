"""What the environment says for servers and other programs: a token, and where agents are configured."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from mdrecall.config.locations import find_places


class ProgramFolders(NamedTuple):
    """Where other programs keep their configuration."""

    home: str
    config: str
    claude: str
    codex: str


def program_folders(env: Mapping[str, str], cwd: str) -> ProgramFolders:
    """The folders that agents' programs are configured in."""
    home = find_places(env, cwd).home
    return ProgramFolders(
        home,
        env.get("XDG_CONFIG_HOME", "").strip() or os.path.join(home, ".config"),
        env.get("CLAUDE_CONFIG_DIR", "").strip() or home,
        env.get("CODEX_HOME", "").strip() or os.path.join(home, ".codex"),
    )


def server_token(env: Mapping[str, str]) -> str:
    """The token that clients of a server over HTTP must know; empty if there is none."""
    return env.get("MDRECALL_TOKEN", "").strip()
