"""Calls that run in a daemon thread and hand their outcome to a future."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def run_in_background(act: Callable[[], _T], *, name: str) -> "Future[_T]":
    """Start a call in a daemon thread and return the future that receives its result or exception.

    The threads of an executor are joined when the interpreter exits, so a provider that hangs would keep the process
    alive. A daemon thread does not.
    """
    future: Future[_T] = Future()
    threading.Thread(target=_complete, args=(future, act), name=name, daemon=True).start()
    return future


def _complete(future: "Future[_T]", act: Callable[[], _T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = act()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
