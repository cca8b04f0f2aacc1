"""What a prompt asks for: whether to look for something, how sure a passage must be, and which run of it to show.

A prompt that only agrees or goes on says nothing to look for. A question about the past may be answered by a passage
that is merely likely; an order needs one that is nearly sure. The words stand for the languages of the offline table.
"""

from collections.abc import Set
from typing import NamedTuple

from mdrecall.hosts.agreeing import AGREEING
from mdrecall.patterns import compile_later
from mdrecall.search.query import find_matches, find_stems, parse_query, read_naming
from mdrecall.text.words import fold

#: The first sentences say what is wanted; what follows describes it once more.
_MAX_CHARS = 600
#: With fewer words that mean something, nearly every passage would fit.
_LEAST_WORDS, _LEAST_ORDER_WORDS = 2, 3
#: The least score of a passage, by the kind of prompt: about the past, a question, a request, an order.
_PAST_FLOOR, _QUESTION_FLOOR, _REQUEST_FLOOR, _ORDER_FLOOR = 0.15, 0.2, 0.4, 0.5

# Words of prompts that ask for what is at hand.
_PLAIN = AGREEING.union(
    ["again", "try", "run", "test", "tests", "fix", "apply", "address", "commit", "push", "stop", "wait"]
)
# Folded as the analyser folds, each language on a line of its own.
_PAST = compile_later(
    r"(?<!\w)(?:(?:did|have|had|were|was) (?:we|i|you)|(?:why|when|what|how|where|who) (?:did|was|were|had)|last time"
    r"|earlier|previously|remember|(?:i|we) (?:told|said|decided|agreed|talked)"
    r"|haben wir|hatten wir|habe ich|letztes mal|damals|fruher|erinner\w*|(?:warum|wann) hab\w*"
    r"|avons nous|avons-nous|la derniere fois|souviens|rappelle"
    r"|hicimos|dijimos|la ultima vez|recuerda"
    r"|abbiamo|l'ultima volta|ricord\w*"
    r"|fizemos|da ultima vez|lembr\w*"
    r"|hebben we|vorige keer)(?!\w)"
    r"|上次|之前|以前|记得|記得|说过|說過|前回|覚えて|言った|지난번|저번|예전|기억|말했"
)
_ASKING = compile_later(
    r"(?:what|when|where|which|who|whose|why|how|is|are|does|do|has"
    r"|wann|wo|welche[rsn]?|wer|warum|wie|ist|sind|hat|haben"
    r"|que|quoi|quand|ou|quelle?s?|qui|pourquoi|comment|est-ce"
    r"|cuando|donde|cual(?:es)?|quien|por que|como"
    r"|che|cosa|quando|dove|quale|chi|perche|come"
    r"|onde|qual|quem"
    r"|wat|wanneer|waar|welke|waarom|hoe)(?!\w)"
)
_ASKING_UNSPACED = compile_later(
    r"什么|什麼|何时|何時|哪|谁|誰|为什么|為什麼|怎么|怎麼|吗|嗎|いつ|どこ|だれ|なに|何|なぜ|どう|か[。？]?$"
    r"|언제|어디|누구|무엇|뭐|왜|어떻게"
)
_REQUEST = compile_later(
    r"(?:please |bitte |por favor )?"
    r"(?:can|could|would|will|let'?s|kannst|konntest|peux|pourrais|puedes|puoi|pode|kun)(?!\w)"
)
_PATH = compile_later(r"(?:[~@.]?/|\b[\w.-]+/)[\w./@-]*?([\w.-]+)(?=[\s,;:)\"'`]|$)")
_QUESTION_MARKS = ("?", "？")
#: The end of a line that introduces a pasted text, such as "Implement the following plan:".
INTRODUCING = (":", "：")


class Prompt(NamedTuple):
    """What a person wants to know, and how sure a passage must be to be shown beside it."""

    query: str
    floor: float
    """The least score of a passage that the person has said."""
    needs_rare: bool
    """True if a passage must hold one of the rarest words of the prompt."""
    kind: str
    """What the person reads about it: ``a question``."""
    names_number: bool = False
    """True if it names something by an identifier with a digit, such as DEC-0054: a passage that has it is sure."""


def read_prompt(text: str) -> Prompt | None:
    """Return what to look for beside a person's words; None if they say nothing that could be looked for."""
    said = "\n".join(line for line in text.split("\n") if not line.endswith(INTRODUCING))
    query = _PATH.sub(r"\1", said[:_MAX_CHARS]).strip()
    words = [word for word in find_stems(query) if word not in _PLAIN and not word.isdigit()]
    if any(map(str.isdigit, "".join(read_naming(query, parse_query(query)).identifiers))):
        return Prompt(query, _REQUEST_FLOOR, needs_rare=True, kind="an identifier", names_number=True)
    if len(words) < _LEAST_WORDS:
        return None
    folded = fold(query)
    is_asked = query.endswith(_QUESTION_MARKS) or _ASKING.match(folded)
    if _PAST.search(folded):
        return Prompt(query, _PAST_FLOOR, needs_rare=False, kind="about the past")
    if _REQUEST.match(folded):
        return Prompt(query, _REQUEST_FLOOR, needs_rare=True, kind="a request")
    if is_asked or (not query.isascii() and _ASKING_UNSPACED.search(query)):
        return Prompt(query, _QUESTION_FLOOR, needs_rare=False, kind="a question")
    is_long = len(words) >= _LEAST_ORDER_WORDS
    return Prompt(query, _ORDER_FLOOR, needs_rare=True, kind="an order") if is_long else None


def find_focus(text: str, stems: Set[str], chars: int) -> str:
    """Return the run of a text with most of the words of a query, at most ``chars`` long, cut between words."""
    plain = " ".join(text.split())
    if len(plain) <= chars:
        return plain
    spans = list(find_matches(plain, stems))
    best = max(spans, key=lambda span: _count_words(plain, spans, span[0], chars), default=(0, 0))[0]
    last = max((end for start, end in spans if best <= start and end <= best + chars), default=best)
    # The words stand in the middle of the run.
    first = min(max(0, best - (chars - (last - best)) // 2), len(plain) - chars)
    shown = plain[first : first + chars]
    if first and " " in shown:
        shown = shown.split(" ", 1)[1]
    if first + chars < len(plain) and " " in shown:
        shown = shown.rsplit(" ", 1)[0]
    return f"{'…' if first else ''}{shown}{'…' if first + chars < len(plain) else ''}"


def _count_words(text: str, spans: list[tuple[int, int]], start: int, chars: int) -> int:
    """Count the different words of a query in a run."""
    return len({fold(text[one:end]) for one, end in spans if start <= one and end <= start + chars})
