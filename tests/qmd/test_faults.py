"""Whatever befalls qmd: there is an answer that says why, nothing is left behind, and qmd is used again when well."""

import json
import threading
from collections.abc import Callable

import pytest

from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer
from tests.processes import PATIENCE_S, holding, runs, until
from tests.qmd.qmd_workspace import NOTES, QUESTION, QmdWorkspace, hits

Fault = Callable[[QmdWorkspace], object]


def missing(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.program = str(qmd_workspace.workspace.home / "no-such-qmd")


def is_too_old(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.qmd.forget().reply("--version", out="qmd 2.5.3")


def hangs(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.settings_of_qmd["limits"] = {"timeoutMs": 1000}
    qmd_workspace.faulty(hang=True)


def leaves_a_child(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.settings_of_qmd["limits"] = {"timeoutMs": 1000}
    qmd_workspace.faulty(child="holds", hang=True)


def says_garbage(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.faulty(out="<html>Service unavailable</html>")


def floods(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.faulty(flood="out")


def crashes(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.faulty(code=139)


def is_killed_in_the_middle(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.faulty(out=json.dumps(hits(NOTES))[:80], code=137)


def is_cut_short(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.faulty(out=json.dumps(hits(NOTES))[:80])


def is_locked(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.faulty(code=1, err="SqliteError: database is locked\n  code: 'SQLITE_BUSY'\n")


def is_damage_report(qmd_workspace: QmdWorkspace) -> None:
    """qmd cannot mend it either."""
    qmd_workspace.database.write_bytes(b"this is no database, " * 400)
    said = "SqliteError: file is not a database\n  code: 'SQLITE_NOTADB'\n"
    qmd_workspace.faulty(code=1, err=said)
    qmd_workspace.qmd.reply("update", code=1, err=said)
    qmd_workspace.qmd.reply("collection", code=1, err=said)


FAULTS: dict[Fault, str] = {
    missing: "no-such-qmd",
    is_too_old: "2.5.3 is too old: 2.6 or newer is needed",
    hangs: "did not answer within",
    leaves_a_child: "did not answer within",
    says_garbage: "Service unavailable",
    floods: "bytes",
    crashes: "Node 22",
    is_killed_in_the_middle: "137",
    is_cut_short: "list of results",
    is_locked: "locked",
    is_damage_report: "",
}


def from_builtin(answer: SearchAnswer) -> str:
    """Why builtin answered; that it did is held."""
    assert answer.backend == "builtin"
    assert answer[0].path == "memory/2026-01-14.md"
    assert answer.answered_for is not None
    assert answer.answered_for.backend == "qmd"
    assert answer.answered_for.since <= answer.answered_for.next_try
    return answer.answered_for.reason


def leftovers(qmd_workspace: QmdWorkspace) -> list[int]:
    return [pid for pid in (*qmd_workspace.qmd.hanging, *qmd_workspace.qmd.children) if runs(pid)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_builtin_answers_and_says_why(qmd_workspace: QmdWorkspace, fault: Fault) -> None:
    fault(qmd_workspace)
    memory = qmd_workspace.memory()
    assert FAULTS[fault] in from_builtin(memory.search(QUESTION))
    status = memory.status()
    assert status.fallback is not None
    assert status.fallback["from"] == "qmd"
    memory.close()
    assert leftovers(qmd_workspace) == []
    assert not (qmd_workspace.database.parents[2] / "mdrecall" / "update.lock").exists()


@pytest.mark.parametrize("fault", [hangs, says_garbage], ids=lambda fault: fault.__name__)
def test_a_memory_that_stays_open_uses_qmd_again_when_it_is_well(qmd_workspace: QmdWorkspace, fault: Fault) -> None:
    fault(qmd_workspace)
    memory = qmd_workspace.memory(one_shot=False)
    from_builtin(memory.search(QUESTION))
    qmd_workspace.answering()
    assert until(lambda: memory.search(QUESTION).backend == "qmd")
    assert memory.status().fallback is None
    memory.close()
    assert leftovers(qmd_workspace) == []


@pytest.mark.parametrize("is_half_made", [False, True])
def test_a_first_index_that_takes_long_is_waited_for_by_nobody(qmd_workspace: QmdWorkspace, is_half_made: bool) -> None:
    qmd_workspace.database.unlink()
    if is_half_made:
        qmd_workspace.fill({"MEMORY.md": NOTES["MEMORY.md"]})
    qmd_workspace.qmd.reply("update", hang=True)
    memory = qmd_workspace.memory(one_shot=False)
    assert "first index" in from_builtin(memory.search(QUESTION))
    assert memory.status().fallback is None
    memory.close()
    assert leftovers(qmd_workspace) == []


def test_a_command_that_binds_collections_and_hangs_is_left_too(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.database.unlink()
    qmd_workspace.settings_of_qmd["limits"] = {"timeoutMs": 500}
    qmd_workspace.own["firstIndexWaitMs"] = 500
    qmd_workspace.qmd.forget()
    qmd_workspace.qmd.reply("collection", hang=True)
    memory = qmd_workspace.memory()
    assert "did not answer within" in from_builtin(memory.search(QUESTION))
    assert len(qmd_workspace.qmd.hanging) == 1
    memory.close()
    assert leftovers(qmd_workspace) == []


def test_a_stand_in_that_has_no_index_yet_is_in_time_all_the_same(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.own["firstIndexWaitMs"] = 60_000
    qmd_workspace.settings_of_qmd["limits"] = {"timeoutMs": 1000}
    qmd_workspace.faulty(hang=True)
    answers: list[SearchAnswer] = []
    with holding(f"{qmd_workspace.settings.index_path}.lock"):
        memory = qmd_workspace.memory(one_shot=False)
        asking = threading.Thread(target=lambda: answers.append(memory.search(QUESTION)), daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
    assert [(answer.backend, answer.reason) for answer in answers] == [("builtin", "index_empty")]
    assert answers[0].answered_for is not None


def test_an_update_that_hangs_ends_with_the_memory(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.qmd.reply("update", hang=True)
    memory = qmd_workspace.memory(one_shot=False)
    answer = memory.search(QUESTION)
    assert answer.backend == "qmd"
    assert "being indexed" in answer.stale
    assert until(lambda: bool(qmd_workspace.qmd.hanging))
    memory.close()
    assert leftovers(qmd_workspace) == []


def server(qmd_workspace: QmdWorkspace, **answer: object) -> Memory:
    """A memory that keeps ``qmd mcp`` running, which answers as planned."""
    qmd_workspace.qmd.tool("query", **answer)
    qmd_workspace.own["qmd"]["session"] = True
    return qmd_workspace.memory(one_shot=False)


def test_a_server_that_stays_answers_without_the_program_being_run(qmd_workspace: QmdWorkspace) -> None:
    memory = server(qmd_workspace, result={"structuredContent": {"results": hits(["memory/2026-01-14.md"])}})
    answer = memory.search(QUESTION)
    assert (answer.backend, answer[0].path, answer.issues) == ("qmd", "memory/2026-01-14.md", ())
    assert not any(call[0] == "query" for call in qmd_workspace.qmd.calls)


@pytest.mark.parametrize("fault", [{"die": "out of memory"}, {"result": {"isError": True, "content": []}}])
def test_when_the_server_fails_the_program_is_run(qmd_workspace: QmdWorkspace, fault: dict[str, object]) -> None:
    answer = server(qmd_workspace, **fault).search(QUESTION)
    assert (answer.backend, answer.answered_for) == ("qmd", None)
    assert answer[0].path == "memory/2026-01-14.md"
    assert any("was not used" in issue.problem for issue in answer.issues)
