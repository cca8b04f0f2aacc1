"""Downloads: only the right bytes are kept."""

import hashlib
import multiprocessing
import os
import socket
from pathlib import Path

import pytest

from mdrecall.embed.download import RemoteFile, fetch, folder_lock
from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.types.sync import Progress
from tests.embed.conftest import FileServer, Request

BODY = bytes(range(256)) * 4000
FILE = RemoteFile("thing.bin", len(BODY), hashlib.sha256(BODY).hexdigest())


def fetch_from(server: FileServer, folder: Path, file: RemoteFile = FILE) -> Path:
    return Path(fetch(file, f"{server.url}/{file.name}", str(folder), hint="Do it by hand."))


@pytest.fixture
def served(server: FileServer) -> FileServer:
    server.files["/thing.bin"] = BODY
    return server


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_once_and_nothing_else_is_left(served: FileServer, tmp_path: Path) -> None:
    assert fetch_from(served, tmp_path).read_bytes() == BODY
    assert fetch_from(served, tmp_path).read_bytes() == BODY
    assert served.requests == [Request("/thing.bin", len(BODY))]
    assert names(tmp_path) == ["thing.bin"]


def test_progress_is_told_until_all_is_there(served: FileServer, tmp_path: Path) -> None:
    told: list[Progress] = []
    fetch(FILE, f"{served.url}/thing.bin", str(tmp_path), progress=told.append)
    assert told[-1] == Progress(len(BODY), len(BODY), "Downloading thing.bin")
    assert [step.completed for step in told] == sorted(step.completed for step in told)


def test_a_broken_connection_leaves_nothing_and_the_next_call_starts_again(served: FileServer, tmp_path: Path) -> None:
    served.break_after = [300_000]
    with pytest.raises(EmbedderUnavailable, match="ended early"):
        fetch_from(served, tmp_path)
    assert names(tmp_path) == []
    assert fetch_from(served, tmp_path).read_bytes() == BODY
    assert [request.sent for request in served.requests] == [300_000, len(BODY)]


def test_wrong_bytes_are_refused_and_removed(served: FileServer, tmp_path: Path) -> None:
    served.files["/thing.bin"] = BODY[:-1] + b"!"
    with pytest.raises(ModelFileError, match=f"not {FILE.sha256}") as caught:
        fetch_from(served, tmp_path)
    assert caught.value.hint == "Do it by hand."
    assert names(tmp_path) == []


@pytest.mark.parametrize("length", [0, 5, len(BODY) + 1])
def test_a_file_of_another_size_is_refused_before_it_is_fetched(
    served: FileServer, tmp_path: Path, length: int
) -> None:
    served.told_length = length
    with pytest.raises(ModelFileError, match=f"has {length} bytes"):
        fetch_from(served, tmp_path)
    assert names(tmp_path) == []


def test_a_damaged_file_is_fetched_again(served: FileServer, tmp_path: Path) -> None:
    (tmp_path / "thing.bin").write_bytes(bytes(len(BODY)))
    assert fetch_from(served, tmp_path).read_bytes() == BODY


def test_a_missing_file_says_what_the_server_said(served: FileServer, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"/other: the server returned 404 Not Found\.") as caught:
        fetch_from(served, tmp_path, FILE._replace(name="other"))
    assert caught.value.hint == "Do it by hand."


def test_without_a_server_the_error_names_the_address(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/thing.bin"
        with pytest.raises(EmbedderUnavailable, match=rf"Cannot download {url}: .*refused"):
            fetch(FILE, url, str(tmp_path))


@pytest.mark.parametrize("url", ["file:///etc/hostname", "thing.bin", "ftp://127.0.0.1/thing.bin", "http://[/x"])
def test_only_the_web_is_asked(url: str, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="Cannot download"):
        fetch(FILE, url, str(tmp_path))


def hold(folder: str, ready: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:
    with folder_lock(folder):
        ready.set()
        done.wait(60)


def test_only_one_process_writes_at_a_time(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(str(tmp_path), ready, done))
    other.start()
    assert ready.wait(60)
    with pytest.raises(EmbedderUnavailable, match="Another process"), folder_lock(str(tmp_path), lock_wait_s=0):
        pass
    done.set()
    other.join()
    with folder_lock(str(tmp_path), lock_wait_s=0):
        pass


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = os.path.join(tmp_path, "file", "models")
    with pytest.raises(ModelFileError, match=r"Cannot write in .*models: Not a directory"), folder_lock(folder):
        pass
