"""Looking terms up in the full-text index.

FTS5's bm25() of a single term is its own idf times the saturation of the term in the row. Its idf turns to nothing
when a term is in most rows, so it is divided out again and only the saturation, 0 to 1, is given on.
"""

import math
from collections.abc import Sequence

import apsw

from mdrecall.core.keyword import Match
from mdrecall.core.query import Term
from mdrecall.core.words import JOINERS
from mdrecall.store.sqlite.rows import rows, single

# Occurrences in the title count as much as those in the text, camelCase parts a little less.
_COLUMN_WEIGHTS = "1.0, 0.7, 1.0"
_SATURATED = 2.2
_PRESENT = 0.5
#: How many rows are scored before the remaining, commoner terms only count as there or not there.
ROW_BUDGET = 6_000

_SCORED = f"SELECT rowid, bm25(keyword, {_COLUMN_WEIGHTS}) FROM keyword WHERE keyword MATCH ?"
_PLAIN = "SELECT rowid FROM keyword WHERE keyword MATCH ?"
_COUNT = "SELECT count(*) FROM keyword WHERE keyword MATCH ?"

# Joiners inside a name as characters that the tokenizer keeps: the name stays one token.
_JOINED = str.maketrans({joiner: chr(0xE000 + ord(joiner)) for joiner in JOINERS + "_"})


def encode_names(names: str) -> str:
    """Names as the full-text index holds them."""
    return names.translate(_JOINED)


def match_terms(db: apsw.Connection, terms: Sequence[Term], chunk_count: int) -> list[Match]:
    """Where each term occurs, in the order of the terms."""
    counts = {term: _count(db, term) for term in terms if not term.parts and not term.always_prefix}
    found: dict[Term, Match] = {}
    scored: list[str] = []
    scored_rows = 0
    for term in sorted(terms, key=lambda term: counts.get(term, 0)):
        count = counts.get(term)
        if count is None or count == 0:
            found[term] = _match_name(db, term) if term.parts else _match_beginning(db, term)
        elif scored and scored_rows + count > ROW_BUDGET:
            found[term] = _match_among(db, term, scored)
            continue
        else:
            found[term] = Match(term, _saturations(db, _quoted(term.surface), chunk_count))
        scored_rows += len(found[term].chunks)
        if found[term].chunks:
            scored.append(_quoted(encode_names(term.surface)) + (" *" if found[term].loose else ""))
    return [found[term] for term in terms]


def _count(db: apsw.Connection, term: Term) -> int:
    return single(db, _COUNT, (_quoted(term.surface),))


def _saturations(db: apsw.Connection, expression: str, chunk_count: int) -> dict[int, float]:
    found = list(rows(db, _SCORED, (expression,)))
    if not found:
        return {}
    surprise = math.log((chunk_count - len(found) + 0.5) / (len(found) + 0.5)) if chunk_count > len(found) else 0.0
    divisor = -(surprise if surprise > 0 else 1e-6) * _SATURATED
    return {chunk_id: rank / divisor for chunk_id, rank in found}


def _match_name(db: apsw.Connection, term: Term) -> Match:
    """A name whole, or its words in a row; only if there is neither, names that begin with it."""
    expression = f"{_quoted(encode_names(term.surface))} OR {_quoted(' '.join(term.parts))}"
    chunks = _present(db, expression, 1.0)
    return Match(term, chunks) if chunks else _match_beginning(db, term)


def _match_beginning(db: apsw.Connection, term: Term) -> Match:
    if not (term.prefix or term.always_prefix):
        return Match(term, {})
    return Match(term, _present(db, f"{_quoted(encode_names(term.surface))} *", _PRESENT), loose=True)


def _match_among(db: apsw.Connection, term: Term, scored: Sequence[str]) -> Match:
    """A common term, looked for only in chunks that hold a rarer one."""
    expression = f"({' OR '.join(scored)}) AND {_quoted(term.surface)}"
    return Match(term, _present(db, expression, _PRESENT))


def _present(db: apsw.Connection, expression: str, saturation: float) -> dict[int, float]:
    return {chunk_id: saturation for (chunk_id,) in rows(db, _PLAIN, (expression,))}


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
