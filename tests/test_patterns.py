"""A pattern that is compiled later does what a compiled one does, and notes are known by one ending."""

import copy
import re
from pathlib import Path

import pytest

import mdrecall
from mdrecall.patterns import compile_later


def test_it_finds_what_a_compiled_one_finds() -> None:
    late, early = compile_later(r"(a+)(?P<b>b)?", re.IGNORECASE), re.compile(r"(a+)(?P<b>b)?", re.IGNORECASE)
    text = "xAAb aa"
    assert late.findall(text) == early.findall(text)
    assert late.sub("-", text) == early.sub("-", text)
    assert [each.span() for each in late.finditer(text)] == [each.span() for each in early.finditer(text)]
    assert (late.flags, late.pattern, late.groups, late.groupindex) == (
        early.flags, early.pattern, early.groups, early.groupindex,
    )  # fmt: skip
    assert compile_later(rb"\d").search(b"a1")


def test_it_is_compiled_once_and_only_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    real = re.compile

    def note(pattern: str, flags: int) -> re.Pattern[str]:
        compiled.append(pattern)
        return real(pattern, flags)

    monkeypatch.setattr(re, "compile", note)
    late = compile_later("a")
    assert compiled == []
    assert late.match("a")
    assert late.search("ba")
    assert compiled == ["a"]


def test_a_wrong_pattern_is_reported_when_it_is_used() -> None:
    late = compile_later("(")
    with pytest.raises(re.error):
        late.match("a")


def test_it_can_be_copied() -> None:
    assert copy.deepcopy(compile_later("a")).match("a")


def test_what_a_note_file_is_stands_in_one_place() -> None:
    """To add a file type is to add its ending there; names of single notes such as MEMORY.md are written out."""
    root = Path(mdrecall.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"""["'](?:\*\*/\*)?\\?\.md["']|\{[^{}"']+\}\.md["']""", path.read_text())
    ]
    assert found == ["patterns.py"]
