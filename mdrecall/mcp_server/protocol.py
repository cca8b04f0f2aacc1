"""The Model Context Protocol in plain objects: versions, errors, what requests must hold and results carry.

There are two eras. In the older one a connection begins with ``initialize``, which settles the version. In the newer
one nothing is settled: each request names its version, and who the client is, in ``_meta``.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import mdrecall

Json = dict[str, Any]

#: The versions that begin with ``initialize``, oldest first.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
#: The versions whose requests each say which version they follow.
STATELESS_VERSIONS = ("2026-07-28",)

#: Far more than any tool call needs; a longer request is refused before it is read into memory.
MAX_REQUEST_BYTES = 1024 * 1024

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{_PREFIX}protocolVersion"
_LOG_LEVEL_KEY = f"{_PREFIX}logLevel"
_CLIENT_KEY = f"{_PREFIX}clientInfo"
_CAPABILITIES_KEY = f"{_PREFIX}clientCapabilities"
_SERVER_KEY = f"{_PREFIX}serverInfo"

#: A request may name one of them. It is checked and has no effect: no log messages are sent.
_LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
#: The methods whose results a client of the newer era may keep, and what tells it not to: notes change at any time.
_NOT_KEPT: Mapping[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
_CACHEABLE = ("server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read")


class ProtocolError(Exception):
    """The answer that the protocol has for a request that cannot be served."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Request(NamedTuple):
    """What a client asks for; its parameters have been checked."""

    method: str
    params: Mapping[str, Any] = {}
    client: str = ""
    """The name that the client gave; empty if it gave none."""

    @property
    def meta(self) -> Mapping[str, Any]:
        return self.params.get("_meta") or {}


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_implementation(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("name", "version"))


_NONE = type(None)
_Rules = Mapping[str, Callable[[Any], bool]]
_PAGED: _Rules = {"cursor": _is(str, _NONE)}
#: What the parameters of each method must hold; any other is ignored.
_PARAMS: Mapping[str, _Rules] = {
    "initialize": {"protocolVersion": _is(str), "capabilities": _is(dict), "clientInfo": _is_implementation},
    "tools/list": _PAGED,
    "tools/call": {"name": _is(str), "arguments": _is(dict, _NONE)},
    "resources/list": _PAGED,
    "resources/templates/list": _PAGED,
    "resources/read": {"uri": _is(str)},
}
_META: _Rules = {"progressToken": lambda value: _is(str, int)(value) or (_is(float)(value) and value.is_integer())}
_STATELESS_META: _Rules = {
    **_META,
    _CAPABILITIES_KEY: _is(dict),
    _CLIENT_KEY: lambda value: value is None or _is_implementation(value),
    _LOG_LEVEL_KEY: lambda value: value is None or value in _LOG_LEVELS,
}


class Client:
    """What is known of the client of a connection: the era that it follows, and its name."""

    def __init__(self) -> None:
        self.is_stateless: bool | None = None
        """True in the newer era; None before the first request, which decides."""
        self._is_initialized = False
        self._name = ""

    def check(self, method: str, params: Mapping[str, Any], methods: Collection[str]) -> None:
        """Raise ``ProtocolError`` unless a request may be served; ``methods`` are those that both eras have."""
        meta, is_initialize = params.get("_meta"), method == "initialize"
        names_version = isinstance(meta, dict) and VERSION_KEY in meta
        if self.is_stateless is None:
            self.is_stateless = names_version and not is_initialize
        if self.is_stateless:
            _check_version(method, params)
        elif names_version and not is_initialize:
            message = "This connection did not begin with a request that names its version; none may do so now."
            raise ProtocolError(INVALID_REQUEST, message)
        own = ("server/discover",) if self.is_stateless else ("initialize", "ping")
        if method not in own and method not in methods:
            raise ProtocolError(METHOD_NOT_FOUND, "There is no such method here.", method)
        rules = _STATELESS_META if self.is_stateless else _META
        # A request need not have a token, but none that is there may be empty.
        meta = {"progressToken": 0, **(meta or {})} if _is(dict, _NONE)(meta) else {}
        if not (_hold(rules, meta) and _hold(_PARAMS.get(method, {}), params)):
            raise ProtocolError(INVALID_PARAMS, "The parameters of this request are not what its method takes.", "")
        if not (self.is_stateless or self._is_initialized or method in ("initialize", "ping")):
            raise ProtocolError(INVALID_PARAMS, "A connection begins with initialize.", "")

    def initialize(self, params: Mapping[str, Any]) -> str:
        """Return the version that is settled: the one asked for, or the newest if there is no such one."""
        self._is_initialized, self._name = True, params["clientInfo"]["name"]
        version = str(params["protocolVersion"])
        return version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]

    def name(self, meta: Mapping[str, Any]) -> str:
        """Return the name that the client has given, in the newer era with this request; empty if it gave none."""
        return str((meta.get(_CLIENT_KEY) or {}).get("name", "")) if self.is_stateless else self._name


def _hold(rules: _Rules, values: Mapping[str, Any]) -> bool:
    return all(is_right(values.get(key)) for key, is_right in rules.items())


def _check_version(method: str, params: Mapping[str, Any]) -> None:
    """Raise unless a request of the newer era names a version that is served here, and what its client can do."""
    meta, requested = params.get("_meta"), params.get("protocolVersion")
    if method != "initialize":
        meta = meta if isinstance(meta, dict) else {}
        if not isinstance(meta.get(VERSION_KEY), str) or _CAPABILITIES_KEY not in meta:
            message = f"_meta of this request must have {VERSION_KEY}, a text, and {_CAPABILITIES_KEY}, an object."
            raise ProtocolError(INVALID_PARAMS, message)
        requested = meta[VERSION_KEY]
        if requested in STATELESS_VERSIONS:
            return
    data = {"supported": list(STATELESS_VERSIONS)} | ({"requested": requested} if isinstance(requested, str) else {})
    raise ProtocolError(UNSUPPORTED_VERSION, "This connection does not serve this version of the protocol.", data)


def describe_server() -> Json:
    about = "Long-term memory for AI agents in plain Markdown."
    return {"name": "mdrecall", "title": "mdrecall", "version": mdrecall.__version__, "description": about}


def complete(method: str, result: Json) -> Json:
    """Return a result with what the newer era asks for: its type, who sends it, and how long it may be kept."""
    kept = _NOT_KEPT if method in _CACHEABLE else {}
    return {**kept, **result, "resultType": "complete", "_meta": {_SERVER_KEY: describe_server()}}
