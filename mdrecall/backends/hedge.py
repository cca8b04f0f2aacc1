"""A call that somebody else makes: it may begin a little later, and it is left when it takes too long."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from mdrecall.errors import ProgramTimedOut

_T = TypeVar("_T")


class HedgedCall(Generic[_T]):
    """One call in a thread of its own, begun ``after_s`` seconds after its start, or when its result is asked for."""

    def __init__(self, who: str, act: Callable[[], _T], after_s: float = 0.0) -> None:
        """``who`` is asked, in the words of a message."""
        self._who = who
        self._act = act
        self._after_s = after_s
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._begun = self._dropped = False
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait_and_act, name=f"mdrecall-ask-{who}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def result(self, until: float | None) -> _T:
        """What comes of it; when the monotonic clock says ``until``, ``ProgramTimedOut``, and the call goes on."""
        began = time.monotonic()
        self._wanted.set()
        self._thread.join(None if until is None else max(0.0, until - began))
        if self._thread.is_alive():
            raise ProgramTimedOut(f"{self._who} did not answer within {time.monotonic() - began:.1f} seconds.")
        if self._error is not None:
            raise self._error
        return self._results[0]

    def let_go(self) -> list[threading.Thread]:
        """Nobody will ask: do not begin; gives the thread if it has begun and so must be waited for some time."""
        with self._lock:
            self._dropped = True
        self._wanted.set()
        return [self._thread] if self._begun and self._thread.is_alive() else []

    def _wait_and_act(self) -> None:
        self._wanted.wait(self._after_s)
        with self._lock:
            if self._dropped:
                return
            self._begun = True
        try:
            self._results.append(self._act())
        except BaseException as error:
            self._error = error
