"""The record of what models were shown, silenced texts, and memory that is off for a session."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mdrecall.hosts.digest import digest_session
from mdrecall.hosts.shown import Injection, Shown, Silenced, describe_log, list_shown, read_log, record_shown
from mdrecall.sessions.hosts import read_steps
from mdrecall.sessions.messages import wrap_memory
from mdrecall.sessions.own_words import find_switch
from tests.conftest import Workspace
from tests.hosts.calls import Hooks
from tests.hosts.conversation import NOW, Conversation

PROMPT = "how many connections does the database pool have?"
FACT = "The database pool has twelve connections."


@pytest.fixture
def hooks(workspace: Workspace) -> Hooks:
    workspace.write("memory/pool.md", f"# Database pool\n\n{FACT}\n")
    workspace.memory().sync()
    return Hooks(workspace, [])


def settings_of(hooks: Hooks) -> Any:
    return hooks.call("prompt").settings


def read(hooks: Hooks) -> list[Injection]:
    return list(read_log(settings_of(hooks)))


def read_lines(hooks: Hooks) -> list[dict[str, Any]]:
    answers = [answer for session in describe_log(hooks.workspace.memory(), 10) for answer in session["answers"]]
    return [line for answer in answers for line in answer["lines"]]


def read_texts(hooks: Hooks) -> list[str]:
    return [line["text"] or "" for line in read_lines(hooks)]


def silence(hooks: Hooks, text: str) -> None:
    [line] = [line for line in read_lines(hooks) if text in (line["text"] or "")]
    Silenced(settings_of(hooks)).add(line["citation"], line["text"])


def test_each_answer_is_recorded_with_its_place_and_reason_and_without_its_text(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT, cwd=hooks.workspace.path)
    hooks.answer("prompt", prompt="thanks, go ahead")
    hooks.answer("prompt", prompt="what is the capital of Portugal?")
    shown_one, silent, unsure = read(hooks)
    assert shown_one[:5] == ("2026-02-10T12:00:00Z", "claude-code", "s1", hooks.workspace.path.name, "prompt")
    assert shown_one.why == "a question, at least 0.2"
    [line] = shown_one.lines
    assert line.citation.startswith("memory/pool.md#L")
    assert line.score > 0.3
    assert (silent.why, silent.lines) == ("nothing to look for", ())
    assert (unsure.why, unsure.lines) == ("nothing sure enough", ())
    for file in Path(settings_of(hooks).state_dir).rglob("log.jsonl*"):
        assert "twelve" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0


def test_the_text_is_read_again_where_it_stands(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    [text] = read_texts(hooks)
    assert "twelve connections" in text
    hooks.workspace.write("memory/pool.md", f"Something\nnew\nstands\nabove.\n\n# Database pool\n\n{FACT}\n")
    assert read_texts(hooks) == [text]
    assert read_lines(hooks)[0]["citation"] == "memory/pool.md#L6-L8"
    hooks.workspace.write("memory/pool.md", "# Database pool\n\nThe database pool has thirteen connections.\n")
    assert read_texts(hooks) == [""]
    (hooks.workspace.path / "memory" / "pool.md").unlink()
    assert read_texts(hooks) == [""]


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
    with open(folder / "log.jsonl", "ab") as file:
        file.write(b'\n{"at": "2026-02-')
    record_shown(call, [Shown("memory/pool.md#L4", FACT)])
    assert list_shown(call) == ({"memory/pool.md#L3", "memory/pool.md#L4"}, True)
    for number in range(1_500):
        record_shown(hooks.call("prompt", session_id=f"other {number}"), (), why="x" * 200)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 280_000
    assert read(hooks)[-1].session == "other 1499"
    assert list_shown(call) == (set(), False)


@pytest.mark.parametrize(
    "line", [b"[]", b"7", b'{"lines": 7}', b'{"lines": [7]}', b'{"at": 7, "ms": "x"}', b"\xff", b"[" * 9_999]
)
def test_what_is_no_record_is_skipped(hooks: Hooks, line: bytes) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    with open(Path(settings_of(hooks).state_dir, "mdrecall-hosts", "shown", "log.jsonl"), "ab") as file:
        file.write(b"\n" + line)
    hooks.answer("prompt", prompt=PROMPT, session_id="s2")
    assert {"s1", "s2"} <= {entry.session for entry in read(hooks)}
    assert [text for text in read_texts(hooks) if text]


def test_no_record_is_lost_while_many_write_and_the_file_is_renamed(hooks: Hooks) -> None:
    """Each thread opens the file itself, as processes do; the old file is read until the next one is full."""
    calls = [hooks.call("prompt", session_id=f"s{number}") for number in range(8)]

    def write(number: int) -> None:
        for count in range(60):
            record_shown(calls[number], (), why=f"{count} " + "x" * 150)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len({(entry.session, entry.why[:3]) for entry in read(hooks)}) == 8 * 60


def test_a_silenced_text_is_shown_no_more_and_still_found(hooks: Hooks) -> None:
    hooks.answer("prompt", prompt=PROMPT)
    [text] = read_texts(hooks)
    silence(hooks, text)
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s2").context == ""
    assert hooks.answer("prompt", prompt="why did the database pool get connections?", session_id="s3").context == ""
    hooks.workspace.write("memory/moved.md", f"# Pools\n\n- {FACT.upper()}\n")
    (hooks.workspace.path / "memory" / "pool.md").unlink()
    hooks.workspace.memory().sync()
    assert hooks.answer("prompt", prompt=PROMPT, session_id="s4").context == ""
    assert any("TWELVE" in hit.snippet for hit in hooks.workspace.memory().search(PROMPT))
    silenced = Silenced(settings_of(hooks))
    [runs] = silenced.find(text)
    silenced.remove(runs)
    assert "TWELVE" in hooks.answer("prompt", prompt=PROMPT, session_id="s5").context


def test_a_silenced_entry_with_a_trigger_is_silent_and_leaves_its_place_to_another(hooks: Hooks) -> None:
    hooks.workspace.write(
        "MEMORY.md", "- Ask Ana first. <!-- trigger: pool -->\n- Ask Ben then. <!-- trigger: pool -->\n"
    )
    assert "Ask Ana first" in hooks.answer("prompt", prompt=PROMPT).context
    assert read(hooks)[-1].lines[0].why == "trigger"
    silence(hooks, "Ask Ana first")
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
    silenced = Silenced(settings_of(hooks))
    silenced.add("wishes.md#L3", text)
    assert Silenced(settings_of(hooks)).hide(f"## Wishes\n{line}\n- Another line.") == "## Wishes\n- Another line."


def test_a_silenced_line_is_left_out_of_the_text_at_the_start(hooks: Hooks) -> None:
    hooks.workspace.write("MEMORY.md", "# Facts\n\n- Ana prefers tea to coffee in the morning.\n- Ben has a dog.\n")
    assert "Ana prefers tea" in hooks.answer("session-start").context
    Silenced(settings_of(hooks)).add("MEMORY.md#L3", "Ana prefers tea to coffee in the morning.")
    text = hooks.answer("session-start").context
    assert "Ana prefers" not in text
    assert "Ben has a dog" in text


def test_only_so_many_texts_are_silenced_and_a_broken_file_silences_nothing(hooks: Hooks) -> None:
    silenced = Silenced(settings_of(hooks))
    for number in range(305):
        silenced.add(f"a.md#L{number}", f"the {number} of the many lines that nobody wants to see")
    again = Silenced(settings_of(hooks))
    assert len(again.describe(hooks.workspace.memory())) == 300
    assert again.find("the 304 of the many lines that nobody wants to see")
    Path(settings_of(hooks).state_dir, "mdrecall-hosts", "shown", "silenced.json").write_text('{"texts": {"a": 7}}')
    assert Silenced(settings_of(hooks)).find("a") == []


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
        ("turn memory off", ""),
        ("memory off please", ""),
        ("memory of", ""),
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
    Path(settings_of(hooks).state_dir).write_text("")
    assert "cannot be switched off" in hooks.answer("prompt", prompt="memory off").context


def test_nothing_is_kept_of_what_was_said_while_memory_was_off(hooks: Hooks, tmp_path: Path) -> None:
    talk = Conversation(tmp_path, "s1")
    talk.turn("The bakery opens at seven in the morning.")
    settings = settings_of(hooks)
    digest_session(talk.event("stop"), settings, NOW)
    for said in ("memory off", "The bakery is bankrupt since Monday.", "Nobody may know about it, always be silent."):
        talk.turn(said)
        digest_session(talk.event("stop"), settings, NOW)
    talk.turn("memory on")
    talk.turn("The bakery has two new ovens from Italy.")
    digest_session(talk.event("stop"), settings, NOW)
    kept = "".join(file.read_text(errors="replace") for file in Path(tmp_path).rglob("*") if is_ours(file, talk))
    assert "opens at seven" in kept
    assert "ovens from Italy" in kept
    assert "bankrupt" not in kept
    assert "Nobody may know" not in kept


def is_ours(file: Path, talk: Conversation) -> bool:
    return file.is_file() and str(file) != talk.event("stop").transcript


def test_the_transcript_is_read_without_it_from_any_offset(tmp_path: Path) -> None:
    talk = Conversation(tmp_path, "s1")
    for said in ("one", "memory off", "two", "Memory off.", "memory on", "three"):
        talk.turn(said)
    file = talk.event("stop").transcript
    records = list(read_steps("claude-code", file))
    whole = [step.text for record in records for step in record.steps if step.kind == "user"]
    assert whole == ["one", "three"]
    for record in records:
        rest = list(read_steps("claude-code", file, offset=record.end or 0, number=record.number))
        assert rest == records[record.number :]
