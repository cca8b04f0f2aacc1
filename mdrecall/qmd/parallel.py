"""Several calls at once, each in a thread; one that fails does not keep the others from their end."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from mdrecall.errors import BackendUnavailable

_T = TypeVar("_T")


def all_of(calls: Sequence[Callable[[], _T]]) -> list[_T | BackendUnavailable]:
    """What came of each call, in their order; anything but a ``BackendUnavailable`` is raised."""
    outcomes: dict[int, _T | BackendUnavailable] = {}
    mistakes: list[BaseException] = []

    def work(number: int, call: Callable[[], _T]) -> None:
        try:
            outcomes[number] = call()
        except BackendUnavailable as error:
            outcomes[number] = error
        except BaseException as error:
            mistakes.append(error)

    threads = [threading.Thread(target=work, args=entry, daemon=True) for entry in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if mistakes:
        raise mistakes[0]
    return [outcomes[number] for number in range(len(calls))]
