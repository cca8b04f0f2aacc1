"""The weight of every view of a memory with much of everything: hundreds of notes, long names, talks and logs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mdrecall.life.curate import put_into_deleted
from tests.page.conftest import Site, serve
from tests.page.test_every_view import VIEWS
from tests.page.worlds import TalkingWorkspace

#: What a page with everything it loads may weigh.
MAX_BYTES = 150_000
#: Texts that take much more room as HTML than they do as they are.
_ODD_NOTES = {
    "brackets": "[" * 20_000,
    "wide table": "|a" * 10_000 + "|\n" + "|-" * 10_000 + "|\n" + "|x|\n" * 9_000,
    "comments": "<!--" * 9_000,
    "quotes": '"&<>' * 30_000,
    "links": "[[a]] " * 20_000,
    "emphasis": "*a* " * 30_000,
    "Chinese": "她喜欢深色模式。" * 9_000,
    "list": "- a\n" * 30_000,
    "front matter": "---\n" + "".join(f"key{number}: [{'x' * 200}]\n" for number in range(2_000)) + "---\n",
    "tags": "---\ntags: [" + ", ".join("x" * 3_000 for _ in range(30)) + "]\n---\n",
    "title": "# " + "title " * 20_000,
}
_STATIC = ("app.css", "app.js", "icon.svg")
_LONG_NOTE = "".join(f"- Line {number} of [[note {number}]] says #something about **it**.\n" for number in range(3000))
PATH = "memory/2026-01-12.md"
LONG = "a rather long name of a folder, as people have them"
PARAMS = VIEWS | {
    "search": ("q=something+about+it", ""),
    "time": ("year=2024", ""),
    "day": ("day=2024-03-01", ""),
    "note": (f"path={PATH}", ""),
    # The form holds the whole text, so it is as heavy as the note.
    "edit": (f"path=memory/{LONG.replace(' ', '+')}/0/2024-03-01-0.md", ""),
}


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    space = TalkingWorkspace(tmp_path_factory.mktemp("heavy"))
    space.write(PATH, _LONG_NOTE)
    for number in range(400):
        day = datetime.fromordinal(738_946 + number % 366)
        space.write(f"memory/{day:%Y-%m-%d}-日記-{number}.md", f"# Day {number}\n\nSee [[2026-01-12]]. #t{number}\n")
    for number in range(500):
        space.write(f"memory/{LONG}/{number % 9}/2024-03-01-{number}.md", f"# Note {number}\n\n" + "line " * 40)
    space.say("s1", *(f"Message {number}. " + "Words. " * 900 for number in range(120)))
    for number in range(150):
        space.say(f"other-{number}", "Where is something about it? " * 20, "Here.")
    now, found = datetime(2026, 2, 10, tzinfo=UTC), (space.path / PATH).stat()
    for number in range(110):
        put_into_deleted(str(space.path), f"memory/old-{number}.md", b"Old.\n", found, now + timedelta(seconds=number))
    space.memory().sync()
    with serve(space) as site:
        yield site


def measure_room(site: Site) -> int:
    return MAX_BYTES - sum(len(site.ask(f"/ui/static/{name}").body.encode()) for name in _STATIC)


@pytest.mark.parametrize("kind", _ODD_NOTES)
def test_no_note_is_heavy(site: Site, kind: str) -> None:
    site.workspace.write("memory/odd.md", _ODD_NOTES[kind])
    room = measure_room(site)
    for page in ("0", "1", "99999"):
        reply = site.get("note", path="memory/odd.md", page=page)
        assert reply.status == 200
        assert len(reply.body.encode()) < room


def test_no_view_is_heavy(heavy: Site) -> None:
    room = measure_room(heavy)
    weights = {view: len(heavy.ask(f"/ui/main/{view}?{PARAMS[view][0]}", Cookie=heavy.cookie).body.encode())
               for view in PARAMS}  # fmt: skip
    weights["POST forget"] = len(heavy.post("forget", text="something about it").body.encode())
    assert {view: weight for view, weight in weights.items() if weight > room} == {}
