"""What a prompt asks for, and the run of a text that answers it."""

import pytest

from mdrecall.hosts.prompts import find_focus, read_prompt
from mdrecall.search.query import find_stems


@pytest.mark.parametrize(
    "text",
    [
        "go ahead",
        "Implement the following plan:",
        "address 28 and 37",
        "run the tests",
        "继续",
        "ja, mach weiter",
        "pool",
    ],
)
def test_a_prompt_that_only_goes_on_says_nothing_to_look_for(text: str) -> None:
    assert read_prompt(text) is None


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("why did we choose twelve connections for the pool?", 0.15),
        ("上次我们决定用多少个连接？", 0.15),
        ("how many connections has the pool?", 0.2),
        ("connection pool size please?", 0.2),
        ("can you make the pool larger for Berlin?", 0.4),
        ("look at DEC-0054", 0.4),
        ("raise the pool to twenty connections", 0.5),
    ],
)
def test_the_kind_of_a_prompt_says_how_sure_a_passage_must_be(text: str, floor: float) -> None:
    prompt = read_prompt(text)
    assert prompt is not None
    assert (prompt.floor, prompt.needs_rare) == (floor, floor > 0.2)


def test_paths_count_by_their_last_name_and_only_the_first_sentences_are_looked_for() -> None:
    prompt = read_prompt("what does /home/ana/shop/src/pool.py say about connections? " + "and more " * 300)
    assert prompt is not None
    assert prompt.query.startswith("what does pool.py say about connections?")
    assert len(prompt.query) <= 600


def test_the_run_with_most_words_of_the_query_is_shown() -> None:
    text = "The pool is old. " * 30 + "In Berlin the pool has twelve connections. " + "Nothing else. " * 30
    focus = find_focus(text, find_stems("how many connections has the pool in Berlin?"), 100)
    assert "In Berlin the pool has twelve connections." in focus
    assert len(focus) <= 102
    assert focus.startswith("…")
    assert focus.endswith("…")


@pytest.mark.parametrize("text", ["", "short", "x" * 500, "没有空格的长句子" * 40])
def test_any_text_has_a_run(text: str) -> None:
    assert len(find_focus(text, find_stems("the pool"), 100)) <= 102
