"""Whatever happens to transcripts, and in whatever order, the index is as a new one would be."""

import os
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.conftest import examples
from tests.engine.transcript_folder import LONG_AGO, TranscriptFolder, message


class Talks(RuleBasedStateMachine):
    """Whatever happens to transcripts, a sync leaves the index as a new one would be."""

    base: Path

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.scratch = tempfile.TemporaryDirectory()
        self.agent = TranscriptFolder(Path(self.scratch.name))

    names = st.sampled_from(["a.jsonl", "b-topic-7.jsonl", "c.jsonl.reset.2026-02-10T10-00-00.000Z"])
    texts = st.lists(st.sampled_from(["walrus " * 5, "鯨は海にいる" * 20, "x", "word " * 300, ""]), max_size=8)

    @rule(name=names, said=texts, torn=st.booleans())
    def say(self, name: str, said: list[str], torn: bool) -> None:
        lines = "".join(message(text) for text in said)
        self.agent.write(name, lines[:-7] if torn else lines)

    @rule(name=names, said=texts)
    def recreate(self, name: str, said: list[str]) -> None:
        self.agent.write(name, *(message(text) for text in said), mode="w")

    @rule(name=names, garbage=st.binary(max_size=40))
    def spoil(self, name: str, garbage: bytes) -> None:
        with (self.agent.folder / name).open("ab") as file:
            file.write(garbage + b"\n")

    @rule(name=names, at=st.integers(0, 5_000))
    def cut(self, name: str, at: int) -> None:
        path = self.agent.folder / name
        if path.exists():
            os.truncate(path, min(at, path.stat().st_size))

    @rule(name=names, at=st.integers(0, 5_000), said=texts)
    def write_over(self, name: str, at: int, said: list[str]) -> None:
        path = self.agent.folder / name
        if path.exists():
            with path.open("r+b") as file:
                file.seek(min(at, path.stat().st_size))
                file.write("".join(map(message, said)).encode())
                file.truncate()

    @rule(name=names, ahead=st.integers(-10_000, 10_000))
    def touch(self, name: str, ahead: int) -> None:
        path = self.agent.folder / name
        if path.exists():
            os.utime(path, (LONG_AGO + ahead, LONG_AGO + ahead))

    @rule(name=names)
    def lose(self, name: str) -> None:
        (self.agent.folder / name).unlink(missing_ok=True)

    @rule()
    def look(self) -> None:
        self.agent.indexer.sync(changes=self.agent.indexer.compare())

    @invariant()
    def the_index_is_as_a_new_one(self) -> None:
        self.agent.indexer.sync()
        assert self.agent.content() == self.agent.reindexed()
        assert self.agent.store.admin.check() == ()

    def teardown(self) -> None:
        self.agent.store.admin.close()
        self.scratch.cleanup()


def test_in_whatever_order_things_are_said_the_index_is_as_a_new_one() -> None:
    run_state_machine_as_test(Talks, settings=settings(max_examples=examples(3), stateful_step_count=12, deadline=None))
