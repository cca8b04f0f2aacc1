"""The table of rules: what a secret looks like.

Each pattern takes time in proportion to the text. It begins with something rare or bounded. A part without a bound is
possessive and followed by nothing that could fail, or cannot begin again inside itself. What a pattern cannot decide
that way is decided by a check on the match.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

from mdrecall.patterns import compile_later

#: The words for "password" that are not like the English one, as a part of a pattern.
PASSWORDS = "mot de passe|contraseña|clave|senha|wachtwoord|hasło|пароль|密码|密碼|口令|パスワード|暗号|비밀번호"
PASSWORD_HINTS = ("pass", "kennwort", *PASSWORDS.split("|"))
_PASSWORDS = frozenset(("kennwort", "pwd", *PASSWORDS.split("|")))
_ENGLISH = ("is ", "was", "will", "should", "has", "got", "now", "set", "changed", "reset", "lautet")

# A word before "key" or "token" may make it a secret, or rule it out.
_STRONG = compile_later(
    r"(?:api|access|secret|private|encryption|signing|auth|master|service|account|storage|shared|subscription|app"
    r"|application|admin|deploy|webhook|bot|client|license|licence|wep|wpa|psk|openai|anthropic|hmac|jwt|ssh)[ _-]?$",
    re.IGNORECASE,
)
_SHOUTED = compile_later(r"[A-Z0-9]_$|(?<![A-Za-z0-9])[A-Z0-9]{2,}$")
_NEVER = compile_later(
    r"(?:public|primary|foreign|sort|partition|cache|row|session|idempotency|natural|unique|hot|turn|mon|don|hoc|joc"
    r"|whis|tur|lac|routing|object|index|lookup|answer|low|off|mid|dedupe|range|hash|context)[ _-]?$",
    re.IGNORECASE,
)
_COUNTED = compile_later(
    r"(?:max|min|num|pad|eos|bos|unk|mask|sep|per|next|first|last|each|one|single|this)[ _-]?$", re.I
)

_INFLECTED = compile_later(r"[a-z]{2,}(?:ed|ing|ly|able|ible|tion)")
_PLACEHOLDER = compile_later(
    r"<[^<>\d]*>?|\[[^\[\]\d]*\]?|\{\{?[^{}]*\}?\}?|\$\{[^{}]*\}?|\$[A-Z][A-Z0-9_]*|\$\(.*|%[A-Z_]+%|-----BEGIN .*"
    r"|[^\w]+|https?://[^\s?@]*|\.{2,}|[xX•.]{3,}|your[-_ ].*"
    r"|(?:process\.env|os\.environ|os\.getenv|env|secrets|vars)[.\[(].*|[A-Za-z_][A-Za-z_.]{2,}\(.*",
    re.DOTALL,
)
_CODE = compile_later(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+|[a-z]+(?:_[a-z]+)+|[A-Z][a-z]+(?:\[.*)?|None|True|False")
_DATED = compile_later(r"\d{4}-\d\d-\d\d.*|[\w.-]*/.*|[\w-]+\.(?:md|py|ts|js|json|txt|ya?ml|toml|html?|pdf|png|jpe?g)")
_CARDS = compile_later(
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)
# The digits of twice a digit, added, as the checksum of cards needs them.
_DOUBLED = str.maketrans("0123456789", "0246813579")

#: Words that are not secrets: what people write in the place of one, and what follows "the password is".
_ORDINARY_WORDS = """
none null nil undefined true false yes no n/a na nan empty blank required optional todo tbd unknown redacted hidden
masked omitted missing invalid valid expired wrong correct incorrect default same different unset set string str
text bytes int integer number float bool boolean any object array list dict map optional[str] str|none any|none self
this that these those it its the a an and or but nor if so as at by for from in into of off on onto out over per to
up via with within without is are was were be been being has have had do does did can could may might must shall
should will would not never always already also only just still now then here there where when what which who whose
why how all each every some many more most much few less least own my your his her our their one two three first
last next new old good bad great simple simply easy hard long short strong weak safe secure secret public private
important essential very too quite really rather pretty flag option argument parameter value values field name names
file files key keys token tokens password passwords secrets user users username see ask use used using get gets
given because until unless before after about above below between under again once ok okay fine done sent changed
stored hashed encrypted saved kept written shared reset rotated known lost gone due ready back free available
usually probably falsch richtig nicht das der die ein eine leer gleich est erroné le la les un une el los falsa
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
# Words that hardly any sentence of twelve words lacks. None of them is in the word list of wallets (BIP 39).
_GRAMMAR = frozenset(
    ("the", "and", "for", "was", "were", "are", "has", "had", "not", "its", "from", "with", "into", "they")
)


def is_named_secret(match: re.Match[str], value: str) -> bool:
    """Check ``name: value`` and similar forms, by the name, the word before it, and the value."""
    name, separator = match[1].lower(), match[2]
    before = match.string[max(0, match.start() - 24) : match.start()]
    if match.string.startswith("*** ", match.end(2)) and "***" not in before:
        return False  # A mask, not the end of bold text: what follows it is the next word.
    if name == "pin":
        return not before[-1:].isalnum() and _is_pin(value)
    if not is_value(match, value) or (name == "pwd" and value[0] in "/~."):
        return False
    if separator in ("|", "==", "==="):
        return looks_secret(value)
    if name in ("key", "token", "clave") and not _is_strong(name, match[1], before):
        return not _NEVER.search(before) and looks_secret(value)
    return is_password(name) or match[1].isupper() or not _CODE.fullmatch(value)


def is_secret_block(match: re.Match[str], value: str) -> bool:
    """Check the lines below ``name: |`` in YAML as if they were one value; a word beside it has to look secret."""
    return is_named_secret(match, " ".join(value.split())) and (match[3] is not None or looks_secret(value))


def is_stated_secret(match: re.Match[str], value: str) -> bool:
    """Check ``the password for … is value``. A value that could be an adjective counts only where none can stand."""
    name, how = match[1].lower(), match[2].lower()
    if name.startswith("pin"):
        return _is_pin(value)
    if not is_value(match, value) or _INFLECTED.fullmatch(value):
        return False
    if not is_password(name):
        return looks_secret(value)
    quoted = match.string[match.end() - 1] in "\"'`”“»」』"
    return quoted or f"{how} ".startswith(_ENGLISH) or any(not char.isalpha() and char not in "-'’" for char in value)


def is_short_named_secret(match: re.Match[str], value: str) -> bool:
    """Check ``pass: value`` and ``pw: value``: alone they may mean anything, after ``smtp_`` they are passwords."""
    before = match.string[match.start() - 1 : match.start()]
    if not is_value(match, value) or _CODE.fullmatch(value):
        return False
    if before in ("_", "-") or match[1] == "PASS":
        return True
    has_sign = any(not char.isalpha() for char in value)
    return len(value) >= 6 and has_sign and any(map(str.isalpha, value)) and not _DATED.fullmatch(value)


def is_mixed(match: re.Match[str] | None, value: str) -> bool:
    """True if a token has letters and digits, and so is not the name of something."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_login_in_base64(match: re.Match[str], value: str) -> bool:
    """True for the Base64 form of ``user:password``."""
    import base64

    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return False
    return bool(user and password)


def is_seed_phrase(match: re.Match[str], value: str) -> bool:
    """Check the words of a wallet: 12, 15, 18, 21 or 24 of them, none of which only holds a sentence together."""
    words = re.findall("[a-z]+", value)
    return len(words) in (12, 15, 18, 21, 24) and not _GRAMMAR.intersection(words)


def is_authorization(match: re.Match[str], value: str) -> bool:
    """Check an Authorization header: any value after a known scheme, else only one that looks like a secret."""
    scheme = match.string[match.start() : match.start(1)].rstrip()
    return is_value(match, value) and (scheme[-1:].isalnum() or looks_secret(value))


def is_value(match: re.Match[str], value: str) -> bool:
    """True if a value can be a secret at all: not an ordinary word, a placeholder or a call."""
    return value.lower() not in _ORDINARY and not _PLACEHOLDER.fullmatch(value)


def looks_secret(value: str) -> bool:
    """True for at least eight characters with letters and digits and without blanks, except dates and paths."""
    is_plain = len(value) < 8 or any(map(str.isspace, value)) or _DATED.fullmatch(value)
    return not is_plain and is_mixed(None, value)


def is_jwt(match: re.Match[str], value: str) -> bool:
    """Check a JSON web token: three parts, or two of which the second is JSON too."""
    parts = value.split(".")
    return len(parts) > 2 or (len(parts) == 2 and parts[1].startswith("eyJ"))


def is_card(match: re.Match[str], value: str) -> bool:
    """Check a card number: the length and the first digits of a known kind, and the right check digit."""
    digits = "".join(char for char in match[1] if char.isdigit())
    checksum = sum(map(int, digits[::-2] + digits[-2::-2].translate(_DOUBLED)))
    return _CARDS.fullmatch(digits) is not None and checksum % 10 == 0


def is_iban(match: re.Match[str], value: str) -> bool:
    """Check the number of an account by its check digits."""
    number = "".join(value.split())
    return int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1


def is_password(name: str) -> bool:
    """True if a name means a password and nothing else."""
    return name.startswith("pass") or (name in _PASSWORDS and name != "clave")


def _is_strong(name: str, spelling: str, before: str) -> bool:
    """True if the word before a name such as ``key`` makes it the name of a secret."""
    if _NEVER.search(before) or _COUNTED.search(before):
        return False
    if name == "token":
        return True
    return bool(_STRONG.search(before)) or (spelling.isupper() and bool(_SHOUTED.search(before)))


def _is_pin(value: str) -> bool:
    return value.isdigit() and 4 <= len(value) <= 12


Check: TypeAlias = Callable[[re.Match[str], str], bool]

_ANY_CASE = re.IGNORECASE
_EXACT = re.NOFLAG
_START = r"(?<![A-Za-z0-9])"
_CJK = r"\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
_GAP = r"[^\S\r\n]{0,40}+(?>(?:\r?\n[^\S\r\n]{0,40}+)?)"

#: A value: quoted in some way, then it may have blanks, or up to the next blank.
_QUOTED = (
    r"\\{1,8}[\"']([^\"'\\\r\n]++)"
    r"|\"((?>(?:[^\"\\\r\n]|\\[^\r\n])+))\""
    r"|'((?>(?:[^'\\\r\n]|\\[^\r\n])+))'"
    r"|`([^`\r\n]++)`"
    r"|[“„«「『]([^”“»」』\r\n]++)[”“»」』]"
)
_SCHEME = r"(?>(?:(?:bearer|basic|token|apikey)[^\S\r\n]{1,40}+)?)"
# None of these characters has another case. To look for one takes longer than to compile all the rest of a pattern.
_BARE = rf"[\"'`]?{_SCHEME}((?-i:[^\s\"'\\{_CJK}]++)|[^\s\"'\\，。；、！？）」』】]++)"
_VALUE = rf"(?:{_QUOTED}|{_BARE})"
_NAME = (
    rf"((?:pass(?:word|wd|phrase|code|wort)|kennwort|pwd|{PASSWORDS}|token|secret|credentials?|private_key_id|key|pin))"
)
_IS = (
    r"(?:(?:(?:is|was|has been|got) )?(?:now )?(?:set|changed|reset) to|is|was|will be|should be|to"
    r"|lautet|ist|est|es|é|è|это)(?>(?: (?:still|now|simply|just))?)"
)
_OF = r"(?:[ \t]+(?:for|of|to|on|at|in|für|pour|de|del|para)(?:[ \t]+[^\s.,;:!?]{1,30}+){1,5}?)?"
# A word of a wallet's phrase; in a list it has its number before it.
_SEED_WORD = r"(?:\d{1,2}[.):][ \t]{0,3})?[a-z]{3,8}"
_CARD = r"\d{14,19}|" + "|".join(
    rf"\d{{4}}{gap}(?:\d{{4}}{gap}\d{{4}}{gap}\d{{4}}(?:{gap}\d{{3}})?|\d{{6}}{gap}\d{{4,5}})" for gap in " -\xa0"
)

#: The countries of each length of an IBAN, after the registry of SWIFT.
_IBAN_COUNTRIES = {
    15: "NO", 16: "BE", 18: "DK|FI|FK|FO|GL|NL|SD", 19: "MK|SI", 20: "AT|BA|EE|KZ|LT|LU|MN|XK", 21: "CH|HR|LI|LV",
    22: "BG|BH|CR|DE|GB|GE|IE|ME|RS|VA", 23: "AE|GI|IL|IQ|OM|SO|TL", 24: "AD|CZ|ES|MD|PK|RO|SA|SE|SK|TN|VG",
    25: "LY|PT|ST", 26: "IS|TR", 27: "BI|DJ|FR|GR|IT|MC|MR|SM", 28: "AL|AZ|BY|CY|DO|GT|HN|HU|LB|NI|PL|SV",
    29: "BR|EG|PS|QA|UA", 30: "JO|KW|MU|YE", 31: "MT|SC", 32: "LC", 33: "RU",
}  # fmt: skip
_IBAN_LENGTHS = "|".join(
    rf"(?<=(?:{countries})\d\d)(?:[ \xa0]?[A-Z0-9]{{4}}){{{length // 4 - 1}}}"
    + (rf"[ \xa0]?[A-Z0-9]{{{length % 4}}}" if length % 4 else "")
    for length, countries in _IBAN_COUNTRIES.items()
)


class Rule(NamedTuple):
    """One kind of secret: the last group of the pattern that is not empty, or the whole match without one.

    The pattern is tried only on a text that has one of the hints, which are in lower case: that saves time. ``trim``
    leaves out punctuation at the end, and ``hide_all`` shows nothing of the secret, however long it is.
    """

    name: str
    hints: tuple[str, ...]
    pattern: str
    check: Check | None = None
    flags: re.RegexFlag = _EXACT
    trim: bool = False
    hide_all: bool = False

    def compile(self) -> re.Pattern[str]:
        """Return the pattern, which is compiled at its first use."""
        return _compile(self.pattern, self.flags)


_compile = cache(re.compile)


def _token(prefix: str, then: str, flags: re.RegexFlag = _EXACT, check: Check | None = None) -> Rule:
    """Return the rule of a token that is recognised by its prefix."""
    literal = re.escape(prefix)
    # A pattern that begins with a literal is searched for several times as quickly.
    return Rule(prefix, (prefix.lower(),), rf"{literal}(?<![A-Za-z0-9]{literal}){then}", check, flags)


_NAMED_VALUES = (
    Rule("named value", ("key", "token", "secret", "credential", "pwd", "pin", *PASSWORD_HINTS),
         rf"{_NAME}[*_`~]{{0,3}}+\\{{0,8}}+[\"']?+[*_`~]{{0,3}}+{_GAP}(=>|:=|={{1,3}}|[:：＝|])[*_`~]{{0,3}}{_GAP}{_VALUE}",
         is_named_secret, _ANY_CASE, trim=True),
    Rule("sentence", ("pass", "token", "secret", "key", "pin", *PASSWORD_HINTS),
         rf"((?<![a-z])(?:pass(?:word|wd|phrase|code|wort)|kennwort|pin|pin code|{PASSWORDS}|token|secret|key))"
         rf"{_OF}[ \t]+({_IS})(?:[ \t]{{0,8}}+:[ \t]{{0,8}}+|[ \t]{{1,8}}+)[*_]{{0,3}}{_VALUE}",
         is_stated_secret, _ANY_CASE, trim=True),
    Rule("sentence", ("密码", "密碼", "口令", "暗号", "パスワード", "비밀번호"),
         r"(?:密码|密碼|口令|パスワード|暗号|비밀번호)[为為是就叫はが는은가이] ?[:：]?"
         r" ?(?:[“「『\"'`]([^”」』\"'`\r\n]++)|([!-~]{4,}+))", is_value, trim=True),
    Rule("short name", ("pass", "pw"),
         rf"((?<![a-z])(?:pass|pw))[*_`~]{{0,3}}+[\"']?+[ \t]{{0,8}}+(:=|[:=：＝])[*_`~]{{0,3}}[ \t]{{0,8}}+{_VALUE}",
         is_short_named_secret, _ANY_CASE, trim=True),
    Rule("netrc", ("login",),
         r"\blogin[ \t\r\n]{1,20}+\S{1,128}+[ \t\r\n]{1,20}+password[ \t\r\n]{1,20}+(\S++)", is_value),
    Rule("docker login", ('"auth"', '\\"auth'),
         r"\"auth\\{0,4}+\"[ \t\r\n]{0,8}+:[ \t\r\n]{0,8}+\\{0,4}+\"([A-Za-z0-9+/]{8,}+={0,2})",
         is_login_in_base64, hide_all=True),
    Rule("kubeconfig", ("client-key-data",),
         r"client-key-data\\{0,4}+[\"']?[ \t]{0,8}+:[ \t\r\n]{0,20}+\\{0,4}+[\"']?([A-Za-z0-9+/=]{16,}+)",
         hide_all=True),
    Rule("aws session token", ("session_token", "sessiontoken", "security_token"),
         r"aws_?(?:session|security)_?token[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+[\"']?([A-Za-z0-9+/=]{16,}+)"
         r"|session_?token[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+[\"']?([A-Za-z0-9+/=]{100,}+)", flags=_ANY_CASE),
    Rule("seed phrase", ("phrase", "mnemonic", "seed"),
         r"(?i:(?:seed|recovery|backup|wallet|secret)[ _-]?(?:phrase|words)|mnemonic|seed)\b[^:=\n]{0,40}[:=]"
         rf"[ \t\r\n\"'`>*-]{{0,20}}((?:{_SEED_WORD}[ \t,;\r\n]{{1,4}}){{11,23}}{_SEED_WORD})(?![a-z])",
         is_seed_phrase, hide_all=True),
    Rule("hex key", ("priv", "secret", "wallet", "signing", "key", "seed"),
         r"(?:priv(?:ate)?|secret|wallet|signing|seed)[ _-]{0,2}(?:key|seed)?(?![a-z])[^\n]{0,24}?"
         r"(?<![0-9a-z])((?:0x)?[0-9a-f]{64})(?![0-9a-z])", flags=_ANY_CASE),
    Rule("flag", ("--",),
         r"--(?:[a-z0-9]{1,20}[-_]){0,4}(?:api[-_]?key|(?:access|secret|private)[-_]key|token|secret|passphrase"
         rf"|password|passwd)[ \t=]{{1,4}}{_VALUE}", is_value, _ANY_CASE, trim=True),
    Rule("flag", ("-u", "--user", "curl", "sshpass"),
         # With numbers, as in `docker run -u 1000:1000`, it is not a password.
         r"(?<!\S)(?:(?:-[sSkLvif]{0,6}[uU]|--(?:proxy-)?user)[ \t=]{0,4}(?!\d{1,6}:\d{1,6}(?!\S))"
         r"(?:\"[^\s:\"]{1,64}:([^\"\r\n]++)|'[^\s:']{1,64}:([^'\r\n]++)|[^\s:\"']{1,64}:(?!//)([^\s\"'`]++))"
         r"|sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']++))", is_value),
    Rule("flag", ("mysql", "mariadb"),
         # Ports of a container and paths are no passwords, and what follows a blank is the name of a database.
         r"(?:mysql|mariadb)[a-z-]{0,16}[ \t](?>(?:[^\r\n|;&`]{0,200}?[ \t])?-p)(?!\d{1,5}:\d|[/.~-])"
         r"(?:\"([^\"\r\n]++)\"|'([^'\r\n]++)'|([^\s\"'`]++))", is_value, trim=True),
    Rule("bitwarden session", ("bw_session", "--session"),
         r"BW_SESSION[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+[\"']?([A-Za-z0-9+/]{20,}+={0,2})"
         r"|--session[ =][\"']?([A-Za-z0-9+/]{60,}+={0,2})"),
    Rule("yaml block", (": |", ": >"),
         # A line that names a value is not part of the block, whatever its indentation. In a text without its line ends
         # only the next word can be told from what follows.
         rf"{_NAME}[\"']?[ \t]{{0,8}}+(:)[ \t]{{1,8}}+[|>][0-9+-]{{0,2}}+(?:[ \t]{{0,8}}+\r?\n"
         r"((?>(?:[ \t]{1,40}+(?![\w.-]{1,40}+:(?!\S)|[#-] )[^\r\n]++(?:\r?\n|$)){1,40}))|[ \t]{1,8}+(\S++))",
         is_secret_block, _ANY_CASE, hide_all=True),
    Rule("authorization", ("authorization",),
         r"authorization\\{0,8}+[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+\\{0,8}+[\"']?"
         r"(?>(?:(?:bearer|basic|token|apikey|digest|negotiate|aws4-hmac-sha256)[ \t]{1,8}+)?)([^\s\"'\\]++)",
         is_authorization, _ANY_CASE, trim=True),
    Rule("bearer", ("bearer",), r"\bbearer[^\S\r\n]{1,8}+([A-Za-z0-9._~+/=-]{18,}+)", flags=_ANY_CASE | re.ASCII),
    Rule("cookie", ("cookie",),
         r"cookie\\{0,8}+[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+\\{0,8}+[\"']?"
         r"([^\s=;,:\"'\\]{1,128}+=[^\s;\"'\\]++(?>(?:;[ \t]?[^\s=;\"'\\]++(?>(?:=[^\s;\"'\\]*+)?))*))",
         flags=_ANY_CASE),
)  # fmt: skip

_ADDRESSES = (
    Rule("password in address", ("://",),
         r"://[^\s/?#@:\"'<>`]{0,128}+:(?!\d{1,5}(?:[/?#]|$))"
         r"((?>(?:(?!://)[^\s\"'<>`@]){1,256})(?>(?:@[^\s\"'<>`@/?#:]{1,256}+(?=@))*))@", is_value),
    Rule("user in address", ("://",), r"://([^\s/?#@:\"'<>`]{16,256}+)@", is_value),
    Rule("sentry", ("sentry",), r"://([0-9A-Za-z]{6,64}+)(?=(?::[0-9A-Za-z]{6,64}+)?@[\w.-]{0,80}sentry)", is_mixed),
    Rule("signature in address", ("sig", "x-amz", "code=", "token="),
         r"[?&](?:sig|signature|x-amz-(?:signature|credential|security-token)|x-goog-signature|code|id_token)="
         r"([A-Za-z0-9%+/=_.~-]{16,}+)", flags=_ANY_CASE),
    Rule("webhook", ("hooks.slack.com", "/api/webhooks/"),
         r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{8,}+)"
         r"|/api/webhooks/\d{1,32}+/([A-Za-z0-9_-]{16,}+)"),
)  # fmt: skip

_KEYS = (
    Rule("aws secret", ("akia", "asia"),
         r"(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9+/]{1,16}(?:aws_?|secret|access|key|and|[^A-Za-z0-9+/]){0,16}"
         r"([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/])", flags=_ANY_CASE),
    Rule("aws key id", ("akia", "asia", "abia", "acca"), rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Z0-9])"),
    Rule("azure secret", ("q~",), r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    Rule("jwt", ("eyj",), rf"{_START}eyJ[A-Za-z0-9_-]{{8,}}+(?>(?:\.[A-Za-z0-9_-]++)*)\.?", is_jwt),
    Rule("telegram", (":",), r"(?<![A-Za-z0-9_])(?:bot)?(\d{6,}+:[A-Za-z0-9_-]{20,}+)", flags=_ANY_CASE),
    Rule("discord", (".",), r"[MNO](?<![A-Za-z0-9][MNO])[A-Za-z0-9_-]{23,27}+\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+"),
    Rule("sendgrid", ("sg.",), rf"{_START}SG\.[A-Za-z0-9_-]{{16,}}+\.[A-Za-z0-9_-]{{16,}}+"),
    Rule("slack", ("xox",), rf"{_START}(?:xoxe\.)?xox[a-z]-[A-Za-z0-9-]{{10,}}+", flags=_ANY_CASE),
    Rule("stripe", ("_live_", "_test_"), rf"{_START}[sr]k_(?:live|test)_[A-Za-z0-9]{{10,}}+"),
    Rule("gitlab", ("gl",),
         rf"{_START}gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[A-Za-z0-9_-]{{16,}}+(?>(?:\.[A-Za-z0-9_.-]++)?)"),
    Rule("new relic", ("nrak-", "nrii-", "nriq-", "nrjs-", "nrra-", "nrsp-", "nral"),
         rf"{_START}(?:NR(?:AK|II|IQ|JS|RA|SP)-[A-Za-z0-9_-]{{16,}}+|[A-Za-z0-9]{{36}}NRAL(?![A-Za-z0-9]))"),
    Rule("fly", ("fm1", "fm2_", "fo1_"), rf"{_START}(?:fm1[ar]|fm2|fo1)_[A-Za-z0-9+/=_-]{{40,}}+"),
    Rule("terraform", (".atlasv1.",), rf"{_START}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{40,}}+"),
    Rule("putty key", ("private-lines:",),
         r"Private-Lines:[ \t]{0,8}+\d{1,4}+((?>(?:[\s>|#\\]{1,16}+[A-Za-z0-9+/=]{16,80}+)+)"
         r"(?>(?:[\s>|#\\]{1,16}+[A-Za-z0-9+/]{1,15}+={0,2}(?![^\s\\]))?))", hide_all=True),
    Rule("iban", tuple("0123456789"),
         rf"[A-Z]{{2}}\d\d(?<![A-Za-z0-9][A-Z]{{2}}\d\d)(?:{_IBAN_LENGTHS})(?![A-Za-z0-9])", is_iban),
    Rule("github", tuple(f"gh{kind}_" for kind in "opusr"), rf"{_START}gh[opusr]_[A-Za-z0-9]{{20,}}+", flags=_ANY_CASE),
    Rule("payment card", tuple("0123456789"), rf"(?<![A-Za-z0-9_.+/#-])(?=({_CARD})(?![A-Za-z0-9_]|[.-]\d))", is_card),
)  # fmt: skip

#: What follows a prefix, and the prefixes.
_ANY_CASE_TOKENS = {
    r"[A-Za-z0-9_-]{8,}+": "sk-", r"[A-Za-z0-9_-]{10,}+": "gsk_ pplx-", r"[A-Za-z0-9_-]{20,}+": "AIza",
    r"[A-Za-z0-9_]{20,}+": "github_pat_", r"[A-Za-z0-9-]{10,}+": "xapp-", r"[A-Za-z0-9]{10,}+": "npm_",
    r"[A-Z0-9-]{20,}+": "AGE-SECRET-KEY-",
}  # fmt: skip
_EXACT_TOKENS = {
    r"[A-Za-z0-9_-]{16,}+": "GOCSPX- dckr_pat_ sb_secret_ tvly-", r"[A-Za-z0-9_-]{20,}+": "pypi-AgE",
    r"[A-Za-z0-9_-]{24,}+": "hvs. hvb. hvr. jina_ figd_", r"[A-Za-z0-9_-]{32,}+": "nvapi-",
    r"[A-Za-z0-9_-]{60,}+": "mfa.", r"[A-Za-z0-9_=-]{32,}+": "ATATT3", r"[A-Za-z0-9_.-]{16,}+": "ya29.",
    r"[A-Za-z0-9_=+/-]{24,}+": "sntrys_", r"[A-Za-z0-9+/=]{16,}+": "whsec_",
    r"[A-Za-z0-9+/=]{60,}+": "FwoGZXIvYXdz IQoJb3JpZ2lu", r"[A-Za-z0-9]{30,}+": "hf_ api_org_",
    r"[A-Za-z0-9]{32,}+": "lin_api_ ntn_ r8_ xai-", r"[A-Za-z0-9_]{24,}+": "pcsk_", r"[A-Za-z0-9_]{32,}+": "glsa_",
    r"[A-Za-z0-9-]{16,}+": "tskey-", r"[A-Za-z0-9-]{32,}+": "xkeysib-", r"[a-z0-9]{24,}+": "csk-",
    r"[0-9a-f]{32}": "dapi key-", r"[0-9a-f]{32,}+": "dop_v1_ sntryu_", r"[0-9a-f]{40}": "sbp_ pul-",
    r"[0-9a-fA-F]{32,}+": "shpat_", r"[0-9a-f-]{32,}+": "PMAK-", r"(?:atp|csp)-[A-Za-z0-9_-]{20,}+": "sq0",
    r"[A-Za-z0-9]{14}\.[0-9a-f]{64}": "pat", r"[ps][tk]_[0-9a-f]{16,}+(?>(?:_[0-9a-f]++)?)": "lsv2_",
    r"(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}+": "dp.",
}  # fmt: skip
_TOKENS = (
    *(_token(each, then, _ANY_CASE) for then, prefixes in _ANY_CASE_TOKENS.items() for each in prefixes.split()),
    *(_token(each, then) for then, prefixes in _EXACT_TOKENS.items() for each in prefixes.split()),
    _token("pa-", r"[A-Za-z0-9_-]{40,}+", check=is_mixed),
    _token("re_", r"[A-Za-z0-9]{6,12}_[A-Za-z0-9]{16,}+", check=is_mixed),
    _token("EAAA", r"[A-Za-z0-9_-]{60}(?![A-Za-z0-9_-])", check=is_mixed),
    _token("SK", r"[0-9a-f]{32}(?![0-9a-f])"),
)

#: All rules see the original text. Where two of them overlap, the name of the first finding is shown.
RULES: tuple[Rule, ...] = (*_NAMED_VALUES, *_ADDRESSES, *_KEYS, *_TOKENS)
