import datetime
import os
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from mdrecall.config.settings import Chunking
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.engine.indexer import Indexer
from mdrecall.notes.files import MemoryFiles
from mdrecall.store.sqlite import SqliteStore
from mdrecall.store.sqlite.store import SqliteDocuments
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Document, Embedding, EmbedInput, IndexedChunk, Issue, Listing, SourceName, Stamps
from tests.conftest import LONG_AGO_NS, Workspace

PATHS = [f"{letter}.md" for letter in "abcdefgh"]


@pytest.mark.parametrize("seed", range(5))
def test_comparing_only_what_changed_finds_the_same(seed: int) -> None:
    class Fixed:
        """An index and a folder whose stamps are given."""

        name: SourceName = "memory"
        known: Mapping[str, tuple[int, ...]] = Stamps({})
        listing = Listing(Stamps({}), (), (), {})

        def known_stamps(self, source: SourceName, settle_ns: int) -> Mapping[str, tuple[int, ...]]:
            return self.known

        def scan(self) -> Listing:
            return self.listing

    def change(stamps: Mapping[str, Any], can_remove: bool) -> Stamps[Any]:
        newer = {path: (0, draw.randrange(3), 0, 0) for path in draw.sample(PATHS, 2)}
        return Stamps(stamps, draw.sample(PATHS, 2) if can_remove else (), newer)

    draw, fixed = random.Random(seed), Fixed()
    indexer = Indexer(fixed, fixed, Chunking(), Analyser())  # type: ignore[arg-type]
    for _ in range(200):
        if draw.random() < 0.7:
            fixed.known = change(fixed.known, can_remove=True)
        if draw.random() < 0.7:
            fixed.listing = fixed.listing._replace(stamps=change(fixed.listing.stamps, draw.random() < 0.3))
        if draw.random() < 0.8:
            new = Indexer(fixed, fixed, Chunking(), Analyser())  # type: ignore[arg-type]
            assert indexer.compare() == new.compare()


@pytest.mark.parametrize("year", [1960, 2400])
def test_a_note_of_an_odd_time_is_read_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, year: int) -> None:
    path = workspace.write("memory/a.md", "walrus")
    seconds = int((datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).total_seconds())
    os.utime(path, (seconds, seconds))
    if int(path.stat().st_mtime) != seconds:
        pytest.skip(f"this file system does not keep a time in {year}")
    memory = workspace.memory()
    memory.sync()
    read: list[str] = []
    real = MemoryFiles.read

    def count(self: MemoryFiles, path: str, listing: Listing) -> Document:
        read.append(path)
        return real(self, path, listing)

    monkeypatch.setattr(MemoryFiles, "read", count)
    memory.sync()
    assert not read


def test_a_change_that_keeps_size_and_time_is_noticed(workspace: Workspace) -> None:
    path = workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    path.write_text("turtle")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert memory.sync().changed == 1


def test_the_newest_file_is_read_first_and_only_if_it_was_written_this_moment_again(workspace: Workspace) -> None:
    workspace.write("memory/old.md", "walrus")
    path = workspace.write("memory/young.md", "penguin")
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    memory = workspace.memory()
    assert [change.path for change in memory.sync().changes] == ["memory/young.md", "memory/old.md"]
    assert not memory.status().dirty
    other = apsw.Connection(memory.settings.index_path)
    other.execute("UPDATE documents SET hash = zeroblob(32)")
    other.close()
    assert [change.path for change in memory.sync().changes] == ["memory/young.md"]


def test_a_touched_file_is_read_once_and_its_new_stamp_kept(workspace: Workspace) -> None:
    path = workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    os.utime(path, ns=(LONG_AGO_NS + 10**9, LONG_AGO_NS + 10**9))
    memory.sync()
    other = apsw.Connection(memory.settings.index_path)
    other.execute("UPDATE documents SET hash = zeroblob(32)")
    other.close()
    assert memory.sync().changes == ()


def test_a_vanished_root_keeps_what_was_indexed_from_it_and_says_so(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("MEMORY.md", "text")
    workspace.write("memory/a.md", "walrus")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/team.md").write_text("penguin")
    workspace.configure('{memorySearch: {extraPaths: ["../shared"]}}')
    memory = workspace.memory()
    memory.sync()
    (workspace.path / "memory").rename(tmp_path / "away")
    (tmp_path / "shared").rename(tmp_path / "away-too")
    report = memory.sync()
    assert report.removed == 0
    assert {issue.path for issue in report.kept} == {"memory", "../shared"}
    assert {issue.path for issue in memory.search("walrus").issues} == {"memory", "../shared"}
    assert {"memory", "../shared"} <= {issue.path for issue in memory.issues()}
    assert memory.search("walrus").results
    assert memory.search("penguin").results
    assert memory.sync(force=True).removed == 2
    assert not memory.search("walrus").results


def test_one_bad_file_is_reported_and_the_rest_is_indexed(workspace: Workspace) -> None:
    workspace.configure("{mdrecall: {maxFileBytes: 100}}")
    workspace.write("memory/big.md", "x" * 200)
    workspace.write("memory/good.md", "walrus")
    report = workspace.memory().sync()
    assert report.added == 1
    assert [(issue.path, "limit" in issue.problem) for issue in report.failed] == [("memory/big.md", True)]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"   \n\n\t",
        b"\xff\xfe",
        "text in UTF-16".encode("utf-16"),
        b"a note of many words into which a zero \x00 has crept",
        "\xdcbergr\xf6\xdfe".encode("latin-1"),
        b"a\rb\rc",
        "\u2028 line separator".encode(),
    ],
)
def test_odd_files_are_indexed_without_complaint(workspace: Workspace, text: bytes) -> None:
    workspace.write("memory/odd.md", text)
    workspace.write("memory/good.md", "walrus")
    memory = workspace.memory()
    assert memory.sync().failed == ()
    assert memory.search("walrus")[0].path == "memory/good.md"


PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR walrus " + bytes(range(256)) * 8


@pytest.mark.parametrize("data", [PICTURE, b"\x00\x01\x02 binary" * 4, ("walrus" * 4).encode("utf-16-le")])
def test_a_file_that_is_not_text_is_left_out_and_told_by_index_and_status(workspace: Workspace, data: bytes) -> None:
    path = workspace.write("memory/odd.md", "walrus, as text")
    workspace.write("memory/good.md", "walrus")
    memory = workspace.memory()
    assert memory.sync().failed == ()
    path.write_bytes(data)
    for _ in range(2):
        assert memory.sync().failed == (Issue("memory/odd.md", "memory/odd.md is not text."),)
    assert [result.path for result in memory.search("walrus")] == ["memory/good.md"]
    status = memory.status()
    assert memory.issues() == (Issue("memory/odd.md", "is not text."),)
    assert (status.dirty, status.source_counts[0].issues) == (False, ("memory/odd.md: is not text.",))


def test_names_that_are_not_unicode_are_reported_and_left_out(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    try:
        (workspace.path / "memory" / os.fsdecode(b"b\xff.md")).write_text("penguin")
    except OSError:
        return  # This file system takes only Unicode names.
    memory = workspace.memory()
    assert memory.sync().added == 1
    assert ["not Unicode" in issue.problem for issue in memory.issues()] == [True]


def test_times_in_the_far_future_are_fine(workspace: Workspace) -> None:
    path = workspace.write("memory/a.md", "walrus")
    os.utime(path, ns=(2**63 + 10**9, 2**63 + 10**9))
    memory = workspace.memory()
    assert memory.search("walrus").results
    path = workspace.write("memory/b.md", "penguin")
    soon = time.time_ns() + 10**15
    os.utime(path, ns=(soon, soon))
    memory.sync()
    assert not memory.status().dirty
    path.unlink()
    assert memory.status().dirty


def test_folders_as_deep_as_the_system_allows_are_walked(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    folder = os.open(workspace.path / "memory", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=folder)
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    assert workspace.memory().search("walrus").results
    _flatten(workspace.path / "memory/d")


def _flatten(top: Path) -> None:
    """Take a tower of folders down from the top: some ways of deleting it would recurse too deep."""
    while (top / "d").exists():
        (top / "d").rename(top.parent / "next")
        top.rmdir()
        (top.parent / "next").rename(top)


def test_a_file_that_can_no_longer_be_read_for_good_leaves_the_index(workspace: Workspace) -> None:
    workspace.configure("{mdrecall: {maxFileBytes: 100}}")
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    workspace.write("memory/a.md", "walrus " * 50)
    answer = memory.search("walrus")
    assert answer.results == ()
    assert "limit" in answer.action


def test_an_extra_file_that_is_gone_leaves_the_index(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "text")
    extra = workspace.write("extra/list.md", "walrus")
    workspace.configure('{memorySearch: {extraPaths: ["extra/list.md"]}}')
    memory = workspace.memory()
    assert memory.search("walrus").results
    extra.unlink()
    assert not memory.search("walrus").results


def test_writers_in_several_threads_find_what_they_wrote(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "text")
    memory = workspace.memory()
    missed: list[str] = []

    def work(name: str) -> None:
        for turn in range(8):
            word = f"{name}{turn}"
            (workspace.path / "memory").mkdir(exist_ok=True)
            (workspace.path / f"memory/{name}.md").write_text(f"the word is {word}")
            if not memory.search(word).results:
                missed.append(word)

    threads = [threading.Thread(target=work, args=(f"walrus{letter}x",)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []


def test_one_document_that_the_store_cannot_write_costs_no_other_document_its_place(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqliteDocuments.put

    def put(self: SqliteDocuments, items: Sequence[tuple[Document, Iterable[IndexedChunk]]], *more: str) -> object:
        if any(document.path == "memory/b.md" for document, _ in items):
            raise OverflowError("too large")
        return real(self, items, *more)

    monkeypatch.setattr(SqliteDocuments, "put", put)
    gone = workspace.write("memory/gone.md", "seal")
    memory = workspace.memory()
    memory.sync()
    gone.unlink()
    for name in "abc":
        workspace.write(f"memory/{name}.md", "walrus")
    report = memory.sync()
    assert (report.added, report.removed, [issue.path for issue in report.failed]) == (2, 1, ["memory/b.md"])
    assert {result.path for result in memory.search("walrus")} == {"memory/a.md", "memory/c.md"}


def test_a_text_that_the_embedder_fails_on_costs_only_its_own_vector(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OfflineEmbedder.embed_chunks

    def embed_chunks(self: OfflineEmbedder, passages: Sequence[EmbedInput]) -> list[Embedding]:
        if any("unthinkable" in passage.text for passage in passages):
            raise MemoryError
        return real(self, passages)

    monkeypatch.setattr(OfflineEmbedder, "embed_chunks", embed_chunks)
    workspace.write("memory/a.md", "the walrus sleeps on the ice")
    workspace.write("memory/b.md", "unthinkable")
    memory = workspace.memory()
    assert memory.sync().added == 2
    assert memory.search("unthinkable")[0].path == "memory/b.md"
    assert memory.search("sleeping walrus", mode="vector")[0].path == "memory/a.md"


@pytest.mark.parametrize("is_back", [True, False])
def test_a_file_that_another_process_has_indexed_again_meanwhile_stays(workspace: Workspace, is_back: bool) -> None:
    path = workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    settings = memory.settings
    owner = (settings.agent_id, os.path.realpath(settings.workspace))
    store = SqliteStore(settings.index_path, is_ours=True, owner=owner)
    indexer = Indexer(store.documents, MemoryFiles(settings, str(workspace.home)), Chunking(), Analyser())
    path.unlink()
    changes = indexer.compare()
    assert changes.vanished == ["memory/a.md"]
    workspace.write("memory/a.md", "a walrus that came back")
    memory.sync()
    if not is_back:
        path.unlink()
    assert indexer.sync(changes=changes).removed == (0 if is_back else 1)
    store.admin.close()


def test_a_note_that_another_process_indexes_during_the_scan_is_not_missing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("memory/a.md", "walrus a")
    settings = workspace.memory().settings
    owner = (settings.agent_id, os.path.realpath(settings.workspace))
    store = SqliteStore(settings.index_path, is_ours=True, owner=owner)
    source = MemoryFiles(settings, str(workspace.home))
    scan = source.scan

    def index_meanwhile() -> Listing:
        workspace.write("memory/late.md", "walrus late")
        workspace.memory().sync()
        return scan()

    monkeypatch.setattr(source, "scan", index_meanwhile)
    assert Indexer(store.documents, source, Chunking(), Analyser()).compare().vanished == []
    store.admin.close()
