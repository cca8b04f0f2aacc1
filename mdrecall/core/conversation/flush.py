"""Whether memories are to be written down before a turn, because compaction is near or the transcript has grown long.

A *cycle* is the time between two compactions. It has one flush at most, and a bounded number of attempts at it.
"""

from typing import Literal, NamedTuple, TypeAlias

DEFAULT_WINDOW = 200_000
DEFAULT_RESERVE = 16_384
MOST_ATTEMPTS = 3

Trigger: TypeAlias = Literal["tokens", "size", ""]


class Rules(NamedTuple):
    """What the configuration says."""

    enabled: bool = True
    soft_threshold_tokens: int = 4000
    force_bytes: int = 2 * 1024 * 1024
    """By how much a transcript must grow to be flushed whatever the tokens; 0 is never."""
    reserve_tokens: int | None = None
    reserve_tokens_floor: int = 20_000

    @property
    def reserve(self) -> int:
        """The room that compaction really leaves, and so what the flush has to come before."""
        return max(self.reserve_tokens or DEFAULT_RESERVE, self.reserve_tokens_floor)


class Turn(NamedTuple):
    """What is known of a session when its next turn is about to begin."""

    context_window: int = DEFAULT_WINDOW
    total_tokens: int = 0
    """What the session counted last."""
    total_is_fresh: bool = True
    prompt_tokens: int = 0
    """What the transcript says of the last prompt."""
    output_tokens: int = 0
    """What the model answered to it."""
    estimated_tokens: int = 0
    """What the prompt of this turn will add."""
    transcript_bytes: int = 0
    compaction_count: int = 0
    is_heartbeat: bool = False
    is_cli_provider: bool = False
    is_sandboxed: bool = False
    workspace_access: str = "rw"


class Book(NamedTuple):
    """What is written down of a session's flushes."""

    has_entry: bool = True
    flushed_count: int | None = None
    """The compaction count of the cycle that was flushed last."""
    flushed_bytes: int = 0
    """How long the transcript was then."""
    attempts: int = 0
    attempts_count: int | None = None
    """The compaction count of the cycle that the attempts were made in."""


class Situation(NamedTuple):
    """Everything that the decision depends on."""

    rules: Rules
    turn: Turn
    book: Book


class Decision(NamedTuple):
    """Whether to flush now, and why or why not."""

    run: bool
    why: str
    trigger: Trigger = ""


def decide(situation: Situation) -> Decision:
    """Whether the session is flushed before its next turn."""
    if skipped := _skipped(situation):
        return Decision(False, skipped)
    rules, turn, book = situation
    limit, tokens = threshold(rules, turn.context_window), projected_tokens(turn)
    if limit and tokens >= limit:
        room = f"{tokens:,} tokens are at or past the {limit:,} that leave {rules.soft_threshold_tokens:,}"
        return Decision(True, f"{room} before compaction", "tokens")
    grown = grown_bytes(turn, book)
    if rules.force_bytes and grown >= rules.force_bytes:
        return Decision(True, f"the transcript has grown by {grown:,} bytes since the last flush", "size")
    if not limit:
        return Decision(False, f"a window of {turn.context_window:,} tokens leaves no room for a flush")
    if not tokens:
        return Decision(False, "it is not known how many tokens the session has")
    return Decision(False, f"{tokens:,} tokens are below {limit:,}")


def threshold(rules: Rules, context_window: int) -> int:
    """From how many tokens on a session is flushed; 0 is never."""
    return max(0, context_window - rules.reserve - rules.soft_threshold_tokens)


def projected_tokens(turn: Turn) -> int:
    """How many tokens the context will have in this turn; 0 if there is nothing to go by."""
    counted = turn.total_tokens if turn.total_is_fresh else 0
    snapshot = max(0, counted, turn.prompt_tokens)
    return snapshot + max(0, turn.output_tokens) + max(0, turn.estimated_tokens) if snapshot else 0


def grown_bytes(turn: Turn, book: Book) -> int:
    """By how much the transcript has grown since the last flush; one that is shorter now is a new one."""
    same = turn.transcript_bytes >= book.flushed_bytes
    return turn.transcript_bytes - book.flushed_bytes if same else turn.transcript_bytes


def begun(book: Book, compaction_count: int) -> Book:
    """The book after one more attempt."""
    earlier = book.attempts if book.attempts_count == compaction_count else 0
    return book._replace(attempts=earlier + 1, attempts_count=compaction_count)


def flushed(book: Book, compaction_count: int, transcript_bytes: int) -> Book:
    """The book after a flush that went well."""
    return Book(book.has_entry, compaction_count, transcript_bytes)


def _skipped(situation: Situation) -> str:
    """The rule that forbids a flush, in words; empty if none does."""
    rules, turn, book = situation
    tries = book.attempts if book.attempts_count == turn.compaction_count else 0
    reasons = (
        (not rules.enabled, "the memory flush is switched off"),
        (turn.is_sandboxed and turn.workspace_access != "rw", "the session's sandbox may not write to the workspace"),
        (turn.is_heartbeat, "the turn is a heartbeat"),
        (turn.is_cli_provider, "the model is a command-line program, which cannot be asked to flush"),
        (not book.has_entry, "the session has no entry in sessions.json"),
        (book.flushed_count == turn.compaction_count, "the session was flushed since the last compaction"),
        (tries >= MOST_ATTEMPTS, f"{tries} attempts have failed since the last compaction"),
    )
    return next((why for applies, why in reasons if applies), "")
