"""Who wrote a text, as far as its path and comments tell."""

import pytest

from mdrecall.text.annotations import line_origins, path_origin


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("memory/import/chatgpt/2024/trip.md", "import"),
        ("memory/claude/plan.txt.md", "agent"),
        ("memory/store/users/ana/tea.md", "agent"),
        ("memory/claude.md", ""),
        ("memory/dreaming/2026-02-10.md", "system"),
        ("memory/.dreams/x.md", "system"),
        ("../other/a.md", "untrusted"),
        ("/srv/a.md", "untrusted"),
        ("memory/2026-02-10.md", ""),
        ("MEMORY.md", ""),
    ],
)
def test_a_path_says_who_wrote_the_whole_file(path: str, origin: str) -> None:
    assert path_origin(path) == origin


@pytest.mark.parametrize(
    ("lines", "origin", "first", "last"),
    [
        (["own", "", "- one", "- two", "<!-- by Claude Code -->", "own"], "agent", 3, 5),
        (["own", "## Tea", "", "- one", "<!-- by Claude Code -->"], "agent", 2, 5),
        (["own", "", "- one", "<!-- by flush -->"], "flush", 3, 4),
        (["own", "## Session", "", "asked", "", "done", "<!-- mdrecall:digest x=1 -->"], "digest", 2, 7),
        (["a", "", "b", "<!-- mdrecall:import source=x -->", "own"], "import", 1, 4),
        (["own", "", "b", "<!-- by import mem0 -->"], "import", 3, 4),
    ],
)
def test_a_comment_speaks_for_the_lines_above_it(lines: list[str], origin: str, first: int, last: int) -> None:
    assert line_origins(lines) == dict.fromkeys(range(first, last + 1), origin)


def test_a_comment_does_not_speak_for_what_another_one_ends() -> None:
    lines = ["a", "<!-- by flush -->", "b", "<!-- mdrecall:import source=x -->"]
    assert line_origins(lines) == {1: "flush", 2: "flush", 3: "import", 4: "import"}
