"""Paths against glob patterns, as settings and filters use them."""

from collections.abc import Callable


def matches_glob(path: str, pattern: str) -> bool:
    """True if a relative path matches a glob. ``*`` stays inside a folder, ``**`` spans any number of folders."""
    from fnmatch import fnmatchcase

    return _match_parts(path.split("/"), pattern.split("/"), fnmatchcase)


def _match_parts(parts: list[str], globs: list[str], matches: Callable[[str, str], bool]) -> bool:
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_match_parts(parts[skipped:], globs[1:], matches) for skipped in range(len(parts) + 1))
    return bool(parts) and matches(parts[0], globs[0]) and _match_parts(parts[1:], globs[1:], matches)
