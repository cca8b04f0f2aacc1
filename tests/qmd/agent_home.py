"""A home with a workspace, its settings, and the parts of a qmd that belongs to it."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import apsw

from mdrecall.config.load import Loaded, load
from mdrecall.config.settings import Settings
from mdrecall.errors import BackendUnavailable, ProgramStopped
from mdrecall.extras.qmd.collections import Collections, plan_collections
from mdrecall.extras.qmd.database import QmdDatabase
from mdrecall.extras.qmd.process import Program, index_path, prepare
from mdrecall.extras.qmd.update import IndexUpdate
from mdrecall.types.sync import Stop, never
from tests.qmd.real import Tools, node_of

Reply = str | BackendUnavailable | Callable[[Stop], str]


class Scripted(Program):
    """A program that says what it is told to; what it was not told to say is nothing, and success."""

    def __init__(self, **replies: Sequence[Reply]) -> None:
        super().__init__((), env={})
        self.replies = {name.replace("_", " "): list(given) for name, given in replies.items()}
        self.calls: list[tuple[str, ...]] = []

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float,
        quiet: bool = False,
        stop: Stop = never,
        check: bool = True,
    ) -> CompletedProcess[str]:
        if stop():
            raise ProgramStopped("stopped")
        self.calls.append(tuple(arguments))
        waiting = self.replies.get(arguments[0]) or self.replies.get(" ".join(arguments[:2])) or []
        reply = waiting.pop(0) if waiting else ""
        if isinstance(reply, BackendUnavailable):
            raise reply
        return CompletedProcess(arguments, 0, reply if isinstance(reply, str) else reply(stop), "")

    def names(self) -> list[str]:
        """The commands that were run."""
        return [" ".join(call[:2]) if call[0] == "collection" else call[0] for call in self.calls]


class AgentHome:
    """One agent of OpenClaw, in a folder of the test."""

    def __init__(self, base: Path) -> None:
        self.home = base
        self.state = base / ".openclaw"
        self.workspace = self.state / "workspace"
        self.workspace.mkdir(parents=True)
        self.config: dict[str, Any] = {}

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def loaded(self) -> Loaded:
        (self.state / "openclaw.json").write_text(json.dumps(self.config))
        return load(env={"HOME": str(self.home), "PATH": os.environ["PATH"]}, cwd=str(self.home))

    @property
    def qmd_dir(self) -> Path:
        return Path(self.settings.qmd_dir)

    @property
    def state_dir(self) -> Path:
        return self.qmd_dir / "mdrecall"

    @property
    def config_file(self) -> Path:
        return self.qmd_dir / "xdg-config" / "index.yml"

    @property
    def database(self) -> QmdDatabase:
        return QmdDatabase(index_path(str(self.qmd_dir)))

    def qmd(self, **settings: Any) -> None:
        """Set what is under ``memory.qmd``."""
        self.config.setdefault("memory", {}).setdefault("qmd", {}).update(settings)

    def note(self, name: str, text: str) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def say(self, session: str, *texts: str) -> Path:
        """Add to a transcript, after a header that nobody says."""
        folder = Path(self.settings.sessions_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{session}.jsonl"
        with path.open("a") as file:
            if not file.tell():
                file.write('{"type": "session", "id": "x"}\n')
            for text in texts:
                message = {"role": "user", "content": text}
                file.write(json.dumps({"type": "message", "message": message}) + "\n")
        return path

    def program(self, tools: Tools, models: dict[str, str] | None = None) -> Program:
        """The real qmd, without its launcher, which costs a tenth of a second; it does not wait long for a lock."""
        outer = {"PATH": tools.path, "HOME": str(self.home), **(models or {})}
        env = prepare(str(self.qmd_dir), outer, home=str(self.home))
        script = Path(tools.qmd).resolve().parents[1] / "dist" / "cli" / "qmd.js"
        return Program((node_of(tools), str(script)), env={**env, "QMD_SQLITE_BUSY_TIMEOUT": "300"})

    def collections(self, program: Program) -> Collections:
        settings = self.settings
        return Collections(
            program,
            plan_collections(settings, str(self.home)),
            settings,
            self.database,
            lambda within_s: None,
        )

    def bind(self, name: str, folder: Path, pattern: str = "**/*.md") -> None:
        """Note a collection in qmd's index, as qmd does when one is added."""
        Path(self.database.path).parent.mkdir(parents=True, exist_ok=True)
        db = apsw.Connection(self.database.path)
        db.execute("CREATE TABLE IF NOT EXISTS store_collections(name, path, pattern)")
        db.execute("INSERT INTO store_collections VALUES(?, ?, ?)", (name, str(folder), pattern))
        db.close()

    def update(self, program: Program, **more: Any) -> IndexUpdate:
        collections = more.pop("collections", None) or self.collections(program)
        export = more.pop("export", None)
        return IndexUpdate(program, collections, export, state_dir=str(self.state_dir), timeout_s=30, **more)
