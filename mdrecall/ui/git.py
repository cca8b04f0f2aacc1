"""Reads the history of a file from git, in a repository that a stranger may have prepared.

The settings of a repository can name programs for git to run. Of git's commands, only two are used that have no need of
such programs, and the settings are overridden all the same.
"""

import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from signal import SIGKILL
from tempfile import TemporaryFile
from typing import NamedTuple

from mdrecall.errors import RecallError
from mdrecall.sources.repository import find_root

#: More commits of one note nobody looks through, and each has a row on the page.
MAX_COMMITS = 200
#: Somebody has clicked and waits. In a very large repository git needs minutes to find the first commit of a file.
_MAX_SECONDS = 10.0
#: A commit takes about 300 bytes. A subject may be as long as its author likes.
_MAX_LOG_BYTES = 1 << 20
#: How much git's own words may take on the page.
_MAX_ERROR_CHARS = 500
#: A renamed file is looked for among this many squared; beyond, only one with the same content is found.
_RENAME_LIMIT = 100
_GIT_LINK = "160000"
#: Each of these would let the repository run a program or reach a server. Some are out of reach of our two commands.
_SETTINGS = {
    "core.alternateRefsCommand": "false",
    "core.askPass": "false",
    "core.attributesFile": os.devnull,
    "core.editor": "false",
    "core.fsmonitor": "false",
    "core.gitProxy": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "credential.helper": "",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "gc.auto": "0",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
}
#: Where the user's own settings are, such as which repositories of others they trust. All other variables of git would
#: lead it elsewhere.
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_VARIABLES = {
    # No server is asked for what a partial clone lacks. Git before 2.45 does not know the first of these.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
_LOG = (
    *("log", "--follow", "--raw", "-z", "--no-abbrev", "-M", f"-l{_RENAME_LIMIT}", f"-n{MAX_COMMITS + 1}"),
    *("--diff-merges=first-parent", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-mailmap"),
    *("--submodule=short", "--ignore-submodules=all", "--no-notes", "--no-color", "--encoding=UTF-8"),
    *(f"-O{os.devnull}", "--decorate-refs=none", "--format=%H%x00%at%x00%an%x00%s%x00%D"),
)
#: What git says of a commit whose parents a shallow clone does not have.
_GRAFTED = "grafted"
_UNCHANGED = "The note itself is as it was; only its history cannot be shown."


class Version(NamedTuple):
    """A note as one commit left it."""

    commit: str
    seconds: int
    """When it was written, since 1970."""
    author: str
    subject: str
    path: str
    """What the file was called then."""
    old_path: str
    """What it was called before; empty if the commit has added it."""
    blob: str
    """Names the content; empty if the commit has removed the file."""
    old_blob: str
    is_cut: bool
    """True if a shallow clone has nothing older."""


class History(NamedTuple):
    """The versions of a note, the newest first."""

    versions: tuple[Version, ...]
    problem: str = ""
    """Why older versions are missing; empty if none are."""


class _Output(NamedTuple):
    data: bytes
    problem: str
    """Why it is not all of it; empty if it is."""


def find_repository(path: str) -> str:
    """Return the folder of the git repository that a file is in; empty if it is in none. Nothing is run."""
    return find_root(os.path.dirname(os.path.realpath(path)))


def read_history(path: str, env: Mapping[str, str]) -> History:
    """Return the commits that have changed a file."""
    root = _require_repository(path)
    inside = os.path.relpath(os.path.realpath(path), root)
    output = _run(root, (*_LOG, "--", inside), env, _MAX_LOG_BYTES)
    fields = output.data.decode("utf-8", "replace").split("\0")
    # What comes after the last zero byte is nothing, or a record that git could not end.
    versions = tuple(_parse(fields[:-1]))
    if output.problem and not versions:
        raise RecallError(output.problem, hint=_UNCHANGED)
    if len(versions) > MAX_COMMITS:
        return History(versions[:MAX_COMMITS], f"These are the last {MAX_COMMITS} commits. There are older ones.")
    return History(versions, output.problem)


def read_blob(path: str, blob: str, env: Mapping[str, str], max_bytes: int) -> bytes:
    """Return a content from the repository of a file."""
    if not blob:
        return b""
    output = _run(_require_repository(path), ("cat-file", "blob", blob), env, max_bytes)
    if output.problem:
        raise RecallError(output.problem, hint=_UNCHANGED)
    return output.data


def _require_repository(path: str) -> str:
    if root := find_repository(path):
        return root
    raise RecallError("This note is not in a git repository, so it has no history.", hint="Run git init in its folder.")


def _parse(fields: list[str]) -> Iterator[Version]:
    """Yield the versions in git's output: five fields a commit, and the change with one or two paths."""
    left = iter(fields)
    with suppress(StopIteration, ValueError):
        record = next(left)
        while record:
            commit, seconds, author, subject, refs = record.strip(), next(left), next(left), next(left), next(left)
            record = next(left)
            while record.startswith(("\n:", ":")):
                old_mode, mode, old_blob, blob, status = record.strip().lstrip(":").split(" ")
                old_path = path = next(left)
                if status.startswith(("R", "C")):
                    path = next(left)
                yield Version(
                    *(commit, int(seconds or 0), author, subject, path, "" if status == "A" else old_path),
                    *(_content(mode, blob), _content(old_mode, old_blob), _GRAFTED in refs.split(", ")),
                )
                record = next(left)


def _content(mode: str, blob: str) -> str:
    """Return the name of a content; empty if there was no file, or another repository in its place."""
    return blob if blob.strip("0") and mode != _GIT_LINK else ""


def _run(root: str, arguments: tuple[str, ...], env: Mapping[str, str], max_bytes: int) -> _Output:
    """Run git and return what it writes, up to a number of bytes and for a limited time."""
    program = shutil.which("git", path=env.get("PATH"))
    if program is None:
        raise RecallError("Git is not installed, so the history cannot be read.", hint="Install git.")
    settings = (part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}"))
    own = {name: value for name, value in env.items() if not name.startswith("GIT_") or name in _KEPT}
    # The repository may claim that its files are elsewhere.
    own |= {**_VARIABLES, "GIT_WORK_TREE": root}
    with TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [program, "--no-pager", *settings, *arguments],
                cwd=root,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise RecallError(f"Git does not start: {error.strerror}.", hint="Check that git is installed.") from error
        timer = threading.Timer(_MAX_SECONDS, _kill, (process,))
        timer.start()
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                data = stream.read(max_bytes + 1)
            if len(data) > max_bytes:
                _kill(process)
            code = process.wait()
            # Git may also end by a signal of its own, when a program that it has started is gone.
            is_late = timer.finished.is_set()
        finally:
            timer.cancel()
            _kill(process)
        if len(data) > max_bytes:
            return _Output(data[:max_bytes], f"Git wrote more than {max_bytes:,} bytes and was stopped.")
        if is_late:
            return _Output(data, f"Git took longer than {_MAX_SECONDS:.0f} seconds and was stopped.")
        errors.seek(0)
        said = errors.read(4 * _MAX_ERROR_CHARS).decode("utf-8", "replace")
    if "safe.directory" in said and code:
        # In git's message the way out is an instruction, and the reason is hard to tell from it.
        hint = f"If you trust it, run: git config --global --add safe.directory {shlex.quote(root)}"
        raise RecallError(f"Another user owns the repository {root}, so git does not read it.", hint=hint)
    return _Output(data, f"Git has failed: {_shorten(said)}" if code else "")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End git and what it has started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)


def _shorten(said: str) -> str:
    """Return git's own words as one line."""
    return " ".join(said.replace("fatal: ", "").split())[:_MAX_ERROR_CHARS]
