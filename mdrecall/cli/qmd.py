"""What people see of the qmd backend."""

from collections.abc import Iterator
from typing import Any

from mdrecall.cli.output import counted
from mdrecall.types import Status

_HOW = {"search": "by words", "vsearch": "by meaning", "query": "by words and meaning, reranked"}


def qmd_lines(status: Status) -> Iterator[tuple[str, str]]:
    """The lines of ``mdrecall status`` that are its own."""
    qmd: dict[str, Any] = status.custom["qmd"]
    yield "Backend", "qmd" if qmd["command"] == "qmd" else f"qmd ({qmd['command']})"
    waiting = "changes on disk wait for the next search or `mdrecall index`"
    yield "Indexed", f"{counted(status.files, 'file')} · {waiting if status.custom['filesChanged'] else 'up to date'}"
    yield "Collections", ", ".join(f"{name} ({count:,})" for name, count in qmd["collectionFiles"].items()) or "none"
    yield "Search", f"{_HOW[status.custom['searchMode']]} (searchMode {status.custom['searchMode']})"
    yield "Updated", _updated(qmd)
    if status.custom["searchMode"] != "search":
        yield "Vectors", _embedded(status, qmd)
    if qmd.get("problem"):
        yield "Problem", f"{qmd['problem']} Until that is mended, the builtin backend answers."
    if qmd.get("lost"):
        yield "Missing", f"{', '.join(qmd['lost'])}: what was indexed from there is kept"
    yield "Watched", watched(status.custom["watcher"])


def watched(watcher: dict[str, Any]) -> str:
    """Who follows the files."""
    if not watcher["running"]:
        return "by nobody; every search looks for changes"
    said = f"by process {watcher['pid']}, {counted(watcher['folders'], 'folder')}"
    if watcher["healthy"]:
        return said + (f"; {watcher['problem']}" if watcher.get("problem") else "")
    return f"{said}, in trouble: {watcher.get('error') or 'not heard of for a while'}"


def _updated(qmd: dict[str, Any]) -> str:
    said = qmd["lastUpdateAt"] or "never"
    if qmd.get("updating"):
        said += "; an update is under way"
    if qmd.get("updateFailures"):
        said += f"; {counted(qmd['updateFailures'], 'failure')} since, last: {qmd['lastUpdateError']}"
    return said


def _embedded(status: Status, qmd: dict[str, Any]) -> str:
    said = f"made {qmd['lastEmbedAt']}" if qmd.get("lastEmbedAt") else "never made"
    if missing := status.vector.get("unembedded"):
        said += f"; {counted(missing, 'text')} without"
    if qmd.get("embedFailures"):
        said += f"; {counted(qmd['embedFailures'], 'failure')}, last: {qmd['lastEmbedError']}"
        said += f"; tried again at {qmd['nextEmbedTry']}"
    return said
