"""Which chunks of an index become candidates of a search, with an index and vectors made for the test."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest

from mdrecall.engine.searcher import Searcher
from mdrecall.engine.vector_search import EmbeddedQuery, Unavailable, VectorSearcher
from mdrecall.search.score import Similarity
from mdrecall.search.stages import RankingOptions
from mdrecall.text.days import is_of_days
from mdrecall.text.words import Analyser
from mdrecall.types.documents import SourceName, Space, StoredChunk, StoredDocument, StoredSpace, Traits
from mdrecall.types.search import Match, Mode, SearchAnswer, SearchRequest, Term
from mdrecall.types.sync import SourceStatus
from tests.conftest import values_of

SHOWN = "the walrus sleeps"
HIDDEN = "its words are above"
"""A chunk that holds the term in its title only, so that its passage says nothing."""


class FakeChunks:
    """An index of chunks by number: their source, their text, and the saturation of the one term."""

    def __init__(self, chunks: Mapping[int, tuple[SourceName, str, float]], total: int = 5_000) -> None:
        self._chunks = chunks
        self._total = total
        self.loaded: list[int] = []

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def count(self, space: int | None = None) -> int:
        return self._total

    def count_by_source(self) -> tuple[SourceStatus, ...]:
        return ()

    def load(self, ids: Sequence[int]) -> list[StoredChunk]:
        self.loaded += ids
        return [
            StoredChunk(number, self._chunks[number][0], f"{number:05d}.md", 1, 1, self._chunks[number][1], ())
            for number in ids
            if number in self._chunks
        ]

    def list_documents(self, days: Sequence[tuple[int, int]] | None = None) -> list[StoredDocument]:
        found = [
            StoredDocument(number, source, f"{number:05d}.md", 0, "") for number, (source, *_) in self._chunks.items()
        ]
        return [document for document in found if days is None or is_of_days(document, days)]

    def chunks_of(self, chosen: Iterable[int] | SourceName) -> list[int]:
        if isinstance(chosen, str):
            return [number for number, (source, *_) in self._chunks.items() if source == chosen]
        return list(chosen)

    def chunks_of_projects(self) -> Mapping[int, str]:
        return {}

    def match_terms(self, terms: Sequence[Term]) -> list[Match]:
        found = {number: saturation for number, (_, _, saturation) in self._chunks.items() if saturation}
        return [Match(term, found, 4_000) for term in terms]


class FakeVectors:
    """Cosines by chunk, as a vector searcher gives them."""

    never_waits = False

    def __init__(self, cosines: Mapping[int, float], *, trust: float = 1.0, problem: str = "") -> None:
        self._cosines = cosines
        self._trust = trust
        self._problem = problem

    def embed_query(self, query: str, weights: Mapping[str, float], *, asks_beside: bool = True) -> EmbeddedQuery:
        space = StoredSpace(1, Space("fake", "model", "", 1), is_filled=True, was_filled=True)
        return EmbeddedQuery(space, b"", Traits(), self._trust, "the first is down")

    def nearest(self, embedded: EmbeddedQuery, limit: int) -> list[tuple[int, float]]:
        if self._problem:
            raise Unavailable(self._problem)
        return sorted(self._cosines.items(), key=lambda entry: -entry[1])[:limit]

    def cosines(self, embedded: EmbeddedQuery, ids: Sequence[int]) -> Mapping[int, float]:
        return {number: self._cosines[number] for number in ids if number in self._cosines}

    def similarities(
        self, embedded: EmbeddedQuery, cosines: Mapping[int, float]
    ) -> dict[int, tuple[Similarity, Sequence[float]]]:
        return {number: ((value, value), ()) for number, value in cosines.items()}


def search(
    chunks: FakeChunks,
    vectors: FakeVectors | None = None,
    sources: tuple[SourceName, ...] = ("memory",),
    **request: Any,
) -> SearchAnswer:
    options = RankingOptions(max_results=6, min_score=0.0, mode="hybrid", vector_weight=0.5)
    searcher = Searcher(chunks, Analyser(), options, cast("VectorSearcher | None", vectors), sources=sources)
    return searcher.search(SearchRequest("walrus", **{"mode": "hybrid" if vectors else "keyword"} | request))


def numbers(answer: SearchAnswer) -> list[int]:
    return [int(result.path[:5]) for result in answer]


def falling(count: int, shown: int) -> dict[int, tuple[SourceName, str, float]]:
    """Notes of ever less strength, of which one alone shows the term in its text."""
    return {number: ("memory", SHOWN if number == shown else HIDDEN, 0.5 - number / 10_000) for number in range(count)}


@pytest.mark.parametrize(("max_results", "ranked"), [(1, 16), (6, 16), (17, 17), (50, 50)])
def test_a_chunk_is_read_for_each_result_and_never_fewer_than_sixteen(max_results: int, ranked: int) -> None:
    last = search(FakeChunks(falling(300, ranked - 1)), max_results=max_results)
    assert numbers(last)[0] == ranked - 1
    beyond = search(FakeChunks(falling(300, ranked)), max_results=max_results)
    assert numbers(beyond)[0] == 0


@pytest.mark.parametrize(("multiplier", "ranked"), [(1, 4), (2, 8), (3, 12), (4, 16), (20, 80)])
@pytest.mark.parametrize("max_results", [1, 6])
def test_the_multiplier_says_how_many_candidates_are_ranked(max_results: int, multiplier: int, ranked: int) -> None:
    chunks = FakeChunks({number: ("memory", SHOWN, 0.5 - number / 10_000) for number in range(300)})
    options = RankingOptions(max_results=max_results, min_score=0.0, mode="keyword", candidate_multiplier=multiplier)
    Searcher(chunks, Analyser(), options).search(SearchRequest("walrus"))
    assert len(set(chunks.loaded)) == ranked


BOTH: tuple[SourceName, ...] = ("memory", "sessions")


def test_notes_keep_half_of_the_places_whatever_was_said() -> None:
    notes = {number: ("memory", SHOWN, 0.3 - number / 10_000) for number in range(1_000, 1_050)}
    notes |= dict.fromkeys(range(2_000, 5_000), ("memory", HIDDEN, 0.0))
    talk = {number: ("sessions", SHOWN, 0.9 - number / 10_000) for number in range(900)}
    both = search(FakeChunks(cast("Any", notes | talk)), sources=BOTH)
    assert numbers(both) == [0, 1, 2, 1_000, 1_001, 1_002]


def test_a_source_is_looked_for_among_many_more_chunks() -> None:
    mixed = {number: ("sessions", SHOWN, 0.9 - number / 10_000) for number in range(900)}
    mixed[900] = ("memory", SHOWN, 0.1)
    assert numbers(search(FakeChunks(cast("Any", mixed)), source="memory")) == [900]


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_a_source_is_looked_for_among_many_more_vectors(mode: Mode) -> None:
    mixed = dict.fromkeys(range(900), ("sessions", HIDDEN, 0.0))
    mixed[900] = ("memory", HIDDEN, 0.0)
    vectors = FakeVectors({number: 0.9 - number / 10_000 for number in range(901)})
    answer = search(FakeChunks(cast("Any", mixed)), vectors, mode=mode, source="memory")
    assert (numbers(answer), answer.mode) == ([900], mode)


def test_notes_that_only_vectors_find_get_their_places_too() -> None:
    mixed = dict.fromkeys(range(300), ("sessions", SHOWN, 0.5))
    mixed |= dict.fromkeys(range(300, 303), ("memory", HIDDEN, 0.0))
    vectors = FakeVectors({number: 0.9 - number / 10_000 for number in range(303)})
    for mode in ("vector", "hybrid"):
        found = numbers(search(FakeChunks(cast("Any", mixed)), vectors, mode=mode, sources=BOTH))
        assert {300, 301, 302} <= set(found)


def test_a_hybrid_search_mixes_both_scores_by_the_weight_and_the_trust() -> None:
    chunks = FakeChunks({1: ("memory", SHOWN, 0.5), 2: ("memory", HIDDEN, 0.0)})
    answer = search(chunks, FakeVectors({1: 0.2, 2: 0.9}, trust=0.5), explain=True)
    assert numbers(answer) == [1, 2]
    assert [values_of(result)["vectorWeight"] for result in answer] == [0.25, 0.25]
    assert (answer.provider, answer.model, answer.fallback) == ("fake", "model", "the first is down")


def test_a_search_by_vectors_leaves_out_what_only_keywords_find() -> None:
    chunks = FakeChunks({1: ("memory", SHOWN, 0.5), 2: ("memory", HIDDEN, 0.0)})
    answer = search(chunks, FakeVectors({2: 0.9}), mode="vector", explain=True)
    assert numbers(answer) == [2]
    assert values_of(answer[0])["vectorWeight"] == 1.0


def test_if_vectors_cannot_be_read_keywords_answer_alone() -> None:
    chunks = FakeChunks({1: ("memory", SHOWN, 0.5), 2: ("memory", HIDDEN, 0.0)})
    answer = search(chunks, FakeVectors({2: 0.9}, problem="the vectors are damaged"))
    assert (numbers(answer), answer.mode, answer.degraded) == ([1], "keyword", "the vectors are damaged")
    assert (answer.provider, answer.fallback) == ("", "")


def test_a_chunk_that_has_gone_meanwhile_is_left_out() -> None:
    chunks = FakeChunks({1: ("memory", SHOWN, 0.5)})
    assert numbers(search(chunks, FakeVectors({1: 0.5, 7: 0.9}))) == [1]
