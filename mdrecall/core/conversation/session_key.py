"""Parse session keys: who speaks, where, and whether private notes may be shown there.

A *session key* is the name that OpenClaw gives a conversation. It is ``agent:<agent>:<rest>``, or only ``<rest>`` from
before agents had names. The rest is one of:

* ``main`` or the configured main key: the private conversation with the owner;
* ``direct:<peer>``, ``<channel>:direct:<peer>``, ``<channel>:<account>:direct:<peer>`` (``dm`` is ``direct``);
* ``<channel>:group:<id>``, ``<channel>:channel:<id>``, also with an account between;
* ``subagent:…``, ``cron:…``, ``acp:…``, ``hook:…``;

and any of these followed by ``:thread:<id>`` or ``:topic:<id>``. Upper and lower case are the same; blanks around
parts and empty parts are ignored.

OpenClaw parses keys in three places in three ways, and each of them takes an unknown key for a direct conversation.
Here:

* a key of any other form is ``unknown``, and unknown is never private;
* cron, hook, ACP and sub-agent sessions are not direct conversations: their chat type is ``unknown``;
* ``subagent`` anywhere makes a sub-agent's key, not only at the beginning;
* if a key has both ``group`` and ``channel``, the first one decides;
* a direct key that has another form's word in its peer (``direct:x:group:y``) is unknown;
* a marker without what must follow it (``telegram:direct``, ``agent:x``) is unknown;
* a key without an agent belongs to no agent, not to the default one.
"""

from typing import Literal, NamedTuple, TypeAlias

from mdrecall.types.agents import normalize_agent_id

Kind: TypeAlias = Literal["direct", "group", "channel", "subagent", "cron", "acp", "hook", "unknown"]
ChatType: TypeAlias = Literal["direct", "group", "channel", "unknown"]

_CHATS: dict[str, Kind] = {"direct": "direct", "dm": "direct", "group": "group", "channel": "channel"}
_MACHINES: dict[str, Kind] = {"cron": "cron", "acp": "acp", "hook": "hook"}
_CHAT_TYPES: dict[Kind, ChatType] = {"direct": "direct", "group": "group", "channel": "channel"}
_THREADS = ("thread", "topic")
_MAIN = "main"
#: Words with a meaning of their own; a direct key with one of them in place of its peer is unknown.
_RESERVED = frozenset((*_CHATS, *_MACHINES, *_THREADS, "agent", "subagent"))
#: Only a channel and an account may precede the word for the kind of chat.
_MAX_BEFORE = 2


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
        return self.kind == "direct"

    def is_main_of(self, agent: str) -> bool:
        """True if it is an agent's main private conversation; a key without an agent counts as the agent's own."""
        return self.is_main and (not self.agent or self.belongs_to(agent))

    def belongs_to(self, agent: str) -> bool:
        """True if the key names this agent; a key without an agent belongs to none."""
        return bool(self.agent) and self.agent == normalize_agent_id(agent)


def parse(key: str, *, main_key: str = _MAIN) -> SessionKey:
    """Parse any text as a session key; ``main_key`` is a second name of the main session."""
    parts = _parts(key)
    agent, rest = "", parts
    if parts[:1] == ["agent"]:
        agent, rest = (normalize_agent_id(parts[1]), parts[2:]) if len(parts) > 2 else ("", [])
    base, thread = _without_thread(rest)
    parsed = SessionKey(":".join(parts), agent, ":".join(rest), "unknown", thread=thread)
    if base and base in ([_MAIN], _parts(main_key)) and not _RESERVED.intersection(base):
        return parsed._replace(kind="direct", is_main=not thread)
    return _classify(parsed, base)


def chat_type_of(key: str) -> ChatType:
    """Return the kind of chat of a key; an empty one is a person at this machine, so ``direct``."""
    return parse(key).chat_type if key.strip() else "direct"


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
    if "subagent" in base:
        run = base[base.index("subagent") + 1 :]
        return key._replace(kind="subagent", peer=":".join(run))
    if base and base[0] in _MACHINES:
        return key._replace(kind=_MACHINES[base[0]], peer=":".join(base[1:]))
    at = next((at for at, part in enumerate(base) if part in _CHATS), len(base))
    before, after = base[:at], base[at + 1 :]
    if at > _MAX_BEFORE or not after or _RESERVED.intersection(before):
        return key
    kind = _CHATS[base[at]]
    if kind == "direct" and _RESERVED.intersection(after):
        return key
    channel, account = (*before, "", "")[:2]
    return key._replace(kind=kind, channel=channel, account=account, peer=":".join(after))
