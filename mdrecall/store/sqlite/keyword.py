"""Looking terms up in the full-text index.

FTS5's bm25() of a single term is its own idf times the saturation of the term in the row. Its idf vanishes when a term
is in most rows, so it is divided out again, and only the saturation from 0 to 1 is returned.
"""

import math
from collections.abc import Sequence
from itertools import islice

import apsw

from mdrecall.core.text.words import JOINERS
from mdrecall.store.sqlite.sql import rows, single
from mdrecall.types import Match, Term

# Occurrences in the title count as much as those in the text, camelCase parts a little less.
_COLUMN_WEIGHTS = "1.0, 0.7, 1.0"
# The largest value of bm25() without its idf: k1 + 1, with FTS5's k1 of 1.2.
_SATURATED = 2.2
# The saturation of a term that is known to occur, but not how often.
_PRESENT = 0.5
#: So many rows are scored; beyond that, the remaining terms, which are more common, count only as present or not.
ROW_BUDGET = 6_000

_SCORED = f"SELECT rowid, bm25(keyword, {_COLUMN_WEIGHTS}) FROM keyword WHERE keyword MATCH ?"
_PLAIN = "SELECT rowid FROM keyword WHERE keyword MATCH ?"
_COUNT = "SELECT count(*) FROM keyword WHERE keyword MATCH ?"
_TERMS = "SELECT term FROM keyword_terms WHERE term >= ? AND term < ?"
# Terms are read by as many leading letters as this, and then compared with the whole word.
_LEAST_SHARED = 4
# Bounds how many terms a prefix is expanded to.
_MOST_NEAR = 20

# Joiners inside a name as characters that the tokenizer keeps: the name stays one token.
_JOINED = str.maketrans({joiner: chr(0xE000 + ord(joiner)) for joiner in JOINERS + "_"})


def encode_names(names: str) -> str:
    """Return names as the full-text index holds them."""
    return names.translate(_JOINED)


def match_terms(db: apsw.Connection, terms: Sequence[Term], chunk_count: int) -> list[Match]:
    """Return where each term occurs, in the order of the terms."""
    counts = {term: _count(db, term) for term in terms if not term.parts and not term.always_prefix}
    found: dict[Term, Match] = {}
    looked_up: list[str] = []
    rows_so_far = 0
    for term in sorted(terms, key=lambda term: counts.get(term, 0)):
        count = counts.get(term, 0)
        if looked_up and rows_so_far + count > ROW_BUDGET:
            among = f"({' OR '.join(looked_up)}) AND ({_expression(term)})"
            found[term] = Match(term, _match_present(db, among, _PRESENT), count)
            continue
        expression, chunks = _expression(term), _match_whole(db, term, count, chunk_count)
        loose = not chunks and (term.prefix or term.always_prefix)
        if loose:
            expression = _prefix_expression(db, term)
            chunks = _match_present(db, expression, _PRESENT) if expression else {}
        found[term] = Match(term, chunks, len(chunks), loose)
        rows_so_far += len(chunks)
        if chunks:
            looked_up.append(expression)
    return [found[term] for term in terms]


def _match_whole(db: apsw.Connection, term: Term, count: int, chunk_count: int) -> dict[int, float]:
    """Return the chunks that contain a whole term; none for a word that no chunk contains, or a lone character."""
    if term.parts:
        return _match_present(db, _expression(term), 1.0)
    if not count:
        return {}
    other_forms = _match_present(db, _expression(term), _PRESENT) if term.also else {}
    return other_forms | _score_matches(db, _quote(term.surface), chunk_count)


def _count(db: apsw.Connection, term: Term) -> int:
    return single(db, _COUNT, (_expression(term),))


def _expression(term: Term) -> str:
    """Return the query for a word and its other forms, or for a name and its words as a phrase."""
    if term.parts:
        return f"{_quote(encode_names(term.surface))} OR {_quote(' '.join(term.parts))}"
    return " OR ".join(map(_quote, (term.surface, *term.also)))


def _prefix_expression(db: apsw.Connection, term: Term) -> str:
    """Return the query for indexed terms that begin with a word, or are nearly the whole beginning of it.

    The index holds stems, so ``configurat`` must also find ``configur``.
    """
    start = encode_names(term.surface)
    if term.parts or not term.surface.isalpha() or not term.surface.isascii():
        return f"{_quote(start)} *"
    near = rows(db, _TERMS, (start[:_LEAST_SHARED], start[:_LEAST_SHARED] + "\U0010ffff"))
    fits = (
        name for (name,) in near if name.startswith(start) or (start.startswith(name) and len(start) < len(name) + 5)
    )
    return " OR ".join(map(_quote, islice(fits, _MOST_NEAR)))


def _score_matches(db: apsw.Connection, expression: str, chunk_count: int) -> dict[int, float]:
    found = list(rows(db, _SCORED, (expression,)))
    if not found:
        return {}
    surprise = math.log((chunk_count - len(found) + 0.5) / (len(found) + 0.5)) if chunk_count > len(found) else 0.0
    divisor = -(surprise if surprise > 0 else 1e-6) * _SATURATED
    return {chunk_id: rank / divisor for chunk_id, rank in found}


def _match_present(db: apsw.Connection, expression: str, saturation: float) -> dict[int, float]:
    return {chunk_id: saturation for (chunk_id,) in rows(db, _PLAIN, (expression,))}


def _quote(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
