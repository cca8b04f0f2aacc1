"""``mdrecall language`` and the licences of its data."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import Workspace

KOREAN = """# name: Korean
# licence: public domain
회의\tmeeting; conference\t5.1
예약\treservation; booking
비밀번호\tpassword
"""


@pytest.fixture
def korean(tmp_path: Path) -> str:
    path = tmp_path / "korean.tsv"
    path.write_text(KOREAN, encoding="utf-8")
    return str(path)


def test_the_included_languages_are_listed_with_their_licences(run: Run) -> None:
    listed = {entry["language"]: entry for entry in run("language", "list", "--json").json}
    assert {"zh", "ja", "de", "fr", "es", "it", "pt", "ru"} <= listed.keys()
    assert all("CC BY-SA 4.0" in entry["licence"] and not entry["added"] for entry in listed.values())
    shown = run("language", "list").out
    assert "Chinese" in shown
    assert " included " in shown
    assert " added " not in shown


def test_a_language_that_is_added_is_searched_and_one_that_is_removed_is_not(
    run: Run, workspace: Workspace, korean: str
) -> None:
    workspace.write("memory/a.md", "회의는 화요일로 바뀌었다\n")
    workspace.write("memory/b.md", "The walrus sleeps.\n")
    before = run("search", "when is the conference", "--json").json["results"]
    assert "memory/a.md" not in [result["path"] for result in before]
    added = run("language", "add", "ko", korean, "--json").json
    assert [line for line in run("language", "list").out.splitlines() if line.startswith("ko") and " added " in line]
    assert (added["language"], added["script"], added["words"], added["licence"]) == (
        "ko",
        "hangul",
        3,
        "public domain",
    )
    found = run("search", "when is the conference", "--json").json
    assert found["results"][0]["path"] == "memory/a.md"
    assert run("language", "remove", "ko", "--json").json == {"language": "ko", "removed": True}
    assert run("search", "when is the conference", "--json").json["results"] == before


def test_people_are_told_that_notes_are_embedded_again(run: Run, korean: str) -> None:
    again = "Notes are embedded again at the next search.\n"
    assert run("language", "add", "ko", korean).out == f"Added Korean: 3 words. {again}"
    assert run("language", "remove", "ko").out == f"Removed ko. {again}"


def test_only_an_added_language_can_be_removed(run: Run) -> None:
    for code in ("ko", "zh", "../zh"):
        ran = run("language", "remove", code)
        assert (ran.code, "language list" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("회의 meeting\n", "line 1: there is no tab"),
        ("# only a comment\n", "no word with a translation"),
        ("회의\tmeeting\toften\n", "line 1: 'often' is not a frequency"),
        ("hund\tdog\n", "which words are frequent"),
        ("สวัสดี\thello\n", "in a script that cannot be read"),
        ("会議\tmeeting\n", "Chinese (zh) or Japanese (ja), not ko"),
    ],
)
def test_a_file_that_is_no_dictionary_is_refused_with_the_reason(
    run: Run, tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(content, encoding="utf-8")
    ran = run("language", "add", "ko", str(path))
    assert ran.code == 2
    assert says in ran.err.replace("\n         ", "")


def test_a_file_that_is_not_there_not_text_or_has_no_proper_code_is_refused(
    run: Run, tmp_path: Path, korean: str
) -> None:
    binary = tmp_path / "binary.tsv"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in run("language", "add", "ko", str(tmp_path / "none.tsv")).err
    assert "UTF-8" in run("language", "add", "ko", str(binary)).err
    assert "language code" in run("language", "add", "../x", korean).err


def test_the_licences_of_code_and_data_are_printed(run: Run) -> None:
    ran = run("--version", "--licenses")
    assert ran.code == 0
    assert "Code: MIT" in ran.out
    for name in ("CC-CEDICT", "Electronic Dictionary Research and Development Group", "WikDict", "wordfreq"):
        assert name in ran.out
