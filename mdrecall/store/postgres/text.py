"""Text as bytes: Postgres refuses the character NUL and lone surrogates in text, and notes may hold both."""


def to_bytes(text: str) -> bytes:
    """Return a text as it is stored."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """Return a stored text."""
    return data.decode("utf-8", "surrogatepass")
