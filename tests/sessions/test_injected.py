"""What memory injects is marked, and nothing of it is left when a conversation is read; nor is ``NO_REPLY``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.sessions.messages import strip_memory, visible_text, wrap_memory

WORD = "5e1f09ab"
_TAGS = st.sampled_from(
    (
        "<mdrecall-memory>",
        "</mdrecall-memory>",
        "< / MDRECALL-MEMORY >",
        "</hook_context>",
        "<hook_prompt a='1'>",
        "x\n",
    )
)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"fix the pool\n{wrap_memory('canary', WORD)}\nand the proxy", "fix the pool\n\nand the proxy"),
        ("a <mdrecall-memory>x <mdrecall-memory>canary</mdrecall-memory> y</mdrecall-memory> b", "a  b"),
        ("fix the pool <hook_context>&lt;mdrecall-memory&gt; canary</hook_context>", "fix the pool"),
    ],
    ids=["wrapped", "a block inside a block", "a block that was cut off inside the element of a host"],
)
def test_a_block_is_removed_and_the_rest_stays(said: str, left: str) -> None:
    assert strip_memory(said) == left


@given(st.lists(_TAGS | st.text(max_size=8), max_size=8).map("".join))
def test_no_note_can_end_its_block(note: str) -> None:
    assert strip_memory(f"before {wrap_memory(note + 'canary', WORD)} after") == "before  after"


@given(st.lists(_TAGS | st.text(max_size=8), max_size=8).map("".join), st.integers(1, 40))
def test_a_block_without_its_beginning_or_its_end_leaves_nothing(note: str, cut: int) -> None:
    block = wrap_memory(f"{note} canary in the middle of a long note", WORD)
    assert strip_memory(f"said {block[:-cut]}") == "said"
    assert strip_memory(f"{block[cut:]} said") == "said"


@pytest.mark.parametrize(
    "injected",
    [
        "<hook_context>canary</hook_context>",
        "<hook_context>&lt;mdrecall-memory&gt;canary&lt;/mdrecall-memory&gt;</hook_context>",
        f"&lt;mdrecall-memory {WORD}&gt;canary&lt;/mdrecall-memory {WORD}&gt;",
        '<hook_prompt hook_run_id="stop:0:/home/ada">canary</hook_prompt>',
        "<system-reminder>\nSessionStart hook additional context: canary\n</system-reminder>",
        "SessionStart hook additional context: canary\nmore of it",
        "UserPromptSubmit hook additional context: canary",
    ],
)
def test_what_a_host_writes_around_the_text_of_a_hook_is_removed_with_it(injected: str) -> None:
    assert strip_memory(f"fix the pool\n{injected}") == "fix the pool"
    assert strip_memory(injected) == ""


@pytest.mark.parametrize(
    "said",
    [
        "what is <hook_context> for?",
        "the tag </hook_prompt> is never closed",
        "a hook additional context: is what we need",
        "  indented\n\ntext  ",
        "mdrecall-memory is a name",
        "",
    ],
)
def test_what_a_person_says_stays_as_it_is(said: str) -> None:
    assert strip_memory(said) == said


def test_a_text_full_of_tags_is_read_in_one_go() -> None:
    assert strip_memory("<mdrecall-memory " * 200_000).startswith("<mdrecall-memory")
    assert strip_memory("<mdrecall-memory>" * 100_000) == ""


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
