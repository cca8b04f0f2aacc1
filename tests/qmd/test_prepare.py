"""The folder and the environment of a qmd of its own."""

import os
from pathlib import Path

import pytest

from mdrecall.errors import BackendUnavailable
from mdrecall.extras.qmd.process import WORK_DIR, index_path, prepare


def test_the_folders_are_made_and_named_to_qmd(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "qmd"
    env = prepare(str(folder), {"PATH": "/bin", "PWD": "/somewhere"}, home=str(tmp_path))
    assert env["XDG_CONFIG_HOME"] == env["QMD_CONFIG_DIR"] == str(folder / "xdg-config")
    assert os.path.join(env["XDG_CACHE_HOME"], "qmd", "index.sqlite") == index_path(str(folder))
    assert os.path.isdir(env["QMD_CONFIG_DIR"])
    assert os.path.isdir(os.path.dirname(index_path(str(folder))))
    assert (env["PATH"], env["NO_COLOR"], env["PWD"]) == ("/bin", "1", WORK_DIR)
    assert folder.stat().st_mode & 0o077 == 0


def test_what_would_lead_qmd_elsewhere_is_left_out(tmp_path: Path) -> None:
    outer = {"INDEX_PATH": "/x", "QMD_CONFIG_DIR": "/x", "QMD_TRUST_LOCAL_CONFIG": "1", "XDG_CONFIG_HOME": "/x"}
    env = prepare(str(tmp_path / "qmd"), {**outer, "QMD_FORCE_CPU": "1"}, home=str(tmp_path))
    assert "/x" not in env.values()
    assert "QMD_TRUST_LOCAL_CONFIG" not in env
    assert env["QMD_FORCE_CPU"] == "1"


def test_models_that_are_there_already_are_linked(tmp_path: Path) -> None:
    models = tmp_path / ".cache" / "qmd" / "models"
    models.mkdir(parents=True)
    prepare(str(tmp_path / "qmd"), {}, home=str(tmp_path))
    prepare(str(tmp_path / "qmd"), {}, home=str(tmp_path))
    assert (tmp_path / "qmd" / "xdg-cache" / "qmd" / "models").readlink() == models


def test_models_are_looked_for_in_the_cache_of_the_environment(tmp_path: Path) -> None:
    models = tmp_path / "cache" / "qmd" / "models"
    models.mkdir(parents=True)
    prepare(str(tmp_path / "qmd"), {"XDG_CACHE_HOME": str(tmp_path / "cache")}, home="/nowhere")
    assert (tmp_path / "qmd" / "xdg-cache" / "qmd" / "models").readlink() == models


def test_what_stands_in_the_place_of_the_link_is_left(tmp_path: Path) -> None:
    (tmp_path / ".cache" / "qmd" / "models").mkdir(parents=True)
    agent_home = tmp_path / "qmd" / "xdg-cache" / "qmd"
    agent_home.mkdir(parents=True)
    (agent_home / "models").symlink_to("/gone")
    prepare(str(tmp_path / "qmd"), {}, home=str(tmp_path))
    assert str((agent_home / "models").readlink()) == "/gone"


def test_no_models_no_link(tmp_path: Path) -> None:
    prepare(str(tmp_path / "qmd"), {}, home=str(tmp_path))
    assert not os.path.lexists(tmp_path / "qmd" / "xdg-cache" / "qmd" / "models")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendUnavailable, match="Cannot create the qmd folder") as told:
        prepare(str(tmp_path / "file" / "qmd"), {}, home=str(tmp_path))
    assert told.value.hint
