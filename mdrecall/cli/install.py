"""``mdrecall install`` and ``mcp install``: connect mdrecall to a coding agent or an MCP client, or remove it."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise

from mdrecall.adapters.hermes import HermesMemory
from mdrecall.cli.options import CommandParser, make_selection
from mdrecall.cli.output import print_parts, print_warning, shorten_home
from mdrecall.config.environment import expand, find_locations, find_program_folders, shorten
from mdrecall.config.load import load
from mdrecall.config.workspace import CURRENT_FOLDER, SHARED, has_notes
from mdrecall.errors import RecallError
from mdrecall.hosts import install as hosts
from mdrecall.hosts.pieces import INSTALLABLE, Piece, Site, list_pieces
from mdrecall.mcp_server import install as clients
from mdrecall.mcp_server.config_text import NotEditable, get_value, render
from mdrecall.mcp_server.install import CLIENTS, PROJECT_FOLDERS, SCOPES
from mdrecall.mcp_server.memories import select_memories
from mdrecall.sessions.host_conversations import HOST_NAMES, HostChoice

_NAME = "mdrecall"
#: The folder for notes if none is configured: one that nobody has, in plain sight.
_DEFAULT_WORKSPACE = "~/mdrecall"
#: OpenClaw starts one server for all its chats, and does not say which of them asks. A key of this kind is not private,
#: so that nothing that was said in one chat is found from another.
_SHARED_SESSION = "explicit:openclaw"
_APPROVE = "Codex runs hooks only after you have approved them: start it and answer its question, or open /hooks."
_PASTE = "{program} keeps instructions for all projects in its own {place}: paste the text of"
_PASTE += " `mdrecall install {host} --scope project --dry-run` there."
#: What a host asks, or what has to be done by hand.
_NEXT_STEPS = {
    ("claude-code", "project"): "Claude Code loads it only in a folder that you trust. It asks when you start it.",
    ("codex", "user"): _APPROVE,
    ("codex", "project"): f"{_APPROVE} It reads the files of a project only if you trust that.",
    ("cursor", "user"): _PASTE.format(program="Cursor", place="settings (Rules)", host="cursor"),
    ("gemini", "project"): "Gemini CLI shows the hooks of a project before it runs them for the first time.",
    ("hermes", "user"): "" if find_spec("hermes_constants") else "Install mdrecall into the Python of Hermes as well.",
    ("zed", "user"): _PASTE.format(program="Zed", place="rules", host="zed"),
}


def add_install(parser: CommandParser) -> None:
    parser.value("host", "HOST", f"the program: one of {', '.join(INSTALLABLE)}", choices=INSTALLABLE)
    about = "for all projects, or this folder only (default: user)"
    parser.value("--scope", "", about, choices=SCOPES, default="user")
    parser.flag("--dry-run", "show what would change without writing it")
    parser.flag("--remove", "remove mdrecall from the program")
    about = "the folder for the notes, which agents then use by default (default: the configured one, else the current"
    parser.value("--workspace", "DIR", f"{about} folder if it has notes, else {_DEFAULT_WORKSPACE})")
    about = "search the program's conversations, without asking"
    parser.value("--conversations", "", about, action=argparse.BooleanOptionalAction, default=None)


def run_install(options: argparse.Namespace) -> int:
    if options.remove:
        return _remove(options)
    site = _make_site(options.host, options.scope, choose_command(options.scope))
    site = site._replace(options=hosts.choose_slot(site, _state_dir(), options.workspace))
    change = hosts.plan_install(site, _state_dir())
    workspace, shared = _plan_shared(options, site)
    if options.dry_run:
        return _print_diff(change, *shared)
    state, is_wanted = "now" if change.files else "already", _choose_conversations(options, site)
    for each in shared:
        hosts.apply_install(each)
    # What they say decides which memory the host uses.
    loaded = load(is_automatic=True)
    receipt = hosts.remember_conversations(site, loaded.settings, _state_dir())
    hosts.apply_install(change._replace(site=site._replace(options={**site.options, **receipt})))
    if is_wanted is not None:
        env, project = {"HOME": loaded.home, **os.environ}, site.project if site.scope == "project" else ""
        choice = HostChoice(site.host, loaded, env, project)
        choice.follow() if is_wanted else choice.refuse()
    print(f"mdrecall is {state} installed for {options.host}. Memory: {shorten_home(workspace)}.")
    _print_new(change, *shared)
    if step := _NEXT_STEPS.get((options.host, options.scope)):
        print(step)
    for server in _list_yaml(site):
        lines = render(server.place, server.values)
        print(f"Add to {shorten_home(server.path)}, which mdrecall does not edit:\n\n{lines}")
    if parts := hosts.describe_parts(site, loaded.settings):
        own_config = find_locations(os.environ, os.getcwd()).own_config
        print(f"What it does in {options.host} (settings go to {shorten_home(own_config)}):")
        print_parts(parts)
    scope = " --scope project" if options.scope == "project" else ""
    print(f"Restart {options.host} to load it. To undo this, run `mdrecall install {options.host}{scope} --remove`.")
    return 0


def _choose_conversations(options: argparse.Namespace, site: Site) -> bool | None:
    """Return if conversations are to be searched; None if that was decided before, or they cannot be read.

    It is asked once, on a terminal. Without one they are, as the lines about it say.
    """
    is_decided = hosts.read_options(site, _state_dir()) is not None
    if options.host not in HOST_NAMES or options.conversations is not None or is_decided:
        return options.conversations if options.host in HOST_NAMES else None
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    where = "in this project" if options.scope == "project" else "in each project"
    question = f"Search the conversations of {options.host} {where}, also earlier ones? They stay on this machine."
    try:
        return input(f"{question} [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


def _remove(options: argparse.Namespace) -> int:
    given = {"--workspace": options.workspace, "--conversations": options.conversations}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise RecallError(f"{wrong[0]} does not work with --remove.", hint="Leave it out.")
    site = _make_site(options.host, options.scope, (_NAME,))
    changes = [hosts.plan_removal(site, _state_dir()), *hosts.plan_release(site, _state_dir())]
    if options.dry_run:
        return _print_diff(*changes)
    for server in _list_yaml(site):
        where = shorten_home(server.path)
        print_warning(f"mdrecall does not edit {where}. Remove mdrecall from {server.place.table} in it yourself.")
    done = f"mdrecall is no longer installed for {options.host}. Notes and conversations are as they were."
    hosts.restore_conversations(site, _state_dir())
    return _take_back(changes, done, f"mdrecall is not installed for {options.host}.")


def _print_diff(*changes: hosts.Change) -> int:
    print("".join(change.diff for change in changes), end="")
    return 0


def _print_new(*changes: hosts.Change) -> None:
    for change in changes:
        for path in change.files:
            print(f"  {'changed' if change.before[path] is not None else 'new'}: {shorten_home(path)}")


def _take_back(changes: Sequence[hosts.Change], done: str, nothing: str) -> int:
    """Restore the files of a program; what others have changed in them since stays."""
    for copy in [copy for change in changes for copy in hosts.apply_removal(change)]:
        print_warning(f"You had changed a file of mdrecall's; a copy is in {copy}")
    print(done if any(change.files for change in changes) else nothing)
    for change in changes:
        for path in change.files:
            print(f"  {'restored' if change.after[path] is not None else 'removed'}: {shorten_home(path)}")
    return 0


def _make_site(host: str, scope: str, command: tuple[str, ...]) -> Site:
    """Return where an installation goes, which starts mdrecall with a command."""
    return Site(host, scope, find_program_folders(os.environ, os.getcwd()), os.getcwd(), command)


def _state_dir() -> str:
    return find_locations(os.environ, os.getcwd()).own_state_dir


def _list_yaml(site: Site) -> list[Piece]:
    """Return the servers that only a person adds to a file and removes, as it is YAML."""
    return [piece for piece in list_pieces(site) if piece.kind == "server" and piece.place.kind == "yaml"]


def choose_command(scope: str) -> tuple[str, ...]:
    """Return the command that starts this mdrecall; for a project, the name that it has on every machine."""
    if scope != "project":
        return clients.own_command()
    if not clients.is_found_everywhere("mdrecall"):
        print_warning(f"mdrecall is not on the PATH of every terminal, where the host looks for it. {clients.LASTING}")
    return ("mdrecall",)


def _plan_shared(options: argparse.Namespace, site: Site) -> tuple[str, list[hosts.Change]]:
    """Return the folder of the notes, and what has to be written if it was not the default until now."""
    if options.host == "openclaw":
        return "the workspace of each of its agents", []
    if options.host == "hermes":
        return HermesMemory(site.folders.hermes).workspace, []
    loaded = load(is_automatic=True)
    folder, origin = loaded.values["workspace"]
    if options.workspace is not None:
        folder = expand(options.workspace, loaded.home, os.getcwd())
    elif origin != CURRENT_FOLDER:
        return folder, []
    elif options.scope == "user" and not has_notes(folder, loaded.home):
        folder = expand(_DEFAULT_WORKSPACE, loaded.home, loaded.home)
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise RecallError(f"{above} is not a folder.", hint="Choose another one with --workspace.")
    is_default = options.workspace is not None or options.scope == "user"
    shared = site._replace(host=SHARED, scope="user" if is_default else "project")
    chosen = _choose_shared(shared, folder, loaded.home)
    return folder, [hosts.plan_install(shared._replace(options=chosen), _state_dir())]


def _choose_shared(shared: Site, folder: str, home: str) -> dict[str, str]:
    """Return what is written for a folder of notes; what an earlier installation has written stays known."""
    earlier = hosts.read_options(shared, _state_dir()) or {}
    note = os.path.join(folder, "MEMORY.md")
    chosen = {"note": note} if earlier.get("note") == note or not has_notes(folder, home) else {}
    if shared.scope == "project":
        return chosen
    path = find_locations(os.environ, os.getcwd()).own_config
    previous = earlier.get("previous")
    if previous is None:
        previous = _read_value(path, "agents", "defaults", "workspace")
    return chosen | {"workspace": shorten(folder, home), "config": path, "previous": previous}


def _read_value(path: str, *keys: str) -> str:
    """Return a text in a configuration file; empty if it has none, or cannot be read, as is said when it is changed."""
    with suppress(NotEditable):
        found = get_value(clients.read_text(path) or "", keys)
        return found if isinstance(found, str) else ""
    return ""


def install_client(options: argparse.Namespace) -> int:
    """Add the MCP server to the configuration of a client."""
    target, is_openclaw = _find_target(options), options.client == "openclaw"
    entry = _make_entry(options, target.client)
    where, lines = shorten_home(target.path), clients.snippet(target, entry)
    if options.print or target.is_yaml:
        print(f"Add to {where}{', which mdrecall does not edit' * target.is_yaml}:", file=sys.stderr)
        print(lines, end="")
        return 0
    site = _make_client_site(options, (entry.command, *entry.args))
    if is_openclaw:
        site = site._replace(options=_choose_pieces(options, site))
    try:
        change = hosts.plan_install(site, _state_dir())
    except RecallError as error:
        raise RecallError(str(error), hint=f"Add this yourself:\n\n{lines}") from error
    if options.dry_run:
        return _print_diff(change)
    if change.files:
        hosts.apply_install(change)
    print(f"{entry.name} is {'now' if change.files else 'already'} in {where}. {_describe_memory(entry)}")
    _print_new(change)
    if is_openclaw:
        print("OpenClaw's own memory stays on. To put mdrecall in its place, run `mdrecall install openclaw`.")
        if "agents" not in site.options:
            print("To tell the agent to search this memory, run this again with --agents-md.")
    program = "OpenClaw's gateway" if is_openclaw else "the client"
    print(f"Restart {program} to load it. To undo this, run `mdrecall mcp uninstall {options.client}`.")
    return 0


def uninstall_client(options: argparse.Namespace) -> int:
    """Remove the MCP server from the configuration of a client."""
    target, site = _find_target(options), _make_client_site(options, (_NAME,))
    change = hosts.plan_removal(site, _state_dir())
    if options.dry_run:
        return _print_diff(change)
    name = (hosts.read_options(site, _state_dir()) or site.options).get("name", _NAME)
    where = shorten_home(target.path)
    nothing = f"{name} is not in {where}."
    if target.is_yaml:
        nothing = f"mdrecall does not edit {where}. Remove {name} from {target.client.table} in it yourself."
    return _take_back([change], f"Removed {name} from {where}. Notes and index are as they were.", nothing)


def _make_client_site(options: argparse.Namespace, command: tuple[str, ...]) -> Site:
    """Return where the server of a client goes; each name has a receipt of its own, but in OpenClaw."""
    name = options.name or _NAME
    host = "openclaw" if options.client == "openclaw" else f"mcp-{options.client}-{name}"
    chosen = {"client": options.client, "name": name}
    return _make_site(host, options.scope or "user", command)._replace(options=chosen)


def _find_target(options: argparse.Namespace) -> clients.Target:
    if options.client is None and not (options.print and options.action == "install"):
        raise RecallError("Which client?", hint=f"Choose one of: {', '.join(CLIENTS)}.")
    folders = find_program_folders(os.environ, os.getcwd())
    return clients.target_of(options.client or "", options.scope or "user", folders, os.getcwd())


def _describe_memory(entry: clients.Entry) -> str:
    """Return which memory the client will use: the current folder may not be the intended one."""
    folders = [shorten_home(value) for option, value in pairwise(entry.args) if option == "--workspace"]
    folders = ["this folder" if folder in PROJECT_FOLDERS else folder for folder in folders]
    return f"Memory: {', '.join(folders) or 'as configured'}."


def _make_entry(options: argparse.Namespace, client: clients.Client) -> clients.Entry:
    """Return the command that runs this mdrecall with the chosen memories; for a project, on any machine."""
    name = options.name or _NAME
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise RecallError(f"{name!r} is not a valid name.", hint="Use letters, digits, _ and -.")
    command, *before = choose_command(options.scope)
    if options.client == "openclaw" and not options.session_key:
        options.session_key = _SHARED_SESSION
    folder = client.folder if options.scope == "project" else ""
    return clients.Entry(name, command, (*before, "mcp", *_make_arguments(options, folder)))


def _make_arguments(options: argparse.Namespace, project: str) -> list[str]:
    """Return the options with paths that hold wherever the client starts the server.

    ``project`` is how the client calls the current folder; empty to write paths of this machine.
    """
    places = select_memories(make_selection(options))
    arguments = ["--all-agents"] if options.all_agents else []
    for place in places:
        if place.workspace:
            folder = _make_path(place.workspace, project)
            arguments += ["--workspace", folder if len(places) == 1 else f"{place.name}={folder}"]
    for agent in options.agent:
        arguments += ["--agent", agent]
    if options.config:
        arguments += ["--config", _make_path(os.path.abspath(options.config), project)]
    arguments += ["--read-only"] if options.read_only else []
    return arguments + (["--session-key", options.session_key] if options.session_key else [])


def _make_path(path: str, project: str) -> str:
    """Return a path below the current folder as a project's configuration may have it; any other one as it is."""
    if not project:
        return path
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(os.getcwd()))
    if below == os.pardir or below.startswith(os.pardir + os.sep):
        print_warning(f"{path} is outside of this project: the entry works on this machine only.")
        return path
    return project if below == os.curdir else f"{project}/{below}".removeprefix("./")


def _choose_pieces(options: argparse.Namespace, site: Site) -> dict[str, str]:
    """Return what is chosen for OpenClaw's server now, and what was chosen before and stays."""
    hosts.require_openclaw(site, _state_dir())
    chosen = {**(hosts.read_options(site, _state_dir()) or {}), **site.options}
    if options.agents_md and "agents" not in chosen:
        agent = options.agent[0] if options.agent else None
        workspace = load(agent=agent, is_automatic=True).settings.workspace
        chosen["agents"] = os.path.realpath(os.path.join(workspace, "AGENTS.md"))
    return chosen
