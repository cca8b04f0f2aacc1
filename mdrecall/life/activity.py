"""The activity log: what agents searched, read and wrote in a workspace, for its owner to look at.

It is a file beside the index that only its owner can read. It holds queries and citations, and never what was found,
read or written. Secrets and what was forgotten are masked. What cannot be written down is left out; a call never fails
because of it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.core.conversation.visibility import parse
from mdrecall.state_files import make_private_folder

if TYPE_CHECKING:
    from mdrecall.sources.tombstones import Masks

#: A megabyte is some thousand calls, which is more than anyone reads.
MAX_BYTES = 1024 * 1024
#: A query is a question or some words; a model may send a page.
_MAX_QUERY_CHARS = 300
#: A citation or a name is shorter. The rest of a peer's id says nothing to a reader.
_MAX_PATH_CHARS, _MAX_NAME_CHARS, _MAX_PEER_CHARS = 300, 60, 12
_CREATE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Activity(NamedTuple):
    """One call of a tool."""

    at: str
    """The moment, such as ``2026-02-10T09:30:00Z``."""
    tool: str
    query: str = ""
    path: str = ""
    """The citation of the best result, or of what was read or written."""
    results: int = 0
    """How many there were."""
    confidence: str = ""
    """How sure the best result is: ``high``, ``medium`` or ``low``."""
    who: str = ""
    """The kind of the conversation, and its short name."""
    client: str = ""
    """The program that called, if it gave a name."""
    problem: str = ""
    """The class of the error that the call has ended with; empty if it went well."""


def activity_path(index_path: str) -> str:
    """Return the file with the activity log of an index."""
    return f"{index_path}.activity"


def describe_session(session_key: str) -> str:
    """Return the kind of a conversation and a short name for it; empty without a session key."""
    if not session_key.strip():
        return ""
    key = parse(session_key)
    if key.is_main:
        return "main"
    return " ".join(filter(None, (key.channel, key.kind, key.peer[:_MAX_PEER_CHARS])))


def record_activity(settings: Settings, activity: Activity) -> None:
    """Add a line to the log, unless the setting is off; whatever goes wrong, nothing is raised."""
    if not settings.mdrecall.activity.record:
        return
    with suppress(Exception):
        mask = _open_masks(settings.workspace, tuple(settings.logging.redact_patterns)).redact
        # Cut after masking, because half of a secret is no secret to the rules.
        shown = activity._replace(
            tool=activity.tool[:_MAX_NAME_CHARS],
            query=" ".join(mask(activity.query[: 4 * _MAX_QUERY_CHARS]).split())[:_MAX_QUERY_CHARS],
            path=mask(activity.path)[:_MAX_PATH_CHARS],
            client=mask(activity.client[:_MAX_NAME_CHARS]),
        )
        said = {name: value for name, value in shown._asdict().items() if value}
        _append(activity_path(settings.index_path), json.dumps(said, ensure_ascii=False, separators=(",", ":")))


def read_activity(index_path: str) -> Iterator[Activity]:
    """Yield what is in the log, the newest first; lines that cannot be read are left out."""
    try:
        with open(activity_path(index_path), "rb") as file:
            lines = file.read(2 * MAX_BYTES).split(b"\n")
    except OSError:
        return
    for line in reversed(lines):
        if (found := _parse(line)) is not None:
            yield found


def clear_activity(index_path: str) -> None:
    """Delete the log; raise ``OSError`` if that fails."""
    with suppress(FileNotFoundError):
        os.unlink(activity_path(index_path))


def moment(now: datetime | None = None) -> str:
    """Return a moment, by default the present one, as the log has it."""
    return f"{(now or datetime.now(UTC)).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@lru_cache(maxsize=16)
def _open_masks(workspace: str, patterns: tuple[str, ...]) -> "Masks":
    """Return what masks the log; kept, so that tombstones are not read again for each call."""
    from mdrecall.core.redact import make_redactor
    from mdrecall.sources.tombstones import Masks, TombstoneFiles

    return Masks(make_redactor(patterns), TombstoneFiles(workspace))


def _append(path: str, line: str) -> None:
    try:
        file = os.open(path, _CREATE, 0o600)
    except FileNotFoundError:
        make_private_folder(os.path.dirname(path))
        file = os.open(path, _CREATE, 0o600)
    try:
        os.write(file, f"{line}\n".encode("utf-8", "replace"))
        if os.fstat(file).st_size > MAX_BYTES:
            _shorten(file)
    finally:
        os.close(file)


def _shorten(file: int) -> None:
    """Keep the newer half of the log.

    It is written into the same file, so that a log that somebody deletes meanwhile does not come back.
    """
    from mdrecall.locks import try_flock

    if not try_flock(file):
        return
    size = os.fstat(file).st_size
    if size <= MAX_BYTES:
        return
    kept = os.pread(file, size, size - MAX_BYTES // 2).partition(b"\n")[2]
    os.ftruncate(file, 0)
    os.write(file, kept)


def _parse(line: bytes) -> Activity | None:
    try:
        said: Any = json.loads(line)
        if not isinstance(said, dict):
            return None
        texts = {name: str(said[name]) for name in Activity._fields if name in said and name != "results"}
        return Activity(**texts, results=int(said.get("results", 0)))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
