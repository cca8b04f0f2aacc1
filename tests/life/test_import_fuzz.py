"""Exports that nobody would write: an item is read or skipped with a reason, or the file is refused."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.errors import ReadError
from mdrecall.extras.imports.exports import read_items
from mdrecall.extras.imports.items import (
    Item,
    add_mark,
    clean_text,
    clean_title,
    find_blocks,
    hash_key,
    name_note,
    render_entry,
    render_note,
)
from mdrecall.extras.imports.readers import read_chatgpt, read_claude, read_mem0
from mdrecall.extras.imports.sources import Read, Request
from mdrecall.types.documents import Issue

NAMES = (
    "id", "conversation_id", "title", "mapping", "current_node", "message", "author", "role", "content", "parts",
    "content_type", "text", "parent", "children", "create_time", "metadata", "uuid", "name", "chat_messages", "sender",
    "created_at", "parent_message_uuid", "type", "memory", "user_id", "results", "categories", "category_ids", "user",
    "a", "b",
)  # fmt: skip
TEXTS = st.text(max_size=8) | st.sampled_from(("a", "b", "user", "assistant", "human", "text", "<!--", "-->", "---\n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


@pytest.mark.parametrize("read", [read_chatgpt, read_claude, read_mem0])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(value=VALUES)
def test_any_json_is_read_or_refused(read: Callable[[Request], Iterator[Read]], value: Any, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps(value))
    with suppress(ReadError):
        for found in read(Request(str(file))):
            if isinstance(found, Item):
                assert found.key
                assert found.text.strip()
                assert name_note(found._replace(title=clean_title(found.title)))
            else:
                assert isinstance(found, Issue)
                assert found.problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(VALUES, max_size=4), cut=st.integers(0, 60), is_lines=st.booleans())
def test_a_list_is_what_json_says_and_a_cut_one_is_an_error(
    values: list[Any], cut: int, is_lines: bool, tmp_path: Path
) -> None:
    file = tmp_path / "list.json"
    whole = "\n".join(map(json.dumps, values)) if is_lines else json.dumps(values)
    file.write_text(whole)
    if is_lines and (not values or any(isinstance(value, list) for value in values)):
        return
    assert repr(list(read_items((str(file), "")))) == repr(values)
    if not is_lines and cut < len(whole):
        file.write_text(whole[:cut])
        with pytest.raises(ReadError):
            list(read_items((str(file), "")))


@given(text=st.text() | TEXTS, title=st.text(), key=st.text(), is_entry=st.booleans(), tags=st.lists(st.text()))
def test_any_text_makes_one_block_that_is_recognised(
    text: str, title: str, key: str, is_entry: bool, tags: list[str]
) -> None:
    item = Item(key, clean_title(clean_text(title)), text, "2026-02-10", tags=tuple(tags))
    body = render_entry(item, clean_text) if is_entry else render_note(item, "chatgpt", clean_text)
    if not body:
        assert not clean_text(text).strip()
        return
    note = add_mark(body, "chatgpt", [hash_key(key)])
    (block,) = find_blocks(f"{note}\nand more\n")
    assert block.keys == (hash_key(key),)
    assert not block.is_edited
    assert note.count("<!--") == 1
    assert note.encode().decode() == note
    (edited,) = find_blocks(f"x{note}")
    assert edited.is_edited
