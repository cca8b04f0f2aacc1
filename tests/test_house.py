"""The rules of the house, held by tests: public names, layers, errors, file sizes."""

import re
import subprocess
import sys
from pathlib import Path

import mdrecall
from mdrecall import errors

ROOT = Path(mdrecall.__file__).parent
PROJECT = ROOT.parent


def test_every_public_name_can_be_imported() -> None:
    assert mdrecall.__all__ == sorted(mdrecall.__all__)
    for name in mdrecall.__all__:
        assert getattr(mdrecall, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(mdrecall, "Manager")


def test_imports_point_down_only() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports"))]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def error_classes() -> list[type[errors.RecallError]]:
    members = vars(errors).values()
    return [member for member in members if isinstance(member, type) and issubclass(member, errors.RecallError)]


def test_the_drawn_tree_of_errors_is_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for error in error_classes():
        assert re.search(rf"\b{error.__name__}\b", drawn), error
        assert error.__doc__


def test_files_have_one_job_said_in_their_first_line_and_stay_short() -> None:
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        assert text.startswith('"""'), path
        assert text.count("\n") <= 450, path
