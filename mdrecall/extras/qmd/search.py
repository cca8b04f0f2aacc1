"""Runs a query in qmd by the fastest way that works, within one deadline.

For a keyword search the query becomes several word lists, because qmd requires every word of a list to match: ``what
did Ana say about the billing migration?`` would find nothing, as no note contains ``what``. The lists, searched
together, are all its significant words, all but one, and each alone. Phrases in double quotes and words with a leading
minus are part of every list. For the other modes the query is passed on whole.

A server that is running is used first. If it cannot be, the program is run.
"""

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from mdrecall import errors
from mdrecall.search.query import MAX_QUERY_CHARS
from mdrecall.text.words import find_stop_words, fold, is_unspaced, surface_words, tokens
from mdrecall.types.documents import Issue

if TYPE_CHECKING:
    from mdrecall.extras.qmd.collections import Collections
    from mdrecall.extras.qmd.mcporter import Mcporter
    from mdrecall.extras.qmd.process import Program
    from mdrecall.extras.qmd.session import Session

Mode: TypeAlias = Literal["search", "vsearch", "query"]
#: How many files a keyword search asks for. Which of them are best is known only after they have been read.
POOL = 40
# qmd accepts no more searches than this in one call.
_LISTS_PER_CALL = 10
# The server's share of the time, so that some is left to run the program if the server does not answer.
_SERVER_SHARE = 0.6
# How much of an unexpected output a message shows.
_SHOWN_CHARS = 120
# For vectors qmd treats a minimum score of 0 as absent, and then uses 0.3.
_LOWEST_VECTOR_SCORE = "0.01"
_NO_COLLECTION = re.compile(r"^Collection not found: ", re.MULTILINE)
_QUERY_PREFIX = re.compile(r"^(lex|vec|hyde|intent|expand):", re.IGNORECASE)
_LEADING_DASH = re.compile(r'(?<!\S)-+(?=[\w"])')

#: How many words of a question are searched. Each adds a list, and qmd takes ten lists per call.
MAX_KEYWORDS = 12
# Bounds the number of lists: with more words than this, those that leave out one word are omitted.
_MAX_LEAVE_ONE_OUT = 6

_QUOTED = re.compile(r'(?<!\S)(-?)"([^"]*)"')
_EXCLUDED = re.compile(r"(?<!\S)-(?=[^\W\d_])[\w'-]+")


class RawHit(NamedTuple):
    """A file that qmd found, as qmd names it."""

    collection: str
    path: str
    """Relative to the collection."""
    score: float
    line: int
    """The line that matches best, from 1."""


def extract_keywords(question: str) -> tuple[list[str], list[str], list[str]]:
    """Return what is searched of a question: its words, the quoted phrases that must match, and what must not match.

    The words are without stop words, unless there are no others, in the order they were typed.
    """
    text = question[:MAX_QUERY_CHARS]
    quoted = [(minus, " ".join(phrase.split())) for minus, phrase in _QUOTED.findall(text)]
    text = _QUOTED.sub(" ", text)
    excluded = [f'-"{phrase}"' for minus, phrase in quoted if minus and _has_words(phrase)] + _EXCLUDED.findall(text)
    phrases = [f'"{phrase}"' for minus, phrase in quoted if not minus and _has_words(phrase)]
    found = dict.fromkeys(word for token in tokens(_EXCLUDED.sub(" ", text)) for word in _split_token(token))
    stop_words = find_stop_words(map(fold, found))
    significant = [word for word in found if fold(word) not in stop_words]
    words = _limit(significant or ([] if phrases else list(found)))
    if excluded and not words and not phrases:
        return extract_keywords(text.replace("-", " "))
    return words, phrases, excluded


def build_word_lists(words: list[str], phrases: list[str], excluded: list[str]) -> list[str]:
    """Return the lists, the longest first. A list finds the notes that contain all its words."""
    groups = [words]
    if 2 < len(words) <= _MAX_LEAVE_ONE_OUT:
        groups += [[*words[:place], *words[place + 1 :]] for place in range(len(words))]
    if len(words) > 1:
        groups += [[word] for word in words]
    if phrases and words:
        groups.append([])
    return [" ".join((*phrases, *group, *excluded)) for group in groups if phrases or group]


def _has_words(phrase: str) -> bool:
    return any(char.isalnum() for char in phrase)


def _split_token(token: str) -> list[str]:
    """Return a word unchanged, an identifier as a phrase of its parts, or pairs of characters of unspaced scripts."""
    parts = surface_words(token)
    if any(is_unspaced(part[0]) for part in parts):
        return [part for part in parts if len(part) > 1 or not is_unspaced(part) or len(parts) == 1]
    if len(parts) < 2 or re.fullmatch(r"[^\W_]+(?:-[^\W_]+)+", token):
        return [token] if parts else []
    return [f'"{" ".join(parts)}"']


def _limit(words: list[str]) -> list[str]:
    """Return the longest words, which tend to be the rarest, in the order they were typed."""
    if len(words) <= MAX_KEYWORDS:
        return words
    longest = set(sorted(words, key=len, reverse=True)[:MAX_KEYWORDS])
    return [word for word in words if word in longest][:MAX_KEYWORDS]


class _Query(NamedTuple):
    mode: Mode
    text: str
    """On one line, without anything that qmd would take for its query syntax."""
    lists: tuple[str, ...]
    limit: int
    names: tuple[str, ...]
    deadline: float

    def left_s(self, share: float = 1.0) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise errors.ProgramTimedOut("qmd did not answer in time.", hint="Raise memory.qmd.limits.timeoutMs.")
        return left * share


class QmdSearch:
    """Searches the collections of one qmd."""

    def __init__(
        self, program: "Program", collections: "Collections", server: "Session | Mcporter | None" = None
    ) -> None:
        self._program = program
        self._collections = collections
        self._server = server

    def search(
        self, query: str, mode: Mode, names: Sequence[str], *, limit: int, within_s: float
    ) -> tuple[tuple[RawHit, ...], tuple[Issue, ...]]:
        """Return what is found within ``within_s`` in the named collections; raise ``BackendUnavailable``."""
        parsed = _Query(
            mode,
            _QUERY_PREFIX.sub(r"\1 ", _LEADING_DASH.sub("", " ".join(query.split()))),
            tuple(build_word_lists(*extract_keywords(query))),
            max(POOL, limit) if mode == "search" else limit,
            tuple(names),
            time.monotonic() + within_s,
        )
        if not parsed.names or (mode == "search" and not parsed.lists):
            return (), ()
        self._collections.require(parsed.left_s())
        if self._server is None:
            return self._search_program(parsed), ()
        try:
            return self._search_server(parsed, self._server), ()
        except errors.ProgramStopped:
            raise
        except errors.BackendUnavailable as error:
            # Without time for the program this raises a timeout, which is as true as the server's error.
            parsed.left_s()
            issue = Issue("qmd mcp", f"was not used: {errors.message_with_hint(error)}")
        return self._search_program(parsed), (issue,)

    def _search_server(self, query: _Query, server: "Session | Mcporter") -> tuple[RawHit, ...]:
        share = _SERVER_SHARE if query.mode == "search" else 1.0
        until = time.monotonic() + query.left_s(share)
        hits: list[RawHit] = []
        for arguments in _build_calls(query):
            hits += parse_answer(server.call("query", arguments, timeout_s=max(0.01, until - time.monotonic())))
        return _merge_hits(hits)

    def _search_program(self, query: _Query) -> tuple[RawHit, ...]:
        """Run the program; collections that qmd has lost are added, and it is run again."""
        try:
            return self._run(query)
        except errors.ProgramFailed as error:
            if not _NO_COLLECTION.search(error.output):
                raise
        self._collections.ensure()
        return self._run(query)

    def _run(self, query: _Query) -> tuple[RawHit, ...]:
        """Run the command of a mode. Options precede ``--``, so that no word of the query is taken for one."""
        command, text = [query.mode, "--json"], query.text
        if query.mode == "search":
            command, text = ["query", "--json", "--no-rerank"], "\n".join(f"lex: {words}" for words in query.lists)
        elif query.mode == "vsearch":
            command += ["--min-score", _LOWEST_VECTOR_SCORE]
        chosen = [word for name in query.names for word in ("-c", name)]
        output = self._program.run([*command, "-n", str(query.limit), *chosen, "--", text], timeout_s=query.left_s())
        return _merge_hits(parse_output(output.stdout, output.stderr))


def _build_calls(query: _Query) -> list[dict[str, Any]]:
    """Return the arguments of the calls to a server that together answer a query."""
    base: dict[str, Any] = {"limit": query.limit, "minScore": 0, "collections": list(query.names)}
    if query.mode == "query":
        return [{**base, "query": query.text}]
    kind, texts = ("lex", query.lists) if query.mode == "search" else ("vec", (query.text,))
    searches = [{"type": kind, "query": text} for text in texts]
    starts = range(0, len(searches), _LISTS_PER_CALL)
    return [{**base, "searches": searches[start : start + _LISTS_PER_CALL], "rerank": False} for start in starts]


def _merge_hits(hits: Iterable[RawHit]) -> tuple[RawHit, ...]:
    """Return each file once with its best score. Different files with the same text stay separate."""
    best: dict[tuple[str, str], RawHit] = {}
    for hit in hits:
        key = (hit.collection, hit.path)
        if key not in best or hit.score > best[key].score:
            best[key] = hit
    return tuple(sorted(best.values(), key=lambda hit: -hit.score))


def parse_output(stdout: str, stderr: str) -> tuple[RawHit, ...]:
    """Return the hits in the output of a search, whatever is logged around them; raise ``ProgramUnreadable``."""
    for start in re.finditer(r"^\[", stdout, re.MULTILINE):
        with suppress(ValueError, RecursionError):
            found, _ = json.JSONDecoder().raw_decode(stdout, start.start())
            if (hits := _parse_items(found)) or not found:
                return hits
    shown = " ".join((stdout.strip() or stderr).split())[:_SHOWN_CHARS]
    message = f"qmd did not print a list of results{f', but: {shown}' if shown else ''}."
    raise errors.ProgramUnreadable(message, hint="Check the output of `qmd search --json`.")


def parse_answer(answer: Mapping[str, Any]) -> tuple[RawHit, ...]:
    """Return the hits in the answer of qmd's server; raise ``ProgramUnreadable``."""
    items = answer.get("results")
    if not isinstance(items, list):
        raise errors.ProgramUnreadable("qmd's server did not answer with a list of results.")
    return _parse_items(items)


def _parse_items(items: list[Any]) -> tuple[RawHit, ...]:
    """Return the hits. A file is ``qmd://notes/a/b.md`` from the program, and ``notes/a/b.md`` from the server."""
    hits = []
    for item in items:
        if isinstance(item, dict) and isinstance(file := item.get("file"), str) and "/" in file:
            collection, _, path = file.removeprefix("qmd://").partition("/")
            line, score = item.get("line"), item.get("score")
            known = float(score) if isinstance(score, int | float) and math.isfinite(score) else 0.0
            hits.append(RawHit(collection, path, known, line if isinstance(line, int) else 1))
    return tuple(hits)
