"""When the index is brought in line with the files: one run at a time, and no request is lost."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from mdrecall.engine.indexer import FileChanges
from mdrecall.types import Progress, ProgressCallback, Stop, SyncReport, never


class Request(NamedTuple):
    """What a run is asked to do."""

    force: bool = False
    looks: Sequence[FileChanges] | None = None
    """What a look at the files has just found; without it, the run looks itself."""
    progress: ProgressCallback | None = None
    stop: Stop = never
    wait_s: float | None = None
    """How long another process that is writing is waited for, if not as long as usual."""


Act: TypeAlias = Callable[[Request], SyncReport]


class Run:
    """One run, and all who have asked for it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.report: SyncReport | None = None
        self.error: BaseException | None = None

    @property
    def is_finished(self) -> bool:
        return self.report is not None or self.error is not None

    def merged(self, closing: Stop) -> Request:
        """What all ask for together: nothing that one of them wants is left out, and it stops when all want it to."""
        requests = self.requests
        waits = [request.wait_s for request in requests]

        def progress(done: Progress) -> None:
            for request in requests:
                if request.progress:
                    request.progress(done)

        return Request(
            force=any(request.force for request in requests),
            # Of several looks none is known to be the newest.
            looks=requests[0].looks if len(requests) == 1 else None,
            progress=progress if any(request.progress for request in requests) else None,
            stop=lambda: closing() or all(request.stop() for request in requests),
            wait_s=None if None in waits else max(wait for wait in waits if wait is not None),
        )


class Syncer:
    """Makes runs. Whoever asks while one is under way gets the next one, together with all others who do."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._changed = threading.Condition()
        self._running: Run | None = None
        self._next: Run | None = None
        self._worker: threading.Thread | None = None
        self._is_closing = False

    def run(self, request: Request, *, within_s: float | None = None) -> SyncReport | None:
        """The report of a run that begins after this call, made by this thread if no other is at it.

        With ``within_s`` nobody else's run is waited for any longer: then there is no report, and somebody makes the
        run later.
        """
        run = self._join(request)
        until = None if within_s is None else time.monotonic() + within_s
        with self._changed:
            while not run.is_finished and not self._may_lead(run):
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    # Somebody makes the run later; that must not stop because nobody waits here any more.
                    run.requests[run.requests.index(request)] = Request(force=request.force)
                    self._work_in_background()
                    return None
                self._changed.wait(left)
            if not run.is_finished:
                self._running, self._next = run, None
        if not run.is_finished:
            self._lead(run)
        elif run.error is not None and not isinstance(run.error, Exception):
            # Whoever made the run was interrupted; that was not meant for the others.
            return self.run(request, within_s=None if until is None else until - time.monotonic())
        try:
            return _answer(run)
        finally:
            del run

    def start(self, request: Request, *, within_s: float = 0.0) -> SyncReport | None:
        """Have a run made in the background; gives its report if it is done within so long."""
        run = self._join(request)
        until = time.monotonic() + within_s
        with self._changed:
            self._work_in_background()
            while not run.is_finished and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
        try:
            return _answer(run)
        finally:
            del run

    @property
    def is_busy(self) -> bool:
        """Whether a run is under way or waiting."""
        return self._running is not None or self._next is not None

    def close(self, within_s: float) -> None:
        """End the run under way where it can be taken up again, and make no more."""
        until = time.monotonic() + within_s
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            while self._running is not None and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _join(self, request: Request) -> Run:
        with self._changed:
            if self._next is None:
                self._next = Run()
            self._next.requests.append(request)
            return self._next

    def _may_lead(self, run: Run) -> bool:
        return self._running is None and self._next is run

    def _lead(self, run: Run) -> None:
        report, error = self._attempt(run.merged(lambda: self._is_closing))
        with self._changed:
            run.report, run.error = report, error
            self._running = None
            self._changed.notify_all()
        del run, error

    def _attempt(self, request: Request) -> tuple[SyncReport | None, BaseException | None]:
        """What comes of a run: a report or an error."""
        try:
            return self._act(request), None
        except BaseException as error:
            return None, error

    def _work_in_background(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._work, name="mdrecall-sync", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or (self._next is not None and self._running is None))
                if self._is_closing or self._next is None:
                    return
                run = self._next
                self._running, self._next = run, None
            self._lead(run)


def _answer(run: Run) -> SyncReport | None:
    """The report of a run, or its error raised.

    No frame in which the run was made or is answered for may hold it then, or the error: the traceback holds the
    frames, and all of it, with what the run has looked at, would stay in memory.
    """
    report, error = run.report, run.error
    del run
    try:
        if error is not None:
            raise error
        return report
    finally:
        del error
