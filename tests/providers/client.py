"""The plainest of clients, so that the servers are looked at by something that knows nothing of them."""

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.providers.server import ProviderServer

TIMEOUT_S = 30


class Seen(NamedTuple):
    """An answer as it came."""

    status: int
    body: Any
    headers: dict[str, str]


class Client:
    """One connection that is kept, with the provider's way of sending the key."""

    def __init__(self, server: ProviderServer, key: str | None = None) -> None:
        self.server = server
        self.key = key or server.key
        self.base = urlsplit(server.url)
        self.http = http.client.HTTPConnection(self.base.hostname or "", self.base.port, timeout=TIMEOUT_S)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    @property
    def keys(self) -> dict[str, str]:
        if not self.key:
            return {}
        return {"x-goog-api-key": self.key} if self.server.kind == "gemini" else {"Authorization": f"Bearer {self.key}"}

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Seen:
        """Ask for a path below the provider's base, or for one from the root if it begins with two slashes."""
        target = path[1:] if path.startswith("//") else self.base.path + path
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self.http.request(method, target, data, self.keys if headers is None else headers)
        answer = self.http.getresponse()
        content = answer.read()
        try:
            found = json.loads(content)
        except ValueError:
            found = content
        return Seen(answer.status, found, {name.lower(): value for name, value in answer.getheaders()})

    def embed(self, *texts: str, **more: Any) -> Seen:
        """Ask for vectors as the provider wants to be asked."""
        model = more.pop("model", self.server.shape.models[0])
        match self.server.kind:
            case "gemini":
                one = [{"model": f"models/{model}", "content": {"parts": [{"text": t}]}, **more} for t in texts]
                return self.call("POST", f"/models/{model}:batchEmbedContents", {"requests": one})
            case "ollama":
                return self.call("POST", "/api/embed", {"model": model, "input": list(texts), **more})
        return self.call("POST", "/embeddings", {"model": model, "input": list(texts), **more})


def vectors(body: Any) -> list[Any]:
    """The vectors of an answer, whoever sent it."""
    if "data" in body:
        return [one["embedding"] for one in body["data"]]
    return [one["values"] if isinstance(one, dict) else one for one in body["embeddings"]]


def form(*parts: tuple[str, bytes], kind: str = "form-data") -> tuple[bytes, dict[str, str]]:
    """A body in parts, each with its headers, and the header that announces it."""
    body = b"".join(b"--cut\r\n%s\r\n\r\n%s\r\n" % (head.encode(), content) for head, content in parts)
    return body + b"--cut--\r\n", {"Content-Type": f"multipart/{kind}; boundary=cut"}
