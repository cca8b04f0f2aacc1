"""Download one file; a broken download resumes where it stopped, and only a complete file gets its final name."""

import errno
import http.client
import os
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import file_digest
from shutil import disk_usage
from typing import IO, NamedTuple

from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.locks import try_flock
from mdrecall.state_files import make_private_folder
from mdrecall.types import Progress, ProgressCallback

#: A connection that breaks more often without progress will not finish; with progress each attempt resumes.
_ATTEMPTS = 5
#: A hub redirects to its storage, perhaps over several hosts; this many is a loop.
_MAX_REDIRECTS = 10
#: Large enough to be fast, small enough that closing the embedder ends a download soon.
_BLOCK_BYTES = 1 << 18
_POLL_S = 0.1
#: The size of a file before the server has given it.
UNKNOWN = -1
_FORBIDDEN_STATUSES = (401, 403)
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class RemoteFile(NamedTuple):
    """A file to download, with its size and SHA-256 as far as they are known."""

    name: str
    size: int = UNKNOWN
    sha256: str = ""


class _Options(NamedTuple):
    hint: str
    timeout_s: float
    progress: ProgressCallback | None
    problem: Callable[[str], str] | None


class _ConnectionBroken(Exception):
    """The server cannot be reached, or the connection ended early."""


class _Answer(NamedTuple):
    response: http.client.HTTPResponse
    linked: Mapping[str, str]
    """A hub's headers about the file itself, which it sends with its redirect."""


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
    try:
        make_private_folder(folder)
        with open(os.path.join(folder, "write.lock"), "a") as lock:
            _take(lock, folder, lock_wait_s)
            yield
    except OSError as error:
        hint = "Free some space there, or set memorySearch.local.modelCacheDir to another folder."
        raise ModelFileError(f"Cannot write in {folder}: {error.strerror or error}.", hint=hint) from error


def _take(lock: IO[str], folder: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not try_flock(lock.fileno()):
        if time.monotonic() >= deadline:
            message = f"Another process has been writing in {folder} for {wait_s:.0f} seconds."
            raise EmbedderUnavailable(message, hint="Wait for it or stop it, then try again.")
        time.sleep(_POLL_S)


def fetch(
    file: RemoteFile,
    url: str,
    folder: str,
    *,
    hint: str = "",
    timeout_s: float = 30,
    progress: ProgressCallback | None = None,
    problem: Callable[[str], str] | None = None,
) -> str:
    """Return the path of the file in the folder, downloading it if needed. The caller holds ``folder_lock``.

    ``problem`` returns what is wrong with the content of a downloaded file; empty if nothing is.
    """
    path = os.path.join(folder, file.name)
    if matches(path, file):
        return path
    _download(file, url, _Part(f"{path}.part"), path, _Options(hint, timeout_s, progress, problem))
    return path


def _download(file: RemoteFile, url: str, part: "_Part", path: str, how: _Options) -> None:
    try:
        _check(_complete(file, url, part, how), url, part, how)
    except ModelFileError as error:
        part.remove()
        error.hint = how.hint
        raise
    except OSError:
        part.remove()
        raise
    os.replace(part.path, path)
    part.remove()


def _complete(file: RemoteFile, url: str, part: "_Part", how: _Options) -> RemoteFile:
    """Download the rest of the part; return the file with its size and SHA-256 from the server."""
    for _ in range(_ATTEMPTS):
        before = part.size()
        if before == file.size:
            return file
        try:
            if known := _receive(file, url, part, how):
                return known
        except _ConnectionBroken as error:
            if part.size() <= before:
                raise EmbedderUnavailable(f"Cannot download {url}: {error}.", hint=how.hint) from error
    raise EmbedderUnavailable(f"Cannot download {url}: the connection keeps breaking.", hint=how.hint)


def _check(file: RemoteFile, url: str, part: "_Part", how: _Options) -> None:
    actual = hash_file(part.path) if file.sha256 else ""
    if actual != file.sha256:
        message = f"{url} is not the file that was expected: its SHA-256 is {actual}, not {file.sha256}."
        raise ModelFileError(f"{message} The download was removed.")
    if how.problem and (problem := how.problem(part.path)):
        raise ModelFileError(f"{url} cannot be used: {problem}. The download was removed.")


class _Part:
    """A partial download, and the ETag of its file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._etag_path = f"{path}.etag"

    def size(self) -> int:
        try:
            return os.path.getsize(self.path)
        except FileNotFoundError:
            return 0

    def etag(self) -> str:
        try:
            with open(self._etag_path, encoding="latin-1") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def begin(self, etag: str) -> IO[bytes]:
        """Start again; only with a strong ETag may the download be resumed later."""
        self.remove()
        if etag.startswith('"'):
            with open(self._etag_path, "w", encoding="latin-1") as file:
                file.write(etag)
        return open(self.path, "wb")

    def resume(self) -> IO[bytes]:
        return open(self.path, "ab")

    def remove(self) -> None:
        for path in (self.path, self._etag_path):
            with suppress(FileNotFoundError):
                os.remove(path)


def _receive(file: RemoteFile, url: str, part: _Part, how: _Options) -> RemoteFile | None:
    """Download what is missing; return None if the part belongs to another file and was removed."""
    etag = part.etag()
    done = part.size() if etag else 0
    answer = _ask(url, done, etag, how.timeout_s)
    with answer.response as response:
        file = _with_answer(file, answer)
        if response.status == 416 and file.sha256 and done == file.size:
            return file
        same = response.headers.get("ETag") == etag
        if response.status == 416 or (response.status == 206 and not (same and _is_rest(response, done, file.size))):
            part.remove()
            return None
        if response.status != 206:
            done = 0
        _check_length(response, url, done, file)
        _check_room(part, done, file)
        with part.resume() if done else part.begin(response.headers.get("ETag") or "") as out:
            done = _copy(response, out, done, file, url, how.progress)
    if done < file.size:
        raise _ConnectionBroken("the connection ended early")
    return file


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


def _ask(url: str, done: int, etag: str, timeout_s: float) -> _Answer:
    """Return the answer after all redirects. Nothing that could identify the user is sent."""
    headers = {"User-Agent": "mdrecall", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": etag}
    response = _request(url, headers, timeout_s)
    linked = _hub_headers(response)
    for _ in range(_MAX_REDIRECTS):
        if response.status not in _REDIRECT_STATUSES:
            break
        response.close()
        url = _redirect_target(url, response.headers.get("Location") or "")
        response = _request(url, headers, timeout_s)
        linked = _hub_headers(response) | linked
    if response.status not in (200, 206, 416):
        response.close()
        reason = f"the server returned {response.status} {response.reason}".rstrip()
        if response.status in _FORBIDDEN_STATUSES:
            reason += "; the file may be private, or its licence is not accepted yet"
        raise _ConnectionBroken(reason)
    return _Answer(response, linked)


def _hub_headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name: response.headers[name] for name in ("X-Linked-Size", "X-Linked-Etag") if name in response.headers}


def _redirect_target(url: str, location: str) -> str:
    target = urllib.parse.urljoin(url, location)
    if url.startswith("https://") and not target.startswith("https://"):
        raise _ConnectionBroken(f"the server redirects from https:// to {target}")
    return target


def _request(url: str, headers: Mapping[str, str], timeout_s: float) -> http.client.HTTPResponse:
    if not url.startswith(("http://", "https://")):
        raise _ConnectionBroken("the address must begin with http:// or https://")
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    try:
        response: http.client.HTTPResponse | None
        response = opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=timeout_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _ConnectionBroken(getattr(reason, "strerror", None) or str(reason) or type(error).__name__) from error
    if response is None:
        raise _ConnectionBroken("the address is not supported")
    return response


def _with_answer(file: RemoteFile, answer: _Answer) -> RemoteFile:
    """Return the file with size and SHA-256 from the server where they are not known yet."""
    size, sha256 = file.size, file.sha256
    linked = re.fullmatch(r'"([0-9a-f]{64})"', answer.linked.get("X-Linked-Etag", ""))
    if not sha256 and linked:
        sha256 = linked[1]
    if size == UNKNOWN:
        length, total = answer.linked.get("X-Linked-Size", ""), answer.response.headers.get("Content-Range") or ""
        if length.isdecimal():
            size = int(length)
        elif answer.response.status == 206 and total.rpartition("/")[2].isdecimal():
            size = int(total.rpartition("/")[2])
        elif answer.response.status == 200:
            size = UNKNOWN if answer.response.length is None else answer.response.length
    return file._replace(size=size, sha256=sha256)


def _is_rest(response: http.client.HTTPResponse, done: int, size: int) -> bool:
    return response.headers.get("Content-Range") == f"bytes {done}-{size - 1}/{size}"


def _check_length(response: http.client.HTTPResponse, url: str, done: int, file: RemoteFile) -> None:
    if response.length is not None and done + response.length != file.size:
        raise ModelFileError(f"{url} has {done + response.length} bytes; {file.name} has {file.size}.")


def _check_room(part: _Part, done: int, file: RemoteFile) -> None:
    free = disk_usage(os.path.dirname(part.path)).free + part.size() - done
    needed = file.size - done
    if free < needed:
        raise OSError(errno.ENOSPC, f"{file.name} needs {needed / 1e6:.1f} MB more, {free / 1e6:.1f} MB are free")


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
