from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.declare import (
    InvalidValue,
    Rule,
    choice,
    duration_ms,
    either,
    flag,
    list_of,
    map_of,
    number,
    record,
    size_bytes,
    text,
    whole,
)
from mdrecall.errors import suggest_name
from tests.config import loaded, nested, value

SEARCH = "agents.defaults.memorySearch."

FLUSH = "agents.defaults.compaction.memoryFlush"


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("1d2h3m4s5ms", 93_784_005),
        ("1.5h", 5_400_000),
        ("0.0004s", 0),
        ("1.6ms", 2),
        ("1H30M", 5_400_000),
        ("  5m  ", 300_000),
        ("5", 300_000),
        (0, 0),
        (5, 300_000),
        (0.5, 30_000),
    ],
)
def test_a_duration_is_read_as_milliseconds(given: object, ms: int) -> None:
    assert duration_ms().read(given) == ms


@pytest.mark.parametrize("given", ["", "  ", "soon", "-5m", "5 m", "1h30", "m", "5w", "5m!", -1, True, None, ["5m"]])
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(InvalidValue, match="must be a duration such as 90s, 5m or 1h30m"):
        duration_ms().read(given)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (0, 0),
        (512.0, 512),
        ("512", 512),
        ("10b", 10),
        ("1kb", 1024),
        ("2MB", 2_097_152),
        ("1gb", 1_073_741_824),
        ("1tb", 1_099_511_627_776),
        ("1.5k", 1536),
        ("  2mb  ", 2_097_152),
    ],
)
def test_a_size_is_read_as_bytes_in_powers_of_1024(given: object, size: int) -> None:
    assert size_bytes().read(given) == size


@pytest.mark.parametrize("given", ["", "big", "-1", "2mib", "2 x", "kb", -1, 1.5, False, None, [1]])
def test_what_is_no_size_is_refused(given: object) -> None:
    with pytest.raises(InvalidValue, match="must be a number of bytes, or a size such as 512k or 2mb"):
        size_bytes().read(given)


@pytest.mark.parametrize(
    ("rule", "given", "result"),
    [
        (whole(0), 6.0, 6),
        (whole(1, 20), 20, 20),
        (number(0, 1), 1, 1.0),
        (choice("a", "b"), "b", "b"),
        (list_of(text()), ["a", "b"], ("a", "b")),
        (map_of(text()), {"k": "v"}, {"k": "v"}),
        (record({"path": text()}, ("path",)), {"path": "p"}, {"path": "p"}),
        (either(text(), whole()), 3, 3),
        (either(text(), whole()), "3", "3"),
    ],
)
def test_a_rule_reads_what_it_accepts(rule: Rule[Any], given: object, result: object) -> None:
    read = rule.read(given)
    assert (read, type(read)) == (result, type(result))


@pytest.mark.parametrize(
    ("rule", "given", "at", "message"),
    [
        (flag(), "true", "", 'is "true", but must be true or false'),
        (whole(1), 1.5, "", "is 1.5, but must be a whole number of at least 1"),
        (whole(1), True, "", "is true, but must be a whole number of at least 1"),
        (whole(1, 20), 21, "", "is 21, but must be a whole number from 1 to 20"),
        (whole(0), float("inf"), "", "is Infinity, but must be a whole number of at least 0"),
        (number(0, 1), 1.01, "", "is 1.01, but must be a number from 0 to 1"),
        (number(0, 1), float("nan"), "", "is NaN, but must be a number from 0 to 1"),
        (number(0, 1), "1", "", 'is "1", but must be a number from 0 to 1'),
        (choice("a", "b"), ["a"], "", 'is ["a"], but must be one of a, b'),
        (list_of(text()), ["a", 2], "[1]", "is 2, but must be a string"),
        (map_of(text()), {"k": 1}, ".k", "is 1, but must be a string"),
        (record({"path": text()}), {"pth": ""}, ".pth", "is not a known key; did you mean path? Known here: path"),
        (record({"path": text()}, ("path",)), {}, ".path", "is missing; it must be a string"),
        (list_of(record({"path": text()})), [{"path": 1}], "[0].path", "is 1, but must be a string"),
        (either(text(), record({"path": text()})), 1, "", "is 1, but must be a string, or an object with path"),
        (either(text(), record({"path": text()})), {"path": 1}, ".path", "is 1, but must be a string"),
    ],
)
def test_a_refusal_says_where_what_and_what_it_takes(rule: Rule[Any], given: object, at: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        rule.read(given)
    assert (caught.value.at, str(caught.value)) == (at, message)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidValue) as caught:
        flag().read("x" * 100)
    assert str(caught.value) == 'is "' + "x" * 56 + "..., but must be true or false"


def test_the_nearest_known_word_is_offered_whatever_its_case() -> None:
    known = {"maxResults": 0, "minScore": 0}
    assert suggest_name("MAXRESULT", known) == "; did you mean maxResults? Known here: maxResults, minScore"
    assert suggest_name("zzz", known) == "; known here: maxResults, minScore"


@pytest.mark.parametrize(
    ("tokens", "overlap", "expected"), [(400, 80, 80), (100, 100, 99), (100, 5000, 99), (1, 1, 0), (1, 0, 0)]
)
def test_the_overlap_is_kept_below_the_chunk_size(tmp_path: Path, tokens: int, overlap: int, expected: int) -> None:
    content = nested(SEARCH + "chunking", {"tokens": tokens, "overlap": overlap})
    chunking = loaded(tmp_path, content).settings.memory_search.chunking
    assert (chunking.tokens, chunking.overlap) == (tokens, expected)


def test_a_small_chunk_size_alone_lowers_the_default_overlap(tmp_path: Path) -> None:
    assert value(tmp_path, nested(SEARCH + "chunking.tokens", 50), "memorySearch.chunking.overlap") == 49


@pytest.mark.parametrize(
    ("given", "vector", "words"),
    [
        ({}, 0.35, 0.65),
        ({"vectorWeight": 1, "textWeight": 1}, 0.5, 0.5),
        ({"vectorWeight": 0.2, "textWeight": 0.6}, 0.25, 0.75),
        ({"vectorWeight": 0, "textWeight": 0}, 0.35, 0.65),
        ({"vectorWeight": 0, "textWeight": 0.4}, 0.0, 1.0),
    ],
)
def test_the_weights_are_divided_by_their_sum(
    tmp_path: Path, given: dict[str, float], vector: float, words: float
) -> None:
    hybrid = loaded(tmp_path, nested(SEARCH + "query.hybrid", given)).settings.memory_search.query.hybrid
    assert hybrid.vector_weight == pytest.approx(vector)
    assert hybrid.text_weight == pytest.approx(words)


@pytest.mark.parametrize(("given", "used"), [(20, 20), (21, 20)])
def test_the_candidate_multiplier_is_kept_at_20_or_less(tmp_path: Path, given: int, used: int) -> None:
    content = nested(SEARCH + "query.hybrid.candidateMultiplier", given)
    assert value(tmp_path, content, "memorySearch.query.hybrid.candidateMultiplier") == used


@pytest.mark.parametrize(
    ("sources", "allowed", "used"),
    [
        (["sessions"], False, ("memory",)),
        ([], False, ("memory",)),
        (["memory", "sessions"], True, ("memory", "sessions")),
        (["sessions"], True, ("sessions",)),
        (["memory", "memory"], False, ("memory",)),
    ],
)
def test_sessions_are_a_source_only_with_session_memory(
    tmp_path: Path, sources: list[str], allowed: bool, used: tuple[str, ...]
) -> None:
    search = {"sources": sources, "experimental": {"sessionMemory": allowed}}
    assert value(tmp_path, nested(SEARCH.rstrip("."), search), "memorySearch.sources") == used


@pytest.mark.parametrize(
    ("search", "model"),
    [
        ({}, ""),
        ({"provider": "openai"}, "text-embedding-3-small"),
        ({"provider": "ollama"}, "nomic-embed-text"),
        ({"provider": "voyage", "model": "voyage-code-3"}, "voyage-code-3"),
        ({"model": "mine"}, "mine"),
    ],
)
def test_the_model_follows_the_provider_unless_it_is_named(tmp_path: Path, search: dict[str, Any], model: str) -> None:
    assert value(tmp_path, nested(SEARCH.rstrip("."), search), "memorySearch.model") == model


@pytest.mark.parametrize(
    ("path", "given", "used"),
    [
        (f"{FLUSH}.prompt", "  ", None),
        (f"{FLUSH}.prompt", " Save. ", "Save."),
        (f"{FLUSH}.systemPrompt", "", None),
        (f"{FLUSH}.systemPrompt", "\nBe\n", "Be"),
        ("memory.qmd.update.commandTimeoutMs", 0, 30_000),
        ("memory.qmd.update.embedTimeoutMs", 0, 120_000),
        ("memory.qmd.update.commandTimeoutMs", 1, 1),
        ("memory.qmd.update.interval", "90s", 90_000),
        ("memory.qmd.update.embedInterval", "1h30m", 5_400_000),
        ("memory.qmd.mcporter.serverName", "  ", "qmd"),
        ("memory.qmd.mcporter.serverName", " mine ", "mine"),
        ("plugins.slots.memory", "   ", "memory-core"),
        ("plugins.slots.memory", " memory-lancedb ", "memory-lancedb"),
        (f"{FLUSH}.forceFlushTranscriptBytes", "512k", 524_288),
        (f"{FLUSH}.forceFlushTranscriptBytes", 0, 0),
    ],
)
def test_a_value_is_brought_into_the_form_that_is_used(tmp_path: Path, path: str, given: object, used: object) -> None:
    assert value(tmp_path, nested(path, given), path) == used
