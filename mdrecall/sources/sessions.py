"""The transcripts of one agent's conversations: which there are, and their bytes from any point on."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mdrecall.errors import FileMissing, FileUnreadable, PathOutside
from mdrecall.sources.opening import open_below, stamp_of
from mdrecall.types import Issue, Listing, SourceName, Stamp

#: What the paths of transcripts begin with, wherever their folder is.
PREFIX = "sessions/"

# ``<session>.jsonl``, with a topic or without; after a reset the conversation goes on in another file, and this one
# is kept with the time in its name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%-]{0,255}\.jsonl(\.reset\.[0-9TZ.:-]{1,40})?")
_BLOCK_BYTES = 1 << 20


class OpenTranscript(NamedTuple):
    """A transcript while it is open."""

    file: int
    stamp: Stamp

    def between(self, start: int, end: int) -> bytes:
        """Some of its bytes; fewer, if the file has become shorter."""
        return os.pread(self.file, max(0, end - start), start)

    def lines(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Each line that is complete from a point on, with where it ends; last what is after the last line end."""
        rest, at = b"", start
        while at < self.stamp[0] and (block := self.between(at, min(at + _BLOCK_BYTES, self.stamp[0]))):
            at += len(block)
            *whole, rest = (rest + block).split(b"\n")
            end = at - len(rest) - sum(len(line) + 1 for line in whole)
            for line in whole:
                end += len(line) + 1
                yield end, line
        if rest:
            yield -1, rest


class Sessions:
    """The source ``sessions``: every transcript in one agent's folder, and of no other agent."""

    name: SourceName = "sessions"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def scan(self) -> Listing:
        """List every transcript with its stamp; links and what is no file are left out."""
        stamps: dict[str, Stamp] = {}
        issues: list[Issue] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name):
                        self._note(entry, stamps, issues)
        except FileNotFoundError:
            return Listing({}, (), (), {}, (self.folder,))
        except OSError as error:
            problem = f"cannot be listed: {error.strerror}"
            return Listing({}, (Issue(self.folder, problem),), (PREFIX.rstrip("/"),), {}, ())
        places = {PREFIX.rstrip("/"): (self.folder, PREFIX.rstrip("/"))}
        return Listing(stamps, tuple(issues), (), places, (self.folder,))

    @contextmanager
    def open(self, path: str) -> Iterator[OpenTranscript]:
        """Open a transcript by its path, ``sessions/<name>``; raises a ``ReadError`` that says why not."""
        name = path.removeprefix(PREFIX)
        if not path.startswith(PREFIX) or not _NAME.fullmatch(name):
            hint = "`mdrecall sessions list` names those that there are."
            raise PathOutside(f"{path} is not a transcript of this agent.", path=path, hint=hint)
        file = open_below(self.folder, name, shown=path)
        try:
            yield OpenTranscript(file, stamp_of(os.fstat(file)))
        except OSError as error:
            raise FileUnreadable(f"Cannot read {path}: {error.strerror}.", path=path) from error
        finally:
            os.close(file)

    def _note(self, entry: "os.DirEntry[str]", stamps: dict[str, Stamp], issues: list[Issue]) -> None:
        path = PREFIX + entry.name
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if stat.S_ISREG(found.st_mode):
            stamps[path] = stamp_of(found)
        elif stat.S_ISLNK(found.st_mode):
            issues.append(Issue(path, "is a symbolic link, which is not followed"))


def transcript_of(session: str, listing: Listing) -> str:
    """The path of the transcript that a session's id, file name or path means; raises ``FileMissing``.

    Where only transcripts that a reset has put aside are left of a session, its id means the last of them.
    """
    folders = [folder for folder, _ in listing.places.values()]
    inside = os.path.basename(session) if os.path.dirname(session) in folders else session
    for path in (inside, PREFIX + inside, f"{PREFIX}{inside}.jsonl"):
        if path in listing.stamps:
            return path
    if archived := [path for path in listing.stamps if path.startswith(f"{PREFIX}{inside}.jsonl.reset.")]:
        return max(archived)
    hint = "`mdrecall sessions list` names those that there are."
    raise FileMissing(f"There is no transcript {session}.", path=session, hint=hint)
