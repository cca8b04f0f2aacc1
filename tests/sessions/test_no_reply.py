import pytest

from mdrecall.sessions.messages import visible_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  NO_REPLY \n", ""),
        ("Saved.\n\nNO_REPLY\n", "Saved."),
        ("Saved. **NO_REPLY", "Saved."),
        ("Saved. **NO_REPLY**", "Saved."),
        ("**NO_REPLY**", ""),
        ("Saved.NO_REPLY", "Saved.NO_REPLY"),
        ("NO_REPLY is what I say", "NO_REPLY is what I say"),
        ("plain text \n", "plain text \n"),
    ],
)
def test_a_token_at_the_end_is_not_shown(text: str, shown: str) -> None:
    assert visible_text(text) == shown


def test_a_long_run_of_blanks_takes_no_time() -> None:
    assert visible_text("*" * 200_000 + " " * 200_000 + "x") == "*" * 200_000 + " " * 200_000 + "x"
