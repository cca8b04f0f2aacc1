"""``mdrecall search``: find notes by what they say."""

import argparse
import sys

from mdrecall.cli.options import add_common, open_memory, share, whole_number
from mdrecall.cli.output import print_issues, print_json, printable, style
from mdrecall.cli.progress import progress_line
from mdrecall.errors import QueryError
from mdrecall.types import MODES, SearchAnswer, SearchResult, Why


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="QUERY", help="a question, some words, or an identifier")
    parser.add_argument("--query", metavar="TEXT", help="the query, if it cannot stand as an argument")
    parser.add_argument("-n", "--max-results", type=whole_number, metavar="N", help="at most this many results")
    parser.add_argument("--min-score", type=share, metavar="S", help="leave out results below this score (0 to 1)")
    parser.add_argument("--mode", choices=MODES, help="by words, by meaning, or both (default: what the settings say)")
    parser.add_argument("--source", choices=("memory", "sessions"), help="only notes, or only transcripts")
    parser.add_argument("--explain", action="store_true", help="say why each result stands where it does")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    query = options.query if options.query is not None else " ".join(options.words)
    if not query.strip():
        raise QueryError("There is no query.", hint='Say what to look for: mdrecall search "team pricing"')
    with open_memory(options) as memory, progress_line("Indexing") as progress:
        answer = memory.search(
            query,
            max_results=options.max_results,
            min_score=options.min_score,
            mode=options.mode,
            explain=options.explain,
            source=options.source,
            progress=progress,
        )
    if options.json:
        from mdrecall.wire import answer_to_json

        print_json(answer_to_json(answer))
    else:
        print_answer(answer)
    return 0 if answer.results else 1


def print_answer(answer: SearchAnswer) -> None:
    """Every result with its citation and snippet, or why there is none."""
    for number, result in enumerate(answer):
        if number:
            print()
        print(_headline(result))
        print("\n".join("    " + printable(line) for line in result.snippet.strip("\n").split("\n")))
        if result.why:
            print(_explained(result.why))
    print_issues(answer.issues)
    if answer.answered_for:
        reason = printable(answer.answered_for.reason.rstrip("."))
        print(f"Answered by {answer.backend} instead of {answer.answered_for.backend}: {reason}.", file=sys.stderr)
    if answer.stale:
        print(f"May be behind the notes: {printable(answer.stale.rstrip('.'))}.", file=sys.stderr)
    if answer.degraded:
        print(f"Searched by words only: {printable(answer.degraded.rstrip('.'))}.", file=sys.stderr)
    if answer.fallback:
        print(f"Searched with {answer.provider} instead: {printable(answer.fallback.rstrip('.'))}.", file=sys.stderr)
    if not answer.results:
        print(f"Nothing found ({answer.reason}). {answer.action}", file=sys.stderr)


def _headline(result: SearchResult) -> str:
    lines = f"L{result.match_start_line}"
    if result.match_end_line != result.match_start_line:
        lines += f"-L{result.match_end_line}"
    parts = [
        style(f"{result.score:.3f}", "green"),
        style(printable(result.citation), "bold", "cyan"),
        style(f"match {lines}", "dim"),
    ]
    if result.heading:
        parts.append(style(printable(result.heading), "dim"))
    return "  ".join(parts)


def _explained(why: Why) -> str:
    verdict = "holds every rare term" if why.complete else "does not hold every rare term"
    held = ", ".join(f"{term} {weight:.0%}" for term, weight, there in why.terms if there) or "none"
    missing = ", ".join(f"{term} {weight:.0%}" for term, weight, there in why.terms if not there)
    passage = f"best passage {why.passage_coverage:.0%} of the query"
    lines = [
        f"why: {verdict}; holds {held}" + (f"; lacks {missing}" if missing else ""),
        f"words {why.keyword_score:.3f}{_place(why.keyword_rank)}: strength {why.strength:.2f}, {passage}",
    ]
    if why.vector_score is not None:
        lines.append(
            f"meaning {why.vector_score:.3f}{_place(why.vector_rank)}: cosine {why.cosine:.2f},"
            f" best window {why.window_cosine:.2f}; {why.vector_weight:.0%} of the mix"
        )
    if why.decay < 1:
        lines.append(f"age leaves {why.decay:.0%}")
    return "\n".join(style(f"    {line}", "dim") for line in lines)


def _place(rank: int | None) -> str:
    return f" (#{rank})" if rank else ""
