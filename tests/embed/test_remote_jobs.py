"""Batch jobs over the wire: what is sent to each provider, and what its answers mean."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mdrecall.embed.remote.client import Endpoint
from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.embed.remote.jobs import BatchApi, batch_api_for
from mdrecall.embed.remote.providers import PROVIDERS
from mdrecall.errors import KeyRefused, WrongAnswer
from mdrecall.types.documents import EmbedInput, JobState, Secret
from tests.providers import faults
from tests.providers.multipart import parts
from tests.providers.server import Kind, ProviderServer
from tests.providers.wire import Reply

PASSAGES = {"01": EmbedInput("Fruit", "An apple.\u2028Or “two” 🍎."), "02": EmbedInput("", "A bridge.")}


class Line:
    """A provider, and what talks to it about jobs."""

    def __init__(self, server: ProviderServer, dimensions: int | None = None, key: str = "") -> None:
        self.server = server
        row = PROVIDERS[server.kind]
        address = Endpoint(row.name, server.url, Secret(key or server.key or ""))
        self.embedder = RemoteEmbedder(row, "", address, dimensions=dimensions)

    @property
    def api(self) -> BatchApi:
        found = batch_api_for(self.embedder)
        assert found
        return found

    def made(self) -> JobState:
        return self.api.create("tag", self.api.upload("tag", PASSAGES))

    def lines(self) -> list[Any]:
        """What was uploaded last."""
        (name,) = list(self.server.batch.files)[-1:]
        return [json.loads(line) for line in self.server.batch.files[name].content.split(b"\n") if line.strip()]


@pytest.fixture
def line_of() -> Iterator[Callable[..., Line]]:
    opened: list[Line] = []

    def make(kind: Kind, **more: Any) -> Line:
        opened.append(Line(ProviderServer(kind, dimensions=4), **more))
        return opened[-1]

    yield make
    for line in opened:
        line.embedder.close()
        with line.server:
            pass


@pytest.fixture(params=["openai", "voyage", "gemini"])
def line(line_of: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    found = line_of(request.param)
    assert isinstance(found, Line)
    return found


def test_openai_gets_whole_requests_and_24_hours(line_of: Callable[..., Line]) -> None:
    line = line_of("openai", dimensions=3)
    line.made()
    text = line.embedder.render_text(PASSAGES["01"])
    first, second = line.lines()
    body = {"model": "text-embedding-3-small", "input": text, "dimensions": 3}
    assert first["body"].items() >= body.items()
    assert (first["custom_id"], first["method"], first["url"]) == ("01", "POST", "/v1/embeddings")
    assert (second["custom_id"], second["body"]["input"]) == ("02", "A bridge.")
    assert line.server.requests[-1].body == {
        "input_file_id": next(iter(line.server.batch.files)),
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
        "metadata": {"source": "mdrecall", "tag": "tag"},
    }


def test_voyage_gets_texts_and_12_hours_and_is_told_the_model_once(line_of: Callable[..., Line]) -> None:
    line = line_of("voyage", dimensions=256)
    line.made()
    assert line.lines()[1] == {"custom_id": "02", "body": {"input": ["A bridge."]}}
    created = line.server.requests[-1].body
    assert created["completion_window"] == "12h"
    params = {"model": "voyage-4-large", "input_type": "document", "output_dimension": 256}
    assert created["request_params"] == params


def test_gemini_gets_whole_requests_under_keys(line_of: Callable[..., Line]) -> None:
    line = line_of("gemini", dimensions=3)
    line.made()
    _, second = line.lines()
    assert (second["key"], second["request"]["model"]) == ("02", "models/gemini-embedding-001")
    assert second["request"]["content"]["parts"] == [{"text": "A bridge."}]
    assert second["request"]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert second["request"]["outputDimensionality"] == 3
    upload, created = line.server.requests
    assert (upload.path, upload.query) == ("/upload/v1beta/files", {"uploadType": "multipart"})
    assert created.path == "/v1beta/models/gemini-embedding-001:asyncBatchEmbedContent"
    file = next(iter(line.server.batch.files))
    assert created.body == {"batch": {"displayName": "tag", "inputConfig": {"file_name": file}}}


def test_a_file_says_whose_it_is(line: Line) -> None:
    line.api.upload("tag", PASSAGES)
    (request,) = line.server.requests
    found = parts(request.headers["content-type"], request.raw)
    if line.server.kind == "gemini":
        told = {"file": {"displayName": "memory-embeddings.tag", "mimeType": "application/jsonl"}}
        assert json.loads(found[0].content) == told
    else:
        assert [(part.name, part.filename) for part in found][1:] == [("file", "memory-embeddings.tag.jsonl")]
        assert (found[0].name, found[0].content) == ("purpose", b"batch")


def test_a_job_is_known_by_its_tag_or_not_at_all(line: Line) -> None:
    made = line.made()
    found = line.api.find("tag", "no such file")
    assert found
    assert found.id == made.id
    assert line.api.find("another", "no such file") is None


def test_a_list_of_jobs_that_is_none_is_not_taken_for_an_empty_one(line: Line) -> None:
    line.made()
    bodies: list[Any] = [[], "x", {"data": 3, "operations": 3}]
    line.server.faults.add(*(faults.wrong_shape(body) for body in bodies))
    for _ in bodies:
        with pytest.raises(WrongAnswer, match="it has no list of jobs"):
            line.api.find("tag", "")


@pytest.mark.parametrize("ask", ["upload", "create", "find", "state", "cancel"])
def test_without_the_right_key_nothing_is_done(line_of: Callable[..., Line], ask: str) -> None:
    api = line_of("gemini", key="AIza-wrong").api
    calls: dict[str, Callable[[], object]] = {
        "upload": lambda: api.upload("tag", PASSAGES),
        "create": lambda: api.create("tag", "files/0"),
        "find": lambda: api.find("tag", "files/0"),
        "state": lambda: api.state("batches/0"),
        "cancel": lambda: api.cancel("batches/0"),
    }
    with pytest.raises(KeyRefused) as refused:
        calls[ask]()
    assert "AIza-wrong" not in str(refused.value)


OPENAI_STATES = {
    "running": ("validating", "in_progress", "finalizing", "cancelling", "a state of next year"),
    "done": ("completed",),
    "failed": ("failed", "expired", "cancelled", "canceled"),
}
GEMINI_STATES = {
    "running": ("PENDING", "RUNNING", "UNSPECIFIED"),
    "done": ("SUCCEEDED", "COMPLETED", "DONE"),
    "failed": ("FAILED", "EXPIRED", "CANCELLED", "CANCELED"),
}


def each_state(states: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(said, meant) for meant, names in states.items() for said in names]


@pytest.mark.parametrize(("said", "meant"), each_state(OPENAI_STATES))
def test_the_states_of_openai(line_of: Callable[..., Line], said: str, meant: str) -> None:
    line = line_of("openai")
    counts = {"total": "7", "completed": 3}
    body = {"id": "b", "status": said, "request_counts": counts, "output_file_id": "o", "error_file_id": ""}
    line.server.faults.add(faults.Fault("told", reply=lambda _: Reply(200, body)))
    state = line.api.state("b")
    assert (state.id, state.status, state.completed, state.total) == ("b", meant, 3, 7)
    assert state.outputs == (() if meant == "running" else ("o",))
    assert state.error == (said if meant == "failed" else "")


WHERE: list[dict[str, Any]] = [
    {"outputConfig": {"file": "files/o"}},
    {"outputConfig": {"fileId": "files/o"}},
    {"metadata": {"output": {"responsesFile": "files/o"}}},
    {"response": {"responsesFile": "files/o"}},
]


@pytest.mark.parametrize("prefix", ["", "BATCH_STATE_", "JOB_STATE_"])
@pytest.mark.parametrize(("said", "meant"), each_state(GEMINI_STATES))
def test_the_states_of_gemini(line_of: Callable[..., Line], said: str, meant: str, prefix: str) -> None:
    line = line_of("gemini")
    body = {"name": "batches/b", "state": prefix + said, **WHERE[len(said) % len(WHERE)]}
    line.server.faults.add(faults.Fault("told", reply=lambda _: Reply(200, body)))
    state = line.api.state("batches/b")
    assert (state.id, state.status) == ("batches/b", meant)
    assert state.outputs == (() if meant == "running" else ("files/o",))


def test_an_output_may_be_longer_than_any_other_answer(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    state = line.api.state(line.made().id)
    monkeypatch.setattr("mdrecall.embed.remote.transport._MAX_BYTES", 10)
    assert [name for name, _ in line.api.results(state)] == ["01", "02"]


def test_a_line_without_end_is_not_waited_for(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.embed.remote.client._MAX_LINE_BYTES", 1 << 20)
    state = line.api.state(line.made().id)
    line.server.faults.add(faults.endless_body().times(None))
    with pytest.raises(WrongAnswer, match="a line is longer"):
        list(line.api.results(state))


def test_gemini_may_have_files_at_an_address_of_their_own(line_of: Callable[..., Line]) -> None:
    line = line_of("gemini")
    state = line.api.state(line.made().id)
    line.server.faults.add(faults.error(404).on("GET /v1beta/files/*"))
    assert [name for name, _ in line.api.results(state)] == ["01", "02"]
    assert line.server.requests[-1].path.startswith("/download/v1beta/files/")
