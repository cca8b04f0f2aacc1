"""The table of rules: what a secret looks like.

Each pattern takes time in proportion to the text. It begins with something rare or bounded. A part without a bound is
possessive and followed by nothing that could fail, or cannot begin again inside itself. What a pattern cannot decide
that way is decided by a check on the match.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

from mdrecall.core.redact import checks
from mdrecall.core.redact.checks import PASSWORDS

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
_BARE = rf"[\"'`]?{_SCHEME}([^\s\"'\\{_CJK}]++|[^\s\"'\\，。；、！？）」』】]++)"
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
_CARD = "|".join(
    (
        r"\d{14,19}",
        *(
            rf"\d{{4}}{gap}(?:\d{{4}}{gap}\d{{4}}{gap}\d{{4}}(?:{gap}\d{{3}})?|\d{{6}}{gap}\d{{4,5}})"
            for gap in " -\xa0"
        ),
    )
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
    """One kind of secret: the last group of the pattern that is not empty, or the whole match without one."""

    name: str
    hints: tuple[str, ...]
    """Texts in lower case; the pattern is tried only on a text that has one of them, which saves time."""
    pattern: str
    check: Check | None = None
    flags: re.RegexFlag = _EXACT
    trim: bool = False
    """True if punctuation at the end is not part of the secret."""
    hide_all: bool = False
    """True if nothing of the secret is shown, however long it is."""

    def compile(self) -> re.Pattern[str]:
        """Return the pattern, which is compiled at its first use."""
        return _compile(self.pattern, self.flags)


@cache
def _compile(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def _token(name: str, prefix: str, then: str, flags: re.RegexFlag = _EXACT, *, check: Check | None = None) -> Rule:
    """Return the rule of a token that is recognised by its prefix."""
    literal = re.escape(prefix)
    # A pattern that begins with a literal is searched for several times as quickly.
    return Rule(name, (prefix.lower(),), rf"{literal}(?<![A-Za-z0-9]{literal}){then}", check, flags)


_NAMED_VALUES = (
    Rule(
        "named value",
        ("key", "token", "secret", "credential", "pwd", "pin", *checks.PASSWORD_HINTS),
        rf"{_NAME}[*_`~]{{0,3}}+\\{{0,8}}+[\"']?+[*_`~]{{0,3}}+{_GAP}(=>|:=|={{1,3}}|[:：＝|])[*_`~]{{0,3}}{_GAP}{_VALUE}",
        checks.is_named_secret,
        _ANY_CASE,
        trim=True,
    ),
    Rule(
        "sentence",
        ("pass", "token", "secret", "key", "pin", *checks.PASSWORD_HINTS),
        rf"((?<![a-z])(?:pass(?:word|wd|phrase|code|wort)|kennwort|pin|pin code|{PASSWORDS}|token|secret|key))"
        rf"{_OF}[ \t]+({_IS})(?:[ \t]{{0,8}}+:[ \t]{{0,8}}+|[ \t]{{1,8}}+)[*_]{{0,3}}{_VALUE}",
        checks.is_stated_secret,
        _ANY_CASE,
        trim=True,
    ),
    Rule(
        "sentence",
        ("密码", "密碼", "口令", "暗号", "パスワード", "비밀번호"),
        r"(?:密码|密碼|口令|パスワード|暗号|비밀번호)[为為是就叫はが는은가이] ?[:：]?"
        r" ?(?:[“「『\"'`]([^”」』\"'`\r\n]++)|([!-~]{4,}+))",
        checks.is_value,
        trim=True,
    ),
    Rule(
        "short name",
        ("pass", "pw"),
        rf"((?<![a-z])(?:pass|pw))[*_`~]{{0,3}}+[\"']?+[ \t]{{0,8}}+(:=|[:=：＝])[*_`~]{{0,3}}[ \t]{{0,8}}+{_VALUE}",
        checks.is_short_named_secret,
        _ANY_CASE,
        trim=True,
    ),
    Rule(
        "netrc",
        ("login",),
        r"\blogin[ \t\r\n]{1,20}+\S{1,128}+[ \t\r\n]{1,20}+password[ \t\r\n]{1,20}+(\S++)",
        checks.is_value,
    ),
    Rule(
        "docker login",
        ('"auth"', '\\"auth'),
        r"\"auth\\{0,4}+\"[ \t\r\n]{0,8}+:[ \t\r\n]{0,8}+\\{0,4}+\"([A-Za-z0-9+/]{8,}+={0,2})",
        checks.is_login_in_base64,
        hide_all=True,
    ),
    Rule(
        "kubeconfig",
        ("client-key-data",),
        r"client-key-data\\{0,4}+[\"']?[ \t]{0,8}+:[ \t\r\n]{0,20}+\\{0,4}+[\"']?([A-Za-z0-9+/=]{16,}+)",
        hide_all=True,
    ),
    Rule(
        "aws session token",
        ("session_token", "sessiontoken", "security_token"),
        r"aws_?(?:session|security)_?token[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+[\"']?([A-Za-z0-9+/=]{16,}+)"
        r"|session_?token[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+[\"']?([A-Za-z0-9+/=]{100,}+)",
        flags=_ANY_CASE,
    ),
    Rule(
        "seed phrase",
        ("phrase", "mnemonic", "seed"),
        r"(?i:(?:seed|recovery|backup|wallet|secret)[ _-]?(?:phrase|words)|mnemonic|seed)\b[^:=\n]{0,40}[:=]"
        rf"[ \t\r\n\"'`>*-]{{0,20}}((?:{_SEED_WORD}[ \t,;\r\n]{{1,4}}){{11,23}}{_SEED_WORD})(?![a-z])",
        checks.is_seed_phrase,
        hide_all=True,
    ),
    Rule(
        "hex key",
        ("priv", "secret", "wallet", "signing", "key", "seed"),
        r"(?:priv(?:ate)?|secret|wallet|signing|seed)[ _-]{0,2}(?:key|seed)?(?![a-z])[^\n]{0,24}?"
        r"(?<![0-9a-z])((?:0x)?[0-9a-f]{64})(?![0-9a-z])",
        flags=_ANY_CASE,
    ),
    Rule(
        "flag",
        ("--",),
        r"--(?:[a-z0-9]{1,20}[-_]){0,4}(?:api[-_]?key|(?:access|secret|private)[-_]key|token|secret|passphrase"
        rf"|password|passwd)[ \t=]{{1,4}}{_VALUE}",
        checks.is_value,
        _ANY_CASE,
        trim=True,
    ),
    Rule(
        "flag",
        ("-u", "--user", "curl", "sshpass"),
        # With numbers, as in `docker run -u 1000:1000`, it is no password.
        r"(?<!\S)(?:(?:-[sSkLvif]{0,6}[uU]|--(?:proxy-)?user)[ \t=]{0,4}(?!\d{1,6}:\d{1,6}(?!\S))"
        r"(?:\"[^\s:\"]{1,64}:([^\"\r\n]++)|'[^\s:']{1,64}:([^'\r\n]++)|[^\s:\"']{1,64}:(?!//)([^\s\"'`]++))"
        r"|sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']++))",
        checks.is_value,
    ),
    Rule(
        "flag",
        ("mysql", "mariadb"),
        # Ports of a container and paths are no passwords, and what follows a blank is the name of a database.
        r"(?:mysql|mariadb)[a-z-]{0,16}[ \t](?>(?:[^\r\n|;&`]{0,200}?[ \t])?-p)(?!\d{1,5}:\d|[/.~-])"
        r"(?:\"([^\"\r\n]++)\"|'([^'\r\n]++)'|([^\s\"'`]++))",
        checks.is_value,
        trim=True,
    ),
    Rule(
        "bitwarden session",
        ("bw_session", "--session"),
        r"BW_SESSION[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+[\"']?([A-Za-z0-9+/]{20,}+={0,2})"
        r"|--session[ =][\"']?([A-Za-z0-9+/]{60,}+={0,2})",
    ),
    Rule(
        "yaml block",
        (": |", ": >"),
        # A line that names a value is not part of the block, whatever its indentation. In a text without its line ends
        # only the next word can be told from what follows.
        rf"{_NAME}[\"']?[ \t]{{0,8}}+(:)[ \t]{{1,8}}+[|>][0-9+-]{{0,2}}+(?:[ \t]{{0,8}}+\r?\n"
        r"((?>(?:[ \t]{1,40}+(?![\w.-]{1,40}+:(?!\S)|[#-] )[^\r\n]++(?:\r?\n|$)){1,40}))|[ \t]{1,8}+(\S++))",
        checks.is_secret_block,
        _ANY_CASE,
        hide_all=True,
    ),
    Rule(
        "authorization",
        ("authorization",),
        r"authorization\\{0,8}+[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+\\{0,8}+[\"']?"
        r"(?>(?:(?:bearer|basic|token|apikey|digest|negotiate|aws4-hmac-sha256)[ \t]{1,8}+)?)([^\s\"'\\]++)",
        checks.is_authorization,
        _ANY_CASE,
        trim=True,
    ),
    Rule("bearer", ("bearer",), r"\bbearer[^\S\r\n]{1,8}+([A-Za-z0-9._~+/=-]{18,}+)", flags=_ANY_CASE | re.ASCII),
    Rule(
        "cookie",
        ("cookie",),
        r"cookie\\{0,8}+[\"']?[ \t]{0,8}+[:=][ \t]{0,8}+\\{0,8}+[\"']?"
        r"([^\s=;,:\"'\\]{1,128}+=[^\s;\"'\\]++(?>(?:;[ \t]?[^\s=;\"'\\]++(?>(?:=[^\s;\"'\\]*+)?))*))",
        flags=_ANY_CASE,
    ),
)

_ADDRESSES = (
    Rule(
        "password in address",
        ("://",),
        r"://[^\s/?#@:\"'<>`]{0,128}+:(?!\d{1,5}(?:[/?#]|$))"
        r"((?>(?:(?!://)[^\s\"'<>`@]){1,256})(?>(?:@[^\s\"'<>`@/?#:]{1,256}+(?=@))*))@",
        checks.is_value,
    ),
    Rule("user in address", ("://",), r"://([^\s/?#@:\"'<>`]{16,256}+)@", checks.is_value),
    Rule(
        "sentry",
        ("sentry",),
        r"://([0-9A-Za-z]{6,64}+)(?=(?::[0-9A-Za-z]{6,64}+)?@[\w.-]{0,80}sentry)",
        checks.is_mixed,
    ),
    Rule(
        "signature in address",
        ("sig", "x-amz", "code=", "token="),
        r"[?&](?:sig|signature|x-amz-(?:signature|credential|security-token)|x-goog-signature|code|id_token)="
        r"([A-Za-z0-9%+/=_.~-]{16,}+)",
        flags=_ANY_CASE,
    ),
    Rule(
        "webhook",
        ("hooks.slack.com", "/api/webhooks/"),
        r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{8,}+)"
        r"|/api/webhooks/\d{1,32}+/([A-Za-z0-9_-]{16,}+)",
    ),
)

_KEYS = (
    Rule(
        "aws secret",
        ("akia", "asia"),
        r"(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9+/]{1,16}(?:aws_?|secret|access|key|and|[^A-Za-z0-9+/]){0,16}"
        r"([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/])",
        flags=_ANY_CASE,
    ),
    Rule("aws key id", ("akia", "asia", "abia", "acca"), rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Z0-9])"),
    Rule("azure secret", ("q~",), r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    Rule("jwt", ("eyj",), rf"{_START}eyJ[A-Za-z0-9_-]{{8,}}+(?>(?:\.[A-Za-z0-9_-]++)*)\.?", checks.is_jwt),
    Rule("telegram", (":",), r"(?<![A-Za-z0-9_])(?:bot)?(\d{6,}+:[A-Za-z0-9_-]{20,}+)", flags=_ANY_CASE),
    Rule(
        "discord",
        (".",),
        r"[MNO](?<![A-Za-z0-9][MNO])[A-Za-z0-9_-]{23,27}+\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+",
    ),
    Rule("sendgrid", ("sg.",), rf"{_START}SG\.[A-Za-z0-9_-]{{16,}}+\.[A-Za-z0-9_-]{{16,}}+"),
    _token("twilio", "SK", r"[0-9a-f]{32}(?![0-9a-f])"),
    Rule("slack", ("xox",), rf"{_START}(?:xoxe\.)?xox[a-z]-[A-Za-z0-9-]{{10,}}+", flags=_ANY_CASE),
    Rule("stripe", ("_live_", "_test_"), rf"{_START}[sr]k_(?:live|test)_[A-Za-z0-9]{{10,}}+"),
    Rule(
        "gitlab",
        ("gl",),
        rf"{_START}gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[A-Za-z0-9_-]{{16,}}+(?>(?:\.[A-Za-z0-9_.-]++)?)",
    ),
    Rule(
        "new relic",
        ("nrak-", "nrii-", "nriq-", "nrjs-", "nrra-", "nrsp-", "nral"),
        rf"{_START}(?:NR(?:AK|II|IQ|JS|RA|SP)-[A-Za-z0-9_-]{{16,}}+|[A-Za-z0-9]{{36}}NRAL(?![A-Za-z0-9]))",
    ),
    Rule("fly", ("fm1", "fm2_", "fo1_"), rf"{_START}(?:fm1[ar]|fm2|fo1)_[A-Za-z0-9+/=_-]{{40,}}+"),
    Rule("terraform", (".atlasv1.",), rf"{_START}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{40,}}+"),
    Rule(
        "putty key",
        ("private-lines:",),
        r"Private-Lines:[ \t]{0,8}+\d{1,4}+((?>(?:[\s>|#\\]{1,16}+[A-Za-z0-9+/=]{16,80}+)+)"
        r"(?>(?:[\s>|#\\]{1,16}+[A-Za-z0-9+/]{1,15}+={0,2}(?![^\s\\]))?))",
        hide_all=True,
    ),
    Rule(
        "iban",
        tuple("0123456789"),
        rf"[A-Z]{{2}}\d\d(?<![A-Za-z0-9][A-Z]{{2}}\d\d)(?:{_IBAN_LENGTHS})(?![A-Za-z0-9])",
        checks.is_iban,
    ),
    Rule("github", ("gh",), rf"{_START}gh[opusr]_[A-Za-z0-9]{{20,}}+", flags=_ANY_CASE),
    Rule(
        "payment card",
        tuple("0123456789"),
        rf"(?<![A-Za-z0-9_.+/#-])(?=({_CARD})(?![A-Za-z0-9_]|[.-]\d))",
        checks.is_card,
    ),
)

_TOKENS = (
    _token("sk-", "sk-", r"[A-Za-z0-9_-]{8,}+", _ANY_CASE),
    _token("github", "github_pat_", r"[A-Za-z0-9_]{20,}+", _ANY_CASE),
    _token("slack", "xapp-", r"[A-Za-z0-9-]{10,}+", _ANY_CASE),
    _token("groq", "gsk_", r"[A-Za-z0-9_-]{10,}+", _ANY_CASE),
    _token("google", "AIza", r"[A-Za-z0-9_-]{20,}+", _ANY_CASE),
    _token("perplexity", "pplx-", r"[A-Za-z0-9_-]{10,}+", _ANY_CASE),
    _token("npm", "npm_", r"[A-Za-z0-9]{10,}+", _ANY_CASE),
    _token("google oauth", "ya29.", r"[A-Za-z0-9_.-]{16,}+"),
    _token("google client", "GOCSPX-", r"[A-Za-z0-9_-]{16,}+"),
    _token("stripe", "whsec_", r"[A-Za-z0-9+/=]{16,}+"),
    _token("pypi", "pypi-AgE", r"[A-Za-z0-9_-]{20,}+"),
    _token("hugging face", "hf_", r"[A-Za-z0-9]{30,}+"),
    _token("hugging face", "api_org_", r"[A-Za-z0-9]{30,}+"),
    _token("age", "AGE-SECRET-KEY-", r"[A-Z0-9-]{20,}+", _ANY_CASE),
    _token("discord", "mfa.", r"[A-Za-z0-9_-]{60,}+"),
    _token("digitalocean", "dop_v1_", r"[0-9a-f]{32,}+"),
    _token("docker", "dckr_pat_", r"[A-Za-z0-9_-]{16,}+"),
    _token("shopify", "shpat_", r"[0-9a-fA-F]{32,}+"),
    _token("linear", "lin_api_", r"[A-Za-z0-9]{32,}+"),
    _token("notion", "ntn_", r"[A-Za-z0-9]{32,}+"),
    _token("tailscale", "tskey-", r"[A-Za-z0-9-]{16,}+"),
    _token("vault", "hvs.", r"[A-Za-z0-9_-]{24,}+"),
    _token("atlassian", "ATATT3", r"[A-Za-z0-9_=-]{32,}+"),
    _token("replicate", "r8_", r"[A-Za-z0-9]{32,}+"),
    _token("xai", "xai-", r"[A-Za-z0-9]{32,}+"),
    _token("nvidia", "nvapi-", r"[A-Za-z0-9_-]{32,}+"),
    _token("databricks", "dapi", r"[0-9a-f]{32}"),
    _token("grafana", "glsa_", r"[A-Za-z0-9_]{32,}+"),
    _token("sendinblue", "xkeysib-", r"[A-Za-z0-9-]{32,}+"),
    _token("mailgun", "key-", r"[0-9a-f]{32}"),
    _token("voyage", "pa-", r"[A-Za-z0-9_-]{40,}+", check=checks.is_mixed),
    _token("supabase", "sbp_", r"[0-9a-f]{40}"),
    _token("supabase", "sb_secret_", r"[A-Za-z0-9_-]{16,}+"),
    _token("pinecone", "pcsk_", r"[A-Za-z0-9_]{24,}+"),
    _token("tavily", "tvly-", r"[A-Za-z0-9_-]{16,}+"),
    _token("jina", "jina_", r"[A-Za-z0-9_-]{24,}+"),
    _token("cerebras", "csk-", r"[a-z0-9]{24,}+"),
    _token("langsmith", "lsv2_", r"[ps][tk]_[0-9a-f]{16,}+(?>(?:_[0-9a-f]++)?)"),
    _token("resend", "re_", r"[A-Za-z0-9]{6,12}_[A-Za-z0-9]{16,}+", check=checks.is_mixed),
    _token("figma", "figd_", r"[A-Za-z0-9_-]{24,}+"),
    _token("sentry", "sntrys_", r"[A-Za-z0-9_=+/-]{24,}+"),
    _token("sentry", "sntryu_", r"[0-9a-f]{32,}+"),
    _token("vault", "hvb.", r"[A-Za-z0-9_-]{24,}+"),
    _token("vault", "hvr.", r"[A-Za-z0-9_-]{24,}+"),
    _token("square", "sq0", r"(?:atp|csp)-[A-Za-z0-9_-]{20,}+"),
    _token("square", "EAAA", r"[A-Za-z0-9_-]{60}(?![A-Za-z0-9_-])", check=checks.is_mixed),
    _token("postman", "PMAK-", r"[0-9a-f-]{32,}+"),
    _token("doppler", "dp.", r"(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}+"),
    _token("pulumi", "pul-", r"[0-9a-f]{40}"),
    _token("airtable", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _token("aws session token", "FwoGZXIvYXdz", r"[A-Za-z0-9+/=]{60,}+"),
    _token("aws session token", "IQoJb3JpZ2lu", r"[A-Za-z0-9+/=]{60,}+"),
)

#: All rules see the original text. Where two of them overlap, the name of the first finding is shown.
RULES: tuple[Rule, ...] = (*_NAMED_VALUES, *_ADDRESSES, *_KEYS, *_TOKENS)
