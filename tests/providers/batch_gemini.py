"""The batch jobs of Gemini: https://ai.google.dev/api/embeddings#method:-models.asyncbatchembedcontent"""

import re
from collections.abc import Callable
from typing import Any

from tests.providers.batch import BatchSide, Job, Stored
from tests.providers.gemini import Gemini
from tests.providers.multipart import parts
from tests.providers.shapes import Asked
from tests.providers.wire import Recorded, Refused, Reply

STATES = {
    "in_progress": "RUNNING",
    "completed": "SUCCEEDED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelling": "RUNNING",
    "cancelled": "CANCELLED",
}
TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main."
_STREAM = {"Content-Type": "application/octet-stream"}


class GeminiBatches(BatchSide):
    """Files go up in related parts; jobs belong to a model; names are ``files/…`` and ``batches/…``."""

    shape: Gemini

    def answer(self, request: Recorded) -> Reply | None:
        routes: list[tuple[str, Callable[..., Reply]]] = [
            (r"POST /upload/v1beta/files", self.upload),
            (r"POST /v1beta/models/([^/:]+):asyncBatchEmbedContent", self.created),
            (r"GET /v1beta/batches", self.listed),
            (r"GET /v1beta/(batches/[^/:]+)", self.polled),
            (r"POST /v1beta/(batches/[^/:]+):cancel", self.cancelled),
            (r"GET (?:/download)?/v1beta/(files/[^/:]+):download", self.download),
        ]
        with self.lock:
            for pattern, call in routes:
                if found := re.fullmatch(pattern, f"{request.method} {request.path}"):
                    return call(request, *found.groups())
        return None

    def upload(self, request: Recorded) -> Reply:
        kind = request.query.get("uploadType") or request.headers.get("x-goog-upload-protocol")
        found = parts(request.headers.get("content-type", ""), request.raw)
        if kind != "multipart" or len(found) != 2:
            self.shape.refuse(400, "Request body must be multipart/related with metadata and media.")
        return Reply(200, {"file": {"name": self.store("files/", found[1].content).id}})

    def created(self, request: Recorded, model: str) -> Reply:
        self.shape.known(model)
        batch = request.body.get("batch", {}) if isinstance(request.body, dict) else {}
        stored = self.files.get(batch.get("inputConfig", {}).get("file_name", ""))
        if not batch.get("displayName"):
            self.shape.refuse(400, "* EmbedContentBatch.display_name: must be set\n")
        if stored is None:
            self.shape.refuse(404, "The input file was not found, or you do not have permission to access it.")
        return Reply(200, self.written(self.create(f"batches/{len(self.jobs):024d}", model, stored, batch)))

    def listed(self, request: Recorded) -> Reply:
        jobs = list(self.jobs.values())[::-1]
        start, size = int(request.query.get("pageToken") or 0), int(request.query.get("pageSize") or 50)
        body: dict[str, Any] = {"operations": [self.written(job) for job in jobs[start : start + size]]}
        if start + size < len(jobs):
            body["nextPageToken"] = str(start + size)
        return Reply(200, body)

    def job(self, id: str) -> Job:
        if id not in self.jobs:
            self.shape.refuse(404, "Requested entity was not found.")
        return self.jobs[id]

    def polled(self, request: Recorded, id: str) -> Reply:
        return Reply(200, self.written(self.poll(self.job(id))))

    def cancelled(self, request: Recorded, id: str) -> Reply:
        self.cancel(self.job(id))
        return Reply(200, {})

    def download(self, request: Recorded, id: str) -> Reply:
        if id not in self.files:
            message = f"You do not have permission to access the File {id.removeprefix('files/')} or it may not exist."
            self.shape.refuse(403, message)
        return Reply(200, self.files[id].content, _STREAM)

    def read_line(self, job: Job, line: Any) -> Asked:
        if not isinstance(line, dict) or not isinstance(line.get("request"), dict):
            raise Refused(self.shape.error(400, "The line is not a request."))
        return self.shape.asked(job.model, [line["request"]], "single")

    def good_line(self, job: Job, line: Any, body: Any) -> Any:
        return _keyed(line) | {"response": body}

    def bad_line(self, job: Job, line: Any, refusal: Reply) -> Any:
        return _keyed(line) | {"error": refusal.body["error"]}

    def undone_line(self, job: Job, line: Any, code: str, message: str) -> Any:
        return _keyed(line) | {"error": {"code": 1, "message": message, "status": "CANCELLED"}}

    def store(self, prefix: str, content: bytes) -> Stored:
        return super().store("files/", content)

    def written(self, job: Job) -> dict[str, Any]:
        match job.plan.gemini_form:
            case "operation":
                return self.operation(job)
            case "batch":
                return self.resource(job)
        return self.flat(job)

    def resource(self, job: Job) -> dict[str, Any]:
        told = {
            "model": f"models/{job.model}",
            "displayName": job.told.get("displayName"),
            "inputConfig": {"fileName": job.input.id},
            "batchStats": _stats(job),
            "state": self.state(job),
            "name": job.id,
        }
        return told | ({"output": {"responsesFile": job.output.id}} if job.output else {})

    def operation(self, job: Job) -> dict[str, Any]:
        written: dict[str, Any] = {
            "name": job.id,
            "metadata": {"@type": f"{TYPE}EmbedContentBatch", **self.resource(job)},
        }
        if not job.over:
            return written
        if job.state == "completed":
            output = {"@type": f"{TYPE}EmbedContentBatchOutput", **self.resource(job).get("output", {})}
            return written | {"done": True, "response": output}
        return written | {"done": True, "error": {"code": 13, "message": self.message(job)}}

    def flat(self, job: Job) -> dict[str, Any]:
        written: dict[str, Any] = {"name": job.id, "state": self.state(job)}
        if job.output:
            written["outputConfig"] = {"file": job.output.id}
        if job.over and job.state != "completed":
            written["error"] = {"message": self.message(job)}
        return written

    def state(self, job: Job) -> str:
        return f"{job.plan.gemini_states}_{STATES[job.state]}"

    def message(self, job: Job) -> str:
        return job.message or f"The batch was {job.state}."


def _keyed(line: Any) -> dict[str, Any]:
    return {"key": line["key"]} if isinstance(line, dict) and "key" in line else {}


def _stats(job: Job) -> dict[str, str]:
    """Counts are written as strings, and those of nothing are left out."""
    pending = 0 if job.over else len(job.lines)
    counts = {"requestCount": len(job.lines), "successfulRequestCount": job.completed}
    counts |= {"failedRequestCount": job.failed, "pendingRequestCount": pending}
    return {name: str(count) for name, count in counts.items() if count}
