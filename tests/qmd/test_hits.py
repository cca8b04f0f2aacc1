"""What qmd says it has found."""

import json

import pytest

from mdrecall.errors import ProgramUnreadable
from mdrecall.qmd.hits import RawHit, parse_answer, parse_items, parse_output, snippet_lines

HIT = {
    "docid": "#7b154d",
    "score": 0.3,
    "file": "qmd://memory-dir-main/2026-01-14.md",
    "line": 4,
    "title": "2026-01-14",
    "snippet": "@@ -3,4 @@ (2 before, 5 after)\nMet with Ana.\nWe agreed.\n\n## Follow-ups",
}


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        ("[]", ""),
        ("No results found.", ""),
        ("", "warn: no results found"),
        ("[info] qmd: No  results found", ""),
        ("loading models\n[]\n", ""),
        ('{"results": []}', ""),
    ],
)
def test_nothing_found_is_an_answer(stdout: str, stderr: str) -> None:
    assert parse_output(stdout, stderr) == ()


@pytest.mark.parametrize(
    "stdout",
    ["", "{}", '{"a":1}', '{"a":[1]}', "[1, 2]", "[info] loading []", "no results found, but that is prose", "<html>"],
)
def test_what_is_no_answer_is_an_error_that_says_what_came(stdout: str) -> None:
    with pytest.raises(ProgramUnreadable) as raised:
        parse_output(stdout, "")
    assert stdout[:20] in str(raised.value)


@pytest.mark.parametrize(
    "stdout",
    [
        'noise [{"docid":"#a"}] tail',
        'loading [model]\n[{"docid":"#a"}]',
        '[info] qmd: ready\n[{"docid": "#a"}]\n[info] done',
        '[]\n[{"docid": "#a"}]'.replace("[]", "[x]"),
        'no results found\n[{"docid": "#a"}]',
        '\x1b[?25l[{"docid":"#a"}]\x1b[?25h',
    ],
)
def test_hits_are_found_among_noise(stdout: str) -> None:
    assert [hit.docid for hit in parse_output(stdout, "")] == ["a"]


def test_a_hit_has_its_place_and_its_line() -> None:
    (hit,) = parse_output(json.dumps([HIT]), "")
    assert hit == RawHit(
        "memory-dir-main", "2026-01-14.md", "7b154d", 0.3, 4, "Met with Ana.\nWe agreed.\n\n## Follow-ups", "2026-01-14"
    )


def test_names_are_taken_as_they_are() -> None:
    (hit,) = parse_items([{"file": "qmd://notes/sub/My Note (draft) #1 50%.md?index=work"}])
    assert (hit.collection, hit.path) == ("notes", "sub/My Note (draft) #1 50%.md")


def test_a_place_may_come_in_two_fields() -> None:
    items = [{"file": "a/b.md", "collection": "notes"}, {"file": "notes/a/b.md", "collection": "notes"}]
    assert {(hit.collection, hit.path) for hit in parse_items(items)} == {("notes", "a/b.md")}


def test_an_answer_of_the_server_has_numbers_before_its_lines_which_are_wrong() -> None:
    snippet = "4: @@ -3,4 @@ (2 before, 5 after)\n5: Met with Ana.\n6: 7: a list"
    (hit,) = parse_answer(
        {"structuredContent": {"results": [{**HIT, "file": "memory-dir-main/x.md", "snippet": snippet}]}}
    )
    assert (hit.collection, hit.path, hit.line) == ("memory-dir-main", "x.md", 4)
    assert hit.snippet == "Met with Ana.\n7: a list"
    assert snippet_lines(snippet) == (3, 6)


def test_an_answer_of_the_server_may_come_without_an_envelope() -> None:
    assert parse_answer({"results": []}) == ()
    assert len(parse_answer([HIT])) == 1
    with pytest.raises(ProgramUnreadable):
        parse_answer({"content": [{"type": "text", "text": "hello"}]})


@pytest.mark.parametrize(
    ("snippet", "lines"),
    [
        ("@@ -12,4 @@ (x)\na\nb", (12, 15)),
        ("@@-3,1", (3, 3)),
        ("@@ -5 @@", (1, 1)),
        ("a\nb\nc", (1, 3)),
        ("@@ -5,2\na\nb", (5, 6)),
        ("@@ -5,2\r\na", (5, 6)),
    ],
)
def test_the_lines_of_a_snippet_are_those_of_its_header(snippet: str, lines: tuple[int, int]) -> None:
    assert snippet_lines(snippet) == lines


def test_an_old_qmd_tells_no_line_so_that_of_the_header_is_taken() -> None:
    old = {name: value for name, value in HIT.items() if name != "line"}
    assert parse_items([old])[0].line == 3
    assert parse_items([{"docid": "#a", "snippet": "no header"}])[0].line == 0


@pytest.mark.parametrize("score", [None, "x", float("nan"), float("inf"), {}])
def test_a_score_that_is_no_number_is_nothing(score: object) -> None:
    assert parse_items([{**HIT, "score": score}])[0].score == 0


@pytest.mark.parametrize("header", ["@@ -5,2", "@@ -5,2 ", "@@ -5,2 @@", "@@ -5,2 @@ (4 before, 1 after)", "@@-5,2"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_no_header_is_left_in_the_text(header: str, end: str) -> None:
    (hit,) = parse_items([{**HIT, "line": None, "snippet": f"{header}{end}Met with Ana.{end}We agreed."}])
    assert hit.snippet.lstrip("\r\n") == f"Met with Ana.{end}We agreed."
    assert hit.line == 5
