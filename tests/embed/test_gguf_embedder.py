"""A GGUF model gives vectors, refuses what is too long, and leaves the process that uses it alone."""

import math
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mdrecall.errors import EmbedderError, EmbedderUnavailable, InputRefused, install_command
from mdrecall.extras.gguf import GgufEmbedder
from mdrecall.extras.gguf.model import Runtime
from mdrecall.interfaces import Embedder
from mdrecall.types.documents import EmbedInput
from tests.embed.tiny_gguf import FIRST, SENTENCES, Tiny, write_tiny

ODD = ["x", "Äpfel und Öl für das Café ☕", "深色模式很好", "🦊" * 30, "a\x00b", "\ud83d", "cat\n\ndog\t1."]
TEXTS = [*SENTENCES, *ODD]
OpenModel = Callable[[Tiny], GgufEmbedder]


def floats(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(a: bytes, b: bytes) -> float:
    return sum(x * y for x, y in zip(floats(a), floats(b), strict=True))


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture(scope="module")
def local(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GgufEmbedder]:
    embedder = GgufEmbedder(str(tiny), cache_dir=str(tmp_path_factory.mktemp("cache")))
    yield embedder
    embedder.close()


def embedded(embedder: GgufEmbedder, *texts: str) -> list[bytes]:
    return [made.vector for made in embedder.embed_chunks([EmbedInput("", text) for text in texts])]


def test_it_says_what_it_is_before_anything_is_loaded(cache: str) -> None:
    embedder: Embedder = GgufEmbedder(None, cache_dir=cache)
    default = "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf"
    assert (embedder.provider, embedder.model, embedder.dimensions) == ("local", default, 0)
    assert embedder.traits.input_bytes == 2048
    assert embedder.embed_chunks([]) == []
    assert embedder.fingerprint == GgufEmbedder(" ", cache_dir="/elsewhere", hub="http://127.0.0.1").fingerprint
    embedder.close()
    embedder.close()
    assert not Path(cache).exists()


def test_every_text_has_a_vector_of_unit_length(local: GgufEmbedder) -> None:
    for vector in embedded(local, *TEXTS):
        assert math.hypot(*floats(vector)) == pytest.approx(1, abs=1e-6)


def test_a_text_is_closest_to_itself_and_shared_words_mean_closeness(local: GgufEmbedder) -> None:
    vectors = embedded(local, *SENTENCES)
    for number, sentence in enumerate(SENTENCES):
        likeness = [cosine(local.embed_query(sentence), vector) for vector in vectors]
        assert max(range(len(vectors)), key=likeness.__getitem__) == number
        assert likeness[number] == pytest.approx(1, abs=1e-5)
    pool, pools, peanuts = vectors[:3]
    assert cosine(pool, pools) > cosine(pool, peanuts) + 0.3


def test_a_vector_is_the_same_alone_in_a_batch_and_again(local: GgufEmbedder) -> None:
    together = embedded(local, *TEXTS)
    assert embedded(local, *TEXTS[::-1]) == together[::-1]
    assert [embedded(local, text)[0] for text in TEXTS] == together


def test_the_title_counts(local: GgufEmbedder) -> None:
    (made,) = local.embed_chunks([EmbedInput("cat\ndog", "mat")])
    assert made.vector == embedded(local, "cat dog mat")[0]
    assert made.passages == b""


def test_a_text_fills_the_context_and_a_longer_one_is_refused(local: GgufEmbedder) -> None:
    full = "cat " * 62
    assert len(local.embed_query(full)) == 4 * 32
    for count in (63, 64, 65, 300, 5000):
        with pytest.raises(InputRefused, match=f"up to 64 tokens.*{count + 2} tokens"):
            local.embed_query("cat " * count)
    with pytest.raises(InputRefused):
        embedded(local, "cat", "dog " * 100, "mat")
    assert len(local.embed_query(full)) == 4 * 32


def test_a_vector_without_direction_is_an_error(local: GgufEmbedder) -> None:
    with pytest.raises(EmbedderError, match="vector of zeros"):
        local.embed_query("")


@pytest.fixture
def open_model(tiny: Path, tmp_path: Path, cache: str) -> Iterator[OpenModel]:
    """Opens models that differ from the usual one; they are closed at the end."""
    opened: list[GgufEmbedder] = []

    def open_one(model: Tiny) -> GgufEmbedder:
        opened.append(GgufEmbedder(str(write_tiny(tmp_path / "other.gguf", model)), cache_dir=cache))
        return opened[-1]

    yield open_one
    for embedder in opened:
        embedder.close()


@pytest.mark.parametrize("bias", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_counts_as_nothing(open_model: OpenModel, bias: float) -> None:
    vector = floats(open_model(Tiny(last_bias=bias)).embed_query("cat"))
    assert vector[0] == 0
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


def test_a_model_that_writes_texts_can_be_used_too(open_model: OpenModel) -> None:
    one, other, far = embedded(open_model(Tiny("llama", "writer", pooling=None)), *SENTENCES[:3])
    assert cosine(one, other) > cosine(one, far) + 0.3


def test_the_models_own_pooling_is_kept(open_model: OpenModel) -> None:
    one, other = embedded(open_model(Tiny(pooling=FIRST)), *SENTENCES[1:3])
    assert cosine(one, other) == pytest.approx(1, abs=1e-5)


def test_prompts_are_put_around_texts(local: GgufEmbedder, open_model: OpenModel) -> None:
    embedder = open_model(Tiny(name="Nomic Embed Text"))
    assert embedder.embed_query("cat") == local.embed_query("search_query: cat")
    assert embedded(embedder, "cat") == embedded(local, "search_document: cat")


def test_it_works_again_after_close(local: GgufEmbedder) -> None:
    before = local.embed_query("cat")
    local.close()
    assert local.dimensions == 32
    assert local.embed_query("cat") == before


def count_starts(monkeypatch: pytest.MonkeyPatch) -> list[Runtime]:
    started: list[Runtime] = []
    start = Runtime.start

    def counted(runtime: Runtime) -> None:
        started.append(runtime)
        start(runtime)

    monkeypatch.setattr(Runtime, "start", counted)
    return started


def test_threads_that_come_at_once_load_one_model(tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_starts(monkeypatch)
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    together = threading.Barrier(4)

    def use(_: int) -> bytes:
        together.wait()
        return embedder.embed_query("cat")

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(use, range(4)))) == 1
    embedder.close()
    assert len(started) == 1


def test_a_model_whose_process_dies_is_loaded_again(tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_starts(monkeypatch)
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    before = embedder.embed_query("cat")
    process = started[0]._process
    assert process
    process.send_signal(signal.SIGSEGV)
    process.wait()
    assert embedder.embed_query("cat") == before
    embedder.close()
    assert len(started) == 2


def test_a_process_that_dies_at_work_is_a_clear_error(tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    embedder.prepare()
    ask = Runtime._ask

    def dying(runtime: Runtime, question: object) -> dict[str, object]:
        assert runtime._process
        runtime._process.send_signal(signal.SIGSEGV)
        return ask(runtime, question)

    with monkeypatch.context() as patched:
        patched.setattr(Runtime, "_ask", dying)
        with pytest.raises(EmbedderError, match="process ended with SIGSEGV"):
            embedder.embed_query("cat")
    assert len(embedder.embed_query("cat")) == 4 * 32
    embedder.close()


def test_an_answer_that_nobody_waited_for_goes_to_nobody(
    tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    cat, dog = embedder.embed_query("cat"), embedder.embed_query("dog")

    def interrupted(answer: str) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mdrecall.extras.gguf.model.json.loads", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embedder.embed_query("cat")
    assert [embedder.embed_query("dog"), embedder.embed_query("cat")] == [dog, cat]
    embedder.close()


def test_close_ends_a_load_that_is_under_way(tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    ask = Runtime._ask

    def closing(runtime: Runtime, question: object) -> dict[str, object]:
        embedder.close()
        return ask(runtime, question)

    with monkeypatch.context() as patched:
        patched.setattr(Runtime, "_ask", closing)
        with pytest.raises(EmbedderUnavailable, match="unloaded"):
            embedder.prepare()
    embedder.prepare()
    assert embedder.dimensions == 32
    embedder.close()


USE = """
import os, signal, sys
from mdrecall.extras.gguf import GgufEmbedder
from mdrecall.errors import RecallError
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
embedder = GgufEmbedder(sys.argv[1], cache_dir=sys.argv[2])
try:
    embedder.embed_query("cat")
    embedder.embed_query("cat " * 900)
except RecallError as error:
    print(type(error).__name__)
assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
assert "xllamacpp" not in sys.modules
if "--close" in sys.argv:
    embedder.close()
"""


@pytest.mark.parametrize("more", [["--close"], []])
def test_nothing_is_written_to_the_terminal(tiny: Path, cache: str, more: list[str]) -> None:
    command = [sys.executable, "-c", USE, str(tiny), cache, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("InputRefused\n", "")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_no_port_is_opened(tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = count_starts(monkeypatch)
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    embedder.prepare()
    assert started[0]._process
    opened = {os.readlink(entry) for entry in Path(f"/proc/{started[0]._process.pid}/fd").iterdir()}
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6", "udp", "udp6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    assert not opened & {f"socket:[{line.split()[9]}]" for line in lines}
    embedder.close()


def test_nothing_is_left_behind(tiny: Path, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    embedder = GgufEmbedder(str(tiny), cache_dir=cache)
    embedder.prepare()
    assert list(folder.iterdir()) == []
    embedder.close()


def test_without_the_extra_the_error_says_how_to_install_it(
    tiny: Path, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(EmbedderUnavailable, match="embedder local needs the Python package xllamacpp") as caught:
        GgufEmbedder(str(tiny), cache_dir=cache).prepare()
    assert caught.value.hint == f"Install it with `{install_command('gguf')}`."
    assert not Path(cache).exists()


@pytest.mark.parametrize(
    ("code", "problem"), [("raise ImportError('too old a system')", "too old a system"), ("", "CommonParams")]
)
def test_a_package_that_cannot_be_used_is_reported(
    tiny: Path, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, problem: str
) -> None:
    (tmp_path / "xllamacpp.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EmbedderUnavailable, match=f"xllamacpp cannot be used: .*{problem}") as caught:
        GgufEmbedder(str(tiny), cache_dir=cache).prepare()
    assert "pip install -U" in caught.value.hint
