"""Files of which only the server knows the size and the hash."""

import errno
import hashlib
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mdrecall.embed.download import BadContent, RemoteFile, fetch, folder_lock
from mdrecall.errors import EmbedderUnavailable, ModelFileError
from mdrecall.types.sync import Progress
from tests.embed.conftest import FileServer

BODY = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(BODY).hexdigest()
LINKED = {"X-Linked-Size": str(len(BODY)), "X-Linked-Etag": f'"{SHA256}"'}
Usage = namedtuple("Usage", "free")


@pytest.fixture
def served(server: FileServer) -> FileServer:
    server.files["/thing.bin"] = BODY
    return server


@pytest.fixture
def hub(served: FileServer) -> FileServer:
    """Redirects as the hub does, and tells the hash only there."""
    served.redirects["/hub/thing.bin"] = ("/thing.bin?key=1", LINKED)
    served.files["/thing.bin?key=1"] = BODY
    return served


def fetch_from(
    server: FileServer, folder: Path, path: str = "/thing.bin", check: Callable[[str], None] | None = None
) -> Path:
    file = RemoteFile("thing.bin")
    with folder_lock(str(folder)):
        return Path(fetch(file, server.url + path, str(folder), hint="By hand.", check=check))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_plain_server_tells_the_length(served: FileServer, tmp_path: Path) -> None:
    told: list[Progress] = []
    with folder_lock(str(tmp_path)):
        fetch(RemoteFile("thing.bin"), f"{served.url}/thing.bin", str(tmp_path), progress=told.append)
    assert told[-1] == Progress(len(BODY), len(BODY), "Downloading thing.bin")
    assert {step.total for step in told} == {len(BODY)}
    assert fetch_from(served, tmp_path).read_bytes() == BODY
    assert len(served.requests) == 1
    assert names(tmp_path) == ["thing.bin"]


def test_the_hubs_hash_is_believed_and_not_the_bytes(hub: FileServer, tmp_path: Path) -> None:
    hub.files["/thing.bin?key=1"] = BODY[:-1] + b"!"
    with pytest.raises(ModelFileError, match=f"not {SHA256}. The download was removed") as caught:
        fetch_from(hub, tmp_path, "/hub/thing.bin")
    assert caught.value.hint == "By hand."
    assert names(tmp_path) == []


def test_a_repository_that_moved_is_followed(hub: FileServer, tmp_path: Path) -> None:
    hub.redirects["/old/thing.bin"] = ("/hub/thing.bin", {})
    hub.files["/thing.bin?key=1"] = BODY[:-1] + b"!"
    with pytest.raises(ModelFileError, match=f"not {SHA256}"):
        fetch_from(hub, tmp_path, "/old/thing.bin")


def test_the_hubs_size_counts_too(hub: FileServer, tmp_path: Path) -> None:
    hub.redirects["/hub/thing.bin"] = ("/thing.bin?key=1", {"X-Linked-Size": "5"})
    with pytest.raises(ModelFileError, match=f"has {len(BODY)} bytes; thing.bin has 5"):
        fetch_from(hub, tmp_path, "/hub/thing.bin")


@pytest.mark.parametrize("etag", ['W/"1"', '"short"', SHA256, '"' + "g" * 64 + '"'])
def test_what_is_no_hash_is_not_taken_for_one(hub: FileServer, tmp_path: Path, etag: str) -> None:
    hub.redirects["/hub/thing.bin"] = ("/thing.bin?key=1", {"X-Linked-Etag": etag})
    assert fetch_from(hub, tmp_path, "/hub/thing.bin").read_bytes() == BODY


def test_without_a_length_the_end_is_the_end(served: FileServer, tmp_path: Path) -> None:
    served.tells_length = False
    assert fetch_from(served, tmp_path).read_bytes() == BODY


@pytest.mark.parametrize(("status", "words"), [(401, "private"), (403, "private"), (404, "Not Found"), (500, "Error")])
def test_a_refusal_says_what_the_server_said(served: FileServer, tmp_path: Path, status: int, words: str) -> None:
    served.statuses["/thing.bin"] = status
    with pytest.raises(EmbedderUnavailable, match=f"returned {status} .*{words}") as caught:
        fetch_from(served, tmp_path)
    assert caught.value.hint == "By hand."
    assert names(tmp_path) == []


def test_what_the_content_check_refuses_is_removed(served: FileServer, tmp_path: Path) -> None:
    def refuse(path: str) -> None:
        raise BadContent("it is a page")

    with pytest.raises(ModelFileError, match=r"cannot be used: it is a page\. The download was removed"):
        fetch_from(served, tmp_path, check=refuse)
    assert names(tmp_path) == []


@pytest.mark.parametrize("target", ["/loop", "ftp://127.0.0.1/x", "file:///etc/hostname", ""])
def test_a_redirect_to_nowhere_ends(served: FileServer, tmp_path: Path, target: str) -> None:
    served.redirects["/loop"] = (target, {})
    with pytest.raises(EmbedderUnavailable, match="Cannot download"):
        fetch_from(served, tmp_path, "/loop")


def test_nothing_about_the_user_is_sent(hub: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch_from(hub, tmp_path, "/hub/thing.bin")
    assert len(hub.asked) == 2
    for headers in hub.asked:
        assert set(headers) <= {"accept-encoding", "connection", "host", "user-agent"}
        assert headers["user-agent"] == "mdrecall"


def test_too_little_room_is_noticed_before(served: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.embed.download.disk_usage", lambda folder: Usage(1000))
    with pytest.raises(ModelFileError, match=r"Cannot write in .*thing.bin needs 1\.0 MB, ") as caught:
        fetch_from(served, tmp_path)
    assert "Free some space" in caught.value.hint
    assert names(tmp_path) == []


def test_a_disk_that_gets_full_is_a_clear_error(
    served: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Iterator[bytes]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mdrecall.embed.download._blocks", full)
    with pytest.raises(ModelFileError, match=r"Cannot write in .*: No space left on device") as caught:
        fetch_from(served, tmp_path)
    assert "Free some space" in caught.value.hint
    assert names(tmp_path) == []
