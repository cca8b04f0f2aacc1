"""A local server with the APIs Chat Completions, Responses and Messages, and a scripted model behind them."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from examples.scripted import Call, Script, look_it_up


class ScriptedServer:
    """Pass ``url`` to a client as its base URL; ``requests`` holds the bodies that were received."""

    def __init__(self, script: Script = look_it_up) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        results_of, shaped = _SHAPES[path.partition("?")[0]]
        results = results_of(body)
        return shaped(self.script(results), str(len(results)))


def _answering(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            data = json.dumps(server.reply(self.path, body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Answering


def _chat_results(body: dict[str, Any]) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def _chat(step: Call | str, number: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if isinstance(step, Call):
        function = {"name": step.name, "arguments": step.json}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    reason = "tool_calls" if isinstance(step, Call) else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    return {"id": number, "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}


def _responses_results(body: dict[str, Any]) -> list[str]:
    return [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]


def _responses(step: Call | str, number: str) -> dict[str, Any]:
    item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
    if isinstance(step, Call):
        item |= {"type": "function_call", "call_id": f"call_{number}", "name": step.name, "arguments": step.json}
    else:
        item |= {"type": "message", "role": "assistant"}
        item["content"] = [{"type": "output_text", "text": step, "annotations": []}]
    body = {"id": number, "object": "response", "created_at": 0, "model": "scripted", "output": [item]}
    return body | {"status": "completed", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}


def _messages_results(body: dict[str, Any]) -> list[str]:
    blocks = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return [block["content"] for content in blocks for block in content if block["type"] == "tool_result"]


def _messages(step: Call | str, number: str) -> dict[str, Any]:
    if isinstance(step, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step.name, "input": step.arguments}
    else:
        block = {"type": "text", "text": step}
    body = {"id": number, "type": "message", "role": "assistant", "model": "scripted", "content": [block]}
    reason = "tool_use" if isinstance(step, Call) else "end_turn"
    return body | {"stop_reason": reason, "usage": {"input_tokens": 0, "output_tokens": 0}}


_SHAPES: dict[str, tuple[Callable[[dict[str, Any]], list[str]], Callable[[Call | str, str], dict[str, Any]]]] = {
    "/v1/chat/completions": (_chat_results, _chat),
    "/v1/responses": (_responses_results, _responses),
    "/v1/messages": (_messages_results, _messages),
}
