"""Question sets for ``benchmarks.quality``: reading them, laying them out as workspaces, and questions from elsewhere.

A set is a folder with ``corpus.jsonl`` {id, title?, text, scope?}, ``queries.jsonl`` {id, text, scope?, answer?} and
``qrels.tsv`` (query, id, score). With a ``workspace/`` and ``linemap.jsonl`` {id, file, line_start, line_end} it can be
scored by line spans; ``evidence_lines.jsonl`` {query, file, line} names the lines of a long note that answer a
question. ``scope`` keeps a question inside its own conversation, which is a workspace of its own. Files
``queries_*.jsonl`` hold questions that the set cannot answer. ``meta.json`` names the language of the questions.
"""

import json
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

#: The sets and how each is asked. The first kind of a set also gets questions that cannot be answered.
RUNS = (
    ("locomo", "spans"),
    ("locomo", "documents"),
    ("openclaw-notes", "spans"),
    ("qmd-eval", "spans"),
    ("qmd-eval", "documents"),
    ("scifact", "documents"),
    ("cmrc2018-zh", "documents"),
    ("jsquad-ja", "documents"),
    ("longmemeval-mini", "spans"),
    ("madial-en", "documents"),
    ("madial-en", "spans"),
    ("madial-zh", "documents"),
    ("madial-zh", "spans"),
    ("xquad-en2zh", "documents"),
)
# Questions of the first set may be answered by the second: both are about software companies, about medicine, or the
# second holds chats about anything.
_RELATED = {
    ("qmd-eval", "openclaw-notes"),
    ("openclaw-notes", "qmd-eval"),
    ("qmd-eval", "longmemeval-mini"),
    ("xquad-en2zh", "longmemeval-mini"),
    ("xquad-en2zh", "scifact"),
}
# Where sentences end, so that a document that is one long line can be shown in part.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


class Questions(NamedTuple):
    """A question set: the queries, their relevant ids, the lines of each id, and queries without an answer."""

    queries: dict[str, dict[str, Any]]
    relevant: dict[str, dict[str, int]]
    lines: dict[str, tuple[str, int, int]]
    unanswerable: dict[str, dict[str, Any]]


class Evidence(NamedTuple):
    """The text that answers a question, in one file; one of the lines is enough."""

    file: str
    lines: tuple[str, ...]


def load(folder: Path) -> Questions:
    queries = {entry["id"]: entry for entry in json_lines(folder / "queries.jsonl")}
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        relevant[query][document] = int(grade)
    line_file = folder / "linemap.jsonl"
    lines = json_lines(line_file) if line_file.exists() else []
    return Questions(
        queries,
        dict(relevant),
        {entry["id"]: (entry["file"], entry["line_start"], entry["line_end"]) for entry in lines},
        {entry["id"]: entry for path in sorted(folder.glob("queries_*.jsonl")) for entry in json_lines(path)},
    )


def scopes_of(folder: Path) -> list[str]:
    """Return the conversations of a set, each a workspace of its own; one empty name if it has none."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    if not meta.get("scoped", False):
        return [""]
    return sorted({entry["scope"] for entry in json_lines(folder / "corpus.jsonl")})


def lay_out(folder: Path, kind: str, scope: str, workspace: Path) -> None:
    """Write the workspace of one scope; the set itself is only read."""
    if kind == "spans":
        shutil.copytree(folder / "workspace" / scope, workspace)
        return
    for entry in json_lines(folder / "corpus.jsonl"):
        if entry.get("scope", "") == scope:
            note = workspace / note_path(entry["id"])
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(note_text(entry), encoding="utf-8")


def note_path(document: str) -> str:
    return f"memory/{file_name(document)}.md"


def note_text(entry: dict[str, Any]) -> str:
    title = f"# {entry['title']}\n\n" if entry.get("title") else ""
    return f"{title}{entry['text']}\n"


def file_name(document: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in document)


def find_evidence(folder: Path, kind: str, scope: str, workspace: Path, questions: Questions) -> dict[str, Any]:
    """Return the evidence of every question of a scope, by question."""
    own = {query: ids for query, ids in questions.relevant.items() if in_scope(questions.queries[query], scope)}
    if kind == "documents":
        return {query: list(_document_evidence(workspace, questions.queries[query], ids)) for query, ids in own.items()}
    exact = _exact_lines(folder)
    files: dict[str, list[str]] = {}
    found: dict[str, list[Evidence]] = {}
    for query, ids in own.items():
        places = exact.get(query) or [questions.lines[document] for document in ids]
        found[query] = [_read_lines(workspace, scope, place, files) for place in places]
    return found


def in_scope(query: dict[str, Any], scope: str) -> bool:
    return query.get("scope", "") == scope if scope else True


def _document_evidence(workspace: Path, query: dict[str, Any], ids: dict[str, int]) -> Iterator[Evidence]:
    """Yield the answer as the evidence of a note that holds it literally, and otherwise the note's sentences."""
    answer = query.get("answer")
    for document in ids:
        text = (workspace / note_path(document)).read_text(encoding="utf-8")
        literal = isinstance(answer, str) and answer and answer in text
        lines = [str(answer)] if literal else [part for line in text.splitlines() for part in _SENTENCE_END.split(line)]
        yield Evidence(note_path(document), tuple(lines))


def _exact_lines(folder: Path) -> dict[str, list[tuple[str, int, int]]]:
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    path = folder / "evidence_lines.jsonl"
    for entry in json_lines(path) if path.exists() else ():
        found[entry["query"]].append((entry["file"], entry["line"], entry["line"]))
    return found


def _read_lines(workspace: Path, scope: str, place: tuple[str, int, int], files: dict[str, list[str]]) -> Evidence:
    file, start, end = place
    file = file.removeprefix(f"{scope}/") if scope else file
    if file not in files:
        files[file] = (workspace / file).read_text(encoding="utf-8").split("\n")
    return Evidence(file, tuple(files[file][start - 1 : end]))


def foreign_questions(root: Path, name: str, scope: str, count: int) -> dict[str, str]:
    """Return questions in the same language whose answers this memory cannot hold, as many from each source."""
    language = _language(root / name)
    pools = []
    for other in dict.fromkeys(other for other, _ in RUNS):
        folder = root / other
        if folder.is_dir() and _language(folder) == language and (other, name) not in _RELATED:
            pools.append(_pool(folder, scope if other == name else None))
    draw = random.Random(f"{name}:{scope}")
    # One from each source in turn, so that a smaller number is the beginning of a larger one.
    turns = zip_longest(*(draw.sample(pool, len(pool)) for pool in pools))
    return dict(islice((entry for turn in turns for entry in turn if entry), count))


def _pool(folder: Path, own_scope: str | None) -> list[tuple[str, str]]:
    """Return the questions of a set with their ids; of the set itself only those of other conversations."""
    questions = load(folder)
    return [
        (f"{folder.name}/{query}", questions.queries[query]["text"])
        for query in sorted(questions.relevant)
        if own_scope is None or (own_scope and questions.queries[query].get("scope") != own_scope)
    ]


def _language(folder: Path) -> str:
    return str(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["language"])[:2]


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
