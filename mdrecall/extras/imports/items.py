"""What another program remembered, as Markdown: one note for an item, or one line of a list for a short one.

What was written together is a *block*. It ends with a comment, its *mark*, that says where it comes from, which items
it holds, and what its text was. So the notes themselves say what was imported, and whether somebody has edited it.

The text of an item is somebody else's: it stays text, and cannot pass for a mark, an annotation or front matter.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mdrecall.patterns import drop_ending
from mdrecall.sessions.digest import note_name

#: Characters of a hash in a mark: the chance that two of a million items share one is below one in a hundred.
_HASH_CHARS = 12
#: Characters of the key in a file name; the day and the title tell nearly all notes apart already.
_NAME_HASH_CHARS = 6
_MAX_TITLE_CHARS = 200
_MARK = re.compile(
    r"^<!-- mdrecall:import source=([a-z0-9-]{1,40}) key=([0-9a-f,]{1,100000}) text=([0-9a-f]{1,64}) -->[ \t]*$",
    re.MULTILINE,
)
_COMMENT = re.compile(r"<!(?=--)")
# Control characters say nothing in a note, and some of them hide what follows on a terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SENTENCE_MARKS = re.compile(r"[\s#*`_\[\]]+")


class Item(NamedTuple):
    """Something that another program remembered."""

    key: str
    """What names it in its source, such as the id of a conversation."""
    title: str
    text: str
    day: str = ""
    """The day it is about, as YYYY-MM-DD; empty if that is unknown."""
    path: str = ""
    """The note it belongs in, below the folder of the import; empty to make a name from day and title."""
    is_entry: bool = False
    """True if it is one line of a list in a note, with others."""
    url: str = ""
    """Where it can be seen in its source."""
    tags: tuple[str, ...] = ()
    session: str = ""
    """The id of the conversation that it comes from."""
    version: float = 0.0
    """When it was last changed, in seconds: of two copies of an item the later one counts."""


class Block(NamedTuple):
    """A part of a note that an import has written."""

    source: str
    keys: tuple[str, ...]
    text_hash: str
    """The hash of its text when it was written."""
    start: int
    end: int
    is_edited: bool
    """True if its text is another one now."""


def hash_key(key: str) -> str:
    """Return what stands in a mark for the key of an item, which may hold anything."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]


def name_note(item: Item) -> str:
    """Return the path of an item's note, below the folder of the import and without its ending."""
    if item.path:
        return item.path
    words = drop_ending(note_name("", item.title)).strip("-")
    name = "-".join(filter(None, (item.day, words, hash_key(item.key)[:_NAME_HASH_CHARS])))
    return f"{item.day[:4]}/{name}" if item.day else name


def render_note(item: Item, source: str, clean: Callable[[str], str]) -> str:
    """Return an item with a clean title as a note without a mark, masked by ``clean``; empty if nothing is left."""
    text = clean(item.text).strip()
    if not text:
        return ""
    tags = [tag for one in item.tags if (tag := clean_title(clean(one)))]
    plain = {"date": item.day, "origin": "import", "source": source}
    quoted = {"title": item.title, "tags": tags, "url": item.url}
    lines = [f"{name}: {value}" for name, value in plain.items() if value]
    # What JSON writes is YAML too.
    lines += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in quoted.items() if value]
    heading = "" if text.startswith("# ") or not item.title else f"# {item.title}\n\n"
    return "\n".join(("---", *lines, "---", "", f"{heading}{text}"))


def render_entry(item: Item, clean: Callable[[str], str]) -> str:
    """Return an item as an entry of a list; empty if nothing is left of it."""
    text = " ".join(clean(item.text).split())
    tags = ", ".join(filter(None, (clean_title(clean(tag)) for tag in item.tags)))
    facts = "; ".join(filter(None, (item.day, tags)))
    return f"- {text}{f' ({facts})' if facts else ''}" if text else ""


def add_mark(text: str, source: str, keys: Sequence[str]) -> str:
    """Return a text with the mark that makes it a block."""
    mark = f"<!-- mdrecall:import source={source} key={','.join(keys)} text={hash_text(text)} -->"
    return f"{text.strip()}\n\n{mark}\n"


def hash_text(text: str) -> str:
    """Return the hash of a block's text; blank lines around it do not count."""
    return hash_key(text.strip())


def find_blocks(note: str) -> Iterator[Block]:
    """Yield the blocks of a note. Each reaches from the end of the one before, or from the beginning, to its mark."""
    start = 0
    for mark in _MARK.finditer(note):
        is_edited = hash_text(note[start : mark.start()]) != mark[3]
        yield Block(mark[1], tuple(mark[2].split(",")), mark[3], start, mark.end(), is_edited)
        start = mark.end()


def clean_text(text: str) -> str:
    """Return a text that can do nothing but be read: no control characters, half characters or HTML comments."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _COMMENT.sub("<! ", text).encode("utf-8", "replace").decode()


def clean_title(title: str) -> str:
    """Return a title as one line of plain words."""
    return _SENTENCE_MARKS.sub(" ", title).strip()[:_MAX_TITLE_CHARS].strip()
