"""Asking qmd a question: by the quickest way that works, within one deadline.

By words, the question becomes several word lists (``core.keywords``), which are asked at once; by meaning or by both,
it is asked as it is. A server that stays is asked first, where there is one; if it cannot be, the program is run.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from mdrecall.errors import BackendUnavailable, ProgramFailed, ProgramStopped, ProgramTimedOut, message_with_hint
from mdrecall.qmd.capabilities import Capabilities
from mdrecall.qmd.hits import RawHit, parse_answer, parse_output
from mdrecall.qmd.keyword_lists import build_word_lists, extract_keywords
from mdrecall.qmd.parallel import all_of
from mdrecall.qmd.process import CommandRunner
from mdrecall.qmd.tool_client import Mode, Request, ToolClient, build_requests
from mdrecall.types import Issue

#: So many files are asked for by words: which of them are the best is seen when they are read.
POOL = 40
_LISTS_PER_CALL = 10
_MOST_SINGLE_LISTS = 4
#: The share of the time that a server is given, so that there is some left for the program if it does not answer.
_SERVERS_SHARE = 0.6
_ANY_VECTOR = "0.01"
_NO_COLLECTION = re.compile(r"^Collection not found: (?P<name>\S+)", re.MULTILINE)
_NOT_UNDERSTOOD = re.compile(
    r"unknown (?:flag|option|command)|unrecognized (?:option|command)|flag provided but not defined"
    r"|unexpected argument",
    re.IGNORECASE,
)
_TYPED = re.compile(r"^(lex|vec|hyde|intent|expand):", re.IGNORECASE)
_DASH = re.compile(r'(?<!\S)-+(?=[\w"])')

Way = Literal["server", "program"]


class SearchHits(NamedTuple):
    """What qmd has found, the best first, each file once."""

    hits: tuple[RawHit, ...]
    mode: Mode
    """How it was searched in the end."""
    way: Way
    issues: tuple[Issue, ...] = ()


class _Question(NamedTuple):
    mode: Mode
    text: str
    """On one line, and nothing that qmd would take for a command of its query language."""
    lists: tuple[str, ...]
    limit: int
    names: tuple[str, ...]
    deadline: float

    def left_s(self, share: float = 1.0) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ProgramTimedOut("qmd did not answer in time.", hint="Raise memory.qmd.limits.timeoutMs.")
        return left * share


class QmdSearch:
    """Searches the collections of one qmd."""

    def __init__(
        self,
        program: CommandRunner,
        *,
        capabilities: Callable[[float], Capabilities],
        names: Sequence[str],
        ensure: Callable[[], object],
        server: ToolClient | None = None,
    ) -> None:
        """``capabilities`` tells within some seconds what the program can do; ``ensure`` binds lost collections."""
        self._program = program
        self._capabilities = capabilities
        self._names = tuple(names)
        self._ensure = ensure
        self._server = server

    def search(
        self, question: str, mode: Mode, *, limit: int, within_s: float, names: Sequence[str] | None = None
    ) -> SearchHits:
        """What is found within so many seconds, in all collections or in some; raises ``BackendUnavailable``."""
        asked = _Question(
            mode,
            _TYPED.sub(r"\1 ", _DASH.sub("", " ".join(question.split()))),
            tuple(build_word_lists(extract_keywords(question))),
            POOL if mode == "search" else limit,
            self._names if names is None else tuple(names),
            time.monotonic() + within_s,
        )
        if not asked.names or (mode == "search" and not asked.lists):
            return SearchHits((), mode, "program")
        if self._server is not None:
            try:
                found = self._by_server(asked, self._server)
            except ProgramStopped:
                raise
            except BackendUnavailable as error:
                # Without time for another way this raises, and is as true as what went wrong here.
                asked.left_s()
                return self._by_program(asked)._replace(
                    issues=(Issue("qmd mcp", f"was not used: {message_with_hint(error)}"),)
                )
            if found is not None:
                return found
        return self._by_program(asked)

    def _by_server(self, asked: _Question, server: ToolClient) -> SearchHits | None:
        """None if the server has no tool that answers this well."""
        share = _SERVERS_SHARE if asked.mode == "search" else 1.0
        until = time.monotonic() + asked.left_s(share)
        tools = server.tools(max(0.0, until - time.monotonic()))
        first = asked.lists[0] if asked.mode == "search" else asked.text
        requests = build_requests(asked.mode, first, tools, limit=asked.limit, collections=asked.names)
        if not requests:
            return None
        hits: list[RawHit] = []
        for tool, arguments in _with_lists(requests, asked):
            answer = server.call(tool, arguments, timeout_s=max(0.01, until - time.monotonic()))
            hits += parse_answer(answer)
        return SearchHits(_merged(hits), asked.mode, "server")

    def _by_program(self, asked: _Question) -> SearchHits:
        able = self._capabilities(asked.left_s())
        try:
            return self._run(asked, able)
        except ProgramFailed as error:
            if _NO_COLLECTION.search(error.output):
                return self._with_collections_mended(asked, able)
            if asked.mode == "query" or not _NOT_UNDERSTOOD.search(error.output):
                raise
            # A version without this command: what it has of old, or the one that all have.
            if asked.mode == "search" and able.no_rerank:
                return self._run(asked, able._replace(no_rerank=False))
            return self._run(asked._replace(mode="query"), able)

    def _with_collections_mended(self, asked: _Question, able: Capabilities) -> SearchHits:
        """Bind what is not bound; a collection that is still missing then is told, and the others are searched."""
        self._ensure()
        issues: list[Issue] = []
        while True:
            try:
                found = self._run(asked, able)
                return found._replace(issues=(*found.issues, *issues))
            except ProgramFailed as error:
                missing = _NO_COLLECTION.search(error.output)
                names = tuple(name for name in asked.names if missing and name != missing["name"])
                if not missing or not names or names == asked.names:
                    raise
                issues.append(Issue(missing["name"], "is not among qmd's collections, and was not searched"))
                asked = asked._replace(names=names)

    def _run(self, asked: _Question, able: Capabilities) -> SearchHits:
        if able.many_collections or len(asked.names) == 1:
            return SearchHits(_merged(self._run_in(asked.names, asked, able)), asked.mode, "program")
        calls = [lambda name=name: self._run_in((name,), asked, able) for name in asked.names]
        hits: list[RawHit] = []
        errors: list[BackendUnavailable] = []
        issues: list[Issue] = []
        for name, outcome in zip(asked.names, all_of(calls), strict=True):
            if isinstance(outcome, BackendUnavailable):
                errors.append(outcome)
                issues.append(Issue(name, f"was not searched: {message_with_hint(outcome)}"))
            else:
                hits += outcome
        if len(errors) == len(asked.names):
            raise errors[0]
        return SearchHits(_merged(hits), asked.mode, "program", tuple(issues))

    def _run_in(self, names: Sequence[str], asked: _Question, able: Capabilities) -> tuple[RawHit, ...]:
        if asked.mode != "search":
            floor = ["--min-score", _ANY_VECTOR] if asked.mode == "vsearch" else []
            return self._ask([asked.mode, "--json", *floor], asked.text, names, asked)
        if able.no_rerank:
            lines = "\n".join(f"lex: {words}" for words in asked.lists)
            return self._ask(["query", "--json", "--no-rerank"], lines, names, asked)
        hits = self._ask(["search", "--json"], asked.lists[0], names, asked)
        if hits or len(asked.lists) == 1:
            return hits
        single = sorted(asked.lists[1:], key=lambda words: (words.count(" "), -len(words)))[:_MOST_SINGLE_LISTS]
        calls = [lambda words=words: self._ask(["search", "--json"], words, names, asked) for words in single]
        outcomes = all_of(calls)
        return tuple(hit for outcome in outcomes if not isinstance(outcome, BackendUnavailable) for hit in outcome)

    def _ask(self, command: list[str], text: str, names: Sequence[str], asked: _Question) -> tuple[RawHit, ...]:
        """Options stand before ``--``, so that nothing in the question is taken for one."""
        chosen = [word for name in names for word in ("-c", name)]
        output = self._program.run([*command, "-n", str(asked.limit), *chosen, "--", text], timeout_s=asked.left_s())
        hits = parse_output(output.stdout, output.stderr)
        return tuple(hit if hit.collection or len(names) > 1 else hit._replace(collection=names[0]) for hit in hits)


def _with_lists(requests: Iterable[Request], asked: _Question) -> list[Request]:
    """The requests for a search by words, with all its lists in them, as many at once as qmd takes."""
    if asked.mode != "search":
        return list(requests)
    all_requests: list[Request] = []
    for tool, arguments in requests:
        if "searches" not in arguments:
            all_requests.append((tool, arguments))
            continue
        for at in range(0, len(asked.lists), _LISTS_PER_CALL):
            searches = [{"type": "lex", "query": words} for words in asked.lists[at : at + _LISTS_PER_CALL]]
            all_requests.append((tool, {**arguments, "searches": searches}))
    return all_requests


def _merged(hits: Iterable[RawHit]) -> tuple[RawHit, ...]:
    """Each file once, with its best score; files with the same text stay two."""
    best: dict[tuple[str, str], RawHit] = {}
    for hit in hits:
        key = (hit.collection, hit.path or f"#{hit.docid}")
        if key not in best or hit.score > best[key].score:
            best[key] = hit
    return tuple(sorted(best.values(), key=lambda hit: -hit.score))
