"""The measure of what reaches the agent, with a conversation that was made for the test."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall import main

SAID = {
    "D1:1": ("2026-01-05T09:00", "Ana: My sister Ines moved to Lisbon in April and opened a small bakery there."),
    "D1:2": ("2026-01-05T09:00", "Ben: That sounds wonderful, congratulations to her."),
    "D2:1": ("2026-01-09T09:00", "Ana: The car needs new tyres before the winter holidays start."),
    "D2:2": ("2026-01-09T09:00", "Ben: I know a garage near the station that is not expensive."),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    entries = [
        {"id": name, "text": text, "scope": "talk", "date": at, "session": name.split(":")[0]}
        for name, (at, text) in SAID.items()
    ]
    questions = [{"id": "q1", "text": "When did Ines move to Lisbon to open a bakery?", "scope": "talk"}]
    steps = [["user", "2026-01-12 15:08:38Z", "Rename the files in docs."], ["assistant", None, "Done."]]
    files: dict[str, list[Any]] = {
        "locomo/corpus.jsonl": entries,
        "locomo/queries.jsonl": questions,
        "coding-sessions/sessions.jsonl": [{"session": "a1b2", "steps": steps}],
    }
    for name, rows in files.items():
        path = tmp_path / "eval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "eval" / "locomo" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tD1:1\t1\n")
    return tmp_path / "eval"


@pytest.mark.parametrize(("is_on", "share"), [(True, "1.000"), (False, "0.000")])
def test_evidence_reaches_the_agent_only_if_recall_is_on(
    folder: Path, capsys: pytest.CaptureFixture[str], is_on: bool, share: str
) -> None:
    settings = json.dumps({"mdrecall": {"hosts": {"prompt": is_on}}})
    assert main(["--eval", str(folder), "--settings", settings]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "LoCoMo, 1 questions, 7 days later" in printed
    assert f"| by itself, beside the prompt | {share} |" in printed
    assert "| search 6 | 1.000 |" in printed
    assert "Coding sessions: 1, 1 prompts" in printed
