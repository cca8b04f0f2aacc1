"""Which collections an agent's memory has in qmd, and how they come to be there."""

from typing import Literal, NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.runs import Runs
from mdrecall.types import Issue, SourceName

Kind = Literal["memory", "custom", "sessions"]


class Collection(NamedTuple):
    """A folder, and which files in it are searched."""

    name: str
    root: str
    """Absolute."""
    pattern: str
    kind: Kind

    @property
    def source(self) -> SourceName: ...


def wanted(settings: Settings, home: str) -> tuple[Collection, ...]:
    """Every collection that the settings ask for."""


def export_dir(settings: Settings, home: str) -> str:
    """Where transcripts are exported to."""


class Collections:
    """The collections of one agent in one qmd."""

    def __init__(
        self,
        program: Runs,
        wanted: tuple[Collection, ...],
        *,
        agent_id: str,
        workspace: str,
        database: QmdDatabase,
        config_path: str,
        timeout_s: float,
    ) -> None:
        self.wanted = wanted

    @property
    def issues(self) -> tuple[Issue, ...]:
        """What the last ``ensure`` could not do."""

    def ensure(self) -> tuple[Issue, ...]: ...

    def rebuild(self) -> tuple[Issue, ...]: ...

    def lost(self) -> tuple[Collection, ...]:
        """Those whose folder has gone though qmd still has documents from it."""
