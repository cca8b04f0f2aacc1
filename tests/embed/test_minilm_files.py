"""Where the model's files come from, and what happens when they are not there or not right."""

import shutil
import sys
from pathlib import Path

import pytest

from mdrecall.errors import EmbedderUnavailable, ModelFileError, install_command
from mdrecall.extras.minilm import MODEL, TOKENIZER, VOCABULARY, MiniLM, graph_path, load_graph
from tests.embed.conftest import FileServer, Request

ON_HUB = "/sentence-transformers/all-MiniLM-L6-v2/resolve/main/"


@pytest.fixture
def built(minilm: MiniLM, cache_dir: Path, tmp_path: Path) -> Path:
    """A folder of its own with the graph in it."""
    minilm.prepare()
    folder = tmp_path / "cache"
    folder.mkdir()
    shutil.copy(graph_path(str(cache_dir)), folder)
    return folder


def linked(model_folder: Path, folder: Path, *names: str) -> str:
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(model_folder / name)
    return str(folder)


def test_the_hub_gives_both_files(server: FileServer, model_folder: Path, tmp_path: Path, minilm: MiniLM) -> None:
    for name in (MODEL.name, TOKENIZER.name):
        server.files[ON_HUB + name] = (model_folder / name).read_bytes()
    cache = tmp_path / "new" / "cache"
    vector = MiniLM(str(cache), base_url=server.url + "/").embed_query("hello")
    assert vector == minilm.embed_query("hello")
    assert server.requests == [
        Request(ON_HUB + TOKENIZER.name, TOKENIZER.size),
        Request(ON_HUB + MODEL.name, MODEL.size),
    ]
    (cache / MODEL.name).unlink()
    assert MiniLM(str(cache), base_url=server.url).embed_query("hello") == vector
    assert len(server.requests) == 2


def test_offline_the_error_says_what_was_tried_and_the_way_out(
    server: FileServer, tmp_path: Path, model_folder: Path
) -> None:
    with pytest.raises(EmbedderUnavailable, match=f"{server.url}{ON_HUB}tokenizer.json: .* 404") as caught:
        MiniLM(str(tmp_path), base_url=server.url).embed_query("hello")
    assert "model.safetensors and tokenizer.json" in caught.value.hint
    assert "memorySearch.local.modelPath" in caught.value.hint


def test_a_named_folder_may_hold_only_the_vocabulary(
    model_folder: Path, built: Path, tmp_path: Path, minilm: MiniLM
) -> None:
    folder = linked(model_folder, tmp_path / "model", MODEL.name, VOCABULARY.name)
    texts = ["Crème brûlée, naïve façade", "深色模式", "don't e-mail me@example.org [SEP] 3.14", "word " * 400]
    assert MiniLM(str(built), folder=folder).embed_documents(texts) == minilm.embed_documents(texts)


@pytest.mark.parametrize("name", [MODEL.name, TOKENIZER.name])
def test_a_named_folder_without_a_file_says_which(name: str, model_folder: Path, built: Path, tmp_path: Path) -> None:
    others = {MODEL.name, TOKENIZER.name} - {name}
    folder = linked(model_folder, tmp_path / "model", *others)
    with pytest.raises(ModelFileError, match=f"model/{name} is missing"):
        MiniLM(str(built), folder=folder).prepare()


@pytest.mark.parametrize("name", [MODEL.name, TOKENIZER.name, VOCABULARY.name])
def test_another_file_is_refused_with_its_hash(name: str, model_folder: Path, built: Path, tmp_path: Path) -> None:
    others = {MODEL.name, TOKENIZER.name} - {name} - ({TOKENIZER.name} if name == VOCABULARY.name else set())
    folder = linked(model_folder, tmp_path / "model", *others)
    (tmp_path / "model" / name).write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    with pytest.raises(ModelFileError, match=f"model/{name} is not the file .* SHA-256 is {empty}, not ") as caught:
        MiniLM(str(built), folder=folder).prepare()
    assert "memorySearch.local.modelPath" in caught.value.hint


def test_a_file_that_cannot_be_read_is_named(model_folder: Path, built: Path, tmp_path: Path) -> None:
    folder = linked(model_folder, tmp_path / "model", TOKENIZER.name)
    (tmp_path / "model" / MODEL.name).symlink_to(MODEL.name)
    with pytest.raises(ModelFileError, match=f"Cannot read .*/{MODEL.name}"):
        MiniLM(str(built), folder=folder).prepare()


@pytest.mark.parametrize("damage", ["cut", "flip", "old", "empty", "gone"])
def test_a_damaged_graph_is_built_anew(damage: str, built: Path, model_folder: Path, minilm: MiniLM) -> None:
    path = Path(graph_path(str(built)))
    good = path.read_bytes()
    bad = {
        "cut": good[:-9],
        "flip": good[:-9] + b"\x00" * 9,
        "old": b"mdrecall minilm graph 0\n" + good[24:],
        "empty": b"",
    }
    path.unlink()
    if damage != "gone":
        path.write_bytes(bad[damage])
    assert load_graph(str(built)) is None
    # Whatever the damage, there is no graph from here on; to build one takes seconds.
    if damage == "flip":
        assert MiniLM(str(built), folder=str(model_folder)).embed_query("hello") == minilm.embed_query("hello")
        assert path.read_bytes() == good


def test_a_graph_that_onnxruntime_refuses_is_a_clear_error(
    model_folder: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.extras.minilm.load_graph", lambda folder: b"nonsense")
    with pytest.raises(EmbedderUnavailable, match=r"onnxruntime [\d.]+ cannot load"):
        MiniLM(str(built), folder=str(model_folder)).prepare()


@pytest.mark.parametrize("package", ["numpy", "onnx", "onnxruntime", "tokenizers"])
def test_without_the_extra_the_error_says_how_to_install_it(
    package: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EmbedderUnavailable, match=rf"needs the Python package {package}\b") as caught:
        MiniLM(str(tmp_path), folder=str(model_folder)).embed_query("hello")
    assert caught.value.hint == f"Install it with `{install_command('minilm')}`."
    assert list(tmp_path.iterdir()) == []
