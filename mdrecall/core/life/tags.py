"""What a text is about, in a few words: the tags that its score counts, and the triggers that bring it back."""

from mdrecall.core.text.stopwords import find_stop_words
from mdrecall.core.text.words import fold, is_unspaced, surface_words, tokens
from mdrecall.patterns import compile_later

#: OpenClaw keeps as many tags of a text, and makes triggers of the first three.
_MAX_TAGS, _MAX_TRIGGERS = 8, 3
#: A shorter word says too little; a longer one is a checksum.
_MIN_CHARS, _MAX_CHARS = 3, 32
#: A shorter word is in too many messages to bring a memory back by itself, unless it is a name.
_MIN_TRIGGER_CHARS = 5
_NO_WORD = compile_later(
    r"<!--.*?(?:-->|$)|https?://\S+|`[^`]*[\s/][^`]*`|\S*/\S*|(?<![\w-])\d[\d.,:/-]*(?![\w-])|\b[\w-]+\.[a-z]{2,4}\b"
)
# Words of scripts without spaces, as far as a change of the script shows where they begin and end.
_HAN = "\u4e00-\u9fff"
_RUN = compile_later(f"(?<![{_HAN}])[{_HAN}]{{2,4}}(?![{_HAN}])|[\u30a0-\u30ff]{{3,12}}|[\uac00-\ud7a3]{{2,8}}")


def find_tags(text: str) -> tuple[str, ...]:
    """Return up to eight words that a text is about, names and identifiers first; no paths, dates or numbers."""
    return tuple(_rank_words(text))[:_MAX_TAGS]


def choose_triggers(text: str) -> tuple[str, ...]:
    """Return up to three words whose use in a message should bring a text back."""
    ranked = _rank_words(text)
    good = [
        word
        for word, rank in ranked.items()
        if rank < _PLAIN or len(word) >= _MIN_TRIGGER_CHARS or is_unspaced(word[0])
    ]
    return tuple(good[:_MAX_TRIGGERS])


_IDENTIFIER, _NAME, _PLAIN = range(3)


def _rank_words(text: str) -> dict[str, int]:
    """Return the words with their rank: identifiers, then names, then the longest others."""
    bare = _NO_WORD.sub(" ", text)
    ranks: dict[str, int] = {}
    found = tokens(bare)
    stop = find_stop_words([word for token in found for word in surface_words(token)])
    for place, token in enumerate(found):
        if is_unspaced(token[0]):
            ranks.update({run: _PLAIN for run in _RUN.findall(token) if run not in ranks})
            continue
        word = fold(token.strip("-._:#"))
        if not _MIN_CHARS <= len(word) <= _MAX_CHARS or word in stop or not any(map(str.isalpha, word)):
            continue
        is_identifier = any(map(str.isdigit, word)) or any(sign in word for sign in "-_")
        is_name = token[0].isupper() and place > 0
        ranks[word] = min(ranks.get(word, _PLAIN), _IDENTIFIER if is_identifier else _NAME if is_name else _PLAIN)
    return dict(sorted(ranks.items(), key=lambda pair: (pair[1], -len(pair[0]) if pair[1] == _PLAIN else 0)))
