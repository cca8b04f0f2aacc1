"""Batch jobs as the providers have them: upload, create, ask after, download."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from mdrecall.embed.remote.embedder import RemoteEmbedder
from mdrecall.embed.remote.server import Patience
from mdrecall.embed.remote.shapes import Wish, gemini_content
from mdrecall.errors import EmbedderError, KeyRefused, WrongAnswer
from mdrecall.interfaces import BatchApi
from mdrecall.types import Embedding, EmbedInput, JobState

_ASK = Patience(seconds=60.0, retries=3)
#: What may cost money is not asked for again before it is known that nothing has come of it.
_ONCE = Patience(seconds=60.0, retries=0)
_UPLOAD = Patience(seconds=600.0, retries=3)
_DOWNLOAD = Patience(seconds=1800.0, retries=3)
_MOST_PAGES = 50
_MOST_TEXTS = 50_000


def jobs_of(embedder: RemoteEmbedder) -> BatchApi | None:
    """The batch API of an embedder's provider, if it has one."""
    if embedder.provider == "gemini":
        return GeminiJobs(embedder)
    if embedder.provider in ("openai", "voyage"):
        return FileJobs(embedder)
    return None


class FileJobs:
    """``/files`` and ``/batches``, as OpenAI and Voyage have them."""

    most_texts = _MOST_TEXTS

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self._embedder = embedder
        self._server = embedder.server
        self._is_voyage = embedder.provider == "voyage"

    def upload(self, tag: str, passages: Mapping[str, EmbedInput]) -> str:
        lines = "".join(
            _line(self._request(name, self._embedder.text_of(passage))) for name, passage in passages.items()
        )
        boundary = f"mdrecall{os.urandom(12).hex()}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="memory-embeddings.{tag}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + lines.encode("utf-8", "replace") + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        answer = self._server.parsed(self._server.send("POST", "/files", body, headers, patience=_UPLOAD))
        return _text(answer, "id") or _missing(self._embedder, "the id of a file")

    def create(self, tag: str, file: str) -> JobState:
        body: dict[str, Any] = {
            "input_file_id": file,
            "endpoint": "/v1/embeddings",
            "completion_window": "12h" if self._is_voyage else "24h",
            "metadata": {"source": "mdrecall", "tag": tag},
        }
        if self._is_voyage:
            params: dict[str, Any] = {"model": self._embedder.model, "input_type": "document"}
            if self._embedder.wanted_dimensions:
                params["output_dimension"] = self._embedder.wanted_dimensions
            body["request_params"] = params
        return self._parsed(self._server.ask("POST", "/batches", body, patience=_ONCE))

    def find(self, tag: str, file: str) -> JobState | None:
        for entry in self._listed():
            if isinstance(entry, dict) and (entry.get("input_file_id") == file or _tag(entry) == tag):
                return self._parsed(entry)
        return None

    def _listed(self) -> Iterator[Any]:
        """The account's jobs, the newest first."""
        after = ""
        for _ in range(_MOST_PAGES):
            page = self._server.ask("GET", f"/batches?limit=100{after}", patience=_ASK)
            entries = _list(self._embedder, page, "data")
            yield from entries
            last = _text(entries[-1], "id") if entries else ""
            if not last or page.get("has_more") is not True:
                return
            after = f"&after={quote(last, safe='')}"

    def state(self, job: str) -> JobState:
        return self._parsed(self._server.ask("GET", f"/batches/{quote(job, safe='')}", patience=_ASK))

    def results(self, state: JobState) -> Iterator[tuple[str, Embedding | str]]:
        for file in state.outputs:
            for line in self._server.lines(f"/files/{quote(file, safe='')}/content", patience=_DOWNLOAD):
                yield from _result(self._embedder, line, ("custom_id",), _openai_row)

    def cancel(self, job: str) -> None:
        self._server.ask("POST", f"/batches/{quote(job, safe='')}/cancel", {}, patience=_ASK)

    def _request(self, name: str, text: str) -> dict[str, Any]:
        if self._is_voyage:
            return {"custom_id": name, "body": {"input": [text]}}
        wish = Wish(self._embedder.model, [text], False, self._embedder.wanted_dimensions)
        body = self._embedder.shape.ask(wish).body | {"input": text}
        return {"custom_id": name, "method": "POST", "url": "/v1/embeddings", "body": body}

    def _parsed(self, answer: Any) -> JobState:
        job = _text(answer, "id") or _missing(self._embedder, "the id of a job")
        said = str(answer.get("status") or "")
        counts = answer.get("request_counts")
        counts = counts if isinstance(counts, dict) else {}
        outputs = tuple(found for name in ("output_file_id", "error_file_id") if (found := _text(answer, name)))
        state = JobState(job, "running", _number(counts, "completed"), _number(counts, "total"))
        if said == "completed":
            return state._replace(status="done", outputs=outputs)
        if said in ("failed", "expired", "cancelled", "canceled"):
            return state._replace(status="failed", outputs=outputs, error=_why(answer, said))
        return state


class GeminiJobs:
    """Uploaded files and ``asyncBatchEmbedContent``."""

    most_texts = _MOST_TEXTS

    def __init__(self, embedder: RemoteEmbedder) -> None:
        self._embedder = embedder
        self._server = embedder.server

    def upload(self, tag: str, passages: Mapping[str, EmbedInput]) -> str:
        lines = "".join(
            _line(self._request(name, self._embedder.text_of(passage))) for name, passage in passages.items()
        )
        boundary = f"mdrecall{os.urandom(12).hex()}"
        about = json.dumps({"file": {"displayName": f"memory-embeddings.{tag}", "mimeType": "application/jsonl"}})
        body = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}\r\n"
            f"--{boundary}\r\nContent-Type: application/jsonl\r\n\r\n{lines}\r\n--{boundary}--\r\n"
        )
        headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
        path = self._elsewhere("upload", "/files?uploadType=multipart")
        reply = self._server.send("POST", path, body.encode("utf-8", "replace"), headers, patience=_UPLOAD)
        answer = self._server.parsed(reply)
        found = answer.get("file") if isinstance(answer, dict) else None
        return _text(found, "name") or _text(answer, "name") or _missing(self._embedder, "the name of a file")

    def create(self, tag: str, file: str) -> JobState:
        body = {"batch": {"displayName": tag, "inputConfig": {"file_name": file}}}
        path = f"/models/{self._embedder.model}:asyncBatchEmbedContent"
        return self._parsed(self._server.ask("POST", path, body, patience=_ONCE))

    def find(self, tag: str, file: str) -> JobState | None:
        for entry in self._listed():
            about = _about(entry)
            if about.get("displayName") == tag or about.get("display_name") == tag:
                return self._parsed(entry)
        return None

    def _listed(self) -> Iterator[Any]:
        """The account's jobs, the newest first."""
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._server.ask("GET", f"/batches?pageSize=100{token}", patience=_ASK)
            yield from _list(self._embedder, page, "operations", "batches", default=[])
            if not (found := _text(page, "nextPageToken")):
                return
            token = f"&pageToken={quote(found, safe='')}"

    def state(self, job: str) -> JobState:
        return self._parsed(self._server.ask("GET", f"/{_below('batches', job)}", patience=_ASK))

    def results(self, state: JobState) -> Iterator[tuple[str, Embedding | str]]:
        for file in state.outputs:
            try:
                yield from self._downloaded(f"/{_below('files', file)}:download?alt=media")
            except KeyRefused as error:
                # A file that is gone is said to be forbidden. If it is the key, this fails too.
                self.state(state.id)
                raise WrongAnswer(str(error)) from error

    def cancel(self, job: str) -> None:
        self._server.ask("POST", f"/{_below('batches', job)}:cancel", {}, patience=_ASK)

    def _downloaded(self, path: str) -> Iterator[tuple[str, Embedding | str]]:
        """A file's lines; some servers have files to download at an address of their own."""
        names = ("key", "custom_id", "request_id")
        for place in (path, self._elsewhere("download", path)):
            try:
                for line in self._server.lines(place, patience=_DOWNLOAD):
                    yield from _result(self._embedder, line, names, _gemini_row)
                return
            except (WrongAnswer, KeyRefused):
                if place != path:
                    raise

    def _elsewhere(self, what: str, path: str) -> str:
        """An address of the same server with a word before the version, from its root."""
        base = urlsplit(self._server.address.url)
        return f"{base.scheme}://{base.netloc}/{what}{base.path.rstrip('/')}{path}"

    def _request(self, name: str, text: str) -> dict[str, Any]:
        wish = Wish(self._embedder.model, [text], False, self._embedder.wanted_dimensions)
        return {"key": name, "request": {"model": f"models/{wish.model}", **gemini_content(wish, text)}}

    def _parsed(self, answer: Any) -> JobState:
        job = _text(answer, "name") or _missing(self._embedder, "the name of a job")
        about = _about(answer)
        said = str(about.get("state") or answer.get("state") or "").rpartition("STATE_")[2].upper()
        stats = about.get("batchStats")
        stats = stats if isinstance(stats, dict) else {}
        total, left = _number(stats, "requestCount"), _number(stats, "pendingRequestCount")
        state = JobState(job, "running", max(0, total - left), total)
        error = answer.get("error")
        if said in ("SUCCEEDED", "COMPLETED", "DONE") or (answer.get("done") is True and not error):
            return state._replace(status="done", outputs=_gemini_outputs(answer))
        if error or said in ("FAILED", "CANCELLED", "CANCELED", "EXPIRED"):
            why = _text(error, "message") or said.lower()
            return state._replace(status="failed", outputs=_gemini_outputs(answer), error=why)
        return state


def _result(
    embedder: RemoteEmbedder, line: bytes, names: tuple[str, ...], row: Any
) -> Iterator[tuple[str, Embedding | str]]:
    """What one line of an output says; a line that says nothing is left out, and its text is embedded again."""
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
        yield name, Embedding(embedder.vector(numbers))
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
            return None, _text(error, "message") or "an error without words"
    found = response.get("embedding") or entry.get("embedding")
    return (found.get("values") if isinstance(found, dict) else None), ""


def _gemini_outputs(answer: dict[str, Any]) -> tuple[str, ...]:
    """The file with the results, wherever the answer has it."""
    for part in (answer.get("response"), answer.get("metadata"), answer):
        part = part if isinstance(part, dict) else {}
        for place in (part.get("output"), part.get("outputConfig"), part.get("dest"), part):
            for name in ("responsesFile", "file", "fileId", "fileName"):
                if found := _text(place, name):
                    return (found,)
    return ()


def _about(entry: Any) -> dict[str, Any]:
    """What describes a job: the operation's metadata, or the answer itself."""
    entry = entry if isinstance(entry, dict) else {}
    found = entry.get("metadata")
    return {**entry, **found} if isinstance(found, dict) else entry


def _below(folder: str, name: str) -> str:
    return f"{folder}/{quote(name.removeprefix(folder + '/'), safe='')}"


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def _tag(entry: dict[str, Any]) -> str:
    return _text(entry.get("metadata"), "tag")


def _why(answer: dict[str, Any], said: str) -> str:
    errors = answer.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else errors
    first = listed[0] if isinstance(listed, list) and listed else {}
    return _text(first, "message") or said


def _text(entry: Any, name: str) -> str:
    found = entry.get(name) if isinstance(entry, dict) else None
    return found if isinstance(found, str) else ""


def _list(embedder: RemoteEmbedder, answer: Any, *names: str, default: list[Any] | None = None) -> list[Any]:
    """The list in an answer; ``default``, if it may be left out."""
    found = next((answer[name] for name in names if name in answer), default) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise embedder.server.wrong("without a list of jobs")
    return found


def _number(entry: dict[str, Any], name: str) -> int:
    try:
        return int(entry.get(name) or 0)
    except (TypeError, ValueError):
        return 0


def _missing(embedder: RemoteEmbedder, what: str) -> str:
    raise embedder.server.wrong(f"without {what}")
