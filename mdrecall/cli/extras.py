"""Commands of optional databases: ``ltm`` for the memories in LanceDB, ``store`` for an index on Postgres."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import CommandParser, add_common, check_actions, load_settings, parse_count
from mdrecall.cli.output import confirm_deletion, plural, printable, shorten_home, show, style
from mdrecall.errors import QueryError

if TYPE_CHECKING:
    from mdrecall.extras.lancedb.memories import LongTermMemory
    from mdrecall.extras.lancedb.table import Row
    from mdrecall.extras.postgres import PostgresStore

_TEXT_HINTS = {
    "search": "Say what to search for.",
    "store": "Say what to store.",
    "forget": "Give an id from `mdrecall ltm list`.",
}
#: Memories printed without --limit: a listing that still fits on a few screens, and the best few matches.
_DEFAULT_LISTED = 50
_DEFAULT_MATCHES = 5
_STORE_ACTIONS = {
    "check": "check the tables, the counts and the role",
    "setup": "create the tables",
    "grant": "let a role use this memory",
    "move": "say that the notes are in this folder from now on",
    "drop": "delete this memory's rows; notes are kept",
}


def add_ltm(parser: CommandParser) -> None:
    about = "list: newest first; search: by meaning; stats: count them; store: save a text; forget: delete one by its"
    about += " id or the start of it; reembed: embed all again after a change of the embedding provider"
    parser.action(about, "list", "search", "stats", "store", "forget", "reembed")
    parser.value("words", "TEXT", "search: the question; store: the text; forget: the id", nargs="*", default=[])
    parser.value("--limit", "N", "print at most N", only="list search")
    parser.value("--offset", "N", "skip the first N", only="list", type=parse_count)
    parser.flag("--all-agents", "include the memories of every agent", only="list")
    parser.value("--category", "", "preference, fact, decision, entity or other", only="store")
    parser.value("--importance", "S", "0 to 1", only="store")
    parser.value("--ttl", "TIME", "when it expires, such as 12h or 30d", only="store")
    parser.value("--replaces", "ID", "the id that this text replaces", only="store")
    parser.flag("-y --yes", "delete without asking", only="forget")
    parser.actions_of["words"] = " ".join(_TEXT_HINTS)
    add_common(parser)


def run_ltm(options: argparse.Namespace) -> int:
    from mdrecall.extras.lancedb.plugin import open_memories

    check_actions(options)
    options.text = " ".join(options.words).strip()
    if options.action in _TEXT_HINTS and not options.text:
        raise QueryError(f"`ltm {options.action}` needs a text.", hint=_TEXT_HINTS[options.action])
    actions = {"list": _list, "search": _search, "stats": _count, "store": _save, "forget": _forget}
    memories = open_memories(load_settings(options))
    try:
        return actions.get(options.action, _reembed)(memories, options)
    finally:
        memories.close()


def _list(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    rows = memories.list_all(all_agents=options.all_agents)
    first = options.offset or 0
    shown = rows[first : first + (options.limit or _DEFAULT_LISTED)]
    record = {"total": len(rows), "offset": first, "memories": [_memory_to_json(row) for row in shown]}
    left = len(rows) - first - len(shown)
    more = f"{left:,} more. Continue with --offset {first + len(shown)}." if left > 0 else ""
    show(options, record, *map(_format_memory, shown), notes=[more])
    if not shown:
        only = f"There are only {plural(len(rows), 'memory', 'memories')}."
        print(only if rows else "There are no memories yet.", file=sys.stderr)
    return 0 if shown else 1


def _search(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    found, unsearched = memories.recall(options.text, options.limit or _DEFAULT_MATCHES)
    record = [_memory_to_json(one.row) | {"score": round(one.score, 4)} for one in found]
    show(options, record, *(_format_memory(one.row, f"{one.score:.2f}") for one in found))
    if not found:
        print("No memory matches.", file=sys.stderr)
    if unsearched:
        skipped = plural(unsearched, "memory", "memories")
        reason = "not searched, because another embedder made the vectors"
        print(f"{skipped} {reason}. Run `mdrecall ltm reembed`.", file=sys.stderr)
    return 0 if found else 1


def _count(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    counts, uri, embedder = memories.counts(), memories.table.uri, memories.unprepared_embedder
    about = {"provider": embedder.provider, "model": embedder.model, "dimensions": memories.table.dimensions()}
    record: dict[str, Any] = {"path": uri, **counts, **about}
    span = ""
    if times := [row.created_ms for row in memories.list_all()]:
        record |= {"oldest": _format_time(min(times)), "newest": _format_time(max(times))}
        span = f"From {record['oldest']} to {record['newest']}. Expired: {counts['expired']:,}."
    kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(counts["categories"].items()))
    unsearched = f"{counts['notSearched']:,} have vectors of another embedder. Run `mdrecall ltm reembed`."
    return show(
        options,
        record,
        f"{style(str(counts['total']), 'bold')} in {shorten_home(uri)}" + (f": {kinds}" if kinds else ""),
        f"Embeddings: {embedder.provider}, {embedder.model}. Memories of other agents: {counts['otherAgents']:,}.",
        span,
        unsearched if counts["notSearched"] else "",
    )


def _save(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    from mdrecall.extras.lancedb.tools import store_memory

    values = {name: getattr(options, name) for name in ("category", "importance", "ttl", "replaces")}
    arguments = {name: value for name, value in values.items() if value is not None}
    answer = store_memory(memories, {"text": options.text, **arguments}, "cli")
    return show(options, answer.details, *map(printable, answer.text.split("\n")))


def _forget(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    rows = memories.find_by_prefix(options.text)
    if not rows:
        raise QueryError(f"No memory has the id {options.text}.", hint="Run `mdrecall ltm list` to see the ids.")
    if len(rows) > 1:
        raise QueryError(f"Several memories have ids that start with {options.text}.", hint="Give more of the id.")
    if not options.json:
        print(_format_memory(rows[0]))
    is_deleted = confirm_deletion("Delete it?", options)
    if is_deleted:
        memories.forget(rows[0].id)
    record = {"deleted": is_deleted, **_memory_to_json(rows[0])}
    return show(options, record, "Deleted." if is_deleted else "Nothing was deleted.")


def _reembed(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    count = memories.reembed()
    embedder = memories.unprepared_embedder
    told = f"{plural(count, 'memory', 'memories')} embedded again with {embedder.provider}, {embedder.model}."
    return show(options, {"embedded": count, "provider": embedder.provider, "model": embedder.model}, told)


def _memory_to_json(row: "Row") -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": row.id,
        "text": row.text,
        "category": row.category,
        "importance": row.importance,
        "createdAt": round(row.created_ms),
        "agent": row.agent,
        "source": row.source,
        "updatedAt": round(row.updated_ms) if row.updated_ms else None,
        "expiresAt": round(row.expires_ms) if row.expires_ms else None,
    }
    return {name: value for name, value in record.items() if value is not None}


def _format_memory(row: "Row", score: str = "") -> str:
    until = f"  until {_format_time(row.expires_ms)}" if row.expires_ms else ""
    head = f"{row.id}  {_format_time(row.updated_ms or row.created_ms)}  {printable(row.category)}{until}"
    text = "".join(f"\n  {printable(line)}" for line in row.text.split("\n"))
    return style(f"{score}  {head}" if score else head, "dim") + text


def _format_time(moment_ms: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"


def add_store(parser: CommandParser) -> None:
    about = "; ".join(f"{name}: {what}" for name, what in _STORE_ACTIONS.items())
    parser.action(about, *_STORE_ACTIONS)
    parser.value("role", "ROLE", "grant: the role of the database", nargs="?")
    parser.flag("--read-only", "grant: the role may search, but not index")
    parser.flag("--all", "grant: every memory in the database")
    parser.flag("-y --yes", "drop: delete without asking")
    add_common(parser)


def run_store(options: argparse.Namespace) -> int:
    from mdrecall.engine.open import open_postgres

    if options.action == "grant" and not options.role:
        raise QueryError("Which role?", hint="Run `mdrecall store grant ROLE`.")
    store = open_postgres(load_settings(options))
    try:
        record, *lines = _act_on_store(options, store)
    finally:
        store.admin.close()
    return show(options, record, *map(printable, lines), code=1 if record.get("problems") else 0)


def _act_on_store(options: argparse.Namespace, store: "PostgresStore") -> tuple[Any, ...]:
    """Do what the action says, and return the record of it and what is said about it."""
    admin = store.admin
    record: dict[str, Any] = {"place": admin.place}
    match options.action:
        case "setup":
            admin.open()
            return record, f"The tables are there: {admin.place}."
        case "grant":
            admin.grant(options.role, any_workspace=options.all, read_only=options.read_only)
            rights = "search" if options.read_only else "search and index"
            what = "every memory in the database" if options.all else admin.place
            record |= {"role": options.role, "readOnly": options.read_only, "all": options.all}
            return record, f"{options.role} may {rights}: {what}."
        case "move":
            before, after = admin.notes_place(), admin.move_here()
            instead = f", not at {before}" if before not in ("", after) else ""
            return record | {"notes": after, "before": before}, f"The notes are at {after} from now on{instead}."
        case "drop":
            if not options.json:
                print(printable(f"This deletes all rows of {admin.place}. Notes are not touched."))
            is_dropped = confirm_deletion("Delete them?", options)
            if is_dropped:
                admin.destroy()
            return record | {"deleted": is_dropped}, "Deleted." if is_dropped else ""
    problems = list(admin.check())
    if bypass := admin.explain_bypass():
        problems.append(f"the role of this connection {bypass}, so that nothing keeps it from the rows of others")
    place = admin.notes_place()
    said = [f"Problem: {problem}." for problem in problems] or [f"All is well: {admin.place}."]
    where = f"Its notes are at {place}." if place else "Nobody has indexed notes yet."
    return record | {"notes": place, "problems": problems}, *said, where
