"""A reranker from a GGUF model on this machine, which is fetched and loaded at first use."""

from collections.abc import Sequence

from mdrecall.embed.gguf.header import RANKING, Header
from mdrecall.embed.gguf.model import MAX_TOKENS, GgufModel
from mdrecall.embed.gguf.model_file import HUB
from mdrecall.embed.gguf.runtime import Settings
from mdrecall.embed.models import ScoreScale, UnexpectedAnswer, read_scores
from mdrecall.errors import EmbedderError, InputRefused, ModelFileError

#: A text that is still too long at this length has a query that leaves it no room.
_MIN_TEXT_CHARS = 64


class GgufReranker:
    """The reranker ``local``. Safe to use from several threads; the model runs in a child process."""

    place = "The local reranker"

    def __init__(self, model: str, *, cache_dir: str, hub: str = HUB) -> None:
        """``model`` is a file, an ``hf:`` reference or an address; ``cache_dir`` holds downloads."""
        self.name = f"local/{model.rpartition('/')[2]}"
        self._model = GgufModel(model, _configure, cache_dir=cache_dir, hub=hub)
        self._scale = ScoreScale()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """Return how probable it is that each text answers the query; texts that are too long are cut."""
        most = max(map(len, texts))
        while True:
            try:
                return self._rerank(query, [text[:most] for text in texts])
            except ModelFileError as error:
                hint = error.hint.replace("memorySearch.local.modelPath", "mdrecall.rerank.model")
                raise ModelFileError(str(error), hint=hint) from error
            except InputRefused:
                most //= 2
                if most < _MIN_TEXT_CHARS:
                    raise

    def interrupt(self) -> None:
        """Cancel the work in progress by ending the model's process."""
        self.close()

    def close(self) -> None:
        """Unload the model, even while it is loading or working; a later call loads it again."""
        self._model.close()

    def _rerank(self, query: str, texts: Sequence[str]) -> list[float | None]:
        answer = self._model.run(lambda loaded: loaded.runtime.rerank(query, texts))
        try:
            return self._scale.to_probabilities(read_scores(answer, "results", len(texts)))
        except UnexpectedAnswer as error:
            raise EmbedderError(f"llama.cpp sent a wrong answer: {error}.", hint="Try another model.") from error


def _configure(path: str, header: Header) -> Settings:
    if header.pooling != RANKING:
        message = f"{path} is not marked as a model that ranks texts."
        raise ModelFileError(message, hint="Name a reranker in mdrecall.rerank.model, such as a GGUF of bge-reranker.")
    context = min(header.context, MAX_TOKENS) if header.context > 0 else MAX_TOKENS
    return Settings(path, context, RANKING, threads=0)
