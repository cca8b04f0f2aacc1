"""A reranker has the last word on the order; whatever it does, a search has its answer, and no key is shown."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from mdrecall.memory import Memory
from mdrecall.types.search import SearchAnswer, SearchResult
from mdrecall.wire import answer_to_json
from tests.conftest import Workspace, values_of
from tests.embed.tiny_gguf import write_reranker
from tests.providers.rerank import KEY, RerankServer

NOTES = {
    "memory/a.md": "The walrus sleeps on the ice near the old pier.",
    "memory/b.md": "A walrus and a seal share the ice with a bear.",
    "memory/c.md": "Nobody has seen the walrus since Monday.",
}
NEEDS_GGUF = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="not installed: xllamacpp; sh scripts/test installs it"
)
SECRET = "sk-proj-Zx8Qm2Lr7Tn4Vw9Yb3Kd6Hf1Gs5Jc0Pa"


@pytest.fixture
def notes(workspace: Workspace) -> Workspace:
    for name, text in NOTES.items():
        workspace.write(name, text)
    return workspace


def configure(workspace: Workspace, **rerank: Any) -> Workspace:
    workspace.configure(json.dumps({"mdrecall": {"rerank": rerank}}))
    return workspace


def at(workspace: Workspace, server: RerankServer, **more: Any) -> Memory:
    return configure(workspace, provider=server.kind, baseUrl=server.url, **({"apiKey": KEY} | more)).memory()


def paths(answer: SearchAnswer) -> list[str]:
    return [result.path.removeprefix("memory/").removesuffix(".md") for result in answer]


def explain(result: SearchResult) -> object:
    """Return the word for the score, and what it is made of but for the lead, which is that of the first only."""
    values = values_of(result)
    return result.confidence, {**values, "worth": round(values["worth"] - values["parts"].pop("lead", 0.0), 3)}


def prefer(server: RerankServer, *names: str) -> None:
    """Let the server put the notes in this order."""

    def change(answer: Any) -> Any:
        documents = server.asked[-1].body["documents"]
        scores = {f"memory/{name}.md": 0.9 - 0.3 * place for place, name in enumerate(names)}
        found = [
            {"index": index, "relevance_score": scores[path]}
            for index, text in enumerate(documents)
            if (path := text.split("\n")[0]) in scores
        ]
        return {server.rows_at: found}

    server.change = change


@pytest.mark.parametrize("kind", ["cohere", "jina", "voyage"])
def test_the_results_are_in_its_order_with_its_scores(notes: Workspace, kind: str) -> None:
    plain = notes.memory().search("walrus", explain=True)
    order = paths(plain)[::-1]
    with RerankServer(kind, key=KEY) as server:
        prefer(server, *order)
        memory = at(notes, server, model="m-1")
        answer = memory.search("walrus", explain=True)
        assert paths(answer) == order
        assert [result.score for result in answer] == pytest.approx([0.9, 0.6, 0.3])
        assert {result.scored_by for result in answer} == {f"{kind}/m-1"}
        assert answer.not_reranked == ""
        assert memory.status().custom["reranker"] == f"{kind}/m-1"
        # The word for the score and the explanation stay mdrecall's own.
        assert {result.path: explain(result) for result in answer} == {result.path: explain(result) for result in plain}
        assert server.asked[0].body["query"] == "walrus"
        assert sorted(text.split("\n")[-1] for text in server.asked[0].body["documents"]) == sorted(NOTES.values())
    assert [entry["scoredBy"] for entry in answer_to_json(answer)["results"]] == [f"{kind}/m-1"] * 3


def test_what_replaces_another_line_comes_before_it_with_a_score_that_is_no_lower(workspace: Workspace) -> None:
    workspace.write("memory/2026-01-05.md", "- The harbour gate code is 4471.\n")
    workspace.write("memory/2026-05-04.md", "- The harbour gate code is 9912.\n")
    with RerankServer("cohere", key=KEY) as server:
        prefer(server, "2026-01-05", "2026-05-04")
        answer = at(workspace, server).search("harbour gate code")
        assert paths(answer) == ["2026-05-04", "2026-01-05"]
        assert [result.score for result in answer] == pytest.approx([0.9, 0.9])


def test_nothing_is_sent_anywhere_unless_a_provider_is_named(notes: Workspace) -> None:
    with RerankServer("cohere", key=KEY) as server:
        answer = configure(notes, baseUrl=server.url, apiKey=KEY).memory().search("walrus")
        assert (len(answer), answer[0].scored_by, answer.not_reranked, server.asked) == (3, "", "", [])


def test_a_configuration_among_the_notes_sends_nothing(notes: Workspace) -> None:
    with RerankServer("llama.cpp") as server:
        settings = {"mdrecall": {"rerank": {"provider": "llama.cpp", "baseUrl": server.url}}}
        for name in ("mdrecall.json", "memory/mdrecall.json", ".mdrecall/mdrecall.json", "openclaw.json"):
            notes.write(name, json.dumps(settings))
        answer = notes.memory().search("walrus")
        assert (len(answer), server.asked) == (3, [])


def without(notes: Workspace) -> list[tuple[str, float]]:
    (notes.state / "mdrecall.json").unlink(missing_ok=True)
    return [(result.path, result.score) for result in notes.memory().search("walrus")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"status": 500}, "returned status 500"),
        ({"key": "another"}, "returned status 401"),
        ({"change": lambda answer: {"results": []}}, "sent a wrong answer: no scores"),
        ({"location": "http://localhost:9/rerank"}, "where nothing is sent"),
        (None, "cannot be reached"),
    ],
)
def test_one_that_fails_leaves_the_answer_as_it_is_and_shows_no_key(
    notes: Workspace, change: dict[str, Any] | None, problem: str
) -> None:
    with RerankServer("cohere", key=KEY) as server:
        vars(server).update(change or {})
        answer = at(notes, server).search("walrus") if change else None
    answer = answer or at(notes, server).search("walrus")
    assert problem in answer.not_reranked
    assert {result.scored_by for result in answer} == {""}
    shown = answer_to_json(answer)
    assert shown["notReranked"] == {"reason": answer.not_reranked}
    assert KEY not in json.dumps(shown) + str(vars(answer))
    assert [(result.path, result.score) for result in answer] == without(notes)


@pytest.mark.parametrize(
    ("rerank", "problem"),
    [
        ({"provider": "cohere"}, "There is no API key for cohere. Set COHERE_API_KEY"),
        ({"provider": "jina", "apiKey": KEY, "baseUrl": "ftp://host/v1"}, " of jina "),
        ({"provider": "jina", "apiKey": KEY, "baseUrl": "https://"}, " of jina "),
        ({"provider": "jina", "apiKey": KEY, "baseUrl": "https://me:secret@host/v1"}, " of jina "),
        ({"provider": "local"}, "mdrecall.rerank.model"),
        pytest.param({"provider": "local", "model": "/no/such/file.gguf"}, "mdrecall.rerank.model", marks=NEEDS_GGUF),
    ],
)
def test_settings_that_cannot_work_are_told_without_a_secret(
    notes: Workspace, rerank: dict[str, Any], problem: str
) -> None:
    answer = configure(notes, **rerank).memory().search("walrus")
    assert len(answer) == 3
    assert problem in answer.not_reranked
    assert "secret" not in answer.not_reranked


def test_one_that_hangs_is_left_alone_for_a_while(notes: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with RerankServer("cohere", key=KEY) as server:
        memory = at(notes, server, timeoutMs=300)
        server.hold.clear()
        first, second = memory.search("walrus"), memory.search("walrus")
        assert "did not answer" in first.not_reranked
        assert "It is asked again half a minute after it failed." in second.not_reranked
        assert len(first) == len(second) == 3
        assert len(server.asked) == 1
        server.hold.set()
        monkeypatch.setattr("mdrecall.engine.background._RETRY_AFTER_S", 0.0)
        assert memory.search("walrus").not_reranked == ""


def test_a_text_that_it_refuses_does_not_keep_it_from_the_next_search(notes: Workspace) -> None:
    with RerankServer("cohere", key=KEY) as server:
        memory = at(notes, server)
        server.status = 400
        assert "returned status 400" in memory.search("walrus").not_reranked
        server.status = 200
        assert memory.search("walrus").not_reranked == ""


def test_a_provider_s_own_key_is_not_sent_to_another_address(notes: Workspace) -> None:
    with RerankServer("cohere") as server:
        configure(notes, provider="cohere", baseUrl=server.url)
        with Memory.open(notes.path, env=notes.env | {"COHERE_API_KEY": KEY}) as memory:
            assert memory.search("walrus")[0].scored_by == "cohere/rerank-v3.5"
        assert "authorization" not in server.asked[0].headers


def test_a_key_may_be_a_reference(notes: Workspace) -> None:
    with RerankServer("jina", key=KEY) as server:
        configure(notes, provider="jina", baseUrl=server.url, apiKey={"source": "env", "id": "MY_KEY"})
        with Memory.open(notes.path, env=notes.env | {"MY_KEY": KEY}) as memory:
            assert memory.search("walrus").not_reranked == ""


def test_secrets_in_notes_and_queries_stay_here(notes: Workspace) -> None:
    notes.write("memory/d.md", f"The walrus key is {SECRET} for now.")
    with RerankServer("llama.cpp") as server:
        answer = configure(notes, provider="llama.cpp", baseUrl=server.url).memory().search(f"walrus key {SECRET}")
        assert answer.not_reranked == ""
        assert SECRET in answer[0].snippet
        assert SECRET not in json.dumps(server.asked[0].body)


def test_it_reads_no_more_passages_than_the_setting_says_nor_fewer_than_are_wanted(notes: Workspace) -> None:
    for number in range(12):
        notes.write(f"memory/more-{number}.md", f"Walrus number {number} came by.")
    with RerankServer("cohere", key=KEY) as server:
        memory = at(notes, server, topN=4)
        assert len(memory.search("walrus", max_results=2)) == 2
        assert len(memory.search("walrus", max_results=5)) == 5
        assert [len(asked.body["documents"]) for asked in server.asked] == [4, 5]


def test_what_it_has_no_score_for_comes_after(notes: Workspace) -> None:
    order = [path for path, _ in without(notes)]
    with RerankServer("cohere", key=KEY) as server:
        prefer(server, order[-1].removeprefix("memory/").removesuffix(".md"))
        answer = at(notes, server).search("walrus")
    assert [result.path for result in answer] == [order[-1], *order[:-1]]
    assert [bool(result.scored_by) for result in answer] == [True, False, False]


def test_the_minimum_score_of_a_request_holds_for_its_scores(notes: Workspace) -> None:
    with RerankServer("cohere", key=KEY) as server:
        prefer(server, "c", "b", "a")
        memory = at(notes, server)
        assert paths(memory.search("walrus", min_score=0.2)) == ["c", "b", "a"]
        server.change = lambda answer: {"results": [{"index": index, "relevance_score": 0.01} for index in range(3)]}
        assert len(memory.search("walrus")) == 3
        empty = memory.search("walrus", min_score=0.2)
        assert (empty.reason, len(empty)) == ("below_min_score", 0)
        assert "has a score of 0.01, below the minimum score of 0.2" in empty.action


def test_several_queries_are_reranked_each_by_itself(notes: Workspace) -> None:
    with RerankServer("cohere", key=KEY) as server:
        answer = at(notes, server).search("walrus ice", queries=["seal bear"])
        assert [asked.body["query"] for asked in server.asked] == ["walrus ice", "seal bear"]
        assert {result.query for result in answer} <= {"walrus ice", "seal bear"}
        assert len({result.path for result in answer}) == len(answer)


def test_nothing_is_asked_if_nothing_was_found(notes: Workspace) -> None:
    with RerankServer("cohere", key=KEY) as server:
        answer = at(notes, server).search("xylophone zeppelin", mode="keyword")
        assert (len(answer), answer.not_reranked, server.asked) == (0, "", [])


@NEEDS_GGUF
def test_a_model_on_this_machine_reranks(notes: Workspace, tmp_path: Path) -> None:
    notes.write("memory/d.md", "walrus peanuts peanuts peanuts")
    model = write_reranker(tmp_path / "rank.gguf", "peanuts", context=512)
    memory = configure(notes, provider="local", model=str(model), timeoutMs=60_000).memory()
    answer = memory.search("walrus")
    assert (answer[0].path, answer[0].scored_by, answer.not_reranked) == ("memory/d.md", "local/rank.gguf", "")
