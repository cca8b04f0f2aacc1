"""A workspace whose memory is qmd's, with a fake qmd that has indexed its notes."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mdrecall.config.load import load
from mdrecall.config.settings import Settings
from mdrecall.extras.qmd.collections import plan_collections
from mdrecall.extras.qmd.process import index_path
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.qmd.fake_qmd import FakeQmd

VERSION = "qmd 2.8.3"
QUESTION = "what did Ana say about the billing migration?"
NOTES = {
    "MEMORY.md": "# Memory\n\nAna leads the billing team.\n",
    "memory/2026-01-14.md": "# 2026-01-14\n\n## Billing\n\nMet with Ana about the billing migration.\n"
    "We agreed to postpone the cutover.\n",
    "memory/garden.md": "# Garden\n\nThe tomatoes need water.\n",
}


class QmdWorkspace:
    """A workspace, its settings and its qmd."""

    def __init__(self, workspace: Workspace, program: str, qmd: FakeQmd | None = None) -> None:
        self.workspace = workspace
        self._fake = qmd
        self.program = program
        # Far longer than the fake needs, also where the cores are busy: a test in which it hangs sets its own.
        self.settings_of_qmd: dict[str, Any] = {"limits": {"timeoutMs": 20_000}}
        self.own: dict[str, Any] = {"qmd": {"session": False, "firstRetrySeconds": 1}}
        self.search: dict[str, Any] = {}
        self.path = os.environ["PATH"]
        self.variables: dict[str, str] = {}

    @property
    def qmd(self) -> FakeQmd:
        """The fake program; a real one has no plan."""
        assert self._fake
        return self._fake

    def write(self, notes: dict[str, str] = NOTES) -> "QmdWorkspace":
        for name, text in notes.items():
            self.workspace.write(name, text)
        return self

    def configure(self) -> None:
        qmd = {"command": self.program, **self.settings_of_qmd}
        config = {"memory": {"backend": "qmd", "qmd": qmd}, "mdrecall": self.own, "memorySearch": self.search}
        self.workspace.configure(json.dumps(config))

    @property
    def env(self) -> dict[str, str]:
        return {**self.workspace.env, "PATH": self.path, **self.variables}

    @property
    def settings(self) -> Settings:
        self.configure()
        return load(env=self.env, workspace=str(self.workspace.path)).settings

    @property
    def database(self) -> Path:
        return Path(index_path(self.settings.qmd_dir))

    def memory(self, *, one_shot: bool = True) -> Memory:
        """Open the memory; it is closed when the test ends."""
        self.configure()
        memory = Memory.open(self.workspace.path, env=self.env, one_shot=one_shot)
        self.workspace._open.append(memory)
        return memory

    def fill(self, notes: dict[str, str] = NOTES, *, embedded: bool = False) -> "QmdWorkspace":
        """Make the index that the fake qmd would have made of the notes, with vectors of them or without."""
        self.database.parent.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(self.database) as db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS documents(id INTEGER PRIMARY KEY, collection, path, title, hash,"
                " created_at, modified_at, active)"
            )
            db.execute("DELETE FROM documents")
            db.execute("CREATE TABLE IF NOT EXISTS store_collections(name, path, pattern)")
            db.execute("DELETE FROM store_collections")
            planned = plan_collections(self.settings, str(self.workspace.home))
            bound = [(entry.name, entry.root, entry.pattern) for entry in planned]
            db.executemany("INSERT INTO store_collections VALUES(?,?,?)", bound)
            db.execute("CREATE TABLE IF NOT EXISTS content_vectors(hash)")
            for name, text in notes.items():
                collection, path = locate_note(name)
                digest = hashlib.sha256(text.encode()).hexdigest()
                row = (collection, path, path, digest, "", "", 1)
                db.execute(
                    "INSERT INTO documents(collection, path, title, hash, created_at, modified_at, active)"
                    " VALUES(?,?,?,?,?,?,?)",
                    row,
                )
            if embedded:
                db.execute("INSERT INTO content_vectors SELECT hash FROM documents")
        db.close()
        return self

    def answering(self, names: Iterable[str] = NOTES) -> "QmdWorkspace":
        """Let the fake qmd find these notes, whatever it is asked."""
        self.qmd.forget()
        self.qmd.reply("--version", out=VERSION)
        self.qmd.reply("query", out=json.dumps(hits(names)))
        return self

    def faulty(self, **reply: Any) -> "QmdWorkspace":
        """Let the fake qmd do this when it is asked to search."""
        self.qmd.forget()
        self.qmd.reply("--version", out=VERSION)
        self.qmd.reply("query", **reply)
        return self


def locate_note(name: str) -> tuple[str, str]:
    return "workspace-main", name


def hits(names: Iterable[str]) -> list[dict[str, Any]]:
    found = []
    for rank, name in enumerate(names, 1):
        collection, path = locate_note(name)
        snippet = "@@ -1,2 @@ (0 before, 3 after)\nwhat qmd had"
        found.append({"docid": f"#{rank:06x}", "score": 1 / rank, "file": f"qmd://{collection}/{path}", "line": 1,
                      "title": path, "snippet": snippet})  # fmt: skip
    return found
