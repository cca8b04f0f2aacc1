"""Regular expressions that are compiled at their first use.

A search imports 60 of them and uses a quarter: to compile them all takes 8 ms, as long as Python takes to start.
"""

import re
from typing import Any, AnyStr, cast


class _LatePattern:
    """Stands for a compiled pattern. Each method is looked up once and then found here."""

    _compiled: Any = None

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(*self._source)
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


def compile_later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what a compiled pattern is used for: its methods. A wrong pattern is reported only when it is used."""
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))
