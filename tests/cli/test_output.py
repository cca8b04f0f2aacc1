"""The texts that commands print for people, word by word."""

import io
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from mdrecall.cli import output
from mdrecall.cli.config import _describe_provider
from mdrecall.cli.install import _make_path
from mdrecall.cli.main import _silence_stdout, main
from mdrecall.cli.output import (
    confirm_deletion,
    count_rows,
    plural,
    print_error,
    print_issues,
    print_json,
    printable,
    progress_line,
    shorten_home,
    style,
)
from mdrecall.cli.search import print_answer
from mdrecall.engine.embedding_status import ProviderRow
from mdrecall.errors import RecallError
from mdrecall.types.documents import Issue
from mdrecall.types.search import FallbackNotice, SearchAnswer, SearchResult
from mdrecall.types.sync import Probe, Progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def result(**more: Any) -> SearchResult:
    return SearchResult("memory/a.md", 3, 9, 0.4567, "the walrus\nsleeps", "memory", 4, 5, "Zoo › Pool")._replace(
        confidence="medium", **more
    )


@pytest.mark.parametrize(
    ("found", "more", "lines"),
    [
        (result(), "  Zoo › Pool", ["the walrus", "sleeps"]),
        (result(heading="", snippet="\x1b[2Jx"), "", ["\ufffd[2Jx"]),
        (result(heading="memory"), "", ["the walrus", "sleeps"]),
        (result(speaker="Ana", date="2026-03-01"), "  Zoo › Pool  [Ana, 2026-03-01]", ["the walrus", "sleeps"]),
        (result(speaker="walrus", date=""), "  Zoo › Pool", ["the walrus", "sleeps"]),
        (
            result(scored_by="a\x07model", query="seals"),
            '  Zoo › Pool  scored by a\ufffdmodel  for "seals"',
            ["the walrus", "sleeps"],
        ),
    ],
)
def test_a_result_is_its_score_its_citation_its_heading_and_its_lines(
    found: SearchResult, more: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_answer(SearchAnswer((found,)), "pool")
    assert capsys.readouterr().out == "\n    ".join((f"0.457 medium  memory/a.md#L3-L9{more}", *lines)) + "\n"


def long_result(number: int, **more: Any) -> SearchResult:
    lines = "\n".join(f"- {'walrus' if place == 4 else 'filler'} {place}" for place in range(1, 10))
    return result(path=f"memory/{number}.md", start_line=1, end_line=9, snippet=lines, heading="", **more)


def test_the_best_result_has_the_lines_around_its_matches_and_the_others_have_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_answer(SearchAnswer((long_result(1), long_result(2))), "where is the walrus?")
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.splitlines()[1:] == ["    - filler 3", "    - walrus 4", "    - filler 5"]
    assert second.splitlines()[1:] == ["    - walrus 4"]


@pytest.mark.parametrize(("caution", "shown"), [("", 12), ("Not sure.", 6)])
def test_an_answer_fills_a_screen_and_counts_the_rest(
    caution: str, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = SearchAnswer(tuple(map(long_result, range(18))), caution=caution, weaker=2)
    print_answer(answer, "walrus")
    out, err = capsys.readouterr()
    assert out.count("walrus") == shown
    assert len(out.splitlines()) <= (20 if caution else 40)
    assert err.startswith(f"{caution}\n" * bool(caution))
    assert err.endswith(f"{20 - shown} weaker results; -n 20 shows more\n")
    print_answer(answer, "walrus", is_short=False)
    out, err = capsys.readouterr()
    assert out.count("walrus") == 18
    assert err.endswith("2 weaker results; -n 20 shows more\n")


@pytest.mark.parametrize(
    ("text", "rows"), [("a" * 80, 1), ("a" * 81, 2), ("海" * 41, 2), ("\x1b[1ma\x1b[0m", 1), ("\n", 2)]
)
def test_rows_are_counted_as_a_terminal_wraps_them(text: str, rows: int) -> None:
    assert count_rows(text) == rows


def test_every_limitation_of_an_answer_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    limited = SearchAnswer((), reason="no_match", action="Try others.", backend="builtin", provider="local")
    limited = limited.replace(
        answered_for=FallbackNotice("qmd", "It is not installed.", "", ""), stale="the index is busy.",
        degraded="no key", fallback="openai is down", not_reranked="the model is missing.",
        withheld="2 results are private.",
    )  # fmt: skip
    print_answer(limited, "pool")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "Answered by builtin instead of qmd: It is not installed."
    assert lines[1].startswith("Results may be out of date: the index is busy. ")
    assert lines[2:] == [
        "Searched by keywords only: no key.",
        "Used the embeddings of local instead: openai is down.",
        "Not reranked: the model is missing.",
        "2 results are private.",
        "Try others.",
    ]


def test_at_most_twenty_problems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    print_issues(tuple(Issue(f"{number}.md", "is not text.") for number in range(20)))
    assert capsys.readouterr().err.splitlines()[-1] == "! 19.md is not text."
    print_issues(tuple(Issue(f"{number}.md", f"{number}.md is not text.") for number in range(22)))
    assert capsys.readouterr().err.splitlines()[-2:] == ["! 19.md is not text.", "  … and 2 more"]


def test_control_characters_are_not_printed() -> None:
    assert printable("a\tb\x1b\x7f\nc\u202e é") == "a\tb\ufffd\ufffd\ufffdc\ufffd é"
    assert printable("a\rb\r") == "a\ufffdb"


def test_one_file_and_many_files() -> None:
    assert [plural(count, "file") for count in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
    assert plural(2, "entry", "entries") == "2 entries"


def test_the_home_folder_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert shorten_home("/home/ada/notes") == "~/notes"
    assert shorten_home("/home/adam/notes") == "/home/adam/notes"
    assert shorten_home("see /home/ada/x (/home/ada/y) and /home/ada2 or /mnt/home/ada/z") == (
        "see ~/x (~/y) and /home/ada2 or /mnt/home/ada/z"
    )
    monkeypatch.setenv("HOME", "/")
    assert shorten_home("see /etc/x") == "see /etc/x"


def test_json_is_readable_by_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": ["é"]})
    assert capsys.readouterr().out == '{\n  "name": [\n    "é"\n  ]\n}\n'


def test_only_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert style("hi", "bold", "red", stream=Terminal()) == "\x1b[1;31mhi\x1b[0m"
    assert style("", "bold", stream=Terminal()) == ""
    assert style("hi", "bold", stream=io.StringIO()) == "hi"
    monkeypatch.setenv("TERM", "dumb")
    assert style("hi", "bold", stream=Terminal()) == "hi"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert style("hi", "bold", stream=Terminal()) == "hi"


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y\n", True), (" YES \n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_question_is_answered_by_yes_only(typed: str, agreed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert confirm_deletion("Really?", Namespace(yes=False, json=False)) is agreed


@pytest.mark.parametrize(("stdin", "as_json"), [(io.StringIO("y\n"), False), (Terminal("y\n"), True), (None, False)])
def test_without_somebody_to_ask_the_refusal_is_raised(
    stdin: io.StringIO | None, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    assert confirm_deletion("Really?", Namespace(yes=True, json=as_json))
    with pytest.raises(RecallError, match="no terminal"):
        confirm_deletion("Really?", Namespace(yes=False, json=as_json))


def test_the_progress_line_shows_how_far_and_how_long_and_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(), Terminal()
    monkeypatch.setattr(output, "time", clock)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_line("Indexing") as draw:
        assert draw
        draw(Progress(1, 4, "a.md"))  # too soon
        clock.now += 61
        draw(Progress(0, 0, "b.md"))  # nothing is known yet
        draw(Progress(1, 4, "b.md"))
        draw(Progress(2, 4, "c.md"))  # too soon again
        draw(Progress(1, 2, "Downloading the model"))  # a new label is shown at once
        draw(Progress(2, 2, "Downloading the model"))
        clock.now += 0.25
        draw(Progress(0, 4, "d.md"))
    assert stream.getvalue().split("\r\x1b[K")[1:] == [
        f"Indexing [{'█' * 6}{'·' * 18}] 1/4 · 1:01 · 3:03 left",
        f"Downloading the model [{'█' * 12}{'·' * 12}] 1/2",
        f"Indexing [{'·' * 24}] 0/4 ",
        "",
    ]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["no terminal", "never drawn"])
def test_a_progress_line_that_was_not_drawn_is_not_erased(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_line("Indexing") as draw:
        assert bool(draw) == stream.isatty()
    assert stream.getvalue() == ""


def test_a_stream_that_is_no_file_is_replaced_when_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    _silence_stdout()
    print("nobody reads this", flush=True)
    sys.stdout.close()
    assert stream.getvalue() == ""


def test_an_mcp_server_that_a_person_starts_says_what_it_is_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mdrecall.mcp_server.start.run_stdio", lambda *_: 0)
    said = "This server is meant to be started by an MCP client: see `mdrecall mcp install`. Press Ctrl-C to stop.\n"
    for stdin, told in (Terminal(), said), (io.StringIO(), ""), (None, ""):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert (main(["mcp"]), capsys.readouterr().err) == (0, told)


def test_an_escape_in_a_hint_does_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(RecallError("There is no file a.md."), "Did you mean memory/a\x1b]0;gotcha\x07.md?", as_json=False)
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (ProviderRow("x", "", usable=False, why="Install it."), "Install it."),
        (ProviderRow("x", "", True, "A remark.", "m", "here", "X_KEY"), "m, at here, key from X_KEY, A remark."),
        (ProviderRow("x", "", True, "", "m", probe=Probe(True, ms=2.6, dims=8)), "m, answers in 3 ms, 8 dimensions"),
        (ProviderRow("x", "", True, "", "m", "here", probe=Probe(False, "It is off.")), "m, at here: It is off."),
    ],
)
def test_a_provider_is_told_with_its_answer(row: ProviderRow, told: str) -> None:
    assert _describe_provider(row) == told


@pytest.mark.parametrize(
    ("path", "project", "shown"),
    [
        (".", "", "{here}"),
        (".", "${PROJECT}", "${PROJECT}"),
        ("notes/a", "${PROJECT}", "${PROJECT}/notes/a"),
        ("notes/a", ".", "notes/a"),
        ("..notes", "${PROJECT}", "${PROJECT}/..notes"),
    ],
)
def test_a_path_below_this_folder_is_written_as_a_project_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, project: str, shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _make_path(os.path.abspath(path), project) == shown.format(here=tmp_path, PROJECT="{PROJECT}")
