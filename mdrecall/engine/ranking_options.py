"""How results are ranked: what the settings say, and what a request changes."""

from mdrecall.config.settings import Settings
from mdrecall.core.ranking.stages import RankingOptions
from mdrecall.types import Mode, SearchRequest


def read_ranking_options(settings: Settings) -> RankingOptions:
    """Return the ranking options of the settings; a request may override some of them."""
    query = settings.memory_search.query
    hybrid = query.hybrid
    mode: Mode = "hybrid" if hybrid.enabled else "vector"
    return RankingOptions(
        max_results=query.max_results,
        min_score=query.min_score,
        mode=mode if settings.memory_search.provider != "none" else "keyword",
        candidate_multiplier=hybrid.candidate_multiplier,
        vector_weight=hybrid.vector_weight,
        mmr_lambda=hybrid.mmr.lambda_ if hybrid.mmr.enabled else None,
        half_life_days=hybrid.temporal_decay.half_life_days if hybrid.temporal_decay.enabled else None,
        max_per_file=settings.mdrecall.max_per_file,
    )


def apply_request(options: RankingOptions, request: SearchRequest) -> RankingOptions:
    """Return the options of one search: the settings, except for what the request says."""
    return options._replace(
        max_results=options.max_results if request.max_results is None else max(1, request.max_results),
        min_score=options.min_score if request.min_score is None else request.min_score,
        mode=request.mode or options.mode,
        min_reranked_score=request.min_score or 0.0,
    )
