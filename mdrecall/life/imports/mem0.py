"""Memories that mem0 or OpenMemory export: a list, the answer of ``get_all``, one object a line, or an archive."""

import re
from collections.abc import Iterator
from typing import Any

from mdrecall.core.life.imported import Item
from mdrecall.errors import BUGS, NotAFile
from mdrecall.life.imports.exports import JsonFile, find_json, read_items
from mdrecall.life.imports.reading import Read, Request, Skipped, dict_of, list_of, seconds_of, text_of

#: OpenMemory's archive also has the same memories one a line, which are not needed twice.
_FILES = re.compile(r"(?:.*memor.*|export.*|mem0.*|.*openmemory.*)\.jsonl?", re.IGNORECASE)
_LISTS = ("results", "memories", "data", "items")
_TEXTS = ("memory", "content", "text", "data")
_OWNERS = ("user_id", "agent_id", "app_id", "run_id")
_NOT_IN_NAME = re.compile(r"[^\w.@+-]+")
#: A longer name of a note would be unwieldy.
_MAX_NAME_CHARS = 60
#: More people than one person knows. Each note is written to the disk for itself, so that all others share one.
_MAX_PEOPLE = 200


def read_mem0(request: Request) -> Iterator[Read]:
    """Yield every memory of an export, in the note of the person it is about."""
    files = find_json(request.path, _FILES)
    is_known = False
    people: set[str] = set()
    for file in files:
        for found in _read_file(file, request, people):
            is_known = is_known or isinstance(found, Item)
            yield found
    if not is_known:
        hint = "Save the answer of get_all as JSON, with a large top_k, or name an archive of OpenMemory."
        raise NotAFile(f"{request.path} has no memories of mem0.", path=request.path, hint=hint)


def _read_file(file: JsonFile, request: Request, people: set[str]) -> Iterator[Read]:
    for value in read_items(file):
        group = dict_of(value)
        name = next((name for name in _LISTS if isinstance(group.get(name), list)), "")
        categories = {
            text_of(one.get("id")): text_of(one.get("name")) for one in map(dict_of, list_of(group.get("categories")))
        }
        owner = text_of(dict_of(group.get("user")).get("user_id"))
        for number, memory in enumerate(group[name] if name else [value], 1):
            try:
                found = _read_memory(dict_of(memory), request, categories, owner, number)
                yield _choose_note(found, people) if isinstance(found, Item) else found
            except BUGS as error:
                yield Skipped(f"memory {number}", f"it cannot be read ({type(error).__name__})")


def _choose_note(memory: Item, people: set[str]) -> Item:
    """Return a memory for the note of its owner, or, if there are too many of them, for that of all others."""
    if memory.path in people or len(people) < _MAX_PEOPLE:
        people.add(memory.path)
        return memory
    return memory._replace(path="memories", tags=(memory.path, *memory.tags))


def _read_memory(memory: dict[str, Any], request: Request, categories: dict[str, str], owner: str, number: int) -> Read:
    name = text_of(memory.get("id")) or f"memory {number}"
    text = next(filter(None, (text_of(memory.get(field)) for field in _TEXTS)), "")
    if not text:
        return Skipped(name, "it has no text")
    if memory.get("state") == "deleted":
        return Skipped(name, "it was deleted there")
    if "" < text_of(memory.get("expiration_date"))[:10] < request.today:
        return Skipped(name, "it has expired")
    owner = owner or next(filter(None, (text_of(memory.get(field)) for field in _OWNERS)), "")
    named = [text_of(one) for one in list_of(memory.get("categories"))]
    named += [categories.get(text_of(one), "") for one in list_of(memory.get("category_ids"))]
    changed = memory.get("updated_at") or memory.get("created_at")
    return Item(
        # A memory that was changed is another entry: the one that it replaces stays, as does its day.
        f"{name}\0{text}", text[:60], text, request.day(memory.get("created_at")) or request.day(changed),
        path=_NOT_IN_NAME.sub("-", owner)[:_MAX_NAME_CHARS].strip("-.") or "memories", is_entry=True,
        tags=tuple(filter(None, named)), version=seconds_of(changed),
    )  # fmt: skip
