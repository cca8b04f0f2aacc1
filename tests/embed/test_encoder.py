"""The encoder: its file, its arithmetic against a plain reading of the description, and what it gives for chunks."""

import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest

from mdrecall.embed.offline import encoder as module
from mdrecall.embed.offline.encoder import EncoderEmbedder
from mdrecall.embed.offline.encoder_file import EncoderFile
from mdrecall.embed.offline.transformer import Transformer
from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.store.vectors import to_int8
from mdrecall.text.markdown import split_passages
from mdrecall.types.documents import EmbedInput
from tests.embed.encoder_files import DIMENSIONS, NAME, write_encoder
from training.encoder import pack

NOTE = "# Bike\n\nThe rear brake squeaks.\n\n" + "The shop on the corner repairs it within a day. " * 12


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("encoder") / "encoder.bin"
    write_encoder(file)
    return file


@pytest.fixture
def embedder(path: Path) -> EncoderEmbedder:
    return EncoderEmbedder(str(path))


read_parts = cache(pack.read)


def embed_slowly(path: Path, tokens: list[int]) -> Any:
    """Embed one text, token by token and head by head."""
    header, parts = read_parts(path)

    def norm(rows: Any, name: str) -> Any:
        centred = rows - rows.mean(1, keepdims=True)
        return centred / numpy.sqrt((centred**2).mean(1, keepdims=True)) * parts[f"{name}.gain"] + parts[f"{name}.bias"]

    rows = norm(parts["words"][tokens] + parts["positions"][: len(tokens)], "norm")
    width = header["width"] // header["heads"]
    for layer in range(header["layers"]):
        query, key, value = numpy.split(rows @ parts[f"{layer}.qkv"].T + parts[f"{layer}.qkv.bias"], 3, axis=1)
        heads = []
        for start in range(0, header["width"], width):
            own = slice(start, start + width)
            shares = numpy.exp(query[:, own] @ key[:, own].T / math.sqrt(width))
            heads.append(shares / shares.sum(1, keepdims=True) @ value[:, own])
        attended = numpy.concatenate(heads, axis=1) @ parts[f"{layer}.out"].T + parts[f"{layer}.out.bias"]
        rows = norm(rows + attended, f"{layer}.attention")
        inner = rows @ parts[f"{layer}.up"].T + parts[f"{layer}.up.bias"]
        inner = inner * numpy.minimum(1, numpy.maximum(0, 0.3 * inner + 0.5))
        rows = norm(rows + inner @ parts[f"{layer}.down"].T + parts[f"{layer}.down.bias"], f"{layer}.norm")
    mean = rows.mean(0)
    short = parts["axes"] @ (mean / numpy.linalg.norm(mean))
    return short / numpy.linalg.norm(short)


@pytest.mark.parametrize("lengths", [[2], [13, 14, 15, 5, 28], [128, 91, 128, 1, 43] * 3])
def test_vectors_are_those_of_the_description(path: Path, lengths: list[int]) -> None:
    random = numpy.random.default_rng(len(lengths))
    texts = [random.integers(0, 30522, length).tolist() for length in lengths]
    found = Transformer(EncoderFile(str(path))).embed(texts)
    for text, vector in zip(texts, found, strict=True):
        assert numpy.abs(vector - embed_slowly(path, text)).max() < 1e-5


def test_a_query_is_a_vector_of_unit_length(embedder: EncoderEmbedder) -> None:
    vector = numpy.frombuffer(embedder.embed_query("when is the bike fixed?", {}), "<f4")
    assert (len(vector), embedder.dimensions, embedder.model) == (DIMENSIONS, DIMENSIONS, NAME)
    assert numpy.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert embedder.embed_query("when is the bike fixed?", {"bike": 9.0}) == vector.tobytes()


def test_every_passage_of_a_chunk_has_a_vector(embedder: EncoderEmbedder) -> None:
    parts = split_passages(NOTE)
    assert len(parts) > 1
    several, unknown, single = embedder.embed_chunks(
        [EmbedInput("Bike", NOTE), EmbedInput("Nothing known", "\u1b83\u1b84"), EmbedInput("", "A single line.")]
    )
    assert len(several.passages) == len(parts) * embedder.dimensions
    first = numpy.frombuffer(several.passages, numpy.int8)[: embedder.dimensions].astype(float)
    alone = numpy.frombuffer(embedder.embed_query(NOTE[parts[0].start : parts[0].end], {}), "<f4")
    assert first @ alone / numpy.linalg.norm(first) == pytest.approx(1, abs=1e-4)
    assert unknown.passages == bytes(embedder.dimensions)
    assert single.passages == to_int8([embedder.embed_query("A single line.", {})])[0]
    assert {several.vector, unknown.vector, single.vector} == {b""}


def test_a_passage_that_was_just_embedded_is_not_embedded_again(embedder: EncoderEmbedder) -> None:
    (both,) = embedder.embed_chunks([EmbedInput("", "The brake squeaks.\n\n# Shop\n\nIt repairs bikes.")])
    assert len(both.passages) == 2 * embedder.dimensions
    # Whatever has to be embedded raises an error from now on.
    embedder.interrupt()
    (again,) = embedder.embed_chunks([EmbedInput("", "# Shop\n\nIt repairs bikes.")])
    assert again.passages == both.passages[embedder.dimensions :]
    with pytest.raises(EmbedderUnavailable):
        embedder.embed_chunks([EmbedInput("", "It is new.")])


def test_the_marks_of_markdown_make_no_difference(embedder: EncoderEmbedder) -> None:
    plain, marked = embedder.embed_chunks(
        [EmbedInput("", "Call the shop about the brake"), EmbedInput("", "- [ ] **Call** the `shop` about the _brake_")]
    )
    assert marked.passages == plain.passages
    assert embedder.embed_query("is it the brake?", {}) != embedder.embed_query("is it the brake", {})


def test_a_passage_in_another_script_has_no_vector(embedder: EncoderEmbedder) -> None:
    mixed, other = embedder.embed_chunks(
        [EmbedInput("", "Das Rad heißt бицикл."), EmbedInput("", "自転車の修理 brake")]
    )
    assert any(mixed.passages)
    assert other.passages == bytes(embedder.dimensions)


def test_the_fingerprint_is_that_of_the_file(path: Path, tmp_path: Path, embedder: EncoderEmbedder) -> None:
    other = tmp_path / "other.bin"
    write_encoder(other, seed=1)
    assert read_parts(path)[0]["sha256"] in embedder.fingerprint
    assert EncoderEmbedder(str(other)).fingerprint != embedder.fingerprint


def test_what_a_file_says_about_itself_is_known_without_numpy(path: Path) -> None:
    code = f"""
import sys
from mdrecall.embed.offline.encoder import EncoderEmbedder
embedder = EncoderEmbedder({str(path)!r})
embedder.prepare()
print(embedder.model, embedder.dimensions, len(embedder.fingerprint), "numpy" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == [NAME, str(DIMENSIONS), "66", "False"]


def test_an_interrupted_embedder_stops_until_it_is_closed(embedder: EncoderEmbedder) -> None:
    before = embedder.embed_query("brakes", {})
    embedder.interrupt()
    with pytest.raises(EmbedderUnavailable, match="interrupted because the memory is closing"):
        embedder.embed_chunks([EmbedInput("Bike", NOTE)])
    embedder.close()
    embedder.close()
    assert embedder.embed_query("brakes", {}) == before


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: b"", "cannot mmap an empty file"),
        (lambda data: data[:-1], "its end is missing"),
        (lambda data: data[:30], "Expecting|Unterminated|delimiter"),
        (lambda data: b"mdrecall encoder 2\n" + data[19:], "not an encoder of this version"),
        (lambda data: data.replace(b'"heads"', b'"hands"'), "heads"),
    ],
)
def test_a_damaged_file_is_told_with_the_way_out(path: Path, tmp_path: Path, damage: Any, problem: str) -> None:
    broken = tmp_path / "encoder.bin"
    broken.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelFileError, match=problem) as caught:
        EncoderEmbedder(str(broken)).embed_query("brakes", {})
    assert (str(broken) in str(caught.value), caught.value.hint) == (True, "Install mdrecall again.")


def test_a_missing_vocabulary_is_told_too(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECES_FILE", str(tmp_path / "pieces.txt"))
    with pytest.raises(ModelFileError, match=r"pieces\.txt cannot be read"):
        EncoderEmbedder(str(path)).embed_query("brakes", {})
