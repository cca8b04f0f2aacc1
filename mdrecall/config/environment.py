"""What environment variables say beyond the settings: proxies, other programs' folders, and a server's token."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from mdrecall.config.locations import find_locations


class ProgramFolders(NamedTuple):
    """Where other programs keep their configuration."""

    home: str
    config: str
    claude: str
    codex: str


def find_program_folders(env: Mapping[str, str], cwd: str) -> ProgramFolders:
    """Return the folders in which the agents' programs are configured."""
    home = find_locations(env, cwd).home
    return ProgramFolders(
        home,
        env.get("XDG_CONFIG_HOME", "").strip() or os.path.join(home, ".config"),
        env.get("CLAUDE_CONFIG_DIR", "").strip() or home,
        env.get("CODEX_HOME", "").strip() or os.path.join(home, ".codex"),
    )


def read_server_token(env: Mapping[str, str]) -> str:
    """Return the token that HTTP clients of a server must send; empty if none is set."""
    return env.get("MDRECALL_TOKEN", "").strip()


def find_proxy(url: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy for an address; None for this machine and for hosts that ``NO_PROXY`` lists."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if host in ("localhost", "::1") or host.startswith("127.") or _is_excepted(host, _read(env, "NO_PROXY")):
        return None
    proxy = _read(env, f"{parts.scheme.upper()}_PROXY") or _read(env, "ALL_PROXY")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _read(env: Mapping[str, str], name: str) -> str:
    """Read a proxy variable, its lower-case spelling first.

    In a CGI program, ``HTTP_PROXY`` may come from a request's ``Proxy`` header and is not trusted.
    """
    value = env.get(name.lower(), "")
    if not value and not (name == "HTTP_PROXY" and "REQUEST_METHOD" in env):
        value = env.get(name, "")
    return value.strip()


def _is_excepted(host: str, exceptions: str) -> bool:
    for entry in exceptions.lower().split(","):
        name = entry.strip().partition(":")[0].removeprefix("*").removeprefix(".")
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False
