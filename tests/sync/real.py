"""The same histories over real git and real files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from mdrecall.config.load import Loaded, load
from mdrecall.errors import SyncError
from mdrecall.life.forget_places import sweep_note
from mdrecall.notes.tombstones import entry_line, open_tombstones, read_machine
from mdrecall.sync.encrypted import Key
from mdrecall.sync.run import MemorySync, SyncResult
from mdrecall.text.tombstones import Entry, build_tombstones, make_entry
from tests.sync.histories import TOKEN, History, Machine, Remote


def load_home(folder: Path, workspace: Path | None = None) -> Loaded:
    """Return the settings of a machine, which has its own home."""
    workspace = workspace or folder / "notes"
    workspace.mkdir(parents=True, exist_ok=True)
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "MDRECALL_NO_HINTS": "1"}
    return load(env=env, cwd=str(folder), workspace=str(workspace), agent=None, config=None)


def add_tombstone(loaded: Loaded, phrase: str) -> Entry:
    """Write down that a phrase is forgotten, and clear nothing of it."""
    state_dir = loaded.settings.state_dir
    salt, id = read_machine(state_dir) or b"s" * 16, os.urandom(4).hex()
    entry = make_entry(salt, id, "2026-11-18T10:00:00Z", [phrase], {}, {})
    open_tombstones(loaded.settings).add_own(state_dir, [entry_line(entry)], salt)
    return entry


def make_remote(folder: Path) -> str:
    subprocess.run(["git", "init", "--bare", "-q", str(folder)], check=True)
    return str(folder)


def list_objects(folder: Path | str) -> bytes:
    """Return all objects of a repository."""
    command = ["git", "--git-dir", str(folder), "cat-file", "--batch", "--batch-all-objects", "--unordered"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def attach(loaded: Loaded, url: str, *, joins: bool, key: Key | None = None) -> SyncResult:
    sync = MemorySync(loaded)
    sync.attach(url, joins=joins, key=key)
    return sync.run()


class RealMachine(Machine):
    """A machine with a folder of notes."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, Remote())
        self.loaded = load_home(folder / name)
        self.root = Path(self.loaded.settings.workspace)

    def read(self) -> dict[str, bytes]:
        files = (path for path in self.root.rglob("*.md") if ".mdrecall" not in path.parts)
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}

    def write(self, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        for path in before.keys() - after.keys():
            (self.root / path).unlink()
        for path, data in after.items():
            if before.get(path) != data:
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                (self.root / path).write_bytes(data)

    def sync(self, step: Callable[[str], None] = lambda place: None) -> bool:
        try:
            MemorySync(self.loaded, step).run()
        except SyncError as error:
            if "pushed first" not in str(error):
                raise
            return False
        return True

    def forget(self, token: str) -> None:
        entry, before = add_tombstone(self.loaded, token), self.read()
        swept = {path: sweep_note(path, data, build_tombstones([entry])) for path, data in before.items()}
        self.write(before, {path: data for path, data in swept.items() if data})


#: What the real sync calls the places where a history kills or races.
PLACES = {"merging": "read", "stored": "stored", "pushed": "pushed", "staged": "staged", "writing": "write"}


class RealHistory(History):
    """A history over a bare repository on disk."""

    def __init__(self, seed: int, folder: Path, key: Key | None = None) -> None:
        super().__init__(seed)
        url = make_remote(folder / "remote")
        self.real = [RealMachine(machine.name, folder) for machine in self.machines]
        self.machines = [*self.real]
        for number, machine in enumerate(self.real):
            attach(machine.loaded, url, joins=number > 0, key=key)

    def sync(self, machine: Machine, turn: int) -> None:
        plain = machine.sync

        def renamed(step: Callable[[str], None] = lambda place: None) -> bool:
            return plain(lambda place: step(PLACES.get(place, place)))

        machine.sync = renamed  # type: ignore[method-assign]
        try:
            super().sync(machine, turn)
        finally:
            machine.sync = plain  # type: ignore[method-assign]

    def act(self, machine: Machine, turn: int) -> None:
        assert isinstance(machine, RealMachine)
        machine.work = machine.read()
        before = dict(machine.work)
        super().act(machine, turn)
        if machine.own_file in machine.work:
            token = TOKEN.findall(machine.work.pop(machine.own_file))[0]
            machine.forget(token.decode())
        else:
            machine.write(before, machine.work)

    def run(self) -> None:
        super().run()
        for machine in self.real:
            machine.work = machine.read()
