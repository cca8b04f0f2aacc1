"""Secrets of every kind, planted into any surroundings, never survive; ordinary text does."""

import string
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.text.redact import find, redact
from tests.conftest import examples

SHOWN = 10
WORD = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def some(alphabet: str, size: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=most or size)


def after(prefix: str, alphabet: str, size: int, most: int | None = None) -> st.SearchStrategy[str]:
    return some(alphabet, size, most).map(lambda rest: prefix + rest)


def card(digits: str) -> str:
    total = sum(int(d) if i % 2 else sum(divmod(2 * int(d), 10)) for i, d in enumerate(reversed(digits)))
    return digits + str(-total % 10)


jwts = st.tuples(some(WORD, 20, 60), some(WORD, 20, 80), some(WORD, 43)).map(
    lambda parts: "eyJ{}.eyJ{}.{}".format(*parts)
)
#: Known by themselves, wherever they stand.
BARE = {
    "aws key id": after("AKIA", string.ascii_uppercase + string.digits, 16),
    "github": after("ghp_", WORD, 36),
    "github fine": after("github_pat_", WORD + "_", 60, 82),
    "github app": after("ghs_", WORD, 36),
    "gitlab": after("glpat-", WORD, 20),
    "npm": after("npm_", WORD, 36),
    "pypi": after("pypi-AgEIcHlwaS5vcmc", WORD, 60, 120),
    "hugging face": after("hf_", WORD, 34),
    "openai": after("sk-proj-", WORD, 48, 100),
    "anthropic": after("sk-ant-api03-", WORD, 40, 95),
    "google": after("AIza", WORD, 35),
    "google oauth": after("ya29.", WORD, 60, 120),
    "groq": after("gsk_", WORD, 40),
    "perplexity": after("pplx-", WORD, 40),
    "slack": after("xoxb-", WORD, 40),
    "slack app": after("xapp-1-", WORD, 40),
    "stripe": after("sk_live_", WORD, 24, 99),
    "stripe restricted": after("rk_live_", WORD, 24),
    "stripe webhook": after("whsec_", WORD, 32),
    "twilio": after("SK", HEX, 32),
    "sendgrid": st.tuples(some(WORD, 22), some(WORD, 43)).map(lambda parts: "SG.{}.{}".format(*parts)),
    "telegram": st.tuples(some("123456789", 9), some(WORD, 35)).map(":".join),
    "discord": st.tuples(some(WORD, 23), some(WORD, 6), some(WORD, 38)).map(lambda parts: "M{}.{}.{}".format(*parts)),
    "age": after("AGE-SECRET-KEY-1", string.ascii_uppercase + string.digits, 58),
    "azure": st.tuples(some(WORD, 3), some(WORD, 34)).map("8Q~".join),
    "jwt": jwts,
    "square": after("EAAA", WORD + "_-", 60),
    "postman": after("PMAK-", HEX, 58),
    "new relic": after("NRAK-", string.ascii_uppercase + string.digits, 27),
    "doppler": after("dp.pt.", WORD, 43),
    "pulumi": after("pul-", HEX, 40),
    "airtable": st.tuples(some(WORD, 14), some(HEX, 64)).map(lambda parts: "pat{}.{}".format(*parts)),
    "fly": after("fm2_", WORD + "+/", 80, 200),
    "terraform": st.tuples(some(WORD, 14), some(WORD, 67)).map(".atlasv1.".join),
    "card": some(string.digits, 14).map(lambda digits: card("4" + digits)),
}
#: Known by what stands before them.
NAMED = {
    "password": "password: {}",
    "assignment": "export DB_PASSWORD={}",
    "json": '{{"clientSecret": "{}", "x": 1}}',
    "sentence": "by the way the password is {} ok",
    "german": "Das Passwort lautet {}",
    "chinese": "数据库的密码是{}，请不要告诉别人",
    "japanese": "パスワードは{}です",
    "flag": "deploy --db-password {} --now",
    "address": "postgres://app:{}@db.example.org:5432/app",
    "redis": "redis://:{}@cache:6379/0",
    "aws secret": "aws_secret_access_key = {}",
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={}==;EndpointSuffix=core.windows.net",
    "basic": "Authorization: Basic {}",
    "header": "X-Api-Key: {}",
    "cookie": "Cookie: session={}; theme=dark",
    "set-cookie": "Set-Cookie: sid={}; Path=/; HttpOnly",
    "signature": "https://x.blob.core.windows.net/c/b?sv=2024-01-01&sig={}&se=2026",
    "webhook": "https://hooks.slack.com/services/T00000000/B00000000/{}",
    "markdown": "**API key:** `{}`",
    "mysql": "mysql -u app -p{} shop",
    "curl": "curl -sSu app:{} https://example.org",
    "yaml": "db:\n  password: >-\n    {}\n  user: app",
    "sentry": "dsn = https://{}@sentry.example.org/3",
    "bitwarden": "BW_SESSION={}==",
}
SURROUNDINGS = (
    "{}",
    "Yesterday I used {} and it worked.",
    "see {}, then go on",
    '{{"note": "{}", "id": 3}}',
    "$ curl -H 'X: {}' https://example.org",
    "```sh\nexport X={}\n```",
    "# Title\n\n- one\n- `{}`\n- three\n",
    "今天我们用{}登录了系统，然后继续开会讨论。",
    "昨日は{}を使いました。",
    "({})",
    "<{}>",
    "a|{}|b",
)
noise = st.text(st.sampled_from("abc xyz,.\n\t😀猫"), max_size=40).map(lambda text: text + " ")
values = some(WORD, 24, 60).filter(lambda text: any(map(str.isdigit, text)) and any(map(str.isalpha, text)))


def pieces_of(secret: str) -> Iterator[str]:
    """What no text may hold of a secret: a character more than a mask shows, from wherever in it."""
    assert len(secret) > SHOWN
    return (secret[at : at + SHOWN + 1] for at in range(len(secret) - SHOWN))


def shows_too_much(secret: str, text: str) -> bool:
    return any(piece in text for piece in pieces_of(secret))


def check(secret: str, text: str) -> None:
    done = redact(text)
    assert not shows_too_much(secret, done), (text, done)
    assert redact(done) == done
    assert done.count("\n") == text.count("\n")


@pytest.mark.parametrize("kind", BARE)
@settings(max_examples=examples(8))
@given(st.data())
def test_a_token_never_survives(kind: str, data: st.DataObject) -> None:
    secret = data.draw(BARE[kind])
    around = data.draw(st.sampled_from(SURROUNDINGS))
    check(secret, data.draw(noise) + around.format(secret) + " " + data.draw(noise))


@pytest.mark.parametrize("kind", NAMED)
@settings(max_examples=examples(8))
@given(values, noise, noise)
def test_a_secret_with_a_name_never_survives(kind: str, secret: str, before: str, behind: str) -> None:
    check(secret, before + NAMED[kind].format(secret) + " " + behind)


@given(
    st.sampled_from(["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]),
    st.lists(some(WORD + "+/", 64), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n", " ", "\\n", "\n  "]),
    noise,
    st.booleans(),
)
def test_no_line_of_a_private_key_survives(kind: str, body: list[str], joint: str, around: str, cut: bool) -> None:
    lines = [f"-----BEGIN {kind}-----", *body, *([] if cut else [f"-----END {kind}-----"])]
    text = around + joint.join(lines) + " " + around
    for line in body:
        check(line, text)


@given(st.text(max_size=300))
def test_any_text_keeps_its_lines_and_twice_is_once(text: str) -> None:
    done = redact(text)
    assert len(done.splitlines()) == len(text.splitlines())
    assert redact(done) == done


fragments = st.sampled_from(
    ["password", "token", "secret", "key", " is ", ": ", "=", '"', "'", "`", "**", "***", "…", "abcdef…wxyz", "\n", " ",
     "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Bearer ", "Authorization: ", "Cookie: ", "a=b;",
     "https://", "u:", "p@", "4111 1111 1111 1111", "sk-abcdefghijklmnopqrst", "hunter2", "密码是", "\\", "|", ">",
     "--token ", "MIIEvQIBADANBgkqhkiG9w0", "eyJhbGciOi.eyJzdWIi.abc", "123456:ABCDEFGHIJKLMNOPQRSTUV", "😀"]
)  # fmt: skip


@settings(max_examples=examples(100))
@given(st.lists(fragments, max_size=14).map("".join))
def test_pieces_of_secrets_in_any_order_are_masked_once_and_for_all(text: str) -> None:
    done = redact(text)
    assert len(done.splitlines()) == len(text.splitlines())
    assert redact(done) == done
    assert not find(done)
