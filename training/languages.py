"""Make the word files: ``python -m training.languages --packages DIR --out mdrecall/embed/offline/words [--only zh]``.

The packages are fetched with the package managers' own commands and kept in ``--packages``. The same packages give the
same files. Needs ``numpy`` and ``msgpack``.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from mdrecall.embed.offline.embedder import OfflineEmbedder
from mdrecall.embed.offline.glosses import Entry, make_word_file
from mdrecall.embed.offline.word_file import Card, read_card
from training.dictionaries import is_hiragana, listed, read_cedict, read_edict, read_frequencies

CEDICT_SOURCE = "CC-CEDICT, published by MDBG, https://www.mdbg.net/chinese/dictionary?page=cc-cedict; wordfreq"
EDICT_SOURCE = "EDICT by the Electronic Dictionary Research and Development Group, https://www.edrdg.org; wordfreq"
BY_SA_4 = "CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/"

# More words answered no more questions across languages (80,000: recall@5 .909, all 191,000: .908), and a file must
# stay small; Japanese gains from more, because each verb also needs its stems.
_MOST_CHINESE = 100_000
_MOST_JAPANESE = 140_000
# Longer entries are sayings and names of institutions, which a cut into words serves better.
_LONGEST_CHINESE = 6
_LONGEST_JAPANESE = 8
# Hiragana words of at most two characters that are at least this frequent are particles and endings.
_PARTICLE_CHARS = 2
_PARTICLE_FREQUENCY = 5.3


def chinese(packages: Path) -> tuple[Card, list[Entry]]:
    glosses, simplified = read_cedict(packages)
    frequency = listed(read_frequencies("zh", packages), lambda word: simplified.get(word, word))
    entries = [
        Entry(word, found, frequency(word))
        for word, found in glosses.items()
        if found and len(word) <= _LONGEST_CHINESE and _is_in("\u3400", "\u9fff", word)
    ]
    card = Card("zh", "Chinese", "han", 0, 0, "", CEDICT_SOURCE, BY_SA_4)
    return card, most_frequent(entries, _MOST_CHINESE)


def japanese(packages: Path) -> tuple[Card, list[Entry]]:
    glosses, stems = read_edict(packages)
    frequencies = read_frequencies("ja", packages)
    frequency = listed(frequencies)
    entries = []
    for word, base in [*((word, word) for word in glosses), *stems.items()]:
        known = max(frequency(word), frequency(base) - (word != base) * 0.3)
        if len(word) <= _LONGEST_JAPANESE and _is_in("\u3005", "\u9fff", word):
            is_particle = is_hiragana(word) and len(word) <= _PARTICLE_CHARS and known >= _PARTICLE_FREQUENCY
            entries.append(Entry(word, [] if is_particle or len(word) == 1 > is_kanji(word) else glosses[base], known))
    listed_words = {entry.word for entry in entries}
    particles = [Entry(word, [], known) for word, known in frequencies.items()
                 if is_hiragana(word) and known >= _PARTICLE_FREQUENCY and word not in listed_words]  # fmt: skip
    card = Card("ja", "Japanese", "kana", 0, 0, "", EDICT_SOURCE, BY_SA_4)
    return card, most_frequent([*entries, *particles], _MOST_JAPANESE)


def is_kanji(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff"


def _is_in(first: str, last: str, word: str) -> bool:
    return all(first <= char <= last for char in word)


def most_frequent(entries: Iterable[Entry], most: int) -> list[Entry]:
    return sorted(entries, key=lambda entry: (-entry.frequency, entry.word))[:most]


MAKERS: dict[str, Callable[[Path], tuple[Card, list[Entry]]]] = {"zh": chinese, "ja": japanese}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.languages", description=__doc__)
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR", help="keeps the downloaded packages")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    parser.add_argument("--only", action="append", choices=sorted(MAKERS), help="only this language (may be repeated)")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    options.packages.mkdir(parents=True, exist_ok=True)
    table = OfflineEmbedder().gloss_table()
    for language in options.only or MAKERS:
        card, entries = MAKERS[language](options.packages)
        data = make_word_file(entries, table, card)
        (options.out / f"{language}.words").write_bytes(data)
        print(language, read_card(data, language).count, "words,", len(data), "bytes")
    cards = {path.stem: read_card(path.read_bytes(), str(path)).digest for path in sorted(options.out.glob("*.words"))}
    (options.out / "digests.json").write_text(json.dumps(cards, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
