"""How far a request is, told to the client while the work is done on another thread."""

import asyncio
import time
from types import TracebackType
from typing import Any, Self

from mcp.server.context import ServerRequestContext

from mdrecall.types import Progress, ProgressCallback

_EVERY_S = 0.1


class Reporter:
    """Sends the progress of one request as long as it is open; what comes too quickly or too late is dropped.

    A client is told numbers that only grow, as MCP asks for, although work has parts that each begin at nothing.
    """

    def __init__(self, context: ServerRequestContext[Any]) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._sent_at = 0.0
        self._before = 0
        self._last = Progress(0, 0, "")

    @property
    def callback(self) -> ProgressCallback | None:
        """What the working thread calls; None if the client did not ask for progress."""
        return self._take if self._sender else None

    async def __aenter__(self) -> Self:
        if (self._context.meta or {}).get("progress_token") is not None:
            self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sender and error is None:
            self._queue.put_nowait(None)
            await self._sender
        elif self._sender:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _take(self, progress: Progress) -> None:
        now = time.monotonic()
        is_last = progress.completed >= progress.total
        if progress.total and (is_last or now - self._sent_at >= _EVERY_S) and not self._loop.is_closed():
            self._sent_at = now
            self._loop.call_soon_threadsafe(self._queue.put_nowait, progress)

    async def _send(self) -> None:
        while progress := await self._queue.get():
            if progress.completed < self._last.completed or progress.total != self._last.total:
                self._before += self._last.completed
            elif progress.completed == self._last.completed:
                continue
            self._last = progress
            done, total = self._before + progress.completed, self._before + progress.total
            if done:
                await self._context.session.report_progress(done, total, progress.label or "indexing")
