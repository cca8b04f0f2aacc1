"""What another program remembered, as a note, as an entry of a list, and as a block with its mark."""

import pytest

from mdrecall.extras.imports.items import (
    Item,
    add_mark,
    find_blocks,
    hash_key,
    hash_text,
    name_note,
    render_entry,
    render_note,
)

FULL = Item(
    "c-1", "Trip to Lisbon", "We take the train.", "2024-05-12", url="https://x.example/1", tags=("travel", "  ", "a_b")
)
NOTE = """\
---
date: 2024-05-12
origin: import
source: chats
title: "Trip to Lisbon"
tags: ["travel", "a b"]
url: "https://x.example/1"
---

# Trip to Lisbon

We take the train."""


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (FULL, f"2024/2024-05-12-trip-to-lisbon-{hash_key('c-1')[:6]}"),
        (FULL._replace(day=""), f"trip-to-lisbon-{hash_key('c-1')[:6]}"),
        (FULL._replace(title="?"), f"2024/2024-05-12-{hash_key('c-1')[:6]}"),
        (FULL._replace(path="trips/lisbon"), "trips/lisbon"),
    ],
)
def test_a_note_is_named_by_its_day_its_title_and_its_key(item: Item, name: str) -> None:
    assert name_note(item) == name


def test_a_note_has_its_facts_above_its_text() -> None:
    assert render_note(FULL, "chats", str) == NOTE
    headed = render_note(FULL._replace(text="# Mine\n\nText"), "chats", str)
    assert headed.endswith("---\n\n# Mine\n\nText")
    assert render_note(Item("k", "", "Text"), "chats", str) == "---\norigin: import\nsource: chats\n---\n\nText"
    assert render_note(FULL, "chats", lambda text: "") == ""


@pytest.mark.parametrize(
    ("item", "entry"),
    [
        (FULL, "- We take the train. (2024-05-12; travel, a b)"),
        (FULL._replace(day=""), "- We take the train. (travel, a b)"),
        (FULL._replace(tags=()), "- We take the train. (2024-05-12)"),
        (Item("k", "", " two\n lines "), "- two lines"),
        (Item("k", "", " \n ", "2024-05-12"), ""),
    ],
)
def test_an_entry_is_one_line_with_its_facts(item: Item, entry: str) -> None:
    assert render_entry(item, str) == entry


def test_blocks_are_found_by_their_marks_and_an_edit_is_noticed() -> None:
    first, second = add_mark("One.\n", "chats", ["a"]), add_mark("\nTwo.", "mem0", ["b", "c"])
    found = list(find_blocks(first + second.replace("Two.", "Three.") + "the rest"))
    assert [(block.source, block.keys, block.is_edited) for block in found] == [
        ("chats", ("a",), False),
        ("mem0", ("b", "c"), True),
    ]
    assert (found[0].start, found[1].start) == (0, found[0].end)
    assert found[0].text_hash == hash_text("One.")
