"""The rules of the long-term memory: ownership, duplicates, recall, deletion and expiry.

* A memory belongs to one agent and no other agent sees it. That is a condition of every query, before anything is
  ranked. Rows without an owner, which OpenClaw wrote, belong to the default agent.
* A memory that says the same as a stored one is not stored; the later of the two expiries holds. One that is similar
  but differs in a word is stored, and the answer names the other so that it can be replaced.
* A memory that has expired is never found, and is deleted at the next write.
* Vectors of another embedder are not compared with ours. They are counted and reported until ``reembed`` replaces them.
"""

import math
import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mdrecall.errors import ArgumentError, PluginError, RecallError
from mdrecall.extras.lancedb.capture import categorize
from mdrecall.extras.lancedb.table import PLUGIN, Row, Table, quote
from mdrecall.interfaces import Embedder
from mdrecall.search.score import measure_traits
from mdrecall.text.markdown import cut_units, utf16_units
from mdrecall.text.words import Analyser, fold, script_share, tokens
from mdrecall.types.documents import EmbedInput, Traits

#: OpenClaw's default.
DEFAULT_IMPORTANCE = 0.7
#: A memory is a sentence or two; a longer text belongs in a note. In UTF-16 units, as OpenClaw counts.
MAX_UNITS = 10_000
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: How many neighbours are compared with a new text, or offered when one is to be forgotten.
_NEIGHBOURS = 5
#: How many stored vectors tell the range of an embedder whose range is not known.
_SAMPLE = 256
#: How many similar memories the answer to a store names; more would be noise for a model.
_MAX_SIMILAR = 3
#: How many texts are embedded in one call.
_BATCH = 64
# Shares of the way from an embedder's cosine of unrelated texts to that of related ones: for an answer to a question,
# for what is put before a prompt (which may not be a question), for a memory that a request to forget may mean, and for
# one that may be out of date. With them, 11 of 12 questions and prompts in benchmarks/memories.py reach their memory.
RECALL, PROMPT, CANDIDATE, SIMILAR = 0.2, 0.3, 0.6, 1.0
# The cosine at which OpenClaw's score, 1 / (1 + distance), reaches the 0.9 from which the only candidate is deleted.
_ONLY = 0.944
# Lower than OpenClaw's 0.974, because here the words must agree too.
DUPLICATE = 0.75
#: Words that change nothing of what a statement says. None of them says who, when or not.
_FILLERS = frozenset(("a", "an", "the", "is", "are", "am", "has", "have", "please", "really", "very", "just", "also"))
_NOT = re.compile(r"n['’]t\b")


class Match(NamedTuple):
    """A memory and how close it is: the cosine of its vector, or of its words."""

    row: Row
    score: float


class StoreResult(NamedTuple):
    """The outcome of storing a text."""

    action: str
    """``created``, ``updated`` or ``duplicate``."""
    row: Row
    """What is stored now."""
    before: str = ""
    """The former text of an updated memory."""
    is_masked: bool = False
    """True if the text held a secret, which was not stored."""
    similar: tuple[Match, ...] = ()
    """Other memories that are close; one of them may be out of date."""


class LongTermMemory:
    """The memories of one agent."""

    def __init__(
        self,
        table: Table,
        embedder: Callable[[], Embedder],
        agent: str,
        *,
        is_default_agent: bool,
        redact: Callable[[str], str],
        now_ms: Callable[[], float],
        adopt_unlabelled: bool = False,
        recall_units: int = 1000,
    ) -> None:
        """``embedder`` is called when it is first needed. The default agent owns the rows without an owner.

        ``recall_units`` is how much of a query is used, and how much of a memory is shown to a model.
        With ``adopt_unlabelled``, rows that do not say which embedder made them are taken for this embedder's.
        """
        self.table = table
        self._make_embedder = embedder
        self._agent = agent
        self.own = f"(agent = {quote(agent)}{' OR agent IS NULL' if is_default_agent else ''})"
        self._redact = redact
        self._now_ms = now_ms
        self._adopt_unlabelled = adopt_unlabelled
        self.recall_units = recall_units
        self._embedder: Embedder | None = None
        self._is_ready = False
        self._analyser = Analyser()
        self._lock = threading.Lock()

    @property
    def unprepared_embedder(self) -> Embedder:
        """The embedder as it is created, which is cheap: enough for its name and traits."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._make_embedder()
            return self._embedder

    @property
    def embedder(self) -> Embedder:
        """The embedder, ready for use; the length of its vectors comes from the stored ones, if there are any."""
        embedder = self.unprepared_embedder
        if not self._is_ready:
            is_known = self.table.count(self._comparable) > 0
            embedder.prepare(self.table.dimensions() if is_known else 0)
            self._is_ready = True
        return embedder

    @property
    def identity(self) -> str:
        """The embedder as each row names it."""
        embedder = self.unprepared_embedder
        return f"{embedder.provider}/{embedder.model}/{embedder.fingerprint[:12]}"

    def store(
        self,
        text: str,
        *,
        importance: float | None = None,
        category: str | None = None,
        ttl_ms: float | None = None,
        replaces: str = "",
        source: str = "tool",
    ) -> StoreResult:
        """Store a text, or make it the new text of the memory that it ``replaces``; secrets are masked first."""
        text = _drop_surrogates(text)
        masked = self._redact(text).strip()
        _check_text(masked)
        vector = self._embed_texts([masked])[0]
        expires = None if ttl_ms is None else self._now_ms() + ttl_ms
        is_masked = masked != text.strip()
        with self.table.writing():
            self.table.delete(f"NOT ({self._unexpired})")
            old = self.get(replaces) if replaces else None
            if replaces and old is None:
                raise ArgumentError(f"No memory has the id {replaces}.", name="replaces", hint="Recall it first.")
            near = [one for one in self._nearest(masked, vector, _NEIGHBOURS) if old is None or one.row.id != old.id]
            same = [one.row for one in near if one.score >= DUPLICATE and same_fact(masked, one.row.text)]
            if old is None and same:
                return StoreResult("duplicate", self._extend(same[0], expires), is_masked=is_masked)
            now, new_id = self._now_ms(), str(uuid.uuid4())
            row = old or Row(new_id, "", DEFAULT_IMPORTANCE, categorize(masked), now, None, None, None, None, None)
            row = row._replace(
                text=masked,
                agent=self._agent,
                source=source,
                embedder=self.identity,
                updated_ms=now if old else None,
                importance=row.importance if importance is None else importance,
                category=category or row.category,
                expires_ms=row.expires_ms if expires is None else expires,
            )
            self.table.put([(row, vector)])
            if old:
                self.table.compact()
        least = self._least_cosine(SIMILAR, vector)
        similar = tuple(one for one in near if one.score >= least)[:_MAX_SIMILAR]
        return StoreResult("updated" if old else "created", row, old.text if old else "", is_masked, similar)

    def recall(self, query: str, limit: int, *, share: float = RECALL) -> tuple[list[Match], int]:
        """Return the memories that answer a question, the closest first, and how many were not searched.

        Vectors of another embedder are not searched. ``share`` says how close a memory must be.
        """
        return self._find_close(query, limit, share), self._count_unsearched()

    def find_to_forget(self, query: str) -> tuple[list[Match], Match | None]:
        """Return the memories that a request to forget may mean, and the one that it surely means if there is one."""
        found = self._find_close(query, _NEIGHBOURS, CANDIDATE)
        same = [one for one in found if same_fact(cut_units(query, self.recall_units), one.row.text)]
        if len(same) == 1:
            return found, same[0]
        return found, found[0] if len(found) == 1 and found[0].score >= _ONLY else None

    def _find_close(self, query: str, limit: int, share: float) -> list[Match]:
        query = cut_units(query, self.recall_units)
        self._adopt()
        vector = self.embedder.embed_query(_cut_bytes(query, self.embedder.traits.input_bytes), {})
        least = self._least_cosine(share, vector)
        return [one for one in self._nearest(query, vector, limit) if one.score >= least]

    def get(self, memory_id: str) -> Row | None:
        """Return one memory of this agent; None if there is none with this id, or it has expired."""
        found = self.table.rows(f"id = {quote(parse_id(memory_id))} AND {self._live}", 1)
        return found[0] if found else None

    def find_by_prefix(self, prefix: str) -> list[Row]:
        """Return up to two memories whose id starts with a prefix of at least 8 characters."""
        if not re.fullmatch(r"[0-9a-fA-F-]{8,36}", prefix):
            hint = "Give the id of a memory, or at least its first 8 characters."
            raise ArgumentError(f"Invalid memory ID format: {prefix[:40]!r}.", name="memoryId", hint=hint)
        return self.table.rows(f"id LIKE {quote(prefix.lower() + '%')} AND {self._live}", 2)

    def forget(self, memory_id: str) -> Row | None:
        """Delete one memory, from the disk too, and return it; None if this agent has no such memory."""
        with self.table.writing():
            row = self.get(memory_id)
            if row is not None:
                self.table.delete(f"id = {quote(row.id)}")
            return row

    def list_all(self, *, all_agents: bool = False) -> list[Row]:
        """Return every memory that has not expired, the newest first."""
        rows = self.table.rows(self._unexpired if all_agents else self._live)
        return sorted(rows, key=lambda row: (-(row.updated_ms or row.created_ms), row.id))

    def counts(self) -> dict[str, Any]:
        """Return how many memories there are, by the names that they have in JSON; the embedder need not be usable."""
        categories = Counter(row.category for row in self.list_all())
        return {
            "total": categories.total(),
            "categories": dict(categories),
            "expired": self.table.count(f"NOT ({self._unexpired})"),
            "otherAgents": self.table.count(self._unexpired) - categories.total(),
            "notSearched": self._count_unsearched(),
        }

    def reembed(self) -> int:
        """Replace the vectors of all memories of all agents with the current embedder's; return how many."""
        with self.table.writing():
            rows = self.table.rows("id IS NOT NULL")
            self.unprepared_embedder.prepare(0)
            self._is_ready = True
            vectors = self._embed_texts([row.text for row in rows])
            renamed = [row._replace(embedder=self.identity) for row in rows]
            if rows:
                self.table.replace_all(list(zip(renamed, vectors, strict=True)))
            return len(rows)

    def restore(self, rows: Sequence[Row]) -> int:
        """Store memories of a backup as this agent's, unless those ids are there already; return how many were stored.

        Secrets are masked, and the vectors are made again, because another embedder may be in use.
        """
        with self.table.writing():
            known = {row.id for row in self.table.rows("id IS NOT NULL")}
            fresh = {row.id: row for row in rows if row.id not in known and row.text.strip()}
            identity, agent = self.identity, self._agent
            new = [
                row._replace(text=self._redact(_drop_surrogates(row.text)), agent=agent, embedder=identity)
                for row in fresh.values()
            ]
            if new:
                vectors = self._embed_texts([row.text for row in new])
                self._check_length(vectors[0])
                self.table.put(list(zip(new, vectors, strict=True)))
            return len(new)

    def close(self) -> None:
        """Close the embedder and the table; may be called twice."""
        if self._embedder is not None:
            self._embedder.interrupt()
            self._embedder.close()
        self.table.close()

    @property
    def _unexpired(self) -> str:
        return f"(`expiresAt` IS NULL OR `expiresAt` > {self._now_ms():.0f})"

    @property
    def _live(self) -> str:
        return f"{self.own} AND {self._unexpired}"

    @property
    def _comparable(self) -> str:
        return f"embedder = {quote(self.identity)}"

    def _nearest(self, text: str, vector: bytes, limit: int) -> list[Match]:
        """Return the closest memories by vectors, and by words too in scripts of which the embedder knows few words."""
        self._check_length(vector)
        where = f"{self._live} AND {self._comparable}"
        found = {row.id: Match(row, score) for row, score in self.table.nearest(vector, where, limit)}
        if self.unprepared_embedder.traits.scripts and script_share(text, ("latin",)) < 1:
            terms = self._analyser.terms(text)
            for row in self.table.rows(self._live):
                score = _share_words(terms, self._analyser.terms(row.text))
                if score and (row.id not in found or found[row.id].score < score):
                    found[row.id] = Match(row, score)
        return sorted(found.values(), key=lambda one: (-one.score, -one.row.created_ms, one.row.id))[:limit]

    def _extend(self, row: Row, expires: float | None) -> Row:
        """Return the row with the later of two expiries; no expiry is the latest."""
        if row.expires_ms is None or (expires is not None and expires <= row.expires_ms):
            return row
        self.table.update(f"id = {quote(row.id)}", {"expiresAt": expires})
        return row._replace(expires_ms=expires)

    def _least_cosine(self, share: float, vector: bytes) -> float:
        """Return the cosine at a share of the embedder's range, which stored vectors tell where it is not known."""
        traits = self.embedder.traits
        if traits.measured:
            import numpy

            mean, count = self.table.mean_vector(f"{self._live} AND {self._comparable}", _SAMPLE)
            cosine = float(numpy.dot(numpy.frombuffer(vector, dtype="<f4"), mean)) if count else 0.0
            traits = measure_traits(traits, cosine, count)
        return cosine_at(share, traits)

    def _embed_texts(self, texts: Sequence[str]) -> list[bytes]:
        inputs = [EmbedInput("", _cut_bytes(text, self.embedder.traits.input_bytes)) for text in texts]
        batches = [inputs[start : start + _BATCH] for start in range(0, len(inputs), _BATCH)]
        return [made.vector for batch in batches for made in self.embedder.embed_chunks(batch)]

    def _adopt(self) -> None:
        """Label OpenClaw's rows, which its configured embedder made, if that is the embedder in use."""
        is_unlabelled = self._adopt_unlabelled and self.table.count("embedder IS NULL")
        if is_unlabelled and self._length_fits(self.embedder.dimensions):
            self.table.update("embedder IS NULL", {"embedder": self.identity})

    def _length_fits(self, length: int) -> bool:
        stored = self.table.dimensions()
        return not stored or not length or stored == length

    def _check_length(self, vector: bytes) -> None:
        self._adopt()
        if not self._length_fits(len(vector) // 4):
            embedder = f"{self.embedder.provider} {self.embedder.model}"
            message = f"The memories at {self.table.uri} have vectors of {self.table.dimensions()} numbers,"
            message += f" but those of {embedder} have {len(vector) // 4}."
            hint = "Embed the memories again, or configure the embedder that they were made with."
            raise PluginError(message, plugin=PLUGIN, hint=hint)

    def _count_unsearched(self) -> int:
        try:
            theirs = f"(embedder IS NULL OR NOT ({self._comparable}))"
        except RecallError:
            return 0  # Without an embedder there is nothing to compare with; a search reports that.
        return self.table.count(f"{self._live} AND {theirs}")


def parse_id(text: str) -> str:
    """Return a canonical UUID, the only form in which an id goes into a condition."""
    if not _UUID.fullmatch(text.strip()):
        message = f"Invalid memory ID format: {text[:40]!r}."
        raise ArgumentError(message, name="memoryId", hint="Give the id of a recalled memory.")
    return text.strip().lower()


def _check_text(text: str) -> None:
    if not text:
        raise ArgumentError("text required", name="text", hint="Give text as a text that is not blank.")
    if utf16_units(text) > MAX_UNITS:
        message = f"A memory has at most {MAX_UNITS:,} characters, this has {utf16_units(text):,}."
        raise ArgumentError(message, name="text", hint="Store what matters of it, or write it into a note.")


def _drop_surrogates(text: str) -> str:
    """Replace half characters, which UTF-8 cannot write."""
    return text.encode("utf-8", "replace").decode()


def _cut_bytes(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")


def cosine_at(share: float, traits: Traits) -> float:
    """Return the cosine at a share of the way from unrelated to related texts."""
    return traits.unrelated + share * (traits.related - traits.unrelated)


def same_fact(one: str, other: str) -> bool:
    """True if two texts differ in nothing but case, accents, punctuation and filler words.

    A cosine alone cannot tell: with all-MiniLM-L6-v2, phone numbers that differ in one digit have 0.996.
    """
    return _content_words(one) == _content_words(other)


def _content_words(text: str) -> list[str]:
    words = (fold(token).rstrip(".") for token in tokens(_NOT.sub(" not", text)))
    return [word for word in words if word not in _FILLERS]


def _share_words(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the cosine of two texts by their terms, for scripts that an embedder does not know."""
    return len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0.0
