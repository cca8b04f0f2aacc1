"""What mdrecall logs, sent to clients as notifications: at the level they ask for, with secrets masked."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession

_LEVELS: dict[str, int] = {
    "debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO + 5, "warning": logging.WARNING,
    "error": logging.ERROR, "critical": logging.CRITICAL, "alert": logging.CRITICAL + 5,
    "emergency": logging.CRITICAL + 10,
}  # fmt: skip
#: Bounds what clients that have gone leave behind.
_MAX_LISTENERS = 64
#: A log line is for a person to read; an error of a library may hold pages.
_MAX_CHARS = 2000


class _Listener(NamedTuple):
    session: ServerSession
    level: int
    request: types.RequestId | None = None


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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[_Listener] = []
        self._request: ContextVar[_Listener | None] = ContextVar("mdrecall_request", default=None)
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Start to receive what mdrecall logs."""
        self._logger.addHandler(self)

    def close(self) -> None:
        """Stop receiving; may be called twice."""
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        super().close()

    async def on_set_level(
        self, context: ServerRequestContext[Any], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._enable(_LEVELS[params.level])
        peer = context.session.client_params
        self._listeners = [each for each in self._listeners if each.session.client_params is not peer]
        self._listeners = self._listeners[1 - _MAX_LISTENERS :]
        self._listeners.append(_Listener(context.session, _LEVELS[params.level]))
        return types.EmptyResult()

    async def during_request(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Send what is logged while a request is served to the client that made it, if it named a level."""
        level = _LEVELS.get(str((ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)))
        if level is None or ctx.request_id is None:
            return await call_next(ctx)
        self._enable(level)
        token = self._request.set(_Listener(ctx.session, level, ctx.request_id))
        try:
            return await call_next(ctx)
        finally:
            self._request.reset(token)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record on any thread and send it on the loop."""
        listeners = [*self._listeners, *filter(None, [self._request.get()])]
        wanted = [each for each in listeners if record.levelno >= each.level]
        if not wanted or self._loop is None or self._loop.is_closed():
            return
        try:
            text = self._redact(record.getMessage())[:_MAX_CHARS]
        except Exception:
            self.handleError(record)
            return
        self._loop.call_soon_threadsafe(self._send, wanted, record, text)

    def _enable(self, level: int) -> None:
        """Make mdrecall create log records of this level, and send them on the running loop."""
        self._loop = asyncio.get_running_loop()
        if not self._logger.isEnabledFor(level):
            self._logger.setLevel(level)

    def _send(self, listeners: list[_Listener], record: logging.LogRecord, text: str) -> None:
        fitting = [name for name, number in _LEVELS.items() if record.levelno >= number]
        level = cast(types.LoggingLevel, fitting[-1] if fitting else "debug")
        params = types.LoggingMessageNotificationParams(level=level, data=text, logger=record.name)
        notification = types.LoggingMessageNotification(params=params)
        for listener in listeners:
            task = asyncio.ensure_future(_deliver(listener, notification))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _deliver(listener: _Listener, notification: types.LoggingMessageNotification) -> None:
    try:
        await listener.session.send_notification(notification, listener.request)
    except Exception:
        # The client has gone.
        return
