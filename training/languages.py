"""Make the word files: ``python -m training.languages --packages DIR --out mdrecall/embed/offline/words [--only zh]``.

The packages are fetched with the package managers' own commands and kept in ``--packages``. The same packages give the
same files; ``--check`` makes them again and compares them with the included ones. Needs ``numpy`` and ``msgpack``.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from mdrecall.embed.offline import OfflineEmbedder, embedder
from mdrecall.embed.offline.word_file import COST_STEP, Card, WordFile, read_card
from mdrecall.embed.offline.word_vectors import read_columns, read_records
from mdrecall.text.words import fold
from training.corpus import Unavailable
from training.dictionaries import (
    UNLISTED,
    Glosses,
    is_hiragana,
    listed,
    read_cedict,
    read_edict,
    read_frequencies,
)
from training.glosses import Entry, Table, make_word_file
from training.pivots import read_glosses, single_words

INCLUDED = Path(embedder.__file__).parent / "words"
# All sources may be shared under this licence or a later version of their own (CC BY-SA 3.0), which this one is.
LICENCE = "CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/"
WORDFREQ_SOURCE = "; frequencies from wordfreq by Robyn Speer (CC BY-SA 4.0)"
CEDICT_SOURCE = "CC-CEDICT, published by MDBG, https://www.mdbg.net (CC BY-SA 4.0)" + WORDFREQ_SOURCE
EDICT_SOURCE = (
    "EDICT by the Electronic Dictionary Research and Development Group, https://www.edrdg.org (CC BY-SA 3.0)"
    + WORDFREQ_SOURCE
)

# More words answered no more questions across languages (80,000: recall@5 .909, all 191,000: .908), and a file must
# stay small; Japanese gains from more, because each verb also needs its stems.
_MOST_CHINESE = 80_000
_MOST_JAPANESE = 100_000
# Longer entries are sayings and names of institutions, which a cut into words serves better.
_LONGEST_CHINESE = 6
_LONGEST_JAPANESE = 8
# The frequency list counts the parts of long words, so words that the dictionary marks as common are at least this
# frequent: 証明書 (certificate) was missing among 110,000 words.
_COMMON_FREQUENCY = 3.0
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
    card = Card("zh", "Chinese", "han", 0, 0, "", CEDICT_SOURCE, LICENCE)
    return card, most_frequent(entries, _MOST_CHINESE)


def japanese(packages: Path) -> tuple[Card, list[Entry]]:
    glosses, stems, common = read_edict(packages)
    frequencies = read_frequencies("ja", packages)
    frequency = listed(frequencies)
    entries = []
    for word, base in [*((word, word) for word in glosses), *stems.items()]:
        known = max(frequency(word), frequency(base) - (word != base) * 0.3, (base in common) * _COMMON_FREQUENCY)
        if len(word) <= _LONGEST_JAPANESE and _is_in("\u3005", "\u9fff", word):
            is_particle = is_hiragana(word) and len(word) <= _PARTICLE_CHARS and known >= _PARTICLE_FREQUENCY
            entries.append(Entry(word, [] if is_particle or len(word) == 1 > is_kanji(word) else glosses[base], known))
    listed_words = {entry.word for entry in entries}
    particles = [Entry(word, [], known) for word, known in frequencies.items()
                 if is_hiragana(word) and known >= _PARTICLE_FREQUENCY and word not in listed_words]  # fmt: skip
    card = Card("ja", "Japanese", "kana", 0, 0, "", EDICT_SOURCE, LICENCE)
    return card, most_frequent([*entries, *particles], _MOST_JAPANESE)


# --- languages with spaces

#: Code, WikDict's code, name, script, and whether words are joined without a space.
SPACED = {
    "de": ("deu", "German", "latin", True),
    "fr": ("fra", "French", "latin", False),
    "es": ("spa", "Spanish", "latin", False),
    "it": ("ita", "Italian", "latin", False),
    "pt": ("por", "Portuguese", "latin", False),
    "ru": ("rus", "Russian", "cyrillic", False),
}
WIKDICT_SOURCE = (
    "WikDict by Karl Bartel, from Wiktionary by way of DBnary, https://www.wikdict.com, packaged by FreeDict"
    " (CC BY-SA 3.0)" + WORDFREQ_SOURCE
)
# What the words of a language may end with besides the form in the dictionary, and what that form may end with.
ENDINGS = {
    "de": ("e en er es em n s t st te ten tet est et end ende enden ern", " e en n er eln ern"),
    "fr": ("s x e es ee ees ent ait aient ais ons ez er ant era eront iez ir is it", " e er ir re"),
    "es": (
        "s es a o as os an en e ado ada ados ando iendo ar er ir aba aban aron io ieron era ara amos",
        " a o e ar er ir",
    ),
    "it": ("i e a o are ere ire ato ata ati ate ano ono ava avano ando endo ito uto era ara", " a o e are ere ire"),
    "pt": (
        "s es a o as os am em e ado ada ados ando endo ar er ir ava avam aram ou eu iu era ara amos",
        " a o e ar er ir",
    ),
    "ru": (
        "а я ы и у ю е о ом ем ои ам ям ами ах ов ев ь ии ия ие ию ым им ых их ого ую ая ое ые ет ит ут ют ла ли",
        " а я ь о е и ть ти ыи ии ои ать ить еть ия ие",
    ),
}
_MOST_SPACED = 28_000
_COMMON_WORDS = 60
# A word this much more frequent in a language than in English is not taken for English.
_CLEARLY = 0.3
# The most frequent words tell the language only if English hardly has them.
_COMMON_CLEARLY = 1.5
# Forms are looked for among so many of the most frequent words; their beginning must be this long.
_FREQUENT_FORMS = 60_000
_SHORTEST_BEGINNING = 3


def spaced(language: str, packages: Path) -> tuple[Card, list[Entry]]:
    source, name, script, compounds = SPACED[language]
    glosses = single_words(read_glosses(source, packages))
    english = fold_keys(read_frequencies("en", packages))
    frequencies = fold_keys(read_frequencies(language, packages))
    own = {word: known for word, known in frequencies.items() if known >= english.get(word, 0.0) + _CLEARLY}
    forms = sorted((word for word in own if word.isalpha()), key=lambda word: (-own[word], word))[:_FREQUENT_FORMS]
    bases = {word: word for word in glosses}
    for form in forms:
        if form not in glosses and (base := find_base(form, language, glosses, frequencies)):
            bases[form] = base
    common = [word for word in forms[:400] if frequencies[word] >= english.get(word, 0.0) + _COMMON_CLEARLY]
    entries = [
        Entry(word, [] if word in common[:_COMMON_WORDS] else glosses[base], frequencies.get(word, UNLISTED))
        for word, base in bases.items()
        if word in own or (word not in frequencies and word not in english)
    ]
    digest = " ".join(common[:_COMMON_WORDS])
    card = Card(language, name, script, 0, 0, "", WIKDICT_SOURCE, LICENCE, digest, compounds)
    return card, most_frequent(entries, _MOST_SPACED)


def find_base(form: str, language: str, glosses: Glosses, frequencies: dict[str, float]) -> str:
    """Return the word of the dictionary that a form belongs to: the one it shares most letters with."""
    of_form, of_base = ENDINGS[language]
    for ending in sorted(of_form.split(), key=len):
        if form.endswith(ending) and len(form) - len(ending) >= _SHORTEST_BEGINNING:
            beginnings = [form[: -len(ending)]]
            if language == "de" and beginnings[0].startswith("ge"):
                beginnings.append(beginnings[0][2:])
            found = [beginning + last for beginning in beginnings for last in of_base.split(" ")]
            if known := [word for word in found if word in glosses and len(word) > _SHORTEST_BEGINNING]:
                return max(known, key=lambda word: (frequencies.get(word, 0.0), word))
    return ""


def fold_keys(frequencies: dict[str, float]) -> dict[str, float]:
    """Return the frequencies of folded words; the most frequent of those that are equal then counts."""
    found: dict[str, float] = {}
    for word, known in frequencies.items():
        folded = fold(word)
        found[folded] = max(known, found.get(folded, 0.0))
    return found


def is_kanji(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff"


def _is_in(first: str, last: str, word: str) -> bool:
    return all(first <= char <= last for char in word)


def most_frequent(entries: Iterable[Entry], most: int) -> list[Entry]:
    return sorted(entries, key=lambda entry: (-entry.frequency, entry.word))[:most]


MAKERS: dict[str, Callable[[Path], tuple[Card, list[Entry]]]] = {
    "zh": chinese,
    "ja": japanese,
    **{language: partial(spaced, language) for language in SPACED},
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.languages", description=__doc__)
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR", help="keeps the downloaded packages")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, metavar="DIR", help="where the files go")
    where.add_argument("--check", action="store_true", help="compare them with the included files and keep nothing")
    parser.add_argument("--only", action="append", choices=sorted(MAKERS), help="only this language (may be repeated)")
    options = parser.parse_args(arguments)
    options.packages.mkdir(parents=True, exist_ok=True)
    languages = options.only or list(MAKERS)
    try:
        if options.out:
            make_files(languages, options.packages, options.out)
            return 0
        with tempfile.TemporaryDirectory() as folder:
            make_files(languages, options.packages, Path(folder))
            return compare(Path(folder), is_complete=not options.only)
    except Unavailable as error:
        print(f"{error}\nPut the file of that version into a folder of --packages, and try again.", file=sys.stderr)
        return 2


def make_files(languages: Iterable[str], packages: Path, out: Path) -> None:
    """Write the word files of some languages, and what is made from all that are in the folder."""
    out.mkdir(parents=True, exist_ok=True)
    table = Table(*OfflineEmbedder().gloss_table())
    for language in languages:
        card, entries = MAKERS[language](packages)
        data = make_word_file(entries, table, card)
        (out / f"{language}.words").write_bytes(data)
        print(language, read_card(data, language).words, "words,", len(data), "bytes")
    files = [WordFile(str(path)) for path in sorted(out.glob("*.words"))]
    cards = [file.card._asdict() for file in files]
    (out / "languages.json").write_text(json.dumps(cards, indent=2, ensure_ascii=False) + "\n")
    (out / "common.i8").write_bytes(find_common(files, table.rows))


def compare(made: Path, *, is_complete: bool) -> int:
    """Print which files equal the included ones byte for byte; return 1 if any does not.

    ``is_complete`` is false if some languages were left out, so that only word files can be compared.
    """
    differs = 0
    for path in sorted(made.iterdir()):
        if is_complete or path.suffix == ".words":
            is_same = (INCLUDED / path.name).read_bytes() == path.read_bytes()
            differs |= not is_same
            print(path.name, "is the same" if is_same else "differs")
    return differs


def find_common(files: Iterable[WordFile], rows: Any) -> bytes:
    """Return the direction that frequent words have in common as signed bytes: the mean word of all languages."""
    import numpy

    mean = numpy.zeros(rows.shape[1])
    for file in files:
        records = read_records(file)
        probability = numpy.exp(-COST_STEP * records[:, -1])
        weights = numpy.zeros(len(rows))
        for pieces, weight in read_columns(records):
            weights += numpy.bincount(pieces, weight * probability, len(rows))
        total = weights @ rows.astype(float)
        mean += total / numpy.linalg.norm(total)
    return bytes(numpy.rint(mean * (127 / abs(mean).max())).astype(numpy.int8).tobytes())


if __name__ == "__main__":
    sys.exit(main())
