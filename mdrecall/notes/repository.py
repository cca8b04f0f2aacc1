"""The repository that a folder is in, read from its files: running git would run what a repository configures.

Git is used only to find out how old lines are, and is told to run nothing else.
"""

import os
import re
from typing import TYPE_CHECKING

from mdrecall.config.environment import find_locations, is_within
from mdrecall.config.workspace import CURRENT_FOLDER, SHARED, locate_receipt
from mdrecall.notes.opening import read_beginning
from mdrecall.patterns import NOTE_ENDING, compile_later
from mdrecall.text.annotations import BROKEN_PROJECT

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded

#: How much of a line is read; a branch name is shorter.
_MAX_BYTES = 4096
#: With the rest of the short name of a project, half of what a note has for who wrote a text.
_MAX_NAME_CHARS = 11
#: How much of a repository's settings is read; the origin stands at their beginning.
_MAX_CONFIG_BYTES = 65_536
#: A person may wait for the index: without the ages of lines it is as good as before.
_MAX_GIT_S = 0.5
_ORIGIN = compile_later(r'\[remote "origin"\][^\n]*\n((?:(?!\s*\[).*\n?)*)')
#: The title of any remote: ``[remote "origin"]``, or in an old spelling ``[remote.origin]``.
_REMOTE = compile_later(r'^[ \t]*\[[ \t]*remote[ \t".]', re.MULTILINE | re.IGNORECASE)
_URL = compile_later(r'^\s*url\s*=\s*"?([^"\s]+)', re.MULTILINE)
#: ``https://user@host:443/ana/app.git`` or ``git@host:ana/app.git``. A path on this machine is neither, and a drive of
#: Windows has one letter.
_ADDRESS = compile_later(
    r"(?:[a-z+]+://(?:[^@/]*@)?([a-z0-9.-]{2,})(?::[0-9]+)?/+|(?:[^@/:]+@)?([a-z0-9.-]{2,}):(?!//))(\S+)", re.IGNORECASE
)


def place_of(folder: str) -> str:
    """Return the name of a folder's repository and its branch, such as ``shop@main``, or the name of the folder."""
    root = find_root(folder)
    branch = read_branch(root) if root else ""
    name = os.path.basename((root or folder).rstrip("/"))
    return f"{name}@{branch}" if branch else name


def project_keys(folder: str, workspace: str) -> tuple[str, ...]:
    """Return what annotations may call the repository of a folder: ``host/org/repo``, ``path:…``, or its name.

    Nothing for a folder that is in no repository, and for the repository of the notes themselves: it is about all
    projects. A password in the address of the origin is not part of the key.
    """
    root = find_root(folder)
    if not root or os.path.realpath(root) == os.path.realpath(workspace):
        return ()
    origin, main = _read_origin(root), find_main_root(root)
    keys = (origin, f"path:{_escape(main)}", origin.rpartition("/")[2], _escape(os.path.basename(main)))
    return tuple(dict.fromkeys(key for key in keys if key))


def list_projects(folder: str, workspace: str) -> tuple[str, ...]:
    """Return what the project of a folder may be called; nothing in the folder of the notes, which are about all.

    A repository inside that folder is a project of its own.
    """
    here, notes = (os.path.realpath(path) for path in (folder, workspace))
    if is_within(here, notes) and len(find_root(here)) <= len(notes):
        return ()
    return tuple(dict.fromkeys((project_of(folder), *project_keys(folder, notes))))


def project_of(folder: str) -> str:
    """Return the one key of the project that a conversation in a folder is about.

    A worktree belongs to its repository, and a folder that is in none is a project of its own. A conversation without a
    folder has a key that nobody asks for. A link is the same project as what it leads to.
    """
    folder = os.path.realpath(folder) if folder else ""
    root = find_root(folder)
    origin = _read_origin(root) if root else ""
    return origin or f"path:{_escape(find_main_root(root) or folder or BROKEN_PROJECT)}"


def name_project(key: str) -> str:
    """Return a short name that stands for the key of a project, and says nothing of the folders above it."""
    import hashlib

    name = re.sub("[^a-z0-9]+", "-", key.rstrip("/").rpartition("/")[2].lower())[:_MAX_NAME_CHARS].strip("-")
    return f"{name or 'project'}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def name_wishes(project: str) -> str:
    """Return the path of the wishes of a project; without a project, of those that hold everywhere."""
    return f"memory/wishes{f'-{name_project(project)}' if project else ''}{NOTE_ENDING}"


def find_main_root(root: str) -> str:
    """Return the main folder of the repository that a worktree belongs to; the folder itself if it is none."""
    git = _git_folder(root) if root else ""
    common = _read_line(os.path.join(git, "commondir")) if git else ""
    shared = os.path.normpath(os.path.join(git, common)) if common else ""
    return os.path.dirname(shared) if os.path.basename(shared) == ".git" else root


def is_foreign(loaded: "Loaded") -> bool:
    """True if nobody has named the workspace, and it is in a repository that is shared with others.

    Others may have written its notes, and would read what is added to them: no program may take it for a memory by
    itself. An installation for a project names the folder of the project.
    """
    folder, origin = loaded.values["workspace"]
    if origin != CURRENT_FOLDER or not has_remote(folder):
        return False
    state_dir = find_locations(loaded.environment, folder).own_state_dir
    return not os.path.exists(locate_receipt(state_dir, SHARED, folder))


def has_remote(folder: str) -> bool:
    """True if a folder is in a repository with a remote, or whose settings are too long to tell."""
    root = find_root(os.path.realpath(folder))
    settings = _read_settings(root) if root else ""
    return bool(_REMOTE.search(settings)) or len(settings.encode()) >= _MAX_CONFIG_BYTES


def _read_settings(root: str) -> str:
    """Return the settings of a repository."""
    git = _git_folder(root)
    # A worktree has the settings of the repository that it belongs to.
    common = _read_line(os.path.join(git, "commondir"))
    return read_beginning(os.path.join(git, common, "config"), _MAX_CONFIG_BYTES).decode("utf-8", "replace")


def _read_origin(root: str) -> str:
    """Return the origin of a repository as ``host/org/repo``; empty if it has none, or one on this machine."""
    section = _ORIGIN.search(_read_settings(root))
    url = _URL.search(section[1]) if section else None
    address = _ADDRESS.fullmatch(url[1]) if url else None
    path = address[3].strip("/").removesuffix(".git").rstrip("/") if address else ""
    return _escape(f"{(address[1] or address[2]).lower()}/{path}") if address and path else ""


def _escape(key: str) -> str:
    """Return a key without the characters that end one in an annotation, as OpenClaw writes them."""
    return re.sub("[%;<>\r\n]", lambda char: f"%{ord(char[0]):02x}", key)


def read_line_days(folder: str, inside: str) -> dict[str, str]:
    """Return the day of the commit that each line of a file is from; empty without a repository, or if git is slow.

    Lines of the first commit are left out: they may be much older. Of lines that are the same, the last counts.
    """
    if not find_root(folder):
        return {}
    import subprocess
    from datetime import UTC, datetime

    # No filter, monitor, hook or other program of the repository is run, and nothing is fetched.
    settings = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "blame.showRoot=false", "blame.ignoreRevsFile=")
    command = ["git", *(part for one in settings for part in ("-c", one)), "blame", "--no-textconv", "--line-porcelain"]
    command += ["HEAD", "--", inside]
    # A hook of another repository would name that one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    try:
        blamed = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=_MAX_GIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    days: dict[str, str] = {}
    day = ""
    for line in blamed.stdout.decode("utf-8", "replace").split("\n"):
        if line.startswith("committer-time "):
            day = f"{datetime.fromtimestamp(int(line[15:]), UTC):%Y-%m-%d}"
        elif line == "boundary":
            day = ""
        elif line.startswith("\t") and day:
            days[line[1:].strip()] = day
    return days


def find_root(folder: str) -> str:
    """Return the folder with ``.git`` that a folder lies in; empty if it is in no repository."""
    here = os.path.abspath(folder) if folder else ""
    while here and not os.path.lexists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        here = "" if above == here else above
    return here


def read_branch(root: str) -> str:
    """Return the branch of a repository, the beginning of the commit if there is none, or nothing."""
    head = _read_line(os.path.join(_git_folder(root), "HEAD"))
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:7]


def _git_folder(root: str) -> str:
    """Return the folder that git keeps its files in."""
    git = os.path.join(root, ".git")
    # Of a worktree or a submodule, a file says where the folder is.
    return git if os.path.isdir(git) else os.path.join(root, _read_line(git).removeprefix("gitdir:").strip())


def _read_line(path: str) -> str:
    return read_beginning(path, _MAX_BYTES).decode("utf-8", "replace").partition("\n")[0].strip()
