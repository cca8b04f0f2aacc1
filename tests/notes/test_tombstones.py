"""Tombstones: hashes only, one file for each machine, read again when one has changed, and safe to take from others."""

import json
import os
from pathlib import Path

import pytest

from mdrecall.errors import StoreUnavailable
from mdrecall.notes import tombstones
from mdrecall.notes.tombstones import TombstoneFiles, entry_line, keep_machine, mark_line, read_machine
from mdrecall.text.tombstones import Days, Entry, Tombstones, build_tombstones, make_entry
from mdrecall.types.transcripts import TranscriptRecord

SALT, OTHER = bytes(range(16)), bytes(range(16, 32))
FOLDER = Path(".mdrecall/forgotten")


def make(*phrases: str, salt: bytes = SALT, id: str = "f1", sessions: dict[str, Days] | None = None,
         notes: dict[str, str] | None = None) -> Entry:  # fmt: skip
    return make_entry(salt, id, "2026-11-16T08:00:00Z", phrases, sessions or {}, notes or {})


def forget(*phrases: str, sessions: dict[str, Days] | None = None, notes: dict[str, str] | None = None) -> Tombstones:
    return build_tombstones([make(*phrases, sessions=sessions, notes=notes)])


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
        ("Anna [has](a.md) gout", "Anna has gout", "[forgotten]"),
    ],
)
def test_a_forgotten_phrase_is_masked(phrase: str, text: str, after: str) -> None:
    assert forget(phrase, "another long phrase").mask(text) == after


def test_a_forgotten_note_that_comes_back_is_masked_but_for_what_is_new() -> None:
    found = forget(notes={"memory/a.md": "# Day\n- Gout\n"})
    assert found.is_forgotten_path("memory/a.md")
    assert found.mask("# Day\n- **G**out\n- New\n", "memory/a.md") == "[forgotten]\n[forgotten]\n- New\n"
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


def test_another_salt_gives_other_hashes() -> None:
    one, two = (make("gout", salt=os.urandom(16)) for _ in range(2))
    assert one.phrases != two.phrases


def test_the_files_have_no_text_and_those_of_all_machines_hold(tmp_path: Path) -> None:
    files, held = TombstoneFiles(str(tmp_path)), TombstoneFiles(str(tmp_path))
    assert held.load() == Tombstones()
    entry = make("Anna has gout", sessions={"secret-session": Days()}, notes={"memory/anna.md": "private line"})
    files.add(SALT, [entry_line(entry)])
    own = tmp_path / FOLDER / f"{SALT.hex()}.jsonl"
    content = own.read_bytes().lower()
    for text in (b"anna", b"gout", b"secret-session", b"private"):
        assert text not in content
    assert own.stat().st_mode & 0o077 == 0
    assert held.load() == build_tombstones([entry])
    assert held.load() is held.load()
    # As if git had brought the file of another machine, under another name.
    (tmp_path / "b").mkdir()
    TombstoneFiles(str(tmp_path / "b")).add(
        OTHER, [entry_line(make("the boat", salt=OTHER, id="f2")), mark_line("done", "f2")]
    )
    (tmp_path / "b" / FOLDER / f"{OTHER.hex()}.jsonl").rename(tmp_path / FOLDER / "copy of laptop.jsonl")
    assert held.load().mask("Anna has gout. The boat. Tea.") == "[forgotten] [forgotten] Tea."
    assert [(each.id, each.is_done) for each in held.load().entries] == [("f1", False), ("f2", True)]
    files.add(SALT, [mark_line("undo", "f2"), mark_line("done", "f1")])
    assert held.load().mask("Anna has gout. The boat. Tea.") == "[forgotten] The boat. Tea."
    assert held.load().entries[0].is_done
    lines = own.read_bytes().splitlines()
    assert json.loads(lines[0]) == {"version": 2, "salt": SALT.hex()}
    assert len(lines) == 4, "Lines are only added."


def test_files_are_joined_line_by_line_in_any_order(tmp_path: Path) -> None:
    here, there = (TombstoneFiles(str(tmp_path / name)) for name in ("a", "b"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    here.add(SALT, [entry_line(make("one"))])
    there.add(SALT, [entry_line(make("two", id="f2"))])
    there.add(OTHER, [entry_line(make("three", salt=OTHER, id="f3"))])
    both = here.merge(there.merge(b""))
    assert there.merge(both) == both == here.merge(both)
    assert here.load().fingerprint == there.load().fingerprint != ""
    assert {entry.id for entry in here.load().entries} == {"f1", "f2", "f3"}
    before = (tmp_path / "a" / FOLDER / f"{SALT.hex()}.jsonl").read_bytes()
    bad = b'[1]\nnonsense\n{"forget":"f9"}\n'
    assert here.merge(both + bad).startswith(b'{"version"')
    assert (tmp_path / "a" / FOLDER / f"{SALT.hex()}.jsonl").read_bytes() == before, "Only lines that mean something."


def test_half_a_line_is_nothing_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    files = TombstoneFiles(str(tmp_path))
    files.add(SALT, [entry_line(make("one")), entry_line(make("two", id="f2"))])
    file = tmp_path / FOLDER / f"{SALT.hex()}.jsonl"
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert len(TombstoneFiles(str(tmp_path)).load().entries) <= 2
        files.add(SALT, [entry_line(make("three", id="f3"))])
        assert TombstoneFiles(str(tmp_path)).load().mask("Three. One more.").startswith("[forgotten]"), size


@pytest.mark.parametrize(
    "content", [b"a\nb\n", b"[]\n{}\n", b'{"version":9,"salt":"' + b"00" * 16 + b'"}\n', b"\n\n x\ny"]
)
def test_a_file_of_another_kind_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "x.jsonl").write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"forgotten/x\.jsonl") as raised:
        TombstoneFiles(str(tmp_path)).load()
    assert "Delete it if it is not yours." in raised.value.hint


@pytest.mark.parametrize(
    "line",
    [
        b"<<<<<<< HEAD", b"\xff\xfe", b"[" * 100_000, b'{"forget":1}', b'["forget"]', b'"forget"', b"null",
        b'{"forget":"x","at":"","phrases":5}', b'{"forget":"x","at":"","phrases":[["aa",0,"bb"]]}',
        b'{"forget":"x","at":"","phrases":[["aa",-1,"bb"]]}', b'{"forget":"x","at":"","phrases":[["aa",1e999,"bb"]]}',
        b'{"forget":"x","at":"","phrases":[["aa",99999999999,"bb"]]}', b'{"forget":"x","at":"","paths":[["a"]]}',
        b'{"done":[[]]}', b'{"undo":{}}', b'{"at":"x"}',
    ],
)  # fmt: skip
def test_a_line_of_others_that_means_nothing_is_skipped(tmp_path: Path, line: bytes) -> None:
    files = TombstoneFiles(str(tmp_path))
    files.add(SALT, [entry_line(make("gout")), line, entry_line(make("boat", id="f2"))])
    assert files.load().mask("A gout. A boat. Tea.", "a.md") == "[forgotten] [forgotten] Tea."


def test_links_and_what_is_no_file_are_not_followed(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "notes", tmp_path / "outside"
    for folder in (workspace / FOLDER, outside / "forgotten"):
        folder.mkdir(parents=True)
    TombstoneFiles(str(tmp_path)).add(SALT, [entry_line(make("gout"))])
    real = tmp_path / FOLDER / f"{SALT.hex()}.jsonl"
    (workspace / FOLDER / "link.jsonl").symlink_to(real)
    os.mkfifo(workspace / FOLDER / "pipe.jsonl")
    (workspace / FOLDER / "folder.jsonl").mkdir()
    files = TombstoneFiles(str(workspace))
    assert not files.load()
    own = workspace / FOLDER / f"{SALT.hex()}.jsonl"
    for kind in ("link", "pipe", "folder"):
        if kind == "link":
            own.symlink_to(outside / "x")
        elif kind == "pipe":
            os.mkfifo(own)
        else:
            own.mkdir()
        with pytest.raises(StoreUnavailable, match="cannot be written there"):
            files.add(SALT, [mark_line("done", "f1")])
        own.rmdir() if own.is_dir() else own.unlink()
    for name in (workspace / ".mdrecall", workspace / FOLDER):
        elsewhere = tmp_path / "moved"
        name.rename(elsewhere)
        name.symlink_to(outside if name.name == ".mdrecall" else outside / "forgotten")
        assert not files.load()
        with pytest.raises(StoreUnavailable, match="cannot be written there"):
            files.add(SALT, [mark_line("done", "f1")])
        name.unlink()
        elsewhere.rename(name)
    assert not list((outside / "forgotten").iterdir())


def test_how_much_is_read_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = TombstoneFiles(str(tmp_path))
    with monkeypatch.context() as small:
        small.setattr(tombstones, "MAX_BYTES", 100)
        with pytest.raises(StoreUnavailable, match="100 bytes"):
            files.add(SALT, [entry_line(make("Anna has gout"))])
        assert not (tmp_path / FOLDER).exists()
    files.add(SALT, [entry_line(make("Anna has gout"))])
    monkeypatch.setattr(tombstones, "MAX_BYTES", 100)
    with pytest.raises(StoreUnavailable, match="more than 64 files, or 100 bytes"):
        files.load()
    monkeypatch.undo()
    for number in range(100):
        (tmp_path / FOLDER / f"{number}").write_text("")
    with pytest.raises(StoreUnavailable, match="more than 64 files"):
        files.load()


def test_phrases_of_endless_lengths_are_not_all_looked_for() -> None:
    hostile = make("gout")._replace(phrases=tuple(("ab", count, f"{count:x}") for count in range(1, 1001)))
    (group,) = build_tombstones([hostile]).groups
    assert len(group.firsts["ab"]) == 200


def test_a_machine_keeps_its_salt(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert read_machine(state) == b""
    keep_machine(state, SALT)
    keep_machine(state, OTHER)
    assert read_machine(state) == SALT
    (tmp_path / "state/mdrecall-machine").write_text("nonsense")
    assert read_machine(state) == b""
    keep_machine(state, OTHER)
    assert read_machine(state) == OTHER
