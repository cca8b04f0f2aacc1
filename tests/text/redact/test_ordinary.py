"""Ordinary notes stay as they are."""

import pytest

from mdrecall.text.redact import redact

ORDINARY = (
    "The token economy rewards long answers; each token costs money.",
    "key: value",
    "Key: keep the list short and read it every week.",
    "The key to a good garden is patience.",
    "secret: none",
    "token: null",
    "password: required, at least 12 characters",
    "the password is wrong",
    "My password is stored in the vault, ask Ana.",
    "The password for the router is written on its back.",
    "I forgot the password to the old laptop.",
    "Das Passwort ist falsch.",
    "Le mot de passe est incorrect.",
    "密码是错误的，请重新输入。",
    "パスワードは間違っています。",
    "API_KEY=${API_KEY}",
    "token: <your-token>",
    "password = os.environ['DB_PASSWORD']",
    "def login(user: str, password: str, token: str | None = None) -> None:",
    "for key in keys: print(key)",
    "sorted(rows, key=len)",
    "primary_key: id, sort_key: created_at",
    "session_key: agent:main:telegram:direct:42",
    "monkey: banana, donkey: carrot, turkey: stuffing",
    "max_tokens: 4096, next_token: abc",
    "commit 7a482b4c1f0e9d8b7a6c5d4e3f2a1b0c9d8e7f6a fixes it",
    "id 123e4567-e89b-12d3-a456-426614174000 was deleted",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "see ~/notes/memory/2026-02-10.md and /etc/ssh/sshd_config",
    "ISBN 978-3-16-148410-0, ISBN 9783161484100",
    "call +49 1512 3456789 or 030 1234 5678 or (555) 010-4477 or +4915123456789",
    "2026-02-10T12:34:56.789Z, 1700000000000, 1700000000000000, 20260210123456",
    "order 4000123412341235 and ticket 1234567890123456",
    "![image](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==)",
    "https://example.org:8080/path/@user?page=2#top",
    "git@github.com:owner/repo.git and ssh://git@example.org/repo.git",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ0c2x6 me@laptop",
    "PWD=/home/me/project",
    "a cookie: chocolate, two cookies: oats",
    "Basic rules: bearer bonds are risky.",
    "Use --password to set one, or --token with a file.",
    "the task-force met; a disk-image of 3 GB; risk-averse people; sk-learn",
    "npm_config_registry and hf_hub_download are names",
    "Pin: 13 is the LED; pin the version to 1.2",
    "Skill: SKYWALKER-2 at 12:30:45, ratio 16:9, 192.168.1.20:8080",
    "Authorization: required for every call",
    "| name | password | email |",
    "the line -----BEGIN PRIVATE KEY----- starts a key",
    "credentials: see the vault",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_all_of_it_together_is_left_alone_too() -> None:
    assert redact("\n\n".join(ORDINARY)) == "\n\n".join(ORDINARY)


@pytest.mark.parametrize("text", ["password=hunter2hunter2 please deploy", "set token=abcdef123456 thanks"])
def test_the_word_behind_a_secret_is_left_alone(text: str) -> None:
    name, _, behind = text.partition("=")
    assert redact(text) == f"{name}=*** {behind.partition(' ')[2]}"


def test_bold_letters_before_a_secret_are_no_mask() -> None:
    assert redact("***Password:*** hunter2hunter2") == "***Password:*** ***"
