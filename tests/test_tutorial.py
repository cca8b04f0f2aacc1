"""README and tutorial are done as they are written: pasted block by block into one fresh shell in a fresh clone.

A block of Python is saved under the name in its first line, or run if it names none. In a block of commands and output,
commands begin with ``$``. If a page says what is printed, that is compared: ``…`` in a line stands for any text, and a
line of its own for any lines.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import mdrecall

PROJECT = Path(mdrecall.__file__).parent.parent
#: Runs this suite, which cannot run itself; ``.ci/run`` runs it.
TESTS = "sh scripts/test\n"
#: Comes after the output of each step, so that the next one can be told apart.
MARK = "\x1e"


class Step(NamedTuple):
    """Lines that are pasted at once, and what they print; None if the page does not say."""

    lines: str
    printed: str | None = None


def list_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", block)
            steps.append(Step(f"{f'cat > {name[1]}' if name else 'python -'} <<'END OF FILE'\n{block}END OF FILE\n"))
        elif kind == "sh" and block != TESTS:
            steps.append(Step(block))
        elif kind == "text":
            steps[-1] = steps[-1]._replace(printed=block)
        elif kind == "console":
            parts = re.findall(r"^\$ (.*\n)((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
            steps += [Step(command, printed or None) for command, printed in parts]
    return steps


def shown(expected: str) -> re.Pattern[str]:
    """What may be printed, as a pattern."""
    lines = ["(?:.*\n)*?" if line.strip() == "…" else _line(line) for line in expected.splitlines()]
    return re.compile("".join(lines))


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody has who has cloned the repository, and nothing else of it."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(PROJECT / name, folder)
    shutil.copytree(PROJECT / "mdrecall", folder / "mdrecall", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def paste(steps: list[Step], clone: Path, home: Path) -> list[str]:
    """What each step prints in one shell that knows nothing of this environment but where packages are had from."""
    home.mkdir()
    sources = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
    cache = os.path.expanduser("~/.cache/pip")
    path = f"{os.path.dirname(os.path.realpath(sys.executable))}:/usr/bin:/bin"
    env = {"HOME": str(home), "PATH": path, "PIP_CACHE_DIR": cache, **sources}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    script = "".join(f"{step.lines}printf '{MARK}'\n" for step in steps)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e"],
        cwd=clone, env=env, input=script, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    if "No matching distribution found" in done.stderr:
        pytest.skip(f"needs an index of packages: {done.stderr}")
    # What is said beside the answer, such as that it is a weak one, is no error.
    said = ("Not sure", "Probably not in", "To find more")
    problems = [line for line in done.stderr.splitlines() if not line.startswith(said) and " weaker result" not in line]
    assert (done.returncode, problems) == (0, []), f"{done.stdout}{done.stderr}"
    return done.stdout.split(MARK)[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_a_page_pasted_into_a_fresh_shell_does_what_it_says(page: str, clone: Path, tmp_path: Path) -> None:
    steps = list_steps((PROJECT / page).read_text())
    for step, printed in zip(steps, paste(steps, clone, tmp_path / "home"), strict=True):
        if step.printed is not None:
            assert shown(step.printed).fullmatch(printed), f"said:\n{step.printed}\nprinted:\n{printed}"
    assert sum(step.printed is not None for step in steps) >= (6 if "tutorial" in page else 1)


def test_a_difference_between_what_is_said_and_what_is_printed_is_seen() -> None:
    assert shown("a … c\n…\nd\n").fullmatch("a b c\n1\n2\nd\n")
    assert not shown("a … c\n").fullmatch("a b d\n")
    assert not shown("a\n").fullmatch("a\nb\n")


def test_commands_and_their_output_are_told_apart() -> None:
    text = f"```console\n$ cd a   # b\n$ c\n1\n  2\n```\n```sh\nd\ne\n```\n```text\n3\n```\n```sh\n{TESTS}```\n"
    assert list_steps(text) == [Step("cd a   # b\n"), Step("c\n", "1\n  2\n"), Step("d\ne\n", "3\n")]


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_a_page_has_only_blocks_that_are_run_or_compared(page: str) -> None:
    kinds = re.findall(r"^```(\w+)$", (PROJECT / page).read_text(), re.MULTILINE)
    assert set(kinds) <= {"sh", "python", "text", "console"}
