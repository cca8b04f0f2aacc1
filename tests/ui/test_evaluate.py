"""Own questions in the page: from a file or a form, asked on a click, each with where its answer stood."""

import json
import os
import re

import pytest
from playwright.sync_api import Page

from mdrecall.core.eval_metrics import Expectation
from mdrecall.evaluate import Question
from mdrecall.mcp_server.memories import Memories, MemoryOpener
from mdrecall.mcp_server.workspaces import Selection, select_memories
from mdrecall.ui import evaluate
from tests.conftest import Workspace
from tests.ui.axe import find_faults
from tests.ui.conftest import Site, serve
from tests.ui.visits import make_visit
from tests.ui.worlds import open_page


def ask(query: str, *expect: str) -> str:
    return json.dumps({"query": query, "expect": expect})


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    workspace.write("MEMORY.md", "# Team\n\nAda prefers green tea.\n\nThe staging database is called heron.\n")
    workspace.write("memory/2026-01-12.md", "# Pool\n\nThe connection pool has 20 places.\n")
    return workspace


def put(workspace: Workspace, *lines: str) -> None:
    (workspace.path / evaluate.FILE).write_text("\n".join(lines))


def rows(body: str) -> dict[str, str]:
    """Return the place of each question in the table."""
    table = body[body.index("<h2>Questions</h2>") :]
    found = re.findall(r'<tr><td><a [^>]*>([^<]*)</a></td>.*?<td class="number">(.*?)</td>', table)
    return {query: re.sub("<[^>]*>", "", place) for query, place in found}


def test_without_questions_the_page_says_how_to_write_some(site: Site) -> None:
    body = site.get("eval").body
    assert "questions.jsonl" in body
    assert "&quot;expect&quot;: [&quot;memory/2026-01-23.md&quot;]" in body


def test_each_question_is_shown_with_the_place_of_its_answer(notes: Workspace) -> None:
    put(
        notes,
        ask("how large is the connection pool", "memory/2026-01-12.md"),
        ask("what does Ada prefer", "memory/2026-01-12.md"),
        ask("where does <b>the train</b> go"),
    )
    with serve(notes) as site:
        assert "3 questions in <code>questions.jsonl</code>" in site.get("eval").body
        body = site.post("eval").body
    assert rows(body) == {
        "how large is the connection pool": "1",
        "what does Ada prefer": rows(body)["what does Ada prefer"],
        "where does &lt;b&gt;the train&lt;/b&gt; go": "–",
    }
    assert rows(body)["what does Ada prefer"] != "1"
    assert "1 of 2 questions have the right answer first." in body
    assert re.search(r'hit@1</th><td class="number">0\.500', body)
    assert "Questions by the place of the answer: 1: 1; " in body
    assert "Questions that no note answers: 1" in body
    assert "note?path=memory%2F2026-01-12.md" in body


def test_one_bad_question_does_not_stop_the_rest(notes: Workspace) -> None:
    put(notes, "not json", ask("connection pool", "memory/2026-01-12.md"), ask("tea", "gone.md"), '{"query": 5}')
    with serve(notes) as site:
        assert "questions.jsonl:1: this is not JSON" in site.get("eval").body
        body = site.post("eval").body
    assert rows(body) == {"connection pool": "1", "tea": "not found"}
    assert "questions.jsonl:1: this is not JSON" in body
    assert "questions.jsonl:4: query must say what to look for" in body
    assert "gone.md is expected by line 3 of the questions, but it is not among the notes" in body


def test_a_question_whose_search_fails_is_named_and_the_rest_is_asked(notes: Workspace) -> None:
    right = (Expectation("memory/2026-01-12.md"),)
    selection = Selection(workspaces=(str(notes.path),))
    memories = Memories(select_memories(selection, notes.env), MemoryOpener(notes.env))
    # No file can hold a blank question, which the search refuses.
    asked = evaluate._ask(make_visit(memories), [Question(" ", right), Question("connection pool", right)], ["first"])
    memories.close()
    assert [outcome.rank for outcome in asked.evaluation.outcomes] == [1]
    assert asked.problems[0] == "first"
    assert "The query is blank." in asked.problems[1]


def test_half_a_character_in_a_question_does_no_harm(notes: Workspace) -> None:
    put(notes, '{"query": "\\ud800 tea", "expect": "MEMORY.md"}')
    with serve(notes) as site:
        assert "? tea" in site.get("eval").body
        assert rows(site.post("eval").body) == {"? tea": "1"}


def test_questions_of_the_form_are_asked_instead_of_the_file_and_not_kept(notes: Workspace) -> None:
    put(notes, ask("tea", "MEMORY.md"))
    before = sorted(os.listdir(notes.path))
    with serve(notes) as site:
        body = site.post("eval", text=ask("connection pool", "memory/2026-01-12.md")).body
    assert rows(body) == {"connection pool": "1"}
    assert sorted(os.listdir(notes.path)) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [("hello", "line:1: this is not JSON"), (ask("nothing"), "no question that a note answers"), ("[]", "line:1")],
)
def test_a_form_without_a_question_is_refused_with_a_way_out(site: Site, text: str, said: str) -> None:
    reply = site.post("eval", text=text)
    assert reply.status == 400
    assert said in reply.body
    assert "where do we meet on fridays?" in reply.body


def test_a_form_that_is_too_long_is_refused(notes: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    question = ask("connection pool", "memory/2026-01-12.md")
    with serve(notes) as site:
        monkeypatch.setattr("mdrecall.ui.evaluate._MAX_FORM_CHARS", len(question))
        assert site.post("eval", text=question).status == 200
        reply = site.post("eval", text=f"{question} ")
    assert reply.status == 400
    assert f"That is more than {len(question)} characters." in reply.body


def test_a_file_that_is_a_link_or_too_large_is_not_read(notes: Workspace) -> None:
    secret = notes.path.parent / "secret"
    secret.write_text(ask("secret words", "MEMORY.md"))
    os.symlink(secret, notes.path / evaluate.FILE)
    with serve(notes) as site:
        body = site.get("eval").body
        assert "symbolic link" in body
        assert "secret words" not in body
        assert site.post("eval").status == 400
        os.unlink(notes.path / evaluate.FILE)
        put(notes, "#" * 300_000)
        assert "more than the limit" in site.get("eval").body


def test_what_is_asked_and_listed_is_bounded(notes: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "_MAX_QUESTIONS", 3)
    monkeypatch.setattr(evaluate, "_LISTED", 2)
    put(notes, *(ask(f"connection pool {number}", "memory/2026-01-12.md") for number in range(5)))
    with serve(notes) as site:
        assert "3 more are not shown." in site.get("eval").body
        body = site.post("eval").body
    assert "3 of 3 questions" in body
    assert "2 were not asked" in body
    assert len(rows(body)) == 2
    monkeypatch.setattr(evaluate, "_MAX_SECONDS", -1)
    with serve(notes) as site:
        assert "4 were not asked" in site.post("eval").body


def test_the_evaluation_is_for_the_owner_only(notes: Workspace) -> None:
    put(notes, ask("connection pool", "memory/2026-01-12.md"))
    with serve(notes, session_key="agent:main:telegram:group:42") as site:
        assert site.get("eval").status == 400
        assert site.post("eval").status == 400
    with serve(notes, can_change=False) as site:
        assert "<button" not in site.get("eval").body


def test_a_person_asks_and_looks_at_the_result(notes: Workspace, page: Page) -> None:
    put(notes, ask("connection pool", "memory/2026-01-12.md"), ask("tea", "gone.md"), ask("train"))
    with serve(notes) as site:
        url = open_page(site, page, "eval")
        page.get_by_role("button", name="Ask them").click()
        page.get_by_text("1 of 2 questions have the right answer first.").wait_for()
        page.get_by_role("link", name="memory/2026-01-12.md").click()
        page.get_by_text("20 places").first.wait_for()
        assert find_faults(page, url) == []
