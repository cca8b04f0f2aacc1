"""``mdrecall forget``: show every place that holds something, and remove it there with ``--apply``."""

import argparse
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from mdrecall.cli.options import CommandParser, add_common, open_memory, run_for_each_agent
from mdrecall.cli.output import plural, print_json, print_warning, printable, progress_line, shorten_home, style
from mdrecall.errors import QueryError, RecallError
from mdrecall.life.forget import ForgetPlan, ForgetRequest
from mdrecall.plugins import open_forgetting
from mdrecall.sync.run import MemorySync
from mdrecall.sync.soon import locate, start_soon
from mdrecall.wire import to_json

#: How many places are printed; --json has all of them.
_SHOWN = 40


def add_forget(parser: CommandParser) -> None:
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.value("words", "TEXT", "the words to forget; sentences that contain them are removed", nargs="*")
    parser.value("--path", "PATH", "a note, or lines of it (note.md#L3-L5)", dest="paths", **several)
    parser.value("--session", "ID", "a session, by its id or session key", dest="sessions", **several)
    parser.value("--participant", "ID", "the sessions with a participant", dest="participants", **several)
    parser.value("--host", "NAME", "the sessions with a coding agent", dest="hosts", **several)
    parser.value("--hook-source", "NAME", "the sessions of a hook", dest="hook_sources", **several)
    parser.value("--since", "DAY", "only from this day (YYYY-MM-DD)", default="")
    parser.value("--until", "DAY", "only to this day", default="")
    parser.flag("--apply", "do it")
    parser.flag("--dry-run", "the default: only show what would happen")
    parser.flag("--mask", "replace the text in notes with [forgotten]")
    parser.flag("--trash", "keep for some time what is removed, for --undo")
    parser.flag("--history", "also drop the history on the remote of `mdrecall sync`")
    parser.flag("--list", "list what was forgotten")
    parser.value("--undo", "ID", "let it come back, with what the trash has of it", default="")
    add_common(parser)


def run_forget(options: argparse.Namespace) -> int:
    if options.apply and options.dry_run:
        raise QueryError("--apply and --dry-run contradict each other.", hint="Leave one of them out.")
    if options.history and not options.apply:
        raise QueryError("--history works only with --apply.", hint="Look at the preview without it first.")
    records, has_failed = run_for_each_agent(options, _list if options.list else _undo if options.undo else _forget)
    if options.json:
        print_json(records if len(records) != 1 else records[0])
    return 2 if has_failed or any(record.get("isComplete") is False for record in records) else 0


def _forget(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    text = " ".join(options.words).strip()
    names = ("paths", "sessions", "participants", "hosts", "hook_sources")
    named: dict[str, Any] = {name: tuple(getattr(options, name)) for name in names}
    named |= {"since": options.since, "until": options.until}
    with open_memory(options, agent) as memory:
        forgetting = open_forgetting(memory)
        days = memory.settings.mdrecall.forget.trash_days if options.trash else 0
        request = ForgetRequest((text,) if text else (), **named, is_masked=options.mask, trash_days=days)
        plan = forgetting.plan(request, now)
        record = _plan_to_json(plan, agent, is_dry=not options.apply)
        if not options.json:
            _print_plan(plan, is_dry=not options.apply)
        if options.apply:
            problems: list[str] = []
            with progress_line("Forgetting") as progress:
                is_complete = forgetting.apply(plan, now, progress, problems)
            record |= {"id": plan.entry.id, "isComplete": is_complete}
            if not options.json and plan.has_work:
                _print_outcome(plan.entry.id, days, problems, is_complete=is_complete)
                if locate(memory.settings):
                    print("The other machines forget it at their next sync; `mdrecall sync status` says which have.")
            if options.history and memory.loaded:
                # With what others have sent, so that nothing of it is lost.
                sync = MemorySync(memory.loaded)
                sync.run()
                sync.drop_history()
                record["historyDropped"] = True
            else:
                start_soon(memory.settings)
            if options.history and not options.json:
                print("The history is dropped here and on the remote; other machines follow when they sync.")
                print_warning("A remote may keep old objects for a while, and a hosting service in forks and backups.")
    return record


def _print_plan(plan: ForgetPlan, *, is_dry: bool) -> None:
    for place in plan.places[:_SHOWN]:
        shown = printable(place.citation) if place.start_line else shorten_home(place.path)
        print(f"{style(shown, 'cyan')}  {style(place.action, 'yellow')}")
        if place.text:
            print(f"    {printable(place.text)}")
    left = len(plan.places) - _SHOWN + plan.more
    if left > 0:
        print(f"… and {plural(left, 'more place')} (--json prints more of them)")
    for match in plan.sessions if not plan.places else ():
        print(f"session {printable(match.session)}  {match.source}")
    for warning in plan.warnings:
        print_warning(warning)
    if not plan.places:
        kept_out = "Add --apply to keep it out from now on." if is_dry else "It is kept out from now on."
        print("It was forgotten before." if plan.is_known else f"No place holds it. {kept_out}")
    if plan.unfinished:
        print("An earlier run was interrupted. This one finishes it.")
    if is_dry and plan.has_work and plan.places:
        print("Nothing was changed. Add --apply to forget it; back up first, or add --trash, if you may want it again.")


def _print_outcome(id: str, days: int, problems: list[str], *, is_complete: bool) -> None:
    if problems:
        print_warning("Everything else was cleared. Run the same command again when this can be opened.")
    elif not is_complete:
        print_warning("Another process still reads an earlier state of the index. Run the same command again.")
    else:
        kept = f" The trash keeps it for {plural(days, 'day')}: mdrecall forget --undo {id}" if days else ""
        print(f"Forgotten ({id}).{kept}")
        print("Your own backups, version control and other programs may still hold it.")


def _plan_to_json(plan: ForgetPlan, agent: str, *, is_dry: bool) -> dict[str, Any]:
    """Return a plan with OpenClaw's keys, and every place."""
    return {
        "agentId": agent,
        "dryRun": is_dry,
        "sessionIds": [match.session for match in plan.sessions],
        "participantMatches": list(plan.participants),
        "sessionResolutions": [
            {"sessionId": match.session, "sessionKey": match.session_key or None, "source": match.source}
            for match in plan.sessions
        ],
        "entryKeys": [],
        "mixedLineageEntryKeys": [],
        "untargetableEntryKeys": [],
        "curatedWrites": sorted({place.path for place in plan.places if place.kind == "note"}),
        "artifacts": Counter(f"{place.kind}s" for place in plan.places),
        "refusals": list(plan.problems),
        "places": to_json(plan.places),
        "morePlaces": plan.more,
        "known": plan.is_known,
    }


def _list(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    with open_memory(options, agent) as memory:
        entries = open_forgetting(memory).list_forgotten()
    for entry in entries if not options.json else ():
        parts = [(entry.phrases, "text"), (entry.notes, "note"), (entry.sessions, "session key")]
        what = ", ".join(plural(count, noun) for count, noun in parts if count)
        state = "" if entry.is_done else "  unfinished: run `mdrecall forget` for it again"
        kept = f"  in the trash until {entry.kept_until}" if entry.kept_until else ""
        print(f"{entry.id}  {entry.at}  {what}{kept}{state}")
    if not entries and not options.json:
        print("Nothing was forgotten.")
    return {"agentId": agent, "forgotten": [entry._asdict() for entry in entries]}


def _undo(options: argparse.Namespace, agent: str) -> dict[str, Any]:
    with open_memory(options, agent) as memory, progress_line("Indexing") as progress:
        try:
            restored = open_forgetting(memory).undo(options.undo, progress)
        except QueryError as error:
            raise RecallError(str(error), hint="Run `mdrecall forget --list` to see the ids.") from error
    for path, how in (restored or {}).items() if not options.json else ():
        print(f"{printable(path)}: {'restored' if how == 'restored' else 'the lines were added at its end'}.")
    if restored is None and not options.json:
        print("Nothing was kept of the text, but it may be indexed again from now on.")
    return {"agentId": agent, "undone": options.undo, "restored": restored}
