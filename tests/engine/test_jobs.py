"""Texts go through batch jobs: all in one, none besides, and what a job leaves out is embedded directly."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.batch_workspace import SIX, WORDS, BatchWorkspace
from tests.providers import faults
from tests.providers.server import Kind


def test_all_texts_go_through_one_job_and_are_paid_for_once(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=3)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct) == (sorted(SIX), [])
    assert (len(batches.made), batches.kept(), len(batches.vectors())) == (1, [], 6)


def test_a_vector_from_a_job_is_the_one_that_a_direct_request_gives(batches: BatchWorkspace) -> None:
    batches.write(*SIX)
    batches.sync()
    by_job = batches.vectors()
    batches.configure(enabled=False, cache=False)
    batches.sync(force=True)
    assert batches.direct == sorted(SIX)
    assert batches.vectors() == by_job


def test_only_texts_that_are_new_go_into_the_next_job(batches: BatchWorkspace) -> None:
    batches.write(*SIX[:4])
    batches.sync()
    batches.write(*SIX[4:])
    batches.sync()
    assert [len(job.lines) for job in batches.server.batch.jobs.values()] == [4, 2]
    assert (batches.batch, batches.direct) == (sorted(SIX), [])


@pytest.mark.parametrize("states", ["BATCH_STATE", "JOB_STATE"])
@pytest.mark.parametrize("form", ["operation", "batch", "flat"])
def test_gemini_may_tell_of_a_job_in_each_of_its_forms(gemini: BatchWorkspace, form: str, states: str) -> None:
    gemini.plan(polls_until_done=2, gemini_form=form, gemini_states=states)
    gemini.write(*SIX)
    assert gemini.sync().issues == ()
    assert (gemini.batch, gemini.direct, gemini.kept()) == (sorted(SIX), [], [])


def test_every_request_of_a_job_carries_the_key(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=2)
    batches.write(*SIX)
    batches.sync()
    key = batches.server.key or ""
    assert {one.status for one in batches.server.requests} == {200}
    assert all(
        key in (one.headers.get("x-goog-api-key") or one.headers["authorization"]) for one in batches.server.requests
    )


@pytest.mark.parametrize(
    "disorder",
    [
        {"shuffled": True},
        {"duplicated": [0, 3]},
        {"garbage": [b"", b"{", b"[]", b"null", b'{"custom_id": 3}', b'{"custom_id": "zz"}', b"\xff\xfe", b"[" * 9999]},
        {"garbage": [b'{"key": "00", "response": {}}', b'{"custom_id": "00", "response": {"body": 3}}']},
    ],
    ids=["shuffled", "duplicated", "garbage", "strangers"],
)
def test_an_output_in_disorder_is_read_all_the_same(batches: BatchWorkspace, disorder: dict[str, Any]) -> None:
    batches.plan(**disorder)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (batches.batch, batches.direct) == (sorted(SIX), [])
    assert len(set(batches.vectors().values())) == 6


@pytest.mark.parametrize(
    "lacking",
    [
        {"missing": [1, 4]},
        {"errors": {1: "No.", 4: "No."}},
        {"errors": {1: "No.", 4: "No."}, "errors_in_output": True},
        {"missing": [1], "errors": {4: "No."}, "blank_ids": True},
    ],
    ids=["missing", "in a file of errors", "in the output", "one of each"],
)
def test_texts_that_a_job_leaves_out_are_embedded_directly_and_only_those(
    batches: BatchWorkspace, lacking: dict[str, Any]
) -> None:
    batches.plan(**lacking)
    batches.write(*SIX)
    assert batches.sync().issues == ()
    assert (len(batches.batch), len(batches.direct)) == (4, 2)
    assert sorted(batches.batch + batches.direct) == sorted(SIX)
    assert (len(batches.vectors()), len(batches.made), batches.kept()) == (6, 1, [])


def test_vectors_that_are_none_are_not_taken(batches: BatchWorkspace) -> None:
    batches.plan(vectors=lambda vectors: [[0.5, 0.5] for _ in vectors])
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert batches.direct == sorted(SIX)
    assert "vectors of 2 numbers instead of 8" in memory.status().batch["lastError"]


def test_a_job_that_is_over_when_it_is_made_is_not_asked_after(batches: BatchWorkspace) -> None:
    batches.plan(polls_until_done=0)
    batches.write(*SIX)
    batches.sync()
    assert (batches.batch, batches.direct) == (sorted(SIX), [])
    assert all(job.polls == 0 for job in batches.server.batch.jobs.values())


def test_no_more_jobs_are_open_than_may_be(batches: BatchWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FileJobs", "GeminiJobs"):
        monkeypatch.setattr(f"mdrecall.embed.remote.jobs.{name}.most_texts", 2)
    batches.configure(concurrency=2)
    batches.plan(polls_until_done=4)
    batches.write(*WORDS)
    most = 0

    def watch(_: object) -> bool:
        nonlocal most
        most = max(most, sum(not job.over for job in batches.server.batch.jobs.values()))
        return False

    batches.server.faults.add(faults.fine().times(None).when(watch))
    batches.sync()
    assert (most, len(batches.made)) == (2, 5)
    assert (batches.batch, batches.direct) == (sorted(WORDS), [])


@pytest.mark.parametrize("kind", ["mistral", "ollama"])
def test_a_provider_without_jobs_embeds_directly(batches_of: Callable[[Kind], BatchWorkspace], kind: Kind) -> None:
    batches = batches_of(kind)
    batches.write(*SIX)
    memory = batches.workspace.memory()
    assert batches.sync(memory).issues == ()
    assert (batches.direct, memory.status().batch["enabled"]) == (sorted(SIX), False)


def test_too_few_texts_are_not_worth_a_job(batches: BatchWorkspace) -> None:
    batches.configure(own={"batchMinChunks": 4})
    batches.write(*SIX[:3])
    batches.sync()
    assert (batches.direct, batches.made) == (sorted(SIX[:3]), [])
    batches.write(*WORDS[3:8])
    batches.sync()
    assert (batches.batch, len(batches.made)) == (sorted(WORDS[3:8]), 1)


def test_the_same_text_in_two_notes_is_one_line_of_a_job(batches: BatchWorkspace) -> None:
    batches.workspace.write("memory/a/apple.md", "The apple is here.\n")
    batches.workspace.write("memory/b/apple.md", "The apple is here.\n")
    batches.sync()
    assert (batches.batch, len(batches.vectors())) == (["apple"], 2)


def test_progress_says_how_many_texts_are_done(openai: BatchWorkspace) -> None:
    openai.plan(polls_until_done=2)
    openai.write(*SIX)
    half = {"request_counts": {"total": 6, "completed": 3, "failed": 0}}
    openai.server.faults.add(faults.Fault("half", path="GET /v1/batches/*", data=lambda body: body | half))
    openai.sync()
    assert "submitting 6 texts to openai" in openai.labels
    assert "openai: 1 batch job, 3 of 6 texts done" in openai.labels


def test_the_answers_of_a_large_job_are_stored_in_portions(
    openai: BatchWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdrecall.engine.jobs._STORED_AT_ONCE", 2)
    openai.configure(cache=False)
    openai.write(*WORDS[:5])
    openai.sync()
    assert (openai.batch, openai.direct, len(openai.vectors())) == (sorted(WORDS[:5]), [], 5)
    assert [step.completed for step in openai.progress if step.label == "vectors"] == [2, 4, 5]
