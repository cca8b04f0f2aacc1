"""Where a model's file comes from, and what happens when it is not there or not right."""

import hashlib
import os
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.embed.download import BadContent
from mdrecall.errors import EmbedderError, EmbedderUnavailable, ModelFileError, install_command
from mdrecall.extras.gguf import GgufEmbedder
from mdrecall.extras.gguf.model_file import UNSPECIFIED, Header, read_header
from mdrecall.types.sync import Progress
from tests.conftest import examples
from tests.embed.conftest import FileServer, Request
from tests.embed.tiny_gguf import MEAN, RANK, Tiny, tiny_bytes, write_tiny

GOOD = tiny_bytes()
HEAD_BYTES = len(GOOD) - GOOD[::-1].index(b"thgiew.") + 64
REFERENCE = "hf:user/repo-GGUF/sub/tiny.gguf"
ON_HUB, ON_CDN = "/user/repo-GGUF/resolve/main/sub/tiny.gguf", "/cdn/abc?signature=1"


def local(path: Path | str, tmp_path: Path) -> GgufEmbedder:
    return GgufEmbedder(str(path), cache_dir=str(tmp_path / "cache"))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def refused(path: Path, tmp_path: Path) -> ModelFileError:
    """The error; the file stays as it is."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ModelFileError) as caught:
        local(path, tmp_path).prepare()
    assert str(path) in str(caught.value)
    assert caught.value.hint
    assert (path.read_bytes() if path.is_file() else None) == before
    return caught.value


def test_the_head_tells_what_the_model_is(tmp_path: Path) -> None:
    assert read_header(str(write_tiny(tmp_path / "a.gguf"))) == Header("bert", "tiny", 64, MEAN)
    path = write_tiny(tmp_path / "b.gguf", Tiny("llama", "writer", context=128, pooling=None))
    assert read_header(str(path)) == Header("llama", "writer", 128, UNSPECIFIED)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a GGUF model"),
        (b"GG", "not a GGUF model"),
        (b"<!DOCTYPE html><html></html>", "begins with b'<!DO'"),
        (b"GGUF", "middle of its head"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "GGUF version 50331648"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 0, 0), "which architecture"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "entries"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60), "bytes in a text"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 60_000), "middle of its head"),
        (b"GGUF" + struct.pack("<IQQQI", 3, 0, 1, 0, 77), "kind 77"),
        (b"GGUF" + struct.pack("<IQQQIIQ", 3, 0, 1, 0, 9, 9, 5), "kind 9"),
        (b"GGUF" + struct.pack("<IQQQIIQ", 3, 0, 1, 0, 9, 12, 1 << 60), "items in a list"),
        (b"GGUF" + struct.pack("<IQQQIIQ", 3, 0, 1, 0, 9, 12, 1 << 20), "middle of its head"),
        (GOOD.replace("\u2581mat".encode(), "\u2581cat".encode()), "SIGABRT"),  # ends the process that loads it
        (tiny_bytes(Tiny(pooling=RANK)), "ranks texts"),
        (GOOD[:-100], "cannot load"),
        (GOOD[:1000], "middle of its head"),
        (GOOD.replace(b"bert.context_length\x04", b"bert.context_length\x06"), "whole number"),
    ],
)
def test_what_is_no_whole_model_is_refused(tiny: Path, tmp_path: Path, data: bytes, words: str) -> None:
    assert words in str(refused(written(tmp_path / "bad.gguf", data), tmp_path))


def test_an_architecture_that_llama_cpp_does_not_know_is_named(tiny: Path, tmp_path: Path) -> None:
    data = GOOD.replace(b"bert", b"bxrt")
    error = refused(written(tmp_path / "new.gguf", data), tmp_path)
    assert "a model of the architecture bxrt" in str(error)
    assert install_command("gguf", upgrade=True) in error.hint


def test_folders_pipes_loops_and_nothing_are_refused(tiny: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    assert "is a folder" in str(refused(tmp_path, tmp_path))
    assert "not a regular file" in str(refused(tmp_path / "pipe", tmp_path))
    assert "Too many levels" in str(refused(tmp_path / "loop", tmp_path))
    error = refused(tmp_path / "nothing.gguf", tmp_path)
    assert "is missing" in str(error)
    assert "hf:USER/REPOSITORY/FILE.gguf" in error.hint
    for name in ("pipe", "loop", "nothing.gguf", ""):
        assert len(local(tmp_path / name, tmp_path).fingerprint) == 64


def test_a_load_that_failed_can_be_tried_again(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "later.gguf"
    embedder = local(path, tmp_path)
    with pytest.raises(ModelFileError):
        embedder.embed_query("cat")
    write_tiny(path)
    assert len(embedder.embed_query("cat")) == 4 * 32
    embedder.close()


def test_a_file_that_took_the_place_of_another_is_another_model(tiny: Path, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.gguf")
    embedder = local(path, tmp_path)
    first, vector = embedder.fingerprint, embedder.embed_query("cat")
    assert local(path, tmp_path / "other").fingerprint == embedder.fingerprint == first
    write_tiny(tmp_path / "new", Tiny(seed=2, size=64)).replace(path)
    assert embedder.fingerprint != first
    assert len(embedder.embed_query("cat")) == 2 * len(vector)
    assert embedder.dimensions == 64
    path.unlink()
    with pytest.raises(ModelFileError, match="is missing"):
        embedder.embed_query("cat")


@pytest.mark.parametrize("change", ["size", "time", "name"])
def test_the_fingerprint_of_a_file_notices_what_changed(tmp_path: Path, change: str) -> None:
    path = written(tmp_path / "a.gguf", GOOD * 5)
    os.utime(path, ns=(0, 0))
    before = local(path, tmp_path).fingerprint
    path.write_bytes(path.read_bytes() + b"x" * (change == "size"))
    os.utime(path, ns=(0, change == "time"))
    if change == "name":
        path = path.rename(tmp_path / "b.gguf")
    assert local(path, tmp_path).fingerprint != before


def fuzzed(data: bytes, folder: Path) -> None:
    path = written(folder / "fuzzed.gguf", data)
    with suppress(BadContent):
        read_header(str(path))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, HEAD_BYTES), st.binary(min_size=1, max_size=16))
def test_any_damage_to_the_head_gives_a_model_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, damage: bytes
) -> None:
    fuzzed(GOOD[:place] + damage + GOOD[place + len(damage) :], tmp_path_factory.getbasetemp())


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(4, HEAD_BYTES), st.binary(min_size=1, max_size=8))
def test_no_damage_ends_this_process(
    tiny: Path, tmp_path_factory: pytest.TempPathFactory, place: int, damage: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = written(folder / "damaged.gguf", GOOD[:place] + damage + GOOD[place + len(damage) :])
    embedder = local(path, folder)
    with suppress(EmbedderError):
        embedder.embed_query("cat")
    embedder.close()


@pytest.fixture
def hub(server: FileServer) -> FileServer:
    """Gives the small model as the Hugging Face hub does."""
    linked = {"X-Linked-Size": str(len(GOOD)), "X-Linked-Etag": f'"{hashlib.sha256(GOOD).hexdigest()}"'}
    server.redirects[ON_HUB] = (ON_CDN, linked)
    server.files[ON_CDN] = GOOD
    return server


def test_the_hub_gives_the_model_once(tiny: Path, hub: FileServer, tmp_path: Path) -> None:
    told: list[Progress] = []
    cache = tmp_path / "new" / "cache"
    embedder = GgufEmbedder(REFERENCE, cache_dir=str(cache), hub=hub.url + "/")
    before = embedder.fingerprint
    embedder.prepare(progress=told.append)
    assert len(embedder.embed_query("cat")) == 4 * 32
    embedder.close()
    assert embedder.fingerprint == before
    assert hub.requests == [Request(ON_CDN, len(GOOD))]
    assert told[-1] == Progress(len(GOOD), len(GOOD), "Downloading tiny.gguf")
    kept = cache / "hub" / "user" / "repo-GGUF" / "main" / "sub"
    assert sorted(path.name for path in kept.iterdir()) == ["tiny.gguf"]
    again = GgufEmbedder(REFERENCE, cache_dir=str(cache), hub="http://127.0.0.1:9")
    again.prepare()
    again.close()
    assert len(hub.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_says_how_to_do_it_by_hand(tiny: Path, hub: FileServer, tmp_path: Path, status: int) -> None:
    del hub.redirects[ON_HUB]
    hub.statuses[ON_HUB] = status
    embedder = GgufEmbedder(REFERENCE, cache_dir=str(tmp_path), hub=hub.url)
    with pytest.raises(EmbedderUnavailable, match=f"{ON_HUB}: the server returned {status}") as caught:
        embedder.prepare()
    assert f"tiny.gguf by hand from {hub.url}{ON_HUB}" in caught.value.hint
    assert "memorySearch.local.modelPath" in caught.value.hint


@pytest.mark.parametrize("body", [b"<!DOCTYPE html><p>Log in", GOOD[:1000]])
def test_something_else_than_a_model_is_removed(tiny: Path, hub: FileServer, tmp_path: Path, body: bytes) -> None:
    hub.redirects[ON_HUB] = (ON_CDN, {})
    hub.files[ON_CDN] = body
    embedder = GgufEmbedder(REFERENCE, cache_dir=str(tmp_path), hub=hub.url)
    with pytest.raises(ModelFileError, match=r"cannot be used: .*\. The download was removed"):
        embedder.prepare()
    assert not list(tmp_path.rglob("*.gguf*"))
    hub.files[ON_CDN] = GOOD
    embedder.prepare()
    embedder.close()


def test_a_damaged_download_is_left_with_the_way_out(tiny: Path, tmp_path: Path) -> None:
    kept = tmp_path / "hub" / "user" / "repo-GGUF" / "main" / "sub" / "tiny.gguf"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(GOOD[:1000])
    with pytest.raises(ModelFileError, match="middle of its head") as caught:
        GgufEmbedder(REFERENCE, cache_dir=str(tmp_path)).prepare()
    assert caught.value.hint == "Delete it to download it again."
    assert kept.read_bytes() == GOOD[:1000]


def test_close_ends_a_download_that_is_under_way(tiny: Path, hub: FileServer, tmp_path: Path) -> None:
    told: list[Progress] = []

    def closing(step: Progress) -> None:
        if not told:
            embedder.close()
        told.append(step)

    embedder = GgufEmbedder(REFERENCE, cache_dir=str(tmp_path), hub=hub.url)
    with pytest.raises(EmbedderUnavailable, match="unloaded"):
        embedder.prepare(progress=closing)
    embedder.prepare()
    embedder.close()
