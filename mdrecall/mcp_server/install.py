"""An entry for this server in a configuration that is somebody else's: nothing in it is lost or guessed."""

import contextlib
import difflib
import json
import os
import tempfile
from typing import Any, NamedTuple

from mdrecall.errors import RecallError
from mdrecall.mcp_server.clients import Entry, Target


class Plan(NamedTuple):
    """What a configuration file says now, and what it would say."""

    path: str
    before: str | None
    """None if there is no file."""
    after: str

    @property
    def changes(self) -> bool:
        return self.after != self.before

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        before, after = (self.before or "").splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = difflib.unified_diff(
            before, after, self.path if self.before is not None else os.devnull, self.path, n=2
        )
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def snippet(target: Target, entry: Entry) -> str:
    """The entry alone, as it would stand in an empty file."""
    values = target.values(entry)
    if target.is_toml:
        lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
        return "\n".join((f"[{target.table}.{entry.name}]", *lines)) + "\n"
    return json.dumps({target.table: {entry.name: values}}, indent=2, ensure_ascii=False) + "\n"


def plan(target: Target, entry: Entry) -> Plan:
    """What would be written; a file that cannot be changed without a loss is refused."""
    path = os.path.realpath(target.path)
    before = _read(path)
    if before is None or not before.strip("\ufeff \t\r\n"):
        return Plan(path, before, snippet(target, entry))
    merged = _merged_toml if target.is_toml else _merged_json
    return Plan(path, before, merged(before, path, target, entry))


def write(change: Plan) -> str:
    """Put the change in place at once; gives where the file as it was is kept, or nothing if there was none."""
    folder = os.path.dirname(change.path)
    try:
        os.makedirs(folder, exist_ok=True)
        mode = os.stat(change.path).st_mode & 0o777 if change.before is not None else 0o600
        backup = _backed_up(change.path, change.before, mode) if change.before is not None else ""
        if _read(change.path) != change.before:
            raise RecallError(f"{change.path} has just been changed by another program.", hint="Try again.")
        _replaced(folder, change.path, change.after, mode)
    except OSError as error:
        message = f"Cannot write {change.path}: {error.strerror or error}."
        raise RecallError(message, hint="Mend the permissions, or use --print and add the lines yourself.") from error
    return backup


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RecallError(f"Cannot read {path}: {said}.", hint="Mend it, or use --print.") from error


def _merged_json(before: str, path: str, target: Target, entry: Entry) -> str:
    values = _parsed_json(before.removeprefix("\ufeff"), path, target, entry)
    servers = values.setdefault(target.table, {})
    if not isinstance(servers, dict) or not isinstance(servers.get(entry.name, {}), dict):
        raise _refusal(path, f"{target.table} is not what it should be", target, entry)
    wanted = {**servers.get(entry.name, {}), **target.values(entry)}
    if servers.get(entry.name) == wanted:
        return before
    servers[entry.name] = wanted
    after = json.dumps(values, indent=_indent(before), ensure_ascii=False)
    if before.endswith("\n"):
        after += "\n"
    if "\r\n" in before:
        after = after.replace("\n", "\r\n")
    return "\ufeff" + after if before.startswith("\ufeff") else after


def _parsed_json(text: str, path: str, target: Target, entry: Entry) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise _refusal(path, "a name stands in it twice", target, entry)
        return dict(pairs)

    try:
        values = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        place = f" from line {error.lineno}, column {error.colno} on" if isinstance(error, json.JSONDecodeError) else ""
        raise _refusal(path, f"it is not plain JSON{place} (comments would be lost)", target, entry) from error
    if not isinstance(values, dict):
        raise _refusal(path, "it is not an object", target, entry)
    return values


def _indent(text: str) -> int | str:
    """What the file indents with."""
    for line in text.splitlines():
        bare = line.lstrip(" \t")
        if bare and bare != line:
            return line[: len(line) - len(bare)]
    return 2


def _merged_toml(before: str, path: str, target: Target, entry: Entry) -> str:
    import tomllib

    try:
        values = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        raise _refusal(path, f"it is not TOML: {error}", target, entry) from error
    servers = values.get(target.table, {})
    there = servers.get(entry.name) if isinstance(servers, dict) else None
    wanted = target.values(entry)
    if isinstance(there, dict) and {**there, **wanted} == there:
        return before
    if there is not None:
        why = f"[{target.table}.{entry.name}] is there already and says something else"
        raise _refusal(path, why, target, entry, way_out="Put this in its place, or choose another --name")
    end = "\r\n" if "\r\n" in before else "\n"
    after = before + ("" if before.endswith("\n") else end) + end + snippet(target, entry).replace("\n", end)
    try:
        is_safe = tomllib.loads(after) == {**values, target.table: {**servers, entry.name: wanted}}
    except (tomllib.TOMLDecodeError, TypeError):
        is_safe = False
    if not is_safe:
        raise _refusal(path, f"{target.table} is written in a way that nothing can be added to", target, entry)
    return after


def _refusal(path: str, why: str, target: Target, entry: Entry, *, way_out: str = "Add this yourself") -> RecallError:
    return RecallError(f"{path} is left as it is: {why}.", hint=f"{way_out}:\n\n{snippet(target, entry)}")


def _backed_up(path: str, text: str, mode: int) -> str:
    """Keep a file as it was, under the first free name beside it."""
    for number in range(1, 1000):
        backup = f"{path}.bak" if number == 1 else f"{path}.bak{number}"
        with contextlib.suppress(FileExistsError):
            file = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(file, "w", encoding="utf-8", newline="") as out:
                out.write(text)
            return backup
    raise RecallError(f"There are too many backups of {path}.", hint=f"Remove some: {path}.bak*")


def _replaced(folder: str, path: str, text: str, mode: int) -> None:
    file, fresh = tempfile.mkstemp(dir=folder, prefix=".mdrecall-")
    try:
        with open(file, "w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(fresh, mode)
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
