"""Phrases: found whatever their case, accents and line breaks; sentences that hold them are cut out."""

import re

import pytest

from mdrecall.text import tombstones
from mdrecall.text.tombstones import Span, find_runs, mask_spans, read_phrase, widen_to_sentences
from tests.text.redact.steps import count_steps

WRAPPED = "a sentence that is wrapped goes on in the next line"


def find_phrase(text: str, phrase: str) -> list[Span]:
    readings = read_phrase(phrase)
    return find_runs(
        text, lambda first: [len(units) for units in readings if units[0] == first], lambda run: run in readings
    )


def mask(text: str, phrase: str) -> str:
    return mask_spans(text, widen_to_sentences(text, find_phrase(text, phrase)))


@pytest.mark.parametrize(
    ("text", "phrase", "after"),
    [
        ("- Anna has gout. She is fine.\n- other", "anna HAS", "- [forgotten] She is fine.\n- other"),
        ("**Anna**'s gout", "Anna's gout", "[forgotten]"),
        ("Cafe\u0301 Noir is nice", "CAFÉ noir", "[forgotten]"),
        ("我们用深色模式吧。今天好。", "深色模式", "[forgotten]今天好。"),
        ("Use ＣＡＦＥ 深色 now", "cafe深色", "[forgotten]"),
        (f"{WRAPPED}\n{WRAPPED}\nholds gout. Next.", "gout", "[forgotten]\n\n Next."),
        (f"gout is in\n{WRAPPED}.", "gout", f"[forgotten]\n{WRAPPED}."),
        (f"{WRAPPED} gout\n{WRAPPED}. Next", "gout", "[forgotten]\n Next"),
        ("---\ntitle: my gout\ntags: [a]\n---", "gout", "---\n[forgotten]\ntags: [a]\n---"),
        ("x = 1\ny = gout\nz = 2", "gout", "x = 1\n[forgotten]\nz = 2"),
        ("Split over\nlines", "over lines", "[forgotten]\n"),
        ("before\n\npara gout\n\nafter", "gout", "before\n\n[forgotten]\n\nafter"),
        ("| a | gout |\n| b | c |", "gout", "[forgotten]\n| b | c |"),
        ("# Gout\n\nText", "gout", "# [forgotten]\n\nText"),
        ("- [ ] ask about gout", "gout", "- [ ] [forgotten]"),
        ("snake_case gout_id", "case gout", "[forgotten]"),
        ("gouty and concatenate", "gout", "gouty and concatenate"),
        ("nothing here", "!?", "nothing here"),
        (f"{'x' * 39}\ngout.", "gout", f"{'x' * 39}\n[forgotten]"),
        (f"{'x' * 40}\ngout.", "gout", "[forgotten]\n"),
        (f"{'图' * 19}\ngout.", "gout", f"{'图' * 19}\n[forgotten]"),
        (f"{'图' * 20}\ngout.", "gout", "[forgotten]\n"),
        ("\ngout\n\nother", "gout", "\n[forgotten]\n\nother"),
        ("A gout. A gout! Next. Gout", "gout", "[forgotten] [forgotten] Next. [forgotten]"),
        ("gout and gout. Next", "gout", "[forgotten] Next"),
        ("the gout is", "gout is bad", "the gout is"),
        # As it is shown, not only as it is written.
        ("- Anna [has](http://x.org/a_(b) 'title') gout. Fine.", "Anna has gout", "- [forgotten] Fine."),
        ("- Anna [has][ref] gout", "Anna has gout", "- [forgotten]"),
        ("Anna <b class='x'>has</b> go<i>ut</i>. Fine.", "Anna has gout", "[forgotten] Fine."),
        ("Anna<br>has<!-- really --> gout", "Anna has gout", "[forgotten]"),
        ("Anna **h**as g*ou*t and ~~more~~", "Anna has gout", "[forgotten]"),
        ("Anna h&#97;s g&#x6F;u&zwnj;t&excl;", "Anna has gout", "[forgotten]"),
        ("An\u00adna h\u200bas g\u2060out\ufeff.", "Anna has gout", "[forgotten]"),
        ("See [[people/anna|Anna]] has[^1] gout", "Anna has gout", "[forgotten]"),
        ("Anna has gout", "Anna [has](http://x.org) **g**out", "[forgotten]"),
        ("AT&amp;T has gout", "AT&T has", "[forgotten]"),
        ("x &nosuch; gout", "nosuch gout", "[forgotten]"),
        ("AnnaThe gout", "anna gout", "AnnaThe gout"),
        # A sentence ends where its markup does, and the next one stays.
        ("Anna has <b>gout.</b> Fine.", "gout", "[forgotten] Fine."),
        ("Anna ~~has gout.~~ Fine.", "gout", "[forgotten] Fine."),
        ("[Anna has gout.](a.md) Fine.", "gout", "[forgotten] Fine."),
    ],
)
def test_the_sentence_that_holds_a_phrase_is_masked(text: str, phrase: str, after: str) -> None:
    assert mask(text, phrase) == after
    assert after.count("\n") == text.count("\n")


def test_of_a_line_without_sentences_only_the_phrase_is_masked() -> None:
    assert mask("a" * 3000 + " gout " + "b" * 3000, "gout") == "a" * 3000 + " [forgotten] " + "b" * 3000


@pytest.mark.parametrize(
    "bit", ["<b", "<!--", "](", "](a)(", "][", "[[", "[^a", "&#1", "*", "</b> <b", "](a](", "[[a|[[", "](](a)", "a.</b"]
)
@pytest.mark.parametrize("pattern", [tombstones._MARKUP, tombstones._SENTENCE_END, tombstones._STUMP])
def test_no_markup_takes_more_steps_than_in_proportion(bit: str, pattern: "re.Pattern[str]") -> None:
    once, twice = (count_steps(pattern, bit * times) for times in (50, 100))
    assert twice <= 2.2 * once + 200
