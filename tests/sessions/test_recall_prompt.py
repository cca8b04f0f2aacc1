"""What the system prompt says of the memory: in step with the tools there are and with what answers will cite."""

import re

import pytest

from mdrecall.sessions.messages import recall_section
from mdrecall.sessions.visibility import cites, parse

SESSIONS = ("sessions_search", "sessions_history")


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        (("memory_get", "memory_search", "exec"), ["memory_search", "memory_get"]),
        (("memory_search", SESSIONS[0]), ["memory_search"]),
        (("memory_get", "session_get"), ["memory_get"]),
        (("memory_search", "session_get", *SESSIONS), ["memory_search", "session_get", *SESSIONS]),
        (("exec", "memory_store"), []),
    ],
)
def test_the_section_names_the_tools_there_are_in_the_order_of_their_use(
    tools: tuple[str, ...], named: list[str]
) -> None:
    said = recall_section(tools=tools, citations="on", chat_type="direct")
    assert re.findall(r"\w+_(?:search|get|history)", said) == named
    assert bool(said) is bool(named)


@pytest.mark.parametrize(
    ("mode", "key", "cited"),
    [
        ("on", "agent:main:telegram:group:7", True),
        ("off", "agent:main:main", False),
        ("auto", "agent:main:main", True),
        ("auto", "agent:main:telegram:group:7", False),
        ("auto", "agent:main:subagent:x", False),
        ("auto", "what is this", False),
    ],
)
def test_left_to_itself_an_answer_names_its_source_only_where_one_person_is_known_to_read_it(
    mode: str, key: str, cited: bool
) -> None:
    chat = parse(key).chat_type
    assert cites(mode, chat) is cited
    assert ("Source: <path#line>" in recall_section(tools=["memory_get"], citations=mode, chat_type=chat)) is cited
