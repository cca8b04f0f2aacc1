import re

import pytest

from mdrecall.text.redact import compile_patterns, redact


def with_own(text: str, *patterns: str) -> str:
    compiled, problems = compile_patterns(patterns)
    assert not problems
    return redact(text, more=compiled)


def test_a_plain_pattern_has_no_case_and_one_in_slashes_has_its_flags() -> None:
    assert with_own("acme-1 ACME-2", r"ACME-\d") == "*** ***"
    assert with_own("acme-1 ACME-2", r"/ACME-\d/") == "acme-1 ***"
    assert with_own("acme-1 ACME-2", r"/ACME-\d/gi") == "*** ***"
    assert with_own("a\nb", r"/a.b/s") == "***\n***"


def test_the_last_group_is_the_secret() -> None:
    assert with_own("badge 123 of Bob", r"(badge) (\d+) of") == "badge *** of Bob"
    assert with_own("badge 123 of Bob", r"(?<kind>badge) (?<id>\d+)") == "badge *** of Bob"


def test_words_end_where_chinese_begins() -> None:
    assert with_own("工号ACME-12已离职", r"\bACME-\d+\b") == "工号***已离职"


def test_a_secret_of_several_lines_loses_no_line() -> None:
    assert with_own("a <<one\n  two\n\nthree>> b", r"<<[^>]+>>") == "a ***\n  ***\n\n*** b"


def test_a_long_text_is_searched_everywhere() -> None:
    for at in (0, 2040, 2048, 4090, 4096, 9999):
        assert with_own("x" * at + " ACME-12 " + "y" * 9999, r"ACME-\d+").count("***") == 1


@pytest.mark.parametrize("pattern", [".", r"\*", "[a-z]", r"\S+", ".*", "…", r"\s", "x*"])
def test_greedy_patterns_end_and_twice_is_once(pattern: str) -> None:
    text = "abc abcdefghijklmnopqrstuvwxyz\n\n*** x"
    done = with_own(text, pattern)
    assert with_own(done, pattern) == done
    assert done.count("\n") == 2


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "unterminated"),
        ("", "empty"),
        ("/x/q", "there is no flag 'q'"),
        ("x" * 1001, "more than 1000"),
        (r"(a+)+$", "or a choice inside one"),
        (r"(?:\w+\s?)*x", "or a choice inside one"),
        (r"(?:a|ab)*c", "or a choice inside one"),
        (r"(?=(a*)*)b", "or a choice inside one"),
        (r".*=.*", "same characters"),
        (r"\d+\w*\d+x", "same characters"),
        (r"(\s*)\s*$", "same characters"),
        (r"[^a]*b{0,999}c", "same characters"),
        (r"a*a{0,65}x", "same characters"),
        (r"a*(?:b|c?)a*x", "same characters"),
        (r"(x)?a*(?(1)b|c?)a*x", "cannot be checked"),
        (r"a+A+x", "same characters"),
        (r"\W*\D*x", "same characters"),
        (r"a*b*a*x", "same characters"),
        (r"a*b?a*x", "same characters"),
        (r"a*(?:b?){1,2}a*x", "same characters"),
        (r"[b-e]*b*x", "same characters"),
        (r"[b-e]*e*x", "same characters"),
        (r"(a)\1*\1*x", "same characters"),
        (r"(a*)\1x", "same characters"),
        (r"/(?i:a*A*)x/", "cannot be checked"),
        (r"(?i)a", "cannot be checked"),
        (r"犬*犬*x", "same characters"),
        (r"[\u4e00-\u4e10]*\u4e05*x", "same characters"),
        (r"a*(?:a*b){1,2}x", "same characters"),
        (r"(a|a)c" * 14, "too many ways"),
        (r"(a{1,64})\1\1x", "too many ways"),
        (r"(a{1,30}){1,30}b", "too many ways"),
        (r"(a|a){1,64}b", "too many ways"),
        (r"(?:a|ab|b){1,40}c", "too many ways"),
        (r"(?:a?){1,64}a{1,64}b", "too many ways"),
        (r"(?:(?:a{1,4}){1,4}){1,4}b", "too many ways"),
        (r"a{1,64}a{1,64}a{1,64}b", "too many ways"),
        (r"a*a{0,64}x", "too many ways"),
        (r"(?:x{0,3}y{0,3}){1,60}z", "too many ways"),
        (r"(?=(a{1,30}){1,30}b)", "too many ways"),
        (r"(?:c|a{1,20}){1,20}d", "too many ways"),
        (r"(?>(a+)+)b", "cannot be checked"),
    ],
)
def test_what_cannot_be_used_is_named_with_the_reason(pattern: str, reason: str) -> None:
    compiled, [problem] = compile_patterns(["fine", pattern])
    assert [one.pattern for one in compiled] == ["fine"]
    assert reason in problem
    assert repr(pattern)[:20] in problem


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b[A-Z0-9_]*(?:KEY|TOKEN)\b\s*[=:]\s*([\"']?)([^\s\"'\\]+)\1",
        r"\w+@\w+\.com",
        r"(?:[a-z]{1,8}-){1,5}[0-9]+",
        r"-----BEGIN [A-Z ]{0,40}-----[\s\S]+?-----END",
        r"a{0,64}a{0,64}x",
        r"(?:foo|bar|baz){1,3}-\d{4}",
        r"(?:[A-Z]{2,4}-){1,20}\d",
        r"\d{3}-?\d{3}-?\d{4}",
        r"(?:\d{1,3}\.){3}\d{1,3}",
        r"(?:[0-9a-f]{2}:)+x",
        r"a*ba*x",
        r"(\d)\1{3}",
        r"()\1*\1*x",
        r"<(\w+)>[^<]*</\1>",
        r"/a+A+x/",
        r"\W*\w*x",
        r"a*b+a*x",
        r"a*(?:bc?){1,2}a*x",
        r"[b-e]*a*x",
        r"[b-e]*f*x",
    ],
)
def test_the_usual_patterns_can_be_used(pattern: str) -> None:
    assert compile_patterns([pattern])[1] == ()


def test_a_compiled_pattern_can_be_given_as_it_is() -> None:
    assert redact("badge 123", more=[re.compile(r"\d+")]) == "badge ***"


def test_a_line_of_a_long_secret_is_hidden_whole_though_a_shorter_secret_in_it_would_be_shown_in_part() -> None:
    text = "BEGIN\nsk-abcdefghijklmnopqrst\nEND"
    assert redact(text) == "BEGIN\nsk-abc…qrst\nEND"
    assert with_own(text, "/BEGIN(.*?)END/s") == "BEGIN\n***\nEND"
