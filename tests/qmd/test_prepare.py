"""The folder and the environment of a qmd of its own."""

import os
from pathlib import Path

import pytest

from mdrecall.errors import BackendUnavailable
from mdrecall.extras.qmd.process import WORK_DIR, index_path, prepare


def test_its_folders_are_made_and_named_and_nothing_leads_it_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "qmd"
    outer = {"INDEX_PATH": "/x", "QMD_CONFIG_DIR": "/x", "QMD_TRUST_LOCAL_CONFIG": "1", "XDG_CONFIG_HOME": "/x"}
    more = {"PATH": "/bin", "PWD": "/somewhere", "QMD_FORCE_CPU": "1"}
    env = prepare(str(folder), {**outer, **more}, home=str(tmp_path))
    assert env["XDG_CONFIG_HOME"] == env["QMD_CONFIG_DIR"] == str(folder / "xdg-config")
    assert os.path.join(env["XDG_CACHE_HOME"], "qmd", "index.sqlite") == index_path(str(folder))
    assert os.path.isdir(env["QMD_CONFIG_DIR"])
    assert os.path.isdir(os.path.dirname(index_path(str(folder))))
    assert (env["PATH"], env["NO_COLOR"], env["PWD"], env["QMD_FORCE_CPU"]) == ("/bin", "1", WORK_DIR, "1")
    assert "/x" not in env.values()
    assert "QMD_TRUST_LOCAL_CONFIG" not in env
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("cache", ["", "cache"])
def test_models_that_are_there_already_are_linked(tmp_path: Path, cache: str) -> None:
    link = tmp_path / "qmd" / "xdg-cache" / "qmd" / "models"
    outer = {"XDG_CACHE_HOME": str(tmp_path / cache)} if cache else {}
    prepare(str(tmp_path / "qmd"), outer, home=str(tmp_path))
    assert not os.path.lexists(link)
    models = tmp_path / (cache or ".cache") / "qmd" / "models"
    models.mkdir(parents=True)
    for _ in range(2):
        prepare(str(tmp_path / "qmd"), outer, home=str(tmp_path))
        assert link.readlink() == models
    link.unlink()
    link.symlink_to("/gone")
    prepare(str(tmp_path / "qmd"), outer, home=str(tmp_path))
    assert str(link.readlink()) == "/gone"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendUnavailable, match="Cannot create the qmd folder") as told:
        prepare(str(tmp_path / "file" / "qmd"), {}, home=str(tmp_path))
    assert told.value.hint
