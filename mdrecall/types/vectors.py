"""Embeddings: texts to embed, embedding spaces, batch jobs, what to know of an embedder, and API keys."""

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Secret:
    """A text that only ``reveal`` shows: it is never printed, logged or pickled."""

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
        raise TypeError("A Secret cannot be pickled.")


class Embedding(NamedTuple):
    """The vectors of a text in the space of an embedder."""

    vector: bytes
    """Little-endian 32-bit floats of unit length; all zero if the embedder knows no word of the text."""
    passages: bytes = b""
    """The vectors of the text's passages, one signed byte per number, end to end; empty if there are none."""


class Space(NamedTuple):
    """An embedding space: vectors can be compared only within one."""

    provider: str
    model: str
    fingerprint: str
    dimensions: int

    @property
    def key(self) -> tuple[str, int]:
        """What identifies a space; provider and model may be renamed."""
        return self.fingerprint, self.dimensions

    def find_in(self, stored: Sequence["StoredSpace"]) -> "StoredSpace | None":
        """Return the stored space that is this one, preferring equal dimensions and a filled one; None without any.

        An embedder may not know its dimensions yet, and a server may change them one day: queries are still compared
        with what is stored.
        """
        own = [entry for entry in stored if entry.space.fingerprint == self.fingerprint]
        own.sort(key=lambda entry: (entry.space.dimensions != self.dimensions, not entry.was_filled))
        return own[0] if own else None


class StoredSpace(NamedTuple):
    """A space that a store has vectors of."""

    id: int
    space: Space
    is_filled: bool
    """True if every chunk has a vector."""
    was_filled: bool
    """True if every chunk has had a vector at some time."""
    texts: int = 0
    """A number that grows whenever chunks are added: a space is filled up to such a number."""
    has_vectors: bool = True
    """True if some chunk has or has had one."""


class Job(NamedTuple):
    """A batch job that was submitted to a provider."""

    tag: str
    """Our own name for the job, by which it can be found at the provider."""
    fingerprint: str
    file: str
    """The provider's name for the uploaded texts."""
    id: str
    """The provider's name for the job; empty until the provider has confirmed it."""
    created_at: float
    digests: tuple[bytes, ...]
    """The hashes of its texts, in order."""


class JobState(NamedTuple):
    """The state of a batch job, as its provider reports it."""

    id: str
    status: Literal["running", "done", "failed"]
    completed: int = 0
    total: int = 0
    error: str = ""
    """Why it failed."""
    outputs: tuple[str, ...] = ()
    """The files with its results; a job that failed half way may have some too."""


class PendingChunk(NamedTuple):
    """A chunk that has no vector yet."""

    id: int
    path: str
    """The path of its note; empty in a transcript."""
    trail: tuple[str, ...]
    text: str


class EmbedInput(NamedTuple):
    """A text to embed, with the title it belongs to."""

    title: str
    text: str


class Traits(NamedTuple):
    """How an embedder behaves, and how its vectors are to be read."""

    never_waits: bool = False
    """True if it never waits for anything, so that it needs neither a deadline nor a cache."""
    scripts: tuple[str, ...] | None = None
    """The scripts whose words it knows, such as ``latin``; None if it knows all."""
    unrelated: float = 0.0
    """The typical cosine of a query and an unrelated chunk; up to here a chunk counts as not similar."""
    related: float = 1.0
    """The typical cosine of a query and a chunk that answers it; from here on a chunk counts as fully similar."""
    unspaced_trust: float = 1.0
    """The share of a Chinese or Japanese query that it understands."""
    measured: bool = False
    """True if these two are not known beforehand, and are measured on the stored vectors."""
    input_bytes: int = 8_000
    """Longer texts are split, and their vector is the mean of the pieces."""
    request_bytes: int = 8_000
    """How much text fits into one request."""
    request_inputs: int = 64
    """How many texts fit into one request."""
    at_once: int = 1
    """How many requests may run at the same time."""
    host: str = ""
    """The server that embeds; empty if it is this machine."""
