"""What a model learns when a prompt is typed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from mdrecall.hosts.digest import digest_session
from mdrecall.sessions.host_conversations import FollowedHost, HostState
from mdrecall.sessions.messages import wrap_memory
from mdrecall.text.markdown import quarter_tokens
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.hosts.conversation import DAY, NOW, Conversation
from tests.sessions.host_transcripts import write_host

PROMPT = "how many connections does the database pool have?"


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("memory/pool.md", "# Database pool\n\nThe database pool has twelve connections.\n")
    workspace.write("memory/garden.md", "# Garden\n\nThe tomatoes need water.\n")
    workspace.write("memory/decisions.md", "# Decisions\n\nDEC-0054: we deploy on Tuesdays, never on Fridays.\n")
    workspace.memory().sync()
    return Hooks(workspace, [])


def test_what_surely_fits_is_shown_with_its_lines_once_until_a_session_is_compacted(hooks: Hooks) -> None:
    text = hooks.answer("prompt", prompt=PROMPT).context
    assert "- memory/pool.md#L" in text
    assert "twelve connections" in text
    assert "tomatoes" not in text
    assert hooks.answer("prompt", prompt=PROMPT).context == ""
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s2").context
    hooks.answer("session-start", source="compact")
    assert hooks.answer("prompt", prompt=PROMPT).context


def test_an_exact_identifier_is_enough(hooks: Hooks) -> None:
    prompt = "before we go on with all the other things of this week, please have a look at DEC-0054 and tell me"
    assert "never on Fridays" in hooks.answer("prompt", prompt=prompt).context


@pytest.mark.parametrize(
    "prompt",
    [
        "",
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


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (
            PROMPT,
            "The database pool {0} has connections for town {0}: Bern{0}, Rome{0}, Oslo{0}" + " and {0} more" * 60,
        ),
        ("数据库连接池有多少个连接？", "数据库连接池{0}有{0}个连接，城市{0}号" + "还有更多的连接{0}" * 60),
    ],
)
def test_at_most_four_runs_of_150_tokens_in_all_are_shown(hooks: Hooks, prompt: str, said: str) -> None:
    if prompt == PROMPT:
        # It would be so much better that nothing is shown beside it.
        (hooks.workspace.path / "memory/pool.md").unlink()
    for number in range(8):
        hooks.workspace.write(f"memory/pool-{number}.md", f"# {number}\n\n{said.format(100 * number)}.\n")
    hooks.workspace.memory().sync()
    text = hooks.answer("prompt", prompt=prompt).context
    assert 2 <= text.count("\n- memory/") <= 4
    assert quarter_tokens(text) <= 600
    assert "…" in text


def test_what_is_much_weaker_than_the_best_is_not_shown_beside_it(hooks: Hooks) -> None:
    weaker = "The database pool has connections to the towns" + " of this country and of that one" * 20
    hooks.workspace.write("memory/towns.md", f"# Towns\n\n{weaker}.\n")
    hooks.workspace.memory().sync()
    text = hooks.answer("prompt", prompt=PROMPT).context
    assert ("twelve connections" in text, "country" in text) == (True, False)
    (hooks.workspace.path / "memory/pool.md").unlink()
    assert "country" in hooks.answer("prompt", prompt=PROMPT, session_id="s2").context


def test_a_prompt_that_was_pasted_is_not_looked_for(hooks: Hooks) -> None:
    assert hooks.answer("prompt", prompt=PROMPT + " pasted text" * 100_000).context == ""


def test_a_state_folder_that_cannot_be_written_is_logged_and_the_answer_is_given(hooks: Hooks) -> None:
    folder = Path(hooks.call("prompt").settings.state_dir)
    shutil.rmtree(folder)
    folder.write_text("")
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
    for folder in (shop, tmp_path / "in no repository"):
        assert "Ask Ben" not in hooks.answer("prompt", prompt=other, cwd=folder, session_id=folder.name).context
    assert "Ask Ben" in hooks.answer("prompt", prompt=other, session_id="s2").context


def keep(hooks: Hooks, folder: Path, said: str, session: str = "earlier", answer: str = "Ok.") -> None:
    """A session in which a person said something and the agent answered, and which has ended."""
    talk = Conversation(folder.parent, session)
    talk.turn(said, answer=answer)
    settings = hooks.call("prompt").settings
    digest_session(talk.event("before-compaction", cwd=str(folder)), settings, NOW)
    hooks.workspace.memory().sync()


def repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


SAID = "The invoices of the bakery go to the accountant on the first Monday of the month."
ASKED = "when do the invoices of the bakery go to the accountant?"


def test_what_was_said_in_a_session_comes_back_in_the_same_project_only(hooks: Hooks, shop: Path) -> None:
    other = repository(shop.parent / "other")
    (shop / "src").mkdir()
    keep(hooks, shop, SAID)
    assert "first Monday" in hooks.answer("prompt", prompt=ASKED, cwd=shop).context
    assert "first Monday" in hooks.answer("prompt", prompt=ASKED, cwd=shop / "src", session_id="s2").context
    assert "first Monday" not in hooks.answer("prompt", prompt=ASKED, cwd=other, session_id="s3").context


def test_the_running_session_and_an_earlier_question_are_never_shown(hooks: Hooks, shop: Path) -> None:
    keep(hooks, shop, SAID, session="s1")
    assert hooks.answer("prompt", prompt=ASKED, cwd=shop, session_id="s1").context == ""
    keep(hooks, shop, ASKED, session="asked")
    assert ASKED not in hooks.answer("prompt", prompt=ASKED, cwd=shop, session_id="s2").context


def test_what_this_host_loads_itself_and_what_a_repository_brings_is_not_shown(hooks: Hooks, tmp_path: Path) -> None:
    (shop := tmp_path / "shop").mkdir()
    (shop / ".git").mkdir()
    at = Path(write_host(hooks.workspace.home, "claude-code", folder=str(shop))).parent / "memory"
    at.mkdir()
    HostState(hooks.workspace.memory().settings.agent_folder).follow("claude-code", FollowedHost(str(at.parent.parent)))
    prompt, said = "which colour does the flamingo fence have?", "The flamingo fence has the colour"
    for file in (hooks.workspace.home / ".claude" / "CLAUDE.md", shop / "CLAUDE.md", at / "MEMORY.md", at / "fence.md"):
        file.write_text(f"{said} {file.parent.name} {file.stem}.\n")
    hooks.workspace.memory().sync()
    mine = hooks.answer("prompt", prompt=prompt, cwd=str(shop)).context
    assert [word for word in ("CLAUDE", "MEMORY", "fence.") if word in mine.replace("flamingo fence", "")] == ["fence."]
    other = hooks.answer("prompt", "codex", prompt=prompt, cwd=str(shop)).context
    assert (f"{said} .claude CLAUDE." in other, f"{said} shop CLAUDE." in other) == (True, False)
    assert f"{said} memory" not in hooks.answer("prompt", prompt=prompt, cwd=str(tmp_path), session_id="s9").context


def test_pasted_text_is_nobodys_words(hooks: Hooks, shop: Path) -> None:
    keep(hooks, shop, f"Look at this:\n```\n{SAID}\n```")
    assert hooks.answer("prompt", prompt=ASKED, cwd=shop).context == ""


def follow(hooks: Hooks, folder: Path) -> None:
    """Read the host's own transcripts, in which the agent's words are."""
    HostState(hooks.call("prompt").settings.agent_folder).follow("claude-code", FollowedHost(str(folder)))


def test_of_a_question_the_answer_after_it_is_shown(hooks: Hooks, shop: Path) -> None:
    follow(hooks, shop.parent)
    keep(hooks, shop, ASKED, answer="They go there on the first Monday.")
    text = hooks.answer("prompt", prompt=ASKED, cwd=shop).context
    assert "They go there on the first Monday." in text
    assert ASKED not in text


def test_code_and_tables_and_a_text_that_only_introduces_one_are_not_shown(hooks: Hooks, shop: Path) -> None:
    follow(hooks, shop.parent)
    table = "| invoices | bakery | accountant | 12:30 | 4711 | -- | {go: [1, 2, 3]} |"
    keep(hooks, shop, "The invoices of the bakery go to the accountant:", answer=table)
    assert hooks.answer("prompt", prompt=ASKED, cwd=shop).context == ""


def test_the_same_is_shown_once(hooks: Hooks, shop: Path) -> None:
    for number in range(3):
        keep(hooks, shop, f"{SAID} Again.", session=f"e{number}")
    assert hooks.answer("prompt", prompt=ASKED, cwd=shop).context.count("first Monday") == 1


def test_later_in_a_session_only_a_word_that_is_new_in_it_brings_something(hooks: Hooks, shop: Path) -> None:
    keep(hooks, shop, f"{SAID} The bakery has three ovens, and one of them is always cold.")
    hooks.answer("prompt", prompt="sort the imports of the billing module", cwd=shop)
    later = "does the accountant get invoices of the bakery?"
    assert "first Monday" in hooks.answer("prompt", prompt=later, cwd=shop).context
    hooks.answer("prompt", prompt="sort the imports of the billing module", cwd=shop, session_id="s2")
    keep(hooks, shop, "The accountant gets invoices of the bakery by post.", session="s2")
    assert hooks.answer("prompt", prompt=later, cwd=shop, session_id="s2").context == ""


def test_a_passage_inside_a_long_message_has_its_speaker(hooks: Hooks, shop: Path) -> None:
    follow(hooks, shop.parent)
    long = " ".join(f"Sentence number {number} speaks of nothing in particular." for number in range(300))
    keep(hooks, shop, "Tell me all.", answer=f"{long} The zebra sleeps in the attic. {long}")
    hits = hooks.workspace.memory().search("where does the zebra sleep?", source="sessions")
    assert hits[0].speaker == "Assistant"
    assert "zebra" in hits[0].snippet


def test_a_pasted_passage_is_not_the_persons(hooks: Hooks, shop: Path) -> None:
    follow(hooks, shop.parent)
    keep(hooks, shop, "What does this say?\n> The zebra sleeps in the attic.")
    hits = hooks.workspace.memory().search("where does the zebra sleep?", source="sessions")
    assert hits[0].speaker == "Pasted"


def test_a_question_that_was_asked_does_not_come_before_a_doubtful_answer(hooks: Hooks, shop: Path) -> None:
    keep(hooks, shop, "We sent the papers of the bakery over to her on a Monday.")
    keep(hooks, shop, ASKED, session="asked")
    hits = hooks.workspace.memory().search(ASKED, source="sessions")
    assert "on a Monday" in hits[0].snippet


@pytest.mark.parametrize("reply", ["I have no notes about that, sorry.", "Sorry, I looked, but found no record."])
def test_a_reply_that_says_nothing_does_not_come_before_a_doubtful_answer(hooks: Hooks, shop: Path, reply: str) -> None:
    follow(hooks, shop.parent)
    keep(hooks, shop, "We sent the papers of the bakery over to her on a Monday.")
    keep(hooks, shop, ASKED, session="asked", answer=reply)
    hits = hooks.workspace.memory().search(ASKED, source="sessions")
    assert "on a Monday" in hits[0].snippet
    assert reply not in hooks.answer("prompt", prompt=ASKED, cwd=shop).context


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
        keep(hooks, repository(tmp_path / str(number)), f"{said} {SAID}", session=f"e{number}")
    (hooks.workspace.path / "memory" / f"{DAY}.md").unlink(missing_ok=True)
    assert find(PROMPT, source="memory") == before
    assert {path: score for path, score in find(PROMPT).items() if path.startswith("memory/")} == before
    assert next(iter(find(ASKED))).startswith("sessions/claude-code/e")
