"""The quantised model says what the model says, whatever the text and the batch."""

import math
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mdrecall.extras.minilm import MiniLM

SENTENCES = [
    "We decided to use a pool of twenty database connections.",
    "How many connections may the database pool open?",
    "My daughter is allergic to peanuts and shellfish.",
    "Which foods can the child not eat?",
    "The certificate of the load balancer expired, so the deployment failed.",
    "Why was the release broken last night?",
    "On Fridays we meet in the garden room at ten.",
    "When and where is the weekly meeting?",
    "def connect(pool): return pool.acquire(timeout=30)",
    "- [ ] renew the passport\n- [x] call the dentist\n",
    "Buy milk.",
    "The quick brown fox jumps over the lazy dog. " * 4,
]
TEXTS = [
    *SENTENCES,
    "",
    "x",
    "Äpfel und Öl für das Café ☕",
    "深色模式很好",
    "한국어 메모",
    "🦊" * 300,
    "a\x00b",
    "\ud83d",
]


def floats(vector: bytes) -> tuple[float, ...]:
    return struct.unpack("<384f", vector)


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def neighbours(vectors: list[tuple[float, ...]]) -> list[tuple[int, float]]:
    """For each vector the number of its nearest, and by how much that is nearer than the next one."""
    found = []
    for one in vectors:
        ranked = sorted(((cosine(one, other), number) for number, other in enumerate(vectors) if other is not one))
        (second, _), (first, number) = ranked[-2:]
        found.append((number, first - second))
    return found


def test_it_says_what_it_is_before_anything_is_loaded(tmp_path: Path) -> None:
    embedder = MiniLM(str(tmp_path / "nowhere"))
    assert (embedder.provider, embedder.model, embedder.dimensions) == ("minilm", "all-MiniLM-L6-v2", 384)
    assert embedder.fingerprint == "fb7c5a5f8fb3d55836adf3e65c05f4628cf1e01861ea0f44bfedb1fc4a75025d"
    assert embedder.embed_documents([]) == []
    embedder.close()
    embedder.close()
    assert not (tmp_path / "nowhere").exists()


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'onnx', 'onnxruntime', 'tokenizers'}"
    code = f"import sys, mdrecall.extras.minilm; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_vectors_are_those_of_the_model_in_floats(minilm: MiniLM, model_folder: Path) -> None:
    from tokenizers import Tokenizer

    from tests.embed.reference import Reference

    reference = Reference(model_folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    exact = [tuple(map(float, reference.embed(tokenizer.encode(text).ids))) for text in SENTENCES]
    ours = [floats(vector) for vector in minilm.embed_documents(SENTENCES)]
    assert min(map(cosine, exact, ours)) > 0.98
    clear = [(number, one) for number, (one, margin) in enumerate(neighbours(exact)) if margin > 0.05]
    assert len(clear) >= 8
    assert [(number, neighbours(ours)[number][0]) for number, _ in clear] == clear


def test_questions_lie_next_to_their_answers(minilm: MiniLM) -> None:
    vectors = [floats(vector) for vector in minilm.embed_documents(SENTENCES[:8])]
    assert [number for number, _ in neighbours(vectors)[1::2]] == [0, 2, 4, 6]


def test_every_text_has_a_vector_of_unit_length(minilm: MiniLM) -> None:
    for vector in minilm.embed_documents(TEXTS):
        assert math.hypot(*floats(vector)) == pytest.approx(1, abs=1e-5)


def test_a_vector_is_the_same_alone_in_a_batch_and_again(minilm: MiniLM) -> None:
    together = minilm.embed_documents(TEXTS)
    assert minilm.embed_documents(TEXTS[::-1]) == together[::-1]
    for text, vector in zip(TEXTS, together, strict=True):
        assert cosine(floats(minilm.embed_query(text)), floats(vector)) > 0.999


def test_the_order_is_kept_over_many_batches(minilm: MiniLM) -> None:
    texts = ["one two three", *["note"] * 700, "the last and longest of them all"]
    vectors = minilm.embed_documents(texts)
    assert len(vectors) == len(texts)
    assert vectors[1] == vectors[350] == vectors[700]
    for number in (0, 1, 701):
        assert cosine(floats(vectors[number]), floats(minilm.embed_query(texts[number]))) > 0.999


def test_only_the_first_256_tokens_are_read_marks_included(minilm: MiniLM) -> None:
    full = "dog " * 254
    long, longer, other = minilm.embed_documents([full, full + "banana " * 500, "dog " * 253 + "banana"])
    assert long == longer
    assert long != other


def test_it_works_again_after_close(minilm: MiniLM) -> None:
    before = minilm.embed_query("again")
    minilm.close()
    assert minilm.embed_query("again") == before


def test_the_number_of_threads_does_not_matter(minilm: MiniLM, model_folder: Path, cache_dir: Path) -> None:
    single = MiniLM(str(cache_dir), folder=str(model_folder), threads=1)
    for one, other in zip(single.embed_documents(SENTENCES), minilm.embed_documents(SENTENCES), strict=True):
        assert cosine(floats(one), floats(other)) > 0.999
