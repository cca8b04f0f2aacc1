"""The remedies of the command line: its own options and commands, and only those that the command has."""

import argparse
import re
from typing import get_args

import pytest

from mdrecall import errors
from mdrecall.cli.main import list_words
from mdrecall.cli.output import _BY_ERROR, MINILM_REMEDY, REMEDY_BY_REASON, add_remedy, hint_for, suggest_minilm
from mdrecall.errors import ConfigError, FileMissing, KeyRefused, RecallError
from mdrecall.types import Confidence, Reason, SearchAnswer, SearchResult
from tests.cli.conftest import Run
from tests.conftest import Workspace

_WORDS: tuple[Confidence, ...] = ("low", "high")


def options(command: str, **more: object) -> argparse.Namespace:
    return argparse.Namespace(command=command, **more)


def test_every_reason_has_an_entry() -> None:
    assert set(REMEDY_BY_REASON) == set(get_args(Reason))


@pytest.mark.parametrize("text", [*REMEDY_BY_REASON.values(), *(remedy for _, remedy, *_ in _BY_ERROR)])
def test_a_remedy_names_only_commands_and_options_that_there_are(text: str) -> None:
    words = list_words()
    for command, rest in re.findall(r"`mdrecall (\w+)([^`]*)`", text):
        assert set(re.findall(r"--[\w-]+", rest)) <= set(words[command])
    assert set(re.findall(r"--[\w-]+", text)) <= {word for entries in words.values() for word in entries}


@pytest.mark.parametrize(
    ("shell", "first"),
    [
        ("bash", "_mdrecall() {"),
        ("zsh", "autoload -U +X bashcompinit && bashcompinit"),
        ("fish", "complete -c mdrecall "),
    ],
)
def test_each_shell_has_a_completion_script_of_its_own(run: Run, shell: str, first: str) -> None:
    script = run("completion", shell)
    assert (script.code, script.out.startswith(first)) == (0, True)
    assert "status" in script.out


def test_a_remedy_follows_what_the_answer_says_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.cli.output.find_spec", lambda name: name)
    answer = SearchAnswer((), reason="below_min_score", action="The best match has a score of 0.2.")
    assert add_remedy(answer).action == "The best match has a score of 0.2. To see every match, add --min-score 0."
    assert add_remedy(SearchAnswer((), reason="no_searchable_words", action="No words.")).action == "No words."


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_weak_answer_of_the_table_alone_says_how_to_install_the_better_embedder(
    is_installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.cli.output.find_spec", lambda name: object() if is_installed else None)
    weak, sure = (SearchResult("a.md", 1, 1, 0.1, "", "memory", 1, 1, "", confidence=word) for word in _WORDS)
    empty = SearchAnswer((), reason="no_match", action="Nothing.", provider="offline")
    query = "where do we meet on fridays"
    assert add_remedy(empty, query).action.endswith(MINILM_REMEDY) != is_installed
    assert bool(suggest_minilm(SearchAnswer((weak,), provider="offline"), query)) != is_installed
    for other in (
        SearchAnswer((sure, weak), provider="offline"),
        SearchAnswer((weak,), provider="openai"),
        SearchAnswer((weak,), degraded="The key was refused."),
        SearchAnswer((), reason="index_empty", provider="offline"),
        SearchAnswer((), reason="no_match"),
    ):
        assert suggest_minilm(other, query) == ""
    words = list_words()["config"]
    assert {"--download", "minilm"} <= set(words)


@pytest.mark.parametrize(
    ("query", "is_english"),
    [
        ("where do we meet on fridays", True),
        ("What did Zoë say about the café?", True),
        ("wann hat Anna den Termin verschoben", False),
        ("was will er von uns", False),
        ("où est la clé du garage", False),
        ("¿cuándo es la reunión?", False),
        ("waar is de sleutel van het huis", False),
        ("会議はいつですか", False),
        ("когда встреча", False),
        ("متى الاجتماع", False),
        ("Lieferadresse", False),
    ],
)
def test_the_better_embedder_is_suggested_for_english_only(
    query: str, is_english: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.cli.output.find_spec", lambda name: None)
    empty = SearchAnswer((), reason="no_match", action="Nothing.", provider="offline")
    assert (MINILM_REMEDY in add_remedy(empty, query).action) == is_english


@pytest.mark.parametrize(
    ("error", "command", "hint"),
    [
        (ConfigError("x", hint="Fix the file."), "search", "Fix the file. Run `mdrecall config check`"),
        (ConfigError("x", hint="Fix the file."), "config", "Fix the file."),
        (FileMissing("x", path="sessions/a.jsonl"), "sessions", "Run `mdrecall sessions list`"),
        (FileMissing("x", path="a.md"), "get", ""),
        (KeyRefused("x"), "index", "Run `mdrecall config providers`"),
        (KeyRefused("x"), "config providers", ""),
        (RecallError("x", hint="Do it."), "search", "Do it."),
    ],
)
def test_an_error_gets_the_remedy_of_its_class_where_the_command_is_not_the_remedy(
    error: RecallError, command: str, hint: str
) -> None:
    said = hint_for(error, options(command))
    assert said.startswith(hint)
    assert bool(said) == bool(hint)


def test_an_option_is_named_only_where_the_command_has_it(workspace: Workspace, run: Run) -> None:
    assert "--workspace" in run("status", "--workspace", "/no/where").err
    assert "--workspace" not in run("demo", "--into", str(workspace.path)).err


def test_every_class_in_the_table_is_an_error_of_ours() -> None:
    for error, *_ in _BY_ERROR:
        assert getattr(errors, error.__name__) is error
