"""Korean inflection: the beginnings of verbs and adjectives, and what may follow a word."""

from collections.abc import Iterator

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
# One syllable begins many words, so it is taken for a word only before these.
_PARTICLES = (
    *"은는이가을를의에와과도로만나요",
    *("에서", "에게", "으로", "부터", "까지", "하고", "에는", "에도", "이나", "이다", "입니다", "보다", "처럼"),
)
_ENDING_BEGINNINGS = "었았겠는고지어아으면니자기게을은습세"


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


def can_follow(rest: str, word: str) -> bool:
    """True if ``rest`` may follow ``word`` as its particles or endings."""
    return len(word) > 1 or rest in _PARTICLES or rest[:1] in _ENDING_BEGINNINGS


def _split(syllable: str) -> tuple[int, int, int]:
    number = ord(syllable) - _FIRST
    return number // (_VOWELS * _TAILS), number // _TAILS % _VOWELS, number % _TAILS


def _join(lead: int, vowel: int, tail: int) -> str:
    return chr(_FIRST + (lead * _VOWELS + vowel) * _TAILS + tail)
