"""The repository that a session is in, read from its files: running git would run what a repository configures."""

import os
import stat

#: How much of a file is read; a branch name is shorter.
_MAX_BYTES = 4096


def place_of(folder: str) -> str:
    """Return the name of a folder's repository and its branch, such as ``shop@main``, or the name of the folder."""
    root = find_root(folder)
    branch = read_branch(root) if root else ""
    name = os.path.basename((root or folder).rstrip("/"))
    return f"{name}@{branch}" if branch else name


def find_root(folder: str) -> str:
    """Return the folder with ``.git`` that a folder lies in; empty if it is in no repository."""
    here = os.path.abspath(folder) if folder else ""
    while here:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        here = "" if above == here else above
    return ""


def read_branch(root: str) -> str:
    """Return the branch of a repository, the beginning of the commit if there is none, or nothing."""
    git = os.path.join(root, ".git")
    if not os.path.isdir(git):
        # A worktree or a submodule: a file says where the folder is.
        git = os.path.join(root, _read_line(git).removeprefix("gitdir:").strip())
    head = _read_line(os.path.join(git, "HEAD"))
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:7]


def _read_line(path: str) -> str:
    """Return the first line of a regular file; empty if there is none. A pipe must not keep a hook waiting."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            return file.readline(_MAX_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
