"""The server on standard input and output."""

import asyncio
import json
import os
import re
import select
import signal
import threading
import time
from contextlib import suppress
from typing import Any, cast

from mcp.server.stdio import stdio_server

from mdrecall.aio import Threads
from mdrecall.mcp_server.server import Built, InFlight
from mdrecall.mcp_server.streams import Wire
from mdrecall.tools.toolset import to_valid_text

_PIPE_BUF = 4096
_READ_BYTES = 65536
_MAYBE_HALF = re.compile(r"\\u[dD][89a-fA-F]")
#: How long answers that are under way are waited for when the client has said its last.
_LAST_ANSWERS_S = 2.0


class _Lines:
    """The lines of a file descriptor, read by a thread that does not keep the process from ending."""

    def __init__(self, file: int, in_flight: InFlight) -> None:
        self._file = file
        self._in_flight = in_flight
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        threading.Thread(target=self._read, name="mdrecall-stdin", daemon=True).start()

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._queue.get()
        if line is None:
            await self._last_answers()
            raise StopAsyncIteration
        return _decoded(line)

    def _read(self) -> None:
        begun: list[bytes] = []
        with suppress(OSError):
            while data := os.read(self._file, _READ_BYTES):
                *ended, rest = data.split(b"\n")
                for line in ended:
                    self._put(b"".join((*begun, line)))
                    begun.clear()
                begun.append(rest)
        self._put(b"".join(begun))
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        # The loop may have ended, and then nobody reads on.
        with suppress(RuntimeError):
            if line is None or line.strip():
                self._loop.call_soon_threadsafe(self._queue.put_nowait, line)

    async def _last_answers(self) -> None:
        """Whoever writes requests and closes the pipe is still answered, within bounds."""
        until, quiet = time.monotonic() + _LAST_ANSWERS_S, 0
        while quiet < 3 and time.monotonic() < until:
            await asyncio.sleep(0.01)
            quiet = 0 if self._in_flight.count else quiet + 1


def _decoded(line: bytes) -> str:
    """A line as text; halves of characters, which a JavaScript client may write and the SDK would drop, are marked."""
    text = line.decode("utf-8", "replace")
    if _MAYBE_HALF.search(text):
        with suppress(ValueError, RecursionError):
            return json.dumps(to_valid_text(json.loads(text)))
    return text


class _Writer:
    """Writes to a file descriptor: at once where there is room, else on a thread, so a slow reader stops nobody."""

    def __init__(self, file: int, threads: Threads) -> None:
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


async def serve(built: Built, wire: Wire) -> None:
    """Serve until the client closes the pipe or a signal comes."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(_run(built, wire))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


async def _run(built: Built, wire: Wire) -> None:
    lines = _Lines(wire.into, built.in_flight)
    lines.start()
    warming = asyncio.ensure_future(built.warm())
    # What the SDK calls a file only has to give lines and to take text.
    streams = stdio_server(cast(Any, lines), cast(Any, _Writer(wire.out, built.threads)))
    try:
        async with streams as (received, sent):
            await built.server.run(received, sent, built.server.create_initialization_options())
    except* OSError:
        # The client has gone, which is one way to end.
        pass
    finally:
        warming.cancel()
