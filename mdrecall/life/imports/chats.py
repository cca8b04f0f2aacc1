"""Conversations that ChatGPT and Claude export: titles, dates, and the messages of the branch that was seen last."""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from mdrecall.core.life.imported import Item
from mdrecall.errors import BUGS, NotAFile
from mdrecall.life.imports.exports import JsonFile, find_json, read_items
from mdrecall.life.imports.reading import (
    Read,
    Request,
    Skipped,
    dict_of,
    list_of,
    seconds_of,
    text_of,
)

#: ``conversations.json``, or since 2026 several numbered files.
_CONVERSATIONS = re.compile(r"conversations(?:[-_]\d+)?\.json", re.IGNORECASE)
#: What Claude remembers of all conversations, and of each project.
_MEMORIES = re.compile(r"memories(?:[-_]\d+)?\.json", re.IGNORECASE)
#: Claude's projects, with the documents that a person gave to each.
_PROJECTS = re.compile(r"projects(?:[-_]\d+)?\.json", re.IGNORECASE)
_SPEAKERS = {"user": "User", "human": "User", "assistant": "Assistant"}
#: What a person sees of ChatGPT's answers; reasoning, tool calls and settings are stored beside it.
_VISIBLE = ("text", "multimodal_text", "code")
# ChatGPT stands these for a source or a picture, between characters that no font has.
_CITATION = re.compile("\ue200[^\ue201]{0,500}\ue201|【[^】]{0,100}†[^】]{0,100}】")


class _Message(NamedTuple):
    speaker: str
    text: str
    at: Any


def read_chatgpt(request: Request) -> Iterator[Read]:
    """Yield every conversation of ChatGPT's export."""
    return _read_conversations(request, "ChatGPT", "mapping", _read_chatgpt_conversation)


def read_claude(request: Request) -> Iterator[Read]:
    """Yield every conversation of Claude's export, what Claude remembers of them, and the texts of projects."""
    yield from _read_conversations(request, "Claude", "chat_messages", _read_claude_conversation)
    for file in _find_beside(request.path, _MEMORIES):
        for value in read_items(file):
            yield from _read_claude_memories(dict_of(value))
    for file in _find_beside(request.path, _PROJECTS):
        for value in read_items(file):
            yield from _read_claude_project(dict_of(value), request)


def _read_conversations(
    request: Request, program: str, field: str, read: Callable[[dict[str, Any], Request], Read]
) -> Iterator[Read]:
    files = find_json(request.path, _CONVERSATIONS)
    if not files:
        hint = "Name the archive that was downloaded, the folder it was unpacked to, or conversations.json."
        message = f"There is no conversations.json in {request.path}."
        raise NotAFile(message, path=request.path, hint=hint)
    number = known = 0
    for number, value in enumerate(chain.from_iterable(map(_each_conversation, files)), 1):
        conversation = dict_of(value)
        name = text_of(conversation.get("title") or conversation.get("name")) or f"conversation {number}"
        is_one = field in conversation
        known += is_one
        try:
            yield read(conversation, request) if is_one else Skipped(name, f"it is not a conversation of {program}")
        except BUGS as error:
            yield Skipped(name, f"it cannot be read ({type(error).__name__})")
    if number and not known:
        raise NotAFile(
            f"{request.path} has no conversations of {program}.",
            path=request.path,
            hint="Another program may have exported it.",
        )


def _each_conversation(file: JsonFile) -> Iterator[Any]:
    """Yield the conversations of a file: a list of them, an object with such a list, or a single one."""
    for value in read_items(file):
        inner = value.get("conversations") if isinstance(value, dict) else None
        yield from inner if isinstance(inner, list) else [value]


def _read_chatgpt_conversation(conversation: dict[str, Any], request: Request) -> Read:
    mapping = dict_of(conversation["mapping"])
    found = [_read_chatgpt_message(dict_of(node.get("message"))) for node in _walk_branch(conversation, mapping)]
    key = text_of(conversation.get("conversation_id")) or text_of(conversation.get("id"))
    return _make_item(
        key, text_of(conversation.get("title")), [one for one in found if one], request,
        created=conversation.get("create_time"), updated=conversation.get("update_time"), site="https://chatgpt.com/c/",
    )  # fmt: skip


def _walk_branch(conversation: dict[str, Any], mapping: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes from the first to the current one; without a current one, along what was written last."""
    name = conversation.get("current_node")
    if not isinstance(name, str) or name not in mapping:
        name = _find_last_node(mapping)
    nodes: list[dict[str, Any]] = []
    seen: set[str] = set()
    while isinstance(name, str) and name in mapping and name not in seen:
        seen.add(name)
        nodes.append(dict_of(mapping[name]))
        name = nodes[-1].get("parent")
    return nodes[::-1]


def _find_last_node(mapping: dict[str, Any]) -> str | None:
    """Return the end of the branch with the node that was written last; not every node says when it was."""
    times = {key: seconds_of(dict_of(dict_of(node).get("message")).get("create_time")) for key, node in mapping.items()}
    name = max(times, key=times.__getitem__, default=None)
    seen: set[str] = set()
    while name is not None and name not in seen:
        seen.add(name)
        answers = reversed(list_of(dict_of(mapping[name]).get("children")))
        name = next((one for one in answers if isinstance(one, str) and one in mapping), name)
    return name


def _read_chatgpt_message(message: dict[str, Any]) -> _Message | None:
    """Return what a person said or saw; None for anything else."""
    speaker = _SPEAKERS.get(text_of(dict_of(message.get("author")).get("role")))
    content = dict_of(message.get("content"))
    metadata = dict_of(message.get("metadata"))
    is_hidden = metadata.get("is_visually_hidden_from_conversation") or metadata.get("is_user_system_message")
    is_for_tool = message.get("recipient") not in (None, "", "all")
    if not speaker or is_hidden or is_for_tool or content.get("content_type", "text") not in _VISIBLE:
        return None
    parts = [_read_part(part) for part in list_of(content.get("parts"))] or [text_of(content.get("text"))]
    text = _CITATION.sub("", "\n\n".join(filter(None, parts))).strip()
    return _Message(speaker, text, message.get("create_time")) if text else None


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return part.strip()
    kind = text_of(dict_of(part).get("content_type"))
    return text_of(dict_of(part).get("text")) or ("[image]" if "image" in kind else "")


def _read_claude_conversation(conversation: dict[str, Any], request: Request) -> Read:
    messages = [dict_of(message) for message in list_of(conversation["chat_messages"])]
    found = [_read_claude_message(message) for message in _choose_branch(conversation, messages)]
    return _make_item(
        text_of(conversation.get("uuid")), text_of(conversation.get("name")), [one for one in found if one], request,
        created=conversation.get("created_at"), updated=conversation.get("updated_at"), site="https://claude.ai/chat/",
    )  # fmt: skip


def _choose_branch(conversation: dict[str, Any], messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of the branch that was seen last; all of them in order if they do not say what they answer.

    An export does not say which branch is the current one: it is that of the message that was written last.
    """
    by_id = {text_of(message.get("uuid")): message for message in messages}
    if not any(text_of(message.get("parent_message_uuid")) in by_id for message in messages):
        return messages
    name = text_of(conversation.get("current_leaf_message_uuid"))
    if name not in by_id:
        last = max(enumerate(messages), key=lambda one: (seconds_of(one[1].get("created_at")), one[0]))[1]
        name = text_of(last.get("uuid"))
    branch: list[dict[str, Any]] = []
    while name in by_id:
        branch.append(by_id.pop(name))
        name = text_of(branch[-1].get("parent_message_uuid"))
    return branch[::-1]


def _read_claude_message(message: dict[str, Any]) -> _Message | None:
    speaker = _SPEAKERS.get(text_of(message.get("sender")))
    blocks = [dict_of(block) for block in list_of(message.get("content"))]
    shown = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
    text = "\n\n".join(filter(None, shown)) or text_of(message.get("text"))
    files = [*list_of(message.get("attachments")), *list_of(message.get("files"))]
    names = filter(None, (text_of(dict_of(file).get("file_name")) for file in files))
    said = "\n\n".join(filter(None, (text, *(f"[file: {name}]" for name in names))))
    return _Message(speaker, said, message.get("created_at")) if speaker and said else None


def _make_item(
    key: str, title: str, messages: list[_Message], request: Request, *, created: Any, updated: Any, site: str
) -> Read:
    name = title or key or "a conversation"
    if not key:
        return Skipped(name, "it has no id")
    if not messages:
        return Skipped(name, "it has no messages")
    times = [message.at for message in messages]
    day = request.day(created) or next(filter(None, map(request.day, times)), "")
    text = "\n\n".join(_show(message, request) for message in messages)
    version = max(map(seconds_of, (created, updated, *times)))
    url = f"{site}{key}" if re.fullmatch(r"[\w-]{1,100}", key) else ""
    return Item(key, title or messages[0].text.split("\n")[0][:80], text, day, url=url, session=key, version=version)


def _show(message: _Message, request: Request) -> str:
    minute = request.minute(message.at)
    return f"**{message.speaker}**{f' ({minute})' if minute else ''}: {message.text}"


def _find_beside(path: str, names: re.Pattern[str]) -> list[JsonFile]:
    """Return other files of an export that lie beside its conversations."""
    return [] if path.lower().endswith(".json") else find_json(path, names)


def _read_claude_project(project: dict[str, Any], request: Request) -> Iterator[Read]:
    """Yield the documents of a project, and what Claude was told to do in it."""
    key, name = text_of(project.get("uuid")), text_of(project.get("name")) or "a project"
    documents = [dict_of(document) for document in list_of(project.get("docs"))]
    told = {"uuid": "instructions", "filename": "instructions", "content": project.get("prompt_template")}
    for document in (told, *documents):
        about, text = text_of(document.get("filename")), text_of(document.get("content"))
        day = request.day(document.get("created_at") or project.get("created_at"))
        version = seconds_of(project.get("updated_at"))
        if text and key:
            number = text_of(document.get("uuid")) or about
            yield Item(f"project:{key}:{number}", f"{name}: {about}", text, day, version=version)


def _read_claude_memories(value: dict[str, Any]) -> Iterator[Read]:
    account = text_of(value.get("account_uuid"))
    if text := text_of(value.get("conversations_memory")):
        yield Item(f"memory:{account}", "What Claude remembers", text)
    for project, memory in dict_of(value.get("project_memories")).items():
        if text := text_of(memory):
            yield Item(f"memory:{account}:{project}", f"What Claude remembers of a project ({project[:8]})", text)
