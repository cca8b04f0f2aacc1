"""Sentences that decide something or leave something open, found by words of eleven languages.

Compiled for this project. The words are folded as the analyser folds them, so accents and capitals do not matter. A
word that means something else in another language, such as *mai* or *car*, is only listed inside a phrase.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from mdrecall.core.text.words import fold

Kind: TypeAlias = Literal["decision", "open"]

#: A shorter sentence, such as "Don't." or "Not yet.", says nothing by itself. It is counted in bytes, because three
#: characters of Chinese say as much as nine letters.
_MIN_BYTES = 15

# A line ends a sentence, and so does a full stop that a blank follows.
_END = re.compile(r"(?<=[.!?…])[\"'”’)*_]*\s+|(?<=[。！？])[」』）]?|\n+")
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
# What begins a line in Markdown: a heading, a list item with its box, a quotation, the borders of a table.
_LEAD = re.compile(r"(?:[#>|\s]|[-*+]\s|\d{1,3}[.)]\s|\[[ xX]\]\s)+")
_QUESTION = ("?", "？")


class Words(NamedTuple):
    """The words of a language, as alternatives of a pattern."""

    decision: str
    open: str


_SPACED = (
    Words(  # English
        r"decided|decision|agreed|settled on|instead of|rather than|because|from now on|going forward|no longer"
        r"|do not|don['’]?t (?!know|think|see)|always|never (?!mind)|we (?:will )?keep|we (?:will )?use|prefer"
        r"|remember that",
        r"todo|fixme|not (?:done |solved |fixed )?yet|still (?:fails?|failing|broken|open|needs?|missing|have to|to do)"
        r"|open question|unresolved|unsolved|left to do|next steps?|follow[- ]up|flaky|blocked (?:by|on)",
    ),
    Words(  # German
        r"entschieden|entscheidung|beschlossen|vereinbart|weil|statt|anstatt|stattdessen|ab (?:jetzt|sofort)|von nun an"
        r"|künftig|in zukunft|immer(?! noch)|niemals|nie (?:wieder|mehr)|nicht mehr|wir (?:nehmen|behalten|bleiben)",
        r"noch (?:nicht|offen|kaputt|zu tun)|immer noch|fehlt noch|muss noch|müssen noch|schlägt noch|offene frage"
        r"|ungelöst|nächste schritte",
    ),
    Words(  # French
        r"décidé|décision|convenu|parce qu|puisqu|au lieu d|plutôt qu|désormais|dorénavant|à partir de maintenant"
        r"|toujours(?! pas)|jamais|il ne faut pas|on garde|nous gardons",
        r"à faire|reste à|pas encore|toujours pas|échoue (?:encore|toujours)|en suspens|prochaines? étapes?",
    ),
    Words(  # Spanish
        r"decidimos|decidido|decisión|acordamos|acordado|porque|en lugar de|en vez de|a partir de ahora"
        r"|de ahora en adelante|siempre|nunca|ya no",
        r"pendientes?|por hacer|todavía (?:no|falla)|aún (?:no|falla)|sigue fallando|próximos? pasos?|falta por",
    ),
    Words(  # Italian
        r"abbiamo deciso|deciso|decisione|concordato|perché|invece di|al posto di|d['’]ora in poi|da ora in poi|sempre"
        r"|non usare|mai più",
        r"da fare|non ancora|ancora non|fallisce ancora|in sospeso|resta da|manca ancora|prossimi passi",
    ),
    Words(  # Portuguese
        r"decisão|combinamos|combinado|em vez de|ao invés de|a partir de agora|daqui em diante|não use",
        r"pendências?|pendente|ainda (?:não|falha)|continua (?:falhando|a falhar)|próximos passos",
    ),
    Words(  # Dutch
        r"besloten|beslissing|afgesproken|omdat|in plaats van|vanaf nu|voortaan|altijd|nooit",
        r"nog niet|nog open|moet nog|moeten nog|faalt nog|nog te doen|volgende stap(?:pen)?",
    ),
    Words(  # Russian
        r"решили|решено|решение|договорились|потому что|вместо|отныне|с этого момента|всегда|никогда|больше не",
        r"ещё не|пока не|осталось|всё ещё|не решено|открытый вопрос|следующий шаг|нужно будет",
    ),
)
_UNSPACED = (
    Words(  # Chinese, in both scripts
        r"决定|決定|约定|約定|因为|因為|从现在起|從現在起|从今以后|今后|今後|以后都|以後都|不要|总是|總是|一律|而不是|改用",
        r"待办|待辦|还没|還沒|尚未|未解决|未解決|仍然失败|仍然失敗|还是失败|還是失敗|下一步|遗留|遺留",
    ),
    Words(  # Japanese
        r"決め(?:た|まし)|ことにし(?:た|まし|ます)|これからは|なぜなら|必ず|常に|いつも|しないで|ではなく|代わりに",
        r"まだ|未対応|未完了|残ってい|後で|あとで|要確認|次のステップ",
    ),
    Words(  # Korean
        r"결정|하기로 (?:했|함|하)|앞으로는|왜냐하면|때문에|항상|절대|하지 마|대신",
        r"아직|미해결|나중에|남아 있|남았|해야 할|할 일|다음 단계",
    ),
)


@cache
def _patterns(kind: Kind) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a kind for folded text, compiled at their first use, which takes milliseconds.

    One for scripts with spaces between words and one for those without: together they would take twice as long.
    """
    spaced = "|".join(getattr(words, kind) for words in _SPACED)
    unspaced = "|".join(getattr(words, kind) for words in _UNSPACED)
    return re.compile(rf"(?<!\w)(?:{fold(spaced)})(?!\w)"), re.compile(fold(unspaced))


def _has_marker(folded: str, kind: Kind) -> bool:
    spaced, unspaced = _patterns(kind)
    return bool(spaced.search(folded) or (not folded.isascii() and unspaced.search(folded)))


def find_marked(text: str) -> Iterator[tuple[Kind, str]]:
    """Yield the sentences of a Markdown text that leave something open or decide something, code left out.

    A question decides nothing, though it may leave something open.
    """
    for sentence in _sentences(_FENCE.sub("\n", text).split("\n")):
        folded = fold(sentence)
        if _has_marker(folded, "open"):
            yield "open", sentence
        elif not sentence.endswith(_QUESTION) and _has_marker(folded, "decision"):
            yield "decision", sentence


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        bare = line[lead.end() :] if (lead := _LEAD.match(line)) else line
        for sentence in _END.split(bare):
            if len(sentence.strip().encode("utf-8", "replace")) >= _MIN_BYTES:
                yield " ".join(sentence.split())
