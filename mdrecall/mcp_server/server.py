"""The official SDK's server, which HTTP uses: it passes each request on to the answers and back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from mdrecall.aio import Threads
from mdrecall.mcp_server.answers import Answers
from mdrecall.mcp_server.greeting import describe_server
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.protocol import LOG_LEVEL_KEY, STATELESS_VERSIONS, Json, ProtocolError, Request, complete
from mdrecall.mcp_server.toolbox import MakeTools

_Context = ServerRequestContext[Any]


class MemoryServer(NamedTuple):
    """The SDK's server with everything that it uses and that has to be closed."""

    server: Server[Any]
    answers: Answers
    threads: Threads

    def close(self) -> None:
        """Close everything that is open; may be called twice."""
        self.threads.release()
        self.answers.close()


def build_server(
    memories: Memories, session_key: str = "", make_tools: MakeTools | None = None, *, read_only: bool = False
) -> MemoryServer:
    """Return a server for some memories; the arguments are those of ``Answers``."""
    answers = Answers(memories, session_key, make_tools, read_only=read_only)
    threads = Threads()
    server: Server[Any] = Server(
        **describe_server(),
        instructions=answers.greeting.instructions or None,
        # No tool takes an argument from a header, which is all that the SDK would look for in a schema.
        get_tool_input_schema=lambda name: None,
    )

    async def answer(context: _Context, params: types.RequestParams) -> Json:
        queue = _LoopQueue()
        request = _read_request(context, queue)
        try:
            with answers.logs.listen_during_request(request.meta.get(LOG_LEVEL_KEY), _log_sender(context, queue, True)):
                result = await threads.call(lambda: answers.answer(request))
        except ProtocolError as error:
            raise MCPError(error.code, error.message, error.data) from error
        finally:
            await queue.drain()
        if context.protocol_version in STATELESS_VERSIONS:
            return complete(context.method, result, describe_server())
        return result

    async def set_level(context: _Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        send = _log_sender(context, _LoopQueue(), False)
        answers.logs.listen(context.session.client_params, params.level, send)
        return types.EmptyResult()

    for method in answers.methods:
        server.add_request_handler(method, types.RequestParams, answer)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    answers.logs.open()
    return MemoryServer(server, answers, threads)


class _LoopQueue:
    """Sends on the loop what other threads have to say."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, send: Callable[[], Awaitable[None]]) -> None:
        """Send something soon; may be called on any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start, send)

    async def drain(self) -> None:
        """Wait until everything is sent."""
        await asyncio.gather(*self._tasks)

    def _start(self, send: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(_deliver(send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _deliver(send: Callable[[], Awaitable[None]]) -> None:
    try:
        await send()
    except Exception:
        # The client has gone.
        return


def _read_request(context: _Context, queue: _LoopQueue) -> Request:
    def send_progress(done: int, total: int, label: str) -> None:
        queue.put(lambda: context.session.report_progress(done, total, label))

    peer = context.session.client_params
    name = peer.client_info.name if peer else ""
    wants_progress = (context.meta or {}).get("progress_token") is not None
    return Request(context.method, context.params or {}, name, send_progress if wants_progress else None)


def _log_sender(context: _Context, queue: _LoopQueue, of_request: bool) -> Callable[[Json], None]:
    def send(params: Json) -> None:
        fields = types.LoggingMessageNotificationParams.model_validate(params)
        notification = types.LoggingMessageNotification(params=fields)
        queue.put(lambda: context.session.send_notification(notification, context.request_id if of_request else None))

    return send
