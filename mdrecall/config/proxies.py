"""Which proxy an address is reached through, by the variables that other programs heed too."""

from collections.abc import Mapping


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The proxy for an address; none for this machine, or for what ``NO_PROXY`` names."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if host in ("localhost", "::1") or host.startswith("127.") or _is_excepted(host, _value(env, "NO_PROXY")):
        return None
    found = _value(env, f"{parts.scheme.upper()}_PROXY") or _value(env, "ALL_PROXY")
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def _value(env: Mapping[str, str], name: str) -> str:
    """In small letters first. A web server makes HTTP_PROXY of a header, so that anybody could set it."""
    found = env.get(name.lower(), "")
    if not found and not (name == "HTTP_PROXY" and "REQUEST_METHOD" in env):
        found = env.get(name, "")
    return found.strip()


def _is_excepted(host: str, named: str) -> bool:
    for entry in named.lower().split(","):
        name = entry.strip().partition(":")[0].removeprefix("*").removeprefix(".")
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False
