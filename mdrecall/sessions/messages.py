"""Messages: ``NO_REPLY``, text that memory injects, sentences that decide something, triggers, and the prompt.

Text that memory puts into a conversation is marked when it goes in, and left out when the conversation is read. Without
the mark, a transcript would bring it back into the index and the notes, and memory would feed on itself.

Words that decide something or leave something open were compiled for this project, in eleven languages. They
are folded as the analyser folds them, so accents and capitals do not matter. A word that means something else in
another language, such as *mai* or *car*, is only listed inside a phrase.

The numbers of triggers are OpenClaw's. A word counts in any of its forms, and in scripts without spaces by its
characters.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

from mdrecall.patterns import compile_later
from mdrecall.sessions.visibility import cites
from mdrecall.text.words import count_unspaced, fold, is_unspaced, stem, surface_words, tokens

NO_REPLY = "NO_REPLY"


def is_silent(text: str) -> bool:
    """True if a text is nothing but the token."""
    return text.strip() == NO_REPLY


def visible_text(text: str) -> str:
    """Return a text without a token at its end; empty if it is nothing else."""
    end = text.rstrip().rstrip("*")
    before = end.removesuffix(NO_REPLY)
    shown = before.rstrip(" \t\r\n*")
    # A token that is part of a word is none.
    return text if before == end or (shown and shown == before) else shown


_MEMORY = "mdrecall-memory"
#: Elements that hosts put around what hooks inject. Only complete ones are removed: people write about them too.
_OF_HOSTS = ("hook_context", "hook_prompt", "system-reminder", "system_reminder", "qwen:user-prompt-submit-context")
_NAMES = "|".join((_MEMORY, *_OF_HOSTS))
# Gemini writes the angle brackets of an injected text as entities. A tag has few attributes: the limit keeps the search
# linear.
_TAG = compile_later(rf"(?:<|&lt;)(?P<end>/?)(?P<name>{_NAMES})(?:\s[^<>]{{0,400}}?)?(?:>|&gt;)", re.IGNORECASE)
_LIKE_A_TAG = compile_later(rf"(?:<|&lt;)\s{{0,9}}/?\s{{0,9}}(?:{_NAMES})", re.IGNORECASE)
#: How Claude Code introduces the text of a hook, which goes on to the end of the message.
_INTRODUCED = " hook additional context: "
_INTRODUCTION = compile_later(rf"^[A-Z][A-Za-z]{{3,40}}{_INTRODUCED}", re.MULTILINE)


def wrap_memory(text: str, word: str) -> str:
    """Return a text between the marks of memory; nothing inside it can end the block.

    ``word`` is random and stands in both tags. A program reads only true tags, but a model may also read one that is
    written with entities, invisible characters or other brackets: whoever wrote the text cannot know the word.
    """
    inside = _LIKE_A_TAG.sub(lambda found: re.sub("[-_]", " ", found[0]), text.strip())
    return f"<{_MEMORY} {word}>\n{inside}\n</{_MEMORY} {word}>"


def strip_memory(text: str) -> str:
    """Return a text without what memory or a hook put into it.

    A block of memory that has lost its beginning or its end is removed from the start or to the end of the text.
    """
    # Most texts hold none of the names, and looking for words is far quicker than a pattern.
    lower = text.lower()
    tags = list(_TAG.finditer(text)) if any(name in lower for name in (_MEMORY, *_OF_HOSTS)) else []
    ranges = [found for name in (_MEMORY, *_OF_HOSTS) for found in _find_blocks(text, tags, name)] if tags else []
    if introduction := _INTRODUCED in text and _INTRODUCTION.search(text):
        ranges.append((introduction.start(), len(text)))
    return _remove(text, sorted(ranges)).strip() if ranges else text


def _find_blocks(text: str, tags: list[re.Match[str]], name: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    begun: list[int] = []
    for tag in tags:
        if tag["name"].lower() != name:
            continue
        if not tag["end"]:
            begun.append(tag.start())
        elif begun:
            found.append((begun.pop(), tag.end()))
        elif name == _MEMORY:
            found.append((0, tag.end()))
    if begun and name == _MEMORY:
        found.append((begun[0], len(text)))
    return found


def _remove(text: str, ranges: list[tuple[int, int]]) -> str:
    """Return a text without some ranges, which are in order and may overlap."""
    kept: list[str] = []
    end = 0
    for start, following in ranges:
        kept.append(text[end : max(start, end)])
        end = max(end, following)
    return "".join((*kept, text[end:]))


Kind: TypeAlias = Literal["decided", "wanted", "open", "passing"]

#: A shorter sentence, such as "Don't." or "Not yet.", says nothing by itself. It is counted in bytes, because three
#: characters of Chinese say as much as nine letters.
_MIN_BYTES = 15
#: A wish with fewer words points at something that is only there in its conversation: "Don't do that."
_MIN_WISH_WORDS = 5

# A line ends a sentence, and so does a full stop that a blank follows.
SENTENCE_END = compile_later(r"(?<=[.!?…])[\"'”’)*_]*\s+|(?<=[。！？])[」』）]?|\n+")
_FENCE = compile_later(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
# What begins a line in Markdown: a heading, a list item with its box, a quotation, the borders of a table.
_LEAD = compile_later(r"(?:[#>|\s]|[-*+]\s|\d{1,3}[.)]\s|\[[ xX]\]\s)+")
#: How a question ends.
QUESTION_ENDS = ("?", "？", '?"', "?)")


# The words of each kind as alternatives of a pattern, one language after the other, each on lines of its own. What is
# wanted is an order that corrects or binds; the same words in an agent's answer only describe. An order is passing if
# it holds for the task at hand, asks what to do, or is about something that was said before.
_SPACED: dict[Kind, str] = {
    "decided": (
        r"(?:we|i)(?:['’]ve| have| had)? (?:decided|agreed|settled on)|(?:was|were|been|it is) decided|from now on"
        r"|going forward|(?:^|(?<=[,;:–—-] )|(?<=so ))we (?:will )?(?:keep|use)|remember that"
        r"|entschieden|beschlossen|vereinbart|ab (?:jetzt|sofort)|von nun an|künftig|in zukunft"
        r"|wir (?:nehmen|behalten|bleiben)"
        r"|(?:ai|a|avons|ont|est|été) décidé|convenu|désormais|dorénavant|à partir de maintenant|on garde|nous gardons"
        r"|decidimos|hemos decidido|acordamos|a partir de ahora|de ahora en adelante"
        r"|abbiamo deciso|concordato|d['’]ora in poi|da ora in poi"
        r"|combinamos|usamos|a partir de agora|daqui em diante"
        r"|besloten|afgesproken|vanaf nu|voortaan"
        r"|решили|решено|договорились|отныне|с этого момента"
    ),
    "wanted": (
        r"decided|agreed|instead of|rather than|because|no longer|prefer|must(?:n['’]?t)?|(?:has|needs) to"
        r"|make sure|be sure"
        r"|(?:^|(?<=[,;:(–—-] )|(?<=and )|(?<=please )|(?<=just )|(?<=also )|(?<=no ))"
        r"(?:do not|don['’]?t|never|always|avoid) (?!know|think|see|understand|worry|mind|care|forget)\w+"
        r"|(?:don|doesn)['’]?t (?:need|want|belong)|(?:we|i)(?:['’]d| would)? (?:\w+ )?(?:want|like)"
        r"|should(?:n['’]?t)?(?! probably| presumably)"
        r"|nicht mehr|weil|statt|anstatt|stattdessen|lieber|immer(?! noch)|niemals|nie wieder|soll(?:te|ten|en)?|muss"
        r"|müssen|darf|dürfen|(?:ich|wir) (?:will|wollen|möchten?|brauchen)|bitte (?:nicht|kein\w*|nur)"
        r"|ne \w+ plus|parce qu|puisqu|au lieu d|plutôt qu|toujours(?! pas)|jamais|il (?:ne )?faut"
        r"|doit|doivent|devrai(?:t|ent)|(?:je|nous|on) (?:ne )?(?:veux|voulons|veut)|évite[rz]?"
        r"|ya no|porque|en lugar de|en vez de|siempre|nunca|deben?|debería[n]?|hay que|quiero|queremos|evita"
        r"|mai più|perché|invece di|al posto di|sempre|non usare|deve|devono|dovrebbe|bisogna|voglio|vogliamo"
        r"|em vez de|ao invés de|não use|devem|deveria|precisa|quero|evite"
        r"|omdat|in plaats van|altijd|nooit|moet(?! nog)|moeten(?! nog)|mag niet|(?:ik|we) will?(?:en)?"
        r"|больше не|потому что|вместо|всегда|никогда|должн\w*|нужно(?! будет)|надо|хочу|хотим"
    ),
    "open": (
        r"todo(?= ?[:(-])|fixme|not (?:done |solved |fixed )?yet"
        r"|still (?:fails?|failing|broken|open|needs?|missing|have to|to do)"
        r"|open question|unresolved|unsolved|left to do|next steps?|follow[- ]up|flaky|blocked (?:by|on)"
        r"|noch (?:nicht|offen|kaputt|zu tun)|immer noch|fehlt noch|muss noch|müssen noch|schlägt noch|offene frage"
        r"|ungelöst|nächste schritte"
        r"|à faire|reste à|pas encore|toujours pas|échoue (?:encore|toujours)|en suspens|prochaines? étapes?"
        r"|pendientes?|por hacer|todavía (?:no|falla)|aún (?:no|falla)|sigue fallando|próximos? pasos?|falta por"
        r"|da fare|non ancora|ancora non|fallisce ancora|in sospeso|resta da|manca ancora|prossimi passi"
        r"|pendências?|pendente|ainda (?:não|falha)|continua (?:falhando|a falhar)|próximos passos"
        r"|nog niet|nog open|moet nog|moeten nog|faalt nog|nog te doen|volgende stap(?:pen)?"
        r"|ещё не|пока не|осталось|всё ещё|не решено|открытый вопрос|следующий шаг|нужно будет"
    ),
    "passing": (
        r"^(?:it|they|this|that) (?:should|needs|must|has)|(?:what|how|why|whether|which) .{0,60}should|yet|for now"
        r"|right now|first|vorerst|zuerst|erst ?mal|pour l['’]instant|d['’]abord|por ahora|primero|per ora|prima"
        r"|por enquanto|primeiro|voorlopig|eerst|пока|сначала"
    ),
}
_UNSPACED: dict[Kind, str] = {
    "decided": (
        r"决定|決定|约定|約定|从现在起|從現在起|从今以后|今后|今後|以后都|以後都|改用"
        r"|決め(?:た|まし)|ことにし(?:た|まし|ます)|これからは"
        r"|결정|하기로 (?:했|함|하)|앞으로는"
    ),
    "wanted": (
        r"因为|因為|不要|总是|總是|一律|而不是|应该|應該|必须|必須|我想要"
        r"|なぜなら|必ず|常に|いつも|しないで|ではなく|代わりに|べき|てほしい"
        r"|왜냐하면|때문에|항상|절대|하지 마|대신|해야 (?:해|한|합)|원해"
    ),
    "open": (
        r"待办|待辦|还没|還沒|尚未|未解决|未解決|仍然失败|仍然失敗|还是失败|還是失敗|下一步|遗留|遺留"
        r"|まだ|未対応|未完了|残ってい|後で|あとで|要確認|次のステップ"
        r"|아직|미해결|나중에|남아 있|남았|해야 할|할 일|다음 단계"
    ),
    "passing": r"先|暂时|暫時|とりあえず|まずは|일단|먼저",
}


@cache
def _patterns(kind: Kind) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a kind for folded text, compiled at their first use, which takes milliseconds.

    One for scripts with spaces between words and one for those without: together they would take twice as long.
    """
    return re.compile(rf"(?<!\w)(?:{fold(_SPACED[kind])})(?!\w)"), re.compile(fold(_UNSPACED[kind]))


def _has_marker(folded: str, kind: Kind) -> bool:
    spaced, unspaced = _patterns(kind)
    return bool(spaced.search(folded) or (not folded.isascii() and unspaced.search(folded)))


def find_marked(text: str) -> Iterator[tuple[Kind, str]]:
    """Yield the sentences of a Markdown text that leave something open, decide something or want it, code left out.

    A question does none of that.
    """
    for sentence in split_sentences(text):
        folded = fold(sentence)
        says_enough = len(folded.split()) >= _MIN_WISH_WORDS or count_unspaced(folded) >= _MIN_WISH_WORDS
        if sentence.endswith((*QUESTION_ENDS, ":")):
            continue
        if _has_marker(folded, "open"):
            yield "open", sentence
        elif _has_marker(folded, "decided"):
            yield "decided", sentence
        elif says_enough and _has_marker(folded, "wanted") and not _has_marker(folded, "passing"):
            yield "wanted", sentence


def split_sentences(text: str, *, is_prose: bool = False) -> Iterator[str]:
    """Yield the sentences of a Markdown text on one line each, without those of a few letters, code left out.

    ``is_prose`` leaves out headings, lists, tables and quotations too.
    """
    for line in _FENCE.sub("\n", text).split("\n"):
        bare = line[lead.end() :] if (lead := _LEAD.match(line)) else line
        if is_prose and bare != line.lstrip():
            continue
        for sentence in SENTENCE_END.split(bare):
            if len(sentence.strip().encode("utf-8", "replace")) >= _MIN_BYTES:
                yield " ".join(sentence.split())


#: An entry with at least this score is shown.
MIN_SCORE = 0.65
#: What the phrases count in a score; the search has the rest.
_PHRASE_WEIGHT = 0.8
_ONE_WORD = 0.85
_SHARE_WEIGHT = 0.8
# Two words of a phrase are as much evidence as there is.
_ENOUGH_HITS = 2
# Shorter words have too many neighbours that mean something else.
_MIN_PREFIX, _MIN_OTHER_PREFIX = 6, 4
_MAX_ENDING = 3


class Message:
    """The words of a message, read once for all phrases."""

    def __init__(self, text: str) -> None:
        self._words = frozenset(_words(text))
        self._beginnings = {word[:_MIN_OTHER_PREFIX] for word in self._words}

    def has(self, word: str) -> bool:
        """True if the message has a word of a phrase, or another form of it."""
        if word in self._words:
            return True
        if len(word) < _MIN_OTHER_PREFIX or word[:_MIN_OTHER_PREFIX] not in self._beginnings:
            return False
        return any(_is_form(word, other) for other in self._words)

    def score_phrase(self, phrase: str) -> float:
        """Return how much of a trigger phrase the message has, 0 to 1."""
        words = _words(phrase)
        if not words:
            return 0.0
        hits = sum(self.has(word) for word in words)
        # A phrase of a script without spaces is one word, all of whose characters must be there.
        if len(words) == 1 or all(is_unspaced(word[0]) for word in words):
            return _ONE_WORD if hits == len(words) else 0.0
        share = hits / len(words)
        return _SHARE_WEIGHT * share + (1 - _SHARE_WEIGHT) * min(1.0, hits / _ENOUGH_HITS)

    def score_triggers(self, triggers: Iterable[str]) -> float:
        """Return the best of the phrases of an entry."""
        return max((self.score_phrase(phrase) for phrase in triggers), default=0.0)


def combine_scores(phrase_score: float, search_score: float) -> float:
    """Return the score of an entry by its phrases and by a search for the message, each 0 to 1."""
    return _PHRASE_WEIGHT * phrase_score + (1 - _PHRASE_WEIGHT) * search_score


def _words(text: str) -> list[str]:
    """Return the words of a text in their basic form, each once; pairs of characters in scripts without spaces."""
    found: list[str] = []
    for token in tokens(text):
        surface = surface_words(token)
        pairs = [word for word in surface if is_unspaced(word[0])]
        # The analyser ends a run of such characters with the last one alone, which is part of a pair already.
        single = pairs[-1:] if len(pairs) > 1 and len(pairs[-1]) == 1 else []
        found += [word if word in pairs else stem(word) for word in surface if word not in single]
    return list(dict.fromkeys(found))


def _is_form(word: str, other: str) -> bool:
    """True if two words are probably forms of one: in most languages only the ending differs."""
    shorter, longer = sorted((word, other), key=len)
    if len(longer) - len(shorter) > _MAX_ENDING or is_unspaced(word[0]) or not (word + other).isalpha():
        return False
    if word.isascii() and other.isascii():
        # English forms have the same stem already.
        return len(shorter) >= _MIN_PREFIX and longer.startswith(shorter)
    return len(shorter) > _MIN_OTHER_PREFIX and longer.startswith(shorter[:-1])


_TOPICS = "earlier work, decisions, dates, people, preferences or todos"


def share_budget(wanted: Sequence[tuple[int, float]], budget: int) -> list[int]:
    """Return how many characters of each text to show, by length and share; what one leaves is for those after it."""
    room = [0] * len(wanted)
    left = budget
    for is_last_round in (False, False, True):
        for place, (length, share) in enumerate(wanted):
            takes_all = is_last_round or place == len(wanted) - 1
            more = min(length - room[place], left if takes_all else int(left * share))
            room[place] += more
            left -= more
    return room


def recall_section(*, tools: Collection[str], citations: str, chat_type: str) -> str:
    """Return the section ``Memory Recall``; empty if the agent has neither tool."""
    can_search, can_read = "memory_search" in tools, "memory_get" in tools
    if not (can_search or can_read):
        return ""
    when = f"before you answer anything about {_TOPICS}"
    advice = f"Run memory_search over MEMORY.md and memory/*.md {when}" if can_search else f"Use memory_get {when}"
    if can_read:
        advice += f"{'; then use memory_get' if can_search else ''} to read only the lines you need"
    if can_search and "session_get" in tools:
        advice += "; read a result in sessions/ with session_get"
    if {"sessions_search", "sessions_history"} <= set(tools):
        advice += "; for the exact words of a past conversation use sessions_search, then sessions_history"
    doubt = "If you are still unsure after that, say that you looked."
    if cites(citations, chat_type):
        source = "Name the source as `Source: <path#line>` where that helps the user to check."
    else:
        source = "Do not mention paths or line numbers unless the user asks for them."
    return f"## Memory Recall\n\n{advice}. {doubt}\n{source}\n"
