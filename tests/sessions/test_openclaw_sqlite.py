"""Conversations in OpenClaw's database are read as the JSONL files that they were, beside OpenClaw, without a trace."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import FileMissing, FileUnreadable, ReadError
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.readers import find_conversation, list_conversations, read_transcript
from mdrecall.types.documents import Listing
from mdrecall.types.transcripts import TranscriptRecord
from tests.sessions.openclaw_store import OpenClawStore, message

LONG = "the lighthouse " + " ".join(f"word{number}" for number in range(600))


@pytest.fixture
def store(tmp_path: Path) -> OpenClawStore:
    return OpenClawStore(tmp_path / "state")


def fill(store: OpenClawStore, session: str = "s1", **more: Any) -> None:
    """A conversation with a long message, a tool, a compaction, a reset and a branch that was left."""
    store.begin(session, **more)
    store.add(
        session,
        {"type": "model_change", "id": "m1", "modelId": "test"},
        message("e1", "user", "The bike is green", senderIsOwner=True),
        message("e2", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Noted."}]),
        message("e3", "user", LONG),
        message("e4", "toolResult", "x" * 3000),
        message("e5", "assistant", [{"type": "text", "text": f"About {LONG}"}]),
        {"type": "compaction", "id": "e6", "summary": "they talked", "firstKeptEntryId": "e5"},
        message("e7", "user", "Grüße, 深色模式"),
        {"type": "reset", "id": "e8", "reason": "new"},
        message("e9", "user", "The boat is blue"),
        {"type": "leaf", "id": "e10", "targetId": "e7"},
        message("e11", "assistant", [{"type": "text", "text": "Back again"}]),
    )


def records_of(reader: OpenClawTranscripts, path: str) -> list[TranscriptRecord]:
    with reader.open(path) as opened:
        return list(opened.records())


def lines_of(reader: OpenClawTranscripts, path: str) -> list[tuple[int, str, str]]:
    found = records_of(reader, path)
    return [(record.number, record.line, record.day) for record in found if record.is_message]


@pytest.mark.parametrize("has_zstd", [True, False])
def test_the_lines_and_their_numbers_are_those_of_the_jsonl_file(store: OpenClawStore, has_zstd: bool) -> None:
    fill(store)
    (store.folder / "export").mkdir()
    (store.folder / "export" / "s1.jsonl").write_bytes(store.export("s1"))
    exported = OpenClawTranscripts(str(store.folder / "export"))
    found = lines_of(store.reader(has_zstd=has_zstd), "sessions/main/s1.jsonl")
    assert found == lines_of(exported, "sessions/s1.jsonl")
    assert [number for number, _, _ in found] == [3, 4, 5, 7, 9, 11, 13]
    assert found[2][1] == f"User: {LONG}"
    if has_zstd:
        own = [record.origin for record in records_of(store.reader(), "sessions/main/s1.jsonl")]
        assert own == [record.origin for record in records_of(exported, "sessions/s1.jsonl")]


def test_without_zstd_a_long_message_that_nobody_vouches_for_is_untrusted(store: OpenClawStore) -> None:
    store.begin("s1")
    store.add("s1", message("e1", "user", LONG, senderIsOwner=True), message("e2", "assistant", "yes"))
    for has_zstd, origins in ((True, ["owner", "agent"]), (False, ["untrusted", "untrusted"])):
        found = records_of(store.reader(has_zstd=has_zstd), "sessions/main/s1.jsonl")
        assert [record.origin for record in found if record.is_message] == origins


def test_without_zstd_a_text_that_the_full_text_index_lacks_is_a_problem_of_its_record(store: OpenClawStore) -> None:
    store.begin("s1")
    store.add("s1", message("e1", "user", LONG), is_active=False)
    store.add("s1", message("e2", "user", "short"), is_active=False)
    found = records_of(store.reader(has_zstd=False), "sessions/main/s1.jsonl")
    assert [(record.text, "zstd" in record.problem) for record in found] == [("", False), ("", True), ("short", False)]
    assert records_of(store.reader(), "sessions/main/s1.jsonl")[1].text == LONG


def test_without_zstd_an_event_that_a_rewind_has_copied_is_read_where_it_came_from(store: OpenClawStore) -> None:
    said = message("e1", "user", LONG)
    store.begin("s1")
    store.add("s1", said)
    store.begin("s2")
    store.begin("s3", "agent:main:telegram:group:7")
    for session in ("s2", "s3"):
        store.add(session, said, is_active=False)
    reader = store.reader(has_zstd=False)
    assert records_of(reader, "sessions/main/s2.jsonl")[1].text == LONG
    # Another conversation may have an event of the same name, and must not show somebody else's text.
    assert records_of(reader, "sessions/main/s3.jsonl")[1].problem


def test_without_zstd_texts_are_found_after_openclaw_has_indexed_them_anew(store: OpenClawStore) -> None:
    fill(store)
    reader = store.reader(has_zstd=False)
    before = lines_of(reader, "sessions/main/s1.jsonl")
    texts = store.execute("SELECT text, session_id, message_id, role, timestamp FROM session_transcript_fts")
    store.execute("DELETE FROM session_transcript_fts")
    insert = "INSERT INTO session_transcript_fts (text, session_id, message_id, role, timestamp) VALUES (?, ?, ?, ?, ?)"
    for row in reversed(texts):
        store.execute(insert, *row)
    assert lines_of(reader, "sessions/main/s1.jsonl") == before


def test_a_damaged_or_huge_frame_costs_only_its_record(store: OpenClawStore) -> None:
    store.begin("s1")
    store.add("s1", message("e1", "user", LONG), message("e2", "user", "x" * 5_000_000), is_active=False)
    store.add("s1", message("e3", "user", "short"))
    store.execute("UPDATE transcript_events SET event_zstd = x'28b52ffd00' WHERE seq = 1")
    found = records_of(store.reader(), "sessions/main/s1.jsonl")
    assert [bool(record.problem) for record in found] == [False, True, True, False]


def test_reading_from_any_offset_gives_the_same_records(store: OpenClawStore) -> None:
    fill(store)
    with store.reader().open("sessions/main/s1.jsonl") as opened:
        whole = list(opened.records())
        assert opened.records_after(0) == len(whole) == 13
        for at, record in enumerate(whole):
            assert record.end is not None
            assert list(opened.records(record.end, record.number + 1)) == whole[at + 1 :]
            assert opened.records_after(record.end) == len(whole) - at - 1


def test_a_conversation_of_many_batches_is_read_whole(store: OpenClawStore) -> None:
    store.begin("s1")
    store.add("s1", *(message(f"e{number}", "user", f"number {number}") for number in range(1200)))
    found = records_of(store.reader(), "sessions/main/s1.jsonl")
    assert [record.number for record in found] == list(range(1, 1202))
    assert found[-1].text == "number 1199"


def test_a_conversation_is_told_with_its_key_its_chat_and_its_beginning(store: OpenClawStore) -> None:
    store.begin("s1", chat_type="direct", channel="telegram")
    store.begin(
        "s2", "agent:main:discord:group:7", entry={"chatType": "group", "delivery": {"route": {"channel": "discord"}}}
    )
    store.begin("s3", "agent:main:subagent:x", spawned_by="agent:main:main")
    store.begin("s4", "agent:main:subagent:y", entry={"spawnedBy": "agent:main:main"})
    store.begin("s5")
    reader = store.reader()
    found = {each.session: each for each in list_conversations(reader)}
    facts = {name: (each.session_key, each.chat_type, each.channel, each.parent_key) for name, each in found.items()}
    assert facts == {
        "s1": ("agent:main:main", "direct", "telegram", ""),
        "s2": ("agent:main:discord:group:7", "group", "discord", ""),
        "s3": ("agent:main:subagent:x", "", "", "agent:main:main"),
        "s4": ("agent:main:subagent:y", "", "", "agent:main:main"),
        "s5": ("agent:main:main", "", "", ""),
    }
    assert [found[name].archived for name in ("s1", "s5")] == [True, False]
    assert found["s2"].participants == ()
    store.execute("CREATE TABLE session_participants (session_key TEXT, identity_namespace TEXT, actor_id TEXT)")
    for actor in ("user-9", "user-7"):
        store.execute("INSERT INTO session_participants VALUES (?, '{}', ?)", "agent:main:discord:group:7", actor)
    known = {each.session: each.participants for each in list_conversations(store.reader())}
    assert (known["s2"], known["s1"]) == (("user-7", "user-9"), ())


@pytest.mark.parametrize("name", ["s1", "sessions/main/s1.jsonl", "FOLDER/s1.jsonl"])
def test_a_citation_from_before_and_after_the_migration_opens_the_same_line(store: OpenClawStore, name: str) -> None:
    fill(store)
    name = name.replace("FOLDER", str(store.sessions))
    reader = store.reader()
    assert find_conversation(reader, name).path == "sessions/main/s1.jsonl"
    shown = read_transcript(reader, name, str, from_line=3, lines=1)
    assert shown.text == "3  User: The bike is green"
    jsonl = store.export("s1")
    for each in store.file.parent.iterdir():
        each.unlink()
    (store.sessions / "s1.jsonl").write_bytes(jsonl)
    assert find_conversation(store.reader(), name).path == "sessions/s1.jsonl"
    assert read_transcript(store.reader(), name, str, from_line=3, lines=1).text == shown.text


def test_another_agents_path_is_not_this_agents(store: OpenClawStore) -> None:
    fill(store)
    reader = store.reader()
    assert not reader.owns("sessions/other/s1.jsonl")
    assert reader.find("sessions/other/s1.jsonl", reader.scan()) is None


def test_a_file_that_the_database_has_is_not_read_and_another_one_is(store: OpenClawStore) -> None:
    fill(store)
    (store.sessions / "s1.jsonl").write_bytes(store.export("s1"))
    (store.sessions / "s2.jsonl").write_text(json.dumps(message("f1", "user", "only in a file")) + "\n")
    (store.sessions / "s1.jsonl.reset.2026-01-01T00-00-00.000Z").write_text(json.dumps(message("r1", "user", "old")))
    reader = store.reader()
    assert sorted(reader.scan().stamps) == [
        "sessions/main/s1.jsonl",
        "sessions/s1.jsonl.reset.2026-01-01T00-00-00.000Z",
        "sessions/s2.jsonl",
    ]
    assert len(records_of(reader, "sessions/main/s1.jsonl")) == 13
    assert lines_of(reader, "sessions/s2.jsonl") == [(1, "User: only in a file", "2026-05-02")]
    with pytest.raises(FileMissing):
        reader.open("sessions/s1.jsonl").__enter__()


def test_a_conversation_without_events_in_the_database_is_read_from_its_file(store: OpenClawStore) -> None:
    fill(store)
    (store.sessions / "s1.jsonl").write_bytes(b"not an event\n" + store.export("s1"))
    store.execute("DELETE FROM transcript_events")
    reader = store.reader()
    assert list(reader.scan().stamps) == ["sessions/s1.jsonl"]
    assert [number for number, _, _ in lines_of(reader, "sessions/s1.jsonl")] == [4, 5, 6, 8, 10, 12, 14]
    assert [each.session_key for each in list_conversations(reader)] == ["agent:main:main"]


def test_a_file_of_a_topic_belongs_to_the_session_without_the_topic(store: OpenClawStore) -> None:
    fill(store, key="agent:main:telegram:group:7:topic:7")
    (store.sessions / "s1-topic-7.jsonl").write_bytes(store.export("s1"))
    reader = store.reader()
    listing = reader.scan()
    assert list(listing.stamps) == ["sessions/main/s1.jsonl"]
    assert reader.find("sessions/s1-topic-7.jsonl", listing) == "sessions/main/s1.jsonl"
    store.execute("INSERT INTO memory_session_tombstones VALUES ('s1', 'main', 'forgotten', 1)")
    assert not reader.scan().stamps


def test_what_openclaw_was_told_to_forget_is_nowhere(store: OpenClawStore) -> None:
    fill(store)
    for name in ("s1.jsonl", "s1.jsonl.reset.2026-01-01T00-00-00.000Z", "s9.jsonl"):
        (store.sessions / name).write_bytes(store.export("s1"))
    reader = store.reader()
    assert reader.scan().stamps
    for session in ("s1", "s9"):
        store.execute("INSERT INTO memory_session_tombstones VALUES (?, 'main', 'forgotten', 1)", session)
    with pytest.raises(FileMissing):
        records_of(reader, "sessions/main/s1.jsonl")
    listing = reader.scan()
    assert not listing.stamps
    assert reader.find("s1", listing) is None
    for path in ("sessions/main/s1.jsonl", "sessions/s1.jsonl", "sessions/s9.jsonl"):
        with pytest.raises(FileMissing):
            records_of(reader, path)


@pytest.mark.parametrize(
    "key",
    [
        "agent:main:cron:job1:run:r1",
        "agent:main:dreaming-narrative-light-1",
        "agent:main:internal-session-effects:x",
        "agent:main:dashboard:incognito-1",
        "agent:main:telegram:direct:42:active-memory:0123456789ab",
        "agent:other:main",
    ],
)
def test_what_is_openclaws_own_or_another_agents_is_not_listed(store: OpenClawStore, key: str) -> None:
    fill(store, "s1", key=key)
    store.begin("s2", "agent:main:subagent:x", spawned_by=key)
    store.begin("s3", "agent:main:subagent:y", spawned_by="agent:main:subagent:x")
    store.begin("s4")
    reader = store.reader()
    assert sorted(reader.scan().stamps) == ["sessions/main/s4.jsonl"]
    with pytest.raises(FileMissing):
        records_of(reader, "sessions/main/s1.jsonl")


def test_an_incognito_session_cannot_be_opened(store: OpenClawStore) -> None:
    fill(store, entry={"incognito": True})
    with pytest.raises(FileMissing):
        records_of(store.reader(), "sessions/main/s1.jsonl")


def test_without_zstd_cold_storage_is_told_and_its_conversations_stay_in_an_index(store: OpenClawStore) -> None:
    fill(store)
    store.freeze("s1")
    reader = store.reader(has_zstd=False)
    listing = reader.scan()
    assert not listing.stamps
    assert ["cold storage" in issue.problem for issue in listing.issues] == [True]
    with pytest.raises(FileUnreadable, match="archive of the conversation s1"):
        records_of(reader, "sessions/main/s1.jsonl")


@pytest.mark.parametrize("storage", ["file", "sqlite"])
@pytest.mark.parametrize("has_file", [True, False])
def test_a_conversation_in_cold_storage_is_read_as_before(store: OpenClawStore, storage: str, has_file: bool) -> None:
    fill(store)
    path = "sessions/main/s1.jsonl"
    if has_file:
        (store.sessions / "s1.jsonl").write_bytes(store.export("s1"))
    stamps, lines = store.reader().scan().stamps, lines_of(store.reader(), path)
    store.freeze("s1", storage=storage)
    reader = store.reader()
    listing = reader.scan()
    assert (listing.stamps, listing.issues) == (stamps, ())
    assert lines_of(reader, path) == lines
    with reader.open(path) as opened:
        assert [record.line for record in opened.records(3) if record.is_message] == [line[1] for line in lines[1:]]
        assert opened.seal(5) != opened.seal(6)


@pytest.mark.parametrize("fault", ["gone", "damaged", "another name", "a bomb"])
def test_a_cold_archive_that_cannot_be_read_is_an_error_about_it(store: OpenClawStore, fault: str) -> None:
    fill(store)
    file = store.freeze("s1")
    table = "UPDATE session_transcript_cold_archives SET"
    if fault == "gone":
        file.unlink()
    elif fault == "damaged":
        file.write_bytes(file.read_bytes()[:-5] + b"xxxxx")
    elif fault == "another name":
        store.execute(f"{table} archive_name = '../../secret.zst'")
    else:
        bomb = b"\x28\xb5\x2f\xfd\xa0" + (1 << 30).to_bytes(4, "little")
        bomb += b"".join(((1 << 17) << 3 | 2 | (n == 8191)).to_bytes(4, "little")[:3] + b"x" for n in range(8192))
        file.write_bytes(bomb)
        store.execute(f"{table} archive_sha256 = ?", hashlib.sha256(bomb).hexdigest())
    with pytest.raises(FileUnreadable, match="The archive of the conversation s1 cannot be read"):
        records_of(store.reader(), "sessions/main/s1.jsonl")


def test_tool_calls_and_results_are_messages_only_on_request(store: OpenClawStore) -> None:
    store.begin("s1")
    call = {"type": "toolCall", "id": "t", "name": "exec", "arguments": {"command": "ls"}}
    store.add(
        "s1",
        message("e1", "user", "list it"),
        message("e2", "assistant", [call]),
        message("e3", "toolResult", [{"type": "text", "text": "a.txt\nb.txt"}]),
        message("e4", "assistant", [{"type": "text", "text": "Two files."}, call]),
    )
    (store.sessions / "s2.jsonl").write_bytes(store.export("s1"))
    reader = store.reader()
    reader.scan()
    for path in ("sessions/main/s1.jsonl", "sessions/s2.jsonl"):
        assert [line for _, line, _ in lines_of(reader, path)] == ["User: list it", "Assistant: Two files."]
        with reader.open(path, with_tools=True) as opened:
            assert [record.line for record in opened.records() if record.is_message] == [
                "User: list it",
                'Assistant: [call of exec: {"command": "ls"}]',
                "Tool: a.txt b.txt",
                'Assistant: Two files. [call of exec: {"command": "ls"}]',
            ]


def test_an_archive_of_a_deleted_session_is_never_read(store: OpenClawStore) -> None:
    name = "s1.jsonl.deleted.2026-05-02T08-00-00.000Z.0123456789abcdef"
    (store.sessions / name).write_text(json.dumps(message("e1", "user", "gone")) + "\n")
    (store.sessions / f"{name}.zst").write_bytes(b"x")
    reader = store.reader()
    assert not reader.scan().stamps
    assert not reader.owns(f"sessions/{name}")
    assert reader.find("s1", reader.scan()) is None


@pytest.mark.parametrize(
    ("version", "is_read", "issues"), [(19, False, 1), (20, True, 0), (23, True, 0), (24, True, 1)]
)
def test_a_newer_schema_is_told_and_an_older_one_is_not_read(
    tmp_path: Path, version: int, is_read: bool, issues: int
) -> None:
    store = OpenClawStore(tmp_path / "state", version=version)
    fill(store)
    (store.sessions / "s2.jsonl").write_text(json.dumps(message("f1", "user", "a file")) + "\n")
    listing = store.reader().scan()
    assert sorted(listing.stamps) == (["sessions/main/s1.jsonl"] if is_read else []) + ["sessions/s2.jsonl"]
    assert len(listing.issues) == issues
    assert not listing.lost


def test_a_schema_without_optional_tables_is_read(store: OpenClawStore) -> None:
    fill(store)
    store.execute("DROP TABLE session_transcript_cold_archives")
    store.execute("DROP TABLE memory_session_tombstones")
    assert len(records_of(store.reader(), "sessions/main/s1.jsonl")) == 13


@pytest.mark.parametrize("damage", ["text", "columns", "link"])
def test_a_database_that_cannot_be_read_is_told_and_nothing_leaves_the_index(store: OpenClawStore, damage: str) -> None:
    fill(store)
    (store.sessions / "s2.jsonl").write_text(json.dumps(message("f1", "user", "a file")) + "\n")
    if damage == "text":
        for each in store.file.parent.iterdir():
            each.unlink()
        store.file.write_bytes(b"no database" * 1000)
    elif damage == "columns":
        store.execute("ALTER TABLE session_windows RENAME COLUMN chat_type TO kind")
    else:
        store.file.rename(store.file.with_suffix(".moved"))
        store.file.symlink_to(store.file.with_suffix(".moved"))
    reader = store.reader()
    listing = reader.scan()
    assert listing.lost == ("sessions",)
    assert str(store.file) in [issue.path for issue in listing.issues]
    # A file of a session that was forgotten must not come back because the database cannot say so.
    assert not listing.stamps
    with pytest.raises(ReadError):
        records_of(reader, "sessions/main/s1.jsonl")


def test_stamp_and_seal_tell_growth_from_a_rewritten_history(store: OpenClawStore) -> None:
    fill(store)
    reader = store.reader()

    def look(end: int) -> tuple[Any, bytes]:
        with reader.open("sessions/main/s1.jsonl") as opened:
            assert opened.stamp == reader.scan().stamps["sessions/main/s1.jsonl"]
            return opened.stamp, opened.seal(end)

    first = look(13)
    store.add("s1", message("e12", "user", "more"))
    grown = look(13)
    assert grown[0][0] > first[0][0]
    assert grown[0][3] == first[0][3]
    assert grown[1:] == first[1:]
    store.execute("UPDATE transcript_rewrite_watermarks SET generation = 'another'")
    rewritten = look(13)
    assert rewritten[0][3] != first[0][3]
    assert rewritten[1] != first[1]


def test_a_history_that_is_rewritten_while_it_is_read_is_not_mixed(store: OpenClawStore) -> None:
    store.begin("s1")
    store.add("s1", *(message(f"e{number}", "user", f"number {number}") for number in range(1200)))
    with store.reader().open("sessions/main/s1.jsonl") as opened:
        records = opened.records()
        next(records)
        store.execute("UPDATE transcript_rewrite_watermarks SET generation = 'another'")
        with pytest.raises(FileUnreadable, match="rewritten"):
            list(records)


def digest_of(folder: Path) -> dict[str, str]:
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}


def read_everything(reader: OpenClawTranscripts) -> Listing:
    listing = reader.scan()
    for path in listing.stamps:
        records_of(reader, path)
    list_conversations(reader)
    return listing


@pytest.mark.parametrize("has_empty_log", [False, True])
def test_reading_leaves_no_trace_where_nobody_writes(store: OpenClawStore, has_empty_log: bool) -> None:
    fill(store)
    if has_empty_log:
        store.file.with_name(f"{store.file.name}-wal").touch()
        store.file.with_name(f"{store.file.name}-shm").write_bytes(b"")
    before = digest_of(store.file.parent)
    assert read_everything(store.reader()).stamps
    if not has_empty_log:
        assert digest_of(store.file.parent) == before
    assert {name: each for name, each in digest_of(store.file.parent).items() if not name.endswith("-shm")} == {
        name: each for name, each in before.items() if not name.endswith("-shm")
    }


def test_what_a_running_gateway_has_not_moved_out_of_its_log_is_read_and_stays_there(store: OpenClawStore) -> None:
    with store.connect() as keeps_the_log_open:
        keeps_the_log_open.execute("SELECT 1 FROM session_nodes").fetchall()
        fill(store)
        before = {name: each for name, each in digest_of(store.file.parent).items() if not name.endswith("-shm")}
        assert f"{store.file.name}-wal" in before
        assert len(records_of(store.reader(), "sessions/main/s1.jsonl")) == 13
        assert read_everything(store.reader()).stamps
        after = {name: each for name, each in digest_of(store.file.parent).items() if not name.endswith("-shm")}
    assert after == before


_WRITER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import apsw
from tests.sessions.openclaw_store import OpenClawStore, message
store = OpenClawStore.__new__(OpenClawStore)
store.file = Path(sys.argv[1])
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(5000)
connection.execute("PRAGMA wal_autocheckpoint = 20")
number = 0
while not Path(sys.argv[1] + ".stop").exists():
    with connection:
        texts = [f"part {part} of {number} " + "x" * 600 * part for part in range(3)]
        store.append(connection, "s1", [message(f"w{number}-{text[:6]}", "user", text) for text in texts])
    number += 1
connection.close()
print(number)
"""


def test_a_process_that_writes_all_the_time_neither_disturbs_nor_is_disturbed(store: OpenClawStore) -> None:
    fill(store)
    command = [sys.executable, "-c", _WRITER, str(store.file), str(Path(__file__).parents[2])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        try:
            rows, reads = 0, 0
            while rows < 300 and writer.poll() is None:
                assert not store.reader(has_zstd=reads % 2 == 0).scan().issues
                with store.reader(has_zstd=reads % 2 == 0).open("sessions/main/s1.jsonl") as opened:
                    found = list(opened.records())
                    assert not any(record.problem for record in found)
                    assert [record.number for record in found] == list(range(1, len(found) + 1))
                    # A transaction is seen as a whole or not at all.
                    assert (len(found) - 13) % 3 == 0
                    assert len(found) >= rows
                rows, reads = len(found), reads + 1
        finally:
            Path(f"{store.file}.stop").touch()
            out, problems = writer.communicate(timeout=60)
    assert not problems
    assert int(out) * 3 + 13 >= rows >= 300


def test_an_agent_with_the_name_of_a_coding_agent_has_paths_of_its_own(tmp_path: Path) -> None:
    store = OpenClawStore(tmp_path / "state", "codex")
    fill(store, key="agent:codex:main")
    reader = store.reader()
    assert list(reader.scan().stamps) == ["sessions/s1.jsonl"]
    assert len(records_of(reader, "sessions/s1.jsonl")) == 13
    os.unlink(store.file)
    (store.sessions / "s1.jsonl").write_text(json.dumps(message("f1", "user", "a file")) + "\n")
    assert lines_of(store.reader(), "sessions/s1.jsonl") == [(1, "User: a file", "2026-05-02")]
