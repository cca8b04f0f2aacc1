"""The Filler, with the real store and indexer, and small embedders that really embed."""

import math
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from mdrecall.engine.chunk_embedder import ChunkEmbedder, EmbedReport, FallbackEmbedder
from mdrecall.engine.searcher import Searcher
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.errors import EmbedderUnavailable
from mdrecall.interfaces import Embedder
from mdrecall.memory import Memory
from mdrecall.search.stages import RankingOptions
from mdrecall.store.sqlite import SqliteStore
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Embedding, EmbedInput, Traits
from mdrecall.types.search import SearchAnswer, SearchRequest
from mdrecall.types.sync import Progress
from tests.conftest import Workspace, values_of
from tests.engine.embedders import SLOW, HashEmbedder

OWNER = ("main", "/w")
SYNONYMS = {"walrus": "tusker"}


class Bench(NamedTuple):
    """A workspace, indexed by its words, and its index."""

    workspace: Workspace
    memory: Memory
    store: SqliteStore

    def write(self, **notes: str) -> None:
        for name, text in notes.items():
            self.workspace.write(f"memory/{name}.md", text)
        self.memory.sync()

    def fill(self, embedder: Embedder, most_cached: int | None = None) -> EmbedReport:
        return ChunkEmbedder(self.store, embedder, most_cached=most_cached).fill()

    def search(
        self, query: str, embedder: Embedder, older: dict[str, Callable[[], Embedder]] | None = None
    ) -> SearchAnswer:
        leg = VectorSearcher(self.store.vectors, [embedder], older=older or {}, timeout_s=60)
        options = RankingOptions(max_results=10, min_score=0.0, mode="hybrid", vector_weight=0.35)
        return Searcher(self.store.chunks, Analyser(), options, leg).search(SearchRequest(query, explain=True))

    def list_models(self) -> list[str]:
        """The models that have vectors, the newest first."""
        return [space.space.model for space in self.store.vectors.spaces()]


@pytest.fixture
def bench(workspace: Workspace) -> Bench:
    """Words are indexed by a memory without vectors; the test fills them in."""
    workspace.configure('{memorySearch: {provider: "none"}}')
    memory = workspace.memory()
    settings = memory.settings
    owner = (settings.agent_id, str(Path(settings.workspace).resolve()))
    return Bench(workspace, memory, SqliteStore(settings.index_path, is_ours=True, owner=owner))


def paths(answer: SearchAnswer) -> list[str]:
    return [result.path for result in answer]


def test_a_note_that_moves_or_comes_back_is_not_embedded_again(bench: Bench) -> None:
    bench.write(a="# Ice\n\nthe walrus sleeps", b="pool")
    embedder = HashEmbedder()
    bench.fill(embedder)
    (bench.workspace.path / "memory" / "archive").mkdir()
    (bench.workspace.path / "memory/a.md").rename(bench.workspace.path / "memory/archive/a.md")
    bench.memory.sync()
    assert bench.fill(embedder) == EmbedReport(from_cache=1)
    bench.write(b="other")
    bench.fill(embedder)
    bench.write(b="pool")
    assert bench.fill(embedder) == EmbedReport(from_cache=1)
    assert len(embedder.asked) == 3
    assert bench.store.chunks.count(bench.store.vectors.spaces()[0].id) == 2


def test_another_title_is_another_text_to_embed(bench: Bench) -> None:
    bench.write(a="the walrus sleeps")
    embedder = HashEmbedder()
    bench.fill(embedder)
    bench.write(b="the walrus sleeps")
    assert bench.fill(embedder) == EmbedReport(embedded=1)
    assert [passage.title for request in embedder.requests for passage in request] == ["a", "b"]


def test_without_a_cache_nothing_is_kept(bench: Bench) -> None:
    embedder, caching = HashEmbedder(), 0
    for text in ("one", "two", "one"):
        bench.write(a=text)
        assert bench.fill(embedder, caching) == EmbedReport(embedded=1)
    assert bench.store.admin.content_sizes().cached == 0


def many(count: int) -> dict[str, str]:
    return {f"note{number:03d}": f"note number {number} says something of its own" for number in range(count)}


class _Stop:
    """Lets some requests through, then raises."""

    def __init__(self, after: int, error: BaseException) -> None:
        self.left = after
        self.error = error

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.error


@pytest.mark.parametrize("error", [EmbedderUnavailable("the server is gone"), KeyboardInterrupt()])
def test_what_was_embedded_before_an_interruption_is_not_asked_for_again(bench: Bench, error: BaseException) -> None:
    notes = many(150)
    bench.write(**notes)
    embedder = HashEmbedder(traits=SLOW._replace(request_bytes=500))
    embedder.before_answer = _Stop(9, error)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            bench.fill(embedder)
    else:
        filled = bench.fill(embedder)
        assert (filled.is_complete, filled.error) == (False, "the server is gone")
    answered = [passage.text for request in embedder.requests[:-1] for passage in request]
    assert 64 < len(answered) < 150
    assert paths(bench.search("note number 149", embedder))[0] == "memory/note149.md"
    embedder.requests.clear()
    embedder.before_answer = lambda: None
    assert bench.fill(embedder).is_complete
    assert sorted(answered + embedder.asked) == sorted(notes.values())


def test_a_filling_that_is_told_to_stop_goes_on_later(bench: Bench) -> None:
    bench.write(**many(100))
    embedder = HashEmbedder()
    filler = ChunkEmbedder(bench.store, embedder)
    filled = filler.fill(stop=lambda: len(embedder.asked) >= 64)
    assert (filled.is_complete, filled.error, filled.embedded) == (False, "", 64)
    assert filler.fill() == EmbedReport(embedded=36)
    assert len(embedder.asked) == len(set(embedder.asked)) == 100


@pytest.mark.parametrize("enabled", [True, False])
def test_requests_hold_several_files_and_stay_below_the_limit(bench: Bench, enabled: bool) -> None:
    notes = many(60)
    bench.write(**notes)
    embedder = HashEmbedder(traits=SLOW._replace(request_bytes=600))
    bench.fill(embedder, None if enabled else 0)
    sizes = [sum(len(part.encode()) for passage in request for part in passage) for request in embedder.requests]
    assert max(sizes) <= 600
    assert min(len(request) for request in embedder.requests[:-1]) > 5
    assert sorted(embedder.asked) == sorted(notes.values())


@pytest.mark.parametrize("enabled", [True, False])
def test_a_text_that_is_refused_does_not_hold_up_the_others(bench: Bench, enabled: bool) -> None:
    bench.write(**many(20), culprit="unspeakable")
    embedder = HashEmbedder(refused="unspeakable")
    assert bench.fill(embedder, None if enabled else 0) == EmbedReport(embedded=20, refused=1)
    assert bench.fill(embedder, None if enabled else 0) == EmbedReport()
    assert sorted(embedder.asked) == sorted(many(20).values())
    answer = bench.search("unspeakable", embedder)
    assert (answer.mode, answer.degraded, paths(answer)[0]) == ("hybrid", "", "memory/culprit.md")
    assert values_of(answer[0])["likeness"] == 0
    assert answer[0].score > 0.4


def test_of_a_long_text_only_the_refused_part_is_left_out(bench: Bench) -> None:
    bench.write(a="walrus and seal and penguin and whale lie here, unspeakable", b="plain")
    embedder = HashEmbedder(refused="unspeakable")
    assert bench.fill(embedder) == EmbedReport(embedded=2)
    assert "".join(sorted(embedder.asked, key=len)[-1:]) == "walrus and seal and penguin a"
    assert bench.search("unspeakable", embedder)[0].path == "memory/a.md"


@pytest.mark.parametrize(("input_bytes", "count"), [(250, 2), (120, 4)])
def test_a_text_above_the_limit_becomes_the_mean_of_its_parts(bench: Bench, input_bytes: int, count: int) -> None:
    text = " ".join(f"word{number}" for number in range(60))
    bench.write(a=text, b="short one")
    embedder = HashEmbedder(traits=SLOW._replace(input_bytes=input_bytes))
    assert bench.fill(embedder) == EmbedReport(embedded=2)
    parts = [part for part in embedder.asked if part != "short one"]
    assert "".join(parts) == text
    assert len(parts) == count
    assert all(len(part) + len("a") <= input_bytes for part in parts)
    space = bench.store.vectors.spaces()[0]
    mean = [0.0] * 16
    for part in parts:
        mean = [value + len(part) * more for value, more in zip(mean, array("f", embedder.vector(part)), strict=True)]
    length = math.hypot(*mean)
    expected = array("f", (value / length for value in mean)).tobytes()
    (chunk_id,) = [chunk.id for chunk in bench.store.chunks.load([1, 2]) if chunk.path == "memory/a.md"]
    # Halves of halves are means already, so that with more than two parts the weights are not exactly their lengths.
    assert bench.store.vectors.cosines(space, expected, [chunk_id])[chunk_id] == pytest.approx(
        1, abs=1e-5 if count == 2 else 0.01
    )
    axes = [array("f", (float(place == axis) for place in range(16))).tobytes() for axis in range(16)]
    parts_of_length = [bench.store.vectors.cosines(space, axis, [chunk_id])[chunk_id] for axis in axes]
    assert math.hypot(*parts_of_length) == pytest.approx(1, abs=1e-4)


def test_a_vector_of_another_length_is_not_stored(bench: Bench) -> None:
    bench.write(a="the walrus sleeps")

    class Liar(HashEmbedder):
        def vector(self, text: str) -> bytes:
            return super().vector(text)[:-4]

    filled = bench.fill(Liar())
    assert (filled.is_complete, filled.embedded) == (False, 0)
    assert "15" in filled.error
    assert "16" in filled.error
    assert paths(bench.search("walrus", HashEmbedder())) == ["memory/a.md"]


def test_fewer_vectors_than_texts_are_not_stored(bench: Bench) -> None:
    bench.write(a="the walrus sleeps", b="a plain pool")

    class Forgetful(HashEmbedder):
        def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
            return super().embed_chunks(passages)[1:]

    filled = bench.fill(Forgetful())
    assert (filled.is_complete, filled.error) == (False, "test returned 1 vectors for 2 texts.")
    (space,) = bench.store.vectors.spaces()
    assert bench.store.chunks.count(space.id) == bench.store.admin.content_sizes().cached == 0


def test_the_old_vectors_serve_until_a_new_model_has_all_of_its_own(bench: Bench) -> None:
    bench.write(**many(80), a="the walrus sleeps")
    old = HashEmbedder("old", provider="before", synonyms=SYNONYMS)
    bench.fill(old)
    new = HashEmbedder("new", provider="after", dimensions=8, synonyms=SYNONYMS)
    older: dict[str, Callable[[], Embedder]] = {"before": lambda: old}
    untouched = bench.search("tusker", new, older)
    assert (untouched.mode, untouched.degraded, untouched[0].path) == ("hybrid", "", "memory/a.md")
    new.before_answer = _Stop(1, EmbedderUnavailable("gone"))
    assert not bench.fill(new).is_complete
    assert bench.list_models() == ["new", "old"]
    between = bench.search("tusker", new, older)
    assert (between.mode, between.degraded, between[0].path) == ("hybrid", "", "memory/a.md")
    assert (old.queries, new.queries) == (["tusker", "tusker"], [])
    assert bench.search("walrus", new)[0].path == "memory/a.md"
    new.before_answer = lambda: None
    assert bench.fill(new).is_complete
    assert bench.list_models() == ["new"]
    after = bench.search("tusker", new, older)
    assert (after.mode, after.degraded, after[0].path) == ("hybrid", "", "memory/a.md")
    assert (len(old.queries), new.queries[-1]) == (2, "tusker")


def test_without_the_old_embedder_a_half_filled_space_serves_with_all_words(bench: Bench) -> None:
    bench.write(**many(80), walrus="the walrus sleeps")
    bench.fill(HashEmbedder("old", provider="before"))
    new = HashEmbedder("new", provider="after")
    answer = bench.search("walrus", new)
    assert (answer.mode, answer.degraded, answer[0].path) == (
        "keyword",
        "no chunk has a vector yet",
        "memory/walrus.md",
    )
    new.before_answer = _Stop(1, EmbedderUnavailable("gone"))
    bench.fill(new)
    answer = bench.search("walrus", new)
    assert (answer.mode, answer.degraded, answer[0].path) == ("hybrid", "", "memory/walrus.md")
    assert "likeness" not in values_of(answer[0])


def test_another_endpoint_of_the_same_model_goes_on_with_the_old_vectors(bench: Bench) -> None:
    bench.write(a="the walrus sleeps", b="a plain pool")
    bench.fill(HashEmbedder(fingerprint="http://one", synonyms=SYNONYMS))
    moved = HashEmbedder(fingerprint="http://two", synonyms=SYNONYMS)
    answer = bench.search("tusker", moved)
    assert (answer.mode, answer.degraded, answer[0].path) == ("hybrid", "", "memory/a.md")
    assert moved.queries == ["tusker"]
    bench.fill(moved)
    assert [space.space.fingerprint for space in bench.store.vectors.spaces()] == ["http://two"]


def test_going_back_to_an_earlier_model_takes_its_vectors_from_the_cache(bench: Bench) -> None:
    bench.write(a="the walrus sleeps", b="a plain pool")
    one, two = HashEmbedder("one"), HashEmbedder("two")
    bench.fill(one)
    bench.fill(two)
    assert bench.fill(one) == EmbedReport(from_cache=2)
    assert bench.list_models() == ["one"]


def test_old_vectors_that_go_while_a_query_is_embedded_leave_the_words_and_the_index(bench: Bench) -> None:
    bench.write(a="the walrus sleeps", b="a plain pool")
    new = HashEmbedder("new", provider="after")

    class Slow(HashEmbedder):
        def embed_query(self, text: str, weights: object) -> bytes:
            bench.fill(new)
            return self.vector(text)

    old = Slow("old", provider="before")
    bench.fill(old)
    answer = bench.search("walrus", new, {"before": lambda: old})
    assert (answer.mode, paths(answer)) == ("keyword", ["memory/a.md"])
    assert "replaced" in answer.degraded
    assert bench.search("walrus", new).mode == "hybrid"
    assert bench.store.admin.health()[0] == ""


def test_an_instant_embedder_gets_a_page_at_once_however_late_it_is_and_needs_no_cache(bench: Bench) -> None:
    bench.write(**many(150))
    embedder = HashEmbedder(traits=Traits(never_waits=True))
    assert ChunkEmbedder(bench.store, embedder).fill(stop=lambda: True) == EmbedReport(embedded=150)
    assert len(embedder.requests) == 1
    assert bench.store.admin.content_sizes().cached == 0


def test_an_instant_embedder_that_fails_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise EmbedderUnavailable("It is broken.", hint="Mend it.")

    bench.write(a="the walrus sleeps")
    embedder = HashEmbedder(traits=Traits(never_waits=True))
    monkeypatch.setattr(embedder, "embed_chunks", refuse)
    assert bench.fill(embedder) == EmbedReport(is_complete=False, error="It is broken. Mend it.")


def test_while_another_process_embeds_it_is_waited_for_until_a_stop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.engine.chunk_embedder._LOCK_WAIT_S", 0.0)
    bench.write(a="the walrus sleeps")
    other_process = SqliteStore(bench.store.file_path, is_ours=True, owner=OWNER)
    assert other_process.lock("fill").acquire(0, "embedding")
    embedder, asked, seen = HashEmbedder(traits=SLOW), iter([False, True]), list[Progress]()
    try:
        report = ChunkEmbedder(bench.store, embedder).fill(stop=lambda: next(asked), progress=seen.append)
    finally:
        other_process.lock("fill").release()
    assert (report, list(asked), embedder.asked) == (EmbedReport(is_complete=False), [], [])
    assert seen == [Progress(0, 1, f"Waiting for {embedder.provider}")]


@pytest.mark.parametrize(("stops", "from_cache"), [(False, 1), (True, 0)])
def test_while_another_process_embeds_a_rebuild_looks_for_cached_texts_until_it_is_told_to_stop(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: bool, from_cache: int
) -> None:
    monkeypatch.setattr("mdrecall.engine.chunk_embedder._PAGE_CHUNKS", 2)
    monkeypatch.setattr("mdrecall.engine.chunk_embedder._LOCK_WAIT_S", 0.0)
    index, other_process = (SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=OWNER) for _ in range(2))
    embedder = HashEmbedder()
    filler = ChunkEmbedder(bench.store, embedder, cache=index)
    bench.write(known="the walrus sleeps")
    filler.fill()
    bench.write(**many(4), known="something else")
    bench.write(known="the walrus sleeps")
    assert other_process.lock("fill").acquire(0, "embedding")
    try:
        report = filler.fill(stop=lambda: stops)
    finally:
        other_process.lock("fill").release()
    assert report == EmbedReport(from_cache=from_cache, is_complete=False)
    assert embedder.asked == ["the walrus sleeps"]


def test_if_the_fallback_fails_too_both_reasons_are_told(bench: Bench) -> None:
    bench.write(a="the walrus sleeps")
    first, second = HashEmbedder(provider="first"), HashEmbedder(provider="second")
    first.before_answer = _Stop(0, EmbedderUnavailable("The first is gone."))
    second.before_answer = _Stop(0, EmbedderUnavailable("The second is gone."))
    searcher = VectorSearcher(bench.store.vectors, [first, second], older={}, timeout_s=60)
    filler, fallback = (ChunkEmbedder(bench.store, embedder) for embedder in (first, second))
    report = FallbackEmbedder(filler, fallback, searcher).fill()
    told = "The first is gone. The fallback second fails too: The second is gone."
    assert report == EmbedReport(is_complete=False, error=told)
