"""Proxies are found where other programs find them."""

import pytest

from mdrecall.config.environment import find_proxy

HTTPS = "https://api.example.com/v1"


@pytest.mark.parametrize(
    ("env", "url", "expected"),
    [
        ({}, HTTPS, ""),
        ({"HTTPS_PROXY": "p:1"}, HTTPS, "http://p:1"),
        ({"HTTPS_PROXY": "http://big:1", "https_proxy": "http://small:1"}, HTTPS, "http://small:1"),
        ({"HTTP_PROXY": "http://p:1"}, HTTPS, ""),
        ({"HTTP_PROXY": "http://p:1"}, "http://api.example.com", "http://p:1"),
        ({"ALL_PROXY": "http://all:1"}, HTTPS, "http://all:1"),
        ({"ALL_PROXY": "http://all:1", "https_proxy": "http://p:1"}, HTTPS, "http://p:1"),
        ({"https_proxy": "  "}, HTTPS, ""),
        ({"https_proxy": "http://me:secret@p:1"}, HTTPS, "http://me:secret@p:1"),
    ],
)
def test_the_proxy_is_that_of_the_scheme_or_of_all(env: dict[str, str], url: str, expected: str) -> None:
    assert find_proxy(url, env) == expected


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "LOCALHOST"])
def test_this_machine_is_never_reached_through_a_proxy(host: str) -> None:
    assert find_proxy(f"http://{host}:11434", {"http_proxy": "http://p:1"}) == ""


@pytest.mark.parametrize(
    ("named", "is_excepted"),
    [
        ("*", True),
        ("example.com", True),
        (".example.com", True),
        ("*.example.com", True),
        ("other.org, example.com:443", True),
        ("ample.com", False),
        ("example.com.evil.org", False),
        (",", False),
    ],
)
def test_names_that_are_excepted_are_reached_directly(named: str, is_excepted: bool) -> None:
    found = find_proxy(HTTPS, {"https_proxy": "http://p:1", "NO_PROXY": named})
    assert (found == "") is is_excepted


def test_a_web_servers_visitor_cannot_set_the_proxy() -> None:
    url = "http://api.example.com"
    assert find_proxy(url, {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}) == ""
    assert find_proxy(url, {"http_proxy": "http://own:1", "REQUEST_METHOD": "GET"}) == "http://own:1"
