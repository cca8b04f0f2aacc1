"""Searching as if only some chunks were in the index: those that the conversation which asks may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdrecall.types import Match, SearchAnswer, Term

if TYPE_CHECKING:
    from mdrecall.interfaces import ChunkReader

NOTHING_VISIBLE = SearchAnswer((), reason="no_match", action="Nothing is indexed that this conversation may see.")


def match_query(chunks: ChunkReader, terms: Sequence[Term], visible: frozenset[int] | None) -> list[Match]:
    """Look up the terms of a query; its stop words only if nothing else of it is found."""
    matches = match_visible(chunks, [term for term in terms if not term.stop], visible)
    return matches if any(match.chunks for match in matches) else match_visible(chunks, terms, visible)


def match_visible(chunks: ChunkReader, terms: Sequence[Term], visible: frozenset[int] | None) -> list[Match]:
    """Return the visible chunks that each term occurs in, in the order of the terms; None means that all are visible.

    How rare a term is depends on these chunks only. A word that stands whole only in hidden ones is looked up as the
    beginning of others, as a word that stands nowhere is.
    """
    matches = chunks.match_terms(terms)
    if visible is None:
        return matches
    kept = [_keep_visible(match, visible) for match in matches]
    emptied = [new.term for new, old in zip(kept, matches, strict=True) if old.chunks and not new.chunks]
    again = [term._replace(always_prefix=True) for term in emptied if term.prefix and not term.parts]
    found = {match.term.text: match for match in chunks.match_terms(again)} if again else {}
    return [
        _keep_visible(found[match.term.text]._replace(term=match.term), visible)
        if not match.chunks and match.term.text in found
        else match
        for match in kept
    ]


def _keep_visible(match: Match, visible: frozenset[int]) -> Match:
    """Return a match without hidden chunks; of those that were only counted, the same share is taken to be visible."""
    chunks = {chunk: strength for chunk, strength in match.chunks.items() if chunk in visible}
    others = max(0, match.held_by - len(match.chunks))
    share = len(chunks) / len(match.chunks) if match.chunks else 0.0
    return match._replace(chunks=chunks, held_by=len(chunks) + round(others * share))
