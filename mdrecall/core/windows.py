"""A chunk as a few short windows of lines: what stands close together tells more than the whole around it."""


WINDOW_CHARS = 400


def windows(text: str) -> list[str]:
    """The lines of a text in groups of about ``WINDOW_CHARS`` characters; together they are the text."""
    found: list[str] = []
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        if lines and size + len(line) > WINDOW_CHARS:
            found.append("\n".join(lines))
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    found.append("\n".join(lines))
    return found
