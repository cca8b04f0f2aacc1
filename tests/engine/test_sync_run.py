"""What a run reports, and what several callers want of it together."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mdrecall.engine.chunk_embedder import EmbedReport
from mdrecall.engine.indexer import FileChanges
from mdrecall.engine.sync_run import SyncRequest, SyncRun, _report_rebuild, merge_requests, require_notes
from mdrecall.errors import CorruptIndex, StoreBusy, StoreUnavailable
from mdrecall.types.documents import Issue, Listing, SourceName
from mdrecall.types.sync import Progress, SyncReport


def test_a_rebuild_reports_how_the_two_indexes_differ() -> None:
    same: dict[tuple[SourceName, str], str] = {("memory", "same.md"): "1", ("sessions", "s.jsonl"): "1"}
    before = same | {("memory", "changed.md"): "1", ("memory", "gone.md"): "1"}
    after = same | {("memory", "changed.md"): "2", ("memory", "new.md"): "1"}
    report = _report_rebuild(before, after, SyncReport(left=3, added=9))
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 2)
    assert (report.rebuilt, report.left) == (True, 3)
    assert [tuple(change)[:2] for change in report.changes] == [
        ("new.md", "added"),
        ("changed.md", "changed"),
        ("gone.md", "removed"),
    ]


@pytest.mark.parametrize(
    ("embedded", "problem"),
    [
        (EmbedReport(error="It is down."), "has the vectors of the fallback: It is down."),
        (EmbedReport(error="It is down.", is_complete=False, refused=2), "is without some vectors: It is down."),
        (EmbedReport(refused=2), "has 2 chunks that fake does not embed"),
        (EmbedReport(embedded=9), ""),
    ],
)
def test_what_went_wrong_with_vectors_is_an_issue_of_the_index(embedded: EmbedReport, problem: str) -> None:
    run = SimpleNamespace(_store=SimpleNamespace(admin=SimpleNamespace(place="index.sqlite")))
    embedder = SimpleNamespace(space=SimpleNamespace(provider="fake"))
    issues = SyncRun._describe_problems(cast(Any, run), cast(Any, embedder), embedded)
    assert issues == ((Issue("index.sqlite", problem),) if problem else ())


def test_callers_together_want_everything_that_each_wants() -> None:
    seen: list[str] = []
    one = SyncRequest(progress=lambda done: seen.append(f"one {done.label}"), stop=lambda: True, wait_s=1.0)
    two = SyncRequest(force=True, wait_s=3.0)
    merged = merge_requests([one, two])
    assert (merged.force, merged.wait_s, merged.stop()) == (True, 3.0, False)
    assert merged.progress
    merged.progress(Progress(1, 2, "indexing"))
    assert seen == ["one indexing"]
    assert merge_requests([one, SyncRequest()]).wait_s is None
    assert merge_requests([two]).progress is None
    assert merge_requests([one, one]).stop()
    assert merge_requests([two], lambda: True).stop()


def test_an_index_is_not_rebuilt_without_its_notes() -> None:
    def store(*, has_notes: bool) -> Any:
        documents = SimpleNamespace(state=lambda: ("", "", has_notes))
        return SimpleNamespace(documents=documents, admin=SimpleNamespace(place="the index"))

    require_notes(store(has_notes=True), "")
    with pytest.raises(StoreUnavailable, match="the index is shared, and its notes are on another machine"):
        require_notes(store(has_notes=False), "Do it there.")


def test_an_index_that_cannot_take_vectors_is_an_issue_and_a_damaged_one_an_error() -> None:
    def fail(error: Exception) -> Any:
        def fill(**_: object) -> EmbedReport:
            raise error

        return SimpleNamespace(fill=fill)

    store = SimpleNamespace(admin=SimpleNamespace(place="index.sqlite"))
    run = cast(Any, SimpleNamespace(_store=store, _describe_problems=lambda *_: pytest.fail("nothing was made")))
    busy = StoreBusy("It is busy.", hint="Wait.")
    assert SyncRun.embed_missing(run, embedder=fail(busy)) == (
        Issue("index.sqlite", "is without some vectors: It is busy. Wait."),
    )
    with pytest.raises(CorruptIndex):
        SyncRun.embed_missing(run, embedder=fail(CorruptIndex("It is damaged.")))


def test_an_outdated_index_is_rebuilt_where_its_notes_are_and_can_all_be_read() -> None:
    listing = Listing(cast(Any, {}), (), ("lost",), {})
    whole = FileChanges(cast(Any, {}), listing, [], [])
    partly = FileChanges(cast(Any, {"lost/x.md": (1, 1)}), listing, [], [])

    def why_not(changes: FileChanges, *, has_notes: bool, rebuilt_at: float | None = None) -> str:
        run = SimpleNamespace(_has_notes=lambda: has_notes, _rebuilt_at=rebuilt_at)
        return SyncRun._why_not_rebuild(cast(Any, run), [changes])

    assert why_not(whole, has_notes=True) == ""
    elsewhere = "was made with other settings or by another version; it is rebuilt by the machine that has its notes"
    assert why_not(whole, has_notes=False) == elsewhere
    assert why_not(partly, has_notes=True).startswith("was made with other settings; it is rebuilt when every folder")
    assert "give all that share it" in why_not(whole, has_notes=True, rebuilt_at=time.monotonic())
