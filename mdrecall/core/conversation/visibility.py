"""Who may see which conversation.

By default a conversation sees the other conversations of its agent only if both are *private*: held with one person and
known to be so. Every other conversation sees only itself: a group or channel, because all its members would read what
was said elsewhere; a sub-agent, a scheduled job or a hook, because its task may come from anybody; and one of unknown
kind. Where each sender has a conversation of their own, private conversations of different people are apart too.

With ``"openclaw"`` the rules are OpenClaw's own (``tools.sessions.visibility``, ``tools.agentToAgent``).

Who has no session key is a person at this machine, or a program that they started: they see all of their agent.
"""

from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.core.conversation.session_key import SessionKey, parse
from mdrecall.types.transcripts import normalize_agent_id

#: Why a conversation is hidden from another; empty if it is not.
Hidden: TypeAlias = Literal[
    "", "other agent", "other person", "shared requester", "restricted requester", "shared source", "restricted source",
    "not its own", "not in its tree",
]  # fmt: skip
Audience: TypeAlias = Literal["private", "shared", "restricted"]
#: Every audience, the strictest last.
AUDIENCES: tuple[Audience, ...] = ("private", "shared", "restricted")

_CHAT_TYPES: dict[str, Audience] = {"direct": "private", "dm": "private", "group": "shared", "channel": "shared"}
_OWNER = ("", "", "")
_WITHHELD: dict[Audience, str] = {
    "private": "Conversations that are not private, or not known to be, were left out",
    "shared": "Several people take part in this conversation, so no other conversation was searched",
    "restricted": "This conversation is not known to be private, so no other conversation was searched",
}
_WITHHELD_BY_OPENCLAW = "Conversations that tools.sessions.visibility or tools.agentToAgent hides were left out"


class Rules(NamedTuple):
    """The settings that decide what is visible."""

    agent: str
    """The agent whose conversations are asked for."""
    by_openclaw: bool = False
    """True if OpenClaw's rules count instead of mdrecall's."""
    one_person: bool = True
    """True if all private conversations of the agent are with the same person."""
    visibility: str = "all"
    """``self``, ``tree``, ``agent`` or ``all``; only with ``by_openclaw``."""
    agents_see_each_other: bool = True
    allowed_agents: tuple[str, ...] = ()
    """Patterns of the agents that may see each other; if empty, all."""


class Party(NamedTuple):
    """A conversation as one that asks, or as one that is asked for."""

    key: SessionKey
    agent: str
    """The agent of its key; that of the memory if the key names none."""
    audience: Audience
    person: tuple[str, str, str] = _OWNER
    """The person of a private conversation, by channel, account and peer; all empty for the owner of the agent."""
    parent: SessionKey | None = None
    """The key of the conversation that began it."""
    is_person: bool = False
    """True if there is no session key: a person at this machine asks."""

    @property
    def name(self) -> str:
        """The key without its agent, the same for every spelling; empty if it is not known."""
        return self.key.rest


def read_party(
    session_key: str, agent: str, *, chat_type: str = "", parent_key: str = "", is_owners: bool = False
) -> Party:
    """Return a conversation from its key and what else is known; of a key and a chat type the stricter counts.

    ``is_owners`` marks a conversation that has no key and yet is known to be the owner's, as one with a coding agent.
    """
    key = parse(session_key)
    audience: Audience = "private" if is_owners and not session_key else _find_audience(key, chat_type)
    person = (key.channel, key.account, key.peer) if key.kind == "direct" else _OWNER
    parent = parse(parent_key) if parent_key else None
    own_agent = key.agent or normalize_agent_id(agent)
    return Party(key, own_agent, audience, person, parent, not session_key.strip())


def may_be_shared(session_key: str, chat_type: str) -> bool:
    """True if several people may take part in a conversation, by its key or its chat type."""
    is_typed = bool(chat_type.strip()) and _CHAT_TYPES.get(chat_type.strip().lower()) != "private"
    return is_typed or parse(session_key).may_be_shared


def why_hidden(requester: Party, source: Party, rules: Rules) -> Hidden:
    """Return why a conversation may not see another; empty if it may."""
    if requester.is_person:
        return ""
    is_same_agent = requester.agent == source.agent == normalize_agent_id(rules.agent)
    is_itself = bool(source.name) and source.name == requester.name and is_same_agent
    if rules.by_openclaw:
        return "" if is_itself else _why_hidden_in_openclaw(requester, source, rules, is_same_agent)
    if not is_same_agent:
        return "other agent"
    if is_itself:
        return ""
    if requester.audience != "private":
        return "shared requester" if requester.audience == "shared" else "restricted requester"
    if source.audience != "private":
        return "shared source" if source.audience == "shared" else "restricted source"
    return "" if rules.one_person or requester.person == source.person else "other person"


def explain_withheld(requester: Party, rules: Rules) -> str:
    """Return a sentence for an answer from which conversations were withheld; it says nothing about those."""
    if rules.by_openclaw:
        return f"{_WITHHELD_BY_OPENCLAW}."
    if requester.agent != normalize_agent_id(rules.agent):
        return "Conversations of other agents were left out."
    if requester.audience == "private" and not rules.one_person:
        return "Conversations with other people, and those that are not known to be private, were left out."
    return f"{_WITHHELD[requester.audience]}."


def _find_audience(key: SessionKey, chat_type: str) -> Audience:
    by_type = _CHAT_TYPES.get(chat_type.strip().lower(), "restricted") if chat_type.strip() else None
    if key.kind in ("group", "channel"):
        return "shared"
    if key.is_private:
        return by_type or "private"
    return by_type or "restricted" if key.kind == "explicit" else "restricted"


def _why_hidden_in_openclaw(requester: Party, source: Party, rules: Rules, is_same_agent: bool) -> Hidden:
    if not is_same_agent:
        agents = (requester.agent, source.agent)
        patterns = [pattern.strip().lower() for pattern in rules.allowed_agents]
        may = all(not patterns or any(fnmatchcase(agent, pattern) for pattern in patterns) for agent in agents)
        return "" if rules.visibility == "all" and rules.agents_see_each_other and may else "other agent"
    if rules.visibility == "self":
        return "not its own"
    parent = source.parent.rest if source.parent else ""
    is_in_tree = requester.key.is_main or (bool(parent) and parent == requester.name)
    return "" if rules.visibility != "tree" or is_in_tree else "not in its tree"
