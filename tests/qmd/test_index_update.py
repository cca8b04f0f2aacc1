"""One update: what is run, what is mended, what is kept, and how it is known that files have changed."""

import os
from pathlib import Path

import apsw
import pytest

from mdrecall.errors import (
    ProgramBusy,
    ProgramTimedOut,
)
from mdrecall.extras.qmd.export import SessionExport
from mdrecall.extras.qmd.process import Program
from mdrecall.extras.qmd.update import IndexUpdate
from mdrecall.locks import FileLock
from mdrecall.notes.tombstones import Masks, TombstoneFiles
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.types.documents import Issue
from mdrecall.types.sync import Stop, never
from tests.qmd.agent_home import AgentHome, Scripted


def run(
    update: IndexUpdate, *, force: bool = False, patient: bool = False, stop: Stop = never
) -> tuple[str, tuple[Issue, ...]]:
    issues: list[Issue] = []
    return update.run(issues, force=force, patient=patient, stop=stop), tuple(issues)


@pytest.fixture
def bound(agent_home: AgentHome) -> AgentHome:
    """An agent whose collections qmd has already, so that nothing but the update is run."""
    agent_home.qmd(includeDefaultMemory=False, paths=[{"path": "memory", "name": "n"}])
    agent_home.note("memory/a.md", "# A")
    agent_home.bind("n-main", agent_home.workspace / "memory")
    return agent_home


def test_a_lock_is_waited_for_only_where_nobody_is_kept_waiting(bound: AgentHome) -> None:
    pauses: list[float] = []
    busy = [ProgramBusy("locked"), ProgramTimedOut("slow")]
    program = Scripted(update=busy)
    assert run(bound.update(program, pause=pauses.append), patient=True) == ("", ())
    assert program.names() == ["update"] * 3
    assert pauses == [0.5, 1.0]
    for error in busy:
        with pytest.raises(type(error)):
            run(bound.update(Scripted(update=[error]), pause=pauses.append))
    with pytest.raises(ProgramBusy):
        run(bound.update(Scripted(update=[ProgramBusy("locked")] * 3), pause=pauses.append), patient=True)


def test_whether_files_have_changed_is_known_in_another_process_too(bound: AgentHome) -> None:
    assert bound.update(Scripted()).is_behind()
    run(bound.update(Scripted()))
    assert not bound.update(Scripted()).is_behind()
    assert bound.update(Scripted()).completed_at()
    os.utime(bound.note("memory/a.md", "# A"), ns=(1, 1))
    assert bound.update(Scripted()).is_behind()
    run(bound.update(Scripted()))
    for change in (
        lambda: bound.note("memory/deep/b.md", "# B"),
        lambda: (bound.workspace / "memory" / "deep" / "b.md").unlink(),
        lambda: bound.qmd(paths=[{"path": "memory", "name": "n", "pattern": "*.md"}]),
        lambda: Path(bound.database.path).unlink(),
    ):
        change()
        assert bound.update(Scripted()).is_behind()
        run(bound.update(Scripted()))


def test_a_change_during_an_update_is_not_taken_for_read(bound: AgentHome) -> None:
    def reads(_: Stop) -> str:
        bound.note("memory/late.md", "# Late")
        return ""

    update = bound.update(Scripted(update=[reads]))
    run(update)
    assert update.is_behind()


def test_transcripts_count_as_files_and_are_exported_first(bound: AgentHome) -> None:
    masks = Masks((), TombstoneFiles(""))
    folder = bound.qmd_dir / "sessions"
    export = SessionExport(
        OpenClawTranscripts(bound.settings.sessions_dir), masks, folder=str(folder), state_dir=str(bound.state_dir)
    )
    program = Scripted(update=[lambda _: str(sorted(os.listdir(folder)))])
    update = bound.update(program, export=export)
    bound.say("one", "hello")
    run(update)
    assert os.listdir(folder) == ["one.md"]
    assert not update.is_behind()
    bound.say("one", "more")
    assert update.is_behind()


def test_while_another_process_updates_one_waits_and_then_has_nothing_to_do(bound: AgentHome) -> None:
    run(bound.update(Scripted()))
    lock = FileLock(str(bound.state_dir / "update.lock"))
    assert lock.acquire(0, "updating qmd")
    program = Scripted()
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        lock.release()
        return False

    assert run(bound.update(program), stop=stop) == ("unchanged", ())
    assert asked
    assert program.calls == []


def test_the_real_qmd_gets_a_new_index_for_a_damaged_one(agent_home: AgentHome, qmd: Program) -> None:
    agent_home.qmd(includeDefaultMemory=False, paths=[{"path": "memory", "name": "n"}])
    for number in range(40):
        agent_home.note(f"memory/{number}.md", f"# Note {number}\n" + "words and more words\n" * 40)
    update = agent_home.update(qmd)
    run(update)
    path = Path(agent_home.database.path)
    db = apsw.Connection(str(path))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xff" * (len(data) - 8192))
    skipped, issues = run(update)
    assert skipped == ""
    assert [issue.path for issue in issues] == [str(path)]
    assert Path(f"{path}.damaged-1").exists()
    assert agent_home.database.counts() == {"n-main": 40}
