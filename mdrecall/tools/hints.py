"""What a model can do about an empty answer or an error, keyed by the answer's reason and by the error's class.

A model has tools and a user, but no command line and no configuration file: it can change an argument, call another
tool, or ask the user. The layers below say what happened and what helps in general; these tables add what a model can
do about it. No entry names a command-line option or a shell command.
"""

from mdrecall.errors import (
    ArgumentError,
    BackendUnavailable,
    ConfigError,
    EmbedderError,
    FileBusy,
    FileMissing,
    FileTooLarge,
    FileUnreadable,
    FileUnwritable,
    InputRefused,
    KeyRefused,
    MemoryClosed,
    MemoryDisabled,
    NothingToWrite,
    PackageMissing,
    PathRefused,
    PluginError,
    QueryError,
    RateLimited,
    ReadError,
    RecallError,
    ScopeDenied,
    StoreBusy,
    StoreError,
    TranscriptRefused,
    WorkspaceError,
    join_sentences,
)
from mdrecall.types import Reason, SearchAnswer

ADVICE_BY_REASON: dict[Reason, str] = {
    "": "",
    "no_match": "Leave out corpus and minScore to search everything, or ask in other words with queries.",
    "below_min_score": "Call memory_search again with a lower minScore, or read the closest note with memory_get.",
    "index_empty": "If it stays so, tell the user that there is nothing to search.",
    "no_searchable_words": "Call memory_search again with such a query.",
    "scope_denied": "Do not search again in this conversation; tell the user that memory is not available here.",
}
#: What to do if even the best result is probably no answer.
LOW_CONFIDENCE_ADVICE = (
    "Call memory_search again in other words, several at once with queries."
    " If nothing fits, say that memory does not tell."
)
#: The entry of the nearest base class applies to a class that has none of its own.
ADVICE_BY_ERROR: dict[type[RecallError], str] = {
    RecallError: "Tell the user what went wrong, and go on without memory.",
    # Its own hint names the argument and what it takes.
    ArgumentError: "",
    QueryError: "Call memory_search again with another query.",
    ReadError: "Call memory_search to find a path that can be read.",
    TranscriptRefused: "Call session_get with this path, or sessions_search and then sessions_history.",
    ScopeDenied: "Do not read transcripts in this conversation; tell the user that they are not available here.",
    FileMissing: "Call memory_search to find the right path.",
    FileTooLarge: "Ask the user to split the file.",
    FileUnreadable: "Tell the user that the file cannot be read.",
    PathRefused: "Call again with another file, or without file to write to today's note.",
    NothingToWrite: "Call again with a text that is not blank.",
    FileBusy: "Call again in a moment.",
    FileUnwritable: "Tell the user that nothing was saved.",
    ConfigError: "Ask the user to correct the configuration.",
    WorkspaceError: "Ask the user which folder holds the notes.",
    MemoryDisabled: "Tell the user that memory is switched off.",
    MemoryClosed: "Go on without memory: it has been shut down.",
    PackageMissing: "Ask the user to install the missing package.",
    PluginError: "Ask the user to check the memory plugin.",
    BackendUnavailable: "Call again in a moment; if it fails again, tell the user.",
    EmbedderError: "Ask the user to check the embedding provider, then search again.",
    KeyRefused: "Ask the user to check the key of the embedding provider.",
    RateLimited: "Ask the user to wait, to raise the provider's quota, or to switch to another provider.",
    InputRefused: "Call again with a shorter text.",
    StoreError: "Ask the user to check the index or to have it rebuilt, then search again.",
    StoreBusy: "Call again in a moment.",
}


def action_for_answer(answer: SearchAnswer) -> str:
    """Return what to do about an empty or weak answer; empty if there is nothing to do."""
    is_weak = bool(answer.results) and answer.confidence == "low"
    advice = LOW_CONFIDENCE_ADVICE if is_weak else ADVICE_BY_REASON[answer.reason]
    return f"{answer.action} {advice}".strip()


def action_for_error(error: RecallError) -> str:
    """Return the error's own hint followed by what a model can do about errors of its class."""
    return f"{error.hint} {advice_for(type(error))}".strip()


def message_with_action(error: RecallError) -> str:
    """Return what went wrong and what to do about it as one text."""
    return join_sentences(str(error), action_for_error(error))


def advice_for(error_class: type[RecallError]) -> str:
    """Return the table's entry for a class of errors, or for its nearest base class."""
    return next(ADVICE_BY_ERROR[each] for each in error_class.__mro__ if each in ADVICE_BY_ERROR)
