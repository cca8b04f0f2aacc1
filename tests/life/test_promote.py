"""What is promoted into MEMORY.md, what is not, and that neither kills nor rivals damage the file."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from mdrecall.errors import FileChanged, FileUnwritable, ReadError
from mdrecall.life import promote
from mdrecall.life.promote import Plan, apply, choose, find_judged, plan, undo
from mdrecall.life.promotion import Choice
from mdrecall.life.recalls import RecallState, recalls_path
from mdrecall.memory import Memory
from mdrecall.notes.editing import replace_content
from mdrecall.notes.tombstones import TombstoneFiles, entry_line
from mdrecall.text.tombstones import make_entry
from tests.conftest import Workspace
from tests.life.conftest import NOW, recall_line
from tests.life.test_entries import JUNK
from tests.processes import python

PUMP = "The greenhouse pump must be replaced before winter."
NOTE = "memory/2026-11-14.md"


def make_plan(memory: Memory, **changes: object) -> Plan:
    return plan(memory.settings, "/nowhere", choose(memory.settings, **changes), NOW)


def apply_now(memory: Memory, **changes: object) -> Plan:
    return apply(memory.settings, "/nowhere", choose(memory.settings, **changes), NOW)


def texts(made: Plan) -> list[str]:
    return [one.text for one in made.promotions]


def refusals(made: Plan) -> list[str]:
    return [one.refusal for one in made.judged if one.refusal]


@pytest.fixture
def pump(recording: Memory, workspace: Workspace) -> Memory:
    """A statement that deserves to be promoted, beside one that nobody recalls."""
    workspace.write(NOTE, f"# 2026-11-14\n\n- {PUMP}\n- Priya prefers tea to coffee.\n")
    recall_line(recording, NOTE, 3)
    return recording


def test_a_preview_writes_nothing(pump: Memory, workspace: Workspace) -> None:
    before = Path(recalls_path(pump.settings.index_path)).read_bytes()
    made = make_plan(pump)
    assert texts(made) == [PUMP]
    assert not (workspace.path / "MEMORY.md").exists()
    assert Path(recalls_path(pump.settings.index_path)).read_bytes() == before


def test_apply_writes_openclaws_form_with_triggers_of_the_text(pump: Memory, workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "# Memory\n\n- Sam lives in Oslo.\n")
    key = make_plan(pump).judged[0].record.key
    apply_now(pump)
    assert (workspace.path / "MEMORY.md").read_text() == (
        "# Memory\n\n- Sam lives in Oslo.\n"
        "\n## Promoted From Short-Term Memory (2026-11-16)\n\n"
        f"<!-- openclaw-memory-promotion:{key} -->\n"
        f"- {PUMP} [score=0.869 signals=7 recalls=6 avg=0.903 source=memory/2026-11-14.md:3-3]"
        " <!-- trigger: greenhouse, replaced, winter --> <!-- importance: 9 -->\n"
    )
    assert key.startswith("memory:memory/2026-11-14.md:3:3:")


def test_nothing_is_promoted_twice_not_even_after_a_person_deleted_it(pump: Memory, workspace: Workspace) -> None:
    apply_now(pump)
    first = (workspace.path / "MEMORY.md").read_bytes()
    assert not apply_now(pump).section
    assert (workspace.path / "MEMORY.md").read_bytes() == first
    workspace.write("MEMORY.md", "# Memory\n")
    assert make_plan(pump).judged == ()
    assert texts(make_plan(pump, include_promoted=True)) == [PUMP]


def test_an_entry_with_its_marker_is_never_written_again(pump: Memory, workspace: Workspace) -> None:
    apply_now(pump)
    Path(recalls_path(pump.settings.index_path)).unlink()
    recall_line(pump, NOTE, 3)
    before = (workspace.path / "MEMORY.md").read_bytes()
    made = apply_now(pump, include_promoted=True)
    assert refusals(made) == ["MEMORY.md already has it"]
    assert made.reconciled == (made.judged[0].record.key,)
    assert (workspace.path / "MEMORY.md").read_bytes() == before
    assert apply_now(pump).reconciled == ()


@pytest.mark.parametrize(
    "before",
    [
        None,
        b"",
        b"# Memory\n\n- Sam lives in Oslo.\n",
        b"no line end at the end",
        b"windows\r\n\r\n- lines\r\n",
        b"\xef\xbb\xbf# with a byte order mark\n",
        b"not \xff\xfe utf-8 \x80\n",
        "# UTF-16\n\n- Ja.\n".encode("utf-16"),
        b"many ends\n\n\n\n",
    ],
    ids=["missing", "empty", "usual", "no end", "windows", "mark", "broken", "utf-16", "ends"],
)
def test_undo_restores_every_byte(pump: Memory, workspace: Workspace, before: bytes | None) -> None:
    path = workspace.path / "MEMORY.md"
    if before is not None:
        path.write_bytes(before)
    assert len(apply_now(pump).promotions) == 1
    after = path.read_bytes()
    assert after.startswith(before or b"")
    assert after != before
    assert undo(pump.settings) == {"path": "MEMORY.md", "day": "2026-11-16", "entries": 1}
    assert (path.read_bytes() if path.exists() else None) == before
    assert undo(pump.settings) is None
    assert make_plan(pump).promotions == ()


def test_undo_refuses_if_the_file_was_changed_and_says_what_to_do(pump: Memory, workspace: Workspace) -> None:
    apply_now(pump)
    path = workspace.path / "MEMORY.md"
    path.write_bytes(path.read_bytes() + b"- mine\n")
    with pytest.raises(FileChanged, match=r"MEMORY\.md was changed after the promotion of 2026-11-16") as caught:
        undo(pump.settings)
    assert "by hand" in caught.value.hint
    assert path.read_bytes().endswith(b"- mine\n")


def test_no_junk_is_promoted(recording: Memory, workspace: Workspace) -> None:
    junk = JUNK[4:7]
    workspace.write(NOTE, "".join(f"- {line}\n\n" for line in junk) + f"- {PUMP}\n")
    for number in range(len(junk) + 1):
        recall_line(recording, NOTE, 2 * number + 1)
    assert texts(apply_now(recording, limit=100)) == [PUMP]


def test_what_the_note_no_longer_says_is_not_promoted(pump: Memory, workspace: Workspace) -> None:
    workspace.write(NOTE, "- The greenhouse pump was replaced.\n")
    assert refusals(make_plan(pump)) == [f"{NOTE} does not say it any more"]
    (workspace.path / NOTE).unlink()
    assert refusals(make_plan(pump)) == [f"{NOTE} does not say it any more"]


def test_forgotten_text_is_not_promoted_though_the_note_has_it(pump: Memory) -> None:
    salt = os.urandom(16)
    entry = make_entry(salt, "1", "2026-11-16", [PUMP], {}, {})
    TombstoneFiles(pump.settings.workspace).add(salt, [entry_line(entry)])
    made = make_plan(pump, lists_all=True)
    assert find_judged(made, "pump") is None
    assert refusals(make_plan(pump)) == [f"{NOTE} does not say it any more"]


@pytest.mark.parametrize("origin", ["untrusted", "system"])
def test_text_of_others_is_not_promoted(pump: Memory, origin: str) -> None:
    state = RecallState(pump.settings.index_path)
    state.set_records(record._replace(origin=origin) for record in state.records)
    state.save()
    assert refusals(make_plan(pump)) == [f"its origin is {origin}"]


def test_a_secret_is_not_promoted(recording: Memory, workspace: Workspace) -> None:
    workspace.write(NOTE, "- The key of the shop is sk-proj-abcdefghijklmnopqrstuvwx0123456789 for now.\n")
    recall_line(recording, NOTE, 1)
    assert refusals(make_plan(recording)) == ["it contains what looks like a secret"]


def test_near_duplicates_are_merged_also_with_what_is_there(pump: Memory, workspace: Workspace) -> None:
    workspace.write("memory/2026-11-15.md", "- Before winter, the greenhouse pump must be replaced!\n")
    recall_line(pump, "memory/2026-11-15.md", 1)
    made = make_plan(pump)
    assert len(made.promotions) == 1
    assert refusals(made)[0].endswith("says the same")
    workspace.write("MEMORY.md", "# Memory\n\n- The pump of the greenhouse must be replaced before winter begins.\n")
    assert refusals(make_plan(pump)) == ["MEMORY.md#L3 already says it"] * 2


def test_the_budget_of_the_file_says_why(pump: Memory, workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "x" * 9_900)
    (refusal,) = refusals(make_plan(pump))
    assert refusal.startswith("MEMORY.md may have 10,000 characters and would have 10,")
    assert refusal.endswith("shorten it to make room")
    assert make_plan(pump, max_chars=11_000).promotions


def test_thresholds_are_openclaws(workspace: Workspace) -> None:
    workspace.beside_openclaw()
    file = workspace.home / ".openclaw" / "openclaw.json"
    deep = {"limit": 4, "minScore": 0.5, "minRecallCount": 1, "minUniqueQueries": 2, "maxAgeDays": 9}
    core = {"config": {"dreaming": {"frequency": "0 4 * * *", "phases": {"deep": {**deep, "sources": ["daily"]}}}}}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"plugins": {"entries": {"memory-core": core}}}))
    workspace.configure('{"mdrecall": {"promote": {"minDays": 3}}}')
    settings = workspace.memory().settings
    assert choose(settings) == Choice(0.5, 1, 2, 9, 3, 4, 10_000)
    assert choose(settings, min_score=0.0, limit=1) == Choice(0.0, 1, 2, 9, 3, 1, 10_000)


def test_the_limit_is_told(pump: Memory) -> None:
    recall_line(pump, NOTE, 4)
    made = make_plan(pump, limit=1)
    assert (len(made.promotions), refusals(made)) == (1, ["the limit of 1 is reached"])


def test_a_file_name_cannot_end_the_marker(recording: Memory, workspace: Workspace) -> None:
    path = "memory/2026-11-14-x-->.md"
    workspace.write(path, f"- {PUMP}\n")
    recall_line(recording, path, 1)
    assert refusals(make_plan(recording)) == ["its file name cannot stand in a comment"]


def test_a_note_that_repeats_a_statement_counts_as_a_signal(recording: Memory, workspace: Workspace) -> None:
    for day in (3, 13, 14, 15):
        workspace.write(f"memory/2026-11-{day:02d}.md", f"- {PUMP}\n")
    workspace.write("memory/2026-10-31.md", f"- {PUMP}\n")
    recall_line(recording, NOTE, 1, times=4, days=2)
    (record,) = [one.record for one in make_plan(recording).promotions]
    assert (record.recalls, record.daily, record.signals) == (4, 4, 8)
    assert record.total_score == pytest.approx(4 * 0.95 + 4 * 0.62)
    assert record.days == ("2026-11-03", "2026-11-13", "2026-11-14", "2026-11-15", "2026-11-16")
    assert record.recall_days == ("2026-11-15", "2026-11-16")


def test_a_statement_that_nobody_recalled_is_never_promoted(recording: Memory, workspace: Workspace) -> None:
    for day in range(10, 16):
        workspace.write(f"memory/2026-11-{day}.md", f"- {PUMP}\n")
    assert make_plan(recording, min_score=0.0, min_signals=0, min_queries=0).judged == ()


def test_a_record_can_be_explained_by_key_path_or_text(pump: Memory) -> None:
    made = make_plan(pump, lists_all=True)
    for selector in (made.judged[0].record.key, "PUMP must", NOTE):
        found = find_judged(made, selector)
        assert found
        assert found.text == PUMP
    assert find_judged(made, "nothing of the kind") is None
    assert find_judged(made, " ") is None


def test_a_link_is_refused_and_a_folder_without_notes_has_nothing(recording: Memory, workspace: Workspace) -> None:
    assert make_plan(recording).judged == ()
    (workspace.path / "MEMORY.md").symlink_to(workspace.home / "elsewhere.md")
    with pytest.raises(ReadError, match="symbolic link"):
        make_plan(recording)


def test_a_full_disk_changes_nothing(pump: Memory, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.write("MEMORY.md", "# Memory\n")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mdrecall.state_files.save", fail)
    with pytest.raises(FileUnwritable, match="No space left"):
        apply_now(pump)
    assert (workspace.path / "MEMORY.md").read_text() == "# Memory\n"


def test_what_somebody_writes_meanwhile_is_kept(
    pump: Memory, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workspace.write("MEMORY.md", "# Memory\n")
    made, rivals = promote.plan, iter([b"- first\n", b"- second\n"])

    def plan_and_write(*arguments: object) -> Plan:
        found = made(*arguments)  # type: ignore[arg-type]
        path.write_bytes(path.read_bytes() + next(rivals, b""))
        return found

    monkeypatch.setattr(promote, "plan", plan_and_write)
    apply_now(pump)
    assert path.read_text().startswith("# Memory\n- first\n- second\n\n## Promoted")
    assert path.read_text().count(PUMP) == 1


PROMOTER = """
import json, sys
from mdrecall.life import promote
from mdrecall.memory import Memory
from tests.life.conftest import NOW
memory = Memory.open(sys.argv[1], env=json.loads(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
promote.apply(memory.settings, "/nowhere", promote.choose(memory.settings, limit=100), NOW)
"""


@pytest.mark.slow
def test_two_processes_promote_each_statement_once(recording: Memory, workspace: Workspace) -> None:
    statements = [f"- The room number {number} has the name w{number} on its door.\n" for number in range(8)]
    workspace.write(NOTE, "".join(statements))
    workspace.write("MEMORY.md", "# Memory\n")
    for number in range(8):
        recall_line(recording, NOTE, number + 1)
    promoters = [python(PROMOTER, str(workspace.path), json.dumps(workspace.env)) for _ in range(2)]
    for promoter in promoters:
        assert promoter.stdout
        assert promoter.stdout.readline() == "ready\n"
    for promoter in promoters:
        promoter.communicate("\n", timeout=60)
        assert promoter.returncode == 0
    text = (workspace.path / "MEMORY.md").read_text()
    assert [text.count(f" w{number} ") for number in range(8)] == [1] * 8


@pytest.mark.parametrize("step", ["journal", "file"])
def test_a_kill_between_any_two_steps_is_mended(
    pump: Memory, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = workspace.write("MEMORY.md", "# Memory\n")

    def die(*arguments: object) -> None:
        if step == "file":
            replace_content(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(promote, "replace_content", die)
    with pytest.raises(KeyboardInterrupt):
        apply_now(pump)
    monkeypatch.undo()
    assert path.read_text().count(PUMP) == (step == "file")
    apply_now(pump)
    assert path.read_text().count(PUMP) == 1
    assert not apply_now(pump).section
    undo(pump.settings)
    assert path.read_text() == "# Memory\n"
    assert undo(pump.settings) is None


def test_a_recall_of_next_week_does_not_break_the_score(pump: Memory) -> None:
    early = plan(pump.settings, "/nowhere", choose(pump.settings), NOW - timedelta(days=300))
    assert all(0 <= one.score <= 1 for one in early.judged)
