"""What ``index`` and ``watch`` say about changes, and how numbers on the command line are read."""

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from mdrecall.cli import index
from mdrecall.cli.options import parse_count, parse_fraction, parse_port, parse_positive
from mdrecall.types.documents import Issue
from mdrecall.types.sync import FileChange, SyncReport, WatchEvent


def changes(count: int) -> SyncReport:
    return SyncReport(changed=count, changes=tuple(FileChange(f"{number}.md", "changed") for number in range(count)))


def tell(report: SyncReport) -> list[str]:
    memory: Any = None
    return index._format_event(memory, WatchEvent("synced", report))


def test_a_watcher_names_ten_files_and_counts_the_rest() -> None:
    assert tell(changes(1)) == ["changed 0.md"]
    assert tell(changes(10))[-1] == "changed 9.md"
    assert tell(changes(11))[-2:] == ["changed 9.md", "… and 1 more file"]
    assert tell(SyncReport(added=3))[-1] == "… and 3 more files"


def test_a_watcher_names_what_failed_and_a_rebuild() -> None:
    report = SyncReport(rebuilt=True, failed=(Issue("a.md", "a.md is not text."), Issue("b.md", "is too large.")))
    assert tell(report) == ["the index was rebuilt", "! a.md is not text.", "! b.md is too large."]


def test_an_event_as_json_has_only_what_belongs_to_it() -> None:
    synced = index._event_to_json("", WatchEvent("synced", changes(1)))
    assert (synced["event"], synced["changed"], "agentId" in synced, "folders" in synced) == ("synced", 1, False, False)
    failed = index._event_to_json("work", WatchEvent("failed", error="no disk"))
    assert {name: failed[name] for name in failed if name != "time"} == {
        "event": "failed",
        "agentId": "work",
        "error": "no disk",
    }
    watching = index._event_to_json("", WatchEvent("watching", folders=2))
    assert (watching["folders"], "error" in watching) == (2, False)


@pytest.mark.parametrize(
    ("parse", "least", "wrong", "about"),
    [
        (parse_positive, 1, "0", "a whole number of at least 1"),
        (parse_count, 0, "-1", "a whole number of at least 0"),
        (parse_fraction, 0, "-0.1", "a number from 0 to 1"),
        (parse_fraction, 1, "1.01", "a number from 0 to 1"),
        (parse_fraction, 1, "nan", "a number from 0 to 1"),
        (parse_port, 0, "-1", "a port number"),
        (parse_port, 65535, "65536", "a port number"),
        (parse_port, 80, "http", "a port number"),
    ],
)
def test_a_number_is_read_within_its_bounds(parse: Callable[[str], float], least: int, wrong: str, about: str) -> None:
    assert parse(str(least)) == least
    with pytest.raises(argparse.ArgumentTypeError, match=f"^'{wrong}' is not {about}$"):
        parse(wrong)
