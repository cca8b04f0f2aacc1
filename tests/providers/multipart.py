"""Bodies in parts, as browsers and file uploads send them."""

from email import message_from_bytes
from email.message import Message
from typing import Any, NamedTuple


class Part(NamedTuple):
    """A part of a body; the names are those of its ``Content-Disposition``."""

    name: str
    filename: str
    content: bytes


def parts(content_type: str, body: bytes) -> list[Part]:
    """The parts of a body; none if it is not in parts or does not end as it must."""
    whole = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    if not whole.is_multipart() or whole.defects:
        return []
    return [_read(part) for part in list(whole.walk())[1:]]


def _read(part: Message) -> Part:
    content: Any = part.get_payload(decode=True)
    return Part(str(part.get_param("name", "", "content-disposition")), part.get_filename(""), content)
