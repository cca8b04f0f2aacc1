"""Checks that tell a secret from what only looks like one: names, ordinary words, placeholders, checksums."""

import re

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


def is_mixed(match: re.Match[str], value: str) -> bool:
    """True if a token has letters and digits, and so is no name of something."""
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
    if len(value) < 8 or any(map(str.isspace, value)) or _DATED.fullmatch(value):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_jwt(match: re.Match[str], value: str) -> bool:
    """Check a JSON web token: three parts, or two of which the second is JSON too."""
    parts = value.split(".")
    return len(parts) > 2 or (len(parts) == 2 and parts[1].startswith("eyJ"))


def is_card(match: re.Match[str], value: str) -> bool:
    """Check a card number: the length and the first digits of a known kind, and the right check digit."""
    digits = "".join(char for char in match[1] if char.isdigit())
    return _CARDS.fullmatch(digits) is not None and _luhn(digits)


def is_iban(match: re.Match[str], value: str) -> bool:
    """Check the number of an account by its check digits."""
    number = "".join(value.split())
    return int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1


def _luhn(digits: str) -> bool:
    return sum(map(int, digits[::-2] + digits[-2::-2].translate(_DOUBLED))) % 10 == 0


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
