"""Standard input and output, kept for the protocol before anything else can use them."""

import os
from typing import NamedTuple


class Wire(NamedTuple):
    """The real standard input and output."""

    into: int
    out: int


def take_streams() -> Wire:
    """Keep standard input and output for the protocol: whatever prints from now on prints to standard error.

    This is done below Python, so that it also holds for C libraries and for programs that are started.
    """
    wire = Wire(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire
