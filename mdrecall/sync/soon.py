"""Syncs that nobody asked for: after something was written, and when a session starts or ends.

A few looks at files decide; the work is done by a process of its own that nobody waits for. It is imported by hooks, so
it imports next to nothing.
"""

import os
import time
from contextlib import suppress

from mdrecall import platform
from mdrecall.config.environment import find_locations
from mdrecall.config.settings import Settings
from mdrecall.notes.tombstones import read_machine
from mdrecall.state_files import load

#: The files in the folder of a machine below the workspace.
LOCAL, STATE, LAST, PAUSED = ".mdrecall/local", "state.json", "last-sync", "paused"
FAILED, WAITING = "failed.json", "waiting"
#: Seconds to wait after something was written: an agent writes several times in a row.
REST_S = 5.0
#: A session that starts this soon after a sync does not start another one.
_RECENT_S = 60.0
#: After a failure the next try waits for a minute, then twice as long each time, up to an hour.
_LONGEST_S = 3600.0


def locate(settings: Settings) -> str:
    """Return the folder where this machine keeps the state of sync; empty if sync is not set up here."""
    local = os.path.join(settings.workspace, LOCAL)
    # Nearly everybody has none.
    if not os.path.isdir(local):
        return ""
    machine = read_machine(find_locations(os.environ, settings.workspace).own_state_dir)[:6].hex()
    folder = os.path.join(local, machine)
    return folder if machine and os.path.exists(os.path.join(folder, STATE)) else ""


def age_of(folder: str, name: str = LAST) -> float:
    """Return how many seconds ago a file was written, by default at the end of the last sync; infinite if never."""
    with suppress(OSError):
        return max(0.0, time.time() - os.stat(os.path.join(folder, name)).st_mtime)
    return float("inf")


def read_failure(folder: str) -> tuple[int, str]:
    """Return how many syncs have failed in a row, and why the last one did."""
    found = load(os.path.join(folder, FAILED))
    tries = found.get("tries", 0)
    return tries if isinstance(tries, int) else 0, str(found.get("why", ""))


def start_soon(settings: Settings, *, is_news: bool = True) -> None:
    """Start a sync that nobody waits for, if sync is set up; without news, only if the last one is some time ago."""
    folder = locate(settings)
    if not folder or os.path.exists(os.path.join(folder, PAUSED)) or (not is_news and age_of(folder) < _RECENT_S):
        return
    if (tries := read_failure(folder)[0]) and age_of(folder, FAILED) < min(30.0 * 2 ** min(tries, 10), _LONGEST_S):
        return
    about = ("--workspace", settings.workspace, "--agent", settings.agent_id)
    with suppress(OSError):
        platform.run_detached("mdrecall", "sync", "--soon" if is_news else "--quiet", *about, cwd=settings.workspace)


def describe_last(settings: Settings) -> str:
    """Return a sentence with the age of the last sync; empty if sync is not set up."""
    if not (folder := locate(settings)):
        return ""
    age = age_of(folder)
    when = "have never been synced" if age == float("inf") else f"were last synced {describe_age(age)} ago"
    return f"The notes {when} with the user's other machines."


def describe_age(seconds: float) -> str:
    """Return a span of time in its largest unit."""
    units = (86_400, "day"), (3_600, "hour"), (60, "minute")
    size, unit = next((each for each in units if seconds >= each[0]), (1, "second"))
    count = int(seconds // size)
    return f"{count} {unit}{'s' * (count != 1)}"
