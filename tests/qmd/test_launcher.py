"""What stands behind qmd's launcher."""

from pathlib import Path

import pytest

from mdrecall.extras.qmd.process import resolve_launcher, short_name
from tests.qmd.real import Tools


class Installed:
    """A package as npm installs it."""

    def __init__(self, root: Path, *, inside: str = "node_modules/@tobilu/qmd") -> None:
        self.root = root
        self.package = root / inside
        self.bin = root / "bin"
        for path in (self.package / "bin/qmd", self.package / "dist/cli/qmd.js", self.bin / "node"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        (self.bin / "qmd").symlink_to(self.package / "bin/qmd")
        self.env = {"PATH": str(self.bin)}

    @property
    def direct(self) -> tuple[str, ...]:
        return str(self.bin / "node"), str(self.package / "dist/cli/qmd.js")


def test_the_program_is_started_without_its_launcher(tmp_path: Path) -> None:
    made = Installed(tmp_path)
    for command in ("qmd", str(made.bin / "qmd"), str(made.package / "bin/qmd")):
        found, env = resolve_launcher((command,), made.env)
        assert found == made.direct
        assert env["LLAMA_LOG_LEVEL"] == "error"
    assert short_name(made.direct, ("search",)) == "qmd search"


def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    made = Installed(tmp_path)
    _, env = resolve_launcher(("qmd",), {**made.env, "LLAMA_LOG_LEVEL": "debug"})
    assert env["LLAMA_LOG_LEVEL"] == "debug"


@pytest.mark.parametrize("lock", ["bun.lock", "node_modules/@tobilu/qmd/bun.lockb"])
def test_one_that_was_installed_for_bun_is_left_to_its_launcher(tmp_path: Path, lock: str) -> None:
    made = Installed(tmp_path)
    (tmp_path / lock).write_text("")
    assert resolve_launcher(("qmd",), made.env) == (("qmd",), made.env)


def test_anything_else_is_left_as_it_is(tmp_path: Path) -> None:
    made = Installed(tmp_path)
    for command in (("qmd", "--index", "x"), ("no-such-qmd",), (str(made.bin / "node"),)):
        assert resolve_launcher(command, made.env) == (command, made.env)
    source = {**made.env, "QMD_SOURCE_MODE": "1"}
    assert resolve_launcher(("qmd",), source) == (("qmd",), source)
    (made.package / "dist/cli/qmd.js").unlink()
    assert resolve_launcher(("qmd",), made.env) == (("qmd",), made.env)


def test_a_checkout_is_left_to_its_launcher(tmp_path: Path) -> None:
    made = Installed(tmp_path, inside="src/qmd")
    assert resolve_launcher(("qmd",), made.env)[0] == ("qmd",)


def test_the_real_one_is_found(real_tools: Tools) -> None:
    found, _ = resolve_launcher((real_tools.qmd,), {"PATH": real_tools.path})
    assert found[1].endswith("dist/cli/qmd.js")
