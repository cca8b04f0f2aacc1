"""Tombstones: hashes only, read once, and a damaged file is an error rather than nothing forgotten."""

from pathlib import Path

import pytest

from mdrecall.errors import StoreUnavailable
from mdrecall.sources.tombstones import (
    Days,
    TombstoneFile,
    Tombstones,
    build_tombstones,
    load_tombstones,
    new_salt,
    save_entries,
    tombstones_path,
)
from mdrecall.types import TranscriptRecord

SALT = bytes(range(16))


def forget(*phrases: str, sessions: dict[str, Days] | None = None, notes: dict[str, str] | None = None) -> Tombstones:
    entry = build_tombstones(SALT).entry("f1", "2026-11-16T08:00:00Z", phrases, sessions or {}, notes or {})
    return build_tombstones(SALT, [entry])


def test_nothing_forgotten_is_false_and_changes_nothing() -> None:
    none = Tombstones()
    text = "Anna has gout."
    assert not none
    assert none.fingerprint == ""
    assert none.mask(text, "a.md") is text
    assert not none.is_forgotten_path("a.md")
    assert not none.is_forgotten_session("s1")


@pytest.mark.parametrize(
    ("phrase", "text", "after"),
    [
        ("Anna has gout", "So: ANNA\nhas gout! Fine.", "[forgotten]\n Fine."),
        ("深色模式", "我们用深色模式吧。好。", "[forgotten]好。"),
        ("Anna has gout", "Anna has a gout", "Anna has a gout"),
    ],
)
def test_a_forgotten_phrase_is_masked(phrase: str, text: str, after: str) -> None:
    assert forget(phrase, "another long phrase").mask(text) == after


def test_a_forgotten_note_that_comes_back_is_masked_but_for_what_is_new() -> None:
    found = forget(notes={"memory/a.md": "# Day\n- Gout\n"})
    assert found.is_forgotten_path("memory/a.md")
    assert found.mask("# Day\n- Gout\n- New\n", "memory/a.md") == "[forgotten]\n[forgotten]\n- New\n"
    assert found.mask("# Day\n- Gout\n", "memory/b.md") == "# Day\n- Gout\n"


def test_a_session_is_forgotten_whole_or_by_days() -> None:
    found = forget(sessions={"s1": Days(), "s2": Days("2026-01-02", "2026-01-03")})
    assert found.is_forgotten_session("s1")
    assert found.is_forgotten_session("s1", "2026-01-09")
    assert not found.is_forgotten_session("s2")
    assert [found.is_forgotten_session("s2", f"2026-01-0{day}") for day in (1, 2, 3, 4)] == [False, True, True, False]
    record = TranscriptRecord(3, 9, 9, "User", "hello", "2026-01-02")
    assert found.mask_record(record, "sessions/s2.jsonl").text == "[forgotten]"
    assert found.mask_record(record, "sessions/s3.jsonl") is record


def test_the_file_has_no_text_and_is_read_again_as_it_was(tmp_path: Path) -> None:
    path = tombstones_path(str(tmp_path / "index.sqlite"))
    held = TombstoneFile(str(tmp_path / "index.sqlite"))
    assert held.load() == Tombstones()
    assert load_tombstones(path) == Tombstones()
    found = forget("Anna has gout", sessions={"secret-session": Days()}, notes={"memory/anna.md": "private line"})
    assert save_entries(path, SALT, found.entries) == found
    content = Path(path).read_bytes().lower()
    for text in (b"anna", b"gout", b"secret-session", b"private", "深".encode()):
        assert text not in content
    assert load_tombstones(path) == found
    assert held.load() == found
    assert held.load() is held.load()
    assert load_tombstones(path).fingerprint == found.fingerprint != ""
    assert Path(path).stat().st_mode & 0o077 == 0


def test_another_salt_gives_other_hashes() -> None:
    one, two = (build_tombstones(new_salt()).entry("f", "", ["gout"], {}, {}) for _ in range(2))
    assert one.phrases != two.phrases


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":9}', b'{"version":1,"salt":"zz","entries":[]}'])
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "index.sqlite.forgotten"
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="forgotten"):
        load_tombstones(str(path))


def test_a_file_of_tombstones_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.sources.tombstones.MAX_BYTES", 100)
    path = str(tmp_path / "f")
    with pytest.raises(StoreUnavailable, match="100 bytes"):
        save_entries(path, SALT, forget("Anna has gout").entries)
    assert not Path(path).exists()
