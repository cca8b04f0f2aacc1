"""The name of an agent, as files, settings and session keys write it."""

import re

_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def normal_agent_id(agent_id: str) -> str:
    """An agent id as OpenClaw writes it: lower case, only letters, digits, ``_`` and ``-``, at most 64."""
    bare = agent_id.strip().lower()
    if _AGENT_ID.fullmatch(bare):
        return bare
    bare = re.sub(r"[^a-z0-9_-]+", "-", bare).strip("-")[:64]
    return bare or "main"
