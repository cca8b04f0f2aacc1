"""What stands behind qmd's launcher.

npm installs ``qmd`` as a script that does no more than start a second Node with the program in it. That costs a tenth
of a second each time, and whoever kills the launcher leaves the program running. Where it is plain what the launcher
would start, that is started instead.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence

_LAUNCHER = os.path.join("bin", "qmd")
_PROGRAM = os.path.join("dist", "cli", "qmd.js")
_NPM_LOCKS = ("package-lock.json",)
_BUN_LOCKS = ("bun.lock", "bun.lockb")
#: What the launcher sets for the native libraries, unless the user has: they would write among the answers.
_QUIET = {"LLAMA_LOG_LEVEL": "error", "GGML_LOG_LEVEL": "error", "GGML_BACKEND_SILENT": "1"}


def behind_launcher(command: Sequence[str], env: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and the environment that qmd's launcher would use; unchanged, if it is another program."""
    program = _program(command, env)
    node = shutil.which("node", path=env.get("PATH", os.defpath))
    if not program or not node:
        return tuple(command), dict(env)
    added = dict(_QUIET)
    if sys.platform == "darwin" and env.get("QMD_METAL_KEEP_RESIDENCY") != "1":
        added["GGML_METAL_NO_RESIDENCY"] = "1"
    return (node, program), {**added, **env}


def _program(command: Sequence[str], env: Mapping[str, str]) -> str:
    if len(command) != 1 or env.get("QMD_SOURCE_MODE") == "1":
        return ""
    found = shutil.which(command[0], path=env.get("PATH", os.defpath))
    package, name = os.path.split(os.path.dirname(os.path.realpath(found))) if found else ("", "")
    if not found or os.path.join(name, os.path.basename(os.path.realpath(found))) != _LAUNCHER:
        return ""
    program = os.path.join(package, _PROGRAM)
    return program if os.path.isfile(program) and _is_nodes(package) else ""


def _is_nodes(package: str) -> bool:
    """Whether a package was installed for Node, as the launcher tells it: by the lock files of who installed it."""
    parts = package.split(os.sep)
    if "node_modules" not in parts:
        return False
    root = os.sep.join(parts[: len(parts) - 1 - parts[::-1].index("node_modules")])
    for folder in (package, root):
        for locks, is_nodes in ((_NPM_LOCKS, True), (_BUN_LOCKS, False)):
            if any(os.path.exists(os.path.join(folder, lock)) for lock in locks):
                return is_nodes
    return True
