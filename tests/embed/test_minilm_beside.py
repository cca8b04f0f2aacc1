"""minilm beside the table, with the real model: chosen where it is installed, filled by a sync or in the background."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mdrecall.config.load import load
from mdrecall.engine.embedders import choose_embedders
from mdrecall.extras.minilm import MiniLM, graph_path
from mdrecall.memory import Memory
from tests.conftest import Workspace
from tests.embed.conftest import FileServer
from tests.processes import until


@pytest.fixture
def with_model(workspace: Workspace, minilm: MiniLM, model_folder: Path, cache_dir: Path) -> Workspace:
    """A workspace of a user who has downloaded the model before."""
    minilm.prepare()
    models = workspace.home / ".cache" / "mdrecall" / "models"
    models.mkdir(parents=True)
    shutil.copy(graph_path(str(cache_dir)), models)
    shutil.copy(model_folder / "tokenizer.json", models)
    workspace.write("memory/health.md", "# Health\n\nThe doctor said to cut down on sugar and walk every day.\n")
    workspace.write("memory/car.md", "# Car\n\nThe vehicle failed its inspection because of worn brakes.\n")
    workspace.write("memory/garden.md", "# Garden\n\nTomatoes were planted in May beside the fence.\n")
    return workspace


def beside_of(workspace: Workspace, provider: str | None = None) -> str:
    loaded = load(
        env=workspace.env, workspace=str(workspace.path), overrides={"provider": provider} if provider else None
    )
    chosen = choose_embedders(loaded)
    assert [embedder.provider for embedder in chosen.embedders] == ["offline"]
    return chosen.beside.provider if chosen.beside else ""


def test_it_is_used_where_its_model_is_on_the_disk_and_no_provider_is_named(with_model: Workspace) -> None:
    assert beside_of(with_model) == "minilm"
    assert beside_of(with_model, "auto") == "minilm"
    assert beside_of(with_model, "offline") == ""


def test_nothing_is_downloaded_unasked(workspace: Workspace) -> None:
    assert beside_of(workspace) == ""
    (workspace.home / ".cache" / "mdrecall" / "models").mkdir(parents=True)
    assert beside_of(workspace) == ""


def test_a_folder_with_the_model_serves_too(workspace: Workspace, model_folder: Path) -> None:
    loaded = load(env=workspace.env, workspace=str(workspace.path), overrides={"local.modelPath": str(model_folder)})
    chosen = choose_embedders(loaded)
    assert chosen.beside
    assert chosen.beside.provider == "minilm"


def test_a_sync_fills_it_and_both_are_searched(with_model: Workspace) -> None:
    memory = with_model.memory()
    assert memory.sync(waits_for_encoder=True).issues == ()
    status = memory.status()
    assert status.provider == "offline"
    assert status.vector["beside"] == {"provider": "minilm", "model": "all-MiniLM-L6-v2", "chunks": 3}
    answer = memory.search("what is wrong with my automobile", mode="vector")
    assert (answer[0].path, answer.provider, answer.degraded) == ("memory/car.md", "offline", "")
    assert answer.model == "mdrecall-words-v1 + all-MiniLM-L6-v2"


def test_a_search_does_not_wait_for_it_but_has_it_filled_in_the_background(with_model: Workspace) -> None:
    memory = with_model.memory()
    answer = memory.search("doctor")
    assert (answer[0].path, answer.issues, answer.stale) == ("memory/health.md", (), "")
    until(lambda: memory.status().vector["beside"]["chunks"] == 3)


def test_a_single_command_leaves_it_alone(with_model: Workspace) -> None:
    with Memory.open(with_model.path, env=with_model.env, one_shot=True) as memory:
        answer = memory.search("doctor")
        assert (answer[0].path, answer.issues) == ("memory/health.md", ())
        assert memory.status().vector["beside"]["chunks"] == 0


def test_a_rebuild_takes_its_vectors_from_the_cache(with_model: Workspace) -> None:
    memory = with_model.memory()
    memory.sync(waits_for_encoder=True)
    assert memory.sync(force=True, waits_for_encoder=True).issues == ()
    assert memory.status().vector["beside"]["chunks"] == 3


def test_naming_the_offline_provider_drops_its_vectors(with_model: Workspace) -> None:
    with_model.memory().sync(waits_for_encoder=True)
    with Memory.open(with_model.path, env=with_model.env, overrides={"provider": "offline"}) as memory:
        with_model.write("memory/new.md", "one more")
        memory.sync()
        assert "beside" not in memory.status().vector
    assert with_model.memory().status().vector["beside"]["chunks"] == 0


def test_one_command_downloads_the_model_and_from_then_on_it_is_used(
    workspace: Workspace, model_folder: Path, server: FileServer
) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        path = f"/sentence-transformers/all-MiniLM-L6-v2/resolve/main/{name}"
        server.files[path] = (model_folder / name).read_bytes()
    env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path), "HF_ENDPOINT": server.url, "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", "mdrecall", "providers", "--download", "minilm", "--json"]
    ran = subprocess.run(command, cwd=workspace.path, env=env, capture_output=True, text=True, timeout=120, check=True)
    roles = {row["name"]: row["role"] for row in json.loads(ran.stdout)}
    assert (roles["offline"], roles["minilm"]) == ("used", "beside")
    assert beside_of(workspace) == "minilm"


def test_a_download_that_fails_is_told(workspace: Workspace, server: FileServer) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install -e '.[minilm]'")
    env = {**workspace.env, "PYTHONPATH": os.pathsep.join(sys.path), "HF_ENDPOINT": server.url, "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", "mdrecall", "providers", "--download", "minilm"]
    ran = subprocess.run(command, cwd=workspace.path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "tokenizer.json" in ran.stderr
    assert "Traceback" not in ran.stderr
