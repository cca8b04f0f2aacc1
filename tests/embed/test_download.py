"""Downloads: only the right bytes are kept, whoever knows the size and the hash."""

import errno
import hashlib
import multiprocessing
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mdrecall.embed.download import BadContent, RemoteFile, fetch, folder_lock
from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.types.sync import Progress
from tests.embed.conftest import FileServer, Request
from tests.providers.faults import dead_url

BODY = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(BODY).hexdigest()
#: We know the size and the hash of one file, of the other only the server does.
KNOWN, UNKNOWN = RemoteFile("thing.bin", len(BODY), SHA256), RemoteFile("thing.bin")
LINKED = {"X-Linked-Size": str(len(BODY)), "X-Linked-Etag": f'"{SHA256}"'}
Usage = namedtuple("Usage", "free")


def fetch_from(
    server: FileServer,
    folder: Path,
    file: RemoteFile = KNOWN,
    path: str = "/thing.bin",
    check: Callable[[str], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> bytes:
    with folder_lock(str(folder)):
        found = fetch(file, server.url + path, str(folder), hint="By hand.", check=check, progress=progress)
    return Path(found).read_bytes()


def refuse(server: FileServer, folder: Path, error: type[Exception], words: str, *more: object, hint: str) -> None:
    """Assert that a download fails with words and a hint, and leaves nothing."""
    with pytest.raises(error, match=words) as caught:
        fetch_from(server, folder, *more)  # type: ignore[arg-type]
    assert hint in getattr(caught.value, "hint", "")
    assert names(folder) == []


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def served(server: FileServer) -> FileServer:
    server.files["/thing.bin"] = BODY
    return server


@pytest.fixture
def hub(served: FileServer) -> FileServer:
    """Redirects as the hub does, and tells the hash only there."""
    served.redirects["/old/thing.bin"] = ("/hub/thing.bin", {})
    served.redirects["/hub/thing.bin"] = ("/thing.bin?key=1", LINKED)
    served.files["/thing.bin?key=1"] = BODY
    return served


@pytest.mark.parametrize("file", [KNOWN, UNKNOWN], ids=["known", "unknown"])
def test_a_file_is_downloaded_once_and_nothing_else_is_left(
    served: FileServer, tmp_path: Path, file: RemoteFile
) -> None:
    told: list[Progress] = []
    assert fetch_from(served, tmp_path, file, progress=told.append) == BODY
    assert told[-1] == Progress(len(BODY), len(BODY), "Downloading thing.bin")
    assert [step.completed for step in told] == sorted(step.completed for step in told)
    assert {step.total for step in told} == {len(BODY)}
    assert fetch_from(served, tmp_path, file) == BODY
    assert served.requests == [Request("/thing.bin", len(BODY))]
    assert names(tmp_path) == ["thing.bin"]


def test_a_broken_connection_leaves_nothing_and_the_next_call_starts_again(served: FileServer, tmp_path: Path) -> None:
    served.break_after = [300_000]
    refuse(served, tmp_path, EmbedderUnavailable, "ended early", hint="")
    assert fetch_from(served, tmp_path) == BODY
    assert [request.sent for request in served.requests] == [300_000, len(BODY)]


@pytest.mark.parametrize(
    ("file", "path"),
    [(KNOWN, "/thing.bin?key=1"), (UNKNOWN, "/hub/thing.bin"), (UNKNOWN, "/old/thing.bin")],
    ids=["our hash", "that of the hub", "the repository has moved"],
)
def test_wrong_bytes_are_refused_and_removed(hub: FileServer, tmp_path: Path, file: RemoteFile, path: str) -> None:
    hub.files["/thing.bin?key=1"] = BODY[:-1] + b"!"
    words = f"not {SHA256}. The download was removed"
    refuse(hub, tmp_path, ModelFileError, words, file, path, hint="By hand.")


@pytest.mark.parametrize("length", [0, 5, len(BODY) + 1])
def test_a_file_of_another_size_is_refused_before_it_is_fetched(hub: FileServer, tmp_path: Path, length: int) -> None:
    hub.redirects["/hub/thing.bin"] = ("/thing.bin?key=1", {"X-Linked-Size": "5"})
    words = f"has {len(BODY)} bytes; thing.bin has 5"
    refuse(hub, tmp_path, ModelFileError, words, UNKNOWN, "/hub/thing.bin", hint="")
    hub.told_length = length
    refuse(hub, tmp_path, ModelFileError, f"has {length} bytes", hint="")


def test_a_damaged_file_is_fetched_again(served: FileServer, tmp_path: Path) -> None:
    (tmp_path / "thing.bin").write_bytes(bytes(len(BODY)))
    assert fetch_from(served, tmp_path) == BODY


@pytest.mark.parametrize("etag", ['W/"1"', '"short"', SHA256, '"' + "g" * 64 + '"'])
def test_what_is_no_hash_is_not_taken_for_one(hub: FileServer, tmp_path: Path, etag: str) -> None:
    hub.redirects["/hub/thing.bin"] = ("/thing.bin?key=1", {"X-Linked-Etag": etag})
    assert fetch_from(hub, tmp_path, UNKNOWN, "/hub/thing.bin") == BODY


def test_without_a_length_the_end_is_the_end(served: FileServer, tmp_path: Path) -> None:
    served.tells_length = False
    assert fetch_from(served, tmp_path, UNKNOWN) == BODY


@pytest.mark.parametrize(("status", "words"), [(401, "private"), (403, "private"), (404, "Not Found"), (500, "Error")])
def test_a_refusal_says_what_the_server_said(served: FileServer, tmp_path: Path, status: int, words: str) -> None:
    served.statuses["/thing.bin"] = status
    refuse(served, tmp_path, EmbedderUnavailable, f"/thing.bin: .*returned {status} .*{words}", hint="By hand.")


def test_without_a_server_the_error_names_the_address(tmp_path: Path) -> None:
    url = dead_url("/thing.bin")
    with pytest.raises(EmbedderUnavailable, match=rf"Cannot download {url}: .*refused"):
        fetch(KNOWN, url, str(tmp_path))


@pytest.mark.parametrize("url", ["file:///etc/hostname", "thing.bin", "ftp://127.0.0.1/thing.bin", "http://[/x"])
def test_only_the_web_is_asked(url: str, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="Cannot download"):
        fetch(KNOWN, url, str(tmp_path))


@pytest.mark.parametrize("target", ["/loop", "ftp://127.0.0.1/x", "file:///etc/hostname", ""])
def test_a_redirect_to_nowhere_ends(served: FileServer, tmp_path: Path, target: str) -> None:
    served.redirects["/loop"] = (target, {})
    refuse(served, tmp_path, EmbedderUnavailable, "Cannot download", UNKNOWN, "/loop", hint="By hand.")


def test_what_the_content_check_refuses_is_removed(served: FileServer, tmp_path: Path) -> None:
    def check(path: str) -> None:
        raise BadContent("it is a page")

    words = r"cannot be used: it is a page\. The download was removed"
    refuse(served, tmp_path, ModelFileError, words, UNKNOWN, "/thing.bin", check, hint="")


def test_nothing_about_the_user_is_sent(hub: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch_from(hub, tmp_path, UNKNOWN, "/hub/thing.bin")
    assert len(hub.asked) == 2
    for headers in hub.asked:
        assert set(headers) <= {"accept-encoding", "connection", "host", "user-agent"}
        assert headers["user-agent"] == "mdrecall"


def test_too_little_room_is_noticed_before(served: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.embed.download.disk_usage", lambda folder: Usage(1000))
    words = r"Cannot write in .*thing.bin needs 1\.0 MB, "
    refuse(served, tmp_path, ModelFileError, words, UNKNOWN, hint="Free some space")


def test_a_disk_that_gets_full_is_a_clear_error(
    served: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_full(*_: object) -> Iterator[bytes]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mdrecall.embed.download._blocks", fail_full)
    words = r"Cannot write in .*: No space left on device"
    refuse(served, tmp_path, ModelFileError, words, UNKNOWN, hint="Free some space")


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
