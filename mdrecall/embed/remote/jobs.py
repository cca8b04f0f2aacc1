"""The providers' batch APIs: upload texts, create a job, poll it, download its results."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from mdrecall.embed.remote.client import RetryPolicy
from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.embed.remote.providers import gemini_content
from mdrecall.errors import EmbedderError, KeyRefused, WrongAnswer
from mdrecall.types import Embedding, EmbedInput, JobState

_ASK = RetryPolicy(seconds=60.0, retries=3)
#: Creating a job may cost money, so it is not repeated before it is known that no job exists.
_ONCE = RetryPolicy(seconds=60.0, retries=0)
#: Files have up to 50,000 texts, some 100 MB, over a line that may be slow.
_UPLOAD = RetryPolicy(seconds=600.0, retries=3)
_DOWNLOAD = RetryPolicy(seconds=1800.0, retries=3)
#: 5,000 jobs; a job of ours is among the newest, and a list without end must not be followed.
_MAX_PAGES = 50
#: The largest number of texts that OpenAI accepts in one job.
_MAX_TEXTS = 50_000


def batch_api_for(embedder: RemoteEmbedder) -> "BatchApi | None":
    """Return the batch API of an embedder's provider; None if it has none."""
    if embedder.provider == "gemini":
        return GeminiJobs(embedder)
    if embedder.provider in ("openai", "voyage"):
        return FileJobs(embedder)
    return None


class FileJobs:
    """``/files`` and ``/batches``, the batch API of OpenAI and Voyage."""

    most_texts = _MAX_TEXTS

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self._embedder = embedder
        self._client = embedder.client
        self._is_voyage = embedder.provider == "voyage"

    def upload(self, tag: str, passages: Mapping[str, EmbedInput]) -> str:
        """Upload texts by name, and return the provider's name for the upload."""
        lines = "".join(
            _line(self._request(name, self._embedder.render_text(passage))) for name, passage in passages.items()
        )
        boundary = f"mdrecall{os.urandom(12).hex()}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="memory-embeddings.{tag}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + lines.encode("utf-8", "replace") + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        answer = self._client.parse_json(self._client.send("POST", "/files", body, headers, policy=_UPLOAD))
        return _text(answer, "id") or _missing(self._embedder, "file id")

    def create(self, tag: str, file: str) -> JobState:
        body: dict[str, Any] = {
            "input_file_id": file,
            "endpoint": "/v1/embeddings",
            "completion_window": "12h" if self._is_voyage else "24h",
            "metadata": {"source": "mdrecall", "tag": tag},
        }
        if self._is_voyage:
            input_type = self._embedder.make_request([]).input_type or "document"
            params: dict[str, Any] = {"model": self._embedder.model, "input_type": input_type}
            if self._embedder.requested_dimensions:
                params["output_dimension"] = self._embedder.requested_dimensions
            body["request_params"] = params
        return self._parse_state(self._client.request_json("POST", "/batches", body, policy=_ONCE))

    def find(self, tag: str, file: str) -> JobState | None:
        """Return the job that was created of an upload, in case the answer to its creation was lost."""
        for entry in self._list_jobs():
            if isinstance(entry, dict) and (entry.get("input_file_id") == file or _tag(entry) == tag):
                return self._parse_state(entry)
        return None

    def _list_jobs(self) -> Iterator[Any]:
        """Yield the account's jobs, the newest first."""
        after = ""
        for _ in range(_MAX_PAGES):
            page = self._client.request_json("GET", f"/batches?limit=100{after}", policy=_ASK)
            entries = _list(self._embedder, page, "data")
            yield from entries
            last = _text(entries[-1], "id") if entries else ""
            if not last or page.get("has_more") is not True:
                return
            after = f"&after={quote(last, safe='')}"

    def state(self, job: str) -> JobState:
        return self._parse_state(self._client.request_json("GET", f"/batches/{quote(job, safe='')}", policy=_ASK))

    def results(self, state: JobState) -> Iterator[tuple[str, Embedding | str]]:
        """Yield the result of each text by its name: its embedding, or why there is none."""
        for file in state.outputs:
            for line in self._client.stream_lines(f"/files/{quote(file, safe='')}/content", policy=_DOWNLOAD):
                yield from _result(self._embedder, line, ("custom_id",), _openai_row)

    def cancel(self, job: str) -> None:
        self._client.request_json("POST", f"/batches/{quote(job, safe='')}/cancel", {}, policy=_ASK)

    def _request(self, name: str, text: str) -> dict[str, Any]:
        if self._is_voyage:
            return {"custom_id": name, "body": {"input": [text]}}
        request = self._embedder.make_request([text])
        body = self._embedder.shape.build(request).body | {"input": text}
        return {"custom_id": name, "method": "POST", "url": "/v1/embeddings", "body": body}

    def _parse_state(self, answer: Any) -> JobState:
        job = _text(answer, "id") or _missing(self._embedder, "job id")
        status = str(answer.get("status") or "")
        counts = answer.get("request_counts")
        counts = counts if isinstance(counts, dict) else {}
        outputs = tuple(found for name in ("output_file_id", "error_file_id") if (found := _text(answer, name)))
        state = JobState(job, "running", _number(counts, "completed"), _number(counts, "total"))
        if status == "completed":
            return state._replace(status="done", outputs=outputs)
        if status in ("failed", "expired", "cancelled", "canceled"):
            return state._replace(status="failed", outputs=outputs, error=_failure_reason(answer, status))
        return state


class GeminiJobs:
    """Uploaded files and ``asyncBatchEmbedContent``, the batch API of Gemini."""

    most_texts = _MAX_TEXTS

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self._embedder = embedder
        self._client = embedder.client

    def upload(self, tag: str, passages: Mapping[str, EmbedInput]) -> str:
        lines = "".join(
            _line(self._request(name, self._embedder.render_text(passage))) for name, passage in passages.items()
        )
        boundary = f"mdrecall{os.urandom(12).hex()}"
        about = json.dumps({"file": {"displayName": f"memory-embeddings.{tag}", "mimeType": "application/jsonl"}})
        body = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}\r\n"
            f"--{boundary}\r\nContent-Type: application/jsonl\r\n\r\n{lines}\r\n--{boundary}--\r\n"
        )
        headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
        path = self._root_url("upload", "/files?uploadType=multipart")
        reply = self._client.send("POST", path, body.encode("utf-8", "replace"), headers, policy=_UPLOAD)
        answer = self._client.parse_json(reply)
        found = answer.get("file") if isinstance(answer, dict) else None
        return _text(found, "name") or _text(answer, "name") or _missing(self._embedder, "file name")

    def create(self, tag: str, file: str) -> JobState:
        body = {"batch": {"displayName": tag, "inputConfig": {"file_name": file}}}
        path = f"/models/{self._embedder.model}:asyncBatchEmbedContent"
        return self._parse_state(self._client.request_json("POST", path, body, policy=_ONCE))

    def find(self, tag: str, file: str) -> JobState | None:
        for entry in self._list_jobs():
            about = _about(entry)
            if about.get("displayName") == tag or about.get("display_name") == tag:
                return self._parse_state(entry)
        return None

    def _list_jobs(self) -> Iterator[Any]:
        """Yield the account's jobs, the newest first."""
        token = ""
        for _ in range(_MAX_PAGES):
            page = self._client.request_json("GET", f"/batches?pageSize=100{token}", policy=_ASK)
            yield from _list(self._embedder, page, "operations", "batches", default=[])
            if not (found := _text(page, "nextPageToken")):
                return
            token = f"&pageToken={quote(found, safe='')}"

    def state(self, job: str) -> JobState:
        return self._parse_state(self._client.request_json("GET", f"/{_below('batches', job)}", policy=_ASK))

    def results(self, state: JobState) -> Iterator[tuple[str, Embedding | str]]:
        for file in state.outputs:
            try:
                yield from self._download_results(f"/{_below('files', file)}:download?alt=media")
            except KeyRefused as error:
                # Gemini answers 403 for a file that no longer exists. If the key is at fault, this request fails too.
                self.state(state.id)
                raise WrongAnswer(str(error)) from error

    def cancel(self, job: str) -> None:
        self._client.request_json("POST", f"/{_below('batches', job)}:cancel", {}, policy=_ASK)

    def _download_results(self, path: str) -> Iterator[tuple[str, Embedding | str]]:
        """Yield the results in a file; some servers offer downloads at a separate address."""
        names = ("key", "custom_id", "request_id")
        for url in (path, self._root_url("download", path)):
            try:
                for line in self._client.stream_lines(url, policy=_DOWNLOAD):
                    yield from _result(self._embedder, line, names, _gemini_row)
                return
            except (WrongAnswer, KeyRefused):
                if url != path:
                    raise

    def _root_url(self, what: str, path: str) -> str:
        """Return an address of the same server with a word before the API version."""
        base = urlsplit(self._client.endpoint.url)
        return f"{base.scheme}://{base.netloc}/{what}{base.path.rstrip('/')}{path}"

    def _request(self, name: str, text: str) -> dict[str, Any]:
        request = self._embedder.make_request([text])
        return {"key": name, "request": {"model": f"models/{request.model}", **gemini_content(request, text)}}

    def _parse_state(self, answer: Any) -> JobState:
        job = _text(answer, "name") or _missing(self._embedder, "job name")
        about = _about(answer)
        status = str(about.get("state") or answer.get("state") or "").rpartition("STATE_")[2].upper()
        stats = about.get("batchStats")
        stats = stats if isinstance(stats, dict) else {}
        total, left = _number(stats, "requestCount"), _number(stats, "pendingRequestCount")
        state = JobState(job, "running", max(0, total - left), total)
        error = answer.get("error")
        if status in ("SUCCEEDED", "COMPLETED", "DONE") or (answer.get("done") is True and not error):
            return state._replace(status="done", outputs=_gemini_outputs(answer))
        if error or status in ("FAILED", "CANCELLED", "CANCELED", "EXPIRED"):
            reason = _text(error, "message") or status.lower()
            return state._replace(status="failed", outputs=_gemini_outputs(answer), error=reason)
        return state


#: What embeds many texts for less money and without a deadline.
BatchApi: TypeAlias = FileJobs | GeminiJobs


def _result(
    embedder: RemoteEmbedder, line: bytes, names: tuple[str, ...], row: Any
) -> Iterator[tuple[str, Embedding | str]]:
    """Yield the result in one line of an output; an unreadable line is skipped, and its text is embedded again."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return
    name = next((found for known in names if (found := _text(entry, known))), "")
    if not name:
        return
    numbers, problem = row(entry)
    if problem:
        yield name, problem
        return
    try:
        yield name, Embedding(embedder.to_vector(numbers))
    except EmbedderError as error:
        yield name, str(error)


def _openai_row(entry: dict[str, Any]) -> tuple[Any, str]:
    response = entry.get("response")
    response = response if isinstance(response, dict) else {}
    body = response.get("body")
    body = body if isinstance(body, dict) else {}
    if problem := _text(entry.get("error"), "message") or _text(body.get("error"), "message"):
        return None, problem
    if _number(response, "status_code") >= 400:
        return None, _text(body, "detail") or f"status {response['status_code']}"
    data = body.get("data")
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    return first.get("embedding"), ""


def _gemini_row(entry: dict[str, Any]) -> tuple[Any, str]:
    response = entry.get("response")
    response = response if isinstance(response, dict) else entry
    for error in (entry.get("error"), response.get("error")):
        if isinstance(error, dict):
            return None, _text(error, "message") or "an error without a message"
    found = response.get("embedding") or entry.get("embedding")
    return (found.get("values") if isinstance(found, dict) else None), ""


def _gemini_outputs(answer: dict[str, Any]) -> tuple[str, ...]:
    """Return the file with the results, wherever the answer has its name."""
    for part in (answer.get("response"), answer.get("metadata"), answer):
        part = part if isinstance(part, dict) else {}
        for place in (part.get("output"), part.get("outputConfig"), part.get("dest"), part):
            for name in ("responsesFile", "file", "fileId", "fileName"):
                if found := _text(place, name):
                    return (found,)
    return ()


def _about(entry: Any) -> dict[str, Any]:
    """Return the description of a job: the operation's metadata, or the answer itself."""
    entry = entry if isinstance(entry, dict) else {}
    found = entry.get("metadata")
    return {**entry, **found} if isinstance(found, dict) else entry


def _below(folder: str, name: str) -> str:
    return f"{folder}/{quote(name.removeprefix(folder + '/'), safe='')}"


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def _tag(entry: dict[str, Any]) -> str:
    return _text(entry.get("metadata"), "tag")


def _failure_reason(answer: dict[str, Any], status: str) -> str:
    errors = answer.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else errors
    first = listed[0] if isinstance(listed, list) and listed else {}
    return _text(first, "message") or status


def _text(entry: Any, name: str) -> str:
    found = entry.get(name) if isinstance(entry, dict) else None
    return found if isinstance(found, str) else ""


def _list(embedder: RemoteEmbedder, answer: Any, *names: str, default: list[Any] | None = None) -> list[Any]:
    """Return the list in an answer, or ``default`` if it is missing; raise ``WrongAnswer`` if there is neither."""
    found = next((answer[name] for name in names if name in answer), default) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise embedder.client.wrong_answer("it has no list of jobs")
    return found


def _number(entry: dict[str, Any], name: str) -> int:
    try:
        return int(entry.get(name) or 0)
    except (TypeError, ValueError):
        return 0


def _missing(embedder: RemoteEmbedder, what: str) -> str:
    raise embedder.client.wrong_answer(f"it has no {what}")
