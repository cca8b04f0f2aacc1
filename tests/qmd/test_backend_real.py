"""The qmd backend with the real qmd: the same questions, the same notes, and answers of the same form as builtin's."""

import json
import os
import signal
from pathlib import Path

import pytest

from mdrecall.errors import TranscriptRefused
from mdrecall.memory import Memory
from mdrecall.search.score import probabilities
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from mdrecall.types.search import SearchAnswer
from tests.conftest import values_of
from tests.processes import marked, until
from tests.qmd.models import write_models
from tests.qmd.qmd_workspace import NOTES, QmdWorkspace

MORE = {
    "memory/zh.md": "# 记忆\n\n支付网关迁移推迟到三月。\n",
    "memory/sub/My Note (draft) #1.md": "# Draft\n\nDecision DEC-0054: memorySearch.query stays on.\n",
}
QUESTIONS = {
    "what did Ana say about the billing migration?": "memory/2026-01-14.md",
    "DEC-0054": "memory/sub/My Note (draft) #1.md",
    "where is memorySearch.query decided?": "memory/sub/My Note (draft) #1.md",
    "支付网关什么时候迁移": "memory/zh.md",
    '"need water" -billing': "memory/garden.md",
    "who leads the billing team": "MEMORY.md",
}


@pytest.fixture
def notes(real: QmdWorkspace) -> QmdWorkspace:
    return real.write(NOTES | MORE)


def builtin(qmd_workspace: QmdWorkspace) -> Memory:
    """The same workspace with the other backend."""
    qmd_workspace.workspace.configure(json.dumps({"memory": {"backend": "builtin"}}))
    memory = Memory.open(qmd_workspace.workspace.path, env=qmd_workspace.env, one_shot=True)
    qmd_workspace.workspace._open.append(memory)
    return memory


def form(answer: SearchAnswer) -> tuple[object, ...]:
    best = answer[0]
    return best.path, best.start_line, best.end_line, best.match_start_line, best.citation, best.source, best.heading


def test_both_backends_give_the_same_answers_in_the_same_form(notes: QmdWorkspace) -> None:
    notes.own["qmd"]["session"] = True
    qmd = notes.memory(one_shot=False)
    qmd.sync()
    other = builtin(notes)
    for question, path in QUESTIONS.items():
        answer = qmd.search(question)
        assert (answer.backend, answer.answered_for, answer[0].path) == ("qmd", None, path), question
        same = other.search(question, mode="keyword")
        assert form(answer) == form(same), question
        assert answer[0].score == pytest.approx(same[0].score, abs=0.15), question


@pytest.mark.parametrize(
    ("search_mode", "mode"), [pytest.param("vsearch", "vector", marks=pytest.mark.soak), ("query", "hybrid")]
)
def test_with_its_models_a_score_is_a_probability_as_well(
    notes: QmdWorkspace, tmp_path: Path, search_mode: str, mode: str
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    notes.variables = write_models(folder)
    notes.settings_of_qmd |= {"searchMode": search_mode, "limits": {"timeoutMs": 60_000}}
    # One process loads the models once for both questions.
    notes.own["qmd"]["session"] = True
    memory = notes.memory(one_shot=False)
    memory.sync()
    answer = memory.search("what did Ana say about the billing migration?", explain=True)
    assert (answer.backend, answer.mode, answer.degraded) == ("qmd", mode, "")
    assert answer[0].path == "memory/2026-01-14.md"
    assert answer.confidence != "low"
    assert answer[0].score == pytest.approx(probabilities([values_of(answer[0])["worth"]])[0], abs=1e-3)
    foreign = memory.search("how long does a cake take in the oven?")
    assert (foreign.backend, foreign.confidence) == ("qmd", "low")
    assert foreign.caution


def test_what_was_just_written_is_found_by_a_process_that_answers_once(notes: QmdWorkspace) -> None:
    memory = notes.memory()
    assert memory.search("billing migration").backend == "qmd"
    memory.close()
    notes.workspace.write("memory/new.md", "The quokka arrives on Monday.\n")
    answer = notes.memory().search("when does the quokka arrive?")
    assert (answer.backend, answer[0].path, answer.stale) == ("qmd", "memory/new.md", "")
    (notes.workspace.path / "memory" / "new.md").unlink()
    assert notes.memory().search("quokka").reason == "no_match"


def test_a_conversation_is_cited_by_its_records(notes: QmdWorkspace) -> None:
    notes.settings_of_qmd["sessions"] = {"enabled": True}
    folder = Path(notes.settings.sessions_dir)
    folder.mkdir(parents=True)
    said = ["Good morning", "The walrus sleeps in hall seven", "Thank you"]
    records: list[dict[str, object]] = [{"type": "session", "id": "talk"}]
    records += [{"type": "message", "message": {"role": "user", "content": text}} for text in said]
    (folder / "talk.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    memory = notes.memory()
    best = memory.search("where does the walrus sleep?")[0]
    assert (best.path, best.source) == ("sessions/talk.jsonl", "sessions")
    assert (best.match_start_line, best.match_end_line) == (3, 3)
    assert "hall seven" in memory.read_session(best.path, from_line=3, lines=1).text
    for path in (best.path, "qmd/sessions-main/talk.md"):
        with pytest.raises(TranscriptRefused):
            memory.read(path)
    tools = Toolset(memory_tools(memory))
    assert tools.call("memory_search", {"query": "walrus"}).details["corpus"] == ["memory", "sessions"]
    assert [result.path for result in memory.search("walrus", source="sessions")] == [best.path]
    assert memory.search("walrus", source="memory").reason == "no_match"


def servers(qmd_workspace: QmdWorkspace) -> list[int]:
    """The processes of ``qmd mcp`` of this memory: npm's launcher, and the one that it has started."""
    found = []
    for pid in marked(str(qmd_workspace.workspace.state)):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        found += [pid] if b"mcp" in words else []
    return found


def test_a_server_that_is_killed_is_done_without_then_started_again_and_none_is_left(notes: QmdWorkspace) -> None:
    notes.own["qmd"]["session"] = True
    memory = notes.memory(one_shot=False)
    memory.sync()
    memory.search("billing migration")
    killed = max(servers(notes))
    os.kill(killed, signal.SIGKILL)
    answer = memory.search("billing migration")
    assert (answer.backend, answer.answered_for, answer[0].path) == ("qmd", None, "memory/2026-01-14.md")
    assert until(lambda: memory.search("billing migration").issues == ())
    assert killed not in servers(notes)
    memory.close()
    assert marked(str(notes.workspace.state)) == []
    assert [path.name for path in notes.workspace.state.rglob("*.lock")] == []


def test_a_memory_that_stays_open_finds_what_is_in_an_index_that_took_the_place_of_its_own(notes: QmdWorkspace) -> None:
    notes.own["qmd"]["session"] = True
    (notes.workspace.path / "MEMORY.md").unlink()
    memory = notes.memory(one_shot=False)
    memory.sync()
    memory.search("billing migration")
    other = notes.memory()
    other.reset()
    other.close()
    notes.workspace.write("MEMORY.md", "The root file came later: the axolotl smiles.\n")

    def found() -> bool:
        answer = memory.search("axolotl")
        return answer.backend == "qmd" and [result.path for result in answer] == ["MEMORY.md"]

    assert until(found)
