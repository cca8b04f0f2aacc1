"""``mdrecall store``: set up, share and check the index on Postgres."""

import argparse
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common, load_settings
from mdrecall.cli.output import confirm, print_json, printable
from mdrecall.errors import ConfirmationMissing, QueryError

if TYPE_CHECKING:
    from mdrecall.store.postgres import PostgresStore

_ACTIONS = {
    "setup": "create the tables",
    "grant": "let a role use this memory",
    "check": "check the tables, the counts and the role",
    "move": "say that the notes are in this folder from now on",
    "drop": "delete this memory's rows; notes are kept",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "; ".join(f"{name}: {what}" for name, what in _ACTIONS.items())
    parser.add_argument("action", choices=tuple(_ACTIONS), help=about)
    parser.add_argument("role", nargs="?", metavar="ROLE", help="grant: the role of the database")
    parser.add_argument("--read-only", action="store_true", help="grant: the role may search, but not index")
    parser.add_argument("--all", action="store_true", help="grant: every memory in the database, not only this one")
    parser.add_argument("-y", "--yes", action="store_true", help="drop: delete without asking")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
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


def _check(options: argparse.Namespace, store: "PostgresStore") -> dict[str, Any]:
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


_ACT = {"setup": _set_up, "grant": _grant, "check": _check, "move": _move, "drop": _drop}


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.json:
        print(printable(text))
