"""The batch jobs of OpenAI and Voyage: https://platform.openai.com/docs/api-reference/batch"""

import re
from collections import Counter
from datetime import UTC, datetime
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
                    return Reply(200, self.file(self.upload(request)))
                case "GET files":
                    return self.listed([self.file(stored) for stored in self.files.values()], request)
                case "GET files/id" | "GET files/id/content" | "DELETE files/id":
                    return self.about_file(call, path[2])
                case "POST batches":
                    return Reply(200, self.written(self.created(request)))
                case "GET batches":
                    return self.listed([self.written(job) for job in self.jobs.values()], request)
                case "GET batches/id":
                    return Reply(200, self.written(self.poll(self.job(path[2]))))
                case "POST batches/id/cancel":
                    return Reply(200, self.written(self.cancel(self.job(path[2]))))
        return None

    def upload(self, request: Recorded) -> Stored:
        found = {part.name: part for part in parts(request.headers.get("content-type", ""), request.raw)}
        if "file" not in found or "purpose" not in found:
            missing = "file" if "file" not in found else "purpose"
            self.shape.refuse(400, f"'{missing}' is a required property")
        if found["purpose"].content != b"batch":
            self.shape.refuse(400, "Invalid value for purpose.")
        return self.store("file-", found["file"].filename, found["file"].content)

    def about_file(self, call: str, id: str) -> Reply:
        stored = self.files.get(id)
        if stored is None:
            return self.shape.error(404, f"No such File object: {id}")
        if call.endswith("/content"):
            return Reply(200, stored.content, _STREAM)
        if call.startswith("DELETE"):
            del self.files[id]
            return Reply(200, {"id": id, "object": "file", "deleted": True})
        return Reply(200, self.file(stored))

    def job(self, id: str) -> Job:
        if id not in self.jobs:
            self.shape.refuse(404, f"No batch found with id '{id}'.")
        return self.jobs[id]

    def created(self, request: Recorded) -> Job:
        body = request.body if isinstance(request.body, dict) else {}
        window = "12h" if isinstance(self.shape, Voyage) else "24h"
        if body.get("completion_window") != window:
            self.shape.refuse(400, f"Invalid value for 'completion_window': only '{window}' is supported.")
        if body.get("endpoint") != "/v1/embeddings":
            self.shape.refuse(400, "Invalid value for 'endpoint'.")
        stored = self.files.get(body.get("input_file_id", ""))
        if stored is None:
            self.shape.refuse(400, f"Input file {body.get('input_file_id')} was not found.", "file_not_found")
        model = body.get("request_params", {}).get("model") if isinstance(self.shape, Voyage) else ""
        if isinstance(self.shape, Voyage):
            self.shape.known(model)
        return self.create(f"batch_{len(self.jobs):024d}", model or "", stored, body)

    def check(self, job: Job) -> None:
        ids = Counter(line["custom_id"] for line in job.lines if isinstance(line, dict) and "custom_id" in line)
        found = [_problem("invalid_json_line", at, line) for at, line in enumerate(job.lines) if not _usable(line)]
        found += [
            {"code": "duplicate_custom_id", "message": id, "param": None, "line": None} for id in ids if ids[id] > 1
        ]
        if not job.lines:
            found.append(_problem("empty_file", 0, None))
        if len(job.lines) > MOST_LINES:
            found.append(_problem("too_many_tasks", MOST_LINES, None))
        if found:
            job.state, job.problems, job.message = "failed", found, found[0]["message"]

    def read_line(self, job: Job, line: Any) -> Asked:
        body = dict(line["body"])
        if isinstance(self.shape, Voyage):
            body |= job.told["request_params"]
        elif line.get("url") != "/v1/embeddings" or line.get("method") != "POST":
            self.shape.refuse(400, "The url provided for this request does not match the batch endpoint.")
        return self.shape.read_body(body)

    def good_line(self, job: Job, line: Any, body: Any) -> Any:
        return self._line(job, line, {"status_code": 200, "request_id": "req_0", "body": body}, None)

    def bad_line(self, job: Job, line: Any, refusal: Reply) -> Any:
        answer = {"status_code": refusal.status, "request_id": "req_0", "body": refusal.body}
        return self._line(job, line, answer, None)

    def undone_line(self, job: Job, line: Any, code: str, message: str) -> Any:
        return self._line(job, line, None, {"code": code, "message": message})

    def _line(self, job: Job, line: Any, response: Any, error: Any) -> Any:
        return {"id": f"batch_req_{job.id}", "custom_id": line["custom_id"], "response": response, "error": error}

    def time(self, moment: float) -> Any:
        """OpenAI writes seconds, Voyage a date."""
        return datetime.fromtimestamp(moment, UTC).isoformat() if isinstance(self.shape, Voyage) else int(moment)

    def file(self, stored: Stored) -> dict[str, Any]:
        told = {
            "id": stored.id,
            "object": "file",
            "bytes": len(stored.content),
            "created_at": self.time(stored.made),
        }
        return told | {"filename": stored.name, "purpose": stored.purpose, "status": "processed"}

    def written(self, job: Job) -> dict[str, Any]:
        absent = "" if job.plan.blank_ids else None
        over = {f"{name}_at": self.time(job.made) if job.state == name else None for name in _TIMES}
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": job.told["endpoint"],
            "errors": {"object": "list", "data": job.problems} if job.problems else None,
            "input_file_id": job.input.id,
            "completion_window": job.told["completion_window"],
            "status": job.state,
            "output_file_id": job.output.id if job.output else absent,
            "error_file_id": job.errors.id if job.errors else absent,
            "created_at": self.time(job.made),
            "expires_at": self.time(job.made + 86_400),
            **over,
            "request_counts": _counts(job),
            "metadata": job.told.get("metadata"),
        }

    def listed(self, items: list[dict[str, Any]], request: Recorded) -> Reply:
        """A page of them, the newest first."""
        items = items[::-1]
        limit = int(request.query.get("limit", 20))
        after = request.query.get("after")
        start = next((at + 1 for at, item in enumerate(items) if item["id"] == after), 0)
        page = items[start : start + limit]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        return Reply(200, {"object": "list", "data": page, **ends, "has_more": start + limit < len(items)})


_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


def _usable(line: Any) -> bool:
    return isinstance(line, dict) and isinstance(line.get("custom_id"), str) and isinstance(line.get("body"), dict)


def _problem(code: str, at: int, line: Any) -> dict[str, Any]:
    return {"code": code, "message": f"{code} at line {at + 1}", "param": None, "line": at + 1}


def _counts(job: Job) -> dict[str, int]:
    total = 0 if job.state == "validating" else len(job.lines)
    return {"total": total, "completed": job.completed, "failed": job.failed}
