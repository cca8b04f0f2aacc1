"""What models want to read around a text; they were trained with it."""

import re
from typing import NamedTuple

from mdrecall.embed.passages import joined
from mdrecall.types import EmbedInput

RECIPE_VERSION = 1
"""Raise it whenever the same file would give other vectors: other prompts, other pooling, other limits."""


class Prompts(NamedTuple):
    """Texts with ``{text}`` and perhaps ``{title}`` in them."""

    query: str = "{text}"
    document: str = "{text}"

    def of_query(self, text: str) -> str:
        """A query as the model wants to read it."""
        return self.query.format(text=text)

    def of_passage(self, passage: EmbedInput) -> str:
        """A passage as the model wants to read it: the title in its place, or above the text."""
        if "{title}" not in self.document:
            return self.document.format(text=joined(passage))
        return self.document.format(title=" › ".join(passage.title.splitlines()) or "none", text=passage.text)


_INSTRUCTED = Prompts(
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: {text}"
)
_GEMMA = Prompts("task: search result | query: {text}", "title: {title} | text: {text}")
_TABLE = (
    (r"gemma-?embedding|embedding-?gemma", _GEMMA),
    (r"nomic-(embed|bert)", Prompts("search_query: {text}", "search_document: {text}")),
    (r"qwen3-embedding|\be5-.*instruct", _INSTRUCTED),
    (r"\be5-(small|base|large)", Prompts("query: {text}", "passage: {text}")),
    (
        r"\b(bge-(small|base|large)-en|mxbai-embed-large)",
        Prompts("Represent this sentence for searching relevant passages: {text}"),
    ),
)


def prompts_for(*names: str) -> Prompts:
    """The prompts of the first model in the table that one of the names tells of; without one, plain texts."""
    told = [re.sub(r"[\s_]+", "-", name.lower()) for name in names]
    for pattern, prompts in _TABLE:
        if any(re.search(pattern, name) for name in told):
            return prompts
    return Prompts()
