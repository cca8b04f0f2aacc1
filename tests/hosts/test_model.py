"""The hosts run against the model server: they are given its answers, and make the calls that it asks for."""

from pathlib import Path

import pytest

from tests.hosts.conftest import OpenHost
from tests.hosts.model import Model
from tests.hosts.programs import PROGRAMS, call_shell

IN_SUITE = ("claude-code", "codex")
HOSTS = [pytest.param(name, marks=[] if name in IN_SUITE else pytest.mark.hosts) for name in PROGRAMS]


@pytest.mark.hosts
@pytest.mark.parametrize("name", HOSTS)
def test_a_host_makes_the_call_that_the_model_asks_for(
    name: str, real_host: OpenHost, model: Model, tmp_path: Path
) -> None:
    host = real_host(name)
    model.teach("mend the fence", call_shell(name, "echo painted > fence.txt"), say="The fence is mended.")
    done = host.ask("Please mend the fence.", tmp_path)
    assert "The fence is mended." in done.out, done
    assert (tmp_path / "fence.txt").read_text() == "painted\n"
