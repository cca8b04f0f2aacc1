"""``mdrecall search``: search notes and past conversations, or the sample notes."""

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from mdrecall.cli import output
from mdrecall.cli.options import CommandParser, add_common, open_memory
from mdrecall.errors import QueryError, WorkspaceError
from mdrecall.types.search import MODES, SearchAnswer, SearchRequest, SearchResult

if TYPE_CHECKING:
    from collections.abc import Set

    from mdrecall.mcp_server.memories import ServedMemory

#: Lines of a terminal that an answer fills unless a number of results is asked for: one screen, and half of it if even
#: the best result is in doubt.
_MAX_LINES = 40
_CONFIDENCE_STYLES = {"high": ("green",), "medium": ("yellow",), "low": ("dim",)}


#: The options that are fields of the request, whose names they have.
_FIELDS = (
    "max_results", "min_score", "mode", "explain", "source", "since", "until", "tags", "paths", "collections",
    "projects", "session_key",
)  # fmt: skip


def add_search(parser: CommandParser) -> None:
    value, repeated = parser.value, {"action": "append"}
    value("words", "QUERY", "a question, some words, or an identifier", nargs="*")
    value("--query", "TEXT", "the query; repeat it to ask in other words too", **repeated)
    value("-n --max-results --limit", "N", "print N results")
    value("--min-score", "S", "leave out results with a score below S")
    value("--mode", "", "search by keywords, by meaning (vector), or both", choices=MODES)
    value("--source", "", "only notes, or only transcripts", choices=("memory", "sessions"))
    value("--since", "DAY", 'only notes of this day or later: 2026-03-01, "last week", "3 days ago"')
    value("--until", "DAY", "only notes of this day or earlier")
    value("--session-key", "KEY", "search as this conversation", default="")
    value("--tag", "TAG", "only notes with this tag or one below it; repeatable", dest="tags", **repeated)
    value("--path", "PATH", "only this file, folder or glob; repeatable", dest="paths", **repeated)
    value("--collection", "NAME", "only this collection; repeatable", dest="collections", **repeated)
    value("--project", "KEY", "leave out entries of other projects; repeatable", dest="projects", **repeated)
    parser.flag("--explain", "show what each score is made of")
    parser.flag("--demo", "ask three questions about sample notes")
    value("--into", "DIR", "with --demo: copy the sample notes to this new folder")
    add_common(parser, several=True, warm=True)


def run_search(options: argparse.Namespace) -> int:
    if options.demo or options.into:
        return _show_demo(options)
    query, *more = options.query or [" ".join(options.words)]
    if not query.strip():
        raise QueryError("The query is empty.", hint='Say what to search for: mdrecall search "team pricing"')
    given = {name: value for name in _FIELDS if (value := getattr(options, name)) is not None}
    workspaces = options.workspaces or [None]
    options.workspace = workspaces[0]
    search = _search_several if options.all_agents or len(workspaces) > 1 else _search
    with output.progress_line("Indexing") as progress:
        asked = SearchRequest(query, queries=more, progress=progress, **given)
        answer = search(options, asked)
    answer = output.add_remedy(answer)
    if options.json:
        from mdrecall.wire import answer_to_json

        output.print_json(answer_to_json(answer))
    else:
        print_answer(answer, query, is_short=asked.stops and not asked.explain)
    return 0 if answer.results else 1


def _search(options: argparse.Namespace, asked: SearchRequest) -> SearchAnswer:
    with open_memory(options) as memory:
        answer = memory.search(**asked._asdict())
    if memory.settings.mdrecall.recalls.record:
        from mdrecall.life.recalls import record_answer

        record_answer(memory.settings, asked.query, answer)
    return answer


def _search_several(options: argparse.Namespace, asked: SearchRequest) -> SearchAnswer:
    """Search the memories of all agents, or of several folders; one that fails does not stop the others."""
    if options.caller.open:
        # The process that is asked has one of them open, and its own folder; the command does the work itself.
        raise SystemExit(2)
    from mdrecall.mcp_server.memories import Selection, select_memories
    from mdrecall.memory import Memory
    from mdrecall.several import Found, merge_found, search_each
    from mdrecall.tools.notes import record_shown

    agents = (options.agent,) if options.agent else ()
    selection = Selection(tuple(options.workspaces or ()), agents, options.all_agents, options.config)

    def search(served: "ServedMemory") -> Found:
        with Memory.of(served.loaded, one_shot=True) as memory:
            return memory, memory.search(**asked._asdict())

    served = select_memories(selection, options.caller.env)
    outcomes = search_each({each.name: partial(search, each) for each in served})
    answer = merge_found(outcomes, asked)
    record_shown(outcomes, asked.query, answer)
    return answer


def print_answer(answer: SearchAnswer, query: str, *, is_short: bool = True) -> None:
    """Print the results, each with its citation and the lines that match; notices go to standard error.

    A short answer has as many as fit, and counts the others.
    """
    from mdrecall.search.query import find_stems

    shown: list[str] = []
    left = _MAX_LINES // (2 if answer.caution else 1)
    for result in answer:
        text = _format_result(result, find_stems(result.query or query), around=0 if shown else 1)
        left -= 1 + output.count_rows(text)
        if left < 0 and shown and is_short:
            break
        shown.append(text)
    answer = answer.keep(answer.results[: len(shown)])
    print("\n\n".join(shown), end="\n" if shown else "")
    output.print_issues(answer.issues)
    instead = answer.answered_for
    notices = (
        (f"Answered by {answer.backend} instead of {instead.backend}" if instead else "", instead and instead.reason),
        ("Results may be out of date", answer.stale and f"{answer.stale.rstrip('.')}. {output.STALE_REMEDY}"),
        ("Searched by keywords only", answer.degraded),
        (f"Used the embeddings of {answer.provider} instead", answer.fallback),
        ("Not reranked", answer.not_reranked),
    )
    texts = [f"{notice}: {output.printable(reason.rstrip('.'))}." for notice, reason in notices if reason]
    texts += [answer.caution, answer.withheld]
    if answer.weaker:
        texts.append(f"{output.plural(answer.weaker, 'weaker result')}; -n {len(answer) + answer.weaker} shows more")
    for memory in answer.memories:
        if memory.error:
            output.print_warning(f"{memory.workspace} could not be searched: {memory.error} {memory.action}".rstrip())
    if not answer.results:
        texts.append(output.printable(answer.action) or f"No results ({answer.reason}).")
    for text in filter(None, texts):
        print(text, file=sys.stderr)


def _format_result(result: SearchResult, stems: "Set[str]", *, around: int) -> str:
    """Return the headline of a result, its lines with the words of the query, and why it was found."""
    from mdrecall.search.results import find_lines

    lines = [_format_headline(result)]
    lines += ["    " + output.printable(line) for line, _ in find_lines(result, stems, around) if line]
    if result.why:
        sentences = "\n    ".join(sentence for *_, sentence in result.why if sentence)
        lines += [output.style(line, "dim") for line in f"    why: {sentences}".split("\n")]
    return "\n".join(lines)


def _format_headline(result: SearchResult) -> str:
    # What the lines below and the path do not say themselves.
    speaker = "" if result.speaker in result.snippet else result.speaker
    more = ", ".join(filter(None, (speaker, "" if result.date in result.path else result.date)))
    marks = describe_marks(result)
    dim = (
        "" if result.heading in result.path else result.heading,
        f"[{more}]" if more else "",
        f"({marks})" if marks else "",
        f"scored by {result.scored_by}" if result.scored_by else "",
        f'for "{result.query}"' if result.query else "",
    )
    parts = (
        output.style(f"{result.score:.3f} {result.confidence}", *_CONFIDENCE_STYLES[result.confidence]),
        output.style(output.printable(result.workspace), "bold"),
        output.style(output.printable(result.citation), "bold", "cyan"),
        *(output.style(output.printable(part), "dim") for part in dim),
    )
    return "  ".join(filter(None, parts))


def describe_marks(result: SearchResult) -> str:
    """Return what is known about an entry besides its text: who wrote it, whether it holds, for which project."""
    replaced = f"superseded by {result.superseded_by}" if result.superseded_by else "superseded"
    parts = (
        f"by {result.origin}" if result.origin not in ("", "untrusted") else result.origin,
        replaced if result.superseded else "",
        f"was {result.was}" if result.was else "",
        f"importance {result.importance}" if result.importance else "",
        f"project {result.project}" if result.project else "",
    )
    return ", ".join(filter(None, parts))


QUESTIONS = ("What did we decide about the database connection pool?", "INC-0042", "Which cake can Tomasz eat?")


def _show_demo(options: argparse.Namespace) -> int:
    """Index the sample notes that ship with the package, and search them."""
    import tempfile

    from mdrecall.memory import Memory

    options.command = output.DEMO
    with tempfile.TemporaryDirectory(prefix="mdrecall-demo-") as home:
        workspace = _copy_sample(options.into or os.path.join(home, "workspace"))
        # With a home of its own the demo neither reads nor writes the user's configuration and index.
        env = {"HOME": home, "MDRECALL_STATE_DIR": os.path.join(home, "state")}
        with Memory.open(workspace, env=env) as memory:
            report, status = memory.sync(), memory.status()
            answers = {query: memory.search(query) for query in QUESTIONS}
    if options.json:
        from mdrecall.wire import answer_to_json

        found = [{"query": query, **answer_to_json(answer)} for query, answer in answers.items()]
        output.print_json({"workspace": workspace, "files": status.files, "chunks": status.chunks, "answers": found})
        return 0
    title = output.style("Sample workspace", "bold")
    notes, chunks = output.plural(status.files, "note"), output.plural(status.chunks, "chunk")
    print(f"{title}: {notes} indexed as {chunks}.", flush=True)
    output.print_issues(report.failed)
    for query, answer in answers.items():
        print("\n" + output.style(f'$ mdrecall search "{query}"', "bold"))
        print_answer(answer, query)
    where = workspace if options.into else "DIR"
    print("\nNow try your own notes: " + output.style(f'mdrecall search "…" --workspace {where}', "bold"))
    return 0


def _copy_sample(target: str) -> str:
    import shutil
    from importlib.resources import as_file, files

    target = os.path.abspath(os.path.expanduser(target))
    if os.path.exists(target):
        raise WorkspaceError(f"{target} already exists.", hint="Choose a folder that does not exist yet.")
    try:
        with as_file(files("mdrecall") / "sample") as sample:
            shutil.copytree(sample, target)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        # The error of a whole folder lists those of its files.
        reason = error.strerror or (error.args[0][0][2] if isinstance(error, shutil.Error) else "the copy failed")
        message = f"Cannot copy the sample notes to {target}: {reason}."
        raise WorkspaceError(message, hint="Choose another folder.") from error
    return target
