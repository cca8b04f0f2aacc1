import json

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace

#: The ranks here are those of a search by words.
WORDS_ONLY = '{"memorySearch": {"provider": "none"}}'


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    """Two notes and five questions: three right at once, one second, one missed."""
    workspace.configure(WORDS_ONLY)
    workspace.write("memory/sea.md", "# Sea\n\nthe walrus sleeps on the ice\n\n# Shore\n\nthe gull eats chips\n")
    workspace.write("memory/land.md", "the zebra runs, and the walrus does not\n")
    questions = [
        {"query": "where does the walrus sleep", "expect": "memory/sea.md#L3"},
        {"query": "gull chips", "expect": ["memory/sea.md"]},
        {"query": "zebra", "expect": "memory/land.md"},
        {"query": "walrus ice", "expect": "memory/land.md"},
        {"query": "giraffe\x1b[2J\nnext\x07", "expect": ["memory/gone.md#L9", "memory/sea.md"]},
    ]
    (workspace.path / "q.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    return workspace


@pytest.mark.parametrize(
    ("least", "code", "said"),
    [
        (["hit@6=0.8"], 0, ""),
        (["hit@6=0.81"], 1, "! hit@6 is 0.800, below 0.81\n"),
        (["hit@1=0.9", "hit@2=0.9"], 1, "! hit@1 is 0.600, below 0.9\n! hit@2 is 0.800, below 0.9\n"),
    ],
)
def test_a_figure_that_is_too_low_exits_with_1(
    notes: Workspace, run: Run, least: list[str], code: int, said: str
) -> None:
    arguments = [part for entry in least for part in ("--fail-under", entry)]
    ran = run("eval", "q.jsonl", *arguments)
    unmet = (
        "! memory/gone.md#L9 is expected by line 5 of the questions, but it is not among the notes that are searched\n"
    )
    assert (ran.code, ran.err) == (code, unmet + said)
    # No control character reaches a terminal.
    assert "giraffe\ufffd[2J\ufffdnext\ufffd" in ran.out
    ran = run("eval", "q.jsonl", "--json", *arguments)
    assert (ran.code, len(ran.json["below"])) == (code, said.count("!"))
    assert [issue["path"] for issue in ran.json["issues"]] == ["memory/gone.md#L9"]


def test_questions_that_no_note_answers_are_told_apart(notes: Workspace, run: Run) -> None:
    with (notes.path / "q.jsonl").open("a") as file:
        # Half a character is no error.
        file.write('{"query": "unicorn walrus \\ud83d", "expect": []}\n{"query": "dragon", "expect": []}\n')
    found = run("eval", "q.jsonl", "--json").json
    assert (found["questions"], found["figures"]["hit@1"]) == (7, 0.6)
    warned = sum(entry.get("confidence", "low") == "low" for entry in found["results"][5:])
    assert f"2 questions without an answer, {warned} with low confidence." in run("eval", "q.jsonl").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bad.jsonl"], "bad.jsonl:2: expects is not a known key; did you mean expect?"),
        (["empty.jsonl"], "There is no question in empty.jsonl"),
        (["absent.jsonl"], "There is no question in absent.jsonl that a note answers"),
        (["q.jsonl", "--fail-under", "ndcg=0.3"], "is not FIGURE=VALUE"),
        (["q.jsonl", "--fail-under", "hit@6=2"], "not a number from 0 to 1"),
        ([], "FILE"),
    ],
)
def test_what_is_wrong_is_named_and_exits_with_2(notes: Workspace, run: Run, arguments: list[str], said: str) -> None:
    (notes.path / "bad.jsonl").write_text('// first\n{"query": "q", "expects": "a.md"}\n{\n')
    (notes.path / "empty.jsonl").write_text("")
    (notes.path / "absent.jsonl").write_text('{"query": "unicorn", "expect": []}\n')
    ran = run("eval", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    ran = run("eval", *arguments, "--json")
    assert (ran.code, list(ran.json)) == (2, ["error"])
