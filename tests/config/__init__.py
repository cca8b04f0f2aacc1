"""Tests of the configuration, and the few helpers that put a home folder together."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import Loaded, load
from mdrecall.errors import ConfigError


def write(path: Path, content: object) -> Path:
    """Put a configuration file there: text as it is, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def openclaw_home(home: Path, content: object) -> dict[str, str]:
    """A home with OpenClaw's file and default workspace in it; the environment that leads there."""
    folder(home / ".openclaw" / "workspace")
    write(home / ".openclaw" / "openclaw.json", content)
    return {"HOME": str(home), "MDRECALL_STATE_DIR": str(home / "own")}


def loaded(home: Path, content: object, agent: str | None = None) -> Loaded:
    return load(env=openclaw_home(home, content), cwd=str(home), agent=agent)


def value(home: Path, content: object, name: str, agent: str | None = None) -> Any:
    """One setting, by its full name, as it stands under a configuration."""
    return loaded(home, content, agent).values[name].value


def problems(home: Path, content: object) -> tuple[str, ...]:
    """Everything that is wrong with a configuration in mdrecall's own file, which is strict."""
    env = openclaw_home(home, {})
    write(home / "own" / "mdrecall.json", content)
    with pytest.raises(ConfigError) as caught:
        load(env=env, cwd=str(home))
    return caught.value.problems


def nested(path: str, leaf: object) -> dict[str, Any]:
    """``nested("a.b", 1)`` is ``{"a": {"b": 1}}``."""
    first, _, rest = path.partition(".")
    return {first: nested(rest, leaf) if rest else leaf}


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))
