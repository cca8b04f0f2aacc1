"""The state of a memory's vectors: which embedder makes them, how many there are, and which others there are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.config.files import mask_url
from mdrecall.config.settings import PROVIDERS, MemorySearch, VectorStore
from mdrecall.engine.embedders import EmbedderChooser, Embedding, choose_embedders, find_missing_extra
from mdrecall.errors import ConfigError, EmbedderError, StoreUnavailable, install_command, message_with_hint
from mdrecall.types.sync import Probe

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.interfaces import Embedder, Store


_ABOUT = {
    "offline": "included; downloads nothing and sends nothing",
    "encoder": "included; reads passages as a whole, in the background",
    "local": "runs a GGUF model on this machine",
}


def explain_fallback(embedding: Embedding) -> dict[str, str] | None:
    """Return which embedder is replaced and why; None if the requested one is used."""
    used, chosen = embedding.find_embedder(), embedding.chosen
    if used is None:
        return None
    if chosen.unusable_reason:
        return {"from": chosen.requested, "reason": chosen.unusable_reason}
    first = chosen.embedders[0].provider
    if used.provider == first:
        return None
    reason = embedding.chunk_embedder.last_failure() if embedding.chunk_embedder else ""
    return {"from": first, "reason": reason or f"There are no vectors from {first} yet."}


def describe_provider(embedding: Embedding) -> dict[str, str]:
    """Return which embedder is used and if it works, with OpenClaw's names."""
    used, chosen, fallback = embedding.find_embedder(), embedding.chosen, explain_fallback(embedding)
    if used is None:
        return {"mode": "fts-only", "reason": chosen.unusable_reason, "attemptedProviderId": chosen.requested}
    if fallback:
        more = {"fallbackFrom": fallback["from"], "reason": fallback["reason"]}
        return {"mode": "fallback-active", "providerId": used.provider, **more}
    if embedding.chunk_embedder and (reason := embedding.chunk_embedder.last_failure()):
        return {"mode": "degraded", "providerId": used.provider, "reason": reason}
    if not used.traits.never_waits and not embedding.find_space():
        return {"mode": "pending", "requestedProvider": used.provider}
    return {"mode": "active", "providerId": used.provider}


def describe_vectors(embedding: Embedding, store: Store, vector: VectorStore) -> dict[str, Any]:
    """Return how vectors are searched, and how many there are."""
    from mdrecall.store.vectors import MOST_EXACT

    used = embedding.find_embedder()
    found: dict[str, Any] = {"enabled": vector.enabled, "available": used is not None}
    if used is None:
        return found if embedding.chosen.is_off else found | {"loadError": embedding.chosen.unusable_reason}
    if used.dimensions:
        found["dims"] = used.dimensions
    if vector.extension_path:
        found["extensionPath"] = vector.extension_path
    if current := embedding.find_space():
        space, _ = current
        found["dims"] = space.space.dimensions
        try:
            found["engine"], problem = store.vectors.engine(space)
            found |= {"loadError": problem} if problem else {}
        except StoreUnavailable as error:
            found |= {"available": False, "loadError": str(error)}
        found["chunks"] = store.chunks.count(space.id)
        if found.get("engine") == "matrix" and found["chunks"] > MOST_EXACT:
            found["firstPass"] = "signs"
    if beside := embedding.beside_embedder:
        about: dict[str, Any] = {"provider": beside.space.provider, "model": beside.space.model}
        about["chunks"] = store.chunks.count() - beside.count_missing()
        found["beside"] = about | ({"error": beside.last_error} if beside.last_error else {})
    return found


def describe_batch(embedding: Embedding, search: MemorySearch, store: Store) -> dict[str, Any]:
    """Return the state of batch jobs, with OpenClaw's names."""
    rules, jobs, embedders = search.remote.batch, embedding.jobs, embedding.chosen.embedders
    found: dict[str, Any] = {
        "enabled": jobs is not None and jobs.is_on,
        "failures": jobs.failures if jobs else 0,
        "limit": 2,
        "wait": rules.wait,
        "concurrency": rules.concurrency,
        "pollIntervalMs": rules.poll_interval_ms,
        "timeoutMs": rules.timeout_minutes * 60_000,
    }
    if jobs and jobs.last_error:
        found |= {"lastError": jobs.last_error, "lastProvider": embedders[0].provider}
    if embedders and (open_jobs := store.cache.jobs(embedders[0].fingerprint)):
        found |= {"jobs": len(open_jobs), "texts": sum(len(job.digests) for job in open_jobs)}
    return found


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
    # The encoder is not in the list: it has a setting of its own.
    names = dict.fromkeys([*PROVIDERS[:1], *(name for name, role in roles.items() if role == "beside"), *PROVIDERS])
    names.pop("auto", None)
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
    found = ProviderRow(name, role, True, _ABOUT.get(name, ""), embedder.model)
    if access:
        about = "" if access.key else "needs no key, but a running server"
        where = mask_url(access.base_url or REMOTE[name].url)
        found = found._replace(why=about, where=where, key=access.key_origin)
    try:
        return found._replace(probe=probe_embedder(embedder)) if probe else found
    finally:
        embedder.close()
