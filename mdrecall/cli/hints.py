"""Remedies in the words of the command line, added to what the parts below the doors say.

Those parts name no flag and no command, because a Python program or a model may read their messages as well. This
table has the command-line words, keyed by the ``reason`` of an empty answer and by the class of an error.
"""

import argparse
from importlib.util import find_spec

from mdrecall.errors import (
    ConfigError,
    CorruptIndex,
    EmbedderError,
    FileMissing,
    NothingToWrite,
    PathOutside,
    PluginError,
    RecallError,
    TranscriptRefused,
    WorkspaceError,
)
from mdrecall.named_tuple import NamedTuple
from mdrecall.types import Reason, SearchAnswer

REMEDY_BY_REASON: dict[Reason, str] = {
    "": "",
    "no_match": "Run `mdrecall status` to see what is indexed.",
    "below_min_score": "To see every match, add --min-score 0.",
    "index_empty": "To search another folder, add --workspace. To index the notes now, run `mdrecall index`.",
    "no_searchable_words": "",
    "scope_denied": "Run `mdrecall config show` to see the scope, memory.qmd.scope.",
}
MINILM_REMEDY = "To find more of what is said in other words, run `mdrecall providers --download minilm` (91 MB)."
STALE_REMEDY = "Run `mdrecall index` to update the index."


class _Remedy(NamedTuple):
    """What to do about an error of a class."""

    error: type[RecallError]
    text: str
    option: str = ""
    """The option that the text names: a command without it does not get the remedy."""
    only_for: tuple[str, ...] = ()
    not_for: tuple[str, ...] = ()
    """Commands that are the remedy themselves."""


SHOW_SESSION = "Run `mdrecall sessions show` with its name."
_LIST_SESSIONS = "Run `mdrecall sessions list` to see the sessions."
#: The first that fits is taken.
_BY_ERROR = (
    _Remedy(ConfigError, "Run `mdrecall config check` to check the whole configuration.", not_for=("config",)),
    _Remedy(WorkspaceError, "Use --workspace to choose one.", option="workspace"),
    _Remedy(NothingToWrite, "For example: mdrecall note Ana prefers tea", only_for=("note",)),
    _Remedy(FileMissing, _LIST_SESSIONS, only_for=("sessions",)),
    _Remedy(PathOutside, _LIST_SESSIONS, only_for=("sessions",)),
    _Remedy(TranscriptRefused, SHOW_SESSION, only_for=("get",)),
    _Remedy(CorruptIndex, "Run `mdrecall index --force` to rebuild the index from the notes."),
    _Remedy(EmbedderError, "Run `mdrecall providers` to see which providers can be used.", not_for=("providers",)),
    _Remedy(PluginError, "Run `mdrecall doctor` to check the plugin."),
)


def add_remedy(answer: SearchAnswer, query: str = "") -> SearchAnswer:
    """Return the answer with the command-line remedy at the end of its ``action``."""
    remedies = (REMEDY_BY_REASON[answer.reason], suggest_minilm(answer, query) if answer.reason else "")
    return answer.replace(action=" ".join(filter(None, (answer.action, *remedies))))


def suggest_minilm(answer: SearchAnswer, query: str) -> str:
    """Return how to install the better embedder if the offline table alone has found nothing that fits; else empty.

    It reads English only, so the query has to be in English.
    """
    is_weak = answer.reason in ("no_match", "below_min_score") or (bool(answer.results) and answer.confidence == "low")
    if not is_weak or answer.provider != "offline" or answer.degraded or find_spec("onnxruntime"):
        return ""
    from mdrecall.core.text.words import is_english, surface_words, tokens

    words = {word for token in tokens(query) for word in surface_words(token)}
    return MINILM_REMEDY if is_english(words) else ""


def hint_for(error: RecallError, options: argparse.Namespace) -> str:
    """Return the hint of an error with its command-line remedy."""
    for remedy in _BY_ERROR:
        if isinstance(error, remedy.error) and _fits(remedy, options):
            return f"{error.hint} {remedy.text}".strip()
    return error.hint


def _fits(remedy: _Remedy, options: argparse.Namespace) -> bool:
    if remedy.option and not hasattr(options, remedy.option):
        return False
    if options.command in remedy.not_for:
        return False
    return not remedy.only_for or options.command in remedy.only_for
