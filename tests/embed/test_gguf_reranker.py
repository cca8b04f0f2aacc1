"""A GGUF model on this machine that ranks texts, with a small real model."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdrecall.errors import InputRefused, ModelFileError
from mdrecall.extras.gguf import GgufReranker
from mdrecall.interfaces import Reranker
from tests.embed.tiny_gguf import write_reranker, write_tiny

TEXTS = ["the cat and the dog sat on the mat", "peanuts", "my daughter is allergic to peanuts"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("not installed: xllamacpp; sh scripts/test installs it")
    return write_reranker(tmp_path_factory.mktemp("gguf") / "rank.gguf", "peanuts")


@pytest.fixture
def reranker(model: Path, tmp_path: Path) -> Iterator[GgufReranker]:
    made = GgufReranker(str(model), cache_dir=str(tmp_path / "cache"))
    yield made
    made.close()


def test_its_logits_are_probabilities_in_the_order_of_the_texts(reranker: GgufReranker) -> None:
    socket: Reranker = reranker
    dog, peanuts, daughter = socket.rerank("what to eat", TEXTS)
    assert dog is not None
    assert daughter is not None
    assert peanuts is not None
    assert 0 < dog < 0.5 < daughter < peanuts < 1
    assert socket.name == "local/rank.gguf"


def test_a_text_that_is_too_long_is_cut(reranker: GgufReranker) -> None:
    long, short = reranker.rerank("what to eat", ["peanuts " * 200, "cat"])
    assert long is not None
    assert short is not None
    assert long > short


def test_a_query_that_leaves_no_room_is_refused(reranker: GgufReranker) -> None:
    with pytest.raises(InputRefused):
        reranker.rerank("cat " * 100, TEXTS)


def test_a_model_that_makes_embeddings_or_is_missing_is_told_with_the_right_setting(
    tmp_path: Path, model: Path
) -> None:
    write_tiny(tmp_path / "plain.gguf")
    for name, words in (("plain.gguf", "is not marked as a model that ranks texts"), ("no.gguf", "is missing")):
        with pytest.raises(ModelFileError, match=words) as found:
            GgufReranker(str(tmp_path / name), cache_dir=str(tmp_path)).rerank("cat", TEXTS)
        assert "mdrecall.rerank.model" in found.value.hint
        assert "memorySearch" not in found.value.hint
