"""``mdrecall session-backfill``: statements of private conversations as dated notes, once, and back again."""

import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.cli.main import main
from mdrecall.cli.session_backfill import _print_found, _to_json
from mdrecall.config.load import load
from mdrecall.life.backfill import Backfill, find_statements
from mdrecall.life.imports.reading import Skipped
from tests.conftest import environment
from tests.sources.openclaw_store import OpenClawStore, message
from tests.test_conversations import Home

KEYS = {
    "agentId",
    "workspaceDir",
    "applied",
    "rem",
    "days",
    "candidateCount",
    "stagedEntries",
    "writtenDiaryEntries",
    "replacedDiaryEntries",
}
BIKE = "The green bike of Ana is in the cellar."
NOTE = "memory/import/sessions/2026/2026-05-02.md"


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(name="store")
def _store(home: Home) -> OpenClawStore:
    store = OpenClawStore(home.state)
    store.begin("s1")
    store.add(
        "s1",
        message("e1", "user", f"Hello! {BIKE} Where is mine? And run `ls -la` now", senderIsOwner=True),
        message("e2", "assistant", [{"type": "text", "text": "Your own bike stands behind the shed at home."}]),
        message("e3", "user", "Somebody else says that the harbour is closed today."),
        message("e4", "user", BIKE, senderIsOwner=True),
        message("e5", "user", "/new the lighthouse is white and tall", senderIsOwner=True),
    )
    return store


def run(home: Home, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    with environment(home.env, home.base):
        code = main(["session-backfill", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out or "{}")


def test_a_preview_has_openclaws_keys_and_writes_nothing(
    home: Home, store: OpenClawStore, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(home, capsys)
    assert (code, set(found)) == (0, KEYS)
    statements = [BIKE, "Your own bike stands behind the shed at home."]
    assert found["days"] == [{"day": "2026-05-02", "candidateCount": 2, "topCandidates": statements}]
    assert (found["applied"], found["candidateCount"], found["stagedEntries"]) == (False, 2, 0)
    assert not list((home.workspace / "memory").iterdir())


def test_statements_are_written_once_with_their_origin_and_removed_again(
    home: Home, store: OpenClawStore, capsys: pytest.CaptureFixture[str]
) -> None:
    _, done = run(home, capsys, "--apply")
    assert (set(done) - KEYS, done["stagedEntries"]) == ({"batchCount", "batches"}, 2)
    note = home.workspace / NOTE
    written = note.read_bytes()
    assert written.decode().startswith(f"- {BIKE}\n- Your own bike")
    _, again = run(home, capsys, "--apply")
    assert (again["days"], again["stagedEntries"], note.read_bytes()) == ([], 0, written)
    with home.open() as memory:
        assert {(hit.path, hit.origin) for hit in memory.search("green bike cellar", source="memory")} == {
            (NOTE, "import")
        }
    store.add("s1", message("e9", "user", "The boat house gets a new roof in June.", senderIsOwner=True))
    assert run(home, capsys, "--apply")[1]["stagedEntries"] == 1
    _, gone = run(home, capsys, "--rollback")
    assert gone["rollback"] == {"removedDiaryEntries": 0, "removedStagedEntries": 3}
    assert not note.exists()
    assert run(home, capsys, "--rollback")[1]["rollback"]["removedStagedEntries"] == 0


def test_people_read_what_would_be_written_was_written_and_removed(
    home: Home, store: OpenClawStore, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> str:
        with environment(home.env, home.base):
            assert main(["session-backfill", *arguments]) == 0
        return capsys.readouterr().out

    assert said() == (
        f"2026-05-02  2 statements\n    {BIKE}\n    Your own bike stands behind the shed at home.\n"
        "Would write 2 statements to memory/import/sessions/. To do it: --apply\n"
    )
    wrote = "Wrote 2 statements to memory/import/sessions/. To remove them: --rollback"
    assert said("--apply").splitlines()[-1] == wrote
    assert said("--rollback") == "Removed 2 statements.\n"
    assert said("--rollback") == "There is nothing to remove.\n"


def test_a_transcript_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = Backfill((), 0, (Skipped("a\x07.jsonl", "It is no text."),))
    _print_found(found, is_applied=False)
    assert capsys.readouterr().err == "! a\ufffd.jsonl: It is no text.\n"
    loaded = load(env={"HOME": "/nowhere"}, workspace="/tmp")
    assert _to_json(loaded, found, is_applied=False)["skipped"] == [
        {"name": "a\x07.jsonl", "problem": "It is no text."}
    ]


def test_what_somebody_has_edited_stays(home: Home, store: OpenClawStore, capsys: pytest.CaptureFixture[str]) -> None:
    run(home, capsys, "--apply")
    note = home.workspace / NOTE
    note.write_text("My own line.\n\n" + note.read_text())
    assert run(home, capsys, "--rollback")[1]["rollback"]["removedStagedEntries"] == 0
    assert BIKE in note.read_text()


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("agent:main:telegram:group:7", {}),
        ("agent:main:main", {"chat_type": "group"}),
        ("agent:main:hook:gmail", {}),
        ("agent:main:work", {"hook_external_content_source": "gmail"}),
        ("agent:main:cron:job:run:1", {}),
        ("agent:main:subagent:x", {}),
        ("agent:main:irc:direct:ana", {"channel": "irc", "chat_type": "direct"}),
    ],
)
def test_groups_jobs_hooks_and_what_the_settings_exclude_are_left_out(
    home: Home, capsys: pytest.CaptureFixture[str], key: str, more: dict[str, Any]
) -> None:
    policy = {"memoryPolicy": {"excludeSessions": {"channels": ["irc"]}}}
    home.configure(plugins={"entries": {"memory-core": {"config": policy}}})
    store = OpenClawStore(home.state)
    store.begin("s1", key, **more)
    store.add("s1", message("e1", "user", BIKE, senderIsOwner=True))
    assert run(home, capsys)[1]["candidateCount"] == 0


def test_secrets_are_masked_and_days_chosen(
    home: Home, store: OpenClawStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    said = message("e1", "user", f"The key of the shop is {secret} for now.", senderIsOwner=True)
    file = tmp_path / "old.jsonl"
    file.write_text(json.dumps({**said, "timestamp": "2026-04-01T08:00:00Z"}) + "\n")
    _, found = run(home, capsys, "--archive-files", str(file), "--to", "2026-04-30")
    assert [day["day"] for day in found["days"]] == ["2026-04-01"]
    assert secret not in json.dumps(found)
    assert len(run(home, capsys, "--archive-files", str(file), "--limit-days", "1")[1]["days"]) == 1
    run(home, capsys, "--archive-files", str(file), "--apply", "--from", "2026-04-01")
    text = (home.workspace / "memory/import/sessions/2026/2026-04-01.md").read_text()
    assert "The key of the shop is" in text
    assert secret not in text


@pytest.mark.parametrize(
    "wrong",
    [
        ("--rem",),
        ("--apply", "--rollback"),
        ("--from", "2026-13-01"),
        ("--limit-days", "0"),
        ("--archive-files", "/none"),
    ],
)
def test_what_makes_no_sense_is_refused(home: Home, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...]) -> None:
    with environment(home.env, home.base):
        assert main(["session-backfill", *wrong]) in (1, 2)
    assert capsys.readouterr().err


def test_only_sentences_are_statements() -> None:
    junk = ["# A heading", "git push --force", "| a | b |", "Ok.", "HEARTBEAT_OK all is well", "x" * 300 + " is long."]
    assert [find_statements(text) for text in junk] == [[]] * len(junk)
    assert find_statements("我把蓝色的钥匙放在抽屉里了。好的。") == ["我把蓝色的钥匙放在抽屉里了。"]
