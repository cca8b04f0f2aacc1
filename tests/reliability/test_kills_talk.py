"""A command may be killed while it indexes a long conversation: what it had done is whole, and is taken up again."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import examples
from tests.reliability.content import Content, content_of
from tests.test_conversations import Home

# Every third begins with no index.
KILLS = examples(3)


def _content(home: Home) -> Content:
    with home.open() as memory:
        memory.sync()
        return content_of(Path(memory.settings.index_path))


def _killed(home: Home, seconds: float) -> bool:
    """Whether ``mdrecall index`` was at work when it was killed."""
    env = home.env | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-m", "mdrecall", "index"], cwd=home.workspace, env=env, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        time.sleep(seconds)
        process.kill()
    return process.returncode == -signal.SIGKILL


def test_whatever_moment_a_command_is_killed_at_a_long_conversation_is_indexed_as_from_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    draw = random.Random(seed := random.randrange(2**32))
    words = ["walrus", "seal", "harbour", "lantern", "ferry", "rope", "storm", "keel", "tide", "gull"]
    home.say("talk", *(f"{number} " + " ".join(draw.choices(words, k=80)) for number in range(400)))
    with home.open() as memory:
        index = Path(memory.settings.index_path)
        began = time.monotonic()
        memory.sync()
        took = time.monotonic() - began
    met = 0
    for number in range(KILLS):
        if number % 3 == 0:
            with home.open() as memory:
                memory.reset()
        home.say("talk", *(f"{number} {step} " + " ".join(draw.choices(words, k=80)) for step in range(200)))
        met += _killed(home, draw.uniform(0.2, 0.2 + took))
        if index.exists() and index.stat().st_size:
            with home.open() as memory:
                assert memory.check() == (), f"seed {seed}"
    assert met, f"no kill came during the work, seed {seed}"
    found = _content(home)
    with home.open() as memory:
        memory.reset()
    assert found == _content(home), f"seed {seed}"
