"""Languages that are added to the offline table, and the licences of its data."""

import re
from pathlib import Path

import pytest

from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.errors import ArgumentError
from tests.cli.conftest import Run
from tests.conftest import Workspace
from training.add_language import add_language
from training.glosses import Table

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


@pytest.fixture
def table() -> Table:
    return Table(*OfflineEmbedder().gloss_table())


def test_a_language_that_is_added_is_searched(run: Run, workspace: Workspace, korean: str, table: Table) -> None:
    workspace.write("memory/a.md", "회의는 화요일로 바뀌었다\n")
    workspace.write("memory/b.md", "The walrus sleeps.\n")
    before = run("search", "when is the conference", "--json").json["results"]
    assert "memory/a.md" not in [result["path"] for result in before]
    folder = workspace.state / "languages"
    card = add_language(korean, "ko", str(folder), table)
    assert (card.language, card.script, card.words, card.licence) == ("ko", "hangul", 3, "public domain")
    assert run("search", "when is the conference", "--json").json["results"][0]["path"] == "memory/a.md"
    (folder / "ko.words").unlink()
    assert run("search", "when is the conference", "--json").json["results"] == before


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
    tmp_path: Path, table: Table, content: str, says: str
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ArgumentError, match=re.escape(says)):
        add_language(str(path), "ko", str(tmp_path), table)


def test_a_file_that_is_not_there_not_text_or_has_no_proper_code_is_refused(
    tmp_path: Path, korean: str, table: Table
) -> None:
    binary = tmp_path / "binary.tsv"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, code, says in (
        (tmp_path / "none", "ko", "cannot be read"),
        (binary, "ko", "UTF-8"),
        (korean, "../x", "code"),
    ):
        with pytest.raises(ArgumentError, match=says):
            add_language(str(path), code, str(tmp_path), table)


def test_the_sources_of_the_words_are_named() -> None:
    notice = Path(__file__, "../../../NOTICE").resolve().read_text()
    for name in ("CC-CEDICT", "Electronic Dictionary Research and Development Group", "WikDict", "wordfreq"):
        assert name in notice
