"""The activity log in the page: by day, by tool, with links to notes, for the owner only."""

import os

from mdrecall.life.activity import Activity, activity_path, record_activity
from mdrecall.ui.activity import _read_moment
from tests.conftest import Workspace
from tests.ui.conftest import Site, serve


def fill(workspace: Workspace) -> None:
    settings = workspace.memory().settings
    for activity in (
        Activity("2026-02-09T10:00:00Z", "memory_get", "", "MEMORY.md#L2-L3", who="telegram group 42"),
        Activity("2026-02-10T10:00:00Z", "memory_search", "<b>heron</b>", "MEMORY.md#L3", 4, "high", "main", "codex"),
        Activity("2026-02-10T11:00:00Z", "memory_get", "", "../x", problem="PathOutside"),
        Activity("2026-02-10T12:00:00Z", "sessions_history", "", "sessions/s1.jsonl#L7"),
    ):
        record_activity(settings, activity)


def test_calls_are_listed_by_day_with_links_to_the_notes(site: Site) -> None:
    assert "No agent has used this memory yet" in site.get("activity").body
    fill(site.workspace)
    body = site.get("activity").body
    assert body.index("2026-02-10") < body.index("2026-02-09")
    assert "&lt;b&gt;heron&lt;/b&gt;" in body
    assert "<b>heron" not in body
    assert "note?path=MEMORY.md&amp;from=2&amp;to=3#L2" in body
    assert 'conversation?session=sessions%2Fs1.jsonl&amp;record=7">sessions/s1.jsonl#L7</a>' in body
    assert "PathOutside" in body
    assert "telegram group 42" in body


def test_a_tool_and_words_choose_some(site: Site) -> None:
    fill(site.workspace)
    body = site.get("activity", tool="memory_search").body
    assert "heron" in body
    assert "PathOutside" not in body
    assert "No call fits." in site.get("activity", q="walrus").body


def test_the_log_can_be_deleted(site: Site) -> None:
    fill(site.workspace)
    assert site.post("activity").status == 303
    assert "No agent has used this memory yet" in site.get("activity").body
    assert not os.path.exists(activity_path(str(site.workspace.index)))


def test_the_log_is_for_the_owner_only(workspace: Workspace) -> None:
    fill(workspace)
    with serve(workspace, session_key="agent:main:telegram:group:42") as site:
        reply = site.get("activity")
        assert reply.status == 400
        assert "heron" not in reply.body


def test_many_calls_have_pages_that_keep_the_filter(site: Site) -> None:
    settings = site.workspace.memory().settings
    for number in range(60):
        record_activity(settings, Activity(f"2026-02-10T10:00:{number:02}Z", "memory_search", f"bike {number:02}"))
    first, second = (site.get("activity", q="bike", page=page).body for page in ("0", "1"))
    assert "bike 59" in first
    assert "bike 09" not in first
    assert "bike 09" in second
    assert "activity?page=1&amp;q=bike" in first
    assert "Page 2 of 2" in second


def test_a_moment_is_told_in_the_users_zone_or_as_it_is_written() -> None:
    assert _read_moment("2026-02-10T23:30:00Z", "Asia/Tokyo") == "2026-02-11 08:30:00"
    assert _read_moment("some day", "Asia/Tokyo") == "some day"
