"""A new transcript format is one reader and one line in the table: it is indexed, searched, listed, read and saved."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mdrecall import Memory
from mdrecall.config.settings import Settings
from mdrecall.context import save_session
from mdrecall.errors import FileMissing, PathOutside, TranscriptRefused
from mdrecall.extras.qmd.export import SessionExport
from mdrecall.interfaces import OpenTranscript, TranscriptReader
from mdrecall.notes.opening import read_stamped
from mdrecall.notes.tombstones import open_masks
from mdrecall.sessions import readers
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.readers import Transcripts, open_transcripts
from mdrecall.types.documents import Listing, SourceName, Stamp
from mdrecall.types.transcripts import Conversation, TranscriptRecord

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
_PREFIX, _ENDING = "sessions/list/", ".list.json"


class OpenJsonList:
    """A file with one JSON list of ``[speaker, text, day]``. An offset is a number of messages."""

    def __init__(self, data: bytes, stamp: Stamp) -> None:
        self.stamp = stamp
        self._messages = json.loads(data)

    def records(self, start: int = 0, number: int = 1) -> Iterator[TranscriptRecord]:
        for place, message in enumerate(self._messages[start:]):
            size = len(json.dumps(message))
            yield TranscriptRecord(number + place, start + place + 1, size, *message)

    def records_after(self, offset: int) -> int:
        return len(self._messages) - offset

    def seal(self, offset: int) -> bytes:
        return hashlib.sha256(json.dumps(self._messages[:offset]).encode()).digest()


class JsonListReader:
    """Transcripts in files ``<session>.list.json`` beside OpenClaw's."""

    name: SourceName = "sessions"

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.sessions_dir

    def scan(self) -> Listing:
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        found = {name: os.stat(os.path.join(self._folder, name)) for name in names if name.endswith(_ENDING)}
        stamps = {
            self._path(name.removesuffix(_ENDING)): (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, 0)
            for name, stat in found.items()
        }
        return Listing(stamps, (), (), {}, (self._folder,))

    def owns(self, path: str) -> bool:
        return path.startswith(_PREFIX)

    def find(self, session: str, listing: Listing) -> str | None:
        return next((path for path in (session, self._path(session)) if path in listing.stamps), None)

    def describe(self, path: str, stamp: Stamp) -> Conversation:
        return Conversation(path.removeprefix(_PREFIX), path, stamp[0], stamp[1] / 1e9, False)

    @contextmanager
    def open(self, path: str, *, with_tools: bool = False) -> Iterator[OpenTranscript]:
        name = path.removeprefix(_PREFIX) + _ENDING
        data, stamp = read_stamped(self._folder, name, shown=path, max_bytes=1_000_000)
        yield OpenJsonList(data, (*stamp[:3], 0))

    def _path(self, session: str) -> str:
        return _PREFIX + session


def reader_of(settings: Settings) -> TranscriptReader:
    return JsonListReader(settings)


@pytest.fixture
def two_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line that a new format adds to the table."""
    monkeypatch.setattr(readers, "READERS", (reader_of, *readers.READERS))


@pytest.fixture
def memory(tmp_path: Path, two_formats: None) -> Iterator[Memory]:
    state = tmp_path / "state"
    (tmp_path / "workspace").mkdir()
    config = tmp_path / "mdrecall.json"
    config.write_text(json.dumps({"memorySearch": {"sources": ["sessions"], "experimental": {"sessionMemory": True}}}))
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(state)}
    with Memory.open(tmp_path / "workspace", config=config, env=env) as opened:
        folder = Path(opened.settings.sessions_dir)
        folder.mkdir(parents=True)
        line = {"type": "message", "message": {"role": "user", "content": "the seal dives"}}
        (folder / "old.jsonl").write_text(json.dumps(line) + "\n")
        write(opened, ("User", "the walrus sleeps", "2026-02-10"), ("", "", ""), ("Assistant", f"key {SECRET}", ""))
        yield opened


def write(memory: Memory, *messages: tuple[str, str, str]) -> Path:
    path = Path(memory.settings.sessions_dir) / f"new{_ENDING}"
    path.write_text(json.dumps(messages))
    return path


def test_it_is_searched_beside_the_others_and_cited_by_record(memory: Memory) -> None:
    memory.sync(force=True)
    walrus = memory.search("walrus")[0]
    seal = memory.search("seal")[0]
    assert (walrus.path, walrus.start_line) == ("sessions/list/new", 1)
    assert seal.path == "sessions/old.jsonl"
    assert SECRET not in walrus.snippet


def test_it_grows_and_is_rewritten(memory: Memory) -> None:
    first = ("User", "the walrus sleeps", "")
    write(memory, first)
    memory.sync()
    write(memory, first, ("Assistant", "an otter wakes", ""))
    assert memory.sync().changed == 1
    assert memory.search("otter").results[0].path == "sessions/list/new"
    write(memory, ("User", "a heron stands in the reeds all day long, and nobody sees it", ""), first, first)
    memory.sync()
    assert memory.search("otter", mode="keyword").results == ()
    assert memory.search("heron", mode="keyword").results[0].start_line == 1


def test_it_is_listed_read_and_saved(memory: Memory) -> None:
    assert {(entry.session, entry.path) for entry in memory.sessions()} == {
        ("new", "sessions/list/new"),
        ("old", "sessions/old.jsonl"),
    }
    for name in ("new", "sessions/list/new"):
        shown = memory.read_session(name).text
        assert shown.startswith("1  User: the walrus sleeps\n3  Assistant: key sk-")
        assert SECRET not in shown
    assert memory.read_session("sessions/list/new", from_line=3).text.startswith("3  Assistant")
    with pytest.raises(TranscriptRefused):
        memory.read("sessions/list/new")
    note = save_session(memory, "new", now=datetime(2026, 2, 10, 9, 30, tzinfo=UTC))
    saved = (Path(memory.settings.workspace) / note).read_text()
    assert "- Session: new\n" in saved
    assert "User: the walrus sleeps\n\nAssistant: key sk-" in saved


def test_it_is_exported_for_qmd(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    source = open_transcripts(memory.settings)
    export = SessionExport(source, open_masks(memory.settings), folder=str(folder), state_dir=str(tmp_path / "state"))
    assert export.run() == []
    assert (folder / "new.md").read_text().startswith("# Session new\n\nUser: the walrus sleeps\n")
    assert export.find_origin("new.md", 4, 4) == ("sessions/list/new", 3, 3)
    assert export.find_origin("old.md", 3, 3) == ("sessions/old.jsonl", 1, 1)


def test_a_format_that_is_no_longer_read_leaves_the_index(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.loaded
    memory.sync()
    monkeypatch.setattr(readers, "READERS", readers.READERS[1:])
    with Memory.of(memory.loaded) as reopened:
        assert reopened.sync().removed == 1
        assert reopened.search("walrus", mode="keyword").results == ()
        assert len(reopened.search("seal", mode="keyword").results) == 1


def test_what_no_reader_owns_is_refused(memory: Memory) -> None:
    with (
        pytest.raises(PathOutside, match="is not a transcript"),
        open_transcripts(memory.settings).open("memory/2026-02-10.md"),
    ):
        pass
    with pytest.raises(FileMissing, match="There is no transcript gone"):
        memory.read_session("gone")


def test_the_first_reader_that_owns_a_path_reads_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "a.jsonl").write_text("x" * len(folder.name))
    (second / "b.jsonl").write_text("")
    both = Transcripts([OpenClawTranscripts(str(first)), OpenClawTranscripts(str(second))])
    listing = both.scan()
    assert {path: stamp[0] for path, stamp in listing.stamps.items()} == {"sessions/a.jsonl": 5, "sessions/b.jsonl": 0}
    assert listing.folders == (str(first), str(second))
    with both.open("sessions/a.jsonl") as opened:
        assert opened.stamp[0] == 5
