"""What a search knows of notes that have just been written, whoever else is at the index."""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from mdrecall.config.settings import Chunking
from mdrecall.engine.indexer import Indexer
from mdrecall.errors import StoreUnavailable
from mdrecall.locks import FileLock
from mdrecall.memory import Memory
from mdrecall.notes.files import MemoryFiles
from mdrecall.store.sqlite import SqliteStore
from mdrecall.text.words import Analyser
from mdrecall.types.documents import Listing
from mdrecall.types.search import SearchAnswer
from mdrecall.types.sync import Progress
from tests.conftest import Workspace, examples
from tests.processes import PATIENCE_S, holding, python, until
from tests.reliability.content import content_of, fresh_content

PATIENT = "{mdrecall: {searchWaitMs: 20000}}"
BIG = "word of some length\n" * 20_000


@pytest.fixture
def reader(workspace: Workspace) -> Iterator[Callable[[], Memory]]:
    """Opens memories of the workspace that index nothing by themselves."""
    opened: list[Memory] = []

    def open_reader() -> Memory:
        opened.append(Memory.open(workspace.path, env=workspace.env, overrides={"sync.onSearch": False}))
        return opened[-1]

    yield open_reader
    for memory in opened:
        memory.close()


def paths(answer: SearchAnswer) -> list[str]:
    return [result.path for result in answer]


def found(memory: Memory, word: str) -> list[str]:
    return paths(memory.search(word, mode="keyword"))


def write_lock(memory: Memory) -> str:
    return memory.settings.index_path + ".lock"


@pytest.mark.parametrize("one_shot", [False, True])
def test_a_search_finds_what_was_written_a_moment_before(workspace: Workspace, one_shot: bool) -> None:
    workspace.configure(PATIENT)
    note = workspace.path / "memory" / "a.md"
    note.parent.mkdir()
    with Memory.open(workspace.path, env=workspace.env, one_shot=one_shot) as memory:
        for word in ("walrus", "penguin", "turtle", "seagul"):
            note.write_text(word)
            answer = memory.search(word)
            assert (paths(answer), answer.stale, answer.issues) == (["memory/a.md"], "", ())
        note.unlink()
        answer = memory.search("seagul")
        assert (paths(answer), answer.stale) == ([], "")


def test_while_another_process_writes_the_answer_comes_and_says_what_is_not_in_it(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.write("memory/b.md", "penguin")
    memory = workspace.memory()
    memory.sync()
    with holding(write_lock(memory)) as other:
        workspace.write("memory/a.md", "seal")
        (workspace.path / "memory/b.md").unlink()
        workspace.write("memory/c.md", "whale")
        answer = memory.search("walrus", mode="keyword")
        assert paths(answer) == ["memory/a.md"]
        assert answer.stale.startswith("3 changed files could not be indexed: ")
        assert f"process {other.pid}, which has been indexing since" in answer.stale
        assert [issue.path for issue in answer.issues] == [memory.settings.index_path]
        assert found(memory, "penguin") == ["memory/b.md"]
    assert until(lambda: memory.search("seal").stale == "")
    answer = memory.search("seal", mode="keyword")
    assert (paths(answer), answer.issues) == (["memory/a.md"], ())
    assert found(memory, "walrus") == found(memory, "penguin") == []
    assert found(memory, "whale") == ["memory/c.md"]


def test_a_touched_file_makes_no_answer_stale(workspace: Workspace) -> None:
    path = workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    with holding(write_lock(memory)):
        os.utime(path)
        answer = memory.search("walrus")
        assert (paths(answer), answer.stale, answer.issues) == (["memory/a.md"], "", ())
        path.write_text("seal")
        assert memory.search("walrus").stale


def test_a_search_waits_for_another_writer_as_long_as_it_may(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.configure(PATIENT)
    memory = workspace.memory()
    memory.sync()
    lock = FileLock(write_lock(memory))
    assert lock.acquire(0, "indexing")
    workspace.write("memory/b.md", "penguin")
    answers: list[SearchAnswer] = []
    thread = threading.Thread(target=lambda: answers.append(memory.search("penguin", mode="keyword")))
    thread.start()
    thread.join(0.3)
    assert answers == []
    lock.release()
    thread.join(PATIENCE_S)
    assert [(paths(answer), answer.stale) for answer in answers] == [(["memory/b.md"], "")]


def test_a_search_waits_for_another_writer_no_longer_than_it_may(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.engine.sync_run._WAIT_S", 3600.0)
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    answers: list[SearchAnswer] = []
    with holding(write_lock(memory)):
        workspace.write("memory/b.md", "penguin")
        thread = threading.Thread(target=lambda: answers.append(memory.search("walrus")), daemon=True)
        thread.start()
        assert until(lambda: bool(answers))
    assert answers[0].stale


def test_a_search_that_may_not_wait_leaves_the_indexing_to_a_thread(
    workspace: Workspace, reader: Callable[[], Memory]
) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 0}}")
    workspace.write("memory/a.md", "walrus")
    memory, other = workspace.memory(), reader()
    assert memory.search("walrus").results
    workspace.write("memory/b.md", "penguin")
    answer = memory.search("walrus", mode="keyword")
    assert (paths(answer), answer.stale) == (["memory/a.md"], "1 changed file is not indexed yet")
    assert until(lambda: other.status().files == 2)
    assert until(lambda: not other.status().dirty)
    answer = memory.search("penguin", mode="keyword")
    assert (paths(answer), answer.stale) == (["memory/b.md"], "")


def test_a_single_question_that_may_not_wait_says_who_indexes(workspace: Workspace) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 0}}")
    workspace.write("memory/a.md", "walrus")
    workspace.memory().sync()
    workspace.write("memory/b.md", "penguin")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        answer = memory.search("walrus", mode="keyword")
        assert paths(answer) == ["memory/a.md"]
        assert answer.stale == "1 changed file is not indexed yet; index again to finish"
        assert memory.status().files == 1


@pytest.mark.parametrize("one_shot", [False, True])
def test_a_first_search_waits_longer_than_the_others(workspace: Workspace, one_shot: bool) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 0, firstIndexWaitMs: 20000}}")
    for number in range(40):
        workspace.write(f"memory/{number}.md", f"walrus{number} " + BIG[:10_000])
    with Memory.open(workspace.path, env=workspace.env, one_shot=one_shot) as memory:
        answer = memory.search("walrus17", mode="keyword")
        assert (paths(answer), answer.stale) == (["memory/17.md"], "")


def test_a_first_search_waits_no_longer_than_it_may(workspace: Workspace, reader: Callable[[], Memory]) -> None:
    workspace.configure("{mdrecall: {firstIndexWaitMs: 0, searchWaitMs: 20000}}")
    workspace.write("memory/a.md", "walrus " + BIG)
    memory, other = workspace.memory(), reader()
    answer = memory.search("walrus", mode="keyword")
    assert answer.results == ()
    assert answer.stale == "1 changed file is being indexed"
    assert until(lambda: found(other, "walrus") == ["memory/a.md"])
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as another:
        workspace.write("memory/b.md", "penguin")
        assert found(another, "penguin") == ["memory/b.md"]


def test_a_big_change_is_indexed_in_the_background_and_found_later(
    workspace: Workspace, reader: Callable[[], Memory]
) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 0}}")
    workspace.write("memory/a.md", "walrus")
    memory, other = workspace.memory(), reader()
    memory.sync()
    workspace.write("memory/big.md", f"penguin\n{BIG}")
    threads: set[str] = set()
    answer = memory.search(
        "walrus", mode="keyword", progress=lambda progress: threads.add(threading.current_thread().name)
    )
    assert (paths(answer), answer.stale) == (["memory/a.md"], "1 changed file is being indexed")
    assert until(lambda: found(other, "penguin") == ["memory/big.md"])
    assert threads == {"mdrecall-sync"}
    assert until(lambda: memory.search("penguin").stale == "")
    assert memory.search("penguin")[0].path == "memory/big.md"


def test_a_single_question_indexes_a_big_change_itself(workspace: Workspace) -> None:
    workspace.configure(PATIENT)
    workspace.write("memory/a.md", "walrus")
    workspace.memory().sync()
    workspace.write("memory/big.md", f"penguin\n{BIG}")
    threads: set[str] = set()
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        answer = memory.search("penguin", progress=lambda progress: threads.add(threading.current_thread().name))
        assert answer[0].path == "memory/big.md"
    assert threads == {threading.current_thread().name}


@pytest.mark.parametrize("is_first", [False, True])
def test_a_single_question_leaves_a_note_that_would_take_longer_than_it_waits(
    workspace: Workspace, is_first: bool
) -> None:
    workspace.configure("{mdrecall: {firstIndexWaitMs: 500}}")
    workspace.write("memory/a.md", "walrus")
    if not is_first:
        workspace.memory().sync()
    big = workspace.write("memory/big.md", f"penguin\n{BIG}")
    workspace.write("memory/c.md", "seal")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        for word, expected in (("walrus", ["memory/a.md"]), ("seal", ["memory/c.md"]), ("penguin", [])):
            answer = memory.search(word, mode="keyword")
            assert (paths(answer), answer.stale) == (
                expected,
                "1 changed file is not indexed yet; index again to finish",
            )
            assert [(issue.path, "400,008 characters" in issue.problem) for issue in answer.issues] == [
                ("memory/big.md", True)
            ]
        assert memory.status().files == 2
        assert (memory.sync().added, found(memory, "penguin")) == (1, ["memory/big.md"])
        os.utime(big, (1e9, 1e9))
        answer = memory.search("penguin", mode="keyword")
        assert (paths(answer), answer.stale, answer.issues) == (["memory/big.md"], "", ())


def test_of_the_files_that_changed_last_a_search_that_is_late_indexes_so_many_characters(workspace: Workspace) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 1}}")
    workspace.write("memory/a.md", "walrus")
    workspace.memory().sync()
    for number in range(8):
        workspace.write(f"memory/{number}.md", f"seal\n{BIG[:90_000]}")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        answer = memory.search("walrus", mode="keyword")
        assert answer.stale == "5 changed files are not indexed yet; index again to finish"
        assert memory.status().files == 1 + 3
        assert memory.search("walrus", mode="keyword").stale.startswith("2 changed files")


def test_a_single_question_does_not_begin_a_rebuild_that_would_take_longer_than_it_waits(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.write("memory/big.md", f"penguin\n{BIG}")
    workspace.memory().sync()
    workspace.configure("{memorySearch: {chunking: {tokens: 200}}, mdrecall: {firstIndexWaitMs: 500}}")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        answer = memory.search("walrus", mode="keyword")
        assert (paths(answer), answer.stale) == (
            ["memory/a.md"],
            "2 changed files are not indexed yet; index again to finish",
        )
        assert memory.sync().rebuilt
        assert memory.search("walrus").stale == ""


def test_closing_while_the_background_indexes_keeps_the_index_sound(workspace: Workspace) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 0, firstIndexWaitMs: 0}}")
    for number in range(40):
        workspace.write(f"memory/{number}.md", f"walrus{number} " + BIG[:10_000])
    memory = workspace.memory()
    assert memory.search("walrus1").stale
    memory.close()
    again = workspace.memory()
    assert again.check() == ()
    again.sync()
    assert content_of(workspace.index) == fresh_content(workspace)


def test_a_sync_that_is_stopped_keeps_what_is_done_and_says_what_is_left(workspace: Workspace) -> None:
    for number in range(10):
        workspace.write(f"memory/{number}.md", f"walrus{number}")
    gone = workspace.write("memory/gone.md", "penguin")
    memory = workspace.memory()
    memory.sync()
    gone.unlink()
    for number in range(5):
        workspace.write(f"memory/{number}.md", f"seal{number}")
    seen: list[Progress] = []
    report = memory.sync(progress=seen.append, stop=lambda: len(seen) >= 3)
    assert (report.changed, report.left, report.removed, report.unchanged) == (3, 2, 0, 5)
    assert len(report.changes) == 3
    with Memory.open(workspace.path, env=workspace.env, overrides={"sync.onSearch": False}) as reader:
        for path, _ in report.changes:
            assert found(reader, f"seal{Path(path).stem}") == [path]
        assert sum(bool(found(reader, f"seal{number}")) for number in range(5)) == 3
        assert found(reader, "penguin") == ["memory/gone.md"]
    report = memory.sync()
    assert (report.changed, report.left, report.removed) == (2, 0, 1)
    assert content_of(workspace.index) == fresh_content(workspace)


def test_without_syncing_on_search_the_first_search_of_a_session_indexes(workspace: Workspace) -> None:
    workspace.configure("{memorySearch: {sync: {onSearch: false}}, mdrecall: {searchWaitMs: 20000}}")
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    assert not memory.search("walrus").results
    assert not memory.search("walrus", session_key=" ").results
    assert memory.search("walrus", session_key="one").results
    workspace.write("memory/b.md", "penguin")
    assert found(memory, "penguin") == []
    assert paths(memory.search("penguin", mode="keyword", session_key="one")) == []
    assert paths(memory.search("penguin", mode="keyword", session_key="two")) == ["memory/b.md"]


def test_a_session_does_not_index_if_that_is_switched_off(workspace: Workspace) -> None:
    workspace.configure("{memorySearch: {sync: {onSearch: false, onSessionStart: false}}}")
    workspace.write("memory/a.md", "walrus")
    answer = workspace.memory().search("walrus", session_key="one")
    assert answer.results == ()
    assert "sync.onSearch is off" in answer.action


def test_an_index_deleted_under_threads_that_read_it_is_made_again(workspace: Workspace) -> None:
    workspace.configure(PATIENT)
    for number in range(20):
        workspace.write(f"memory/{number}.md", f"walrus{number}")
    memory = workspace.memory()
    memory.sync()
    index = Path(memory.settings.index_path)
    rounds, workers = 5, 3
    before, after = threading.Barrier(workers + 1), threading.Barrier(workers + 1)
    one_after_the_other = threading.Lock()
    answers: list[list[str]] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            for turn in range(rounds):
                found(memory, "walrus7")
                before.wait(PATIENCE_S)
                after.wait(PATIENCE_S)
                with one_after_the_other if turn % 2 else nullcontext():
                    answers.append([*found(memory, f"penguin{turn}"), *found(memory, "walrus7")])
        except Exception as error:
            errors.append(error)
            before.abort()
            after.abort()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for turn in range(rounds):
        before.wait(PATIENCE_S)
        for path in index.parent.glob(index.name + "*"):
            path.unlink()
        workspace.write("memory/0.md", f"penguin{turn}")
        after.wait(PATIENCE_S)
    for thread in threads:
        thread.join()
    assert errors == []
    assert answers == [["memory/0.md", "memory/7.md"]] * rounds * workers
    assert memory.check() == ()
    assert content_of(index) == fresh_content(workspace)


def configured(tokens: int, more: str = "") -> str:
    return f'{{memorySearch: {{extraPaths: ["../shared"], chunking: {{tokens: {tokens}, overlap: 0}}, {more}}}}}'


def test_other_settings_have_the_index_built_anew_while_the_old_one_answers(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus " * 2000)
    workspace.memory().sync()
    workspace.configure("{memorySearch: {chunking: {tokens: 100, overlap: 0}}, mdrecall: {searchWaitMs: 0}}")
    memory = workspace.memory()
    chunks = memory.status().chunks
    answer = memory.search("walrus")
    assert answer.results
    assert (
        answer.stale
        == "the index was made with other settings, or before something was forgotten, and is being indexed"
    )
    assert until(lambda: memory.status().chunks > 2 * chunks)
    assert until(lambda: memory.search("walrus").stale == "")
    assert content_of(workspace.index) == fresh_content(workspace)


def test_a_single_question_waits_for_the_new_index(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus " * 2000)
    workspace.memory().sync()
    workspace.configure("{memorySearch: {chunking: {tokens: 100, overlap: 0}}, mdrecall: {searchWaitMs: 0}}")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        assert memory.search("walrus").stale == ""
    assert content_of(workspace.index) == fresh_content(workspace)


@pytest.mark.parametrize("more", ["", 'sources: ["memory", "sessions"], experimental: {sessionMemory: true}'])
def test_a_lost_folder_puts_a_rebuild_off_and_the_answer_says_so(
    workspace: Workspace, tmp_path: Path, more: str
) -> None:
    workspace.write("memory/a.md", "walrus " * 2000)
    workspace.write("../shared/team.md", "penguin")
    workspace.configure(configured(400, more))
    workspace.memory().sync()
    (tmp_path / "shared").rename(tmp_path / "away")
    workspace.configure(configured(100, more))
    workspace.write("memory/b.md", "seal")
    memory = workspace.memory()
    report = memory.sync()
    assert (report.rebuilt, report.added, [issue.path for issue in report.kept]) == (False, 1, ["../shared"])
    answer = memory.search("penguin", mode="keyword")
    assert paths(answer) == ["../shared/team.md"]
    assert found(memory, "seal") == ["memory/b.md"]
    for issues in (report.issues, answer.issues):
        (said,) = [issue.problem for issue in issues if issue.path == memory.settings.index_path]
        assert "made with other settings; it is rebuilt when every folder can be read again" in said
    (tmp_path / "away").rename(tmp_path / "shared")
    assert memory.sync().rebuilt
    assert memory.search("walrus", mode="keyword").issues == ()
    assert found(memory, "penguin") == ["../shared/team.md"]
    assert content_of(workspace.index) == fresh_content(workspace)


def test_two_with_different_settings_do_not_rebuild_in_turn_for_ever(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus " * 2000)
    one = workspace.memory()
    one.sync()
    workspace.configure("{memorySearch: {chunking: {tokens: 100, overlap: 0}}}")
    two = workspace.memory()
    assert two.sync().rebuilt
    assert one.sync().rebuilt
    for memory in (two, one, two):
        report = memory.sync()
        if report.issues:
            assert "rebuilt by another process with other settings" in report.issues[0].problem
        assert not report.rebuilt
        assert found(memory, "walrus")
    workspace.write("memory/b.md", "penguin")
    assert until(lambda: found(one, "penguin") == found(two, "penguin") == ["memory/b.md"])


def test_where_no_index_can_be_kept_searches_work_and_say_so(workspace: Workspace) -> None:
    workspace.state.write_text("a file, where a folder should be")
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    answer = memory.search("walrus")
    assert paths(answer) == ["memory/a.md"]
    assert "temporary index" in answer.issues[0].problem
    workspace.write("memory/b.md", "penguin")
    assert until(lambda: found(memory, "penguin") == ["memory/b.md"])
    with pytest.raises(StoreUnavailable, match="Cannot create the folder"):
        memory.sync()
    assert "Cannot create the folder" in memory.status().custom["indexNotWritten"]


class Breaking(Analyser):
    """Breaks on some notes."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.tried = 0
        self._error = error

    def indexable(self, text: str) -> tuple[str, str]:
        if "poison" in text:
            self.tried += 1
            raise self._error
        return super().indexable(text)


@pytest.mark.parametrize(
    "error", [RecursionError("deep"), MemoryError("large"), ValueError("odd"), KeyError("k"), TypeError("none")]
)
def test_a_note_that_breaks_the_analysis_is_named_skipped_and_tried_again_when_it_changes(
    workspace: Workspace, error: Exception
) -> None:
    workspace.write("memory/a.md", "walrus")
    workspace.write("memory/bad.md", "poison")
    settings = workspace.memory().settings
    owner = (settings.agent_id, os.path.realpath(settings.workspace))
    store = SqliteStore(settings.index_path, is_ours=True, owner=owner)
    analyser = Breaking(error)
    indexer = Indexer(store.documents, MemoryFiles(settings, str(workspace.home)), Chunking(), analyser)
    try:
        for _ in range(3):
            report = indexer.sync()
            (issue,) = report.failed
            assert issue.path == "memory/bad.md"
            assert issue.problem.startswith("cannot be indexed, which is a bug: ")
            assert type(error).__name__ in issue.problem
            assert store.documents.known_documents("memory").keys() == {"memory/a.md"}
        assert (report.added, report.changed, report.unchanged) == (0, 0, 1)
        assert analyser.tried == 1
        workspace.write("memory/bad.md", "poison still")
        assert len(indexer.sync().failed) == 1
        assert analyser.tried == 2
        workspace.write("memory/bad.md", "medicine")
        report = indexer.sync()
        assert (report.failed, report.added) == ((), 1)
        assert store.documents.known_documents("memory").keys() == {"memory/a.md", "memory/bad.md"}
    finally:
        store.admin.close()


class Held:
    """A sync that is under way until it is let go."""

    def __init__(self, memory: Memory) -> None:
        self._begun, self._gate = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: memory.sync(progress=self._hold))
        self._thread.start()
        assert self._begun.wait(PATIENCE_S)

    def _hold(self, progress: Progress) -> None:
        self._begun.set()
        self._gate.wait(PATIENCE_S)

    def let_go(self) -> None:
        self._gate.set()
        self._thread.join()


def test_what_a_search_calls_being_indexed_is_indexed(workspace: Workspace, reader: Callable[[], Memory]) -> None:
    workspace.configure("{mdrecall: {searchWaitMs: 30}}")
    workspace.write("memory/a.md", "walrus")
    memory, other = workspace.memory(), reader()
    memory.sync()
    workspace.write("memory/x.md", "under way")
    held = Held(memory)
    workspace.write("memory/b.md", "penguin")
    assert "being indexed" in memory.search("penguin", mode="keyword").stale
    held.let_go()
    assert until(lambda: found(other, "penguin") == ["memory/b.md"])


def test_a_session_whose_first_search_could_not_index_does_it_at_the_next(workspace: Workspace) -> None:
    workspace.configure("{memorySearch: {sync: {onSearch: false}}}")
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    workspace.write("memory/b.md", "penguin")
    with holding(write_lock(memory)):
        assert memory.search("penguin", session_key="one").stale
    assert until(lambda: memory.search("penguin", mode="keyword", session_key="one").stale == "")
    assert paths(memory.search("penguin", mode="keyword", session_key="one")) == ["memory/b.md"]


def test_nobody_whose_notes_wait_to_be_indexed_is_told_to_write_some(workspace: Workspace) -> None:
    workspace.configure("{mdrecall: {firstIndexWaitMs: 0}}")
    workspace.write("memory/a.md", "walrus")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as memory:
        answer = memory.search("walrus")
    assert (answer.results, answer.reason, bool(answer.stale)) == ((), "index_empty", True)
    assert "write notes" not in answer.action


def test_a_changed_note_is_found_although_no_transcript_has_changed(workspace: Workspace) -> None:
    workspace.configure('{memorySearch: {sources: ["memory", "sessions"], experimental: {sessionMemory: true}}}')
    workspace.write("memory/a.md", "walrus")
    memory = workspace.memory()
    memory.sync()
    workspace.write("memory/a.md", "the penguin")
    assert found(memory, "penguin") == ["memory/a.md"]


_WRITER = """
import os, sys
folder = sys.argv[1]
for line in sys.stdin:
    number = int(line)
    path = os.path.join(folder, f"note{number % 50}.md")
    if number % 3 == 0:
        with open(path + ".tmp", "w") as file:
            file.write(f"only word{number} is here\\n")
        os.replace(path + ".tmp", path)
    elif number % 3 == 1:
        with open(path, "a") as file:
            file.write(f"and word{number} is here\\n")
    else:
        os.makedirs(os.path.join(folder, f"new{number}"))
        with open(os.path.join(folder, f"new{number}", "note.md"), "w") as file:
            file.write(f"first word{number} is here\\n")
    print(number, flush=True)
"""


@pytest.mark.slow
def test_no_search_misses_a_note_that_another_program_has_just_written(workspace: Workspace) -> None:
    workspace.configure('{mdrecall: {searchWaitMs: 20000}, memorySearch: {provider: "none"}}')
    workspace.write("memory/note0.md", "the first note")
    stopped = threading.Event()
    missed: list[int] = []
    written = 0

    def search_on(memory: Memory) -> None:
        while not stopped.is_set():
            last = written
            if last % 3 == 2 and not found(memory, f"word{last}"):
                missed.append(last)

    with Memory.open(workspace.path, env=workspace.env) as memory, python(_WRITER, str(workspace.path / "memory")) as p:
        assert p.stdin
        assert p.stdout
        memory.watch()
        other = threading.Thread(target=search_on, args=(memory,))
        other.start()
        for number in range(examples(30)):
            p.stdin.write(f"{number}\n")
            p.stdin.flush()
            assert int(p.stdout.readline()) == number
            written = number
            if not found(memory, f"word{number}"):
                missed.append(number)
            # Not the last ones, which the other thread may be searching for.
            if number >= 50 and (number - 50) % 3 == 2:
                shutil.rmtree(workspace.path / f"memory/new{number - 50}")
        stopped.set()
        other.join()
        p.stdin.close()
    assert missed == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")
def test_a_memory_that_stays_open_lists_the_files_again_only_for_a_sync_and_a_folder(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []
    scan = MemoryFiles.scan

    def count(files: MemoryFiles, enter: Callable[[str], None] | None = None) -> Listing:
        listed.append(1)
        return scan(files, enter)

    monkeypatch.setattr(MemoryFiles, "scan", count)
    workspace.write("memory/a.md", "walrus")
    with Memory.open(workspace.path, env=workspace.env) as memory:
        assert found(memory, "walrus") == ["memory/a.md"]
        before = len(listed)
        for _ in range(5):
            assert found(memory, "walrus") == ["memory/a.md"]
        workspace.write("memory/b.md", "penguin")
        assert found(memory, "penguin") == ["memory/b.md"]
        assert len(listed) == before
        workspace.write("memory/new/c.md", "seal")
        assert found(memory, "seal") == ["memory/new/c.md"]
        assert len(listed) > before
        before = len(listed)
        memory.sync()
        assert len(listed) > before


@pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")
def test_an_index_that_another_process_deletes_is_filled_again_although_no_file_changed(workspace: Workspace) -> None:
    workspace.write("memory/a.md", "walrus")
    with Memory.open(workspace.path, env=workspace.env) as memory:
        for _ in range(3):
            assert found(memory, "walrus") == ["memory/a.md"]
        with Memory.open(workspace.path, env=workspace.env) as other:
            other.reset()
        assert found(memory, "walrus") == ["memory/a.md"]
