"""What a file's name says: its words, and the date in it as people write dates."""

import re

_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def title_text(path: str) -> str:
    """The path, and for ``memory/2026-02-10.md`` also ``February 10``, so that a question with a date finds it."""
    name = path.rsplit("/", 1)[-1]
    date = _DATE.search(name)
    if date and 1 <= int(date[2]) <= 12:
        return f"{path} {_MONTHS[int(date[2]) - 1]} {int(date[3])}"
    return path
