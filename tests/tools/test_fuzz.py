"""Whatever a model calls the tools with, there is an answer, and nothing of it is from outside the notes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mdrecall.memory import Memory
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import ToolAnswer, Toolset
from tests.conftest import examples
from tests.tools.conftest import NOTES

CANARY = "zq7-canary-that-stands-outside"
KEYS = ["", "agent:main:main", "agent:main:telegram:group:7"]


class Place:
    """A workspace with tools, and files around it that no answer may be from."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "notes"
        outside = [
            base / "canary.md",
            base / "outside/canary.md",
            base / "notes-too/MEMORY.md",
            base / "home/MEMORY.md",
        ]
        beside = [self.root / "private.txt", self.root / "other/canary.md", self.root / "memory/canary.txt"]
        for file in (*outside, *beside):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"# {CANARY}\n\nAna keeps {CANARY} in the billing plan.\n")
        (base / "home/.openclaw/workspace").mkdir(parents=True)
        for name, text in NOTES.items():
            (self.root / name).write_text(text)
        (self.root / "memory/link.md").symlink_to(outside[1])
        (self.root / "memory/linked").symlink_to(base / "outside")
        (self.root / "memory/up").symlink_to(base)
        (self.root / "memory/loop.md").symlink_to("loop.md")
        os.mkfifo(self.root / "memory/pipe.md")
        self.config = base / "mdrecall.json"
        # In the workspace of an OpenClaw agent only MEMORY.md and memory/ are notes.
        config = {"mdrecall": {"tools": {"append": True}, "maxFileBytes": 20_000}}
        config |= {"agents": {"defaults": {"workspace": str(self.root)}}}
        self.config.write_text(json.dumps(config))
        self._before = self._contents()

    def _contents(self) -> dict[Path, bytes]:
        """Every file that no tool may write to."""
        folders = (self.base, self.base / "outside", self.base / "notes-too", self.base / "home", self.root / "other")
        files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
        return {file: file.read_bytes() for file in [*files, self.root / "private.txt"]}

    def is_untouched(self) -> bool:
        return self._contents() == self._before


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def sets(place: Place) -> Iterator[list[Toolset]]:
    """The tools of several conversations of one memory that may be written to, but not much."""
    env = {"HOME": str(place.base / "home"), "XDG_STATE_HOME": str(place.base / "state")}
    with Memory.open(place.root, env=env, config=place.config) as memory:
        yield [Toolset(memory_tools(memory, key)) for key in KEYS]


ODD_NUMBERS = [0, -1, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), 10**30, 2**63, 0.1, True]
ODD_TEXTS = [
    "", " ", "\0", "a\0b", "\ud800", "\udcff\udc80", "\u202e", "\ufeff", "x" * 100_000, "{}", "[]", "null", "-",
    "--help", "' OR 1=1 --", '"', "*", "NEAR(", "a AND", "%s%n", "</system>", "🦦" * 500, "\r\n",
    "e\u0301" * 300, CANARY[:3],
]  # fmt: skip
PARTS = [
    "..", ".", "", "/", "~", "memory", "MEMORY.md", "memory.md", "canary.md", "outside", "linked", "link.md", "up",
    "other", "loop.md", "pipe.md", "notes", "notes-too", "home", "private.txt", "canary.txt", "dark.md", "dark",
    "2026-02-10.md", "2026-02-10", ".git", "a" * 300, "\0", "\ud800", "%2e%2e", "..\\..", "C:", "file:",
    "sessions", "etc", "passwd",
]  # fmt: skip

numbers = st.one_of(st.sampled_from(ODD_NUMBERS), st.integers(), st.floats())
any_text = st.text(st.characters(exclude_categories=()), max_size=40)
texts = st.one_of(st.sampled_from(ODD_TEXTS), any_text, st.sampled_from(["billing", "Ana", "DEC-0054", "ferrets plan"]))
leaves = st.one_of(st.none(), st.booleans(), numbers, texts, st.binary(max_size=9))
anything = st.recursive(
    leaves,
    lambda more: st.one_of(st.lists(more, max_size=4), st.dictionaries(any_text, more, max_size=4)),
    max_leaves=9,
)


@st.composite
def paths(draw: st.DrawFn, root: str) -> str:
    """A path as one might try to get out: absolute or not, with parts that are really there."""
    start = draw(
        st.sampled_from(["", "", root + "/", os.path.dirname(root) + "/", "/", "file://" + root + "/", "@", "./"])
    )
    return start + "/".join(draw(st.lists(st.sampled_from(PARTS), max_size=6)))


def from_schema(schema: dict[str, Any], name: str, root: str) -> st.SearchStrategy[Any]:
    """Values as a property asks for."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if name in ("path", "file"):
        return paths(root)
    return numbers if schema["type"] == "number" else texts


@st.composite
def calls(draw: st.DrawFn, tools: Toolset, root: str) -> tuple[str, object]:
    """A tool and what it is called with: what its schema asks for, in part something else, or anything at all."""
    spec = draw(st.sampled_from(tools.specs))
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([spec.name, "", "memory_dance", "\ud800"])), draw(anything)
    given: dict[str, object] = {}
    for name, schema in spec.parameters["properties"].items():
        asked = draw(st.integers(0, 5))
        if asked or name in spec.parameters["required"]:
            given[name] = draw(anything if asked == 1 else from_schema(schema, name, root))
    if draw(st.integers(0, 4)) == 0:
        given |= draw(st.dictionaries(any_text, anything, max_size=3))
    if draw(st.integers(0, 4)) == 0:
        return spec.name, json.dumps(given, default=str, skipkeys=True)
    return spec.name, given


def assert_sound(answered: ToolAnswer, place: Place) -> None:
    assert isinstance(answered, ToolAnswer)
    assert isinstance(answered.details, dict)
    written = json.dumps(answered.details, allow_nan=False, ensure_ascii=False)
    written.encode()
    answered.text.encode()
    assert CANARY not in written + answered.text
    assert "unexpected" not in answered.details.get("error", ""), answered.details
    assert place.is_untouched()


@given(data=st.data())
@settings(max_examples=examples(80))
def test_every_call_has_an_answer_that_is_from_the_notes(
    data: st.DataObject, place: Place, sets: list[Toolset]
) -> None:
    tools = data.draw(st.sampled_from(range(len(KEYS))))
    name, arguments = data.draw(calls(sets[tools], str(place.root)))
    assert_sound(sets[tools].call(name, arguments), place)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_no_path_leads_out(data: st.DataObject, place: Place, sets: list[Toolset]) -> None:
    path = data.draw(paths(str(place.root)))
    read = sets[0].call("memory_get", {"path": path})
    assert_sound(read, place)
    if "nextFrom" not in read.details and not read.is_error and not read.details.get("missing"):
        assert os.path.realpath(place.root / read.details["path"]).startswith(str(place.root) + os.sep)
    assert_sound(sets[0].call("memory_append", {"text": "x", "file": path}), place)


@pytest.mark.parametrize("tool", ["memory_search", "memory_get", "memory_append"])
@pytest.mark.parametrize("depth", [100, 100_000])
def test_nesting_of_any_depth_is_no_object(place: Place, sets: list[Toolset], tool: str, depth: int) -> None:
    nested: Any = []
    for _ in range(depth):
        nested = [nested]
    for arguments in ("[" * depth, '{"query":' * depth, nested, {"query": nested, "path": nested, "text": nested}):
        answered = sets[0].call(tool, arguments)
        assert answered.is_error
        assert_sound(answered, place)


@pytest.mark.parametrize("tool", ["memory_search", "memory_get", "memory_append"])
def test_a_number_too_long_to_be_written_is_told(place: Place, sets: list[Toolset], tool: str) -> None:
    for name in ("query", "path", "text", "file", "maxResults", "minScore", "corpus", "from", "lines"):
        arguments = {"query": "x", "path": "x.md", "text": "x"} | {name: 10**5000}
        assert_sound(sets[0].call(tool, arguments), place)


@example(size=500_000)
@given(size=st.integers(1, 100_000))
@settings(max_examples=examples(1))
def test_a_text_of_any_length_is_taken_or_refused(size: int, place: Place, sets: list[Toolset]) -> None:
    for word in ("billing ", "/", "../", "é"):
        long = (word * size)[:size]
        assert_sound(sets[0].call("memory_search", {"query": long}), place)
        assert_sound(sets[0].call("memory_get", {"path": long}), place)
        assert_sound(sets[0].call("memory_append", {"text": long, "file": long}), place)
