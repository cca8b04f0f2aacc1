"""The prompts that embedding models were trained with."""

import re
from typing import NamedTuple

from mdrecall.types import EmbedInput

RECIPE_VERSION = 1
"""Raise it whenever the same model would give different vectors: other prompts, other pooling, other limits."""


class Prompts(NamedTuple):
    """Templates with ``{text}``, and perhaps ``{title}``, in them."""

    query: str = "{text}"
    document: str = "{text}"

    def of_query(self, text: str) -> str:
        """Return a query in the model's format."""
        return self.query.format(text=text)

    def of_passage(self, passage: EmbedInput) -> str:
        """Return a text in the model's format: with its title in the template's place, or above the text."""
        if "{title}" not in self.document:
            return self.document.format(text=join_title(passage))
        return self.document.format(title=" › ".join(passage.title.splitlines()) or "none", text=passage.text)


def join_title(passage: EmbedInput) -> str:
    """Return the text under its title, for models without prompts."""
    return f"{passage.title}\n\n{passage.text}" if passage.title else passage.text


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
    """Return the prompts of the first model in the table that matches a name; plain texts if none does."""
    folded = [re.sub(r"[\s_]+", "-", name.lower()) for name in names]
    for pattern, prompts in _TABLE:
        if any(re.search(pattern, name) for name in folded):
            return prompts
    return Prompts()
