"""A search answers by words whatever happens to the embedder, and says why meaning was left out."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from mdrecall.engine.chunk_embedder import ChunkEmbedder
from mdrecall.engine.searcher import Searcher
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.errors import EmbedderError, EmbedderUnavailable, InputRefused
from mdrecall.interfaces import Embedder
from mdrecall.search.stages import RankingOptions
from mdrecall.store.sqlite import SqliteStore
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Traits
from mdrecall.types.search import MODES, Mode, SearchAnswer, SearchRequest
from tests.conftest import Workspace, values_of
from tests.engine.embedders import HashEmbedder
from tests.store.stores import indexed

NOTES = {"a.md": "the walrus sleeps", "b.md": "a plain pool", "c.md": "深色模式已经打开"}
PATIENT = 60.0
HINT = "Check that it is up, or raise mdrecall.queryTimeoutMs."


OPTIONS = RankingOptions(max_results=5, min_score=0.0, vector_weight=0.35)


class NoteIndex(NamedTuple):
    store: SqliteStore

    def searcher(self, embedder: Embedder, timeout_s: float = PATIENT) -> Searcher:
        return Searcher(
            self.store.chunks,
            Analyser(),
            OPTIONS,
            VectorSearcher(self.store.vectors, [embedder], older={}, timeout_s=timeout_s),
        )


@pytest.fixture
def note_index(tmp_path: Path) -> Iterator[NoteIndex]:
    store = SqliteStore(str(tmp_path / "index.sqlite"), is_ours=True, owner=("main", "/workspace"))
    store.documents.put([indexed(path, text) for path, text in NOTES.items()], "r")
    ChunkEmbedder(store, HashEmbedder()).fill()
    yield NoteIndex(store)
    store.admin.close()


def ask(query: str, mode: Mode = "hybrid") -> SearchRequest:
    return SearchRequest(query, mode=mode)


def test_by_words_alone_the_embedder_is_not_asked(note_index: NoteIndex) -> None:
    embedder = HashEmbedder()
    answer = note_index.searcher(embedder).search(ask("walrus", "keyword"))
    assert (answer.mode, answer.degraded, embedder.queries) == ("keyword", "", [])


def by_words(note_index: NoteIndex, query: str = "walrus") -> SearchAnswer:
    return Searcher(note_index.store.chunks, Analyser(), OPTIONS).search(ask(query, "keyword"))


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("instant", [True, False])
def test_an_embedder_that_fails_leaves_the_words(note_index: NoteIndex, mode: Mode, instant: bool) -> None:
    class Failing(HashEmbedder):
        def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
            raise EmbedderUnavailable("The key was not accepted.")

    answer = note_index.searcher(Failing(traits=Traits(never_waits=instant))).search(ask("walrus", mode))
    assert (answer.mode, answer.degraded) == ("keyword", "The key was not accepted.")
    assert answer.results == by_words(note_index).results != ()


def test_only_queries_that_nothing_is_wrong_with_tell_that_an_embedder_fails(note_index: NoteIndex) -> None:
    problems: list[EmbedderError] = [InputRefused("Too long.")] * 3 + [EmbedderUnavailable("Gone.")] * 3

    class Failing(HashEmbedder):
        def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
            if problems:
                raise problems.pop(0)
            return super().embed_query(text, weights)

    vectors = VectorSearcher(note_index.store.vectors, [Failing()], older={}, timeout_s=PATIENT)
    searcher = Searcher(note_index.store.chunks, Analyser(), OPTIONS, vectors)
    for _ in range(5):
        assert searcher.search(ask("walrus")).degraded
        assert vectors.failure() == ""
    assert (searcher.search(ask("walrus")).degraded, vectors.failure()) == ("Gone.", "Gone.")
    assert (searcher.search(ask("walrus")).degraded, vectors.failure()) == ("", "")


def test_an_error_that_no_embedder_should_raise_leaves_the_words_too(note_index: NoteIndex) -> None:
    class Broken(HashEmbedder):
        def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
            raise ZeroDivisionError("by zero")

    answer = note_index.searcher(Broken()).search(ask("walrus"))
    assert (answer.mode, answer.degraded) == ("keyword", "test failed: by zero")
    assert answer.results == by_words(note_index).results


class Hanging(HashEmbedder):
    """Does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.began = threading.Event()

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        self.began.set()
        self.queries.append(text)
        self.let_go.wait()
        return self.vector(text)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    embedder = Hanging()
    yield embedder
    embedder.let_go.set()
    for thread in threading.enumerate():
        if thread.name == "mdrecall-embed-query":
            thread.join()


def test_an_embedder_that_hangs_leaves_the_words_and_is_left_alone(note_index: NoteIndex, hanging: Hanging) -> None:
    searcher = note_index.searcher(hanging, timeout_s=0.05)
    first = searcher.search(ask("walrus"))
    assert (first.mode, first.degraded) == ("keyword", f"test did not answer within 0.05 s. {HINT}")
    assert first.results == by_words(note_index).results
    assert hanging.began.wait(PATIENT)
    second = searcher.search(ask("pool"))
    assert (second.mode, second.degraded) == ("keyword", "test has not answered an earlier query yet")
    assert second.results == by_words(note_index, "pool").results
    assert hanging.queries == ["walrus"]


def test_a_vector_of_another_length_leaves_the_words(note_index: NoteIndex) -> None:
    class Shrunken(HashEmbedder):
        def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
            return self.vector(text)[:-8]

    answer = note_index.searcher(Shrunken()).search(ask("walrus"))
    assert answer.mode == "keyword"
    assert answer.degraded == (
        "test returned a vector of 14 dimensions, but the index holds vectors of 16:"
        " if the model has changed, index again with force"
    )
    assert answer.results == by_words(note_index).results


# Four letters, as many as in "mode".
KOREAN = "다크모드"


def test_a_query_in_a_script_that_the_offline_table_does_not_know_is_answered_by_words(workspace: Workspace) -> None:
    for path, text in NOTES.items():
        workspace.write(f"memory/{path}", text)
    workspace.write("memory/k.md", f"{KOREAN} 켰다\n")
    memory = workspace.memory()
    usual = memory.search(KOREAN)
    assert (usual.mode, usual.degraded, usual[0].path) == ("keyword", "", "memory/k.md")
    assert usual.results == memory.search(KOREAN, mode="keyword").results
    by_meaning = memory.search(KOREAN, mode="vector")
    assert (by_meaning.mode, by_meaning.degraded) == ("keyword", "the embedder knows no word of this query")
    assert by_meaning.results == usual.results


def test_a_query_half_in_such_a_script_trusts_meaning_half(workspace: Workspace) -> None:
    for path, text in NOTES.items():
        workspace.write(f"memory/{path}", text)
    workspace.write("memory/k.md", f"{KOREAN} 켰다\n")
    memory = workspace.memory()
    full = memory.search("walrus", min_score=0, explain=True)
    mixed = memory.search(f"mode {KOREAN}", min_score=0, explain=True)
    assert values_of(mixed[0])["vectorWeight"] == pytest.approx(values_of(full[0])["vectorWeight"] / 2, abs=1e-4)
    assert (mixed.mode, mixed[0].path) == ("hybrid", "memory/k.md")


@pytest.mark.parametrize("mode", MODES)
def test_a_source_filter_takes_only_chunks_of_that_source(note_index: NoteIndex, mode: Mode) -> None:
    """Anything that was not a transcript used to count as a note, whatever source it came from."""
    with apsw.Connection(note_index.store.file_path) as db:
        db.execute("UPDATE documents SET source = 'wiki' WHERE path = 'b.md'")
    searcher = note_index.searcher(HashEmbedder())
    notes = searcher.search(SearchRequest("walrus plain pool", mode=mode, source="memory"))
    assert {result.path for result in notes} <= {"a.md", "c.md"}
    assert "a.md" in {result.path for result in notes}
    assert not searcher.search(SearchRequest("walrus plain pool", mode=mode, source="sessions")).results
