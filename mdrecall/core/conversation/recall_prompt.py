"""What an agent's system prompt says about its memory, in step with what the tools will do."""

from collections.abc import Collection
from typing import Literal

Citations = Literal["auto", "on", "off"]

_WHAT = "earlier work, decisions, dates, people, preferences or todos"


def cites(mode: str, chat_type: str) -> bool:
    """Whether answers name their source: always, never, or (``auto``) where one person talks with the agent."""
    return mode == "on" or (mode != "off" and chat_type == "direct")


def recall_section(*, tools: Collection[str], citations: str, chat_type: str) -> str:
    """The section ``Memory Recall``; empty if the agent has neither tool."""
    can_search, can_read = "memory_search" in tools, "memory_get" in tools
    if not (can_search or can_read):
        return ""
    steps = []
    if can_search:
        steps.append(f"run memory_search over MEMORY.md and memory/*.md before you answer anything about {_WHAT}")
    if can_read:
        after = "then use memory_get" if can_search else f"use memory_get before you answer anything about {_WHAT}"
        steps.append(f"{after} to read only the lines you need")
    said = "; ".join(steps)
    doubt = "If you are still unsure after that, say that you looked."
    if cites(citations, chat_type):
        source = "Name the source as `Source: <path#line>` where that helps the user to check."
    else:
        source = "Do not mention paths or line numbers unless the user asks for them."
    return f"## Memory Recall\n\n{said[0].upper()}{said[1:]}. {doubt}\n{source}\n"
