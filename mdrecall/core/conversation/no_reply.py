"""``NO_REPLY``: how a model says that there is nothing to say, and what of its text may be shown."""

from typing import NamedTuple

NO_REPLY = "NO_REPLY"


class Payload(NamedTuple):
    """What is delivered to a person."""

    text: str
    media: tuple[str, ...] = ()


def is_silent(text: str) -> bool:
    """Whether a text says nothing but the token."""
    return text.strip() == NO_REPLY


def visible(text: str) -> str:
    """A text without a token at its end; empty if that is all there is to it."""
    start = _token_start(text, at_start=True)
    return text if start is None else text[:start]


def delivered(payload: Payload) -> Payload | None:
    """What is left to deliver of a payload; nothing, if it is silent and carries no media."""
    shown = payload._replace(text=visible(payload.text))
    return shown if shown.text.strip() or shown.media else None


class Stream:
    """A text that comes in pieces: what has come so far is shown, except an end that may become the token."""

    def __init__(self) -> None:
        self._held = ""
        self._at_start = True

    def feed(self, piece: str) -> str:
        """Take the next piece; gives what may be shown now."""
        self._held += piece
        return self._release(_hold_from(self._held, at_start=self._at_start))

    def end(self) -> str:
        """There is no more; gives what was held back and is no token."""
        start = _token_start(self._held, at_start=self._at_start)
        shown = self._release(len(self._held) if start is None else start)
        self._held = ""
        return shown

    def _release(self, count: int) -> str:
        shown, self._held = self._held[:count], self._held[count:]
        self._at_start = self._at_start and not shown
        return shown


def _token_start(text: str, *, at_start: bool) -> int | None:
    """Where a token at the end begins, with the blanks and stars before it; nothing, if there is none."""
    before = text.rstrip().rstrip("*").removesuffix(NO_REPLY)
    return _edge(before, at_start=at_start) if len(before) < len(text.rstrip().rstrip("*")) else None


def _hold_from(text: str, *, at_start: bool) -> int:
    """From where on a text is held back, because what follows may still make it a token."""
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
    """Where the blanks and stars at the end of a text begin; nothing, if there are none and it is not the start."""
    end = len(before)
    while end and (before[end - 1].isspace() or before[end - 1] == "*"):
        end -= 1
    return end if end < len(before) or (at_start and not end) else None
