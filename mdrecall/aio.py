"""AsyncMemory: ``Memory`` for asyncio. Each call runs in a thread, so that it does not block the event loop.

The threads are the memory's own: asyncio's default threads are few and shared with the rest of the program. A call that
is cancelled returns at once. Its thread goes on and the result is dropped; a ``sync`` or ``follow`` ends where it can
be resumed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from mdrecall.engine.background import DaemonPool
from mdrecall.errors import MemoryClosed
from mdrecall.memory import Memory
from mdrecall.several import describe_failure, merge_found, name_memories
from mdrecall.types.search import SearchAnswer, SearchRequest, check_like
from mdrecall.types.sync import ProgressCallback, Stop, SyncReport, WatchEvent, never

if TYPE_CHECKING:
    from mdrecall.config.load import Loaded
    from mdrecall.config.settings import Settings

_P = ParamSpec("_P")
_T = TypeVar("_T")

# More calls than this wait for a thread: each thread has its own connection to the index.
_MAX_THREADS = 64
# How long closing waits for calls that are in progress.
_CLOSING_S = 10.0


def _in_thread(
    method: Callable[Concatenate[Memory, _P], _T],
) -> Callable[Concatenate[AsyncMemory, _P], Coroutine[Any, Any, _T]]:
    """Return a method of ``Memory`` for asyncio: it runs in a thread, and every callback but ``stop`` on the loop."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        named = {name: each if name == "stop" else _bring_home(each) for name, each in kwargs.items()}
        act: Callable[[], _T] = partial(getattr(self._memory, method.__name__), *map(_bring_home, args), **named)
        return await self._threads.call(act)

    return call


class AsyncMemory:
    """One workspace's memory for asyncio. Use it as an async context manager, or await ``close()`` when done.

    The methods are those of ``Memory``. Progress and event callbacks are called in the thread of the loop, ``stop`` in
    the thread that does the work.
    """

    def __init__(self, memory: Memory, threads: Threads) -> None:
        self._memory = memory
        self._threads = threads

    @classmethod
    async def open(
        cls,
        workspace: str | os.PathLike[str] | None = None,
        *,
        agent: str | None = None,
        config: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        one_shot: bool = False,
    ) -> Self:
        """Open the memory of a workspace; the parts of the index are imported in a thread, too."""
        more: dict[str, Any] = {"config": config, "env": env, "overrides": overrides, "one_shot": one_shot}
        return await cls._open(partial(Memory.open, workspace, agent=agent, **more))

    @classmethod
    async def of(cls, loaded: Loaded, *, one_shot: bool = False) -> Self:
        """Open a memory with settings that are already loaded."""
        return await cls._open(partial(Memory.of, loaded, one_shot=one_shot))

    @classmethod
    async def _open(cls, open_memory: Callable[[], Memory]) -> Self:
        threads = Threads()
        try:
            return cls(await threads.call(open_memory, if_cancelled=lambda memory: memory.close()), threads)
        except BaseException:
            threads.release()
            raise

    @property
    def loaded(self) -> Loaded | None:
        return self._memory.loaded

    @property
    def settings(self) -> Settings:
        return self._memory.settings

    search = _in_thread(Memory.search)
    read = read_file = _in_thread(Memory.read)
    append = _in_thread(Memory.append)
    sessions = _in_thread(Memory.sessions)
    compacted = _in_thread(Memory.compacted)
    read_session = _in_thread(Memory.read_session)
    read_messages = _in_thread(Memory.read_messages)
    watch = _in_thread(Memory.watch)
    status = _in_thread(Memory.status)
    notes = _in_thread(Memory.notes)
    near = _in_thread(Memory.near)
    links = _in_thread(Memory.links)
    counts = _in_thread(Memory.counts)
    issues = _in_thread(Memory.issues)
    check = _in_thread(Memory.check)
    index_files = _in_thread(Memory.index_files)
    reset = _in_thread(Memory.reset)
    purge = _in_thread(Memory.purge)
    probe_embedding = _in_thread(Memory.probe_embedding)
    probe_vectors = _in_thread(Memory.probe_vectors)
    _sync = _in_thread(Memory.sync)
    _follow = _in_thread(Memory.follow)

    async def sync(
        self,
        *,
        force: bool = False,
        progress: ProgressCallback | None = None,
        stop: Stop = never,
        reason: str = "manual",
        waits_for_encoder: bool = False,
    ) -> SyncReport:
        """``Memory.sync``; it is stopped if the call is cancelled or the memory is closed."""
        cancelled = threading.Event()

        def is_over() -> bool:
            return cancelled.is_set() or self._threads.is_closing or stop()

        try:
            return await self._sync(
                force=force, progress=progress, stop=is_over, reason=reason, waits_for_encoder=waits_for_encoder
            )
        finally:
            cancelled.set()

    async def follow(self, tell: Callable[[WatchEvent], None]) -> None:
        """``Memory.follow``; it also ends when the call is cancelled."""
        try:
            await self._follow(tell)
        except (asyncio.CancelledError, GeneratorExit):
            self.stop_following()
            raise

    def stop_following(self) -> None:
        """End ``follow`` without waiting for it, so that a signal handler can call this."""
        self._memory.stop_following()

    async def close(self) -> None:
        """Release the index when the calls in progress have ended, or after ten seconds; may be called twice."""
        await self._threads.close(self._memory.stop_following, self._memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


@check_like(SearchRequest)
async def search_several(
    memories: Sequence[AsyncMemory] | Mapping[str, AsyncMemory], query: str, **options: Any
) -> SearchAnswer:
    """``mdrecall.search_several`` for asyncio: one answer from all memories, best results first."""
    named = name_memories(memories)
    searches = (memory.search(query, **options) for memory in named.values())
    answers = await asyncio.gather(*searches, return_exceptions=True)
    outcomes = {
        name: describe_failure(name, each) if isinstance(each, BaseException) else (named[name], each)
        for name, each in zip(named, answers, strict=True)
    }
    return merge_found(outcomes, SearchRequest(query, **options))


class Threads:
    """The threads of one memory or one server, and the calls in progress."""

    def __init__(self, closing_s: float = _CLOSING_S) -> None:
        """``closing_s`` is how long ``close`` waits for the calls in progress."""
        self.is_closing = False
        self._closing_s = closing_s
        self._pool = DaemonPool("mdrecall-aio", _MAX_THREADS)
        self._closed: Future[None] = Future()

    async def call(self, act: Callable[[], _T], *, if_cancelled: Callable[[_T], object] | None = None) -> _T:
        """Call ``act`` in a thread and return its result; if this is cancelled, ``if_cancelled`` gets the result."""

        def run() -> _T:
            self._refuse_if_closing()
            try:
                return act()
            except BaseException as error:
                # A future never delivers StopIteration, and SystemExit or KeyboardInterrupt would end the loop.
                if isinstance(error, Exception) and not isinstance(error, StopIteration):
                    raise
                raise RuntimeError(f"{type(error).__name__} in a thread: {error}") from error

        self._refuse_if_closing()
        context = copy_context()
        work = self._pool.submit(lambda: context.run(run))
        try:
            return await asyncio.wrap_future(work)
        except (asyncio.CancelledError, GeneratorExit):
            if if_cancelled:
                work.add_done_callback(lambda done: _pass_on(done, if_cancelled))
            raise

    async def close(self, cancel_pending: Callable[[], None], act: Callable[[], None]) -> None:
        """Refuse new calls, wait for those in progress, then call ``act``, all in a thread that is free for it."""
        if not self.is_closing:
            self.is_closing = True
            self._closed.set_running_or_notify_cancel()
            threading.Thread(target=self._close, args=(cancel_pending, act), name="mdrecall-close").start()
        await asyncio.wrap_future(self._closed)

    def release(self) -> None:
        """Let the threads end as soon as they have nothing to do."""
        self.is_closing = True
        self._pool.release()

    def _close(self, cancel_pending: Callable[[], None], act: Callable[[], None]) -> None:
        try:
            cancel_pending()
            self._pool.drain(self._closing_s)
            act()
        except BaseException as error:
            self._closed.set_exception(error)
        else:
            self._closed.set_result(None)
        finally:
            self._pool.release()

    def _refuse_if_closing(self) -> None:
        if self.is_closing:
            raise MemoryClosed("The memory is closed.", hint="Open it again.")


def _pass_on(done: Future[_T], taker: Callable[[_T], object]) -> None:
    if not done.cancelled() and done.exception() is None:
        taker(done.result())


def _bring_home(argument: Any) -> Any:
    """Return an argument for another thread: a callback that calls the given one on this loop, unless it is closed."""
    if not callable(argument):
        return argument
    loop = asyncio.get_running_loop()

    def call_soon(value: object) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(argument, value)

    return call_soon
