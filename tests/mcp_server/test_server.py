"""What a client gets: tools, answers and resources; with the SDK's own client, in one process."""

import asyncio
import json
import logging
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

import mcp_types as types
import pytest
from mcp import Client, MCPError

from mdrecall.errors import RecallError
from mdrecall.mcp_server.answers import PAGE
from mdrecall.mcp_server.http import MemoryServer, build_server
from mdrecall.mcp_server.memories import IndexRun, Memories, Selection, ServedMemory, open_served, select_memories
from mdrecall.mcp_server.tools import MakeTools
from mdrecall.memory import Memory
from mdrecall.tools.toolset import Tool, ToolAnswer, Toolset, ToolSpec, answer
from mdrecall.types.sync import ProgressCallback
from tests.mcp_server.servers import AS_OBJECT, Home, connect_pipes

T = TypeVar("T")
SUBAGENT = "agent:main:subagent:abc"


@pytest.fixture(autouse=True)
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client talks to mdrecall's own server on pipes, or to the SDK's where a test is for both."""
    if getattr(request, "param", "pipes") == "pipes":
        monkeypatch.setattr(sys.modules[__name__], "connect", lambda built: connect_pipes(built.answers))


#: Both servers are the same to a client; test_protocol.py compares them answer by answer.
both_servers = pytest.mark.parametrize("door", ["the SDK's server", "pipes"], indirect=True)


def connect(built: MemoryServer) -> Any:
    return built.server


def with_client(built: MemoryServer, act: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        failure: Exception | None = None
        async with Client(connect(built), **options) as client:
            try:
                return await act(client)
            except Exception as error:
                # Raised outside, where no task group wraps it.
                failure = error
        raise failure

    return asyncio.run(run())


def text_of(result: types.CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


class Slow:
    """A tool that tells when it was called, and answers when it is allowed to."""

    spec = ToolSpec("slow", "Waits.", {"type": "object", "properties": {}}, writes=True)

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        self.began.set()
        self.may_end.wait(20)
        return answer({"done": True})


def only(tool: Tool) -> MakeTools:
    return lambda memory, session_key, author: Toolset([tool])


def test_the_list_of_tools_is_short(home: Home) -> None:
    listed = with_client(home.server(), lambda client: client.list_tools()).tools
    sent = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    # About four characters of JSON are a token; every conversation pays for them.
    assert len(json.dumps({"tools": sent})) // 4 <= 500


@both_servers
def test_a_client_appends_with_its_name_and_finds_it_again(home: Home) -> None:
    async def act(client: Client) -> tuple[Any, Any]:
        asked = {"text": "Priya drinks oolong.", "file": "people/priya"}
        appended = await client.call_tool("memory_append", asked, meta=AS_OBJECT)
        return appended, await client.call_tool("memory_search", {"query": "oolong"}, meta=AS_OBJECT)

    info = types.Implementation(name="claude-code", version="2.1")
    appended, found = with_client(home.server(), act, mode="legacy", client_info=info)
    assert appended.structured_content["path"] == "memory/people/priya.md"
    assert text_of(appended) == "Appended to memory/people/priya.md#L1-L2."
    assert found.structured_content["results"][0]["path"] == "memory/people/priya.md"
    written = (home.workspace().path / "memory/people/priya.md").read_text()
    assert re.fullmatch(r"Priya drinks oolong\.\n<!-- by claude-code in [a-z0-9-]+-[0-9a-f]{8} -->\n", written)


@both_servers
def test_who_does_not_ask_for_the_object_gets_every_result_as_text_alone(home: Home) -> None:
    """Hosts show a model the text, the object or both: the snippets came twice in each answer."""
    for number in range(6):
        home.workspace().write(f"memory/2026-02-0{number + 1}.md", f"Walrus {number}. " + "The walrus likes ice. " * 40)

    async def act(client: Client) -> tuple[Any, Any]:
        asked = {"query": "walrus", "minScore": 0, "maxResults": 6}
        plain = await client.call_tool("memory_search", asked)
        return plain, await client.call_tool("memory_search", asked, meta=AS_OBJECT)

    plain, both = with_client(home.server(), act)
    assert plain.structured_content is None
    assert text_of(plain) == text_of(both)
    results = both.structured_content["results"]
    assert len(results) == 6
    assert all(result["citation"] in text_of(plain) for result in results)
    assert len(plain.model_dump_json()) < len(both.model_dump_json()) / 2


def test_a_tool_without_short_text_answers_with_its_json(home: Home) -> None:
    slow = Slow()
    slow.may_end.set()
    answered = with_client(home.server(make_tools=only(slow)), lambda client: client.call_tool("slow", {}))
    assert json.loads(text_of(answered)) == answered.structured_content == {"done": True}


@pytest.mark.parametrize("how", ["option", "setting"])
def test_a_server_that_only_reads_offers_no_tool_that_writes(home: Home, how: str) -> None:
    space = home.workspace()
    if how == "setting":
        space.configure("{mdrecall: {tools: {append: false}}}")

    async def act(client: Client) -> tuple[list[str], str]:
        return [tool.name for tool in (await client.list_tools()).tools], client.instructions or ""

    names, told = with_client(home.server(read_only=how == "option"), act, mode="legacy")
    assert names == ["memory_search", "memory_get"]
    assert "memory_append" not in told
    with pytest.raises(MCPError, match="Unknown tool: memory_append"):
        with_client(
            home.server(read_only=how == "option"), lambda client: client.call_tool("memory_append", {"text": "x"})
        )
    assert list(space.path.iterdir()) == []


@both_servers
def test_the_memory_files_are_resources_wherever_they_are(home: Home, tmp_path: Path) -> None:
    space = home.workspace()
    space.write("MEMORY.md", "# Lasting\n")
    space.write("memory/a b#c?.md", "strange name\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/plan.md").write_text("The plan.\n")
    space.configure(json.dumps({"memorySearch": {"extraPaths": [str(tmp_path / "elsewhere")]}}))

    async def act(client: Client) -> dict[str, str]:
        uris = [each.uri for each in (await client.list_resources()).resources]
        read = [(await client.read_resource(uri)).contents[0] for uri in uris]
        return {str(each.uri): each.text for each in read if isinstance(each, types.TextResourceContents)}

    assert with_client(home.server(), act) == {
        "mdrecall://main/MEMORY.md": "# Lasting\n",
        "mdrecall://main/memory/a%20b%23c%3F.md": "strange name\n",
        "mdrecall://main/?path=..%2F..%2Felsewhere%2Fplan.md": "The plan.\n",
    }


def test_a_resource_is_the_whole_file_however_long_its_lines_are(home: Home) -> None:
    text = "short\n" + "x" * 150_000 + "\n" + "line\n" * 30_000
    home.workspace().write("MEMORY.md", text)
    read = with_client(home.server(), lambda client: client.read_resource("mdrecall://main/MEMORY.md"))
    assert cast(types.TextResourceContents, read.contents[0]).text == text


@pytest.mark.parametrize(
    "uri",
    [
        "mdrecall://main/?path=..%2F..%2Fhome%2Fsecret.md",
        "mdrecall://main/../../home/secret.md",
        "mdrecall://main/%2Fetc%2Fpasswd",
        "mdrecall://other/MEMORY.md",
        "file:///etc/passwd",
        "mdrecall://[broken/x.md",
        "mdrecall://main\u2100/x.md",
    ],
)
def test_no_other_file_is_a_resource(home: Home, uri: str) -> None:
    home.workspace().write("MEMORY.md", "# Lasting\n")
    (home.workspace().home / "secret.md").write_text("secret\n")
    with pytest.raises(MCPError) as refused:
        with_client(home.server(), lambda client: client.read_resource(uri))
    assert refused.value.error.code == types.INVALID_PARAMS


def test_a_resource_shows_no_entry_of_another_project(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, bank = (tmp_path / name for name in ("shop", "bank"))
    text = f"# Lasting\n\n- Vera leads the shop. <!-- project: path:{shop} -->\n"
    home.workspace().write("MEMORY.md", text)

    def read(folder: Path) -> str:
        (folder / ".git").mkdir(parents=True)
        monkeypatch.chdir(folder)
        found = with_client(home.server(), lambda client: client.read_resource("mdrecall://main/MEMORY.md"))
        return cast(types.TextResourceContents, found.contents[0]).text

    assert "Vera" in read(shop)
    assert "Vera" not in read(bank)


def test_many_files_come_in_pages_and_each_once(home: Home) -> None:
    names = [f"memory/{number:04d}.md" for number in range(PAGE + 3)]
    for name in names:
        home.workspace().write(name, "note\n")

    async def act(client: Client) -> list[list[str]]:
        pages, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            pages.append([each.title or "" for each in page.resources])
            cursor = page.next_cursor
            if cursor is None:
                return pages

    pages = with_client(home.server(), act)
    assert [len(page) for page in pages] == [PAGE, 3]
    assert [name for page in pages for name in page] == names


@both_servers
@pytest.mark.parametrize(
    ("own", "of_request"),
    [("", SUBAGENT), (SUBAGENT, ""), (SUBAGENT, "agent:main:main")],
    ids=["request", "own", "both"],
)
def test_a_sub_agent_has_no_memory_at_all_and_no_request_changes_that(home: Home, own: str, of_request: str) -> None:
    home.workspace().write("MEMORY.md", "# Lasting\n")
    meta: Any = {"mdrecall/sessionKey": of_request}

    async def act(client: Client) -> tuple[int, int]:
        tools, resources = await client.list_tools(meta=meta), await client.list_resources(meta=meta)
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("memory_search", {"query": "x"}, meta=meta)
        with pytest.raises(MCPError, match="sub-agent"):
            await client.read_resource("mdrecall://main/MEMORY.md", meta=meta)
        return len(tools.tools), len(resources.resources)

    assert with_client(home.server(session_key=own), act) == (0, 0)


def several(home: Home) -> Selection:
    office, private = home.workspace("office"), home.workspace("private")
    office.write("MEMORY.md", "# Work\n\nThe walrus project.\n")
    private.write("MEMORY.md", "# Private\n\nThe walrus in the zoo.\n")
    return Selection(workspaces=(f"office={office.path}", f"private={private.path}"))


def test_of_several_memories_only_the_one_that_is_asked_for_is_opened(home: Home) -> None:
    built = home.server(several(home))
    read = with_client(built, lambda client: client.read_resource("mdrecall://private/MEMORY.md")).contents[0]
    assert "zoo" in cast(types.TextResourceContents, read).text
    assert home.opened == ["private"]


@pytest.mark.parametrize("session_key", ["", "agent:main:main"])
@pytest.mark.parametrize("broken", [("office",), ("private",), ("office", "private")], ids=" and ".join)
def test_a_memory_that_cannot_be_opened_hides_none_of_the_others(
    home: Home, broken: tuple[str, ...], session_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    def opens(place: ServedMemory) -> Memory:
        if place.name in broken:
            raise RecallError(f"The index of {place.name} is damaged.", hint="Build it anew.")
        return open_served(place)

    async def act(client: Client) -> tuple[list[str], list[str], str]:
        files = [each.uri for each in (await client.list_resources()).resources]
        asked = {"query": "walrus", "agent": broken[0]}
        said = text_of(await client.call_tool("memory_search", asked))
        return files, [each.name for each in (await client.list_tools()).tools], said

    with closing(build_server(Memories(select_memories(several(home), home.env), opens), session_key)) as built:
        if len(broken) == 2 and session_key:
            with pytest.raises(MCPError, match="The index of office is damaged"):
                with_client(built, act)
        else:
            files, tools, said = with_client(built, act)
            assert files == [f"mdrecall://{name}/MEMORY.md" for name in ("office", "private") if name not in broken]
            assert tools == ["memory_search", "memory_get", "memory_append"]
            assert f"The index of {broken[0]} is damaged." in said
    for name in broken:
        assert f"The memory of {name} cannot be used: The index of {name} is damaged. Build it anew." in caplog.text


def test_a_tool_without_arguments_takes_the_name_of_a_memory(home: Home) -> None:
    bare = Slow()
    bare.spec = ToolSpec("bare", "Takes nothing.", {"type": "object"})
    (tool,) = with_client(home.server(several(home), make_tools=only(bare)), lambda client: client.list_tools()).tools
    assert list(tool.input_schema["properties"]) == ["agent"]


class WatchStart:
    """The watching of a backend, which notes that it was started."""

    def __init__(self) -> None:
        self.started = threading.Event()

    def start(self) -> None:
        self.started.set()


class BrokenSync:
    """A backend whose first sync raises something."""

    def __init__(self, error: Exception) -> None:
        self.watch = WatchStart()
        self._error = error

    def sync(self, *, progress: ProgressCallback, stop: Callable[[], bool], **asked: object) -> None:
        raise self._error

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "problem", "logged"),
    [
        (
            ZeroDivisionError("a bug"),
            "Something unexpected went wrong; the log says more.",
            "The memory of main could not be brought up to date.",
        ),
        (
            RecallError("It is busy.", hint="Wait."),
            "It is busy. Wait.",
            "The memory of main is not up to date: It is busy. Wait.",
        ),
    ],
)
def test_files_are_watched_although_the_first_sync_failed(
    home: Home, caplog: pytest.LogCaptureFixture, error: Exception, problem: str, logged: str
) -> None:
    settings, backend = home.workspace().memory().settings, BrokenSync(error)
    served = select_memories(Selection(workspaces=(settings.workspace,)), home.env)
    memories = Memories(served, lambda served: Memory(settings, cast(Any, backend)))
    try:
        memories.get("main")
        assert backend.watch.started.wait(20)
        assert memories.index_run("main") == IndexRun(problem=problem)
    finally:
        memories.close()
        home.workspace().close()
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert record.getMessage() == logged
    assert (record.exc_info and record.exc_info[1]) == (None if isinstance(error, RecallError) else error)


def test_a_memory_that_cannot_be_watched_is_served_all_the_same(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared: list[Memory] = []
    is_shared = threading.Event()

    def share(memory: Memory) -> Callable[[], None]:
        shared.append(memory)
        is_shared.set()
        return lambda: None

    monkeypatch.setattr(Memory, "watch", lambda self: 1 / 0)
    served = select_memories(Selection(workspaces=(str(home.workspace().path),)), home.env)
    memories = Memories(served, share=share)
    try:
        opened = memories.get("main")
        assert is_shared.wait(20)
        assert shared == [opened]
    finally:
        memories.close()
    (record,) = [each for each in caplog.records if each.exc_info]
    assert record.getMessage() == "The files of main are not watched; each search checks for changes."


def test_closing_while_the_index_thread_is_being_started_does_not_fail(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is not running yet cannot be joined: closing at that moment raised a RuntimeError."""
    memories = home.server().answers.memories
    start = threading.Thread.start

    def close_then_start(thread: threading.Thread) -> None:
        if thread.name == "mdrecall-index":
            memories.close()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", close_then_start)
    assert memories.get(memories.default).settings
