"""The memory files as resources, ``mdrecall://<agent>/<path>``: listed in pages, read as ``memory_get`` reads them."""

import logging
import time
from bisect import bisect_right
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from mdrecall.errors import ArgumentError, ReadError, RecallError, message_with_hint
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Json, ProtocolError, Request
from mdrecall.mcp_server.sessions import Sessions
from mdrecall.tools.hints import message_with_action
from mdrecall.types import Stamp

if TYPE_CHECKING:
    from mdrecall.memory import Memory

_log = logging.getLogger(__name__)

SCHEME = "mdrecall"
#: How many files a page lists; clients ask for the next one.
PAGE = 200
#: How long a listing serves the pages that follow the first; a client reads them within seconds.
_LISTING_S = 30.0
#: An address may be of any length; the error quotes this much of it.
_MAX_URI_CHARS = 200
_MARKDOWN = "text/markdown"


class Address(NamedTuple):
    """The agent and the path of a resource."""

    agent: str
    path: str

    @property
    def uri(self) -> str:
        """The address as clients write it; a path with ``..`` goes into the query, where clients do not resolve it."""
        if any(part in (".", "..", "") for part in self.path.split("/")):
            return f"{SCHEME}://{self.agent}/?path={quote(self.path, safe='')}"
        return f"{SCHEME}://{self.agent}/{quote(self.path, safe='/')}"


def parse_address(uri: str) -> Address:
    """Return the address that a client wrote, or raise ``ArgumentError``."""
    try:
        parts = urlsplit(uri)
        in_query = parse_qs(parts.query).get("path", [""])[0] if parts.query else ""
    except ValueError as error:
        raise _bad_address(uri) from error
    path = in_query or unquote(parts.path.removeprefix("/"))
    if parts.scheme != SCHEME or not parts.netloc or not path:
        raise _bad_address(uri)
    return Address(parts.netloc.lower(), path)


def _bad_address(uri: str) -> ArgumentError:
    hint = f"Addresses look like {SCHEME}://main/memory/2026-02-10.md."
    return ArgumentError(f"There is no resource {uri[:_MAX_URI_CHARS]!r}.", name="uri", hint=hint)


class Resources:
    """The files of every memory as resources."""

    def __init__(self, memories: Memories, sessions: Sessions) -> None:
        self._memories = memories
        self._sessions = sessions
        self._listings: dict[str, tuple[float, dict[str, Stamp]]] = {}

    def list_resources(self, request: Request) -> Json:
        if not self._sessions.may_remember(request.meta):
            return {"resources": []}
        try:
            return self._page(request.params.get("cursor") or "")
        except RecallError as error:
            raise ProtocolError(INVALID_PARAMS, message_with_action(error)) from error

    def list_templates(self, request: Request) -> Json:
        names = self._memories.names if self._sessions.may_remember(request.meta) else ()
        templates = [
            {
                "name": f"memory of {name}",
                "uriTemplate": f"{SCHEME}://{name}/{{+path}}",
                "description": f"A memory file of {name}, such as MEMORY.md or memory/2026-02-10.md.",
                "mimeType": _MARKDOWN,
            }
            for name in names
        ]
        return {"resourceTemplates": templates}

    def read_resource(self, request: Request) -> Json:
        uri = request.params["uri"]
        if not self._sessions.may_remember(request.meta):
            raise ProtocolError(INVALID_PARAMS, "A sub-agent has no memory.")
        try:
            text = self._text(parse_address(uri))
        except (ReadError, ArgumentError) as error:
            raise ProtocolError(INVALID_PARAMS, message_with_action(error), {"uri": uri}) from error
        except RecallError as error:
            raise ProtocolError(INTERNAL_ERROR, message_with_action(error)) from error
        return {"contents": [{"uri": uri, "mimeType": _MARKDOWN, "text": text}]}

    def _text(self, address: Address) -> str:
        self._memories.describe(address.agent)
        return read_all(self._memories.get(address.agent), address.path)

    def _page(self, cursor: str) -> Json:
        """Return the files that follow an address, memory by memory."""
        after = parse_address(cursor) if cursor else Address(self._memories.default, "")
        names = self._memories.names
        self._memories.describe(after.agent)
        resources: list[Json] = []
        for name in names[names.index(after.agent) :]:
            stamps = self._files(name, is_first=not cursor)
            paths = list(stamps)
            start = bisect_right(paths, after.path) if name == after.agent else 0
            room = PAGE - len(resources)
            resources += [_resource(Address(name, path), stamps[path]) for path in paths[start : start + room]]
            if len(paths) - start > room:
                return {"resources": resources, "nextCursor": resources[-1]["uri"]}
        return {"resources": resources}

    def _files(self, name: str, *, is_first: bool) -> dict[str, Stamp]:
        """Return the files of a memory in order; further pages come from the listing that was made for the first."""
        from mdrecall.sources.files import MemoryFiles

        listed_at, stamps = self._listings.get(name, (0.0, {}))
        now = time.monotonic()
        if is_first or not listed_at or now - listed_at > _LISTING_S:
            try:
                settings = self._memories.get(name).settings
            except RecallError as error:
                if len(self._memories.names) == 1:
                    raise
                # The files of the other memories are listed all the same.
                _log.warning("The memory of %s cannot be used: %s", name, message_with_hint(error))
                return {}
            stamps = dict(sorted(MemoryFiles(settings, self._memories.describe(name).home).scan().stamps.items()))
            self._listings[name] = (now, stamps)
        return stamps


def read_all(memory: "Memory", path: str) -> str:
    """Return a memory file from its first character to its last, read once."""
    return memory.read(path, max_chars=memory.settings.mdrecall.max_file_bytes).text


def _resource(address: Address, stamp: Stamp) -> Json:
    size, modified_ns = stamp[0], stamp[1]
    described = {
        "name": address.path.rpartition("/")[2],
        "title": address.path,
        "uri": address.uri,
        "mimeType": _MARKDOWN,
        "size": size,
    }
    modified = _format_time(modified_ns)
    return described | ({"annotations": {"lastModified": modified}} if modified else {})


def _format_time(ns: int) -> str | None:
    """Return a time in ISO 8601; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None
