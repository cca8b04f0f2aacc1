"""One sync of a workspace with its remote: read, fetch, merge, push, then write; killed anywhere, nothing is lost.

All state lies in ``.mdrecall/local/<machine>/`` of the workspace, which never travels: a folder that was copied or
restored knows by itself what it shared last. The local notes and the result are commits before anything is pushed
(``mine`` and ``next``). Then the files are staged, and moved over the notes one by one, and notes to remove are moved
there: what lies there says which were written. Only when all are written does ``synced`` move on.
"""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mdrecall import platform
from mdrecall.config.environment import find_locations
from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.errors import FileChanged, FileMissing, ReadError, SyncError, WriteError
from mdrecall.life.curate import remove_empty_folders
from mdrecall.life.forget_places import sweep_note
from mdrecall.locks import FileLock, describe_holder
from mdrecall.memory import Memory
from mdrecall.notes import editing, tombstones
from mdrecall.notes.files import AGENT_FILES, USER_FILE, MemoryFiles
from mdrecall.notes.opening import find_status, read_stamped, stamp_of
from mdrecall.patterns import NOTE_ENDING, NOTE_ENDING_PATTERN, compile_later, drop_ending, host_of
from mdrecall.state_files import load, make_private_folder, save
from mdrecall.sync.encrypted import ABOUT, MAX_NOTE_BYTES, EncryptedGit, Key, find_key_name, keep_key, read_key
from mdrecall.sync.git import LIMIT_S, NO_BLOB, Changes, Commit, Git, hide_password
from mdrecall.sync.merge import RECORDS, Tree, find_renames, merge_trees, merge_unfinished, split_note
from mdrecall.sync.soon import FAILED, LAST, LOCAL, PAUSED, STATE
from mdrecall.text.annotations import path_origin
from mdrecall.text.tombstones import build_tombstones
from mdrecall.types.documents import Stamp, parse_citation

FORMAT = 1
#: What describes a memory has some tens of bytes. It may come from anybody.
_MAX_ABOUT, _ABOUT_FIELDS = 10_000, compile_later(rb'"format"\s*:\s*(\d{1,9})\b|"id"\s*:\s*"([0-9a-z]{1,40})"')
BRANCH = "mdrecall"
_RECORD = compile_later(r"\.mdrecall/(?:sync\.json|machines/[0-9a-f]{12}\.json|forgotten/[0-9a-f]{32}\.jsonl)")
#: No hidden file or folder, nothing that leads elsewhere, no name that a disk may refuse.
_NOTE = compile_later(
    rf"(?:[^./\\\x00-\x1f][^/\\\x00-\x1f]{{0,79}}/){{0,20}}[^./\\\x00-\x1f][^/\\\x00-\x1f]{{0,79}}{NOTE_ENDING_PATTERN}"
)
#: Agents take these for instructions, which must not come from elsewhere.
_INSTRUCTIONS = AGENT_FILES - {USER_FILE.lower()} | {"copilot-instructions.md", "qwen.md", "warp.md"}
#: Another machine may push first; the fifth time in a row is not chance.
_ROUNDS = 5
#: An agent may write while notes are written. If one writes more often, what is there is kept, and the rest waits.
_WRITES = 10
#: A file that was changed less than this before it was read may change again without a new stamp.
_SETTLES_NS = 2_000_000_000
_WAIT_S = 60.0
#: Somebody who has fewer notes may really have deleted all of them, or half.
_FEW, _MANY = 3, 10
#: What opens a pull request, by the host of the remote.
_REVIEWS = {
    "github.": "gh pr create -R {} -B {} -H {} -t Proposal -b ''",
    "gitlab.": "glab mr create -R {} -b {} -s {} -t Proposal -d ''",
}

#: The blobs of a tree, by path.
Blobs: TypeAlias = dict[str, str]


class SyncResult(NamedTuple):
    """What a sync has done."""

    received: tuple[str, ...] = ()
    """The notes that were changed here."""
    sent: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    must_clear: bool = False
    """True if another machine has forgotten something that was not cleared here yet."""


class MemorySync:
    """Syncs one workspace. ``progress`` is told what is being done."""

    def __init__(
        self, loaded: Loaded, progress: Callable[[str], None] = lambda doing: None, limit_s: float = LIMIT_S
    ) -> None:
        """A program that takes longer than ``limit_s`` is ended."""
        self._settings, self.workspace = loaded.settings, loaded.settings.workspace
        self._max_bytes = min(loaded.settings.mdrecall.max_file_bytes, MAX_NOTE_BYTES)
        self._files = MemoryFiles(loaded.settings, loaded.home)
        self._progress, self._environment, self._limit_s = progress, loaded.environment, limit_s
        self._state_dir = find_locations(loaded.environment, self.workspace).own_state_dir
        self._problems: dict[str, None] = {}
        self._held: set[str] = set()
        """Files that are there but cannot be read or written: they are left as they are, everywhere."""
        self._contents: dict[str, bytes] = {}
        """The contents that were read, by blob."""
        self._trees: dict[str, Blobs] = {}
        """The files of commits, as far as they are known."""
        self._is_rewritten = False
        self._open(tombstones.read_machine(self._state_dir))

    def _open(self, salt: bytes) -> None:
        """Open the state and the repository of the machine with this salt; an empty one stands for none yet."""
        self.machine = salt[:6].hex()
        self.folder = os.path.join(self.workspace, LOCAL, self.machine)
        self.state: dict[str, Any] = {}
        self._stamp: Stamp | None = None
        self._read_state()
        self._git = self._open_git(self.state.get("key", ""))

    def _read_state(self) -> None:
        """Read the state, unless it is what was read before."""
        path = os.path.join(self.folder, STATE)
        stamp = stamp_of(os.stat(path)) if os.path.exists(path) else None
        if stamp != self._stamp:
            self.state, self._stamp = load(path) or self.state, stamp
        self._saved = dict(self.state)

    def _open_git(self, key: str) -> Git:
        """Return the repository of this machine, encrypted if the remote has a key, which is known by its name."""
        about = os.path.join(self.folder, "git"), self._environment, self._limit_s
        return EncryptedGit(*about, (self._state_dir, key)) if key else Git(*about, f"mdrecall {self.machine}")

    @property
    def is_set_up(self) -> bool:
        return bool(self.state.get("url"))

    def attach(
        self, url: str, branch: str = BRANCH, *, joins: bool, access: Collection[str] = (), key: Key | None = None
    ) -> None:
        """Set up sync with a remote, which must have a memory already if this one ``joins`` it; raise ``SyncError``."""
        if url.startswith("-") or not re.fullmatch(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/-]*", branch):
            raise SyncError(f"{url if url.startswith('-') else branch!r} is not the name of a remote or branch.")
        salt = tombstones.read_machine(self._state_dir) or os.urandom(tombstones.SALT_BYTES)
        tombstones.keep_machine(self._state_dir, salt)
        self._open(salt)
        with self._hold_lock():
            Path(self.workspace, LOCAL, ".gitignore").write_text("*\n")
            self._git.create()
            url = url or self._git.folder
            url = os.path.abspath(os.path.expanduser(url)) if os.path.isdir(os.path.expanduser(url)) else url
            if "public" not in access and re.match(r"http[^@]*$", url) and self._git.is_public(url, branch):
                message = f"Everybody can read {url}."
                raise SyncError(message, hint="Make the repository private, or say that the notes are public.")
            has_memory = bool(self._git.find_head(url, branch))
            if joins and not has_memory:
                raise SyncError(f"{hide_password(url)} has no memory yet.", hint="Set it up on the first machine.")
            if not joins and has_memory and self.state.get("url") != url:
                raise SyncError(f"{hide_password(url)} has a memory already.", hint="Join it, or give another remote.")
            name = self._check_key(url, branch, key) if joins else key.name if key else self.state.get("key", "")
            if self.is_set_up and self.state.get("key", "") != name:
                raise SyncError("This memory is synced already, but not with this key.", hint="Leave sync first.")
            if key:
                keep_key(self._state_dir, key)
            self._git = self._open_git(name)
            self.state |= {"url": url, "branch": branch, "shared": "shared" in access, "key": name}
            about = os.path.join(self.workspace, ABOUT)
            if joins and not self.state.get("synced"):
                # Both use the id of the memory in the remote.
                Path(about).unlink(missing_ok=True)
            elif not os.path.exists(about):
                save(about, {"format": FORMAT, "id": os.urandom(8).hex(), "shared": "shared" in access})
            self._save()

    def _check_key(self, url: str, branch: str, key: Key | None) -> str:
        """Return the name of the key that a remote needs, and that is here or given; empty if it is not encrypted."""
        plain = self._open_git("")
        name = find_key_name(plain.list_changes("", plain.fetch(url, branch)[0]))
        if key and key.name != name:
            raise SyncError(f"{hide_password(url)} is not encrypted by the key of this invitation.", hint="Check both.")
        return (key or read_key(self._state_dir, name)).name if name else ""

    def invite(self, passphrase: str) -> str:
        """Return a line by which another machine can join an encrypted memory; raise ``SyncError``."""
        return read_key(self._state_dir, self.state.get("key", "")).invite(passphrase)

    def leave(self) -> bool:
        """End sync here; the notes stay. False if the remote could not be told to take this machine off the list."""
        is_told = False
        with suppress(OSError, SyncError):
            Path(self.workspace, RECORDS, "machines", f"{self.machine}.json").unlink(missing_ok=True)
            is_told = bool(self.run(is_leaving=True))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.state = {}
        return is_told

    def drop_history(self) -> None:
        """Replace all commits, here and in the remote, by one with the present notes; every other machine follows.

        Raise ``SyncError`` if another machine has pushed since the last sync.
        """
        with self._hold_lock():
            state = self.state
            head = self._git.copy_commit(state["synced"])
            if not self._git.push(state["url"], state["branch"], head, instead_of=state["synced"]):
                raise SyncError("Another machine has just pushed.", hint="Try again in a moment. Nothing was changed.")
            state["synced"] = head
            self._save()
            self._git.drop_others(head)

    def propose(self, memory: Memory, citation: str) -> tuple[str, str]:
        """Push an entry of a person's own memory to a branch for review; return it, and what opens a pull request."""
        path, first, count = parse_citation(citation)
        lines = memory.read(path, from_line=first, max_chars=sys.maxsize).text.split("\n") if first else []
        cited = "\n".join((*lines[:count], *takewhile(lambda line: line.startswith("<!-- "), lines[count:]))).encode()
        person = self._environment.get("USER") or platform.host_name()
        parts = ((entry, editing.sign(entry.text, person)) for entry in split_note(cited).body)
        data = "".join(f"{one.gap}{one.text if one.kind == 'heading' else new}\n" for one, new in parts).encode()
        if not data or not first or path_origin(path) in ("system", "untrusted"):
            raise SyncError(f"{citation} is not an entry of your own notes.", hint="Cite its lines: MEMORY.md#L3-L5.")
        if not self.state.get("shared") or self.state.get("key"):
            raise SyncError(f"{self.workspace} is not a shared memory, or is encrypted.", hint="Choose another one.")
        self._refuse_secrets({path: b"\n" * (first - 1) + cited}, {})
        proposal, about = editing.hash_content(data)[:12], drop_ending(os.path.basename(path))[:60]
        url, base, branch = self.state["url"], self.state["branch"], f"propose/{proposal}"
        with self._hold_lock():
            files = {f"memory/{about}-{proposal}{NOTE_ENDING}": data}
            commit = Commit("refs/mdrecall/proposal", self._git.fetch(url, base)[0], files, "1 entry proposed")
            # If it is refused, the same entry was proposed before.
            self._git.push(url, branch, *self._git.commit([commit]))
        form = next((form for host, form in _REVIEWS.items() if host in url and shutil.which(form.split()[0])), "")
        return branch, form.format(*map(shlex.quote, (hide_password(url), base, branch)))

    def confirm(self) -> None:
        """Record that this machine has cleared everything that was forgotten; the next sync tells the others."""
        with self._hold_lock():
            self.state["cleared"] = self.count_forgotten()[0]
            self._save()

    def list_machines(self) -> Iterator[dict[str, Any]]:
        """Yield what each machine last said about itself: name, day of its last sync, how much it has cleared."""
        for path in sorted(Path(self.workspace, RECORDS, "machines").glob(f"{'[0-9a-f]' * 12}.json")):
            found, id = load(str(path)), path.stem
            cleared = found.get("cleared") if isinstance(found.get("cleared"), int) else 0
            about = {"name": str(found.get("name", ""))[:80], "day": str(found.get("day", ""))[:10]}
            yield {"id": id, **about, "cleared": cleared, "isThis": id == self.machine}

    def list_waiting(self) -> list[str]:
        """Return the notes that were changed here since the last sync."""
        changed = {path for path, _ in self._base().items() ^ self._read_here().items() if is_note(path)}
        return sorted(changed - self._held)

    def _save(self) -> None:
        # Values are replaced, never changed, so a shallow copy is enough.
        if self.state != self._saved:
            save(os.path.join(self.folder, STATE), self.state, is_durable=True)
            self._saved = dict(self.state)

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        lock = FileLock(os.path.join(self.folder, "lock"))
        try:
            make_private_folder(self.folder)
            if not lock.acquire(_WAIT_S, "syncing"):
                who = describe_holder(lock.holder())
                raise SyncError(f"The memory is being synced by {who}.", hint="Try again later.")
            # A git that was killed leaves locks, and nobody else uses the repository.
            for path in [*Path(self.folder).glob("git/*.lock"), *Path(self.folder).glob("git/refs/mdrecall/*.lock")]:
                path.unlink(missing_ok=True)
            # Another process may have synced since this one began.
            self._read_state()
            yield
        except OSError as error:
            message = f"Cannot sync {self.workspace}: {error.strerror or error}."
            raise SyncError(message, hint="Check the disk and the permissions. Nothing was lost.") from error
        finally:
            lock.release()

    def run(self, *, is_leaving: bool = False) -> SyncResult:
        """Make one sync; raise ``SyncError``. A machine that is leaving does not say that it is there."""
        if not self.is_set_up:
            raise SyncError(f"{self.workspace} is not synced with other machines.", hint="Set up sync first.")
        with self._hold_lock():
            result = self._exchange(is_leaving=is_leaving)
            self._save()
            if self._is_rewritten:
                # Another machine has replaced the history, so that what it forgot is in none.
                self._git.drop_others(self.state["synced"])
            elif self.state.get("cleaned") != (today := time.strftime("%Y-%m-%d")):
                self.state["cleaned"] = today
                self._git.clean_up()
                self._save()
            for name in (PAUSED, FAILED):
                Path(self.folder, name).unlink(missing_ok=True)
            Path(self.folder, LAST).touch()
            return result

    def _exchange(self, *, is_leaving: bool) -> SyncResult:
        state, url, branch = self.state, self.state["url"], self.state["branch"]
        written = self._recover() if state.get("next") else set()
        for _ in range(_ROUNDS):
            self._progress("fetching")
            found = self._git.find_head(url, branch)
            if found and found != state.get("synced"):
                found, has_synced = self._git.fetch(url, branch, state.get("synced", ""))
                self._is_rewritten = bool(state.get("synced")) and not has_synced
            # A remote that has lost the branch, or is new, gets all of it again.
            head = found or state.get("synced", "")
            there = self._read_tree(head)
            if not is_leaving:
                self._write_record()
            blobs = self._base(), self._read_here(), there
            self._check_loss(*blobs[:2])
            self._progress("merging")
            base, ours, theirs = trees = self._load_trees(*blobs)
            # What was forgotten counts as never written, so that clearing it is not an edit of what stands beside it.
            merged = merge_trees(*sweep(self._settings, *trees))
            sent = {path: merged.get(path) for path in {**merged, **theirs} if merged.get(path) != theirs.get(path)}
            if not sent and merged == ours and found:
                self._move_on(head)
                return self._report(written, ())
            if state.get("shared"):
                self._refuse_secrets(sent, theirs)
            paths = {*base, *ours, *theirs}
            changed = {path: ours.get(path) for path in paths if blobs[1].get(path) != state["tree"].get(path)}
            self._store(head, changed, sent, is_written=merged == ours)
            after = there | {path: "" if data is None else self._git.name_blob(data) for path, data in sent.items()}
            self._trees[state["next"]] = {path: blob for path, blob in after.items() if blob}
            if (sent or not found) and not self._git.push(url, branch, state["next"]):
                continue
            state["pushed"] = True
            if state["mine"] != state["target"]:
                self._save()
            self._progress("pushed")
            return self._report(written | self._write(blobs[1]), sent)
        raise SyncError("Other machines pushed first every time.", hint="Try again, or delete a stale *.lock there.")

    def _report(self, received: Iterable[str], sent: Iterable[str]) -> SyncResult:
        came, went = (tuple(sorted(path for path in one if not path.startswith(RECORDS))) for one in (received, sent))
        return SyncResult(came, went, tuple(self._problems), self.count_forgotten()[0] > self.state.get("cleared", 0))

    def count_forgotten(self) -> tuple[int, int]:
        """Return how often something was forgotten on other machines, and on this one."""
        lines = tombstones.split_lines(tombstones.open_tombstones(self._settings).merge(b""))
        counts = {salt: sum(b'"forget"' in line for line in below) for salt, below in lines.items()}
        own = counts.pop(tombstones.read_machine(self._settings.state_dir), 0)
        return sum(counts.values()), own

    def _write_record(self) -> None:
        """Tell the others when this machine last synced, and how much of what was forgotten it has cleared."""
        others, own = self.count_forgotten()
        cleared = min(self.state.get("cleared", 0), others) + own
        record = {"name": platform.host_name(), "day": time.strftime("%Y-%m-%d"), "cleared": cleared}
        if load(path := os.path.join(self.workspace, RECORDS, "machines", f"{self.machine}.json")) != record:
            save(path, record)

    def _base(self) -> Blobs:
        """Return the tree that this machine and the remote shared last, as far as it was written here."""
        base = self.state.setdefault("tree", {}) | self.state.get("held", {})
        return {path: blob for path, blob in base.items() if blob}

    def _read_tree(self, head: str) -> Blobs:
        """Return the files of the remote's head that may come here; raise ``SyncError`` if it is not this memory."""
        state = self.state
        tree: Blobs = state.setdefault("tree", {})
        own = [root for root in self._files.roots() if root.folder == self.workspace]
        roots = editing.hash_content(repr(own).encode())
        if state.get("roots") != roots and state.get("synced"):
            # The settings may include more notes than before. None of them was deleted here.
            known, tree = tree, self._list_tree("", state["synced"], {})
            state["held"] = state.get("held", {}) | {path: "" for path in tree if path not in known}
            state["tree"] = tree
        state["roots"] = roots
        if not head or head == state.get("synced"):
            return dict(tree)
        theirs = self._list_tree(state.get("synced", ""), head, tree)
        if ABOUT not in theirs:
            raise SyncError(f"The branch {state['branch']} of the remote is not a memory.", hint="Give another branch.")
        if theirs[ABOUT] != tree.get(ABOUT):
            data = self._git.read([theirs[ABOUT]], _MAX_ABOUT).get(theirs[ABOUT], b"")
            found = [b"".join(each) for each in zip(*_ABOUT_FIELDS.findall(data), strict=True)] or [b"0", b""]
            # A machine that joins need not say that the memory is shared.
            state["shared"] = state.get("shared") or b'"shared":true' in data
            if int(found[0] or b"0") > FORMAT:
                raise SyncError("This memory was synced by a later version of mdrecall.", hint="Update mdrecall.")
            if state.get("synced") and load(os.path.join(self.workspace, ABOUT)).get("id") != found[1].decode():
                raise SyncError("The remote has another memory now.", hint="Leave sync, and join it again.")
        return theirs

    def _list_tree(self, old: str, new: str, tree: Mapping[str, str]) -> Blobs:
        """Return the files of a commit that may come here, given those of another one."""
        if new in self._trees or new in ("", old):
            return dict(self._trees.get(new, tree))
        found = dict(tree)
        for path, blob in self._git.list_changes(old, new).items():
            if blob == NO_BLOB:
                found.pop(path, None)
            elif path in found or self._can_travel(path):
                found[path] = blob
        self._trees[new] = found
        return dict(found)

    def _can_travel(self, path: str) -> bool:
        """True if a file of the remote may be written here: it would be a note of this workspace, or a record."""
        covering = self._files.find_covering(os.path.join(self.workspace, path)) if is_note(path) else ()
        return bool(_RECORD.fullmatch(path)) or any(root.folder == self.workspace for root, _, _ in covering)

    def _read_here(self) -> Blobs:
        """Return the files of the workspace, and read those that differ from what was shared last."""
        listing = self._files.scan()
        for path in listing.lost:
            if os.path.lexists(os.path.join(self.workspace, path)):
                raise SyncError(f"{path} cannot be listed.", hint="Check the disk and the permissions.")
        known, base, now_ns = self.state.get("unchanged", {}), self._base(), time.time_ns()
        stamps = {path: stamp for path, stamp in listing.stamps.items() if path in base or is_note(path)}
        for folder in ("", "machines", "forgotten"):
            with suppress(OSError), os.scandir(os.path.join(self.workspace, RECORDS, folder)) as entries:
                for entry in entries:
                    path = os.path.join(RECORDS, folder, entry.name)
                    if _RECORD.fullmatch(path) and entry.is_file(follow_symlinks=False):
                        stamps[path] = stamp_of(entry.stat(follow_symlinks=False))
        # A file that is still there, but is no longer a note, was not deleted.
        gone = base.keys() - stamps.keys()
        self._held = {path for path in gone if os.path.lexists(os.path.join(self.workspace, path))}
        blobs, unchanged = Blobs(), dict[str, list[int]]()
        for path, stamp in stamps.items():
            if known.get(path) == [*stamp] and path in base:
                blobs[path], unchanged[path] = base[path], known[path]
                continue
            try:
                data, stamp = read_stamped(self.workspace, path, shown=path, max_bytes=self._limit(path))
            except FileMissing:
                continue
            except ReadError as error:
                self._hold(path, f"{error} It is not synced.")
                continue
            blobs[path] = self._git.name_blob(data)
            self._contents[blobs[path]] = data
            if blobs[path] == base.get(path) and now_ns - max(stamp[1:3]) > _SETTLES_NS:
                unchanged[path] = [*stamp]
        self.state["unchanged"] = unchanged
        return blobs

    def _limit(self, path: str) -> int:
        return tombstones.MAX_BYTES if path.startswith(RECORDS) else self._max_bytes

    def _hold(self, path: str, problem: str) -> None:
        """Leave a file as it is, here and in the remote, and report why."""
        self._held.add(path)
        self._problems[problem] = None

    def _load_trees(self, *trees: Blobs) -> list[dict[str, bytes]]:
        """Return the contents of the files that differ between trees, but for those that are held."""
        one, *others = trees
        paths = {path for tree in others for path, _ in one.items() ^ tree.items()}
        blobs = [(path, tree[path]) for tree in trees for path in paths if path in tree]
        # If nothing new came from the remote, notes are not merged, and the names of their blobs are enough.
        is_quiet = one == trees[-1] and not self.state.get("shared")
        found = {blob: blob.encode() for path, blob in blobs if is_quiet and is_note(path)} | self._contents
        wanted, limit = (blob for _, blob in blobs if blob not in found), max(self._max_bytes, tombstones.MAX_BYTES)
        self._contents |= self._git.read(wanted, limit, {*one.values()})
        found |= self._contents
        for path, blob in blobs:
            if len(found.get(blob, b"")) > self._limit(path) or blob not in found:
                self._hold(path, f"{path} is too large, and is not synced.")
        if f"{NOTE_ENDING}/" in "\n".join(chain.from_iterable(trees)):
            folders = {path[: place.start()] for tree in trees for path in tree for place in re.finditer("/", path)}
            for path in folders.intersection(paths):
                self._hold(path, f"{path} is a folder on another machine, and is not synced.")
        kept = [path for path in paths if path not in self._held]
        return [{path: found[tree[path]] for path in kept if path in tree} for tree in trees]

    def _check_loss(self, base: Blobs, ours: Blobs) -> None:
        """Refuse to delete most notes on every machine: perhaps a disk is not mounted here."""
        if len(base.keys() - ours.keys()) < _FEW:
            return
        before, left = (sum(map(is_note, tree)) for tree in (base, ours))
        if (before >= _FEW and not left) or (before >= _MANY and left * 2 < before):
            message = f"{before - left} of {before} notes are gone, and would be deleted on every machine."
            hint = "To get them back, leave sync and join again. To delete them everywhere, delete fewer at a time."
            raise SyncError(message, hint=hint)

    def _refuse_secrets(self, files: Changes, before: Tree) -> None:
        """Raise ``SyncError`` if lines that are new to a shared remote hold a secret."""
        from mdrecall.text.redact import make_redactor

        redact = make_redactor(self._settings.logging.redact_patterns)
        for path, data in files.items():
            known = {*before.get(path, b"").split(b"\n")}
            for number, line in enumerate((data or b"").split(b"\n"), 1):
                text = line.decode("utf-8", "replace")
                if line not in known and not path.startswith(RECORDS) and redact(text) != text:
                    message = f"{path}#L{number} looks like a secret, and the remote is shared. Nothing was sent."
                    raise SyncError(message, hint="Remove it from the note, then try again.")

    def _store(self, head: str, ours: Changes, sent: Changes, *, is_written: bool) -> None:
        """Keep the local notes and the result as commits; if the notes are the result already, they need none."""
        state, synced = self.state, self.state.get("synced", "")
        commits = [Commit("refs/mdrecall/next", head, sent, f"{len(sent)} changed")] if sent else []
        if ours and not is_written:
            commits.append(Commit("refs/mdrecall/mine", synced, ours, "before"))
        made = self._git.commit(commits, keep=synced) if commits else []
        following = made[0] if sent else head
        mine = following if is_written else made[-1] if ours else synced
        state |= {"mine": mine, "next": following, "target": following, "stage": {}, "pushed": not sent}
        if sent:
            self._save()
        self._progress("stored")

    def _recover(self) -> set[str]:
        """Finish an interrupted sync if its result has reached the remote; return the paths it writes."""
        state = self.state
        if not state.get("pushed"):
            remote, following = (state["url"], state["branch"]), state["next"]
            head = self._git.find_head(*remote)
            state["pushed"] = head == following or (bool(head) and self._git.fetch(*remote, following)[1])
        written = self._write() if state["pushed"] else set()
        state["next"] = ""
        return written

    def _write(self, here: Blobs | None = None) -> set[str]:
        """Write what was pushed: new and changed files first. Return their paths; ``here`` is there now, if known."""
        state, written = self.state, set[str]()
        given = (here if here and not number else self._read_here() for number in range(_WRITES))
        if state["mine"] != state["target"] and not any(self._write_once(written, each) for each in given):
            raise SyncError("The notes change faster than they can be written.", hint="Try again in a moment.")
        self._progress("written")
        self._move_on(state["next"])
        self._save()
        self._drop_stages("")
        return written

    def _move_on(self, head: str) -> None:
        """Take a commit for what is shared; of a file that is held, the version before it still is."""
        state, base = self.state, self._base()
        tree = self._list_tree(state.get("synced", ""), head, state["tree"])
        held = {path: base.get(path, "") for path in self._held if tree.get(path, "") != base.get(path, "")}
        state |= {"synced": head, "tree": tree, "held": held, "next": "", "stage": {}}

    def _write_once(self, done: set[str], here: Blobs) -> bool:
        """Write the files that differ from the target; False if an agent wrote meanwhile: then all is read again."""
        state = self.state
        known, tree = state.get("synced", ""), state["tree"]
        names = state["mine"], state["target"]
        before, target = (self._list_tree(known, name, tree) if name else {} for name in names)
        old, now, new = self._load_trees(before, here, target)
        stages = ((path, os.path.join(self.folder, name)) for path, name in state["stage"].items())
        # A note to remove is moved there. After a kill, a file that is in its place may have its name there, too.
        there = {path: os.stat(file).st_nlink for path, file in stages if os.path.exists(file)}
        written = [path for path in state["stage"] if (there.get(path) != 1 if path in target else path in there)]
        final = merge_unfinished(written, state.get("renamed", {}), *sweep(self._settings, old, now, new))
        changes = [path for path in {**now, **final} if now.get(path) != final.get(path)]
        if changes:
            state["renamed"] = find_renames(now, final)
            self._stage(changes, (old, now), (new, final))
        for path, name in state["renamed"].items() if changes else ():
            self._progress("writing")
            if self._rename(path, name):
                # From now on the note counts as removed: what has its old name is somebody else's.
                Path(self.folder, state["stage"][path]).touch()
                now[name] = now.pop(path)
            elif not os.path.lexists(os.path.join(self.workspace, path)):
                return False
        done.update(changes)
        for path in sorted(changes, key=lambda path: (path not in final, path)):
            self._progress("writing")
            staged = os.path.join(self.folder, state["stage"][path])
            try:
                if now.get(path) == final.get(path):
                    (Path(staged).unlink if path in final else Path(staged).touch)()
                else:
                    self._write_file(path, now.get(path), final.get(path), staged)
            except FileChanged:
                # If it was moved and put back, it counts as unwritten again.
                with suppress(FileNotFoundError):
                    (Path(staged).touch if path in final else Path(staged).unlink)()
                return False
            except WriteError as error:
                self._hold(path, f"{error} It is not synced.")
        return True

    def _stage(self, changes: Iterable[str], mine: tuple[Tree, Tree], target: tuple[Tree, Tree]) -> None:
        """Write what is to be moved over the notes into files of their own; a note to remove has none yet."""
        folder = f"stage-{os.urandom(4).hex()}"
        stage = {path: f"{folder}/{number}" for number, path in enumerate(changes)}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with editing.open_folder(self.folder, folder) as opened:
            for path, name in ((path, name) for path, name in stage.items() if path in target[1]):
                with open(platform.open(os.path.basename(name), flags, 0o600, dir_fd=opened), "wb") as file:
                    editing.write_at_end(file.fileno(), target[1][path], 0)
            editing.sync_folder(opened)
        state = self.state
        for name, (old, new) in (("mine", mine), ("target", target)):
            files = {path: new.get(path) for path in {**old, **new} if old.get(path) != new.get(path)}
            if files:
                state[name] = self._git.commit([Commit(f"refs/mdrecall/{name}", state[name], files, name)])[0]
        state["stage"] = stage
        self._save()
        self._drop_stages(folder)
        self._progress("staged")

    def _drop_stages(self, kept: str) -> None:
        for folder in Path(self.folder).glob("stage-*"):
            if folder.name != kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _rename(self, path: str, name: str) -> bool:
        """Rename a note in one step, if that can be done; otherwise it is written by its new name, and then removed."""
        (folder, old), (new_folder, new) = map(os.path.split, (path, name))
        inside = editing.open_folder(self.workspace, folder), editing.open_folder(self.workspace, new_folder)
        with suppress(OSError), inside[0] as source, inside[1] as target:
            if not find_status(self.workspace, name):
                platform.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
                editing.sync_folder(target)
                remove_empty_folders(self.workspace, path)
                return True
        return False

    def _write_file(self, path: str, now: bytes | None, final: bytes | None, staged: str) -> None:
        """Move a staged file to its place; raise a ``WriteError``, which is ``FileChanged`` if it is not as it was."""
        if final is None:
            editing.remove_note(self.workspace, path, editing.hash_content(now or b""), staged)
            remove_empty_folders(self.workspace, path)
        elif now is not None:
            editing.move_over(self.workspace, path, staged, editing.hash_content(now))
        else:
            editing.create_note(self.workspace, path, staged)


def is_note(path: str) -> bool:
    """True if a file may be synced as a note, by its name."""
    is_instruction = path.rpartition("/")[2].casefold() in _INSTRUCTIONS
    return bool(_NOTE.fullmatch(path)) and not is_instruction and not host_of(path)


def sweep(settings: Settings, *trees: dict[str, bytes]) -> list[dict[str, bytes]]:
    """Return trees without what was forgotten on any machine."""
    records = [data for tree in trees for path, data in tree.items() if path.endswith(".jsonl")]
    entries = tombstones.parse_lines(b"\n".join((tombstones.open_tombstones(settings).merge(b""), *records))).entries
    groups = [build_tombstones(each for each in entries if each.is_masked == is_masked) for is_masked in (True, False)]

    def clear(path: str, data: bytes | None) -> bytes | None:
        for forgotten in () if path.startswith(RECORDS) else groups:
            data = data if data is None else sweep_note(path, data, forgotten)
        return data

    swept = ({path: clear(path, data) for path, data in tree.items()} for tree in trees)
    return [{path: data for path, data in tree.items() if data is not None} for tree in swept]
