"""The remedies of the command line: its own options and commands, and only those that the command has."""

import argparse
import re
from typing import get_args

import pytest

from mdrecall.cli.main import COMMANDS, PARTS, build_parser
from mdrecall.cli.output import _BY_ERROR, REMEDY_BY_REASON, add_remedy, hint_for
from mdrecall.errors import ConfigError, FileMissing, KeyRefused, RecallError
from mdrecall.types.search import Reason, SearchAnswer
from tests.cli.conftest import Run
from tests.conftest import Workspace


def options(command: str, **more: object) -> argparse.Namespace:
    return argparse.Namespace(command=command, **more)


def test_every_reason_has_an_entry() -> None:
    assert set(REMEDY_BY_REASON) == set(get_args(Reason))


@pytest.mark.parametrize("text", [*REMEDY_BY_REASON.values(), *(remedy for _, remedy, *_ in _BY_ERROR)])
def test_a_remedy_names_only_commands_and_options_that_there_are(text: str) -> None:
    words = {
        name: {option for action in build_parser(name).arguments for option in action.option_strings}
        for name in (*COMMANDS, *PARTS)
    }
    for command, rest in re.findall(r"`mdrecall (\w+)([^`]*)`", text):
        assert set(re.findall(r"--[\w-]+", rest)) <= words[command]
    assert set(re.findall(r"--[\w-]+", text)) <= {word for entries in words.values() for word in entries}


def test_a_remedy_follows_what_the_answer_says_itself() -> None:
    answer = SearchAnswer((), reason="below_min_score", action="The best match has a score of 0.2.")
    assert add_remedy(answer).action == "The best match has a score of 0.2. To see every match, add --min-score 0."
    assert add_remedy(SearchAnswer((), reason="no_searchable_words", action="No words.")).action == "No words."


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
