"""The tools of the memories over MCP: made for each conversation, listed with their schemas, and called.

A session key names a conversation, such as ``agent:main:main`` or ``agent:main:telegram:group:7``.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mdrecall.config.load import find_current_folder
from mdrecall.errors import MemoryDisabled, RecallError, message_with_hint
from mdrecall.mcp_server.memories import Memories, ServedMemory, may_append
from mdrecall.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Json, ProtocolError, Request
from mdrecall.notes.repository import list_projects, name_project, project_of
from mdrecall.sessions.visibility import parse
from mdrecall.tools import toolset
from mdrecall.tools.toolset import FunctionTool, ToolAnswer, Toolset, ToolSpec

if TYPE_CHECKING:
    from mdrecall.memory import Memory
    from mdrecall.plugins import Slot

_log = logging.getLogger(__name__)
#: The tool that searches several memories at once, and those that read what it has found.
_SEARCH_TOOL, _APPEND_TOOL = "memory_search", "memory_append"
_READ_TOOLS = ("memory_get", "session_get")
#: Stands for every memory in a list of names; no memory can be called so.
_ALL_NAMES = "*"
#: A client may call a tool by a name of any length; the error quotes this much of it.
_MAX_NAME_CHARS = 80
#: Noted as the author of what a client appends that has not said its name.
_UNKNOWN_CLIENT = "an MCP client"
#: With the short name of a project, as much as a note has for who wrote a text.
_MAX_CLIENT_CHARS = 16

#: A program sets this in ``_meta`` of a call to get the object beside the text. Clients show a model the text, the
#: object or both, so by default there is only the text: all that a model needs, in less than half of the bytes.
STRUCTURED = "mdrecall/structured"

#: Makes the tools of a memory for a session key and the name of a client.
MakeTools: TypeAlias = Callable[["Memory", str, str], Toolset]


class Toolbox:
    """The tools of every memory, by the plugin in its slot; where there are several, ``agent`` says whose.

    Safe to use from several threads.
    """

    def __init__(self, memories: Memories, make_tools: MakeTools | None = None, *, read_only: bool = False) -> None:
        """``make_tools`` decides on the tools instead of the plugins; ``read_only`` leaves out all that write."""
        self._memories = memories
        self._make_tools = make_tools
        self._read_only = read_only
        self._limited: dict[str, Memory] = {}
        self._lock = threading.Lock()
        self._slots: dict[str, Slot] = {}
        self._is_closed = False

    def close(self) -> None:
        """Close what is open; may be called twice."""
        with self._lock:
            self._is_closed = True
            while self._slots:
                self._slots.popitem()[1].close()

    def list_tools(self, request: Request, session_key: str) -> Json:
        """Return the tools of all memories, each name once; a memory that cannot be opened hides no other."""
        specs: dict[str, ToolSpec] = {}
        failures: list[RecallError] = []
        for name in self._memories.names:
            try:
                for spec in self._specs(name, session_key):
                    specs.setdefault(spec.name, spec)
            except RecallError as error:
                _log.warning("The memory of %s cannot be used: %s", name, message_with_hint(error))
                failures.append(error)
        if len(failures) == len(self._memories.names):
            raise ProtocolError(INTERNAL_ERROR, toolset.message_with_action(failures[0])) from failures[0]
        tools = [
            {
                "name": spec.name,
                "description": spec.description,
                "inputSchema": _add_names(spec, self._memories.names),
                "annotations": {"readOnlyHint": not spec.writes, "openWorldHint": False},
            }
            for spec in specs.values()
        ]
        return {"tools": tools}

    def call_tool(self, request: Request, session_key: str) -> Json:
        tool, arguments = request.params["name"], dict(request.params.get("arguments") or {})
        try:
            author = (request.client or _UNKNOWN_CLIENT)[:_MAX_CLIENT_CHARS]
            if tool == _APPEND_TOOL:
                # What is written down says in which project, because it is shown unasked in no other.
                author = f"{author} in {name_project(project_of(find_current_folder()))}"
            answer = self._answer(tool, arguments, session_key, author)
        except RecallError as error:
            answer = toolset.error_answer(error)
        is_wanted = request.meta.get(STRUCTURED) is True or not answer.plain
        structured = {"structuredContent": answer.details} if is_wanted else {}
        content = {"type": "text", "text": answer.plain or answer.text}
        return {"content": [content], **structured, "isError": answer.is_error}

    def toolset(self, name: str, session_key: str, author: str = "") -> Toolset:
        """Return the tools of one memory in a conversation; ``author`` is the client that calls them."""
        from mdrecall.tools.notes import memory_tools

        memory, served = self.open(name), self._memories.describe(name)
        if self._make_tools:
            return self._make_tools(memory, session_key, author)
        if served.plugin == "memory-core":
            can_append = may_append(served.loaded)
            tools = Toolset(memory_tools(memory, session_key, can_append=can_append, author=author))
        else:
            tools = self._open_slot(name) if may_remember(session_key) else Toolset(())
        return Toolset(tool for tool in tools if self._offers(served, tool.spec))

    def _offers(self, served: ServedMemory, spec: ToolSpec) -> bool:
        """True if a tool is offered: each request of a coding agent pays for it, and memory_search finds the same."""
        is_spare = served.loaded.keeps_conversations and spec.name in ("sessions_search", "sessions_history")
        return not is_spare and not (self._read_only and spec.writes)

    def _open_slot(self, name: str) -> Toolset:
        """Return the tools of a plugin that is not that of the notes. It is opened once."""
        from mdrecall.plugins import open_slot

        with self._lock:
            if name not in self._slots and not self._is_closed:
                slot = self._slots[name] = open_slot(self._memories.describe(name).loaded)
                for diagnostic in slot.diagnostics:
                    _log.warning("%s %s", diagnostic.problem, diagnostic.hint)
            return self._slots[name].toolset if name in self._slots else Toolset(())

    def _specs(self, name: str, session_key: str) -> Sequence[ToolSpec]:
        """Return the tools of a memory, which need not be open where its settings alone decide on them."""
        from mdrecall.tools.notes import list_specs

        served = self._memories.describe(name)
        if self._make_tools or session_key or served.plugin != "memory-core":
            return self.toolset(name, session_key).specs
        specs = list_specs(served.loaded.settings, can_append=may_append(served.loaded))
        return [spec for spec in specs if self._offers(served, spec)]

    def _answer(self, tool: str, arguments: dict[str, Any], session_key: str, author: str) -> ToolAnswer:
        if names := self._pop_workspaces(tool, arguments, session_key):
            return self._search_several(names, arguments, session_key)
        tools = self.toolset(self._pop_memory_name(tool, arguments), session_key, author)
        if tool not in tools.names:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {tool[:_MAX_NAME_CHARS]}")
        return tools.call(tool, arguments)

    def _search_several(self, names: tuple[str, ...], arguments: dict[str, Any], session_key: str) -> ToolAnswer:
        from mdrecall.tools.notes import SEARCH, search_several

        # The first one says how the answer looks, because a memory that fails has no say in it.
        settings = self._memories.describe(names[0]).loaded.settings
        memories = {name: partial(self._open_notes, name) for name in names}
        search = FunctionTool(SEARCH, partial(search_several, memories, settings, session_key))
        return Toolset([search]).call(_SEARCH_TOOL, arguments)

    def _open_notes(self, name: str) -> "Memory":
        if self._memories.describe(name).plugin != "memory-core":
            raise MemoryDisabled("This memory has no notes to search.", hint="Use its own tools.")
        return self.open(name)

    def open(self, name: str) -> "Memory":
        """Return a memory as the project of this server's folder may see it: all of it in the folder of the notes."""
        from mdrecall.memory import limit_memory

        memory = self._memories.get(name)
        if name not in self._limited:
            self._limited[name] = limit_memory(memory, list_projects(find_current_folder(), memory.settings.workspace))
        return self._limited[name]

    def _pop_workspaces(self, tool: str, arguments: dict[str, Any], session_key: str) -> tuple[str, ...]:
        """Take ``workspaces`` out of the arguments of a search and return the memories that it names, each once."""
        if tool != _SEARCH_TOOL or not may_remember(session_key):
            return ()
        named = [name for name in toolset.read_texts(arguments, "workspaces") if name]
        arguments.pop("workspaces", None)
        if _ALL_NAMES in named:
            return self._memories.names
        return tuple(dict.fromkeys(self._memories.describe(name, "workspaces").name for name in named))

    def _pop_memory_name(self, tool: str, arguments: dict[str, Any]) -> str:
        """Take ``agent`` out of the arguments and return the memory that it names; without it, the default one.

        What a search of several memories has found is read by its ``workspace``.
        """
        if len(self._memories.names) == 1:
            return self._memories.default
        agent, workspace = toolset.read_text(arguments, "agent"), ""
        arguments.pop("agent", None)
        if tool in _READ_TOOLS:
            workspace = toolset.read_text(arguments, "workspace")
            arguments.pop("workspace", None)
        if workspace:
            return self._memories.describe(workspace, "workspace").name
        return self._memories.describe(agent or self._memories.default).name


def may_remember(session_key: str) -> bool:
    """True if a conversation has any memory: a sub-agent has none."""
    return parse(session_key).kind != "subagent"


def _add_names(spec: ToolSpec, names: tuple[str, ...]) -> Json:
    """Return the parameters of a tool with those that choose among several memories."""
    if len(names) == 1:
        return dict(spec.parameters)
    about = f"Whose memory. Default: {names[0]}. A path belongs to the agent that it was found with."
    one = {"type": "string", "enum": list(names)}
    more: dict[str, Any] = {"agent": one | {"description": about}}
    if spec.name == _SEARCH_TOOL:
        about = "Search these memories at once instead; * means all. Each result has the workspace that it is from."
        items = {"type": "string", "enum": [*names, _ALL_NAMES]}
        more["workspaces"] = {"type": "array", "items": items, "description": about}
    elif spec.name in _READ_TOOLS:
        more["workspace"] = one | {"description": "The workspace of the search result; overrides agent."}
    return {**spec.parameters, "properties": {**(spec.parameters.get("properties") or {}), **more}}
