import subprocess
import sys
import threading

import pytest

from mdrecall.engine.background import run_in_background


def test_the_result_of_a_call_reaches_its_future() -> None:
    assert (
        run_in_background(lambda: threading.current_thread().name, name="mdrecall-test").result(10) == "mdrecall-test"
    )


def test_an_exception_of_any_kind_reaches_the_future() -> None:
    def fail() -> None:
        raise SystemExit("stopped")

    with pytest.raises(SystemExit, match="stopped"):
        run_in_background(fail, name="mdrecall-test").result(10)


def test_a_call_that_hangs_does_not_keep_the_process_alive() -> None:
    program = (
        "import threading\n"
        "from mdrecall.engine.background import run_in_background\n"
        "run_in_background(threading.Event().wait, name='mdrecall-test')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=20, check=False)
    assert done.returncode == 0
