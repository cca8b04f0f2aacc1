"""What a model learns when a prompt is typed."""

from pathlib import Path
from typing import Any

import pytest

from mdrecall.hosts.digest import digest_session
from mdrecall.sessions.messages import wrap_memory
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.hosts.conversation import DAY, NOW, Conversation

PROMPT = "how many connections does the database pool have?"


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("memory/pool.md", "# Database pool\n\nThe database pool has twelve connections.\n")
    workspace.write("memory/garden.md", "# Garden\n\nThe tomatoes need water.\n")
    workspace.write("memory/decisions.md", "# Decisions\n\nDEC-0054: we deploy on Tuesdays, never on Fridays.\n")
    workspace.memory().sync()
    return Hooks(workspace, [])


def test_what_surely_fits_is_shown_with_its_lines(hooks: Hooks) -> None:
    text = hooks.answer("prompt", prompt=PROMPT).context
    assert "- memory/pool.md#L" in text
    assert "twelve connections" in text
    assert "tomatoes" not in text


def test_nothing_is_shown_twice_in_a_session(hooks: Hooks) -> None:
    assert hooks.answer("prompt", prompt=PROMPT).context
    assert hooks.answer("prompt", prompt=PROMPT).context == ""
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s2").context


def test_after_a_compaction_it_may_be_shown_again(hooks: Hooks) -> None:
    assert hooks.answer("prompt", prompt=PROMPT).context
    hooks.answer("session-start", source="compact")
    assert hooks.answer("prompt", prompt=PROMPT).context


def test_an_exact_identifier_is_enough(hooks: Hooks) -> None:
    prompt = "before we go on with all the other things of this week, please have a look at DEC-0054 and tell me"
    assert "never on Fridays" in hooks.answer("prompt", prompt=prompt).context


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "   ",
        "go on",
        "/compact keep the database pool connections",
        wrap_memory(PROMPT, "5e1f09ab"),
        "<hook_context>" + PROMPT + "</hook_context>",
        "what is the capital of Portugal and how far is it from here?",
    ],
)
def test_nothing_is_shown_for_short_or_own_or_unrelated_prompts(hooks: Hooks, prompt: str) -> None:
    assert hooks.answer("prompt", prompt=prompt) == ("", "")


def test_a_sub_agent_is_shown_nothing(hooks: Hooks) -> None:
    assert hooks.answer("prompt", "codex", prompt=PROMPT, agent_id="a3") == ("", "")


def test_it_can_be_switched_off(hooks: Hooks) -> None:
    hooks.workspace.configure("{mdrecall: {hosts: {prompt: false}}}")
    assert hooks.answer("prompt", prompt=PROMPT) == ("", "")


def test_a_prompt_of_any_length_of_own_words_gets_at_most_three_short_passages(hooks: Hooks) -> None:
    for number in range(8):
        text = f"# Database pool {number}\n\nThe database pool {number} has {number + 12} connections" + " or more" * 60
        hooks.workspace.write(f"memory/pool-{number}.md", f"{text}.\n")
    hooks.workspace.memory().sync()
    assert hooks.answer("prompt", prompt=PROMPT + " pasted text" * 100_000).context == ""
    text = hooks.answer("prompt", prompt=PROMPT).context
    assert text.count("\n- memory/") <= 3
    assert len(text) < 1_000
    assert "…" in text


def test_a_state_folder_that_cannot_be_written_is_logged_and_the_answer_is_given(hooks: Hooks) -> None:
    folder = hooks.call("prompt").settings.state_dir
    hooks.workspace.state.joinpath("workspaces").mkdir(exist_ok=True)
    with open(folder, "w"):
        pass
    assert "twelve connections" in hooks.answer("prompt", prompt=PROMPT).context
    assert any("cannot be recorded" in problem for problem in hooks.problems)


def test_a_superseded_line_is_never_shown(hooks: Hooks, workspace: Workspace) -> None:
    mark = "<!-- status: superseded | by: memory/new.md | on: 2026-05-01 -->"
    workspace.write("memory/pool.md", f"# Database pool\n\n- The database pool has twelve connections. {mark}\n")
    workspace.memory().sync()
    assert "twelve" not in hooks.answer("prompt", prompt=PROMPT).context


def test_an_entry_with_a_trigger_of_the_prompt_is_shown_once_before_the_others(
    hooks: Hooks, workspace: Workspace
) -> None:
    workspace.write(
        "MEMORY.md", "- Ask Ana before touching it. <!-- trigger: pool -->\n- Other. <!-- trigger: garden -->\n"
    )
    lines = hooks.answer("prompt", prompt=PROMPT).context.splitlines()
    assert lines[2] == "- Ask Ana before touching it. (Source: MEMORY.md#L1)"
    assert any("twelve connections" in line for line in lines[3:])
    assert hooks.answer("prompt", prompt=PROMPT).context == ""


def test_in_a_repository_its_own_entries_come_first_and_triggers_of_others_are_silent(
    hooks: Hooks, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    (shop / ".git" / "config").write_text('[remote "origin"]\n\turl = https://github.com/ana/shop\n')
    hooks.workspace.write(
        "MEMORY.md",
        "- The release train leaves on Mondays. <!-- project: github.com/ana/house -->\n"
        "- The release train leaves on Tuesdays. <!-- project: github.com/ana/shop -->\n"
        "- Ask Ben first. <!-- trigger: zebra --> <!-- project: github.com/ana/house -->\n",
    )
    hooks.workspace.memory().sync()
    prompt = "the release train leaves on which day?"
    text = hooks.answer("prompt", prompt=prompt, cwd=shop).context
    assert 0 < text.find("Tuesdays") < (text.find("Mondays") if "Mondays" in text else len(text))
    other = "tell me what you know about the zebra in the stable"
    assert "Ask Ben" not in hooks.answer("prompt", prompt=other, cwd=shop).context
    assert "Ask Ben" in hooks.answer("prompt", prompt=other, session_id="s2").context


def keep(hooks: Hooks, tmp_path: Path, said: str, folder: Path, session: str = "earlier") -> None:
    """A session in which a person said something, and which has ended."""
    talk = Conversation(tmp_path, session)
    talk.turn(said)
    settings = hooks.call("prompt").settings
    digest_session(talk.event("stop", cwd=str(folder)), settings, NOW)
    hooks.workspace.memory().sync()


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


SAID = "The invoices of the bakery go to the accountant on the first Monday of the month."
ASKED = "when do the invoices of the bakery go to the accountant?"


def test_what_was_said_in_a_session_comes_back_in_the_same_project_only(hooks: Hooks, tmp_path: Path) -> None:
    shop, other = repository(tmp_path / "shop"), repository(tmp_path / "other")
    (shop / "src").mkdir()
    keep(hooks, tmp_path, SAID, shop)
    assert "first Monday" in hooks.answer("prompt", prompt=ASKED, cwd=shop).context
    assert "first Monday" in hooks.answer("prompt", prompt=ASKED, cwd=shop / "src", session_id="s2").context
    assert "first Monday" not in hooks.answer("prompt", prompt=ASKED, cwd=other, session_id="s3").context


def test_the_running_session_and_an_earlier_question_are_never_shown(hooks: Hooks, tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    keep(hooks, tmp_path, SAID, shop, session="s1")
    assert hooks.answer("prompt", prompt=ASKED, cwd=shop, session_id="s1").context == ""
    keep(hooks, tmp_path, ASKED, shop, session="asked")
    assert ASKED not in hooks.answer("prompt", prompt=ASKED, cwd=shop, session_id="s2").context


def test_pasted_text_is_nobodys_words(hooks: Hooks, tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    keep(hooks, tmp_path, f"Look at this:\n```\n{SAID}\n```", shop)
    assert hooks.answer("prompt", prompt=ASKED, cwd=shop).context == ""


def test_conversations_are_found_beside_notes_and_change_nothing_of_what_notes_are_found(
    hooks: Hooks, tmp_path: Path
) -> None:
    def find(query: str, **options: Any) -> dict[str, Any]:
        # Vectors have statistics of the whole index, which change a score by less than a hundredth.
        answer = hooks.workspace.memory().search(query, **options)
        return {hit.path: pytest.approx(hit.score, abs=0.01) for hit in answer}

    before = find(PROMPT)
    for number in range(5):
        said = f"The database pool of office {number} has connections to the database of the bakery."
        keep(hooks, tmp_path, f"{said} {SAID}", repository(tmp_path / str(number)), session=f"e{number}")
    (hooks.workspace.path / "memory" / f"{DAY}.md").unlink()
    assert find(PROMPT, source="memory") == before
    assert {path: score for path, score in find(PROMPT).items() if path.startswith("memory/")} == before
    assert next(iter(find(ASKED))).startswith("sessions/claude-code/e")
