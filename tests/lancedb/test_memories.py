"""The rules of the long-term memory, on real LanceDB: whose, which are the same, which answer, which are gone."""

import pytest

from benchmarks.memories import CHANGED
from mdrecall.errors import ArgumentError, PluginError
from mdrecall.extras.lancedb.memories import LongTermMemory, same_fact
from tests.lancedb.conftest import LtmDatabase, OtherEmbedder

DAY_MS = 86_400_000.0


def texts(memories: LongTermMemory, query: str, limit: int = 5) -> list[str]:
    return [one.row.text for one in memories.recall(query, limit)[0]]


def test_a_stored_memory_is_recalled_with_its_cosine_and_what_is_of_no_concern_is_not(database: LtmDatabase) -> None:
    memories = database.memories()
    for text in ("I prefer dark mode in my editor", "My sister is called Martina", "The deploy key lives in the vault"):
        assert memories.store(text).action == "created"
    (found,) = memories.recall("where is the deploy key?", 5)[0]
    assert found.row.text == "The deploy key lives in the vault"
    assert 0.5 < found.score < 1
    assert memories.recall("The deploy key lives in the vault", 1)[0][0].score == pytest.approx(1, abs=1e-4)
    assert texts(memories, "quantum chromodynamics lecture") == []


def test_no_agent_sees_the_memories_of_another_however_close(database: LtmDatabase) -> None:
    other = database.memories("other")
    for number in range(8):
        other.store(f"The door code is {number}")
    main = database.memories()
    mine = main.store("The door code is written on the fridge").row
    assert [one.row.id for one in main.recall("The door code is 3", 2)[0]] == [mine.id]
    assert main.forget(other.list_all()[0].id) is None
    assert len(other.list_all()) == 8
    assert [row.id for row in main.list_all()] == [mine.id]
    assert len(main.list_all(all_agents=True)) == 9
    assert main.counts()["otherAgents"] == 8
    assert database.memories("x' OR '1'='1").list_all() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [("My phone is +41791234567", "My phone is +41791234568"), ("I like coffee", "I do not like coffee")],
)
def test_a_fact_that_differs_in_a_word_is_kept_and_the_other_is_named(
    database: LtmDatabase, one: str, other: str
) -> None:
    memories = database.memories()
    first = memories.store(one).row
    stored = memories.store(other)
    assert stored.action == "created"
    assert [alike.row.id for alike in stored.similar] == [first.id]


def test_the_later_expiry_of_two_that_say_the_same_holds(database: LtmDatabase) -> None:
    memories = database.memories()
    memories.store("The meeting room is closed", ttl_ms=DAY_MS)
    for ttl_ms in (2 * DAY_MS, 1):
        row = memories.store("the meeting room is closed", ttl_ms=ttl_ms).row
        assert row.expires_ms == database.clock() + 2 * DAY_MS
    assert memories.store("The meeting room is closed").row.expires_ms is None
    database.clock.now_ms += 3 * DAY_MS
    assert texts(memories, "is the meeting room closed?") == ["The meeting room is closed"]


def test_what_has_expired_is_never_found_and_goes_at_the_next_write(database: LtmDatabase) -> None:
    memories = database.memories()
    expired = memories.store("The wifi password of the hotel is on the card", ttl_ms=DAY_MS).row
    database.clock.now_ms += DAY_MS
    assert texts(memories, "wifi password of the hotel") == []
    assert memories.get(expired.id) is None
    assert memories.list_all() == []
    assert memories.counts()["expired"] == 1
    memories.store("I prefer tea")
    assert memories.counts()["expired"] == 0
    assert b"on the card" not in database.bytes()


def test_a_memory_that_is_replaced_keeps_its_id_and_nothing_of_its_old_text(database: LtmDatabase) -> None:
    memories = database.memories()
    old = memories.store("My office is in room Aardvark", importance=0.9).row
    database.clock.now_ms += 1000
    stored = memories.store("My office is in room Badger", replaces=old.id)
    assert (stored.action, stored.row.id, stored.before) == ("updated", old.id, "My office is in room Aardvark")
    (row,) = memories.list_all()
    assert (row.text, row.importance, row.created_ms) == ("My office is in room Badger", 0.9, old.created_ms)
    assert row.updated_ms == old.created_ms + 1000
    assert b"Aardvark" not in database.bytes()


def test_forgetting_takes_the_text_from_the_disk_and_says_honestly_what_was_there(database: LtmDatabase) -> None:
    memories = database.memories()
    memories.store("I prefer tea")
    row = memories.store("My locker has the number Zanzibar").row
    assert b"Zanzibar" in database.bytes()
    assert memories.forget(row.id) == row
    assert b"Zanzibar" not in database.bytes()
    assert memories.forget(row.id) is None
    assert memories.counts()["total"] == 1


@pytest.mark.parametrize("memory_id", ["", "1", "' OR 1=1 --", "00000000-0000-0000-0000-00000000000g"])
def test_an_id_that_is_no_uuid_is_refused(database: LtmDatabase, memory_id: str) -> None:
    with pytest.raises(ArgumentError, match="Invalid memory ID format"):
        database.memories().forget(memory_id)


def test_secrets_are_masked_before_anything_is_stored(database: LtmDatabase) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    assert database.memories().store(f"My key is {secret}").is_masked
    assert secret.encode() not in database.bytes()
    assert not database.memories().store("I prefer tea").is_masked


@pytest.mark.parametrize("text", ["", "   ", "x" * 10_001])
def test_a_blank_or_endless_text_is_no_memory(database: LtmDatabase, text: str) -> None:
    with pytest.raises(ArgumentError):
        database.memories().store(text)


@pytest.mark.parametrize(
    "text", ["half \ud83d of an emoji", "a\0b and 'quotes' \\ `ticks`", "\u202ereversed", "🦊" * 300]
)
def test_odd_texts_are_kept_and_found(database: LtmDatabase, text: str) -> None:
    memories = database.memories()
    row = memories.store(text).row
    memories.recall(text, 3)
    assert memories.get(row.id) == row


def test_scripts_that_the_offline_embedder_does_not_know_are_found_by_their_words(database: LtmDatabase) -> None:
    memories = database.memories()
    for text in ("我喜欢深色模式", "Встреча всегда во вторник", "I prefer tea"):
        memories.store(text)
    assert texts(memories, "我喜欢什么模式?") == ["我喜欢深色模式"]
    assert texts(memories, "когда встреча, во вторник?") == ["Встреча всегда во вторник"]
    assert memories.store("我喜欢深色模式。").action == "duplicate"


def test_what_is_meant_by_a_query_is_only_sure_if_nothing_else_could_be(database: LtmDatabase) -> None:
    memories = database.memories()
    first = memories.store("My phone is +41791234567").row
    memories.store("My phone is +41791234568")
    found, surely = memories.find_to_forget("My phone is +41791234569")
    assert (len(found), surely) == (2, None)
    found, surely = memories.find_to_forget("my phone is +41791234567")
    assert surely is not None
    assert surely.row.id == first.id


def test_vectors_of_another_length_are_refused_with_the_way_out_until_they_are_made_anew(database: LtmDatabase) -> None:
    database.memories().store("I prefer dark mode")
    other = database.memories(embedder=OtherEmbedder)
    with pytest.raises(PluginError, match="vectors of 256 numbers") as refused:
        other.recall("which mode", 3)
    assert "Embed the memories again" in refused.value.hint
    with pytest.raises(PluginError, match="vectors of 256 numbers"):
        other.store("I prefer tea")
    assert [row.text for row in other.list_all()] == ["I prefer dark mode"]
    assert other.reembed() == 1
    assert texts(other, "do I prefer dark mode?") == ["I prefer dark mode"]
    assert other.store("I prefer tea").action == "created"


def test_an_empty_table_takes_vectors_of_any_length(database: LtmDatabase) -> None:
    first = database.memories()
    first.forget(first.store("I prefer dark mode").row.id)
    other = database.memories(embedder=OtherEmbedder)
    assert other.reembed() == 0
    assert texts(other, "I prefer dark mode") == []
    assert other.store("I prefer green tea").action == "created"
    assert texts(other, "do I prefer green tea?") == ["I prefer green tea"]


def test_vectors_of_another_embedder_of_the_same_length_are_not_compared_but_told_of(database: LtmDatabase) -> None:
    database.memories(embedder=OtherEmbedder).store("I prefer dark mode")
    other = database.memories(embedder=lambda: renamed(OtherEmbedder()))
    assert other.recall("I prefer dark mode", 3) == ([], 1)
    assert other.counts()["notSearched"] == 1
    other.reembed()
    assert other.recall("I prefer dark mode", 3)[1] == 0
    assert texts(other, "I prefer dark mode") == ["I prefer dark mode"]


def test_an_embedder_whose_range_is_unknown_is_measured_by_what_is_stored(database: LtmDatabase) -> None:
    memories = database.memories(embedder=lambda: OtherEmbedder(measured=True))
    for text in ("I prefer dark mode in my editor", "My sister is called Martina", "The deploy key lives in the vault"):
        memories.store(text)
    assert texts(memories, "where is the deploy key?") == ["The deploy key lives in the vault"]


def test_an_id_may_be_named_by_its_beginning(database: LtmDatabase) -> None:
    memories = database.memories()
    row = memories.store("I prefer tea").row
    assert memories.find_by_prefix(row.id[:8].upper()) == [row]
    assert database.memories("other").find_by_prefix(row.id[:8]) == []
    with pytest.raises(ArgumentError):
        memories.find_by_prefix("%%%%%%%%")


def renamed(embedder: OtherEmbedder) -> OtherEmbedder:
    embedder.fingerprint = "renamed-0123456789"
    return embedder


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I prefer dark mode", "i prefer the dark mode."),
        ("Always answer in German", "Please always answer in German!"),
        ("Ich mag Cafés", "ich mag cafes"),
        ("我喜欢深色模式", "我喜欢深色模式。"),
    ],
)
def test_case_accents_signs_and_small_words_make_no_other_fact(one: str, other: str) -> None:
    assert same_fact(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [*CHANGED, ("I was a vegetarian", "I am a vegetarian"), ("Tom owes Anna ten", "Anna owes Tom ten"), ("a.b", "a-b")],
)
def test_a_number_a_name_a_negation_or_an_order_makes_another_fact(one: str, other: str) -> None:
    assert not same_fact(one, other)
