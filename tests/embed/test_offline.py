"""The offline embedder and its table."""

import hashlib
import importlib.util
import json
import math
import os
import subprocess
import sys
from array import array
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.embed.offline import OfflineEmbedder, embedder
from mdrecall.embed.offline.languages import MAX_WORD_CHARS, Found, Pieces, fold_texts, split_texts
from mdrecall.errors import ModelFileError, install_command
from mdrecall.store.vectors import to_int8
from mdrecall.text.markdown import split_passages
from mdrecall.text.words import fold
from mdrecall.types.documents import Embedding, EmbedInput

FOLDER = Path(embedder.__file__).parent
VOCABULARY = (FOLDER / "pieces.txt").read_text()
OFFLINE = OfflineEmbedder()

known = st.sampled_from([piece for piece in VOCABULARY.split("\n") if piece.isascii() and piece.isalnum()])
ascii_words = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=30)
prose = st.lists(known | ascii_words, min_size=1, max_size=30).map(" ".join)


def numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


def cosine(left: bytes, right: bytes) -> float:
    one, other = numbers(left), numbers(right)
    return sum(map(float.__mul__, one, other)) / ((math.hypot(*one) * math.hypot(*other)) or 1.0)


def embed(text: str, title: str = "") -> Embedding:
    return OFFLINE.embed_chunks([EmbedInput(title, text)])[0]


@pytest.fixture(scope="module")
def cut_by_tokenizers() -> Callable[[str], list[int]]:
    """Word pieces as the package tokenizers cuts them with the same vocabulary."""
    if importlib.util.find_spec("tokenizers") is None:
        pytest.skip("not installed: tokenizers; sh scripts/test installs it")
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    vocabulary = {piece: number for number, piece in enumerate(VOCABULARY.split("\n"))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARS))

    def cut(word: str) -> list[int]:
        found: list[int] = tokenizer.encode(word, add_special_tokens=False).ids
        return found

    return cut


def unnumbered() -> Pieces:
    """Return the pieces of a vocabulary that nobody has numbered yet, so that the first are looked up in its text."""
    return Pieces(f"{VOCABULARY}\n##another ending {next(_endings)}")


_endings = count()


@given(
    ascii_words
    | st.lists(known, min_size=1, max_size=4).map("".join)
    | st.integers(95, 130).map(lambda size: "a" * size)
)
def test_words_are_cut_as_the_package_tokenizers_cuts_them(
    cut_by_tokenizers: Callable[[str], list[int]], word: str
) -> None:
    unknown = [VOCABULARY.split("\n").index("[UNK]")]
    theirs = cut_by_tokenizers(word)
    assert list(unnumbered()[word]) == list(Pieces(VOCABULARY)[word]) == ([] if theirs == unknown else theirs)


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_texts_that_are_folded_together_are_the_same_as_alone(texts: list[str]) -> None:
    bare = [text.replace("\1", " ") for text in texts]
    assert split_texts(fold_texts(texts)) == [fold(text) for text in bare]
    assert OFFLINE._languages.tokens(fold_texts(texts), Found()) == [
        word for text in bare for word in (*OFFLINE._languages.tokens(fold(text), Found()), "\1")
    ]


def test_the_table_is_the_one_that_the_card_describes() -> None:
    card = json.loads((FOLDER / "model.json").read_text())
    content = b"".join((FOLDER / name).read_bytes() for name in ("rows.i8", "scales.f32", "pieces.txt"))
    assert hashlib.sha256(content).hexdigest() == card["sha256"]
    assert VOCABULARY.count("\n") == card["pieces"]
    assert (FOLDER / "rows.i8").stat().st_size == card["pieces"] * card["dimensions"]
    assert (FOLDER / "scales.f32").stat().st_size == card["pieces"] * 4
    assert OFFLINE.dimensions == card["dimensions"]


@given(prose)
def test_a_query_and_a_note_of_the_same_words_have_the_same_vector(text: str) -> None:
    query, note = OFFLINE.embed_query(text, {}), embed(text).vector
    assert len(query) == len(note) == 4 * OFFLINE.dimensions
    assert any(query) == any(note)
    if any(query):
        assert math.hypot(*numbers(query)) == pytest.approx(1, abs=1e-5)
        assert math.hypot(*numbers(note)) == pytest.approx(1, abs=1e-5)
        # Weights of words in notes are rounded to a thousandth.
        assert numbers(query) == pytest.approx(numbers(note), abs=1e-4)


@given(prose)
def test_the_order_of_words_does_not_matter_and_case_does_not(text: str) -> None:
    turned = " ".join(reversed(text.split(" "))).upper()
    assert numbers(embed(text).vector) == pytest.approx(numbers(embed(turned).vector), abs=1e-5)


@given(st.lists(prose, min_size=1, max_size=8))
def test_a_note_is_embedded_alike_alone_and_among_others(texts: list[str]) -> None:
    together = OFFLINE.embed_chunks([EmbedInput("", text) for text in texts])
    assert [numbers(made.vector) for made in together] == [
        pytest.approx(numbers(embed(text).vector), abs=1e-6) for text in texts
    ]
    assert [len(made.passages) for made in together] == [
        len(split_passages(text)) * OFFLINE.dimensions for text in texts
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "배포 전략", "สวัสดี", "… — !", "a" * 101])
def test_what_has_no_known_word_has_a_vector_without_length(text: str) -> None:
    made = embed(text)
    assert OFFLINE.embed_query(text, {}) == made.vector == bytes(4 * OFFLINE.dimensions)
    assert not any(made.passages)


def test_a_megabyte_of_text_has_a_vector_and_all_its_passages() -> None:
    text = "the walrus sleeps on the ice\n" * 36_000
    made = embed(text)
    assert len(made.passages) == len(split_passages(text)) * OFFLINE.dimensions
    assert cosine(made.vector, OFFLINE.embed_query("the walrus sleeps on the ice", {})) == pytest.approx(1, abs=1e-4)
    assert math.hypot(*numbers(OFFLINE.embed_query(text, {}))) == pytest.approx(1, abs=1e-4)


def test_passages_point_where_their_own_text_does() -> None:
    parts = ["tax return invoices and bookkeeping " * 6, "sailing boats on the lake in summer " * 6]
    made = embed("\n".join(parts))
    rows = numpy.frombuffer(made.passages, numpy.int8).astype("<f4").reshape(2, -1)
    for row, part in zip(rows, parts, strict=True):
        assert cosine(row.tobytes(), OFFLINE.embed_query(part, {})) > 0.99
    assert cosine(rows[0].tobytes(), rows[1].tobytes()) < 0.6


def test_a_word_of_more_weight_draws_the_query_to_it() -> None:
    walrus, invoice = (OFFLINE.embed_query(word, {}) for word in ("walrus", "invoice"))
    even = OFFLINE.embed_query("walrus invoice", {})
    drawn = OFFLINE.embed_query("walrus invoice", {"walrus": 1.0, "invoice": 0.2})
    assert cosine(drawn, walrus) > cosine(even, walrus)
    assert cosine(drawn, invoice) < cosine(even, invoice)
    assert OFFLINE.embed_query("walrus invoice", {"invoice": 0.0}) == walrus
    assert numbers(OFFLINE.embed_query("walrus invoice", {"walrus": 3.0, "invoice": 3.0})) == pytest.approx(
        numbers(even), abs=1e-6
    )


@pytest.mark.parametrize("name", ["model.json", "pieces.txt", "rows.i8", "scales.f32", "words"])
def test_a_table_that_is_not_whole_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for each in ("model.json", "pieces.txt", "rows.i8", "scales.f32", "words"):
        if each != name:
            (tmp_path / each).symlink_to(FOLDER / each)
    monkeypatch.setattr(embedder, "_FOLDER", str(tmp_path))
    with pytest.raises(ModelFileError, match=name) as query:
        OfflineEmbedder().embed_query("walrus", {})
    with pytest.raises(ModelFileError, match=name):
        OfflineEmbedder().embed_chunks([EmbedInput("", "walrus")])
    assert query.value.hint == "Install mdrecall again."


BLOCKED = """
import sys
sys.modules["numpy"] = None
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.errors import EmbedderUnavailable
from mdrecall.types.documents import EmbedInput
print(OfflineEmbedder().embed_query("the walrus sleeps", {}).hex())
try:
    OfflineEmbedder().embed_chunks([EmbedInput("", "walrus")])
except EmbedderUnavailable as error:
    print(error.hint)
"""


def test_a_query_is_embedded_without_numpy() -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", BLOCKED], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:2] == [
        OFFLINE.embed_query("the walrus sleeps", {}).hex(),
        f"Install it with `{install_command('numpy')}`.",
    ], done.stderr


def test_a_closed_embedder_holds_no_table_and_can_be_used_again() -> None:
    embedder = OfflineEmbedder()
    passages = [EmbedInput("", "the walrus sleeps on the ice")]
    before = embedder.embed_chunks(passages), embedder.embed_query("walrus", {})
    embedder.close()
    assert not {"_languages", "_pieces", "_rows", "_scales"} & vars(embedder).keys()
    assert (embedder.embed_chunks(passages), embedder.embed_query("walrus", {})) == before
    embedder.close()
    embedder.close()


@given(st.lists(prose, min_size=1, max_size=4), prose)
def test_a_few_chunks_are_embedded_without_numpy_as_many_are_with_it(parts: list[str], title: str) -> None:
    folded = fold_texts([*parts, title])
    without = OFFLINE._embed_chunk(folded)
    with_numpy = OFFLINE._embed_numpy([folded], [Found()], [0, len(parts) + 1])[0]
    assert without.passages == with_numpy.passages
    assert to_int8([without.vector]) == to_int8([with_numpy.vector])


ONE_NOTE = """
import sys
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.types.documents import EmbedInput
made = OfflineEmbedder().embed_chunks([EmbedInput("", sys.argv[1])])
print(made[0].passages.hex(), "numpy" in sys.modules)
"""


@pytest.mark.parametrize(
    ("text", "needs_numpy"), [("The “café” in Malmö opens at nine.", False), ("The word морж means walrus.", True)]
)
def test_a_note_loads_numpy_only_for_words_of_other_scripts(text: str, needs_numpy: bool) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", ONE_NOTE, text], env=env, capture_output=True, text=True, check=True)
    (made,) = OFFLINE.embed_chunks([EmbedInput("", text)])
    assert done.stdout.split() == [made.passages.hex(), str(needs_numpy)]
