"""Transcripts as Markdown files that qmd can index, without secrets."""

from typing import NamedTuple

from mdrecall.core.redact import Redactor
from mdrecall.sources.sessions import Sessions
from mdrecall.types import Issue, Stop, never


class Exported(NamedTuple):
    """What an export did."""

    written: int = 0
    removed: int = 0
    unchanged: int = 0
    issues: tuple[Issue, ...] = ()


class Origin(NamedTuple):
    """Where exported lines come from."""

    path: str
    """``sessions/<file>.jsonl``."""
    first_record: int
    last_record: int


class SessionExport:
    """The transcripts of one agent, kept as Markdown in one folder."""

    def __init__(
        self, source: Sessions, masks: Redactor, *, folder: str, state_dir: str, retention_days: int = 0
    ) -> None:
        self.folder = folder

    def run(self, stop: Stop = never) -> Exported: ...

    def origin(self, path: str, start_line: int, end_line: int) -> Origin | None: ...
