"""Secrets in a text become masks: ``sk-abc…z123`` for long ones, ``***`` for short ones."""

from mdrecall.core.redact.engine import Finding, find, mask, redact
from mdrecall.core.redact.own import Compiled, compile_patterns
from mdrecall.core.redact.redactor import Redactor, redactor

__all__ = ["Compiled", "Finding", "Redactor", "compile_patterns", "find", "mask", "redact", "redactor"]
