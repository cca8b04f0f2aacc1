import subprocess
import sys
import threading

import pytest

from mdrecall.engine.background import DaemonPool, run_in_background
from tests.processes import until


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


def test_after_many_calls_at_once_a_pool_keeps_a_few_threads() -> None:
    pool, together = DaemonPool("mdrecall-test-many"), threading.Barrier(20)
    for _ in range(2):
        calls = [pool.submit(together.wait) for _ in range(20)]
        assert sorted(call.result(10) for call in calls) == list(range(20))
        assert until(lambda: sum(each.name == "mdrecall-test-many" for each in threading.enumerate()) == 4)
    pool.release()


def test_a_pool_that_is_full_makes_calls_wait() -> None:
    pool, go = DaemonPool("mdrecall-test", 1), threading.Event()
    first, second = pool.submit(lambda: go.wait(10)), pool.submit(lambda: "later")
    assert not second.done()
    go.set()
    assert (first.result(10), second.result(10)) == (True, "later")
    pool.release()


def test_a_released_pool_ends_its_threads_and_still_makes_calls() -> None:
    pool = DaemonPool("mdrecall-test-released")
    pool.submit(threading.get_ident).result(10)
    pool.release()
    assert pool.submit(lambda: "done").result(10) == "done"
    assert until(lambda: all(thread.name != "mdrecall-test-released" for thread in threading.enumerate()))


def test_draining_waits_for_calls_in_progress_but_not_for_its_own() -> None:
    pool, go = DaemonPool("mdrecall-test"), threading.Event()
    call = pool.submit(lambda: go.wait(10))
    pool.drain(0.01)
    assert not call.done()
    go.set()
    pool.drain(10)
    assert call.done()
    assert pool.submit(lambda: pool.drain(10)).result(5) is None
    pool.release()


def test_an_error_of_a_call_whose_result_nobody_reads_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: reported.append(arguments.exc_value))
    pool, error = DaemonPool("mdrecall-test"), ValueError("a bug")

    def fail() -> None:
        raise error

    pool.start(fail).result(10)
    assert reported == [error]
    pool.release()


def test_a_call_that_is_cancelled_while_it_waits_leaves_the_pool_working() -> None:
    pool = DaemonPool("mdrecall-test", 1)
    may_end = threading.Event()
    first = pool.submit(lambda: may_end.wait(10))
    assert pool.submit(lambda: None).cancel()
    may_end.set()
    assert first.result(10)
    assert pool.submit(lambda: "still there").result(10) == "still there"
    pool.release()
