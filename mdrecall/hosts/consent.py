"""What mdrecall does in a host, a line for each part, and what a person says about conversations: yes, or no.

The answer is kept in the folder of the memory's agent. A no for a project is stronger than a yes for all, and the other
way round.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import RecallError
from mdrecall.hosts.table import READING_TOOLS, Host, Site, find_host
from mdrecall.mcp_server.install import read_text
from mdrecall.notes.repository import find_main_root, find_root
from mdrecall.sessions.host_conversations import FollowedHost, HostState, copy_name, find_project, is_in_any
from mdrecall.sessions.host_formats import About

_TOOLS = " and ".join(READING_TOOLS)
#: In a copy of what a person said there is no such record; an imported conversation has some.
_AGENTS_RECORD = b'"role":"assistant"'


class Part(NamedTuple):
    """One thing that mdrecall does in a host."""

    name: str
    is_on: bool
    about: str
    switch: str = ""
    """The setting or the command that changes it."""

    @property
    def line(self) -> str:
        """What a person reads about it, after its name."""
        state, other = ("on", "off") if self.is_on else ("off", "on")
        return f"{state}, {self.about}" + (f" ({other}: {self.switch})" if self.switch else "")


def list_parts(site: Site, settings: Settings) -> Iterator[Part]:
    """Yield what mdrecall does in a host that it is installed in, for the memory that the host uses."""
    own, host = settings.mdrecall.hosts, find_host(site.host)
    if host is None:
        # A program without hooks has the tools, and asks as its user has set it.
        return
    yield _describe_setting(
        "recall", own.prompt, "adds lines to a prompt that fit it, from notes and this project", "prompt"
    )
    yield _describe_conversations(site, settings)
    yield _describe_setting("digest", own.digest, "writes what a session did into the note of its day", "digest")
    yield _describe_setting(
        "wishes", own.session_start, "shows your standing wishes when a session starts", "sessionStart"
    )
    yield _describe_tools(site, host)


def folders_of(site: Site) -> tuple[str, ...]:
    """Return the folders whose conversations an installation is about; empty for all."""
    return find_project(site.project) if site.scope == "project" else ()


def _describe_setting(name: str, is_on: bool, about: str, setting: str) -> Part:
    return Part(name, is_on, about, f"mdrecall.hosts.{setting}: {'false' if is_on else 'true'}")


def _describe_conversations(site: Site, settings: Settings) -> Part:
    state = HostState(settings.agent_folder)
    followed = state.list_followed().get(site.host)
    scope = " --scope project" if site.scope == "project" else ""
    command = f"mdrecall install {site.host}{scope}"
    if followed and (site.scope == "user" or followed.wants(About(folders_of(site)[0]))):
        where = (
            f"searches those of {', '.join(followed.folders)}" if followed.folders else "each project searches its own"
        )
        about = f"{where}, also earlier ones"
        return Part("conversations", True, about, f"{command} --no-conversations")
    is_kept = settings.mdrecall.hosts.prompt and not is_refused(state, site.host, "".join(folders_of(site)[:1]))
    about = "keeps only what you type" if is_kept else "keeps and searches nothing that you type"
    return Part("conversations", False, about, f"{command} --conversations")


def _describe_tools(site: Site, host: Host) -> Part:
    """Return which tools need no question: those that a list of the host names, or that it never asks for."""
    if not host.granted:
        return Part("tools", True, f"{_TOOLS} need no question in {site.host}")
    path = site.path(host.granted["user"], host.granted.get("project", ""))
    try:
        is_on = site.scope in host.granted and READING_TOOLS[0] in (read_text(path) or "")
    except RecallError:
        is_on = False
    asks = "a rule of your own beside" if path.endswith(".toml") else "permissions.ask in"
    if is_on:
        return Part("tools", True, f"{_TOOLS} need no question", f"{asks} {path}")
    return Part("tools", False, f"{site.host} asks before each call", f"mdrecall install {site.host}")


def has_answer(state: HostState, host: str, folders: tuple[str, ...]) -> bool:
    """True if a person has said yes or no to the conversations of some folders, or of all if there is none."""
    followed = state.list_followed().get(host)
    if followed and (all(followed.wants(About(at)) for at in folders) if folders else not followed.folders):
        return True
    return is_refused(state, host, "".join(folders[:1]))


def is_refused(state: HostState, host: str, folder: str) -> bool:
    """True if nothing that is said to a host in a folder may be kept. A worktree is refused with its repository."""
    followed, refused = state.list_followed().get(host), state_files.load(state.refused_path).get(host, ())
    if not refused or (followed and is_in_any(folder, followed.folders)):
        return False
    return os.sep in refused or any(is_in_any(at, refused) for at in (folder, find_main_root(find_root(folder))))


def allow(state: HostState, host: str, wanted: FollowedHost) -> None:
    """Read the conversations of a host from now on."""
    state.follow(host, wanted)
    _change_refused(state, host, wanted.folders, is_added=False)


def refuse(state: HostState, host: str, folders: tuple[str, ...] = ()) -> None:
    """Read no conversations of a host, or of some folders, and keep nothing that is said there."""
    _stop(state, host, folders)
    _change_refused(state, host, folders, is_added=True)


def undo_install(state: HostState, host: str, folders: tuple[str, ...] = ()) -> None:
    """Undo what an installation has switched on or off, for some folders or all. The person's own choices stay."""
    _stop(state, host, folders, is_by_person=False)
    _change_refused(state, host, folders, is_added=False)


def _stop(state: HostState, host: str, folders: tuple[str, ...], *, is_by_person: bool = True) -> None:
    """Follow a host no longer, and delete what was kept of a person's words. What was imported stays."""
    known = state.list_followed()
    before = known.get(host)
    if before and (is_by_person or before.is_installed):
        left = tuple(at for at in before.folders if at not in folders)
        known[host] = before._replace(folders=left)
        if not folders or (before.folders and not left):
            del known[host]
    for session in [session for name, session, _ in state.list_copies() if name == host]:
        path = os.path.join(state.copies, copy_name(host, session))
        if not folders or is_in_any(state.read_about(host, session).folder, folders):
            _delete_words(path)
    for folder in (os.path.join(state.copies, host), state.copies):
        with suppress(OSError):
            os.rmdir(folder)
    state.save(known)


def _delete_words(path: str) -> None:
    try:
        with open(path, "rb") as file:
            is_imported = _AGENTS_RECORD in file.read()
        if not is_imported:
            os.unlink(path)
    except OSError as error:
        raise RecallError(f"Cannot delete {path}: {error.strerror or error}.", hint="Fix the permissions.") from error


def _change_refused(state: HostState, host: str, folders: tuple[str, ...], *, is_added: bool) -> None:
    """Remember that some folders are refused, or are no longer; without a folder, all."""
    before, changed = state_files.load(state.refused_path), folders or (os.sep,)
    places = [*(at for at in before.get(host, ()) if at not in changed), *(changed if is_added else ())]
    after = {name: at for name, at in {**before, host: places}.items() if at}
    if after != before:
        state_files.save(state.refused_path, after)
