"""Redaction with the patterns of one user, and what tells it from that of another."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from mdrecall.core.redact.engine import redact
from mdrecall.core.redact.own import compile_patterns

#: Raise it whenever the same text would be masked otherwise: what is stored is then made anew.
REDACTION_VERSION = 1


class Redactor(NamedTuple):
    """Masks what is secret."""

    redact: Callable[[str], str]
    fingerprint: str
    """Another one, if the same text would be masked otherwise."""
    problems: tuple[str, ...]
    """Patterns of the user that cannot be used, and why."""


def redactor(patterns: Sequence[str]) -> Redactor:
    """The built-in rules and the user's own patterns."""
    compiled = compile_patterns(patterns)
    own = hashlib.sha256("\0".join(patterns).encode("utf-8", "surrogatepass")).hexdigest()[:8] if patterns else ""
    return Redactor(partial(redact, more=compiled.patterns), f"r{REDACTION_VERSION}{own}", compiled.problems)
