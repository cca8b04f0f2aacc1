"""The id of an agent, as it appears in files, settings and session keys."""

import re

from mdrecall.patterns import compile_later

_AGENT_ID = compile_later(r"[a-z0-9][a-z0-9_-]{0,63}")


def normalize_agent_id(agent_id: str) -> str:
    """Return an agent id as OpenClaw writes it: at most 64 lower-case letters, digits, ``_`` and ``-``."""
    bare = agent_id.strip().lower()
    if _AGENT_ID.fullmatch(bare):
        return bare
    bare = re.sub(r"[^a-z0-9_-]+", "-", bare).strip("-")[:64]
    return bare or "main"
