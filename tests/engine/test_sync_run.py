"""What a run reports, and what several callers want of it together."""

import time
from types import SimpleNamespace
from typing import Any, cast

from mdrecall.engine.indexer import FileChanges
from mdrecall.engine.sync_run import SyncRequest, SyncRun, merge_requests
from mdrecall.types.documents import Listing
from mdrecall.types.sync import Progress


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
