"""The files beside an index: locks, leftovers of a crash, and a quarantined index."""

import os
import stat
import time
from contextlib import closing, suppress

from mdrecall import platform
from mdrecall.errors import StoreUnavailable
from mdrecall.locks import FileLock
from mdrecall.state_files import load, make_private_folder, save

#: The endings of a database and of the files that SQLite keeps beside it.
SIDE_FILES = ("", "-wal", "-shm", "-journal")
#: The ending of an index that is being built to replace the one beside it.
FRESH = ".new"
#: The endings of locks. The guard says which database SQLite's side files belong to.
LOCKS = {"write": ".lock", "rebuild": ".rebuild", "watch": ".watch", "fill": ".fill", "guard": ".open"}
_QUARANTINED = ".corrupt-"
_TEMPORARY = "mdrecall-stand-in-"


def all_files(path: str) -> list[str]:
    """Return every existing file that belongs to an index."""
    endings = [*SIDE_FILES, *(FRESH + side for side in SIDE_FILES), *LOCKS.values()]
    found = [path + ending for ending in endings if os.path.lexists(path + ending)]
    return found + _quarantined_files(path)


def sizes(path: str) -> list[tuple[str, int]]:
    """Return every file that belongs to an index, with its size in bytes."""
    found = []
    for name in all_files(path):
        with suppress(FileNotFoundError):
            found.append((name, os.lstat(name).st_size))
    return found


def delete_all(path: str) -> None:
    """Delete every file that belongs to an index except the locks, which are deleted when they are released."""
    for name in all_files(path):
        if not name.endswith(tuple(LOCKS.values())):
            _delete(name)


def make_folder(path: str) -> None:
    """Create the folder of an index."""
    try:
        make_private_folder(os.path.dirname(path))
    except OSError as error:
        hint = "Fix the permissions, or set MDRECALL_STATE_DIR to a writable folder."
        raise StoreUnavailable(f"Cannot create the folder of the index {path}: {error.strerror}.", hint=hint) from error


def sweep(path: str) -> None:
    """Remove what a killed process has left behind."""
    for kind in ("write", "watch", "fill"):
        FileLock(path + LOCKS[kind]).sweep()
    lock = FileLock(path + LOCKS["rebuild"])
    if any(os.path.lexists(name) for name in (lock.path, path + FRESH, path + FRESH + "-wal", path + FRESH + "-shm")):
        with suppress(OSError, StoreUnavailable):
            if lock.acquire(0, "cleaning up"):
                try:
                    remove(path + FRESH)
                finally:
                    lock.release()


def remove(path: str) -> None:
    """Delete a database and the files that SQLite keeps beside it."""
    for suffix in SIDE_FILES:
        _delete(path + suffix)


def make_temporary_folder(owner: object) -> str:
    """Return a temporary folder that is removed with its owner or the process; remove those of dead processes."""
    import tempfile
    import weakref

    sweep_temporary_folders()
    scratch = tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-")
    weakref.finalize(owner, remove_folder, scratch)
    return scratch


def sweep_temporary_folders() -> None:
    """Remove the temporary folders of dead processes."""
    import tempfile

    for name in os.listdir(tempfile.gettempdir()):
        pid = name.removeprefix(_TEMPORARY).split("-")[0]
        if name.startswith(_TEMPORARY) and pid.isdecimal() and not platform.is_alive(int(pid)):
            remove_folder(os.path.join(tempfile.gettempdir(), name))


def remove_folder(path: str) -> None:
    """Delete a temporary folder."""
    from shutil import rmtree

    rmtree(path, ignore_errors=True)


def copy(path: str, to: str) -> None:
    """Copy a database and its write-ahead log, as far as they exist and can be read."""
    from shutil import copyfile

    for suffix in ("", "-wal"):
        with suppress(OSError):
            copyfile(path + suffix, to + suffix)


def fix_permissions(path: str) -> None:
    """Make an index that belongs to this user readable and writable again."""
    for suffix in SIDE_FILES:
        with suppress(OSError):
            found = os.stat(path + suffix)
            mine = stat.S_ISREG(found.st_mode) and platform.is_own(found)
            if mine and found.st_mode & 0o600 != 0o600:
                os.chmod(path + suffix, stat.S_IMODE(found.st_mode) | 0o600)


def quarantine(path: str) -> str:
    """Move a damaged index out of the way and return its new path. Older ones and its shared memory are deleted."""
    before = _quarantined_files(path)
    kept = f"{path}{_QUARANTINED}{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
    for suffix in SIDE_FILES:
        try:
            os.unlink(path + suffix) if suffix == "-shm" else os.replace(path + suffix, kept + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            message = f"The damaged index {path} cannot be moved out of the way: {error.strerror}."
            raise StoreUnavailable(
                message, hint="Delete it yourself; everything in it comes from your notes."
            ) from error
    for name in before:
        with suppress(OSError):
            os.unlink(name)
    return kept


def delete_quarantined(path: str) -> None:
    """Delete the damaged indexes that were kept."""
    for name in _quarantined_files(path):
        _delete(name)


def _delete(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "Delete it yourself; everything in it comes from your notes."
        raise StoreUnavailable(f"Cannot delete {name}: {error.strerror}.", hint=hint) from error


def _quarantined_files(path: str) -> list[str]:
    folder, name = os.path.split(path)
    with suppress(OSError):
        return [os.path.join(folder, entry) for entry in os.listdir(folder) if entry.startswith(name + _QUARANTINED)]
    return []


def keep_place(places: str, path: str, workspace: str) -> None:
    """Add the path of an index to a file of such paths, which also says what folder the notes are in."""
    with suppress(OSError):
        found, known = os.stat(workspace), load(places)
        about = {"workspace": workspace, "folder": [found.st_dev, found.st_ino]}
        about["paths"] = sorted({*known.get("paths", ()), path})
        if about != known:
            save(places, about)


def find_orphans(folder: str) -> list[tuple[str, str]]:
    """Return the indexes in a folder whose workspace does not exist, and that workspace; nothing is written."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = (os.path.join(folder, name) for name in names if name.endswith(".sqlite"))
    found = ((path, read_workspace(path)) for path in paths)
    return [(path, workspace) for path, workspace in found if workspace and not os.path.isdir(workspace)]


def read_workspace(path: str) -> str:
    """Return the workspace of an index; empty if it is not an index, or cannot be read."""
    from urllib.parse import quote

    import apsw

    # Immutable: SQLite then creates no side file and takes no lock.
    with suppress(apsw.Error):
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        with closing(apsw.Connection(f"file:{quote(path)}?immutable=1", flags=flags)) as db:
            known = db.execute("SELECT value FROM meta WHERE key = 'workspace'").fetchall()
        return str(known[0][0]) if known else ""
    return ""
