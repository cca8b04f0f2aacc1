"""One search over several memories: each with its own settings and rules, all at once, and one answer."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from mdrecall.config.settings import Settings
from mdrecall.engine.background import DaemonPool
from mdrecall.errors import ArgumentError, RecallError
from mdrecall.memory import Memory, limit_results
from mdrecall.search.results import merge_memories
from mdrecall.types.search import SearchAnswer, SearchRequest, check_like

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded

#: Memories that are searched at once. Most of a search is work of this process, so more would only wait for it; these
#: keep one whose server or provider does not answer from holding up the others.
_MAX_THREADS = 8


class OpenMemory(Protocol):
    """What ``Memory`` and ``AsyncMemory`` have in common here."""

    @property
    def settings(self) -> Settings: ...

    @property
    def loaded(self) -> "Loaded | None": ...


_M = TypeVar("_M", bound=OpenMemory)
#: A memory and its answer.
Found: TypeAlias = tuple[OpenMemory, SearchAnswer]


@check_like(SearchRequest)
def search_several(memories: Sequence[Memory] | Mapping[str, Memory], query: str, **options: Any) -> SearchAnswer:
    """Return the best passages of several memories, best first, each with the name of its memory in ``workspace``.

    The options are those of ``Memory.search``. In a mapping the memories have names; else they are called after their
    agents, or if these are the same, after their folders. One that fails does not stop the others: ``memories`` of the
    answer says how each of them answered. If all fail, the error is raised.
    """
    named = name_memories(memories)

    def search(memory: Memory) -> Found:
        return memory, memory.search(query, **options)

    searches = {name: partial(search, memory) for name, memory in named.items()}
    return merge_found(search_each(searches), SearchRequest(query, **options))


def search_each(searches: Mapping[str, Callable[[], Found]]) -> dict[str, Found | RecallError]:
    """Run the searches at once, and return the answer or the error of each."""
    pool = DaemonPool("mdrecall-several", _MAX_THREADS)
    try:
        pending = {name: pool.submit(partial(copy_context().run, search)) for name, search in searches.items()}
        outcomes: dict[str, Found | RecallError] = {}
        for name, future in pending.items():
            try:
                outcomes[name] = future.result()
            except Exception as error:
                outcomes[name] = describe_failure(name, error)
        return outcomes
    finally:
        pool.release()


def describe_failure(name: str, error: BaseException) -> RecallError:
    """Return the error of one memory as its report has it; one that nobody expected is logged."""
    if isinstance(error, RecallError):
        return error
    import logging

    logging.getLogger(__name__).error("The search of %s failed.", name, exc_info=error)
    return RecallError(f"Something unexpected went wrong: {type(error).__name__}.", hint="The log says more.")


def merge_found(outcomes: Mapping[str, Found | RecallError], request: SearchRequest) -> SearchAnswer:
    """Return one answer of what ``search_each`` returns; raise if every search has failed."""
    memories = {name: each[0] for name, each in outcomes.items() if not isinstance(each, RecallError)}
    limits = [limit_results(each.settings, request) for each in memories.values()] or [(1, False)]
    answers = {name: each if isinstance(each, RecallError) else each[1] for name, each in outcomes.items()}
    places = {name: _find_place(each) for name, each in memories.items()}
    stop_for = request.query if all(stops for _, stops in limits) else ""
    return merge_memories(answers, max(limits)[0], places, stop_for)


def _find_place(memory: OpenMemory) -> str:
    """Return where a memory's notes are: its folder, or the name of its index in a shared database."""
    shared = memory.loaded.shared_store if memory.loaded else None
    return repr(shared) if shared else os.path.realpath(memory.settings.workspace)


def name_memories(memories: Sequence[_M] | Mapping[str, _M]) -> dict[str, _M]:
    """Return memories by name; raise ``ArgumentError`` if there are none, or no names that tell them apart."""
    if not memories:
        raise ArgumentError("There is no memory to search.", name="memories", hint="Give at least one.")
    if isinstance(memories, Mapping):
        return dict(memories)
    settings = [memory.settings for memory in memories]
    agents = [each.mdrecall.store.workspace.strip() or each.agent_id for each in settings]
    folders = [os.path.realpath(each.workspace) for each in settings]
    for names in agents, list(map(os.path.basename, folders)), folders:
        if len(set(names)) == len(memories):
            return dict(zip(names, memories, strict=True))
    hint = "Give each a name: a mapping from names to memories."
    raise ArgumentError("Two memories have the same agent and folder.", name="memories", hint=hint)
