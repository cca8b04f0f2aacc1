"""Which results are shown when not all can be: every source has its turn, and all snippets together have a limit."""

from collections.abc import Sequence

from mdrecall.core.snippet import cut_units, utf16_units
from mdrecall.types import SearchResult


def in_turns(results: Sequence[SearchResult], most: int) -> list[SearchResult]:
    """The first so many; where there are several sources, one of each in turn, the source of the best first."""
    by_source: dict[str, list[SearchResult]] = {}
    for result in results:
        by_source.setdefault(result.source, []).append(result)
    if len(by_source) < 2:
        return list(results[:most])
    groups = sorted(by_source.values(), key=lambda group: -group[0].score)
    longest = max(map(len, groups))
    turns = [group[turn] for turn in range(longest) for group in groups if turn < len(group)]
    return turns[:most]


def within(results: Sequence[SearchResult], max_chars: int) -> list[SearchResult]:
    """As many as there is room for; the last is cut to what is left, and nothing follows it."""
    kept = []
    left = max_chars
    for result in results:
        if left <= 0:
            break
        length = utf16_units(result.snippet)
        kept.append(result if length <= left else result._replace(snippet=cut_units(result.snippet, left)))
        left -= length
    return kept
