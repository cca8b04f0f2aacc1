"""Passages as the plain texts that most embedders take."""

from mdrecall.types import EmbedInput


def joined(passage: EmbedInput) -> str:
    """The text under its title."""
    return f"{passage.title}\n\n{passage.text}" if passage.title else passage.text
