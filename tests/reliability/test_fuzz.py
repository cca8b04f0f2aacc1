"""Whatever the notes hold and are called, and whatever is asked: an answer, a reason, or an error in words."""

import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mdrecall.config.settings import IGNORED_FOLDERS
from mdrecall.errors import QueryError, ReadError, RecallError, message_with_hint
from mdrecall.memory import Memory
from mdrecall.notes.opening import decode, is_binary
from mdrecall.text.notes import iter_note_chunks
from mdrecall.types.search import MODES, Mode
from tests.conftest import Workspace, examples
from tests.reliability.content import content_of

SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

#: Seven characters that are eleven units of JavaScript.
FAMILY = "👩\u200d👩\u200d👧\u200d👦"
RARE = "zqwbbkk"
SECRET = "not for reading"
NOTE = "memory/note.md"

everything = st.text(st.characters(), max_size=40)
PIECES = (
    *("# One", "## Two\n\ntext", "###### Six", "####### no heading", "#" * 300 + " deep", "Title\n=====", "Part\n---"),
    *("```", "```python", "~~~", "    code", "- item", "* [ ] task", "10. ten", "> quote\n> quote", "| a | b |\n|---|"),
    *("---\ntags: [x]\n---", "<!-- note -->", "[[link]]", "![](x.png)", "\\", "`", "\t", "\r", "\r\n", "\n" * 1000),
    *"\x00\x0b\x0c\x1c\x1f\x7f\x85\u0301\u2028\u2029\ue000\ufeff\ufffd\ufffe\U0010ffff🦭",
    *("e\u0301" * 100, "\u202eright to left", "שלום עולם", "مرحبا بالعالم", "👩‍👩‍👧‍👦" * 30, "深色模式"),
    *("今日は雨だった。" * 60, "한국어 문장입니다.", "ภาษาไทย" * 40),
    *("x" * 5_000, "word " * 500, "a-b_c.d/" * 200),
)
pieces = st.lists(st.sampled_from(PIECES) | st.text(max_size=40), max_size=8)
gaps = st.sampled_from(["\n", "\r\n", " ", "\n\n", "\n\n\n\n", "\t"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Something like Markdown, with the rare word in it between spaces or line ends."""
    before, after = draw(pieces), draw(pieces)
    gap = draw(gaps)
    return gap.join(before) + draw(gaps) + RARE + draw(gaps) + gap.join(after)


@st.composite
def data(draw: st.DrawFn) -> bytes:
    """Bytes that are text, nearly text, or anything, with the rare word on a line of its own."""
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "gb18030", "shift-jis"]))
    parts = st.one_of(
        st.binary(max_size=60),
        texts().map(lambda text: text.encode(encoding, "replace")),
        st.sampled_from(
            [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xf0\x9f", b"\xc0"]
        ),
    )
    return draw(parts) + b"\n" + RARE.encode() + b"\n" + draw(parts)


@pytest.fixture(
    params=["", "{memorySearch: {chunking: {tokens: 32, overlap: 8}}}"], ids=["usual chunks", "small chunks"]
)
def memory(workspace: Workspace, request: pytest.FixtureRequest) -> Memory:
    workspace.configure(request.param or "{}")
    return workspace.memory()


@settings(max_examples=examples(20), suppress_health_check=SHARED)
@given(note=texts().map(str.encode) | data())
@example(note=b"")
@example(note=b"\xff\xfe")
@example(note=b"\nshort\n\0")
@example(note=("\n" * 5000 + RARE).encode())
@example(note=("x" * 60_000 + " " + RARE + " " + "y" * 60_000).encode())
@example(note=(FAMILY * 30 + " # One" * 6 + " " + FAMILY * 30 + f"\n{RARE}\n").encode())
def test_any_note_is_indexed_quoted_by_its_lines_and_found(workspace: Workspace, memory: Memory, note: bytes) -> None:
    assume(not is_binary(note))
    (workspace.path / NOTE).parent.mkdir(exist_ok=True)
    (workspace.path / NOTE).write_bytes(note)
    report = memory.sync()
    assert (report.failed, report.issues) == ((), ())
    lines = decode(note).split("\n")
    covered = quoted(memory, lines)
    assert {number for number, line in enumerate(lines, start=1) if line.strip()} <= covered
    answer = memory.search(RARE, max_results=50, min_score=0)
    for result in answer:
        assert result.start_line <= result.match_start_line <= result.match_end_line <= result.end_line
        assert result.snippet.strip("…") in "\n".join(lines[result.start_line - 1 : result.end_line])
    if RARE in decode(note):
        best = answer[0]
        assert RARE in best.snippet
        assert RARE in "\n".join(lines[best.match_start_line - 1 : best.match_end_line])


def quoted(memory: Memory, lines: list[str]) -> set[int]:
    """The lines that are in some chunk, each of which says exactly what its lines say."""
    covered: set[int] = set()
    said: list[str] = []
    size = memory.settings.memory_search.chunking
    cut = iter_note_chunks(NOTE, "\n".join(lines), tokens=size.tokens, overlap=size.overlap)
    stored = content_of(memory.settings.index_path).chunks
    for (_, _, _, start, end, _, whole), chunk in zip(stored, cut, strict=True):
        assert whole == chunk.text
        said.append(whole[chunk.overlap :])
        there = "\n".join(lines[start - 1 : end])
        assert whole in there
        assert whole.count("\n") == end - start
        read = memory.read(NOTE, from_line=start, lines=end - start + 1)
        assert (
            there.startswith(read.text) if read.truncated else read.text.removesuffix("\n") == there.removesuffix("\n")
        )
        covered |= set(range(start, end + 1))
    assert "".join("".join(said).split()) == "".join("\n".join(lines).split())
    return covered


ODD_NAMES = (
    *(".git", "Node_Modules", "-rf", "~", "$HOME", "%2e%2e", "..x", "...", "a\\b", "*", "[x]", "a\nb", "a\rb", "\t"),
    *(" x", "x ", "'\"", "a#b?c", "x.md", "é", "e\u0301", "\u202ex", "👩‍👩‍👧", "日記", "n" * 200, *"\x7f\ufeff\u2028"),
)
names = st.one_of(
    st.sampled_from(ODD_NAMES).map(os.fsencode),
    st.text(min_size=1, max_size=20).map(str.encode),
    st.binary(min_size=1, max_size=20),
).filter(lambda name: not (b"/" in name or b"\0" in name or name in (b".", b"..")))


@settings(max_examples=examples(20), suppress_health_check=SHARED)
@given(top=st.sampled_from([b"memory", b""]), folders=st.lists(names, max_size=2), name=names)
def test_a_file_of_any_name_is_indexed_or_reported_and_read_under_the_path_that_is_shown(
    tmp_path: Path, top: bytes, folders: list[bytes], name: bytes
) -> None:
    inside = os.path.join(top, *folders, name + b".md")
    assume(top or not inside.lower().startswith(b"memory"))
    with scratch(tmp_path, b"base") as space:
        shown = os.fsdecode(inside)
        write_if_possible(space.path / shown)
        memory = space.memory()
        report = memory.sync()
        results = memory.search(RARE, min_score=0).results
        assert report.failed == ()
        if any(os.fsdecode(folder).lower() in IGNORED_FOLDERS for folder in folders):
            assert results == ()
        elif is_unicode(shown):
            assert [result.path for result in results] == [shown]
            assert memory.read(shown).text == f"{RARE}\n"
        else:
            assert results == ()
            assert [issue.problem for issue in report.issues] == ["has a name that is not Unicode"]
        assert all(is_unicode(issue.path) for issue in (*report.issues, *memory.issues()))
        assert memory.status().files == len(results)


@settings(max_examples=examples(8), suppress_health_check=SHARED)
@given(name=names)
@example(name=b"\x80")
def test_a_workspace_in_a_folder_of_any_name_is_searched_or_refused_in_words(tmp_path: Path, name: bytes) -> None:
    with scratch(tmp_path, name) as space:
        space.write("MEMORY.md", RARE)
        try:
            memory = space.memory()
            memory.sync()
            found = [result.path for result in memory.search(RARE, min_score=0)]
        except RecallError:
            assert not is_unicode(os.fsdecode(name))
            return
        assert found == ["MEMORY.md"]
        assert memory.sync().unchanged == 1


@contextmanager
def scratch(folder: Path, name: bytes) -> Iterator[Workspace]:
    """A workspace in a folder of this name, if the file system takes it; nothing stays of it."""
    base = folder / os.fsdecode(name)
    try:
        base.mkdir()
    except OSError:
        assume(False)
    space = Workspace(base)
    try:
        yield space
    finally:
        space.close()
        shutil.rmtree(base)


def write_if_possible(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{RARE}\n")
    except OSError:
        assume(False)


def is_unicode(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


NOTES = {
    "MEMORY.md": "one\ntwo\nthree\n",
    "memory/a.md": "a\r\nb",
    "memory/deep/b c.md": "",
    "../shared/team.md": "team\n" * 50,
}
SECRETS = (
    *("secret.txt", "memory-not/a.txt", ".git/a.md", "memory/a.txt", "memory/deep/a.MD"),
    *("../secret.md", "../shared-not/a.md", "../outside/a.md", "../home/secret.md"),
)
BEHIND_LINKS = ("memory/link.md", "memory/linked/a.md", "../shared/linked/a.md")
OTHERS = (
    "",
    ".",
    "..",
    "memory",
    "memory/deep",
    "../shared",
    "memory/pipe.md",
    "memory/none.md",
    "/etc/passwd",
    "*.md",
)


@pytest.fixture
def guarded(workspace: Workspace) -> Memory:
    """A memory with files about it that must never be read: beside it, above it, behind links, of other kinds."""
    base = workspace.path.parent
    for name, text in (NOTES | dict.fromkeys(SECRETS, SECRET)).items():
        workspace.write(name, text)
    (workspace.path / "memory/link.md").symlink_to(base / "secret.md")
    (workspace.path / "memory/linked").symlink_to(base / "outside")
    (base / "shared/linked").symlink_to(base / "outside")
    os.mkfifo(workspace.path / "memory/pipe.md")
    workspace.configure('{memorySearch: {extraPaths: ["../shared"]}}')
    return workspace.memory()


DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda path: path,
    lambda path: "WORKSPACE/" + path,
    lambda path: "./" + path,
    lambda path: "memory/../" + path,
    lambda path: "memory/deep/../../" + path,
    lambda path: "memory/linked/../" + path,
    lambda path: "none/../" + path,
    lambda path: "../workspace/" + path,
    lambda path: "~/" + path,
    lambda path: "file://" + path,
    lambda path: f" {path}\n",
    lambda path: "a/" * 3000 + path,
    lambda path: path + "/" + path,
    lambda path: path + "/",
    lambda path: path + "/.",
    lambda path: path + ".md",
    lambda path: path + "\0.md",
    lambda path: path + "#L1",
    lambda path: path + "n" * 300,
    lambda path: path.replace("/", "//"),
    lambda path: path.replace("/", "/./"),
    lambda path: path.replace("/", "\\"),
    lambda path: path.replace("/", "%2f"),
    lambda path: path.replace(".", "%2e"),
    lambda path: path.replace(".", "．"),
    lambda path: path.replace("a", "\udce1"),
    lambda path: path.replace("a", "\ud800"),
    str.upper,
    lambda path: quote(path, errors="surrogatepass"),
)


def disguised(path: str, disguises: list[Callable[[str], str]]) -> str:
    for disguise in disguises:
        path = disguise(path)
    return path


paths = st.builds(
    disguised,
    st.sampled_from([*NOTES, *SECRETS, *BEHIND_LINKS, *OTHERS]),
    st.lists(st.sampled_from(DISGUISES), max_size=3),
)
numbers = st.none() | st.integers(-3, 60) | st.integers()


@settings(max_examples=examples(100), suppress_health_check=SHARED)
@given(path=paths | everything, from_line=numbers, lines=numbers)
@example(path="memory/\ud800.md", from_line=None, lines=None)
@example(path="memory/a.md\0", from_line=None, lines=None)
@example(path="memory/linked/a.md", from_line=1, lines=1)
def test_any_path_gives_lines_of_a_memory_file_or_is_refused(
    workspace: Workspace, guarded: Memory, path: str, from_line: int | None, lines: int | None
) -> None:
    path = path.replace("WORKSPACE", str(workspace.path))
    said = ""
    try:
        read = guarded.read(path, from_line=from_line, lines=lines)
    except ReadError as error:
        said = message_with_hint(error)
    else:
        every = NOTES[read.path].split("\n")
        wanted = every[read.from_line - 1 : read.from_line - 1 + read.line_count]
        assert read.text.removesuffix("\n") == "\n".join(wanted).removesuffix("\n")
    assert SECRET not in said


SYNTAX = (
    *"\"'*^(){}[]:-+|!~,;\\%_\x00\ue000\ud800\udfff０٣",
    *('""', "--", "/*", "AND", "OR", "NOT", "NEAR", "NEAR(", "NEAR(a b, 5)", "words:", "{words names} :", "rowid"),
    *("rank", "keyword MATCH", "bm25(keyword)", "'; DROP TABLE chunks; --", "a*", '"a" *', "e\u0301"),
)
queries = st.one_of(
    st.lists(st.sampled_from(SYNTAX) | st.text(max_size=8), max_size=12).map(" ".join),
    st.lists(st.sampled_from(SYNTAX), max_size=8).map("".join),
    everything,
    st.sampled_from(["walrus " * 2000, "w" * 10_000, "深" * 5_000, "a-" * 3000]),
)
scores = st.none() | st.floats() | st.floats(0, 1)


@settings(max_examples=examples(60), suppress_health_check=SHARED)
@given(
    query=queries,
    most=st.none() | st.integers() | st.integers(-2, 5),
    least=scores,
    mode=st.sampled_from([None, *MODES]),
)
@example(query=" ", most=None, least=None, mode=None)
@example(query="walrus", most=2**63, least=math.nan, mode="vector")
def test_any_question_gets_results_or_a_reason(
    asked: tuple[Memory, Memory], query: str, most: int | None, least: float | None, mode: Mode | None
) -> None:
    for memory in asked:
        try:
            answer = memory.search(query, max_results=most, min_score=least, mode=mode, explain=True)
        except QueryError:
            assert not query.strip() or (least is not None and math.isnan(least))
            continue
        assert query.strip()
        assert bool(answer.results) != bool(answer.reason)
        assert bool(answer.results) != bool(answer.action)
        found = [result.score for result in answer]
        assert found == sorted(found, reverse=True)
        assert len(found) <= (20 if most is None else max(1, most))
        assert all(score >= least - 0.0001 for score in found if least is not None)


@settings(max_examples=examples(20), suppress_health_check=SHARED)
@given(before=st.lists(st.sampled_from(SYNTAX), max_size=6), after=st.lists(st.sampled_from(SYNTAX), max_size=6))
def test_signs_and_operators_around_a_word_do_not_hide_it(
    asked: tuple[Memory, Memory], before: list[str], after: list[str]
) -> None:
    for memory in asked:
        answer = memory.search(" ".join([*before, RARE, *after]), min_score=0)
        assert "memory/rare.md" in [result.path for result in answer]


@pytest.fixture
def asked(workspace: Workspace) -> Iterator[tuple[Memory, Memory]]:
    """A memory that lives, and one that is asked once: they look at vectors in different ways."""
    workspace.write(
        "MEMORY.md", "# Walruses\n\nThe walrus sleeps and the carpenter walks.\n\n## 深色模式\n\n" + "text " * 900
    )
    workspace.write("memory/2026-02-10.md", "and or not near words rowid\n" * 30)
    workspace.write("memory/rare.md", f"Only here: {RARE}.")
    with Memory.open(workspace.path, env=workspace.env, one_shot=True) as once:
        lives = workspace.memory()
        lives.sync()
        before = content_of(lives.settings.index_path)
        yield lives, once
        assert content_of(lives.settings.index_path) == before
