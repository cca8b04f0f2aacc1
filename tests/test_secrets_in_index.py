"""No secret of any known kind, said in a conversation, is in any byte of the index."""

import re
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.memory import Memory
from mdrecall.store.sqlite.tables import unpack_text
from tests.test_conversations import SOURCES, Home
from tests.text.redact.test_planted import (
    BARE,
    NAMED,
    SHOWN,
    SURROUNDINGS,
    noise,
    pieces_of,
    shows_too_much,
    some,
    values,
)

KEY_LINES = st.lists(
    some("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", 64), min_size=3, max_size=3
)

# All that a piece of a secret is made of; an index holds far more of other bytes.
PRINTABLE = re.compile(rb"[ -~]{%d,}" % (SHOWN + 1))


@st.composite
def planted(draw: st.DrawFn) -> list[tuple[str, str]]:
    """One secret of every kind, each with a message around it."""
    found = []
    for kind in BARE.values():
        secret = draw(kind)
        found.append((secret, draw(noise) + draw(st.sampled_from(SURROUNDINGS)).format(secret) + " " + draw(noise)))
    for sentence in NAMED.values():
        secret = draw(values)
        found.append((secret, draw(noise) + sentence.format(secret) + " " + draw(noise)))
    for line in draw(KEY_LINES):
        found.append((line, f"-----BEGIN RSA PRIVATE KEY-----\n{line}\n-----END RSA PRIVATE KEY-----\n"))
    return found


def stored_texts(index: str) -> list[str]:
    """The texts of all chunks, which are compressed in the file."""
    db = apsw.Connection(index, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return [unpack_text(text) for (text,) in db.execute("SELECT text FROM texts")]
    finally:
        db.close()


def left_in(memory: Memory, secrets: list[str]) -> list[str]:
    """Secrets of which more than a mask shows is in a file of the index, in whatever letters the index keeps words."""
    secret_of = {piece.encode("ascii"): secret for secret in secrets for piece in pieces_of(secret.lower())}
    assert all(PRINTABLE.fullmatch(piece) for piece in secret_of)
    files = [Path(path).read_bytes().lower() for path, _ in memory.index_files()]
    files += [text.lower().encode() for text in stored_texts(memory.settings.index_path)]
    runs = {run for data in files for run in PRINTABLE.findall(data)}
    places = (run[at : at + SHOWN + 1] for run in runs for at in range(len(run) - SHOWN))
    return sorted({secret_of[piece] for piece in places if piece in secret_of})


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(plants=planted(), where=st.sampled_from(["alone", "many to a chunk", "across the border of chunks"]))
def test_no_secret_of_any_kind_is_in_any_byte_of_the_index(
    tmp_path_factory: pytest.TempPathFactory, plants: list[tuple[str, str]], where: str
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    secrets = [secret for secret, _ in plants]
    for number, (_, text) in enumerate(plants):
        room = {"alone": "", "many to a chunk": "", "across the border of chunks": "word " * (300 + 7 * number)}[where]
        home.say(f"talk-{number}" if where == "alone" else "talk", room + text)
    with home.open() as memory:
        memory.sync()
        assert left_in(memory, secrets) == []
        home.say("talk", "and more", *(text for _, text in plants[:5]))
        memory.sync()
        assert left_in(memory, secrets) == []
        said = memory.read_session("talk").text
        assert not any(shows_too_much(secret, said) for secret in secrets)
        memory.sync(force=True)
        assert left_in(memory, secrets) == []


def test_what_a_new_pattern_makes_a_secret_is_in_no_byte_of_the_index_after_it_was_made_anew(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.say("talk", *(f"the walrus {number} is called GERALD-{number:04d}-2222" for number in range(200)))
    with home.open() as memory:
        memory.sync()
        assert left_in(memory, ["GERALD-0001"])
    home.configure(SOURCES, logging={"redactPatterns": ["GERALD-[0-9-]+"]})
    with home.open() as memory:
        assert memory.sync().rebuilt
        assert left_in(memory, ["GERALD-0001"]) == []
