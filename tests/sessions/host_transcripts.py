"""Transcripts as each coding agent writes them, with the same conversation in all of them.

The shapes are those of Claude Code 2.1, Codex 0.166, Copilot CLI 1.0, Gemini CLI 0.61, Qwen Code 0.24 and OpenCode
1.18, as runs of the real programs showed them.
"""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from mdrecall.sessions.messages import wrap_memory

FOLDER = "/home/ada/shop"
ASKED = "fix the pool"
ANSWER = "We keep 12 connections."
INJECTED = wrap_memory("canary of memory", "5e1f09ab")
_T = "2026-02-10T09:00:0"
_ESCAPED = INJECTED.replace("<", "&lt;").replace(">", "&gt;")

Lines = list[dict[str, Any]]


def claude_code(session: str = "5f0c") -> Lines:
    """A conversation with a failed command, a file written, a blocked stop, and a compaction."""

    def record(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        common = {"uuid": f"u{number}", "isSidechain": False, "cwd": FOLDER, "gitBranch": "main", "sessionId": session}
        message = {"role": kind, "content": content, "usage": {"input_tokens": 90, "output_tokens": 10}}
        return {"type": kind, **common, "timestamp": f"{_T}{number}Z", "message": message, **more}

    return [
        {"type": "queue-operation", "timestamp": f"{_T}0Z", "content": ASKED, "sessionId": session},
        {**record(0, "attachment", None), "attachment": {"type": "hook_additional_context", "content": [INJECTED]}},
        record(1, "user", ASKED),
        record(2, "assistant", [{"type": "thinking", "thinking": "hmm canary"}]),
        record(2, "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}])
        | {"uuid": "u2b"},
        record(3, "user", [{"type": "tool_result", "tool_use_id": "t1", "content": "1 failed", "is_error": True}]),
        record(4, "assistant", [_tool_use("t2", "Edit", {"file_path": "src/pool.py"})]),
        record(5, "user", [{"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "ok"}]}]),
        record(6, "assistant", [{"type": "text", "text": ANSWER}]),
        record(7, "user", f"Stop hook feedback:\n{INJECTED}", isMeta=True),
        record(7, "user", "<command-name>/compact</command-name>") | {"uuid": "u7b"},
        {"type": "system", "subtype": "compact_boundary", "uuid": "u8", "timestamp": f"{_T}8Z"},
        record(9, "user", "This session is being continued: canary", isCompactSummary=True),
        {"type": "api-request-blob", "message": {"role": "user", "content": f"canary {INJECTED}"}},
        record(9, "user", "canary of a sub-agent", isSidechain=True) | {"uuid": "u9b"},
    ]


def _tool_use(call: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def codex() -> Lines:
    """The same in Codex, where what was said stands twice."""
    patch = "*** Begin Patch\n*** Update File: src/pool.py\n+x\n*** End Patch"

    def item(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": f"{_T}1Z", "type": "response_item", "payload": {"type": kind, **payload}}

    def done(kind: str, text: str) -> dict[str, Any]:
        said = {"type": kind, "content": [{"type": "text", "text": text}]}
        return {"timestamp": f"{_T}1Z", "type": "event_msg", "payload": {"type": "item_completed", "item": said}}

    meta = {"id": "01a", "cwd": FOLDER, "source": "cli", "git": {"branch": "main"}, "base_instructions": {"text": "x"}}
    return [
        {"timestamp": f"{_T}0Z", "type": "session_meta", "payload": meta},
        item("message", role="developer", content=[{"type": "input_text", "text": INJECTED}]),
        item("message", role="user", content=[{"type": "input_text", "text": ASKED}]),
        done("UserMessage", ASKED),
        item("function_call", name="exec_command", arguments='{"cmd": "pytest -q"}', call_id="t1"),
        item(
            "function_call_output", call_id="t1", output="Wall time: 0.1 seconds\nProcess exited with code 1\n1 failed"
        ),
        item("custom_tool_call", name="apply_patch", input=patch, call_id="t2"),
        item("custom_tool_call_output", call_id="t2", output='{"output": "ok", "metadata": {"exit_code": 0}}'),
        done("AgentMessage", ANSWER),
        item("message", role="assistant", content=[{"type": "output_text", "text": ANSWER}]),
        item(
            "message", role="user", content=[{"type": "input_text", "text": f"<hook_prompt>{INJECTED}</hook_prompt>"}]
        ),
        done("HookPrompt", INJECTED),
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": {"total_tokens": 100}}}},
        item("message", role="assistant", content=[{"type": "output_text", "text": "summary canary"}]),
        {"timestamp": f"{_T}8Z", "type": "compacted", "payload": {"message": "canary", "replacement_history": []}},
    ]


def copilot() -> Lines:
    """The same in Copilot CLI, where a blocked stop comes back as a message of the user."""

    def event(kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "data": data, "id": f"{kind}{len(str(data))}", "timestamp": f"{_T}1Z"}

    def tool(call: str, name: str, **arguments: Any) -> dict[str, Any]:
        return event("assistant.message", content="", toolRequests=[_request(call, name, arguments)])

    return [
        event("session.start", sessionId="46", context={"cwd": FOLDER, "branch": "main"}),
        event("hook.end", hookType="sessionStart", output={"additionalContext": INJECTED}),
        event("user.message", content=ASKED, transformedContent=f"{ASKED} {INJECTED}"),
        tool("t1", "bash", command="pytest -q"),
        event(
            "tool.execution_complete",
            toolCallId="t1",
            success=True,
            shellExecution={"exitCode": 1},
            result=_out("1 failed"),
        ),
        tool("t2", "edit", path="src/pool.py"),
        event("tool.execution_complete", toolCallId="t2", success=True, result=_out("ok")),
        event("session.usage_record", usage={"inputTokens": 90, "outputTokens": 10}),
        event("assistant.message", content=ANSWER, toolRequests=[]),
        event("user.message", content=INJECTED),
        event("assistant.message", content="canary of a sub-agent", parentToolCallId="t3"),
        event("session.compaction_complete", success=False),
        event("session.compaction_complete", success=True, summaryContent="canary"),
    ]


def _request(call: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"toolCallId": call, "name": name, "arguments": arguments}


def _out(text: str) -> dict[str, Any]:
    return {"content": text}


def gemini() -> Lines:
    """The same in Gemini CLI, which writes a message again when its tools have run."""

    def tool(call: str, name: str, arguments: dict[str, Any], output: str) -> dict[str, Any]:
        result = [{"functionResponse": {"id": call, "response": {"output": output}}}]
        return {"id": call, "name": name, "args": arguments, "status": "success", "result": result}

    def message(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"id": f"m{number}", "timestamp": f"{_T}{number}Z", "type": kind, "content": content, **more}

    shell = tool("t1", "run_shell_command", {"command": "pytest -q"}, "Output: 1 failed\nExit Code: 1")
    hook = {"text": f"<hook_context>{_ESCAPED}</hook_context>"}
    return [
        {"sessionId": "08", "startTime": f"{_T}0Z", "kind": "main"},
        {"$set": {"messages": [message(0, "user", [{"text": "<session_context>canary"}])]}},
        message(1, "user", [{"text": f"<hook_context>{_ESCAPED}</hook_context>\n\n{ASKED}"}, hook]),
        message(2, "gemini", "Let me see.", tokens={"total": 100}),
        message(2, "gemini", "Let me see.", tokens={"total": 100}, toolCalls=[shell]),
        message(3, "user", [{"functionResponse": {"id": "t1", "response": {"output": "1 failed"}}}]),
        message(4, "gemini", "", toolCalls=[tool("t2", "replace", {"file_path": "src/pool.py"}, "ok")]),
        message(5, "gemini", ANSWER, thoughts=[{"description": "canary"}], tokens={"total": 100}),
        message(6, "user", [{"text": INJECTED}, hook]),
        message(7, "info", "canary: a notice of the program"),
        {"$set": {"messages": [message(8, "user", [{"text": "<state_snapshot>canary</state_snapshot>"}])]}},
    ]


def qwen() -> Lines:
    """The same in Qwen Code."""

    def record(number: int, kind: str, parts: Lines, **more: Any) -> dict[str, Any]:
        common = {"uuid": f"u{number}", "timestamp": f"{_T}{number}Z", "cwd": FOLDER, "gitBranch": "main"}
        return {**common, "type": kind, "message": {"role": "user", "parts": parts}, **more}

    hook = {"text": f"<qwen:user-prompt-submit-context>\n{_ESCAPED}\n</qwen:user-prompt-submit-context>"}
    shell = {"functionCall": {"id": "t1", "name": "run_shell_command", "args": {"command": "pytest -q"}}}
    edit = {"functionCall": {"id": "t2", "name": "edit", "args": {"file_path": "src/pool.py"}}}
    failed, done = {"status": "error"}, {"status": "success"}
    return [
        record(1, "user", [{"text": ASKED}, hook], provenance="real_user"),
        record(2, "assistant", [{"text": "canary", "thought": True}, shell], usageMetadata={"totalTokenCount": 100}),
        record(3, "tool_result", [_response("t1", {"error": "1 failed"})], toolCallResult=failed),
        record(4, "assistant", [edit]),
        record(5, "tool_result", [_response("t2", {"output": "ok"})], toolCallResult=done),
        record(6, "assistant", [{"text": ANSWER}]),
        record(7, "user", [{"text": "canary"}], provenance="system"),
        record(8, "system", [], subtype="ui_telemetry", systemPayload={"uiEvent": {"response_text": "canary"}}),
        record(8, "system", [], subtype="chat_compression"),
    ]


def _response(call: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"functionResponse": {"id": call, "response": response}}


def opencode() -> Lines:
    """The same in OpenCode, as ``opencode export`` writes it."""

    def message(number: int, role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
        time = {"created": 1_770_714_000_000 + number * 1000, "completed": 1_770_714_000_500 + number * 1000}
        return {"info": {"id": f"msg_{number}", "role": role, "time": time, **more}, "parts": list(parts)}

    def tool(call: str, name: str, arguments: dict[str, Any], **state: Any) -> dict[str, Any]:
        return {
            "type": "tool",
            "tool": name,
            "callID": call,
            "state": {"status": "completed", "input": arguments, **state},
        }

    return [
        message(1, "user", {"type": "text", "text": ASKED}, {"type": "text", "text": INJECTED}),
        message(
            2,
            "assistant",
            {"type": "reasoning", "text": "canary"},
            tool("t1", "bash", {"command": "pytest -q"}, output="1 failed", metadata={"exit": 1}),
            tool("t2", "edit", {"filePath": "src/pool.py"}, output="ok"),
            {"type": "step-finish", "tokens": {"input": 60, "output": 10, "reasoning": 0, "cache": {"read": 30}}},
        ),
        message(3, "assistant", {"type": "text", "text": ANSWER}),
        message(4, "user", {"type": "text", "text": "canary", "synthetic": True}),
        message(5, "user", {"type": "compaction", "auto": True}),
        message(6, "assistant", {"type": "text", "text": "summary canary"}, summary=True),
    ]


#: Where each host keeps the transcript of a session, below the home folder.
FILES = {
    "claude-code": ".claude/projects/-home-ada-shop/5f0c.jsonl",
    "codex": ".codex/sessions/2026/02/10/rollout-2026-02-10T09-00-00-01a1e2c5-9c0f-73c2-8359-f89258d21e71.jsonl",
    "copilot": ".copilot/session-state/46ab/events.jsonl",
    "gemini": ".gemini/tmp/shop/chats/session-2026-02-10T09-00-08ab12cd.jsonl",
    "qwen": ".qwen/projects/-home-ada-shop/chats/c07d.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
}
SESSIONS = {
    "claude-code": "5f0c",
    "codex": "01a1e2c5-9c0f-73c2-8359-f89258d21e71",
    "copilot": "46ab",
    "gemini": "session-2026-02-10T09-00-08ab12cd",
    "qwen": "c07d",
    "opencode": "ses_1",
}
LINES = {
    "claude-code": claude_code,
    "codex": codex,
    "copilot": copilot,
    "gemini": gemini,
    "qwen": qwen,
    "opencode": opencode,
}


def _dashes(folder: str) -> str:
    return re.sub("[^A-Za-z0-9]", "-", folder)


def write_host(home: Path, host: str, *, folder: str = FOLDER, lines: Lines | None = None) -> str:
    """Write the conversation of a host below a home folder; return it as ``read_steps`` takes it."""
    records = LINES[host]() if lines is None else lines
    file = home / FILES[host].replace(_dashes(FOLDER), _dashes(folder))
    file.parent.mkdir(parents=True, exist_ok=True)
    if host == "opencode":
        write_database(file, records, folder=folder)
        return f"{file}#{SESSIONS[host]}"
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    file.write_text(text.replace(FOLDER, folder), "utf-8")
    if host == "gemini":
        (file.parent.parent / ".project_root").write_text(folder)
    return str(file)


def write_database(
    file: Path, messages: Lines, *, session: str = "ses_1", folder: str = FOLDER, parent: str | None = None
) -> None:
    """Write a conversation into OpenCode's database, in the columns that matter."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, parent_id text, directory text NOT NULL,"
            " title text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL)"
        )
        for table, owner in (("message", ""), ("part", "message_id text NOT NULL, ")):
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, {owner}session_id text NOT NULL,"
                " time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL)"
            )
        updated = max((message["info"]["time"]["created"] for message in messages), default=1)
        row = (session, parent, folder, "Fix the pool", 1, updated)
        connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        for message in messages:
            _write_message(connection, session, message)


def _write_message(connection: sqlite3.Connection, session: str, message: dict[str, Any]) -> None:
    info = dict(message["info"])
    name, at = info.pop("id"), info["time"]["created"]
    connection.execute(
        "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", (name, session, at, at, json.dumps(info))
    )
    for number, part in enumerate(message["parts"]):
        row = (f"prt_{name}_{number}", name, session, at, at, json.dumps(part))
        connection.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
