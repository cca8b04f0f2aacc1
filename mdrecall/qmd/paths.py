"""Where on disk a file is that qmd names, and how answers call it."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mdrecall.errors import FileMissing, NotMarkdown, PathOutside, ReadError
from mdrecall.qmd.collection_plan import Collection
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.hits import RawHit
from mdrecall.sources.files import matches
from mdrecall.sources.opening import decode, read_below

#: What the paths of files outside the workspace begin with, before the name of their collection.
PREFIX = "qmd/"
_BRACES = re.compile(r"\{([^{}]*)\}")
_SIGNS = re.compile(r"[^a-z0-9/.]+")


class CollectionFile(NamedTuple):
    """A file of a collection."""

    collection: Collection
    inside: str
    """Its path below the root, with ``/``."""
    shown: str
    """Relative to the workspace if it is in there, else ``qmd/<collection>/<inside>``."""


class CollectionPaths:
    """The files of the managed collections; nothing else is ever opened, and no link is followed."""

    def __init__(
        self, collections: Sequence[Collection], database: QmdDatabase, *, workspace: str, max_bytes: int
    ) -> None:
        self._by_name = {entry.name: entry for entry in collections}
        self._database = database
        self._workspace = workspace
        self._max_bytes = max_bytes

    def of_hit(self, hit: RawHit) -> CollectionFile | None:
        """The file that a hit means; None if it is in no managed collection or not there any more."""
        collection = self._by_name.get(hit.collection)
        if collection is None or not hit.path:
            if not hit.docid:
                return None
            known = self._database.by_docid(hit.docid, self._by_name, collection=hit.collection, file=hit.path)
            if known is None:
                return None
            collection, path = self._by_name[known.collection], known.path
        else:
            path = hit.path
        inside = self._as_on_disk(collection, path)
        return None if inside is None else self._place(collection, inside)

    def is_managed(self, hit: RawHit) -> bool:
        """Whether a hit is said to be in one of the collections."""
        return hit.collection in self._by_name

    def of_path(self, path: str) -> CollectionFile | None:
        """The file that a path of an answer means: ``qmd/<collection>/…``, or one that a collection covers.

        None if no collection covers it; raises ``PathOutside`` if it names a collection that there is not.
        """
        if path.startswith(PREFIX) and not os.path.lexists(os.path.join(self._workspace, path)):
            return self._named(path)
        target = os.path.normpath(os.path.join(self._workspace, path))
        for collection in self._by_name.values():
            inside = os.path.relpath(target, collection.root).replace(os.sep, "/")
            if collection.kind != "sessions" and covers(collection, inside):
                return self._place(collection, inside)
        return None

    def text(self, place: CollectionFile) -> str:
        """What a file says now; raises a ``ReadError``."""
        opened = read_below(place.collection.root, place.inside, shown=place.shown, max_bytes=self._max_bytes)
        return decode(opened.data)

    def _named(self, path: str) -> CollectionFile:
        name, _, inside = path.removeprefix(PREFIX).partition("/")
        collection = self._by_name.get(name)
        if collection is None:
            hint = f"There are {', '.join(self._by_name)}." if self._by_name else ""
            raise PathOutside(f"There is no collection {name or '(none)'}.", path=path, hint=hint)
        inside = os.path.normpath(inside).replace(os.sep, "/")
        if not inside.endswith(".md"):
            raise NotMarkdown(f"{path} is not a Markdown file (.md).", path=path, hint="Only .md files are read.")
        if not covers(collection, inside):
            raise PathOutside(f"{path} is not one of the files of collection {name}.", path=path)
        return self._place(collection, inside)

    def _place(self, collection: Collection, inside: str) -> CollectionFile:
        relative = os.path.relpath(os.path.join(collection.root, inside), self._workspace).replace(os.sep, "/")
        is_within = not relative.startswith("../") and relative != ".."
        return CollectionFile(collection, inside, relative if is_within else f"{PREFIX}{collection.name}/{inside}")

    def _as_on_disk(self, collection: Collection, path: str) -> str | None:
        """The path as it is written on disk: as qmd says it, decoded, or the one that qmd has simplified to it."""
        for inside in dict.fromkeys((path, _decoded(path))):
            normal = os.path.normpath(inside).replace(os.sep, "/")
            if normal.startswith("../") or os.path.isabs(normal):
                return None
            if os.path.isfile(os.path.join(collection.root, normal)):
                return normal
        wanted = _simplified(path)
        return next((inside for inside in _files(collection.root) if _simplified(inside) == wanted), None)


def covers(collection: Collection, inside: str) -> bool:
    """Whether a path below the root of a collection is one of its files."""
    if inside.startswith("../") or inside in ("..", ".") or os.path.isabs(inside):
        return False
    return any(matches(inside, pattern) for pattern in _alternatives(collection.pattern))


def explain_read_error(error: ReadError) -> str:
    """What to say of a file that was found and cannot be shown."""
    if isinstance(error, FileMissing):
        return "is in qmd's index, but not on disk any more"
    return f"cannot be shown: {error}"


def _alternatives(pattern: str) -> Iterator[str]:
    """The patterns that one with commas and braces stands for."""
    if braces := _BRACES.search(pattern):
        for choice in braces[1].split(","):
            yield from _alternatives(pattern[: braces.start()] + choice + pattern[braces.end() :])
        return
    yield from (part.strip() for part in pattern.split(",") if part.strip())


def _simplified(path: str) -> str:
    """A path as versions before 2.6 have it in their index: lower case, and one dash for all other signs."""
    return "/".join(_SIGNS.sub("-", part).strip("-").replace("-.", ".") for part in path.lower().split("/"))


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path)


def _files(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
