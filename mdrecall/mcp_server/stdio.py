"""The server on standard input and output, which are kept for the protocol alone."""

import asyncio
import json
import os
import re
import select
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mdrecall.tools.toolset import to_valid_text

if TYPE_CHECKING:
    from mdrecall.aio import Threads
    from mdrecall.mcp_server.server import InFlight, MemoryServer

#: What a pipe with any room takes in one write without blocking (PIPE_BUF on Linux).
_PIPE_BUF = 4096
_READ_BYTES = 65536
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
#: How long answers in progress are waited for after the client has closed its end.
_LAST_ANSWERS_S = 2.0


class Streams(NamedTuple):
    """The real standard input and output, as file descriptors."""

    stdin: int
    stdout: int


def take_streams() -> Streams:
    """Keep standard input and output for the protocol: whatever prints from now on prints to standard error.

    This is done below Python, so that it also holds for C libraries and for programs that are started.
    """
    streams = Streams(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return streams


async def serve(built: "MemoryServer", streams: Streams) -> None:
    """Serve until the client closes the pipe or a signal comes."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(_run(built, streams))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


async def _run(built: "MemoryServer", streams: Streams) -> None:
    from mcp.server.stdio import stdio_server

    lines = _LineReader(streams.stdin, built.in_flight)
    lines.start()
    warming_up = asyncio.ensure_future(built.warm_up())
    # What the SDK calls a file only has to yield lines and to accept text.
    transport = stdio_server(cast(Any, lines), cast(Any, _Writer(streams.stdout, built.threads)))
    try:
        async with transport as (received, sent):
            await built.server.run(received, sent, built.server.create_initialization_options())
    except* OSError:
        # The client has gone, which is one way to end.
        pass
    finally:
        warming_up.cancel()


class _LineReader:
    """The lines of a file descriptor, read by a thread that does not keep the process from ending."""

    def __init__(self, file: int, in_flight: "InFlight") -> None:
        self._file = file
        self._in_flight = in_flight
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        threading.Thread(target=self._read, name="mdrecall-stdin", daemon=True).start()

    def __aiter__(self) -> "_LineReader":
        return self

    async def __anext__(self) -> str:
        line = await self._queue.get()
        if line is None:
            await self._wait_for_answers()
            raise StopAsyncIteration
        return _decode(line)

    def _read(self) -> None:
        unfinished: list[bytes] = []
        with suppress(OSError):
            while data := os.read(self._file, _READ_BYTES):
                *ended, rest = data.split(b"\n")
                for line in ended:
                    self._put(b"".join((*unfinished, line)))
                    unfinished.clear()
                unfinished.append(rest)
        self._put(b"".join(unfinished))
        self._put(None)

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

    def __init__(self, file: int, threads: "Threads") -> None:
        self._file = file
        self._threads = threads

    async def write(self, text: str) -> None:
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
