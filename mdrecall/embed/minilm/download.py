"""Fetch one file whose size and SHA-256 are known; a broken download goes on where it stopped."""

import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.types import Progress, ProgressCallback

_ATTEMPTS = 5
_BLOCK_BYTES = 1 << 18
_POLL_S = 0.1


class RemoteFile(NamedTuple):
    """A file that is the right one only with this size and SHA-256."""

    name: str
    size: int
    sha256: str


class _Broken(Exception):
    """The server cannot be reached, or the connection ended early."""


def sha256_of(path: str) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_right(path: str, file: RemoteFile) -> bool:
    """Whether the file at the path is the one that is meant."""
    try:
        return os.path.getsize(path) == file.size and sha256_of(path) == file.sha256
    except FileNotFoundError:
        return False


@contextmanager
def writing_in(folder: str, *, lock_wait_s: float = 1800) -> Iterator[None]:
    """Make the folder and be the only process that writes in it; what the system refuses becomes a clear error."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.path.join(folder, "write.lock"), "a") as lock:
            _take(lock, folder, lock_wait_s)
            yield
    except OSError as error:
        hint = "Make room there, or name another folder for models."
        raise ModelFileError(f"Cannot write in {folder}: {error.strerror or error}.", hint=hint) from error


def _take(lock: IO[str], folder: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                message = f"Another process has been writing in {folder} for {wait_s:.0f} seconds."
                raise EmbedderUnavailable(message, hint="Wait for it, or end it, and try again.") from None
            time.sleep(_POLL_S)


def fetch(
    file: RemoteFile,
    url: str,
    folder: str,
    *,
    hint: str = "",
    timeout_s: float = 30,
    progress: ProgressCallback | None = None,
) -> str:
    """The path of the file in the folder, downloaded if it is not there yet. The caller holds ``writing_in``."""
    path = os.path.join(folder, file.name)
    if is_right(path, file):
        return path
    part = _Part(f"{path}.part")
    for _ in range(_ATTEMPTS):
        before = part.size()
        if before == file.size:
            break
        try:
            _receive(file, url, part, timeout_s, progress)
        except _Broken as error:
            if part.size() <= before:
                raise EmbedderUnavailable(f"Cannot download {url}: {error}.", hint=hint) from error
        except ModelFileError as error:
            part.remove()
            error.hint = hint
            raise
    if part.size() != file.size:
        raise EmbedderUnavailable(f"Cannot download {url}: the connection keeps breaking.", hint=hint)
    found = sha256_of(part.path)
    if found != file.sha256:
        part.remove()
        message = f"{url} is not the file that mdrecall knows: its SHA-256 is {found}, not {file.sha256}."
        raise ModelFileError(f"{message} The download was removed.", hint=hint)
    os.replace(part.path, path)
    part.remove()
    return path


class _Part:
    """What has come so far, and the ETag of the file that it is the beginning of."""

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
        """Start again; only a strong ETag proves later that the rest belongs to this beginning."""
        self.remove()
        if etag.startswith('"'):
            with open(self._etag_path, "w", encoding="latin-1") as file:
                file.write(etag)
        return open(self.path, "wb")

    def go_on(self) -> IO[bytes]:
        return open(self.path, "ab")

    def remove(self) -> None:
        for path in (self.path, self._etag_path):
            with suppress(FileNotFoundError):
                os.remove(path)


def _receive(file: RemoteFile, url: str, part: _Part, timeout_s: float, progress: ProgressCallback | None) -> None:
    etag = part.etag()
    done = part.size() if etag else 0
    with _ask(url, done, etag, timeout_s) as response:
        same = response.headers.get("ETag") == etag
        if response.status == 206 and not (same and _is_rest(response, done, file.size)):
            part.remove()
            return
        if response.status != 206:
            done = 0
        _check_length(response, url, done, file)
        with part.go_on() if done else part.begin(response.headers.get("ETag") or "") as out:
            for block in _blocks(response):
                done += len(block)
                if done > file.size:
                    raise ModelFileError(f"{url} is longer than the {file.size} bytes that {file.name} has.")
                out.write(block)
                if progress:
                    progress(Progress(done, file.size, f"Downloading {file.name}"))
    if done < file.size:
        raise _Broken("the connection ended early")


def _ask(url: str, done: int, etag: str, timeout_s: float) -> http.client.HTTPResponse:
    headers = {"User-Agent": "mdrecall", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-", "If-Range": etag}
    if not url.startswith(("http://", "https://")):
        raise _Broken("the address must begin with http:// or https://")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout_s
        )
    except urllib.error.HTTPError as error:
        error.close()
        raise _Broken(f"the server answers {error.code} {error.reason}".rstrip()) from error
    except urllib.error.URLError as error:
        raise _Broken(getattr(error.reason, "strerror", None) or str(error.reason)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _Broken(str(error) or type(error).__name__) from error
    return response


def _is_rest(response: http.client.HTTPResponse, done: int, size: int) -> bool:
    return response.headers.get("Content-Range") == f"bytes {done}-{size - 1}/{size}"


def _check_length(response: http.client.HTTPResponse, url: str, done: int, file: RemoteFile) -> None:
    if response.length is not None and done + response.length != file.size:
        raise ModelFileError(f"{url} has {done + response.length} bytes; {file.name} has {file.size}.")


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(_BLOCK_BYTES)
        except http.client.IncompleteRead as error:
            yield error.partial
            return
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(str(error) or type(error).__name__) from error
        if not block:
            return
        yield block
