"""Scripts for models: from the results of the tool calls so far to the next call or the answer."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from examples.setting import QUESTION


class Call(NamedTuple):
    """A tool call as a model makes it; its arguments may be a text that is not JSON, as a model's sometimes are."""

    name: str
    arguments: dict[str, Any] | str

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


Script: TypeAlias = Callable[[Sequence[str]], Call | str]


def look_it_up(results: Sequence[str]) -> Call | str:
    """Search, read the lines of the first result, and answer with them."""
    if not results:
        return Call("memory_search", {"query": QUESTION})
    if len(results) == 1:
        first = json.loads(results[0])["results"][0]
        return Call("memory_get", {"path": first["path"], "from": first["matchStartLine"], "lines": 2})
    page = json.loads(results[1])
    return f"{page['text']}\n\nSource: {page['path']}#L{page['from']}"


def then_quote(call: Call) -> Script:
    """Make one call, and answer with its result word for word."""
    return lambda results: results[0] if results else call
