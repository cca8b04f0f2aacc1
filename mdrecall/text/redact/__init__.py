"""Redaction: secrets in a text become masks, ``sk-abc…z123`` for long ones and ``***`` for short ones."""

from mdrecall.text.redact.masking import Finding, find, make_fingerprint, make_redactor, mask, redact
from mdrecall.text.redact.user_patterns import compile_patterns

__all__ = ["Finding", "compile_patterns", "find", "make_fingerprint", "make_redactor", "mask", "redact"]
