"""What could keep a memory from working, looked at one by one, each with the way out."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from mdrecall.config.load import Loaded, load
from mdrecall.errors import ConfigError, ProgramMissing, RecallError, message_with_hint
from mdrecall.memory import Memory
from mdrecall.types import Issue, Status

# Other programs watch files too: a limit that is nearly used up by this one is as good as reached.
_SHARE_OF_WATCHES = 0.5
_LITTLE_ROOM_BYTES = 100 * 1024 * 1024
_BY_WORDS = {"store.vector.enabled": False}


class Finding(NamedTuple):
    """What one check has found."""

    check: str
    verdict: Literal["good", "note", "wrong"]
    said: str
    mend: str = ""
    """What to do about it."""


def examine(*, workspace: str | None = None, agent: str | None = None, config: str | None = None) -> Iterator[Finding]:
    """Every check in turn; one that fails does not keep the others from being made, as far as they can be."""
    yield Finding("program", "good", _versions())
    try:
        loaded = load(workspace=workspace, agent=agent, config=config)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("configuration", "wrong", problem, error.hint)
        yield from _canary()
        return
    except RecallError as error:
        yield Finding("workspace", "wrong", str(error), error.hint)
        yield from _canary()
        return
    files = ", ".join(loaded.files)
    yield Finding("configuration", "good", files or "no file; every setting has its default")
    try:
        with (
            Memory.open(workspace, agent=agent, config=config, one_shot=True) as memory,
            Memory.open(workspace, agent=agent, config=config, one_shot=True, overrides=_BY_WORDS) as by_words,
        ):
            yield from _memory(memory, by_words, loaded)
    except RecallError as error:
        yield Finding("memory", "wrong", str(error), error.hint)
    yield from _canary()


def _memory(memory: Memory, by_words: Memory, loaded: Loaded) -> Iterator[Finding]:
    """``by_words`` is the same memory without an embedder: looking at the notes must not cost time or money."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("qmd", lambda: _qmd(memory, by_words, loaded)),
        ("index", lambda: _index(memory)),
        ("notes", lambda: _notes(by_words)),
        ("embeddings", lambda: _embeddings(memory)),
        ("watching", lambda: _watching(memory.status())),
    ]
    said: set[str] = set()
    for name, check in checks:
        try:
            for finding in check():
                said.add(finding.said)
                yield finding
        except RecallError as error:
            if not any(str(error) in one for one in said):
                yield Finding(name, "wrong", str(error), error.hint)
            said.add(str(error))


def _notes(memory: Memory) -> Iterator[Finding]:
    where = memory.settings.workspace
    issues = memory.issues()
    report = memory.sync()
    found = sum(count.files for count in memory.counts())
    if not found and not issues:
        yield Finding("notes", "note", f"{where} has none yet", "Write MEMORY.md, or a file in memory/.")
    else:
        yield Finding("notes", "good", f"{found:,} in {where}")
    for issue in report.failed:
        if issue.path == "qmd":
            continue
        yield Finding("notes", "wrong", _one(issue), "Mend the file or its permissions; it is indexed when it changes.")
    for issue in issues:
        yield Finding("notes", "note", _one(issue))


def _index(memory: Memory) -> Iterator[Finding]:
    status = memory.status()
    if reason := status.custom.get("indexNotWritten"):
        yield Finding("index", "wrong", str(reason))
        return
    if problems := memory.check():
        yield Finding("index", "wrong", "; ".join(problems), "`mdrecall index --force` builds it anew from the notes.")
    else:
        size = sum(size for _, size in memory.index_files())
        yield Finding("index", "good", f"sound, {size / 1e6:,.1f} MB at {status.db_path}")
    if kept := status.custom.get("damagedIndexKeptAt"):
        yield Finding("index", "note", f"was damaged and built anew; the old one is {kept}", "Delete that file.")
    if (free := _free_bytes(os.path.dirname(status.db_path))) < _LITTLE_ROOM_BYTES:
        yield Finding("index", "note", f"only {free / 1e6:,.0f} MB are left on its disk", "Free some space.")


def _free_bytes(folder: str) -> int:
    """The room on the disk of a folder, or of the nearest one above it that is there."""
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _qmd(memory: Memory, by_words: Memory, loaded: Loaded) -> Iterator[Finding]:
    """Whether qmd is there, new enough, and answers; builtin stands in for it where not."""
    if loaded.settings.memory.backend != "qmd":
        return
    from mdrecall.qmd.capabilities import LEAST_VERSION, check_qmd

    found = check_qmd(loaded.settings, loaded.environment, loaded.home)
    if found.error is not None:
        yield Finding("qmd", "wrong", str(found.error), found.error.hint or "Until then the builtin backend answers.")
        if isinstance(found.error, ProgramMissing):
            # What follows is then about the backend that stands in.
            by_words.sync()
        return
    if found.version is None:
        yield Finding("qmd", "note", f"does not say its version, but: {found.text or 'nothing'}")
    elif found.version < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        yield Finding("qmd", "wrong", f"is {found.text}", f"{least} or newer is needed: npm install -g @tobilu/qmd")
        return
    else:
        yield Finding("qmd", "good", f"{found.text} answers")
    # Once it has read the files, it is known whether it answers.
    memory.sync()
    if fallback := memory.status().fallback:
        said = f"builtin has answered since {fallback['since']}: {fallback['reason']}"
        yield Finding("qmd", "note", said, f"It is tried again at {fallback['nextTry']}.")


def _embeddings(memory: Memory) -> Iterator[Finding]:
    status = memory.status()
    if status.backend == "qmd" and status.custom["searchMode"] == "search":
        yield Finding("embeddings", "good", "not needed: memory.qmd.searchMode is search")
        return
    if not status.vector["enabled"]:
        yield Finding("embeddings", "note", "switched off; notes are found by words only")
        return
    if note := status.custom.get("providerNote"):
        yield Finding("embeddings", "note", str(note))
    probe = memory.probe_embedding()
    fallback = status.custom.get("embeddingFallback", status.fallback)
    if fallback and fallback["from"] != "qmd" and fallback["reason"] != probe.error:
        yield Finding("embeddings", "note", f"not {fallback['from']}: {fallback['reason']}")
    if not probe.ok:
        yield Finding("embeddings", "wrong", probe.error)
    elif not memory.probe_vectors():
        yield Finding("embeddings", "wrong", str(status.vector.get("loadError", "vectors cannot be searched")))
    else:
        how = "by its own models" if status.backend == "qmd" else f"{status.model}, {probe.dims} dimensions"
        yield Finding("embeddings", "good", f"{status.provider}, {how}")


def _watching(status: Status) -> Iterator[Finding]:
    folders = int(status.custom["folders"])
    most = _number("/proc/sys/fs/inotify/max_user_watches")
    if most is not None and folders > most * _SHARE_OF_WATCHES:
        mend = f"Raise it: sudo sysctl fs.inotify.max_user_watches={8 * folders}"
        said = f"{folders:,} folders to watch, and the system allows {most:,} in all"
        yield Finding("watching", "wrong" if folders > most else "note", said, mend)
        return
    watcher: Mapping[str, object] = status.custom["watcher"]
    room = f" of {most:,} that the system allows" if most is not None else ""
    if not watcher["running"]:
        yield Finding(
            "watching", "good", f"possible ({folders:,} folders{room}); nobody does, so searches look for changes"
        )
    elif watcher["healthy"]:
        yield Finding("watching", "good", f"process {watcher['pid']} watches {watcher['folders']:,} folders{room}")
    else:
        said = str(watcher.get("error") or watcher.get("problem") or "it has not been heard of for a while")
        yield Finding("watching", "wrong", f"process {watcher['pid']} is in trouble: {said}", "Start it again.")


def _canary() -> Iterator[Finding]:
    """A note in a workspace of its own, found, changed, found again, and gone when it is deleted."""
    try:
        with tempfile.TemporaryDirectory(prefix="mdrecall-doctor-") as scratch:
            yield _sung(Path(scratch))
    except (RecallError, OSError) as error:
        said = message_with_hint(error) if isinstance(error, RecallError) else f"{error.strerror}: {error.filename}"
        yield Finding("canary", "wrong", said, "If the rest is well, please report this.")


def _sung(scratch: Path) -> Finding:
    note = scratch / "workspace" / "memory" / "canary.md"
    note.parent.mkdir(parents=True)
    env = {"HOME": str(scratch), "MDRECALL_STATE_DIR": str(scratch / "state")}
    songs = ("The canary sings qzvtrill at dawn.\n", "The canary sings qzvwarble at dusk.\n")
    heard = []
    for text in songs:
        note.write_text(text)
        with Memory.open(scratch / "workspace", env=env) as memory:
            by_word = memory.search(text.split()[3], mode="keyword")
            heard.append(bool(by_word) and bool(memory.search("a bird makes music", min_score=0)))
    note.unlink()
    with Memory.open(scratch / "workspace", env=env) as memory:
        heard.append(not memory.search("qzvwarble", mode="keyword"))
    if all(heard):
        return Finding("canary", "good", "a note was written, found, changed, found again and deleted")
    failed = ("a new note was not found", "a changed note was not found", "a deleted note was still found")
    said = "; ".join(what for what, well in zip(failed, heard, strict=True) if not well)
    return Finding("canary", "wrong", said, "Please report this, with the version and the system.")


def _versions() -> str:
    import mdrecall

    return f"mdrecall {mdrecall.__version__} on Python {sys.version.split()[0]}, {sys.platform}"


def _one(issue: Issue) -> str:
    return issue.problem if issue.path in issue.problem else f"{issue.path} {issue.problem}"


def _number(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
