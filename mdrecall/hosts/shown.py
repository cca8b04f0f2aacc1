"""What models were shown: a record for recall and for the person, and the texts that the person has silenced.

The record holds places and hashes, and no text. The text is read again where it stands, so that what was forgotten is
gone from the record too, and what was changed is known to be another text by now.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import RecallError
from mdrecall.hosts.events import HookCall
from mdrecall.locks import try_flock
from mdrecall.notes.clock import user_time
from mdrecall.notes.repository import find_main_root, find_root
from mdrecall.notes.tombstones import open_masks
from mdrecall.patterns import compile_later
from mdrecall.text.tombstones import split_units
from mdrecall.types.documents import format_citation, parse_citation

if TYPE_CHECKING:
    from mdrecall.memory import Memory

#: The record is two files of this size: some thousand prompts. Each prompt looks through it, in a millisecond.
_MAX_BYTES = 128 * 1024
#: Texts that can be silenced at a time; before another one, the oldest is let back in.
_MAX_SILENCED = 300
#: A silenced text is recognised by the hashes of up to eight runs of five words, half of which must be there: how much
#: of a passage is shown differs from prompt to prompt.
_RUNS, _RUN_WORDS = 8, 5
# What stands beside a text on a line for a model: its place, before or after it, or its day.
_PLACE = compile_later(
    r"^\s*(?:[-*] )?(?:\[ \] )?(?:(?:\S+#L[\dL-]+|\d{4}-\d\d-\d\d): )?"
    r"|\s*\((?:(?:Source: )?\S+#L[\dL-]+|\d{4}-\d\d-\d\d)\)$"
)


class Shown(NamedTuple):
    """A text that a model is shown, and where it stands."""

    citation: str
    text: str
    score: float = 0.0
    why: str = ""


class ShownLine(NamedTuple):
    """The record of such a text, which is found again by its hash and the number of its words."""

    citation: str = ""
    score: float = 0.0
    why: str = ""
    words: int = 0
    hash: str = ""


class Injection(NamedTuple):
    """The record of an answer to a host. At a prompt without ``lines``, the model was shown nothing."""

    at: str = ""
    host: str = ""
    session: str = ""
    project: str = ""
    event: str = ""
    ms: int = 0
    why: str = ""
    lines: tuple[ShownLine, ...] = ()

    @property
    def key(self) -> str:
        """The key of the hashes, another one for each answer: no table helps to guess a text."""
        return f"{self.at} {self.session}"


def record_shown(call: HookCall, shown: Iterable[Shown], why: str = "") -> None:
    """Record what the model of a session is shown, and why it is this or nothing."""
    event = call.event
    at = f"{call.now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    project = os.path.basename(find_main_root(find_root(event.cwd)) or event.cwd)
    ms = int(1000 * (time.monotonic() - call.begun)) if call.begun else 0
    new = Injection(at, event.host.name, event.session, project, event.event, ms, why)
    silenced = Silenced(call.settings)
    lines = [
        (each.citation, round(each.score, 2), each.why, *_sign(new.key, each.text))
        for each in shown
        if not silenced.find(each.text)
    ]
    data = json.dumps(new._asdict() | {"lines": lines}, separators=(",", ":"))
    try:
        _append(_locate(call.settings, "log.jsonl"), b"\n" + data.encode())
    except OSError as error:
        call.log(f"What was shown cannot be recorded: {error.strerror or error}.")


def _append(path: str, data: bytes) -> None:
    """Add a record, which begins a line of its own whatever a killed process has left. A full file becomes the old one.

    A process that has the file open meanwhile adds to the old one, and only one that has locked the file renames it.
    """
    state_files.make_private_folder(os.path.dirname(path))
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(file, data)
        found = os.fstat(file)
        if found.st_size > _MAX_BYTES and try_flock(file) and os.stat(path).st_ino == found.st_ino:
            os.replace(path, f"{path}.1")
    finally:
        os.close(file)


def read_log(settings: Settings, session: str = "") -> Iterator[Injection]:
    """Yield what models were shown, the oldest first; of one session if it is named. Broken records are skipped."""
    named = json.dumps(session)[1:-1].encode()
    for name in ("log.jsonl.1", "log.jsonl"):
        data = b""
        with suppress(OSError), open(_locate(settings, name), "rb") as file:
            data = file.read(2 * _MAX_BYTES)
        for line in data.split(b"\n"):
            with suppress(ValueError, RecursionError, TypeError, AttributeError):
                if line and named in line:
                    found = _parse(Injection(), json.loads(line))
                    datetime.fromisoformat(found.at)
                    lines = (dict(zip(ShownLine._fields, each, strict=True)) for each in found.lines)
                    yield found._replace(lines=tuple(_parse(ShownLine(), each) for each in lines))


def _parse(new: Any, values: dict[str, Any]) -> Any:
    """Return the fields of a record that have the types of the defaults in ``new``."""
    values = {**values, "lines": tuple(values.get("lines") or ())}
    known = {name: values.get(name) for name, old in new._asdict().items() if type(values.get(name)) is type(old)}
    return new._replace(**known)


def list_shown(call: HookCall) -> tuple[set[str], bool]:
    """Return what the model of a session was shown since it began, and True if this is not its first prompt.

    What was shown before a compaction, after which a session begins anew, is shown again.
    """
    shown, is_later = set[str](), False
    name = call.event.host.name, call.event.session
    for found in read_log(call.settings, call.event.session):
        if (found.host, found.session) == name:
            is_later = found.event == "prompt"
            shown = {*(shown if is_later else ()), *(line.citation for line in found.lines)}
    return shown, is_later


def describe_log(memory: "Memory", limit: int, session: str = "") -> list[dict[str, Any]]:
    """Return the last sessions whose id begins like ``session``, and what each was shown; the newest is the last.

    The lines of the log are numbered. One that stands nowhere any more has no text.
    """
    sessions: dict[tuple[str, str], list[tuple[int, Injection]]] = {}
    count = 1
    for entry in read_log(memory.settings):
        if entry.session.startswith(session):
            name = entry.host, entry.session
            sessions[name] = [*sessions.pop(name, []), (count, entry)]
        count += len(entry.lines)
    silenced, described = Silenced(memory.settings), []
    for (host, session), entries in list(sessions.items())[-limit:]:
        answers: list[dict[str, Any]] = []
        for number, entry in entries:
            new = _describe(memory, silenced, number, entry)
            # The text at the start of a session is recorded in two parts.
            if answers and all(answers[-1][name] == new[name] for name in ("at", "event")) and entry.event != "prompt":
                new["lines"] = answers.pop()["lines"] + new["lines"]
            answers.append(new)
        described.append({"host": host, "session": session, "answers": answers})
    return described


def _describe(memory: "Memory", silenced: "Silenced", number: int, entry: Injection) -> dict[str, Any]:
    """Return an answer for people; ``number`` is that of its first line."""
    moment = user_time(datetime.fromisoformat(entry.at), None, memory.settings.defaults.user_timezone)
    lines = []
    for each, line in enumerate(entry.lines, number):
        place, text = _read_again(memory, line, entry.key)
        about = {"number": each, "citation": place, "score": line.score, "why": line.why}
        lines.append({**about, "text": text or None, "silenced": bool(text and silenced.find(text))})
    return {**entry._asdict(), "at": f"{moment:%Y-%m-%d %H:%M}", "lines": lines}


def find_line(memory: "Memory", number: int) -> tuple[str, str]:
    """Return the place and the text of a line of the log; both are empty if there is no such line."""
    lines = [(entry.key, line) for entry in read_log(memory.settings) for line in entry.lines]
    if not 1 <= number <= len(lines):
        return "", ""
    key, line = lines[number - 1]
    return _read_again(memory, line, key)


def _read_again(memory: "Memory", line: ShownLine, key: str) -> tuple[str, str]:
    """Return where a text stands now, and the text without secrets; no text if it has changed, or is gone."""
    path, first, count = parse_citation(line.citation)
    is_session = path.startswith("sessions/")
    # It may have moved within its note.
    for place in (line.citation, path):
        with suppress(RecallError):
            read = memory.read_session(path, from_line=first, lines=count) if is_session else memory.read(place)
            units = list(split_units(read.text))
            for start in range(len(units) - line.words + 1):
                found = units[start : start + line.words]
                if found and _hash(key, [unit for unit, _, _ in found]) == line.hash:
                    text = read.text[found[0][1] : found[-1][2]]
                    at = read.from_line + read.text.count("\n", 0, found[0][1])
                    now = line.citation if is_session else format_citation(path, at, at + text.count("\n"))
                    return now, open_masks(memory.settings).redact(" ".join(text.split()))
    return line.citation, ""


class Silenced:
    """The texts that no model is shown again by itself. A search finds them."""

    def __init__(self, settings: Settings) -> None:
        self._path = _locate(settings, "silenced.json")
        found = state_files.load(self._path) if os.path.exists(self._path) else {}
        salt, texts = found.get("salt"), found.get("texts")
        self._salt = salt if isinstance(salt, str) else os.urandom(8).hex()
        #: Each text by the hashes of its runs.
        self._texts: dict[str, ShownLine] = {}
        for runs, values in (texts if isinstance(texts, dict) else {}).items():
            with suppress(TypeError, AttributeError):
                self._texts[runs] = _parse(ShownLine(), values)

    def find(self, text: str) -> list[str]:
        """Return the ids of the silenced texts that a text holds."""
        if not self._texts:
            return []
        runs = self._list_runs(text)
        return [each for each in self._texts if 2 * len(runs.intersection(each.split())) >= len(each.split())]

    def hide(self, text: str) -> str:
        """Return a text for a model without the lines that are silenced."""
        return "\n".join(line for line in text.split("\n") if not self.find(line)) if self._texts else text

    def describe(self, memory: "Memory") -> list[dict[str, Any]]:
        """Return the silenced texts, the oldest first. One that stands nowhere any more has no text."""
        texts = ((runs, *_read_again(memory, line, self._salt)) for runs, line in self._texts.items())
        return [{"id": runs, "citation": place, "text": text or None} for runs, place, text in texts]

    def add(self, citation: str, text: str) -> None:
        """Silence a text; raise ``OSError`` if that fails."""
        runs = " ".join(sorted(self._list_runs(text))[:_RUNS])
        self._texts[runs] = ShownLine(citation, 0.0, "", *_sign(self._salt, text))
        self._save()

    def remove(self, name: str) -> None:
        """Let a text be shown again, given by its id; raise ``OSError`` if that fails."""
        self._texts.pop(name, None)
        self._save()

    def _list_runs(self, text: str) -> set[str]:
        units = [unit for unit, _, _ in split_units(_PLACE.sub("", text))]
        count = max(1, len(units) - _RUN_WORDS + 1) if units else 0
        return {_hash(self._salt, units[first : first + _RUN_WORDS]) for first in range(count)}

    def _save(self) -> None:
        kept = list(self._texts.items())[-_MAX_SILENCED:]
        state_files.save(self._path, {"salt": self._salt, "texts": {runs: line._asdict() for runs, line in kept}})


def _sign(key: str, text: str) -> tuple[int, str]:
    """Return the number of words of a text, without the place beside it, and their hash."""
    units = [unit for unit, _, _ in split_units(_PLACE.sub("", text))]
    return len(units), _hash(key, units)


def _hash(key: str, units: list[str]) -> str:
    data, salt = (text.encode(errors="replace") for text in ("\0".join(units), key))
    return blake2s(data, key=salt[:32], digest_size=6).hexdigest()


def _locate(settings: Settings, name: str) -> str:
    return os.path.join(settings.state_dir, "mdrecall-hosts", "shown", name)
