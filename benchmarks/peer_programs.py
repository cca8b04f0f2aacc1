"""The programs that ``benchmarks.peers`` compares: where each is, how it is installed, and the vectors it is given."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

from benchmarks.minilm_server import make_handler

#: The package of each program, and the registry that it comes from.
PACKAGES = {"qmd": ("npm", "@tobilu/qmd"), "openclaw": ("npm", "openclaw"), "memsearch": ("pip", "memsearch")}
# OpenClaw has hundreds of dependencies.
_MAX_INSTALL_S = 1_200


def find_program(name: str, folder: Path | None) -> str:
    """Return the path of a program: below the folder where programs are installed, else on the PATH; empty if none."""
    if folder and (own := _path_below(folder, name)).exists():
        return str(own)
    return shutil.which(name) or ""


def install_program(name: str, folder: Path) -> str:
    """Install a program below a folder, and return its path; raise ``RuntimeError`` with the reason if it fails."""
    registry, package = PACKAGES[name]
    if registry == "npm":
        npm = shutil.which("npm")
        if not npm:
            raise RuntimeError("npm is not installed")
        (folder / "npm").mkdir(parents=True, exist_ok=True)
        _run([npm, "install", "--prefix", str(folder / "npm"), "--no-fund", "--no-audit", package])
    else:
        _run([sys.executable, "-m", "venv", str(folder / name)])
        _run([str(folder / name / "bin" / "pip"), "install", "--quiet", package])
    found = _path_below(folder, name)
    if not found.exists():
        raise RuntimeError(f"{package} has no program {name}")
    return str(found)


@contextmanager
def serve_vectors() -> Iterator[str]:
    """Serve the vectors of mdrecall's own table in OpenAI's wire format, and give the address."""
    from mdrecall.embed.offline import OfflineEmbedder
    from mdrecall.types.documents import EmbedInput

    embedder = OfflineEmbedder()

    def embed(texts: Sequence[str]) -> list[bytes]:
        return [made.vector for made in embedder.embed_chunks([EmbedInput("", text) for text in texts])]

    server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(embed))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def choose_program(name: str, given: str, folder: Path | None, say: Callable[[str], object]) -> str:
    """Return the program to compare; empty, after saying why, if there is none."""
    if program := given or find_program(name, folder):
        return program
    if folder is None:
        say(f"{name}: skipped, it is not on the PATH; name it with --{name}, or have it installed with --install DIR")
        return ""
    try:
        return install_program(name, folder)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        say(f"{name}: skipped, it cannot be installed: {error}")
        return ""


def _path_below(folder: Path, name: str) -> Path:
    where = folder / "npm" / "node_modules" / ".bin" if PACKAGES[name][0] == "npm" else folder / name / "bin"
    return where / name


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MAX_INSTALL_S, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip()[-300:])
