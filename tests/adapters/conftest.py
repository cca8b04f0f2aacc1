"""A memory to give to frameworks, and a tool as a plugin would bring it."""

import threading
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from examples.setting import sample_memory
from mdrecall.memory import Memory
from mdrecall.tools.toolset import ToolAnswer, Toolset, ToolSpec, answer

NOTE = "- Decided: put PgBouncer in front, transaction pooling, at most 20 server connections."
SCHEMA = {
    "type": "object",
    "properties": {
        "from": {"type": "integer", "description": "A name that is a word of Python's."},
        "name": {"type": "string", "enum": ["a", "b"]},
        "input": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
    },
    "required": ["from"],
}


def skip_without(package: str, extra: str) -> None:
    """Skip a test whose framework is not installed."""
    try:
        is_installed = find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is a part of
        is_installed = False
    if not is_installed:
        pytest.skip(f"needs {package}: pip install -e '.[{extra}]'")


class Echo:
    """Says what it was given and on which thread, and fails when told to."""

    spec = ToolSpec("echo", "Says what it got.", SCHEMA)

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        if arguments.get("name") == "b":
            raise ZeroDivisionError("a bug of a plugin")
        is_elsewhere = threading.current_thread() is not threading.main_thread()
        return answer({"got": dict(arguments), "isElsewhere": is_elsewhere})


@pytest.fixture(scope="module", autouse=True)
def frameworks_leave_nothing(no_event_loop_left: None) -> None:
    """Some frameworks make an event loop of their own and do not close it."""


@pytest.fixture
def memory() -> Iterator[Memory]:
    with sample_memory() as memory:
        yield memory


@pytest.fixture
def plugin() -> Toolset:
    return Toolset([Echo()])
