"""The files of wishes: what they say, and who sees which."""

import pytest

from mdrecall.config.settings import Settings
from mdrecall.errors import FileChanged
from mdrecall.life.supersede import change_wishes
from mdrecall.notes.repository import name_wishes
from mdrecall.sessions.wishes import Wish, read_wishes
from mdrecall.text.notes import iter_note_chunks
from tests.conftest import Workspace
from tests.hosts.conversation import settings_of

SHOP, BANK = "github.com/ana/shop", "path:/srv/bank"
GLOBAL = """# Wishes

## Confirmed

- Answer in German. (2026-02-01)

## Candidates

- I prefer short answers. (2026-02-03)
"""


@pytest.fixture
def settings(workspace: Workspace) -> Settings:
    return settings_of(workspace)


def write_project(workspace: Workspace, project: str, *lines: str) -> None:
    text = "\n".join((f"# Wishes <!-- project: {project} -->", "", *lines, ""))
    workspace.write(name_wishes(project), text)


def test_wishes_of_one_project_are_not_listed_in_another(workspace: Workspace, settings: Settings) -> None:
    workspace.write("memory/wishes.md", GLOBAL)
    write_project(workspace, SHOP, "- Use tabs. (2026-02-02)")
    write_project(workspace, BANK, "## Candidates", "- Never mock the ledger.")
    assert read_wishes(settings, "") == {
        5: Wish("Answer in German.", "2026-02-01", True),
        9: Wish("I prefer short answers.", "2026-02-03", False),
    }
    assert read_wishes(settings, SHOP) == {3: Wish("Use tabs.", "2026-02-02", True, SHOP)}
    assert read_wishes(settings, BANK) == {4: Wish("Never mock the ledger.", "", False, BANK)}


@pytest.mark.parametrize("title", ["# Wishes", f"# Wishes <!-- project: {BANK} -->", "# Wishes <!-- project: a<b -->"])
def test_a_file_that_does_not_name_its_project_has_no_wishes(
    workspace: Workspace, settings: Settings, title: str
) -> None:
    workspace.write(name_wishes(SHOP), f"{title}\n\n- Use tabs.\n")
    assert read_wishes(settings, SHOP) == {}


def test_every_line_of_a_project_is_indexed_as_the_project_s(workspace: Workspace) -> None:
    text = f"# Wishes <!-- project: {SHOP} -->\n\n- Use tabs.\n- Added by hand.\n\n## Candidates\n\n- No mocks.\n"
    chunks = list(iter_note_chunks(name_wishes(SHOP), text, tokens=400, overlap=80))
    assert {chunk.marks.project for chunk in chunks} == {SHOP}
    assert "".join(chunk.text for chunk in chunks).count("- ") == 3
    unnamed = list(iter_note_chunks(name_wishes(SHOP), text.partition("\n")[2], tokens=400, overlap=80))
    assert {chunk.marks.project for chunk in unnamed} == {"?"}


def test_a_file_that_cannot_be_read_has_no_wishes(workspace: Workspace, settings: Settings) -> None:
    (workspace.path / "memory" / "wishes.md").mkdir(parents=True)
    workspace.write(name_wishes(SHOP), b"x" * 300_000)
    assert read_wishes(settings, "") == read_wishes(settings, SHOP) == {}


def test_a_line_that_is_no_longer_there_is_not_removed(workspace: Workspace, settings: Settings) -> None:
    workspace.write("memory/wishes.md", GLOBAL)
    wishes = read_wishes(settings, "")
    workspace.write("memory/wishes.md", GLOBAL.replace("# Wishes\n", "# Wishes\n\n- Be kind.\n"))
    with pytest.raises(FileChanged):
        change_wishes(settings, "", wishes, [])
    assert len(read_wishes(settings, "")) == 3


def test_lines_and_their_ends_stay_as_they_are_and_a_missing_heading_is_added(
    workspace: Workspace, settings: Settings
) -> None:
    text = "# Mine\r\n\r\n* [x] Be kind   \r\n\r\nWords.\r\n"
    workspace.write("memory/wishes.md", text)
    change_wishes(settings, "", {}, [Wish("Use tabs.", "2026-02-01", False)])
    added = "## Candidates\r\n- Use tabs. (2026-02-01)\r\n"
    assert (workspace.path / "memory/wishes.md").read_bytes().decode() == text + added
    assert [wish.text for wish in read_wishes(settings, "").values()] == ["Be kind", "Use tabs."]
