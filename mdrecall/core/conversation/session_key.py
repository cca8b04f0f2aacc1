"""Parse session keys: who speaks, where, and whether the conversation may search and see private notes.

A *session key* is the name that OpenClaw gives a conversation. It is ``agent:<agent>:<rest>``, or only ``<rest>`` from
before agents had names. The rest is one of:

* ``main`` or the configured main key: the private conversation with the owner;
* ``direct:<peer>``, ``<channel>:direct:<peer>``, ``<channel>:<account>:direct:<peer>`` (``dm`` is ``direct``);
* ``<channel>:group:<id>``, ``<channel>:channel:<id>``, also with an account between (``room`` is ``group``);
* ``dashboard:<id>``: the owner at OpenClaw's own page; ``explicit:<id>``: a conversation that a program named itself;
* ``subagent:…``, ``cron:…``, ``acp:…``, ``hook:…``;

and any of these followed by ``:thread:<id>`` or ``:topic:<id>``. Upper and lower case are the same; blanks around
parts and empty parts are ignored.

OpenClaw parses keys in three places in three ways, and each of them takes an unknown key for a direct conversation.
Here:

* a key of any other form is ``unknown``, and unknown is never private;
* cron, hook, ACP and sub-agent sessions are not direct conversations: their chat type is ``unknown``. So is that of
  explicit ones, which only their entry can tell;
* ``subagent`` anywhere makes a sub-agent's key, not only at the beginning;
* if a key has both ``group`` and ``channel``, the first one decides;
* a direct key that has another form's word in its peer (``direct:x:group:y``) is unknown;
* a marker without what must follow it (``telegram:direct``, ``agent:x``) is unknown;
* a key without an agent belongs to no agent, not to the default one.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.types.transcripts import normalize_agent_id

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
#: The channel of a search without a session key.
LOCAL_CHANNEL = "cli"
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
    if "subagent" in rest:
        return parsed._replace(kind="subagent", peer=":".join(rest[rest.index("subagent") + 1 :]), thread="")
    if _OWN_RUNS.intersection(rest):
        return parsed
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


class Verdict(NamedTuple):
    """Whether a search is allowed, and the rule that decided it."""

    allowed: bool
    decided_by: str
    """The name of the rule or the default in the settings."""


def judge(scope: Mapping[str, Any], key: str) -> Verdict:
    """Decide whether a conversation may search: the first rule that matches its key decides, else the default.

    Every part of a match must apply: ``channel`` and ``chatType`` (``dm`` is ``direct``) in any case; ``keyPrefix`` to
    the key without ``agent:<id>:``, or to the whole key if the prefix begins with ``agent:`` itself; and
    ``rawKeyPrefix`` to the whole key. Sub-agents, cron jobs, hooks, ACP runs and unknown keys have no chat type and no
    channel.

    A search without a session key comes from a person at this machine, by the command line or Python. They can read
    the files anyway, so they may search, unless a rule for the channel ``cli`` denies it.
    """
    parsed = parse(key)
    is_local = not key.strip()
    for number, rule in enumerate(scope.get("rules") or ()):
        match = rule.get("match") or {}
        fits = _fits_local(match) if is_local else _fits(match, parsed)
        if fits:
            return Verdict(rule["action"] == "allow", f"{_SETTING}.rules[{number}]")
    if is_local:
        return Verdict(True, "no session key")
    return Verdict(scope.get("default", "allow") == "allow", f"{_SETTING}.default")


def explain_denial(verdict: Verdict, key: str) -> str:
    """Return a message that says why a search was denied and how to allow it."""
    parsed = parse(key)
    if not key.strip():
        return f"Searches without a session key are denied by {verdict.decided_by}. Change that rule to allow them."
    chat = parsed.chat_type if parsed.chat_type != "unknown" else parsed.kind
    kind = "a conversation of an unknown kind" if chat == "unknown" else f"a {chat} conversation"
    match = f'"match": {{"keyPrefix": "{parsed.rest or parsed.raw}"}}'
    return (
        f"Searches from {kind} are denied by {verdict.decided_by}. To allow them, add"
        f' {{"action": "allow", {match}}} to {_SETTING}.rules, before any rule that denies them.'
    )


def _fits_local(match: Mapping[str, str]) -> bool:
    """True if a rule is for the person at this machine: only one that names their channel is, not one for everybody."""
    return set(match) == {"channel"} and match["channel"].strip().lower() == LOCAL_CHANNEL


def _fits(match: Mapping[str, str], key: SessionKey) -> bool:
    channel, chat_type = _plain(match, "channel"), _plain(match, "chatType")
    if channel and channel != key.channel:
        return False
    if chat_type and {"dm": "direct"}.get(chat_type, chat_type) != key.chat_type:
        return False
    prefix, raw_prefix = _plain(match, "keyPrefix"), _plain(match, "rawKeyPrefix")
    compared = key.raw if prefix.startswith("agent:") else key.rest
    return compared.startswith(prefix) and key.raw.startswith(raw_prefix)


def _plain(match: Mapping[str, str], name: str) -> str:
    return match.get(name, "").strip().lower()
