"""Long-term memories in a real LanceDB in the test's own folder, with a clock that the test sets."""

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.extras.lancedb.memories import LongTermMemory
from mdrecall.extras.lancedb.table import Table
from mdrecall.interfaces import Embedder
from mdrecall.text.redact import make_redactor
from mdrecall.types.documents import Embedding, EmbedInput
from mdrecall.types.sync import ProgressCallback

START_MS = 1_700_000_000_000.0


class Clock:
    """Time that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> float:
        return self.now_ms


class OtherEmbedder:
    """The words of the offline embedder in vectors of another length, as another model has them."""

    provider = "other"
    model = "longer"

    def __init__(self, more: int = 8, *, measured: bool = False) -> None:
        self._inner = OfflineEmbedder()
        self._more = bytes(4 * more)
        self.dimensions = self._inner.dimensions + more
        self.fingerprint = f"other-{more}-0123456789"
        self.traits = self._inner.traits._replace(measured=measured)

    def prepare(self, stored: int, progress: ProgressCallback | None = None) -> None:
        self._inner.prepare(0)

    def embed_query(self, text: str, weights: Mapping[str, float]) -> bytes:
        return self._inner.embed_query(text, weights) + self._more

    def embed_chunks(self, passages: Sequence[EmbedInput]) -> list[Embedding]:
        return [Embedding(made.vector + self._more) for made in self._inner.embed_chunks(passages)]

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


class LtmDatabase:
    """A database folder, and the long-term memories of agents in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self._open: list[LongTermMemory] = []

    def memories(
        self,
        agent: str = "main",
        *,
        embedder: Callable[[], Embedder] = OfflineEmbedder,
        adopt_unlabelled: bool = False,
        uri: str | None = None,
    ) -> LongTermMemory:
        memories = LongTermMemory(
            Table(uri or str(self.folder)),
            embedder,
            agent,
            is_default_agent=agent == "main",
            redact=make_redactor(()),
            now_ms=self.clock,
            adopt_unlabelled=adopt_unlabelled,
        )
        self._open.append(memories)
        return memories

    def bytes(self) -> bytes:
        """Everything that lies on the disk."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())

    def close(self) -> None:
        for memories in self._open:
            memories.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[LtmDatabase]:
    if importlib.util.find_spec("lancedb") is None:
        pytest.skip("not installed: lancedb; sh scripts/test installs it")
    database = LtmDatabase(tmp_path / "lancedb")
    yield database
    database.close()
