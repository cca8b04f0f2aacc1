"""Requests that are begun and never finished, against a real server; others must still be served."""

import resource
import signal
import socket
from pathlib import Path
from typing import NamedTuple

import httpx2

from tests.conftest import Workspace
from tests.mcp_server.servers import mdrecall_command, process_env, start_process
from tests.processes import PATIENCE_S

TOKEN = "0123456789abcdef-the-token"
HALF = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Len"


class Outcome(NamedTuple):
    """How a server fared."""

    served: int
    """How many of the ordinary requests were answered."""
    asked: int
    log_lines: int
    code: int

    @property
    def is_bad(self) -> bool:
        return self.served < self.asked or self.log_lines > 20 or self.code != 0


def attack(base: Path, count: int) -> Outcome:
    """Send half requests, and ordinary ones between them; return how the server fared."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, count + 500), most))
    workspace = Workspace(base)
    workspace.write("MEMORY.md", "# Walrus\n")
    command = mdrecall_command("serve", "--port", "0", "--workspace", str(workspace.path))
    process = start_process(command, process_env(workspace.env, MDRECALL_TOKEN=TOKEN))
    begun: list[socket.socket] = []
    served = asked = 0
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1].removesuffix("/mcp")
        port = int(url.rpartition(":")[2])
        for number in range(count):
            half = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            half.sendall(HALF if number % 2 else b"rubbish\r\n\r\n" if number % 4 == 0 else b"")
            begun.append(half)
            if number % (count // 10) == count // 10 - 1:
                asked += 1
                served += httpx2.get(f"{url}/healthz", timeout=PATIENCE_S).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
        return Outcome(served, asked, err.count("\n"), process.returncode)
    finally:
        for half in begun:
            half.close()
        process.kill()
        process.communicate()
