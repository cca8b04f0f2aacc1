"""One backend for all who open the same memory."""

import json
import threading

from mdrecall.config.load import Loaded, load
from mdrecall.engine.pool import BackendPool, key_of
from mdrecall.interfaces import IndexedBackend
from tests.conftest import Workspace
from tests.engine.fake_backend import FakeBackend


def loaded(workspace: Workspace, config: str = "{}") -> Loaded:
    workspace.configure(config)
    return load(env=workspace.env, workspace=str(workspace.path))


class Opener:
    def __init__(self) -> None:
        self.made: list[FakeBackend] = []

    def __call__(self, loaded: Loaded) -> IndexedBackend:
        self.made.append(FakeBackend("builtin"))
        return self.made[-1]


def test_the_same_settings_share_one_backend_that_the_last_one_ends(workspace: Workspace) -> None:
    opener = Opener()
    shared = BackendPool(opener)
    first, let_go = shared.acquire(loaded(workspace))
    second, let_go_too = shared.acquire(loaded(workspace))
    assert first is second
    let_go()
    let_go()
    assert opener.made[0].closed == 0
    let_go_too()
    assert opener.made[0].closed == 1
    third, _ = shared.acquire(loaded(workspace))
    assert third is not first


def test_other_settings_have_another_backend(workspace: Workspace) -> None:
    opener = Opener()
    shared = BackendPool(opener)
    _, let_go = shared.acquire(loaded(workspace))
    shared.acquire(loaded(workspace, json.dumps({"memorySearch": {"chunking": {"tokens": 200}}})))
    let_go()
    assert [made.closed for made in opener.made] == [1, 0]


def test_another_key_is_another_setting_and_no_key_is_written_down(workspace: Workspace) -> None:
    remotes = [{"memorySearch": {"remote": {"apiKey": f"sk-secret-number-{number}"}}} for number in (1, 2)]
    keys = {key_of(loaded(workspace, json.dumps(remote))) for remote in remotes}
    keys.add(key_of(load(env={**workspace.env, "OPENAI_API_KEY": "sk-secret"}, workspace=str(workspace.path))))
    assert len(keys) == 3
    assert "secret" not in "".join(keys)


def test_the_order_in_which_settings_are_written_does_not_count(workspace: Workspace) -> None:
    scope = {"default": "deny", "rules": []}
    other = dict(reversed(scope.items()))
    keys = {key_of(loaded(workspace, json.dumps({"memory": {"qmd": {"scope": value}}}))) for value in (scope, other)}
    assert len(keys) == 1


def test_many_at_once_get_the_same(workspace: Workspace) -> None:
    opener = Opener()
    shared = BackendPool(opener)
    settings = loaded(workspace)
    threads = [threading.Thread(target=shared.acquire, args=(settings,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opener.made) == 1
