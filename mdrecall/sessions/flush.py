"""Memory flushes: whether a session needs one before its next turn, and the prompts of one.

*Compaction* replaces a conversation that has become too long for the model by a summary. A *flush* is a turn before it
in which the model writes down what it will need later. A *cycle* is the time between two compactions: it has at most
one flush, and a limited number of attempts at it.
"""

import re
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.patterns import NOTE_ENDING, compile_later
from mdrecall.sessions.messages import NO_REPLY

#: The context window of the models that most sessions use; OpenClaw's default too.
DEFAULT_WINDOW = 200_000
#: What OpenClaw's compaction leaves free unless it is configured.
DEFAULT_RESERVE = 16_384
#: Compaction leaves at most a quarter of a window free, as in OpenClaw.
_RESERVED_SHARE = 4
#: After this many failures in one cycle, another attempt would most likely fail too and only cost tokens.
MAX_ATTEMPTS = 3

Trigger: TypeAlias = Literal["tokens", "size", ""]

_DATE = "YYYY-MM-DD"
_TIME_LINE = "Current time:"
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip

_TARGET = "The only file to write to is memory/YYYY-MM-DD.md; make the folder if it is missing."
_APPEND = "Append to the file and leave every entry in it as it is; do not begin a second file for the same day."
_READ_ONLY = "Treat MEMORY.md, SOUL.md, TOOLS.md and AGENTS.md as read-only."
_SILENCE = f"If there is nothing to store, begin your answer with {NO_REPLY} and write nothing else."

#: Each instruction, and a pattern that tells that a custom prompt already has it.
_INSTRUCTIONS = (
    (_TARGET, compile_later(r"memory/YYYY-MM-DD\.md")),
    (_APPEND, compile_later(r"\bappend", re.IGNORECASE)),
    (_READ_ONLY, compile_later(r"\bread.only\b", re.IGNORECASE)),
)

USER_PROMPT = (
    "Memory flush before compaction: soon only a summary of this conversation will be left. Store now what will matter"
    " later, such as decisions, facts, preferences, names, dates and open tasks."
    f" {_TARGET} {_APPEND} {_READ_ONLY} {_SILENCE}"
)
SYSTEM_PROMPT = (
    "This turn is a memory flush: the conversation is about to be compacted, and nobody reads your answer. Write"
    " durable memories to memory/YYYY-MM-DD.md, then end the turn."
    f" {_APPEND} {_READ_ONLY} Usually {NO_REPLY} is the right answer."
)


class Rules(NamedTuple):
    """The configured rules for flushes."""

    enabled: bool = True
    soft_threshold_tokens: int = 4000
    """How many tokens before compaction the flush comes."""
    force_bytes: int = 2 * 1024 * 1024
    """Flush once the transcript has grown by this much, however few tokens it has; 0 is never."""
    reserve_tokens: int | None = None
    """What compaction is known to leave free."""
    reserve_tokens_floor: int = 20_000

    def reserve(self, context_window: int) -> int:
        """Return how many tokens compaction leaves free; it starts when they are used up.

        An assumed number is at most a quarter of the window, as in OpenClaw, so that a small model has room.
        """
        known = self.reserve_tokens or 0
        floor = self.reserve_tokens_floor if known else max(DEFAULT_RESERVE, self.reserve_tokens_floor)
        return max(known, min(floor, context_window // _RESERVED_SHARE))


class Turn(NamedTuple):
    """What is known about a session when its next turn is about to begin."""

    context_window: int = DEFAULT_WINDOW
    total_tokens: int = 0
    """The session's last count of its tokens."""
    total_is_fresh: bool = True
    prompt_tokens: int = 0
    """The size of the last prompt according to the transcript."""
    output_tokens: int = 0
    """The size of the model's answer to it."""
    estimated_tokens: int = 0
    """How much the prompt of this turn will add."""
    transcript_bytes: int = 0
    compaction_count: int = 0
    is_heartbeat: bool = False
    is_cli_provider: bool = False
    is_sandboxed: bool = False
    workspace_access: str = "rw"


class FlushHistory(NamedTuple):
    """What is recorded about a session's flushes."""

    has_entry: bool = True
    flushed_count: int | None = None
    """The compaction count of the cycle that was flushed last."""
    flushed_bytes: int = 0
    """The size of the transcript at that flush."""
    attempts: int = 0
    attempts_count: int | None = None
    """The compaction count of the cycle in which the attempts were made."""


class Decision(NamedTuple):
    """Whether to flush now, and why or why not."""

    run: bool
    why: str
    trigger: Trigger = ""


def decide(rules: Rules, turn: Turn, history: FlushHistory) -> Decision:
    """Decide whether to flush the session before its next turn."""
    if reason := _find_obstacle(rules, turn, history):
        return Decision(False, reason)
    limit, tokens = threshold(rules, turn.context_window), projected_tokens(turn)
    if limit and tokens >= limit:
        return Decision(True, f"{tokens:,} tokens: past the {limit:,} flush threshold", "tokens")
    grown = grown_bytes(turn, history)
    if rules.force_bytes and grown >= rules.force_bytes:
        return Decision(True, f"the transcript has grown by {grown:,} bytes since the last flush", "size")
    if not limit:
        return Decision(False, f"a context window of {turn.context_window:,} tokens leaves no room for a flush")
    if not tokens:
        return Decision(False, "the token count of the session is not known")
    return Decision(False, f"{tokens:,} tokens are below {limit:,}")


def threshold(rules: Rules, context_window: int) -> int:
    """Return how many tokens trigger a flush; 0 is never. It comes in the second half of a window, however small."""
    room = max(0, context_window - rules.reserve(context_window))
    return room - min(rules.soft_threshold_tokens, room // 2)


def projected_tokens(turn: Turn) -> int:
    """Return how many tokens the context will have in this turn; 0 if nothing is known."""
    counted = turn.total_tokens if turn.total_is_fresh else 0
    snapshot = max(0, counted, turn.prompt_tokens)
    return snapshot + max(0, turn.output_tokens) + max(0, turn.estimated_tokens) if snapshot else 0


def grown_bytes(turn: Turn, history: FlushHistory) -> int:
    """Return how much the transcript has grown since the last flush; one that is shorter now is a new one."""
    is_same = turn.transcript_bytes >= history.flushed_bytes
    return turn.transcript_bytes - history.flushed_bytes if is_same else turn.transcript_bytes


def count_attempt(history: FlushHistory, compaction_count: int) -> FlushHistory:
    """Return the history with one more attempt."""
    earlier = history.attempts if history.attempts_count == compaction_count else 0
    return history._replace(attempts=earlier + 1, attempts_count=compaction_count)


def record_flush(history: FlushHistory, compaction_count: int, transcript_bytes: int) -> FlushHistory:
    """Return the history after a successful flush."""
    return FlushHistory(history.has_entry, compaction_count, transcript_bytes)


def _find_obstacle(rules: Rules, turn: Turn, history: FlushHistory) -> str:
    """Return why a flush is not allowed; empty if it is."""
    tries = history.attempts if history.attempts_count == turn.compaction_count else 0
    obstacles = (
        (not rules.enabled, "the memory flush is switched off"),
        (turn.is_sandboxed and turn.workspace_access != "rw", "the session's sandbox may not write to the workspace"),
        (turn.is_heartbeat, "the turn is a heartbeat"),
        (turn.is_cli_provider, "the model is a command-line program, which cannot be asked to flush"),
        (not history.has_entry, "the session has no entry in sessions.json"),
        (history.flushed_count == turn.compaction_count, "the session was flushed since the last compaction"),
        (tries >= MAX_ATTEMPTS, f"{tries} attempts have failed since the last compaction"),
    )
    return next((why for applies, why in obstacles if applies), "")


class Prompts(NamedTuple):
    """The prompts of a flush, the one file that it may write to, and the model to ask."""

    system: str
    user: str
    path: str
    model: str = ""
    """As configured, ``provider/model``; empty for the model of the conversation."""


def daily_path(moment: datetime) -> str:
    """Return the path of the day's note, relative to the workspace."""
    return f"memory/{moment.date()}{NOTE_ENDING}"


def make_prompts(
    moment: datetime,
    *,
    user: str | None = None,
    system: str | None = None,
    extra_system: str = "",
    twelve_hours: bool = False,
) -> Prompts:
    """Return the prompts of a flush. Custom ones are completed; ``extra_system`` is the rest of the system prompt."""
    asked, added = (
        _complete(custom, built_in).replace(_DATE, str(moment.date()))
        for custom, built_in in ((user, USER_PROMPT), (system, SYSTEM_PROMPT))
    )
    if _TIME_LINE not in asked:
        asked += f"\n{_TIME_LINE} {time_words(moment, twelve_hours=twelve_hours)} ({_zone_label(moment)})"
    return Prompts("\n\n".join(filter(None, (extra_system.strip(), added))), asked, daily_path(moment))


def time_words(moment: datetime, *, twelve_hours: bool) -> str:
    """Return a time such as ``Monday, February 16th, 2026 — 10:00 AM``, or ``… — 10:00``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(0 if 10 < moment.day < 14 else moment.day % 10, "th")
    day = f"{_WEEKDAYS[moment.weekday()]}, {_MONTHS[moment.month - 1]} {moment.day}{ending}, {moment.year}"
    half = "AM" if moment.hour < 12 else "PM"
    time = f"{(moment.hour + 11) % 12 + 1}:{moment:%M} {half}" if twelve_hours else f"{moment:%H:%M}"
    return f"{day} — {time}"


def _zone_label(moment: datetime) -> str:
    """Return the name of a time zone; an abbreviation is followed by its offset."""
    if key := getattr(moment.tzinfo, "key", ""):
        return str(key)
    offset = moment.strftime("%z")
    away = f"UTC{offset[:3]}:{offset[3:5]}"
    name = moment.tzname() or away
    return name if name in ("UTC", away) else f"{name}, {away}"


def _complete(custom: str | None, built_in: str) -> str:
    """Return a custom prompt with the instructions that it lacks, or the built-in one without a custom one."""
    text = (custom or "").strip()
    if not text:
        return built_in
    missing = [instruction for instruction, pattern in _INSTRUCTIONS if not pattern.search(text)]
    if NO_REPLY not in text:
        missing.append(_SILENCE)
    return "\n\n".join(filter(None, (text, " ".join(missing))))
