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
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import QueryError, RecallError
from mdrecall.hosts.events import HookCall
from mdrecall.notes.clock import user_time
from mdrecall.notes.repository import find_main_root, find_root
from mdrecall.notes.tombstones import open_masks
from mdrecall.patterns import compile_later
from mdrecall.text.tombstones import split_units
from mdrecall.types.documents import parse_citation

if TYPE_CHECKING:
    from mdrecall.memory import Memory

#: Some thousand prompts. Each prompt looks through them, in a millisecond.
_MAX_BYTES = 256 * 1024
_FIELDS = {"at", "host", "session", "project", "event", "ms", "why", "lines"}
#: Texts that can be silenced at a time; before another one, the oldest is let back in.
_MAX_SILENCED = 300
#: A text is recognised by the hashes of up to six runs of five words. Half of the runs are enough, because prompts
#: show different parts of a passage.
_RUNS, _RUN_WORDS = 6, 5
# What stands beside a text on a line for a model: its place, before or after it, its day, the state of a wish.
_PLACE = compile_later(
    r"^\s*(?:[-*] )?(?:\[ \] )?(?:(?:\S+#L[\dL-]+|\d{4}-\d\d-\d\d): )?"
    r"|\s*\((?:(?:Source: )?\S+#L[\dL-]+|\d{4}-\d\d-\d\d|(?:\d{4}-\d\d-\d\d )?unconfirmed)\)$"
)
# A model is shown a passage without annotations, and a run of it may end inside a comment.
_COMMENT = compile_later(r"(?m)<!--[^<>]*-->|<!--[^<>\n]*$")


class Shown(NamedTuple):
    """A text that a model is shown, and where it stands."""

    citation: str
    text: str
    score: float = 0.0
    why: str = ""


def record_shown(call: HookCall, shown: Iterable[Shown], why: str = "") -> None:
    """Record what a model is shown, or why it is shown nothing."""
    event, silenced = call.event, Silenced(call.settings)
    lines = []
    for each in shown:
        # A rule or a fence has no words by which it could be recognised.
        if (units := _split(each.text)) and not silenced.holds(each.text):
            # How many words a text has, and the hashes that recognise it.
            signed = {"words": len(units), "runs": _choose(_hash_runs(call.settings, units, len(units)))}
            lines.append({"citation": each.citation, "score": round(each.score, 2), "why": each.why, **signed})
    record = {
        "at": f"{call.now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "host": event.host.name,
        "session": event.session,
        "project": os.path.basename(find_main_root(find_root(event.cwd)) or event.cwd),
        "event": event.event,
        "ms": int(1000 * (time.monotonic() - call.begun)) if call.begun else 0,
        "why": why,
        "lines": lines,
    }
    try:
        state_files.append_line(_locate(call.settings, "log"), json.dumps(record), _MAX_BYTES)
    except OSError as error:
        call.log(f"What was shown cannot be recorded: {error.strerror or error}.")


def read_log(settings: Settings, session: str = "") -> Iterator[dict[str, Any]]:
    """Yield the records, the oldest first; of one session if it is named. What a killed process has left is skipped."""
    data, named = b"", json.dumps(session)[1:-1].encode()
    with suppress(OSError), open(_locate(settings, "log"), "rb") as file:
        data = file.read(2 * _MAX_BYTES)
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):
            if named in line and isinstance(found := json.loads(line), dict) and found.keys() >= _FIELDS:
                yield found


def list_shown(call: HookCall) -> tuple[set[str], bool]:
    """Return what the model of a session was shown since it began, and True if this is not its first prompt.

    After a compaction the model no longer has the passages that it was shown, so they may be shown again.
    """
    shown, is_later = set[str](), False
    for found in read_log(call.settings, call.event.session):
        if (found["host"], found["session"]) == (call.event.host.name, call.event.session):
            is_later = found["event"] == "prompt"
            shown = {*(shown if is_later else ()), *(line["citation"] for line in found["lines"])}
    return shown, is_later


class Silenced:
    """The texts that no model is shown again by itself. A search finds them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        path = _locate(settings, "silenced")
        #: The line of the record by the hashes of each text.
        self.lines = state_files.load(path) if os.path.exists(path) else {}

    def holds(self, text: str) -> bool:
        """True if a text holds one that is silenced."""
        units = _split(text) if self.lines else []
        hashes = {*_hash_runs(self._settings, units, len(units))} if units else set[str]()
        return any(2 * len(hashes.intersection(runs.split())) >= len(runs.split()) > 0 for runs in self.lines)

    def hide(self, text: str) -> str:
        """Return a text for a model without the lines that are silenced."""
        return "\n".join(line for line in text.split("\n") if not self.holds(line)) if self.lines else text

    def switch(self, line: dict[str, Any]) -> bool:
        """Silence a line, or let it be shown again; True if it is silenced now. Raise ``OSError`` if that fails."""
        is_new = self.lines.pop(line["runs"], None) is None
        new = self.lines | ({line["runs"]: line} if is_new else {})
        state_files.save(_locate(self._settings, "silenced"), dict(list(new.items())[-_MAX_SILENCED:]))
        return is_new


def list_answers(settings: Settings) -> list[dict[str, Any]]:
    """Return the records with their lines numbered, and at the end what is silenced, as if it had been shown."""
    silenced = [dict(line) for line in Silenced(settings).lines.values()]
    answers = [*read_log(settings), {"host": "", "session": "", "lines": silenced}]
    for number, line in enumerate((line for answer in answers for line in answer["lines"]), 1):
        line["number"] = number
    return answers


def silence(settings: Settings, number: int, citation: str = "") -> bool:
    """Silence a line by its number, or let it be shown again; True if it is silenced now.

    ``citation`` is the place of the line that is meant, if the caller knows it.
    """
    lines = (line for answer in list_answers(settings) for line in answer["lines"])
    line = next((line for line in lines if line.pop("number") == number), None)
    if line is None or citation not in ("", line["citation"]):
        raise QueryError(f"The log has no line {number}{citation and f' at {citation}'}.", hint="List the lines again.")
    return Silenced(settings).switch(line)


def describe(memory: "Memory", answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer for people: with the time on the user's clock, and with the text of each line that is there."""
    silenced, zone = Silenced(memory.settings).lines, memory.settings.defaults.user_timezone
    if "at" in answer:
        answer["at"] = f"{user_time(datetime.fromisoformat(answer['at']), None, zone):%Y-%m-%d %H:%M}"
    for line in answer["lines"]:
        line |= {"text": _read_again(memory, line), "silenced": line["runs"] in silenced}
    return answer


def _read_again(memory: "Memory", line: dict[str, Any]) -> str | None:
    """Return a text as it stands in its place now, without secrets and comments; None if it has changed, or is gone."""
    path, first, count = parse_citation(line["citation"])
    words, is_session = line["words"], path.startswith("sessions/")
    for place in (line["citation"], path):  # It may have moved within its note.
        with suppress(RecallError):
            read = memory.read_session(path, from_line=first, lines=count) if is_session else memory.read(place)
            units = list(split_units(text := _COMMENT.sub("", read.text)))
            hashes = _hash_runs(memory.settings, [unit for unit, _, _ in units], words)
            for start in range(len(units) - words + 1):
                if _choose(hashes[start : start + max(1, words - _RUN_WORDS + 1)]) == line["runs"]:
                    return open_masks(memory.settings).redact(text[units[start][1] : units[start + words - 1][2]])
    return None


def _split(text: str) -> list[str]:
    """Return the folded words of a text, without comments and the place beside it."""
    return [unit for unit, _, _ in split_units(_PLACE.sub("", _COMMENT.sub("", text)))]


def _hash_runs(settings: Settings, units: list[str], words: int) -> list[str]:
    """Return the hash of each run of words in a text. A text of fewer ``words`` than a run has is one run.

    The workspace is the key of the hashes, so that no table of common phrases reveals them.
    """
    from hashlib import blake2s

    size, key = min(_RUN_WORDS, words), settings.workspace.encode(errors="replace")[-32:]
    runs = ("\0".join(units[first : first + size]) for first in range(len(units) - size + 1)) if size else ()
    return [blake2s(run.encode(errors="replace"), key=key, digest_size=5).hexdigest() for run in runs]


def _choose(hashes: list[str]) -> str:
    return " ".join(sorted({*hashes})[:_RUNS])


def _locate(settings: Settings, name: str) -> str:
    return os.path.join(settings.state_dir, "mdrecall-hosts", "shown", name)
