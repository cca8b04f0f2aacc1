"""Where a server over HTTP stands, and which names and tokens it goes by."""

from typing import TYPE_CHECKING, NamedTuple

from mdrecall.errors import RecallError

if TYPE_CHECKING:
    import socket

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8377
_LEAST_TOKEN = 16
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class HttpEndpoint(NamedTuple):
    """The side of a server that faces its clients."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str = ""
    allow_hosts: tuple[str, ...] = ()
    """More names that clients may call this server by."""
    allow_origins: tuple[str, ...] = ()
    """Websites whose pages may talk to this server."""

    def check(self) -> None:
        """Refuse to be open to a network without a token, or with one that can be guessed."""
        if not self.token and not is_loopback(self.host):
            message = f"A server on {self.host} can be reached from other machines, and there is no token."
            hint = "Name a file that holds one with --token-file, set MDRECALL_TOKEN, or leave out --host."
            raise RecallError(message, hint=hint)
        if self.token and len(self.token) < _LEAST_TOKEN:
            hint = "Make one, for example with: openssl rand -hex 32"
            raise RecallError(f"The token has fewer than {_LEAST_TOKEN} characters.", hint=hint)
        if not (self.token.isascii() and self.token.isprintable()):
            hint = "Make one of letters and digits, for example with: openssl rand -hex 32"
            raise RecallError("The token has characters that no request can bring.", hint=hint)

    def hosts(self, port: int) -> list[str]:
        """What a Host header may say."""
        names = dict.fromkeys((*_LOOPBACK, bracketed(self.host)))
        return [f"{name}:{port}" for name in names] + [
            form for name in self.allow_hosts for form in (name, f"{name}:*")
        ] + (list(names) if port == 80 else [])  # fmt: skip

    def origins(self, port: int) -> list[str]:
        """What an Origin header may say, if there is one."""
        return [f"http://{host}" for host in self.hosts(port)] + list(self.allow_origins)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server there."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bracketed(host: str) -> str:
    """A host as addresses write it."""
    return f"[{host}]" if ":" in host else host


def listen(front: HttpEndpoint) -> "socket.socket":
    """A socket that clients can connect to."""
    import socket

    family = socket.AF_INET6 if ":" in front.host else socket.AF_INET
    try:
        return socket.create_server((front.host, front.port), family=family)
    except OSError as error:
        # Python adds the address to what the system says, once more and as a tuple.
        said = (error.strerror or str(error)).partition(" (while")[0]
        message = f"Cannot listen on {bracketed(front.host)}:{front.port}: {said}."
        raise RecallError(message, hint="Choose another --port (0 takes a free one) or --host.") from error


def read_token(path: str) -> str:
    """The token in a file."""
    try:
        with open(path, encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"Cannot read the token file {path}: {getattr(error, 'strerror', None) or 'it is not text'}."
        raise RecallError(message, hint="Check the path and the permissions.") from error
    if not token:
        raise RecallError(f"The token file {path} is empty.", hint="Write a token into it.")
    return token
