"""The languages of a text, its words in them, and the pieces of the table's vocabulary that words are split into.

Scripts without spaces are cut into words (``word_vectors.py``). A word of another script becomes a *token*, which names
the language: ``ru:слово``. A word in Latin letters does so only if its text is in that language, because English has
many of the same words with other meanings.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mdrecall.embed.offline.word_file import COST_STEP, UNSPACED, WordFile, hash_word, read_cards, word_length
from mdrecall.text.words import fold

# A query in English is embedded without these modules, so each is imported where it is used.
if TYPE_CHECKING:
    from mdrecall.embed.offline.word_vectors import Cut, Cutter, Part, Table

#: Longer runs are not words but hashes, keys or encoded data.
MAX_WORD_CHARS = 100

# Stands after each of several texts that are read together, and is a word of its own.
_END = "\1"
_SEPARATOR = f" {_END} "
# What is not part of a word becomes a space. In bytes, a text with curly quotes takes no longer than one without.
_TO_SPACES = bytes(code if chr(code) in f"abcdefghijklmnopqrstuvwxyz0123456789{_END}" else 32 for code in range(256))
_CONTINUES = "##"
#: No piece has more characters, without the mark of a continuation.
_LONGEST = 18
# A command asks for the pieces of one short query: to find them in the text takes 0.1 ms each, to number all 30,000
# takes 7 ms.
_LOOKS_IN_TEXT = 16
# From this share of kana on a text is Japanese; Chinese texts quote a word at most.
_KANA_SHARE = 0.1
# A text without kana and up to this long may be Japanese all the same, such as a title or a query: it is cut both ways,
# which takes time. A longer one would be a sentence, and Japanese sentences have kana.
_SHORT_CHARS = 20
# Bounds the memory while texts are cut: each character needs about 150 bytes, and each may be one of the words whose
# vectors are held (``word_vectors.MAX_WORDS``).
_CHARS_AT_ONCE = 16_000
# About fifty words; a text in another language has five of its most frequent words among them.
_SAMPLE_CHARS = 300
# A text is in a language if this share of its words are among the most frequent of that language: English texts that
# quote another language stay below, and texts in the language have three times as many.
_COMMON_SHARE = 0.12
# One such word may be an abbreviation or a part of a name, such as "et al." or "Los Angeles".
_FEWEST_COMMON = 2
# A text up to this long may be nothing but nouns, so that its language shows only in the dictionary.
_SHORT_WORDS = 8
# Any of these says that a short text is English.
_ENGLISH = frozenset(
    ("the", "of", "and", "to", "is", "in", "for", "that", "it", "on", "with", "what", "when", "where", "who", "how")
)
# The shortest parts that a compound is taken apart into, and what may join them.
_COMPOUND_CHARS = 4
_LINKS = ("", "s", "n", "en", "es", "e")

# Compiled at their first use, by `re` itself: a text in English needs none of them.
_KANA = "[\u3041-\u30fa\u30fd-\u30ff]+"
_UNSPACED = f"[{UNSPACED}]+"
#: The words of scripts with spaces; those in Latin letters are found with the English ones.
_SPACED = {"cyrillic": "[\u0400-\u052f]+", "greek": "[\u0370-\u03ff]+", "hangul": "[\uac00-\ud7a3]+"}
_ANY_SPACED = "|".join(_SPACED.values())
_MARK = ":"
# One Korean syllable begins many words, so it is taken for a word only before these.
_PARTICLES = (
    *"은는이가을를의에와과도로만나요",
    *("에서", "에게", "으로", "부터", "까지", "하고", "에는", "에도", "이나", "이다", "입니다", "보다", "처럼"),
)
_ENDING_BEGINNINGS = "었았겠는고지어아으면니자기게을은습세"
_T = TypeVar("_T")


class Pieces(dict[str, tuple[int, ...]]):
    """Maps a folded word to its pieces: its longest known beginning, the longest known continuation, and so on.

    A word that cannot be split into known pieces has none. Words are split at their first lookup.
    """

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self._looks_left = _LOOKS_IN_TEXT

    def number_all(self) -> None:
        """Prepare for the many words of chunks: number all pieces at the next lookup."""
        self._looks_left = 0

    def is_whole(self, word: str) -> bool:
        """True if a word is a piece by itself: English has it, or it is a frequent name."""
        return self._find(word) is not None

    @cached_property
    def texts(self) -> list[str]:
        """The pieces by their numbers; those that continue a word begin with ``##``."""
        return self.vocabulary.split("\n")

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = self[word] = self.split(word)
        return pieces

    def split(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word, and do not remember them."""
        if len(word) > MAX_WORD_CHARS:
            return ()
        find = self._find if self._looks_left else self._numbers.get
        found: list[int] = []
        start = 0
        while start < len(word):
            rest = (_CONTINUES if start else "") + word[start : start + _LONGEST]
            least = len(_CONTINUES) if start else 0
            end = len(rest)
            number = None
            while end > least and (number := find(rest[:end])) is None:
                end -= 1
            if number is None:
                return ()
            found.append(number)
            start += end - least
        return tuple(found)

    def split_many(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the pieces of each word, and do not remember them. A token has none."""
        # Most words are a piece by themselves.
        whole = zip(words, map(self._numbers.get, words), strict=True)
        return [(at,) if at is not None else () if is_token(word) else self.split(word) for word, at in whole]

    def _find(self, piece: str) -> int | None:
        """Return the number of a piece; None if the vocabulary does not have it."""
        if not self._looks_left:
            return self._numbers.get(piece)
        self._looks_left -= 1
        at = self._text.find(f"\n{piece}\n".encode())
        return None if at < 0 else self._text.count(b"\n", 0, at)

    @cached_property
    def _text(self) -> bytes:
        return f"\n{self.vocabulary}\n".encode()

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return dict(zip(self.texts, range(len(self.texts)), strict=True))


def find_words(folded: str) -> list[str]:
    """Return the words of a folded text."""
    return folded.encode("ascii", "replace").translate(_TO_SPACES).decode("ascii").split()


def fold_texts(texts: Sequence[str]) -> str:
    """Return texts folded and joined, so that their words are found at once; ``split_texts`` takes them apart."""
    joined = _SEPARATOR.join((*texts, ""))
    return fold(joined) if joined.count(_END) == len(texts) else fold_texts([text.replace(_END, " ") for text in texts])


def split_texts(folded: str) -> list[str]:
    """Return texts that were folded and joined."""
    return folded.split(_SEPARATOR)[:-1]


class Found(NamedTuple):
    """The languages of a text besides English and those with a script of their own; empty if it has none."""

    latin: str = ""
    """The language of its words in Latin letters."""
    unspaced: str = ""
    """The language of its characters that are cut into words."""


class Languages:
    """The word files that are there, each opened when a text needs it."""

    def __init__(self, folder: str, is_english: Callable[[str], bool], added_folder: str = "") -> None:
        """``folder`` has our word files, ``added_folder`` the user's; ``is_english`` is true of words in the table."""
        self._folder = folder
        self._added_folder = added_folder
        self._is_english = is_english
        self._cutters: dict[str, Cutter] = {}

    @cached_property
    def files(self) -> dict[str, WordFile]:
        """The word files by language; one that the user added replaces ours."""
        cards = read_cards(os.path.join(self._folder, "languages.json"))
        found = {card.language: WordFile(os.path.join(self._folder, f"{card.language}.words"), card) for card in cards}
        return found | {file.card.language: file for file in added_files(self._added_folder)}

    @cached_property
    def _common(self) -> dict[str, list[str]]:
        """The languages in Latin letters by their most frequent words."""
        found: dict[str, list[str]] = {}
        for language, file in self.files.items():
            if file.card.script == "latin":
                for word in file.card.common.split():
                    if len(word) > 1:
                        found.setdefault(word, []).append(language)
        return found

    @cached_property
    def _spaced(self) -> list[tuple[str, re.Pattern[str]]]:
        """The languages in scripts with spaces other than Latin, and what finds their words."""
        scripts = {language: file.card.script for language, file in self.files.items()}
        return [(language, re.compile(_SPACED[script])) for language, script in scripts.items() if script in _SPACED]

    def find(self, folded: str) -> Found:
        """Return the languages of a folded text."""
        latin = self._find_latin(find_words(folded))
        return Found(latin) if folded.isascii() else Found(latin, self._find_unspaced(folded))

    def find_in_chunk(self, text: str, folded: str) -> Found:
        """Return the languages of a chunk by its beginning, unless characters to cut come only later.

        ``text`` has its title first; ``folded`` are its passages, and last its title.
        """
        start = text[:_SAMPLE_CHARS]
        if text.isascii() or not re.search(_UNSPACED, text):
            return self.find(fold(start))
        # Folding takes long in Japanese, so it is not done twice.
        *parts, title = split_texts(folded)
        return self.find("\n".join((title, *parts))[: _SAMPLE_CHARS if re.search(_UNSPACED, start) else None])

    def _find_latin(self, words: Sequence[str]) -> str:
        """Return the language of a text by its words in Latin letters; empty if it is English or unknown."""
        common = self._common
        shared = list(filter(common.__contains__, words))
        least = max(sum(map(_ENGLISH.__contains__, words)), _COMMON_SHARE * len(words)) if shared else 0.0
        if len(shared) > least:
            hits = [(language, word) for word in shared for language in common[word]]
            best, _ = Counter(language for language, _ in hits).most_common(1)[0]
            found = [word for language, word in hits if language == best]
            if len(set(found)) >= _FEWEST_COMMON and len(found) > least:
                return best
        if len(words) > _SHORT_WORDS or not _ENGLISH.isdisjoint(words):
            return ""
        # No dictionary has numbers and file names.
        unknown = [word for word in words if word.isalpha() and not self._is_english(word)]
        return self._find_by_words(unknown, len(words)) if unknown and 2 * len(unknown) >= len(words) else ""

    def _find_by_words(self, words: Sequence[str], count: int) -> str:
        """Return the language that has most of these words; empty if none has half of all ``count``."""
        known = {
            language: sum(bool(self._numbers(file, word)) for word in words)
            for language, file in self.files.items()
            if file.card.script == "latin"
        }
        best = max(known, key=lambda language: known[language], default="")
        return best if best and 2 * known[best] >= count else ""

    def tokens(self, folded: str, languages: Found) -> list[str]:
        """Return the words of a text, those of other languages as tokens; each of several texts ends with a mark."""
        words = find_words(folded)
        if latin := languages.latin:
            file = self.files[latin]
            words = [latin + _MARK + word if self._numbers(file, word) else word for word in words]
        if not self.has_tokens(folded):
            return words
        if folded.count(_END) > 1:
            each = (self.tokens(text + _SEPARATOR, languages) for text in split_texts(folded))
            return [word for found in each for word in found]
        others = [language + _MARK + word for language, pattern in self._spaced for word in pattern.findall(folded)]
        return others + words

    def has_tokens(self, folded: str) -> bool:
        """True if a text has words of other scripts with spaces."""
        return not folded.isascii() and re.search(_ANY_SPACED, folded) is not None

    def parts(
        self, folded: str, found: Sequence[str], languages: Found, weights: Mapping[str, float], dimensions: int
    ) -> "Iterator[Part]":
        """Yield what the words of other languages add to the vector of a query; ``found`` are its words and tokens."""
        for token in filter(is_token, found):
            weight = weights.get(token.rpartition(_MARK)[2], 1.0)
            pieces, own = self.part(token, dimensions)
            shares = tuple((piece, weight * share) for piece, share in pieces)
            yield shares, tuple((dimension, weight * value) for dimension, value in own)
        if languages.unspaced:
            from mdrecall.embed.offline.word_vectors import make_part

            cutter = self._cutter(languages.unspaced)
            for word, weight in _weigh(cutter.cut(folded)[0], weights):
                yield make_part(cutter.file, word, weight, dimensions)

    def part(self, token: str, dimensions: int) -> "Part":
        """Return what a token adds to a vector; the parts of a compound add their meanings."""
        from mdrecall.embed.offline.word_vectors import MEANING, OWN, UNKNOWN_COST, own_direction

        language, _, word = token.partition(_MARK)
        file = self.files[language]
        found = [file.read(number) for number in self._numbers(file, word)]
        cost = max((cost for _, cost in found), default=UNKNOWN_COST * COST_STEP)
        share = MEANING / math.sqrt(len(found) or 1)
        pieces = tuple((piece, share * weight) for entry, _ in found for piece, weight in entry)
        own = OWN * word_length(cost) if pieces or not found else 0.0
        return pieces, tuple(own_direction(hash_word(word), own, dimensions))

    def _numbers(self, file: WordFile, word: str) -> list[int]:
        """Return the records of a word: its own, those of the parts it is made of, or that of its beginning."""
        number = file.find(word) if len(word) <= file.card.longest else -1
        if number >= 0:
            return [number]
        if file.card.script == "hangul":
            last = min(len(word) - 1, file.card.longest)
            # What follows a single syllable must be particles or endings.
            is_short = word[1:] in _PARTICLES or word[1:2] in _ENDING_BEGINNINGS
            ends = range(last, 0 if is_short else 1, -1)
            return [number for end in ends if (number := file.find(word[:end])) >= 0][:1]
        return split_compound(file, word) if file.card.compounds else []

    # --- scripts without spaces

    def cut_numbers(self, folded: str) -> Iterator[tuple[WordFile, int]]:
        """Yield the records of the words of a text in scripts without spaces."""
        for language in filter(None, (self._find_unspaced(folded), *self._hangul(folded))):
            file = self.files[language]
            if pattern := _SPACED.get(file.card.script):
                yield from (
                    (file, number) for word in re.findall(pattern, folded) for number in self._numbers(file, word)
                )
            else:
                yield from ((file, number) for _, number in self._cutter(language).cut(folded)[0] if number >= 0)

    def choose_languages(self, folded: str) -> list[str]:
        """Return the languages whose words are looked up in a text by their translation."""
        if folded.isascii():
            return []
        count, kana = _count(_UNSPACED, folded), _count(_KANA, folded)
        return [*((["ja"] if kana >= _KANA_SHARE * count else ["zh"]) if count else []), *self._hangul(folded)]

    def _hangul(self, folded: str) -> list[str]:
        """Return the languages in Hangul if a text has any."""
        languages = [language for language, file in self.files.items() if file.card.script == "hangul"]
        return languages if languages and re.search(_SPACED["hangul"], folded) else []

    def _cutter(self, language: str) -> "Cutter":
        from mdrecall.embed.offline.word_vectors import Cutter

        if language not in self._cutters:
            self._cutters[language] = Cutter(self.files[language])
        return self._cutters[language]

    def _find_unspaced(self, folded: str) -> str:
        """Return the language of the characters to cut; empty if there are none."""
        count = _count(_UNSPACED, folded)
        if not count:
            return ""
        if _count(_KANA, folded) >= _KANA_SHARE * count:
            return "ja"
        if count > _SHORT_CHARS or self._cutter("zh").cut(folded)[1] <= self._cutter("ja").cut(folded)[1]:
            return "zh"
        return "ja"

    def add_sums(self, folded: Sequence[str], languages: Sequence[Found], sums: Any, table: "Table") -> None:
        """Add the vectors of the words that are cut out of each text to its row in ``sums``."""
        from mdrecall.embed.offline.word_vectors import WordVectors

        texts: dict[str, list[tuple[int, str]]] = {}
        for number, (text, found) in enumerate(zip(folded, languages, strict=True)):
            if found.unspaced and not text.isascii():
                texts.setdefault(found.unspaced, []).append((number, text))
        for language, numbered in texts.items():
            cutter = self._cutter(language)
            vectors = WordVectors(cutter.file, table)
            for group in group_by_size(numbered, lambda item: len(item[1]), _CHARS_AT_ONCE):
                numbers, some = zip(*group, strict=True)
                vectors.add(cutter.cut_many(some), numbers, sums)


def added_files(folder: str) -> list[WordFile]:
    """Return the word files that the user added."""
    if not folder or not os.path.isdir(folder):
        return []
    names = sorted(name for name in os.listdir(folder) if name.endswith(".words"))
    return [WordFile(os.path.join(folder, name)) for name in names]


def split_compound(file: WordFile, word: str) -> list[int]:
    """Return the records of the two parts that a compound is made of, the longest last part first; else none."""
    # Encoded data is as long as a whole text: without this bound the work would be the square of its length.
    longest = file.card.longest
    if len(word) > 2 * longest + len(max(_LINKS, key=len)):
        return []
    for start in range(max(_COMPOUND_CHARS, len(word) - longest), len(word) - _COMPOUND_CHARS + 1):
        last = file.find(word[start:])
        if last < 0:
            continue
        for link in _LINKS:
            first = word[: start - len(link)]
            if word[:start].endswith(link) and len(first) >= _COMPOUND_CHARS and (number := file.find(first)) >= 0:
                return [number, last]
    return []


def _count(characters: str, text: str) -> int:
    # Looking for runs of them makes fewer strings than looking for each.
    return sum(map(len, re.findall(characters, text)))


def is_token(word: str) -> bool:
    """True if a word is a token of another language."""
    return _MARK in word


def group_by_size(items: Iterable[_T], size_of: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """Yield items in groups of at most ``most`` together; a larger item has a group of its own."""
    group: list[_T] = []
    size = 0
    for item in items:
        if group and size + size_of(item) > most:
            yield group
            group, size = [], 0
        group.append(item)
        size += size_of(item)
    if group:
        yield group


def _weigh(cuts: "Sequence[Cut]", weights: Mapping[str, float]) -> "Iterator[tuple[Cut, float]]":
    """Yield each word with the mean weight of its character pairs; a single character has that of its neighbours."""
    words = [word for word, _ in cuts]
    for place, around in enumerate(words):
        if len(around) == 1:
            before = words[place - 1][-1:] if place else ""
            after = words[place + 1][:1] if place + 1 < len(words) else ""
            around = before + around + after
        known = [weights[pair] for at in range(len(around)) if (pair := around[at : at + 2]) in weights]
        yield cuts[place], sum(known) / len(known) if known else 1.0
