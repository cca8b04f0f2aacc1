"""``mdrecall log``: what agents were shown by themselves, session by session, and lines that they are not to see."""

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mdrecall.cli.options import CommandParser, add_common, open_memory
from mdrecall.cli.output import plural, printable, show, style
from mdrecall.errors import QueryError
from mdrecall.hosts.shown import Silenced, describe_log, find_line
from mdrecall.memory import Memory

#: Stands for a text that is not there any more.
_CHANGED = "changed since, or removed"


def add_log(parser: CommandParser) -> None:
    parser.value("-n --limit", "N", "print the last N sessions (default: 10)", default=10)
    parser.value("--session", "ID", "print only this session; the first characters of its id are enough", default="")
    parser.value("--silence", "N", "never show line N to an agent by itself again, wherever it moves")
    parser.flag("--silenced", "list the silenced lines")
    parser.value("--unsilence", "N", "let line N of `mdrecall log --silenced` be shown again")
    add_common(parser)


def run_log(options: argparse.Namespace) -> int:
    with open_memory(options) as memory:
        silenced = Silenced(memory.settings)
        if options.silence:
            return _silence(options, memory, silenced)
        if options.silenced or options.unsilence:
            return _list_silenced(options, memory, silenced)
        sessions = describe_log(memory, options.limit, options.session)
        notes = [] if sessions else [_explain_empty(options, memory)]
    lines = (line for session in sessions for line in _format(session["answers"]))
    return show(options, sessions, *lines, notes=notes, code=0 if sessions else 1)


def _format(answers: list[dict[str, Any]]) -> Iterator[str]:
    host, session, project = (answers[-1][name] for name in ("host", "session", "project"))
    yield style(printable(f"{host}  {project}  session {session}"), "bold")
    for record in answers:
        if record["lines"]:
            yield printable(f"  {record['at']}  {record['event']}  {record['ms']} ms  {record['why']}".rstrip())
        for each in record["lines"]:
            why = printable(each["why"]) or f"score {each['score']:.2f}"
            silenced = style("  silenced", "yellow") if each["silenced"] else ""
            yield f"  {each['number']:4}  {style(printable(each['citation']), 'cyan')}  {why}{silenced}"
            yield f"        {printable(each['text'] or _CHANGED)}"
    nothing = Counter(each["why"] for each in answers if each["event"] == "prompt" and not each["lines"])
    if nothing:
        reasons = "; ".join(f"{printable(why)}: {count}" for why, count in nothing.most_common())
        yield f"  {plural(nothing.total(), 'prompt')} got nothing ({reasons})"


def _explain_empty(options: argparse.Namespace, memory: Memory) -> str:
    """Return why there is nothing to print, and what to do."""
    from mdrecall.config.environment import find_locations, find_program_folders
    from mdrecall.hosts.install import list_installed

    hosts, env, cwd = memory.settings.mdrecall.hosts, os.environ, os.getcwd()
    if options.session:
        return f"No session {printable(options.session)} is in the log. Run `mdrecall log` to see the sessions."
    if not (hosts.prompt or hosts.session_start):
        return "Agents are shown nothing: in mdrecall.json, mdrecall.hosts.prompt and .sessionStart are false."
    if not any(list_installed(find_program_folders(env, cwd), find_locations(env, cwd).own_state_dir)):
        return "No coding agent is connected. Run `mdrecall install` to connect one."
    return "No session has been shown anything yet. Start one, and ask about something in your notes."


def _silence(options: argparse.Namespace, memory: Memory, silenced: Silenced) -> int:
    citation, text = find_line(memory, options.silence)
    if not citation:
        raise QueryError(f"The log has no line {options.silence}.", hint="Run `mdrecall log` to see the lines.")
    if not text:
        raise QueryError(f"Line {options.silence} has {_CHANGED}.", hint="Silence it when it is shown again.")
    silenced.add(citation, text)
    hint = "A search still finds it. To take it back, run `mdrecall log --silenced`, then `mdrecall log --unsilence N`."
    return show(options, {"silenced": citation, "text": text}, f"Silenced: {printable(text)}", notes=[hint])


def _list_silenced(options: argparse.Namespace, memory: Memory, silenced: Silenced) -> int:
    records = silenced.describe(memory)
    if options.unsilence:
        if options.unsilence > len(records):
            hint = "Run `mdrecall log --silenced` to see the lines."
            raise QueryError(f"There is no silenced line {options.unsilence}.", hint=hint)
        record = records[options.unsilence - 1]
        silenced.remove(record["id"])
        told = f"Agents may be shown it again: {printable(record['text'] or record['citation'])}"
        return show(options, {"unsilenced": record["citation"]}, told)
    lines = (f"{n:4}  {each['citation']}  {each['text'] or _CHANGED}" for n, each in enumerate(records, 1))
    notes = [] if records else ["Nothing is silenced."]
    return show(options, records, *map(printable, lines), notes=notes, code=0 if records else 1)
