"""What a model learns when a prompt is typed."""

from pathlib import Path

import pytest

from mdrecall.sessions.messages import wrap_memory
from tests.conftest import Workspace
from tests.hosts.calls import Hooks

PROMPT = "how many connections does the database pool have?"


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.configure("{mdrecall: {hosts: {prompt: true}}}")
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


def test_it_is_off_by_default(hooks: Hooks) -> None:
    hooks.workspace.configure("{}")
    assert hooks.answer("prompt", prompt=PROMPT) == ("", "")


def test_a_prompt_of_any_length_gets_at_most_three_passages_and_1500_characters(hooks: Hooks) -> None:
    for number in range(8):
        text = f"# Database pool {number}\n\nThe database pool {number} has {number + 12} connections" + " or more" * 60
        hooks.workspace.write(f"memory/pool-{number}.md", f"{text}.\n")
    hooks.workspace.memory().sync()
    text = hooks.answer("prompt", prompt=PROMPT + " pasted text" * 100_000).context
    assert text.count("\n- memory/") <= 3
    assert len(hooks.answer("prompt", prompt=PROMPT).context) < 1_700


def test_only_so_many_sessions_and_passages_are_remembered(hooks: Hooks) -> None:
    for number in range(45):
        assert hooks.answer("prompt", prompt=PROMPT, session_id=f"s{number}").context
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s44").context == ""
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s0").context


def test_a_state_folder_that_cannot_be_written_is_logged_and_the_answer_is_given(hooks: Hooks) -> None:
    folder = hooks.call("prompt").settings.state_dir
    hooks.workspace.state.joinpath("workspaces").mkdir(exist_ok=True)
    with open(folder, "w"):
        pass
    assert "twelve connections" in hooks.answer("prompt", prompt=PROMPT).context
    assert any("cannot be remembered" in problem for problem in hooks.problems)


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
