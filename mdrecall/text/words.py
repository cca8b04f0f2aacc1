"""The analyser that indexing, queries and snippets share: text to terms; with stems, scripts and stop words.

Text is cut into *tokens*: runs of word characters that may contain joiners such as ``-``, ``.`` or ``/``, so that
``DEC-0054`` is one token. Each token gives two kinds of terms:

* *words*: folded (case, accents, width) and stemmed; scripts without spaces become overlapping character pairs.
  ``DEC-0054`` gives ``dec 0054``.
* *names*: an identifier as a whole, and the parts of camelCase. ``DEC-0054`` gives ``dec-0054``;
  ``memorySearch.query`` gives ``memorysearch.query memory search``.

The store stems by itself, because full-text engines have Porter's stemmer built in. So it receives words that are
folded but not stemmed, and plain ASCII text unchanged. A test checks that both sides make the same terms.

Stemming is Porter's (1980): on the question sets it found more of the right passages than none and than plurals alone.
``porter_stem`` gives the stems that the index holds; ``stem`` is the variant that queries and snippets use.

Stop words say little about what a query looks for, so they count little and never decide. They were compiled for this
project. English words, and those of a script that only their language uses here, are stop words in every query. The
lists of the other languages in Latin letters hold words that mean something elsewhere, such as *die*, *war* or *dog*:
such a list counts only in a query of its language.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache, lru_cache, partial
from typing import TypeVar

from mdrecall.patterns import compile_later

#: What a token may contain besides word characters.
JOINERS = "-./:@\\#&=?%~+"

#: Changes whenever the same text would give other terms; part of the index format.
ANALYSER_VERSION = 3

#: Vowel signs and tone marks of scripts whose words Python's \w would cut in pieces.
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_JOIN = f"[{re.escape(JOINERS)}]{{1,3}}+"
_ASCII_TOKEN = compile_later(rf"[A-Za-z0-9_]++(?>(?:{_JOIN}[A-Za-z0-9_]++)*)(?:\+\+|#)?")
_ASCII_PART = compile_later("[a-z0-9]+")
_CLASS = re.escape(JOINERS + "_")
# A joiner or a capital inside a word, and the rest of the word. `re` can skip to the set of characters at the start.
_NAME_HINT = compile_later(
    rf"[{_CLASS}A-Z](?:(?<=[^\W_][{_CLASS}])(?:(?=\S)|(?<=#))|(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])(?=[a-z][a-z]))\S*+"
)
_WORDLIKE = compile_later(r"[^\W_]+")
_CAMEL = compile_later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL_HINT = compile_later(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")

# Written without spaces between words: Han, kana, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3105-\u312f"
    "\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_MAYBE_UNSPACED = compile_later("[^\x00-\u0dff\u1e00-\u3004]")
# The patterns for text beyond ASCII.
_TOKEN = compile_later(rf"[\w{MARKS}]++(?>(?:{_JOIN}[\w{MARKS}]++)*)(?:\+\+|#)?")
_PART = compile_later(rf"[^\W_{MARKS}][^\W_]*(?:[{MARKS}]+[^\W_]*)*|[{MARKS}]+[^\W_]*")
_JOINER = compile_later(rf"_|[^\w{MARKS}]")
_UNSPACED_RUN = compile_later(f"[{_UNSPACED}]+")
_RUN = compile_later(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")


def is_unspaced(char: str) -> bool:
    """True if a character belongs to a script without spaces between words."""
    return not char.isascii() and _UNSPACED_RUN.match(char) is not None


def count_unspaced(text: str) -> int:
    """Count the characters of scripts without spaces between words."""
    if text.isascii() or not _MAYBE_UNSPACED.search(text):
        return 0
    return sum(map(len, _UNSPACED_RUN.findall(text)))


# Categories that the tokenizer of the index takes for parts of words: marks and private characters.
_LIKE_LETTERS = frozenset(("Mn", "Mc", "Me", "Co"))

_FOLD_MARKS = compile_later("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]+")
_FOLD_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h", "ŧ": "t"}
)
_FOLD_HINT = compile_later("[łøđðıæœþħŧ]")


def fold(text: str) -> str:
    """Return the text in lower case without accents and width variants: ``Café`` and ``ＣＡＦＥ`` become ``cafe``."""
    if text.isascii():
        return text.lower()
    import unicodedata

    folded = unicodedata.normalize("NFKC", _FOLD_MARKS.sub("", unicodedata.normalize("NFKD", text).casefold()))
    # Looking for the letters first is quick; `translate` looks up every character.
    return folded.translate(_FOLD_LETTERS) if _FOLD_HINT.search(folded) else folded


def surface_words(token: str) -> list[str]:
    """Return the folded words and character pairs of one token in reading order, before stemming."""
    if token.isascii():
        return _ASCII_PART.findall(token.lower())
    found: list[str] = []
    for part in _PART.findall(token):
        folded = fold(part)
        if folded.isascii() or not _MAYBE_UNSPACED.search(folded):
            found += [folded] if folded else []
            continue
        for run in _RUN.findall(folded):
            # Overlapping pairs, and the last character alone, so that every character begins a term.
            found += [run[i : i + 2] for i in range(len(run))] if is_unspaced(run[0]) else [run]
    return found


def name_terms(token: str) -> list[str]:
    """Return the name terms of one token: the whole identifier and the parts of camelCase; none for a plain word."""
    names: list[str] = []
    if not token.isalnum() and (token.isascii() or _JOINER.search(token)):
        names.append(fold(token))
    if not token.islower() and _CAMEL_HINT.search(token):
        for part in _WORDLIKE.findall(token):
            pieces = _CAMEL.findall(part)
            if len(pieces) > 1:
                names.extend(map(fold, pieces))
    return names


def tokens(text: str) -> list[str]:
    """Return the tokens of a text in reading order, normalised in width but otherwise unchanged."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _TOKEN.findall(_nfkc(text))


_T = TypeVar("_T")

# A longer run is hardly ever there twice, and remembering many of them would take hundreds of megabytes.
_REMEMBERED_CHARS = 64


class Analyser:
    """Makes terms, and remembers those of each token, because a few thousand tokens make up most text."""

    def __init__(self, max_remembered: int = 50_000) -> None:
        self._terms: dict[str, frozenset[str]] = {}
        self._names: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._max_remembered = max_remembered

    def indexable(self, text: str) -> tuple[str, str]:
        """Return the words for the store to fold and stem, and the name terms, each once; both separated by spaces."""
        if is_plain(text):
            return text, self._names_in(text)
        known = self._words
        bits = [
            bit if bit.isascii() else known.get(bit) or self._remember(known, bit, partial(_join, surface_words))
            for bit in text.split(" ")
        ]
        return " ".join(bits), self._names_in(_nfkc(text))

    def terms_of(self, word: str) -> frozenset[str]:
        """Return the terms of what stands between spaces."""
        return self._terms.get(word) or self._remember(self._terms, word, self.terms)

    def terms(self, text: str) -> frozenset[str]:
        """Return all terms of a text."""
        known = self._terms
        return frozenset().union(
            *(known.get(token) or self._remember(known, token, _stem_token) for token in tokens(text))
        )

    def _names_in(self, text: str) -> str:
        """Return the name terms of a text; to be fast, it reads only words with a joiner or a capital inside."""
        found: dict[str, None] = {}
        end = 0
        text = text.replace("\t", " ")
        for hint in _NAME_HINT.finditer(text):
            middle, stop = hint.span()
            bit = text[max(text.rfind(" ", end, middle), text.rfind("\n", end, middle), end - 1) + 1 : stop]
            found[self._names.get(bit) or self._remember(self._names, bit, partial(_join, name_terms))] = None
            end = stop
        return " ".join(filter(None, found))

    def _remember(self, memory: dict[str, _T], token: str, make: Callable[[str], _T]) -> _T:
        value = make(token)
        if len(memory) >= self._max_remembered:
            memory.clear()
        if len(token) <= _REMEMBERED_CHARS:
            memory[token] = value
        return value


def _join(list_terms: Callable[[str], Iterable[str]], bit: str) -> str:
    return " ".join(term for token in tokens(bit) for term in list_terms(token))


def _stem_token(token: str) -> frozenset[str]:
    names = (stem(name) if name.isalnum() else name for name in name_terms(token))
    return frozenset((*map(stem, surface_words(token)), *names))


def is_plain(text: str) -> bool:
    """True if a text has no letters, digits or marks beyond ASCII, so that every engine folds it the same way."""
    if text.isascii():
        return True
    import unicodedata

    beyond = [char for char in set(text) if not char.isascii()]
    return not any(char.isalnum() or unicodedata.category(char) in _LIKE_LETTERS for char in beyond)


def _nfkc(text: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFKC", text)


# FTS5 leaves longer words as they are.
_MAX_BYTES = 64

_V = "(?:[aeiou]|(?<=[^aeiou])y)"
_C = "(?:[^aeiouy]|(?<![^aeiou])y)"
_HAS_VOWEL = compile_later(rf".*?{_V}")
_SYLLABLE = rf"{_C}*{_V}+{_C}"
_ONE = compile_later(_SYLLABLE)
_TWO = compile_later(rf"{_SYLLABLE}+{_V}+{_C}")
_SHORT = compile_later(rf"{_C}+{_V}[^aeiouwxy]$")

# Derivational endings and what takes their place, longest first, for stems of at least one syllable.
_SOFTEN = {
    "ational": "ate", "ization": "ize", "iveness": "ive", "fulness": "ful", "ousness": "ous",
    "tional": "tion", "biliti": "ble", "entli": "ent", "ousli": "ous", "ation": "ate", "alism": "al",
    "aliti": "al", "iviti": "ive", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble",
    "alli": "al", "ator": "ate", "logi": "log", "eli": "e",
}  # fmt: skip
_SHORTEN = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ness": "", "ful": ""}
# Endings that stems of at least two syllables lose.
_DROP = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
    "ion", "al", "er", "ic", "ou",
)  # fmt: skip


def porter_stem(word: str) -> str:
    """Return the stem that FTS5's ``porter`` tokenizer gives a folded word.

    FTS5 counts in bytes of UTF-8 and takes every byte beyond ASCII for a consonant, so the word is stemmed as bytes.
    """
    if word.isascii():
        return _stem(word) if 3 <= len(word) <= _MAX_BYTES else word
    in_bytes = word.encode("utf-8", "surrogatepass")
    if len(in_bytes) > _MAX_BYTES:
        return word
    return _stem(in_bytes.decode("latin-1")).encode("latin-1").decode("utf-8", "surrogatepass")


@lru_cache(1 << 14)
def stem(word: str) -> str:
    """Return the stem of a folded word as queries and snippets use it: Porter's, but a y after a vowel stays.

    Porter makes *deploy* ``deploi`` and *deployment* ``deploy``: two terms for one word. Words with other letters than
    a to z stay as they are.
    """
    if not 3 <= len(word) <= _MAX_BYTES or not word.isascii():
        return word
    return _stem(word, keep_vowel_y=True)


def common_beginning(stemmed: str) -> str:
    """Return what every word with this stem begins with: all of it but the last letter, which may be another one."""
    return stemmed[:-1] if len(stemmed) > 2 else stemmed


def _stem(word: str, *, keep_vowel_y: bool = False) -> str:
    if word[-1] == "s":
        if (word.endswith("sses") and len(word) > 4) or (word.endswith("ies") and len(word) > 3):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word[-1] in ("d", "g"):
        word = _without_tense(word)
    is_kept = keep_vowel_y and word[-2:-1] in ("a", "e", "i", "o", "u")
    if word[-1] == "y" and not is_kept and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    word = _drop_ending(_replace_ending(_replace_ending(word, _SOFTEN), _SHORTEN))
    if word.endswith("e"):
        bare = word[:-1]
        if _has(_TWO, bare) or (_has(_ONE, bare) and not _has(_SHORT, bare)):
            word = bare
    return word[:-1] if word.endswith("ll") and _has(_TWO, word) else word


def _has(pattern: re.Pattern[str], word: str) -> bool:
    """True if the beginning of a word has the syllables of a pattern."""
    return pattern.match(_spell_out_y(word) if "yy" in word else word) is not None


def _spell_out_y(word: str) -> str:
    """Replace each y by a vowel or a consonant: after a consonant it is a vowel, so in a row of them it alternates."""
    spelled = ""
    for char in word:
        if char == "y":
            char = "i" if spelled and spelled[-1] not in "aeiou" else "w"
        spelled += char
    return spelled


def _without_tense(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _has(_ONE, word[:-3]) else word
    bare = word.removesuffix("ed" if word.endswith("ed") else "ing")
    if bare == word or not _HAS_VOWEL.match(bare):
        return word
    if bare.endswith(("at", "bl", "iz")):
        return bare + "e"
    if len(bare) > 1 and bare[-1] == bare[-2] and bare[-1] not in "aeioulsz":
        return bare[:-1]
    return bare + "e" if _has(_SHORT, bare) else bare


def _replace_ending(word: str, endings: dict[str, str]) -> str:
    for size in range(min(7, len(word) - 1), 2, -1):
        if (replacement := endings.get(word[-size:])) is not None:
            bare = word[:-size]
            return bare + replacement if _has(_ONE, bare) else word
    return word


def _drop_ending(word: str) -> str:
    ending = next(filter(word.endswith, _DROP), "") if word.endswith(_DROP) else ""
    bare = word.removesuffix(ending)
    return bare if ending and (ending != "ion" or bare.endswith(("s", "t"))) and _has(_TWO, bare) else word


SCRIPT_PATTERNS = {
    "latin": compile_later("[a-z0-9]"),
    "han": compile_later("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
    "kana": compile_later("[\u3041-\u30ff]"),
    "hangul": compile_later("[\uac00-\ud7a3]"),
    "cyrillic": compile_later("[\u0400-\u052f]"),
    "greek": compile_later("[\u0370-\u03ff]"),
}


def script_share(text: str, scripts: Sequence[str]) -> float:
    """Return the share of a text's letters and digits that belong to these scripts, accented or not."""
    if text.isascii():
        return float("latin" in scripts)
    folded = [char for char in fold(text) if char.isalnum()]
    patterns = [SCRIPT_PATTERNS[script] for script in scripts]
    known = sum(any(pattern.match(char) for pattern in patterns) for char in folded)
    return known / len(folded) if folded else 0.0


def is_unspaced_text(text: str) -> bool:
    """True if at least half of a text is in a script without spaces between words."""
    return not text.isascii() and count_unspaced(text) * 2 >= len(text)


def is_mostly_unspaced(text: str) -> bool:
    """True if at least half of a text's letters are Chinese or Japanese."""
    return not text.isascii() and script_share(text, ("han", "kana")) >= 0.5


_ENGLISH = """
s ll re ve don doesn didn isn wasn weren won wouldn couldn shouldn hasn haven hadn aren ain a about above after again
all also am an and any anybody anyone anything are arent as ask asked at be because been before being below between both
but by can cannot cant could couldnt did didnt do does doesnt doing done dont during each either else ever every few
find for from further gave get gets getting give given go goes going gone got had hadnt has hasnt have havent having he
hed help her here heres hers herself him himself his how hows i id if ill im in into is isnt it its itself ive just kind
know let lets like look made make makes many may maybe me mean might mine more most much must my myself need no nor not
now of often oh ok okay on once one ones only onto or other others our ours ourselves own please put quite rather really
recently said same say says see seem seems shall she shed shes should shouldnt show since so some somebody someone
something sometimes somewhere soon sort still stuff such sure take tell than thank thanks that thats the their theirs
them themselves then there theres these they theyre thing things think this those though through to today together told
tomorrow too took toward tried try under until upon us use used uses using usually very want wants was wasnt we well
went were werent weve what whatever whats when whenever where wheres wherever whether which while who whoever whom whos
whose why will with within without wont would wouldnt yes yesterday yet you youd youll your youre yours yourself youve
"""
_LATIN_WORDS = {
    "es": """
a aca ahi ahora al algo alli ante antes aquel aquella aqui asi aun aunque ayer ayuda bien busca cada como con contra
cual cuales cuando cuanta cuanto cuantos cuyo de del desde despues dice dijo dime donde dos el ella ellas ellos en
entre era eran es esa esas ese eso esos esta estaba estan estar este esto estos favor fue fueron ha habia hace hacer
han hasta hay he hemos hizo hoy ir la las le les lo los manana mas me mi mientras muestra muy nada ni no nos nosotros
nuestra nuestro o otra otro para pero por porque pues que quien quienes se sea segun ser si sido siempre sin sobre
solo son soy su sus tal tambien tan tanto te tenemos tener tengo tiene tienen todo todos tu tus un una uno unos usted
va vamos y ya yo
""",
    "pt": """
a ajuda ali amanha ao aos aquela aquele aqui aquilo as ate com como da das de dela dele depois disse do dos e ela elas
ele eles em entao essa essas esse esta estao estava este estes eu fazer fez foi foram hoje isso isto ja la lhe mais
mas mesmo meu minha mostre muito na nao nas nem no nos nossa nosso num numa o onde ontem os ou para pela pelas pelo
pelos por porque pra procure quais qual quando quanto que quem sao se sem sempre seu so sua tambem tem temos tenho
tinha todos um uma umas uns vamos voce voces
""",
    "de": """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei beim
bin bis bist bitte da dabei damit dann das dass dein deine dem den denn der des dich die dies diese diesem diesen
dieser dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwas euch euer fuer fur gab ganz
gegeben gegen gehabt gerade gern gestern gewesen gibt habe haben habt hast hat hatte hatten heute hier ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jemand jetzt kann kannst kein
keine keinem keinen keiner koennen konnen konnte machen macht man manche mehr mein meine meinem meinen meiner mich mir
mit morgen muss mussen nach nicht nichts noch nun nur ob oder ohne sag schon sehr sein seine seinem seinen seiner seit
sich sie sind so soll sollte sondern uber um und uns unser unsere unserem unseren unserer unter vom von vor wahrend
wann war waren warst warum was wegen weil welche welchem welchen welcher welches wem wen wenn wer werde werden wie
wieder wieso will wir wird wirst wo woher wohin wurde wurden zeig zu zum zur zwischen
""",
    "fr": """
a ai as au aucun aucune aujourd aussi autre autres aux avaient avait avant avec avez avoir avons ayant bien c ca car
ce ceci cela celle celles celui ces cet cette chaque chez ci comme comment d dans de demain depuis des dis donc dont
du elle elles en encore entre es est et etaient etais etait ete etre eu eux faire fait faut fois hier hui ici il ils j
je jusqu l la le les leur leurs lors lorsque lui m ma mais me meme mes mien moi mon montre n ne ni nos notre nous on
ont or ou oui par parce parmi pas pendant peu peut plus plusieurs pour pourquoi pouvez puis qu quand que quel quelle
quelles quelque quelques quels qui quoi s sa sans se selon sera ses si sien soit sommes son sont sous suis sur svp t
ta te tes toi ton tous tout toute toutes tres trop tu un une vers voici voila vos votre vous y
""",
    "it": """
a abbiamo ad agli ai al alla alle allo anche ancora avere avete aveva avevano c che chi ci cio coi col come con cosa
cui da dagli dai dal dalla dalle dallo degli dei del della delle dello di dimmi domani dove e ed era erano essere fa
fare fatto fino fra fu ha hai hanno ho i ieri il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio
molto mostra ne negli nei nel nella nelle nello no noi non nostra nostro o oggi ogni per perche piu po poi puo qual
quale quali quando quanto quasi quella quelle quelli quello questa queste questi questo qui se sei sempre senza si sia
siamo sono sta stata stato su sua sue sugli sui sul sulla sulle suo suoi tra tu tua tuo tutti tutto un una uno vi voi
""",
    "nl": """
aan al alle alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen
geweest gisteren haar had hadden heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jij jou jouw
jullie kan kon kunnen maar me meer men met mij mijn moet morgen na naar niet niets nog nu of om omdat onder ons onze
ook op over reeds te tegen toch toen tot u uit uw van vandaag veel voor waar waarom wanneer want waren was wat we weer
wel welk welke werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo zonder zou
""",
    "da": """
ad af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din dine disse dit dog du efter
eller en end er et fa for fra gar gor gore ham han hans har havde have hende hendes her hos hun hvad hvem hver hvilke
hvilken hvilket hvis hvor hvordan hvorfor hvornar i idag igar ikke imorgen ind ja jeg jer jo kan kunne ma man mange
med meget men mere mig min mine mit mod nar ned nej ni nogen noget nogle nu og ogsa om op os over pa sa sadan sagde
selv sig sin sine sit skal skulle som til ud under vaere vaeret var vi vil ville vor
""",
    "no": """
alle alt andre at av bade bare ble bli blir da de deg dem den denne der dere deres det dette di din dine disse ditt du
dykk eller en enn er et ett etter for fordi fra gar gjorde gjore ha hadde han hans har henne hennes her hva hvem hver
hvilke hvilken hvilket hvis hvor hvordan hvorfor i idag igar ikke imorgen inn ja jeg kan kunne ma man mange med meg
mellom men mer min mine mitt mot na nar nei noe noen og ogsa om opp oss over pa sa samme seg selv si sin sine sitt
skal skulle slik som til ut uten vaere vaert var vart ved vi vil ville
""",
    "sv": """
alla allt an andra ar att av bara blev bli blir da dar de dem den denna deras dess dessa det detta dig din dina ditt
du efter eller en er ett for fore fran gick gjorde gor gora ha hade han hans har henne hennes hon hos hur i idag igar
imorgon in inte ja jag ju kan kom kunde ma man maste mellan men mer mig min mina mitt mot mycket nagon nagot nagra nar
ni nu och ocksa om oss over pa sa samma sedan sig sin sina sitt sjalv ska skulle som till under upp ur ut utan vad var
vara varfor varit varje vart vem vems vi vid vilka vilken vilket
""",
    "fi": """
ei eika eilen eivat emme en et etta ette han hanen hanta he heidan huomenna ja joka jonka jos jossa jota joten kanssa
keita keta koska kuin kuinka kuka kun me meidan mihin mika miksi milloin mina minka minulla minulle minun missa mista
mita miten mukaan mutta myos ne niiden niin nyt ole olemme olen olet olette oli olimme olin olivat olla ollut on ovat
se seka sen siella siina siita silla sille sina sinun sita tai talla tama taman tanaan tassa te tuo tuon vai vaikka
vain voi voin
""",
    "pl": """
a aby albo ale ani bardzo bedzie bez bo byc byl byla byli bylo byly ci co czemu czy czyli dla dlaczego do dzis dzisiaj
gdy gdzie go i ich ile im inne iz ja jak jaka jaki jakie je jego jej jest jestem jeszcze jutro juz kiedy kto ktora
ktore ktory ktorzy ku lub ma maja mam mi miedzy mnie moj moja moje moze mu my na nad nam nas nasz nasza nasze nic nich
nie niej nim o od on ona one oni ono oraz pan po pod przed przez przy sa sie skad ta tak takze tam te tego tej ten
teraz tez to tu tutaj ty tylko tym u w wczoraj we wiec wszystko wy z za ze zeby
""",
    "tr": """
ama ancak bana bazi belki ben beni benim bile bir biri birkac biz bize bizi bizim bu bugun buna bunu bunun burada cok
cunku da daha de defa diye dun en gibi gore hangi hani hem hep hepsi her hic icin ile ise kadar ki kim kime mi mu
nasil ne neden nerede nereye nicin niye o olan olarak oldu oldugu olsa ona onlar onu onun orada oyle sanki sen seni
senin sey simdi siz sizin su sunu tum var ve veya ya yani yarin yok zaman
""",
    "id": """
ada adalah agar akan aku anda apa apakah atau bagaimana bahwa besok bisa bukan dalam dan dapat dari dengan di dia
hanya hari harus ini itu jika juga kami kamu kapan karena ke kemarin kepada kita lagi mana mengapa mereka oleh pada
saya sebagai sebuah sedang sekarang seperti siapa sudah telah tentang tidak untuk yang
""",
    "vi": """
ai ban bao cac cho chung co cua cung da dang dau den do duoc gi hay ho hoac hom khi khong la mot nao nay neu nhieu nhu
nhung no o qua rat sao se ta thi toi trong tu va ve vi voi
""",
}
# Russian, Ukrainian, Greek, Hebrew, Persian, Hindi, Arabic, Korean, Japanese, Chinese.
_OTHERS = """
а без более бы был была были было быть в вам вас весь во вот все всего вчера вы где да даже для до его ее еи ему если
есть еще же за завтра зачем здесь и из или им их к как какая какие какои когда которая которые которыи кто куда ли
либо меня мне мое может мои моя мы на над надо наш наша наши не него нее неи нет ни них но ну о об он она они оно от
откуда очень по под почему при с сам свои себя сегодня сеичас сколько со так также такои там тебе тебя тем то тогда
того тоже только том ты у уже хоть чего чеи чем что чтобы чье эта эти это этого этои этом этот я
або але бо був була були було в вам вас вже ви вона вони воно все вчора від він де для до з за зараз и иого кого коли
кому мене мені ми може на не ні при про під с сьогодні та так також там те ти то тільки у хто це цеи ця ці чи чому що
щоб я як яка якии які і із іх іі
αλλα αν απο αυριο για γιατι δεν ειναι ειχε εχει η ηταν θα και κι μασ με μη μου να ο οι ποια ποιο ποιοσ ποτε που πωσ
σασ σε σημερα σου στα στη στην στο στον τα την τησ τι τισ το τον του τουσ των τωρα χθεσ χτεσ ωσ
אבל או איך אין איפה אל אם אנחנו אני את אתה אתמול גם האם הוא היא היה היו היום היתה הם הן זאת זה זו יש כי כל כמה כן לא
למה מה מחר מי מתי עד עכשיו על עם רק של
از است الان اما امروز ان انها او اگر این با برای به بود بودند تا تو دارد در دیروز را شد شما فردا ما من نیست هست هم و
چرا چند چه چگونه چی کجا که کی یا
अपना अपने अब आज आप आपका इन इस उन उस एक और कब कर करना कल कहाँ कहां का कि कितना कितने किया किस किसने की के कैसे को कौन
क्या क्यों गई गए गया जो तक तुम तो था थी थे नहीं ने पर पहले बाद भी में मेरा मेरी मेरे मैं यह या ये रहा रही रहे लिए
लेकिन वह वे साथ से हम हमारा हमारी ही है हैं हो होता
اذا اشياء الامس الان البارحة التي الذي الذين الغد الى اليه اليوم ام امبارح امس ان انا انت انتم اننا او اي ايضا اين
بالامس بالغد بعد بعض بل به بها بين تحت تكون تلك ثم جدا حتى حول ذلك شيء على عليه عليها عن عند عندما عندنا عندي غد غدا
غير فقط فوق في فيه فيها قبل قد كان كانت كذلك كل كم كما كيف لا لدى لدي لقد لكن لم لماذا لن له لها لهم ليس ليست ما ماذا
متى مع من منذ منه منها نا نحن ني هذا هذه هل هم هن هنا هناك هو هي واليوم وامس وغدا وهو وهي يكون
그 이 저 그것 이것 저것 것 거기 여기 저기 나 너 우리 저희 그녀 그들 누구 무엇 뭐 언제 어디 어떻게
왜 어느 어떤 얼마나 하다 있다 없다 되다 이다 아니다 그리고 그러나 하지만 그래서 또는 또한 때문에 만약
지금 어제 오늘 내일 아까 최근 나중 매우 너무 정말 아주 조금 다시 계속 모든 각 다른 같은 제발 도와줘
찾아줘 보여줘 알려줘 대해 대한 관련 에서 으로 에게 한테 처럼 보다 까지 부터 합니 니다 습니 는지 인가
これ それ あれ この その あの ここ そこ あそこ どこ だれ 誰 なに 何 なぜ いつ どう どの どれ する
した して いる いた ある あった なる なった こと もの ため よう から まで より など って です ます
でし ました たい ない では には とは とし との への につ つい いて につい について とい いう という
うな ので のは のが のを れた れて られ てい でき きる すか たか るか のか か か。 ください 教え えて
昨日 今日 明日 今 最近 さっき
的 了 和 是 在 我 有 他 她 它 们 我们 你们 他们 这 那 这个 那个 这些 那些 这里 那里 什么 怎么
怎样 为什 为什么 哪里 哪个 哪些 谁 几 多少 如何 何时 吗 呢 吧 啊 就 都 也 很 太 更 最 不 没 没有
可以 能 会 要 想 请 帮 帮我 找 告诉 诉我 一个 一下 一些 以及 因为 所以 但是 如果 或者 而且 之前
之后 以前 以后 刚才 现在 昨天 今天 明天 最近 关于 对于 是什 么时 时候 是谁 是多 有哪 有什 有多 什么时
东西 事情
"""

_LATIN: Mapping[str, frozenset[str]] = {language: frozenset(words.split()) for language, words in _LATIN_WORDS.items()}
_ENGLISH_WORDS = frozenset(_ENGLISH.split())
_OTHER_SCRIPTS = frozenset(_OTHERS.split())
# Stop words elsewhere that are English words, names or abbreviations: they do not show what language a query is in.
_ALSO_ENGLISH = """
ad ai al ali alla allen alt ana ate ban bare ben bile bin biz car chi co col com come comment con da dan de del den
des di dice die dig dis dog door du dun el end er era est fa fare favor fra fu fur gore ham han hans hat hay hem hui
hun il inn ins io kim kom la las le les lo los ma man med men mere met mi mia min mir mit mod mon mu na ned nos ole os
over pa pan par pas pendant per plus pod pour qua rat sag sam san sea sei ser ses sin sit solo son soy sur tal tan te
ten till til ton tra tum u uber un van var vi von war wil
"""
_AMBIGUOUS = frozenset(_ALSO_ENGLISH.split())
# One of these is needed to tell a language.
_TELLING = frozenset().union(*_LATIN.values()) - _AMBIGUOUS
#: Stop words in Latin letters of every language, but for those that mean something in English.
LATIN_STOP_WORDS = _ENGLISH_WORDS.union(*_LATIN.values()) - (_AMBIGUOUS - _ENGLISH_WORDS)


def find_stop_words(words: Iterable[str]) -> frozenset[str]:
    """Return those of a query's folded words that are stop words in it."""
    there = frozenset(words)
    certain = there & _ENGLISH_WORDS
    found = certain | (there & _OTHER_SCRIPTS)
    for language in _guess_languages(there - found, len(certain)):
        found |= there & _LATIN[language]
    return found


def stop_words_of(language: str) -> frozenset[str]:
    """Return the stop words of a language in Latin letters."""
    return _ENGLISH_WORDS if language == "en" else _LATIN[language]


def count_words(words: Set[str], language: str) -> int:
    """Return how many of the words are stop words of a language in Latin letters and of no English sentence."""
    return len((words & _LATIN[language]) - _ENGLISH_WORDS)


def find_language(text: str) -> str:
    """Return the language of a text as its script or its stop words tell; English if they do not tell it."""
    for script, language in (("kana", "ja"), ("hangul", "ko"), ("han", "zh")):
        if not text.isascii() and SCRIPT_PATTERNS[script].search(text):
            return language
    words = frozenset(word for token in tokens(text) for word in surface_words(token))
    guessed = _guess_languages(words - _ENGLISH_WORDS, len(words & _ENGLISH_WORDS))
    return guessed[0] if len(guessed) == 1 else "en"


def _guess_languages(words: Set[str], english_count: int) -> list[str]:
    """Return the languages that a query may be in, apart from English, by how many stop words of theirs it has."""
    telling = words & _TELLING
    counts = {each: count_words(words, each) for each in _LATIN if telling & _LATIN[each]} if telling else {}
    most = max(counts.values(), default=0)
    return [language for language, count in counts.items() if count == most and count >= english_count]


# Stop words begin a clause that is no order, such as a subject. Those that do order, and other words that state.
_ORDERING_STOP_WORDS = "use make do don tell give show let put go try zeig sag montre dis da muestra uses mostra mostre"
_STATEMENTS = """everything everyone nobody nothing users people tests lately mind seen heard got knew thought done good
saw great nice happy fun calm glad ready love hear easy hard niemand geht kommt rien marche plante echoue arrive falla
sale pasa tarda funciona aparece niente funziona fallisce succede tudo falha fica werkt faalt gaat crasht slaagt"""


@cache
def list_statement_words() -> frozenset[str]:
    """Return words that do not begin an order, in seven languages."""
    stop_words = frozenset().union(*map(stop_words_of, ("en", "de", "fr", "es", "it", "pt", "nl")))
    return (stop_words - set(_ORDERING_STOP_WORDS.split())).union(_STATEMENTS.split())


# Words that many sentences to an agent have do not make two of them the same. The share of the others that does.
_OF_ORDERS = "always never please anymore bitte immer nie toujours jamais siempre nunca sempre altijd nooit stop need"
_SIMILAR_SHARE = 0.6


def is_similar(one: str, other: str, of: Callable[[int, int], int] = max) -> bool:
    """True if two sentences share most of their words: those of the longer one, or with ``min`` of the shorter one."""
    words, others = _content_words(one), _content_words(other)
    return len(words & others) >= _SIMILAR_SHARE * max(1, of(len(words), len(others)))


def _content_words(text: str) -> frozenset[str]:
    words = {word for token in tokens(text) for word in surface_words(token)}
    kept = words - find_stop_words(words) - set(_OF_ORDERS.split())
    return frozenset(word if is_unspaced(word[0]) else stem(word) for word in kept)
