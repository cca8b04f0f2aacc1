"""Results: why each was found, answers to several queries or memories as one, and snippets within a budget."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from mdrecall.errors import QueryError, RecallError
from mdrecall.patterns import compile_later
from mdrecall.search.query import MAX_QUERIES, find_matches
from mdrecall.search.score import (
    CHUNK_SHARE,
    IDENTIFIER_BONUS,
    NEIGHBOUR_WEIGHT,
    TITLE_WEIGHT,
    Features,
    Query,
    passage_worths,
    query_cost,
)
from mdrecall.search.slots import LACKING_COST, explain_no_match
from mdrecall.search.stages import Candidate, RankingContext, Stage, find_user_factor
from mdrecall.text.markdown import cut_units, is_user, shorten, utf16_units
from mdrecall.text.words import fold, tokens
from mdrecall.types.documents import Issue, format_citation
from mdrecall.types.search import MemoryReport, Reason, SearchAnswer, SearchResult, Why

# Fewer digits would hide that the parts add up.
_DIGITS = 4
# The parts that a query takes off the worth of each of its results.
_COSTS = ("trust", "commonness", "script")
# The parts that stages change.
_CHANGES = ("user", "speaker", "time", "asked", "collection", "lead")
# The sentence of each part that has one of its own, and the value at which it counted for nothing.
_SENTENCES = {
    "identified": (0, "holds {:.0%} of the identifiers and quoted phrases"),
    "naming": (0, "the query names its file or heading"),
    "speaker": (0, "speaker {:+.2f}: the query names somebody who speaks"),
    "time": (0, "time {:+.2f}: its date matches the query"),
    "lacks": (None, "names no {}, which the query asks for"),
    "recency": (1, "there is newer: {:.0%} of its worth, because the query asks for what holds now"),
    "decay": (1, "age reduces the score to {:.0%}"),
    "translated": (None, "the text around holds {:.0%} of the query's words in another language"),
    "fileFactor": (1, "counts {:.0%} among the results, because better ones are from the same file"),
}


def run_stages(
    stages: Sequence[Stage], candidates: Sequence[Candidate], context: RankingContext
) -> list[Candidate] | SearchAnswer:
    """Return the candidates that the stages leave; if one leaves none, an empty answer that says what was lost."""
    current = list(candidates)
    for stage in stages:
        remaining = stage(current, context)
        if not remaining:
            return explain_empty(current, context.options.min_score, context.text)
        current = remaining
    return current


def explain_empty(candidates: Sequence[Candidate], min_score: float, query: str) -> SearchAnswer:
    """Return an empty answer that says why; ``candidates`` are those that the last stage has dropped."""
    if not candidates or not candidates[0].shown_score:
        return explain_no_match(query)
    best = candidates[0]
    line = best.chunk.line(best.passage.first_line)
    action = (
        f"The best match, {format_citation(best.chunk.path, line, line)}, has a score of {best.shown_score:.2f},"
        f" below the minimum score of {min_score:g}. Lower the minimum score or try other words."
    )
    return SearchAnswer((), reason="below_min_score", action=action)


def explain_results(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Attach a ``Why`` to each candidate that becomes a result, if the request asks for it."""
    if not context.explain:
        return list(candidates)
    every = range(len(candidates))
    kept = find_answers([entry.score for entry in candidates], context.text) if context.options.stops else every
    return [
        entry._replace(why=_explain(entry, entry.features, context)) if place in kept and entry.features else entry
        for place, entry in enumerate(candidates)
    ]


def _explain(candidate: Candidate, features: Features, context: RankingContext) -> Why:
    similarity, query = candidate.found.similarity, context.query
    weights = query.weights
    parts = _list_parts(candidate, features, context)
    places = {term: place for place, term in enumerate(weights.by_term)}
    terms = [
        {
            "term": match.term.surface,
            "weight": round(weights.by_term[match.term.text] / weights.total, _DIGITS),
            "held": bool(features.chunk_held >> places[match.term.text] & 1),
            "inPassage": bool(features.held >> places[match.term.text] & 1),
        }
        for match in context.matches
    ]
    values: dict[str, Any] = {
        "terms": terms,
        **{name: getattr(features, name) for name in ("words", "coverage", "neighbours", "title", "likeness")},
        "vectorWeight": query.vector_weight,
        "identified": features.identified,
        "naming": features.naming,
        "speaker": candidate.speaker,
        "time": candidate.time,
        "lacks": candidate.lacks or None,
        "recency": candidate.recency,
        "decay": candidate.decay,
        "translated": features.translated,
        "fileFactor": candidate.file_factor,
        "trust": query.trust,
        "commonness": weights.commonness,
        "cost": -sum(parts.get(name, 0.0) for name in _COSTS),
        "worth": candidate.worth,
        "parts": {name: part for name, value in parts.items() if (part := round(value, _DIGITS))},
    }
    cosines = {"cosine": similarity[1] if similarity else None, "passageCosine": features.cosine}
    rounded = {part: round(one, _DIGITS) if isinstance(one, float) else one for part, one in values.items()}
    known = {part: value for part, value in {**rounded, **cosines}.items() if value is not None}
    sentences = describe_parts(known)
    return tuple((part, value, sentences.get(part, "")) for part, value in known.items())


def describe_parts(why: Mapping[str, Any]) -> dict[str, str]:
    """Return a sentence without a full stop for each part that counted."""
    told = {
        "terms": _describe_terms(why["terms"]),
        "words": _describe_words(why),
        "worth": f"worth {why['worth']:.2f}: " + " ".join(f"{part} {add:+.2f}" for part, add in why["parts"].items()),
    }
    if "likeness" in why:
        passage = f", passage {why['passageCosine']:.2f}" if "passageCosine" in why else ""
        cosine = f" (cosine {why['cosine']:.2f}{passage})" if "cosine" in why else ""
        told["likeness"] = f"meaning {why['likeness']:.2f}{cosine}, {why['vectorWeight']:.0%} of the mix"
    if why["cost"]:
        told["cost"] = _describe_cost(why)
    return told | {
        part: sentence.format(why[part]) for part, (neutral, sentence) in _SENTENCES.items() if why.get(part) != neutral
    }


def _describe_terms(terms: Sequence[Mapping[str, Any]]) -> str:
    named = [(f"{term['term']} {term['weight']:.0%}", term["held"], term["inPassage"]) for term in terms]
    inside = ", ".join(name for name, _, is_inside in named if is_inside) or "none"
    around = ", ".join(name for name, is_held, is_inside in named if is_held and not is_inside)
    missing = ", ".join(name for name, is_held, _ in named if not is_held)
    found = f"the passage has {inside}" + (f"; the text around it {around}" if around else "")
    return found + (f"; missing: {missing}" if missing else "")


def _describe_words(why: Mapping[str, Any]) -> str:
    words = f"words {why['words']:.2f} (passage {why['coverage']:.0%} of the query"
    words += f", beside it {why['neighbours']:.0%} more" if why["neighbours"] else ""
    return words + (f", title {why['title']:.0%} more)" if why["title"] else ")")


def _describe_cost(why: Mapping[str, Any]) -> str:
    """Return what the query itself takes off the worth of its results, or adds to it."""
    count = round(math.expm1(why["commonness"]))
    chunks = "1 chunk" if count == 1 else f"{count} chunks"
    takes = "takes off" if why["cost"] > 0 else "adds"
    cost = f"the query {takes} {abs(why['cost']):.2f}: each of its words is in about {chunks}"
    return f"{cost}, and the embedder reads {min(1.0, why['trust']):.0%} of it" if "likeness" in why else cost


def _list_parts(candidate: Candidate, features: Features, context: RankingContext) -> dict[str, float]:
    """Return what a worth consists of: what the passage had at first, and what the stages have changed."""
    identified = candidate.found.weighted.identified
    own = passage_worths([features], identified, context.query)[0]
    parts = _own_parts(features, identified, context.query)
    if features.translated is not None and own > sum(parts.values()):
        parts = {"translation": own - features.naming, "naming": features.naming}
    is_users = bool(candidate.passage.speaker) and is_user(candidate.passage.speaker)
    parts["user"] = own * (find_user_factor(context) - 1) if is_users else 0.0
    parts |= {"speaker": candidate.speaker, "time": candidate.time, "collection": candidate.weight}
    parts |= {"asked": -LACKING_COST if candidate.lacks else 0.0, "lead": candidate.lead}
    return parts | {"recency": candidate.worth - own - sum(map(parts.__getitem__, _CHANGES))}


def _own_parts(features: Features, chunk_identified: float, query: Query) -> dict[str, float]:
    """Return what ``passage_worths`` adds up, part by part."""
    alike = (CHUNK_SHARE * (features.chunk_likeness or 0.0), (1 - CHUNK_SHARE) * (features.likeness or 0.0))
    if query.by_vectors_only:
        return {"likeness": sum(alike)}
    weight = 0.0 if features.likeness is None else query.vector_weight
    chunk_weight = 0.0 if features.chunk_likeness is None else query.vector_weight
    trust = 0.0 if features.likeness is None else query.trust
    identified = CHUNK_SHARE * chunk_identified + (1 - CHUNK_SHARE) * features.identified
    return {
        "words": CHUNK_SHARE * (1 - chunk_weight) * features.words,
        "coverage": (1 - CHUNK_SHARE) * (1 - weight) * features.coverage,
        "likeness": chunk_weight * alike[0] + weight * alike[1],
        "identified": IDENTIFIER_BONUS * identified,
        "neighbours": NEIGHBOUR_WEIGHT * (1 - weight) * features.neighbours,
        "title": TITLE_WEIGHT * features.title,
        "naming": features.naming,
        "trust": -query_cost(trust, 0.0, is_unspaced=False),
        "commonness": -query_cost(0.0, query.weights.commonness, is_unspaced=False),
        "script": -query_cost(0.0, 0.0, is_unspaced=query.is_unspaced),
    }


# A result is weak if its odds to be an answer are less than this share of the best one's: for a question, and for one
# that asks for all there is. Odds tell .95 from .8 as they tell .2 from .05, so a sure answer stands alone, and one in
# doubt has company. docs/ranking.md says what was tried.
_ANSWER_SHARE, _LIST_SHARE = 0.03, 0.02
# A question with one of these words asks for all there is.
_ASKS_FOR_ALL = frozenset((
    "all", "every", "everything", "list", "summary", "summarize", "overview", "alle", "alles", "samtliche", "uberblick",
    "zusammenfassung", "tous", "toutes", "liste", "resume", "todos", "todas", "lista", "resumen",
))  # fmt: skip
_ASKS_FOR_ALL_UNSPACED = ("所有", "全部", "哪些", "总结", "列出", "全て", "すべて", "一覧", "まとめ")


def find_answers(scores: Sequence[float], query: str) -> list[int]:
    """Return the places of the results that carry the answer: the first, and those not weak beside the best."""
    is_list = any(map(query.__contains__, _ASKS_FOR_ALL_UNSPACED)) or not _ASKS_FOR_ALL.isdisjoint(tokens(fold(query)))
    odds = [score / max(1 - score, 1e-4) for score in scores]
    least = (_LIST_SHARE if is_list else _ANSWER_SHARE) * max(odds, default=0.0)
    return [place for place, own in enumerate(odds) if not place or own >= least]


def stop(answer: SearchAnswer, query: str) -> SearchAnswer:
    """Return the answer to a query without its weak results, which are counted; all of it if the query is empty."""
    places = find_answers([result.score for result in answer], query) if query else range(len(answer))
    return answer.keep([answer.results[place] for place in places])


def find_lines(result: SearchResult, stems: Set[str], around: int) -> list[tuple[str, bool]]:
    """Return the lines of a result that hold most words of a query, and up to ``around`` before and after each.

    True marks a line that matches; lines between that are left out are an ellipsis, blank ones a blank line. If none
    holds a word, the whole passage matches.
    """
    lines = result.snippet.strip("\n").split("\n")
    passage = range(result.match_start_line - result.start_line, result.match_end_line - result.start_line + 1)
    if len(lines) != result.end_line - result.start_line + 1:
        # A line of a transcript has the number of its record, and some records are not shown.
        passage = range(len(lines))
    filled = {number for number, line in enumerate(lines) if line.strip()}
    counts = {
        number: len({fold(lines[number][start:end]) for start, end in find_matches(lines[number], stems)})
        for number in filled.intersection(passage)
    }
    most = max(counts.values(), default=0)
    matched = {number for number, count in counts.items() if 2 * count > most or not most}
    near = sorted(filled & {number + step for number in matched for step in range(-around, around + 1)})
    shown: list[tuple[str, bool]] = []
    for before, number in zip([*near[:1], *near], near, strict=False):
        if number - before > 1:
            shown.append(("" if filled.isdisjoint(range(before + 1, number)) else "…", False))
        shown.append((lines[number], number in matched))
    return shown


def list_queries(query: str, more: Sequence[str]) -> list[str]:
    """Return the different queries of a request, in their order; raise ``QueryError`` if one is blank or too many."""
    if isinstance(more, str):
        raise QueryError("The further queries are a text.", hint="Give them as a list of texts.", name="queries")
    every = [query, *more]
    if any(not isinstance(entry, str) or not entry.strip() for entry in more):
        hint = "Leave it out, or say what to look for."
        raise QueryError("One of the queries is blank or not a text.", hint=hint, name="queries")
    if len(every) > MAX_QUERIES:
        raise QueryError(f"There are {len(every)} queries.", hint=f"Ask at most {MAX_QUERIES} at once.", name="queries")
    return list(dict.fromkeys(entry.strip() for entry in every))


def fuse_answers(
    queries: Sequence[str], answers: Sequence[SearchAnswer], max_results: int, *, in_turns: bool = False
) -> SearchAnswer:
    """Return one answer to several queries: the best results of all, each passage once, with the query that it suits.

    A passage keeps its best score rather than a sum, so that a score goes on meaning what it means for one query.
    ``in_turns`` is for questions of their own rather than several ways to ask: the best result of each comes first.
    """
    found = [
        (place if in_turns else 0, result._replace(query=query))
        for query, answer in zip(queries, answers, strict=True)
        for place, result in enumerate(answer.results)
    ]
    kept: list[SearchResult] = []
    for _, result in sorted(found, key=lambda entry: (entry[0], -entry[1].score)):
        same = (one for one in kept if (one.source, one.path) == (result.source, result.path))
        lines = range(result.match_start_line, result.match_end_line + 1)
        if not any(lines.start <= one.match_end_line and one.match_start_line < lines.stop for one in same):
            kept.append(result)
    first = next((answer for answer in answers if answer.results), answers[0])
    best = max(answers, key=lambda answer: max((entry.score for entry in answer.results), default=-1.0))
    doubts = [
        f"{query} {answer.caution or answer.action}"
        for query, answer in zip(queries, answers, strict=True)
        if in_turns and (answer.caution or not answer.results)
    ]
    return first.replace(
        results=tuple(kept[:max_results]),
        weaker=max(answer.weaker for answer in answers),
        caution=" ".join(doubts) if in_turns else best.caution,
        **{
            name: next((value for answer in answers if (value := getattr(answer, name))), "")
            for name in ("degraded", "fallback", "stale", "not_reranked")
        },
        issues=tuple(dict.fromkeys(issue for answer in answers for issue in answer.issues)),
    )


#: Why nothing was found, the nearest to a result first. The first that one of several memories gives is that of all.
_REASONS: tuple[Reason, ...] = ("below_min_score", "no_match", "no_searchable_words", "index_empty", "scope_denied")
_NOTICES = ("degraded", "fallback", "stale", "not_reranked", "withheld")


def merge_memories(
    outcomes: Mapping[str, SearchAnswer | RecallError], max_results: int, places: Mapping[str, str], stop_for: str = ""
) -> SearchAnswer:
    """Return one answer of several memories, each given by its name; those that failed are named in it.

    ``places`` says where the notes of a memory are: two memories of one place have the same notes. If every memory
    failed, the error is raised. ``stop_for`` is the query, if the answer ends where the results get weak.
    """
    answers = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, SearchAnswer)}
    if not answers:
        raise _join_errors({name: outcome for name, outcome in outcomes.items() if isinstance(outcome, RecallError)})
    every = tuple(_drop_repeated(_put_in_order(answers), places)[:max_results])
    weaker = {places.get(name, name): each.weaker for name, each in answers.items()}
    joined = stop(SearchAnswer(every, weaker=sum(weaker.values())), stop_for)
    results = joined.results
    ranks = {reason: place for place, reason in enumerate(_REASONS)}
    nearest = min(answers.values(), key=lambda answer: ranks.get(answer.reason, len(ranks)))
    first = answers[results[0].workspace] if results else nearest
    notices = {notice: _join_texts({n: getattr(each, notice) for n, each in answers.items()}) for notice in _NOTICES}
    return first.replace(
        results=results,
        weaker=joined.weaker,
        action="" if results else _join_texts({name: each.action for name, each in answers.items()}),
        issues=tuple(
            Issue(f"{name}: {one.path}", f"{name}: {one.problem}" if one.problem.startswith(one.path) else one.problem)
            for name, each in answers.items()
            for one in each.issues
        ),
        memories=tuple(_report(name, outcome, results) for name, outcome in outcomes.items()),
        **notices,
    )


def join_sources(notes: SearchAnswer, conversations: SearchAnswer, max_results: int) -> SearchAnswer:
    """Return one answer from notes and conversations; half of the places are for notes, as long as there are some."""
    most = max(max_results - len(notes.results), (max_results + 1) // 2)
    kept = conversations.replace(results=conversations.results[:most])
    ranked = _put_in_order({"": notes, " ": kept})[:max_results]
    better = notes if notes.results or not kept.results else conversations
    results = tuple(result._replace(workspace="") for result in ranked)
    return better.replace(results=results, weaker=notes.weaker + conversations.weaker)


def _put_in_order(answers: Mapping[str, SearchAnswer]) -> list[SearchResult]:
    """Return all results, best first; those of one memory stay in its order, and of equals the names decide.

    A memory may have put a better score below, because it is of the same file or was superseded. So no result comes
    before one that its own memory has put above it.
    """
    ranked: list[tuple[float, str, int, SearchResult]] = []
    for name, answer in answers.items():
        lowest = float("inf")
        for place, result in enumerate(answer.results):
            lowest = min(lowest, result.score)
            ranked.append((-lowest, name, place, result._replace(workspace=name)))
    return [result for *_, result in sorted(ranked, key=lambda entry: entry[:3])]


def _drop_repeated(results: Sequence[SearchResult], places: Mapping[str, str]) -> list[SearchResult]:
    """Return each note's passage once, also if it is in two memories of one place, such as agents that share notes."""
    kept: dict[tuple[object, ...], SearchResult] = {}
    for result in results:
        # The same path is another transcript for another agent.
        place = places.get(result.workspace, "") if result.source == "memory" else ""
        key = (place or result.workspace, result.source, result.citation, result.snippet)
        kept.setdefault(key, result)
    return list(kept.values())


def _report(name: str, outcome: SearchAnswer | RecallError, results: Sequence[SearchResult]) -> MemoryReport:
    if isinstance(outcome, RecallError):
        return MemoryReport(name, error=str(outcome), action=outcome.hint)
    count = sum(result.workspace == name for result in results)
    return MemoryReport(name, count, outcome.reason, outcome.action if outcome.reason else "")


def _join_errors(errors: Mapping[str, RecallError]) -> RecallError:
    """Return one error for memories that all failed: the error itself if it is the same for all."""
    first, *more = errors.values()
    if all((type(error), str(error)) == (type(first), str(first)) for error in more):
        return first
    reasons = " ".join(f"{name}: {str(error).rstrip('.')}." for name, error in errors.items())
    return RecallError(f"None of the memories can be searched. {reasons}", hint=first.hint)


def _join_texts(texts: Mapping[str, str]) -> str:
    """Return what memories say, each with its name; once if all say the same."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return " ".join(f"{name}: {text.rstrip('.')}." for name, text in texts.items() if text)


# A shorter piece of a snippet says too little to be worth its place.
_MIN_UNITS = 40
# A file name may contain line breaks, and so could pretend to be more text below the line that names the source.
_BREAKS = compile_later("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def _add_source(snippet: str, citation: str) -> str:
    """Return the snippet followed by a line that names its source, if it has one."""
    return f"{snippet.strip()}{_footer(citation)}" if citation else snippet


def remove_source(text: str, citation: str) -> str:
    """Return a text without the line that names its source."""
    return text.removesuffix(_footer(citation)) if citation else text


def fit_snippets(snippets: Iterable[tuple[str, str]], max_units: int) -> tuple[tuple[str, ...], bool]:
    """Return the first snippets that fit, each with its source, and True if one was shortened or left out.

    Each is given with its citation, which may be empty. The last one may be shortened, but never its source.
    The first snippet is always included: in a budget too small for its source, without it.
    """
    texts: list[str] = []
    left = max_units
    for snippet, citation in snippets:
        text = _add_source(snippet, citation)
        if utf16_units(text) <= left:
            texts.append(text)
            left -= utf16_units(text)
            continue
        room = left - utf16_units(_add_source("", citation))
        if room >= _MIN_UNITS:
            texts.append(_add_source(shorten(snippet.strip(), room), citation))
        elif not texts:
            texts.append(cut_units(snippet.strip(), left))
        return tuple(texts), True
    return tuple(texts), False


def fit_results(results: Sequence[SearchResult], max_units: int) -> list[SearchResult]:
    """Return the first results whose snippets fit; the last snippet may be shortened."""
    texts, _ = fit_snippets([(result.snippet, "") for result in results], max_units)
    return [result._replace(snippet=text) for result, text in zip(results, texts, strict=False)]


def _footer(citation: str) -> str:
    return f"\n\nSource: {_BREAKS.sub(' ', citation)}"
