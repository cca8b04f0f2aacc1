"""An embedder beside the first one: its similarities count as much, once it has vectors of every chunk."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mdrecall.engine.chunk_embedder import ChunkEmbedder
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.errors import EmbedderUnavailable
from mdrecall.search.score import similarities
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.vectors import to_int8
from mdrecall.text.markdown import split_passages
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from tests.engine.embedders import HashEmbedder
from tests.store.stores import indexed

NOTES = {"a.md": "the walrus sleeps", "b.md": "a plain pool", "c.md": "the seal dozes", "d.md": "nothing of the kind"}
FIRST = Traits(never_waits=True, unrelated=0.1, related=0.8)
BESIDE = Traits(unrelated=0.3, related=0.5)
SYNONYMS = {"walrus": "seal", "sleeps": "dozes"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=("main", "/workspace"))
    store.documents.put([indexed(path, text) for path, text in NOTES.items()], "r")
    ChunkEmbedder(store, first_embedder(), keep="beside").fill()
    yield store
    store.admin.close()


def first_embedder() -> HashEmbedder:
    return HashEmbedder("words", provider="first", traits=FIRST)


def beside_embedder() -> HashEmbedder:
    return HashEmbedder("synonyms", provider="beside", traits=BESIDE, synonyms=SYNONYMS)


def fill_beside(store: SqliteStore) -> None:
    assert ChunkEmbedder(store, beside_embedder(), keep="first").fill().is_complete


def search_vectors(store: SqliteStore, beside: HashEmbedder | None = None) -> VectorSearcher:
    return VectorSearcher(store.vectors, [first_embedder()], older={}, timeout_s=60, beside=beside)


def test_the_similarity_is_the_mean_of_both(store: SqliteStore) -> None:
    fill_beside(store)
    vectors = search_vectors(store, beside_embedder())
    query = vectors.embed_query("walrus sleeps", {})
    assert query.beside
    ids = [1, 2, 3, 4]
    own = store.vectors.cosines(query.space, query.vector, ids)
    beside = store.vectors.cosines(query.beside.space, query.beside.vector, ids)
    mixed = vectors.cosines(query, ids)
    for chunk_id in ids:
        share = (own[chunk_id] - 0.1) / 0.7 / 2 + (beside[chunk_id] - 0.3) / 0.2 / 2
        assert (mixed[chunk_id] - 0.1) / 0.7 == pytest.approx(share)
    found = vectors.similarities(query, mixed)
    alike = similarities(mixed, {}, FIRST)
    assert {chunk_id: found[chunk_id][0] for chunk_id in ids} == {chunk_id: alike[chunk_id][0] for chunk_id in ids}


class LineEmbedder(HashEmbedder):
    """Embeds each passage by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._has_whole = options["provider"] == "first"

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        texts = [[text[one.start : one.end] for one in split_passages(text)] for _, text in passages]
        parts = [b"".join(to_int8([self.vector(part) for part in each])) for each in texts]
        wholes = [self.vector(text) if self._has_whole else b"" for _, text in passages]
        return [Embedding(whole, own) for whole, own in zip(wholes, parts, strict=True)]


def test_each_passage_counts_by_its_own_vector_of_both(tmp_path: Path) -> None:
    text = "# Pool\n" + "a plain pool\n" * 20 + "# Seals\n" + "the seal dozes\n" * 20
    first = LineEmbedder(model="words", provider="first", traits=FIRST)
    beside = LineEmbedder(model="synonyms", provider="beside", traits=BESIDE, synonyms=SYNONYMS)
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=("main", "/workspace"))
    with closing(store.admin):
        store.documents.put([indexed("a.md", text)], "r")
        ChunkEmbedder(store, first, keep="beside").fill()
        ChunkEmbedder(store, beside, keep="first").fill()
        vectors = VectorSearcher(store.vectors, [first], older={}, timeout_s=60, beside=beside)
        query = vectors.embed_query("walrus sleeps", {})
        ((_, cosines),) = vectors.similarities(query, vectors.cosines(query, [1])).values()
    held = ["seal" in text[one.start : one.end] for one in split_passages(text)]
    assert len(cosines) == len(held) > 2
    assert min(cosine for cosine, is_held in zip(cosines, held, strict=True) if is_held) > max(
        cosine for cosine, is_held in zip(cosines, held, strict=True) if not is_held
    )


def test_the_candidates_are_those_of_both(store: SqliteStore) -> None:
    fill_beside(store)
    alone, both = search_vectors(store), search_vectors(store, beside_embedder())
    assert [chunk_id for chunk_id, _ in alone.nearest(alone.embed_query("walrus sleeps", {}), 1)] == [1]
    found = both.nearest(both.embed_query("seal", {}), 1)
    assert {chunk_id for chunk_id, _ in found} >= {1, 3}
    assert found == sorted(found, key=lambda entry: -entry[1])


def test_an_embedder_beside_that_lacks_vectors_is_not_asked(store: SqliteStore) -> None:
    beside = beside_embedder()
    assert search_vectors(store, beside).embed_query("walrus", {}).beside is None
    assert beside.queries == []


def test_a_new_chunk_that_it_has_no_vector_of_yet_counts_by_the_first_alone(store: SqliteStore) -> None:
    fill_beside(store)
    store.documents.put([indexed("e.md", "a seal again")], "r")
    ChunkEmbedder(store, first_embedder(), keep="beside").fill()
    vectors = search_vectors(store, beside_embedder())
    query = vectors.embed_query("seal", {})
    assert query.beside
    assert vectors.cosines(query, [5]) == store.vectors.cosines(query.space, query.vector, [5]) != {}


def test_one_that_fails_leaves_the_first(store: SqliteStore) -> None:
    class Failing(HashEmbedder):
        def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
            raise EmbedderUnavailable("numpy is broken.")

    fill_beside(store)
    vectors = search_vectors(store, Failing("synonyms", provider="beside", traits=BESIDE))
    query = vectors.embed_query("walrus", {})
    assert (query.beside, query.fallback_reason) == (None, "")
    assert vectors.nearest(query, 2) == search_vectors(store).nearest(query, 2)


def test_its_share_is_that_of_the_query_that_it_reads(store: SqliteStore) -> None:
    latin = BESIDE._replace(scripts=("latin",))
    beside = HashEmbedder("synonyms", provider="beside", traits=latin, synonyms=SYNONYMS)
    fill_beside(store)
    vectors = search_vectors(store, beside)
    assert vectors.embed_query("海象", {}).beside is None
    query = vectors.embed_query("海象 ab", {})
    assert query.beside
    assert query.beside.trust == 0.5
    # A cosine that is "related" (1) for the first and "unrelated" (0) beside: two thirds of the way.
    assert (query.mix(0.8, 0.3) - 0.1) / 0.7 == pytest.approx(2 / 3)
    assert query.mix(0.8, 0.0) == query.mix(0.8, None) == 0.8, "a passage that it cannot read has no vector"
