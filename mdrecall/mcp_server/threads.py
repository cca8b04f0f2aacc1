"""Calls that block, on threads that keep neither the event loop nor the end of the process waiting."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")


class _Job(NamedTuple):
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"


class Threads:
    """Daemon threads; the one used last is used first, because its connection to the index is warm."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._count = 0
        self._idle: list[SimpleQueue[_Job]] = []
        self._waiting: deque[_Job] = deque()

    async def run(self, call: Callable[[], _T]) -> _T:
        """What a call gives; whoever is cancelled while waiting is let go at once, and the result is dropped."""
        loop = asyncio.get_running_loop()
        context = copy_context()
        job = _Job(lambda: context.run(call), loop, loop.create_future())
        self._give(job)
        result: _T = await job.done
        return result

    def _give(self, job: _Job) -> None:
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
                return
            if self._count >= self._most:
                self._waiting.append(job)
                return
            self._count += 1
        inbox: SimpleQueue[_Job] = SimpleQueue()
        inbox.put(job)
        threading.Thread(target=self._work, args=(inbox,), name="mdrecall-mcp", daemon=True).start()

    def _work(self, inbox: "SimpleQueue[_Job]") -> None:
        while True:
            job = inbox.get()
            result, failure = _outcome(job)
            with self._lock:
                # Before the result is told: what it leads to shall find this thread and not start another.
                if self._waiting:
                    inbox.put(self._waiting.popleft())
                else:
                    self._idle.append(inbox)
            # A loop that is closed has nobody left who waits.
            with suppress(RuntimeError):
                job.loop.call_soon_threadsafe(_settle, job.done, result, failure)


def _outcome(job: _Job) -> tuple[Any, BaseException | None]:
    if job.done.cancelled():
        return None, None
    try:
        return job.call(), None
    except BaseException as error:
        return None, error


def _settle(done: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if done.cancelled():
        return
    if failure is None:
        done.set_result(result)
    else:
        done.set_exception(failure)
