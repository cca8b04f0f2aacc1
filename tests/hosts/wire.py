"""The four wire formats that coding agents speak to a model: what a request says, and what an answer looks like."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import uuid4

#: What an answer claims to have written; no agent decides anything by it.
_OUTPUT_TOKENS = 20


class Call(NamedTuple):
    """A tool that the model calls."""

    name: str
    arguments: Mapping[str, Any]


class Turn(NamedTuple):
    """One message of a conversation, as the model is given it."""

    role: str
    text: str
    results: int = 0
    """How many results of tools it holds."""


class Reply(NamedTuple):
    """What the model answers: a text, or a call."""

    text: str
    call: Call | None = None
    tokens: int = 100
    """How many tokens the request is said to have."""


#: An answer as JSON, or as the events of a stream, each with its name (empty if the format has none).
Events = list[tuple[str, Any]]


class Format(NamedTuple):
    """One wire format."""

    read: Callable[[Any], list[Turn]]
    write: Callable[[Any, Reply], dict[str, Any]]
    stream: Callable[[dict[str, Any]], Events]


def find_format(path: str) -> Format | None:
    """Return the format of a request by its path; None for a path that asks no model."""
    if path.endswith("/messages"):
        return _ANTHROPIC
    if path.endswith("/responses"):
        return _RESPONSES
    if path.endswith("/chat/completions"):
        return _CHAT
    return _GEMINI if path.endswith((":generateContent", ":streamGenerateContent")) else None


def join_strings(value: object) -> str:
    """Return every text in a JSON value, one per line."""
    return "\n".join(_strings(value))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or [] if isinstance(part.get("text"), str))


def _count(parts: Any, kind: str) -> int:
    return sum(part.get("type") == kind for part in parts) if isinstance(parts, list) else 0


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex[:20]}"


def _read_anthropic(body: Any) -> list[Turn]:
    turns = [(message["role"], message["content"]) for message in body["messages"]]
    return [Turn(role, _text(content), _count(content, "tool_result")) for role, content in turns]


def _write_anthropic(body: Any, reply: Reply) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.call:
        use = {"type": "tool_use", "id": _new_id("toolu"), "name": reply.call.name, "input": dict(reply.call.arguments)}
        content.append(use)
    usage = {"input_tokens": reply.tokens, "output_tokens": _OUTPUT_TOKENS}
    return {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": "tool_use" if reply.call else "end_turn",
        "stop_sequence": None,
        "usage": usage | {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def _stream_anthropic(message: dict[str, Any]) -> Events:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    ]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            opened, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            partial = json.dumps(block["input"])
            opened, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": partial}
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": message["usage"]}, {"type": "message_stop"}]
    return [(event["type"], event) for event in events]


def _read_responses(body: Any) -> list[Turn]:
    items = body["input"]
    if isinstance(items, str):
        return [Turn("user", items)]
    return [
        Turn(item.get("role", "tool"), _text(item.get("content")), str(item.get("type")).endswith("_output"))
        for item in items
    ]


def _write_responses(body: Any, reply: Reply) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        message = {"type": "message", "id": _new_id("msg"), "role": "assistant", "status": "completed"}
        output.append({**message, "content": content})
    if reply.call:
        arguments = json.dumps(dict(reply.call.arguments))
        call = {"type": "function_call", "id": _new_id("fc"), "call_id": _new_id("call"), "status": "completed"}
        output.append({**call, **_responses_name(reply.call.name), "arguments": arguments})
    return {
        "id": _new_id("resp"),
        "object": "response",
        "status": "completed",
        "model": body.get("model"),
        "output": output,
        "usage": {
            "input_tokens": reply.tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": _OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.tokens + _OUTPUT_TOKENS,
        },
    }


def _responses_name(name: str) -> dict[str, str]:
    """Return how a tool is called: one of a server, ``mcp__server__tool``, by its own name in a namespace."""
    namespace, separator, tool = name.rpartition("__")
    return {"namespace": namespace, "name": tool} if separator else {"name": name}


def _stream_responses(response: dict[str, Any]) -> Events:
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": started}]
    for index, item in enumerate(response["output"]):
        events += [
            {"type": f"response.output_item.{what}", "output_index": index, "item": item} for what in ("added", "done")
        ]
    events.append({"type": "response.completed", "response": response})
    return [(event["type"], event) for event in events]


def _read_chat(body: Any) -> list[Turn]:
    return [
        Turn(message["role"], _text(message.get("content")), message["role"] == "tool") for message in body["messages"]
    ]


def _write_chat(body: Any, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.call:
        function = {"name": reply.call.name, "arguments": json.dumps(dict(reply.call.arguments))}
        message["tool_calls"] = [{"index": 0, "id": _new_id("call"), "type": "function", "function": function}]
    usage = {"prompt_tokens": reply.tokens, "completion_tokens": _OUTPUT_TOKENS}
    return {
        "id": _new_id("chatcmpl"),
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if reply.call else "stop"}],
        "usage": usage | {"total_tokens": reply.tokens + _OUTPUT_TOKENS},
    }


def _stream_chat(answer: dict[str, Any]) -> Events:
    choice = answer["choices"][0]
    chunk = {**answer, "object": "chat.completion.chunk", "usage": None}
    first = {**chunk, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    return [("", first), ("", {**last, "usage": answer["usage"]}), ("", "[DONE]")]


def _read_gemini(body: Any) -> list[Turn]:
    turns = [(content.get("role", "user"), content["parts"]) for content in body["contents"]]
    return [Turn(role, _text(parts), sum("functionResponse" in part for part in parts)) for role, parts in turns]


def _write_gemini(body: Any, reply: Reply) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    if reply.call:
        parts.append({"functionCall": {"name": reply.call.name, "args": dict(reply.call.arguments)}})
    if body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        # Side questions of the agent: which model to take, and who speaks next.
        parts = [
            {
                "text": json.dumps(
                    {"reasoning": "", "next_speaker": "user", "complexity_reasoning": "", "complexity_score": 1}
                )
            }
        ]
    usage = {"promptTokenCount": reply.tokens, "candidatesTokenCount": _OUTPUT_TOKENS}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage | {"totalTokenCount": reply.tokens + _OUTPUT_TOKENS},
    }


_ANTHROPIC = Format(_read_anthropic, _write_anthropic, _stream_anthropic)
_RESPONSES = Format(_read_responses, _write_responses, _stream_responses)
_CHAT = Format(_read_chat, _write_chat, _stream_chat)
_GEMINI = Format(_read_gemini, _write_gemini, lambda answer: [("", answer)])
