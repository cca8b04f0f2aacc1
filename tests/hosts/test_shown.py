"""The record of what models were shown, silenced texts, and memory that is off for a session."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mdrecall.hosts.digest import digest_session
from mdrecall.hosts.shown import Shown, Silenced, describe, list_answers, list_shown, read_log, record_shown, silence
from mdrecall.notes.tombstones import forget_session, open_tombstones
from mdrecall.sessions.messages import wrap_memory
from mdrecall.sessions.own_words import find_switch
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.hosts.conftest import OpenHost
from tests.hosts.conversation import NOW, Conversation
from tests.hosts.model import Model
from tests.hosts.test_scenario import ask
from tests.processes import marked, until

PROMPT = "how many connections does the database pool have?"
FACT = "The database pool has twelve connections."


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("memory/pool.md", f"# Database pool\n\n{FACT}\n")
    workspace.memory().sync()
    return Hooks(workspace, [])


def settings_of(hooks: Hooks) -> Any:
    return hooks.call("prompt").settings


def read(hooks: Hooks) -> list[dict[str, Any]]:
    return list(read_log(settings_of(hooks)))


def read_lines(hooks: Hooks) -> list[dict[str, Any]]:
    """The lines of the log, and then those that are silenced."""
    answers = list_answers(settings_of(hooks))
    return [line for answer in answers for line in describe(hooks.workspace.memory(), answer)["lines"]]


def read_texts(hooks: Hooks) -> list[str]:
    return [line["text"] or "" for line in read_lines(hooks)]


def silence_text(hooks: Hooks, text: str) -> bool:
    number = next(line["number"] for line in read_lines(hooks) if text in (line["text"] or ""))
    return silence(settings_of(hooks), number)


def silence_line(hooks: Hooks, citation: str, text: str) -> None:
    """Silence a text as if it had been shown."""
    record_shown(hooks.call("prompt", session_id="of a test"), [Shown(citation, text)])
    assert silence(settings_of(hooks), sum(len(entry["lines"]) for entry in read(hooks)))


def test_each_answer_is_recorded_with_its_place_and_reason_and_without_its_text(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT, cwd=hooks.workspace.path)
    hooks.answer("prompt", prompt="thanks, go ahead")
    hooks.answer("prompt", prompt="what is the capital of Portugal?")
    shown_one, silent, unsure = read(hooks)
    about = ["2026-02-10T12:00:00Z", "claude-code", "s1", hooks.workspace.path.name, "prompt", 0]
    [line], why = shown_one.pop("lines"), shown_one.pop("why")
    assert list(shown_one.values()) == about
    assert why.startswith("a question, at least 0.")
    assert line["citation"].startswith("memory/pool.md#L")
    assert line["score"] > 0.3
    assert (silent["why"], silent["lines"]) == ("nothing to look for", [])
    assert (unsure["why"], unsure["lines"]) == ("nothing sure enough", [])
    for file in Path(settings_of(hooks).state_dir).rglob("shown/*"):
        assert "twelve" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0


def test_the_text_is_read_again_where_it_stands(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    [text] = read_texts(hooks)
    assert "twelve connections" in text
    hooks.workspace.write("memory/pool.md", f"Something\nnew\nstands\nabove.\n\n# Database pool\n\n{FACT}\n")
    assert read_texts(hooks) == [text]
    hooks.workspace.write("memory/pool.md", "# Database pool\n\nThe database pool has thirteen connections.\n")
    assert read_texts(hooks) == [""]
    (hooks.workspace.path / "memory" / "pool.md").unlink()
    assert read_texts(hooks) == [""]


def test_what_models_are_shown_otherwise_than_it_is_written_is_found_again(hooks: Hooks) -> None:
    hooks.workspace.write(
        "memory/wishes.md", "# Wishes\n\n## Candidates\n- Use pnpm. (2026-02-08)\n- Be kind to ferrets.\n"
    )
    hooks.answer("session-start")
    assert {"Use pnpm", "Be kind to ferrets"} <= {*read_texts(hooks)}
    signed = "<!-- by agent claude-code -->"
    pool = hooks.workspace.write(
        "memory/pool.md", f"# Pool\n\n- {FACT}\n{signed}\n\n- Its connections are idle at night.\n"
    )
    hooks.workspace.memory().sync()
    hooks.answer("prompt", prompt=PROMPT)
    [*_, text] = read_texts(hooks)
    assert text.split("\n") == ["Pool", "", f"- {FACT}", "", "", "- Its connections are idle at night"]
    assert signed in pool.read_text()


def test_a_secret_in_a_shown_line_is_masked_when_it_is_read_again(hooks: Hooks) -> None:
    hooks.workspace.write("memory/pool.md", f"# Database pool\n\n{FACT} Its password: sk-ant-{'a1B2c3D4e5' * 4}\n")
    hooks.workspace.memory().sync()
    hooks.answer("prompt", prompt=PROMPT)
    [text] = read_texts(hooks)
    assert "twelve" in text
    assert "a1B2c3D4e5a1B2" not in text


def test_the_record_is_bounded_and_a_broken_line_costs_only_itself(hooks: Hooks) -> None:
    call = hooks.call("prompt", session_id="s0")
    record_shown(call, [Shown("memory/pool.md#L3", FACT)])
    folder = Path(call.settings.state_dir, "mdrecall-hosts", "shown")
    with open(folder / "log", "ab") as file:
        file.write(b"\n7\n{}\n" + b"[" * 9_999 + b'\n{"at": "2026-02-')
    record_shown(call, [Shown("memory/pool.md#L4", FACT)])
    assert list_shown(call) == ({"memory/pool.md#L3", "memory/pool.md#L4"}, True)
    for number in range(150):
        record_shown(hooks.call("prompt", session_id=f"other {number}"), (), why="x" * 2_000)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 280_000
    assert read(hooks)[-1]["session"] == "other 149"
    assert list_shown(call) == (set(), False)


def test_no_record_is_lost_while_many_write(hooks: Hooks) -> None:
    """Each thread opens the file itself, as processes do."""
    calls = [hooks.call("prompt", session_id=f"s{number}") for number in range(8)]

    def write(number: int) -> None:
        for count in range(60):
            record_shown(calls[number], (), why=f"{count} " + "x" * 150)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len({(entry["session"], entry["why"][:3]) for entry in read(hooks)}) == 8 * 60


def test_a_silenced_text_is_shown_no_more_and_still_found(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    assert silence_text(hooks, "twelve")
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s2").context == ""
    assert hooks.answer("prompt", prompt="why did the database pool get connections?", session_id="s3").context == ""
    hooks.workspace.write("memory/moved.md", f"# Pools\n\n- {FACT.upper()}\n")
    (hooks.workspace.path / "memory" / "pool.md").unlink()
    hooks.workspace.memory().sync()
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s4").context == ""
    assert any("TWELVE" in hit.snippet for hit in hooks.workspace.memory().search(PROMPT))
    assert read_lines(hooks)[-1]["silenced"]
    assert not silence(settings_of(hooks), len(read_lines(hooks)))
    assert "TWELVE" in hooks.answer("prompt", prompt=PROMPT, session_id="s5").context


def test_a_silenced_entry_with_a_trigger_is_silent_and_leaves_its_place_to_another(hooks: Hooks) -> None:
    hooks.workspace.write(
        "MEMORY.md", "- Ask Ana first. <!-- trigger: pool -->\n- Ask Ben then. <!-- trigger: pool -->\n"
    )
    assert "Ask Ana first" in hooks.answer("prompt", prompt=PROMPT).context
    assert read_lines(hooks)[0]["why"] == "trigger"
    assert silence_text(hooks, "Ask Ana first")
    text = hooks.answer("prompt", prompt=PROMPT, session_id="s2").context
    assert "Ana" not in text
    assert "Ask Ben then" in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Always use tabs in this house and never spaces",
            "- Always use tabs in this house, and never spaces. (wishes.md#L3)",
        ),
        ("Buy milk", "- [ ] Buy milk (memory/2026-02-10.md#L3-L4)"),
        ("我们每周一把发票交给会计，而不是周五。", "- 2026-02-10: 我们每周一把发票交给会计，而不是周五。"),
        ("Ask Ana before the release", "* memory/pool.md#L3: ask ANA before the **release**"),
    ],
)
def test_a_line_is_recognised_whatever_place_stands_beside_it(hooks: Hooks, text: str, line: str) -> None:
    silence_line(hooks, "wishes.md#L3", text)
    assert Silenced(settings_of(hooks)).hide(f"## Wishes\n{line}\n- Another line.") == "## Wishes\n- Another line."


def test_a_silenced_line_is_left_out_of_the_text_at_the_start(hooks: Hooks) -> None:
    hooks.workspace.write("MEMORY.md", "# Facts\n\n- Ana prefers tea to coffee in the morning.\n- Ben has a dog.\n")
    assert "Ana prefers tea" in hooks.answer("session-start").context
    silence_line(hooks, "MEMORY.md#L3", "Ana prefers tea to coffee in the morning.")
    text = hooks.answer("session-start").context
    assert "Ana prefers" not in text
    assert "Ben has a dog" in text


def test_a_line_without_words_is_neither_recorded_nor_silences_all_others(hooks: Hooks) -> None:
    hooks.workspace.write("MEMORY.md", "# Facts\n\n---\n\n```\nAna prefers tea.\n```\n")
    hooks.answer("session-start")
    assert [text for text in read_texts(hooks) if text != FACT.rstrip(".")] == ["Ana prefers tea"]
    Silenced(settings_of(hooks)).switch({"citation": "MEMORY.md#L3", "words": 0, "runs": ""})
    assert not Silenced(settings_of(hooks)).holds("---")
    assert not Silenced(settings_of(hooks)).holds(FACT)


def test_only_so_many_texts_are_silenced(hooks: Hooks) -> None:
    for number in range(305):
        runs, line = f"{number:010x} {number + 999:010x}", {"citation": f"a.md#L{number}", "words": 9}
        Silenced(settings_of(hooks)).switch({**line, "runs": runs})
    assert len(Silenced(settings_of(hooks)).lines) == 300


def test_what_is_forgotten_is_gone_from_the_record(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    assert read_texts(hooks) != [""]
    from mdrecall.life.forget import ForgetRequest
    from mdrecall.plugins import open_forgetting

    forgetting = open_forgetting(hooks.workspace.memory())
    forgetting.apply(forgetting.plan(ForgetRequest(("twelve connections",)), NOW), NOW)
    assert read_texts(hooks) == [""]


@pytest.mark.parametrize(
    ("message", "switch"),
    [
        ("memory off", "off"),
        (" Memory OFF. ", "off"),
        ("/memory on", "on"),
        (f"memory off\n{wrap_memory('text', '5e1f09ab')}", "off"),
        ("memory off please", ""),
        ("> memory off", ""),
        ("", ""),
    ],
)
def test_a_switch_is_a_message_of_its_own(message: str, switch: str) -> None:
    assert find_switch(message) == switch


def test_memory_is_off_for_one_session_until_it_is_switched_on(hooks: Hooks) -> None:
    assert "Memory is off" in hooks.answer("prompt", prompt="memory off").context
    count = len(read(hooks))
    assert hooks.answer("prompt", prompt=PROMPT) == ("", "")
    assert hooks.answer("session-start", source="compact") == ("", "")
    assert len(read(hooks)) == count
    assert "twelve" in hooks.answer("prompt", prompt=PROMPT, session_id="s2").context
    assert "Memory is on" in hooks.answer("prompt", prompt="/memory on").context
    assert "twelve" in hooks.answer("prompt", prompt=PROMPT).context


def test_a_switch_that_cannot_be_kept_is_told(hooks: Hooks) -> None:
    hooks.workspace.state.joinpath("workspaces").mkdir(exist_ok=True)
    (hooks.workspace.path / ".mdrecall").write_text("")
    assert "cannot be switched off" in hooks.answer("prompt", prompt="memory off").context


def test_nothing_is_kept_of_a_session_that_is_off(hooks: Hooks, tmp_path: Path) -> None:
    talk, settings = Conversation(tmp_path, "s1"), settings_of(hooks)
    talk.turn("The bakery on Main Street opens at seven in the morning.")
    digest_session(talk.event("stop"), settings, NOW)
    asked = "when does the bakery on Main Street open in the morning?"
    assert "at seven" in hooks.answer("prompt", prompt=asked, session_id="s2", cwd=talk.folder).context
    hooks.answer("prompt", prompt="memory off", cwd=talk.folder)
    talk.turn("memory off")
    talk.turn("The bakery on Main Street is bankrupt since last Monday.")
    digest_session(talk.event("stop"), settings, NOW)
    hooks.workspace.memory().sync()
    assert hooks.answer("prompt", prompt=asked, session_id="s3", cwd=talk.folder).context == ""
    ours = (file for file in tmp_path.rglob("*") if file.is_file() and file != talk.file)
    assert not [file for file in ours if b"bankrupt" in file.read_bytes()]
    hooks.answer("prompt", prompt="memory on", cwd=talk.folder)
    hooks.workspace.memory().sync()
    assert "at seven" in hooks.answer("prompt", prompt=asked, session_id="s4", cwd=talk.folder).context


def test_memory_on_brings_nothing_back_that_was_forgotten_otherwise(hooks: Hooks, tmp_path: Path) -> None:
    settings = settings_of(hooks)
    forget_session(settings, "s2", NOW, is_kept=False)
    hooks.answer("prompt", prompt="memory on")
    assert open_tombstones(settings).load().is_forgotten_session("s2")
    forget_session(settings, "s2", NOW, is_kept=True)
    assert not open_tombstones(settings).load().is_forgotten_session("s2")


def test_a_real_session_is_switched_off_and_the_log_tells_of_the_others(
    real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host, shop = real_host("claude-code"), tmp_path / "shop"
    shop.mkdir()
    assert host.mdrecall("install", "claude-code", cwd=shop).code == 0
    for prompt in ("The staging database listens on port 6544.", "memory off", "Which port does staging listen on?"):
        ask(host, prompt, shop)
        assert until(lambda: not marked(host.mark)), "The last digest is written."
    assert "Memory is off in this session" in model.requests_with("memory off")[-1].text
    told = host.mdrecall("log", cwd=shop).out
    assert re.search(r"prompt  [1-9]\d* ms  a question, at least 0\..*\n.*\n +User: The staging database", told)
    kept = (file for file in host.home.rglob("*") if file.is_file() and "mdrecall" in str(file))
    assert not [file for file in kept if b"memory off" in file.read_bytes()]
