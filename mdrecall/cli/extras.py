"""Commands of optional databases: ``ltm`` for the memories in LanceDB, ``store`` for an index on Postgres."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings, parse_count, parse_fraction, parse_positive
from mdrecall.cli.output import confirm, plural, print_json, printable, shorten_home, style
from mdrecall.errors import ConfirmationMissing, QueryError, RecallError

if TYPE_CHECKING:
    from mdrecall.plugins.lancedb.memories import LongTermMemory
    from mdrecall.plugins.lancedb.table import Row
    from mdrecall.store.postgres import PostgresStore

#: The actions that each option works with.
_LTM_ACTIONS = {
    "limit": "list search", "offset": "list", "all_agents": "list", "yes": "forget", "category": "store",
    "importance": "store", "ttl": "store", "replaces": "store", "words": "search forget store",
}  # fmt: skip
#: Memories printed without --limit: a listing that still fits on a few screens, and the best few matches.
_DEFAULT_LISTED = 50
_DEFAULT_MATCHES = 5


def add_ltm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "search", "stats", "store", "forget", "reembed"),
        help="list: newest first; search: by meaning; stats: count them; store: save a text; forget: delete one by its"
        " id or the start of it; reembed: embed all again after a change of the embedding provider",
    )
    parser.add_argument(
        "words", nargs="*", default=[], metavar="TEXT", help="search: the question; store: the text; forget: the id"
    )
    parser.add_argument("--limit", type=parse_positive, metavar="N", help="list, search: print at most N")
    parser.add_argument("--offset", type=parse_count, metavar="N", help="list: skip the first N")
    parser.add_argument("--all-agents", action="store_true", help="list: include the memories of every agent")
    parser.add_argument("--category", help="store: preference, fact, decision, entity or other")
    parser.add_argument("--importance", type=parse_fraction, metavar="S", help="store: how important it is, 0 to 1")
    parser.add_argument("--ttl", metavar="TIME", help="store: forget it after this time, such as 12h or 30d")
    parser.add_argument("--replaces", metavar="ID", help="store: the id of the memory that this text replaces")
    parser.add_argument("-y", "--yes", action="store_true", help="forget: delete without asking")
    add_common(parser)


def run_ltm(options: argparse.Namespace) -> int:
    from mdrecall.plugins.lancedb.plugin import open_memories

    _check_ltm_options(options)
    memories = open_memories(load_settings(options))
    actions = {
        "list": _list_memories,
        "search": _search_memories,
        "stats": _stats,
        "store": _store_memory,
        "forget": _forget_memory,
    }
    try:
        return actions.get(options.action, _reembed)(memories, options)
    finally:
        memories.close()


def _check_ltm_options(options: argparse.Namespace) -> None:
    for name, actions in _LTM_ACTIONS.items():
        is_set = getattr(options, name) not in (None, False, [])
        if is_set and options.action not in actions.split():
            option = "A text" if name == "words" else "--" + name.replace("_", "-")
            raise RecallError(
                f"{option} does not work with `ltm {options.action}`.",
                hint=f"It works with {actions.replace(' ', ', ')}.",
            )
    if options.action in _LTM_ACTIONS["words"].split() and not _join_words(options):
        hints = {"search": "Say what to search for.", "store": "Say what to store."}
        hint = hints.get(options.action, "Give an id from `mdrecall ltm list`.")
        raise QueryError(f"`ltm {options.action}` needs a text.", hint=hint)


def _list_memories(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    rows = memories.list_all(all_agents=options.all_agents)
    first = options.offset or 0
    shown = rows[first : first + (options.limit or _DEFAULT_LISTED)]
    if options.json:
        print_json({"total": len(rows), "offset": first, "memories": [_memory_to_json(row) for row in shown]})
    for row in shown if not options.json else ():
        _print_memory(row)
    left = len(rows) - first - len(shown)
    if left > 0 and not options.json:
        print(f"{left:,} more. Continue with --offset {first + len(shown)}.", file=sys.stderr)
    if not rows:
        print("There are no memories yet.", file=sys.stderr)
    elif not shown:
        print(f"There are only {plural(len(rows), 'memory', 'memories')}.", file=sys.stderr)
    return 0 if shown else 1


def _search_memories(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    found, unsearched = memories.recall(_join_words(options), options.limit or _DEFAULT_MATCHES)
    if options.json:
        print_json([_memory_to_json(one.row) | {"score": round(one.score, 4)} for one in found])
    for one in found if not options.json else ():
        _print_memory(one.row, f"{one.score:.2f}")
    if not found:
        print("No memory matches.", file=sys.stderr)
    if unsearched:
        skipped = plural(unsearched, "memory", "memories")
        reason = "not searched, because another embedder made the vectors"
        print(f"{skipped} {reason}. Run `mdrecall ltm reembed`.", file=sys.stderr)
    return 0 if found else 1


def _stats(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    counts = memories.counts()
    embedder = memories.unprepared_embedder
    record: dict[str, Any] = {
        "path": memories.table.uri,
        "total": counts.total,
        "categories": counts.by_category,
        "expired": counts.expired,
        "otherAgents": counts.others,
        "notSearched": counts.unsearched,
        "provider": embedder.provider,
        "model": embedder.model,
        "dimensions": memories.table.dimensions(),
    }
    if counts.total:
        record |= {"oldest": _format_time(counts.oldest_ms), "newest": _format_time(counts.newest_ms)}
    if options.json:
        print_json(record)
        return 0
    kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.by_category.items()))
    print(f"{style(str(counts.total), 'bold')} in {shorten_home(memories.table.uri)}" + (f": {kinds}" if kinds else ""))
    print(f"Embeddings: {embedder.provider}, {embedder.model}. Memories of other agents: {counts.others:,}.")
    if counts.total:
        print(f"From {record['oldest']} to {record['newest']}. Expired: {counts.expired:,}.")
    if counts.unsearched:
        print(f"{counts.unsearched:,} have vectors of another embedder. Run `mdrecall ltm reembed`.")
    return 0


def _store_memory(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    from mdrecall.plugins.lancedb.tools import MemoryStore

    values = {name: getattr(options, name) for name in ("category", "importance", "ttl", "replaces")}
    arguments = {name: value for name, value in values.items() if value is not None}
    answer = MemoryStore(memories, source="cli").call({"text": _join_words(options), **arguments})
    if options.json:
        print_json(answer.details)
    else:
        for line in answer.text.split("\n"):
            print(printable(line))
    return 0


def _forget_memory(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    prefix = _join_words(options)
    rows = memories.find_by_prefix(prefix)
    if not rows:
        raise QueryError(f"No memory has the id {prefix}.", hint="Run `mdrecall ltm list` to see the ids.")
    if len(rows) > 1:
        raise QueryError(f"Several memories have ids that start with {prefix}.", hint="Give more of the id.")
    row = rows[0]
    if not options.json:
        _print_memory(row)
    refusal = ConfirmationMissing(
        "Nothing was deleted: there is no terminal to confirm on.", hint="Add --yes to delete without asking."
    )
    is_deleted = options.yes or confirm("Delete it?", refusal, as_json=options.json)
    if is_deleted:
        memories.forget(row.id)
    if options.json:
        print_json({"deleted": is_deleted, **_memory_to_json(row)})
    else:
        print("Deleted." if is_deleted else "Nothing was deleted.")
    return 0


def _reembed(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    count = memories.reembed()
    embedder = memories.unprepared_embedder
    if options.json:
        print_json({"embedded": count, "provider": embedder.provider, "model": embedder.model})
    else:
        print(f"{plural(count, 'memory', 'memories')} embedded again with {embedder.provider}, {embedder.model}.")
    return 0


def _join_words(options: argparse.Namespace) -> str:
    return " ".join(options.words).strip()


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


def _print_memory(row: "Row", score: str = "") -> None:
    until = f"  until {_format_time(row.expires_ms)}" if row.expires_ms else ""
    head = f"{row.id}  {_format_time(row.updated_ms or row.created_ms)}  {printable(row.category)}{until}"
    print(style(f"{score}  {head}" if score else head, "dim"))
    for line in row.text.split("\n"):
        print(f"  {printable(line)}")


def _format_time(moment_ms: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"


_STORE_ACTIONS = {
    "setup": "create the tables",
    "grant": "let a role use this memory",
    "check": "check the tables, the counts and the role",
    "move": "say that the notes are in this folder from now on",
    "drop": "delete this memory's rows; notes are kept",
}


def add_store(parser: argparse.ArgumentParser) -> None:
    about = "; ".join(f"{name}: {what}" for name, what in _STORE_ACTIONS.items())
    parser.add_argument("action", choices=tuple(_STORE_ACTIONS), help=about)
    parser.add_argument("role", nargs="?", metavar="ROLE", help="grant: the role of the database")
    parser.add_argument("--read-only", action="store_true", help="grant: the role may search, but not index")
    parser.add_argument("--all", action="store_true", help="grant: every memory in the database, not only this one")
    parser.add_argument("-y", "--yes", action="store_true", help="drop: delete without asking")
    add_common(parser)


def run_store(options: argparse.Namespace) -> int:
    from mdrecall.backends.open import open_postgres

    if options.action == "grant" and not options.role:
        raise QueryError("Which role?", hint="Run `mdrecall store grant ROLE`.")
    store = open_postgres(load_settings(options), one_shot=True)
    try:
        record = _ACT[options.action](options, store)
    finally:
        store.admin.close()
    if options.json:
        print_json(record)
    return 1 if record.get("problems") else 0


def _set_up(options: argparse.Namespace, store: "PostgresStore") -> dict[str, Any]:
    store.admin.set_up()
    _say(options, f"The tables are there: {store.admin.place}.")
    return {"place": store.admin.place}


def _grant(options: argparse.Namespace, store: "PostgresStore") -> dict[str, Any]:
    store.admin.grant(options.role, any_workspace=options.all, read_only=options.read_only)
    rights = "search" if options.read_only else "search and index"
    what = "every memory in the database" if options.all else store.admin.place
    _say(options, f"{options.role} may {rights}: {what}.")
    return {"place": store.admin.place, "role": options.role, "readOnly": options.read_only, "all": options.all}


def _check_store(options: argparse.Namespace, store: "PostgresStore") -> dict[str, Any]:
    problems = list(store.admin.check())
    if bypass := store.admin.explain_bypass():
        problems.append(f"the role of this connection {bypass}, so that nothing keeps it from the rows of others")
    place = store.admin.notes_place()
    for problem in problems:
        _say(options, f"Problem: {problem}.")
    if not problems:
        _say(options, f"All is well: {store.admin.place}.")
    _say(options, f"Its notes are at {place}." if place else "Nobody has indexed notes yet.")
    return {"place": store.admin.place, "notes": place, "problems": problems}


def _move(options: argparse.Namespace, store: "PostgresStore") -> dict[str, Any]:
    before, after = store.admin.notes_place(), store.admin.move_here()
    _say(options, f"The notes are at {after} from now on{f', not at {before}' if before not in ('', after) else ''}.")
    return {"place": store.admin.place, "notes": after, "before": before}


def _drop(options: argparse.Namespace, store: "PostgresStore") -> dict[str, Any]:
    refusal = ConfirmationMissing(
        "Nothing was deleted: there is no terminal to confirm on.", hint="Add --yes to delete without asking."
    )
    _say(options, f"This deletes all rows of {store.admin.place}. Notes are not touched.")
    is_dropped = options.yes or confirm("Delete them?", refusal, as_json=options.json)
    if is_dropped:
        store.admin.destroy()
        _say(options, "Deleted.")
    return {"place": store.admin.place, "deleted": is_dropped}


_ACT = {"setup": _set_up, "grant": _grant, "check": _check_store, "move": _move, "drop": _drop}


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.json:
        print(printable(text))
