"""The one place where the parts of the MCP server are put together: the answer to each method, as a plain object."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from mdrecall.engine.background import run_in_background
from mdrecall.errors import RecallError
from mdrecall.mcp_server.greeting import Greeting, instructions
from mdrecall.mcp_server.logs import LogNotifications
from mdrecall.mcp_server.memories import Memories
from mdrecall.mcp_server.prompts import Prompts
from mdrecall.mcp_server.protocol import INTERNAL_ERROR, Json, ProtocolError, Request
from mdrecall.mcp_server.resources import Resources
from mdrecall.mcp_server.sessions import Sessions, SessionTools
from mdrecall.mcp_server.toolbox import MakeTools, Toolbox

_log = logging.getLogger(__name__)


class Answers:
    """Answers the requests of clients, over pipes and over HTTP alike; safe to use from several threads."""

    def __init__(
        self, memories: Memories, session_key: str = "", make_tools: MakeTools | None = None, *, read_only: bool = False
    ) -> None:
        """``make_tools`` decides on the tools instead of the plugins in the memory slots.

        ``read_only`` leaves out every tool that writes.
        """
        self.memories = memories
        self.logs = LogNotifications(_redact)
        self._session_tools = SessionTools(read_only=read_only)
        sessions = Sessions(session_key)
        list_specs = None if make_tools else self._session_tools.list_specs
        toolbox = Toolbox(memories, sessions, make_tools or self._session_tools, list_specs)
        resources, prompts = Resources(memories, sessions), Prompts(memories, sessions, toolbox)
        can_append = memories.can_append and not read_only
        about = instructions(memories.names, memories.plugins, can_append=can_append)
        self.greeting = Greeting(about if sessions.has_memory else "")
        self.methods: Mapping[str, Callable[[Request], Json]] = {
            "tools/list": toolbox.list_tools,
            "tools/call": toolbox.call_tool,
            "resources/list": resources.list_resources,
            "resources/templates/list": resources.list_templates,
            "resources/read": resources.read_resource,
            "prompts/list": prompts.list_prompts,
            "prompts/get": prompts.get_prompt,
        }

    def answer(self, request: Request) -> Json:
        """Return the result of a request, or raise ``ProtocolError``; this may take as long as a search does."""
        try:
            result = self.methods[request.method](request)
        except ProtocolError:
            raise
        except BaseException as bug:
            # No signal reaches the threads that this runs on: what exits here is code that should not.
            _log.exception("The answer to %s failed.", request.method)
            message = "Something unexpected went wrong in the server; its log says more."
            raise ProtocolError(INTERNAL_ERROR, message) from bug
        if request.method == "tools/list":
            # The client will use the tools soon.
            run_in_background(self._warm_up, name="mdrecall-warm-up")
        return result

    def _warm_up(self) -> None:
        """Open the first memory."""
        # The first request that needs the memory reports what is wrong with it.
        with suppress(RecallError):
            self.memories.get(self.memories.default)

    def close(self) -> None:
        """Close everything that is open; may be called twice."""
        self.logs.close()
        self._session_tools.close()
        self.memories.close()


def _redact(text: str) -> str:
    from mdrecall.core.redact import redact

    return redact(text)
