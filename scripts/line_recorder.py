"""A pytest plugin of ``scripts/mutate``: record which test runs which line, also in the processes that a test starts.

A child process finds ``sitecustomize.py`` on the ``PYTHONPATH`` that its test hands down, and reads in the file beside
it which test is running.
"""

import atexit
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import coverage

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("MUTATE_RECORD", Path.cwd())) / os.environ.get("PYTEST_XDIST_WORKER", "main")
CHILD = "import sys; sys.path.append({scripts!r}); import line_recorder; line_recorder.record_child({folder!r})\n"


def start(data_file: Path, test: str | None = None) -> coverage.Coverage:
    """Start to record; ``test`` is the name that the lines are recorded under."""
    recorder = coverage.Coverage(
        data_file=data_file, data_suffix=True, include=[f"{PROJECT}/mdrecall/*"], context=test, config_file=False
    )
    recorder.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
    recorder.set_option("run:sigterm", True)
    recorder.start()
    return recorder


def save(recorder: coverage.Coverage) -> None:
    recorder.stop()
    recorder.save()


def record_child(folder: str) -> None:
    """Record a process that a test started. It is recorded until it exits; one that is killed leaves nothing."""
    test = (Path(folder) / "test").read_text()
    recorder, leave = start(Path(folder).parent / "lines", test), os._exit

    def leave_at_once(status: int) -> NoReturn:
        save(recorder)
        leave(status)

    atexit.register(save, recorder)
    # A hook ends so, and nothing that is registered runs.
    os._exit = leave_at_once


def pytest_configure(config: Any) -> None:
    if config.getoption("numprocesses") and not hasattr(config, "workerinput"):
        return  # the tests run in the workers
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "test").write_text("")
    (FOLDER / "sitecustomize.py").write_text(CHILD.format(scripts=str(PROJECT / "scripts"), folder=str(FOLDER)))
    sys.path.append(str(FOLDER))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(FOLDER))))
    atexit.register(save, start(FOLDER.parent / "lines"))


def pytest_runtest_logstart(nodeid: str) -> None:
    _switch_to(nodeid.partition("[")[0])


def pytest_runtest_logfinish() -> None:
    _switch_to("")


def _switch_to(test: str) -> None:
    if recorder := coverage.Coverage.current():
        (FOLDER / "test").write_text(test)
        recorder.switch_context(test)
