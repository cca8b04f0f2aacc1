"""An encrypted remote: what nobody can read in it, who can join, and what whoever writes to it cannot do."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from mdrecall.errors import SyncError
from mdrecall.sync.encrypted import ABOUT, Key, accept_invitation, make_key
from mdrecall.sync.run import MemorySync, SyncResult
from tests.conftest import examples
from tests.sync.real import RealHistory, add_tombstone, attach, list_objects, load_home, make_remote
from tests.sync.test_sync import Pair, follow_notes

pytest.importorskip("pyrage", reason="needs pyrage: pip install -e '.[sync]'")
pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


class Sealed(Pair):
    """Two machines and their encrypted remote."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.key = make_key()

    def put(self, *files: tuple[str, bytes | None]) -> None:
        """Put files into the top of the remote, in the place of those of the same name."""
        kept = self.list_blobs()
        for name, data in files:
            kept[name] = self.git("hash-object", "-w", "--stdin", data=data or b"")
        env = {**os.environ, "GIT_INDEX_FILE": str(self.folder / "index")}
        lines = "".join(f"100644 {blob}\t{name}\n" for name, blob in kept.items())
        (self.folder / "index").unlink(missing_ok=True)
        for command, data in (("update-index --index-info", lines.encode()), ("write-tree", b"")):
            done = subprocess.run(
                ["git", "--git-dir", self.url, *command.split()], input=data, env=env, check=True, capture_output=True
            )
        commit = self.git("commit-tree", done.stdout.decode().strip(), "-p", "mdrecall", "-m", "x")
        self.git("update-ref", "refs/heads/mdrecall", commit)

    def list_blobs(self) -> dict[str, str]:
        lines = self.git("ls-tree", "-r", "mdrecall").splitlines()
        return {line.partition("\t")[2]: line.split()[2] for line in lines}

    def read_blob(self, path: str) -> bytes:
        command = ["git", "--git-dir", self.url, "cat-file", "blob", self.list_blobs()[self.key.hide(path)]]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def read_notes(self, machine: str) -> dict[str, str]:
        root = self.folder / machine / "notes"
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.md")}


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    sealed = Sealed(tmp_path)
    sealed.write(sealed.one, "MEMORY.md", "# Facts\n\n- Ana drinks tea.\n")
    sealed.write(sealed.one, "memory/2026-11-17.md", "- met Bo\n")
    attach(sealed.one, sealed.url, joins=False, key=sealed.key)
    return sealed


@pytest.fixture
def joined(sealed: Sealed) -> Sealed:
    attach(sealed.two, sealed.url, joins=True, key=sealed.key)
    return sealed


def test_notes_go_both_ways(sealed: Sealed) -> None:
    follow_notes(sealed, sealed.key)


def test_no_word_of_the_memory_is_in_any_object_of_the_remote(sealed: Sealed) -> None:
    machine = MemorySync(sealed.one).machine
    sealed.write(sealed.one, "memory/people/zanzibar.md", "# Walrus\n\n- Cy likes quinces.\n")
    entry = add_tombstone(sealed.one, "narwhal")
    sealed.sync(sealed.one)
    attach(sealed.two, sealed.url, joins=True, key=sealed.key)
    # Short words stand in random bytes by chance.
    words = ["Ana drinks", "Facts", "MEMORY", "memory/", "2026-11-17", "people", "zanzibar", "Walrus", "quinces"]
    words += [f'"{os.uname().nodename}"', machine, entry.salt.hex()]
    words += ["forget", "cleared", "machines", "format", ".mdrecall"]
    objects = list_objects(sealed.url)
    assert [word for word in words if word.encode() in objects] == []
    # What is looked for would be found: a plain remote has all of these words.
    plain = make_remote(sealed.folder / "plain.git")
    other = load_home(sealed.folder / "three")
    sealed.write(other, "MEMORY.md", "# Facts\n\n- Ana drinks tea.\n")
    attach(other, plain, joins=False)
    assert b"Ana drinks" in list_objects(plain)


def test_a_sync_of_nothing_pushes_nothing_and_a_changed_note_changes_one_blob(sealed: Sealed) -> None:
    before, head = sealed.list_blobs(), sealed.git("rev-parse", "mdrecall")
    assert sealed.sync(sealed.one) == SyncResult()
    assert sealed.git("rev-parse", "mdrecall") == head
    sealed.write(sealed.one, "MEMORY.md", "# Facts\n\n- Ana drinks coffee.\n")
    sealed.sync(sealed.one)
    after = sealed.list_blobs()
    assert [name for name in after if before[name] != after[name]] == [sealed.key.hide("MEMORY.md")]


def test_the_key_is_private_and_outside_of_the_workspace(sealed: Sealed) -> None:
    files = [
        path for path in sealed.folder.rglob("*") if path.is_file() and sealed.key.text in path.read_text("latin-1")
    ]
    assert [path.parent for path in files] == [sealed.folder / "one/.local/state/mdrecall/keys"]
    assert files[0].stat().st_mode & 0o777 == 0o600


def test_who_has_no_key_or_another_one_cannot_join_and_changes_nothing(sealed: Sealed) -> None:
    sealed.write(sealed.two, "own.md", "- own\n")
    head = sealed.git("rev-parse", "mdrecall")
    for key, problem in ((None, "its key is not on this machine"), (make_key(), "not encrypted by the key")):
        with pytest.raises(SyncError, match=problem):
            attach(sealed.two, sealed.url, joins=True, key=key)
        assert not MemorySync(sealed.two).is_set_up
    assert sealed.git("rev-parse", "mdrecall") == head
    assert sealed.read_notes("two") == {"own.md": "- own\n"}


def test_a_plain_remote_takes_no_invitation_and_a_plain_memory_no_key(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.write(pair.one, "MEMORY.md", "- a\n")
    attach(pair.one, pair.url, joins=False)
    with pytest.raises(SyncError, match="not encrypted by the key"):
        attach(pair.two, pair.url, joins=True, key=make_key())
    with pytest.raises(SyncError, match="not encrypted"):
        MemorySync(pair.one).invite("correct horse")
    # Its history is plain, and would be pushed.
    with pytest.raises(SyncError, match="synced already"):
        attach(pair.one, make_remote(tmp_path / "new.git"), joins=False, key=make_key())
    assert pair.sync(pair.one) == SyncResult()


def test_an_encrypted_memory_never_goes_to_a_plain_remote(sealed: Sealed) -> None:
    plain = make_remote(sealed.folder / "plain.git")
    attach(sealed.two, plain, joins=False)
    with pytest.raises(SyncError, match="synced already"):
        attach(sealed.one, plain, joins=True)
    attach(sealed.one, moved := make_remote(sealed.folder / "moved.git"), joins=False)
    assert b"Ana drinks" not in list_objects(moved)


def test_an_invitation_brings_the_key(sealed: Sealed) -> None:
    line = MemorySync(sealed.one).invite("correct horse")
    assert "\n" not in line
    assert sealed.key.text not in line
    assert accept_invitation(f" {line[:40]}\n{line[40:]}\n", "correct horse").text == sealed.key.text
    wrong = [
        "",
        "x",
        "mdrecall-invitation:",
        "mdrecall-invitation:é",
        f"{line}é",
        line[:-8],
        f"{line[:60]}A{line[61:]}",
    ]
    for text, passphrase in [(line, "correct house"), *((each, "correct horse") for each in wrong)]:
        with pytest.raises(SyncError, match="passphrase is wrong, or the invitation is not complete"):
            accept_invitation(text, passphrase)
    with pytest.raises(SyncError, match="at least 8"):
        MemorySync(sealed.one).invite("short")


def test_after_leaving_a_machine_can_join_again_without_an_invitation(sealed: Sealed) -> None:
    MemorySync(sealed.one).leave()
    assert attach(sealed.one, sealed.url, joins=True) == SyncResult()
    assert sealed.read_notes("one")["MEMORY.md"].endswith("- Ana drinks tea.\n")


def test_without_its_key_or_the_package_a_machine_stops_with_one_sentence(sealed: Sealed) -> None:
    key = next(sealed.folder.rglob("keys/*.json"))
    key.rename(sealed.folder / "away")
    sealed.write(sealed.one, "new.md", "- new\n")
    with pytest.raises(SyncError, match="its key is not on this machine"):
        sealed.sync(sealed.one)
    attach(sealed.one, sealed.url, joins=True, key=sealed.key)
    assert sealed.key.hide("new.md") in sealed.list_blobs()


def test_the_names_that_a_machine_knows_can_be_lost(joined: Sealed) -> None:
    joined.write(joined.one, "MEMORY.md", "# Facts\n\n- Ana drinks tea.\n- more\n")
    joined.sync(joined.one)
    joined.write(joined.two, "MEMORY.md", "# Facts\n\n- Ana drinks tea.\n- other\n")
    next(joined.folder.glob("two/notes/.mdrecall/local/*/git/mdrecall-names.json")).unlink()
    joined.sync(joined.two)
    assert sorted(joined.read_notes("two")["MEMORY.md"].splitlines()[2:]) == ["- Ana drinks tea.", "- more", "- other"]


def test_names_of_notes_are_dropped_with_the_history(sealed: Sealed) -> None:
    sealed.write(sealed.one, "memory/zanzibar.md", "- a\n")
    sealed.sync(sealed.one)
    attach(sealed.two, sealed.url, joins=True, key=sealed.key)
    sealed.path(sealed.two, "memory/zanzibar.md").unlink()
    sealed.sync(sealed.two)
    names = next(sealed.folder.glob("two/notes/.mdrecall/local/*/git/mdrecall-names.json"))
    assert "zanzibar" in names.read_text()
    MemorySync(sealed.two).drop_history()
    assert "zanzibar" not in names.read_text()
    assert "MEMORY.md" in names.read_text()
    assert sealed.sync(sealed.two) == SyncResult()


#: What somebody may put into the remote, and True if it has the name of a file of the memory, which stops the sync.
HOSTILE: dict[str, tuple[Callable[[Key], tuple[str, bytes | None]], bool]] = {
    "a plain note": (lambda key: ("MEMORY.md", b"- plain\n"), False),
    "a plain record": (lambda key: (ABOUT, b'{"format": 1, "id": "x"}'), False),
    "a path above the workspace": (lambda key: key.seal("../x.md", b"- out\n"), False),
    "an absolute path": (lambda key: key.seal("/tmp/x.md", b"- out\n"), False),
    "a hidden path": (lambda key: key.seal(".git/x.md", b"- out\n"), False),
    "an instruction": (lambda key: key.seal("CLAUDE.md", b"- obey\n"), False),
    "no note": (lambda key: key.seal("run.sh", b"rm\n"), False),
    "a plain file in the place of a note": (lambda key: (key.hide("memory/new.md"), b"- plain\n"), True),
    "a file of another key": (lambda key: (key.hide("memory/new.md"), make_key().seal("memory/new.md", b"")[1]), True),
    "a file for the public half of the key": (lambda key: (key.hide("memory/new.md"), seal_unsigned(key)), True),
    "a file of another path": (lambda key: (key.hide("MEMORY.md"), key.seal("old.md", b"- old\n")[1]), True),
    "a damaged file": (lambda key: (key.hide("MEMORY.md"), (key.seal("MEMORY.md", b"- x\n")[1] or b"")[:-3]), True),
    "an empty file": (lambda key: (key.hide("MEMORY.md"), b""), True),
    "a damaged record": (lambda key: (key.hide(ABOUT), b"x"), True),
    "a mark of another key": (lambda key: (make_key().hide(ABOUT), b"x"), True),
}


def seal_unsigned(key: Key) -> bytes:
    import pyrage

    recipient = pyrage.x25519.Identity.from_str(key.text).to_public()
    sealed: bytes = pyrage.encrypt(b"\0" * 32 + b"memory/new.md\0- forged\n", [recipient])
    return sealed


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_no_machine_of_the_memory_has_made_changes_nothing(joined: Sealed, kind: str) -> None:
    fresh = load_home(joined.folder / "fresh")
    joined.write(joined.two, "own.md", "- own\n")
    before, good = joined.read_notes("two"), joined.git("rev-parse", "mdrecall")
    make, stops = HOSTILE[kind]
    joined.put(make(joined.key))
    head = joined.git("rev-parse", "mdrecall")
    with pytest.raises(SyncError, match="not made with the key") if stops else nullcontext():
        joined.sync(joined.two)
    with pytest.raises(SyncError) if stops else nullcontext():
        attach(fresh, joined.url, joins=True, key=joined.key)
    assert joined.read_notes("two") == before
    assert joined.read_notes("fresh") == ({} if stops else before)
    assert not (joined.folder / "x.md").exists()
    if stops:
        assert joined.git("rev-parse", "mdrecall") == head
        # Whoever runs the remote can put it right.
        joined.git("update-ref", "refs/heads/mdrecall", good)
        assert joined.sync(joined.two).sent == ("own.md",)
    joined.sync(joined.one)
    assert joined.read_notes("one") == before


@pytest.mark.parametrize("kind", ["of another key", "gone", "plain"])
def test_a_remote_that_is_not_this_memory_any_more_stops_the_sync(joined: Sealed, kind: str) -> None:
    before = joined.read_notes("two")
    other = load_home(joined.folder / "other")
    joined.write(other, "MEMORY.md", "- other\n")
    shutil.rmtree(joined.url)
    make_remote(Path(joined.url))
    attach(other, joined.url, joins=False, key=make_key() if kind != "plain" else None)
    if kind == "gone":
        joined.git("update-ref", "refs/heads/mdrecall", joined.git("commit-tree", joined.git("mktree"), "-m", "x"))
    with pytest.raises(SyncError, match=r"not made with the key|is not a memory"):
        joined.sync(joined.two)
    assert joined.read_notes("two") == before


def test_a_path_that_is_there_twice_changes_nothing(joined: Sealed) -> None:
    before = joined.read_notes("two")
    name, blob = joined.key.hide("MEMORY.md"), joined.list_blobs()[joined.key.hide("MEMORY.md")]
    folder, last = name.split("/")
    again = joined.key.seal("MEMORY.md", b"# Facts\n\n- Ana drinks tea.\n")[1]
    old = joined.git("hash-object", "-w", "--stdin", data=again or b"")
    entries = b"".join(b"100644 " + last.encode() + b"\0" + bytes.fromhex(each) for each in (blob, old))
    twice = joined.git("hash-object", "-w", "--stdin", "--literally", "-t", "tree", data=entries)
    listed = [line for line in joined.git("ls-tree", "mdrecall").splitlines() if not line.endswith(f"\t{folder}")]
    tree = joined.git("mktree", data="\n".join([*listed, f"040000 tree {twice}\t{folder}"]).encode() + b"\n")
    joined.git("update-ref", "refs/heads/mdrecall", joined.git("commit-tree", tree, "-p", "mdrecall", "-m", "x"))
    joined.sync(joined.two, joined.one)
    assert joined.read_notes("two") == before == joined.read_notes("one")


def test_the_history_can_be_dropped_and_unsent_notes_survive(joined: Sealed) -> None:
    joined.write(joined.two, "own.md", "- not sent yet\n")
    joined.write(joined.one, "MEMORY.md", "# Facts\n")
    joined.sync(joined.one)
    before = joined.list_blobs()
    MemorySync(joined.one).drop_history()
    assert joined.list_blobs() == before
    assert joined.git("rev-list", "--count", "mdrecall") == "1"
    assert joined.sync(joined.two).sent == ("own.md",)
    assert joined.sync(joined.one).received == ("own.md",)
    authors = {*joined.git("log", "--format=%an %ae %cn %ce", "mdrecall").splitlines()}
    assert authors == {"mdrecall mdrecall@localhost mdrecall mdrecall@localhost"}


@pytest.mark.parametrize("start", [2_000, *(pytest.param(n, marks=pytest.mark.soak) for n in range(3_000, 3_500, 100))])
def test_histories_over_an_encrypted_remote_lose_nothing(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + (examples(1) if start == 2_000 else 100)):
        history = RealHistory(seed, tmp_path / str(seed), make_key())
        history.run()
        assert [*history.find_faults()] == [], seed
        assert not re.search(rb"tok\d+x", list_objects(tmp_path / str(seed) / "remote"))
