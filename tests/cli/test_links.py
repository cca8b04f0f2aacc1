"""``mdrecall links`` and the filters of ``mdrecall search``."""

from tests.cli.conftest import Run
from tests.conftest import Workspace


def test_links_are_printed_with_their_lines(run: Run, workspace: Workspace) -> None:
    workspace.write("people/priya.md", "# Priya\n\n[[shop#Team|her team]] and [[nowhere]]\n")
    workspace.write("shop.md", "# Shop\n\nsee [[Priya]]\n")
    ran = run("list", "priya")
    assert run("links", "priya") == ran
    assert ran.out == (
        "people/priya.md\n"
        "  -> shop.md#Team  (line 3)\n"
        "  -> nowhere  (line 3, no such note)\n"
        "  <- shop.md#L3\n"
    )  # fmt: skip
    assert run("links", "people/priya.md", "--json").json == {
        "path": "people/priya.md",
        "links": [
            {"path": "people/priya.md", "line": 3, "target": "shop.md", "heading": "Team", "alias": "her team"},
            {"path": "people/priya.md", "line": 3, "target": "nowhere", "isBroken": True},
        ],
        "backlinks": [{"path": "shop.md", "line": 3, "target": "people/priya.md"}],
    }


def test_filters_are_options_that_can_be_repeated(run: Run, workspace: Workspace) -> None:
    workspace.write("a/one.md", "coffee #x #y\n")
    workspace.write("b/two.md", "coffee #x\n")
    workspace.write("MEMORY.md", "- coffee is black <!-- importance: 9 --> <!-- project: a.b/c -->\n- old coffee\n")

    def paths(*options: str) -> list[str]:
        found = run("search", "coffee", "--json", *options).json
        return sorted({result["path"] for result in found["results"]})

    assert paths("--tag", "x") == ["a/one.md", "b/two.md"]
    assert paths("--tag", "x", "--tag", "#y") == ["a/one.md"]
    assert paths("--path", "a", "--path", "b/*.md") == ["a/one.md", "b/two.md"]
    shown = run("search", "coffee", "black", "--path", "MEMORY.md")
    assert "(importance 9, project a.b/c)" in shown.out
    hidden = run("search", "coffee", "--path", "MEMORY.md", "--project", "x.y/z")
    assert "1 entry was left out" in hidden.err
    assert "black" not in hidden.out
    for option, code in (("--tag", 1), ("--collection", 2)):
        ran = run("search", "coffee", option, "nowhere")
        assert (ran.code, "nowhere" in ran.err) == (code, True)
