"""A transcript is stored in parts, each a document of its own: what their paths are."""

#: Between a file's path and the number of its part, in the path of a document. No file's name can hold it.
MARK = "\0"


def file_of(path: str) -> str:
    """The file that a document is of: itself, or for a part of a transcript the transcript."""
    return path.partition(MARK)[0]


def named(path: str) -> str:
    """The path of a note, whose name says something; nothing for a transcript, whose name is a number."""
    return "" if MARK in path else path


def part_path(path: str, number: int) -> str:
    """The path of the document that is one part of a transcript."""
    return f"{path}{MARK}{number:09d}"
