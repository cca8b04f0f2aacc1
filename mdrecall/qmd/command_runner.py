"""What the rest of this room asks of a program that can be run."""

from collections.abc import Sequence
from typing import Protocol

from mdrecall.types import Stop


class Ran(Protocol):
    """What a program has said and how it ended."""

    @property
    def stdout(self) -> str: ...

    @property
    def stderr(self) -> str: ...

    @property
    def code(self) -> int: ...


class Runs(Protocol):
    """A program that is run to its end; raises a ``BackendUnavailable`` that says why not."""

    def run(
        self, arguments: Sequence[str], *, timeout_s: float, quiet: bool = ..., stop: Stop = ..., check: bool = ...
    ) -> Ran: ...
