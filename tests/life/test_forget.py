"""Forgetting: every place is shown and cleared, no byte is left, nothing brings it back, and it can be finished."""

import json
import os
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from mdrecall.context import session_context
from mdrecall.errors import QueryError, StoreUnavailable
from mdrecall.life.curate import Curator, list_deleted
from mdrecall.life.forget import ForgetPlan, ForgetRequest, Forgetting, check_request
from mdrecall.life.journal import journal_folder
from mdrecall.memory import Memory
from mdrecall.notes.tombstones import TombstoneFiles, entry_line, mark_line
from mdrecall.text.tombstones import Days, make_entry
from tests.conftest import Workspace, examples
from tests.life.traces import find_traces
from tests.processes import python

NOW = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
#: The folder of tombstones in a workspace.
FORGOTTEN = ".mdrecall/forgotten"
LATIN, CJK = "Quibblethorpe is allergic to zorkberries", "深色模式下的密码是豌豆"
NOTE = f"""# Tuesday

- {LATIN}. The bike is green.
- Lunch was good. Remember that QUIBBLETHORPE is allergic to **zorkberries**!
- 我们说{CJK}。今天天气好。

The last paragraph is about something else.
"""


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    """A workspace with notes, a conversation and enough text for a dictionary in its index."""
    settings = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    workspace.configure(json.dumps({"memorySearch": settings}))
    workspace.write("memory/2026-02-10.md", NOTE)
    workspace.write("MEMORY.md", "# Long\n\n- The harbour opens at nine.\n")
    for number in range(40):
        words = " ".join(f"word{number}-{each} shared common harbour lantern" for each in range(60))
        workspace.write(f"memory/other-{number}.md", f"# Note {number}\n\n{LATIN if number < 4 else ''} {words}\n")
    with workspace.memory() as memory:
        folder = Path(memory.settings.sessions_dir)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [{"type": "session", "id": "s1"}, _message("user", f"Listen: {LATIN}. And {CJK}。"),
                 _message("assistant", "I shall remember the harbour.")]  # fmt: skip
        (folder / "s1.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        (folder / "s2.jsonl").write_text(json.dumps(_message("user", "The walrus sings at dawn.")) + "\n")
        memory.sync()
    return workspace


def _message(role: str, text: str) -> dict[str, object]:
    return {"type": "message", "timestamp": "2026-02-11T08:00:00Z", "message": {"role": role, "content": text}}


def forget(memory: Memory, now: datetime = NOW, **what: object) -> ForgetPlan:
    forgetting = Forgetting(memory)
    plan = forgetting.plan(ForgetRequest(**what), now)  # type: ignore[arg-type]
    assert forgetting.apply(plan, now)
    return plan


def find(memory: Memory, query: str) -> list[str]:
    return [hit.path for hit in memory.search(query, mode="keyword")]


def traces(workspace: Workspace, phrase: str) -> list[str]:
    """Where a phrase is, apart from the transcripts, which are not mdrecall's to change."""
    found = find_traces([workspace.path, workspace.home, workspace.state], phrase)
    return [name for name in found if "/sessions/s" not in name]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def notes_of(workspace: Workspace) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(workspace.path).items() if FORGOTTEN not in name}


def test_a_preview_shows_every_place_and_changes_nothing(filled: Workspace) -> None:
    with filled.memory() as memory:
        before = snapshot(filled.path) | snapshot(filled.state)
        plan = Forgetting(memory).plan(ForgetRequest(phrases=(LATIN,)), NOW)
        notes = [place for place in plan.places if place.kind == "note"]
        assert [(place.path, place.start_line, place.action) for place in notes[:2]] == [
            ("memory/2026-02-10.md", 3, "remove"),
            ("memory/2026-02-10.md", 4, "remove"),
        ]
        assert len(notes) == 6
        (said,) = [place for place in plan.places if place.kind == "transcript"]
        assert (said.path, said.start_line) == ("sessions/s1.jsonl", 2)
        assert memory.settings.sessions_dir in said.warning
        assert plan.has_work
        assert not plan.is_known
        assert plan.warnings == [said.warning]
        assert snapshot(filled.path) | snapshot(filled.state) == before


def test_a_preview_names_the_notes_that_keep_the_name(workspace: Workspace) -> None:
    workspace.write("memory/people/ana-ruiz.md", "Works from Oslo.\n")
    with workspace.memory() as memory:
        found = {each: Forgetting(memory).plan(ForgetRequest((each,)), NOW).warnings for each in ("Ana Ruiz", "memory")}
    assert "stays: memory/people/ana-ruiz.md. Forget" in found.pop("Ana Ruiz")[0]
    assert found == {"memory": []}


@pytest.mark.parametrize("phrase", [LATIN, CJK])
def test_afterwards_no_byte_has_it_and_a_rebuild_does_not_bring_it_back(filled: Workspace, phrase: str) -> None:
    assert len(traces(filled, phrase)) > 1
    with filled.memory() as memory:
        forget(memory, phrases=(phrase,))
        assert traces(filled, phrase) == []
        if phrase is LATIN:
            assert traces(filled, "zorkberries") == []
        assert not [hit for hit in memory.search(phrase) if phrase in hit.snippet]
        assert phrase not in memory.read_session("s1").text
        memory.sync(force=True)
        assert traces(filled, phrase) == []
    assert "The bike is green." in (filled.path / "memory/2026-02-10.md").read_text()
    assert "今天天气好。" in (filled.path / "memory/2026-02-10.md").read_text()


def test_a_second_run_changes_nothing(filled: Workspace) -> None:
    with filled.memory() as memory:
        forget(memory, phrases=(LATIN,))
        before = snapshot(filled.path) | snapshot(filled.state)
        plan = forget(memory, phrases=(LATIN.upper(),))
        assert plan.is_known
        assert not plan.has_work
        assert snapshot(filled.path) | snapshot(filled.state) == before


def test_only_the_sentences_go_and_masking_keeps_the_lines(filled: Workspace) -> None:
    with filled.memory() as memory:
        forget(memory, phrases=(LATIN,), is_masked=True)
    assert (filled.path / "memory/2026-02-10.md").read_text() == NOTE.replace(f"{LATIN}.", "[forgotten]").replace(
        "Remember that QUIBBLETHORPE is allergic to **zorkberries**!", "[forgotten]"
    )


def test_a_note_goes_whole_and_only_its_old_lines_stay_away(filled: Workspace) -> None:
    note = filled.path / "memory/2026-02-10.md"
    with filled.memory() as memory:
        forget(memory, paths=("memory/2026-02-10.md",))
        assert not note.exists()
        # As if it came back from a backup, with a new line.
        filled.write("memory/2026-02-10.md", NOTE + "- A capybara moved in.\n")
        memory.sync()
        assert find(memory, "capybara") == ["memory/2026-02-10.md"]
        assert all("bike" not in hit.snippet for hit in memory.search("green bike"))
        assert "bike" not in memory.read("memory/2026-02-10.md").text
        with pytest.raises(QueryError, match="There is no note"):
            Forgetting(memory).plan(ForgetRequest(paths=("memory/none.md",)), NOW)


def test_lines_of_a_note_go_by_their_citation(filled: Workspace) -> None:
    lines = ["# Long", "- The crane is red.", "- The harbour opens at nine.", "- Lunch is at ten.", "- The dog is Rex."]
    note = filled.write("MEMORY.md", "\n".join([*lines, "- The key is blue.", "- The gate is green."]))
    with filled.memory() as memory:
        forget(memory, paths=("MEMORY.md#L3-L4", "MEMORY.md#L6"))
        assert note.read_text() == "# Long\n- The crane is red.\n- The dog is Rex.\n- The gate is green."
        assert all(hit.path != "MEMORY.md" for hit in memory.search("harbour opens at nine"))


def test_a_session_is_gone_from_search_list_and_history(filled: Workspace) -> None:
    with filled.memory() as memory:
        plan = forget(memory, sessions=("s2", "never-there"))
        assert [(match.session, match.source) for match in plan.sessions] == [
            ("s2", "live"),
            ("never-there", "unresolved"),
        ]
        assert [each.session for each in memory.sessions()] == ["s1"]
        assert find(memory, "walrus sings") == []
        memory.sync(force=True)
        assert traces(filled, "walrus") == []


def test_days_are_forgotten_in_notes_and_conversations(filled: Workspace) -> None:
    with filled.memory() as memory:
        forget(memory, since="2026-02-10", until="2026-02-11")
        assert not (filled.path / "memory/2026-02-10.md").exists()
        assert (filled.path / "memory/other-1.md").exists()
        assert find(memory, "walrus sings") == []
        folder = Path(memory.settings.sessions_dir)
        with (folder / "s2.jsonl").open("a") as file:
            file.write(json.dumps(_message("user", "The otter hums.") | {"timestamp": "2026-03-01T08:00:00Z"}) + "\n")
        memory.sync()
        assert find(memory, "otter hums") == ["sessions/s2.jsonl"]
        before = snapshot(filled.path) | snapshot(filled.state)
        forget(memory, since="2026-02-10", until="2026-02-11")
        assert snapshot(filled.path) | snapshot(filled.state) == before


@pytest.mark.parametrize("is_masked", [False, True])
def test_deleted_notes_are_cleared_too(filled: Workspace, is_masked: bool) -> None:
    folder = filled.path / ".trash"
    with filled.memory() as memory:
        curator = Curator(memory)
        for path in ("memory/2026-02-10.md", "memory/other-1.md"):
            curator.delete(path, curator.read(path).hash, NOW)
        filled.write(".trash/of-another-program.txt", f"{LATIN}. A heron stays.\n".encode("utf-16"))
        filled.write(".trash/picture.png", b"\x89PNG\r\n\x1a\n\0\xff\xfe")
        plan = forget(memory, phrases=(LATIN,), is_masked=is_masked)
        deleted = [place for place in plan.places if place.kind == "deletion"]
        assert sorted(place.path.partition("Z-")[2][9:] or place.path for place in deleted) == [
            ".trash/of-another-program.txt",
            "memory/2026-02-10.md.deleted",
            "memory/2026-02-10.md.deleted",
            "memory/other-1.md.deleted",
        ]
        assert traces(filled, LATIN) == traces(filled, "zorkberries") == []
        assert (folder / "picture.png").read_bytes() == b"\x89PNG\r\n\x1a\n\0\xff\xfe"
        assert "A heron stays." in (folder / "of-another-program.txt").read_text("utf-16")
        (restored,) = [note for note in list_deleted(str(filled.path)) if note.path.endswith("10.md")]
        curator.restore(restored.inside)
        assert "The bike is green." in (filled.path / "memory/2026-02-10.md").read_text()


def test_a_deleted_note_is_forgotten_by_its_path_and_by_its_day(filled: Workspace) -> None:
    with filled.memory() as memory:
        curator = Curator(memory)
        curator.delete("memory/2026-02-10.md", curator.read("memory/2026-02-10.md").hash, NOW)
        filled.write("memory/2026-02-10.md", "# Another\n\nA capybara moved in.\n")
        curator.delete("memory/2026-02-10.md", curator.read("memory/2026-02-10.md").hash, NOW)
        curator.delete("memory/other-1.md", curator.read("memory/other-1.md").hash, NOW)
        forget(memory, paths=("memory/other-1.md",))
        assert [note.path for note in list_deleted(str(filled.path))] == ["memory/2026-02-10.md"] * 2
        forget(memory, since="2026-02-10", until="2026-02-10")
        assert traces(filled, "capybara") == []
        assert not (filled.path / ".trash").exists()


def test_what_was_forgotten_of_a_deleted_note_comes_back_with_undo(filled: Workspace) -> None:
    with filled.memory() as memory:
        curator = Curator(memory)
        before = curator.read("memory/2026-02-10.md")
        deleted = curator.delete("memory/2026-02-10.md", before.hash, NOW)
        plan = forget(memory, phrases=(LATIN,), trash_days=3)
        assert (filled.path / deleted.inside).read_bytes() != before.data
        Forgetting(memory).undo(plan.entry.id)
        assert (filled.path / deleted.inside).read_bytes() == before.data


def test_what_is_written_or_said_again_stays_away(filled: Workspace) -> None:
    with filled.memory() as memory:
        forget(memory, phrases=(LATIN,))
        memory.append(f"News: {LATIN}. The rest is kept.", now=NOW)
        note = (filled.path / "memory/2026-11-16.md").read_text()
        assert "[forgotten] The rest is kept." in note
        filled.write("memory/again.md", f"Copied: {LATIN}.\n\nA pelican stays.\n")
        memory.sync()
        assert find(memory, "pelican") == ["memory/again.md"]
        assert all("zorkberries" not in hit.snippet for hit in memory.search("zorkberries"))
        assert traces(filled, "zorkberries") == [str(filled.path / "memory/again.md")]


def test_copies_pending_digests_logs_and_quarantined_indexes_are_cleared(filled: Workspace) -> None:
    with filled.memory() as memory:
        settings = memory.settings
        copies = Path(settings.sessions_dir).parent / "hosts" / "claude-code"
        copies.mkdir(parents=True)
        lines = [{"conversation": {"title": f"About {LATIN}"}}, _message("user", f"It said: {LATIN}. Bye.")]
        (copies / "c1.jsonl").write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
        pending = Path(settings.state_dir) / "mdrecall-hosts" / "pending"
        pending.parent.mkdir(parents=True)
        pending.write_text(json.dumps({"text": f"## Session\n\n- Asked: {LATIN}", "number": 3}))
        log = filled.state / "hooks.log"
        log.write_text(f"2026-02-10T00:00:00Z x: failed on {LATIN}\n2026-02-11T00:00:00Z y: other\n")
        Path(f"{settings.index_path}.corrupt-1").write_text(LATIN)
        forgetting = Forgetting(memory, files=[str(log)])
        plan = forgetting.plan(ForgetRequest(phrases=(LATIN,)), NOW)
        assert {Path(place.path).name for place in plan.places if place.kind in ("copy", "state")} == {
            "c1.jsonl",
            "pending",
            "hooks.log",
        }
        assert forgetting.apply(plan, NOW)
        assert traces(filled, LATIN) == []
        assert "Bye." in (copies / "c1.jsonl").read_text()
        assert json.loads(pending.read_text())["number"] == 3
        assert "y: other" in log.read_text()
        forget(memory, sessions=("sessions/claude-code/c1.jsonl",))
        assert not (copies / "c1.jsonl").exists()


def test_readers_a_warm_process_and_a_watcher_see_it_go(filled: Workspace) -> None:
    with filled.memory() as warm, filled.memory() as memory:
        warm.watch()
        warm.search("harbour")
        ended = threading.Event()
        problems: list[BaseException] = []

        def read() -> None:
            try:
                while not ended.is_set():
                    warm.search("zorkberries")
            except BaseException as problem:
                problems.append(problem)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            forgetting = Forgetting(memory)
            plan = forgetting.plan(ForgetRequest(phrases=(LATIN,)), NOW)
            is_complete = forgetting.apply(plan, NOW)
        finally:
            ended.set()
            reader.join()
        assert problems == []
        assert is_complete or forgetting.finish()
        assert not [hit for hit in warm.search("zorkberries") if "zorkberries" in hit.snippet]
        warm.sync()
        assert traces(filled, LATIN) == []


def test_a_reader_of_an_old_state_is_reported_and_the_next_run_finishes(filled: Workspace) -> None:
    with filled.memory() as memory:
        old = apsw.Connection(str(filled.index))
        old.execute("BEGIN")
        list(old.execute("SELECT count(*) FROM chunks"))
        forgetting = Forgetting(memory)
        assert not forgetting.apply(forgetting.plan(ForgetRequest(phrases=(LATIN,)), NOW), NOW)
        old.close()
        plan = forgetting.plan(ForgetRequest(phrases=(LATIN,)), NOW)
        assert plan.unfinished == 1
        assert forgetting.apply(plan, NOW)
        assert traces(filled, LATIN) == []
        assert all(entry.is_done for entry in forgetting.list_forgotten())


def test_the_trash_gives_it_back_and_ends(filled: Workspace) -> None:
    before = notes_of(filled)
    with filled.memory() as memory:
        forgetting = Forgetting(memory)
        forget(memory, phrases=(LATIN,), trash_days=30)
        assert not forget(memory, phrases=(LATIN,), trash_days=30).has_work
        (entry,) = forgetting.list_forgotten()
        assert entry.kept_until == "2026-12-16"
        restored = forgetting.undo(entry.id)
        assert restored is not None
        assert set(restored.values()) == {"restored"}
        assert notes_of(filled) == before
        assert [hit.path for hit in memory.search("zorkberries", max_results=1)]
        assert forgetting.list_forgotten() == []
        with pytest.raises(QueryError):
            forgetting.undo(entry.id)
        plan = forget(memory, paths=("memory/2026-02-10.md",), trash_days=30)
        assert forgetting.undo(plan.entry.id) == {"memory/2026-02-10.md": "restored"}
        assert notes_of(filled) == before


def test_the_trash_is_emptied_after_its_term_and_by_forgetting_for_good(filled: Workspace) -> None:
    with filled.memory() as memory:
        forget(memory, phrases=(LATIN,), trash_days=30)
        assert traces(filled, LATIN)
        forget(memory, NOW.replace(year=2027), phrases=(LATIN,))
        assert traces(filled, LATIN) == []
        forget(memory, phrases=(CJK,), trash_days=30)
        assert os.listdir(journal_folder(memory.settings.index_path))
        forget(memory, phrases=(CJK,))
        assert traces(filled, CJK) == []


def test_a_note_that_changed_since_gets_its_lines_at_the_end(filled: Workspace) -> None:
    with filled.memory() as memory:
        plan = forget(memory, phrases=(CJK,), trash_days=30)
        note = filled.path / "memory/2026-02-10.md"
        note.write_text("New beginning.\n" + note.read_text())
        assert Forgetting(memory).undo(plan.entry.id) == {"memory/2026-02-10.md": "appended"}
        assert CJK in note.read_text()
        assert note.read_text().startswith("New beginning.\n")


@pytest.mark.parametrize(
    "request_",
    [
        ForgetRequest(),
        ForgetRequest(phrases=("a",)),
        ForgetRequest(phrases=("!?",)),
        ForgetRequest(phrases=("gout is bad",), paths=("a.md",)),
        ForgetRequest(paths=("a.md",), since="2026-01-01"),
        ForgetRequest(since="yesterday"),
    ],
)
def test_an_unclear_request_is_refused(request_: ForgetRequest) -> None:
    with pytest.raises(QueryError):
        check_request(request_)


# Forks a child for each kill. The child counts the lines of code that it runs where something is written, and kills
# itself at one of them.
_KILLS = """
import json, os, random, signal, sys
from datetime import datetime, UTC
from mdrecall.memory import Memory
from mdrecall.life.forget import Forgetting, ForgetRequest
import mdrecall.text.tombstones, mdrecall.text.redact, mdrecall.embed.offline, mdrecall.engine.transcripts
import mdrecall.sessions.readers
workspace, env, phrase, wanted = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
now, chance = datetime(2026, 11, 16, tzinfo=UTC), random.Random(7)
PLACES = ("/life/", "/notes/editing", "/notes/tombstones", "/state_files", "/store/sqlite/", "/engine/sync_run")

class Counter:
    def __init__(self, limit):
        self.lines, self.limit = 0, limit
    def trace(self, frame, event, argument):
        if not any(place in frame.f_code.co_filename for place in PLACES):
            return None
        self.lines += event == "line"
        if self.lines == self.limit:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.trace

def run(limit):
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    memory = Memory.open(workspace, env=env)
    forgetting = Forgetting(memory)
    plan = forgetting.plan(ForgetRequest(phrases=(phrase,)), now)
    counter = Counter(limit)
    sys.settrace(counter.trace)
    forgetting.apply(plan, now)
    sys.settrace(None)
    print(counter.lines, flush=True)
    os._exit(0)

for line in sys.stdin:
    limit = int(line)
    print("killed" if run(limit) else "done", flush=True)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(examples(50), marks=pytest.mark.soak)])
def test_a_killed_run_is_finished_by_the_next(filled: Workspace, kills: int) -> None:
    process = python(_KILLS, str(filled.path), json.dumps(filled.env), LATIN, str(kills))
    assert process.stdin
    assert process.stdout

    def run(limit: int) -> str:
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{limit}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    lines = int(run(-1))
    assert process.stdout.readline() == "done\n"
    _index, killed = filled.index, 0
    for number in range(kills):
        # As it was before: the text is in a note and in the index, and nothing is forgotten.
        shutil.rmtree(filled.path / FORGOTTEN, ignore_errors=True)
        filled.write("memory/2026-02-10.md", NOTE)
        filled.write("memory/other-1.md", f"{LATIN}\n" + "harbour lantern\n" * 50)
        with filled.memory() as memory:
            memory.sync()
        if run(1 + number * lines // kills) == "killed":
            killed += 1
        else:
            assert process.stdout.readline() == "done\n"
        with filled.memory() as memory:
            if memory_has_forgotten := bool(Forgetting(memory).list_forgotten()):
                assert not [hit for hit in memory.search("zorkberries") if "zorkberries" in hit.snippet]
            assert memory_has_forgotten or number < kills / 4
            forget(memory, phrases=(LATIN,))
            assert all(entry.is_done for entry in Forgetting(memory).list_forgotten())
        assert traces(filled, LATIN) == [], number
        assert "The last paragraph" in (filled.path / "memory/2026-02-10.md").read_text()
    process.communicate(timeout=20)
    # The first run had a few notes more to clear than the others.
    assert killed >= kills - max(1, kills // 10)


def test_the_note_about_a_person_is_a_place_too(workspace: Workspace) -> None:
    workspace.beside_openclaw()
    note = workspace.write("users/p-1/USER.md", "- Likes tea.\n- Fears the purple zorkberries.\n")
    workspace.write("MEMORY.md", "- Open.\n")
    (workspace.path / "users" / "link").symlink_to(workspace.path / "users" / "p-1")
    memory = workspace.memory()
    plan = forget(memory, phrases=("purple zorkberries",))
    assert [place.path for place in plan.places] == ["users/p-1/USER.md"]
    assert note.read_text() == "- Likes tea.\n"
    workspace.write("users/p-1/USER.md", "- Fears the purple zorkberries.\n")
    assert "zorkberries" not in session_context(memory, "main", today=NOW.date(), profile="p-1").text


@pytest.mark.parametrize("how", ["rename", "store.path", "reset", "other machine"])
def test_it_stays_forgotten_where_the_memory_moves(workspace: Workspace, tmp_path: Path, how: str) -> None:
    workspace.write("memory/2026-02-10.md", NOTE)
    with workspace.memory() as memory:
        forget(memory, phrases=(LATIN,))
        assert find(memory, "bike is green")
        if how == "reset":
            memory.reset()
    env, folder = workspace.env, workspace.path
    if how == "rename":
        folder = workspace.path.rename(tmp_path / "renamed")
    elif how == "store.path":
        workspace.configure(json.dumps({"memorySearch": {"store": {"path": str(tmp_path / "moved.sqlite")}}}))
    elif how == "other machine":
        folder = shutil.copytree(workspace.path, tmp_path / "clone")
        env = {"HOME": str(tmp_path / "other"), "PATH": env["PATH"]}
        (tmp_path / "other").mkdir()
    # As git or a backup would bring it back.
    (folder / "memory/2026-02-10.md").write_text(NOTE)
    with Memory.open(folder, env=env) as memory:
        for query in (LATIN, "zorkberries", "bike"):
            assert not [hit for hit in memory.search(query) if "zorkberries" in hit.snippet]
        assert find(memory, "bike is green") == ["memory/2026-02-10.md"]
        assert "zorkberries" not in memory.read("memory/2026-02-10.md").text
        assert ".mdrecall" not in str([each.path for each in memory.notes()])


@pytest.mark.parametrize(
    "text",
    [
        "Quibblethorpe is [allergic](https://example.org/a?b=c) to zorkberries",
        "Quibblethorpe is <b>allergic</b> to zork<i>berries</i>",
        "Quibblethorpe is al**ler**gic to zork&#98;erries",
        "Quib\u00adblethorpe is allergic to zork\u200bberries",
    ],
)
def test_it_is_recognised_by_what_is_shown(workspace: Workspace, text: str) -> None:
    note = workspace.write("memory/a.md", f"# A\n\n- {text}. The bike is green.\n- [ ] {text} #health\n- Tea.\n")
    with workspace.memory() as memory:
        forget(memory, phrases=(LATIN,))
        assert note.read_text() == "# A\n\n- The bike is green.\n- Tea.\n"
        workspace.write("memory/b.md", f"Copied: {text}.\n\nA pelican stays.\n")
        assert find(memory, "pelican") == ["memory/b.md"]
        shown = " ".join(hit.snippet for query in (LATIN, text, "zorkberries") for hit in memory.search(query))
        assert "Quib" not in shown


def bring(workspace: Workspace, *lines: bytes, salt: bytes = bytes(range(16))) -> None:
    """Write what another machine has forgotten, as git would bring it."""
    TombstoneFiles(str(workspace.path)).add(salt, lines)


def entry_of(phrase: str, id: str = "theirs") -> bytes:
    return entry_line(make_entry(bytes(range(16)), id, "2026-11-16T08:00:00Z", [phrase], {}, {}))


def test_what_another_machine_forgot_leaves_only_the_documents_that_hold_it(filled: Workspace) -> None:
    with filled.memory() as memory:
        bring(filled, entry_of(LATIN))
        report = memory.sync()
        # The note of the day, four others and a transcript; nothing else is read or embedded again.
        assert (report.rebuilt, report.added, report.changed, report.removed) == (False, 6, 0, 0)
        assert not [hit for hit in memory.search("zorkberries") if "zorkberries" in hit.snippet]
        assert find(memory, "bike is green") == ["memory/2026-02-10.md"]
        report = memory.sync()
        assert (report.rebuilt, report.added, report.changed, report.removed) == (False, 0, 0, 0)
        bring(filled, mark_line("undo", "theirs"))
        assert memory.sync().added == 6
        assert [hit for hit in memory.search("zorkberries") if "zorkberries" in hit.snippet]
        assert memory.sync().added == 0


def test_until_the_index_was_checked_a_search_leaves_it_out(filled: Workspace) -> None:
    settings = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    filled.configure(json.dumps({"memorySearch": settings | {"sync": {"onSearch": False, "watch": False}}}))
    bring(filled, entry_of(LATIN))
    bring(filled, entry_line(make_entry(bytes(range(16)), "s", "", [], {"s2": Days()}, {})))
    with filled.memory() as memory:
        answers = [memory.search(query, min_score=0) for query in ("zorkberries", LATIN, "walrus sings dawn")]
        shown = " ".join(hit.snippet for answer in answers for hit in answer)
        assert "harbour" in shown
        assert "zorkberries" not in shown
        assert "walrus" not in shown
        assert memory.near("MEMORY.md") == ()


@pytest.mark.parametrize("trash_days", [0, 30])
def test_where_the_workspace_cannot_be_written_nothing_is_half_done(filled: Workspace, trash_days: int) -> None:
    # Nobody can write below a file, not even the superuser.
    (filled.path / ".mdrecall").write_text("")
    with filled.memory() as memory:
        forgetting = Forgetting(memory)
        plan = forgetting.plan(ForgetRequest(phrases=(LATIN,), trash_days=trash_days), NOW)
        before = snapshot(filled.path) | snapshot(filled.state)
        with pytest.raises(StoreUnavailable, match=r"is kept in the workspace, and \.mdrecall/forgotten/") as raised:
            forgetting.apply(plan, NOW)
        assert "Nothing was forgotten." in raised.value.hint
        after = snapshot(filled.path) | snapshot(filled.state)
        assert {name: data for name, data in after.items() if not name.endswith(".forgetting")} == before


def test_agents_that_share_a_workspace_each_clear_their_index(workspace: Workspace) -> None:
    (workspace.home / ".openclaw").mkdir()
    agents = {"defaults": {"workspace": str(workspace.path)}, "list": [
        {"id": each, "workspace": str(workspace.path)} for each in ("main", "other")]}  # fmt: skip
    (workspace.home / ".openclaw/openclaw.json").write_text(json.dumps({"agents": agents}))
    workspace.write("MEMORY.md", NOTE)
    for agent in ("main", "other"):
        with Memory.open(env=workspace.env, agent=agent) as memory:
            memory.sync()
    assert len(find_traces([workspace.home, workspace.state], "zorkberries")) >= 2
    for agent in ("main", "other"):
        with Memory.open(env=workspace.env, agent=agent) as memory:
            forget(memory, phrases=(LATIN,))
    assert find_traces([workspace.home, workspace.state, workspace.path], "zorkberries") == []
