"""``mdrecall conflicts`` and ``mdrecall note --supersedes``: both sources are shown, and nothing is marked unasked."""

from functools import partial

import pytest

from mdrecall.life.supersede import find_conflicts
from tests.cli.conftest import Run, run_in_this_process
from tests.conftest import Workspace

OLD, NEW = "memory/2026-02-10.md", "memory/2026-06-01.md"


def test_what_was_too_much_to_compare_is_told(workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.write(OLD, "- The shop belongs to Rosa.\n")
    workspace.write(NEW, "- The shop belongs to Hugo.\n")
    monkeypatch.setattr("mdrecall.life.supersede.find_conflicts", partial(find_conflicts, max_compared=0))
    warning = "! There was too much to compare; there may be more contradictions.\n"
    assert run("conflicts").err == f"No contradictions in 2 notes.\n{warning}"
    assert run("conflicts", "--json").json == {"conflicts": [], "notes": 2, "isComplete": False}


def test_a_note_says_what_it_seems_to_replace_and_the_command_marks_it(workspace: Workspace, run: Run) -> None:
    old = workspace.write(OLD, "- The shop belongs to Rosa.\n")
    run("index")
    ran = run("note", "The shop belongs to Hugo.", "--file", "2026-06-01")
    assert ran.out == f"Added to {NEW}#L1.\n"
    assert f"It seems to replace {OLD}#L1: - The shop belongs to Rosa." in ran.err
    assert old.read_text() == "- The shop belongs to Rosa.\n"
    command = ran.err.strip().splitlines()[-1].rpartition("mdrecall ")[2].replace("'", "").split()
    assert run(*command) == (0, f"Marked as superseded: {OLD}#L1: - The shop belongs to Rosa.\n", "")
    assert f"Rosa. <!-- status: superseded | by: {NEW}#L1 | on: " in old.read_text()
    assert (run(*command).code, run("conflicts", "--keep", "memory/none.md#L1").code) == (1, 2)
    again = run("note", "The shop belongs to Ana.", "--supersedes", f"{NEW}#L1", "--file", "shop")
    assert again.out == f"Added to memory/shop.md#L1.\nMarked as superseded: {NEW}#L1: The shop belongs to Hugo.\n"


def test_context_knows_the_words_of_a_message_the_repository_of_the_current_folder_and_a_person(
    workspace: Workspace, run: Run
) -> None:
    shop = "- Rosa owns the shop. <!-- trigger: shop -->\n"
    workspace.write("MEMORY.md", f"- For all.\n{shop}- Of the blog. <!-- project: github.com/ana/blog -->\n")
    workspace.write("users/ana/USER.md", "- Wants tables.\n")
    recalled = run("context", "--message", "tell me about the shops")
    assert recalled == (0, "- Rosa owns the shop. (Source: MEMORY.md#L2)\n", "")
    (entry,) = run("context", "--message", "the shop", "--json").json["entries"]
    assert (entry["citation"], entry["triggers"], round(entry["score"], 2)) == ("MEMORY.md#L2", ["shop"], 0.68)
    assert run("context", "--message", "the shop", "--session-key", "x:group:1")[:2] == (1, "")
    assert "Of the blog." in run("context").out
    blog = run("context", "--project", "github.com/ana/blog", "--profile", "ana")
    assert "Of the blog." in blog.out
    assert "## users/ana/USER.md\n\n- Wants tables.\n" in blog.out
    other = run("context", "--project", "github.com/ana/shop")
    assert "Of the blog." not in other.out
    assert "1 entry was left out" in other.err
    git = workspace.path / "shop" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text('[remote "origin"]\n\turl = git@github.com:ana/shop.git\n')
    arguments = ["context", "--workspace", str(workspace.path)]
    there = run_in_this_process(arguments, workspace.env, git.parent)
    assert ("For all." in there.out, "Of the blog." in there.out) == (True, False)
    wrong = run("context", "--profile", "../ana")
    assert (wrong.code, wrong.out) == (2, "")
    assert "'../ana' is not the name of a folder" in wrong.err
