"""Bytes of a Markdown file to text."""

import codecs


def decode(data: bytes) -> str:
    """UTF-8 with bad bytes replaced; a byte order mark is dropped, and UTF-16 is understood if it has one."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")
