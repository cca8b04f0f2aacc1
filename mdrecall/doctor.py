"""Checks of everything a memory needs, each with a verdict and a suggested fix."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal, NamedTuple

import mdrecall
from mdrecall.config.environment import find_locations
from mdrecall.config.load import Loaded, load
from mdrecall.errors import BackendUnavailable, ConfigError, ProgramMissing, RecallError
from mdrecall.memory import Memory
from mdrecall.optional import import_extra
from mdrecall.types.documents import Issue

_KEYWORDS_ONLY = {"provider": "none"}


class Finding(NamedTuple):
    """The result of one check."""

    check: str
    verdict: Literal["good", "note", "wrong"]
    message: str
    fix: str = ""
    """What to do about it."""
    code: Literal["", "configuration", "workspace", "damaged_index", "provider"] = ""
    """The kind of problem, for a door that has a command to fix it."""


def examine(
    *,
    workspace: str | None = None,
    agent: str | None = None,
    config: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Yield the finding of every check; a check that fails does not stop the others."""
    open_memory = partial(Memory.open, workspace, agent=agent, config=config, env=env, one_shot=True)
    versions = f"mdrecall {mdrecall.__version__} on Python {sys.version.split()[0]}, {sys.platform}"
    yield Finding("program", "good", versions)
    try:
        loaded = load(env=env, workspace=workspace, agent=agent, config=config)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("configuration", "wrong", problem, error.hint, "configuration")
        return
    except RecallError as error:
        yield Finding("workspace", "wrong", str(error), error.hint, "workspace")
        return
    files = ", ".join(loaded.files)
    yield Finding("configuration", "good", files or "no file; every setting has its default")
    for warning in loaded.warnings:
        yield Finding("configuration", "wrong" if warning in loaded.outdated else "note", warning)
    try:
        with open_memory() as memory, open_memory(overrides=_KEYWORDS_ONLY) as keywords:
            yield from _check_memory(memory, keywords, loaded)
    except RecallError as error:
        yield Finding("memory", "wrong", str(error), error.hint)
    yield from _find_old_indexes(loaded)


def _find_old_indexes(loaded: Loaded) -> Iterator[Finding]:
    """Yield a finding for each index whose folder is gone: the text of its notes is still in it."""
    from mdrecall.store.sqlite.sidecar_files import find_orphans

    folder = os.path.join(find_locations(loaded.environment, "/").own_state_dir, "index")
    for path, workspace in find_orphans(folder):
        message = f"notes that were in {workspace}, which is gone, are still in {path}"
        fix = "If the folder will not come back, delete the files whose names begin with that of the index."
        yield Finding("old index", "note", message, fix)


def _check_memory(memory: Memory, keywords: Memory, loaded: Loaded) -> Iterator[Finding]:
    """``keywords`` is the same memory without an embedder: checking the notes must not cost time or money."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("qmd", lambda: _check_qmd(memory, keywords, loaded)),
        ("index", lambda: _check_index(memory)),
        ("notes", lambda: _check_notes(keywords)),
        ("embeddings", lambda: _check_embeddings(memory)),
    ]
    reported: set[str] = set()
    for name, check in checks:
        try:
            for finding in check():
                reported.add(finding.message)
                yield finding
        except RecallError as error:
            if not any(str(error) in message for message in reported):
                yield Finding(name, "wrong", str(error), error.hint)
            reported.add(str(error))


def _check_notes(memory: Memory) -> Iterator[Finding]:
    workspace = memory.settings.workspace
    issues = memory.issues()
    report = memory.sync()
    count = sum(entry.files for entry in memory.counts())
    if not count and not issues:
        yield Finding("notes", "note", f"none in {workspace} yet", "Write MEMORY.md, or a file in memory/.")
    else:
        yield Finding("notes", "good", f"{count:,} in {workspace}")
    fix = "Fix the file or its permissions. It is indexed as soon as it changes."
    failed = {issue.path for issue in report.failed}
    yield from (Finding("notes", "wrong", _describe_issue(each), fix) for each in report.failed if each.path != "qmd")
    yield from (Finding("notes", "note", _describe_issue(each)) for each in issues if each.path not in failed)


def _check_index(memory: Memory) -> Iterator[Finding]:
    status = memory.status()
    if reason := status.custom.get("indexNotWritten"):
        yield Finding("index", "wrong", str(reason))
        return
    if problems := memory.check():
        fix = "Index again with force to rebuild it from the notes."
        yield Finding("index", "wrong", "; ".join(problems), fix, "damaged_index")
    else:
        size = sum(size for _, size in memory.index_files())
        yield Finding("index", "good", f"no problems, {size / 1e6:,.1f} MB at {status.db_path}")
    if quarantined := status.custom.get("damagedIndexKeptAt"):
        message = f"it was damaged and has been rebuilt; the damaged one was moved to {quarantined}"
        yield Finding("index", "note", message, "Delete that file if you do not need it.")


def _check_qmd(memory: Memory, keywords: Memory, loaded: Loaded) -> Iterator[Finding]:
    """Check that qmd is installed, recent enough, and answers. If not, the builtin backend answers instead."""
    if loaded.settings.memory.backend != "qmd":
        return
    try:
        version = import_extra("qmd", "process").check_qmd(loaded.settings, loaded.environment, loaded.home)
    except BackendUnavailable as error:
        fix = error.hint or "Until this is fixed, the builtin backend answers."
        yield Finding("qmd", "wrong", str(error), fix)
        if isinstance(error, ProgramMissing):
            # The checks that follow are then about the builtin backend, which needs an index.
            keywords.sync()
        return
    yield Finding("qmd", "good", f"{version} answers") if version else Finding("qmd", "note", "reports no version")
    # Only an update of its index shows if it answers.
    memory.sync()
    if fallback := memory.status().fallback:
        message = f"the builtin backend has answered since {fallback['since']}: {fallback['reason']}"
        yield Finding("qmd", "note", message, f"qmd will be tried again at {fallback['nextTry']}.")


def _check_embeddings(memory: Memory) -> Iterator[Finding]:
    status = memory.status()
    if status.backend == "qmd" and status.custom["searchMode"] == "search":
        yield Finding("embeddings", "good", "not needed: memory.qmd.searchMode is search")
        return
    if status.requested_provider == "none":
        yield Finding("embeddings", "note", "switched off; notes are searched by keywords only")
        return
    if note := status.custom.get("providerNote"):
        yield Finding("embeddings", "note", str(note))
    probe = memory.probe_embedding()
    fallback = status.custom.get("embeddingFallback", status.fallback)
    if fallback and fallback["from"] != "qmd" and fallback["reason"] != probe.error:
        yield Finding("embeddings", "note", f"not {fallback['from']}: {fallback['reason']}")
    if not probe.ok:
        yield Finding("embeddings", "wrong", probe.error, code="provider")
    elif not memory.probe_vectors():
        yield Finding("embeddings", "wrong", str(status.vector.get("loadError", "vectors cannot be searched")))
    else:
        if status.vector.get("loadError"):
            yield Finding("embeddings", "note", f"{status.vector['loadError']} Vectors are searched in this process.")
        how = "using its own models" if status.backend == "qmd" else f"{status.model}, {probe.dims} dimensions"
        yield Finding("embeddings", "good", f"{status.provider}, {how}")


def _describe_issue(issue: Issue) -> str:
    return issue.problem if issue.path in issue.problem else f"{issue.path} {issue.problem}"
