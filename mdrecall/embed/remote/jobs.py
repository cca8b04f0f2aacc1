"""The providers' batch APIs: upload texts, create a job, poll it, download its results."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from mdrecall.embed.remote.client import RetryPolicy
from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.embed.remote.providers import PROVIDERS, gemini_content
from mdrecall.errors import EmbedderError, KeyRefused, WrongAnswer
from mdrecall.types.documents import Embedding, EmbedInput, JobState

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
_MakeLine: TypeAlias = Callable[[str, str], dict[str, Any]]


def batch_api_for(embedder: RemoteEmbedder) -> "BatchApi | None":
    """Return the batch API of an embedder's provider; None if it has none."""
    if embedder.provider == "gemini":
        return GeminiJobs(embedder)
    if embedder.provider in ("openai", "voyage"):
        return FileJobs(embedder)
    return None


class _Jobs:
    """Everything that is the same in all batch APIs."""

    most_texts = _MAX_TEXTS

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self._embedder = embedder
        self._client = embedder.client
        self._is_voyage = embedder.provider == "voyage"

    def _render_lines(self, passages: Mapping[str, EmbedInput], make: _MakeLine) -> bytes:
        texts = {name: self._embedder.render_text(passage) for name, passage in passages.items()}
        lines = (json.dumps(make(name, text), ensure_ascii=False) + "\n" for name, text in texts.items())
        return "".join(lines).encode("utf-8", "replace")

    def _list_jobs(self, path: str, read_page: Callable[[Any], tuple[Any, str]]) -> Iterator[Any]:
        """Yield the account's jobs, the newest first; ``read_page`` returns those of a page and the next query."""
        after = ""
        for _ in range(_MAX_PAGES):
            found, after = read_page(self._client.request_json("GET", path + after, policy=_ASK))
            if not isinstance(found, list):
                raise self._client.wrong_answer("it has no list of jobs")
            yield from found
            if not after:
                return

    def _require_text(self, answer: Any, what: str, name: str) -> str:
        if found := _text(answer, name):
            return found
        raise self._client.wrong_answer(f"it has no {what}")


class FileJobs(_Jobs):
    """``/files`` and ``/batches``, the batch API of OpenAI and Voyage."""

    def upload(self, tag: str, passages: Mapping[str, EmbedInput]) -> str:
        """Upload texts by name, and return the provider's name for the upload."""
        file_head = f'Content-Disposition: form-data; name="file"; filename="memory-embeddings.{tag}.jsonl"'
        lines = self._render_lines(passages, self._make_line)
        body, kind = _join_parts(
            "form-data",
            ('Content-Disposition: form-data; name="purpose"', b"batch"),
            (f"{file_head}\r\nContent-Type: application/jsonl", lines),
        )
        answer = self._client.send("POST", "/files", body, kind, policy=_UPLOAD)
        return self._require_text(answer, "file id", "id")

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
        for entry in self._list_jobs("/batches?limit=100", self._read_page):
            if _text(entry, "input_file_id") == file or _text(entry, "metadata", "tag") == tag:
                return self._parse_state(entry)
        return None

    def _read_page(self, page: Any) -> tuple[Any, str]:
        entries = _find(page, "data")
        last = _text(entries[-1], "id") if isinstance(entries, list) and entries else ""
        return entries, f"&after={quote(last, safe='')}" if last and page.get("has_more") is True else ""

    def state(self, job: str) -> JobState:
        return self._parse_state(self._client.request_json("GET", f"/batches/{quote(job, safe='')}", policy=_ASK))

    def results(self, state: JobState) -> Iterator[tuple[str, Embedding | str]]:
        """Yield the result of each text by its name: its embedding, or why there is none."""
        for file in state.outputs:
            for line in self._client.stream_lines(f"/files/{quote(file, safe='')}/content", policy=_DOWNLOAD):
                yield from _read_result(self._embedder, line, ("custom_id",), _openai_row)

    def cancel(self, job: str) -> None:
        self._client.request_json("POST", f"/batches/{quote(job, safe='')}/cancel", {}, policy=_ASK)

    def _make_line(self, name: str, text: str) -> dict[str, Any]:
        if self._is_voyage:
            return {"custom_id": name, "body": {"input": [text]}}
        request = self._embedder.make_request([text])
        _, body = PROVIDERS["openai"].shape.build(request)
        body["input"] = text
        return {"custom_id": name, "method": "POST", "url": "/v1/embeddings", "body": body}

    def _parse_state(self, answer: Any) -> JobState:
        job = self._require_text(answer, "job id", "id")
        status = _text(answer, "status")
        outputs = tuple(found for name in ("output_file_id", "error_file_id") if (found := _text(answer, name)))
        counts = _number(answer, "request_counts", "completed"), _number(answer, "request_counts", "total")
        if status == "completed":
            return JobState(job, "done", *counts, outputs=outputs)
        if status in ("failed", "expired", "cancelled", "canceled"):
            errors = _find(answer, "errors", "data") or _find(answer, "errors")
            reason = _text(errors[0], "message") if isinstance(errors, list) and errors else ""
            return JobState(job, "failed", *counts, outputs=outputs, error=reason or status)
        return JobState(job, "running", *counts)


class GeminiJobs(_Jobs):
    """Uploaded files and ``asyncBatchEmbedContent``, the batch API of Gemini."""

    def upload(self, tag: str, passages: Mapping[str, EmbedInput]) -> str:
        about = json.dumps({"file": {"displayName": f"memory-embeddings.{tag}", "mimeType": "application/jsonl"}})
        lines = self._render_lines(passages, self._make_line)
        body, kind = _join_parts(
            "related",
            ("Content-Type: application/json; charset=UTF-8", about.encode()),
            ("Content-Type: application/jsonl", lines),
        )
        path = self._root_url("upload", "/files?uploadType=multipart")
        answer = self._client.send("POST", path, body, kind, policy=_UPLOAD)
        return _text(answer, "file", "name") or self._require_text(answer, "file name", "name")

    def create(self, tag: str, file: str) -> JobState:
        body = {"batch": {"displayName": tag, "inputConfig": {"file_name": file}}}
        path = f"/models/{self._embedder.model}:asyncBatchEmbedContent"
        return self._parse_state(self._client.request_json("POST", path, body, policy=_ONCE))

    def find(self, tag: str, file: str) -> JobState | None:
        for entry in self._list_jobs("/batches?pageSize=100", self._read_page):
            parts = (_find(entry, "metadata"), entry)
            if tag in (_text(part, name) for part in parts for name in ("displayName", "display_name")):
                return self._parse_state(entry)
        return None

    def _read_page(self, page: Any) -> tuple[Any, str]:
        found = page.get("operations", page.get("batches", [])) if isinstance(page, dict) else None
        token = _text(page, "nextPageToken")
        return found, f"&pageToken={quote(token, safe='')}" if token else ""

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
                    yield from _read_result(self._embedder, line, names, _gemini_row)
                return
            except (WrongAnswer, KeyRefused):
                if url != path:
                    raise

    def _root_url(self, what: str, path: str) -> str:
        """Return an address of the same server with a word before the API version."""
        base = urlsplit(self._client.endpoint.url)
        return f"{base.scheme}://{base.netloc}/{what}{base.path.rstrip('/')}{path}"

    def _make_line(self, name: str, text: str) -> dict[str, Any]:
        request = self._embedder.make_request([text])
        return {"key": name, "request": {"model": f"models/{request.model}", **gemini_content(request, text)}}

    def _parse_state(self, answer: Any) -> JobState:
        job = self._require_text(answer, "job name", "name")
        status = (_text(answer, "metadata", "state") or _text(answer, "state")).rpartition("STATE_")[2].upper()
        stats = _find(answer, "metadata", "batchStats") or _find(answer, "batchStats")
        total, left = _number(stats, "requestCount"), _number(stats, "pendingRequestCount")
        counts, error = (max(0, total - left), total), _find(answer, "error")
        if status in ("SUCCEEDED", "COMPLETED", "DONE") or (_find(answer, "done") is True and not error):
            return JobState(job, "done", *counts, outputs=_gemini_outputs(answer))
        if error or status in ("FAILED", "CANCELLED", "CANCELED", "EXPIRED"):
            reason = _text(error, "message") or status.lower()
            return JobState(job, "failed", *counts, outputs=_gemini_outputs(answer), error=reason)
        return JobState(job, "running", *counts)


#: What embeds many texts for less money and without a deadline.
BatchApi: TypeAlias = FileJobs | GeminiJobs


def _join_parts(kind: str, *parts: tuple[str, bytes]) -> tuple[bytes, str]:
    """Return parts, each with its header, as one body, and the content type of the whole."""
    boundary = f"mdrecall{os.urandom(12).hex()}"
    body = b"".join(f"--{boundary}\r\n{head}\r\n\r\n".encode() + part + b"\r\n" for head, part in parts)
    return body + f"--{boundary}--\r\n".encode(), f"multipart/{kind}; boundary={boundary}"


def _read_result(
    embedder: RemoteEmbedder, line: bytes, names: tuple[str, ...], read_row: Callable[[Any], tuple[Any, str]]
) -> Iterator[tuple[str, Embedding | str]]:
    """Yield the result in one line of an output; an unreadable line is skipped, and its text is embedded again."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return
    name = next((found for known in names if (found := _text(entry, known))), "")
    if not name:
        return
    numbers, problem = read_row(entry)
    if problem:
        yield name, problem
        return
    try:
        yield name, Embedding(embedder.to_vector(numbers))
    except EmbedderError as error:
        yield name, str(error)


def _openai_row(entry: Any) -> tuple[Any, str]:
    """Return the numbers in a result, or why there are none."""
    problem = _text(entry, "error", "message") or _text(entry, "response", "body", "error", "message")
    status = _number(entry, "response", "status_code")
    if not problem and status >= 400:
        problem = _text(entry, "response", "body", "detail") or f"status {status}"
    data = _find(entry, "response", "body", "data")
    return _find(data[0] if isinstance(data, list) and data else None, "embedding"), problem


def _gemini_row(entry: Any) -> tuple[Any, str]:
    for error in (_find(entry, "error"), _find(entry, "response", "error")):
        if isinstance(error, dict):
            return None, _text(error, "message") or "an error without a message"
    return _find(entry, "response", "embedding", "values") or _find(entry, "embedding", "values"), ""


def _gemini_outputs(answer: Any) -> tuple[str, ...]:
    """Return the file with the results, wherever the answer has its name."""
    for part in (_find(answer, "response"), _find(answer, "metadata"), answer):
        for place in (_find(part, "output"), _find(part, "outputConfig"), _find(part, "dest"), part):
            for name in ("responsesFile", "file", "fileId", "fileName"):
                if found := _text(place, name):
                    return (found,)
    return ()


def _below(folder: str, name: str) -> str:
    return f"{folder}/{quote(name.removeprefix(folder + '/'), safe='')}"


def _find(entry: Any, *names: str) -> Any:
    """Return a value inside of nested objects; None if it is missing."""
    for name in names:
        entry = entry.get(name) if isinstance(entry, dict) else None
    return entry


def _text(entry: Any, *names: str) -> str:
    found = _find(entry, *names)
    return found if isinstance(found, str) else ""


def _number(entry: Any, *names: str) -> int:
    try:
        return int(_find(entry, *names) or 0)
    except (TypeError, ValueError):
        return 0
