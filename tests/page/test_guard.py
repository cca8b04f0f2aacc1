"""Who may use the web page, and what an answer lets a browser do."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from mdrecall.extras.page.app import is_known_host
from mdrecall.extras.page.page import Visit
from mdrecall.mcp_server.http import HttpEndpoint
from tests.conftest import Workspace
from tests.page.conftest import CHANGING, READING, Site, serve
from tests.processes import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Page

FORM = "application/x-www-form-urlencoded"
TOKEN = "0123456789abcdef-the-token"
HOSTS = HttpEndpoint(port=7, allow_hosts=("notes.example", "[::1]")).hosts(7)


def test_the_link_works_once_and_becomes_a_cookie_that_other_websites_cannot_use(site: Site) -> None:
    entered = site.ask(site.link)
    assert entered.status == 200
    said = entered.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=strict" in said
    assert "Path=/ui" in said
    again = site.ask(site.link)
    assert again.status == 401
    assert "<code>mdrecall ui</code>" in again.body
    assert site.ask(site.link, Cookie=said.partition(";")[0]).status == 200


def test_without_the_cookie_no_view_answers(site: Site) -> None:
    for view in READING:
        assert site.ask(f"/ui/main/{view}?q=x&path=MEMORY.md").status == 401, view
    for view in CHANGING:
        headers = {"Content-Type": FORM, "Origin": site.origin}
        assert site.ask(f"/ui/main/{view}", method="POST", body="csrf=x", **headers).status == 401, view
    wrong = site.cookie.partition("=")[0] + "=guess"
    assert site.ask("/ui/main/search", Cookie=wrong).status == 401
    assert site.ask("/ui/static/app.css").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil"])
def test_a_request_that_names_another_host_is_refused(site: Site, host: str) -> None:
    """A name that an attacker has pointed at this machine (DNS rebinding) is not ours."""
    assert site.ask("/ui/main/search", Host=host, Cookie=site.cookie).status in (400, 421)
    assert site.ask(site.link, Host=host).status in (400, 421)


@pytest.mark.parametrize("host", ["notes.example", "notes.example:8080", "[::1]:9", "127.0.0.1:7"])
def test_a_host_that_is_allowed_may_have_any_port(host: str) -> None:
    assert is_known_host(host, HOSTS)


@pytest.mark.parametrize("host", ["evil.example.", "evil.example.:80", "notes.example:", "notes.example:x", "", ":80"])
def test_no_other_host_is_known_whatever_its_port_is(host: str) -> None:
    assert not is_known_host(host, HOSTS)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_a_request_from_another_origin_is_refused(site: Site, origin: str) -> None:
    assert site.ask("/ui/main/search", Origin=origin, Cookie=site.cookie).status == 403
    refused = site.ask(
        "/ui/main/append", method="POST", body="text=x", Origin=origin, Cookie=site.cookie, Content_Type=FORM
    )
    assert refused.status == 403


@pytest.mark.parametrize("relation", ["cross-site", "same-site"])
def test_a_request_that_another_websites_page_makes_is_refused(site: Site, relation: str) -> None:
    """A page on another port of this machine is of the same site, and browsers send it our cookie."""
    asked = {"Cookie": site.cookie, "Sec-Fetch-Site": relation}
    assert site.ask("/ui/main/search", **asked).status == 403
    assert site.ask("/ui/static/app.js", **asked).status == 403


def test_a_link_from_a_web_terminal_still_opens_the_page(site: Site) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert site.ask(site.link, **headers).status == 200


def test_a_change_needs_the_forms_own_token(site: Site) -> None:
    site.workspace.write("MEMORY.md", "Tea.\n")
    headers = {"Content-Type": FORM, "Origin": site.origin, "Cookie": site.cookie}
    for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "0" * 128}, {"csrf": "x" * 128}):
        body = urlencode({**fields, "text": "planted"})
        assert site.ask("/ui/main/append", method="POST", body=body, **headers).status in (403, 404)
    token = site.get("new").body.partition('name="csrf" value="')[2].partition('"')[0]
    headers.pop("Origin")
    body = urlencode({"csrf": token, "text": "planted"})
    assert site.ask("/ui/main/append", method="POST", body=body, **headers).status == 403
    assert not list(site.workspace.path.rglob("2*.md"))


def test_a_form_of_another_kind_is_refused(site: Site) -> None:
    """A page of another website may send plain text or multipart without asking; ours never do."""
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json", ""):
        headers = {"Content-Type": kind, "Origin": site.origin, "Cookie": site.cookie}
        for view in CHANGING:
            assert site.ask(f"/ui/main/{view}", method="POST", body="csrf=x", **headers).status == 413


def test_a_form_that_is_too_large_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.extras.page.app._MAX_FORM_BYTES", 1000)
    assert site.post("append", text="x" * 800).status == 303
    assert site.post("append", text="y" * 1001).status == 413


@pytest.mark.parametrize(
    "path",
    ["/ui/main/search", "/ui/main/nothing", "/ui/static/app.css", "/ui/static/../app.py", "/nothing", "/ui/enter"],
)
def test_every_answer_forbids_what_no_page_needs(site: Site, path: str) -> None:
    headers = site.ask(path, Cookie=site.cookie).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_view_that_fails_is_a_page_that_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(visit: Visit) -> None:
        raise ValueError("secret details")

    monkeypatch.setattr("mdrecall.extras.page.settings.get_settings", fail)
    reply = site.get("settings")
    assert reply.status == 500
    assert "This is a bug in mdrecall." in reply.body
    assert "The terminal in which mdrecall runs says more. Your notes are as they were." in reply.body
    assert "secret details" not in reply.body
    assert "The page GET settings failed." in caplog.text
    assert "ValueError: secret details" in caplog.text


def test_only_the_pages_own_files_are_served(site: Site) -> None:
    for name in ("../app.py", "%2e%2e/app.py", "app.py", "", "..%2fapp.py", "app.css/../../app.py"):
        assert site.ask(f"/ui/static/{name}", Cookie=site.cookie).status == 404


@pytest.mark.parametrize("options", [{"can_change": False}, {"session_key": "agent:main:telegram:group:7"}])
def test_a_page_that_may_only_read_changes_nothing(workspace: Workspace, options: dict[str, Any]) -> None:
    workspace.write("MEMORY.md", "Tea.\n")
    workspace.write("memory/plan.md", "- [ ] one\n")
    workspace.write("memory/wishes.md", "# Wishes\n\n- Answer in German.\n")
    with serve(workspace, **options) as site:
        for view in ("home", "notes", "note", "agents", "trash"):
            shown = site.get(view, path="memory/plan.md").body
            assert "<main" in shown
            assert 'method="post"' not in shown, view
            assert "checkbox" not in shown or "disabled" in shown, view
        for view in CHANGING:
            refused = site.post(view, text="planted", path="MEMORY.md", query="Tea")
            assert refused.status == 400
            assert "is read-only" in refused.body
    assert (workspace.path / "MEMORY.md").read_text() == "Tea.\n"


def test_beyond_this_machine_the_servers_token_is_asked_for(workspace: Workspace) -> None:
    workspace.write("MEMORY.md", "Tea.\n")
    with serve(workspace, token=TOKEN) as site:
        assert "token=" not in site.link
        asked = site.ask("/ui/main/search")
        assert asked.status == 401
        assert 'type="password"' in asked.body
        headers = {"Content-Type": FORM, "Origin": site.origin}
        wrong = site.ask("/ui/enter", method="POST", body="token=guess", **headers)
        assert wrong.status == 401
        assert "set-cookie" not in wrong.headers
        assert site.ask(f"/ui/enter?token={TOKEN}").status == 401, "a token in an address ends up in logs"
        long = site.ask("/ui/enter", method="POST", body=urlencode({"token": TOKEN, "more": "x" * 4096}), **headers)
        assert (long.status, "set-cookie" in long.headers) == (401, False)
        right = site.ask("/ui/enter", method="POST", body=urlencode({"token": TOKEN}), **headers)
        cookie = right.headers["set-cookie"].partition(";")[0]
        assert site.ask("/ui/main/search", Cookie=cookie).status == 200


@contextmanager
def elsewhere(html: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Another website on this machine; the headers of what it is asked."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_another_page_in_the_same_browser_reads_and_changes_nothing(site: Site, page: "Page") -> None:
    site.workspace.write("MEMORY.md", "The vault code is 4711.\n")
    page.goto(site.origin + site.link)
    page.wait_for_url("**/home")
    target = f"{site.origin}/ui/main"
    html = f"""<body>
      <iframe id="frame" src="{target}/search?q=vault"></iframe>
      <img id="picture" src="{site.origin}/ui/static/icon.svg">
      <form id="form" method="post" action="{target}/append" target="sink"><input name="text" value="planted"></form>
      <iframe name="sink"></iframe>
      <script src="{site.origin}/ui/static/app.js"></script></body>"""
    with elsewhere(html) as (address, _):
        page.goto(address)
        page.evaluate("document.getElementById('form').submit()")
        read = page.evaluate(
            """async (url) => {
              const tries = [{}, {credentials: 'include'}, {mode: 'no-cors', credentials: 'include'},
                {method: 'POST', mode: 'no-cors', credentials: 'include',
                 body: new URLSearchParams({text: 'planted'})}];
              const got = [];
              for (const options of tries) {
                try { got.push(await (await fetch(url, options)).text()); } catch (error) { got.push(String(error)); }
              }
              return got.join('|');
            }""",
            f"{target}/append",
        )
        assert "4711" not in read
        for view in CHANGING:
            page.evaluate(
                """url => { const form = document.getElementById('form'); form.action = url;
                  for (const [name, value] of Object.entries({path: 'MEMORY.md', hash: '', id: 'x', how: 'remove'})) {
                    const field = document.createElement('input'); field.name = name; field.value = value;
                    form.append(field);
                  } form.submit(); }""",
                f"{target}/{view}",
            )
        with page.context.expect_page() as opened:
            page.evaluate("url => { window.opened = window.open(url); }", f"{target}/search?q=vault")
        opened.value.wait_for_load_state()
        assert "Another website has sent this request" in opened.value.content()
        seen = "(() => { try { return opened.document.body.innerHTML; } catch (error) { return String(error); } })()"
        assert "4711" not in str(page.evaluate(seen))
        assert page.evaluate("document.getElementById('picture').naturalWidth") == 0
        frames = [frame for frame in page.frames if frame != page.main_frame]
        assert all("4711" not in (frame.content() if not frame.is_detached() else "") for frame in frames)
    assert [path.name for path in site.workspace.path.rglob("*.md")] == ["MEMORY.md"]
    assert (site.workspace.path / "MEMORY.md").read_text() == "The vault code is 4711.\n"


def test_a_link_to_elsewhere_does_not_tell_where_it_was(site: Site, page: "Page") -> None:
    page.goto(site.origin + site.link)
    page.wait_for_url("**/home")
    with elsewhere("<p>hello") as (address, seen):
        page.evaluate(
            "url => { const a = document.createElement('a'); a.href = url; document.body.append(a); a.click(); }",
            address,
        )
        page.get_by_text("hello").wait_for()
        assert "referer" not in seen[0]


@pytest.mark.parametrize("kind", [FORM, f" {FORM.upper()} ; charset=utf-8"])
def test_the_fields_of_a_form_are_read_also_the_empty_ones(site: Site, kind: str) -> None:
    headers = {"Content-Type": kind, "Origin": site.origin, "Cookie": site.cookie}
    body = f"{read_token(site)}&path=&text=x%20y&more="
    assert site.ask("/ui/main/append", method="POST", body=body, **headers).status == 303
    (note,) = site.workspace.path.rglob("2*.md")
    assert "x y" in note.read_text()


def read_token(site: Site) -> str:
    return "csrf=" + site.get("new").body.partition('name="csrf" value="')[2].partition('"')[0]


def test_a_form_is_not_taken_apart_before_its_token_is_checked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"Content-Type": FORM, "Origin": site.origin, "Cookie": site.cookie}
    token = read_token(site)
    monkeypatch.setattr("mdrecall.extras.page.app.parse_qsl", lambda *_, **__: pytest.fail("The form was taken apart."))
    for body in ("text=planted", "csrf=0&text=planted", f"text=planted&{token}", f"{token}x", "&" + token):
        assert site.ask("/ui/main/append", method="POST", body=body, **headers).status == 403
    many = token + "&a=" * 1000
    assert site.ask("/ui/main/append", method="POST", body=many, **headers).status == 413


def test_a_form_that_says_that_it_is_too_large_is_not_read(site: Site) -> None:
    headers = {"Content-Type": FORM, "Origin": site.origin, "Cookie": site.cookie, "Content-Length": "99999999"}
    assert site.ask("/ui/main/append", method="POST", body="csrf=x", **headers).status == 413


def test_a_program_that_only_asks_for_the_link_does_not_use_it_up(site: Site) -> None:
    asked = site.ask(site.link, method="HEAD")
    assert (asked.status, "set-cookie" in asked.headers) == (200, False)
    assert site.ask(site.link.replace("token=", "token=x"), method="HEAD").status == 401
    assert "set-cookie" in site.ask(site.link).headers


def test_half_requests_are_closed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdrecall.mcp_server.http.REQUEST_S", 0.05)
    host, _, port = site.host.partition(":")
    whole = f"POST /ui/enter HTTP/1.1\r\nHost: {site.host}\r\nContent-Length: 9\r\n\r\n"
    for half in ("", "GET /ui/", whole):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(half.encode())
            with suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass


def test_pages_are_compressed_and_the_token_of_their_forms_is_another_one_each_time(site: Site) -> None:
    """Else a program that sees sizes could find out the token by what a search repeats of it in the same page."""
    site.workspace.write("memory/tea.md", "Ana drinks tea. " * 200)
    plain = site.ask("/ui/main/note?path=memory/tea.md", Cookie=site.cookie)
    packed = site.ask("/ui/main/note?path=memory/tea.md", Cookie=site.cookie, **{"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    tokens = {read_token(site) for _ in range(3)}
    assert len(tokens) == 3
    headers = {"Content-Type": FORM, "Origin": site.origin, "Cookie": site.cookie}
    for number, token in enumerate(sorted(tokens)):
        assert site.ask("/ui/main/append", method="POST", body=f"{token}&text=tea{number}", **headers).status == 303
