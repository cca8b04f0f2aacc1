"""A search that begins by itself after a while, so that its result is there if another one fails in the end."""

import threading
from collections.abc import Callable

from mdrecall.types import SearchAnswer


class Hedge:
    """One search, begun after ``after_s`` seconds in a thread, or when its result is asked for."""

    def __init__(self, act: Callable[[], SearchAnswer], after_s: float) -> None:
        self._act = act
        self._after_s = after_s
        self._decided = threading.Event()
        self._begun = threading.Event()
        self._lock = threading.Lock()
        self._results: list[SearchAnswer] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait_and_act, name="mdrecall-hedge", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def result(self) -> SearchAnswer:
        """The result: of the call that has begun, or of one that begins here and now."""
        if not self._begins():
            self._thread.join()
        else:
            self._decided.set()
            self._results.append(self._act())
        if self._error is not None:
            raise self._error
        return self._results[0]

    def let_go(self) -> list[threading.Thread]:
        """Nobody will ask: do not begin; gives the thread if it has begun and so must be waited for some time."""
        self._decided.set()
        if self._begins() or not self._thread.is_alive():
            return []
        return [self._thread]

    def _begins(self) -> bool:
        """Whether whoever asks is the one to make the call; the first is."""
        with self._lock:
            is_first = not self._begun.is_set()
            self._begun.set()
            return is_first

    def _wait_and_act(self) -> None:
        if self._decided.wait(self._after_s) or not self._begins():
            return
        try:
            self._results.append(self._act())
        except BaseException as error:
            self._error = error
