"""``NO_REPLY``, the token by which a model says that it has no answer, and how it is kept from people."""

from typing import NamedTuple

NO_REPLY = "NO_REPLY"


class Payload(NamedTuple):
    """An answer for a person: a text, and files that go with it."""

    text: str
    media: tuple[str, ...] = ()


def is_silent(text: str) -> bool:
    """True if a text is nothing but the token."""
    return text.strip() == NO_REPLY


def visible_text(text: str) -> str:
    """Return a text without a token at its end; empty if it is nothing else."""
    start = _token_start(text, at_start=True)
    return text if start is None else text[:start]


def visible_payload(payload: Payload) -> Payload | None:
    """Return a payload without the token; None if neither text nor media are left."""
    shown = payload._replace(text=visible_text(payload.text))
    return shown if shown.text.strip() or shown.media else None


class ReplyStream:
    """An answer that arrives in pieces: everything is shown at once, except an end that may become the token."""

    def __init__(self) -> None:
        self._held = ""
        self._at_start = True

    def feed(self, piece: str) -> str:
        """Take the next piece. Return the text that may be shown now."""
        self._held += piece
        return self._release(_hold_from(self._held, at_start=self._at_start))

    def end(self) -> str:
        """End the answer. Return the text that was held back and is not the token."""
        start = _token_start(self._held, at_start=self._at_start)
        shown = self._release(len(self._held) if start is None else start)
        self._held = ""
        return shown

    def _release(self, count: int) -> str:
        shown, self._held = self._held[:count], self._held[count:]
        self._at_start = self._at_start and not shown
        return shown


def _token_start(text: str, *, at_start: bool) -> int | None:
    """Return where a token at the end begins, with the blanks and stars before it; None if there is none."""
    before = text.rstrip().rstrip("*").removesuffix(NO_REPLY)
    return _edge(before, at_start=at_start) if len(before) < len(text.rstrip().rstrip("*")) else None


def _hold_from(text: str, *, at_start: bool) -> int:
    """Return from where on to hold a text back, because what follows may still make it the token."""
    opening = text.strip().upper()
    if at_start and (not opening or ("_" in opening and NO_REPLY.startswith(opening))):
        return 0
    start = _token_start(text, at_start=at_start)
    for length in range(len(NO_REPLY) - 1, 0, -1):
        if start is None and text.endswith(NO_REPLY[:length]):
            start = _edge(text[:-length], at_start=at_start)
    if start is None:
        start = _edge(text, at_start=at_start)
    return len(text) if start is None else start


def _edge(before: str, *, at_start: bool) -> int | None:
    """Return where the blanks and stars at the end of a text begin; None if there are none, except at the start."""
    end = len(before)
    while end and (before[end - 1].isspace() or before[end - 1] == "*"):
        end -= 1
    return end if end < len(before) or (at_start and not end) else None
