"""Entries that belong to projects: which of them a search may see, and how many it has left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mdrecall.core.text.annotations import BROKEN_PROJECT, normalise_project
from mdrecall.types import Match, SearchAnswer, SourceCount, SourceName, StoredChunk, StoredDocument, Term

if TYPE_CHECKING:
    from mdrecall.interfaces import ChunkReader


def find_hidden(projects_of: Mapping[int, str], active: Iterable[str]) -> frozenset[int]:
    """Return the chunks that a search may not see: entries of other projects, and those whose project is unreadable.

    Where no project is known, only the unreadable ones are left out: nobody can tell whom they were meant for.
    """
    known = read_projects(active)
    return frozenset(chunk for chunk, projects in projects_of.items() if not is_for(projects, known))


def read_projects(active: Iterable[str]) -> frozenset[str]:
    """Return the keys of the projects at hand, as annotations have them."""
    return frozenset(normalise_project(key) for key in active if key.strip())


def is_for(projects: str, known: frozenset[str]) -> bool:
    """True if an entry of some projects may be seen where these are known."""
    if not projects:
        return True
    return projects != BROKEN_PROJECT and (not known or not known.isdisjoint(projects.split("; ")))


def describe_left_out(count: int) -> str:
    """Return a sentence about entries that may not be seen; empty if there are none."""
    if not count:
        return ""
    left_out = "1 entry was left out" if count == 1 else f"{count} entries were left out"
    return f"{left_out}: of another project, or of one that cannot be read."


class ScopedChunks:
    """The role ``ChunkReader`` without some chunks, for one search."""

    def __init__(self, chunks: ChunkReader, hidden: frozenset[int]) -> None:
        self._chunks = chunks
        self._hidden = hidden
        self._met: set[int] = set()

    def explain(self, answer: SearchAnswer) -> SearchAnswer:
        """Return the answer with how many entries that hold words of the query were left out."""
        return answer.replace(withheld=f"{answer.withheld} {describe_left_out(len(self._met))}".strip())

    def snapshot(self) -> AbstractContextManager[None]:
        return self._chunks.snapshot()

    def count(self) -> int:
        return self._chunks.count()

    def count_by_source(self) -> tuple[SourceCount, ...]:
        return self._chunks.count_by_source()

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        return self._chunks.load([chunk for chunk in ids if chunk not in self._hidden])

    def list_documents(self) -> list[StoredDocument]:
        return self._chunks.list_documents()

    def documents_of_days(self, ranges: Sequence[tuple[int, int]]) -> list[StoredDocument]:
        return self._chunks.documents_of_days(ranges)

    def chunks_of(self, documents: Iterable[int]) -> list[int]:
        return [chunk for chunk in self._chunks.chunks_of(documents) if chunk not in self._hidden]

    def chunks_of_projects(self) -> Mapping[int, str]:
        return self._chunks.chunks_of_projects()

    def sources_of(self, ids: Sequence[int]) -> Mapping[int, SourceName]:
        return self._chunks.sources_of(ids)

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        visible = []
        for match in self._chunks.match_terms(terms):
            self._met |= match.chunks.keys() & self._hidden
            kept = {chunk: value for chunk, value in match.chunks.items() if chunk not in self._hidden}
            visible.append(match._replace(chunks=kept))
        return visible
