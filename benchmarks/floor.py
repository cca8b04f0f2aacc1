"""The floor that mdrecall is measured against: plain FTS5, no more than it takes to index and search a folder
in chunks of the same size and overlap.

``python -m benchmarks.floor index DIR DB`` and ``python -m benchmarks.floor search DB QUERY``.
"""

import os
import re
import sys

import apsw

LIMIT, OVERLAP = 1600, 320


def index(folder: str, database: str) -> None:
    db = apsw.Connection(database)
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL")
    db.execute("CREATE VIRTUAL TABLE chunks USING fts5(text, path UNINDEXED, line UNINDEXED)")
    with db:
        for parent, _, names in os.walk(folder):
            for name in names:
                if name.endswith(".md"):
                    path = os.path.join(parent, name)
                    with open(path, encoding="utf-8") as file:
                        rows = chunk(file.read())
                    db.executemany("INSERT INTO chunks VALUES(?, ?, ?)", ((text, path, line) for line, text in rows))
    db.close()


def chunk(text: str) -> list[tuple[int, str]]:
    chunks: list[tuple[int, str]] = []
    held: list[str] = []
    start, size = 1, 0
    for number, line in enumerate(text.split("\n"), start=1):
        if held and size + len(line) + 1 > LIMIT:
            chunks.append((start, "\n".join(held)))
            size = 0
            for kept in range(len(held)):
                size += len(held[-kept - 1]) + 1
                if size >= OVERLAP:
                    break
            held, start = held[-kept - 1 :], number - kept - 1
        held.append(line)
        size += len(line) + 1
    chunks.append((start, "\n".join(held)))
    return chunks


def search(db: apsw.Connection, query: str, limit: int = 6) -> list[tuple[str, int, str]]:
    expression = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
    found = db.execute(
        "SELECT path, line, text FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?", (expression, limit)
    )
    return [(str(path), int(str(line)), str(text)) for path, line, text in found]


if __name__ == "__main__":
    if sys.argv[1] == "index":
        index(sys.argv[2], sys.argv[3])
    else:
        for path, line, _ in search(apsw.Connection(sys.argv[2]), sys.argv[3]):
            print(f"{path}:{line}")
