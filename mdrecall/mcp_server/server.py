"""The one place where the parts of the MCP server are put together."""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server

import mdrecall
from mdrecall.aio import Threads
from mdrecall.errors import RecallError
from mdrecall.mcp_server.greeting import ABOUT, instructions
from mdrecall.mcp_server.logs import LogNotifications
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.prompts import Prompts
from mdrecall.mcp_server.resources import Resources
from mdrecall.mcp_server.sessions import Sessions, SessionTools
from mdrecall.mcp_server.toolbox import MakeTools, Toolbox


class MemoryServer(NamedTuple):
    """The SDK's server with everything that it uses and that has to be closed."""

    server: Server[Any]
    memories: Memories
    threads: Threads
    in_flight: "InFlight"
    logs: LogNotifications
    session_tools: SessionTools

    async def warm_up(self) -> None:
        """Open the first memory once the client has been greeted, so that the greeting does not wait for it."""
        await self.in_flight.greeted.wait()
        # The first request that needs the memory reports what is wrong with it.
        with suppress(RecallError):
            await self.threads.call(lambda: self.memories.get(self.memories.default))

    def close(self) -> None:
        """Close everything that is open; may be called twice."""
        self.logs.close()
        self.threads.release()
        self.session_tools.close()
        self.memories.close()


class InFlight:
    """Counts the requests that are being answered."""

    def __init__(self) -> None:
        self.count = 0
        self.greeted = asyncio.Event()
        """Set once a request has been answered."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        self.count += 1
        try:
            return await call_next(ctx)
        finally:
            self.count -= 1
            self.greeted.set()


def build_server(
    memories: Memories, session_key: str = "", make_tools: MakeTools | None = None, *, read_only: bool = False
) -> MemoryServer:
    """Return a server for some memories; ``make_tools`` decides on the tools instead of the plugins in their slots.

    ``read_only`` leaves out every tool that writes.
    """
    session_tools = SessionTools(read_only=read_only)
    threads, sessions, in_flight = Threads(), Sessions(session_key), InFlight()
    toolbox = Toolbox(memories, sessions, threads, make_tools or session_tools)
    resources = Resources(memories, sessions, threads)
    prompts = Prompts(memories, sessions, threads, toolbox)
    server: Server[Any] = Server(
        "mdrecall",
        version=mdrecall.__version__,
        title="mdrecall",
        description=ABOUT,
        instructions=_instruct(memories, read_only=read_only) if sessions.has_memory else None,
        # No tool takes an argument from a header, which is all that the SDK would look for in a schema.
        get_tool_input_schema=lambda name: None,
        on_list_tools=toolbox.on_list,
        on_call_tool=toolbox.on_call,
        on_list_resources=resources.on_list,
        on_list_resource_templates=resources.on_templates,
        on_read_resource=resources.on_read,
        on_list_prompts=prompts.on_list,
        on_get_prompt=prompts.on_get,
    )
    logs = LogNotifications(_redact)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, logs.on_set_level)
    server.middleware.extend([in_flight, logs.during_request])
    logs.open()
    return MemoryServer(server, memories, threads, in_flight, logs, session_tools)


def _instruct(memories: Memories, *, read_only: bool) -> str:
    return instructions(memories.names, memories.plugins, can_append=memories.can_append and not read_only)


def _redact(text: str) -> str:
    from mdrecall.core.redact import redact

    return redact(text)
