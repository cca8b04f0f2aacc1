"""The server on standard input and output, which are kept for the protocol alone."""

import asyncio
import json
import os
import re
import select
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from mdrecall.tools.toolset import to_valid_text

if TYPE_CHECKING:
    from mdrecall.aio import Threads
    from mdrecall.mcp_server.greeting import EarlyReader, Streams
    from mdrecall.mcp_server.server import InFlight, MemoryServer

#: What a pipe with any room takes in one write without blocking (PIPE_BUF on Linux).
_PIPE_BUF = 4096
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
#: How long answers in progress are waited for after the client has closed its end.
_LAST_ANSWERS_S = 2.0


async def serve(built: "MemoryServer", streams: "Streams", reader: "EarlyReader") -> None:
    """Serve until the client closes the pipe or a signal comes."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(_run(built, streams, reader))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


async def _run(built: "MemoryServer", streams: "Streams", reader: "EarlyReader") -> None:
    from mcp.server.stdio import stdio_server

    lines = _LineReader(reader, built.in_flight)
    warming_up = asyncio.ensure_future(built.warm_up())
    # What the SDK calls a file only has to yield lines and to accept text.
    transport = stdio_server(cast(Any, lines), cast(Any, _Writer(streams.stdout, built.threads, reader)))
    try:
        async with transport as (received, sent):
            await built.server.run(received, sent, built.server.create_initialization_options())
    except* OSError:
        # The client has gone, which is one way to end.
        pass
    finally:
        warming_up.cancel()


class _LineReader:
    """The lines of a client, as the SDK reads them."""

    def __init__(self, reader: "EarlyReader", in_flight: "InFlight") -> None:
        self._in_flight = in_flight
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        reader.attach(self._put)

    def __aiter__(self) -> "_LineReader":
        return self

    async def __anext__(self) -> str:
        line = await self._queue.get()
        if line is None:
            await self._wait_for_answers()
            raise StopAsyncIteration
        return _decode(line)

    def _put(self, line: bytes | None) -> None:
        # The loop may have ended, and then there is no reader.
        with suppress(RuntimeError):
            if line is None or line.strip():
                self._loop.call_soon_threadsafe(self._queue.put_nowait, line)

    async def _wait_for_answers(self) -> None:
        """Wait for answers in progress: a client may write its requests, close the pipe, and read on."""
        until, quiet = time.monotonic() + _LAST_ANSWERS_S, 0
        # Three quiet rounds, because a request that was just read is counted only once the SDK has parsed it.
        while quiet < 3 and time.monotonic() < until:
            await asyncio.sleep(0.01)
            quiet = 0 if self._in_flight.count else quiet + 1


def _decode(line: bytes) -> str:
    """Return a line as text; half characters, which JavaScript clients write and the SDK drops, are replaced."""
    text = line.decode("utf-8", "replace")
    if _MAYBE_SURROGATE.search(text):
        with suppress(ValueError, RecursionError):
            return json.dumps(to_valid_text(json.loads(text)))
    return text


class _Writer:
    """Writes to a file descriptor: at once where there is room, else on a thread, so a slow reader blocks nothing."""

    def __init__(self, file: int, threads: "Threads", reader: "EarlyReader") -> None:
        self._file = file
        self._threads = threads
        self._reader = reader

    async def write(self, text: str) -> None:
        if self._reader.is_answered(text):
            return
        data = text.encode("utf-8", "replace")
        if len(data) <= _PIPE_BUF and select.select([], [self._file], [], 0)[1]:
            self._write(data)
        else:
            await self._threads.call(lambda: self._write(data))

    async def flush(self) -> None:
        return

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]
