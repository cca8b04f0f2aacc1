"""Remote embedders for tests: made for a stand-in server, with a clock that nobody waits for."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from mdrecall.embed.remote import client
from mdrecall.embed.remote.client import Endpoint, ProviderClient
from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.embed.remote.providers import PROVIDERS
from mdrecall.types.documents import EmbedInput, Secret
from tests.providers.server import KEY, ProviderServer

LONG_S = 60.0


def address_of(
    stand_in: ProviderServer,
    *,
    url: str = "",
    sent_key: str = KEY,
    headers: Mapping[str, str] | None = None,
    proxy: str = "",
) -> Endpoint:
    """Where a stand-in answers."""
    return Endpoint(
        stand_in.kind,
        url or stand_in.url,
        Secret(sent_key),
        "the settings",
        {name: Secret(value) for name, value in (headers or {}).items()},
        Secret(proxy) if proxy else None,
    )


@contextmanager
def asking(stand_in: ProviderServer, address: Endpoint | None = None, **more: Any) -> Iterator[RemoteEmbedder]:
    """An embedder that asks a stand-in."""
    model = more.pop("model", stand_in.shape.models[0])
    made = RemoteEmbedder(PROVIDERS[stand_in.kind], model, address or address_of(stand_in), **more)
    try:
        yield made
    finally:
        made.close()


def embed(embedder: RemoteEmbedder, *texts: str) -> list[bytes]:
    """The vectors of texts."""
    return [made.vector for made in embedder.embed_chunks([EmbedInput("", text) for text in texts])]


class Clock:
    """A time that passes only when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []
        monkeypatch.setattr(client, "time", self)
        monkeypatch.setattr(client, "_JITTER", 0.0)
        monkeypatch.setattr(ProviderClient, "_sleep", lambda _, seconds, ended: self.sleep(seconds))

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(round(seconds, 3))
            self.now += seconds


def everything_said(error: BaseException) -> str:
    """An error with all that stands behind it, suppressed or not, and every value in every frame."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            waiting += [one.__cause__, one.__context__]
    return "\n".join(_error_text(one) for one in seen)


def _error_text(error: BaseException) -> str:
    """What an error says, and what the library's own frames and others' hold; those of tests hold keys."""
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [str(frame.locals) for frame in found.stack if "/tests/" not in frame.filename]
    return "\n".join([*frames, *found.format_exception_only(), repr(error), str(vars(error))])
