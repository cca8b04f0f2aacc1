"""How a server is found and trusted, and what is said when it cannot be reached."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed; sh scripts/test installs it")

from mdrecall.errors import ConfigError, NewerIndex, StoreUnavailable  # noqa: E402
from mdrecall.extras.postgres import Database, PostgresStore  # noqa: E402
from mdrecall.extras.postgres.connect import complete_address  # noqa: E402
from mdrecall.extras.postgres.schema import create_tables  # noqa: E402
from tests.postgres_server import Server  # noqa: E402

#: An address of this machine that is not taken for one, and so stands for another machine.
ELSEWHERE = "127.0.0.2"


def say_why(dsn: str) -> str:
    """Return the error of a store that cannot be opened, with its hint."""
    store = PostgresStore(Database(dsn, "team"), place="here")
    with closing(store.admin), pytest.raises((StoreUnavailable, NewerIndex)) as raised:
        store.admin.open()
    assert "hunter2" not in str(raised.value)
    return f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgres//ada:hunter2@db",
        "host=db pasword=hunter2",
        "postgresql://a:hunter2/x@db/y",
        "postgresql://a:1/hunter2@db",
    ],
)
def test_an_address_that_cannot_be_read_is_not_shown(dsn: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as raised:
        PostgresStore(Database(dsn, "team"), place="here")
    assert "hunter2" not in f"{raised.value} {raised.value.hint} {raised.value.__cause__}"
    assert "hunter2" not in str(raised.value.__context__)


@pytest.mark.parametrize(
    ("dsn", "sslmode"),
    [
        ("host=db.example", "verify-full"),
        ("postgresql://ada@10.0.0.7/memory", "verify-full"),
        ("host=localhost,db.example", "verify-full"),
        ("hostaddr=10.0.0.7", "verify-full"),
        ("host=db.example sslmode=require", "require"),
        ("host=localhost,127.0.0.1", None),
        ("host=/run/postgresql", None),
        ("dbname=memory", None),
        ("service=memory", None),
    ],
)
def test_a_server_on_another_machine_must_prove_which_one_it_is(
    dsn: str, sslmode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    assert complete_address(dsn).get("sslmode") == sslmode
    monkeypatch.setenv("PGSSLMODE", "require")
    assert complete_address(dsn).get("sslmode") in (None, "require"), "Who has said it aloud is not overruled."


def test_what_an_address_says_counts_more_than_our_defaults() -> None:
    assert complete_address("host=localhost connect_timeout=30")["connect_timeout"] == "30"
    assert complete_address("host=localhost")["connect_timeout"] == 3


def test_a_password_that_is_wrong_or_missing_and_a_database_that_does_not_exist_are_told_apart(
    tmp_path: Path, postgres: Server
) -> None:
    rules = postgres.folder / "d" / "pg_hba.conf"
    rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
        db.execute("SELECT pg_reload_conf()")
    own = f"host={postgres.folder} user=locked dbname=postgres passfile={tmp_path}/none"
    assert "no password supplied" in (said := say_why(own))
    assert "Put the password into the address" in said
    assert "password authentication failed" in (said := say_why(f"{own} password=hunter2"))
    assert "The server answers" in said
    assert 'database "nowhere" does not exist' in say_why(f"host={postgres.folder} user=postgres dbname=nowhere")
    assert "Check that the server is running" in say_why(f"host={tmp_path} user=ada password=hunter2 dbname=memory")


def test_tables_of_a_newer_version_are_refused(postgres: Server) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("CREATE DATABASE formats")
    own = f"host={postgres.folder} user=postgres dbname=formats"
    with psycopg.connect(own, autocommit=True) as db:
        create_tables(db)
        db.execute("UPDATE mdrecall.format SET version = 99")
    assert "Update mdrecall on this machine." in say_why(own)


@pytest.fixture
def encrypted(tmp_path: Path, postgres: Server) -> Iterator[str]:
    """The address of the server behind TLS, with a certificate that no machine knows."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=db -addext"
    try:
        subprocess.run(
            [*command.split(), f"subjectAltName=IP:{ELSEWHERE}"], cwd=tmp_path, capture_output=True, check=True
        )
        listener = socket.create_server((ELSEWHERE, 0))
    except OSError as error:
        pytest.skip(f"needs openssl and the address {ELSEWHERE}: {error}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with ExitStack() as stack:
        server = str(postgres.folder / ".s.PGSQL.5432")
        threading.Thread(target=_serve, args=(listener, context, server, stack), daemon=True).start()
        yield f"host={ELSEWHERE} port={listener.getsockname()[1]} user=postgres dbname=postgres"
        listener.close()


def _serve(listener: socket.socket, context: ssl.SSLContext, server: str, opened: ExitStack) -> None:
    """Let in who begins with TLS, and pass on what they say."""
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            opened.enter_context(client)
            with suppress(OSError):
                client.recv(8)
                client.sendall(b"S")
                outer = opened.enter_context(context.wrap_socket(client, server_side=True))
                inner = opened.enter_context(socket.socket(socket.AF_UNIX))
                inner.connect(server)
                for one, other in ((outer, inner), (inner, outer)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_it_is_named(tmp_path: Path, encrypted: str) -> None:
    said = say_why(f"{encrypted} password=hunter2")
    assert "certificate verify failed" in said
    assert "name the file of the authority with sslrootcert" in said
    for more in (f"sslrootcert={tmp_path}/cert.pem", "sslmode=require"):
        store = PostgresStore(Database(f"{encrypted} {more}", str(tmp_path)), place="here")
        with closing(store.admin):
            assert store.admin.check() == ()
