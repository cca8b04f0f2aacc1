"""Session keys, and who may see which conversation.

A *session key* is the name that OpenClaw gives a conversation. It is ``agent:<agent>:<rest>``, or only ``<rest>`` from
before agents had names. The rest is one of:

* ``main`` or the configured main key: the private conversation with the owner;
* ``direct:<peer>``, ``<channel>:direct:<peer>``, ``<channel>:<account>:direct:<peer>`` (``dm`` is ``direct``);
* ``<channel>:group:<id>``, ``<channel>:channel:<id>``, also with an account between (``room`` is ``group``);
* ``dashboard:<id>``: the owner at OpenClaw's own page; ``explicit:<id>``: a conversation that a program named itself;
* ``subagent:…``, ``cron:…``, ``acp:…``, ``hook:…``, which are not direct conversations;

and any of these followed by ``:thread:<id>`` or ``:topic:<id>``. Upper and lower case are the same; blanks around
parts and empty parts are ignored. A key of any other form is ``unknown``, and unknown is never private: OpenClaw takes
it for a direct conversation. If a key has both ``group`` and ``channel``, the first one decides; ``subagent`` anywhere
makes a sub-agent's key; a key without an agent belongs to no agent.

By default a conversation sees the other conversations of its agent only if both are *private*: held with one person and
known to be so. Every other conversation sees only itself: a group or channel, because all its members would read what
was said elsewhere; a sub-agent, a scheduled job or a hook, because its task may come from anybody; and one of unknown
kind. Where each sender has a conversation of their own, private conversations of different people are apart too. With
``"openclaw"`` the rules are OpenClaw's own (``tools.sessions.visibility``, ``tools.agentToAgent``). Who has no session
key is a person at this machine, or a program that they started: they see all of their agent.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.config.layers import normalize_agent_id

Kind: TypeAlias = Literal[
    "direct", "dashboard", "explicit", "group", "channel", "subagent", "cron", "acp", "hook", "unknown"
]
ChatType: TypeAlias = Literal["direct", "group", "channel", "unknown"]

_CHATS: dict[str, Kind] = {"direct": "direct", "dm": "direct", "group": "group", "channel": "channel", "room": "group"}
#: Words that a key begins with, and that say everything about its kind.
_FIRST: dict[str, Kind] = {
    "cron": "cron", "acp": "acp", "hook": "hook", "dashboard": "dashboard", "explicit": "explicit"
}  # fmt: skip
_CHAT_TYPES: dict[Kind, ChatType] = {
    "direct": "direct", "dashboard": "direct", "group": "group", "channel": "channel"
}  # fmt: skip
_THREADS = ("thread", "topic")
_MAIN = "main"
#: Words with a meaning of their own; a direct key with one of them in place of its peer is unknown.
_RESERVED = frozenset((*_CHATS, *_FIRST, *_THREADS, "agent", "subagent"))
#: OpenClaw adds these to the key of a conversation for runs of its own, which are not that conversation.
_OWN_RUNS = frozenset(("active-memory", "heartbeat", "node", "internal-session-effects"))
#: Only a channel and an account may precede the word for the kind of chat.
_MAX_BEFORE = 2
_SETTING = "memory.qmd.scope"


class SessionKey(NamedTuple):
    """A parsed session key; what it does not contain is empty."""

    raw: str
    """The key in lower case without empty parts, the same for every spelling of a key."""
    agent: str
    """The normalised id; empty if the key names no agent."""
    rest: str
    """What follows ``agent:<id>:``, with any thread."""
    kind: Kind
    channel: str = ""
    account: str = ""
    peer: str = ""
    """The person, group, channel, job or run."""
    thread: str = ""
    is_main: bool = False

    @property
    def chat_type(self) -> ChatType:
        """The kind of chat, for scopes and citations."""
        return _CHAT_TYPES.get(self.kind, "unknown")

    @property
    def is_private(self) -> bool:
        """True if private notes may be shown: only in a conversation that is known to be with one person."""
        return self.kind in ("direct", "dashboard")

    @property
    def may_be_shared(self) -> bool:
        """True if several people may take part: it is a group, or of a form that says nothing about that."""
        is_own_run = bool(_OWN_RUNS.intersection(self.rest.split(":")))
        return self.kind in ("group", "channel") or (self.kind == "unknown" and not is_own_run)

    def is_private_of(self, agent: str) -> bool:
        """True if it is a private conversation of an agent; a key without an agent counts as the agent's own."""
        return self.is_private and (not self.agent or self.belongs_to(agent))

    def is_main_of(self, agent: str) -> bool:
        """True if it is an agent's main private conversation."""
        return self.is_main and self.is_private_of(agent)

    def belongs_to(self, agent: str) -> bool:
        """True if the key names this agent; a key without an agent belongs to none."""
        return bool(self.agent) and self.agent == normalize_agent_id(agent)


def parse(key: str) -> SessionKey:
    """Parse any text as a session key."""
    parts = _parts(key)
    agent, rest = "", parts
    if parts[:1] == ["agent"]:
        agent, rest = (normalize_agent_id(parts[1]), parts[2:]) if len(parts) > 2 else ("", [])
    base, thread = _without_thread(rest)
    parsed = SessionKey(":".join(parts), agent, ":".join(rest), "unknown", thread=thread)
    if "subagent" in rest:
        return parsed._replace(kind="subagent", peer=":".join(rest[rest.index("subagent") + 1 :]), thread="")
    if _OWN_RUNS.intersection(rest):
        return parsed
    if base == [_MAIN]:
        return parsed._replace(kind="direct", is_main=not thread)
    return _classify(parsed, base)


def chat_type_of(key: str) -> ChatType:
    """Return the kind of chat of a key; an empty one is a person at this machine, so ``direct``."""
    return parse(key).chat_type if key.strip() else "direct"


def cites(mode: str, chat_type: str) -> bool:
    """True if answers name their source: always, never, or with ``auto`` where one person talks with the agent."""
    return mode == "on" or (mode != "off" and chat_type == "direct")


def _parts(key: str) -> list[str]:
    return [part.lower() for part in map(str.strip, key.split(":")) if part]


def _without_thread(rest: list[str]) -> tuple[list[str], str]:
    """Split a key into the conversation and its thread; the last marker that is followed by something counts."""
    for at in range(len(rest) - 2, 0, -1):
        if rest[at] in _THREADS:
            return rest[:at], ":".join(rest[at + 1 :])
    return rest, ""


def _classify(key: SessionKey, base: list[str]) -> SessionKey:
    """Return the key with its kind and peer; unchanged if it has none of the forms."""
    if base and base[0] in _FIRST:
        kind, peer = _FIRST[base[0]], base[1:]
        if kind in ("dashboard", "explicit") and (not peer or _RESERVED.intersection(peer)):
            return key
        return key._replace(kind=kind, peer=":".join(peer))
    at = next((at for at, part in enumerate(base) if part in _CHATS), len(base))
    before, after = base[:at], base[at + 1 :]
    if at > _MAX_BEFORE or not after or _RESERVED.intersection(before):
        return key
    kind = _CHATS[base[at]]
    if kind == "direct" and _RESERVED.intersection(after):
        return key
    channel, account = (*before, "", "")[:2]
    return key._replace(kind=kind, channel=channel, account=account, peer=":".join(after))


def explain_denial(scope: Mapping[str, Any], key: str) -> str:
    """Return why a conversation may not search and how to allow it; empty if it may.

    The first rule that matches its key decides, else the default. Every part of a match must apply: ``channel`` and
    ``chatType`` (``dm`` is ``direct``) in any case; ``keyPrefix`` to the key without ``agent:<id>:``, or to the whole
    key if the prefix begins with ``agent:`` itself; and ``rawKeyPrefix`` to the whole key. Sub-agents, cron jobs,
    hooks, ACP runs and unknown keys have no chat type and no channel.

    A search without a session key comes from a person at this machine, by the command line or Python. They can read
    the files anyway, so they may search.
    """
    parsed = parse(key)
    rules = enumerate(scope.get("rules") or ())
    fitting = ((n, rule["action"]) for n, rule in rules if _fits(rule.get("match") or {}, parsed))
    number, action = next(fitting, (None, scope.get("default", "allow")))
    if action == "allow" or not key.strip():
        return ""
    decided_by = f"{_SETTING}.default" if number is None else f"{_SETTING}.rules[{number}]"
    chat = parsed.chat_type if parsed.chat_type != "unknown" else parsed.kind
    kind = "a conversation of an unknown kind" if chat == "unknown" else f"a {chat} conversation"
    match = f'"match": {{"keyPrefix": "{parsed.rest or parsed.raw}"}}'
    return (
        f"Searches from {kind} are denied by {decided_by}. To allow them, add"
        f' {{"action": "allow", {match}}} to {_SETTING}.rules, before any rule that denies them.'
    )


def _fits(match: Mapping[str, str], key: SessionKey) -> bool:
    names = ("channel", "chatType", "keyPrefix", "rawKeyPrefix")
    channel, chat_type, prefix, raw_prefix = (match.get(name, "").strip().lower() for name in names)
    fits_chat = channel in ("", key.channel) and {"dm": "direct"}.get(chat_type, chat_type) in ("", key.chat_type)
    compared = key.raw if prefix.startswith("agent:") else key.rest
    return fits_chat and compared.startswith(prefix) and key.raw.startswith(raw_prefix)


#: Why a conversation is hidden from another; empty if it is not.
Hidden: TypeAlias = Literal[
    "", "other agent", "other person", "shared requester", "restricted requester", "shared source", "restricted source",
    "not its own", "not in its tree",
]  # fmt: skip
Audience: TypeAlias = Literal["private", "shared", "restricted"]
#: Every audience, the strictest last.
AUDIENCES: tuple[Audience, ...] = ("private", "shared", "restricted")

_AUDIENCE_OF: dict[str, Audience] = {"direct": "private", "dm": "private", "group": "shared", "channel": "shared"}
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
    def strictness(self) -> int:
        """The place of its audience among all, the strictest last."""
        return AUDIENCES.index(self.audience)

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
    is_typed = bool(chat_type.strip()) and _AUDIENCE_OF.get(chat_type.strip().lower()) != "private"
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
    by_type = _AUDIENCE_OF.get(chat_type.strip().lower(), "restricted") if chat_type.strip() else None
    if key.kind in ("group", "channel"):
        return "shared"
    if key.is_private:
        return by_type or "private"
    return (key.kind == "explicit" and by_type) or "restricted"


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
