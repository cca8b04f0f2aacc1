import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.text.markdown import find_new_sections, read_lines, sections

parts = ["# A", "## B", "## C", "### D", "- x", "- y", "", "text  ", "```"]
markdown = st.lists(st.sampled_from(parts), max_size=12).map("\n".join)


@given(st.text())
def test_the_sections_of_a_text_are_the_text(text: str) -> None:
    assert "".join(part for part, _ in sections(text)).replace(" ", "").strip() == text.replace(" ", "").strip()


@given(markdown, markdown)
def test_what_was_appended_is_known_and_known_text_is_left_out(note: str, text: str) -> None:
    fresh = find_new_sections(note, text)
    if not text.strip():
        assert fresh[0] == ""
    else:
        assert find_new_sections(f"{note}\n{fresh[0]}", text)[0] == "" or not sections(text)[0][1]
        assert find_new_sections(f"{note}\n{text}", text)[0] == ""


def test_a_section_is_a_highest_heading_with_all_below_it() -> None:
    text = "before\n## A\n- x\n### deeper\n- y\n## B\n- z"
    assert sections(text) == [("before\n", False), ("## A\n- x\n### deeper\n- y\n", True), ("## B\n- z", True)]
    assert sections("```\n# no heading\n```\n") == [("```\n# no heading\n```\n", False)]
    assert sections(" \n\n") == []


DAY = "# Monday\n\n## A\n- x\n\n## B\n- y\n"


@pytest.mark.parametrize(
    ("note", "text", "fresh", "known"),
    [
        (DAY, "## A  \n\n- x\n## C\n- z\n", "## C\n- z\n", ("## A",)),
        (DAY, "## A\n- x\n- more\n", "## A\n- x\n- more\n", ()),
        (DAY, "## A\n- X\n", "## A\n- X\n", ()),
        ("", "## A\n- x\n## A\n- x\n", "## A\n- x\n", ("## A",)),
        ("## A\n- x\n- y\n", "## A\n- x\n  - y\n", "## A\n- x\n  - y\n", ()),
        ("## Mon\n### Todo\n- call\n", "## Tue\n### Todo\n- call\n", "## Tue\n### Todo\n- call\n", ()),
    ],
    ids=["one is new", "it has more", "another case", "repeated within", "indented", "below another heading"],
)
def test_only_what_is_new_is_left(note: str, text: str, fresh: str, known: tuple[str, ...]) -> None:
    assert find_new_sections(note, text) == (fresh, known)


@pytest.mark.parametrize(("note", "known"), [("- done\n", True), ("- done\n- more\n", False), ("- not done\n", False)])
def test_plain_text_is_known_only_at_the_very_end(note: str, known: bool) -> None:
    assert (find_new_sections(note, "- done")[0] == "") is known


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("---\n---\n# A", [0, 0, 1]),
        ("---\ntitle: x\n---\n# A\n---", [0, 0, 0, 1, 0]),
        ("---\n# A", [0, 1]),
        ("```\n# no\n```\n# A", [0, 0, 0, 1]),
        ("````\n```\n# no\n````\n# A", [0, 0, 0, 0, 1]),
        ("~~~\n# no\n```\n# no\n~~~\n# A", [0, 0, 0, 0, 0, 1]),
    ],
)
def test_headings_are_seen_after_front_matter_and_fences_and_not_in_them(text: str, levels: list[int]) -> None:
    assert [line.level for line in read_lines(text.split("\n"))] == levels
