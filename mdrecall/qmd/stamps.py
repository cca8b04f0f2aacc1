"""Whether the files of the collections are still those that qmd has read, told by their stamps alone."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from mdrecall.qmd.collection_plan import Collection

# Folders that qmd never looks into; nor does it look at anything whose name begins with a dot.
_LEFT_OUT = frozenset({"node_modules", "vendor", "dist", "build"})


def digest(collections: Sequence[Collection], more: Mapping[str, Sequence[int]]) -> str:
    """One value for the names, sizes and times of all files; ``more`` is what else counts.

    It runs before every search, so it does little: a file that the pattern leaves out may count, which at worst has
    qmd look at its files once more than it must.
    """
    seen = hashlib.blake2b(digest_size=16)
    for entry in collections:
        seen.update("\0".join((entry.name, entry.root, entry.pattern)).encode("utf-8", "surrogatepass"))
        if entry.kind != "sessions":
            lines = sorted(_stamps(entry))
            seen.update("\n".join(lines).encode("utf-8", "surrogateescape"))
        seen.update(b"\1")
    for name, stamp in sorted(more.items()):
        seen.update(f"{name}\0{tuple(stamp)}".encode("utf-8", "surrogateescape"))
    return seen.hexdigest()


def _stamps(entry: Collection) -> Iterator[str]:
    if entry.file:
        path = os.path.join(entry.root, entry.file)
        try:
            yield _stamp(path, os.lstat(path))
        except OSError:
            yield f"{path} is not there"
        return
    ending = ".md" if entry.pattern.endswith(".md") and "," not in entry.pattern else ""
    folders = [entry.root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            yield f"{folder} cannot be listed"
            continue
        for found in entries:
            name = found.name
            if name.startswith("."):
                continue
            if name.endswith(ending) and found.is_file(follow_symlinks=False):
                with suppress(OSError):
                    yield _stamp(found.path, found.stat(follow_symlinks=False))
            elif found.is_dir(follow_symlinks=False) and name not in _LEFT_OUT:
                folders.append(found.path)


def _stamp(path: str, found: os.stat_result) -> str:
    return f"{path}\0{found.st_size} {found.st_mtime_ns}"
