"""What OpenClaw makes of each text, and where mdrecall does more."""

import pytest

from mdrecall.text.redact import find, mask, redact

PEM = "-----BEGIN {0} KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA\nDk3vGmZ0X1h2Qw==\n-----END {0} KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwxyz123", "OPENAI_API_KEY=sk-abc…z123"),
        ("token: abc", "token: ***"),
        ("Authorization: Bearer abcdefghijklmnopqrstuv", "Authorization: Bearer abcdef…stuv"),
        ('{"password": "hunter2"}', '{"password": "***"}'),
        ("--api-key SECRETVALUE1234567890", "--api-key SECRET…7890"),
        ("bot123456:ABCDEFGHIJKLMNOPQRSTUV", "bot123456…STUV"),
        ("Hi sk-abcdefghijklmnopqrst", "Hi sk-abc…qrst"),
        (" ".join(PEM.format("RSA PRIVATE").split()), "***"),
    ],
)
def test_the_golden_masks_of_openclaw_hold(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


def test_a_password_in_a_sentence_is_masked_though_openclaw_leaves_it() -> None:
    assert redact("password is hunter2") == "password is ***"


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("", "***"),
        ("a" * 17, "***"),
        ("abcdefghijklmnopqr", "abcdef…opqr"),
        ("😀" * 8, "***"),
        ("\uffff" * 17, "***"),
        ("😀" * 9, "😀😀😀…😀😀"),
        ("abcde😀ghijklmnop😀xyz", "abcde…xyz"),
    ],
)
def test_a_mask_counts_utf16_units_and_cuts_no_character(secret: str, expected: str) -> None:
    assert mask(secret) == expected


@pytest.mark.parametrize("kind", ["PRIVATE", "RSA PRIVATE", "EC PRIVATE", "ENCRYPTED PRIVATE", "OPENSSH PRIVATE"])
def test_a_private_key_keeps_its_marks_and_its_lines_and_nothing_else(kind: str) -> None:
    kept = f"-----BEGIN {kind} KEY-----\n***\n***\n-----END {kind} KEY-----"
    assert redact(PEM.format(kind)) == kept
    assert redact(f"> x\r\n{PEM.format(kind)}".replace("\n", "\r\n")).count("\n") == 4


def test_a_pgp_key_and_an_encrypted_one_go_with_their_headers() -> None:
    text = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nlQOYBF\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----"
    assert redact(text).splitlines()[1:-1] == ["***", "", "***", "***"]


def test_a_private_key_without_its_end_goes_as_far_as_it_looks_like_one() -> None:
    begin, first, second, _ = PEM.format("RSA PRIVATE").split("\n")
    assert redact(f"{begin}\n{first}\n{second}") == f"{begin}\n***\n***"
    assert redact(f"{begin} {first}") == "***"
    assert redact(f"{begin}\nProc-Type: 4,ENCRYPTED\n\n{first}") == f"{begin}\n***\n\n***"
    assert redact(f"a line {begin} begins a key") == f"a line {begin} begins a key"


def test_a_private_key_in_json_and_its_id_are_masked() -> None:
    key = PEM.format("PRIVATE").replace("\n", "\\n")
    text = f'{{"private_key_id": "0123456789abcdef0123456789abcdef01234567", "private_key": "{key}\\n"}}'
    assert redact(text) == '{"private_key_id": "012345…4567", "private_key": "***"}'


def test_public_keys_and_certificates_are_no_secrets() -> None:
    for kind in ("PUBLIC KEY", "CERTIFICATE", "PGP PUBLIC KEY BLOCK"):
        text = f"-----BEGIN {kind}-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END {kind}-----"
        assert redact(text) == text


def test_a_secret_at_any_place_of_a_long_text_is_found() -> None:
    secret = "sk-abcdefghijklmnopqrst"
    for at in (0, 16_373, 16_384, 32_760, 100_000):
        assert redact("x " * (at // 2) + secret + " y" * 50_000).count("sk-abc…qrst") == 1


def test_overlapping_secrets_get_one_mask() -> None:
    assert redact("postgres://me:sk-abcdefghijklmnopqrst@db/x") == "postgres://me:sk-abc…qrst@db/x"
    assert [found.kind for found in find("TOKEN=sk-abcdefghijklmnopqrst")] == ["named value"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Password:** `hunter2`", "**Password:** `***`"),
        ("- password: **hunter2**", "- password: *****"),
        ('password: "correct horse battery staple"', 'password: "correc…aple"'),
        ('{\\"password\\": \\"hunter2\\"}', '{\\"password\\": \\"***\\"}'),
        ("token: Bearer abc", "token: Bearer ***"),
        ("| wifi password | hunter2x |", "| wifi password | *** |"),
        ("DB_PASSWORD=a;b,c", "DB_PASSWORD=***"),
        ("The password for the guest wifi is Swordfish.", "The password for the guest wifi is ***."),
        ("I changed the password to hunter2!", "I changed the password to ***!"),
        ("the password was reset to Bob", "the password was reset to ***"),
        ("Das Passwort lautet geheim", "Das Passwort lautet ***"),
        ("Passwort: geheim", "Passwort: ***"),
        ("le mot de passe est azerty1", "le mot de passe est ***"),
        ("la contraseña es abc123", "la contraseña es ***"),
        ("пароль: весна", "пароль: ***"),
        ("密码是hunter2，请保密", "密码是***，请保密"),
        ("密码：hunter2", "密码：***"),
        ("パスワードはhunter2です", "パスワードは***です"),
        ("비밀번호는 hunter2", "비밀번호는 ***"),
        ("PIN: 4711", "PIN: ***"),
        ("redis://:hunter2@cache:6379/0", "redis://:***@cache:6379/0"),
        ("amqp://me:p@ss@host", "amqp://me:***@host"),
        ("postgres://me:pa/ss@db/x", "postgres://me:***@db/x"),
        ("curl -u me:hunter2 https://x.org", "curl -u me:*** https://x.org"),
        ("Authorization: Basic bWU6aHVudGVyMg==", "Authorization: Basic ***"),
        ("Cookie: sid=0123456789abcdef; theme=dark", "Cookie: sid=01…dark"),
        ("Set-Cookie: sid=0123456789; Path=/", "Set-Cookie: sid=01…th=/"),
        ("card 4111 1111 1111 1111, 12/29", "card 4111 1…1111, 12/29"),
        ("2026 4111-1111-1111-1111", "2026 4111-1…1111"),
        ("card 378282246310005", "card ***"),
    ],
)
def test_more_than_openclaw_finds(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


WORDS = tuple("abandon ability able about above absent absorb abstract absurd abuse access accident".split())  # noqa: SIM905
MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"
HEXES = "0123456789abcdef" * 4
PUTTY = (
    "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 1\nAAAAC3NzaC1lZDI1NTE5AAAAIGJ0\n"
    f"Private-Lines: 3\n{MIXED}\n{MIXED[::-1]}\nAbCdEf9=\nPrivate-MAC: {HEXES[:40]}\n"
)


def iban(country: str, account: str) -> str:
    """A number of an account with its check digits, which no list of secrets holds."""
    number = "".join(str(int(char, 36)) for char in f"{account}{country}00")
    return f"{country}{98 - int(number) % 97:02}{account}"


def grouped(text: str) -> str:
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


GERMAN, BELGIAN, NORWEGIAN = iban("DE", "370400440532013000"), iban("BE", "539007547034"), iban("NO", "86011117947")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"VOYAGE: pa-{MIXED}", f"pa-{MIXED}"),
        ("pass: hunter2!", "hunter2!"),
        ("pw: hunter2", "hunter2"),
        ("smtp_pass: correcthorse", "correcthorse"),
        ("DB_PASS=correcthorse", "correcthorse"),
        ("    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURQ==", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURQ"),
        ('{"auths": {"ghcr.io": {"auth": "dXNlcjpodW50ZXIy"}}}', "dXNlcjpodW50ZXIy"),
        ("machine example.org login ana password s3cretpass", "s3cretpass"),
        ("machine example.org\n  login ana\n  password s3cretpass", "s3cretpass"),
        ("pass\u200bword: hunter2", "hunter2"),
        ("ｐａｓｓｗｏｒｄ： hunter2", "hunter2"),
        ("Ｐａｓｓｗｏｒｄ=ｈｕｎｔｅｒ２", "ｈｕｎｔｅｒ２"),
        (f"sk-\u200b{MIXED}", MIXED),
        (f"sbp_{HEXES[:40]}", HEXES[:40]),
        (f"sb_secret_{MIXED}", MIXED),
        (f"pcsk_{MIXED}", MIXED),
        (f"tvly-{MIXED}", MIXED),
        (f"jina_{MIXED}", MIXED),
        (f"csk-{MIXED.lower()}", MIXED.lower()),
        (f"lsv2_pt_{HEXES[:32]}_{HEXES[:10]}", HEXES[:32]),
        ("re_a1B2c3D4_a1B2c3D4e5F6g7H8i9J0k1L2", "a1B2c3D4e5F6g7H8i9J0k1L2"),
        (f"figd_{MIXED}", MIXED),
        (f"sntrys_{MIXED}", MIXED),
        (f"hvb.{MIXED}", MIXED),
        (f"aws_session_token = FwoG{MIXED}", MIXED),
        (f"IQoJb3JpZ2lu{MIXED}{MIXED}", MIXED),
        (f"my seed phrase: {' '.join(WORDS)}", " ".join(WORDS)),
        (f"mnemonic = {' '.join(WORDS)}.", " ".join(WORDS)),
        ("Recovery phrase:\n" + "\n".join(f"{at}. {word}" for at, word in enumerate(WORDS, 1)), "absorb"),
        (f"private key 0x{HEXES}", HEXES),
        (f"my wallet key is {HEXES}", HEXES),
        (f"sq0csp-{MIXED}", MIXED),
        (f"EAAA{MIXED}{MIXED[:16]}", MIXED),
        (f"PMAK-{HEXES[:24]}-{HEXES[:34]}", HEXES[:34]),
        (f"NRAK-{MIXED[:27].upper()}", MIXED[:27].upper()),
        (f"license {MIXED[:36]}NRAL", MIXED[:36]),
        (f"dp.pt.{MIXED}", MIXED),
        (f"dp.st.dev_api.{MIXED}", MIXED),
        (f"pul-{HEXES[:40]}", HEXES[:40]),
        (f"pat{MIXED[:14]}.{HEXES}", HEXES),
        (f"FlyV1 fm2_{MIXED},fm2_{MIXED[::-1]}", MIXED[::-1]),
        (f"fo1_{MIXED}", MIXED),
        (f"{MIXED[:14]}.atlasv1.{MIXED}", MIXED),
        (PUTTY, MIXED[::-1]),
        (PUTTY, "AbCdEf9"),
        (PUTTY.replace("\n", "\r\n"), MIXED),
        (PUTTY.replace("\n", "\\n"), MIXED),
        ("mysql -u root -phunter2 shop", "hunter2"),
        ("mysqldump --all-databases -uroot -p'hun ter2' > all.sql", "ter2"),
        ("$ mariadb -phunter2", "hunter2"),
        ("curl -su ana:hunter2 https://x.org", "hunter2"),
        ("curl -u 'ana:hun ter2' https://x.org", "ter2"),
        ("curl --proxy-user ana:hunter2 https://x.org", "hunter2"),
        ("password: >\n  hunter2\n", "hunter2"),
        ("db:\n  password: |-\n    hunter2\n    more4\n  user: ana", "more4"),
        ("api_key: |\r\n  abcd1234", "abcd1234"),
        ("db: password: >- hunter2x user: ana", "hunter2x"),
        (f"https://{HEXES[:32]}@o1.ingest.sentry.io/2", HEXES[:32]),
        (f"https://{HEXES[:12]}:{MIXED}@sentry.example.org/2", HEXES[:12]),
        (f'export BW_SESSION="{MIXED}{MIXED}=="', MIXED),
        (f"bw list items --session {MIXED}{MIXED}==", MIXED),
        (f"IBAN {GERMAN}", GERMAN[8:18]),
        (f"pay to {grouped(GERMAN)}.", grouped(GERMAN)[10:20]),
        (f"{grouped(BELGIAN)} SWIFT KREDBEBB", grouped(BELGIAN)[10:14]),
        (f"account:{NORWEGIAN}", NORWEGIAN[5:12]),
    ],
)
def test_more_kinds_of_secrets_are_masked(text: str, secret: str) -> None:
    done = redact(text)
    assert secret not in done
    # The beginning of a phrase makes the rest easier to guess.
    assert not any(word[:4] in done for word in secret.split()[:-1])
    assert redact(done) == done
    assert done.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "Pass: 12 of 14 tests",
        "pass: yes",
        "bypass: done2",
        "compass: n0rth",
        "first pass: 2024-05-01",
        "login page password field",
        '"auth": "required"',
        f"sha256 {HEXES}",
        f"commit {HEXES[:40]}",
        "pa-system-for-the-conference-room-on-the-second-floor-is-broken",
        "re_compile_patterns_for_all_languages",
        "seed phrase: never write it down where other people can see it",
        "Ｆｕｌｌ ｗｉｄｔｈ text without secrets",
        "a zero\u200bwidth blank, and nothing else",
        "mysql -p",
        "mysql -u root -p shop < dump.sql",
        "docker run --name mysql -p3306:3306 mysql",
        "install mysql, then mkdir -p/var/lib/mysql",
        "mysql -p$PASSWORD, mysql -p<password>",
        "With curl -u you give a name: it asks for the password.",
        "docker run -u 1000:1000 alpine",
        "curl -u $USER:$TOKEN https://x.org",
        "text: |\n  the password is in the vault\n",
        "password: >\n\nIt has to have twelve characters.",
        "password: |\nuser: ana",
        "| password: | twelve characters |",
        "key: |\n  a note about keys",
        f"DE00 {grouped(GERMAN)[5:]}",
        f"X{GERMAN} and {GERMAN}9",
        "ROOM 2401, GB2312 encoded text, DE12 units, NO12345678901 is a part number",
        "AT20 1234 5678 9012 3456 is no account",
        "pattern.compile, pathological.case, dp.example.org, pul-request, sq0, EAAAAAAA",
        "Private-Lines: 14 of the file are the key",
        "we send errors to https://sentry.example.org/2 and ask ana@sentry.example.org",
        "--session agent:main:main and BW_SESSION=$(bw unlock --raw)",
        "fm2_ and fo1_ are the prefixes of Fly's tokens, .atlasv1. is Terraform's",
    ],
)
def test_what_only_looks_like_them_is_left(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api_key: abcd1234efgh5678.", "api_key: ***."),
        ("The password is hunter2x.", "The password is ***."),
        ("密码是abcd1234.", "密码是***."),
        ("curl --token=abcd1234x, then", "curl --token=***, then"),
        ("Authorization: Basic YWJjOjEyMw==.", "Authorization: Basic ***."),
    ],
)
def test_the_punctuation_behind_a_secret_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        ("the token for billing is abcd1234x", True),
        ("the token for billing is abcdefgh", False),
        ("the token for billing is abc1234", False),
        ("| token | abcd1234x |", True),
        ("| token | orange |", False),
        ("if token == abcd1234x", True),
        ("pin: 1234", True),
        ("pin: 123", False),
        ("pin: 123456789012", True),
        ("pin: 1234567890123", False),
        ("xpin: 1234", False),
        ("the pin is 1234", True),
        ("the pin is 12ab", False),
        ("pwd: /home/ana/notes", False),
        ("pwd: hunter2x", True),
        ("Authorization: abcd1234x", True),
        ("Authorization: required", False),
        ("Authorization: Bearer required1", True),
    ],
)
def test_a_value_counts_as_a_secret_by_its_name_its_form_and_its_length(text: str, is_secret: bool) -> None:
    assert bool(find(text)) == is_secret
