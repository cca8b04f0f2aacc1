"""Phrases: found whatever their case, accents and line breaks; sentences that hold them are cut out."""

import pytest

from mdrecall.core.life.phrases import find_phrase, is_empty_line, mask_spans, phrase_units, widen_to_sentences


def mask(text: str, phrase: str) -> str:
    return mask_spans(text, widen_to_sentences(text, find_phrase(text, phrase_units(phrase))))


@pytest.mark.parametrize(
    ("text", "phrase", "after"),
    [
        ("- Anna has gout. She is fine.\n- other", "anna HAS", "- [forgotten] She is fine.\n- other"),
        ("**Anna**'s gout", "Anna's gout", "[forgotten]"),
        ("Cafe\u0301 Noir is nice", "CAFÉ noir", "[forgotten]"),
        ("我们用深色模式吧。今天好。", "深色模式", "[forgotten]今天好。"),
        ("Use ＣＡＦＥ 深色 now", "cafe深色", "[forgotten]"),
        ("A wrapped\nsentence holds\ngout. Next.", "gout", "[forgotten]\n\n Next."),
        ("Split over\nlines", "over lines", "[forgotten]\n"),
        ("before\n\npara gout\n\nafter", "gout", "before\n\n[forgotten]\n\nafter"),
        ("| a | gout |\n| b | c |", "gout", "[forgotten]\n| b | c |"),
        ("# Gout\n\nText", "gout", "# [forgotten]\n\nText"),
        ("- [ ] ask about gout", "gout", "- [ ] [forgotten]"),
        ("snake_case gout_id", "case gout", "[forgotten]"),
        ("gouty and concatenate", "gout", "gouty and concatenate"),
        ("nothing here", "!?", "nothing here"),
    ],
)
def test_the_sentence_that_holds_a_phrase_is_masked(text: str, phrase: str, after: str) -> None:
    assert mask(text, phrase) == after
    assert after.count("\n") == text.count("\n")


def test_of_a_line_without_sentences_only_the_phrase_is_masked() -> None:
    assert mask("a" * 3000 + " gout " + "b" * 3000, "gout") == "a" * 3000 + " [forgotten] " + "b" * 3000


@pytest.mark.parametrize(
    ("line", "empty"),
    [("- ", True), ("  * [x] ", True), ("- <!-- importance: 5 -->", True), ("## ", True), ("", True), ("- a", False)],
)
def test_a_line_without_text_is_empty(line: str, empty: bool) -> None:
    assert is_empty_line(line) is empty
