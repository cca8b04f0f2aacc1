"""The real OpenClaw holds conversations; mdrecall reads its database beside it, and as its own exports say."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from mdrecall.memory import Memory
from mdrecall.sessions.foreign_database import read_snapshot
from mdrecall.sessions.openclaw import OpenClawTranscripts
from mdrecall.sessions.openclaw_database import OpenClawDatabase, find_decompressor
from mdrecall.sessions.readers import list_conversations
from mdrecall.types.transcripts import TranscriptRecord
from tests.hosts.model import Model
from tests.openclaw.program import Gateway, OpenClaw

pytestmark = pytest.mark.openclaw

#: How long a gateway writes and mdrecall reads at the same time.
BESIDE_S = float(os.environ.get("MDRECALL_BESIDE_S", "60"))
LONG = "A long message about the lighthouse: " + " ".join(f"word{number}" for number in range(600))
DIRECT, GROUP = "agent:main:telegram:direct:42", "agent:main:telegram:group:7"
REWOUND, DELETED, FORGOTTEN, COMPACTED = (
    f"agent:main:explicit:{name}" for name in ("rewound", "deleted", "forgotten", "compacted")
)

#: How a gateway says that it could not use its database; it also tells of every wait of a tenth of a second.
_PROBLEMS = ("sqlite_", "database is locked", "database disk image", "malformed")

Line = tuple[int, str, str]


def open_reader(openclaw: OpenClaw, *, has_zstd: bool = True) -> OpenClawTranscripts:
    database = OpenClawDatabase(
        str(openclaw.database), find_decompressor=find_decompressor if has_zstd else lambda: None
    )
    return OpenClawTranscripts(str(openclaw.folder / "sessions"), database, "main")


def records_of(reader: OpenClawTranscripts, path: str) -> list[TranscriptRecord]:
    with reader.open(path) as opened:
        return list(opened.records())


def lines_of(reader: OpenClawTranscripts, but: Collection[str] = ()) -> dict[str, list[Line]]:
    """Return the lines of every conversation by its session id, except for those with some session keys."""
    found: dict[str, list[Line]] = {}
    for each in list_conversations(reader):
        if each.session_key in but:
            continue
        records = records_of(reader, each.path)
        assert not any(record.problem for record in records)
        found[each.session] = [(record.number, record.line, record.day) for record in records if record.is_message]
    return found


def sessions_of(openclaw: OpenClaw, key: str) -> list[str]:
    """Return the ids of all conversations of a session key, the current one last."""
    found = [each for each in list_conversations(open_reader(openclaw)) if each.session_key == key]
    return [each.session for each in sorted(found, key=lambda each: not each.archived)]


def hash_files(openclaw: OpenClaw) -> dict[str, str]:
    """Return the hash of every file of the database, except of the one that readers lock each other with."""
    files = [each for each in openclaw.database.parent.iterdir() if not each.name.endswith("-shm")]
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


@pytest.fixture(scope="module")
def held(openclaw: OpenClaw) -> OpenClaw:
    """Conversations of every kind, held through a gateway that has ended."""
    with openclaw.gateway() as gateway:
        gateway.say("agent:main:main", "The bike is green and stands at the shed")
        gateway.say("agent:main:main", LONG)
        gateway.say(GROUP, "Group plan: meet at nine")
        gateway.say(DIRECT, 'Der Käse heißt "Gruyère" – 深色模式 \U0001f9ad')
        assert gateway.call("sessions.reset", key=DIRECT, reason="new")["ok"]
        gateway.say(DIRECT, "After the reset the boat is blue")
        gateway.say(COMPACTED, LONG)
        gateway.say(COMPACTED, "Before the compaction the kite is grey")
        assert gateway.call("sessions.compact", key=COMPACTED)["compacted"]
        gateway.say(COMPACTED, "After the compaction the kite is red")
        _rewind(gateway, openclaw)
        gateway.say(FORGOTTEN, "The ferret must be forgotten")
        gateway.say(DELETED, "The tulip must be deleted")
        assert gateway.call("sessions.delete", key=DELETED)["deleted"]
    return openclaw


def _rewind(gateway: Gateway, openclaw: OpenClaw) -> None:
    for number in range(3):
        gateway.say(REWOUND, f"Turn {number}: {LONG if number == 2 else ''}")
    (session,) = sessions_of(openclaw, REWOUND)
    query = "SELECT json_extract(event_json, '$.id') FROM transcript_events WHERE event_json LIKE '%Turn 1%'"
    entry = read_snapshot(str(openclaw.database), lambda connection: connection.execute(query).get)
    assert gateway.call("sessions.rewind", sessionKey=REWOUND, entryId=entry)["editorText"].startswith("Turn 1")
    gateway.say(REWOUND, "Another turn 1")
    assert session in sessions_of(openclaw, REWOUND)


def test_every_conversation_is_listed_with_its_key_and_its_lines(held: OpenClaw) -> None:
    reader = open_reader(held)
    listing = reader.scan()
    assert not listing.issues
    found = {each.session: each.session_key for each in list_conversations(reader)}
    assert set(found.values()) == {"agent:main:main", DIRECT, GROUP, REWOUND, FORGOTTEN, COMPACTED}
    assert set(listing.stamps) == {f"sessions/main/{session}.jsonl" for session in found}
    texts = {line for lines in lines_of(reader).values() for _, line, _ in lines}
    assert f"User: {LONG}" in texts
    assert {
        'User: Der Käse heißt "Gruyère" – 深色模式 \U0001f9ad',
        "User: Another turn 1",
        "User: Before the compaction the kite is grey",
        "User: After the compaction the kite is red",
        "Assistant: Noted, thanks.",
    } <= texts
    assert not any("tulip" in text for text in texts)


def test_without_zstd_the_same_lines_are_read(held: OpenClaw) -> None:
    assert lines_of(open_reader(held, has_zstd=False)) == lines_of(open_reader(held))


def test_reading_changes_no_byte_and_leaves_no_file(held: OpenClaw) -> None:
    before = hash_files(held), sorted(os.listdir(held.database.parent))
    for has_zstd in (True, False):
        lines_of(open_reader(held, has_zstd=has_zstd))
    assert (hash_files(held), sorted(os.listdir(held.database.parent))) == before


def test_a_search_finds_what_was_said_and_cites_its_line(held: OpenClaw) -> None:
    env = {"HOME": held.env["HOME"], "OPENCLAW_STATE_DIR": str(held.state), "PATH": os.environ["PATH"]}
    search = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    index = str(held.state.with_name("index.sqlite"))
    (session,) = sessions_of(held, "agent:main:main")
    with Memory.open(env=env, overrides={**search, "store": {"path": index}}) as memory:
        memory.sync()
        found = memory.search("green bike shed")[0]
        assert found.path == f"sessions/main/{session}.jsonl"
        read = memory.read_session(found.path, from_line=found.match_start_line, lines=1)
        assert "The bike is green" in read.text
        assert memory.search("lighthouse word599")
        assert not memory.search("tulip deleted")


def test_what_openclaw_forgets_is_not_read(held: OpenClaw) -> None:
    (session,) = sessions_of(held, FORGOTTEN)
    done = held.run("memory", "forget", "--agent", "main", "--session", session, "--json")
    assert done.code == 0, done
    reader = open_reader(held)
    assert session not in lines_of(reader)
    assert reader.find(session, reader.scan()) is None


def test_a_gateway_that_writes_and_a_reader_do_not_disturb_each_other(held: OpenClaw) -> None:
    said: list[str] = []
    stop = threading.Event()
    with held.gateway() as gateway:
        begin = gateway.log.stat().st_size
        writers = [threading.Thread(target=_keep_talking, args=(gateway, key, said, stop)) for key in (DIRECT, GROUP)]
        for writer in writers:
            writer.start()
        reads = 0
        try:
            end = time.monotonic() + BESIDE_S
            while time.monotonic() < end:
                known = len(said)
                reader = open_reader(held, has_zstd=reads % 2 == 0)
                assert not reader.scan().issues
                texts = {line for lines in lines_of(reader).values() for _, line, _ in lines}
                assert {f"User: {text}" for text in said[:known]} <= texts
                reads += 1
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        log = gateway.log.read_bytes()[begin:].decode().lower()
    print(f"{reads} readings of everything beside {len(said)} turns")
    assert reads
    assert said
    assert not [word for word in _PROBLEMS if word in log], log


def _keep_talking(gateway: Gateway, key: str, said: list[str], stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        text = f"Number {number} in {key} beside the reader" + (f" {LONG}" if number % 3 == 0 else "")
        gateway.say(key, text)
        said.append(text)
        number += 1


def test_the_lines_are_those_of_openclaws_own_export_and_import(held: OpenClaw, model: Model, tmp_path: Path) -> None:
    reader = open_reader(held)
    keys = {each.session: each.session_key for each in list_conversations(reader)}
    before = {session: lines for session, lines in lines_of(reader).items() if keys[session] != "agent:main:main"}
    with held.gateway() as gateway:
        for key in {keys[session] for session in before}:
            assert gateway.call("sessions.delete", key=key)["deleted"]
    other = OpenClaw(tmp_path / "state", model.url)
    _write_jsonl(held, other, {session: keys[session] for session in before})
    files = OpenClawTranscripts(str(other.folder / "sessions"))
    assert lines_of(files) == before
    done = other.run("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents", "--json")
    assert done.code == 0, done
    imported = open_reader(other)
    assert set(imported.scan().stamps) == {f"sessions/main/{session}.jsonl" for session in before}
    assert lines_of(imported) == before
    # On a branch that was left, long messages can only be decompressed; the sessions of the rewound key have two now.
    rest = {session: lines for session, lines in before.items() if keys[session] != REWOUND}
    assert lines_of(open_reader(other, has_zstd=False), but=(REWOUND, f"{REWOUND}-before")) == rest


def _write_jsonl(source: OpenClaw, target: OpenClaw, keys: dict[str, str]) -> None:
    """Write what OpenClaw has archived of deleted sessions as the transcripts of an older OpenClaw."""
    decompress = find_decompressor()
    assert decompress
    folder = target.folder / "sessions"
    folder.mkdir(parents=True)
    entries: dict[str, dict[str, object]] = {}
    for session, key in keys.items():
        (archive,) = (source.folder / "sessions").glob(f"{session}.jsonl.deleted.*")
        data = archive.read_bytes()
        content = decompress(data, 1 << 26) if archive.suffix == ".zst" else data
        assert content
        (folder / f"{session}.jsonl").write_bytes(content)
        # Only what a key names is imported, and a rewound key has had two sessions.
        key = key if key not in entries else f"{key}-before"
        entries[key] = {"sessionId": session, "updatedAt": 1_790_000_000_000}
    (folder / "sessions.json").write_text(json.dumps(entries))
