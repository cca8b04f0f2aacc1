"""What a person said in one project comes back there eight days later, and nowhere else, with the real programs."""

import json
import os
import re
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import HOSTS
from tests.hosts.test_scenario import ask
from tests.processes import marked, until

AGE = timedelta(days=8)
WISH = "From now on, always run the linter before you commit."
FACT = "The staging database listens on port 6544."
QUESTION = "Which port does the staging database listen on?"
OTHER_WISH = "From now on, always greet the astronomers in Klingon."
OTHER_FACT = "The staging database of the telescope listens on port 7391, and Vega watches it."
#: Words that only the other project has: its folder, and what was said in it.
OTHERS = ("observatory", "astronomers", "Klingon", "telescope", "7391", "Vega", "Aldebaran")
#: Where hosts and mdrecall keep what they write in a home, apart from what is installed.
KEPT = (".claude/projects", ".codex", ".copilot", ".gemini", ".qwen", "mdrecall", ".local/state/mdrecall")
_DAY = re.compile(r"(?<!\d)20\d\d([-/])(?:0\d|1[0-2])\1(?:[01]\d|2[0-8])(?!\d)")


def parse_day(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def make_repository(folder: Path) -> Path:
    """A repository with one commit."""
    folder.mkdir()
    who = ["-c", "user.name=ana", "-c", "user.email=ana@example.org"]
    for command in (["init", "-q", "-b", "main"], [*who, "commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def make_older(home: Path, age: timedelta) -> None:
    """Move all that was written in a home into the past: the times of files, and the days in their texts and names."""

    def move(found: re.Match[str]) -> str:
        day = parse_day(found[0].replace("/", "-"))
        is_recent = abs(datetime.now(UTC) - day) < timedelta(days=3)
        return f"{day - age:%Y-%m-%d}".replace("-", found[1]) if is_recent else found[0]

    for path in [path for name in KEPT for path in (home / name).rglob("*") if path.is_file()]:
        old = path.stat().st_mtime - age.total_seconds()
        if path.suffix in (".md", ".json", ".jsonl"):
            path.write_text(_DAY.sub(move, path.read_text()))
        name = Path(home / _DAY.sub(move, str(path.relative_to(home))))
        name.parent.mkdir(parents=True, exist_ok=True)
        path.rename(name)
        os.utime(name, (old, old))
    for path in (home / ".local/share/opencode").glob("*.db"):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE message SET time_created = time_created - ?", (age / timedelta(milliseconds=1),))


@pytest.mark.parametrize("name", HOSTS)
def test_a_wish_and_a_fact_of_a_project_come_back_there_and_nothing_of_another(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host = real_host(name)
    shop, other = make_repository(tmp_path / "shop"), make_repository(tmp_path / "observatory")
    assert host.mdrecall("install", name, cwd=shop).code == 0
    if name == "codex":
        host.approve_hooks(shop)

    model.teach("linter before you commit", say="I will.")
    model.teach("Klingon", say="Qapla', by Aldebaran.")
    for prompt, folder in ((WISH, shop), (FACT, shop), (f"{OTHER_WISH} {OTHER_FACT}", other)):
        ask(host, prompt, folder)
    assert until(lambda: not marked(host.mark)), "The last digest is written."
    assert not model.requests_with('kind "wish"'), "Nobody is there to see what the model is asked."
    make_older(host.home, AGE)
    # The index does not expect that a message gets another time.
    assert host.mdrecall("index", "--force", cwd=shop).code == 0

    worktree = tmp_path / "hotfix"
    subprocess.run(["git", "worktree", "add", "-q", str(worktree)], cwd=shop, check=True)
    (worktree / "src").mkdir()
    for folder in (shop, worktree / "src"):
        before = len(model.requests)
        ask(host, QUESTION, folder)
        asked = model.requests[before:]
        first = next(request for request in asked if QUESTION in request.text)
        [day] = re.findall(rf"- (\d{{4}}-\d\d-\d\d): (?:User: )?{FACT}", first.text)
        assert abs(datetime.now(UTC) - AGE - parse_day(day)) < timedelta(days=2)
        assert WISH in first.text
        leaks = [word for request in asked for word in OTHERS if word in json.dumps(request.body)]
        assert leaks == []
    before = len(model.requests)
    ask(host, QUESTION, other)
    leaks = [word for request in model.requests[before:] for word in (WISH, FACT, "6544") if word in request.text]
    assert leaks == []
