"""Scripts: how much of a text an embedder can read."""

import re
from collections.abc import Sequence
from functools import cached_property

from mdrecall.core.text.words import fold


class _Patterns:
    """The characters of each script, compiled at their first use because most texts are ASCII."""

    @cached_property
    def by_script(self) -> dict[str, re.Pattern[str]]:
        return {
            "latin": re.compile("[a-z0-9]"),
            "han": re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
            "kana": re.compile("[\u3041-\u30ff]"),
            "hangul": re.compile("[\uac00-\ud7a3]"),
            "cyrillic": re.compile("[\u0400-\u052f]"),
            "greek": re.compile("[\u0370-\u03ff]"),
        }


_PATTERNS = _Patterns()
#: The scripts that are told apart.
SCRIPTS = ("latin", "han", "kana", "hangul", "cyrillic", "greek")
_UNSPACED = ("han", "kana")


def script_share(text: str, scripts: Sequence[str]) -> float:
    """Return the share of a text's letters and digits that belong to these scripts, accented or not."""
    if text.isascii():
        return float("latin" in scripts)
    folded = [char for char in fold(text) if char.isalnum()]
    patterns = [_PATTERNS.by_script[script] for script in scripts]
    known = sum(any(pattern.match(char) for pattern in patterns) for char in folded)
    return known / len(folded) if folded else 0.0


def is_mostly_unspaced(text: str) -> bool:
    """True if at least half of a text's letters are Chinese or Japanese."""
    return not text.isascii() and script_share(text, _UNSPACED) >= 0.5
