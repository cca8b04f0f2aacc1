"""Maps files that qmd names to paths on disk, and to the paths that answers show."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mdrecall.errors import FileMissing, NotMarkdown, PathOutside, ReadError, TranscriptRefused
from mdrecall.patterns import is_note_file, matches_glob
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.hits import RawHit
from mdrecall.sources.opening import decode, read_below

#: The beginning of the path of a file outside the workspace; the name of its collection follows.
PREFIX = "qmd/"
_BRACES = re.compile(r"\{([^{}]*)\}")


class CollectionFile(NamedTuple):
    """A file of a collection."""

    collection: Collection
    inside: str
    """Its path below the root, with ``/``."""
    shown: str
    """Relative to the workspace if it is inside, else ``qmd/<collection>/<path below the root>``."""


class CollectionPaths:
    """The files of the managed collections. Nothing else is ever opened, and no symbolic link is followed."""

    def __init__(
        self,
        collections: Sequence[Collection],
        *,
        workspace: str,
        max_bytes: int,
        mask: Callable[[str, str], str] = lambda text, path: text,
    ) -> None:
        """``mask`` is given a text and its path, and returns the text without what was forgotten."""
        self._mask = mask
        self._by_name = {entry.name: entry for entry in collections}
        self._workspace = workspace
        self._max_bytes = max_bytes

    def resolve_hit(self, hit: RawHit) -> CollectionFile | None:
        """Return the file that a hit refers to; None if it is in no managed collection or does not exist any more."""
        collection = self._by_name.get(hit.collection)
        inside = os.path.normpath(hit.path).replace(os.sep, "/")
        if collection is None or inside.startswith(("../", "/")):
            return None
        if not os.path.isfile(os.path.join(collection.root, inside)):
            return None
        return self._locate(collection, inside)

    def is_managed(self, hit: RawHit) -> bool:
        """True if a hit names one of the managed collections."""
        return hit.collection in self._by_name

    def resolve_path(self, path: str) -> CollectionFile | None:
        """Return the file that a path of an answer refers to: ``qmd/<collection>/…`` or a path in a collection.

        None if no collection covers it. Raise ``PathOutside`` if it names an unknown collection.
        """
        if path.startswith(PREFIX) and not os.path.lexists(os.path.join(self._workspace, path)):
            return self._resolve_prefixed(path)
        target = os.path.normpath(os.path.join(self._workspace, path))
        for collection in self._by_name.values():
            inside = os.path.relpath(target, collection.root).replace(os.sep, "/")
            if collection.kind != "sessions" and covers(collection, inside):
                return self._locate(collection, inside)
        return None

    def display_path(self, name: str, path: str) -> str:
        """Return the path that answers show for a path in a collection, which may be unknown."""
        collection = self._by_name.get(name)
        return self._locate(collection, path).shown if collection else f"{PREFIX}{name}/{path}"

    def read_text(self, file: CollectionFile) -> str:
        """Return the current text of a file; raise a ``ReadError``."""
        return self.read(file)[0]

    def read(self, file: CollectionFile) -> tuple[str, int]:
        """Return the current text of a file and when it was changed, in ns since 1970; raise a ``ReadError``."""
        opened = read_below(file.collection.root, file.inside, shown=file.shown, max_bytes=self._max_bytes)
        return self._mask(decode(opened.data), file.shown), opened.stamp[1]

    def _resolve_prefixed(self, path: str) -> CollectionFile:
        name, _, inside = path.removeprefix(PREFIX).partition("/")
        collection = self._by_name.get(name)
        if collection is None:
            hint = f"The collections are {', '.join(self._by_name)}." if self._by_name else ""
            raise PathOutside(f"There is no collection {name or '(none)'}.", path=path, hint=hint)
        inside = os.path.normpath(inside).replace(os.sep, "/")
        if not is_note_file(inside):
            raise NotMarkdown(f"{path} is not a Markdown file (.md).", path=path, hint="Only .md files are read.")
        if collection.kind == "sessions":
            hint = "Read it as a session instead."
            raise TranscriptRefused(
                f"{path} is an exported transcript, not an allowed Markdown memory file.", path=path, hint=hint
            )
        if not covers(collection, inside):
            raise PathOutside(f"{path} is not in the collection {name}.", path=path)
        return self._locate(collection, inside)

    def _locate(self, collection: Collection, inside: str) -> CollectionFile:
        relative = os.path.relpath(os.path.join(collection.root, inside), self._workspace).replace(os.sep, "/")
        is_within = not relative.startswith("../") and relative != ".."
        return CollectionFile(collection, inside, relative if is_within else f"{PREFIX}{collection.name}/{inside}")


def covers(collection: Collection, inside: str) -> bool:
    """True if a path below the root of a collection matches its pattern."""
    if inside.startswith("../") or inside in ("..", ".") or os.path.isabs(inside):
        return False
    return any(matches_glob(inside, pattern) for pattern in _expand_pattern(collection.pattern))


def explain_read_error(error: ReadError) -> str:
    """Return why a file that qmd found is not in the answer."""
    if isinstance(error, FileMissing):
        return "is still in qmd's index, but not on disk"
    return f"cannot be shown: {error}"


def _expand_pattern(pattern: str) -> Iterator[str]:
    """Yield the plain patterns of one with commas and braces."""
    if braces := _BRACES.search(pattern):
        for choice in braces[1].split(","):
            yield from _expand_pattern(pattern[: braces.start()] + choice + pattern[braces.end() :])
        return
    yield from (part.strip() for part in pattern.split(",") if part.strip())
