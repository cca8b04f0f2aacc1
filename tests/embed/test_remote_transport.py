"""One request: when it ends, where it goes, and what it carries there."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mdrecall.embed.remote import transport as module
from mdrecall.embed.remote.transport import Call, ConnectionLost, TimedOut, Transport, Unusable, is_public
from mdrecall.types.documents import Secret
from tests.embed.asking import LONG_S
from tests.providers import faults
from tests.providers.faults import Fault, Script
from tests.providers.server import KEY, ProviderServer

SHORT_S = 0.1
BODY = b'{"model": "text-embedding-3-small", "input": ["one"]}'
HANGING = [
    faults.hang(),
    faults.answer_hangs(),
    faults.hang_on_accept(),
    faults.slow_head(0.02),
    faults.slow_body(0.02),
]


def named(fault: Fault) -> str:
    return fault.name


@contextmanager
def serving(*script: Fault) -> Iterator[ProviderServer]:
    with ProviderServer("openai", dimensions=64, faults=Script(script)) as server:
        yield server


@contextmanager
def transport_to(server: ProviderServer, url: str = "", proxy: str = "") -> Iterator[Transport]:
    made = Transport(url or server.url, proxy=Secret(proxy) if proxy else None)
    try:
        yield made
    finally:
        made.close()


def call_to(
    server: ProviderServer, seconds: float = LONG_S, url: str = "", ended: threading.Event | None = None
) -> Call:
    secrets = {"Authorization": Secret(f"Bearer {KEY}"), "X-Own": Secret("own-secret")}
    return Call("POST", url or f"{server.url}/embeddings", {"X-Plain": "yes"}, secrets, BODY, seconds, ended)


def body_of(transport: Transport, call: Call) -> bytes:
    with transport.send(call) as (_, _, blocks):
        return b"".join(blocks)


def status_of(transport: Transport, call: Call) -> int:
    with transport.send(call) as (status, _, blocks):
        list(blocks)
        return status


@pytest.mark.parametrize("fault", HANGING, ids=named)
def test_the_deadline_is_for_the_whole_however_slowly_it_comes(fault: Fault) -> None:
    with serving(fault) as server, transport_to(server) as transport:
        with pytest.raises(TimedOut):
            status_of(transport, call_to(server, SHORT_S))
        assert status_of(transport, call_to(server)) == 200


@pytest.mark.parametrize("fault", HANGING, ids=named)
def test_an_interrupt_from_another_thread_ends_it_at_once(fault: Fault) -> None:
    ended = threading.Event()
    with serving(fault) as server, transport_to(server) as transport:
        found = in_thread(lambda: status_of(transport, call_to(server, ended=ended)))
        if fault.accept is None:
            server.wait_for(1)
        else:
            wait_until(lambda: server.connections == 1)
        ended.set()
        transport.interrupt()
        assert isinstance(found(), ConnectionLost | TimedOut)
        assert status_of(transport, call_to(server)) == 200


def test_shaking_hands_has_the_same_deadline_and_is_ended_too() -> None:
    with serving(faults.hang_on_accept().times(2)) as server:
        url = server.url.replace("http:", "https:")
        with transport_to(server, url) as transport:
            with pytest.raises(TimedOut):
                status_of(transport, call_to(server, SHORT_S, url))
            ended = threading.Event()
            found = in_thread(lambda: status_of(transport, call_to(server, LONG_S, url, ended)))
            wait_until(lambda: server.connections == 2)
            ended.set()
            transport.interrupt()
            assert isinstance(found(), ConnectionLost | TimedOut)


def test_a_request_that_was_ended_before_it_began_is_not_sent() -> None:
    ended = threading.Event()
    ended.set()
    with serving() as server, transport_to(server) as transport:
        with pytest.raises(TimedOut):
            status_of(transport, call_to(server, ended=ended))
        assert server.requests == []


def test_closing_ends_what_is_under_way_and_a_later_request_connects_anew() -> None:
    with serving(faults.hang()) as server, transport_to(server) as transport:
        found = in_thread(lambda: status_of(transport, call_to(server)))
        server.wait_for(1)
        transport.interrupt()
        transport.close()
        transport.close()
        assert isinstance(found(), ConnectionLost)
        assert status_of(transport, call_to(server)) == 200


def test_a_host_that_is_not_there_is_lost_and_says_why() -> None:
    with serving() as server, pytest.raises(ConnectionLost, match=r"nowhere\.invalid"):
        status_of(Transport("http://nowhere.invalid"), call_to(server, url="http://nowhere.invalid"))


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_texts_of_notes_are_not_sent_where_a_redirect_leads(code: int) -> None:
    with serving() as server, serving() as other, transport_to(server) as transport:
        for target in ("/v1/embeddings?again=1", f"{other.url}/embeddings", "https://embeddings.example/v1"):
            server.faults.add(faults.redirect(target, code))
            with pytest.raises(Unusable, match=r"a redirect to https?:.*, where nothing is sent"):
                status_of(transport, call_to(server))
        assert (len(server.requests), other.requests) == (3, [])


def download_from(server: ProviderServer) -> Call:
    return call_to(server)._replace(method="GET", body=None)


def test_a_download_follows_a_redirect_on_the_same_server_with_the_key() -> None:
    with serving() as server, transport_to(server) as transport:
        server.faults.add(faults.redirect("/v1/files?again=1"))
        status_of(transport, download_from(server))
        assert [seen.headers["authorization"] for seen in server.requests] == [f"Bearer {KEY}"] * 2


def test_a_download_takes_no_key_to_another_server() -> None:
    with serving() as server, transport_to(server) as transport:
        call = download_from(server)
        assert call.secret_headers
        assert transport._follow(call, "https://files.example/model").secret_headers == {}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("file:///etc/passwd", "a redirect to file:, "),
        ("http://embeddings.example/v1", "a redirect to http:embeddings"),
        ("/v1/embeddings", "too many redirects"),
        ("https://10.1.2.3/v1", "private"),
        ("https://169.254.169.254/latest", "private"),
        ("https://[::1]:1/v1", "private"),
        ("https://localhost:1/v1", "private"),
    ],
)
def test_no_download_is_led_to_a_private_or_unsafe_address(target: str, words: str) -> None:
    with serving(faults.redirect(target).times(None)) as server, transport_to(server) as transport:
        with pytest.raises(Unusable, match=words):
            status_of(transport, download_from(server))
        assert len(server.requests) <= 4


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True),
        ("2606:4700:4700::1111", True),
        *((name, False) for name in ("127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.1.1", "0.0.0.0")),
        *((name, False) for name in ("::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "224.0.0.1", "no address")),
    ],
)
def test_public_addresses_are_those_of_the_internet_at_large(address: str, expected: bool) -> None:
    assert is_public(address) is expected


def test_what_a_traceback_would_show_of_a_request_has_no_key() -> None:
    with serving() as server:
        assert KEY not in repr(call_to(server, url=f"{server.url}/embeddings?key={KEY}"))


def in_thread(act: Callable[[], object]) -> Callable[[], object]:
    """Begin something elsewhere; gives what waits for its result or its error."""
    found: list[object] = []

    def work() -> None:
        try:
            found.append(act())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()

    def ended() -> object:
        thread.join(LONG_S)
        return found[0]

    return ended


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        threading.Event().wait(0.001)


class Proxy:
    """A forward proxy that answers every request itself, and remembers what it was sent."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.heads: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        taken, _ = self._listening.accept()
        with taken, taken.makefile("rb") as lines:
            self.heads.append("".join(line.decode() for line in iter(lines.readline, b"\r\n")))
            taken.sendall(self._answer)
            lines.read(1)

    def stop(self) -> None:
        self._thread.join(LONG_S)
        self._listening.close()


def test_a_proxy_is_asked_for_the_whole_address_with_its_own_password() -> None:
    proxy = Proxy()
    with serving() as server:
        target = "http://embeddings.example/v1"
        with transport_to(server, target, f"http://me:pass%20word@127.0.0.1:{proxy.port}") as transport:
            assert body_of(transport, call_to(server, url=f"{target}/embeddings")) == b"{}"
    proxy.stop()
    assert proxy.heads[0].startswith("POST http://embeddings.example/v1/embeddings HTTP/1.1")
    assert "Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk" in proxy.heads[0]


def test_a_proxy_is_not_led_to_another_server() -> None:
    proxy = Proxy(b"HTTP/1.1 307 Go\r\nContent-Length: 0\r\nLocation: https://files.example/latest\r\n\r\n")
    target = "http://embeddings.example/v1"
    transport = Transport(target, proxy=Secret(f"http://127.0.0.1:{proxy.port}"))
    with serving() as server, pytest.raises(Unusable, match=r"files\.example, where nothing is sent"):
        status_of(transport, download_from(server)._replace(url=target))
    transport.close()
    proxy.stop()
    assert len(proxy.heads) == 1


def test_a_proxy_that_does_not_speak_http_is_named() -> None:
    with serving() as server, transport_to(server, proxy="socks5://me:hush@proxy.example:1") as transport:
        with pytest.raises(Unusable, match=r"proxy\.example is not an HTTP proxy") as caught:
            status_of(transport, call_to(server))
        assert "hush" not in str(caught.value)


def test_a_certificate_that_is_not_accepted_is_a_connection_that_was_not_made() -> None:
    refused = ssl.SSLCertVerificationError(1, "certificate verify failed")
    connection = module._Connection(("https", "embeddings.example", 443), None, is_trusted=True)
    assert isinstance(connection._translate(refused), ConnectionLost)
