"""``mdrecall language``: list, add or remove languages of the offline embedding table."""

import argparse
from typing import TYPE_CHECKING, Any

from mdrecall.cli.options import add_common
from mdrecall.cli.output import print_json, printable, style

if TYPE_CHECKING:
    from mdrecall.embed.offline.word_file import Card


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("list", "add", "remove"),
        help="list: list the languages that the offline table reads; add: add one from a dictionary; remove: remove one"
        " that was added",
    )
    parser.add_argument("code", nargs="?", metavar="CODE", help="add, remove: the code of the language, such as ko")
    about = "add: lines of a word, a tab, and English translations separated by ;"
    parser.add_argument("file", nargs="?", metavar="FILE", help=about)
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    from mdrecall.backends.embedders import languages_dir_of
    from mdrecall.config.load import load
    from mdrecall.errors import QueryError

    if options.action != "list" and not (options.code and (options.file or options.action == "remove")):
        raise QueryError("Which language?", hint="Run `mdrecall language add CODE FILE`, or `remove CODE`.")
    loaded = load(workspace=options.workspace, agent=options.agent, config=options.config)
    folder = languages_dir_of(loaded)
    actions = {"list": _list, "add": _add, "remove": _remove}
    return actions[options.action](options, folder)


def _list(options: argparse.Namespace, folder: str) -> int:
    from mdrecall.embed.offline import OfflineEmbedder
    from mdrecall.embed.offline.languages import added_files

    added = {file.card.language for file in added_files(folder)}
    cards = sorted(OfflineEmbedder(folder).language_cards(), key=lambda card: card.language)
    if options.json:
        print_json([_to_json(card, is_added=card.language in added) for card in cards])
        return 0
    print(f"{style('en', 'bold')}  English     the table itself")
    for card in cards:
        origin = "added" if card.language in added else "included"
        print(f"{style(f'{card.language:3}', 'bold')} {printable(card.name):11} {card.words:>7,} words  {origin:8}  "
              f"{printable(card.licence)}")  # fmt: skip
    return 0


def _add(options: argparse.Namespace, folder: str) -> int:
    from mdrecall.embed.offline import OfflineEmbedder
    from mdrecall.embed.offline.added import add_language

    card = add_language(options.file, options.code, folder, OfflineEmbedder().gloss_table())
    if options.json:
        print_json(_to_json(card, is_added=True))
    else:
        print(f"Added {printable(card.name)}: {card.words:,} words. Notes are embedded again at the next search.")
    return 0


def _remove(options: argparse.Namespace, folder: str) -> int:
    from mdrecall.embed.offline.added import remove_language
    from mdrecall.errors import ArgumentError

    if not remove_language(options.code, folder):
        hint = "`mdrecall language list` shows the languages; only added ones can be removed."
        raise ArgumentError(f"No language {options.code!r} was added.", name="code", hint=hint)
    if options.json:
        print_json({"language": options.code, "removed": True})
    else:
        print(f"Removed {options.code}. Notes are embedded again at the next search.")
    return 0


def _to_json(card: "Card", *, is_added: bool) -> dict[str, Any]:
    return {
        "language": card.language,
        "name": card.name,
        "script": card.script,
        "words": card.words,
        "added": is_added,
        "source": card.source,
        "licence": card.licence,
    }
