"""Download one file: only a complete one with the expected content gets its final name."""

import errno
import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from shutil import disk_usage
from typing import IO, Any, NamedTuple

from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.locks import FileLock
from mdrecall.state_files import make_private_folder
from mdrecall.types.sync import Progress, ProgressCallback

#: Large enough to be fast, small enough that closing the embedder ends a download soon.
_BLOCK_BYTES = 1 << 18
_TIMEOUT_S = 30.0
#: The size of a file before the server has given it.
UNKNOWN = -1


class RemoteFile(NamedTuple):
    """A file to download, with its size and SHA-256 as far as they are known."""

    name: str
    size: int = UNKNOWN
    sha256: str = ""

    def complete(self, headers: Any) -> "RemoteFile":
        """Return the file with what a hub says about it in its answer or its redirect."""
        linked = re.fullmatch(r'"([0-9a-f]{64})"', headers.get("X-Linked-Etag") or "")
        size = headers.get("X-Linked-Size") or ""
        return self._replace(
            size=int(size) if size.isdecimal() and self.size == UNKNOWN else self.size,
            sha256=self.sha256 or (linked[1] if linked else ""),
        )


class BadContent(Exception):
    """A file is not what it should be; the message is the end of a sentence that says why."""


class _ConnectionBroken(Exception):
    """The server cannot be reached, or the connection ended early."""


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def matches(path: str, file: RemoteFile) -> bool:
    """True if the file at the path has the known size and SHA-256; without a known SHA-256, if it exists."""
    try:
        if file.size not in (UNKNOWN, os.path.getsize(path)):
            return False
        return not file.sha256 or hash_file(path) == file.sha256
    except FileNotFoundError:
        return False


@contextmanager
def folder_lock(folder: str, *, lock_wait_s: float = 1800) -> Iterator[None]:
    """Create the folder and hold its write lock; raise ``ModelFileError`` if the system refuses."""
    lock = FileLock(os.path.join(folder, "write.lock"))
    try:
        make_private_folder(folder)
        if not lock.acquire(lock_wait_s, "writing models"):
            message = f"Another process has been writing in {folder} for {lock_wait_s:.0f} seconds."
            raise EmbedderUnavailable(message, hint="Wait for it or stop it, then try again.")
        yield
    except OSError as error:
        hint = "Free some space there, or set memorySearch.local.modelCacheDir to another folder."
        raise ModelFileError(f"Cannot write in {folder}: {error.strerror or error}.", hint=hint) from error
    finally:
        lock.release()


def fetch(
    file: RemoteFile,
    url: str,
    folder: str,
    *,
    hint: str = "",
    progress: ProgressCallback | None = None,
    check: Callable[[str], object] | None = None,
) -> str:
    """Return the path of the file in the folder, downloading it if needed. The caller holds ``folder_lock``.

    ``check`` raises ``BadContent`` for a downloaded file that cannot be used.
    """
    path = os.path.join(folder, file.name)
    if matches(path, file):
        return path
    part = f"{path}.part"
    try:
        with open(part, "wb") as out:
            file = _receive(file, url, out, progress)
        actual = hash_file(part) if file.sha256 else ""
        if actual != file.sha256:
            why = f"is not the file that was expected: its SHA-256 is {actual}, not {file.sha256}"
            raise ModelFileError(f"{url} {why}. The download was removed.", hint=hint)
        if check:
            check(part)
        os.replace(part, path)
    except BadContent as error:
        raise ModelFileError(f"{url} cannot be used: {error}. The download was removed.", hint=hint) from error
    except _ConnectionBroken as error:
        raise EmbedderUnavailable(f"Cannot download {url}: {error}.", hint=hint) from error
    finally:
        with suppress(FileNotFoundError):
            os.remove(part)
    return path


def _receive(file: RemoteFile, url: str, out: IO[bytes], progress: ProgressCallback | None) -> RemoteFile:
    """Download a file; return it with its size and SHA-256 from the server."""
    redirects = _Redirects(file)
    with _open(url, redirects) as response:
        file = redirects.file.complete(response.headers)
        if response.length is not None and file.size not in (UNKNOWN, response.length):
            raise ModelFileError(f"{url} has {response.length} bytes; {file.name} has {file.size}.")
        if file.size == UNKNOWN and response.length is not None:
            file = file._replace(size=response.length)
        if (free := disk_usage(os.path.dirname(out.name)).free) < file.size:
            needed = f"{file.name} needs {file.size / 1e6:.1f} MB, {free / 1e6:.1f} MB are free"
            raise OSError(errno.ENOSPC, needed)
        done = 0
        for block in _blocks(response):
            done += len(block)
            if file.size != UNKNOWN and done > file.size:
                raise ModelFileError(f"{url} has more than the {file.size} bytes of {file.name}.")
            out.write(block)
            if progress:
                progress(Progress(done, max(done, file.size), f"Downloading {file.name}"))
    if done < file.size:
        raise _ConnectionBroken("the connection ended early")
    return file


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and takes from each what a hub says about the file."""

    def __init__(self, file: RemoteFile) -> None:
        self.file = file

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        self.file = self.file.complete(headers)
        if req.full_url.startswith("https://") and not newurl.startswith("https://"):
            raise _ConnectionBroken(f"the server redirects from https:// to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, redirects: _Redirects) -> http.client.HTTPResponse:
    """Return the answer after all redirects. Nothing that could identify the user is sent."""
    if not url.startswith(("http://", "https://")):
        raise _ConnectionBroken("the address must begin with http:// or https://")
    headers = {"User-Agent": "mdrecall", "Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(url, headers=headers)
        response: http.client.HTTPResponse = urllib.request.build_opener(redirects).open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"the server returned {error.code} {error.reason}".rstrip()
        if error.code in (401, 403):
            reason += "; the file may be private, or its licence is not accepted yet"
        raise _ConnectionBroken(reason) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise _ConnectionBroken(getattr(cause, "strerror", None) or str(cause) or type(error).__name__) from error
    return response


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while block := response.read(_BLOCK_BYTES):
            yield block
    except (OSError, http.client.HTTPException) as error:
        raise _ConnectionBroken(str(error) or type(error).__name__) from error
