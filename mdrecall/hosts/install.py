"""Installs mdrecall in a host and removes it, so that the host's files are as they were before; and checks both.

A receipt in mdrecall's state folder holds what each file was before. A file that nobody has changed since is restored
from it, byte for byte. From any other file only the pieces of mdrecall are taken out. The checks find dead commands,
files of another version, and hooks that nobody has approved.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mdrecall import state_files
from mdrecall.config.environment import ProgramFolders
from mdrecall.config.settings import Settings
from mdrecall.config.workspace import SHARED, locate_receipt
from mdrecall.doctor import Finding
from mdrecall.errors import RecallError
from mdrecall.hosts.pieces import INSTALLABLE, READING_TOOLS, Piece, Site, list_pieces, split_provider
from mdrecall.hosts.table import find_host
from mdrecall.mcp_server.config_text import get_value
from mdrecall.mcp_server.install import LASTING, SCOPES, back_up, diff, is_found_everywhere, read_text, replace_text
from mdrecall.sessions.host_conversations import FollowedHost, HostState
from mdrecall.sessions.host_formats import About


class Change(NamedTuple):
    """What an installation or a removal does to the files of a host."""

    site: Site
    receipt: str
    """The path of the receipt."""
    before: Mapping[str, str | None]
    """The text of each file without mdrecall; None if there was none."""
    now: Mapping[str, str | None]
    after: Mapping[str, str | None]
    folders: tuple[str, ...]
    """The folders that did not exist before the installation."""
    edited: tuple[str, ...] = ()
    """Files that are mdrecall's alone and were edited; the removal deletes them."""

    @property
    def files(self) -> list[str]:
        """The files that change."""
        return [path for path in self.after if self.after[path] != self.now[path]]

    @property
    def diff(self) -> str:
        """The change as unified diffs."""
        return "".join(diff(path, self.now[path], self.after[path]) for path in self.files)


def plan_install(site: Site, state_dir: str) -> Change:
    """Return what an installation would change; raise for a file that cannot be changed without a loss."""
    undone = plan_removal(site, state_dir, with_unrecorded=False)
    before, after, now = dict(undone.after), dict(undone.after), dict(undone.now)
    by_path: dict[str, list[Piece]] = {}
    for piece in list_pieces(site):
        by_path.setdefault(piece.path, []).append(piece)
    for path, pieces in by_path.items():
        # Left as it is if everything is in it already, wherever it stands by now.
        after[path] = now[path]
        if not _is_complete(pieces, now[path]):
            hint = "Move it away, or change it yourself, and try again."
            changed = _change(path, before[path] or "", (piece.add for piece in pieces), hint)
            after[path] = changed or before[path]
    folders = {*undone.folders, *(folder for path in after if after[path] is not None for folder in _new_folders(path))}
    return undone._replace(before=before, now=now, after=after, folders=tuple(sorted(folders)))


def plan_release(site: Site, state_dir: str) -> list[Change]:
    """Return the removals of what hosts have in common, as far as a host is the last one that needs it."""
    own = _receipt_path(site, state_dir)
    installed = [each for each in list_installed(site.folders, state_dir) if _receipt_path(each, state_dir) != own]
    hosts = [each for each in installed if each.host != SHARED]
    others = [each for each in hosts if each.scope == "user" or os.path.isdir(each.project)]
    needed = {(each.scope, os.path.realpath(each.project)) for each in others}

    def is_needed(shared: Site) -> bool:
        return bool(others) if shared.scope == "user" else (shared.scope, os.path.realpath(shared.project)) in needed

    return [plan_removal(each, state_dir) for each in installed if each.host == SHARED and not is_needed(each)]


def plan_removal(site: Site, state_dir: str, *, with_unrecorded: bool = True) -> Change:
    """Return what a removal would change; raise for a file that cannot be changed without a loss.

    ``with_unrecorded`` also takes out what no receipt lists.
    """
    path = _receipt_path(site, state_dir)
    receipt = state_files.load(path)
    now: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    edited = []
    kept = {entry["path"]: entry for entry in receipt.get("files", ())}
    pieces = list_pieces(site._replace(options=receipt.get("options", site.options)))
    for name in {**kept, **dict.fromkeys(piece.path for piece in (*pieces, *list_pieces(site)))}:
        now[name] = after[name] = read_text(name)
        if name in kept and now[name] is not None and _hash(now[name]) == kept[name]["after"]:
            after[name] = kept[name]["before"]
        elif name in kept or with_unrecorded:
            here = [piece for piece in pieces if piece.path == name]
            left = _change(name, now[name], (piece.take for piece in here), "Remove what is mdrecall's yourself.")
            after[name] = _restore_spaces(left, kept[name]["before"]) if name in kept else left
            if name in kept and now[name] is not None and any(piece.kind == "file" for piece in here):
                edited.append(name)
    return Change(site, path, after, now, after, tuple(receipt.get("folders", ())), tuple(edited))


def apply_install(change: Change) -> None:
    """Write the files of an installation. The receipt comes first, so that a broken-off one can be undone."""
    files = [
        {"path": path, "before": change.before[path], "after": _hash(text)}
        for path, text in change.after.items()
        if text is not None
    ]
    site = change.site
    about: dict[str, Any] = {"host": site.host, "scope": site.scope, "project": site.project}
    about |= {"command": list(site.command)} | ({"options": dict(site.options)} if site.options else {})
    with _explain_errors(change.receipt):
        state_files.save(change.receipt, {**about, "files": files, "folders": list(change.folders)})
    _write_files(change)


def apply_removal(change: Change) -> list[str]:
    """Restore the files of a host; return the copies of files that somebody has edited."""
    copies = [back_up(path, change.now[path] or "", 0o600) for path in change.edited]
    _write_files(change)
    for folder in sorted(change.folders, key=len, reverse=True):
        if change.site.host == "hermes":  # What Python compiles is beside the file that Hermes imports.
            shutil.rmtree(os.path.join(folder, "__pycache__"), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(change.receipt)
    return copies


def list_installed(folders: ProgramFolders, state_dir: str) -> Iterator[Site]:
    """Yield every place of an installation, except those that another version has written down."""
    folder = os.path.join(state_dir, "installed")
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            receipt = state_files.load(os.path.join(folder, name))
            host, scope, command = (receipt.get(key) for key in ("host", "scope", "command"))
            if host in (*INSTALLABLE, SHARED) and scope in SCOPES and isinstance(command, list) and command:
                project, options = str(receipt.get("project", "")), receipt.get("options", {})
                yield Site(host, scope, folders, project, tuple(map(str, command)), options)


def read_options(site: Site, state_dir: str) -> dict[str, str] | None:
    """Return what was chosen when mdrecall was installed here; None if it was not."""
    receipt = state_files.load(_receipt_path(site, state_dir))
    return {str(name): str(value) for name, value in receipt.get("options", {}).items()} if receipt else None


def require_openclaw(site: Site, state_dir: str = "") -> None:
    """Raise unless OpenClaw has a configuration file; with ``state_dir`` also if mdrecall is in its memory slot."""
    if not os.path.isfile(path := site.folders.openclaw):
        hint = "Set OpenClaw up first, or name its file in OPENCLAW_CONFIG_PATH."
        raise RecallError(f"There is no configuration of OpenClaw at {path}.", hint=hint)
    if state_dir and "core" in (read_options(site, state_dir) or {}):
        hint = "To have the server alone, run `mdrecall install openclaw --remove` first."
        raise RecallError("mdrecall is the memory of this OpenClaw already, by its plugin.", hint=hint)


def choose_slot(site: Site, state_dir: str, workspace: str | None) -> Mapping[str, str]:
    """Return what OpenClaw's or Hermes's file said of its memory before mdrecall, as ``list_pieces`` takes it.

    Other hosts have no such options. These two take no ``workspace``.
    """
    if site.host not in ("openclaw", "hermes"):
        return site.options
    if workspace is not None:
        hint = "Leave it out: each agent of OpenClaw, and each folder of Hermes, has its own workspace."
        raise RecallError(f"--workspace does not work with {site.host}.", hint=hint)
    if site.host == "hermes":
        if not os.path.isdir(home := site.folders.hermes):
            hint = "Set Hermes up first, or name its folder in HERMES_HOME."
            raise RecallError(f"There is no folder of Hermes at {home}.", hint=hint)
        before = split_provider(read_text(os.path.join(home, "config.yaml")) or "")[1]
        return read_options(site, state_dir) or ({"provider": before} if before else {})
    require_openclaw(site)
    if "core" in (earlier := read_options(site, state_dir) or {}):
        return earlier
    found: list[Any] = [None] * 3
    # A file that cannot be read is not changed either, which is said then.
    with contextlib.suppress(ValueError):
        text = read_text(site.folders.openclaw) or ""
        places = (("slots", "memory"), ("entries", "memory-core", "enabled"), ("allow",))
        found = [get_value(text, ("plugins", *keys)) for keys in places]
    return {"slot": json.dumps(found[0]), "core": json.dumps(found[1])} | ({"allow": "yes"} if found[2] else {})


def _receipt_path(site: Site, state_dir: str) -> str:
    return locate_receipt(state_dir, site.host, site.project if site.scope == "project" else "")


def _change(path: str, text: str | None, changes: Iterable[Callable[[str], str | None]], hint: str) -> str | None:
    """Return the text of a file after some changes; None if there is no file."""
    try:
        for change in changes:
            text = None if text is None else change(text)
    except ValueError as error:
        raise RecallError(f"{path} was not changed: {error}.", hint=hint) from error
    return text


def _restore_spaces(left: str | None, before: str | None) -> str | None:
    """Return what a file was before if what is left of it is the same but for white space, as a host may write it."""
    if before is None:
        return None if left is not None and left.split() in ([], ["{}"], ["{", "}"]) else left
    return before if left is not None and "".join(left.split()) == "".join(before.split()) else left


def _is_complete(pieces: list[Piece], text: str | None) -> bool:
    try:
        return text is not None and all(piece.add(text) == text for piece in pieces)
    except ValueError:
        return False


def _new_folders(path: str) -> Iterator[str]:
    """Yield the folders of a file that do not exist yet."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        yield folder
        folder = os.path.dirname(folder)


def _write_files(change: Change) -> None:
    for path in change.files:
        text = change.after[path]
        if read_text(path) != change.now[path]:
            raise RecallError(f"{path} has just been changed by another program.", hint="Try again.")
        with _explain_errors(path):
            if text is None:
                os.unlink(path)
            else:
                replace_text(path, text, 0o600 if change.site.scope == "user" else 0o644)


@contextlib.contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecallError(f"Cannot write {path}: {error.strerror or error}.", hint="Fix the permissions.") from error


def _hash(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()


def remember_conversations(site: Site, settings: Settings, state_dir: str) -> dict[str, str]:
    """Return what the receipt of a host says of conversations: in which memory, and what held before it was installed.

    If an earlier installation had another memory, what held there is restored.
    """
    earlier = read_options(site, state_dir) or {}
    if earlier.get("memory") == settings.agent_folder:
        return earlier
    restore_conversations(site, state_dir)
    before = HostState(settings.agent_folder).list_known().get(site.host)
    return {"memory": settings.agent_folder, "before": json.dumps(before)}


def restore_conversations(site: Site, state_dir: str) -> None:
    """Follow the conversations of a host as before its installation, and delete what was kept only for that."""
    receipt = read_options(site, state_dir) or {}
    if "memory" in receipt:
        root, *places = json.loads(receipt["before"]) or ("",)
        before = FollowedHost(root, *map(tuple, places)) if places else None
        HostState(receipt["memory"]).put(site.host, before)


def describe_parts(site: Site, settings: Settings) -> dict[str, str]:
    """Return a line for each thing that mdrecall does in a host: if it is on, and how to change that."""
    host, own = find_host(site.host), settings.mdrecall.hosts
    if site.host == "openclaw" and "core" in site.options:
        tools, command = " and ".join(READING_TOOLS), "mdrecall install openclaw --remove"
        about = "on, in the place of OpenClaw's own memory, which is off with its dreaming and its tool intent"
        return {"memory": f"{about} (change: {command})", "tools": f"on, {tools} in every agent"}
    if host is None:
        # A program without hooks has the tools, and asks as its user has set it.
        return {}

    def say(is_on: bool, about: str, switch: str) -> str:
        return f"{'on' if is_on else 'off'}, {about} (change: {switch})"

    project, at = site.project if site.scope == "project" else "", "mdrecall.hosts"
    known = HostState(settings.agent_folder).list_known().get(site.host)
    is_kept = own.prompt and not (known and known.refuses(project))
    is_followed, said = False, "keeps what you type" if is_kept else "keeps and searches nothing that you type"
    if known and (known.wants(About(project)) if project else known.is_read):
        folders = f"searches those of {', '.join(known.folders)}" if known.folders else "each project searches its own"
        is_followed, said = True, f"{folders}, also earlier ones"
    command = f"mdrecall install {site.host}{' --scope project' * bool(project)} --{'no-' * is_followed}conversations"
    is_free, tools = site.scope in (host.granted or SCOPES), " and ".join(READING_TOOLS)
    confirmed = ", which the agent confirms once" if own.flush else ""
    return {
        "recall": say(own.prompt, "adds lines that fit your prompt, from notes and this project", f"{at}.prompt"),
        "conversations": say(is_followed, said, command),
        "digest": say(own.digest, "writes what a session did into the note of its day", f"{at}.digest"),
        "wishes": say(own.session_start, f"shows your standing wishes{confirmed}", f"{at}.sessionStart, {at}.flush"),
        "tools": say(is_free, f"{tools} need {'no question' if is_free else 'your answer'}", f"in {site.host}"),
    }


def check_installs(folders: ProgramFolders, state_dir: str) -> Iterator[Finding]:
    """Yield a finding for each installation."""
    for site in list_installed(folders, state_dir):
        # Of the server alone, which `mcp install` has added, nothing changes with a version.
        is_plugged = site.host in INSTALLABLE and "client" not in site.options
        if is_plugged and (site.scope == "user" or os.path.isdir(site.project)):
            yield _check_install(site, state_dir)


def _check_install(site: Site, state_dir: str) -> Finding:
    scope = f" --scope {site.scope}" if site.scope == "project" else ""
    again = f"Run `mdrecall install {site.host}{scope}` again."
    name = f"{site.host} in {site.project}" if site.scope == "project" else site.host
    if not is_found_everywhere(command := site.command[0]) and site.host != "hermes":
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
    does = "imports mdrecall" if site.host == "hermes" else f"calls {site.shell_command}"
    return Finding("coding agent", "good", f"{name} {does}")


def _count_unapproved(site: Site) -> int:
    """Return how many hooks Codex waits to have approved; other hosts need no approval."""
    if site.host != "codex":
        return 0
    try:
        with open(os.path.join(site.folders.codex, "config.toml"), "rb") as file:
            states = tomllib.load(file).get("hooks", {}).get("state", {})
    except (OSError, tomllib.TOMLDecodeError, AttributeError):
        states = {}
    hooks = next(piece for piece in list_pieces(site) if piece.kind == "hooks")
    approved = {
        key.rsplit(":", 2)[0]
        for key, state in (states.items() if isinstance(states, dict) else ())
        if isinstance(state, dict) and state.get("trusted_hash")
    }
    names = (re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in hooks.values)
    return sum(f"{hooks.path}:{name}" not in approved for name in names)
