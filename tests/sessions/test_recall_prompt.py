"""What the system prompt says of the memory: in step with the tools there are and with what answers will cite."""

import pytest

from mdrecall.sessions.messages import recall_section
from mdrecall.sessions.visibility import cites, parse

BOTH = ("memory_get", "memory_search", "exec")
SEARCH = (
    "Run memory_search over MEMORY.md and memory/*.md before you answer anything about earlier work, decisions, dates,"
    " people, preferences or todos"
)
GET = (
    "Use memory_get before you answer anything about earlier work, decisions, dates, people, preferences or todos to"
    " read only the lines you need"
)
STEPS = {
    BOTH: f"{SEARCH}; then use memory_get to read only the lines you need.",
    ("memory_search",): f"{SEARCH}.",
    ("memory_get",): f"{GET}.",
}
DOUBT = "If you are still unsure after that, say that you looked."
CITED = "Name the source as `Source: <path#line>` where that helps the user to check."
BARE = "Do not mention paths or line numbers unless the user asks for them."
CHATS = ("direct", "group")
CITES = {("on", chat) for chat in CHATS} | {("auto", "direct")}


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("mode", ["auto", "on", "off"])
@pytest.mark.parametrize("tools", STEPS)
def test_the_section_names_the_tools_there_are_and_asks_for_a_source_where_answers_have_one(
    tools: tuple[str, ...], mode: str, chat: str
) -> None:
    last = CITED if (mode, chat) in CITES else BARE
    said = recall_section(tools=tools, citations=mode, chat_type=chat)
    assert said == f"## Memory Recall\n\n{STEPS[tools]} {DOUBT}\n{last}\n"


def test_tools_for_conversations_are_named_where_they_are() -> None:
    tools = ("memory_search", "memory_get", "session_get", "sessions_search", "sessions_history")
    said = recall_section(tools=tools, citations="on", chat_type="direct")
    assert "in sessions/ with session_get; for the exact words" in said
    assert "use sessions_search, then sessions_history. If you are" in said


@pytest.mark.parametrize("tools", [(), ("exec", "memory_store")])
def test_without_a_tool_for_it_nothing_is_said(tools: tuple[str, ...]) -> None:
    assert recall_section(tools=tools, citations="on", chat_type="direct") == ""


@pytest.mark.parametrize(
    ("key", "cited"),
    [
        ("agent:main:main", True),
        ("agent:main:telegram:group:7", False),
        ("agent:main:subagent:x", False),
        ("what is this", False),
    ],
)
def test_left_to_itself_an_answer_names_its_source_only_where_one_person_is_known_to_read_it(
    key: str, cited: bool
) -> None:
    assert cites("auto", parse(key).chat_type) is cited
