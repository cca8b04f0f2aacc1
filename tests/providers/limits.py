"""How much a provider takes at once, counted in tokens of four bytes."""

from typing import NamedTuple

BYTES_PER_TOKEN = 4


class Limits(NamedTuple):
    """None means no limit."""

    inputs: int | None = None
    tokens_each: int | None = None
    tokens_all: int | None = None
    truncates: bool = False
    """Whether a text over ``tokens_each`` is cut, unless the request forbids it; otherwise it is always refused."""
    body_bytes: int = 64 << 20


def tokens(text: str) -> int:
    return max(1, -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN))


def cut(text: str, limit: int | None) -> str:
    """The beginning of the text that fits."""
    if limit is None:
        return text
    return text.encode("utf-8", "surrogatepass")[: limit * BYTES_PER_TOKEN].decode("utf-8", "ignore")


DEFAULTS = {
    "openai": Limits(2048, 8192, 300_000),
    "openai-compatible": Limits(None, 8192, None),
    "voyage": Limits(1000, 32_000, 120_000, truncates=True),
    "mistral": Limits(512, 8192, 16_384),
    "gemini": Limits(100, 2048, None, truncates=True, body_bytes=4_194_304),
    "ollama": Limits(None, 2048, None, truncates=True),
}
