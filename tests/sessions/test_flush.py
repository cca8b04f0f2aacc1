import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mdrecall.sessions.flush import (
    MAX_ATTEMPTS,
    Decision,
    FlushHistory,
    Rules,
    Turn,
    count_attempt,
    decide,
    projected_tokens,
    record_flush,
    threshold,
)

MIB = 1024 * 1024


def decided(turn: Turn, history: FlushHistory | None = None, rules: Rules | None = None) -> Decision:
    return decide(rules or Rules(), turn, history or FlushHistory())


@pytest.mark.parametrize("soft", [0, 4_000, 10**6])
@pytest.mark.parametrize("window", [1, 2, 3, 8_000, 200_000])
def test_a_flush_comes_before_compaction_and_not_in_the_first_third(window: int, soft: int) -> None:
    rules = Rules(soft_threshold_tokens=soft)
    assert rules.reserve(window) <= window / 4
    assert window / 3 <= threshold(rules, window) <= window - rules.reserve(window)


@pytest.mark.parametrize(("window", "reserve"), [(0, None), (8_000, 8_000), (8_000, 9_000)])
def test_a_window_without_room_is_never_flushed_for_its_tokens(window: int, reserve: int | None) -> None:
    rules = Rules(reserve_tokens=reserve)
    found = decided(Turn(context_window=window, total_tokens=10**9), rules=rules)
    assert not found.run
    assert "leaves no room" in found.why
    assert decided(Turn(context_window=window, transcript_bytes=2 * MIB), rules=rules).trigger == "size"


@pytest.mark.parametrize(
    ("turn", "tokens"),
    [
        (Turn(total_tokens=100, total_is_fresh=False, output_tokens=5, estimated_tokens=7), 0),
        (Turn(total_tokens=100, prompt_tokens=90, output_tokens=5, estimated_tokens=7), 112),
        (Turn(total_tokens=100, prompt_tokens=120, output_tokens=5), 125),
        (Turn(total_tokens=100, total_is_fresh=False, prompt_tokens=80, estimated_tokens=7), 87),
        (Turn(total_tokens=-5, prompt_tokens=-1), 0),
    ],
)
def test_tokens_are_the_better_snapshot_and_what_comes_on_top(turn: Turn, tokens: int) -> None:
    assert projected_tokens(turn) == tokens


FULL = Turn(total_tokens=190_000, compaction_count=3)


@pytest.mark.parametrize(
    ("turn", "history", "rules", "said"),
    [
        (FULL, FlushHistory(), Rules(enabled=False), "switched off"),
        (FULL._replace(is_heartbeat=True), FlushHistory(), Rules(), "heartbeat"),
        (FULL._replace(is_cli_provider=True), FlushHistory(), Rules(), "command-line"),
        (FULL._replace(is_sandboxed=True, workspace_access="ro"), FlushHistory(), Rules(), "sandbox"),
        (FULL, FlushHistory(has_entry=False), Rules(), "no entry"),
        (FULL, FlushHistory(flushed_count=3), Rules(), "was flushed"),
        (FULL, FlushHistory(attempts=MAX_ATTEMPTS, attempts_count=3), Rules(), "3 attempts"),
        (FULL._replace(compaction_count=0), FlushHistory(flushed_count=0), Rules(), "was flushed"),
    ],
)
@pytest.mark.parametrize("size", [0, 100 * MIB])
def test_a_rule_forbids_the_flush_whatever_has_grown(
    turn: Turn, history: FlushHistory, rules: Rules, said: str, size: int
) -> None:
    found = decided(turn._replace(transcript_bytes=size), history, rules)
    assert (found.run, found.trigger) == (False, "")
    assert said in found.why


@pytest.mark.parametrize(
    "turn", [FULL, FULL._replace(is_sandboxed=True), FULL._replace(workspace_access="ro")], ids=["plain", "rw", "free"]
)
@pytest.mark.parametrize(
    "history", [FlushHistory(), FlushHistory(flushed_count=2), FlushHistory(flushed_count=4), FlushHistory(attempts=9)]
)
def test_nothing_else_forbids_it(turn: Turn, history: FlushHistory) -> None:
    assert decided(turn, history).run


def test_the_size_counts_from_the_last_flush_and_not_from_nothing() -> None:
    turn = Turn(total_tokens=10, transcript_bytes=2 * MIB)
    assert decided(turn).trigger == "size"
    history = record_flush(FlushHistory(), 0, 2 * MIB)
    later = turn._replace(compaction_count=1, transcript_bytes=4 * MIB - 1)
    assert not decided(later, history).run
    assert decided(later._replace(transcript_bytes=4 * MIB), history).trigger == "size"


def test_a_transcript_that_is_shorter_than_at_the_last_flush_is_a_new_one() -> None:
    turn = Turn(total_tokens=10, transcript_bytes=2 * MIB, compaction_count=1)
    assert decided(turn, record_flush(FlushHistory(), 0, 50 * MIB)).trigger == "size"
    assert not decided(turn._replace(transcript_bytes=MIB), record_flush(FlushHistory(), 0, 50 * MIB)).run


class Session:
    """An agent's session: turns, flushes that may fail, compaction; a restart forgets all but the history."""

    def __init__(self, rules: Rules, window: int) -> None:
        self.rules, self.window = rules, window
        self.history = FlushHistory()
        self.tokens, self.bytes, self.compactions = 0, 0, 0
        self.begin_cycle()
        self.flushed_at = 0
        self.sizes = 0

    def begin_cycle(self) -> None:
        self.flushes, self.attempts, self.reached = 0, 0, False

    def turn(self, grows: int, text_bytes: int, flush_ends: str, **kind: bool) -> Decision:
        """One turn; ``flush_ends`` is what becomes of a flush: ``well``, ``badly`` or ``killed``."""
        asked = Turn(
            context_window=self.window, total_tokens=self.tokens, estimated_tokens=grows,
            transcript_bytes=self.bytes, compaction_count=self.compactions, workspace_access="ro", **kind,
        )  # fmt: skip
        found = decide(self.rules, asked, self.history)
        if not any(kind.values()):
            past = self.tokens > 0 and self.tokens + grows >= threshold(self.rules, self.window) > 0
            self.reached = self.reached or past
        if found.run:
            assert not any(kind.values())
            assert self.flushes == 0
            self._flush(found, flush_ends)
        self.tokens += grows
        self.bytes += text_bytes
        if self.tokens > self.window - self.rules.reserve(self.window):
            self.compact()
        return found

    def _flush(self, found: Decision, ends: str) -> None:
        self.history = count_attempt(self.history, self.compactions)
        self.attempts += 1
        assert self.attempts <= MAX_ATTEMPTS
        if found.trigger == "size":
            assert self.bytes - self.flushed_at >= self.rules.force_bytes
        else:
            assert self.reached
        if ends == "well":
            self.history = record_flush(self.history, self.compactions, self.bytes)
            self.flushes, self.flushed_at = 1, self.bytes
            self.sizes += found.trigger == "size"

    def compact(self) -> None:
        self.check()
        self.tokens = self.tokens // 10
        self.compactions += 1
        self.begin_cycle()

    def check(self) -> None:
        """Once the threshold was reached there was one flush, unless every attempt that is allowed has failed."""
        if self.reached:
            assert self.flushes == 1 or self.attempts > 0
        assert self.flushes <= 1


class Cycles(RuleBasedStateMachine):
    """Whatever happens, a cycle has one flush at most, and one for certain once the threshold is reached."""

    @initialize(reserve=st.sampled_from([None, 30_000]), force=st.sampled_from([0, 5_000, MIB]))
    def begin(self, reserve: int | None, force: int) -> None:
        self.session = Session(Rules(reserve_tokens=reserve, force_bytes=force), 100_000)

    @rule(grows=st.integers(1, 40_000), ends=st.sampled_from(["well", "badly", "killed"]))
    def turn(self, grows: int, ends: str) -> None:
        self.session.turn(grows, grows * 4, ends)

    @rule(kind=st.sampled_from(["is_heartbeat", "is_cli_provider", "is_sandboxed"]), grows=st.integers(1, 20_000))
    def turn_that_must_not_flush(self, kind: str, grows: int) -> None:
        assert not self.session.turn(grows, grows, "well", **{kind: True}).run

    @rule()
    def compact_by_hand(self) -> None:
        self.session.compact()

    @precondition(lambda self: self.session.flushes == 1)
    @rule(grows=st.integers(1, 1000))
    def after_the_flush_there_is_no_other(self, grows: int) -> None:
        before = self.session.compactions
        assert not self.session.turn(grows, grows, "well").run or self.session.compactions != before

    @invariant()
    def one_at_most(self) -> None:
        if hasattr(self, "session"):
            assert self.session.flushes <= 1
            if self.session.rules.force_bytes:
                assert self.session.sizes <= self.session.bytes // self.session.rules.force_bytes


TestCycles = Cycles.TestCase


@settings(max_examples=10)
@given(st.integers(0))
def test_a_growing_transcript_is_flushed_once_for_each_growth_and_not_in_each_cycle(seed: int) -> None:
    chance = random.Random(seed)
    session = Session(Rules(force_bytes=MIB), 200_000)
    for _ in range(2000):
        session.turn(1, chance.randrange(20_000), "well")
        if chance.random() < 0.2:
            session.compact()
    assert session.sizes <= session.bytes // MIB
    assert session.sizes >= session.bytes // (2 * MIB)
