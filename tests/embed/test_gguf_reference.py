"""What a model may be called, and what is put around texts for it."""

import os
from pathlib import Path

import pytest

from mdrecall.embed.models import Prompts, prompts_for
from mdrecall.errors import ModelFileError
from mdrecall.extras.gguf.model_file import DEFAULT, parse_reference
from mdrecall.types.documents import EmbedInput

HUB = "https://huggingface.co"


@pytest.mark.parametrize(
    ("text", "path", "url"),
    [
        ("hf:u/r/f.gguf", "hub/u/r/main/f.gguf", f"{HUB}/u/r/resolve/main/f.gguf"),
        ("hf:u/r/sub/dir/f.gguf", "hub/u/r/main/sub/dir/f.gguf", f"{HUB}/u/r/resolve/main/sub/dir/f.gguf"),
        ("hf:u/r/f.gguf@v1.5", "hub/u/r/v1.5/f.gguf", f"{HUB}/u/r/resolve/v1.5/f.gguf"),
        ("hf:u/r/f.gguf#refs/pr/2", "hub/u/r/refs%2Fpr%2F2/f.gguf", f"{HUB}/u/r/resolve/refs%2Fpr%2F2/f.gguf"),
        ("hf:u/r/a b.gguf", "hub/u/r/main/a b.gguf", f"{HUB}/u/r/resolve/main/a%20b.gguf"),
    ],
)
def test_a_file_on_the_hub(text: str, path: str, url: str) -> None:
    assert parse_reference(text) == (path, url)


def test_the_default_is_what_openclaw_has() -> None:
    repository = "ggml-org/embeddinggemma-300m-qat-q8_0-GGUF"
    name = "embeddinggemma-300m-qat-Q8_0.gguf"
    assert parse_reference(DEFAULT, "https://mirror/") == (
        f"hub/{repository}/main/{name}",
        f"https://mirror/{repository}/resolve/main/{name}",
    )


def test_an_address_on_the_web() -> None:
    path, url = parse_reference("https://host:8443/a/f%20x.gguf?download=true")
    other, _ = parse_reference("http://host/a/f%20x.gguf")
    assert (os.path.basename(path), url) == ("f x.gguf", "https://host:8443/a/f%20x.gguf?download=true")
    assert os.path.dirname(path) != os.path.dirname(other)


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    wanted = (str(tmp_path / "m x.gguf"), "")
    assert (
        parse_reference("~/m x.gguf")
        == parse_reference("m x.gguf")
        == parse_reference(str(tmp_path / "m x.gguf"))
        == wanted
    )


@pytest.mark.parametrize(
    "text",
    [
        *["hf:", "hf:u", "hf:u/r", "hf:u/r/", "hf:u/r/f.bin", "hf:u/r:Q8_0", "hf:u/r/f.gguf@", "hf:/u/r/f.gguf"],
        *["hf:u/../f.gguf", "hf:u/r/../../../f.gguf", "hf:u/r//f.gguf", "hf:u/r/a\\b.gguf", "hf:u/r/a\nb.gguf"],
        *["hf:../../f.gguf", "hf:u/r/f.gguf@..", "https://host", "https://host/f.bin", "https:///f.gguf"],
        *["https://me:secret@host/f.gguf", "https://host/..%2Ff.gguf", "https://[/f.gguf", "http://host/%2e%2e.gguf/"],
        *["file:///f.gguf", "ftp://host/f.gguf", "s3://bucket/f.gguf", "ollama:model", "a\0b.gguf"],
    ],
)
def test_what_names_no_model_is_told_with_the_three_forms(text: str) -> None:
    with pytest.raises(ModelFileError, match="does not name a model") as caught:
        parse_reference(text)
    assert repr(text) in str(caught.value)
    for form in ("path of a .gguf file", "hf:USER/REPOSITORY/FILE.gguf", "https://…/FILE.gguf"):
        assert form in caught.value.hint


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("gemma-embedding", "task: search result | query: Q", "title: a › b | text: T"),
        ("embeddinggemma-300m-qat-Q8_0.gguf", "task: search result | query: Q", "title: a › b | text: T"),
        ("nomic-bert-moe", "search_query: Q", "search_document: a\nb\n\nT"),
        ("Nomic Embed Text v1.5", "search_query: Q", "search_document: a\nb\n\nT"),
        ("multilingual-e5-small-q8_0.gguf", "query: Q", "passage: a\nb\n\nT"),
        ("E5_Base_v2", "query: Q", "passage: a\nb\n\nT"),
        ("bge-small-en-v1.5", "Represent this sentence for searching relevant passages: Q", "a\nb\n\nT"),
        ("bge-m3", "Q", "a\nb\n\nT"),
        ("all-MiniLM-L6-v2", "Q", "a\nb\n\nT"),
        ("", "Q", "a\nb\n\nT"),
    ],
)
def test_each_model_reads_what_it_was_trained_with(name: str, query: str, document: str) -> None:
    prompts = prompts_for("bert", name)
    assert prompts.of_query("Q") == query
    assert prompts.of_passage(EmbedInput("a\nb", "T")) == document


def test_instructions_go_to_queries_only() -> None:
    for name in ("Qwen3-Embedding-0.6B-Q8_0.gguf", "multilingual-e5-large-instruct"):
        assert prompts_for(name).of_query("Q").startswith("Instruct: ")
        assert prompts_for(name).of_passage(EmbedInput("", "T")) == "T"


def test_a_text_is_taken_as_it_is() -> None:
    odd = "{title} {text} {0} {"
    gemma = prompts_for("gemma-embedding")
    assert gemma.of_query(odd).endswith(odd)
    assert gemma.of_passage(EmbedInput("", odd)) == f"title: none | text: {odd}"
    assert Prompts().of_passage(EmbedInput("", odd)) == odd
