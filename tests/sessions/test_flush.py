"""When a session is flushed, over many turns. The record holds what is decided of each single one."""

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
    record_flush,
    threshold,
)

MIB = 1024 * 1024


@pytest.mark.parametrize("soft", [0, 4_000, 10**6])
@pytest.mark.parametrize("window", [1, 2, 3, 8_000, 200_000])
def test_a_flush_comes_before_compaction_and_not_in_the_first_third(window: int, soft: int) -> None:
    rules = Rules(soft_threshold_tokens=soft)
    assert rules.reserve(window) <= window / 4
    assert window / 3 <= threshold(rules, window) <= window - rules.reserve(window)


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
