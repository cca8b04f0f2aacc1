"""The batch jobs of OpenAI and Voyage: https://platform.openai.com/docs/api-reference/batch"""

import re
from typing import Any

from tests.providers.batch import BatchSide, Job, Stored
from tests.providers.multipart import parts
from tests.providers.openai import OpenAI, Voyage
from tests.providers.shapes import Asked
from tests.providers.wire import Recorded, Reply

MOST_LINES = 50_000
_STREAM = {"Content-Type": "application/octet-stream"}
_PATH = re.compile(r"/v1/(files|batches)(?:/([^/]+)(?:/(content|cancel))?)?")


class OpenAIBatches(BatchSide):
    """Files go up as forms; jobs are named by their file and their endpoint."""

    shape: OpenAI

    def answer(self, request: Recorded) -> Reply | None:
        path = _PATH.fullmatch(request.path)
        if not path:
            return None
        with self.lock:
            call = f"{request.method} {path[1]}{'/id' if path[2] else ''}{'/' + path[3] if path[3] else ''}"
            match call:
                case "POST files":
                    return Reply(200, {"id": self.upload(request).id, "object": "file"})
                case "GET files/id/content" if path[2] in self.files:
                    return Reply(200, self.files[path[2]].content, _STREAM)
                case "POST batches":
                    return Reply(200, self.written(self.created(request)))
                case "GET batches":
                    return self.listed(request)
                case "GET batches/id":
                    return Reply(200, self.written(self.poll(self.job(path[2]))))
                case "POST batches/id/cancel":
                    return Reply(200, self.written(self.cancel(self.job(path[2]))))
        return None

    def upload(self, request: Recorded) -> Stored:
        found = {part.name: part for part in parts(request.headers.get("content-type", ""), request.raw)}
        if "file" not in found or "purpose" not in found or found["purpose"].content != b"batch":
            self.shape.refuse(400, "'file' and a valid 'purpose' are required.")
        return self.store("file-", found["file"].content)

    def job(self, id: str) -> Job:
        if id not in self.jobs:
            self.shape.refuse(404, f"No batch found with id '{id}'.")
        return self.jobs[id]

    def created(self, request: Recorded) -> Job:
        body = request.body if isinstance(request.body, dict) else {}
        is_voyage = isinstance(self.shape, Voyage)
        if body.get("completion_window") != ("12h" if is_voyage else "24h"):
            self.shape.refuse(400, "Invalid value for 'completion_window'.")
        if body.get("endpoint") != "/v1/embeddings":
            self.shape.refuse(400, "Invalid value for 'endpoint'.")
        stored = self.files.get(body.get("input_file_id", ""))
        if stored is None:
            self.shape.refuse(400, f"Input file {body.get('input_file_id')} was not found.", "file_not_found")
        model = self.shape.known(body.get("request_params", {}).get("model")) if is_voyage else ""
        return self.create(f"batch_{len(self.jobs):024d}", model, stored, body)

    def check(self, job: Job) -> None:
        ids = [line["custom_id"] for line in job.lines if _is_usable(line)]
        if not job.lines or len(job.lines) > MOST_LINES or len(set(ids)) < len(job.lines):
            job.state, job.message = "failed", "The file has no lines, too many, or one that cannot be used."

    def read_line(self, job: Job, line: Any) -> Asked:
        body = dict(line["body"])
        if isinstance(self.shape, Voyage):
            body |= job.told["request_params"]
        elif line.get("url") != "/v1/embeddings" or line.get("method") != "POST":
            self.shape.refuse(400, "The url provided for this request does not match the batch endpoint.")
        return self.shape.read_body(body)

    def good_line(self, job: Job, line: Any, body: Any) -> Any:
        return self._line(line, {"status_code": 200, "request_id": "req_0", "body": body}, None)

    def bad_line(self, job: Job, line: Any, refusal: Reply) -> Any:
        return self._line(line, {"status_code": refusal.status, "request_id": "req_0", "body": refusal.body}, None)

    def undone_line(self, job: Job, line: Any, code: str, message: str) -> Any:
        return self._line(line, None, {"code": code, "message": message})

    def _line(self, line: Any, response: Any, error: Any) -> Any:
        return {"id": "batch_req_0", "custom_id": line["custom_id"], "response": response, "error": error}

    def written(self, job: Job) -> dict[str, Any]:
        absent = "" if job.plan.blank_ids else None
        return {
            "id": job.id,
            "errors": {"object": "list", "data": [{"code": "failed", "message": job.message}]} if job.message else None,
            "input_file_id": job.input.id,
            "status": job.state,
            "output_file_id": job.output.id if job.output else absent,
            "error_file_id": job.errors.id if job.errors else absent,
            "request_counts": {"total": len(job.lines), "completed": job.completed, "failed": job.failed},
            "metadata": job.told.get("metadata"),
        }

    def listed(self, request: Recorded) -> Reply:
        """A page of the jobs, the newest first."""
        jobs, limit, after = [*self.jobs.values()][::-1], int(request.query["limit"]), request.query.get("after")
        start = next((at + 1 for at, job in enumerate(jobs) if job.id == after), 0)
        page = [self.written(job) for job in jobs[start : start + limit]]
        return Reply(200, {"object": "list", "data": page, "has_more": start + limit < len(jobs)})


def _is_usable(line: Any) -> bool:
    return isinstance(line, dict) and isinstance(line.get("custom_id"), str) and isinstance(line.get("body"), dict)
