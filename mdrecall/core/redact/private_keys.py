"""Private keys between BEGIN and END lines: PEM of all kinds, OpenSSH, PGP; also on one line, also without END.

The marks are paired in one pass. A pattern from BEGIN to END would search the whole rest of the text at every BEGIN
that has no END.
"""

import re
from collections.abc import Iterator
from functools import cache

_MARK = r"-{4,5} ?(BEGIN|END) [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Subject):[^\r\n]{0,80}[\r\n]"
_BETWEEN = r"[\s>|#*\"'+,;:\\]*+"
_BODY = rf"(?>(?:\s*{_HEADER})*)(?:(?>(?:{_BETWEEN}[A-Za-z0-9+/=]{{16,}}+)+)(?:{_BETWEEN}[A-Za-z0-9+/=]++)?)?"


def find_blocks(text: str, lower: str) -> Iterator[tuple[int, int]]:
    """Yield the span of every key: with its marks if it is on one line, else what is between them."""
    if "private key" not in lower:
        return
    begin: re.Match[str] | None = None
    for mark in _compile(_MARK).finditer(text):
        is_end = mark[1].upper() == "END"
        if begin is not None:
            yield _span(text, begin.span(), mark.span()) if is_end else _unfinished_span(text, begin, mark.start())
        begin = None if is_end else mark
    if begin is not None:
        yield _unfinished_span(text, begin, len(text))


def _span(text: str, begin: tuple[int, int], end: tuple[int, int]) -> tuple[int, int]:
    if text.find("\n", begin[1], end[0]) < 0 and text.find("\r", begin[1], end[0]) < 0:
        return begin[0], end[1]
    return begin[1], end[0]


def _unfinished_span(text: str, begin: re.Match[str], limit: int) -> tuple[int, int]:
    body = _compile(_BODY).match(text, begin.end(), limit)
    stop = body.end() if body else begin.end()
    return _span(text, begin.span(), (stop, stop)) if text[begin.end() : stop].strip() else (stop, stop)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
