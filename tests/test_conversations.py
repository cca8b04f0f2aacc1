"""Conversations as memory: found beside the notes, cited by their records, without secrets, and of this agent only."""

import json
import os
import shutil
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from mdrecall.context import save_session, session_context
from mdrecall.errors import FileMissing, NothingToWrite, PathOutside
from mdrecall.memory import Memory
from mdrecall.text.markdown import utf16_units
from mdrecall.types.search import Mode
from tests.conftest import LONG_AGO_NS, values_of
from tests.sessions.openclaw_store import OpenClawStore, message

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
SOURCES = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}


class Home:
    """A home with OpenClaw's folders in it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.state = base / ".openclaw"
        self.workspace = self.state / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        (self.state / "workspace-other").mkdir()
        self.env = {"HOME": str(base), "PATH": os.environ["PATH"]}
        self.configure()

    def configure(self, search: dict[str, Any] = SOURCES, **more: Any) -> None:
        agents = {"defaults": {"memorySearch": search}, "list": [{"id": "main"}, {"id": "other"}]}
        (self.state / "openclaw.json").write_text(json.dumps({"agents": agents, **more}))

    def note(self, name: str, text: str) -> None:
        path = self.workspace / name
        path.write_text(text)
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))

    def say(
        self, session: str, *texts: str, agent: str = "main", days_ago: float = 1000, day: str = "2026-02-10"
    ) -> Path:
        folder = self.state / "agents" / agent / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{session}.jsonl"
        with path.open("a") as file:
            for number, text in enumerate(texts):
                role = "assistant" if number % 2 else "user"
                message = {"role": role, "content": text}
                file.write(json.dumps({"type": "message", "timestamp": f"{day}T10:00:00Z", "message": message}) + "\n")
        when = time.time_ns() - int(days_ago * 86_400e9) - 3_600_000_000_000
        os.utime(path, ns=(when, when))
        return path

    def open(self, agent: str | None = None, overrides: dict[str, Any] | None = None) -> Memory:
        return Memory.open(env=self.env, agent=agent, overrides=overrides)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_who_searches_only_conversations_finds_what_was_just_said(home: Home) -> None:
    home.note("MEMORY.md", "Nothing about animals.")
    home.say("talk", "The key is in the drawer.")
    with home.open() as memory:
        memory.sync()
        home.say("talk", "The walrus has moved it.", days_ago=-1 / 24)
        home.say("new", "Another walrus came.", days_ago=-1 / 24)
        assert not memory.search("walrus"), "A transcript that grew by a few words is left for later."
        assert {result.path for result in memory.search("walrus", source="sessions")} == {
            "sessions/new.jsonl",
            "sessions/talk.jsonl",
        }


def test_every_character_of_a_long_record_can_be_read(home: Home) -> None:
    text = " ".join(f"word{number}" for number in range(15_000)) + " 🦭" * 20_000
    home.say("talk", "before", text, "after")
    said, at, from_line = "", 0, 2
    with home.open() as memory:
        while True:
            read = memory.read_session("talk", from_line=from_line, lines=1, from_char=at)
            assert utf16_units(read.text) <= 50_000
            said += read.text.removeprefix("2  ")
            assert (read.from_line, read.next_from) == (2, 3)
            if read.next_char is None:
                break
            assert read.truncated
            at = read.next_char
    assert said == f"Assistant: {text}"
    assert not read.truncated


def test_a_record_that_was_cut_is_named_although_reading_began_before_it(home: Home) -> None:
    path = home.say("talk")
    path.write_text('{"type": "session"}\n')
    home.say("talk", "a" * 60_000, "after")
    with home.open() as memory:
        read = memory.read_session("talk")
        assert (read.from_line, read.next_from, read.line_count) == (2, 3, 1)
        rest = memory.read_session("talk", from_line=read.from_line, from_char=read.next_char or 0)
        assert rest.text == f"2  {'a' * (60_000 + len('User: ') - (read.next_char or 0))}\n3  Assistant: after"
        exact = memory.read_session("talk", from_line=2, lines=1, from_char=60_000 + len("User: ") - 49_997)
        assert (len(exact.text), exact.truncated, exact.next_char) == (50_000, False, None)


def test_of_a_message_beyond_measure_the_beginning_is_searched_and_the_rest_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.engine.transcripts._MESSAGE_CHARS", 1_000)
    home.say("talk", "walrus " + "x " * 600 + "octopus", "the seal")
    with home.open() as memory:
        report = memory.sync()
        assert [issue.path for issue in report.issues] == ["sessions/talk.jsonl"]
        assert "record 1 has 1,214 characters; the first 1,000 are searched" in report.issues[0].problem
        assert memory.search("walrus", mode="keyword")
        assert memory.search("seal", mode="keyword")
        assert not memory.search("octopus", mode="keyword")
        assert "octopus" in memory.read_session("talk").text


def test_a_line_beyond_measure_is_told_and_the_others_are_found(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.sessions.jsonl.MAX_LINE_BYTES", 300)
    home.say("talk", "the walrus", "x" * 400, "the seal")
    with home.open() as memory:
        [issue] = memory.sync().issues
        assert issue.problem.startswith("record 2 has ")
        assert memory.search("seal", mode="keyword")
        before, huge, after = memory.read_session("talk").text.split("\n")
        assert (before, after) == ("1  User: the walrus", "3  User: the seal")
        assert huge.startswith("2  (This record has ")


def test_without_leave_no_conversation_is_searched(home: Home) -> None:
    home.configure({"sources": ["memory", "sessions"]})
    home.say("talk", "the walrus")
    with home.open() as memory:
        assert memory.search("walrus").reason == "index_empty"
        with pytest.raises(PathOutside):
            memory.read("sessions/talk.jsonl")


@pytest.mark.parametrize(
    ("search", "left"), [({}, "seals"), ({"sources": ["sessions"], "experimental": {"sessionMemory": True}}, "walrus")]
)
def test_a_source_that_is_not_wanted_any_more_leaves_the_index(home: Home, search: dict[str, Any], left: str) -> None:
    home.note("MEMORY.md", "a note about seals")
    home.say("talk", "the walrus")
    with home.open() as memory:
        memory.sync()
        assert [bool(memory.search(word, mode="keyword")) for word in ("seals", "walrus")] == [True, True]
    home.configure(search)
    with home.open() as memory:
        memory.sync()
        assert [word for word in ("seals", "walrus") if memory.search(word, mode="keyword")] == [left]


@pytest.mark.parametrize("force", [True, False])
def test_a_rebuild_has_every_source_in_it_whatever_caused_it(home: Home, force: bool) -> None:
    home.note("MEMORY.md", "a note about seals")
    home.say("talk", "the walrus")
    with home.open() as memory:
        memory.sync()
    if not force:
        home.configure({**SOURCES, "chunking": {"tokens": 100}})
    with home.open() as memory:
        report = memory.sync(force=force)
        assert (report.rebuilt, report.added, report.removed) == (True, 0, 0)
        assert {result.source for result in memory.search("walrus seals", min_score=0)} == {"memory", "sessions"}
        assert [(count.source, count.files) for count in memory.counts()] == [("memory", 1), ("sessions", 1)]


def test_no_other_agents_conversation_can_be_reached(home: Home) -> None:
    home.say("mine", "the walrus is mine")
    home.say("theirs", "the walrus is theirs", agent="other")
    with home.open() as memory:
        assert [result.path for result in memory.search("walrus")] == ["sessions/mine.jsonl"]
        assert [entry.session for entry in memory.sessions()] == ["mine"]
        for name in ("theirs", "sessions/theirs.jsonl", "../../other/sessions/theirs", "sessions/../../x.jsonl"):
            with pytest.raises((FileMissing, PathOutside)):
                memory.read_session(name)
    with home.open("other") as memory:
        assert [result.path for result in memory.search("walrus")] == ["sessions/theirs.jsonl"]


def test_no_secret_is_in_the_index_or_in_what_is_read(home: Home) -> None:
    home.say("talk", f"my key is {SECRET}, use it for the walrus", f"OK: {SECRET}")
    with home.open() as memory:
        memory.sync()
        (found,) = memory.search("walrus key")
        assert SECRET not in found.snippet
        assert SECRET not in memory.read_session("talk").text
        files = [Path(path) for path, _ in memory.index_files()]
        assert all(SECRET.encode() not in path.read_bytes() for path in files)
    assert all(SECRET.encode() not in path.read_bytes() for path in files if path.exists())


def test_the_users_own_patterns_are_masked_too_and_a_new_one_makes_the_index_anew(home: Home) -> None:
    home.say("talk", "the walrus is called GERALD-0001-2222-3333")
    with home.open() as memory:
        assert "GERALD-0001" in memory.search("walrus")[0].snippet
    home.configure(SOURCES, logging={"redactPatterns": ["GERALD-[0-9-]+"]})
    with home.open() as memory:
        assert memory.sync().rebuilt
        assert "GERALD-0001" not in memory.search("walrus")[0].snippet


def test_talk_leaves_notes_their_place(home: Home) -> None:
    for number in range(12):
        home.say(f"talk-{number}", "the walrus the walrus the walrus")
    for number in range(4):
        home.note(
            f"memory/{number}.md", f"Once, among other things, on day {number}, somebody mentioned a walrus in passing."
        )
    with home.open() as memory:
        found = [result.source for result in memory.search("walrus", max_results=6, min_score=0)]
        assert (found.count("memory"), found.count("sessions")) == (3, 3)
        assert [result.source for result in memory.search("walrus", max_results=16, min_score=0)].count(
            "sessions"
        ) == 12


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
def test_one_source_alone_can_be_searched(home: Home, mode: Mode) -> None:
    for number in range(40):
        home.say(f"talk-{number}", f"the walrus, the walrus and the walrus number {number}")
    home.note("memory/zoo.md", "Once, among many other things, somebody mentioned a walrus in passing.")
    with home.open() as memory:
        notes = memory.search("walrus", max_results=3, min_score=0, mode=mode, source="memory")
        assert [result.path for result in notes] == ["memory/zoo.md"]
        talk = memory.search("walrus", max_results=3, min_score=0, mode=mode, source="sessions")
        assert [result.source for result in talk] == ["sessions"] * 3


def test_a_question_about_a_time_lists_conversations_too_and_leaves_notes_their_places(home: Home) -> None:
    for number in range(12):
        home.say(f"talk-{number:02d}", f"we spoke of walrus {number}", day="2026-02-10")
    home.say("old", "we spoke of penguins", day="2026-01-10")
    for day in ("2026-02-10", "2026-02-09", "2026-02-08", "2025-12-01"):
        home.note(f"memory/{day}.md", f"Notes of {day}.")
    now = datetime(2026, 2, 11, 12, tzinfo=UTC)
    with home.open() as memory:
        found = memory.search("what happened in the last 3 days", max_results=6, now=now)
        notes = [result.path for result in found if result.source == "memory"]
        assert notes == ["memory/2026-02-10.md", "memory/2026-02-09.md", "memory/2026-02-08.md"]
        assert [result.date for result in found if result.source == "sessions"] == ["2026-02-10"] * 3
        talks = memory.search("what happened in the last 3 days", source="sessions", now=now)
        assert {result.source for result in talks} == {"sessions"}
        since = memory.search("we spoke", source="sessions", until="2026-01-31", now=now)
        assert [result.path for result in since] == ["sessions/old.jsonl"]


@pytest.mark.parametrize("told", [True, False])
def test_what_was_said_grows_old(home: Home, told: bool) -> None:
    home.say("new", "the walrus sleeps here", days_ago=0, day=time.strftime("%Y-%m-%d") if told else "")
    home.say("old", "the walrus sleeps here", days_ago=0 if told else 900, day="2020-02-10" if told else "")
    decay = {"query.hybrid.temporalDecay.enabled": True}
    with home.open(overrides=decay) as memory:
        found = memory.search("walrus sleeps", explain=True)
        assert [result.path for result in found] == ["sessions/new.jsonl", "sessions/old.jsonl"]
        assert [values_of(result)["decay"] > 0.9 for result in found] == [True, False]


@pytest.mark.parametrize(("how", "found"), [("await", True), ("async", True), ("off", False)])
def test_a_compaction_has_its_conversation_indexed(home: Home, how: str, found: bool) -> None:
    home.say("talk", "the first words")
    home.configure(SOURCES)
    config = json.loads((home.state / "openclaw.json").read_text())
    config["agents"]["defaults"]["compaction"] = {"postIndexSync": how}
    (home.state / "openclaw.json").write_text(json.dumps(config))
    with home.open(overrides={"sync.onSearch": False}) as memory:
        memory.sync()
        path = home.say("talk", "now the walrus")
        os.utime(path)
        memory.compacted(str(path))
        while how == "async" and not memory.search("walrus", mode="keyword"):
            pass
        assert bool(memory.search("walrus", mode="keyword")) is found


@pytest.mark.parametrize("budget", [0, 50, 200, 1000, 5000, 20_000])
def test_what_an_agent_reads_fits_its_budget_and_says_what_is_missing(home: Home, budget: int) -> None:
    home.note("MEMORY.md", "".join(f"lasting line {number}\n" for number in range(300)))
    home.note("memory/2026-02-10.md", "".join(f"event number {number}\n" for number in range(300)))
    with home.open() as memory:
        found = session_context(memory, "main", today=date(2026, 2, 10), max_chars=budget)
        assert sum(len(part.text) for part in found.parts) <= budget
        for part in found.parts:
            assert part.is_whole == (f"memory_get {part.path}" not in found.text)
        if budget == 1000:
            assert "event number 299" in found.text
            assert "lasting line 0" in found.text


def test_a_conversation_that_ends_becomes_a_note_without_secrets(home: Home) -> None:
    home.say("talk", "/new", "Hello", f"the key is {SECRET}", "Fine", *(["more"] * 20))
    now = datetime(2026, 2, 10, 23, 5, tzinfo=UTC)
    with home.open() as memory:
        first = save_session(memory, "talk", now=now, session_key="agent:main:main")
        second = save_session(memory, "talk", now=now, slug="The Walrus & Co", messages=2)
        third = save_session(memory, "talk", now=now, slug="the walrus co", messages=2)
        assert (first, second, third) == (
            "memory/2026-02-10-2305.md",
            "memory/2026-02-10-the-walrus-co.md",
            "memory/2026-02-10-the-walrus-co-2.md",
        )
        text = (home.workspace / first).read_text()
        assert "agent:main:main" in text
        assert text.count(": more") == 15
        assert memory.search("conversation what was said last", mode="keyword")
        home.say("empty", "/new")
        with pytest.raises(NothingToWrite):
            save_session(memory, "empty", now=now)
    assert all(SECRET not in path.read_text() for path in (home.workspace / "memory").iterdir())


def test_notes_are_found_however_much_is_said_about_the_same(home: Home) -> None:
    home.note("MEMORY.md", "Once we saw a walrus near the harbour. " + "Other things happened too. " * 40)
    for number in range(60):
        home.say(f"talk-{number}", f"walrus walrus number {number}", "walrus")
    with home.open() as memory:
        for answer in (memory.search("walrus", min_score=0, mode="keyword"), memory.search("walrus", min_score=0)):
            found = [result.source for result in answer]
            assert (len(found), "memory" in found, found[0]) == (20, True, "sessions")


def test_a_pattern_of_the_user_that_cannot_be_used_is_told(home: Home) -> None:
    home.say("talk", "the walrus")
    home.configure(SOURCES, logging={"redactPatterns": ["(a+)+"]})
    with home.open() as memory:
        (issue,) = memory.sync().issues
        assert (issue.path, "(a+)+" in issue.problem) == ("logging.redactPatterns", True)
        assert issue in memory.issues()


def test_a_note_in_a_folder_called_sessions_is_a_note(home: Home) -> None:
    (home.workspace / "sessions").mkdir()
    home.note("sessions/seals.md", "a note about seals")
    home.configure({**SOURCES, "extraPaths": ["sessions"]})
    with home.open() as memory:
        assert memory.read("sessions/seals.md").text == "a note about seals"


def test_a_long_conversation_is_read_and_saved_without_masking_all_of_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdrecall.text.redact import masking

    masked: list[str] = []
    find = masking.find

    def counted(text: str, **more: Any) -> list[masking.Finding]:
        masked.append(text)
        return find(text, **more)

    monkeypatch.setattr(masking, "find", counted)
    home.say("talk", *(f"number {number}" for number in range(2_000)))
    with home.open() as memory:
        assert memory.read_session("talk", from_line=1_999, lines=1).text == "1999  User: number 1998"
        save_session(memory, "talk", now=datetime(2026, 2, 10, tzinfo=UTC))
    assert len(masked) < 50


def test_a_long_conversation_that_grew_a_little_is_indexed_before_the_answer(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdrecall.engine.background import SingleFlight

    home.say("talk", *(f"number {number} " + "word " * 200 for number in range(600)))
    with home.open() as memory:
        memory.sync()
        home.say("talk", "now the walrus")
        started: list[object] = []
        monkeypatch.setattr(SingleFlight, "start", lambda *request, **more: started.append(request))
        answer = memory.search("walrus", mode="keyword")
        assert (len(answer), answer.stale, started) == (1, "", [])


def test_a_conversation_in_openclaws_database_is_found_through_the_migration_and_forgotten_with_it(home: Home) -> None:
    path = home.say("talk", "Where is the lighthouse key?", "In the blue drawer, next to the walrus.")
    with home.open() as memory:
        (found,) = memory.search("lighthouse key")
        assert (found.source, found.citation) == ("sessions", "sessions/talk.jsonl#L1-L2")
        assert (found.match_start_line, found.heading) == (1, "2026-02-10")
    jsonl = path.read_text()
    shutil.rmtree(path.parent.parent)
    store = OpenClawStore(home.state)
    store.begin("talk")
    store.execute("DELETE FROM transcript_events")
    store.add("talk", *({**json.loads(line), "id": f"e{at}"} for at, line in enumerate(jsonl.splitlines())))
    with home.open() as memory:
        memory.sync()
        (found,) = memory.search("lighthouse key")
        assert found.citation == "sessions/main/talk.jsonl#L1-L2"
        for name in ("sessions/talk.jsonl", found.path, "talk"):
            assert memory.read_session(name, from_line=2, lines=1).text.startswith("2  Assistant: In the blue drawer")
        store.add("talk", *(message(f"f{number}", "user", f"The ferret says {number}") for number in range(60)))
        assert memory.search("ferret says 59")
        store.execute("INSERT INTO memory_session_tombstones VALUES ('talk', 'main', 'forgotten', 1)")
        memory.sync()
        assert not memory.search("lighthouse key")
        with pytest.raises(FileMissing):
            memory.read_session("talk")
