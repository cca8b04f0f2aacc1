"""The files of a repository that changed last, read from its index: running git would run what it configures."""

import os

from mdrecall.sources.opening import read_beginning

#: An entry has about 100 bytes: an index of 40,000 files is read in a fraction of a hook's time.
_MAX_BYTES = 4 << 20
_HEADER_BYTES, _ENTRY_BYTES = 12, 62
#: The part of an entry with the length of its path; a longer path has this length and ends with a zero.
_LONG_PATH = 0xFFF


def list_changed(root: str, most: int) -> list[str]:
    """Return the files that were added or checked out last, the newest first; none of a repository just cloned."""
    if not root:
        return []
    data = read_beginning(os.path.join(root, ".git", "index"), _MAX_BYTES + 1)
    # Version 4 shortens paths, and a longer index belongs to a repository too large to look through.
    if data[:8] not in (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3") or len(data) > _MAX_BYTES:
        return []
    entries = _read_entries(data)
    if len({second for second, _ in entries}) < 2:
        return []
    return [name for _, name in sorted(entries, reverse=True)[:most]]


def _read_entries(data: bytes) -> list[tuple[int, str]]:
    """Return the second in which each file changed, and its path; as many as can be read."""
    entries = []
    at = _HEADER_BYTES
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        # A second word of flags is there if this bit is set.
        start = at + _ENTRY_BYTES + (2 if flags & 0x4000 else 0)
        length = flags & _LONG_PATH
        end = data.find(b"\0", start) if length == _LONG_PATH else start + length
        if data[end : end + 1] != b"\0":
            break
        entries.append((int.from_bytes(data[at + 8 : at + 12], "big"), os.fsdecode(data[start:end])))
        # Entries begin at multiples of eight bytes, with one to eight zeros between them.
        at += (end - at + 8) & ~7
    return entries
