import sys,re; sys.path.insert(0,'.scratch')
from edit import sub,cut
T='tests/embed/'
sub(T+'asking.py',('from mdrecall.embed.remote import client, limiter\n','from mdrecall.embed.remote import client\n'),('        monkeypatch.setattr(limiter, "time", self)\n',''))
f=T+'test_remote_transport.py'
sub(f,('''from mdrecall.embed.remote.network import Deadline, Guard, is_private_name, is_public
from mdrecall.embed.remote.transport import Call, ConnectionLost, Forbidden, Reply, TimedOut, Transport, Unreadable
''','''from mdrecall.embed.remote.transport import (
    Call,
    ConnectionLost,
    Deadline,
    Guard,
    TimedOut,
    Transport,
    Unusable,
    is_public,
)
'''),('Unreadable','Unusable'),('Forbidden','Unusable'))
s=open(f).read()
s=re.sub(r'assert transport\.send\((.*)\)\.status == 200',r'assert status_of(transport, \1) == 200',s)
s=re.sub(r'in_thread\(lambda: transport\.send\((.*)\)\)\n',r'in_thread(lambda: status_of(transport, \1))\n',s)
s=re.sub(r'^(\s+)transport\.send\((.*)\)$',r'\1status_of(transport, \2)',s,flags=re.M)
s=s.replace('''@pytest.mark.parametrize("fault", HANGING, ids=named)
def test_the_deadline''','''def body_of(transport: Transport, call: Call) -> bytes:
    with transport.send(call) as (_, _, blocks):
        return b"".join(blocks)


def status_of(transport: Transport, call: Call) -> int:
    with transport.send(call) as (status, _, blocks):
        list(blocks)
        return status


@pytest.mark.parametrize("fault", HANGING, ids=named)
def test_the_deadline''',1)
s=s.replace('transport.send(call_to(server)).body.startswith','body_of(transport, call_to(server)).startswith').replace('transport.send(call_to(server, url=f"{target}/embeddings")).body == b"{}"','body_of(transport, call_to(server, url=f"{target}/embeddings")) == b"{}"')
s=s.replace('Transport("http://nowhere.invalid").send(call_to(server, url="http://nowhere.invalid"))','status_of(Transport("http://nowhere.invalid"), call_to(server, url="http://nowhere.invalid"))')
a=s.index('@pytest.mark.parametrize("code", [301, 302, 307, 308])'); b=s.index('@pytest.mark.parametrize(\n    ("address", "expected")')
s=s[:a]+'''@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_texts_of_notes_are_not_sent_where_a_redirect_leads(code: int) -> None:
    with serving() as server, serving() as other, transport_to(server) as transport:
        for target in ("/v1/embeddings?again=1", f"{other.url}/embeddings", "https://embeddings.example/v1"):
            server.faults.add(faults.redirect(target, code))
            with pytest.raises(Unusable, match="a redirect to https?:.*, where nothing is sent"):
                status_of(transport, call_to(server))
        assert (len(server.requests), other.requests) == (3, [])


def download_from(server: ProviderServer) -> Call:
    return call_to(server)._replace(method="GET", body=None)


def test_a_download_follows_a_redirect_on_the_same_server_with_the_key() -> None:
    with serving() as server, transport_to(server) as transport:
        server.faults.add(faults.redirect("/v1/files?again=1"))
        status_of(transport, download_from(server))
        assert [seen.headers["authorization"] for seen in server.requests] == [f"Bearer {KEY}"] * 2


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


'''+s[b:]
a=s.index('def test_what_a_traceback_would_show'); b=s.index('def in_thread(')
s=s[:a]+'''def test_what_a_traceback_would_show_of_a_request_has_no_key() -> None:
    with serving() as server:
        assert KEY not in repr(call_to(server, url=f"{server.url}/embeddings?key={KEY}"))


'''+s[b:]
a=s.index('def test_a_proxy_is_not_led_to_a_private_address'); b=s.index('def test_a_proxy_that_does_not_speak_http_is_named')
s=s[:a]+'''def test_a_proxy_is_not_led_elsewhere() -> None:
    proxy = Proxy(b"HTTP/1.1 307 Go\\r\\nContent-Length: 0\\r\\nLocation: https://files.example/latest\\r\\n\\r\\n")
    target = "http://embeddings.example/v1"
    transport = Transport(target, proxy=Secret(f"http://127.0.0.1:{proxy.port}"))
    with serving() as server, pytest.raises(Unusable, match=r"files\\.example, where nothing is sent"):
        status_of(transport, download_from(server)._replace(url=target))
    transport.close()
    proxy.stop()
    assert len(proxy.heads) == 1


'''+s[b:]
open(f,'w').write(s)
f=T+'test_remote_client.py'
sub(f,('''from mdrecall.embed.remote.client import ProviderClient, RetryPolicy, _parse_retry_after, join
from mdrecall.embed.remote.limiter import limiter_for
from mdrecall.embed.remote.providers import UnexpectedAnswer, bearer_header, google_header, openai_like
''','''from mdrecall.embed.models import UnexpectedAnswer
from mdrecall.embed.remote.client import ProviderClient, RetryPolicy, _parse_retry_after, join, limiter_for
from mdrecall.embed.remote.providers import bearer_header, google_header, read_openai_rows
'''),('openai_like(dimensions_as="dimensions", query={}, document={}).read_rows(','read_openai_rows('))
sub(T+'test_remote_reranker.py',('from mdrecall.embed.rerank import sigmoid','from mdrecall.embed.models import sigmoid'))
sub(T+'test_gguf_reference.py',('from mdrecall.embed.prompts import','from mdrecall.embed.models import'))
sub(T+'test_remote_embedder.py',('import PROVIDERS, InputTypes','import PROVIDERS'))
sub(T+'test_remote_jobs.py',('        assert not row.has_jobs\n',''))
