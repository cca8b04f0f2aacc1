"""Bodies in parts, as browsers and file uploads send them."""

from email.message import Message
from typing import NamedTuple


class Part(NamedTuple):
    """A part with its headers, whose names are in lower case."""

    headers: dict[str, str]
    content: bytes

    @property
    def name(self) -> str:
        return parameter(self.headers.get("content-disposition", ""), "name")

    @property
    def filename(self) -> str:
        return parameter(self.headers.get("content-disposition", ""), "filename")


def parameter(header: str, name: str) -> str:
    message = Message()
    message["Content-Type"] = header
    return str(message.get_param(name, ""))


def parts(content_type: str, body: bytes) -> list[Part]:
    """The parts of a body; none if it is not in parts or does not end as it must."""
    boundary = parameter(content_type, "boundary").encode()
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if not boundary or len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        return []
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> Part:
    top, _, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    lines = [line.partition(":") for line in top.decode().split("\r\n")]
    return Part({name.strip().lower(): value.strip() for name, _, value in lines}, content)
