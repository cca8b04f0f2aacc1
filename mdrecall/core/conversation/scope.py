"""Who may search: the first rule that fits a session key decides, else the default.

Every part of a match must fit: ``channel`` and ``chatType`` (``dm`` is ``direct``) without their case; ``keyPrefix``
against the key without ``agent:<id>:``, or against the whole key if it begins with ``agent:`` itself; and
``rawKeyPrefix`` against the whole key. Sub-agents, cron jobs, hooks, ACP runs and keys that are not understood have no
chat type and no channel.

Whoever asks without a session key is a person at this machine: the command line, or Python. They read the files
anyway, so they may search, unless a rule for the channel ``cli`` says otherwise.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mdrecall.core.conversation.session_key import SessionKey, parse

#: The channel of those who ask without a session key.
LOCAL_CHANNEL = "cli"

_SETTING = "memory.qmd.scope"


class Verdict(NamedTuple):
    """Whether a search is allowed, and what says so."""

    allowed: bool
    decided_by: str
    """The rule or the default, as a person finds it in the settings."""


def judge(scope: Mapping[str, Any], key: str) -> Verdict:
    """Whether a conversation may search."""
    understood = parse(key)
    is_local = not key.strip()
    for number, rule in enumerate(scope.get("rules") or ()):
        match = rule.get("match") or {}
        fits = _fits_local(match) if is_local else _fits(match, understood)
        if fits:
            return Verdict(rule["action"] == "allow", f"{_SETTING}.rules[{number}]")
    if is_local:
        return Verdict(True, "no session key")
    return Verdict(scope.get("default", "allow") == "allow", f"{_SETTING}.default")


def denial(verdict: Verdict, key: str) -> str:
    """What to tell whoever was denied."""
    understood = parse(key)
    if not key.strip():
        return f"Searches without a session key are denied by {verdict.decided_by}. Change that rule to allow them."
    chat = understood.chat_type if understood.chat_type != "unknown" else understood.kind
    kind = "a conversation of an unknown kind" if chat == "unknown" else f"a {chat} conversation"
    match = f'"match": {{"keyPrefix": "{understood.rest or understood.raw}"}}'
    return (
        f"The memory is not searched from {kind} (denied by {verdict.decided_by}). To allow it, add"
        f' {{"action": "allow", {match}}} to {_SETTING}.rules, before any rule that denies it.'
    )


def _fits_local(match: Mapping[str, str]) -> bool:
    """A rule for everyone is not one for the person at the machine: only their own channel names them."""
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
