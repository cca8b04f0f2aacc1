"""Run the commands of the record and put what they print into a form that two runs have in common."""

import argparse
import inspect
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import wrap
from typing import Any

import mdrecall
from mdrecall.cli.main import COMMANDS as ALL
from mdrecall.cli.main import PARTS, build_parser, main
from mdrecall.config.openclaw_file import json_schema
from mdrecall.types.search import SearchRequest
from tests.conftest import environment
from tests.record.commands import COMMANDS
from tests.record.functions import RECORDED
from tests.record.ranking import record_ranking
from tests.record.reference import options_of, settings_page
from tests.record.requests import record_requests
from tests.record.workspace import make_workspace

GOLDEN = Path(__file__).parent / "golden"

#: Keys whose values are sentences for people: recorded apart from the rest.
WORDS = {
    "action",
    "hint",
    "problem",
    "message",
    "said",
    "mend",
    "why",
    "description",
    "error",
    "reason",
    "loadError",
    "prompt",
}
#: Keys whose values differ from run to run or from machine to machine.
# Which engine searches vectors depends on what the process has loaded already.
VARIES = {
    "ms",
    "pid",
    "bytes",
    "chunkBytes",
    "databaseBytes",
    "walBytes",
    "reusableBytes",
    "since",
    "nextTry",
    "engine",
    "lastModified",
    "confirm",
}
#: So many values that an answer has in common with the last one are only named.
SEVERAL = 3
#: Providers that are usable or not depending on which extras are installed.
OPTIONAL_PROVIDERS = {"local"}


class Recorder:
    """The record of one workspace: facts and words, each by name of the file that holds them."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.facts: dict[str, Any] = {}
        self.words: dict[str, Any] = {}

    def record_all(self) -> None:
        """Record the commands, then the settings, the public names and the numbers of the ranking."""
        env = make_workspace(self._base)
        with environment(env, self._base / "notes"):
            for name, commands in COMMANDS.items():
                words: dict[str, str] = {}
                entries = [self._record_command(command, words) for command in commands]
                self.facts[name] = list(name_what_is_as_before(entries, "output"))
                self.words[name] = _without_repetition(words)
            requests = [self._neutral(entry) for entry in record_requests(self._base)]
            self.facts["requests"] = list(name_what_is_as_before(requests, "result"))
        settings = list(_settings(json_schema(), "", {}))
        self.facts["settings"] = {name: entry for name, entry, _ in settings}
        # Those of docs/settings.md are compared with it by tests/test_docs.py.
        documented = settings_page()
        self.words["settings"] = _without_repetition(
            {name: about for name, _, about in settings if about and about not in documented}
        )
        self.facts["names"] = public_names()
        self.facts["ranking"] = record_ranking()

    def _record_command(self, command: str, words: dict[str, str]) -> dict[str, Any]:
        code, out, err = run_command([part.format(base=self._base) for part in command.split()])
        try:
            shown = self._neutral(json.loads(out))
        except ValueError:
            shown = self._neutral_text(out).splitlines()
        plain, sentences = separate(shown)
        if not any(place.startswith("error.") for place in sentences):
            # An error in JSON is printed to standard error as well, in the same words.
            sentences["stderr"] = self._neutral_text(err)
        words.update({f"{command}: {place}": text for place, text in sentences.items() if text})
        return {"command": command, "code": code, "output": plain}

    def _neutral(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("name") in OPTIONAL_PROVIDERS:
                return {"name": value["name"]}
            return {name: self._neutral(entry, name) for name, entry in value.items()}
        if isinstance(value, list):
            return [self._neutral(entry) for entry in value]
        if key in VARIES and isinstance(value, int | float | str):
            return f"<{key}>"
        if isinstance(value, float):
            # An answer is its order and its keys; how sure it is may differ in the third digit.
            return round(value, 2)
        return self._neutral_text(value) if isinstance(value, str) else value

    def _neutral_text(self, text: str) -> str:
        text = text.replace(os.path.realpath(self._base), "<base>").replace(str(self._base), "<base>")
        for pattern, name in _VARYING_TEXTS:
            text = re.sub(pattern, name, text)
        return text


_VARYING_TEXTS = (
    (r"/\S*/mdrecall-(demo|doctor)-\w+", "<temporary>"),
    (r"-[0-9a-f]{8,}\.(mdrecall\.)?sqlite", "-<hash>.sqlite"),
    (r"(/workspaces/[^/]+)-[0-9a-f]{8}/", r"\1-<hash>/"),
    (r"Python \d\S+ \w+", "Python <version>"),
    (r"\d+\.\d MB", "<size>"),
    (r"(?<=choose from )[^)]*", "<choices>"),
    (r"(?<=chunks in )[\d.]+ s\b", "<time>"),
    (r"confirm=[0-9a-f]{16}", "confirm=<confirm>"),
    (r"(?<=working \()[\d.]+ ms", "<time>"),
    # Scores may differ in the third digit.
    (r"(?m)^([01]\.\d\d)\d(?= (high|medium|low) )", r"\1"),
)


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, output and errors."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(arguments)
    except SystemExit as left:
        code = int(str(left.code))
    return code, out.getvalue(), err.getvalue()


def separate(value: Any) -> tuple[Any, dict[str, str]]:
    """Return the value with ``<words>`` in place of each sentence, and the sentences by where they stood."""
    words: dict[str, str] = {}
    return _separate(value, "", "", words), words


def _separate(value: Any, key: str, place: str, words: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _separate(entry, name, f"{place}.{name}", words) for name, entry in value.items()}
    if isinstance(value, list):
        return [_separate(entry, key, f"{place}[{number}]", words) for number, entry in enumerate(value)]
    if isinstance(value, str) and " " in value and key in WORDS:
        words[place.lstrip(".")] = value
        return "<words>"
    return value


def _without_repetition(words: dict[str, str]) -> dict[str, str]:
    """Keep the first place of each sentence: one that changes then shows up once in the difference."""
    places: dict[str, str] = {}
    for place, text in words.items():
        places.setdefault(text, place)
    return {place: text for text, place in places.items()}


def name_what_is_as_before(entries: Iterable[dict[str, Any]], part: str) -> Iterator[dict[str, Any]]:
    """Yield entries whose ``part`` only names the values that the last answer of the same command or tool had, too.

    An answer with one other value is then one other line, and what all answers have in common stands once.
    """
    last: dict[str, Any] = {}
    for entry in entries:
        answer = entry.get(part)
        kind = _kind_of(entry)
        shown = _unlike(answer, last.get(kind))
        if isinstance(answer, dict | list) and "error" not in str(answer)[:200]:
            last[kind] = answer
        yield {**entry, part: shown} if part in entry else entry


def _kind_of(entry: dict[str, Any]) -> str:
    """Return the command, or the method and the tool, that an entry is an answer of."""
    method, _, rest = entry.get("request", entry.get("command", "")).partition(" ")
    return f"{method} {rest[:40]}" if method == "tools/call" else method


def _unlike(value: Any, before: Any) -> Any:
    """Return a value with the entries that were the same before only named, if it is long and they are several."""
    if len(json.dumps(value, ensure_ascii=False)) < WIDTH - 10:
        return value
    if isinstance(value, dict) and isinstance(before, dict):
        same = [name for name, entry in value.items() if name in before and before[name] == entry]
        same = same if len(same) >= SEVERAL else []
        others = {name: _unlike(entry, before.get(name)) for name, entry in value.items() if name not in same}
        return others | ({"as before": " ".join(same)} if same else {})
    if isinstance(value, list) and isinstance(before, list) and _are_objects(value) and _are_objects(before):
        return [_unlike(entry, before[min(at, len(before) - 1)]) for at, entry in enumerate(value)]
    return value


def _are_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def _settings(schema: dict[str, Any], place: str, known: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield every setting of a JSON schema: its name, what it takes, and what is said about it.

    The same object can stand in several places, such as in the defaults and in each agent. It is yielded once, and in
    the others as a reference to it.
    """
    for name, entry in sorted(schema.get("properties", {}).items()):
        whole = json.dumps(entry)
        if "properties" in entry and known.setdefault(whole, f"{place}{name}") != f"{place}{name}":
            yield f"{place}{name}", f"as {known[whole]}", ""
            continue
        plain = {key: value for key, value in entry.items() if key not in ("description", "properties")}
        for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(plain.get(key), dict) and "properties" in plain[key]:
                yield from _settings(plain.pop(key), f"{place}{name}{mark}.", known)
        yield from _settings(entry, f"{place}{name}.", known)
        takes = json.dumps(plain, ensure_ascii=False).replace('"', "'")
        yield f"{place}{name}", takes, entry.get("description", "")


def public_names() -> dict[str, Any]:
    """Return what Python users import and call, and the options of every command."""
    memory, in_loops = _methods(mdrecall.Memory), _methods(mdrecall.AsyncMemory)
    return {
        "mdrecall": sorted(mdrecall.__all__),
        "Memory": memory,
        "AsyncMemory, as Memory": [name for name in in_loops if in_loops[name] == memory.get(name)],
        "AsyncMemory": {name: own for name, own in in_loops.items() if own != memory.get(name)},
        "memory options": list(MEMORY_OPTIONS),
        "commands": {name: _without_memory_options(name) for name in sorted((*ALL, *PARTS))},
    }


#: What nearly every command takes, at the end of its options.
MEMORY_OPTIONS = ("--workspace", "--agent", "--config", "--json")


def _without_memory_options(command: str) -> list[dict[str, Any] | str]:
    """Return the options of a command, with those that nearly every command takes as one.

    What docs/cli.md shows of an option is compared with it by tests/test_docs.py and not recorded again.
    """
    documented = {tuple(action.option_strings) for action in options_of(command)} | {("-h", "--help")}
    options = list(_options(build_parser(command).arguments, documented))
    if tuple(options[-len(MEMORY_OPTIONS) :]) == MEMORY_OPTIONS:
        options[-len(MEMORY_OPTIONS) :] = ["memory options"]
    return options


def _methods(cls: type) -> dict[str, list[str]]:
    return {
        name: list(_parameters(member)) if callable(member) else []
        for name, member in sorted(inspect.getmembers(cls))
        if not name.startswith("_")
    }


def _parameters(function: Any) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and function.__name__.startswith("search"):
            yield from SearchRequest._fields[1:]
        else:
            yield name


def _options(arguments: Iterable[argparse.Action], documented: set[tuple[str, ...]]) -> Iterator[dict[str, Any] | str]:
    """Yield what each option takes, or its name if it is a switch or takes any text and is not documented."""
    for action in arguments:
        name = " ".join(action.option_strings) or action.dest
        entry = {
            "choices": list(action.choices) if action.choices else None,
            "default": action.default if isinstance(action.default, str | int | float) else None,
            "repeats": isinstance(action, argparse._AppendAction) or None,
            "values": action.nargs,
            "required": action.required and bool(action.option_strings),
        }
        takes = {key: value for key, value in entry.items() if value not in (None, False, argparse.SUPPRESS)}
        if takes.keys() - {"choices"} or tuple(action.option_strings) not in documented:
            yield {"name": name, **takes} if takes else name


#: A difference shows whole lines, so a value stands on one as long as it can be read there.
WIDTH = 120


def as_text(value: Any) -> str:
    """Return a part of the record as its file holds it."""
    return _lay_out(value, "") + "\n"


def _lay_out(value: Any, indent: str) -> str:
    """Return a value as JSON: on one line if it fits, else each part on lines of its own."""
    whole = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(whole) <= WIDTH:
        return whole
    inner = f"{indent} "
    if isinstance(value, list) and all(
        isinstance(part, str) and part.replace("-", "").isidentifier() for part in value
    ):
        # Mere names stand beside each other.
        parts = wrap(whole[1:-1], WIDTH - len(inner), break_on_hyphens=False)
        return f"[\n{inner}" + f"\n{inner}".join(parts) + f"\n{indent}]"
    if isinstance(value, list):
        parts = [_lay_out(part, inner) for part in value]
    else:
        parts = [f"{json.dumps(name, ensure_ascii=False)}: {_lay_out(part, inner)}" for name, part in value.items()]
    return f"{whole[0]}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{whole[-1]}"


def record(base: Path) -> dict[str, str]:
    """Record what users see, below an empty folder; return the text of each golden file by its name."""
    recorder = Recorder(base)
    recorder.record_all()
    files = {f"{name}.json": as_text(value) for name, value in recorder.facts.items()}
    return files | {f"words/{name}.json": as_text(value) for name, value in recorder.words.items()}


def record_functions() -> dict[str, str]:
    """Record what functions return; return the text of each golden file by its name."""
    return {f"functions/{name}.json": as_text(list(function())) for name, function in RECORDED.items()}
