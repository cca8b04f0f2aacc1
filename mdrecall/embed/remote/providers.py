"""The providers, one row each."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mdrecall.embed.remote import shapes
from mdrecall.embed.remote.shapes import Shape

_MOST_INPUT_BYTES = 8_000


class Provider(NamedTuple):
    """What is particular to one provider."""

    name: str
    url: str
    """Its own address; empty if it has none."""
    model: str
    """The model that is used if none is named."""
    shape: Shape
    prefixes: tuple[str, ...]
    """What may stand before a model's name and is not part of it."""
    needs_key: bool
    request_inputs: int
    """All would take more; but what is answered is stored as a whole, and a killed process pays for it again."""
    request_bytes: int
    input_bytes: Mapping[str, int] = {}
    """How long a text may be, by model; a byte is at most a token."""
    tidy_url: Callable[[str], str] = lambda url: url.rstrip("/")
    older: Shape | None = None
    """What a server understands that does not know the shape."""
    waits_for_model: bool = False
    """Whether the first answer may take as long as loading a model does, so that a slow query is not given up."""
    sizes: Mapping[str, tuple[int, ...]] = {}
    """The lengths of vector that a model can be asked for, where it is known to refuse others."""
    has_jobs: bool = False
    prompts: bool = False
    """Whether texts are sent as the model was trained to read them, which other providers see to themselves."""

    def model_name(self, name: str) -> str:
        """A model's name as the provider knows it."""
        name = name.strip()
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        return name or self.model

    def input_limit(self, model: str) -> int:
        """How many bytes a text may have."""
        return min(self.input_bytes.get(model.lower(), self.input_bytes.get("", 8192)), _MOST_INPUT_BYTES)


def _gemini_url(url: str) -> str:
    return re.sub(r"/openai(/.*)?$", "", url.rstrip("/")).rstrip("/")


def _ollama_url(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


_PLAIN = shapes.openai_like(dimensions_as="dimensions", query={}, document={})
_MISTRAL = shapes.openai_like(dimensions_as="output_dimension", query={}, document={})
_VOYAGE = shapes.openai_like(
    dimensions_as="output_dimension", query={"input_type": "query"}, document={"input_type": "document"}
)

PROVIDERS: Mapping[str, Provider] = {
    row.name: row
    for row in (
        Provider("openai", "https://api.openai.com/v1", "text-embedding-3-small", _PLAIN, ("openai/",), True,
                 request_inputs=64, request_bytes=256_000, input_bytes={"text-embedding-ada-002": 8191},
                 has_jobs=True),
        Provider("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-001",
                 shapes.gemini(), ("models/", "gemini/", "google/"), True,
                 request_inputs=64, request_bytes=200_000,
                 input_bytes={"gemini-embedding-2-preview": 8192, "": 2048}, tidy_url=_gemini_url,
                 sizes={"gemini-embedding-2-preview": (768, 1536, 3072)}, has_jobs=True),
        Provider("voyage", "https://api.voyageai.com/v1", "voyage-4-large", _VOYAGE, ("voyage/",), True,
                 request_inputs=64, request_bytes=240_000,
                 input_bytes={"voyage-3": 32000, "voyage-code-3": 32000, "voyage-3-lite": 16000}, has_jobs=True),
        Provider("mistral", "https://api.mistral.ai/v1", "mistral-embed", _MISTRAL, ("mistral/",), True,
                 request_inputs=64, request_bytes=48_000),
        Provider("ollama", "http://127.0.0.1:11434", "nomic-embed-text", shapes.ollama(), ("ollama/",), False,
                 request_inputs=64, request_bytes=128_000, tidy_url=_ollama_url, older=shapes.old_ollama(),
                 waits_for_model=True, prompts=True),
        Provider("openai-compatible", "", "", _PLAIN, ("openai-compatible/",), False,
                 request_inputs=64, request_bytes=128_000, waits_for_model=True, prompts=True),
    )
}  # fmt: skip
