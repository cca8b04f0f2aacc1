"""What has to do with vectors: texts to embed, the spaces they lie in, jobs that make them, keys that pay for it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Secret:
    """A text that is shown only to those who ask for it by name, and never written down."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self, spec: str = "") -> str:
        return "***"

    __format__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("A Secret is not written down.")


class Embedding(NamedTuple):
    """A chunk's place in the space of an embedder."""

    vector: bytes
    """Little-endian 32-bit floats of unit length; all zero if the embedder knows no word of the text."""
    windows: bytes = b""
    """The directions of the chunk's windows, a signed byte per number, end to end; empty if there are none."""


class Space(NamedTuple):
    """What vectors must share to be comparable."""

    provider: str
    model: str
    fingerprint: str
    dimensions: int

    @property
    def key(self) -> tuple[str, int]:
        """What tells one space from another; names may change."""
        return self.fingerprint, self.dimensions

    def among(self, stored: Sequence["StoredSpace"]) -> "StoredSpace | None":
        """The stored space that is the same as far as is known, a filled one if possible.

        An embedder may not know yet how long its vectors are, and a server may give longer ones one day: what is
        stored stays what it is to be compared with.
        """
        own = [entry for entry in stored if entry.space.fingerprint == self.fingerprint]
        own.sort(key=lambda entry: (entry.space.dimensions != self.dimensions, not entry.was_filled))
        return own[0] if own else None


class StoredSpace(NamedTuple):
    """A space that the store has vectors of."""

    id: int
    space: Space
    is_filled: bool
    """Whether every chunk has its vector."""
    was_filled: bool
    """Whether every chunk had one at some time."""


class Job(NamedTuple):
    """A batch job that was handed to a provider."""

    tag: str
    """Our own name for it, by which the provider can be asked whether it has it."""
    fingerprint: str
    file: str
    """What the provider calls the texts that were uploaded."""
    id: str
    """What the provider calls the job; empty as long as it has not answered that it has it."""
    created_at: float
    digests: tuple[bytes, ...]
    """Of the texts in it, in their order."""


class JobState(NamedTuple):
    """How far a batch job is, as its provider tells."""

    id: str
    status: Literal["running", "done", "failed"]
    completed: int = 0
    total: int = 0
    error: str = ""
    """Why it has failed."""
    outputs: tuple[str, ...] = ()
    """The files with what has come of it; a job that failed half way may have some too."""


class PendingChunk(NamedTuple):
    """A chunk that has no vector yet."""

    id: int
    path: str
    """Of its note; empty in a transcript."""
    trail: tuple[str, ...]
    text: str


class EmbedInput(NamedTuple):
    """A text to embed, with what it stands under."""

    title: str
    text: str


class Traits(NamedTuple):
    """What to know of an embedder besides its vectors."""

    never_waits: bool = False
    """Whether it never waits for anything: no deadline is needed, and nothing is gained by a cache."""
    latin_only: bool = False
    """Whether only words in Latin letters mean anything to it."""
    unrelated: float = 0.0
    """The cosine that a query typically has with a chunk of no concern to it; as little counts as nothing."""
    related: float = 1.0
    """The cosine with a chunk that answers it; as much counts as everything."""
    measured: bool = False
    """Whether the two are not known beforehand, and are taken from the vectors that there are."""
    input_bytes: int = 8_000
    """Longer texts are cut, and their vector is the mean of the parts."""
    request_bytes: int = 8_000
    """How much text goes into one request."""
    request_inputs: int = 64
    """How many texts go into one request."""
    at_once: int = 1
    """How many requests may be under way at the same time."""
    host: str = ""
    """The server that is asked; empty if it is this machine itself."""
