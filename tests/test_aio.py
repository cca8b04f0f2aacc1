"""AsyncMemory: the same as Memory, and what an event loop may rely on."""

import asyncio
import gc
import inspect
import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import pytest

from mdrecall import AsyncMemory, Memory, RecallError
from mdrecall.aio import Threads
from mdrecall.config.load import Loaded, load
from mdrecall.engine.open import open_backend
from mdrecall.errors import MemoryClosed
from mdrecall.interfaces import IndexedBackend
from mdrecall.types.search import SearchAnswer, SearchRequest
from mdrecall.types.sync import Progress, Stop, SyncReport, WatchEvent
from tests.conftest import Workspace
from tests.processes import PATIENCE_S, until

_T = TypeVar("_T")


@pytest.fixture(scope="module", autouse=True)
def no_garbage_of_others() -> Iterator[None]:
    """Keep what other tests left behind, such as a framework's event loop, from being reported as a fault of these.

    Frozen objects are not walked by the collections that these tests make, which would take half a second each.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.set_event_loop(None)
        gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def ran(work: Coroutine[Any, Any, _T]) -> _T:
    """What comes of some work on a loop, which has to go without a complaint of the loop."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> _T:
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: complaints.append(about))
        done = await asyncio.wait_for(work, PATIENCE_S)
        gc.collect()
        return done

    done = asyncio.run(watched())
    gc.collect()
    assert complaints == []
    return done


class HeldWatch:
    def __init__(self, happened: list[str]) -> None:
        self._happened = happened

    def stop(self) -> None:
        self._happened.append("hurried")


class Held:
    """A backend that answers when it is let, and writes down what happens."""

    def __init__(self, error: Exception | None = None, callers: int = 1) -> None:
        self.begun = threading.Barrier(callers + 1)
        self.let = threading.Event()
        self.happened: list[str] = []
        self._error = error
        self.watch = HeldWatch(self.happened)

    def search(self, request: SearchRequest) -> SearchAnswer:
        self.begun.wait(PATIENCE_S)
        assert self.let.wait(PATIENCE_S)
        self.happened.append("searched")
        if self._error:
            raise self._error
        return SearchAnswer(())

    def sync(self, *, stop: Stop, **asked: object) -> SyncReport:
        self.begun.wait(PATIENCE_S)
        while not stop():
            assert not self.let.wait(0.001)
        self.happened.append("stopped")
        return SyncReport(left=1)

    def close(self) -> None:
        self.happened.append("closed")


def held(workspace: Workspace, backend: Held, patience_s: float = PATIENCE_S) -> AsyncMemory:
    memory = Memory(workspace.memory().settings, cast(IndexedBackend, backend))
    return AsyncMemory(memory, Threads(patience_s))


async def begun(backend: Held) -> None:
    await asyncio.to_thread(backend.begun.wait, PATIENCE_S)


def test_both_have_the_same_methods() -> None:
    there = {name for name, member in public(Memory).items() if callable(member) or isinstance(member, classmethod)}
    here = {name for name, member in public(AsyncMemory).items() if callable(member) or isinstance(member, classmethod)}
    assert there == here
    assert hasattr(AsyncMemory, "settings")


@pytest.mark.parametrize("name", public(Memory))
def test_each_method_has_the_same_signature(name: str) -> None:
    ours, theirs = getattr(AsyncMemory, name), getattr(Memory, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert inspect.iscoroutinefunction(ours) == (name != "stop_following")


class Recorder:
    """A memory that writes down how it is called, tells its progress, and answers with an object of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answer = object()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> object:
            self.calls.append((name, given, named))
            for tell in (*given, *named.values()):
                if callable(tell):
                    tell("progress")
            return self.answer

        return call


@pytest.mark.parametrize(
    "name", [name for name in public(Memory) if name not in ("open", "of", "close", "sync", "follow", "stop_following")]
)
def test_each_method_passes_on_what_it_is_given(name: str) -> None:
    told: list[tuple[object, threading.Thread]] = []
    given: dict[str, Any] = {
        parameter.name: f"a value of {parameter.name}"
        for parameter in inspect.signature(getattr(Memory, name)).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name != "self"
    }
    given |= {"max_results": 3, "progress": None} if name == "search" else {}
    takes_progress = "progress" in given
    if takes_progress:
        given["progress"] = lambda progress: told.append((progress, threading.current_thread()))
    recorder = Recorder()

    async def call() -> object:
        memory = AsyncMemory(cast(Memory, recorder), Threads())
        answer: object = await getattr(memory, name)(**given)
        await memory.close()
        return answer

    assert ran(call()) is recorder.answer
    called, *_ = recorder.calls
    bound = inspect.signature(getattr(Memory, name)).bind(recorder, *called[1], **called[2]).arguments
    bound |= bound.pop("options", {})
    del bound["self"]
    assert called[0] == ("read" if name == "read_file" else name)
    if takes_progress:
        del bound["progress"], given["progress"]
        assert told == [("progress", threading.current_thread())]
    assert bound == given


def test_a_memory_that_cannot_be_closed_says_so_however_often_it_is_asked(workspace: Workspace) -> None:
    class Stuck(Held):
        def close(self) -> None:
            raise RecallError("It cannot be closed.")

    async def closed() -> None:
        memory = held(workspace, Stuck())
        for _ in range(2):
            with pytest.raises(RecallError, match="It cannot be closed"):
                await memory.close()

    ran(closed())


@pytest.mark.parametrize(("asked", "one_shot"), [({}, False), ({"one_shot": False}, False), ({"one_shot": True}, True)])
def test_a_memory_is_opened_for_one_question_only_if_asked_to(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], one_shot: bool
) -> None:
    opened: list[bool] = []

    def note(loaded: Loaded, *, one_shot: bool = False) -> IndexedBackend:
        opened.append(one_shot)
        return open_backend(loaded, one_shot=one_shot)

    monkeypatch.setattr("mdrecall.engine.open.open_backend", note)

    async def both() -> None:
        async with await AsyncMemory.open(workspace.path, env=workspace.env, **asked) as memory:
            assert memory.settings.workspace == str(workspace.path)
            await memory.search("tea")
        loaded = load(env=workspace.env, workspace=str(workspace.path))
        async with await AsyncMemory.of(loaded, **asked) as memory:
            await memory.search("tea")

    ran(both())
    assert opened == [one_shot, one_shot]


def test_what_goes_wrong_is_raised_and_a_memory_that_does_not_open_leaves_nothing(workspace: Workspace) -> None:
    async def asked() -> None:
        with pytest.raises(RecallError):
            await AsyncMemory.open(workspace.path / "nowhere", env=workspace.env)

    before = threading.active_count()
    ran(asked())
    gc.collect()
    assert until(lambda: threading.active_count() <= before)


def test_progress_is_told_in_the_thread_of_the_loop_before_the_report(workspace: Workspace) -> None:
    for number in range(5):
        workspace.write(f"memory/{number}.md", f"walrus {number}")
    told: list[tuple[Progress, threading.Thread]] = []

    async def synced() -> int:
        async with await AsyncMemory.open(workspace.path, env=workspace.env) as memory:
            await memory.sync(progress=lambda progress: told.append((progress, threading.current_thread())))
            return len(told)

    count = ran(synced())
    assert count == len(told) > 0
    assert {thread for _, thread in told} == {threading.current_thread()}


def test_a_cancelled_sync_is_stopped(workspace: Workspace) -> None:
    backend = Held()

    async def cancelled() -> None:
        async with held(workspace, backend) as memory:
            task = asyncio.create_task(memory.sync())
            await begun(backend)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    ran(cancelled())
    assert "stopped" in backend.happened


def test_closing_stops_a_sync_and_waits_for_it(workspace: Workspace) -> None:
    backend = Held()

    async def closed() -> SyncReport:
        memory = held(workspace, backend)
        task = asyncio.create_task(memory.sync())
        await begun(backend)
        await memory.close()
        return await task

    assert ran(closed()).left == 1
    # A sync may look whether it is to stop before the thread that closes has begun to hurry it.
    assert sorted(backend.happened[:2]) == ["hurried", "stopped"]
    assert backend.happened[2:] == ["closed"]


@pytest.mark.parametrize("error", [None, RecallError("too late"), TypeError("a bug")])
def test_a_cancelled_search_gives_way_at_once_and_what_comes_of_it_is_dropped(
    workspace: Workspace, error: Exception | None
) -> None:
    backend = Held(error)

    async def cancelled() -> None:
        memory = held(workspace, backend)
        task = asyncio.create_task(memory.search("walrus"))
        await begun(backend)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert backend.happened == []
        del task
        backend.let.set()
        await memory.close()

    ran(cancelled())
    assert sorted(backend.happened[:2]) == ["hurried", "searched"]
    assert backend.happened[2:] == ["closed"]


def test_closing_waits_for_a_search_and_twice_is_once(workspace: Workspace) -> None:
    backend = Held()

    async def closed() -> None:
        memory = held(workspace, backend)
        search = asyncio.create_task(memory.search("walrus"))
        await begun(backend)
        closing = [asyncio.create_task(memory.close()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(MemoryClosed) as caught:
            await memory.search("late")
        assert caught.value.hint
        backend.let.set()
        await asyncio.gather(*closing, search)
        await memory.close()

    ran(closed())
    assert backend.happened == ["hurried", "searched", "closed"]


def test_closing_does_not_wait_for_ever(workspace: Workspace) -> None:
    backend = Held()

    async def closed() -> None:
        memory = held(workspace, backend, patience_s=0)
        search = asyncio.create_task(memory.search("walrus"))
        await begun(backend)
        await memory.close()
        assert backend.happened == ["hurried", "closed"]
        backend.let.set()
        await search

    ran(closed())


def test_a_close_that_is_cancelled_closes(workspace: Workspace) -> None:
    backend = Held()

    async def closed() -> None:
        memory = held(workspace, backend)
        search = asyncio.create_task(memory.search("walrus"))
        await begun(backend)
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        backend.let.set()
        await search
        await memory.close()

    ran(closed())
    assert backend.happened == ["hurried", "searched", "closed"]


def test_many_searches_are_under_way_at_the_same_time_and_leave_asyncios_threads_free(workspace: Workspace) -> None:
    backend = Held(callers=50)

    async def asked() -> int:
        async with held(workspace, backend) as memory:
            searches = [asyncio.create_task(memory.search("walrus")) for _ in range(50)]
            await begun(backend)
            backend.let.set()
            return len(await asyncio.gather(*searches))

    assert ran(asked()) == 50


def test_what_nobody_waits_for_any_more_is_given_away() -> None:
    given: list[str] = []
    begun, let = threading.Event(), threading.Event()

    def act() -> str:
        begun.set()
        assert let.wait(PATIENCE_S)
        return "opened"

    async def cancelled() -> None:
        threads = Threads()
        task = asyncio.create_task(threads.call(act, if_cancelled=given.append))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let.set()
        await threads.close(lambda: None, lambda: None)

    ran(cancelled())
    assert given == ["opened"]


def test_context_variables_are_there_in_the_thread() -> None:
    wanted: ContextVar[str] = ContextVar("wanted")

    async def asked() -> str:
        wanted.set("this")
        threads = Threads()
        try:
            return await threads.call(wanted.get)
        finally:
            threads.release()

    assert ran(asked()) == "this"


def test_following_tells_in_the_thread_of_the_loop_and_ends_when_it_is_cancelled(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "the walrus sleeps")

    async def followed() -> tuple[WatchEvent, threading.Thread]:
        told: asyncio.Queue[tuple[WatchEvent, threading.Thread]] = asyncio.Queue()

        def tell(happened: WatchEvent) -> None:
            told.put_nowait((happened, threading.current_thread()))

        async with await AsyncMemory.open(workspace.path, env=workspace.env) as memory:
            task = asyncio.create_task(memory.follow(tell))
            first = await told.get()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return first

    happened, thread = ran(followed())
    assert (happened.kind, thread) == ("synced", threading.current_thread())


_IMPORTS = """
import sys, threading
class Spy:
    seen = {}
    def find_spec(self, name, path=None, target=None):
        self.seen.setdefault(name, threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Spy())
import mdrecall
early = "asyncio" in sys.modules
from mdrecall import AsyncMemory
import asyncio, json
async def main():
    async with await AsyncMemory.open(sys.argv[1]) as memory:
        await memory.search("walrus")
asyncio.run(main())
here = [name for name in ("apsw", "numpy", "mdrecall.engine.searcher") if Spy.seen[name]]
print(json.dumps({"early": early, "here": here}))
"""


def test_asyncio_is_imported_only_when_asked_for_and_the_rest_only_in_threads(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "the walrus sleeps")
    command = [sys.executable, "-W", "error", "-c", _IMPORTS, str(workspace.path)]
    env = {**workspace.env, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == {"early": False, "here": []}


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_a_loop_cannot_take_comes_as_an_error_that_it_can(error: BaseException) -> None:
    def act() -> None:
        raise error

    async def asked() -> None:
        threads = Threads()
        try:
            with pytest.raises(RuntimeError) as caught:
                await threads.call(act)
            assert caught.value.__cause__ is error
            assert await threads.call(lambda: "goes on") == "goes on"
        finally:
            threads.release()

    ran(asked())


def test_the_thread_used_last_is_used_first_and_all_end_when_released() -> None:
    let = threading.Event()

    async def asked() -> list[threading.Thread]:
        threads = Threads()
        first = asyncio.create_task(threads.call(lambda: (let.wait(PATIENCE_S), threading.current_thread())[1]))
        seen = [await threads.call(threading.current_thread) for _ in range(3)]
        let.set()
        used = [await first, *seen]
        threads.release()
        return used

    used = ran(asked())
    assert len(set(used)) == 2
    for thread in set(used):
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_call_that_never_ends_does_not_keep_the_program() -> None:
    program = """
import asyncio, threading
from mdrecall.aio import Threads

async def main():
    threads = Threads(closing_s=0)
    begun = threading.Event()
    task = asyncio.create_task(threads.call(lambda: (begun.set(), threading.Event().wait())))
    while not begun.is_set():
        await asyncio.sleep(0)
    await threads.close(lambda: None, lambda: print("closed"))
    task.cancel()

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr, done.returncode) == ("closed\n", "", 0)
