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
def table() -> Table:
    return Table(*OfflineEmbedder().gloss_table())


def test_a_language_that_is_added_is_searched(run: Run, workspace: Workspace, tmp_path: Path, table: Table) -> None:
    korean = tmp_path / "korean.tsv"
    korean.write_text(KOREAN, encoding="utf-8")
    workspace.write("memory/a.md", "회의는 화요일로 바뀌었다\n")
    workspace.write("memory/b.md", "The walrus sleeps.\n")
    before = run("search", "when is the conference", "--json").json["results"]
    assert "memory/a.md" not in [result["path"] for result in before]
    folder = workspace.state / "languages"
    card = add_language(str(korean), "ko", str(folder), table)
    assert (card.language, card.script, card.words, card.licence) == ("ko", "hangul", 3, "public domain")
    assert run("search", "when is the conference", "--json").json["results"][0]["path"] == "memory/a.md"
    (folder / "ko.words").unlink()
    assert run("search", "when is the conference", "--json").json["results"] == before


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        ("회의 meeting\n".encode(), "ko", "line 1: there is no tab"),
        (b"# only a comment\n", "ko", "no word with a translation"),
        ("회의\tmeeting\toften\n".encode(), "ko", "line 1: 'often' is not a frequency"),
        (b"hund\tdog\n", "ko", "which words are frequent"),
        ("สวัสดี\thello\n".encode(), "ko", "in a script that cannot be read"),
        ("会議\tmeeting\n".encode(), "ko", "Chinese (zh) or Japanese (ja), not ko"),
        (b"\xff\xfe\x00", "ko", "UTF-8"),
        (KOREAN.encode(), "../x", "code"),
        (None, "ko", "cannot be read"),
    ],
)
def test_a_file_that_is_no_dictionary_is_refused_with_the_reason(
    tmp_path: Path, table: Table, content: bytes | None, code: str, says: str
) -> None:
    path = tmp_path / "bad.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ArgumentError, match=re.escape(says)):
        add_language(str(path), code, str(tmp_path), table)


def test_the_sources_of_the_words_are_named() -> None:
    notice = Path(__file__, "../../../NOTICE").resolve().read_text()
    for name in ("CC-CEDICT", "Electronic Dictionary Research and Development Group", "WikDict", "wordfreq"):
        assert name in notice
