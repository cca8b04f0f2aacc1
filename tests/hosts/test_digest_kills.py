"""Digests are killed at any moment, in the middle of a write too; nothing is lost, nothing comes twice."""

import json
import re
from pathlib import Path

import pytest

from mdrecall.hosts.digest import finish_digests
from tests.conftest import Workspace
from tests.hosts.conversation import DAY, DONE, NOW, settings_of
from tests.processes import python

# Forks a child for each kill. The child counts the lines of code that it runs where files are read and written, and
# kills itself at one of them. Every fourth one kills itself after it has written a part of a section to the note.
_KILLS = """
import json, os, random, signal, sys
from pathlib import Path
from mdrecall.config.load import load
from mdrecall.hosts.digest import digest_session, finish_digests
import mdrecall.text.redact, mdrecall.notes.opening, mdrecall.sessions.hosts
from tests.hosts.conversation import NOW, Conversation

base, workspace, wanted, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
settings = load(env=json.loads(sys.argv[5]), workspace=workspace, cwd=workspace).settings
chance = random.Random(seed)
PLACES = ("/hosts/", "/notes/notes", "/notes/editing", "/state_files", "/locks")
real_write = os.write

class Counter:
    def __init__(self, limit):
        self.lines, self.limit = 0, limit
    def trace(self, frame, event, argument):
        if not any(place in frame.f_code.co_filename for place in PLACES) or "tests" in frame.f_code.co_filename:
            return None
        self.lines += event == "line"
        if self.lines == self.limit:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.trace

def work(talk):
    if chance.random() < 0.7:
        digest_session(talk.event(chance.choice(["stop", "before-compaction"])), settings, NOW)
    else:
        finish_digests(settings, NOW)

def break_off(file, data):
    if b"## Session" in data:
        real_write(file, data[: chance.randrange(len(data))])
        os.kill(os.getpid(), signal.SIGKILL)
    return real_write(file, data)

def run(talk, limit):
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    if limit is None:
        os.write = break_off
    else:
        sys.settrace(Counter(limit).trace)
    work(talk)
    os._exit(0)

talks = [Conversation(base, name) for name in ("aaa", "bbb")]
for talk in talks:
    digest_session(talk.event("stop"), settings, NOW)
talks[0].turn("The button 0 of aaa should be red.")
counter = Counter(-1)
sys.settrace(counter.trace)
digest_session(talks[0].event("before-compaction"), settings, NOW)
sys.settrace(None)
asked, kills, moments = ["The button 0 of aaa should be red."], 0, set()
while kills < wanted:
    talk = chance.choice(talks)
    if chance.random() < 0.6:
        asked.append(f"The button {len(asked)} of {talk.session} should be red.")
        talk.turn(asked[-1])
        if len(asked) % 5 == 0:
            # A section names six wishes at most.
            finish_digests(settings, NOW)
    limit = chance.randrange(1, counter.lines + 1) if chance.random() < 0.75 else None
    if run(talk, limit):
        kills += 1
        moments.add(limit)
print(json.dumps({"asked": asked, "moments": len(moments), "records": [talk.lines for talk in talks]}))
"""


@pytest.mark.parametrize("kills", [15, pytest.param(200, marks=pytest.mark.soak)])
def test_kills_lose_nothing_and_double_nothing(workspace: Workspace, tmp_path: Path, kills: int) -> None:
    settings = settings_of(workspace)
    workspace.write(f"memory/{DAY}.md", "# Tuesday\n\nown words\n")
    process = python(_KILLS, str(tmp_path), str(workspace.path), str(kills), "7", json.dumps(workspace.env))
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    found = json.loads(said)
    assert found["moments"] > kills // 4
    finish_digests(settings, NOW)
    note = (workspace.path / "memory" / f"{DAY}.md").read_text()
    assert note.startswith("# Tuesday\n\nown words\n\n## Session")
    for wish in found["asked"]:
        assert note.count(wish) == 1
    mark = r"<!-- mdrecall:digest \S+ \S+ \S+ lines=\d+-\d+ -->"
    wish = r"The button \d+ of (?:aaa|bbb) should be red\."
    for section in note.split("\n## Session ")[1:]:
        assert re.fullmatch(
            rf"09:00 shop: {wish}\n- Outcome: {DONE}\n(?:- Wanted: {wish}\n)*{mark}", section.strip()
        ), section
    for session, records in zip(("aaa", "bbb"), found["records"], strict=True):
        parts = [(int(a), int(b)) for a, b in re.findall(rf"session={session} \S+ lines=(\d+)-(\d+) -->", note)]
        assert [number for a, b in parts for number in range(a, b + 1)] == list(range(1, records + 1))
