"""Trigger phrases against a message: OpenClaw's numbers, in any script and word form."""

import pytest

from mdrecall.sessions.messages import MIN_SCORE, Message, combine_scores


@pytest.mark.parametrize(
    ("message", "phrase", "score"),
    [
        ("what about the budget?", "budget", 0.85),
        ("quarterly budget review", "budget review", 1.0),
        ("the review of the yearly plan", "yearly budget review", 0.8 * 2 / 3 + 0.2),
        ("only the budget", "yearly budget review plan", 0.8 * 1 / 4 + 0.2 * 1 / 2),
        ("anything", " -- ", 0.0),
    ],
)
def test_a_phrase_counts_as_in_openclaw(message: str, phrase: str, score: float) -> None:
    assert Message(message).score_phrase(phrase) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        ("we are deploying tomorrow", "deploy"),
        ("two invoices are open", "invoice"),
        ("BUDGET!", "budget"),
        ("un CAFÉ", "cafe"),
        ("die Rechnungen sind da", "Rechnung"),
        ("спроси про погоду", "погода"),
        ("今天天气怎么样", "天气"),
        ("明日の天気は？", "天気"),
        ("오늘 날씨가 어때?", "날씨"),
        ("see DEC-0054 please", "DEC-0054"),
        ("новые книги", "книга"),
    ],
)
def test_other_forms_and_scripts_match(message: str, phrase: str) -> None:
    assert combine_scores(Message(message).score_phrase(phrase), 0.0) >= MIN_SCORE


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        ("a planet far away", "plane"),
        ("the contrast is high", "contract"),
        ("今天很好", "天气"),
        ("in 2027", "2026"),
        ("see ticket70", "ticket7"),
        ("the art of it", "artist"),
        ("одна тема", "темы"),
        ("über Gärten", "Gärtnerei"),
    ],
)
def test_words_that_only_begin_alike_do_not_match(message: str, phrase: str) -> None:
    assert Message(message).score_phrase(phrase) == 0.0
