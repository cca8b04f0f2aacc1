"""Asking qmd: which commands and calls a question becomes, and what is made of the answers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mdrecall.errors import BackendUnavailable, ProgramFailed, ProgramMissing, ProgramTimedOut
from mdrecall.extras.qmd.collections import Collections
from mdrecall.extras.qmd.search import QmdSearch, RawHit
from mdrecall.extras.qmd.session import Session
from mdrecall.types.documents import Issue
from mdrecall.types.sync import Stop, never
from tests.qmd.agent_home import Reply, Scripted

Found = tuple[tuple[RawHit, ...], tuple[Issue, ...]]


def listed(*files: str) -> str:
    return json.dumps([{"file": f"qmd://{name}", "docid": "#1", "score": 1 / at} for at, name in enumerate(files, 1)])


class Server(Session):
    """Someone who passes questions on, and answers as a test tells it to."""

    def __init__(self, *answers: dict[str, Any] | BackendUnavailable) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        self.asked.append(dict(arguments))
        answer = self._answers.pop(0) if self._answers else {"results": []}
        if isinstance(answer, BackendUnavailable):
            raise answer
        return answer

    def warm_up(self) -> None:
        self.asked = []

    def close(self) -> None:
        self._answers = []


class Desk(Collections):
    """A search, and the collections that it looks after."""

    def __init__(
        self,
        names: tuple[str, ...] = ("a", "b"),
        server: Server | None = None,
        **replies: list[Reply],
    ) -> None:
        self.program = Scripted(**replies)
        self.ensured = 0
        self.too_old: ProgramMissing | None = None
        self.names = names
        self.search = QmdSearch(self.program, self, server)
        self.require = self._require

    def _require(self, within_s: float) -> None:
        if self.too_old:
            raise self.too_old

    def ensure(self, *, stop: Stop = never) -> tuple[Issue, ...]:
        self.ensured += 1
        return ()

    def ask(self, question: str = "billing migration", mode: Any = "search", within_s: float = 20) -> Found:
        return self.search.search(question, mode, self.names, limit=6, within_s=within_s)


def paths(found: Found) -> list[str]:
    return [f"{hit.collection}/{hit.path}" for hit in found[0]]


def test_by_words_all_lists_go_into_one_command_with_all_collections() -> None:
    desk = Desk(query=[listed("a/x.md")])
    found = desk.ask("what is the billing -old migration")
    assert paths(found) == ["a/x.md"]
    assert desk.program.calls == [
        ("query", "--json", "--no-rerank", "-n", "40", "-c", "a", "-c", "b", "--",
         "lex: billing migration -old\nlex: billing -old\nlex: migration -old")
    ]  # fmt: skip


def test_a_question_that_looks_like_an_option_or_a_command_is_neither() -> None:
    desk = Desk(query=[listed(), listed()])
    desk.ask("-clean --help", mode="query")
    desk.ask("lex: \n intent", mode="query")
    assert [call[-2:] for call in desk.program.calls] == [("--", "clean help"), ("--", "lex  intent")]


def test_by_meaning_the_question_is_asked_as_it_is() -> None:
    desk = Desk(vsearch=[listed("a/x.md")], query=[listed("b/y.md")])
    assert paths(desk.ask("what is that?", mode="vsearch")) == ["a/x.md"]
    assert paths(desk.ask("what is that?", mode="query")) == ["b/y.md"]
    first, second = desk.program.calls
    assert first[:4] == ("vsearch", "--json", "--min-score", "0.01")
    assert second[:4] == ("query", "--json", "-n", "6")
    assert first[-1] == second[-1] == "what is that?"


def test_a_qmd_that_is_too_old_is_not_asked() -> None:
    desk = Desk(server=Server())
    desk.too_old = ProgramMissing("too old")
    with pytest.raises(ProgramMissing):
        desk.ask()
    assert desk.program.calls == []


def test_a_file_that_is_found_twice_is_one_and_equal_texts_are_two() -> None:
    twice = json.dumps([
        {"file": "qmd://a/x.md", "docid": "#1", "score": 0.2},
        {"file": "qmd://b/x.md", "docid": "#1", "score": 0.5},
        {"file": "qmd://a/x.md", "docid": "#1", "score": 0.9},
    ])  # fmt: skip
    found = Desk(query=[twice]).ask()
    assert [(hit.collection, hit.score) for hit in found[0]] == [("a", 0.9), ("b", 0.5)]


NOT_FOUND = ProgramFailed("qmd query ended with code 1.", code=1, output="Collection not found: b\n")


def test_a_collection_that_is_not_bound_is_bound_and_asked_again() -> None:
    desk = Desk(query=[NOT_FOUND, listed("b/x.md")])
    assert paths(desk.ask()) == ["b/x.md"]
    assert desk.ensured == 1


def test_one_that_cannot_be_bound_and_any_other_failure_is_one() -> None:
    with pytest.raises(ProgramFailed):
        Desk(query=[NOT_FOUND, NOT_FOUND]).ask()
    with pytest.raises(ProgramFailed):
        Desk(query=[ProgramFailed("x", code=1, output="TypeError: fetch failed")]).ask()
    with pytest.raises(ProgramTimedOut):
        Desk(query=[listed("a/x.md")]).ask(within_s=0)


def test_without_words_or_collections_nobody_is_asked() -> None:
    desk = Desk(names=())
    assert desk.ask() == ((), ())
    assert Desk().ask('""') == ((), ())
    assert desk.program.calls == []


def test_a_server_is_asked_ten_lists_at_a_time() -> None:
    server = Server({"results": [{"file": "a/x.md", "score": 1}]}, {"results": [{"file": "b/y.md", "score": 1}]})
    desk = Desk(server=server)
    found = desk.ask("apple pear plum cherry fig")
    assert paths(found) == ["a/x.md", "b/y.md"]
    assert [len(asked["searches"]) for asked in server.asked] == [10, 1]
    assert server.asked[0]["searches"][0] == {"type": "lex", "query": "apple pear plum cherry fig"}
    assert server.asked[0]["collections"] == ["a", "b"]
    assert desk.program.calls == []


def test_a_server_is_asked_by_meaning_without_reranking_and_in_full_as_it_is() -> None:
    server = Server()
    desk = Desk(server=server)
    desk.ask('-red --"fox" real-time -', mode="vsearch")
    desk.ask("what\n is that?", mode="query")
    base = {"limit": 6, "minScore": 0, "collections": ["a", "b"]}
    vector = {"type": "vec", "query": 'red "fox" real-time -'}
    assert server.asked == [{**base, "searches": [vector], "rerank": False}, {**base, "query": "what is that?"}]
