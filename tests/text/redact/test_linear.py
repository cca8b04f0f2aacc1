"""Every pattern takes steps in proportion to the text, also when the text is made to be slow."""

import re
from collections.abc import Sequence

import pytest

from mdrecall.text.redact import compile_patterns, find, masking, redact
from mdrecall.text.redact.rules import RULES, Rule
from tests.text.redact.steps import count_steps

#: What the beginnings, middles and almost-ends of patterns look like, again and again.
BITS = (
    'a', 'A', '1', ' ', '-', '_', '.', ':', '=', '/', '"', "'", '\\', '*', '`', '\n', '\t', '@', '密', 'eyJ', 'eyJ-',
    'eyJa.', '-eyJ', 'sk-', '-sk-', 'key', 'key=', 'key:', 'key ', 'key: ', 'key"', 'key:"', 'key:\\"', "key:'a ",
    'key **', 'token|', 'password is', 'password is ', 'password for ', 'password for a ', 'password of a b c d e',
    'secret to ', 'pin is 1', '://', '://a:', '://:', '://a:a', '://a:a@', '://a@', 'x://a:a@a', '--', '--a-',
    '--token ', '-u a:', ' -u a:', 'cookie:', 'cookie: a=', 'cookie:a=b;', 'authorization:',
    'authorization: bearer ', 'bearer ', 'bearer a', '123456:', '1234567', '1 ', '1234 ', '4111-', '4111 1111 ',
    'M', '-M', 'MMMMMMMMMMMMMMMMMMMMMMMM.', 'SG.', '-SG.a', 'SG.aaaaaaaaaaaaaaaa', 'AKIA', 'AKIAAAAAAAAAAAAAAAAA ',
    'AKIAAAAAAAAAAAAAAAAA key', '1Q~', 'gh', 'ghp_', 'xoxb-', '-----BEGIN ', '-----BEGIN PRIVATE KEY-----',
    '-----BEGIN PRIVATE KEY-----\nVersion:', '-----END PRIVATE KEY-----', '----', '/api/webhooks/1',
    'hooks.slack.com/services/', '[?&]sig=', '?sig=', 'glpat-', 'glpat-.', '密码是', "密码是'", 'パスワードは', '“',
    'key:“', 'key:`', 'key: -', 'key:\r\n', 'password: |\n', 'password: |\n a\n', 'password: >\n  a',
    'password: > ', ' a\n', 'mysql ',
    'mysql -p', 'mysql a -', 'mysql -p"', 'Private-Lines: 1\n', 'Private-Lines: 1 aaaaaaaaaaaaaaaa\n',
    'DE12', 'DE12 ', 'DE', 'A1', 'NO12 3456 ', 'BE12A', 'dp.pt.', 'dp.st.a.', 'dp.st.aaaa', 'fm2_', '.atlasv1.',
    'aaaaaaaaaaaaaa.atlasv1.', 'nral', 'aNRAL', 'NRAK-', 'pat', 'pata', 'PMAK-', 'sq0csp-', 'EAAA', '://a@sentry',
    '://aaaaaa@sentry', '://aaaaaa:aaaaaa@', '@sentry', ' -su a:', '-ssss', 'curl -', 'BW_SESSION=', '--session a',
)  # fmt: skip
SIZE = 250
#: More than any pattern needs for a character, less than a pattern that begins again and again would take.
MOST_PER_CHARACTER = 900


def longer(bit: str, size: int) -> str:
    return (bit * (size // len(bit) + 1))[:size]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{rule.pattern[:20]}")
def test_no_rule_takes_more_than_in_proportion(rule: Rule) -> None:
    for bit in BITS:
        if not any(hint in longer(bit, SIZE).lower() for hint in rule.hints):
            continue
        once, twice = (count_steps(rule.compile(), longer(bit, size)) for size in (SIZE, 2 * SIZE))
        assert twice <= 2.2 * once + 200, (bit, once, twice)
        assert twice <= MOST_PER_CHARACTER * 2 * SIZE, (bit, twice)


def test_the_marks_of_private_keys_take_no_more_either() -> None:
    compiled = re.compile(masking._MARK.pattern, re.IGNORECASE)
    for bit in BITS:
        once, twice = (count_steps(compiled, longer(bit, size)) for size in (SIZE, 2 * SIZE))
        assert twice <= 2.2 * once + 200, (bit, once, twice)


def test_the_count_tells_a_slow_pattern_from_a_quick_one() -> None:
    slow, quick = re.compile(r"a+b"), re.compile(r"(?<!a)a++b")
    assert count_steps(slow, "a" * 400) > 3.5 * count_steps(slow, "a" * 200)
    assert count_steps(quick, "a" * 400) < 2.2 * count_steps(quick, "a" * 200)


@pytest.mark.parametrize("bits", [BITS, ["key: -"], ["-----BEGIN PRIVATE KEY-----\nVersion:"], ["eyJ-"], ["://a:"]])
def test_a_long_text_comes_to_an_end_with_its_lines(bits: Sequence[str]) -> None:
    text = done = "".join(longer(bit, 100_000 // len(bits)) for bit in bits)
    rounds = 0
    while found := find(done):
        done, rounds = masking.mask_all(done, found), rounds + 1
    assert rounds <= 4
    assert done.count("\n") == text.count("\n")


def test_patterns_of_the_user_see_every_character_at_most_twice() -> None:
    patterns, problems = compile_patterns([r"/[a-z]+!/"])
    assert not problems
    assert redact("a" * 40_000, more=patterns) == "a" * 40_000
    assert redact("é" * 5000 + "abc!" + "é" * 5000, more=patterns) == "é" * 5000 + "***" + "é" * 5000
