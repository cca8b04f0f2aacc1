"""The rules of the long-term memory: whose memories, which are the same, which answer, which are gone.

* A memory belongs to one agent and is seen by no other; that is part of every query, before anything is ranked. Rows
  without an owner, which OpenClaw wrote, belong to the default agent.
* A memory that says the same as one that is there is not stored; the later of the two expiries holds. One that is alike
  but differs in a word is stored beside it, and the answer names the other so that it can be replaced.
* What has expired is never found, and deleted at the next write.
* Vectors of another embedder are not compared with ours; they are told of until ``reembed`` makes them anew.
"""

import re
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mdrecall.core.ranking.fusion import latin_share, measure_traits
from mdrecall.core.ranking.snippet import utf16_units
from mdrecall.core.text.words import Analyser
from mdrecall.errors import ArgumentError, PluginError, RecallError
from mdrecall.interfaces import Embedder
from mdrecall.plugins.lancedb.capture import category as category_of
from mdrecall.plugins.lancedb.extra import PLUGIN
from mdrecall.plugins.lancedb.table import Row, Table, quoted
from mdrecall.plugins.lancedb.thresholds import Cuts, cuts_for, same_fact, shared_words
from mdrecall.types import EmbedInput

USUAL_IMPORTANCE = 0.7
MOST_UNITS = 10_000
_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NEIGHBOURS = 5
_SAMPLE = 256
_TOLD_ALIKE = 3
_AT_ONCE = 64


class Found(NamedTuple):
    """A memory and how close it is: the cosine of its vector, or of its words."""

    row: Row
    score: float


class Stored(NamedTuple):
    """What came of storing."""

    action: str
    """``created``, ``updated`` or ``duplicate``."""
    row: Row
    """What is there now."""
    before: str = ""
    """What an updated memory said before."""
    is_masked: bool = False
    """Whether there was a secret in the text, which was not stored."""
    alike: tuple[Found, ...] = ()
    """Others that are close; one of them may be out of date."""


class Recalled(NamedTuple):
    """What a question has brought up."""

    found: tuple[Found, ...]
    unsearched: int
    """How many memories of this agent have vectors of another embedder."""


class Counts(NamedTuple):
    """What there is."""

    total: int
    """Memories of this agent."""
    by_category: dict[str, int]
    expired: int
    others: int
    """Memories of other agents."""
    unsearched: int
    oldest_ms: float
    newest_ms: float


class Owner(NamedTuple):
    """Whose memories."""

    agent: str
    is_default: bool
    """Whether rows without an owner are this agent's."""

    @property
    def where(self) -> str:
        own = f"agent = {quoted(self.agent)}"
        return f"({own} OR agent IS NULL)" if self.is_default else f"({own})"


class LongTermMemory:
    """The memories of one agent."""

    def __init__(
        self,
        table: Table,
        embedder: Callable[[], Embedder],
        owner: Owner,
        *,
        redact: Callable[[str], str],
        now_ms: Callable[[], float],
        adopts: bool = False,
    ) -> None:
        """``embedder`` is made when first needed; ``adopts``, if rows that do not say who embedded them are its."""
        self.table = table
        self._make_embedder = embedder
        self._owner = owner
        self._redact = redact
        self._now_ms = now_ms
        self._adopts = adopts
        self._embedder: Embedder | None = None
        self._is_ready = False
        self._analyser = Analyser()
        self._making = threading.Lock()

    @property
    def who(self) -> Embedder:
        """Who embeds; asking for its name costs nothing."""
        with self._making:
            if self._embedder is None:
                self._embedder = self._make_embedder()
            return self._embedder

    @property
    def embedder(self) -> Embedder:
        """Who embeds, ready to do so: its vectors are as long as those that it has stored, or it is asked."""
        embedder = self.who
        if not self._is_ready:
            is_known = self.table.count(f"embedder = {quoted(self.identity)}") > 0
            embedder.prepare(self.table.dimensions() if is_known else 0)
            self._is_ready = True
        return embedder

    @property
    def identity(self) -> str:
        """Who embeds, as each row says it."""
        who = self.who
        return f"{who.provider}/{who.model}/{who.fingerprint[:12]}"

    def store(
        self,
        text: str,
        *,
        importance: float | None = None,
        category: str | None = None,
        ttl_ms: float | None = None,
        replaces: str = "",
        source: str = "tool",
    ) -> Stored:
        """Keep a text, or make it what an older memory says from now on; secrets in it are masked first."""
        text = _writable(text)
        said = self._redact(text).strip()
        _check_text(said)
        vector = self._kept_vector(said)
        expires = None if ttl_ms is None else self._now_ms() + ttl_ms
        is_masked = said != text.strip()
        with self.table.writing():
            self._purge()
            old = self._replaced(replaces) if replaces else None
            near = [one for one in self._near(said, vector, _NEIGHBOURS) if old is None or one.row.id != old.id]
            if old is None and (same := next((one for one in near if self._is_same(said, one)), None)):
                return Stored("duplicate", self._prolonged(same.row, expires), is_masked=is_masked)
            row = self._new_row(said, source) if old is None else self._changed_row(old, said, source)
            row = row._replace(
                importance=row.importance if importance is None else importance,
                category=category or row.category,
                expires_ms=row.expires_ms if expires is None else expires,
            )
            self.table.put([(row, vector)])
            if old:
                self.table.compact()
        alike = tuple(one for one in near if one.score >= self._cuts(vector).alike)[:_TOLD_ALIKE]
        return Stored("updated" if old else "created", row, old.text if old else "", is_masked, alike)

    def _replaced(self, memory_id: str) -> Row:
        row = self.get(memory_id)
        if row is None:
            raise ArgumentError(f"No memory has the id {memory_id}.", name="replaces", hint="Recall it first.")
        return row

    def _new_row(self, text: str, source: str) -> Row:
        agent, now = self._owner.agent, self._now_ms()
        kind = category_of(text)
        return Row(str(uuid.uuid4()), text, USUAL_IMPORTANCE, kind, now, agent, source, self.identity, None, None)

    def _changed_row(self, old: Row, text: str, source: str) -> Row:
        return old._replace(
            text=text, agent=self._owner.agent, source=source, embedder=self.identity, updated_ms=self._now_ms()
        )

    def recall(self, query: str, limit: int, *, for_prompt: bool = False) -> Recalled:
        """What answers a question, or would help with a prompt, the closest first."""
        vector = self._asked_vector(query)
        cuts = self._cuts(vector)
        cut = cuts.prompt if for_prompt else cuts.recall
        found = [one for one in self._near(query, vector, limit) if one.score >= cut]
        return Recalled(tuple(found[:limit]), self._unsearched())

    def meant(self, query: str) -> tuple[list[Found], Found | None]:
        """What may be meant when something is to be forgotten, and the one that surely is."""
        vector = self._asked_vector(query)
        cuts = self._cuts(vector)
        found = [one for one in self._near(query, vector, _NEIGHBOURS) if one.score >= cuts.candidate]
        same = [one for one in found if same_fact(query, one.row.text)]
        if len(same) == 1:
            return found, same[0]
        return found, found[0] if len(found) == 1 and found[0].score >= cuts.only else None

    def get(self, memory_id: str) -> Row | None:
        """One memory of this agent that has not expired."""
        found = self.table.rows(f"id = {quoted(checked_id(memory_id))} AND {self._live}", 1)
        return found[0] if found else None

    def beginning_with(self, prefix: str) -> list[Row]:
        """The memories whose id begins so; a prefix has at least 8 characters."""
        if not re.fullmatch(r"[0-9a-fA-F-]{8,36}", prefix):
            hint = "`mdrecall ltm list` shows the ids; give one, or at least its first 8 characters."
            raise ArgumentError(f"Invalid memory ID format: {prefix[:40]!r}.", name="memoryId", hint=hint)
        return self.table.rows(f"id LIKE {quoted(prefix.lower() + '%')} AND {self._live}", 2)

    def forget(self, memory_id: str) -> Row | None:
        """Delete one memory, from the disk too; gives what it was, or None if this agent has no such memory."""
        with self.table.writing():
            row = self.get(memory_id)
            if row is not None:
                self.table.delete(f"id = {quoted(row.id)}")
            return row

    def everything(self, *, all_agents: bool = False) -> list[Row]:
        """Every memory that has not expired, the newest first."""
        rows = self.table.rows(self._unexpired if all_agents else self._live)
        return sorted(rows, key=lambda row: (-(row.updated_ms or row.created_ms), row.id))

    def counts(self) -> Counts:
        """What there is, without asking the embedder for anything but its name."""
        rows = self.everything()
        categories: dict[str, int] = {}
        for row in rows:
            categories[row.category] = categories.get(row.category, 0) + 1
        times = [row.created_ms for row in rows] or [0.0]
        expired = f"NOT ({self._unexpired})"
        total = self.table.count(self._unexpired)
        return Counts(len(rows), categories, self.table.count(expired), total - len(rows),
                      self._unsearched(), min(times), max(times))  # fmt: skip

    def reembed(self) -> int:
        """Make the vectors of all memories of all agents anew with the embedder of now; gives how many."""
        with self.table.writing():
            rows = self.table.rows("id IS NOT NULL")
            self.who.prepare(0)
            self._is_ready = True
            vectors: list[bytes] = []
            for start in range(0, len(rows), _AT_ONCE):
                vectors += self._kept_vectors([row.text for row in rows[start : start + _AT_ONCE]])
            identity = self.identity
            length = len(vectors[0]) // 4 if vectors else self.embedder.dimensions
            anew = [row._replace(embedder=identity) for row in rows]
            if rows:
                self.table.replace_all(list(zip(anew, vectors, strict=True)), length)
            return len(rows)

    def close(self) -> None:
        if self._embedder is not None:
            self._embedder.interrupt()
            self._embedder.close()
        self.table.close()

    @property
    def _unexpired(self) -> str:
        return f"(`expiresAt` IS NULL OR `expiresAt` > {self._now_ms():.0f})"

    @property
    def _live(self) -> str:
        return f"{self._owner.where} AND {self._unexpired}"

    @property
    def _comparable(self) -> str:
        return f"embedder = {quoted(self.identity)}"

    def _near(self, text: str, vector: bytes, limit: int) -> list[Found]:
        """The closest memories, by their vectors; by their words where the embedder knows none of them."""
        self._check_length(vector)
        where = f"{self._live} AND {self._comparable}"
        found = {row.id: Found(row, score) for row, score in self.table.nearest(vector, where, limit)}
        if self.who.traits.latin_only and latin_share(text) < 1:
            for one in self._by_words(text):
                if one.row.id not in found or found[one.row.id].score < one.score:
                    found[one.row.id] = one
        return sorted(found.values(), key=lambda one: (-one.score, -one.row.created_ms, one.row.id))[:limit]

    def _by_words(self, text: str) -> list[Found]:
        asked = self._analyser.terms(text)
        rows = self.table.rows(self._live)
        return [Found(row, score) for row in rows if (score := shared_words(asked, self._analyser.terms(row.text)))]

    def _is_same(self, text: str, other: Found) -> bool:
        return other.score >= cuts_for(self.who.traits).duplicate and same_fact(text, other.row.text)

    def _prolonged(self, row: Row, expires: float | None) -> Row:
        """The later of two expiries holds; none is the latest."""
        if row.expires_ms is None or (expires is not None and expires <= row.expires_ms):
            return row
        self.table.update(f"id = {quoted(row.id)}", {"expiresAt": expires})
        return row._replace(expires_ms=expires)

    def _cuts(self, vector: bytes) -> Cuts:
        traits = self.embedder.traits
        if not traits.measured:
            return cuts_for(traits)
        import numpy

        mean, count = self.table.mean_vector(f"{self._live} AND {self._comparable}", _SAMPLE)
        cosine = float(numpy.dot(numpy.frombuffer(vector, dtype="<f4"), mean)) if count else 0.0
        return cuts_for(measure_traits(traits, cosine, count))

    def _kept_vector(self, text: str) -> bytes:
        return self._kept_vectors([text])[0]

    def _kept_vectors(self, texts: Sequence[str]) -> list[bytes]:
        embedder = self.embedder
        most = embedder.traits.input_bytes
        made = embedder.embed_chunks([EmbedInput("", _cut(text, most)) for text in texts])
        return [embedding.vector for embedding in made]

    def _asked_vector(self, query: str) -> bytes:
        self._adopt()
        return self.embedder.embed_query(_cut(query, self.embedder.traits.input_bytes), {})

    def _adopt(self) -> None:
        """Rows of OpenClaw were embedded by what its configuration names, if that is what embeds now."""
        if self._adopts and self.table.count("embedder IS NULL") and self._length_fits(self.embedder.dimensions):
            self.table.update("embedder IS NULL", {"embedder": self.identity})

    def _length_fits(self, length: int) -> bool:
        stored = self.table.dimensions()
        return not stored or not length or stored == length

    def _check_length(self, vector: bytes) -> None:
        self._adopt()
        if not self._length_fits(len(vector) // 4):
            who = f"{self.embedder.provider} {self.embedder.model}"
            said = (
                f"The memories at {self.table.uri} have vectors of {self.table.dimensions()} numbers, but {who} gives"
            )
            hint = "Run `mdrecall ltm reembed` to embed them anew, or configure the embedder they were made with."
            raise PluginError(f"{said} {len(vector) // 4}.", plugin=PLUGIN, hint=hint)

    def _unsearched(self) -> int:
        try:
            theirs = f"(embedder IS NULL OR NOT ({self._comparable}))"
        except RecallError:
            return 0  # Without an embedder there is nothing to compare with, which a search tells.
        return self.table.count(f"{self._live} AND {theirs}")

    def _purge(self) -> None:
        self.table.delete(f"NOT ({self._unexpired})")


def checked_id(text: str) -> str:
    """A canonical UUID, which is the only thing that goes into a condition as an id."""
    if not _CANONICAL.fullmatch(text.strip()):
        message = f"Invalid memory ID format: {text[:40]!r}."
        raise ArgumentError(message, name="memoryId", hint="Give the id of a recalled memory.")
    return text.strip().lower()


def _check_text(text: str) -> None:
    if not text:
        raise ArgumentError("text required", name="text", hint="Give text as a text that is not blank.")
    if utf16_units(text) > MOST_UNITS:
        said = f"A memory has at most {MOST_UNITS:,} characters, this has {utf16_units(text):,}."
        raise ArgumentError(said, name="text", hint="Store what matters of it, or write it into a note.")


def _writable(text: str) -> str:
    """Without halves of characters, which no UTF-8 has."""
    return text.encode("utf-8", "replace").decode()


def _cut(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")
