"""Explanations: what a result holds of the query, what its worth consists of, and what each stage changed for it.

A stage is not asked what it has done. The candidates before and after it are compared, so that an explanation cannot
say anything else than what happened, and a new stage is explained without a line of its own.
"""

from collections.abc import Sequence

from mdrecall.core.ranking.features import CHUNK_SHARE, NEIGHBOUR_WEIGHT, TITLE_WEIGHT, Features, Query
from mdrecall.core.ranking.score import IDENTIFIER_BONUS, query_cost
from mdrecall.core.ranking.stages import (
    NO_MATCH,
    Candidate,
    RankingContext,
    Stage,
    find_user_factor,
)
from mdrecall.core.text.passages import is_user
from mdrecall.types import SearchAnswer, StageStep, Why, format_citation

# Fewer digits would hide that the parts add up.
_DIGITS = 4
# The parts that a query takes off the worth of each of its results.
_COSTS = ("trust", "commonness", "script")
# The part of the worth that a stage changes.
_STAGE_PARTS = {
    "prefer_speakers": "speaker",
    "prefer_times": "time",
    "prefer_newest": "recency",
    "weigh_collections": "collection",
}


def run_stages(
    stages: Sequence[Stage], candidates: Sequence[Candidate], context: RankingContext
) -> list[Candidate] | SearchAnswer:
    """Return the candidates that the stages leave; if one leaves none, an empty answer that says what was lost.

    If the request asks for explanations, each candidate remembers what every stage has changed for it.
    """
    current = list(candidates)
    for stage in stages:
        remaining = stage(current, context)
        if not remaining:
            return explain_empty(current, context.options.min_score)
        current = _add_steps(stage.__name__, current, remaining) if context.explain else remaining
    return current


def explain_empty(candidates: Sequence[Candidate], min_score: float) -> SearchAnswer:
    """Return an empty answer that says why; ``candidates`` are those that the last stage has dropped."""
    if not candidates or not candidates[0].shown_score:
        return NO_MATCH
    best = candidates[0]
    line = best.chunk.line(best.passage.first_line)
    action = (
        f"The best match, {format_citation(best.chunk.path, line, line)}, has a score of {best.shown_score:.2f},"
        f" below the minimum score of {min_score:g}. Lower the minimum score or try other words."
    )
    return SearchAnswer((), reason="below_min_score", action=action)


def explain_results(candidates: Sequence[Candidate], context: RankingContext) -> list[Candidate]:
    """Attach a ``Why`` to each candidate if the request asks for it."""
    if not context.explain:
        return list(candidates)
    return [entry._replace(why=entry.features and _explain(entry, entry.features, context)) for entry in candidates]


def _add_steps(stage: str, before: Sequence[Candidate], after: Sequence[Candidate]) -> list[Candidate]:
    known = {_key(entry): (place, entry) for place, entry in enumerate(before, 1) if entry.features}
    traced = []
    for place, entry in enumerate(after, 1):
        if known.get(_key(entry)) != (place, entry):
            score, rank = (entry.shown_score, place) if entry.score else (None, None)
            step = StageStep(stage, entry.worth, score, rank, len(after))
            entry = entry._replace(steps=(*entry.steps, step))
        traced.append(entry)
    return traced


def _round_step(step: StageStep) -> StageStep:
    score = None if step.score is None else round(step.score, _DIGITS)
    return step._replace(worth=round(step.worth, _DIGITS), score=score)


def _key(entry: Candidate) -> tuple[int, int]:
    return entry.chunk.id, entry.place


def _explain(candidate: Candidate, features: Features, context: RankingContext) -> Why:
    similarity, query = candidate.found.similarity, context.query
    weights = query.weights
    terms = tuple(
        (
            match.term.surface,
            round(weights.by_term[match.term.text] / weights.total, _DIGITS),
            match.term.text in features.chunk_held,
            match.term.text in features.held,
        )
        for match in context.matches
    )
    parts = _list_parts(candidate, features, context)
    return Why(
        terms=terms,
        words=round(features.words, _DIGITS),
        coverage=round(features.coverage, _DIGITS),
        neighbours=round(features.neighbours, _DIGITS),
        title=round(features.title, _DIGITS),
        likeness=None if features.likeness is None else round(features.likeness, _DIGITS),
        cosine=similarity.whole if similarity else None,
        passage_cosine=features.cosine,
        vector_weight=round(query.vector_weight, _DIGITS),
        identified=round(features.identified, _DIGITS),
        naming=features.naming,
        speaker=round(candidate.speaker, _DIGITS),
        time=round(candidate.time, _DIGITS),
        recency=round(candidate.recency, _DIGITS),
        decay=round(candidate.decay, _DIGITS),
        worth=round(candidate.worth, _DIGITS),
        trust=round(query.trust, _DIGITS),
        commonness=round(weights.commonness, _DIGITS),
        cost=round(-sum(parts.get(name, 0.0) for name in _COSTS), _DIGITS),
        translated=None if features.translated is None else round(features.translated, _DIGITS),
        file_factor=round(candidate.file_factor, _DIGITS),
        parts=tuple((name, round(value, _DIGITS)) for name, value in parts.items() if round(value, _DIGITS)),
        stages=tuple(map(_round_step, candidate.steps)),
    )


def _list_parts(candidate: Candidate, features: Features, context: RankingContext) -> dict[str, float]:
    """Return what a worth consists of: what the passage had at first, and what the stages have changed."""
    first = candidate.steps[0].worth if candidate.steps else candidate.worth
    is_users = bool(candidate.passage.speaker) and is_user(candidate.passage.speaker)
    own = first / find_user_factor(context) if is_users else first
    parts = _own_parts(features, candidate.found.weighted.identified, context.query)
    if features.translated is not None and own > sum(parts.values()):
        parts = {"translation": own - features.naming, "naming": features.naming}
    parts["user"] = first - own
    last = first
    for step in candidate.steps[1:]:
        name = _STAGE_PARTS.get(step.stage, step.stage)
        parts[name] = parts.get(name, 0.0) + step.worth - last
        last = step.worth
    return parts


def _own_parts(features: Features, chunk_identified: float, query: Query) -> dict[str, float]:
    """Return what ``passage_worths`` adds up, part by part."""
    alike = (
        CHUNK_SHARE * (features.chunk_likeness or 0.0),
        (1 - CHUNK_SHARE) * (features.likeness or 0.0),
    )
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
