"""What mdrecall logs, sent to clients as notifications: at the level they ask for, with secrets masked."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias

from mdrecall.mcp_server.protocol import LOG_LEVELS, Json

#: Bounds what clients that have gone leave behind.
_MAX_LISTENERS = 64
#: A log line is for a person to read; an error of a library may hold pages.
_MAX_CHARS = 2000

#: Sends the parameters of ``notifications/message``; it is called on any thread and must not block.
SendLog: TypeAlias = Callable[[Json], None]


class _Listener(NamedTuple):
    send: SendLog
    level: int
    peer: object = None


class LogNotifications(logging.Handler):
    """Sends the log records of mdrecall to the clients that want them.

    A client of the older protocol sets a level for its connection. One of the newer protocol names the level in a
    request, and gets only what is logged while that request is served. A client that sets no level gets nothing.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.DEBUG)
        self._logger = logging.getLogger("mdrecall")
        self._level = self._logger.level
        self._redact = redact
        self._listeners: list[_Listener] = []
        self._request: ContextVar[_Listener | None] = ContextVar("mdrecall_request", default=None)

    def open(self) -> None:
        """Start to receive what mdrecall logs."""
        self._logger.addHandler(self)

    def close(self) -> None:
        """Stop receiving; may be called twice."""
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        super().close()

    def listen(self, peer: object, level: str, send: SendLog) -> None:
        """Send what is logged at this level from now on to a client, known by any object of its own."""
        self._enable(LOG_LEVELS[level])
        others = [each for each in self._listeners if each.peer is not peer]
        self._listeners = [*others[1 - _MAX_LISTENERS :], _Listener(send, LOG_LEVELS[level], peer)]

    @contextmanager
    def listen_during_request(self, level: object, send: SendLog) -> Iterator[None]:
        """Send what is logged inside the ``with`` block; nothing if ``level`` is no level."""
        number = LOG_LEVELS.get(level) if isinstance(level, str) else None
        if number is None:
            yield
            return
        self._enable(number)
        token = self._request.set(_Listener(send, number))
        try:
            yield
        finally:
            self._request.reset(token)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record on any thread."""
        listeners = [*self._listeners, *filter(None, [self._request.get()])]
        wanted = [each for each in listeners if record.levelno >= each.level]
        if not wanted:
            return
        try:
            text = self._redact(record.getMessage())[:_MAX_CHARS]
        except Exception:
            self.handleError(record)
            return
        fitting = [name for name, number in LOG_LEVELS.items() if record.levelno >= number]
        for listener in wanted:
            listener.send({"level": fitting[-1] if fitting else "debug", "logger": record.name, "data": text})

    def _enable(self, level: int) -> None:
        """Make mdrecall create log records of this level."""
        if not self._logger.isEnabledFor(level):
            self._logger.setLevel(level)
