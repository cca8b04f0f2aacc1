"""Items of a store as notes: one Markdown file for each, which a person can read and edit, and any JSON value fits.

An item is ``memory/store/<label>/<label>/<key>.md``. Its front matter has one line for each field of the value; a field
that is a text, such as ``text`` or ``content``, is the body. A change in the file changes the value: a line that is
gone is a field that is gone. In names, everything but letters, digits, ``-`` and ``_`` is percent-encoded. A name that
is too long, or that another item has on a disk that ignores case, ends with a hash.
"""

import json
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from mdrecall.adapters._shared import try_again
from mdrecall.engine.open import follow_files
from mdrecall.errors import ArgumentError, FileBusy, FileChanged, FileMissing, ReadError
from mdrecall.life.curate import remove_empty_folders
from mdrecall.memory import Memory
from mdrecall.notes.clock import read_moment
from mdrecall.notes.editing import change_error, hash_content, remove_note, replace_content
from mdrecall.notes.files import AGENT_FILES, MemoryFiles
from mdrecall.notes.notes import create_file
from mdrecall.notes.opening import find_status, open_below, read_below, stamp_of
from mdrecall.notes.tombstones import open_tombstones
from mdrecall.patterns import NOTE_ENDING, compile_later
from mdrecall.text.annotations import STORE_FOLDER
from mdrecall.text.tombstones import FORGOTTEN, Tombstones
from mdrecall.types.documents import Listing, Stamp

#: The fields that are the body if they are texts, the first one that is; else the only text is.
_BODIES = ("text", "content", "memory")
#: Names have at most 255 bytes, with the hash, the ending and what a temporary file adds.
_MAX_NAME = 180
#: The system takes 4,096 bytes, with the path of the workspace.
_MAX_PATH = 2000
#: How the line of a field begins: forgetting one takes a whole list item, and not the line after it.
_LINE = "- "
#: Control characters that an editor may change or not show, and half characters, which no file can have.
_UNSAFE = compile_later("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
#: What is percent-encoded in a name. Some disks store composed characters in another way; those of such a name are too.
_ODD, _ODD_OR_FOREIGN = compile_later(r"[^\w-]"), compile_later(r"[^\w-]", re.ASCII)


class StoredItem:
    """An item as its file has it."""

    def __init__(self, inside: str, namespace: tuple[str, ...], key: str, value: dict[str, Any], at: datetime) -> None:
        self.inside = inside
        self.namespace, self.key, self.value = namespace, key, value
        self.created = self.updated = self.read = at
        self.ttl: float | None = None
        """After how many minutes without a read or a change it expires."""
        self.index: bool | list[str] | None = None
        """False if it is not found by a query."""
        self.hash = ""


class ItemFiles:
    """The items of one memory."""

    def __init__(self, memory: Memory) -> None:
        self._settings = memory.settings
        self._workspace = memory.settings.workspace
        self._forgotten = open_tombstones(memory.settings)
        files = MemoryFiles(memory.settings, os.sep, only=STORE_FOLDER)
        self._files = follow_files(memory.settings, files) or files
        self._kept: dict[str, tuple[object, StoredItem]] = {}
        self._listed: tuple[Listing, str, list[StoredItem]] | None = None

    def get(self, namespace: tuple[str, ...], key: str) -> StoredItem | None:
        """Return an item; None if it is missing or has expired. Raise a ``ReadError`` if its file cannot be read."""
        self._forgotten.load()
        for inside in self._places(namespace, key):
            about = find_status(self._workspace, inside)
            if about and stat.S_ISREG(about.st_mode):
                with suppress(FileMissing):
                    found = self._load(inside, stamp_of(about))
                    if (found.namespace, found.key) == (namespace, key) and self._is_alive(found):
                        return found
        return None

    def put(self, op: Any) -> None:
        """Write the item of a put of LangGraph; raise ``ArgumentError`` if its value is not JSON."""
        namespace, key = op.namespace, op.key
        try:
            value = json.loads(json.dumps(dict(op.value), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentError(f"The value of {key!r} is not JSON: {error}.", name="value") from error
        masked = _mask(value, self._forgotten.load())

        def write() -> None:
            before, (first, second) = self.get(namespace, key), self._places(namespace, key)
            inside = before.inside if before else second if find_status(self._workspace, first) else first
            item = StoredItem(inside, namespace, key, masked, datetime.now(UTC))
            item.created = before.created if before else item.updated
            item.index, item.ttl = op.index, op.ttl
            data = dump_item(item)
            if len(data) > self._settings.mdrecall.max_file_bytes:
                raise ArgumentError(f"The value of {key!r} is too large: {len(data):,} bytes.", name="value")
            if len(inside.encode()) > _MAX_PATH:
                raise ArgumentError(f"The namespace of {key[:80]!r} is too long for a path.", name="namespace")
            if before:
                replace_content(self._workspace, inside, data, before.hash)
            else:
                try:
                    create_file(self._workspace, inside, data)
                except FileBusy as error:
                    raise change_error(inside) from error
            # Several changes within a moment may leave a file with the same stamp.
            self._kept.pop(inside, None)

        try_again(f"the item {key!r}", write)

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Delete the file of an item, if there is one."""

        def remove() -> None:
            if found := self.get(namespace, key):
                self._remove(found)

        try_again(f"the item {key!r}", remove)

    def find(self, prefix: tuple[str, ...]) -> list[StoredItem]:
        """Return the items below a namespace, the last changed first; what cannot be read is left out."""
        return [item for item in self._list_all() if item.namespace[: len(prefix)] == prefix and self._is_alive(item)]

    def refresh(self, item: StoredItem) -> None:
        """Restart the expiry time of an item."""
        if item.ttl is not None:
            with suppress(ReadError, OSError):
                file = open_below(self._workspace, item.inside, shown=item.inside)
                try:
                    os.utime(file)
                finally:
                    os.close(file)

    def sweep(self) -> int:
        """Delete the files of items that have expired, and return how many they were."""
        return sum(not self._is_alive(item) for item in self._list_all())

    def folder(self, namespace: tuple[str, ...]) -> str:
        """Return the folder of a namespace in the workspace."""
        return "/".join((STORE_FOLDER, *(self._encode(label, is_folder=True) for label in namespace)))

    def _places(self, namespace: tuple[str, ...], key: str) -> tuple[str, str]:
        """Return the path of an item, and the one that it has if that one is another item's."""
        folder, name = self.folder(namespace), self._encode(key)
        digest = hash_content("\0".join((*namespace, key)).encode("utf-8", "surrogatepass"))[:16]
        return f"{folder}/{name}{NOTE_ENDING}", f"{folder}/{name[:_MAX_NAME]}~{digest}{NOTE_ENDING}"

    def _encode(self, name: str, *, is_folder: bool = False) -> str:
        """Return a name for a file or folder, from which this one can be read."""
        odd = _ODD if unicodedata.is_normalized("NFC", name) else _ODD_OR_FOREIGN
        encoded = odd.sub(_percent_encode, name)
        ignored, agent_files = self._settings.mdrecall.ignore, [each.removesuffix(NOTE_ENDING) for each in AGENT_FILES]
        if encoded.casefold() in (ignored if is_folder else agent_files):
            # It would not be searched, or be read as instructions.
            encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
        if len(encoded.encode()) > _MAX_NAME or not encoded:
            kept = encoded.encode()[:_MAX_NAME].decode(errors="ignore")
            return f"{kept}~{hash_content(name.encode('utf-8', 'surrogatepass'))[:16]}"
        return encoded

    def _list_all(self) -> list[StoredItem]:
        """Return every item, the last changed first. While nothing has changed, that is the same list."""
        listing, masks = self._files.scan(), self._forgotten.load().fingerprint
        listed = self._listed
        if listed and listed[0] is listing and listed[1] == masks:
            return listed[2]
        for inside in self._kept.keys() - listing.stamps.keys():
            self._kept.pop(inside, None)
        items: list[StoredItem] = []
        for inside, stamp in listing.stamps.items():
            with suppress(ReadError):
                items.append(self._load(inside, stamp))
        items.sort(key=lambda item: (-item.updated.timestamp(), item.namespace, item.key))
        self._listed = listing, masks, items
        return items

    def _is_alive(self, item: StoredItem) -> bool:
        """True unless an item has expired; then it is deleted."""
        if item.ttl is None or datetime.now(UTC).timestamp() <= item.read.timestamp() + item.ttl * 60:
            return True
        with suppress(FileChanged, FileMissing):
            self._remove(item)
        return False

    def _load(self, inside: str, stamp: Stamp) -> StoredItem:
        """Return the item of a file, which is read again only if it has changed or something was forgotten."""
        forgotten = self._forgotten.last
        known, version = self._kept.get(inside), (stamp, forgotten.fingerprint)
        if known is None or known[0] != version:
            max_bytes = self._settings.mdrecall.max_file_bytes
            data = read_below(self._workspace, inside, shown=inside, max_bytes=max_bytes)
            item = parse_item(data.decode(errors="replace"), inside, datetime.fromtimestamp(stamp[1] / 1e9, UTC))
            item.value, item.hash = _mask(item.value, forgotten), hash_content(data)
            known = self._kept[inside] = version, item
        return known[1]

    def _remove(self, item: StoredItem) -> None:
        remove_note(self._workspace, item.inside, item.hash)
        self._kept.pop(item.inside, None)
        remove_empty_folders(self._workspace, item.inside)


def dump_item(item: StoredItem) -> bytes:
    """Return the content of an item's file."""
    body = _find_body(item.value)
    fields = list(item.value) if body is None or len(item.value) > 1 else None
    head = [f"namespace: {_dump(item.namespace)}", f"key: {_dump(item.key)}"]
    head += [f"created: {item.created.isoformat()}", f"updated: {item.updated.isoformat()}"]
    others = {"ttl": item.ttl, "index": item.index, "body": body, "fields": fields}
    head += [f"{name}: {_dump(said)}" for name, said in others.items() if said is not None]
    lines = [f"{_LINE}{_dump(name)}: {_dump(value)}" for name, value in item.value.items() if name != body]
    head += ["values:", *lines] if lines else []
    text = "" if body is None else f"\n{item.value[body]}\n"
    # JSON may have half characters, which no file can: they become escapes of JSON.
    return "\n".join(["---", *head, "---", text]).encode("utf-8", "backslashreplace")


def parse_item(text: str, inside: str, at: datetime) -> StoredItem:
    """Return the item of a file; what its front matter does not say comes from its path and time."""
    head, text = _split(text)
    said, value = _read_head(head)
    body = said.get("body") if head else "text"
    if isinstance(body, str):
        value[body] = text.removeprefix("\n").removesuffix("\n") if head else text
    fields = _read_texts(said.get("fields"))
    if f"{_LINE}{FORGOTTEN}" in head:
        value = dict.fromkeys(fields, FORGOTTEN) | value
    value = {name: value[name] for name in fields if name in value} | value
    *labels, name = map(unquote, inside.removeprefix(f"{STORE_FOLDER}/").removesuffix(NOTE_ENDING).split("/"))
    key, ttl = said.get("key"), said.get("ttl")
    namespace = tuple(_read_texts(said.get("namespace")) or labels)
    item = StoredItem(inside, namespace, key if isinstance(key, str) else name, value, at)
    item.created, item.updated = (read_moment(str(said.get(name))) or at for name in ("created", "updated"))
    with suppress(OverflowError):
        item.ttl = float(ttl) if isinstance(ttl, int | float) and not isinstance(ttl, bool) else None
    item.index = said.get("index")
    return item


def _read_texts(value: Any) -> list[str]:
    """Return a list of texts; an empty one if a value is anything else."""
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else []


def _read_head(head: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the lines of a front matter say about an item, and the fields of its value; others are skipped."""
    about: dict[str, Any] = {}
    value: dict[str, Any] = {}
    for line in head:
        with suppress(ValueError, RecursionError):
            if line.startswith(_LINE + '"'):
                value |= json.loads(f"{{{line.removeprefix(_LINE)}}}")
            else:
                name, _, said = line.partition(":")
                about[name] = said.strip() if name in ("created", "updated") else json.loads(said)
    return about, value


def _find_body(value: Mapping[str, Any]) -> str | None:
    """Return the field of a value that can be the body; None if there is none."""
    # An editor may change other texts when it saves them.
    plain = (
        name for name, text in value.items() if isinstance(text, str) and text.strip() and not _UNSAFE.search(text)
    )
    texts = list(plain)
    named = [name for name in _BODIES if name in texts]
    return named[0] if named else texts[0] if len(texts) == 1 else None


def _split(text: str) -> tuple[list[str], str]:
    """Return the lines of the front matter, without the marks, and the rest."""
    if not text.startswith("---\n"):
        return [], text
    head, mark, rest = text[4:].partition("\n---\n")
    return (head.split("\n"), rest) if mark else ([], text)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _percent_encode(char: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in char[0].encode("utf-8", "surrogatepass"))


def _mask(value: Any, forgotten: Tombstones) -> Any:
    """Return a JSON value with what was forgotten masked in every text."""
    if isinstance(value, str):
        return forgotten.mask(value)
    if isinstance(value, list):
        return [_mask(entry, forgotten) for entry in value]
    if isinstance(value, dict):
        return {forgotten.mask(name): _mask(entry, forgotten) for name, entry in value.items()}
    return value
