"""A repository of mdrecall's own, by the program ``git``: no index, no checkout, no hook, no question.

The remote is not trusted: its files are only read as blobs, and what a repository configures never runs.
"""

import hashlib
import re
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from mdrecall import platform
from mdrecall.errors import SyncError
from mdrecall.patterns import compile_later

#: Nothing that a repository configures may run, and nobody is asked for a password. What was written outlasts a crash.
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.alternateRefsCommand=true", "core.askPass=",
    "core.fsync=committed,reference", "credential.interactive=false", "protocol.ext.allow=never", "gc.auto=0",
    "maintenance.auto=false", "receive.autogc=false", "push.gpgSign=false", "http.lowSpeedLimit=100",
    "http.lowSpeedTime=20",
)  # fmt: skip
#: Settings of the user. Any other variable, such as one that a hook has set, is for another repository.
_KEPT = ("GIT_SSH", "GIT_SSL", "GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
#: A command that hangs, as when the network is gone, is ended after this time. A first push may take minutes.
LIMIT_S = 600.0
#: What a failed command means to a person.
_REMOTE = dict.fromkeys(("ls-remote", "fetch"), "The remote cannot be reached") | {"push": "The push was refused"}
_HINT = "Check the address, the network, the disk and your access to the repository. Nothing was lost."
_OWN_HINT = "Check the disk. If it comes again, leave sync and join again: no note is lost."
#: How git says that another machine has pushed first. It is no use to repeat a push that failed for another reason.
_FASTER = (b"[rejected]", b"lock ref", b"update ref", b"old value", b"already exists")
#: A path on this machine: neither ``https://…`` nor ``git@host:…``.
_LOCAL = compile_later(r"file://|(?![a-z][a-z0-9+.-]+://)(?![^/]+:)", re.IGNORECASE)
_PASSWORD = compile_later(r"(?<=//)[^/@\s]+@")
#: A file; links, submodules and folders have other modes.
_PLAIN = ("100644", "100755")
NO_BLOB = "0" * 40
#: The tree without files, which every git knows.
_NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SYNCED = "refs/mdrecall/synced"
#: The new contents of files; None for one to remove.
Changes: TypeAlias = Mapping[str, bytes | None]
Done: TypeAlias = subprocess.CompletedProcess[bytes]


class Commit(NamedTuple):
    """A commit to make: files that change on top of a parent."""

    ref: str
    parent: str
    """Empty for none."""
    files: Changes
    message: str


class Git:
    """A bare repository. Names and contents of files pass through ``name_blob``, ``list_changes``, ``read`` and
    ``commit`` only, so that these are all that an encrypted repository does in another way.
    """

    def __init__(self, folder: str, environment: Mapping[str, str], limit_s: float, author: str = "mdrecall") -> None:
        self.folder = folder
        self._limit_s, self._author = limit_s, author
        foreign = [name for name in environment if name.startswith("GIT_") and not name.startswith(_KEPT)]
        kept = {name: environment[name] for name in environment if name not in (*foreign, "SSH_ASKPASS")}
        # A program without a terminal cannot ask for a password on it, and ssh must not open a window.
        self._environment = kept | {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}

    def create(self) -> None:
        """Make the repository, unless it is there."""
        self._run("init", "--bare", "--quiet", "--template=", self.folder)

    def find_head(self, url: str, branch: str) -> str:
        """Return the commit that a branch of the remote is at; empty if it has no such branch."""
        found = self._run("ls-remote", *keep_from_hooks(url, "upload-pack"), "--", url, f"refs/heads/{branch}")
        return found[:40].decode()

    def is_public(self, url: str, branch: str) -> bool:
        """True if a remote answers without any credentials."""
        return not self._start("ls-remote", "--", url, f"refs/heads/{branch}", more=["credential.helper="]).returncode

    def fetch(self, url: str, branch: str, known: str = "") -> tuple[str, bool]:
        """Fetch a branch of the remote; return the commit that it is at, and if a ``known`` one is part of that."""
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
        refs = f"+refs/heads/{branch}:refs/mdrecall/remote"
        self._run("fetch", *options, *keep_from_hooks(url, "upload-pack"), "--", url, refs)
        about = "for-each-ref", "--format=%(objectname)", "refs/mdrecall/remote"
        found = self._start(*about, f"--contains={known}").stdout if known else b""
        return (found or self._run(*about)).decode().strip(), bool(found)

    def push(self, url: str, branch: str, commit: str, *, instead_of: str | None = None) -> bool:
        """Push a commit on top of the one that the branch is at; False if the branch is somewhere else meanwhile.

        With ``instead_of`` it replaces that commit, whatever its history.
        """
        lease = [] if instead_of is None else [f"--force-with-lease=refs/heads/{branch}:{instead_of}"]
        options = ("--quiet", "--porcelain", *lease, *keep_from_hooks(url, "receive-pack"))
        done = self._start("push", *options, "--", url, f"{commit}:refs/heads/{branch}")
        if done.returncode and any(words in done.stdout for words in _FASTER):
            return False
        self._check(done)
        return True

    def name_blob(self, data: bytes) -> str:
        """Return the blob that a content has in a commit."""
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def list_changes(self, old: str, new: str) -> dict[str, str]:
        """Return the blobs of the files that differ between two commits, the first of which may be none.

        A file that is gone, or is none any more, has no blob. A name that is not UTF-8 is left out.
        """
        return {path: blob for path, _, blob in self._list_changes(old, new)}

    def _list_changes(self, old: str, new: str) -> Iterator[tuple[str, str, str]]:
        """Yield path, blob before and blob after of each file that differs."""
        listed = self._run("diff-tree", "-r", "-z", "--no-renames", old or _NOTHING, new).split(b"\0")
        for about, path in zip(listed[::2], listed[1::2], strict=False):
            _, mode, before, blob, _ = about.decode().split(" ")
            with suppress(UnicodeDecodeError):
                yield path.decode(), before, blob if mode in _PLAIN else NO_BLOB

    def read(self, blobs: Iterable[str], max_bytes: int, known: Collection[str] = ()) -> dict[str, bytes]:
        """Return the content of blobs; one that is larger than the limit is left out, unless it is ``known``."""
        wanted = [blob for blob in dict.fromkeys(blobs) if blob != NO_BLOB]
        if new := [blob for blob in wanted if blob not in known]:
            check = "cat-file", "--batch-check=%(objecttype)%(objectsize)"
            listed = zip(new, self._run(*check, data="\n".join(new).encode()).splitlines(), strict=True)
            sizes = {blob: int(about[4:]) for blob, about in listed if about.startswith(b"blob")}
            wanted = [blob for blob in wanted if blob in known or sizes.get(blob, max_bytes + 1) <= max_bytes]
        output = self._run("cat-file", "--batch", data="\n".join(wanted).encode()) if wanted else b""
        found, at = dict[str, bytes](), 0
        for blob in wanted:
            end = output.index(b"\n", at)
            size = int(output[at:end].rpartition(b" ")[2])
            found[blob] = output[end + 1 : end + 1 + size]
            at = end + size + 2
        return found

    def commit(self, commits: Sequence[Commit], keep: str = "") -> list[str]:
        """Make commits, let refs point at them, and return their ids; a ref keeps another commit from being removed."""
        parts: list[bytes] = [b"feature done\n"]
        parts += [f"reset {_SYNCED}\nfrom {keep}\n\n".encode()] if keep else []
        for number, each in enumerate(commits, 1):
            who = f"committer {self._author} <mdrecall@localhost> {int(time.time())} +0000"
            parts += [f"commit {each.ref}\nmark :{number}\n{who}\n".encode(), _data(each.message.encode())]
            parts += [f"from {each.parent}\n".encode()] if each.parent else []
            for path, content in each.files.items():
                name = '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
                parts.append(f"D {name}\n".encode() if content is None else f"M 100644 inline {name}\n".encode())
                parts += [] if content is None else [_data(content)]
            parts.append(f"\nget-mark :{number}\n".encode())
        parts.append(b"done\n")
        return self._run("fast-import", "--quiet", "--force", "--done", data=b"".join(parts)).decode().split()

    def copy_commit(self, commit: str) -> str:
        """Return a new commit with the files of another one, and without any history."""
        who = [f"user.name={self._author}", "user.email=mdrecall@localhost"]
        return self._run("commit-tree", "-m", "history dropped", f"{commit}^{{tree}}", more=who).decode().strip()

    def drop_others(self, commit: str) -> None:
        """Delete every object that is not part of a commit."""
        refs = self._run("for-each-ref", "--format=%(refname)", "refs/mdrecall").decode().split()
        orders = [f"delete {ref}\n" for ref in refs if ref != _SYNCED] + [f"update {_SYNCED} {commit}\n"]
        self._run("update-ref", "--stdin", data="".join(orders).encode())
        self.clean_up("--prune=now")

    def clean_up(self, option: str = "--auto") -> None:
        """Pack objects if there are many."""
        self._run("gc", option, "--quiet", more=["gc.auto=500", "gc.autoDetach=false"])

    def _run(self, *arguments: str, data: bytes = b"", more: Sequence[str] = ()) -> bytes:
        return self._check(self._start(*arguments, data=data, more=more))

    def _check(self, done: Done) -> bytes:
        if done.returncode:
            lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
            # What ssh or a server says about the cause stands above what git makes of it.
            above = (one for one, line in pairwise(lines) if "Could not read from remote repository" in line)
            telling = next(above, "") or next((line for line in lines if "fatal:" in line or "error:" in line), "")
            said = hide_password(telling or "".join(lines[-1:])).replace("fatal: ", "").replace("error: ", "").strip()
            what = _REMOTE.get(done.args[-1]) if self.folder not in said else None
            what, hint = (what, _HINT) if what else (f"git {done.args[-1]} failed", _OWN_HINT)
            raise SyncError(f"{what}: {said or f'git ended with {done.returncode}'}", hint=hint)
        return done.stdout

    def _start(self, *arguments: str, data: bytes = b"", more: Sequence[str] = ()) -> Done:
        settings = [part for setting in (*_SETTINGS, *more) for part in ("-c", setting)]
        command = ["git", "--git-dir", self.folder, *settings, *arguments]
        how: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        how |= {"start_new_session": True, "creationflags": platform.OWN_CONSOLE}
        try:
            child = subprocess.Popen(command, env=self._environment, **how)
        except FileNotFoundError as error:
            raise SyncError("git is not installed.", hint="Install it; sync needs it.") from error
        try:
            out, problems = child.communicate(data, timeout=self._limit_s)
        except subprocess.TimeoutExpired as error:
            what = _REMOTE.get(arguments[0], f"git {arguments[0]} failed")
            raise SyncError(f"{what}: it took longer than {self._limit_s:g} seconds.", hint=_HINT) from error
        finally:
            if child.poll() is None:
                # End what git has started, too, such as ssh.
                platform.kill_group(child.pid)
                child.communicate()
        return Done([*command, arguments[0]], child.returncode, out, problems)


def hide_password(text: str) -> str:
    """Return a text without user and password in its addresses."""
    return _PASSWORD.sub("", text)


def keep_from_hooks(url: str, name: str) -> list[str]:
    """Return the option that keeps a repository on this machine, such as one on a stick, from running its hooks."""
    settings = " ".join(f"-c {setting}" for setting in _SETTINGS[:3])
    return [f"--{name}=git {settings} {name}"] if _LOCAL.match(url) else []


def _data(content: bytes) -> bytes:
    return f"data {len(content)}\n".encode() + content + b"\n"
