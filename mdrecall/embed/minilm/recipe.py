"""What decides the vectors, besides the weights."""

RECIPE_VERSION = 1
"""Raise it whenever the same weights would give other vectors."""
TOKEN_LIMIT = 256
"""How many tokens of a text are read, with the two marks around it."""
DIMENSIONS = 384
