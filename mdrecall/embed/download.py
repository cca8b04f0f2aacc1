"""Download one file: only a complete one gets its final name, and a broken download of a known one resumes."""

import errno
import http.client
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from shutil import disk_usage
from typing import IO, NamedTuple

from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.locks import FileLock
from mdrecall.state_files import make_private_folder
from mdrecall.types import Progress, ProgressCallback

#: A connection that breaks more often without progress will not finish; with progress each attempt resumes.
_ATTEMPTS = 5
#: A hub redirects to its storage, perhaps over several hosts; this many is a loop.
_MAX_REDIRECTS = 10
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
    problem: Callable[[str], str] | None = None,
) -> str:
    """Return the path of the file in the folder, downloading it if needed. The caller holds ``folder_lock``.

    ``problem`` returns what is wrong with the content of a downloaded file; empty if nothing is.
    """
    path = os.path.join(folder, file.name)
    if matches(path, file):
        return path
    part = f"{path}.part"
    try:
        file = _complete(file, url, part, hint, progress)
        actual = hash_file(part) if file.sha256 else ""
        if actual != file.sha256:
            why = f"is not the file that was expected: its SHA-256 is {actual}, not {file.sha256}"
            raise ModelFileError(f"{url} {why}. The download was removed.")
        if problem and (why := problem(part)):
            raise ModelFileError(f"{url} cannot be used: {why}. The download was removed.")
    except (ModelFileError, OSError) as error:
        with suppress(FileNotFoundError):
            os.remove(part)
        if isinstance(error, ModelFileError):
            error.hint = hint
        raise
    os.replace(part, path)
    return path


def _complete(file: RemoteFile, url: str, part: str, hint: str, progress: ProgressCallback | None) -> RemoteFile:
    """Download the rest of the part; return the file with its size and SHA-256 from the server."""
    for _ in range(_ATTEMPTS):
        before = _size_of(part)
        if before == file.size:
            return file
        try:
            if known := _receive(file, url, part, progress):
                return known
        except _ConnectionBroken as error:
            if _size_of(part) <= before:
                raise EmbedderUnavailable(f"Cannot download {url}: {error}.", hint=hint) from error
    raise EmbedderUnavailable(f"Cannot download {url}: the connection keeps breaking.", hint=hint)


def _receive(file: RemoteFile, url: str, part: str, progress: ProgressCallback | None) -> RemoteFile | None:
    """Download what is missing; return None if the part may belong to another file and was removed."""
    done = _size_of(part)
    response, file = _open(url, done, file)
    with response:
        if response.status == 416 and file.sha256 and done == file.size:
            return file
        # Only a hash can tell that both parts belong together.
        rest = f"bytes {done}-{file.size - 1}/{file.size}"
        is_rest = bool(file.sha256) and response.headers.get("Content-Range") == rest
        if response.status == 416 or (response.status == 206 and not is_rest):
            os.remove(part)
            return None
        done = done if response.status == 206 else 0
        if response.length is not None and done + response.length != file.size:
            raise ModelFileError(f"{url} has {done + response.length} bytes; {file.name} has {file.size}.")
        _check_room(part, done, file)
        with open(part, "ab" if done else "wb") as out:
            done = _copy(response, out, done, file, url, progress)
    if done < file.size:
        raise _ConnectionBroken("the connection ended early")
    return file


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _check_room(part: str, done: int, file: RemoteFile) -> None:
    free = disk_usage(os.path.dirname(part)).free + _size_of(part) - done
    needed = file.size - done
    if free < needed:
        raise OSError(errno.ENOSPC, f"{file.name} needs {needed / 1e6:.1f} MB more, {free / 1e6:.1f} MB are free")


def _copy(
    response: http.client.HTTPResponse,
    out: IO[bytes],
    done: int,
    file: RemoteFile,
    url: str,
    progress: ProgressCallback | None,
) -> int:
    for block in _blocks(response):
        done += len(block)
        if file.size != UNKNOWN and done > file.size:
            raise ModelFileError(f"{url} is longer than the {file.size} bytes that {file.name} has.")
        out.write(block)
        if progress:
            progress(Progress(done, max(done, file.size), f"Downloading {file.name}"))
    return done


def _open(url: str, done: int, file: RemoteFile) -> tuple[http.client.HTTPResponse, RemoteFile]:
    """Return the answer after all redirects, and the file with what the server knows about it.

    A hub sends the size and the hash with its redirect. Nothing that could identify the user is sent.
    """
    headers = {"User-Agent": "mdrecall", "Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    for _ in range(_MAX_REDIRECTS + 1):
        response = _request(url, headers)
        linked = re.fullmatch(r'"([0-9a-f]{64})"', response.headers.get("X-Linked-Etag") or "")
        size = response.headers.get("X-Linked-Size") or ""
        if linked and not file.sha256:
            file = file._replace(sha256=linked[1])
        if size.isdecimal() and file.size == UNKNOWN:
            file = file._replace(size=int(size))
        if response.status not in (301, 302, 303, 307, 308):
            break
        response.close()
        target = urllib.parse.urljoin(url, response.headers.get("Location") or "")
        if url.startswith("https://") and not target.startswith("https://"):
            raise _ConnectionBroken(f"the server redirects from https:// to {target}")
        url = target
    if response.status not in (200, 206, 416):
        response.close()
        reason = f"the server returned {response.status} {response.reason}".rstrip()
        if response.status in (401, 403):
            reason += "; the file may be private, or its licence is not accepted yet"
        raise _ConnectionBroken(reason)
    if file.size == UNKNOWN and response.status == 200 and response.length is not None:
        file = file._replace(size=response.length)
    return response, file


def _request(url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    if not url.startswith(("http://", "https://")):
        raise _ConnectionBroken("the address must begin with http:// or https://")
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    try:
        response: http.client.HTTPResponse | None
        response = opener.open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _ConnectionBroken(getattr(reason, "strerror", None) or str(reason) or type(error).__name__) from error
    if response is None:
        raise _ConnectionBroken("the address is not supported")
    return response


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(_BLOCK_BYTES)
        except http.client.IncompleteRead as error:
            yield error.partial
            raise _ConnectionBroken("the connection ended early") from error
        except (OSError, http.client.HTTPException) as error:
            raise _ConnectionBroken(str(error) or type(error).__name__) from error
        if not block:
            return
        yield block
