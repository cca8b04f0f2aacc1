"""What qmd says it has found."""

import json

import pytest

from mdrecall.errors import ProgramUnreadable
from mdrecall.extras.qmd.search import RawHit, parse_answer, parse_output

HIT = {"docid": "#7b154d", "score": 0.3, "file": "qmd://memory-dir-main/2026-01-14.md", "line": 4, "title": "x"}
READ = RawHit("memory-dir-main", "2026-01-14.md", 0.3, 4)


@pytest.mark.parametrize(
    "noise", ["{}", "{}\n", "loading [model]\n{}", "[info] qmd: ready\n{}\n[info] done", "[x]\n{}"]
)
def test_hits_are_found_among_noise_and_none_is_an_answer_too(noise: str) -> None:
    assert parse_output(noise.format(json.dumps([HIT])), "") == (READ,)
    assert parse_output(noise.partition("{}")[0] + "[]\n", "") == ()


@pytest.mark.parametrize(
    "stdout", ["", "{}", '{"a":1}', '{"a":[1]}', "[1, 2]", "[info] loading []", "no results found", "<html>"]
)
def test_what_is_no_answer_is_an_error_that_says_what_came(stdout: str) -> None:
    with pytest.raises(ProgramUnreadable) as raised:
        parse_output(stdout, "")
    assert stdout[:20] in str(raised.value)


def test_an_answer_of_the_server_is_a_list_of_results_with_names_as_they_are() -> None:
    odd = {"file": "qmd://notes/sub/My Note (draft) #1 50%.md"}
    answer = {"results": [{**HIT, "file": "memory-dir-main/2026-01-14.md"}, odd, {"docid": "#1"}, 3]}
    assert parse_answer(answer) == (READ, RawHit("notes", "sub/My Note (draft) #1 50%.md", 0.0, 1))
    with pytest.raises(ProgramUnreadable):
        parse_answer({"content": [{"type": "text", "text": "hello"}]})


@pytest.mark.parametrize("score", [None, "x", float("nan"), float("inf"), {}])
def test_a_score_that_is_no_number_is_nothing(score: object) -> None:
    assert parse_answer({"results": [{**HIT, "score": score}]})[0].score == 0
