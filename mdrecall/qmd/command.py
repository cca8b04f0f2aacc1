"""What to start as qmd, and where it keeps its files: the command, the program behind npm's launcher, the environment.

npm installs ``qmd`` as a script that only starts a second Node with the actual program. That costs a tenth of a second
per call, and killing the launcher leaves the program running. Where it is clear what the launcher would start, that
program is started directly.
"""

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence

from mdrecall.errors import BackendUnavailable, ProgramMissing
from mdrecall.state_files import make_private_folder

#: Where qmd runs. A ``.qmd/index.yml`` in the working folder or above it overrides every other configuration, whatever
#: the environment says. Above the root there is nothing.
WORK_DIR = "/"
# qmd itself waits two minutes for a locked database, longer than any caller of ours does.
_BUSY_WAIT_MS = 2_000
# Variables that would lead qmd to another index or let a configuration run commands.
_DROPPED_VARIABLES = ("INDEX_PATH", "OLDPWD", "QMD_TRUST_LOCAL_CONFIG", "QMD_TRUST_UPDATE_HOOKS")
_LOCAL_CONFIGS = (os.path.join(".qmd", "index.yml"), os.path.join(".qmd", "index.yaml"))
_LAUNCHER = os.path.join("bin", "qmd")
_PROGRAM = os.path.join("dist", "cli", "qmd.js")
_BUN_LOCKS = ("bun.lock", "bun.lockb")
# What the launcher sets for the native libraries, unless the user has: otherwise they log into the answers.
_QUIET = {"LLAMA_LOG_LEVEL": "error", "GGML_LOG_LEVEL": "error", "GGML_BACKEND_SILENT": "1"}


def parse_command(text: str, *, home: str = "") -> tuple[str, ...]:
    """Return the command that a setting names, with the words after it as its first arguments.

    Quotes and backslashes work as in a shell, but no shell is involved. A text that names an existing file is that
    file, even if it contains spaces.
    """
    text = text.strip()
    if text and os.path.isfile(_expand_home(text, home)):
        return (_expand_home(text, home),)
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()[:1]
    return tuple(_expand_home(word, home) if number == 0 else word for number, word in enumerate(words))


def short_name(command: Sequence[str], arguments: Sequence[str] = ()) -> str:
    """Return how messages call a command: its program without the folder, and its subcommand."""
    words = [os.path.basename(command[-1]).removesuffix(".js") if command else "(no command)", *arguments[:1]]
    return " ".join(word for word in words if not word.startswith("-"))


def find_program(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the path of the program to start; raise ``ProgramMissing`` if there is none."""
    if not command or not command[0]:
        raise ProgramMissing("No command is set.", hint="Name the program in memory.qmd.command.")
    program = os.path.abspath(command[0]) if os.sep in command[0] else command[0]
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found:
        return found
    what = "is not a program that this user may run" if os.path.exists(program) else "is not installed"
    where = "" if os.sep in program else " on the PATH"
    raise ProgramMissing(f"{command[0]} {what}{where}.", hint=install_hint(command))


def install_hint(command: Sequence[str]) -> str:
    """Return how to install a missing program, or how to do without it."""
    if any("mcporter" in os.path.basename(word) for word in command[:2]):
        return "Install it with `npm install -g mcporter` (Node 22 or newer), or switch memory.qmd.mcporter off."
    return "Install it with `npm install -g @tobilu/qmd` (Node 22 or newer), or name its path in memory.qmd.command."


def index_path(qmd_dir: str) -> str:
    """Return the path of the database of the qmd in a folder."""
    return os.path.join(qmd_dir, "xdg-cache", "qmd", "index.sqlite")


def config_path(qmd_dir: str) -> str:
    """Return the path of the configuration of the qmd in a folder."""
    return os.path.join(qmd_dir, "xdg-config", "index.yml")


def prepare(qmd_dir: str, environment: Mapping[str, str], *, home: str) -> dict[str, str]:
    """Create the folders of a separate qmd, and return the environment that makes it use them."""
    for name in _LOCAL_CONFIGS:
        if os.path.exists(path := os.path.join(WORK_DIR, name)):
            raise BackendUnavailable(f"{path} overrides the configuration of every qmd.", hint="Remove it.")
    config, cache = os.path.dirname(config_path(qmd_dir)), os.path.dirname(index_path(qmd_dir))
    try:
        make_private_folder(config)
        make_private_folder(cache)
    except OSError as error:
        hint = "Remove what is in the way, or give this user write access."
        raise BackendUnavailable(f"Cannot create the qmd folder {qmd_dir}: {error.strerror}.", hint=hint) from error
    parent_cache = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    _link_models(os.path.join(parent_cache, "qmd", "models"), os.path.join(cache, "models"))
    inherited = {name: value for name, value in environment.items() if name not in _DROPPED_VARIABLES}
    return {
        **inherited,
        "XDG_CONFIG_HOME": config,
        "XDG_CACHE_HOME": os.path.dirname(cache),
        "QMD_CONFIG_DIR": config,
        "QMD_SQLITE_BUSY_TIMEOUT": str(_BUSY_WAIT_MS),
        "NO_COLOR": "1",
        "PWD": WORK_DIR,
    }


def resolve_launcher(command: Sequence[str], env: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command and environment that qmd's launcher would use, or both unchanged for any other program."""
    program = _program_behind(command, env)
    node = shutil.which("node", path=env.get("PATH", os.defpath))
    if not program or not node:
        return tuple(command), dict(env)
    extra = dict(_QUIET)
    if sys.platform == "darwin" and env.get("QMD_METAL_KEEP_RESIDENCY") != "1":
        extra["GGML_METAL_NO_RESIDENCY"] = "1"
    return (node, program), {**extra, **env}


def _program_behind(command: Sequence[str], env: Mapping[str, str]) -> str:
    if len(command) != 1 or env.get("QMD_SOURCE_MODE") == "1":
        return ""
    found = shutil.which(command[0], path=env.get("PATH", os.defpath))
    package, name = os.path.split(os.path.dirname(os.path.realpath(found))) if found else ("", "")
    if not found or os.path.join(name, os.path.basename(os.path.realpath(found))) != _LAUNCHER:
        return ""
    program = os.path.join(package, _PROGRAM)
    return program if os.path.isfile(program) and _is_installed_for_node(package) else ""


def _is_installed_for_node(package: str) -> bool:
    """True if a package was installed for Node: beside it, or at its root, there is no lock file of Bun."""
    parts = package.split(os.sep)
    if "node_modules" not in parts:
        return False
    root = os.sep.join(parts[: len(parts) - 1 - parts[::-1].index("node_modules")])
    return not any(os.path.exists(os.path.join(folder, lock)) for folder in (package, root) for lock in _BUN_LOCKS)


def _expand_home(word: str, home: str) -> str:
    return os.path.join(home, word[2:]) if home and word.startswith("~/") else word


def _link_models(source: str, target: str) -> None:
    """Let this qmd use the models that another one has downloaded. Without the link it downloads its own."""
    if os.path.isdir(source) and not os.path.lexists(target):
        with contextlib.suppress(OSError):
            os.symlink(source, target, target_is_directory=True)
