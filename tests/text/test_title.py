import pytest

from mdrecall.text.chunk import TITLE_CHARS, title_text


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("memory/2026-02-10.md", "memory/2026-02-10.md February 10"),
        ("memory/2026-12-01-release.md", "memory/2026-12-01-release.md December 1"),
        ("memory/2026-01-31.md", "memory/2026-01-31.md January 31"),
        ("MEMORY.md", "MEMORY.md"),
        ("memory/2026-00-01.md", "memory/2026-00-01.md"),
        ("memory/2026-13-01.md", "memory/2026-13-01.md"),
        ("2026-02-10/notes.md", "2026-02-10/notes.md"),
    ],
)
def test_a_date_in_the_file_name_is_found_as_people_say_it(path: str, title: str) -> None:
    assert title_text(path) == title


def test_of_a_long_path_the_end_is_the_title() -> None:
    assert title_text("deep/" * 700 + "note.md") == ("deep/" * 700 + "note.md")[-TITLE_CHARS:]
