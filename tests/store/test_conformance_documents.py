"""Documents and chunks, in every store."""

import random
import threading
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdrecall.errors import StoreBusy
from mdrecall.interfaces import Store
from mdrecall.search.query import parse_query
from mdrecall.text.days import EPOCH, day_number
from mdrecall.types.documents import NO_FIELDS, NO_MARKS, Document, Fields, IndexedChunk, Link, Marks, part_path
from mdrecall.types.search import Term
from mdrecall.types.sync import SourceStatus
from mdrecall.types.transcripts import Transcript
from tests.conftest import examples
from tests.store.stores import STAMP, OpenStore, chunk_ids, found_in, ids_of, indexed


def test_a_document_is_found_by_its_words_names_and_title(store: Store) -> None:
    store.documents.put([indexed("memory/pool.md", "We use DEC-0054 for the café")], "r")
    for query in ("using", "DEC-0054", "cafe", "0054", "pool", "DEC-00"):
        assert found_in(store, query) == {"memory/pool.md"}, query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ticket DEC-0054 done", "DEC-0054"),
        ("ticket DEC-0054 done", "DEC-00"),
        ("see src/db/pool.ts now", "src/db/pool.ts"),
        ("see src/db/pool.ts now", "db/pool.ts"),
        ("see src/db/pool.ts now", "src/db/po"),
        ("set memorySearch.query.hybrid", "memorySearch.query.hybrid"),
        ("set memorySearch.query.hybrid", "memory search"),
        ("write alice@example.com", "alice@example.com"),
        ("version v2026.4.10 is out", "v2026.4.10"),
        ("im Café Zürich", "cafe zurich"),
        ("深色模式已经打开", "深色模式"),
        ("今日はしりとりをした", "しりとり"),
        ("猫を飼う", "猫"),
        ("배포 전략을 논의", "전략"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("ДОМОЙ", "домой"),
        ("ＤＥＣ－００５４", "DEC-0054"),
    ],
)
def test_identifiers_and_every_script_are_found(store: Store, text: str, query: str) -> None:
    store.documents.put([indexed("notes/right.md", text), indexed("notes/wrong.md", "nothing of the sort")], "r")
    assert found_in(store, query) == {"notes/right.md"}


def test_a_lone_character_is_found_at_the_beginning_inside_and_at_the_end_of_a_run(store: Store) -> None:
    notes = {"end.md": "我有猫", "begin.md": "猫を飼う", "inside.md": "黒猫が好き", "none.md": "犬を飼う"}
    store.documents.put([indexed(path, text) for path, text in notes.items()], "r")
    assert found_in(store, "猫") == {"end.md", "begin.md", "inside.md"}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the deployment failed", "deploy"),
        ("we deploy today", "deploying"),
        ("the configuration file", "configurat"),
        ("a kubernetes cluster", "kube"),
        ("with ❤️love", "love"),
        ("\ue0a0mainline branch", "mainline"),
    ],
)
def test_forms_beginnings_and_words_beside_odd_signs_are_found(store: Store, text: str, query: str) -> None:
    store.documents.put([indexed("notes/right.md", text), indexed("notes/wrong.md", "nothing of the sort")], "r")
    assert found_in(store, query) == {"notes/right.md"}


def test_a_term_in_every_chunk_has_a_saturation_between_nothing_and_one(store: Store) -> None:
    store.documents.put([indexed(f"{number}.md", "pool " * (number + 1)) for number in range(5)], "r")
    (match,) = store.chunks.match_terms(parse_query("pool"))
    assert len(match.chunks) == 5
    assert all(0 < saturation < 1 for saturation in match.chunks.values())
    longest, shortest = max(match.chunks), min(match.chunks)
    assert match.chunks[longest] > match.chunks[shortest]


def test_a_name_is_found_where_its_words_follow_each_other_in_one_column(store: Store) -> None:
    columns = [
        ("blue boiler key", "", ""),
        ("boiler blue key", "", ""),
        ("blue", "", "boiler key"),
        ("blue", "boiler", "key"),
        ("a blue boiler", "blue", "blue boiler"),
        ("", "key blue boiler", ""),
    ]
    for number, texts in enumerate(columns):
        document, (chunk,) = indexed(f"{number}.md", "text")
        # Each in a transaction of its own, and one is replaced.
        for _ in range(1 + number % 2):
            store.documents.put([(document, [IndexedChunk(chunk.chunk, *texts)])], "r")

    def find(*parts: str) -> list[str]:
        name = "-".join(parts)
        (match,) = store.chunks.match_terms([Term(name, name, parts=parts)])
        return sorted(chunk.path for chunk in store.chunks.load(list(match.chunks)))

    assert find("blue", "boiler") == ["0.md", "4.md", "5.md"]
    assert find("blue", "boiler", "key") == ["0.md"]
    assert find("boiler", "key") == ["0.md", "2.md"]
    assert find("key", "blue") == ["5.md"]
    assert find("key", "boiler") == []


def test_putting_a_document_again_replaces_it(store: Store) -> None:
    store.documents.put([indexed("a.md", "old words"), indexed("b.md", "other")], "r")
    store.documents.put([indexed("a.md", "new text")], "r")
    assert found_in(store, "old") == set()
    assert found_in(store, "new") == {"a.md"}
    assert found_in(store, "other") == {"b.md"}
    assert store.admin.check() == ()


def test_a_removed_document_leaves_nothing_behind(store: Store) -> None:
    store.documents.put([indexed("a.md", "word " * 3000), indexed("b.md", "other")], "r")
    store.documents.remove({"memory": ["a.md", "never.md"]})
    assert found_in(store, "word") == set()
    assert [(count.files, count.chunks) for count in store.chunks.count_by_source()] == [(1, 1)]


def test_stamps_prove_something_only_after_settling(store: Store) -> None:
    store.documents.put([indexed("a.md", "text")], "r")
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}
    assert store.documents.known_stamps("memory", 10_000_000_000) == {"a.md": ()}
    document, _ = indexed("a.md", "text")
    newer = document._replace(stamp=(9, 9, 9, 9), seen_ns=20_000_000_000)
    store.documents.put([(newer._replace(hash="cd" * 32), None)], "r")
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}
    store.documents.put([(newer, None)], "r")
    assert store.documents.known_stamps("memory", 5) == {"a.md": (9, 9, 9, 9)}


def test_a_chunk_that_was_loaded_before_is_never_older_than_the_index(store: Store) -> None:
    store.documents.put([indexed("a.md", "text")], "r")
    number = ids_of(store)["a.md"]
    assert [chunk.mtime_ns for chunk in store.chunks.load([number])] == [STAMP[1]]
    document, _ = indexed("a.md", "text")
    store.documents.put([(each, None) for each in [document._replace(stamp=(9, 9, 9, 9))]], "r")
    assert [chunk.mtime_ns for chunk in store.chunks.load([number])] == [9]
    store.documents.put([indexed("a.md", "other text")], "r")
    assert [chunk.text for chunk in store.chunks.load([number, ids_of(store)["a.md"]])] == ["other text"]


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.lists(st.text("word é東\n- #", max_size=80), max_size=40).map("\n".join), tokens=st.integers(8, 60))
def test_chunks_come_back_as_they_went_in(store: Store, text: str, tokens: int) -> None:
    document, chunks = indexed("a.md", text, tokens)
    store.documents.put([(document, chunks)], "r")
    loaded = store.chunks.load(chunk_ids(store, "md"))
    assert [(c.text, c.start_line, c.end_line, c.trail) for c in loaded] == [
        (c.chunk.text, c.chunk.start_line, c.chunk.end_line, c.chunk.trail) for c in chunks
    ]


def test_a_snapshot_does_not_see_what_is_written_meanwhile(store: Store) -> None:
    store.documents.put([indexed("a.md", "text")], "r")
    with store.chunks.snapshot():
        assert store.chunks.count() == 1
        thread = threading.Thread(target=store.documents.put, args=([indexed("b.md", "more")], "r"))
        thread.start()
        thread.join()
        assert store.chunks.count() == 1
    assert store.chunks.count() == 2


def test_closing_twice_is_fine_and_the_store_can_be_used_again(store: Store) -> None:
    store.admin.close()
    store.admin.close()
    assert store.chunks.count() == 0


def test_a_failed_write_changes_nothing(store: Store) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    document, chunks = indexed("a.md", "penguin")
    broken = [(document, chunks), (document._replace(path="b.md", hash="not hex"), chunks)]
    with pytest.raises(ValueError, match="hexadecimal"):
        store.documents.put(broken, "r")
    assert found_in(store, "walrus") == {"a.md"}
    assert found_in(store, "penguin") == set()


def test_a_clock_that_goes_backwards_does_not_keep_new_content_out(store: Store) -> None:
    old, old_chunks = indexed("a.md", "walrus")
    new, new_chunks = indexed("a.md", "penguin")
    store.documents.put([(old._replace(seen_ns=new.seen_ns + 3_600_000_000_000), old_chunks)], "r")
    store.documents.put([(new, new_chunks)], "r")
    assert found_in(store, "penguin") == {"a.md"}
    assert found_in(store, "walrus") == set()


def test_every_thread_reads_on_a_connection_of_its_own(store: Store) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    seen: list[set[str]] = []
    threads = [threading.Thread(target=lambda: seen.append(found_in(store, "walrus"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{"a.md"}] * 4


def test_a_transaction_is_written_whole_and_only_its_own_thread_sees_it_before(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    store.documents.put([indexed("a.md", "walrus")], "r")

    def write() -> None:
        store.documents.put([indexed("b.md", "penguin")], "r")
        store.documents.commit(lambda: store.documents.remove({"memory": ["a.md"]}))
        assert (store.chunks.count(), found_in(store, "penguin")) == (1, {"b.md"})
        assert found_in(other, "walrus penguin") == {"a.md"}

    store.documents.commit(write)
    assert found_in(other, "walrus penguin") == {"b.md"}


def test_a_transaction_that_an_error_leaves_changes_nothing(store: Store) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")

    def fail() -> None:
        store.documents.put([indexed("b.md", "penguin")], "r")
        store.documents.commit(lambda: store.documents.remove({"memory": ["a.md"]}))
        raise KeyError

    with pytest.raises(KeyError):
        store.documents.commit(fail)
    assert found_in(store, "walrus penguin") == {"a.md"}
    assert store.documents.known_stamps("memory", 5) == {"a.md": STAMP}


def test_what_is_known_of_a_document_is_its_hash_and_format(store: Store) -> None:
    assert (store.documents.state()[0], store.documents.known_documents("memory", ["a.md"]).get("a.md")) == ("", None)
    store.documents.put([indexed("a.md", "walrus")], "one")
    assert store.documents.state()[0] == "one"
    assert store.documents.known_documents("memory", ["a.md"]).get("a.md") == ("ab" * 32, "one")
    assert store.documents.known_documents("memory") == {"a.md": ("ab" * 32, "one")}
    assert store.documents.known_documents("sessions") == {}
    store.documents.put([indexed("b.md", "walrus")], "two")
    assert store.documents.state()[0] == "?"


def test_chunks_that_no_longer_exist_are_left_out(store: Store) -> None:
    store.documents.put([indexed("a.md", "walrus"), indexed("b.md", "walrus")], "r")
    first, second = chunk_ids(store, "walrus")
    store.documents.remove({"memory": ["a.md"]})
    assert [chunk.path for chunk in store.chunks.load([second, first])] == ["b.md"]


def part_of(path: str, number: int, text: str) -> tuple[Document, list[IndexedChunk]]:
    document, chunks = indexed(part_path(path, number), text)
    return document._replace(source="sessions"), chunks


def test_the_parts_of_a_transcript_are_replaced_from_a_number_on(store: Store) -> None:
    state = Transcript("s/a.jsonl", 10, 2, 3, 10, 5, 1, 1, b"seal")
    parts = [part_of(state.path, number, text) for number, text in enumerate(["walrus", "penguin"])]
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.documents.put(parts, "r", state=state, keep=0)
    longer = state._replace(until=20, parts=2)
    store.documents.put([part_of(state.path, number, "seal") for number in (1, 2)], "r", state=longer, keep=1)
    assert store.documents.transcripts() == {state.path: longer}
    assert found_in(store, "penguin") == set()
    assert found_in(store, "walrus") == {"a.md", state.path}
    assert len(chunk_ids(store, "seal")) == 2
    assert set(store.chunks.count_by_source()) == {SourceStatus("memory", 1, 1), SourceStatus("sessions", 1, 3)}
    sizes = store.admin.content_sizes()
    assert (sizes.texts["sessions"], sizes.cache) == (3 * sizes.texts["memory"] - 2 * (len("walrus") - len("seal")), 0)
    store.documents.remove({"sessions": [state.path, "s/never.jsonl"]})
    assert (store.documents.transcripts(), store.documents.known_documents("sessions")) == ({}, {})
    assert found_in(store, "walrus seal") == {"a.md"}


def test_documents_are_listed_with_their_head_and_their_chunks_in_order(store: Store) -> None:
    text = "---\ndate: 2026-03-01\n---\n" + "\n\n".join(f"walrus {number} " * 40 for number in range(6))
    state = Transcript("s/a.jsonl", 10, 2, 3, 10, 5, 1, 1, b"seal")
    store.documents.put([indexed("a.md", text, 100), indexed("empty.md", ""), indexed("plain.md", "a walrus")], "r")
    store.documents.put([part_of(state.path, 0, "seal")], "r", state=state, keep=0)
    listed = {entry.path: entry for entry in store.chunks.list_documents()}
    assert {entry.source for entry in listed.values()} == {"memory", "sessions"}
    assert set(listed) == {"a.md", "empty.md", "plain.md", "s/a.jsonl"}
    assert text.startswith(listed["a.md"].head)
    assert len(listed["a.md"].head) <= 1000
    assert "2026-03-01" in listed["a.md"].head
    assert [listed[path].head for path in ("s/a.jsonl", "empty.md", "plain.md")] == [""] * 3
    assert listed["a.md"].mtime_ns == STAMP[1]
    chunks = store.chunks.load(store.chunks.chunks_of([listed["s/a.jsonl"].id, listed["a.md"].id]))
    assert len(chunks) > 3
    assert [chunk.path for chunk in chunks] == ["s/a.jsonl"] + ["a.md"] * (len(chunks) - 1)
    assert sorted(chunk.start_line for chunk in chunks[1:]) == [chunk.start_line for chunk in chunks[1:]]
    assert store.chunks.chunks_of([listed["empty.md"].id]) == store.chunks.chunks_of([]) == []
    assert store.chunks.chunks_of("sessions") == [chunks[0].id]
    store.documents.remove({"memory": ["a.md"]})
    assert store.chunks.chunks_of("memory") == store.chunks.chunks_of([listed["plain.md"].id])


def test_documents_are_found_by_the_day_that_they_are_about(store: Store) -> None:
    day = day_number(2026, 3, 1)
    assert day is not None
    notes = [
        indexed("memory/2026-03-01.md", "a walrus"),
        indexed("memory/2026-03-02-standup.md", "a seal"),
        indexed("talk.md", "---\ndate: 2026-03-01\n---\na walrus"),
        indexed("plain.md", "it was on 2026-03-01"),
    ]
    state = Transcript("s/a.jsonl", 10, 2, 3, 10, 5, 1, 1, b"seal")
    store.documents.put(notes, "r")
    store.documents.put([part_of(state.path, 0, "seal")], "r", state=state, keep=0)

    def find(*ranges: tuple[int, int]) -> set[str]:
        return {document.path for document in store.chunks.list_documents(ranges)}

    assert find((day, day)) == {"memory/2026-03-01.md", "talk.md"}
    assert find((day - 9, day + 1)) == find((day, day), (day - 9, day), (day + 1, day + 1))
    assert find((day, day + 1)) == {"memory/2026-03-01.md", "talk.md", "memory/2026-03-02-standup.md"}
    assert find((EPOCH, EPOCH)) == {"s/a.jsonl"}
    assert find((EPOCH + 1, day - 1)) == find() == set()
    store.documents.put([indexed("talk.md", "---\ndate: 2026-03-02\n---\na walrus")], "r")
    store.documents.remove({"memory": ["memory/2026-03-01.md"]})
    assert find((day, day)) == set()
    assert find((day + 1, day + 1)) == {"memory/2026-03-02-standup.md", "talk.md"}


def test_one_thread_has_the_right_to_write_and_may_take_it_twice(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    refused: list[StoreBusy] = []

    def write() -> None:
        try:
            with other.admin.write_lock("writing", 0.05):
                pass
        except StoreBusy as error:
            refused.append(error)

    with store.admin.write_lock("indexing"), store.admin.write_lock("writing"):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert len(refused) == 1
    write()
    assert len(refused) == 1


@pytest.mark.parametrize("kind", ["watch", "fill"])
def test_a_lock_has_one_holder_who_can_be_asked_after(open_store: OpenStore, kind: Literal["watch", "fill"]) -> None:
    store, other = open_store(), open_store()
    store.chunks.count()
    mine, theirs = store.lock(kind), other.lock(kind)
    assert mine.acquire(0, "testing")
    assert not theirs.acquire(0, "testing")
    holder = theirs.holder()
    assert holder
    assert holder.doing == "testing"
    mine.release()
    mine.release()
    assert theirs.holder() is None


def test_what_annotations_say_of_a_chunk_comes_back_with_it(store: Store) -> None:
    document, (plain,) = indexed("MEMORY.md", "The van is red")
    marks = Marks(("the van",), 7, "github.com/ana/app", "MEMORY.md#L9", True, "2026-11-16", "agent")
    marked = plain._replace(chunk=plain.chunk._replace(marks=marks))
    store.documents.put([(document, [marked]), indexed("memory/b.md", "The van is slow")], "r")
    found = {chunk.path: chunk.marks for chunk in store.chunks.load(chunk_ids(store, "van"))}
    assert found == {"MEMORY.md": marks, "memory/b.md": NO_MARKS}


def test_chunks_of_projects_are_told_apart(store: Store) -> None:
    document, (plain,) = indexed("MEMORY.md", "The van is red")
    marked = plain._replace(chunk=plain.chunk._replace(marks=Marks(project="a.b/c; path:/x")))
    other = plain._replace(chunk=plain.chunk._replace(marks=Marks(importance=7, triggers=("project",))))
    store.documents.put([(document, [marked, other])], "r")
    assert list(store.chunks.chunks_of_projects().values()) == ["a.b/c; path:/x"]
    store.documents.remove({"memory": ["MEMORY.md"]})
    assert store.chunks.chunks_of_projects() == {}


def test_what_a_note_says_about_itself_is_listed_with_it(store: Store) -> None:
    document, chunks = indexed("a.md", "text")
    fields = Fields("Títle", ("work/x", "工作"), ("Ana\x00 \ud800",), (Link(3, "b#c|d"),))
    store.documents.put([(document._replace(fields=fields), chunks), indexed("b.md", "text")], "r")
    assert {one.path: one.fields for one in store.chunks.list_documents()} == {"a.md": fields, "b.md": NO_FIELDS}


@pytest.mark.parametrize("seed", range(3))
def test_what_others_change_is_seen_as_by_somebody_new(seed: int, store: Store, open_store: OpenStore) -> None:
    draw, writer = random.Random(seed), open_store()
    paths = [f"{letter}.md" for letter in "abcdef"]
    for number in range(12):
        chosen = draw.sample(paths, 2)
        act = draw.randrange(4)
        if act == 0:
            writer.documents.remove({"memory": chosen})
        elif act == 1:
            touched = [indexed(path, "")[0]._replace(stamp=(1, number + 10, 3, 4)) for path in chosen]
            writer.documents.put([(each, None) for each in touched], "r")
        elif act == 2:
            with writer.rebuild() as (fresh, publish):
                fresh.documents.put([indexed(path, f"rebuilt{number}") for path in chosen], "r")
                with writer.admin.write_lock("publishing"):
                    publish()
        else:
            writer.documents.put([indexed(path, f"---\nday: {number}\n---\ntext{number}") for path in chosen], "r")
        if draw.random() < 0.7:
            new = open_store()
            assert sorted(store.chunks.list_documents()) == sorted(new.chunks.list_documents())
            assert store.documents.known_stamps("memory", 1) == new.documents.known_stamps("memory", 1)
            assert (store.chunks.count(), found_in(store, "text")) == (new.chunks.count(), found_in(new, "text"))
            assert {path: store.documents.known_documents("memory", [path]).get(path) for path in paths} == {
                path: new.documents.known_documents("memory", [path]).get(path) for path in paths
            }
            new.admin.close()
    assert store.admin.check() == ()


def test_what_documents_were_masked_with_is_known(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    assert store.documents.state()[1] == ""
    store.documents.put([indexed("a.md", "walrus")], "r", "one")
    assert other.documents.state()[1] == "one"
    other.documents.put([indexed("b.md", "seal")], "r", "one")
    assert store.documents.state()[1] == "one"
    # A process that has not heard of the last text that was forgotten.
    store.documents.put([indexed("c.md", "seal")], "r", "older")
    assert other.documents.state()[1] == "?"
    other.documents.remove({}, "two")
    assert store.documents.state()[1] == "two"
    with store.rebuild() as (fresh, publish):
        fresh.documents.put([indexed("a.md", "walrus")], "r", "three")
        with store.admin.write_lock("publishing"):
            publish()
    assert other.documents.state()[1] == "three"
    other.documents.remove({"memory": ["a.md"]})
    other.documents.put([indexed("a.md", "walrus")], "r", "four")
    assert store.documents.state()[1] == "four", "Nothing is left that was masked in another way."


def test_documents_without_a_mask_are_no_reason_to_trust_those_with_one(store: Store) -> None:
    store.documents.put([indexed("a.md", "walrus")], "r")
    assert store.documents.state()[1] == ""
    store.documents.put([indexed("b.md", "walrus")], "r", "one")
    assert store.documents.state()[1] == "?"
