"""Batch jobs go as the providers' documentation says, and go wrong as the test's plan says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.providers import faults
from tests.providers.batch import Plan
from tests.providers.client import Client, Seen, form
from tests.providers.server import Kind, ProviderServer
from tests.providers.vectors import vector

TEXTS = ("one", "two", "three")
BOTH: list[Kind] = ["openai", "voyage"]


@pytest.fixture(params=BOTH)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with ProviderServer(request.param, dimensions=4) as server, Client(server) as client:
        yield client


@pytest.fixture
def gemini() -> Iterator[Client]:
    with ProviderServer("gemini", dimensions=4) as server, Client(server) as client:
        yield client


def line(client: Client, at: int, text: str) -> Any:
    if client.server.kind == "gemini":
        return {
            "key": f"id-{at}",
            "request": {"content": {"parts": [{"text": text}]}, "task_type": "RETRIEVAL_DOCUMENT"},
        }
    if client.server.kind == "voyage":
        return {"custom_id": f"id-{at}", "body": {"input": text}}
    body = {"model": "text-embedding-3-small", "input": text}
    return {"custom_id": f"id-{at}", "method": "POST", "url": "/v1/embeddings", "body": body}


def jsonl(client: Client) -> bytes:
    return b"".join(json.dumps(line(client, at, text)).encode() + b"\n" for at, text in enumerate(TEXTS))


def upload(client: Client, content: bytes | None = None) -> str:
    content = jsonl(client) if content is None else content
    if client.server.kind == "gemini":
        told = ("Content-Type: application/json", b'{"file": {"displayName": "notes"}}')
        body, kind = form(told, ("Content-Type: application/jsonl", content), kind="related")
        seen = client.call("POST", "//upload/v1beta/files?uploadType=multipart", body, client.keys | kind)
        return str(seen.body["file"]["name"])
    purpose = ('Content-Disposition: form-data; name="purpose"', b"batch")
    file = ('Content-Disposition: form-data; name="file"; filename="notes.jsonl"', content)
    body, kind = form(purpose, file)
    seen = client.call("POST", "/files", body, client.keys | kind)
    assert (seen.body["filename"], seen.body["bytes"]) == ("notes.jsonl", len(content))
    return str(seen.body["id"])


def create(client: Client, file: str) -> Seen:
    if client.server.kind == "gemini":
        batch = {"displayName": "notes", "inputConfig": {"file_name": file}}
        return client.call("POST", "/models/gemini-embedding-001:asyncBatchEmbedContent", {"batch": batch})
    body: dict[str, Any] = {"input_file_id": file, "endpoint": "/v1/embeddings", "metadata": {"source": "notes"}}
    body["completion_window"] = "24h" if client.server.kind == "openai" else "12h"
    if client.server.kind == "voyage":
        body["request_params"] = {"model": "voyage-4", "input_type": "document"}
    return client.call("POST", "/batches", body)


def made(client: Client, **plan: Any) -> str:
    """The id of a job that is just created."""
    client.server.batch.plan = Plan(**plan)
    body = create(client, upload(client)).body
    return str(body.get("id") or body["name"])


def poll(client: Client, job: str) -> Any:
    return client.call("GET", f"/{job}" if "/" in job else f"/batches/{job}").body


def content(client: Client, file: str) -> list[bytes]:
    path = f"/{file}:download?alt=media" if "/" in file else f"/files/{file}/content"
    client.http.request("GET", client.base.path + path, headers=client.keys)
    answer = client.http.getresponse()
    assert answer.status == 200
    return answer.read().splitlines()


def found(lines: list[bytes]) -> dict[str, Any]:
    """The vectors by their ids."""
    told = [json.loads(one) for one in lines]
    return {one["custom_id"]: one["response"]["body"]["data"][0]["embedding"] for one in told}


ALL = {f"id-{at}": vector(text, 4) for at, text in enumerate(TEXTS)}


def test_a_job_goes_through_its_states_and_has_all_vectors(client: Client) -> None:
    job = made(client, polls_until_done=4)
    seen = [poll(client, job) for _ in range(5)]
    assert [one["status"] for one in seen] == ["validating", "in_progress", "finalizing", "completed", "completed"]
    assert seen[-1]["request_counts"] == {"total": 3, "completed": 3, "failed": 0}
    assert (seen[2]["output_file_id"], seen[-1]["error_file_id"], seen[-1]["object"]) == (None, None, "batch")
    assert found(content(client, seen[-1]["output_file_id"])) == ALL
    assert client.server.embedded_texts("batch") == list(TEXTS)
    assert client.server.embedded_texts("direct") == []


def test_times_are_seconds_or_dates() -> None:
    for kind, type_ in (("openai", int), ("voyage", str)):
        with ProviderServer(kind) as server, Client(server) as client:  # type: ignore[arg-type]
            assert isinstance(poll(client, made(client))["created_at"], type_)


def test_a_job_can_be_over_when_it_is_created(client: Client) -> None:
    client.server.batch.plan = Plan(polls_until_done=0, blank_ids=True)
    seen = create(client, upload(client)).body
    assert (seen["status"], seen["error_file_id"]) == ("completed", "")


def test_the_test_ends_the_job(client: Client) -> None:
    job, other, late = (made(client, polls_until_done=None) for _ in range(3))
    assert {poll(client, job)["status"] for _ in range(9)} == {"in_progress"}
    client.server.batch.finish_job(job)
    client.server.batch.fail_job(other, "Too bad.")
    client.server.batch.expire_job(late, done=1)
    assert [poll(client, id)["status"] for id in (job, other, late)] == ["completed", "failed", "expired"]
    assert poll(client, other)["errors"]["data"][0]["message"] == "Too bad."


def test_what_an_expired_job_has_done_is_in_the_output(client: Client) -> None:
    job = made(client, polls_until_done=None)
    client.server.batch.expire_job(job, done=2)
    seen = poll(client, job)
    assert seen["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert found(content(client, seen["output_file_id"])).keys() == {"id-0", "id-1"}
    (error,) = map(json.loads, content(client, seen["error_file_id"]))
    assert (error["custom_id"], error["response"], error["error"]["code"]) == ("id-2", None, "batch_expired")
    assert client.server.embedded_texts() == ["one", "two"]


def test_lines_can_fail_or_be_missing(client: Client) -> None:
    seen = poll(client, made(client, missing=[0], errors={1: "No."}))
    assert found(content(client, seen["output_file_id"])).keys() == {"id-2"}
    (error,) = map(json.loads, content(client, seen["error_file_id"]))
    assert (error["custom_id"], error["response"]["status_code"]) == ("id-1", 400)
    assert "No." in str(error["response"]["body"])
    assert client.server.embedded_texts() == ["three"]


def test_an_output_can_be_in_disorder(client: Client) -> None:
    job = made(client, shuffled=True, duplicated=[0], garbage=[b"{", b""], errors={2: "No."}, errors_in_output=True)
    lines = content(client, poll(client, job)["output_file_id"])
    assert lines[:2] == [b"{", b""]
    assert sorted(json.loads(one)["custom_id"] for one in lines[2:]) == ["id-0", "id-0", "id-1", "id-2"]
    assert [json.loads(one)["custom_id"] for one in lines[2:]] != ["id-0", "id-1", "id-2", "id-0"]


def test_an_output_can_be_gone(client: Client) -> None:
    seen = poll(client, made(client, no_output=True))
    assert client.call("GET", f"/files/{seen['output_file_id']}/content").status == 404


def test_a_bad_file_makes_a_failed_job(client: Client) -> None:
    for bad in (b"", b"{\n", jsonl(client) * 2):
        seen = create(client, upload(client, bad)).body
        assert (seen["status"], seen["errors"]["object"]) == ("failed", "list")


def test_a_job_whose_creation_was_lost_is_found_in_the_list(client: Client) -> None:
    file = upload(client)
    client.server.faults.add(faults.answer_lost().on("POST /v1/batches"), faults.rate_limited().on("POST /v1/batches"))
    with pytest.raises(ConnectionResetError):
        create(client, file)
    client.http.close()
    assert create(client, file).status == 429
    (job,) = client.call("GET", "/batches").body["data"]
    assert (job["input_file_id"], job["metadata"]) == (file, {"source": "notes"})


def test_lists_have_pages(client: Client) -> None:
    jobs = [made(client) for _ in range(3)]
    first = client.call("GET", "/batches?limit=2").body
    second = client.call("GET", f"/batches?limit=2&after={first['last_id']}").body
    assert [one["id"] for one in first["data"] + second["data"]] == jobs[::-1]
    assert (first["has_more"], second["has_more"]) == (True, False)


def test_a_cancelled_job_takes_a_moment(client: Client) -> None:
    job = made(client, polls_until_done=None)
    assert client.call("POST", f"/batches/{job}/cancel").body["status"] == "cancelling"
    assert poll(client, job)["status"] == "cancelled"
    assert client.server.embedded_texts() == []


def test_files_are_kept_until_they_are_deleted(client: Client) -> None:
    file = upload(client)
    assert [one["id"] for one in client.call("GET", "/files").body["data"]] == [file]
    assert client.call("GET", f"/files/{file}").body["purpose"] == "batch"
    assert client.call("DELETE", f"/files/{file}").body["deleted"]
    assert client.call("GET", f"/files/{file}").status == 404
    assert create(client, file).status == 400
    assert client.call("GET", "/batches/batch_9").status == 404


@pytest.mark.parametrize("kind", ["openai", "voyage", "gemini"])
def test_nothing_about_batches_is_told_without_the_key(kind: Kind) -> None:
    with ProviderServer(kind) as server, Client(server) as client:
        job, file = made(client), upload(client)
        calls = [("GET", "/batches"), ("POST", "/files"), ("POST", "/batches"), ("GET", f"/{job}"), ("GET", f"/{file}")]
        calls += [("POST", "//upload/v1beta/files"), ("POST", "/models/gemini-embedding-001:asyncBatchEmbedContent")]
        calls += [("GET", f"/batches/{job}"), ("GET", f"/files/{file}/content"), ("GET", f"/{file}:download?alt=media")]
        refused = 403 if kind == "gemini" else 401
        assert {client.call(method, path, b"", {}).status for method, path in calls} == {refused}


@pytest.mark.parametrize("states", ["BATCH_STATE", "JOB_STATE"])
def test_gemini_tells_of_an_operation(gemini: Client, states: str) -> None:
    job = made(gemini, polls_until_done=2, gemini_states=states)
    first, second = poll(gemini, job), poll(gemini, job)
    assert (first["metadata"]["state"], first.get("done")) == (f"{states}_RUNNING", None)
    assert first["metadata"]["batchStats"] == {"requestCount": "3", "pendingRequestCount": "3"}
    assert (second["metadata"]["state"], second["done"]) == (f"{states}_SUCCEEDED", True)
    assert second["response"]["responsesFile"] == second["metadata"]["output"]["responsesFile"]
    lines = [json.loads(one) for one in content(gemini, second["response"]["responsesFile"])]
    assert {one["key"]: one["response"]["embedding"]["values"] for one in lines} == ALL


def test_gemini_tells_of_a_batch_or_of_less(gemini: Client) -> None:
    batch = poll(gemini, made(gemini, gemini_form="batch"))
    assert (batch["state"], batch["displayName"]) == ("BATCH_STATE_SUCCEEDED", "notes")
    assert content(gemini, batch["output"]["responsesFile"])
    flat = poll(gemini, made(gemini, gemini_form="flat"))
    assert (flat["state"], len(content(gemini, flat["outputConfig"]["file"]))) == ("BATCH_STATE_SUCCEEDED", 3)


def test_gemini_jobs_fail_expire_and_are_cancelled(gemini: Client) -> None:
    failed, expired, cancelled = (made(gemini, polls_until_done=None) for _ in range(3))
    gemini.server.batch.fail_job(failed, "Too bad.")
    gemini.server.batch.expire_job(expired)
    assert gemini.call("POST", f"/{cancelled}:cancel").body == {}
    seen = [poll(gemini, job) for job in (failed, expired, cancelled)]
    assert [one["metadata"]["state"][12:] for one in seen] == ["FAILED", "EXPIRED", "CANCELLED"]
    assert seen[0]["error"] == {"code": 13, "message": "Too bad."}


def test_gemini_lines_can_fail(gemini: Client) -> None:
    seen = poll(gemini, made(gemini, errors={1: "No."}, errors_in_output=True))
    lines = {one["key"]: one for one in map(json.loads, content(gemini, seen["response"]["responsesFile"]))}
    assert lines["id-1"]["error"]["message"] == "No."
    assert gemini.server.embedded_texts("batch") == ["one", "three"]


def test_geminis_lost_jobs_are_found_in_the_list(gemini: Client) -> None:
    file = upload(gemini)
    gemini.server.faults.add(faults.answer_lost().on("*:asyncBatchEmbedContent"))
    with pytest.raises(ConnectionResetError):
        create(gemini, file)
    gemini.http.close()
    create(gemini, file)
    first = gemini.call("GET", "/batches?pageSize=1").body
    (job,) = gemini.call("GET", f"/batches?pageSize=1&pageToken={first['nextPageToken']}").body["operations"]
    assert job["metadata"]["inputConfig"] == {"fileName": file}


def test_gemini_says_what_is_wrong(gemini: Client) -> None:
    path = "/models/gemini-embedding-001:asyncBatchEmbedContent"
    assert gemini.call("POST", path, {"batch": {"displayName": "x"}}).status == 404
    assert gemini.call("POST", path, {"batch": {}}).status == 400
    assert gemini.call("POST", "//upload/v1beta/files", b"x").status == 400
    assert gemini.call("GET", "/batches/none").status == 404
    assert gemini.call("GET", "/files/none:download?alt=media").status == 403
    seen = poll(gemini, made(gemini, no_output=True))
    assert gemini.call("GET", f"/{seen['response']['responsesFile']}:download?alt=media").status == 403
