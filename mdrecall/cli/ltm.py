"""``mdrecall ltm``: the long-term memory of the plugin memory-lancedb, for a person to look into and to mend."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, count, share, whole_number
from mdrecall.cli.output import counted, home_short, print_json, printable, style
from mdrecall.errors import ConfirmationMissing, QueryError, RecallError

if TYPE_CHECKING:
    from mdrecall.plugins.lancedb.memories import LongTermMemory
    from mdrecall.plugins.lancedb.table import Row

#: The options that belong to some actions only.
_ONLY = {
    "limit": "list search", "offset": "list", "all_agents": "list", "yes": "forget", "category": "store",
    "importance": "store", "ttl": "store", "replaces": "store", "words": "search forget store",
}  # fmt: skip
_USUAL_LISTED = 50
_USUAL_FOUND = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "search", "stats", "store", "forget", "reembed"),
        help="list: the newest first; search: by meaning; stats: how many there are; store: keep a text; forget: delete"
        " one by its id, or the beginning of it; reembed: make all vectors anew after another embedder was chosen",
    )
    parser.add_argument(
        "words", nargs="*", metavar="TEXT", help="search: the question; store: the text; forget: the id"
    )
    parser.add_argument("--limit", type=whole_number, metavar="N", help="list, search: at most this many")
    parser.add_argument("--offset", type=count, metavar="N", help="list: leave out the first ones")
    parser.add_argument("--all-agents", action="store_true", help="list: those of every agent")
    parser.add_argument("--category", help="store: preference, fact, decision, entity or other")
    parser.add_argument("--importance", type=share, metavar="S", help="store: 0 to 1")
    parser.add_argument("--ttl", metavar="TIME", help="store: how long it holds, such as 12h or 30d")
    parser.add_argument("--replaces", metavar="ID", help="store: the memory that this is the new text of")
    parser.add_argument("-y", "--yes", action="store_true", help="forget: do not ask")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.config.load import load
    from mdrecall.plugins.lancedb.plugin import open_memories

    _refuse_what_does_not_belong(options)
    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    memories = open_memories(loaded)
    actions = {"list": _list, "search": _search, "stats": _stats, "store": _store, "forget": _forget}
    try:
        return actions.get(options.action, _reembed)(memories, options)
    finally:
        memories.close()


def _refuse_what_does_not_belong(options: argparse.Namespace) -> None:
    for name, actions in _ONLY.items():
        given = getattr(options, name) not in (None, False, [])
        if given and options.action not in actions.split():
            option = "A text" if name == "words" else "--" + name.replace("_", "-")
            raise RecallError(
                f"{option} is not for `ltm {options.action}`.", hint=f"It is for {actions.replace(' ', ', ')}."
            )
    if options.action in _ONLY["words"].split() and not _text(options):
        hint = {"search": "Ask something.", "store": "Say what to keep."}.get(
            options.action, "Name an id of `ltm list`."
        )
        raise QueryError(f"`ltm {options.action}` needs a text.", hint=hint)


def _list(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    rows = memories.list_all(all_agents=options.all_agents)
    first = options.offset or 0
    shown = rows[first : first + (options.limit or _USUAL_LISTED)]
    if options.json:
        print_json({"total": len(rows), "offset": first, "memories": [_record(row) for row in shown]})
    for row in shown if not options.json else ():
        _show(row)
    left = len(rows) - first - len(shown)
    if left > 0 and not options.json:
        print(f"{left:,} more; go on with --offset {first + len(shown)}.", file=sys.stderr)
    if not rows:
        print("There are no memories yet.", file=sys.stderr)
    elif not shown:
        print(f"There are only {counted(len(rows), 'memory', 'memories')}.", file=sys.stderr)
    return 0 if shown else 1


def _search(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    recalled = memories.recall(_text(options), options.limit or _USUAL_FOUND)
    if options.json:
        print_json([_record(one.row) | {"score": round(one.score, 4)} for one in recalled.found])
    for one in recalled.found if not options.json else ():
        _show(one.row, f"{one.score:.2f}")
    if not recalled.found:
        print("No memory is close to that.", file=sys.stderr)
    if recalled.unsearched:
        said = (
            f"{counted(recalled.unsearched, 'row')} with vectors of another embedder not searched: mdrecall ltm reembed"
        )
        print(said, file=sys.stderr)
    return 0 if recalled.found else 1


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
        record |= {"oldest": _day(counts.oldest_ms), "newest": _day(counts.newest_ms)}
    if options.json:
        print_json(record)
        return 0
    kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.by_category.items()))
    print(f"{style(str(counts.total), 'bold')} in {home_short(memories.table.uri)}" + (f": {kinds}" if kinds else ""))
    print(f"Embedded by {embedder.provider}, {embedder.model}; {counts.others:,} of other agents.")
    if counts.total:
        print(f"From {record['oldest']} to {record['newest']}; {counts.expired:,} expired.")
    if counts.unsearched:
        print(f"{counts.unsearched:,} have vectors of another embedder: run `mdrecall ltm reembed`.")
    return 0


def _store(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    from mdrecall.plugins.lancedb.tools import MemoryStore

    given = {name: getattr(options, name) for name in ("category", "importance", "ttl", "replaces")}
    arguments = {name: value for name, value in given.items() if value is not None}
    answer = MemoryStore(memories, source="cli").call({"text": _text(options), **arguments})
    if options.json:
        print_json(answer.details)
    else:
        for line in answer.text.split("\n"):
            print(printable(line))
    return 0


def _forget(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    wanted = _text(options)
    found = memories.find_by_prefix(wanted)
    if not found:
        raise QueryError(f"No memory has the id {wanted}.", hint="`mdrecall ltm list` shows the ids.")
    if len(found) > 1:
        raise QueryError(f"Several memories have ids that begin with {wanted}.", hint="Give more of the id.")
    row = found[0]
    if not options.json:
        _show(row)
    gone = options.yes or _agreed(as_json=options.json)
    if gone:
        memories.forget(row.id)
    if options.json:
        print_json({"deleted": gone, **_record(row)})
    else:
        print("Forgotten." if gone else "Nothing was forgotten.")
    return 0


def _reembed(memories: "LongTermMemory", options: argparse.Namespace) -> int:
    count = memories.reembed()
    embedder = memories.unprepared_embedder
    if options.json:
        print_json({"embedded": count, "provider": embedder.provider, "model": embedder.model})
    else:
        print(f"{counted(count, 'vector')} made anew with {embedder.provider}, {embedder.model}.")
    return 0


def _agreed(*, as_json: bool) -> bool:
    if as_json or not (sys.stdin and sys.stdin.isatty()):
        raise ConfirmationMissing("Nothing was forgotten: nobody is there to be asked.", hint="Add --yes to forget.")
    try:
        return input("Forget it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _text(options: argparse.Namespace) -> str:
    return " ".join(options.words).strip()


def _record(row: "Row") -> dict[str, Any]:
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


def _show(row: "Row", score: str = "") -> None:
    until = f"  until {_day(row.expires_ms)}" if row.expires_ms else ""
    head = f"{row.id}  {_day(row.updated_ms or row.created_ms)}  {printable(row.category)}{until}"
    print(style(f"{score}  {head}" if score else head, "dim"))
    for line in row.text.split("\n"):
        print(f"  {printable(line)}")


def _day(moment_ms: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return "an unknown day"
