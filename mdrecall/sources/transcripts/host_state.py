"""Which conversations of coding agents belong to a memory: hosts that are followed, and copies of past conversations.

They are private, so nothing is read until somebody asks for it. ``hosts.json`` says which hosts are followed, and for
which folders. What was imported once is copied, with secrets masked and without tool output, because a host may delete
its own files. Line ``n`` of a copy is record ``n`` of the original, so that citations stay valid.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from mdrecall.config.workspace import HOSTS_FILE
from mdrecall.errors import ReadError, SessionsError
from mdrecall.sources.opening import stamp_of
from mdrecall.sources.transcripts.host_formats import About
from mdrecall.sources.transcripts.jsonl import MAX_LINE_BYTES
from mdrecall.state_files import draft, load, save
from mdrecall.types import Stamp, TranscriptRecord

_COPIES = "hosts"
_ENDING = ".jsonl"


class FollowedHost(NamedTuple):
    """A host whose conversations are read where the host keeps them."""

    root: str
    """The folder with its transcripts, or its database."""
    folders: tuple[str, ...] = ()
    """The folders whose conversations are read; empty for all of them."""

    def wants(self, about: About) -> bool:
        """True if a conversation is one of those to read."""
        return not about.is_subagent and (not self.folders or any(is_inside(about.folder, at) for at in self.folders))


def is_inside(path: str, folder: str) -> bool:
    """True if a path is a folder or lies in it, by their names alone."""
    return bool(path) and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))


class HostState:
    """The hosts of one agent's memory, below the folder of the agent."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, HOSTS_FILE)
        self.copies = os.path.join(folder, _COPIES)

    def list_followed(self) -> dict[str, FollowedHost]:
        """Return the hosts that are followed, by name."""
        entries = load(self._path).get("follow")
        return {
            host: FollowedHost(entry["root"], tuple(at for at in entry.get("folders") or () if isinstance(at, str)))
            for host, entry in (entries if isinstance(entries, dict) else {}).items()
            if isinstance(entry, dict) and isinstance(entry.get("root"), str)
        }

    def follow(self, host: str, wanted: FollowedHost) -> FollowedHost:
        """Follow a host, for further folders if it is followed already; return what is read from now on."""
        known = self.list_followed()
        before = known.get(host)
        is_narrower = before is not None and not before.folders
        folders = () if is_narrower or not wanted.folders else (*(before.folders if before else ()), *wanted.folders)
        known[host] = FollowedHost(wanted.root, tuple(dict.fromkeys(folders)))
        self._save(known)
        return known[host]

    def switch_on(self) -> None:
        """Let imported conversations be searched, without following a host."""
        self._save(self.list_followed())

    def forget(self, host: str) -> None:
        """Follow a host no longer, and delete the copies of its conversations."""
        import shutil

        known = self.list_followed()
        known.pop(host, None)
        try:
            shutil.rmtree(os.path.join(self.copies, host))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _write_error(self.copies, error) from error
        with suppress(OSError):
            os.rmdir(self.copies)
        self._save(known)

    def _save(self, known: Mapping[str, FollowedHost]) -> None:
        try:
            if known or os.path.isdir(self.copies):
                entries = {host: {"root": at.root, "folders": list(at.folders)} for host, at in known.items()}
                save(self._path, {"follow": entries})
            elif os.path.exists(self._path):
                os.unlink(self._path)
        except OSError as error:
            raise _write_error(self._path, error) from error

    def list_copies(self) -> Iterator[tuple[str, str, Stamp]]:
        """Yield the host, the session and the stamp of every copy."""
        for host in _names(self.copies):
            for name in _names(os.path.join(self.copies, host)):
                with suppress(OSError):
                    found = os.lstat(os.path.join(self.copies, host, name))
                    if name.endswith(_ENDING) and not name.startswith(".") and stat.S_ISREG(found.st_mode):
                        yield host, name.removesuffix(_ENDING), stamp_of(found)

    def read_about(self, host: str, session: str) -> About:
        """Return what a copy says about its conversation."""
        try:
            with open(os.path.join(self.copies, copy_name(host, session)), "rb") as file:
                values = json.loads(file.readline(MAX_LINE_BYTES)).get("conversation") or {}
                return About(str(values.get("folder", "")), str(values.get("branch", "")), str(values.get("title", "")))
        except (OSError, ValueError, AttributeError):
            return About()

    def copy(
        self,
        host: str,
        session: str,
        about: About,
        records: Iterator[TranscriptRecord],
        redact: Callable[[str], str],
        changed_ns: int,
    ) -> int:
        """Write the copy of a conversation as a whole, unless it has no message; return how many it has."""
        path = os.path.join(self.copies, copy_name(host, session))
        shown = {"folder": about.folder, "branch": about.branch, "title": redact(about.title)}
        messages = 0
        try:
            with draft(path) as target:
                for record in records:
                    line = _message_line(record.redact_text(redact))
                    if record.number == 1:
                        line["conversation"] = shown
                    target.file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                    messages += record.is_message
                if messages:
                    target.publish()
                    os.utime(path, ns=(changed_ns, changed_ns))
        except OSError as error:
            raise _write_error(path, error) from error
        return messages


def copy_name(host: str, session: str) -> str:
    """Return the path of a copy below the folder of all copies."""
    return f"{host}/{session}{_ENDING}"


def _message_line(record: TranscriptRecord) -> dict[str, Any]:
    if not record.is_message:
        return {}
    message = {"role": record.speaker.lower(), "content": record.text}
    return {"type": "message", **({"timestamp": f"{record.day}T12:00:00Z"} if record.day else {}), "message": message}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ReadError(f"Cannot list {folder}: {error.strerror}.", path=folder) from error


def _write_error(path: str, error: OSError) -> SessionsError:
    return SessionsError(
        f"Cannot write {path}: {error.strerror or error}.", hint="Check the disk and the permissions, then try again."
    )
