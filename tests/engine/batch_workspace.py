"""A workspace whose texts are embedded by a provider's batch jobs, and what that has cost."""

import json
import os
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import apsw

from mdrecall.engine.jobs import Jobs
from mdrecall.memory import Memory
from mdrecall.store.sqlite.vectors import find_vectors
from mdrecall.types.sync import Progress, SyncReport
from tests.conftest import Workspace
from tests.providers.batch import Plan
from tests.providers.faults import Fault
from tests.providers.server import ProviderServer
from tests.providers.wire import Recorded

#: The requests of a job, as patterns for faults.
_OPENAI = {
    "upload": "POST /v1/files",
    "create": "POST /v1/batches",
    "list": "GET /v1/batches",
    "poll": "GET /v1/batches/*",
    "output": "GET /v1/files/*/content",
    "cancel": "POST /v1/batches/*/cancel",
}
_GEMINI = {
    "upload": "POST /upload/v1beta/files",
    "create": "POST *:asyncBatchEmbedContent",
    "list": "GET /v1beta/batches",
    "poll": "GET /v1beta/batches/*",
    "output": "GET *:download",
    "cancel": "POST *:cancel",
}
WORDS = ("apple", "bridge", "candle", "desert", "engine", "forest", "garden", "harbour", "island", "jungle")
SIX = WORDS[:6]


class BatchWorkspace:
    """Notes of one word each, a provider that embeds them, and a memory between the two."""

    def __init__(self, workspace: Workspace, server: ProviderServer) -> None:
        self.workspace = workspace
        self.server = server
        self.progress: list[Progress] = []
        self.configure()

    def configure(self, *, cache: bool = True, own: dict[str, Any] | None = None, **batch: Any) -> None:
        """Batch jobs are on; ``batch`` and ``own`` (``mdrecall.remote``) change how."""
        remote = {"baseUrl": self.server.url, "batch": {"enabled": True, "pollIntervalMs": 0} | batch}
        if self.server.key:
            remote["apiKey"] = self.server.key
        search = {"provider": self.server.kind, "remote": remote, "cache": {"enabled": cache}}
        self.workspace.configure(json.dumps({"memorySearch": search, "mdrecall": {"remote": own or {}}}))

    def plan(self, **plan: Any) -> None:
        """How the provider's next jobs go."""
        self.server.batch.plan = Plan(**plan)

    def write(self, *words: str, more: str = "") -> None:
        for word in words:
            self.workspace.write(f"memory/{word}.md", f"The {word} is here.{more}\n")

    def sync(self, memory: Memory | None = None, **how: Any) -> SyncReport:
        """A sync by a memory, or by a new one, which is closed at once."""
        if memory:
            return memory.sync(progress=self.progress.append, **how)
        with Memory.open(self.workspace.path, env=self.workspace.env) as fresh:
            return fresh.sync(progress=self.progress.append, **how)

    @property
    def labels(self) -> list[str]:
        return [entry.label for entry in self.progress]

    @property
    def direct(self) -> list[str]:
        """The words that were paid for in direct requests, each as often as that was so."""
        return named(self.server.embedded_texts("direct"))

    @property
    def batch(self) -> list[str]:
        """The same for jobs."""
        return named(self.server.embedded_texts("batch"))

    @property
    def made(self) -> list[str]:
        """The ids of all jobs that the provider has."""
        return list(self.server.batch.jobs)

    def is_paid_once(self) -> bool:
        """True if one job embedded all six texts, and is over."""
        return (self.batch, self.direct, len(self.made), self.kept()) == (sorted(SIX), [], 1, [])

    def at(self, what: str) -> str:
        """The pattern of a request that a job needs."""
        return (_GEMINI if self.server.kind == "gemini" else _OPENAI)[what]

    def asked(self, what: str) -> int:
        """How many such requests there were."""
        fault = Fault("", path=self.at(what))
        return sum(fault.matches(request) for request in self.server.requests)

    def fault(self, what: str, fault: Fault, times: int | None = None) -> None:
        """Let such requests go wrong, all of them or so many."""
        self.server.faults.add(fault.on(self.at(what)).times(times))

    def before(self, what: str, act: Callable[[], object]) -> None:
        """Do something when the first such request has come, before it is answered."""
        seen: list[Recorded] = []

        def only(request: Recorded) -> bool:
            seen.append(request)
            if len(seen) == 1:
                act()
            return False

        self.server.faults.add(Fault("", path=self.at(what), left=None, only=only))

    def unhindered(self) -> None:
        """Nothing goes wrong any more."""
        self.server.faults.clear()

    def kept(self) -> list[tuple[str, int]]:
        """The jobs that are written down: what the provider calls each, and how many texts are in it."""
        found = self._rows("SELECT job, length(digests) / 32 FROM jobs ORDER BY created_at, tag")
        return [(str(job), int(texts)) for job, texts in found]

    def vectors(self) -> dict[str, bytes]:
        """Every note's vector."""
        ((space,),) = self._rows("SELECT id FROM spaces WHERE stored")
        found = self._rows("SELECT path, chunks.id FROM chunks JOIN documents ON documents.id = document_id")
        db = apsw.Connection(self.index)
        try:
            known = find_vectors(db, space, [int(chunk) for _, chunk in found])
        finally:
            db.close()
        return {str(path): known[chunk] for path, chunk in found if chunk in known}

    @cached_property
    def index(self) -> str:
        with Memory.open(self.workspace.path, env=self.workspace.env) as memory:
            return memory.settings.index_path

    @property
    def process_env(self) -> dict[str, str]:
        """What another process needs to work on the same notes."""
        return self.workspace.env | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def _rows(self, sql: str) -> list[Any]:
        db = apsw.Connection(self.index, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(db.execute(sql))
        finally:
            db.close()


def named(texts: list[str]) -> list[str]:
    """The words that texts are about, in alphabetical order."""
    return sorted(word for text in texts for word in WORDS if f"The {word} is here" in text)


def batch_api_for(memory: Memory) -> Jobs:
    """The jobs inside a memory."""
    backend: Any = memory._backend
    found: Jobs = backend._embedding.jobs
    return found
