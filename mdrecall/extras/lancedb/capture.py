"""Which messages of a user are worth keeping, and of which category each is.

The rules are OpenClaw's, but on whole words: OpenClaw finds its ``is`` in ``this`` and its ``prefer`` in
``preferential``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

from mdrecall.text.markdown import utf16_units
from mdrecall.text.words import fold, is_unspaced

Category: TypeAlias = Literal["preference", "fact", "decision", "entity", "other"]
CATEGORIES: tuple[Category, ...] = get_args(Category)

# OpenClaw's limits: a shorter text says nothing, and a row of emoji is decoration.
_MIN_UNITS = 10
_MAX_EMOJI = 3
_EMOJI = re.compile("[\U0001f300-\U0001faff]")
# The lookbehind lets each run of letters be tried once; else a text without spaces takes quadratic time.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.\w{2,}")
_PHONE = re.compile(r"\+\d[\d ()./-]*")
_BLOCK = re.compile(r"\A\s*<relevant-memories>.*?</relevant-memories>\s*", re.DOTALL)
_TAG = re.compile(r"<\s*/?\s*(?:system|assistant|developer|tool|function|relevant-memories|untrusted)\b")
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
# The vowel signs of Devanagari belong to a word, but are not letters.
_LETTER = r"[\w\u0900-\u097f]"
_BETWEEN = r"(?:\s+[^\s.!?]+){0,5}?\s+"
# The words that mark a message as worth keeping, in seventeen languages. A phrase matches whole words; with * at its
# end the last word may continue. Phrases in scripts without spaces, and in Korean, which attaches endings to words,
# match anywhere. Case and accents do not count.
_REMEMBER = (
    "remember|remembers|remembered|do not forget|don't forget|keep in mind",
    "zapamatuj*|pamatuj*|nezapomen*",
    "merk dir|merke dir|merken sie sich|denk daran|denke daran|vergiss nicht|nicht vergessen|behalte im kopf",
    "souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|retiens|retenez|n'oublie pas|n'oubliez pas",
    "recuerda|recuerde|recuerden|recordad|acuérdate|no olvides|no te olvides|ten en cuenta",
    "ricorda|ricordati|ricordate|non dimenticare|tieni presente|tieni a mente",
    "lembra-te|lembre-se|lembra|lembre|não esqueça|não te esqueças|não se esqueça|tenha em mente",
    "onthoud|vergeet niet|herinner je",
    "zapamiętaj*|pamiętaj*|nie zapomnij*",
    "запомни*|помни|помните|не забудь*|не забывай*|имей в виду|имейте в виду|учти|учтите",
    "запам'ятай*|пам'ятай*|не забудь*|не забувай*|май на увазі|майте на увазі|врахуй*",
    "hatırla*|unutma|unutmayın|unutma ki|aklında tut*",
    "تذكر*|لا تنس*|احفظ*|ضع في اعتبارك",
    "याद रख*|मत भूल*|ध्यान रख*|ध्यान में रख*",
    "记住|記住|记得|記得|别忘|別忘|不要忘|请记|請記",
    "覚えて|忘れないで|記憶して|念頭に",
    "기억해|기억하|잊지 마|잊지마",
)
_PREFER = (
    "prefer|prefers|preferred|i like|i hate|i love|i want|i need|i do not like|i don't like|i do not want|i don't want",
    "i really like|i really love|i really want|i really need|i always want|i also like",
    "preferuji|preferuju|radši|raději|nechci|mám rád|mám ráda|nemám rád|nemám ráda|nesnáším",
    "ich bevorzuge|ich mag|mag ich|ich möchte|ich will|ich brauche|ich hasse|ich liebe|lieber|am liebsten",
    "je préfère|j'aime|je n'aime pas|je déteste|j'adore|je veux|je ne veux pas|je voudrais|j'ai besoin",
    "prefiero|me gusta|me gustan|no me gusta|me encanta|me encantan|odio|detesto|quiero|no quiero|necesito",
    "preferisco|mi piace|mi piacciono|non mi piace|voglio|non voglio|vorrei|ho bisogno|adoro",
    "prefiro|eu gosto|gosto de|não gosto|odeio|eu quero|não quero|eu preciso|preciso de",
    "ik verkies|ik wil|ik hou van|ik houd van|ik haat|ik heb liever|liever|het liefst",
    "wolę|preferuję|lubię|kocham|nienawidzę|chcę|potrzebuję",
    "предпочитаю|мне нравится|мне нравятся|мне не нравится|люблю|ненавижу|я хочу|не хочу|мне нужно|мне нужен|мне нужна",
    "віддаю перевагу|мені подобається|мені подобаються|мені не подобається|ненавиджу|мені потрібно|мені потрібен",
    "tercih ed*|severim|seviyorum|sevmem|sevmiyorum|nefret ed*|istiyorum|istemiyorum|ihtiyacım var",
    "أنا أفضل|أحب|أكره|أريد|أحتاج|أفضل أن",
    "पसंद|मुझे चाहिए|मैं चाहता|मैं चाहती|नफरत|की जरूरत|की ज़रूरत",
    "我喜欢|我喜歡|我更喜欢|我更喜歡|我偏好|我讨厌|我討厭|我想要|我需要|我爱|我愛|我不想|我不喜欢|我不喜歡|我不要",
    "が好き|好みは|が嫌い|が欲しい|がほしい|のほうがいい|の方がいい|が必要",
    "좋아해|좋아합|좋아하|싫어해|싫어합|싫어하|선호해|선호합|원해|원합|필요해|필요합",
)
_ALWAYS = (
    "always|never|important",
    "vždy|vždycky|nikdy|důležit*",
    "immer|niemals|nie wieder|nie mehr|bitte nie|wichtig*",
    "toujours|jamais|importante|importants",
    "siempre|nunca|jamás|importantes",
    "sempre|mai più|importanti",
    "altijd|nooit|belangrijk*",
    "zawsze|nigdy|ważne|ważny|ważna",
    "всегда|никогда|важно|важный|важная|важное",
    "завжди|ніколи|важливо|важливий|важлива",
    "her zaman|daima|asla|hiçbir zaman|önemli*",
    "دائما|أبدا|مهم|مهمة",
    "हमेशा|कभी नहीं|महत्वपूर्ण|ज़रूरी है|जरूरी है",
    "总是|總是|永远|永遠|从不|從不|绝不|絕不|重要|务必|務必",
    "いつも|必ず|絶対に|決して",
    "항상|절대|중요|반드시",
)
# Triggers in every language but English, where OpenClaw has none; in every language they make a text a decision.
_DECIDE = (
    "rozhodli jsme|budeme používat",
    "wir haben entschieden|haben uns entschieden|wir haben beschlossen|wir verwenden|wir werden verwenden",
    "nous avons décidé|on a décidé|nous utiliserons",
    "hemos decidido|decidimos|usaremos|vamos a usar",
    "abbiamo deciso|useremo",
    "vamos usar|resolvemos usar",
    "we hebben besloten|we hebben gekozen",
    "zdecydowaliśmy*|będziemy używać",
    "мы решили|будем использовать",
    "ми вирішили|будемо використовувати",
    "karar verdik|kullanacağız",
    "قررنا|سنستخدم",
    "हमने तय किया|हमने फैसला किया|हमने फ़ैसला किया",
    "我们决定|我們決定|决定使用|決定使用|我们将使用|我們將使用",
    "ことにした|ことにしました|に決めました|に決めた|を使うことに",
    "결정했|사용하기로|쓰기로",
)
_CALLED = (
    "is called|am called|jmenuje se|jmenuji se",
    "ich heiße|heißt|je m'appelle|s'appelle|me llamo|se llama|mi chiamo|si chiama|me chamo|chamo-me|chama-se|se chama",
    "ik heet|nazywam się|mam na imię|nazywa się|меня зовут|зовут|мене звати|звати|benim adım|adım|اسمي|मेरा नाम",
    "我叫|名叫|叫做|と申します|という名前|제 이름|내 이름",
)
# Statements about what is one's own, with words in between: ``my favourite colour is``.
_MINE = (
    ("my", "is|are"),
    ("můj|moje|moji|má", "je|jsou"),
    ("mein|meine|meiner|meinem", "ist|sind"),
    ("mon|ma|mes", "est|sont"),
    ("mi|mis", "es|son|está"),
    ("mio|mia|miei|mie", "è|sono"),
    ("meu|minha|meus|minhas", "é|são|está"),
    ("mijn", "is|zijn"),
    ("mój|moja|moje|moi", "to|jest|są"),
    ("мой|моя|мое|моё|мои", "это|есть"),
    ("мій|моя|моє|мої", "це|є"),
    ("benim", "var|yok"),
    ("मेरा|मेरी|मेरे", "है|हैं"),
)
_MINE_UNSPACED = (r"我的.{1,20}?[是叫在]", r"(?:私|僕|俺|うち)の.{1,20}?は", r"(?:^|\s)[내제] \S{1,20}[은는] ")
_MINE_ALONE = (
    "is my|je můj|ist mein|ist meine|est mon|est ma|es mi|è il mio|è la mia|é o meu|é a minha|is mijn|to mój|to moja",
    "моя почта|мой адрес|мой номер|моя пошта|моя адреса|мій номер|adresim|numaram|e-postam|بريدي|رقمي|عنواني",
)
# Verbs that state a fact.
_IS = (
    "is|are|has|have|je|má|jsou|ist|sind|hat|haben|est|sont|es|son|tiene|è|sono|ha|hanno|é|são|tem|zijn|heeft|hebben",
    "jest|są|ma|это|есть|находится|це|є|var|yok|है|हैं|هو|هي",
    "是|有|です|である|があります|입니다|이다|있습니다",
)
# Attempts to make a model drop its instructions: a verb, and within a few words an object.
_IGNORE = (
    ("ignore|disregard|forget|override|bypass", "instruction|instructions|rules|directives|guidelines|prompt|prompts"),
    ("ignoruj|zapomeň", "instrukce|pokyny|pravidla"),
    ("ignoriere|ignorieren|missachte|vergiss", "anweisung|anweisungen|instruktionen|regeln|vorgaben"),
    ("ignore|ignorez|oublie|oubliez", "instructions|consignes|règles|directives"),
    ("ignora|ignore|olvida|olvide", "instrucciones|reglas|indicaciones"),
    ("ignora|dimentica", "istruzioni|regole"),
    ("ignore|ignora|esqueça|esquece", "instruções|regras"),
    ("negeer|vergeet", "instructies|regels"),
    ("zignoruj|ignoruj|zapomnij", "instrukcje|polecenia|zasady"),
    ("игнорируй|игнорируйте|забудь|забудьте", "инструкции|указания|правила"),
    ("ігноруй|ігноруйте|забудь|забудьте", "інструкції|вказівки|правила"),
    ("talimatları", "yok say|görmezden gel|unut"),
    ("تجاهل", "التعليمات|الأوامر|القواعد"),
    ("निर्देशों", "अनदेखा|भूल"),
)
_IGNORE_UNSPACED = (
    r"(?:忽略|无视|無視|忘记|忘記).{0,12}(?:指令|指示|提示|规则|規則)",
    r"(?:指示|命令|プロンプト|ルール).{0,8}(?:無視|忘れ)",
    r"(?:지시|명령|규칙).{0,8}(?:무시|잊)",
)


def compile_triggers(phrases: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern of the user's own phrases: literal, whole words where there are spaces; None without any."""
    plain = [folded for phrase in phrases if (folded := fold(" ".join(phrase.split())))]
    return re.compile(_either(plain, re.escape)) if plain else None


def is_worth_keeping(text: str, max_units: int, more: re.Pattern[str] | None = None) -> bool:
    """True if a message has a trigger, ours or one of ``more``, and does not try to steer the agent."""
    if not _MIN_UNITS <= utf16_units(text) <= max_units or _looks_generated(text):
        return False
    plain = _normalize(text)
    has_trigger = _compile_remember().search(plain) or _has_address(text) or (more and more.search(plain))
    return bool(has_trigger) and not (_TAG.search(plain) or _compile_injection().search(plain))


def categorize(text: str) -> Category:
    """Return the category of a memory, by its words."""
    plain = _normalize(text)
    if _compile(*_PREFER, "like|love|hate|want").search(plain):
        return "preference"
    if _compile(*_DECIDE, "decided|will use|rozhodli|budeme").search(plain):
        return "decision"
    if _has_address(text) or _compile(*_CALLED).search(plain):
        return "entity"
    return "fact" if _compile(*_IS).search(plain) else "other"


def list_user_texts(messages: Iterable[Any]) -> Iterator[str]:
    """Yield what users say in messages of a known shape, without the memories that were put before a prompt."""
    for message in messages:
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks if isinstance(blocks, Sequence) else ():
                is_text = isinstance(block, Mapping) and block.get("type") in ("text", "input_text")
                if is_text and isinstance(block.get("text"), str):
                    yield _BLOCK.sub("", block["text"])


def pick_newest(texts: Sequence[str], most: int, max_units: int, more: re.Pattern[str] | None = None) -> list[str]:
    """Return the last texts that are worth keeping, at most ``most``, the last one first and each once."""
    found: dict[str, None] = {}
    for text in reversed(texts):
        if len(found) < most and is_worth_keeping(text, max_units, more):
            found.setdefault(text)
    return list(found)


def _looks_generated(text: str) -> bool:
    """True if a program or a model seems to have written it: markup, a formatted answer, a row of emoji."""
    if "relevant-memories" in text.lower() or (text.lstrip().startswith("<") and "</" in text):
        return True
    return ("**" in text and "\n-" in text) or len(_EMOJI.findall(text)) > _MAX_EMOJI


def _has_address(text: str) -> bool:
    """True if a text has an e-mail address or a phone number."""
    numbers = (sum(char.isdigit() for char in number) for number in _PHONE.findall(text))
    return bool(_EMAIL.search(text)) or any(digits >= 10 for digits in numbers)


def _normalize(text: str) -> str:
    """Return a text folded, without invisible characters, with white space collapsed."""
    return " ".join(fold(_HIDDEN.sub("", text).replace("’", "'").replace("ʼ", "'")).split())


# Each pattern is compiled at its first use: most processes that import this module need none.
@cache
def _compile(*rows: str) -> re.Pattern[str]:
    return re.compile(_either(_split(*rows)))


@cache
def _compile_remember() -> re.Pattern[str]:
    phrases = _either(_split(*_REMEMBER, *_PREFER, *_ALWAYS, *_DECIDE, *_MINE_ALONE))
    return re.compile("|".join([phrases, _whole_words("|".join(_pairs(_MINE))), *_MINE_UNSPACED]))


@cache
def _compile_injection() -> re.Pattern[str]:
    fixed = (
        r"(?:do not|don't) follow (?:the )?(?:system|developer)", "system prompt", "developer message",
        r"(?:run|execute|call|invoke)\b.{0,40}\b(?:tools?|commands?)",
    )  # fmt: skip
    return re.compile("|".join([_whole_words("|".join([*_pairs(_IGNORE), *fixed])), *_IGNORE_UNSPACED]))


def _split(*rows: str) -> list[str]:
    return [phrase for row in rows for phrase in row.split("|")]


def _phrase(phrase: str) -> str:
    end = rf"{_LETTER}*" if phrase.endswith("*") else ""
    return re.escape(fold(phrase.removesuffix("*"))) + end


def _either(phrases: Sequence[str], to_pattern: Callable[[str], str] = _phrase) -> str:
    """Return one pattern for all phrases: on whole words, or anywhere in scripts without spaces."""
    spaced = "|".join(to_pattern(phrase) for phrase in phrases if not is_unspaced(phrase[0]))
    anywhere = [to_pattern(phrase) for phrase in phrases if is_unspaced(phrase[0])]
    return "|".join([*([_whole_words(spaced)] if spaced else ()), *anywhere])


def _pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return a pattern for each pair of phrases that may have words in between."""
    words = [["|".join(map(_phrase, _split(part))) for part in row] for row in rows]
    return [f"(?:{first}){_BETWEEN}(?:{last})" for first, last in words]


def _whole_words(pattern: str) -> str:
    return f"(?<!{_LETTER})(?:{pattern})(?!{_LETTER})"
