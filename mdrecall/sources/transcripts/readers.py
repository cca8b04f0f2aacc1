"""The table of transcript formats, and all readers as one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from mdrecall.config.settings import Settings
from mdrecall.errors import PathOutside
from mdrecall.interfaces import OpenTranscript, TranscriptReader
from mdrecall.sources.transcripts.openclaw_jsonl import OpenClawJsonl
from mdrecall.types import Conversation, Listing, SourceName, Stamp, TranscriptRecord

MakeReader: TypeAlias = Callable[[Settings], TranscriptReader]

#: One line for each format. If two readers own a path, the first one reads it. OpenClaw's JSONL takes any file that it
#: is asked to read, so it is the last.
READERS: tuple[MakeReader, ...] = (OpenClawJsonl.from_settings,)


def open_transcripts(settings: Settings) -> "Transcripts":
    """Return the transcripts of every format."""
    return Transcripts([make(settings) for make in READERS])


class Transcripts:
    """The source ``sessions``: the transcripts of several readers as one reader."""

    name: SourceName = "sessions"

    def __init__(self, readers: Sequence[TranscriptReader]) -> None:
        self._readers = tuple(readers)

    def scan(self) -> Listing:
        """List the transcripts of every reader."""
        listings = [reader.scan() for reader in self._readers]
        return Listing(
            {path: stamp for listing in reversed(listings) for path, stamp in listing.stamps.items()},
            tuple(issue for listing in listings for issue in listing.issues),
            tuple(dict.fromkeys(lost for listing in listings for lost in listing.lost)),
            {folder: place for listing in reversed(listings) for folder, place in listing.places.items()},
            tuple(dict.fromkeys(folder for listing in listings for folder in listing.folders)),
        )

    def owns(self, path: str) -> bool:
        """True if a path is that of a transcript."""
        return any(reader.owns(path) for reader in self._readers)

    def find(self, session: str, listing: Listing) -> str | None:
        """Return the path of the first reader that knows a session; None if none does."""
        return next((path for reader in self._readers if (path := reader.find(session, listing))), None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        """Return what ``sessions list`` shows about a transcript."""
        return self._owner(path).describe(path, stamp)

    def export_name(self, path: str) -> str:
        """Return the file name, without an ending, that stands for a transcript."""
        return self._owner(path).export_name(path)

    def path_of_export(self, name: str) -> str | None:
        """Return the path of the transcript with this export name; None if it is nobody's."""
        return next((path for reader in self._readers if (path := reader.path_of_export(name))), None)

    def size_of(self, session: str, file: str = "") -> int:
        """Return the size of a session's transcript by the first reader that has it, else 0."""
        return next((size for reader in self._readers if (size := reader.size_of(session, file))), 0)

    def open(self, path: str) -> AbstractContextManager[OpenTranscript]:
        """Open a transcript by its path."""
        return self._owner(path).open(path)

    def read_file(self, file: str) -> Iterator[TranscriptRecord] | None:
        """Return the records of a file by the first reader that knows its format; None if none does."""
        return next((records for reader in self._readers if (records := reader.read_file(file)) is not None), None)

    def _owner(self, path: str) -> TranscriptReader:
        for reader in self._readers:
            if reader.owns(path):
                return reader
        raise PathOutside(f"{path} is not a transcript of this agent.", path=path)
