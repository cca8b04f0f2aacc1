"""The state of a memory's vectors: which embedder makes them, how many there are, and which others there are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.config.files import mask_url
from mdrecall.config.openclaw_settings import PROVIDERS, MemorySearch, VectorStore
from mdrecall.engine.chunk_embedder import EmbedsChunks
from mdrecall.engine.embedders import EmbedderChoice, EmbedderChooser, choose_embedders, find_missing_extra
from mdrecall.engine.vector_search import VectorSearcher
from mdrecall.errors import ConfigError, EmbedderError, StoreUnavailable, install_command, message_with_hint
from mdrecall.types import Probe

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.engine.jobs import Jobs
    from mdrecall.interfaces import Embedder, Store


_ABOUT = {
    "offline": "included; downloads nothing and sends nothing",
    "minilm": "runs on this machine; downloads 91 MB once",
    "local": "runs a GGUF model on this machine",
}


class EmbeddingStatus:
    """The parts that make and search vectors, and what they report; without an embedder there are none."""

    def __init__(
        self,
        chosen: EmbedderChoice,
        chunk_embedder: EmbedsChunks | None = None,
        vector_searcher: VectorSearcher | None = None,
        jobs: Jobs | None = None,
        beside_embedder: EmbedsChunks | None = None,
    ) -> None:
        self.chosen = chosen
        self.chunk_embedder = chunk_embedder
        self.vector_searcher = vector_searcher
        self.jobs = jobs
        self.beside_embedder = beside_embedder

    def find_embedder(self) -> Embedder | None:
        """Return the embedder whose vectors are searched, as far as is known without calling it."""
        current_space = self.vector_searcher.current_space() if self.vector_searcher else None
        if current_space:
            return current_space[1]
        return self.chosen.embedders[0] if self.chosen.embedders else None

    def explain_fallback(self) -> dict[str, str] | None:
        """Return which embedder is replaced and why; None if the requested one is used."""
        used = self.find_embedder()
        if used is None:
            return None
        if self.chosen.unusable_reason:
            return {"from": self.chosen.requested, "reason": self.chosen.unusable_reason}
        first = self.chosen.embedders[0]
        if used.provider == first.provider:
            return None
        reason = self.chunk_embedder.last_failure() if self.chunk_embedder else ""
        return {"from": first.provider, "reason": reason or f"There are no vectors from {first.provider} yet."}

    def describe_provider(self) -> dict[str, str]:
        """Return which embedder is used and if it works, with OpenClaw's names."""
        used, fallback = self.find_embedder(), self.explain_fallback()
        if used is None:
            return {
                "mode": "fts-only", "reason": self.chosen.unusable_reason, "attemptedProviderId": self.chosen.requested
            }  # fmt: skip
        if fallback:
            more = {"fallbackFrom": fallback["from"], "reason": fallback["reason"]}
            return {"mode": "fallback-active", "providerId": used.provider, **more}
        if self.chunk_embedder and (reason := self.chunk_embedder.last_failure()):
            return {"mode": "degraded", "providerId": used.provider, "reason": reason}
        if not used.traits.never_waits and not (self.vector_searcher and self.vector_searcher.current_space()):
            return {"mode": "pending", "requestedProvider": used.provider}
        return {"mode": "active", "providerId": used.provider}

    def lacks_vectors(self, store: Store) -> bool:
        """True if some chunk has no vector yet."""
        return self.chunk_embedder is not None and store.chunks.count() > 0 and not self.chunk_embedder.is_complete()

    def describe_vectors(self, store: Store, vector: VectorStore) -> dict[str, Any]:
        """Return how vectors are searched, and how many there are."""
        from mdrecall.store.vectors import MOST_EXACT

        used = self.find_embedder()
        if used is None:
            return {"enabled": vector.enabled, "available": False, "loadError": self.chosen.unusable_reason}
        found: dict[str, Any] = {"enabled": vector.enabled, "available": True}
        if used.dimensions:
            found["dims"] = used.dimensions
        if vector.extension_path:
            found["extensionPath"] = vector.extension_path
        current_space = self.vector_searcher.current_space() if self.vector_searcher else None
        if current_space:
            space, _ = current_space
            found["dims"] = space.space.dimensions
            try:
                found["engine"], problem = store.vectors.engine(space)
                found |= {"loadError": problem} if problem else {}
            except StoreUnavailable as error:
                found |= {"available": False, "loadError": str(error)}
            found["chunks"] = store.chunks.count(space.id)
            if found.get("engine") == "matrix" and found["chunks"] > MOST_EXACT:
                found["firstPass"] = "signs"
        if self.beside_embedder:
            found["beside"] = self._describe_beside(self.beside_embedder, store)
        return found

    def _describe_beside(self, embedder: EmbedsChunks, store: Store) -> dict[str, Any]:
        """Return the state of the embedder beside the first one."""
        found: dict[str, Any] = {"provider": embedder.space.provider, "model": embedder.space.model}
        found["chunks"] = store.chunks.count() - embedder.count_missing()
        return found | ({"error": embedder.last_error} if embedder.last_error else {})

    def describe_batch(self, search: MemorySearch, store: Store) -> dict[str, Any]:
        """Return the state of batch jobs, with OpenClaw's names."""
        found = describe_limits(search)
        if self.jobs:
            found |= {"enabled": self.jobs.is_on, "failures": self.jobs.failures}
        if self.jobs and self.jobs.last_error:
            found |= {"lastError": self.jobs.last_error, "lastProvider": self.chosen.embedders[0].provider}
        if self.chosen.embedders:
            open_jobs = store.cache.jobs(self.chosen.embedders[0].fingerprint)
            texts = sum(len(job.digests) for job in open_jobs)
            found |= {"jobs": len(open_jobs), "texts": texts} if open_jobs else {}
        return found

    def probe(self) -> Probe:
        """Check that the requested embedder works."""
        if not self.chosen.embedders:
            return Probe(False, self.chosen.unusable_reason)
        return probe_embedder(self.chosen.embedders[0])

    def interrupt(self) -> None:
        """End the requests that are in progress."""
        for embedder in self.chosen.all:
            embedder.interrupt()

    def close(self) -> None:
        for embedder in self.chosen.all:
            embedder.close()


def describe_limits(search: MemorySearch) -> dict[str, Any]:
    """Return the settings of batch jobs, with OpenClaw's names, as they are while there are none."""
    rules = search.remote.batch
    return {
        "enabled": False,
        "failures": 0,
        "limit": 2,
        "wait": rules.wait,
        "concurrency": rules.concurrency,
        "pollIntervalMs": rules.poll_interval_ms,
        "timeoutMs": rules.timeout_minutes * 60_000,
    }


def probe_embedder(embedder: Embedder) -> Probe:
    """Check that an embedder works: embed a word and measure the time."""
    began = time.perf_counter()
    try:
        # A remote embedder is asked once, where a query would be retried.
        ping = getattr(embedder, "ping", None)
        vector = ping() if ping else embedder.embed_query("ping", {})
    except EmbedderError as error:
        return Probe(False, message_with_hint(error))
    return Probe(True, ms=round((time.perf_counter() - began) * 1000, 1), dims=len(vector) // 4)


class ProviderRow(NamedTuple):
    """What is known of one provider without a request to it."""

    name: str
    role: str
    """``used``, ``beside`` or ``fallback``; empty for the others."""
    usable: bool
    why: str
    """Why it cannot be used and what to do; or a remark."""
    model: str = ""
    where: str = ""
    key: str = ""
    """Where the key comes from, never the key."""
    probe: Probe | None = None


def report_providers(loaded: Loaded, *, probe: bool = False) -> list[ProviderRow]:
    """Return a row for every provider; with ``probe``, each usable one embeds a word."""
    search = loaded.settings.memory_search
    roles = {search.fallback: "fallback"}
    chosen = choose_embedders(loaded)
    if chosen.embedders:
        roles[chosen.embedders[0].provider] = "used"
        if chosen.beside:
            roles[chosen.beside.provider] = "beside"
    chooser = EmbedderChooser(loaded)
    owner = chooser.owner()
    names = [name for name in PROVIDERS if name != "auto"]
    return [_row(loaded, chooser, name, roles.get(name, ""), name == owner, probe) for name in names]


def _row(loaded: Loaded, chooser: EmbedderChooser, name: str, role: str, uses_remote: bool, probe: bool) -> ProviderRow:
    from mdrecall.embed.remote.providers import PROVIDERS as REMOTE

    if extra := find_missing_extra(name):
        return ProviderRow(name, role, False, f"Install it with `{install_command(extra)}`.")
    try:
        embedder = chooser.create(name, uses_remote=uses_remote, uses_model=uses_remote)
        access = loaded.credentials.access(name, uses_remote=uses_remote) if name in REMOTE else None
    except (EmbedderError, ConfigError) as error:
        return ProviderRow(name, role, False, message_with_hint(error))
    about = _ABOUT.get(name, "")
    if access and not access.key:
        about = "needs no key, but a running server"
    found = ProviderRow(name, role, True, about, embedder.model, key=access.key_origin if access else "")
    if access:
        found = found._replace(where=mask_url(access.base_url or REMOTE[name].url))
    try:
        return found._replace(probe=probe_embedder(embedder)) if probe else found
    finally:
        embedder.close()
