"""A look into qmd's own index; nothing in it is ever changed."""

from collections.abc import Collection as Names
from typing import NamedTuple

from mdrecall.qmd.listing import Listed


class QmdDocument(NamedTuple):
    """A file as qmd has it."""

    collection: str
    path: str
    """Relative to the root of its collection, with ``/``."""
    hash: str
    """The SHA-256 of its text; the first six digits are its docid."""
    title: str
    modified_at: str


class QmdDatabase:
    """Read-only questions to one ``index.sqlite``; every question opens it anew, so nothing is to be closed."""

    def __init__(self, path: str, *, busy_ms: int = 1000) -> None:
        self.path = path

    def exists(self) -> bool: ...

    def document(self, collection: str, path: str) -> QmdDocument | None: ...

    def by_docid(
        self, docid: str, managed: Names[str], *, collection: str = "", file: str = ""
    ) -> QmdDocument | None: ...

    def counts(self) -> dict[str, int]:
        """Active documents by collection."""

    def collections(self) -> tuple[Listed, ...] | None:
        """What qmd has bound; None if this version keeps no such table."""

    def unembedded(self) -> int | None:
        """Texts without a vector; None if that cannot be told."""
