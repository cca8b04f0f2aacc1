"""Light English stemming after Porter (1980): inflected forms of a word meet in one term.

Chosen by measurement against no stemming and against plural-only stemming (docs/benchmarks.md). Words with
digits or letters outside a–z are left alone, so identifiers and other languages keep their spelling.
"""

import re

_V = "(?:[aeiou]|(?<=[^aeiou])y)"
_C = "(?:[^aeiouy]|(?<![^aeiou])y)"
_HAS_VOWEL = re.compile(rf".*?{_V}")
_SYLLABLE = rf"{_C}*{_V}+{_C}"
_ONE = re.compile(_SYLLABLE)
_TWO = re.compile(rf"{_SYLLABLE}+{_V}+{_C}")
_SHORT = re.compile(rf"{_C}+{_V}[^aeiouwxy]$")

# Derivational endings and what takes their place, longest first, for stems of at least one syllable.
_SOFTEN = {
    "ational": "ate", "ization": "ize", "iveness": "ive", "fulness": "ful", "ousness": "ous",
    "tional": "tion", "biliti": "ble", "entli": "ent", "ousli": "ous", "ation": "ate", "alism": "al",
    "aliti": "al", "iviti": "ive", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able",
    "alli": "al", "ator": "ate", "logi": "log", "eli": "e",
}  # fmt: skip
_SHORTEN = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ness": "", "ful": "",
}  # fmt: skip
# Endings that stems of at least two syllables lose.
_DROP = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
    "ion", "al", "er", "ic", "ou",
)  # fmt: skip


def stem(word: str) -> str:
    """The stem of a folded word."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    word = _without_plural(word)
    word = _without_tense(word)
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _SOFTEN)
    word = _replaced(word, _SHORTEN)
    word = _dropped(word)
    return _without_final_e(word)


def _without_plural(word: str) -> str:
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            return word[:-2]
        if not word.endswith("ss"):
            return word[:-1]
    return word


def _without_tense(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _ONE.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        if word.endswith(ending):
            bare = word[: -len(ending)]
            if not _HAS_VOWEL.match(bare):
                return word
            if bare.endswith(("at", "bl", "iz")):
                return bare + "e"
            if len(bare) > 1 and bare[-1] == bare[-2] and bare[-1] not in "aeioulsz":
                return bare[:-1]
            return bare + "e" if _SHORT.fullmatch(bare) else bare
    return word


def _replaced(word: str, endings: dict[str, str]) -> str:
    for size in range(min(7, len(word) - 1), 2, -1):
        if (replacement := endings.get(word[-size:])) is not None:
            bare = word[:-size]
            return bare + replacement if _ONE.match(bare) else word
    return word


def _dropped(word: str) -> str:
    for ending in _DROP:
        if word.endswith(ending):
            bare = word[: -len(ending)]
            if ending == "ion" and not bare.endswith(("s", "t")):
                return word
            return bare if _TWO.match(bare) else word
    return word


def _without_final_e(word: str) -> str:
    if word.endswith("e"):
        bare = word[:-1]
        if _TWO.match(bare) or (_ONE.match(bare) and not _SHORT.fullmatch(bare)):
            return bare
    if word.endswith("ll") and _TWO.match(word):
        return word[:-1]
    return word
