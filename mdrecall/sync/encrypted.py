"""An encrypted repository: without the key of the memory, nobody can read a name or a content, or put a file into it.

A file of it is encrypted by age, and holds a signature, the path and the content; its name is a keyed hash of the path.
"""

import base64
import hmac
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import starmap
from typing import Any

from mdrecall.errors import SyncError, install_command
from mdrecall.optional import is_installed
from mdrecall.patterns import compile_later
from mdrecall.state_files import load, save
from mdrecall.sync.git import NO_BLOB, Commit, Git
from mdrecall.sync.merge import RECORDS

ABOUT = f"{RECORDS}sync.json"
#: The name of the file that describes the memory tells everybody that the repository is encrypted, and by which key.
_NAME = compile_later(r"(mdrecall-[0-9a-f]{32})\.age|[0-9a-f]{2}/[0-9a-f]{30}")
#: A file is decrypted in memory, and hosting services refuse files of more than 100 MB.
MAX_NOTE_BYTES = 64 * 1024 * 1024
_INVITATION = "mdrecall-invitation:"


class Key:
    """The key of a memory, which all of its machines have: an identity of age."""

    def __init__(self, text: str) -> None:
        self._age, self.text = _load_age(), text
        try:
            self._identity = self._age.x25519.Identity.from_str(text)
        except self._age.IdentityError as error:
            raise SyncError("The key of this memory is damaged.", hint="Join again with an invitation.") from error
        self._secret = hmac.digest(text.encode(), b"mdrecall sync", "sha256")
        self.name = self.hide(ABOUT).removesuffix(".age")

    def _sign(self, use: bytes, data: bytes) -> bytes:
        return hmac.digest(self._secret, use + b"\0" + data, "sha256")

    def hide(self, path: str) -> str:
        """Return the name that a file has in the repository."""
        name = self._sign(b"name", path.encode()).hex()[:32]
        return f"{name[:2]}/{name[2:]}" if path != ABOUT else f"mdrecall-{name}.age"

    def seal(self, path: str, data: bytes | None) -> tuple[str, bytes | None]:
        """Return name and content of an encrypted file; the content is another one each time, or None as before."""
        content = path.encode() + b"\0" + (data or b"")
        sealed = self._age.encrypt(self._sign(b"file", content) + content, [self._identity.to_public()])
        return self.hide(path), None if data is None else sealed

    def open(self, sealed: bytes) -> tuple[str, bytes] | None:
        """Return path and content of an encrypted file; None if it was not made with this key."""
        try:
            opened: bytes = self._age.decrypt(sealed, [self._identity])
        except self._age.DecryptError:
            return None
        path, _, data = opened[32:].partition(b"\0")
        is_ours = hmac.compare_digest(opened[:32], self._sign(b"file", opened[32:]))
        return (path.decode("utf-8", "replace"), data) if is_ours else None

    def invite(self, passphrase: str) -> str:
        """Return a line with the key, encrypted by a passphrase."""
        # Someone with the invitation can try a passphrase in about a second.
        if len(passphrase) < 8 or not passphrase.isprintable():
            raise SyncError("A passphrase must have at least 8 printable characters.")
        return _INVITATION + base64.b64encode(self._age.passphrase.encrypt(self.text.encode(), passphrase)).decode()


def make_key() -> Key:
    """Return a new key."""
    return Key(str(_load_age().x25519.Identity.generate()))


def accept_invitation(line: str, passphrase: str) -> Key:
    """Return the key of an invitation; raise ``SyncError``."""
    age, sealed = _load_age(), "".join(line.split()).partition(_INVITATION)[2]
    try:
        return Key(age.passphrase.decrypt(base64.b64decode(sealed, validate=True), passphrase).decode())
    except (ValueError, age.DecryptError) as error:
        raise SyncError("The passphrase is wrong, or the invitation is not complete.") from error


def keep_key(state_dir: str, key: Key) -> None:
    """Write a key to a file that only its owner can read, outside of the workspace."""
    save(os.path.join(state_dir, "keys", f"{key.name}.json"), {"key": key.text})


def read_key(state_dir: str, name: str) -> Key:
    """Return a key that was kept; raise ``SyncError`` if there is none."""
    if text := load(os.path.join(state_dir, "keys", f"{name}.json")).get("key"):
        return Key(str(text))
    message = "The remote is encrypted, and its key is not on this machine." if name else "The remote is not encrypted."
    raise SyncError(message, hint="To join an encrypted one, ask for an invitation on a machine that has the memory.")


def find_key_name(files: Mapping[str, str]) -> str:
    """Return the name of the key of a repository with these files; empty if it is not encrypted."""
    matches = (_NAME.fullmatch(name) for name, blob in files.items() if blob != NO_BLOB)
    return next((match[1] for match in matches if match and match[1]), "")


def _load_age() -> Any:
    """Return the package that encrypts; raise ``SyncError`` if it is missing."""
    if not is_installed("sync"):
        raise SyncError("An encrypted remote needs pyrage.", hint=f"Install it with `{install_command('sync')}`.")
    import pyrage

    return pyrage


class EncryptedGit(Git):
    """A repository with encrypted files. To its callers a blob is that of the content, as in any other repository."""

    def __init__(self, folder: str, environment: Mapping[str, str], limit_s: float, kept: tuple[str, str]) -> None:
        super().__init__(folder, environment, limit_s)
        self._kept, self._names = kept, os.path.join(folder, "mdrecall-names.json")

    @cached_property
    def key(self) -> Key:
        return read_key(*self._kept)

    @cached_property
    def _known(self) -> dict[str, tuple[str, str]]:
        """The path and the plain blob of each encrypted one. A missing entry is decrypted again."""
        return load(self._names)

    def list_changes(self, old: str, new: str) -> dict[str, str]:
        entries = [entry for entry in self._list_changes(old, new) if _NAME.fullmatch(entry[0])]
        self._open({blob for _, *blobs in entries for blob in blobs} - self._known.keys())
        found: dict[str, str] = {}
        for name, *blobs in entries:
            # Somebody without the key can still put one encrypted file in the place of another.
            pairs = (self._known.get(blob, ("", "")) for blob in blobs)
            (old_path, _), (path, blob) = (pair if self.key.hide(pair[0]) == name else ("", "") for pair in pairs)
            if path or old_path:
                found[path or old_path] = blob or NO_BLOB
            if blobs[1] != NO_BLOB and not path:
                hint = "It is damaged, of another memory, or from somebody without the key. Nothing was changed."
                raise SyncError("The remote has a file that was not made with the key of this memory.", hint=hint)
        return found

    def _open(self, sealed: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of encrypted blobs that can be read, by their own blobs, and take note of their paths."""
        found: dict[str, bytes] = {}
        for name, data in super().read(sealed, 2 * MAX_NOTE_BYTES).items():
            if opened := self.key.open(data):
                blob = self.name_blob(opened[1])
                self._known[name], found[blob] = (opened[0], blob), opened[1]
        save(self._names, self._known)
        return found

    def read(self, blobs: Iterable[str], max_bytes: int, known: Collection[str] = ()) -> dict[str, bytes]:
        wanted = {*blobs} - {NO_BLOB}
        if wanted - {blob for _, blob in self._known.values()}:
            listed = self._run("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
            self._open({*listed.decode().split()} - self._known.keys())
        found = self._open(sealed for sealed, (_, blob) in self._known.items() if blob in wanted)
        return {blob: data for blob, data in found.items() if len(data) <= max_bytes or blob in known}

    def commit(self, commits: Sequence[Commit], keep: str = "") -> list[str]:
        sealed = (dict(starmap(self.key.seal, each.files.items())) for each in commits)
        return super().commit([each._replace(files=files) for each, files in zip(commits, sealed, strict=True)], keep)

    def clean_up(self, option: str = "--auto") -> None:
        super().clean_up(option)
        # Names that only the history had are forgotten with it.
        listed = self._run("rev-list", "--objects", "--no-walk", "--all").decode().splitlines()
        self._known = {line[:40]: self._known[line[:40]] for line in listed if line[:40] in self._known}
        save(self._names, self._known)
