"""The rules of the house, held by tests: public names, layers, errors, file sizes, hints."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import mdrecall
from mdrecall import errors
from mdrecall.cli.main import COMMANDS

ROOT = Path(mdrecall.__file__).parent
PROJECT = ROOT.parent
DOORS = ("cli", "hosts", "ui", "tools", "mcp_server", "adapters")
COMMAND_LINE = re.compile(r"(?<![\w-])--[a-z]|`mdrecall |\bmdrecall (?:" + "|".join(COMMANDS) + r")\b")
#: What looks like a hint and is none: the origin of a value in `config show`, and commands of other programs.
NO_HINTS = {
    "config/load.py": {"--agent"},
    "config/workspace.py": {"--workspace"},
    "qmd/hits.py": {"Check the output of `qmd search --json`."},
    "qmd/process.py": {"qmd needs Node 22 or newer; `node --version` shows which one it gets."},
}


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
        assert text.count("\n") <= 700, path


def texts_below_the_doors() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        place, text = path.relative_to(ROOT), path.read_text()
        if place.parts[0] in DOORS or not COMMAND_LINE.search(text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield str(place), node.value


def is_no_hint(place: str, text: str) -> bool:
    """True for arguments of qmd and mcporter, patterns of the redactor, and the texts listed above."""
    if place.startswith("qmd/") and re.fullmatch(r"--[a-z-]+", text):
        return True
    return place == "core/redact/rules.py" or text in NO_HINTS.get(place, ())


def test_below_the_doors_no_message_names_an_option_or_a_command() -> None:
    found = [(place, text) for place, text in texts_below_the_doors() if COMMAND_LINE.search(text)]
    assert [entry for entry in found if not is_no_hint(*entry)] == []


def test_every_hint_to_install_a_package_comes_from_one_function() -> None:
    """mdrecall may come from anywhere, and run in any environment: `pip install mdrecall[…]` need not work there."""
    texts = {path.relative_to(ROOT): path.read_text() for path in ROOT.rglob("*.py")}
    found = [str(path) for path, text in texts.items() if re.search(r"pip install|mdrecall\[[a-z{](?!\w*\]``)", text)]
    assert found == []


def test_a_hint_names_the_running_python_and_the_packages_of_the_extra() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for extra, requirements in project["optional-dependencies"].items():
        command = shlex.split(errors.install_command(extra))
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        named = [re.split("[<>=;]", text)[0] for text in command[4:]]
        assert sorted(named) == sorted(re.split("[<>=;]", text)[0] for text in requirements)


def test_a_hint_can_be_run() -> None:
    # What it names is installed already, so that nothing is fetched.
    command = errors.install_command("numpy")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, "already satisfied" in done.stdout) == (0, True), done.stderr


def test_the_search_for_hints_sees_them() -> None:
    assert COMMAND_LINE.search("Lower --min-score.")
    assert COMMAND_LINE.search("; run `mdrecall index`")
    assert not COMMAND_LINE.search("mdrecall keeps its index -- here")


# Documented methods that report what has happened: a conversation was compacted, a flush is done or has failed.
EVENTS = {"compacted", "done", "failed"}
PARTICIPLES = re.compile(
    r"(?!(?:re)?embed$|feed$)[a-z]+ed|told|said|given|kept|made|shown|written|taken|known|gone|heard|held"
)


def test_functions_are_verbs_and_not_participles() -> None:
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        if all(name in EVENTS or not PARTICIPLES.fullmatch(name) for name in re.findall(r"def _*(\w+?)_*\(", text)):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name in EVENTS:
                continue
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            assert is_property or not PARTICIPLES.fullmatch(node.name.strip("_")), f"{path}: {node.name}"


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Before Python 3.11.5 such a group finds less than it should: passwords stayed in transcripts. Use ``(?>…)``."""
    found = [
        f"{path.relative_to(ROOT)}: {text[:60]}"
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(text := node.value, str)
        if re.search(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+", text)
    ]
    assert found == []
