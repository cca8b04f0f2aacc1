"""Transcripts as files for qmd: what is in them, what is written when, and where their lines come from."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mdrecall.extras.qmd.export import SessionExport
from mdrecall.interfaces import OpenTranscript
from mdrecall.notes.tombstones import Masks, TombstoneFiles
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.readers import Transcripts
from tests.qmd.agent_home import AgentHome

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
DAY_S = 86_400


class CountingReader(Transcripts):
    """The transcripts of a folder, with a count of what is read of them."""

    def __init__(self, folder: str) -> None:
        super().__init__([OpenClawTranscripts(folder)])
        self.opened: list[str] = []

    @contextmanager
    def open(self, path: str, *, with_tools: bool = False) -> Iterator[OpenTranscript]:
        self.opened.append(path)
        with super().open(path) as opened:
            yield opened


class World:
    """An agent whose transcripts are exported."""

    def __init__(self, agent_home: AgentHome) -> None:
        self.agent_home = agent_home
        self.source = CountingReader(agent_home.settings.sessions_dir)
        self.folder = agent_home.qmd_dir / "sessions"
        self.now_s = 2_000_000_000.0

    def export(self, *, days: int = 0, patterns: tuple[str, ...] = ()) -> SessionExport:
        return SessionExport(
            self.source,
            Masks(patterns, TombstoneFiles("")),
            folder=str(self.folder),
            state_dir=str(self.agent_home.state_dir),
            retention_days=days,
            now=lambda: self.now_s,
        )

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.iterdir())}


@pytest.fixture
def world(agent_home: AgentHome) -> World:
    return World(agent_home)


def test_a_transcript_is_a_file_of_what_was_said(world: World) -> None:
    world.agent_home.say("one", "Hello\n\n  there", f"my key is {SECRET}")
    world.agent_home.say("none")
    assert world.export().run() == []
    files = world.files()
    assert files["none.md"] == "# Session none\n\n(empty)\n"
    heading, blank, first, second = files["one.md"].splitlines()
    assert (heading, blank, first) == ("# Session one", "", "User: Hello there")
    assert SECRET not in second
    assert second.startswith("User: my key is sk-pro")
    assert os.stat(world.folder / "one.md").st_mode & 0o777 == 0o600


def test_after_a_restart_what_has_not_changed_is_not_even_opened(world: World) -> None:
    world.agent_home.say("one", "a")
    world.agent_home.say("two", "b")
    world.export().run()
    world.source.opened.clear()
    world.agent_home.say("two", "c")
    assert world.export().run() == []
    assert world.source.opened == ["sessions/two.jsonl"]


def test_a_line_without_an_end_is_exported_and_not_twice_when_it_has_one(world: World) -> None:
    path = world.agent_home.say("one", "a", "b")
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    world.export().run()
    assert world.files()["one.md"].endswith("User: a\nUser: b\n")
    with path.open("a") as file:
        file.write("\n")
    world.agent_home.say("one", "c")
    world.export().run()
    assert world.files()["one.md"] == "# Session one\n\nUser: a\nUser: b\nUser: c\n"


def test_records_that_say_nothing_leave_the_file_as_it_is(world: World) -> None:
    path = world.agent_home.say("one", "a")
    world.export().run()
    before = os.stat(world.folder / "one.md")
    with path.open("a") as file:
        file.write('{"type": "toolResult"}\n')
    assert world.export().run() == []
    assert os.stat(world.folder / "one.md").st_ino == before.st_ino
    world.agent_home.say("one", "b")
    world.export().run()
    assert world.export().find_origin("one.md", 4, 4) == ("sessions/one.jsonl", 4, 4)


@pytest.mark.parametrize("same_size", [True, False])
def test_a_transcript_that_was_written_anew_is_read_anew(world: World, same_size: bool) -> None:
    path = world.agent_home.say("one", "aaaa", "bbbb")
    world.export().run()
    text = path.read_text().replace("aaaa", "zzzz" if same_size else "zzzzzzzz").replace("bbbb", "yyyy")
    path.write_text(text)
    world.agent_home.say("one", "c")
    world.export().run()
    assert "User: zzzz" in world.files()["one.md"]
    assert "aaaa" not in world.files()["one.md"]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_that_somebody_changed_is_written_anew_and_no_link_is_written_through(
    world: World, is_link: bool
) -> None:
    world.agent_home.say("one", "a")
    world.export().run()
    file, victim = world.folder / "one.md", world.agent_home.home / "victim.md"
    text = "# Session one\n\nUser: a\n"
    victim.write_text(text)
    file.unlink()
    if is_link:
        file.symlink_to(victim)
    else:
        file.write_text("# Session one\n\nsomething else\n")
    assert world.export().run() == []
    assert (world.files()["one.md"], file.is_symlink()) == (text, False)
    assert victim.read_text() == text


def test_another_way_of_masking_masks_everything_anew(world: World) -> None:
    world.agent_home.say("one", "the word is xyzzy1234")
    world.export().run()
    assert "xyzzy" in world.files()["one.md"]
    world.export(patterns=("xyzzy[0-9]+",)).run()
    assert "xyzzy" not in world.files()["one.md"]


def test_lines_are_cited_by_their_records_and_the_heading_by_the_first(world: World) -> None:
    path = world.agent_home.say("one", "a")
    with path.open("a") as file:
        file.write("not json\n\n")
    world.agent_home.say("one", "b", "c")
    world.export().run()
    export = world.export()
    assert export.find_origin("one.md", 3, 5) == ("sessions/one.jsonl", 2, 6)
    assert export.find_origin("one.md", 1, 2) == ("sessions/one.jsonl", 2, 2)
    assert export.find_origin("one.md", 4, 99) == ("sessions/one.jsonl", 5, 6)
    assert export.find_origin("../one.md", 3, 3) is None
    assert export.find_origin("foreign.md", 1, 1) is None


def test_a_transcript_put_aside_by_a_reset_keeps_its_name(world: World) -> None:
    path = world.agent_home.say("one", "a")
    path.rename(path.with_name("one.jsonl.reset.2026-02-10T10-00-00.000Z"))
    world.export().run()
    (name,) = world.files()
    assert name == "one.jsonl.reset.2026-02-10T10-00-00.000Z.md"
    assert world.export().find_origin(name, 3, 3) == (f"sessions/{name.removesuffix('.md')}", 2, 2)


def test_files_of_transcripts_that_have_gone_go_and_those_of_others_stay(world: World) -> None:
    path = world.agent_home.say("one", "a")
    world.agent_home.say("two", "b")
    world.export().run()
    (world.folder / "mine.md").write_text("my own")
    path.unlink()
    assert world.export().run() == []
    assert set(world.files()) == {"mine.md", "two.md"}
    assert world.export().find_origin("one.md", 3, 3) is None


def test_the_folder_is_there_even_when_nothing_is_left_to_export(world: World) -> None:
    world.agent_home.say("one", "a").unlink()
    assert world.export().run() == []
    assert world.files() == {}
    world.folder.rmdir()
    world.folder.write_text("in the way")
    assert [issue.path for issue in world.export().run()] == [str(world.folder)]


def test_what_cannot_be_listed_is_not_taken_for_gone(world: World) -> None:
    world.agent_home.say("one", "a")
    world.export().run()
    folder = Path(world.agent_home.settings.sessions_dir)
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    report = world.export().run()
    assert report
    assert set(world.files()) == {"one.md"}


def test_transcripts_that_are_too_old_are_left_out(world: World) -> None:
    path = world.agent_home.say("old", "a")
    world.agent_home.say("new", "b")
    os.utime(path, (world.now_s - 8 * DAY_S,) * 2)
    os.utime(path.with_name("new.jsonl"), (world.now_s - 6 * DAY_S,) * 2)
    world.export().run()
    assert set(world.files()) == {"new.md", "old.md"}
    assert world.export(days=7).run() == []
    assert set(world.files()) == {"new.md"}


def test_a_file_that_is_not_from_a_transcript_is_not_overwritten(world: World) -> None:
    world.agent_home.say("one", "a")
    world.agent_home.say("two", "b")
    world.folder.mkdir(parents=True)
    (world.folder / "one.md").write_text("my own")
    (world.folder / "two.md").write_text("# Session two\n\nexported by another program\n")
    report = world.export().run()
    assert [issue.path for issue in report] == [str(world.folder / "one.md")]
    assert world.files() == {"one.md": "my own", "two.md": "# Session two\n\nUser: b\n"}


def test_what_cannot_be_exported_is_told_and_the_rest_goes_on(world: World) -> None:
    world.agent_home.say("one", "a")
    world.agent_home.say("two", "b")
    (world.folder / "one.md").mkdir(parents=True)
    assert [issue.path for issue in world.export().run()] == ["sessions/one.jsonl"]
    assert (world.folder / "two.md").is_file()
    # Where nothing can be noted down, nothing is exported.
    (world.folder / "two.md").unlink()
    state = world.agent_home.state_dir
    shutil.rmtree(state)
    state.write_text("in the way")
    assert str(world.folder / "two.md") in [issue.path for issue in world.export().run()]
    assert [path.name for path in world.folder.iterdir()] == ["one.md"]


def test_an_export_can_be_stopped_and_taken_up_again(world: World) -> None:
    for number in range(5):
        world.agent_home.say(f"s{number}", "a")
    answers = iter([False, False, True])
    assert world.export().run(stop=lambda: next(answers)) == []
    assert set(world.files()) == {"s0.md", "s1.md"}
    world.source.opened.clear()
    assert world.export().run() == []
    assert world.source.opened == [f"sessions/s{number}.jsonl" for number in (2, 3, 4)]


def test_a_state_that_cannot_be_read_costs_only_work(world: World) -> None:
    world.agent_home.say("one", "a")
    world.export().run()
    state = world.agent_home.state_dir / "export.json"
    for damage in ("", "[]", json.dumps({**json.loads(state.read_text()), "files": {"sessions/one.jsonl": [1]}})):
        state.write_text(damage)
        world.export().run()
        assert world.files() == {"one.md": "# Session one\n\nUser: a\n"}
