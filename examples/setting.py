"""What the examples have in common: some notes, a question, and the option to ask a real model."""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files

from mdrecall import Memory

QUESTION = "What did we decide about the connection pool?"
SESSION = "agent:main:main"


@contextmanager
def sample_memory() -> Iterator[Memory]:
    """Yield the memory of a copy of the sample notes in a temporary folder, which is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="mdrecall-example-") as scratch:
        notes = os.path.join(scratch, "notes")
        with as_file(files("mdrecall") / "sample") as sample:
            shutil.copytree(sample, notes)
        with Memory.open(notes, env={"HOME": scratch, "MDRECALL_STATE_DIR": os.path.join(scratch, "state")}) as memory:
            yield memory


def real_model(arguments: Sequence[str] | None) -> str | None:
    """Return the model named with ``--real``; None for the scripted one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", metavar="MODEL", help="ask this model; its key is taken from the environment")
    name: str | None = parser.parse_args(arguments).real
    return name
