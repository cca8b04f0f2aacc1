"""Texts go through batch jobs: all in one, none besides, and what a job leaves out is embedded directly."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.desk import WORDS, Desk
from tests.providers import faults
from tests.providers.server import Kind

SIX = WORDS[:6]


def test_all_texts_go_through_one_job_and_are_paid_for_once(desk: Desk) -> None:
    desk.plan(polls_until_done=3)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct) == (sorted(SIX), [])
    assert (len(desk.made), desk.kept(), len(desk.vectors())) == (1, [], 6)


def test_a_vector_from_a_job_is_the_one_that_a_direct_request_gives(desk: Desk) -> None:
    desk.write(*SIX)
    desk.sync()
    by_job = desk.vectors()
    desk.configure(enabled=False, cache=False)
    desk.sync(force=True)
    assert desk.direct == sorted(SIX)
    assert desk.vectors() == by_job


def test_a_second_sync_asks_for_nothing(desk: Desk) -> None:
    desk.write(*SIX)
    desk.sync()
    before = len(desk.server.requests)
    desk.sync()
    assert len(desk.server.requests) == before


def test_only_texts_that_are_new_go_into_the_next_job(desk: Desk) -> None:
    desk.write(*SIX[:4])
    desk.sync()
    desk.write(*SIX[4:])
    desk.sync()
    assert [len(job.lines) for job in desk.server.batch.jobs.values()] == [4, 2]
    assert (desk.batch, desk.direct) == (sorted(SIX), [])


@pytest.mark.parametrize("states", ["BATCH_STATE", "JOB_STATE"])
@pytest.mark.parametrize("form", ["operation", "batch", "flat"])
def test_gemini_may_tell_of_a_job_in_each_of_its_forms(gemini: Desk, form: str, states: str) -> None:
    gemini.plan(polls_until_done=2, gemini_form=form, gemini_states=states)
    gemini.write(*SIX)
    assert gemini.sync().issues == ()
    assert (gemini.batch, gemini.direct, gemini.kept()) == (sorted(SIX), [], [])


def test_every_request_of_a_job_carries_the_key(desk: Desk) -> None:
    desk.plan(polls_until_done=2)
    desk.write(*SIX)
    desk.sync()
    key = desk.server.key or ""
    assert {one.status for one in desk.server.requests} == {200}
    assert all(
        key in (one.headers.get("x-goog-api-key") or one.headers["authorization"]) for one in desk.server.requests
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
def test_an_output_in_disorder_is_read_all_the_same(desk: Desk, disorder: dict[str, Any]) -> None:
    desk.plan(**disorder)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (desk.batch, desk.direct) == (sorted(SIX), [])
    assert len(set(desk.vectors().values())) == 6


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
def test_texts_that_a_job_leaves_out_are_embedded_directly_and_only_those(desk: Desk, lacking: dict[str, Any]) -> None:
    desk.plan(**lacking)
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert (len(desk.batch), len(desk.direct)) == (4, 2)
    assert sorted(desk.batch + desk.direct) == sorted(SIX)
    assert (len(desk.vectors()), len(desk.made), desk.kept()) == (6, 1, [])


def test_vectors_that_are_none_are_not_taken(desk: Desk) -> None:
    desk.plan(vectors=lambda vectors: [[0.5, 0.5] for _ in vectors])
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert desk.direct == sorted(SIX)
    assert "vectors of 2 numbers instead of 8" in memory.status().batch["lastError"]


def test_a_job_that_is_over_when_it_is_made_is_not_asked_after(desk: Desk) -> None:
    desk.plan(polls_until_done=0)
    desk.write(*SIX)
    desk.sync()
    assert (desk.batch, desk.direct) == (sorted(SIX), [])
    assert all(job.polls == 0 for job in desk.server.batch.jobs.values())


def test_no_more_jobs_are_open_than_may_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FileJobs", "GeminiJobs"):
        monkeypatch.setattr(f"mdrecall.embed.remote.jobs.{name}.most_texts", 2)
    desk.configure(concurrency=2)
    desk.plan(polls_until_done=4)
    desk.write(*WORDS)
    most = 0

    def watch(_: object) -> bool:
        nonlocal most
        most = max(most, sum(not job.over for job in desk.server.batch.jobs.values()))
        return False

    desk.server.faults.add(faults.fine().times(None).when(watch))
    desk.sync()
    assert (most, len(desk.made)) == (2, 5)
    assert (desk.batch, desk.direct) == (sorted(WORDS), [])


@pytest.mark.parametrize("kind", ["mistral", "ollama"])
def test_a_provider_without_jobs_embeds_directly(desk_of: Callable[[Kind], Desk], kind: Kind) -> None:
    desk = desk_of(kind)
    desk.write(*SIX)
    memory = desk.workspace.memory()
    assert desk.sync(memory).issues == ()
    assert (desk.direct, memory.status().batch["enabled"]) == (sorted(SIX), False)


def test_too_few_texts_are_not_worth_a_job(desk: Desk) -> None:
    desk.configure(own={"batchMinChunks": 4})
    desk.write(*SIX[:3])
    desk.sync()
    assert (desk.direct, desk.made) == (sorted(SIX[:3]), [])
    desk.write(*WORDS[3:8])
    desk.sync()
    assert (desk.batch, len(desk.made)) == (sorted(WORDS[3:8]), 1)


def test_without_a_cache_jobs_are_used_just_as_well(desk: Desk) -> None:
    desk.configure(cache=False)
    desk.plan(polls_until_done=2, errors={2: "No."})
    desk.write(*SIX)
    assert desk.sync().issues == ()
    assert sorted(desk.batch + desk.direct) == sorted(SIX)
    assert (len(desk.direct), desk.kept()) == (1, [])


def test_the_same_text_in_two_notes_is_one_line_of_a_job(desk: Desk) -> None:
    desk.workspace.write("memory/a/apple.md", "The apple is here.\n")
    desk.workspace.write("memory/b/apple.md", "The apple is here.\n")
    desk.sync()
    assert (desk.batch, len(desk.vectors())) == (["apple"], 2)


def test_progress_says_how_many_texts_are_done_and_how_long_it_may_take(desk: Desk) -> None:
    desk.plan(polls_until_done=3)
    desk.write(*SIX)
    desk.sync()
    assert f"submitting 6 texts to {desk.server.kind}" in desk.labels
    told = [label for label in desk.labels if "batch job" in label]
    assert told
    for label in told:
        assert re.fullmatch(rf"{desk.server.kind}: 1 batch job, 0 of 6 texts done, at most 60 min left", label), label


def test_progress_reckons_the_time_left_from_what_is_done(openai: Desk) -> None:
    openai.plan(polls_until_done=2)
    openai.write(*SIX)
    half = {"request_counts": {"total": 6, "completed": 3, "failed": 0}}
    openai.server.faults.add(faults.Fault("half", path="GET /v1/batches/*", data=lambda body: body | half))
    openai.sync()
    assert "openai: 1 batch job, 3 of 6 texts done, about 1 min left" in openai.labels
