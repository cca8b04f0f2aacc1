"""The server over HTTP: the SDK's client gets in, and nobody else does."""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mdrecall.errors import RecallError
from mdrecall.mcp_server.http import HttpEndpoint, read_token
from tests.conftest import Workspace
from tests.mcp_server.servers import AS_OBJECT, mdrecall_command, process_env, start_process
from tests.processes import PATIENCE_S

TOKEN = "0123456789abcdef-the-token"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Serving(NamedTuple):
    url: str
    process: "subprocess.Popen[str]"

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One server with a token for all tests of this file; it ends well."""
    workspace = Workspace(tmp_path_factory.mktemp("http"))
    workspace.write("MEMORY.md", "# Walrus\n\nThe walrus likes ice.\n")
    command = mdrecall_command("serve", "--port", "0", "--workspace", str(workspace.path))
    process = start_process(command, process_env(workspace.env, MDRECALL_TOKEN=TOKEN))
    try:
        assert process.stdout
        said = process.stdout.readline()
        assert said.startswith("Serving on http://127.0.0.1:"), process.communicate()[1]
        yield Serving(said.split()[-1], process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert "Traceback" not in err
        assert TOKEN not in err
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_client_with_the_token_finds_and_reads(serving: Serving, mode: Any) -> None:
    async def act() -> tuple[Any, Any]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as web,
            Client(streamable_http_client(serving.url, http_client=web), mode=mode) as client,
        ):
            found = await client.call_tool("memory_search", {"query": "walrus"}, meta=AS_OBJECT)
            return found.structured_content, (await client.read_resource("mdrecall://main/MEMORY.md")).contents[0]

    found, read = asyncio.run(act())
    assert found["results"][0]["path"] == "MEMORY.md"
    assert "ice" in read.text


@pytest.mark.parametrize(
    "authorization", [None, "Bearer", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \u00e9"]
)
def test_without_the_token_nobody_gets_in(serving: Serving, authorization: str | None) -> None:
    headers = [(name.encode(), value.encode()) for name, value in JSON.items()]
    headers += [(b"Authorization", authorization.encode())] if authorization else []
    for method in ("POST", "GET", "DELETE"):
        refused = httpx2.request(method, serving.url, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [("Host", "evil.example", 421), ("Host", "127.0.0.1.evil.example:80", 421), ("Origin", "http://evil.example", 403),
     ("Origin", "null", 403)],
)  # fmt: skip
def test_a_website_that_bends_names_is_refused_even_with_the_token(
    serving: Serving, name: str, value: str, status: int
) -> None:
    headers = {**JSON, "Authorization": f"Bearer {TOKEN}", name: value}
    assert httpx2.post(serving.url, headers=headers, content=b"{}").status_code == status
    assert httpx2.get(f"{serving.base}/healthz", headers={name: value}).status_code == status


def test_health_needs_no_token_and_tells_nothing(serving: Serving) -> None:
    # Also to a page of this machine.
    for origin in ({}, {"Origin": serving.base}):
        assert httpx2.get(f"{serving.base}/healthz", headers=origin).json() == {"status": "ok"}


def test_a_body_that_is_too_long_is_refused(serving: Serving) -> None:
    headers = {**JSON, "Authorization": f"Bearer {TOKEN}"}
    assert httpx2.post(serving.url, headers=headers, content=b" " * 2_000_000).status_code == 413


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_head() -> None:
    with HttpEndpoint("localhost", port=0).listen() as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", ""])
def test_nothing_listens_beyond_this_machine_without_a_token(host: str) -> None:
    with pytest.raises(RecallError, match="there is no token"):
        HttpEndpoint(host, port=0).listen()


def test_beyond_this_machine_serving_is_refused_at_once_without_a_token(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    command = mdrecall_command("serve", "--host", "0.0.0.0", "--port", "0", "--workspace", str(workspace.path))
    # A server that starts all the same would serve until it is stopped: the time limit ends it, and the test fails.
    done = subprocess.run(
        command, env=process_env(workspace.env), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no token" in done.stderr


def test_a_token_of_sixteen_characters_is_just_long_enough() -> None:
    HttpEndpoint("0.0.0.0", token="0123456789abcdef").check()
    HttpEndpoint().check()
    with pytest.raises(RecallError, match="fewer than 16"):
        HttpEndpoint(token="0123456789abcde").check()


@pytest.mark.parametrize("token", ["pässwört" * 4, "one line\nand another", "tab\t" * 9])
def test_a_token_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(RecallError, match="an HTTP header cannot carry"):
        HttpEndpoint(token=token).check()


def test_the_token_can_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(str(file)) == TOKEN
    file.write_text(" \n")
    with pytest.raises(RecallError, match="is empty"):
        read_token(str(file))
    with pytest.raises(RecallError, match="Cannot read"):
        read_token(str(tmp_path / "missing"))


def test_the_names_that_a_server_goes_by() -> None:
    endpoint = HttpEndpoint("192.168.1.2", allow_hosts=("memory.lan",), allow_origins=("https://app.example",))
    assert "192.168.1.2:8377" in endpoint.hosts(8377)
    assert "memory.lan" in endpoint.hosts(8377)
    assert "evil.example:8377" not in endpoint.hosts(8377)
    assert endpoint.origins(8377)[-1] == "https://app.example"


def test_a_port_that_is_taken_is_told(serving: Serving, tmp_path: Path) -> None:
    port = serving.base.rpartition(":")[2]
    workspace = Workspace(tmp_path)
    command = mdrecall_command("serve", "--port", port, "--workspace", str(workspace.path))
    process = start_process(command, process_env(workspace.env))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use.\n" in err


def test_a_request_with_a_length_and_an_encoding_is_refused(serving: Serving) -> None:
    host, port = serving.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as raw:
        head = f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(f"{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


def test_sessions_that_were_abandoned_shut_nobody_out(serving: Serving) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with httpx2.Client(headers=JSON | {"Authorization": f"Bearer {TOKEN}"}) as web:
        assert {web.post(serving.url, json=hello).status_code for _ in range(270)} == {200}
