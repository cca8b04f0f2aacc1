"""What tests reach a provider with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mdrecall.config.credentials import Access
from mdrecall.config.load import load
from tests.config import openclaw_home, write

NOW = 1_700_000_000.0
PAST, FUTURE = (NOW - 60) * 1000, (NOW + 60) * 1000

Reach: TypeAlias = Callable[..., Access]


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    """Access of a provider under a configuration, an environment and stored profiles."""

    def reached(
        provider: str,
        config: dict[str, Any] | None = None,
        *,
        env: dict[str, str] | None = None,
        profiles: object = None,
        uses_remote: bool = True,
        own: dict[str, Any] | None = None,
    ) -> Access:
        variables = {**openclaw_home(tmp_path, config or {}), **(env or {})}
        if own is not None:
            write(tmp_path / "own" / "mdrecall.json", own)
        if profiles is not None:
            write(tmp_path / ".openclaw" / "agents" / "main" / "agent" / "auth-profiles.json", profiles)
        credentials = load(env=variables, cwd=str(tmp_path)).credentials
        credentials._now = lambda: NOW
        return credentials.access(provider, uses_remote=uses_remote)

    return reached


def revealed(access: Access) -> list[str]:
    return [access.key.reveal()] if access.key else []


def stored(*profiles: dict[str, Any], provider: str = "openai", **more: Any) -> dict[str, Any]:
    """A file of profiles called ``a``, ``b`` and so on; each is a key of the provider unless it says otherwise."""
    named = {
        name: {"type": "api_key", "provider": provider, **entry}
        for name, entry in zip("abcdef", profiles, strict=False)
    }
    return {"version": 1, "profiles": named, **more}


def remote(**settings: Any) -> dict[str, Any]:
    return {"memorySearch": {"remote": settings}}


def models(provider: str, **settings: Any) -> dict[str, Any]:
    return {"models": {"providers": {provider: settings}}}
