"""Checks of what is installed in coding agents: dead commands, double installations, hooks that nobody has approved."""

import os
import re
import tomllib
from collections.abc import Iterator

from mdrecall.config.environment import ProgramFolders
from mdrecall.doctor import Finding
from mdrecall.errors import RecallError
from mdrecall.hosts.install import list_installed, plan_install
from mdrecall.hosts.layout import INSTALLABLE, Site, list_pieces
from mdrecall.hosts.pieces import HookEntries, OwnFile, Piece, ServerEntry, has_hooks
from mdrecall.mcp_server.install import CLIENTS, LASTING, SCOPES, is_found_everywhere, read_text, target_of

#: Where a plugin from a marketplace is switched on.
_MARKETPLACES = {
    "claude-code": ("{claude_files}/settings.json", r'"mdrecall@[^"]+"\s*:\s*true'),
    "codex": ("{codex}/config.toml", r'\[plugins\."mdrecall@[^"]+"\]\s*enabled\s*=\s*true'),
}


def check_installs(folders: ProgramFolders, project: str, state_dir: str) -> Iterator[Finding]:
    """Yield a finding for each installation, and for each host that has more than one."""
    for site in list_installed(folders, state_dir):
        if site.host in INSTALLABLE and (site.scope == "user" or os.path.isdir(site.project)):
            yield _check_install(site, state_dir)
    for host in INSTALLABLE:
        ways = list(_find_ways(Site(host, "user", folders, project, ("mdrecall",))))
        if len(ways) > 1:
            message = f"{host} has mdrecall more than once, so the model reads everything twice: {', '.join(ways)}"
            yield Finding("coding agent", "wrong", message, "Keep one of them and remove the others.")


def _check_install(site: Site, state_dir: str) -> Finding:
    scope = f" --scope {site.scope}" if site.scope == "project" else ""
    again = f"Run `mdrecall install {site.host}{scope}` again."
    name = f"{site.host} in {site.project}" if site.scope == "project" else site.host
    if not is_found_everywhere(command := site.command[0]):
        why, hint = ("does not exist", again) if os.path.isabs(command) else ("is not on every PATH", LASTING)
        return Finding("coding agent", "wrong", f"{name} runs {command}, which {why}", hint)
    try:
        files = plan_install(site, state_dir).files
    except RecallError as error:
        return Finding("coding agent", "wrong", f"{name}: {error}", error.hint)
    if files:
        message = f"{name} has files of another version, or that somebody has changed: {', '.join(files)}"
        return Finding("coding agent", "note", message, again)
    if waiting := _count_unapproved(site):
        message = f"{name} has not approved {waiting} of mdrecall's hooks, and skips them without a word"
        return Finding("coding agent", "note", message, "Start Codex, open /hooks, and approve them.")
    return Finding("coding agent", "good", f"{name} calls {site.shell_command}")


def _count_unapproved(site: Site) -> int:
    """Return how many hooks Codex waits to have approved; other hosts need no approval."""
    if site.host != "codex":
        return 0
    try:
        with open(os.path.join(site.folders.codex, "config.toml"), "rb") as file:
            states = tomllib.load(file).get("hooks", {}).get("state", {})
    except (OSError, tomllib.TOMLDecodeError, AttributeError):
        states = {}
    hooks = next(piece for piece in list_pieces(site) if isinstance(piece, HookEntries))
    approved = {
        key.rsplit(":", 2)[0]
        for key, state in (states.items() if isinstance(states, dict) else ())
        if isinstance(state, dict) and state.get("trusted_hash")
    }
    names = (re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in hooks.groups)
    return sum(f"{hooks.path}:{name}" not in approved for name in names)


def _find_ways(site: Site) -> Iterator[str]:
    """Yield the ways in which mdrecall is connected to a host in this folder."""
    servers = set()
    for scope in SCOPES:
        try:
            pieces = list_pieces(site._replace(scope=scope))
        except RecallError:
            continue
        servers |= {piece.path for piece in pieces if isinstance(piece, ServerEntry)}
        if any(_is_in_use(piece) for piece in pieces):
            yield f"`mdrecall install {site.host}{' --scope project' if scope == 'project' else ''}`"
        if site.host in CLIENTS and (path := _find_server(site, scope)) and os.path.realpath(path) not in servers:
            yield f"the MCP server in {path}"
    path, pattern = _MARKETPLACES.get(site.host, ("", ""))
    if path and re.search(pattern, _read(site.path(path, ""))):
        yield "the plugin from a marketplace"


def _is_in_use(piece: Piece) -> bool:
    """True if a file has what makes a host call mdrecall; a skill alone does not."""
    if isinstance(piece, HookEntries):
        return has_hooks(_read(piece.path))
    return (
        isinstance(piece, OwnFile)
        and not piece.path.endswith(("SKILL.md", "mdrecall.md"))
        and "mdrecall" in _read(piece.path)
    )


def _find_server(site: Site, scope: str) -> str:
    """Return the file in which a host has mdrecall's MCP server; empty if it has none."""
    try:
        target = target_of(site.host, scope, site.folders, site.project)
        return target.path if target.has("mdrecall") else ""
    except (RecallError, ValueError):
        return ""


def _read(path: str) -> str:
    try:
        return read_text(path) or ""
    except RecallError:
        return ""
