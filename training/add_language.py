"""Make a language of your own: ``python -m training.add_language ko korean.tsv`` makes a word file from a dictionary.

It is written into the folder ``languages`` of mdrecall's own state folder, where the offline embedder finds it; delete
it there to remove the language. Notes are embedded again at the next search.

The dictionary has one word a line: the word, a tab, its English translations separated by semicolons, and, after
another tab, how frequent the word is (the decimal logarithm of its occurrences in 1,000 million words: 7 for "the", 5
for "dog", 3 for a rare word). Lines such as ``# name: Korean`` say more about the whole.
"""

import argparse
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from mdrecall.config.environment import find_locations
from mdrecall.embed.offline import OfflineEmbedder
from mdrecall.embed.offline.word_file import RECORD_BITS, Card, read_card
from mdrecall.errors import ArgumentError
from mdrecall.state_files import make_private_folder
from mdrecall.text.words import SCRIPT_PATTERNS, fold, script_share
from training.glosses import Entry, Table, make_word_file

# Dictionaries are smaller.
_MAX_BYTES = 64_000_000
# A word file can number as many.
_MAX_WORDS = 1 << RECORD_BITS
_MAX_WORD_CHARS = 40
# The frequency of a word if the file does not tell.
_USUAL_FREQUENCY = 3.5
_COMMON_WORDS = 60
_FEWEST_COMMON_WORDS = 10
_CODE = re.compile("[a-z]{2,3}")
_HEADER = re.compile(r"#\s*(name|source|licence|license|compounds|common)\s*:\s*(.*)", re.I)
# Which language is cut out of these scripts is decided by the characters, so no other language can have them.
_CUT = {"han": "zh", "kana": "ja"}


# Verbs and adjectives end with this in dictionaries.
_ENDING = "다"
_FIRST = 0xAC00
_VOWELS, _TAILS = 21, 28
_HIEUH = 18
# Vowels by their numbers: what the last vowel of a stem becomes before -어 (마시다, 마셨다).
_A, _AE, _EO, _YEO, _O, _WA, _U, _WO, _EU, _I = 0, 1, 4, 6, 8, 9, 13, 14, 18, 20
_CONTRACTED = {_I: (_YEO,), _O: (_WA,), _U: (_WO,), _EU: (_EO, _A)}
# Final consonants that endings put under a stem without one: -ㄴ, -ㄹ, -ㅂ니다, and -ㅆ다 of the past.
_JOINED = (4, 8, 17)
_PAST = 20


class Dictionary(NamedTuple):
    """A dictionary as it was read."""

    entries: list[Entry]
    header: dict[str, str]


def add_language(path: str, code: str, folder: str, table: Table) -> Card:
    """Make a word file from the dictionary at ``path``, replacing an older one; return its card."""
    if not _CODE.fullmatch(code):
        raise _refuse(f"{code!r} is not a language code.", "Use two or three letters, such as ko.")
    dictionary = read_dictionary(path)
    script = _find_script(dictionary, path, code)
    header = dictionary.header
    card = Card(
        code,
        header.get("name", code),
        script,
        0,
        0,
        "",
        header.get("source", os.path.basename(path)),
        header.get("licence", header.get("license", "not stated")),
        " ".join(_find_common(dictionary, path)) if script == "latin" else "",
        header.get("compounds", "").lower() in ("yes", "true"),
    )
    entries = _add_inflected(dictionary.entries) if script == "hangul" else dictionary.entries
    data = make_word_file(entries, table, card)
    made = read_card(data, path)
    if not made.words:
        raise _refuse(f"{path} has no word with an English translation.", _FORMAT_HINT)
    _write(os.path.join(folder, f"{code}.words"), data)
    return made


def _refuse(message: str, hint: str) -> ArgumentError:
    return ArgumentError(message, name="dictionary", hint=hint)


_FORMAT_HINT = "Each line is a word, a tab, and English translations separated by semicolons."


def read_dictionary(path: str) -> Dictionary:
    """Read a dictionary; raise ``ArgumentError`` if it is none."""
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            raise _refuse(f"{path} is larger than {_MAX_BYTES:,} bytes.", "Keep the frequent words only.")
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise _refuse(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise _refuse(f"{path} is not UTF-8 text.", "Convert it to UTF-8.") from error
    header = {match[1].lower(): match[2].strip() for line in lines if (match := _HEADER.match(line))}
    entries = list(_read_entries(lines, path))
    if not entries:
        raise _refuse(f"{path} has no word with a translation.", _FORMAT_HINT)
    if len(entries) > _MAX_WORDS:
        raise _refuse(f"{path} has more than {_MAX_WORDS:,} words.", "Keep the frequent words only.")
    return Dictionary(entries, header)


def _read_entries(lines: list[str], path: str) -> Iterator[Entry]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        word, *rest = line.split("\t")
        if not rest:
            raise _refuse(f"{path}, line {number}: there is no tab after the word.", _FORMAT_HINT)
        glosses = [gloss.strip() for gloss in rest[0].split(";") if gloss.strip()]
        try:
            frequency = float(rest[1]) if len(rest) > 1 and rest[1].strip() else _USUAL_FREQUENCY
        except ValueError as error:
            hint = "The third column is a number from 1 to 8, or left out."
            raise _refuse(f"{path}, line {number}: {rest[1]!r} is not a frequency.", hint) from error
        if glosses and 0 < len(word.strip()) <= _MAX_WORD_CHARS:
            yield Entry(word.strip(), glosses, min(8.0, max(1.0, frequency)))


def _find_script(dictionary: Dictionary, path: str, code: str) -> str:
    text = "".join(entry.word for entry in dictionary.entries[:5_000])
    shares = {script: script_share(text, (script,)) for script in SCRIPT_PATTERNS}
    script = max(shares, key=lambda each: shares[each])
    if shares[script] < 0.5 and shares["han"] + shares["kana"] < 0.5:
        known = ", ".join(SCRIPT_PATTERNS)
        raise _refuse(f"The words in {path} are in a script that cannot be read.", f"Known are {known}.")
    if code in _CUT.values():
        return next(script for script, language in _CUT.items() if language == code)
    if script in _CUT:
        raise _refuse(f"Words in this script are Chinese (zh) or Japanese (ja), not {code}.", "Use zh or ja.")
    return script


def _add_inflected(entries: list[Entry]) -> list[Entry]:
    """Return the entries and the beginnings of inflected forms that are no words, as far as there is room."""
    known = {entry.word for entry in entries}
    formed = (entry._replace(word=form) for entry in entries for form in inflect(entry.word) if form not in known)
    return [*entries, *islice(formed, _MAX_WORDS - len(entries))]


def _find_common(dictionary: Dictionary, path: str) -> list[str]:
    """Return the most frequent words, by which a text is known to be in the language."""
    if named := fold(dictionary.header.get("common", "")).split():
        return named
    told = [entry for entry in dictionary.entries if entry.frequency != _USUAL_FREQUENCY]
    if len(told) < _FEWEST_COMMON_WORDS:
        message = f"{path} does not say which words are frequent, so that texts in the language could not be told."
        hint = "Add a line such as `# common: der die und ist nicht`, or frequencies as a third column."
        raise _refuse(message, hint)
    told.sort(key=lambda entry: (-entry.frequency, entry.word))
    return [word for entry in told[:_COMMON_WORDS] if (word := fold(entry.word)).isalpha()]


def _write(path: str, data: bytes) -> None:
    """Write a file that other processes may have mapped: the old one stays whole for them."""
    folder = os.path.dirname(path)
    make_private_folder(folder)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def inflect(word: str) -> Iterator[str]:
    """Yield the beginnings of the inflected forms of a verb or adjective; nothing for other words."""
    stem = word.removesuffix(_ENDING)
    if stem == word or not stem or not _FIRST <= ord(stem[-1]) < _FIRST + 11_172:
        return
    yield stem
    lead, vowel, tail = _split(stem[-1])
    if tail:
        return
    changed = (_AE,) if (lead, vowel) == (_HIEUH, _A) else _CONTRACTED.get(vowel, (vowel,))
    for other in changed:
        yield from (stem[:-1] + _join(lead, other, end) for end in (0, _PAST) if (other, end) != (vowel, 0))
    yield from (stem[:-1] + _join(lead, vowel, end) for end in _JOINED)


def _split(syllable: str) -> tuple[int, int, int]:
    number = ord(syllable) - _FIRST
    return number // (_VOWELS * _TAILS), number // _TAILS % _VOWELS, number % _TAILS


def _join(lead: int, vowel: int, tail: int) -> str:
    return chr(_FIRST + (lead * _VOWELS + vowel) * _TAILS + tail)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", help="the code of the language, such as ko")
    parser.add_argument("dictionary", help="lines of a word, a tab, and English translations separated by ;")
    options = parser.parse_args()
    folder = os.path.join(find_locations(os.environ, os.path.expanduser("~")).own_state_dir, "languages")
    try:
        card = add_language(options.dictionary, options.code, folder, Table(*OfflineEmbedder().gloss_table()))
    except ArgumentError as error:
        raise SystemExit(f"{error} {error.hint}") from None
    print(f"{card.name}: {card.words:,} words in {folder}.")


if __name__ == "__main__":
    main()
