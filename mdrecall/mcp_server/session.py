"""Whose conversation a request belongs to."""

from collections.abc import Mapping
from typing import Any

from mdrecall.core.conversation.session_key import parse

META_KEY = "mdrecall/sessionKey"


class Sessions:
    """The session key that the server was started with; only a server without one takes that of a request."""

    def __init__(self, own: str = "") -> None:
        self._own = own.strip()

    def key(self, meta: Mapping[str, Any] | None) -> str:
        """The session key of a request, by its ``_meta``."""
        given = (meta or {}).get(META_KEY)
        return self._own or (given.strip() if isinstance(given, str) else "")

    def may_remember(self, meta: Mapping[str, Any] | None) -> bool:
        """Whether there is any memory in the session: a sub-agent has none."""
        return parse(self.key(meta)).kind != "subagent"

    @property
    def has_memory(self) -> bool:
        """Whether the server has any memory to offer, whatever requests say."""
        return self.may_remember(None)
