"""The section about memory in an agent's system prompt: it names only tools that the agent has."""

from collections.abc import Collection
from typing import Literal

Citations = Literal["auto", "on", "off"]

_TOPICS = "earlier work, decisions, dates, people, preferences or todos"


def cites(mode: str, chat_type: str) -> bool:
    """True if answers name their source: always, never, or with ``auto`` where one person talks with the agent."""
    return mode == "on" or (mode != "off" and chat_type == "direct")


def recall_section(*, tools: Collection[str], citations: str, chat_type: str) -> str:
    """Return the section ``Memory Recall``; empty if the agent has neither tool."""
    can_search, can_read = "memory_search" in tools, "memory_get" in tools
    if not (can_search or can_read):
        return ""
    steps = []
    if can_search:
        steps.append(f"run memory_search over MEMORY.md and memory/*.md before you answer anything about {_TOPICS}")
    if can_read:
        after = "then use memory_get" if can_search else f"use memory_get before you answer anything about {_TOPICS}"
        steps.append(f"{after} to read only the lines you need")
    advice = "; ".join(steps)
    if can_search and "session_get" in tools:
        advice += "; read a result in sessions/ with session_get"
    if {"sessions_search", "sessions_history"} <= set(tools):
        advice += "; for the exact words of a past conversation use sessions_search, then sessions_history"
    doubt = "If you are still unsure after that, say that you looked."
    if cites(citations, chat_type):
        source = "Name the source as `Source: <path#line>` where that helps the user to check."
    else:
        source = "Do not mention paths or line numbers unless the user asks for them."
    return f"## Memory Recall\n\n{advice[0].upper()}{advice[1:]}. {doubt}\n{source}\n"
