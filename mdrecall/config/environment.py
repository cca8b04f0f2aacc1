"""What the environment says: where files are, proxies, and other programs' folders."""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from mdrecall import platform

#: OpenClaw's state folder in the home, then those of earlier names.
_STATE_DIRS = (".openclaw", ".clawdbot", ".moldbot", ".moltbot")
_CONFIG_NAMES = ("openclaw.json", "clawdbot.json", "moldbot.json", "moltbot.json")


class Locations(NamedTuple):
    """Folders and configuration files; a path is None if there is no such file. Nothing is created."""

    home: str
    state_dir: str
    config_path: str | None
    own_state_dir: str
    own_config_path: str | None

    @property
    def own_config(self) -> str:
        """mdrecall's own configuration file, which may not exist."""
        return self.own_config_path or os.path.join(self.own_state_dir, "mdrecall.json")

    @property
    def hook_log(self) -> str:
        """The log of what went wrong in hooks."""
        return os.path.join(self.own_state_dir, "hooks.log")


def find_locations(env: Mapping[str, str], cwd: str) -> Locations:
    """Find OpenClaw's locations from the environment as OpenClaw does, and mdrecall's own."""

    def find(home: str, *variables: str) -> str:
        """Return the path that the first of some variables names; empty if none is set."""
        return next((expand(path, home, cwd) for name in variables if (path := env.get(name, "").strip())), "")

    system = env.get("HOME", "").strip() or env.get("USERPROFILE", "").strip() or os.path.expanduser("~")
    system = os.path.normpath(os.path.join(cwd, system)) if not system.startswith("~") else cwd
    home = find(system, "OPENCLAW_HOME") or system
    folders = [os.path.join(home, name) for name in _STATE_DIRS]
    state_dir = find(home, "OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
    state_dir = state_dir or next(filter(os.path.isdir, folders), folders[0])
    candidates = [os.path.join(state_dir, name) for name in _CONFIG_NAMES]
    config = find(home, "OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH")
    own_state_dir = find(home, "MDRECALL_STATE_DIR") or _own_state_dir(env, home)
    own_config = os.path.join(own_state_dir, "mdrecall.json")
    own_config = find(home, "MDRECALL_CONFIG") or (own_config if os.path.isfile(own_config) else "")
    config_path = config or next(filter(os.path.isfile, candidates), None)
    return Locations(home, state_dir, config_path, own_state_dir, own_config or None)


def _own_state_dir(env: Mapping[str, str], home: str) -> str:
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "mdrecall")
    if platform.IS_WINDOWS:
        return os.path.join(env.get("LOCALAPPDATA", "").strip() or os.path.join(home, "AppData", "Local"), "mdrecall")
    base = env.get("XDG_STATE_HOME", "").strip()
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".local", "state"), "mdrecall")


def default_workspace(locations: Locations, env: Mapping[str, str]) -> str:
    """Return the default agent's workspace when the configuration names none."""
    if named := env.get("OPENCLAW_WORKSPACE_DIR", "").strip():
        return expand(named, locations.home, locations.home)
    profile = env.get("OPENCLAW_PROFILE", "").strip()
    name = "workspace" if profile.lower() in ("", "default") else f"workspace-{profile}"
    folder = os.path.join(locations.home, ".openclaw", name)
    if not os.path.isdir(folder) and env.get("OPENCLAW_STATE_DIR", "").strip():
        # Newer OpenClaws have it in the state folder.
        return os.path.join(locations.state_dir, name)
    return folder


def expand(path: str, home: str, relative_to: str) -> str:
    """Return an absolute path; a leading ``~`` is the home, while ``~name`` is an ordinary name."""
    path = path.strip()
    if path == "~":
        return home
    if path.startswith(("~/", "~\\")):
        return os.path.normpath(os.path.join(home, path[2:]))
    return os.path.normpath(os.path.join(relative_to, path))


def is_openclaws_file(path: str, locations: Locations) -> bool:
    """True if a configuration file is one of OpenClaw's, by its place or its name; backups of it count."""
    return path == locations.config_path or os.path.basename(path).startswith(_CONFIG_NAMES)


def list_env_files(locations: Locations) -> tuple[str, ...]:
    """Return the files in which OpenClaw finds variables, strongest first; the second one is from its installer."""
    gateway = os.path.join(locations.home, ".config", "openclaw", "gateway.env")
    return os.path.join(locations.state_dir, ".env"), gateway


def explain_unread_config(locations: Locations, workspace: str) -> str:
    """Return a warning if a ``mdrecall.json`` lies among the notes, where it is not read; empty otherwise."""
    path = os.path.join(workspace, "mdrecall.json")
    if locations.own_config_path or not os.path.isfile(path):
        return ""
    right = shorten(locations.own_config, locations.home)
    return f"{shorten(path, locations.home)} is not read. Move it to {right}, or set MDRECALL_CONFIG to its path."


def shorten(path: str, home: str) -> str:
    """Return the path for display, with ``~`` for the home."""
    return "~" + path[len(home) :] if path == home or path.startswith(home + os.sep) else path


def is_within(path: str, folder: str) -> bool:
    """True if an absolute path is a folder or lies in it, by their names alone."""
    try:
        return os.path.commonpath([folder, path]) == folder
    except ValueError:
        # They are on two drives.
        return False


def relative_path(path: str, folder: str) -> str:
    """Return a path from a folder, with slashes; the path itself if it is on another drive."""
    try:
        return os.path.relpath(path, folder).replace(os.sep, "/")
    except ValueError:
        return path.replace(os.sep, "/")


def is_disk(path: str) -> bool:
    """True if an absolute path is a whole disk."""
    return os.path.dirname(path) == path


class ProgramFolders(NamedTuple):
    """Where other programs keep their configuration; ``openclaw`` is a file. Nothing of it needs to exist."""

    home: str
    config: str
    claude: str
    codex: str
    openclaw: str = ""
    openclaw_state: str = ""
    hermes: str = ""


def find_program_folders(env: Mapping[str, str], cwd: str) -> ProgramFolders:
    """Return the folders in which the agents' programs are configured."""
    home = (locations := find_locations(env, cwd)).home
    return ProgramFolders(
        home,
        env.get("XDG_CONFIG_HOME", "").strip() or os.path.join(home, ".config"),
        env.get("CLAUDE_CONFIG_DIR", "").strip() or home,
        env.get("CODEX_HOME", "").strip() or os.path.join(home, ".codex"),
        locations.config_path or os.path.join(locations.state_dir, "openclaw.json"),
        locations.state_dir,
        env.get("HERMES_HOME", "").strip() or os.path.join(home, ".hermes"),
    )


def find_proxy(url: str, env: Mapping[str, str]) -> str:
    """Return the proxy for an address; empty for this machine and for hosts that ``NO_PROXY`` lists."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if host in ("localhost", "::1") or host.startswith("127.") or _is_excepted(host, _read(env, "NO_PROXY")):
        return ""
    proxy = _read(env, f"{parts.scheme.upper()}_PROXY") or _read(env, "ALL_PROXY")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


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
