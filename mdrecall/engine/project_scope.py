"""Entries that belong to projects: which of them a search may see, and how many it has left out."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from mdrecall.core.text.annotations import BROKEN_PROJECT, normalise_project
from mdrecall.interfaces import ChunkReader
from mdrecall.types import Match, SearchAnswer, SourceCount, SourceName, StoredChunk, StoredDocument, Term


def find_hidden(projects_of: Mapping[int, str], active: Iterable[str]) -> frozenset[int]:
    """Return the chunks that a search may not see: entries of other projects, and those whose project is unreadable.

    Where no project is known, only the unreadable ones are left out: nobody can tell whom they were meant for.
    """
    known = {normalise_project(key) for key in active if key.strip()}
    return frozenset(
        chunk
        for chunk, projects in projects_of.items()
        if projects == BROKEN_PROJECT or (known and known.isdisjoint(projects.split("; ")))
    )


class ScopedChunks:
    """The role ``ChunkReader`` without some chunks, for one search."""

    def __init__(self, chunks: ChunkReader, hidden: frozenset[int]) -> None:
        self._chunks = chunks
        self._hidden = hidden
        self._met: set[int] = set()

    def explain(self, answer: SearchAnswer) -> SearchAnswer:
        """Return the answer with how many entries that hold words of the query were left out."""
        count = len(self._met)
        if not count:
            return answer
        left_out = "1 entry was left out" if count == 1 else f"{count} entries were left out"
        told = f"{left_out}: of another project, or of one that cannot be read."
        return answer.replace(withheld=f"{answer.withheld} {told}".strip())

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
