"""Attacks on the whole page: texts that try to run, fields that try to leave the workspace, and writers that race."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from mdrecall.extras.page.app import VIEWS
from mdrecall.notes.editing import hash_content
from tests.conftest import Workspace
from tests.page.conftest import READING, Site, serve
from tests.page.test_read import ATTACKS
from tests.page.visits import make_visit, open_memories
from tests.page.worlds import TalkingWorkspace, open_page, show_places

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Each text of the page that comes from a file: a name, a title, a tag, a heading, a line, a message, a commit.
BAD = '"><img src=x onerror=pwned=1><script>pwned=1</script>'
#: Says on the console that something ran. There the browser tells too what the page's policy has stopped.
_WATCH = "Object.defineProperty(window, 'pwned', {set() { console.error('pwned'); }});"
#: Elements in a page that no view makes, and attributes that run something.
_FOREIGN = """[...document.querySelectorAll("body *")]
  .filter(each => each.matches("script, style, iframe, img, base, meta, object, embed, math, foreignObject, animate")
    || each.getAttributeNames().some(name => /^on|^style$|^srcdoc$/.test(name))
    || /^(javascript|data|vbscript):/i.test(String(each.href?.baseVal ?? each.href ?? "").trim()))
  .map(each => each.outerHTML.slice(0, 200))"""


@pytest.fixture
def bad_site(tmp_path: Path) -> Iterator[Site]:
    """A memory in which every name and text is an attack, also what was said."""
    space = TalkingWorkspace(tmp_path)
    front = f"---\ntitle: '{BAD}'\ntags: ['{BAD}', 'a\"onclick=pwned=1']\n---\n"
    space.write("memory/2026-01-12.md", f"{front}{ATTACKS}\n## {BAD}\n\nThe word kite, {BAD} and [[{BAD}]].\n")
    space.write('memory/people/"><img src=x onerror=pwned=1>.md', f"# {BAD}\n\nThe kite of {BAD}. [[2026-01-12]]\n")
    space.say("s1", f"The kite {BAD}", f"Noted {BAD}")
    with serve(space) as site:
        yield site


def test_no_view_runs_or_loads_what_a_text_says(bad_site: Site, page: "Page") -> None:
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.add_init_script(_WATCH)
    given = urlencode({"q": "kite", "path": "memory/2026-01-12.md", "line": 30, "day": "2026-01-12", "raw": 1,
                       "session": "s1", "to": BAD, "find": "", "done": BAD, "text": BAD})  # fmt: skip
    asked = [f"{view}?{given}" for view in READING]
    notes = (str(path.relative_to(bad_site.workspace.path)) for path in bad_site.workspace.path.rglob("*.md"))
    asked += (f"note?{urlencode({'path': path})}" for path in notes)
    asked += [f"search?{urlencode({'q': BAD})}", f"new?{urlencode({'path': BAD})}"]
    foreign = []
    for view in asked:
        open_page(bad_site, page, view)
        foreign += [f"{view}: {html}" for html in page.evaluate(_FOREIGN)]
    show_places(bad_site, page, "kite")
    page.get_by_role("heading", name="Forget “kite”").wait_for()
    assert [*foreign, *page.evaluate(_FOREIGN)] == []
    page.wait_for_load_state("networkidle")
    # A view that is asked for what is not there answers with its status, of which the console tells.
    assert [each for each in told if not each.startswith("Failed to load resource")] == []


SECRET = "secret-outside"
PATHS = (
    "../outside/x.md",
    "../../outside/x.md",
    "memory/../../outside/x.md",
    "{outside}/x.md",
    "file://{outside}/x.md",
    "memory/link.md",
    "memory/linked/x.md",
    "linked/x.md",
    "%2e%2e/outside/x.md",
    "..%2foutside%2fx.md",
    "..\\outside\\x.md",
    "memory/pipe.md",
    "memory/a.md\0../../outside/x.md",
    "x" * 5000,
    ".trash/../../outside/x.md.deleted",
    "-rf",
    "~/../outside/x.md",
)


class AllFields(dict[str, str]):
    """The fields of a request. Each that a view asks for is there, and is noted."""

    def __init__(self, known: Mapping[str, str], attack: Mapping[str, str]) -> None:
        super().__init__(known)
        self._attack = attack
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = "") -> Any:
        self.asked.add(name)
        return self._attack.get(name, super().get(name, default))


@pytest.fixture(scope="module")
def enclosed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Any]]:
    """A workspace with links to a secret beside it, and its memories."""
    base = tmp_path_factory.mktemp("enclosed")
    outside = base / "outside"
    outside.mkdir()
    (outside / "x.md").write_text(SECRET)
    space = Workspace(base)
    space.write("memory/a.md", "one\n")
    (space.path / "memory/link.md").symlink_to(outside / "x.md")
    (space.path / "memory/linked").symlink_to(outside)
    (space.path / "linked").symlink_to(outside)
    os.mkfifo(space.path / "memory/pipe.md")
    memories = open_memories(space)
    yield space, memories
    memories.close()


def _list_outside(base: Path, space: Workspace) -> dict[str, bytes]:
    """Return every file that a page has no business with."""
    own = (space.state, space.path / "memory", space.path / ".trash")
    files = (file for file in base.rglob("*") if file.is_file() and not any(each in file.parents for each in own))
    return {str(file): file.read_bytes() for file in files}


@pytest.mark.parametrize("view", VIEWS)
def test_no_field_of_any_view_leads_out_of_the_workspace(enclosed: tuple[Workspace, Any], view: str) -> None:
    """The fields are those that a view asks for, so that a new view or field is attacked without a word here."""
    from mdrecall.extras.page.app import _answer

    space, memories = enclosed
    base = space.path.parent
    before = _list_outside(base, space)
    known = {"q": "one", "text": "one\n", "day": "2026-01-12", "target": "b", "hash": hash_content(b"one\n")}

    def ask(attack: Mapping[str, str]) -> set[str]:
        note = space.write("memory/a.md", "one\n")
        fields = AllFields({**known, "path": "memory/a.md"}, attack)
        visit = make_visit(memories)._replace(query=fields, form=fields)
        answer = _answer(view, visit)
        assert SECRET not in str(answer), attack
        assert "This is a bug" not in str(answer), attack
        assert not note.is_symlink()
        return fields.asked

    asked = sorted(ask({}))
    for path in PATHS if asked else ():
        attack = path.format(outside=base / "outside")
        for name in asked:
            ask({name: attack})
    assert _list_outside(base, space) == before


def test_a_trash_that_leads_elsewhere_receives_nothing(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    note = site.workspace.write("memory/a.md", "one\n")
    (site.workspace.path / ".trash").symlink_to(outside)
    assert site.post("delete", path="memory/a.md", hash=hash_content(b"one\n")).status == 400
    assert note.read_text() == "one\n"
    assert list(outside.iterdir()) == []


def test_of_writers_at_the_same_moment_none_is_lost(site: Site) -> None:
    """Of those who save what they have read one wins, the others are told, and what is added meanwhile stays."""
    note = site.workspace.write("memory/a.md", "start\n")
    known = hash_content(b"start\n")
    assert site.cookie

    def save(number: int) -> int:
        return site.post("edit", path="memory/a.md", hash=known, text=f"start\nsaved {number}\n").status

    def add(number: int) -> int:
        return site.post("append", path="memory/a.md", text=f"added {number}").status

    with ThreadPoolExecutor(8) as pool:
        saves = [pool.submit(save, number) for number in range(6)]
        adds = [pool.submit(add, number) for number in range(6)]
    saved = [each.result() for each in saves]
    assert [each.result() for each in adds] == [303] * 6
    assert set(saved) <= {303, 409}
    assert saved.count(303) <= 1
    lines = note.read_text().split("\n")
    assert lines[0] == "start"
    assert {f"added {number}" for number in range(6)} <= set(lines)
    assert sum(line.startswith("saved") for line in lines) == saved.count(303)
