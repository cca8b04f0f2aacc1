"""The store of LangGraph: what it promises, that every JSON value fits into a note, and that notes are items."""

import asyncio
import json
import math
import os
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mdrecall.adapters.item_files import StoredItem, dump_item, parse_item
from mdrecall.adapters.langgraph import markdown_store
from mdrecall.errors import ArgumentError
from mdrecall.memory import Memory
from mdrecall.text.annotations import STORE_FOLDER
from tests.adapters.conftest import skip_without
from tests.adapters.test_model_files import SECRET, forget
from tests.conftest import Workspace, examples
from tests.processes import finish, python

NOW = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
USERS = ("users", "ana")


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without("langgraph.store.base", "langgraph")


@pytest.fixture
def memory(workspace: Workspace) -> Memory:
    return workspace.memory()


@pytest.fixture
def store(memory: Memory) -> Any:
    return markdown_store(memory)


@pytest.fixture
def folder(workspace: Workspace) -> Path:
    return workspace.path / STORE_FOLDER


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestNotes:
    def test_an_item_is_a_note_that_a_person_can_read(self, store: Any, folder: Path) -> None:
        store.put(USERS, "tea", {"kind": "taste", "text": "Ana prefers green tea.\n\n- in the morning", "n": [1, None]})
        lines = (folder / "users" / "ana" / "tea.md").read_text().split("\n")
        assert [line for line in lines if not line.startswith(("created: ", "updated: "))] == [
            "---", 'namespace: ["users", "ana"]', 'key: "tea"', 'body: "text"', 'fields: ["kind", "text", "n"]',
            "values:", '- "kind": "taste"', '- "n": [1, null]', "---", "", "Ana prefers green tea.", "",
            "- in the morning", "",
        ]  # fmt: skip

    def test_what_a_person_changes_is_the_value(self, store: Any, folder: Path) -> None:
        store.put(USERS, "tea", {"kind": "taste", "text": "green", "n": 1})
        note = folder / "users" / "ana" / "tea.md"
        note.write_text(note.read_text().replace("green", "black\n\nwith milk").replace('- "n": 1\n', ""))
        assert store.get(USERS, "tea").value == {"kind": "taste", "text": "black\n\nwith milk"}
        store.put(USERS, "tea", store.get(USERS, "tea").value | {"n": 2})
        assert store.get(USERS, "tea").value == {"kind": "taste", "text": "black\n\nwith milk", "n": 2}

    def test_a_note_of_a_person_is_an_item(self, store: Any, folder: Path) -> None:
        (folder / "users" / "ana").mkdir(parents=True)
        (folder / "users" / "ana" / "a%20b.md").write_text("Ana has a kiln.\n")
        (found,) = store.search(USERS)
        assert (found.namespace, found.key, found.value) == (USERS, "a b", {"text": "Ana has a kiln.\n"})
        assert store.get(USERS, "a b") is not None
        store.delete(USERS, "a b")
        assert files_in(folder) == []

    @pytest.mark.parametrize(
        "text",
        ["", "---\n", "---\n---\n", "---\nfields: 5\nkey: []\nnamespace: {}\n---\nx", '---\n- "a": \n- "b": [[[\n---\n',
         '---\nbody: 3\nttl: "x"\nindex: {}\ncreated: never\n---\n', "\x00\xff", '---\nbody: "text"', "[" * 90_000,
         f"---\nttl: 1{'0' * 400}\ncreated: 0001-01-01T00:00:00+23:59\nupdated: 9999-12-31T23:59:59-23:59\n---\n"],
    )  # fmt: skip
    def test_no_text_of_a_file_breaks_the_store(self, store: Any, folder: Path, text: str) -> None:
        store.put(USERS, "other", {"n": 1})
        (folder / "users" / "ana" / "x.md").write_text(text)
        assert {found.key for found in store.search(())} == {"other", "x"}
        assert store.get(USERS, "x").updated_at.tzinfo is not None
        store.put(USERS, "x", {"n": 2})
        assert store.get(USERS, "x").value == {"n": 2}

    def test_an_item_is_found_by_every_search_as_the_agents(self, store: Any, memory: Memory) -> None:
        store.put(USERS, "kiln", {"text": "Ana's kiln is in Lisbon."})
        (best, *_) = memory.search("where is the kiln?")
        assert (best.path, best.origin) == ("memory/store/users/ana/kiln.md", "agent")

    def test_what_was_forgotten_is_not_written_again(self, store: Any, memory: Memory, folder: Path) -> None:
        forget(memory, SECRET)
        store.put(USERS, "a", {"text": f"{SECRET}. Tea is fine.", "more": {"list": [SECRET]}})
        assert store.get(USERS, "a").value == {"text": "[forgotten] Tea is fine.", "more": {"list": ["[forgotten]"]}}
        assert "zorkberries" not in (folder / "users" / "ana" / "a.md").read_text()

    @pytest.mark.parametrize("is_masked", [True, False])
    def test_forgetting_clears_an_item_and_leaves_the_rest(
        self, store: Any, memory: Memory, folder: Path, is_masked: bool
    ) -> None:
        store.put(USERS, "a", {"text": f"{SECRET}. Tea is fine.", "n": 1})
        store.put(USERS, "b", {"n": 1, "kind": SECRET, "more": "x", "text": "kept"})
        forget(memory, SECRET, is_masked=is_masked)
        mask = "[forgotten]" if is_masked else ""
        assert store.get(USERS, "a").value == {"text": f"{mask} Tea is fine.", "n": 1}
        masked = {"n": 1, "kind": "[forgotten]", "more": "x", "text": "kept"}
        expected = masked if is_masked else {name: value for name, value in masked.items() if name != "kind"}
        assert store.get(USERS, "b").value == expected
        assert "zorkberries" not in str([path.read_text() for path in folder.rglob("*.md")])

    def test_no_link_is_followed(self, store: Any, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "x.md").write_text("own")
        store.put(USERS, "a", {"n": 1})
        (folder / "link").symlink_to(tmp_path / "own")
        (folder / "users" / "x.md").symlink_to(tmp_path / "own" / "x.md")
        assert [found.key for found in store.search(())] == ["a"]
        assert store.get(("users",), "x") is None
        with pytest.raises(Exception, match="symbolic link"):
            store.put(("link",), "x", {"n": 1})
        assert (tmp_path / "own" / "x.md").read_text() == "own"


class TestNames:
    NAMES = ("a", "A", "a b", "a/b", "../x", "%2e", "CLAUDE", "node_modules", "", "é", "e\u0301", "*", "~", "\n",
             "\ud800", "x" * 150, "x" * 400, "x" * 400 + "y", "深色模式" * 60, "-", ".hidden")  # fmt: skip

    def test_every_key_is_an_item_of_its_own(self, store: Any, folder: Path) -> None:
        for number, name in enumerate(self.NAMES):
            store.put(USERS, name, {"n": number})
        assert [store.get(USERS, name).value["n"] for name in self.NAMES] == list(range(len(self.NAMES)))
        assert {found.key for found in store.search(USERS, limit=100)} == set(self.NAMES)
        written = files_in(folder)
        assert len(written) == len(self.NAMES)
        assert not any(name.casefold().endswith("/claude.md") or "/." in name for name in written)

    def test_every_label_is_a_namespace_of_its_own(self, store: Any, memory: Memory) -> None:
        labels = [name for name in self.NAMES if name and "." not in name]
        for label in labels:
            store.put(("root", label), "k", {"text": f"kiln {len(label)}"})
        assert set(store.list_namespaces(prefix=("root",))) == {("root", label) for label in labels}
        assert [found.namespace[1] for label in labels for found in store.search(("root", label))] == labels
        assert len(memory.search("kiln", max_results=100, min_score=0.0)) == len(labels)

    def test_a_name_that_another_item_has_on_the_disk_is_not_taken(self, store: Any, folder: Path) -> None:
        # As on a disk where "Tea" and "tea" are one name.
        store.put(USERS, "Tea", {"n": 1})
        os.rename(folder / "users" / "ana" / "Tea.md", folder / "users" / "ana" / "tea.md")
        store.put(USERS, "tea", {"n": 2})
        assert store.get(USERS, "tea").value == {"n": 2}
        assert sorted(found.key for found in store.search(USERS)) == ["Tea", "tea"]


def _check_round_trip(value: dict[str, Any], index: Any, ttl: float | None) -> None:
    item = StoredItem("memory/store/a/b.md", ("a",), "b", value, NOW)
    item.index, item.ttl = index, ttl
    data = dump_item(item)
    read = parse_item(data.decode(), item.inside, NOW)
    assert json.dumps(read.value) == json.dumps(value)
    assert (read.namespace, read.key, read.index, read.ttl) == (("a",), "b", index, ttl)
    assert (read.created, read.updated) == (NOW, NOW)


_PIECES = ("a", " ", "\n", "\r", "\t", '"', "\\", "---", "\n---\n", "é", "\u2028", "\x85", "\x00", "\ud800", "😀", "- ",
           "{", ":", "[forgotten]", "```", "\ufeff", "<!-- project: x -->")  # fmt: skip


def _draw_text(draw: random.Random) -> str:
    return "".join(draw.choices(_PIECES, k=draw.choice((0, 1, 2, 5, 20))))


def _draw_json(draw: random.Random, depth: int = 3) -> Any:
    kind = draw.randint(0, 6 if depth else 4)
    if kind == 5:
        return [_draw_json(draw, depth - 1) for _ in range(draw.randint(0, 4))]
    if kind == 6:
        return {_draw_text(draw): _draw_json(draw, depth - 1) for _ in range(draw.randint(0, 4))}
    number = draw.choice((draw.getrandbits(80), -draw.getrandbits(64), 1e308, 5e-324, -0.0, draw.random()))
    return (None, draw.random() < 0.5, number, _draw_text(draw), _draw_text(draw))[kind]


@pytest.mark.parametrize("values", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_drawn_values_are_the_same_after_they_were_written(values: int) -> None:
    draw = random.Random(values)
    for _ in range(examples(values)):
        names = [draw.choice(("text", "content", "memory", "n", _draw_text(draw))) for _ in range(draw.randint(0, 6))]
        _check_round_trip({name: _draw_json(draw) for name in names}, draw.choice((None, False, ["a.b"])), None)


@pytest.mark.parametrize("value", [{"x": math.nan}, {"x": -math.inf}, {"x": object()}, {"x": {1, 2}}])
def test_what_is_not_json_is_refused_and_nothing_is_lost(store: Any, value: Any) -> None:
    store.put(USERS, "k", {"n": 1})
    with pytest.raises(ArgumentError, match="is not JSON"):
        store.put(USERS, "k", value)
    assert store.get(USERS, "k").value == {"n": 1}


class TestStore:
    def test_times_are_those_of_the_item(self, store: Any) -> None:
        store.put(USERS, "k", {"n": 1})
        first = store.get(USERS, "k")
        store.put(USERS, "k", {"n": 2})
        second = store.get(USERS, "k")
        assert second.created_at == first.created_at < second.updated_at
        assert second.updated_at.tzinfo is UTC

    def test_a_returned_value_may_be_changed(self, store: Any) -> None:
        store.put(USERS, "k", {"list": [1]})
        store.get(USERS, "k").value["list"].append(2)
        assert store.search(USERS)[0].value == {"list": [1]}

    def test_a_batch_reads_before_it_writes_and_the_last_put_counts(self, store: Any) -> None:
        from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

        store.put(USERS, "k", {"n": 1})
        ops = [
            PutOp(USERS, "k", {"n": 2}), GetOp(USERS, "k"), PutOp(USERS, "k", {"n": 3}), SearchOp(("users",)),
            PutOp(("new",), "k", {}), ListNamespacesOp(), GetOp(USERS, "none"),
        ]  # fmt: skip
        for results in (store.batch(iter(ops)), asyncio.run(store.abatch(ops))):
            assert [results[place] for place in (0, 2, 4, 6)] == [None] * 4
            before = results[1].value["n"]
            assert [found.value["n"] for found in results[3]] == [before]
            assert results[5] == ([USERS] if before == 1 else [("new",), USERS])
        assert store.get(USERS, "k").value == {"n": 3}
        with pytest.raises(ValueError, match="Unknown operation"):
            store.batch(["put"])

    @pytest.mark.parametrize(
        ("wanted", "keys"),
        [
            ({"n": 1}, "a"), ({"n": {"$eq": 2}}, "b"), ({"n": {"$ne": 1}}, "bc"), ({"n": {"$gt": 1}}, "bc"),
            ({"n": {"$gte": 2, "$lt": 2.5}}, "b"), ({"n": {"$lte": 1}}, "a"), ({"n": None}, "d"), ({"kind": "x"}, "ab"),
            ({"kind": "x", "n": {"$gt": 1}}, "b"), ({"more": {"deep": 1}}, "a"), ({"more": {"deep": {"$gt": 1}}}, "b"),
            ({"tags": ["p", "q"]}, "c"), ({"kind": {"$gt": "x"}}, "c"), ({"kind": {"$gt": 1}}, ""), ({}, "abcd"),
        ],
    )  # fmt: skip
    def test_filters(self, store: Any, wanted: Any, keys: str) -> None:
        store.put(USERS, "a", {"n": 1, "kind": "x", "more": {"deep": 1, "other": 1}})
        store.put(USERS, "b", {"n": 2, "kind": "x", "more": {"deep": 2}})
        store.put(USERS, "c", {"n": 3, "kind": "y", "tags": ["p", "q"]})
        store.put(USERS, "d", {"m": 3})
        assert sorted(found.key for found in store.search((), filter=wanted)) == sorted(keys)

    def test_an_unknown_operator_is_refused(self, store: Any) -> None:
        store.put(USERS, "a", {"n": 1})
        with pytest.raises(ValueError, match=r"Unsupported operator: \$in"):
            store.search((), filter={"n": {"$in": [1]}})

    def test_the_last_changed_comes_first_page_by_page(self, store: Any) -> None:
        for key in "abcd":
            store.put(USERS, key, {})
        store.put(USERS, "b", {})
        assert [found.key for found in store.search(USERS)] == list("bdca")
        assert [found.key for found in store.search((), limit=2, offset=1)] == list("dc")

    def test_a_query_finds_what_fits_with_a_score(self, store: Any) -> None:
        for number in range(12):
            store.put(("users", str(number % 3)), f"k{number}", {"text": f"The weather on day {number}.", "n": number})
        store.put(USERS, "kiln", {"text": "Ana's kiln is in Lisbon.", "n": 1})
        store.put(USERS, "hidden", {"text": "Ana's second kiln is in Porto.", "n": 2}, index=False)
        best = store.search(("users",), query="where is the kiln?")[0]
        assert best.key == "kiln"
        assert 0 < best.score <= 1
        assert all(found.key != "hidden" for found in store.search(("users",), query="kiln", limit=50))
        assert store.get(USERS, "hidden").value["n"] == 2
        assert [found.key for found in store.search(USERS, query="weather kiln", filter={"n": {"$gt": 1}})] == []
        assert store.search(("elsewhere",), query="kiln") == []
        assert store.search(USERS)[0].score is None

    def test_namespaces_are_listed(self, store: Any) -> None:
        for namespace in (("a", "b", "c"), ("a", "b", "d", "e"), ("a", "x"), ("b", "c")):
            store.put(namespace, "k", {})
        assert store.list_namespaces(max_depth=2) == [("a", "b"), ("a", "x"), ("b", "c")]
        assert store.list_namespaces(prefix=("a", "*", "d")) == [("a", "b", "d", "e")]
        assert store.list_namespaces(suffix=("c",)) == [("a", "b", "c"), ("b", "c")]
        assert store.list_namespaces(limit=1, offset=1) == [("a", "b", "d", "e")]
        store.delete(("b", "c"), "k")
        assert ("b", "c") not in store.list_namespaces()

    def test_bad_namespaces_are_refused(self, store: Any) -> None:
        from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

        for namespace in ((), ("",), ("a.b",), ("langgraph",), (1,)):
            with pytest.raises(InvalidNamespaceError):
                store.put(namespace, "k", {})
        # The methods of the base class check them, too, but not what is given to a batch.
        for op in (GetOp(("a.b",), "k"), PutOp(("",), "k", {}), SearchOp(("a.b",))):
            for call in (store.batch, lambda ops: asyncio.run(store.abatch(ops))):
                with pytest.raises(InvalidNamespaceError):
                    call([PutOp(USERS, "k", {}), op])
        assert store.get(USERS, "k") is None
        assert store.search([]) == []

    def test_a_namespace_may_be_a_list(self, store: Any) -> None:
        store.put(USERS, "k", {"text": "kiln"})
        assert [item.key for item in store.search(["users"])] == ["k"]
        assert [item.key for item in store.search(["users"], query="kiln")] == ["k"]

    def test_what_others_change_is_seen_by_the_next_search(self, store: Any, memory: Memory, folder: Path) -> None:
        other: Any = markdown_store(memory)
        for number in range(3):
            store.put(USERS, f"k{number}", {"n": number})
            assert len(store.search(USERS)) == len(other.search(USERS)) == number + 1
        note = folder / "users" / "ana" / "k1.md"
        note.write_text(note.read_text().replace('"n": 1', '"n": 7'))
        assert [item.key for each in (store, other) for item in each.search(USERS, filter={"n": 7})] == ["k1", "k1"]
        (folder / "users" / "ana").rename(folder / "users" / "eve")
        assert store.list_namespaces() == other.list_namespaces()
        note.with_name("x").parent.parent.joinpath("eve", "k1.md").unlink()
        assert [len(each.search(("users",))) for each in (store, other)] == [2, 2]

    def test_an_item_expires_unless_it_is_read(self, store: Any, folder: Path) -> None:
        for key in "abc":
            store.put(USERS, key, {"text": "kiln"}, ttl=10)
        store.put(USERS, "d", {"text": "kiln"})
        for key, minutes in (("a", 9), ("b", 11), ("c", 11)):
            past = time.time() - minutes * 60
            os.utime(folder / "users" / "ana" / f"{key}.md", (past, past))
        assert store.get(USERS, "a", refresh_ttl=False) is not None
        assert os.stat(folder / "users" / "ana" / "a.md").st_mtime < time.time() - 500
        assert store.get(USERS, "a") is not None
        assert os.stat(folder / "users" / "ana" / "a.md").st_mtime > time.time() - 500
        assert store.get(USERS, "b") is None
        assert store.sweep_ttl() == 1
        assert {found.key for found in store.search(USERS, query="kiln")} == {"a", "d"}
        assert files_in(folder) == ["users/ana/a.md", "users/ana/d.md"]

    def test_a_store_has_a_usual_time(self, memory: Memory, folder: Path) -> None:
        store: Any = markdown_store(memory, ttl={"default_ttl": 5, "refresh_on_read": False})
        store.put(USERS, "a", {})
        past = time.time() - 240
        os.utime(folder / "users" / "ana" / "a.md", (past, past))
        assert store.get(USERS, "a") is not None
        assert os.stat(folder / "users" / "ana" / "a.md").st_mtime < time.time() - 200
        store.put(USERS, "b", {}, ttl=None)
        assert "ttl" not in (folder / "users" / "ana" / "b.md").read_text()


def test_in_any_order_it_answers_as_the_store_in_memory(store: Any) -> None:
    from langgraph.store.memory import InMemoryStore

    theirs: Any = InMemoryStore()
    draw = random.Random(7)
    namespaces = [("a",), ("a", "b"), ("a", "b", "c"), ("A",), ("x", "b")]
    for _ in range(examples(300)):
        namespace, key = draw.choice(namespaces), draw.choice("pqr")
        kind = draw.choice(("put", "put", "get", "delete", "search", "list"))
        if kind == "put":
            value = {"n": draw.randint(0, 3), "text": draw.choice(("tea", "", "x\n"))}
            for each in (store, theirs):
                each.put(namespace, key, value)
        elif kind == "delete":
            for each in (store, theirs):
                each.delete(namespace, key)
        elif kind == "get":
            assert _value(store.get(namespace, key)) == _value(theirs.get(namespace, key))
        elif kind == "search":
            wanted = draw.choice((None, {"n": 1}, {"n": {"$gte": 2}}, {"text": "tea"}))
            found = (
                {*map(repr, map(_value, each.search(namespace, filter=wanted, limit=99)))} for each in (store, theirs)
            )
            assert next(found) == next(found)
        else:
            left = {item.namespace for item in theirs.search((), limit=99)}
            assert set(store.list_namespaces(prefix=namespace[:1])) == {
                each for each in left if each[0] == namespace[0]
            }


def _value(item: Any) -> Any:
    return item and (item.namespace, item.key, item.value)


WRITER = """
import sys
from mdrecall import Memory
from mdrecall.adapters.langgraph import markdown_store

with Memory.open(sys.argv[1], env={"HOME": sys.argv[1] + "/../home", "MDRECALL_STATE_DIR": sys.argv[2]}) as memory:
    store = markdown_store(memory)
    for number in range(20):
        store.put(("a",), "shared", {"text": "x" * 3000 + sys.argv[3], "n": number})
        store.put(("a",), f"{sys.argv[3]}-{number}", {"n": number})
        assert store.get(("a",), "shared").value["n"] >= 0
"""


def test_two_processes_lose_nothing(store: Any, workspace: Workspace) -> None:
    writers = [python(WRITER, str(workspace.path), str(workspace.state), name) for name in ("one", "two")]
    for writer in writers:
        assert finish(writer) == ""
        assert writer.returncode == 0
    assert len(store.search(("a",), limit=100)) == 41
    assert store.get(("a",), "shared").value["n"] == 19
