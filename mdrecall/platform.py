"""What differs between systems: opening and replacing files, locks, waiting for input, processes, names of files.

A POSIX system has its own functions here, unchanged; ``windows`` has others with the same arguments. Nothing else in
mdrecall names a call that only one of them has.
"""

# Any further import would be paid by each hook that a warm process answers.
import os
import sys

IS_WINDOWS = sys.platform == "win32"


def run_detached(module: str, *arguments: str, cwd: str) -> None:
    """Run a module in a process that survives this one and holds none of its pipes."""
    import subprocess
    import threading

    # Without -P, a repository that has a folder named like a module would have it run here.
    command, quiet = [sys.executable, "-P", "-m", module, *arguments], subprocess.DEVNULL
    child = subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, cwd=cwd, start_new_session=True, creationflags=OWN_CONSOLE
    )
    # A process that stays alive, such as a server, must take note of the end, or the child stays as a zombie.
    threading.Thread(target=child.wait, daemon=True).start()


def join_command(arguments: list[str]) -> str:
    """Return a command as a shell reads it. On Windows that may be cmd, or the bash that comes with git."""
    if IS_WINDOWS:
        import re

        plain = re.compile(r"[\w@+=:,.\\-]+")
        return " ".join(part if plain.fullmatch(part) else f'"{part}"' for part in arguments)
    import shlex

    return shlex.join(arguments)


if sys.platform == "win32":
    from mdrecall.windows import *  # noqa: F403
else:
    import fcntl
    import select

    #: Flags of ``open``: a link is not followed, a pipe or device is not waited for, only a folder is opened.
    NO_FOLLOW, NO_WAIT, FOLDER = os.O_NOFOLLOW, os.O_NONBLOCK, os.O_DIRECTORY
    #: True if a listing of a folder says which inode a file has, as opening it does.
    KNOWS_INODES = True
    #: Beside ``start_new_session``, what lets a new process outlive the terminal of this one.
    OWN_CONSOLE = 0
    #: So much is written to a pipe without waiting wherever anything can be written.
    PIPE_BYTES = select.PIPE_BUF
    POLLERR, POLLHUP, POLLIN, POLLOUT = select.POLLERR, select.POLLHUP, select.POLLIN, select.POLLOUT

    link, listdir, mkdir, open, rename, rmdir = os.link, os.listdir, os.mkdir, os.open, os.rename, os.rmdir
    scandir, stat, unlink, utime = os.scandir, os.stat, os.unlink, os.utime
    fchmod, fchown, pread, pwrite, set_blocking = os.fchmod, os.fchown, os.pread, os.pwrite, os.set_blocking
    poll, make_pipe, lower_priority = select.poll, os.mkfifo, os.nice

    def try_lock(file: int) -> bool:
        """Lock an open file for this process; False if another one has locked it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_open_elsewhere(file: int) -> bool:
        """True if another program has a file open that no longer has a name. False also if the system cannot tell."""
        try:
            # The system grants a lease only on a file that nobody else has open. Without a name nobody can open it.
            if not os.fstat(file).st_nlink:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except (OSError, AttributeError) as error:
            return isinstance(error, BlockingIOError)
        return False

    def is_own(found: os.stat_result) -> bool:
        """True if a file belongs to this user."""
        return found.st_uid == os.geteuid()

    def is_junction(found: os.stat_result) -> bool:
        """True for a folder that leads to another one although it is not a symbolic link."""
        return False

    def is_alive(pid: int) -> bool:
        """True if there is a process of this number."""
        try:
            os.kill(pid, 0)
        except (OSError, OverflowError) as error:
            return not isinstance(error, ProcessLookupError)  # it may belong to another user
        return True

    def kill_group(pid: int) -> None:
        """End a process that was started in a session of its own, and all that it has started, if it has not ended."""
        from contextlib import suppress
        from signal import SIGKILL

        with suppress(ProcessLookupError):
            os.killpg(pid, SIGKILL)

    def end_after(seconds: int) -> None:
        """End this process after this many seconds, whatever it is doing."""
        from signal import alarm

        alarm(seconds)

    def host_name() -> str:
        """Return the name of this machine."""
        return os.uname().nodename

    def has_terminal() -> bool:
        """True if this process was started in a terminal, whatever its streams are."""
        try:
            os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        except OSError:
            return False
        return True

    def explain_bad_name(name: str) -> str:
        """Return why no file can have a name; empty if one can."""
        return ""
