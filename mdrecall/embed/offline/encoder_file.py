"""The encoder's file, made by training/encoder: a magic line, the size of a header, the header in JSON, the weights."""

import json
import mmap
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from mdrecall.errors import ModelFileError

_MAGIC = b"mdrecall encoder 1\n"


class Header(NamedTuple):
    """What an encoder's file says about itself."""

    name: str
    sha256: str
    layers: int
    width: int
    heads: int
    tokens: int
    """The most tokens of a text, with the special ones at its beginning and its end."""
    epsilon: float
    parts: Mapping[str, Mapping[str, Any]]

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self.parts["axes"]["shape"][0])


class EncoderFile:
    """The packed weights, mapped into memory."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.header = self._read_header()
        except (OSError, ValueError, LookupError, struct.error) as error:
            raise explain_damage(path, error) from error

    def _read_header(self) -> Header:
        if self._data[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it is not an encoder of this version")
        (size,) = struct.unpack_from("<I", self._data, len(_MAGIC))
        self._start = len(_MAGIC) + 4 + size
        fields = json.loads(self._data[len(_MAGIC) + 4 : self._start])
        header = Header(**{name: fields[name] for name in Header._fields})
        if self._start + max(part["at"] + part["size"] for part in header.parts.values()) > len(self._data):
            raise ValueError("its end is missing")
        return header

    def part(self, name: str) -> memoryview:
        """Return the bytes of a part."""
        start, size = self._start + self.header.parts[name]["at"], self.header.parts[name]["size"]
        return memoryview(self._data)[start : start + size]


def explain_damage(path: str, error: Exception) -> ModelFileError:
    """Return the error for a file of the wheel that cannot be read."""
    return ModelFileError(f"The encoder's file {path} cannot be read: {error}.", hint="Install mdrecall again.")
