"""Which note a name means, and what appending to it leaves as it was."""

import os
from pathlib import Path

import pytest

from mdrecall.errors import FileUnwritable, PathRefused
from mdrecall.notes.editing import sign
from mdrecall.notes.notes import NotePath, append_note, resolve_note
from mdrecall.types.documents import Appended

DAY = "2026-02-16"


def append(root: Path, text: str, file: str = "", max_bytes: int = 1000) -> Appended:
    return append_note(str(root), text, resolve_note(file, today=DAY), max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("", f"memory/{DAY}.md"),
        ("  ", f"memory/{DAY}.md"),
        ("2026-01-02", "memory/2026-01-02.md"),
        ("memory/2026-01-02.md", "memory/2026-01-02.md"),
        ("./memory/ideas.md", "memory/ideas.md"),
        ("Memory/ideas.MD", "memory/ideas.md"),
        ("ideas", "memory/ideas.md"),
        (" ideas.md ", "memory/ideas.md"),
        ("release 1.2", "memory/release 1.2.md"),
        ("café", "memory/café.md"),
        ("cafe\u0301", "memory/café.md"),
        ("会议", "memory/会议.md"),
        ("می\u200cخواهم", "memory/می\u200cخواهم.md"),
        ("MEMORY.md", "MEMORY.md"),
        ("memory.md", "memory.md"),
        ("MEMORY", "MEMORY.md"),
        ("Memory.md", "MEMORY.md"),
        ("memory/MEMORY.md", "memory/MEMORY.md"),
        ("a" * 252, f"memory/{'a' * 252}.md"),
        ("people/priya", "memory/people/priya.md"),
        ("memory/people/priya.md", "memory/people/priya.md"),
        ("Memory/Projects/shop 2/plan", "memory/Projects/shop 2/plan.md"),
    ],
)
def test_a_name_means_one_place(file: str, path: str) -> None:
    assert resolve_note(file, today=DAY).shown == path


@pytest.mark.parametrize(
    "file",
    [
        "..", "../x.md", "/etc/passwd", "/x.md", "memory/../x.md", "memory/../../x", "memory/", "memory//x", "memory/.",
        "memory/..", "memory/.hidden.md", ".hidden", ".md", " .md", "memory/a/../b.md", "a/./b", ".git/x.md", "a/.b/c",
        "a//b", "a/", "a /b", "a/agents", "~/x.md", "x.txt",
        "memory/x.markdown", "x.md.exe", "a\0b", "a\nb", "a\u2028b", "a\x7fb", "\ud800", "a\\b", "..\\x", "x\u202edm.",
        "\u200bMEMORY.md", "\ufeffMEMORY", "me\u00admory", "2026\u2060-01-02",
        "a" * 253, "é" * 127, "2026-02-30", "2026-13-01.md", "memory/2026-00-10.md", "file:///tmp/x.md",
        "c:/x", "a\\b/c", "a\u202eb/c", "\ud800/c", "1/2/3/4/5/6/7/8/9/x",
        f"{'a' * 256}/x", "node_modules/x", "memory/People/Node_Modules/x",
    ],
)  # fmt: skip
def test_any_other_name_is_refused(file: str) -> None:
    with pytest.raises(PathRefused) as caught:
        resolve_note(file, today=DAY, ignored={"node_modules"})
    assert caught.value.hint
    str(caught.value).encode()


def test_in_a_plain_folder_a_bare_name_is_not_in_memory() -> None:
    assert resolve_note("", today=DAY, is_plain=True) == NotePath("", f"{DAY}.md")
    assert resolve_note("ideas", today=DAY, is_plain=True) == NotePath("", "ideas.md")
    assert resolve_note("memory/ideas", today=DAY, is_plain=True) == NotePath("memory", "ideas.md")
    assert resolve_note("people/priya", today=DAY, is_plain=True) == NotePath("memory/people", "priya.md")
    assert resolve_note("MEMORY.md", today=DAY, is_plain=True) == NotePath("", "MEMORY.md")


@pytest.mark.parametrize(
    ("before", "text", "after", "lines"),
    [
        ("", "b", "b\n", (1, 1)),
        ("a", "b", "a\n\nb\n", (3, 3)),
        ("a\n", "b\nc", "a\n\nb\nc\n", (3, 4)),
        ("a\n\n", "b", "a\n\nb\n", (3, 3)),
        ("a\n\n\n", "\n\nb", "a\n\n\nb\n", (4, 4)),
        ("a\r\n", "b", "a\r\n\r\nb\r\n", (3, 3)),
        ("\n", "b", "\nb\n", (2, 2)),
        ("\ufeff", "b", "\ufeffb\n", (1, 1)),
    ],
)
def test_each_text_is_a_paragraph_of_its_own(
    tmp_path: Path, before: str, text: str, after: str, lines: tuple[int, int]
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/a.md").write_bytes(before.encode())
    done = append(tmp_path, text, "a")
    assert (tmp_path / "memory/a.md").read_bytes() == after.encode()
    assert (done.bytes, done.start_line, done.end_line) == (len(after.encode()) - len(before.encode()), *lines)


DIGEST = "## Session 09:00 shop: x\n- Open: y\n<!-- mdrecall:digest host=codex session=s lines=1-9 -->\n"


@pytest.mark.parametrize(
    ("before", "text", "heading"),
    [
        (f"# Tuesday\n\n{DIGEST}", "mine", "## Notes\n\n"),
        (f"# Tuesday\n\n{DIGEST}\nby hand\n", "### mine", "## Notes\n\n"),
        (f"{DIGEST}\n{DIGEST.replace('09:00', '10:00')}", "mine", "## Notes\n\n"),
        (f"# Tuesday\n\n{DIGEST}", "## Mine\n\nwords", ""),
        (f"# Tuesday\n\n{DIGEST}\n## Lunch\n\nsoup\n", "mine", ""),
        (f"# Tuesday\n\n{DIGEST}\n## Lunch\n\nsoup\n", DIGEST.replace("09:00", "10:00"), ""),
        ("# Tuesday\n", "mine", ""),
    ],
)
def test_what_is_added_after_a_digest_does_not_stand_below_its_heading(
    tmp_path: Path, before: str, text: str, heading: str
) -> None:
    note = tmp_path / "memory" / "2026-02-10.md"
    note.parent.mkdir()
    note.write_text(before)
    for _ in range(2):
        append_note(str(tmp_path), text, NotePath("memory", note.name), max_bytes=10_000)
    assert note.read_text() == f"{before}\n{heading}{text.rstrip()}\n"


def test_a_note_that_differs_only_in_case_or_composition_is_the_same_note(tmp_path: Path) -> None:
    append(tmp_path, "one", "Anaïs")
    assert append(tmp_path, "two", "anai\u0308s").path == "memory/Anaïs.md"
    assert os.listdir(tmp_path / "memory") == ["Anaïs.md"]


@pytest.mark.parametrize(
    ("there", "file", "path"),
    [
        ([], "memory.md", "MEMORY.md"),
        (["memory.md"], "MEMORY.md", "memory.md"),
        (["MEMORY.md"], "memory.md", "MEMORY.md"),
        (["MEMORY.md", "memory.md"], "memory.md", "memory.md"),
        (["MEMORY.md", "memory.md"], "MEMORY", "MEMORY.md"),
    ],
)
def test_the_lasting_note_is_the_one_that_is_there(tmp_path: Path, there: list[str], file: str, path: str) -> None:
    for name in there:
        (tmp_path / name).write_text("a\n")
    assert append(tmp_path, "b", file).path == path
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize("name", ["MEMORY.md", "memory/a.md"])
def test_a_link_is_not_written_through(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("theirs\n")
    root = tmp_path / "root"
    (root / "memory").mkdir(parents=True)
    (root / name).symlink_to(outside)
    with pytest.raises(FileUnwritable, match="symbolic link"):
        append(root, "mine", name)
    assert outside.read_text() == "theirs\n"


def test_a_note_never_becomes_too_large_to_be_read(tmp_path: Path) -> None:
    append(tmp_path, "x" * 900, "a")
    with pytest.raises(FileUnwritable, match="would have more than 1,000 bytes"):
        append(tmp_path, "y" * 100, "a")
    assert (tmp_path / "memory/a.md").stat().st_size == 901
    with pytest.raises(FileUnwritable):
        append(tmp_path, "z" * 2000, "new")
    assert os.listdir(tmp_path / "memory") == ["a.md"]


@pytest.mark.parametrize("name", ["AGENTS.md", "claude", "Soul.MD"])
def test_in_a_plain_folder_what_agents_obey_is_no_note(name: str) -> None:
    with pytest.raises(PathRefused, match="is not a note that may be written"):
        resolve_note(name, today="2026-02-10", is_plain=True)
    assert resolve_note(name, today="2026-02-10").folder == "memory"


def test_a_note_in_a_folder_is_created_with_it_and_found_in_another_spelling(tmp_path: Path) -> None:
    assert append(tmp_path, "Likes tea.", "people/priya").path == "memory/people/priya.md"
    assert append(tmp_path, "Lives in Bern.", "People/Priya").path == "memory/people/priya.md"
    assert (tmp_path / "memory/people/priya.md").read_text() == "Likes tea.\n\nLives in Bern.\n"


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "root/memory").mkdir(parents=True)
    (tmp_path / "root/memory/people").symlink_to(tmp_path / "outside")
    with pytest.raises(FileUnwritable, match="symbolic link"):
        append(tmp_path / "root", "x", "people/a/priya")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("author", "line"),
    [
        ("claude-code", "<!-- by claude-code -->"),
        ("VS Code 1.2", "<!-- by VS Code 1.2 -->"),
        ("x --> \n# Obey", "<!-- by x - - Obey -->"),
        ("a" * 100, f"<!-- by {'a' * 40} -->"),
    ],
)
def test_the_author_is_a_line_that_markdown_does_not_show(author: str, line: str) -> None:
    assert sign("Ana prefers tea.\n", author) == f"Ana prefers tea.\n{line}"


@pytest.mark.parametrize("author", ["", " ", "--", "\u202e"])
def test_without_an_author_a_text_stays_as_it_is(author: str) -> None:
    assert sign("Ana prefers tea.\n", author) == "Ana prefers tea.\n"
    assert sign(" \n", "claude-code") == " \n"


def test_what_another_author_has_written_already_is_left_out(tmp_path: Path) -> None:
    note = resolve_note("plan", today=DAY)
    for author, text in (("codex", "## A\n\nx\n"), ("claude-code", "## A\n\nx\n\n## B\n\ny\n")):
        appended = append_note(str(tmp_path), text, note, max_bytes=1000, author=author)
    assert appended.skipped == ("## A",)
    written = (tmp_path / "memory/plan.md").read_text()
    assert written == "## A\n\nx\n<!-- by codex -->\n\n## B\n\ny\n<!-- by claude-code -->\n"


SECTION = '## Session 09:00–09:40 (a)\n- Asked: "größer?" (L1)\n<!-- lines=1-2 -->\n'


def finish(root: Path, text: str = SECTION, max_bytes: int = 1000) -> Appended:
    return append_note(str(root), text, NotePath("memory", f"{DAY}.md"), max_bytes=max_bytes, finishes=True)


@pytest.mark.parametrize("before", [b"", b"# Monday\n", b"\xef\xbb\xbfno line end", b"# Monday\r\n\r\ntext\r\n"])
def test_an_addition_that_was_broken_off_anywhere_is_completed(tmp_path: Path, before: bytes) -> None:
    note = tmp_path / "memory" / f"{DAY}.md"
    note.parent.mkdir()
    note.write_bytes(before)
    finish(tmp_path)
    whole = note.read_bytes()
    written = SECTION.replace("\n", "\r\n" if b"\r" in before else "\n").encode()
    assert whole.endswith(written)
    for cut in range(len(whole) - len(written), len(whole)):
        note.write_bytes(whole[:cut])
        finish(tmp_path)
        assert note.read_bytes() == whole


def test_what_only_looks_like_the_beginning_of_an_addition_is_left_alone_unless_it_is_to_be_finished(
    tmp_path: Path,
) -> None:
    append(tmp_path, "- bought milk and bread")
    append(tmp_path, "- bought milk and bread and eggs")
    assert (
        tmp_path / "memory" / f"{DAY}.md"
    ).read_text() == "- bought milk and bread\n\n- bought milk and bread and eggs\n"


def test_completing_an_addition_keeps_the_limit_of_the_file(tmp_path: Path) -> None:
    finish(tmp_path)
    note = tmp_path / "memory" / f"{DAY}.md"
    broken = note.read_bytes()[:-20]
    note.write_bytes(broken)
    with pytest.raises(FileUnwritable, match="would have"):
        finish(tmp_path, max_bytes=len(broken) + 10)
    assert note.read_bytes() == broken
