"""What one record in the transcript of a coding agent says: a function for each format.

A record comes from a file that anybody may have written, so nothing about its shape is taken for granted. What the host
or memory put into the conversation is left out: reminders, summaries of compactions, the texts of hooks.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.sessions.jsonl import as_object, as_text, parse_object
from mdrecall.sessions.messages import is_silent, strip_memory
from mdrecall.types.transcripts import Step

#: The end of a command's output is enough to see how it ended, and which commit it made.
_RESULT_CHARS = 2_000
#: A title is shown on one line of a list.
_TITLE_CHARS = 80
#: A patch or a list of edits rarely names more; a digest shows only some.
_MAX_FILES = 100

_SHELLS = {"bash", "shell", "shell_command", "local_shell", "exec_command", "run_shell_command", "powershell"}
_WRITERS = {
    *("write", "edit", "multiedit", "notebookedit", "create", "insert", "str_replace", "str_replace_editor"),
    *("write_file", "replace", "edit_file", "apply_patch", "patch"),
}
_PATHS = ("file_path", "filePath", "path", "notebook_path", "absolute_path")
_PATCHED = compile_later(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,500})$", re.MULTILINE)
_EXIT_CODE = compile_later(r"(?:exited with code|with exit code|Exit Code:|\"exit_code\":) ?(-?\d{1,10})")
#: Messages in the name of the user that the host writes: commands to itself, their output, and its own notices.
_NOT_SAID = compile_later(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-|bash-(?:input|stdout|stderr)|task-notification|"
    r"session_context|environment_context|user_instructions|subagent_notification|turn_aborted)"
    r"|\[Request interrupted by user|# AGENTS\.md instructions for )"
)
# A command of the host that a person ran, and what it was about.
_COMMAND = compile_later(
    r"\s*(?:<command-message>[^<]*</command-message>\s*)?<command-name>(/[\w:-]+)</command-name>"
    r"\s*(?:<command-message>[^<]*</command-message>\s*)?<command-args>\s*([^<]*\w)"
)

Json: TypeAlias = dict[str, Any]


class About(NamedTuple):
    """What a record says about its conversation; empty where it says nothing."""

    folder: str = ""
    branch: str = ""
    title: str = ""
    is_subagent: bool = False


class ParsedRecord(NamedTuple):
    """What one record says."""

    steps: tuple[Step, ...] = ()
    at: str = ""
    id: str = ""
    """The host's id of the record, which a copy of it shares; empty if it has none."""
    about: About = About()


ParseRecord: TypeAlias = Callable[[Json], ParsedRecord]


def title_of(text: str) -> str:
    """Return the beginning of a message as a title on one line."""
    line = " ".join(text[: 4 * _TITLE_CHARS].split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1].rstrip()}…"


def parse_claude_code(record: Json) -> ParsedRecord:
    """Parse a line of Claude Code's transcript."""
    about = About(_text(record, "cwd"), _text(record, "gitBranch"), "", record.get("isSidechain") is True)
    parsed = ParsedRecord((), _text(record, "timestamp"), _text(record, "uuid"), about)
    kind, message = record.get("type"), _object(record, "message")
    flags = ("isMeta", "isCompactSummary", "isApiErrorMessage", "isSidechain")
    if kind not in ("user", "assistant") or any(record.get(flag) for flag in flags):
        return parsed
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
    speaker: Literal["user", "assistant"] = "user" if kind == "user" else "assistant"
    return parsed._replace(steps=tuple(_claude_steps(blocks, speaker)))


def _claude_steps(blocks: list[Json], speaker: Literal["user", "assistant"]) -> Iterator[Step]:
    if command := _COMMAND.match(_text(blocks[0], "text")) if blocks and speaker == "user" else None:
        yield Step("call", f"{command[1]} {command[2]}")
    yield from _say(speaker, (_text(block, "text") for block in blocks if block.get("type") == "text"))
    for block in blocks:
        if block.get("type") == "tool_use":
            yield _call(_text(block, "name"), _object(block, "input"), _text(block, "id"))
        elif block.get("type") == "tool_result":
            output, failed = _output(block.get("content")), block.get("is_error") is True
            yield _result(output, _text(block, "tool_use_id"), is_ok=not failed)


def parse_codex(record: Json) -> ParsedRecord:
    """Parse a line of Codex's transcript.

    What was said stands twice in it: as items for the model, among them instructions and requests for summaries, and
    as events for the person, which are read here.
    """
    payload = _object(record, "payload")
    parsed = ParsedRecord((), _text(record, "timestamp"))
    kind = record.get("type")
    if kind == "session_meta":
        source = payload.get("source")
        is_sub = payload.get("thread_source") == "subagent" or (isinstance(source, dict) and "subagent" in source)
        about = About(_text(payload, "cwd"), _text(_object(payload, "git"), "branch"), "", is_sub)
        return parsed._replace(about=about)
    if kind == "event_msg":
        return parsed._replace(steps=tuple(_codex_said(payload)))
    if kind == "response_item":
        return parsed._replace(steps=tuple(_codex_tool(payload)))
    return parsed


def _codex_said(payload: Json) -> Iterator[Step]:
    item = _object(payload, "item") if payload.get("type") == "item_completed" else {}
    texts = [_text(block, "text") for block in _objects(item.get("content"))]
    # The names with an underscore are those of older versions, which have no item.
    match item.get("type") or payload.get("type"):
        case "UserMessage" | "user_message":
            yield from _say("user", texts or [_text(payload, "message")])
        case "AgentMessage" | "agent_message":
            yield from _say("assistant", texts or [_text(payload, "message")])


def _codex_tool(payload: Json) -> Iterator[Step]:
    call = _text(payload, "call_id")
    match payload.get("type"):
        case "function_call":
            yield _call(_text(payload, "name"), parse_object(payload.get("arguments")), call)
        case "custom_tool_call":
            yield _call(_text(payload, "name"), {"input": payload.get("input")}, call)
        case "local_shell_call":
            yield _call("local_shell", _object(payload, "action"), call)
        case "function_call_output" | "custom_tool_call_output":
            yield _result(_output(payload.get("output")), call)


def parse_copilot(record: Json) -> ParsedRecord:
    """Parse a line of Copilot CLI's transcript."""
    data = _object(record, "data")
    parsed = ParsedRecord((), _text(record, "timestamp"), _text(record, "id"))
    if data.get("parentToolCallId"):  # A sub-agent speaks, or is spoken to.
        return parsed
    match record.get("type"):
        case "session.start" | "session.resume":
            context = _object(data, "context")
            return parsed._replace(about=About(_text(context, "cwd"), _text(context, "branch")))
        case "user.message":
            return parsed._replace(steps=tuple(_say("user", [_text(data, "content")])))
        case "assistant.message":
            tools = (
                _call(_text(tool, "name"), parse_object(tool.get("arguments")), _text(tool, "toolCallId"))
                for tool in _objects(data.get("toolRequests"))
            )
            return parsed._replace(steps=(*_say("assistant", [_text(data, "content")]), *tools))
        case "tool.execution_complete":
            code = _object(data, "shellExecution").get("exitCode")
            is_ok = code == 0 if isinstance(code, int) else data.get("success") is True
            output = _output(_object(data, "result").get("content"))
            return parsed._replace(steps=(_result(output, _text(data, "toolCallId"), is_ok=is_ok),))
    return parsed


def parse_gemini(record: Json) -> ParsedRecord:
    """Parse a line of Gemini CLI's transcript. A line that repeats all messages has no new one."""
    about = About(is_subagent=record.get("kind", "main") != "main")
    parsed = ParsedRecord((), _text(record, "timestamp"), _text(record, "id"), about)
    texts = _texts(record.get("content"))
    if record.get("type") == "user":
        return parsed._replace(steps=tuple(_say("user", texts)))
    if record.get("type") == "gemini":
        tools = (step for tool in _objects(record.get("toolCalls")) for step in _gemini_tool(tool))
        return parsed._replace(steps=(*_say("assistant", texts), *tools))
    return parsed


def _gemini_tool(tool: Json) -> Iterator[Step]:
    call = _text(tool, "id")
    yield _call(_text(tool, "name"), _object(tool, "args"), call)
    responses = (_object(_object(part, "functionResponse"), "response") for part in _objects(tool.get("result")))
    output = "\n".join(_text(response, "output") or _text(response, "error") for response in responses)
    if status := tool.get("status"):
        # A command that fails is a success too: only its output has the exit code.
        step = _result(output, call, is_ok=None if status == "success" else False)
        yield step if step.is_ok is not None else step._replace(is_ok=True)


def parse_qwen(record: Json) -> ParsedRecord:
    """Parse a line of Qwen Code's transcript."""
    about = About(_text(record, "cwd"), _text(record, "gitBranch"))
    parsed = ParsedRecord((), _text(record, "timestamp"), _text(record, "uuid"), about)
    parts = _objects(_object(record, "message").get("parts"))
    texts = [_text(part, "text") for part in parts if not part.get("thought")]
    match record.get("type"):
        case "user" if record.get("provenance", "real_user") == "real_user":
            return parsed._replace(steps=tuple(_say("user", texts)))
        case "assistant":
            tools = (_object(part, "functionCall") for part in parts if "functionCall" in part)
            calls = (_call(_text(tool, "name"), _object(tool, "args"), _text(tool, "id")) for tool in tools)
            return parsed._replace(steps=(*_say("assistant", texts), *calls))
        case "tool_result":
            return parsed._replace(steps=tuple(_qwen_results(parts, _object(record, "toolCallResult"))))
    return parsed


def _qwen_results(parts: list[Json], outcome: Json) -> Iterator[Step]:
    for part in parts:
        if found := _object(part, "functionResponse"):
            response = _object(found, "response")
            output = _text(response, "output") or _text(response, "error")
            yield _result(output, _text(found, "id"), is_ok=outcome.get("status", "success") == "success")


def parse_opencode(message: Json) -> ParsedRecord:
    """Parse a message of OpenCode with its ``parts``, as ``opencode export`` writes them."""
    info, parts = _object(message, "info"), _objects(message.get("parts"))
    speaker: Literal["user", "assistant"] = "assistant" if info.get("role") == "assistant" else "user"
    parsed = ParsedRecord((), "", _text(info, "id"))
    if info.get("summary") is True or any(part.get("type") == "compaction" for part in parts):
        return parsed
    said = [_text(part, "text") for part in parts if part.get("type") == "text" and not part.get("synthetic")]
    tools = (step for part in parts if part.get("type") == "tool" for step in _opencode_tool(part))
    return parsed._replace(steps=(*_say(speaker, said), *tools))


def _opencode_tool(part: Json) -> Iterator[Step]:
    call, state = _text(part, "callID"), _object(part, "state")
    yield _call(_text(part, "tool"), _object(state, "input"), call)
    if state.get("status") not in ("completed", "error"):
        return
    code = _object(state, "metadata").get("exit")
    is_ok = code == 0 if isinstance(code, int) else state.get("status") == "completed"
    yield _result(_text(state, "output") or _text(state, "error"), call, is_ok=is_ok)


def _say(speaker: Literal["user", "assistant"], texts: Iterable[str]) -> Iterator[Step]:
    """Yield what somebody says, if anything is left without what was injected."""
    kept = (strip_memory(text) for text in texts if not (speaker == "user" and _NOT_SAID.match(text)))
    if said := "\n".join(text for text in kept if text.strip() and not is_silent(text)):
        yield Step(speaker, said)


def _call(name: str, arguments: Json, call: str) -> Step:
    tool = name.rpartition("__")[2].lower()
    command = arguments.get("command", arguments.get("cmd")) if tool in _SHELLS else ""
    if isinstance(command, list):  # A program with its arguments; behind ``bash -lc`` stands what was meant.
        words = [word for word in command if isinstance(word, str)]
        command = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    text = command if isinstance(command, str) else ""
    return Step("call", text, tuple(dict.fromkeys(_written_files(tool, arguments, text)))[:_MAX_FILES], call)


def _written_files(tool: str, arguments: Json, command: str) -> Iterator[str]:
    if tool in _WRITERS and arguments.get("command") != "view":
        yield from (path for key in _PATHS if (path := _text(arguments, key)))
        command = next((text for key in ("input", "patch", "patchText") if (text := _text(arguments, key))), "")
    if "*** Begin Patch" in command:
        yield from (found[1].strip() for found in _PATCHED.finditer(command))


def _result(output: str, call: str, *, is_ok: bool | None = None) -> Step:
    """Return the result of a call; if the host does not say how it ended, an exit code in the output does."""
    tail = strip_memory(output)[-_RESULT_CHARS:]
    if is_ok is None and (found := _EXIT_CODE.search(output[:_RESULT_CHARS]) or _EXIT_CODE.search(tail)):
        is_ok = int(found[1]) == 0
    return Step("result", tail, (), call, is_ok)


def _output(content: Any) -> str:
    return "\n".join(_texts(content))


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [_text(block, "text") for block in _objects(content)]


def _text(record: Json, key: str) -> str:
    return as_text(record.get(key))


def _object(record: Json, key: str) -> Json:
    return as_object(record.get(key))


def _objects(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
