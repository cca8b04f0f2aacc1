import json
import logging
import pickle
from typing import Any

import pytest

from mdrecall.types.documents import Issue, Secret, parse_citation
from mdrecall.types.sync import FileChange, SyncReport
from tests.conftest import Workspace


def test_it_is_shown_to_nobody_who_does_not_ask_for_it() -> None:
    secret = Secret("sk-hush")
    nested = {"key": (secret, [secret])}
    shown = [f"{secret}", f"{secret!r}", f"{secret:>9}", str(secret), f"{nested}"]
    assert "hush" not in "".join(shown)
    assert shown[0] == "***"
    assert secret.reveal() == "sk-hush"
    assert not hasattr(secret, "__dict__")


def test_it_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("x").warning("with %s and %r", Secret("sk-hush"), Secret("sk-hush"))
    assert caplog.messages == ["with *** and ***"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_not_written_down(protocol: int) -> None:
    with pytest.raises(TypeError) as caught:
        pickle.dumps(Secret("sk-hush"), protocol)
    assert "hush" not in str(caught.value)
    with pytest.raises(TypeError):
        json.dumps(Secret("sk-hush"))


def test_it_is_equal_by_value_and_false_when_empty() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1
    assert Secret("a") != "a"
    assert Secret("a")
    assert not Secret("")


def test_an_option_that_a_search_does_not_have_is_an_error_that_names_it(workspace: Workspace) -> None:
    unknown: Any = {"limit": 3}
    with pytest.raises(TypeError, match="limit"):
        workspace.memory().search("walrus", **unknown)


@pytest.mark.parametrize(
    ("citation", "parsed"),
    [
        ("memory/a.md#L3-L9", ("memory/a.md", 3, 7)),
        ("memory/a.md#L3", ("memory/a.md", 3, 1)),
        ("memory/a.md#L9-L3", ("memory/a.md", 9, 1)),
        ("memory/a#L1.md#L2", ("memory/a#L1.md", 2, 1)),
        ("memory/a.md", ("memory/a.md", None, None)),
        ("memory/a.md#L0", ("memory/a.md#L0", None, None)),
        ("memory/a.md#L3-", ("memory/a.md#L3-", None, None)),
        ("memory/a.md#L3-Lx", ("memory/a.md#L3-Lx", None, None)),
        ("memory/a.md#L" + "9" * 5000, ("memory/a.md#L" + "9" * 5000, None, None)),
        ("#L3", ("#L3", None, None)),
        ("memory/a.md:3-9", ("memory/a.md", 3, 7)),
        ("memory/a.md:3", ("memory/a.md", 3, 1)),
        ("memory/a.md:0", ("memory/a.md:0", None, None)),
        ("memory/a.md:3-", ("memory/a.md:3-", None, None)),
        ("memory/a.md:", ("memory/a.md:", None, None)),
        ("we meet at 12:30", ("we meet at 12:30", None, None)),
    ],
)
def test_a_citation_is_read_back(citation: str, parsed: tuple[str, int | None, int | None]) -> None:
    assert parse_citation(citation) == parsed


def test_a_citation_reads_its_own_lines(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "".join(f"line {number}\n" for number in range(1, 9)))
    memory = workspace.memory()
    assert memory.read("memory/a.md#L3-L4").text.split("\n")[:2] == ["line 3", "line 4"]
    assert memory.read("memory/a.md#L3-L4").line_count == 2
    assert memory.read("memory/a.md#L3-L4", from_line=7).text.startswith("line 7")


def test_merged_sync_reports_keep_every_field() -> None:
    issue, change = Issue("memory/a.md", "is too large"), FileChange("memory/a.md", "changed")
    whole = SyncReport(1, 2, 3, 4, 5, (issue,), (issue,), (issue,), (change,), True, 6, 7)
    assert all(whole), "a new field needs a value here"
    for name in SyncReport._fields:
        alone = SyncReport(**{name: getattr(whole, name)})
        for merged in (alone.merge(SyncReport()), SyncReport().merge(alone)):
            assert merged == alone, name
    assert whole.merge(whole) == SyncReport(
        2, 4, 6, 8, 10, (issue, issue), (issue, issue), (issue, issue), (change, change), True, 12, 14
    )
