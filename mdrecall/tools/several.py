"""``memory_search`` over several memories, on behalf of one conversation."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mdrecall.config.settings import Settings
from mdrecall.errors import MemoryDisabled, RecallError
from mdrecall.memory import Memory
from mdrecall.several import Found, merge_found, search_each
from mdrecall.tools.notes import (
    SEARCH,
    MemorySearch,
    answer_failed_search,
    answer_search,
    parse_search,
    record_recalls,
)
from mdrecall.tools.toolset import ToolAnswer, Toolset
from mdrecall.types import SearchAnswer, SearchRequest


class SeveralSearch:
    """Searches each memory with the tool that the conversation has for it, so that the rules of each memory hold."""

    spec = SEARCH

    def __init__(
        self,
        names: Sequence[str],
        make_tools: Callable[[str], tuple[Memory, Toolset]],
        settings: Settings,
        session_key: str = "",
    ) -> None:
        """``make_tools`` opens a memory by its name; ``settings`` say how the answer looks."""
        self._names = names
        self._make_tools = make_tools
        self._settings = settings
        self._session_key = session_key

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        request, corpus = parse_search(arguments)
        outcomes = search_each({name: partial(self._search, name, request) for name in self._names})
        try:
            found = merge_found(outcomes, request.max_results)
        except RecallError as error:
            return answer_failed_search(error)
        record_shown(outcomes, request.query, found, self._session_key)
        return answer_search(found, corpus, self._settings, self._session_key)

    def _search(self, name: str, request: SearchRequest) -> Found:
        memory, tools = self._make_tools(name)
        for tool in tools:
            if isinstance(tool, MemorySearch):
                return Found.of(memory, tool.search(request))
        # Another plugin is in its memory slot.
        raise MemoryDisabled("This memory has no notes to search.", hint="Use its own tools.")


def record_shown(
    outcomes: Mapping[str, Found | RecallError], query: str, found: SearchAnswer, session_key: str = ""
) -> None:
    """Note for each memory which of its passages were shown, if its settings say so."""
    for name, outcome in outcomes.items():
        if isinstance(outcome, Found):
            shown = tuple(result for result in found if result.workspace == name)
            record_recalls(outcome.settings, query, found.replace(results=shown), session_key)
