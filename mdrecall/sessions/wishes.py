"""Wishes, sentences in which a person binds the future: standing orders, preferences, and facts that steer answers.

They are found by structure, in the languages of the offline embeddings. An order has a word for all times beside its
verb, or a phrase such as *from now on*, and nobody but the agent as its subject: "always run the tests", not "it always
fails". A preference is in the first person and about something in general: "I prefer tabs", not "I prefer the second".
The words were compiled for this project, one language after the other, and are folded as the analyser folds them.

They are kept in Markdown that the person edits: one file for all projects, and one for each, which its title names.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from mdrecall.config.settings import Settings
from mdrecall.errors import ReadError
from mdrecall.notes.opening import decode, read_below
from mdrecall.notes.repository import name_wishes
from mdrecall.patterns import compile_later
from mdrecall.sessions.messages import SENTENCE_END
from mdrecall.text.annotations import is_for, read_annotations, read_projects
from mdrecall.text.words import fold, is_similar, list_statement_words

#: A longer sentence was not typed by hand, and of a long one only the part with the wish is kept.
_MAX_CHARS, _LONG_CHARS = 1_000, 200
CONFIRMED, CANDIDATES = "## Confirmed", "## Candidates"
#: A larger file is not a list of wishes, and every start would pay for it.
MAX_BYTES = 256 * 1024
_ITEM = compile_later(r"[-*+][ \t]+(?:\[[ xX]\][ \t]+)?(.*?)(?:[ \t]*\((\d{4}-\d\d-\d\d)\))?[ \t\r]*(?:<!--.*)?")


class Wish(NamedTuple):
    """Something that a person wants from agents beyond one task; without a project it holds everywhere."""

    text: str
    day: str
    is_confirmed: bool
    project: str = ""

    @property
    def key(self) -> str:
        """A hash that is the same whatever the capitals and the punctuation of a wish."""
        return hashlib.sha256("".join(filter(str.isalnum, self.text.casefold())).encode()).hexdigest()[:16]


class FoundWish(NamedTuple):
    """A sentence that is a wish, or takes one back."""

    text: str
    is_order: bool = False
    is_withdrawal: bool = False


_LEAD = compile_later(r"(?:[#>\s]|[-*+•]\s|\d{1,3}[.)]\s)+")
_CLAUSE = compile_later(r"(?:[^,;:，；：(（–—-]|[,:-](?=\S)|(?<!\s)[–—])+[,;:，；：]?\s*")
# What somebody else has said, and code. An apostrophe inside a word is not a quotation mark.
_QUOTED = compile_later(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|『[^』]*』|(?<!\w)'[^']+'(?!\w)")
# How long something holds: from now on, only in this task or, if it is a preference, here, and no longer.
_SINCE = compile_later(
    r"(?<!\w)(?:from now on|from here on|going forward|^in (?:the )?future|as a rule|^for (?:all|any) future [^,]*"
    r"|in (?:all|every|each)(?: of)?(?: your| future)? (?:repl(?:y|ies)|answers?|responses?|sessions?)|ab jetzt"
    r"|ab sofort|von nun an|(?:zu)?kunftig|^in zukunft|desormais|dorenavant|a partir de (?:maintenant|ahora|agora)"
    r"|de ahora en adelante|d[a']\s?ora in (?:poi|avanti)|daqui em diante|vanaf nu|voortaan)(?!\w)[ ,]*"
)
_NOW = compile_later(
    r"(?<!\w)(?:yet|for now|right now|this time|(?:at|for) the moment|today|tonight|tomorrow|in this case|for this \w+"
    r"|noch nicht|vorerst|erst ?mal|diesmal|heute|im moment|pas encore|pour (?:l'instant|le moment)|cette fois"
    r"|aujourd'hui|todavia no|por ahora|de momento|esta vez|hoy|non ancora|per (?:ora|adesso)|questa volta|oggi|hoje"
    r"|ainda nao|por enquanto|[dn]essa vez|nog niet|voorlopig|deze keer|vandaag)(?!\w)|先(?!生)|[暂暫]时|目前|[这這]次"
    r"|今天|まだ|とりあえず|今回|今日|まず|一旦|아직|일단|이번|오늘|우선|지금은"
)
_HERE = compile_later(r"(?<!\w)(?:first|here|until|hier|zuerst|ici|d'abord|aqui|primero|qui|primeiro|eerst)(?!\w)")
_WITHDRAWAL = compile_later(
    r"(?<!\w)(?:you (?:don't|do not) (?:need|have) to(?=.*any ?more)|you no longer (?:need|have) to|stop always"
    r"|forget (?:that i|what i said|about my)|you can stop \w+ing|du (?:musst|brauchst|sollst).*nicht mehr|esqueca que"
    r"|vergiss,? (?:dass|was) ich|tu n'as plus besoin de|oublie que je|ya no (?:hace falta|necesitas|tienes que)"
    r"|olvida que|non (?:devi|serve) piu|dimentica che|nao precisa mais|je hoeft.*niet meer|vergeet (?:dat|wat) ik)"
    r"(?!\w)|不(?:用|需要|必)再|忘(?:了|记|掉)我|もう.*なくても?(?:いい|大丈夫)|더 이상.*(?:않아도|안 해도|필요)"
)
# Courtesy, and what makes an order of a clause that has the agent as its subject.
_POLITE = compile_later(
    r"(?:(?:and|but|so|also|ok|okay|then|just|please|hey|yes|no|(?:can|could|will) you|i want (?:every|all|each|your)"
    r"|und|aber|bitte|denk daran|du (?:sollst|solltest|musst|darfst)|et|mais|alors|svp|(?:tu|vous) (?:dois|devez)|ne"
    r"|y|pero|por favor|debes|tienes que|recuerda|e|ma|per favore|devi|ricorda di|non|mas|voce deve|nao"
    r"|en|maar|alsjeblieft|graag|je moet) |n')+"
)
# Before its verb. German, Dutch and French have the infinitive there, and so has Italian after *mai*.
_FIRST = compile_later(
    r"(?:^|(?<!\w)(?:please|you (?:to|should|must|have to|need to)|sure (?:to|you)|remember to) )"
    r"(?:(?:always|never|(?:don't|do not) ever) (?!say never|give up)(?P<english>[a-z']+)"
    r"|(?:siempre|nunca|jamas|sempre) (?P<other>\w+)|(?:toujours|jamais) \w+(?:[eio]r|re)(?!\w)|mai \w+re(?!\w)"
    r"|(?:immer|nie|niemals|stets|altijd|nooit|steeds) (?!noch|wieder).*n\W*$)"
)
# After its verb, and after a pronoun or a courtesy: "antworte mir immer", "usa siempre".
_SECOND = compile_later(
    r"(\S+)(?: (?:bitte|mir|dich|me|moi|te|mij|mi|graag|le|lo|la))? (?:immer|nie|niemals|stets|toujours|jamais"
    r"|siempre|nunca|jamas|sempre|mai|altijd|nooit|steeds) (?!noch|wieder|pas|mehr|meer)"
)
_WHEN_ASKED = compile_later(
    r"(?<!\w)(?:(?:when(?:ever)?|every time|each time|any ?time|unless|if) i (?:ask|tell|mention|request)"
    r"|wenn ich (?:dich )?(?:\w+ ){0,3}(?:frage|bitte)|(?:chaque fois que|quand) je te demande|quando ti chied\w+"
    r"|(?:cada vez que|cuando) te (?:pida|pregunte)|quando eu (?:pedir|perguntar)|als ik (?:\w+ ){0,3}vraag)(?!\w)"
)
_ASKS = compile_later(r"(?:can|could|will) you(?: please)? (?:always|never)|(?:kannst|konntest) du(?: bitte)? immer")
# What is preferred is something at hand: this, that, yours, option B, the second.
_AT_HAND = (
    r"(?!(?:this|that|these|those|it|them|yours?|option|version|how|where|what|any|some of|one of|[b-e]|\d+|das|dies\w*"
    r"|jene\w*|deine?\w*|hier|cet?|cette|ces|ca|cela|celui|celle|est[aeo]s?|es[aeo]s?|aquel\w*|quest[aoie]|quell\w+"
    r"|isso|deze|dit|dat)(?!\w)|(?:the|den|die|le|la|el|il|o|a|de|het) (?:first|second|third|last|former|latter|other"
    r"|old|new|one|idea|erst|zweit|letzt|ander|premier|deuxieme|derni|autre|primer|segund|ultim|otr|altr|outr|eerste"
    r"|tweede|laatste))"
)
_OFTEN = r"(?: do| also| really| generally| usually| always| typically| normally| personally| still| much| tend to)*"
_PREFERENCE = compile_later(
    rf"(?<!\w)(?:i(?:'d| would)?{_OFTEN} (?:prefer|favou?r)|i(?:'d| would) rather(?! show| go)"
    rf"|i{_OFTEN} (?:like|love) (?:to(?! hear| say| think)|when you|it when you|having|keeping|using|working with)"
    r"|i(?: really)? (?:hate|dislike|can't stand)(?! the| not| when| being| to)|i always (?:want|like|work|appreciate)"
    r"|i don't(?: really)? (?:like|eat|drink)(?! the| our| my)|i (?:always|never) (?:use|write|wear|eat|drink)"
    r"|my preference is|i'm (?:partial to|not a fan of)|i'm [^.]{1,50} and prefer|i value(?=.* over )|i've preferred"
    r"|^my (?:preferred|favou?rite) (?:\w+ ){1,4}(?:is|are)"
    r"|ich (?:bevorzuge|hasse)|ich mag (?:lieber|keine?n?|es,? wenn)|ich \w+ am liebsten"
    r"|je (?:prefere|deteste|n'aime pas)|j'aime (?:mieux|que tu)|prefiero|odio|no me gustan?|me gusta (?:que|mas)"
    r"|preferisco|non mi piac\w+|mi piace (?:che|di piu)|prefiro|odeio|nao gosto de|gosto (?:que|mais de)"
    rf"|ik geef de voorkeur aan|ik heb (?:liever|graag)|ik houd? niet van) {_AT_HAND}"
    r"|我(?:更|比较|一般|通常|还是|都)*(?:喜[欢歡]|偏[好爱]|倾向于|习惯|讨厌|不喜[欢歡])(?![这那它第你這])"
    r"|^(?!.*(?:これ|それ|この|その|あの|こっち|そっち)).*(?:が好き|を好み|が(?:苦手|嫌い)(?:です|だ)|派です)"
    r"|^(?!.*(?:이거|이게|이걸|그거|그게|그걸)).*(?:을|를) (?:더 )?(?:선호|좋아|싫어)"
)
_TOOLS = "windows|macos|linux|ubuntu|wsl|n?vim|neovim|emacs|vs ?code|intellij|pycharm|zsh|fish|powershell|tmux"
_FACT = compile_later(
    r"(?<!\w)(?:(?:i'm|i am|ich bin|je suis|soy|sono|sou|ik ben) (?:an? |een )?(?:strict )?(?:vegetari|vegan|all?ergi"
    r"|lactose|gluten|co?eliac|celiac|diabet|dyslex|daltoni|farbenblind|colou?r-?blind)\w*"
    rf"|(?:i use|i'm on|i work on|ich (?:be)?nutze|ich verwende|j'utilise|uso|ik gebruik) (?:an? )?(?:{_TOOLS})"
    r"|call me (?!back|when|if|at|on|in|later|crazy)\w+|(?:my|mein|mon|mi|il mio|meu|mijn) (?:editor|editeur|shell"
    r"|terminal|browser|os|pronouns|time ?zone|zeitzone) (?:is|are|ist|est|es|e))(?!\w)"
    rf"|我(?:是素食|吃素)|我对.{{1,12}}过敏|我使?用(?:{_TOOLS})|(?:ベジタリアン|アレルギー)(?:です|が|だ)"
    rf"|[私僕俺]は.{{0,8}}(?:{_TOOLS})を使|(?:채식주의자|알레르기)(?:가 |예|이|입)|저는 .{{0,6}}(?:{_TOOLS})[를을] "
)
# Where words have no spaces or no fixed order: a word for all times, and a request or a prohibition.
_ASIAN_ORDER = compile_later(
    r"(?:以[后後]|今后|从现在起|從現在起|每次|每当).*(?:都|要|[请請]|不要|[别別]|必[须須]|只|用)"
    r"|(?:[请請]|你要|你必须|[务務]必|[记記]得).*(?:始[终終]|[总總]是|一直|永[远遠]|一律|每次)"
    r"|(?:永[远遠]|[绝絕]对|千万)(?:不要|[别別]|不能)|一律使?用"
    r"|(?:いつも|常に|毎回|今後|これから|二度と|決して|絶対|たびに).*"
    r"(?:[てで](?:ください|下さい|ほしい|ね|くれ)|ように|こと|しないで)"
    r"|(?:항상|언제나|늘|매번|앞으로|이제부터|지금부터|절대|다시는|때마다).*"
    r"(?:줘|세요|십시오|해라|마|말아|마라|[할말] 것)(?:요|라)?\W*$"
)


def find_wishes(text: str) -> Iterator[FoundWish]:
    """Yield the sentences of a person's own words that are wishes, or that take one back."""
    for line in SENTENCE_END.split(text):
        lead = _LEAD.match(line)
        sentence = " ".join(filter(str.isprintable, line[lead.end() if lead else 0 :].replace("<!--", "").split()))
        if 0 < len(sentence) <= _MAX_CHARS and (found := _read_sentence(sentence)):
            yield found


def takes_back(withdrawal: str, wish: str) -> bool:
    """True if a sentence takes back a wish: it names most of it."""
    return is_similar(_WITHDRAWAL.sub(" ", _fold(withdrawal)), wish, of=min)


def _fold(text: str) -> str:
    """Return a text folded, without what it quotes."""
    return fold(_QUOTED.sub(" ", text.replace("’", "'")))


def _read_sentence(sentence: str) -> FoundWish | None:
    """Return the wish that a sentence holds; of a question, what was said before it was asked."""
    folded = _fold(sentence)
    if _WITHDRAWAL.search(folded):
        return FoundWish(sentence, is_withdrawal=True)
    clauses = _CLAUSE.findall(sentence)
    if folded.endswith("?") and not _ASKS.search(folded):
        clauses.pop()
    rests = ["".join(clauses[number:]) for number in range(len(clauses))]
    orders, others = ([rest for rest in rests if is_meant(_fold(rest))] for is_meant in (_is_order, _is_general))
    if not orders and not others:
        return None
    text = rests[0] if len(sentence) <= _LONG_CHARS else (orders or others)[-1][:_LONG_CHARS]
    return FoundWish(text.strip(" ,;:，；：、"), is_order=bool(orders))


def _is_general(folded: str) -> bool:
    """True if a text says what its author prefers, or is, in general."""
    is_limited = _NOW.search(folded) or _HERE.search(folded)
    return not is_limited and bool(_PREFERENCE.search(folded) or _FACT.search(folded))


def _is_order(folded: str) -> bool:
    """True if a text begins with an order to the agent for all times."""
    if _NOW.search(folded):
        return False
    if not folded.isascii() and _ASIAN_ORDER.search(folded):
        return not folded.endswith("か。")
    if (since := _SINCE.search(folded)) and _begins_order(folded[: since.start()] + folded[since.end() :]):
        return True
    if (asked := _WHEN_ASKED.search(folded)) and _begins_order(folded[: asked.start()] or folded.partition(", ")[2]):
        return True
    polite = _POLITE.match(folded)
    rest = folded[polite.end() if polite else 0 :]
    if first := _FIRST.search(rest):
        word = first["english"] or first["other"] or ""
        is_state = word.endswith(("ed", "ing")) or (word.endswith("s") and not word.endswith(("ss", "us")))
        return word not in list_statement_words() and not (first["english"] and is_state)
    second = _SECOND.match(rest)
    return second is not None and second[1] not in list_statement_words()


def _begins_order(folded: str) -> bool:
    """True if a text may begin with a verb in an order."""
    polite = _POLITE.match(folded)
    word = folded[polite.end() if polite else 0 :].partition(" ")[0].partition("'")[0].strip(".,;:!?")
    return bool(word) and word not in list_statement_words() and not word.endswith(("ing", "ed"))


def read_wishes(settings: Settings, project: str) -> dict[int, Wish]:
    """Return the wishes of a project, or those that hold everywhere, by their lines; none if they cannot be read."""
    path = name_wishes(project)
    with suppress(ReadError):
        return parse_wishes(read_below(settings.workspace, path, shown=path, max_bytes=MAX_BYTES), project)
    return {}


def parse_wishes(data: bytes, project: str) -> dict[int, Wish]:
    """Return the wishes of a file by their lines; none if its title does not name the project."""
    lines, found, is_confirmed = decode(data).split("\n"), dict[int, Wish](), True
    named = read_annotations(lines[0])[1].project
    is_seen = not project or (bool(named) and is_for(named, read_projects([project])))
    for number, line in enumerate(lines if is_seen else (), start=1):
        is_confirmed = line.strip() != CANDIDATES if line.startswith("#") else is_confirmed
        if (item := _ITEM.fullmatch(line)) and item[1]:
            found[number] = Wish(item[1], item[2] or "", is_confirmed, project)
    return found
