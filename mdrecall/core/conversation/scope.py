"""Which conversations may search: the first rule that matches a session key decides, else the default.

A session key names a conversation; see ``session_key``. Every part of a match must apply: ``channel`` and ``chatType``
(``dm`` is ``direct``) in any case; ``keyPrefix`` to the key without ``agent:<id>:``, or to the whole key if the prefix
begins with ``agent:`` itself; and ``rawKeyPrefix`` to the whole key. Sub-agents, cron jobs, hooks, ACP runs and unknown
keys have no chat type and no channel.

A search without a session key comes from a person at this machine, by the command line or Python. They can read the
files anyway, so they may search, unless a rule for the channel ``cli`` denies it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mdrecall.core.conversation.session_key import SessionKey, parse

#: The channel of a search without a session key.
LOCAL_CHANNEL = "cli"

_SETTING = "memory.qmd.scope"


class Verdict(NamedTuple):
    """Whether a search is allowed, and the rule that decided it."""

    allowed: bool
    decided_by: str
    """The name of the rule or the default in the settings."""


def judge(scope: Mapping[str, Any], key: str) -> Verdict:
    """Decide whether a conversation may search."""
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
