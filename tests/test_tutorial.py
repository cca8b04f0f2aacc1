"""The tutorial is done as it is written: its files are saved, its commands run in order, and what they print compared.

A block of Python is saved under the name in its first line. A block of text is what the command before it prints: ``…``
in a line stands for any text, and a line of its own for any lines. The installation is not run; the tests run in one.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import mdrecall

PROJECT = Path(mdrecall.__file__).parent.parent
TEXT = (PROJECT / "docs/tutorial.md").read_text()


class Block(NamedTuple):
    """A fenced block of the tutorial."""

    kind: str
    text: str


def blocks() -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)]


def shown(expected: str) -> re.Pattern[str]:
    """What may be printed, as a pattern."""
    lines = ["(?:.*\n)*?" if line == "…" else _line(line) for line in expected.splitlines()]
    return re.compile("".join(lines))


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"


class Reader:
    """Someone who does what the tutorial says, in a folder and a home of their own."""

    def __init__(self, home: Path) -> None:
        self.home = self.folder = home
        tools = os.path.dirname(sys.executable)
        self._env = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PATH": os.pathsep.join([tools, "/usr/bin", "/bin"]),
            "PYTHONPATH": str(PROJECT),
        }

    def save(self, code: str) -> None:
        name = code.partition("\n")[0].removeprefix("# ")
        assert name.endswith(".py"), f"no file is named in {code[:40]!r}"
        (self.folder / name).write_text(code)

    def run(self, commands: str) -> str:
        """What the commands print; the next ones go on in the folder that they end in."""
        ended_in = self.home / "ended-in"
        done = subprocess.run(
            ["sh", "-euc", f"{commands}\npwd >{ended_in}"],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{commands}\n{done.stdout}{done.stderr}"
        self.folder = Path(ended_in.read_text().strip())
        return done.stdout


def done(reader: Reader) -> Iterator[tuple[str, str]]:
    """Go through the tutorial; gives what is said to be printed, and what is."""
    printed = ""
    for block in blocks():
        if block.kind == "python":
            reader.save(block.text)
        elif block.kind == "sh":
            printed = reader.run(block.text)
        elif block.kind == "text":
            yield block.text, printed


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    compared = 0
    for expected, printed in done(Reader(tmp_path)):
        assert shown(expected).fullmatch(printed), f"said:\n{expected}\nprinted:\n{printed}"
        compared += 1
    assert compared >= 6


def test_a_difference_between_what_is_said_and_what_is_printed_is_seen() -> None:
    assert shown("a … c\n…\nd\n").fullmatch("a b c\n1\n2\nd\n")
    assert not shown("a … c\n").fullmatch("a b d\n")
    assert not shown("a\n").fullmatch("a\nb\n")


def test_the_tutorial_has_only_blocks_that_are_run_or_compared_but_for_the_installation() -> None:
    kinds = [block.kind for block in blocks()]
    assert set(kinds) == {"sh", "python", "text", "console"}
    assert kinds.count("console") == 1
