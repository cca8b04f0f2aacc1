"""Vectors, cached embeddings and batch jobs, in every store."""

import pytest

from mdrecall.errors import StoreBusy, StoreUnavailable
from mdrecall.types.documents import Embedding, Job, PendingChunk
from tests.store.stores import OTHER, SPACE, OpenStore, find_space, indexed, pack, pack_passages, put


def test_the_nearest_come_first_with_their_cosines(open_vectors: OpenStore) -> None:
    store = open_vectors()
    east = put(store, "east.md", (1, 0, 0, 0))
    west = put(store, "west.md", (-1, 0, 0, 0))
    between = put(store, "between.md", (0.5, 0.5, 0.5, 0.5))
    query = pack((1, 0, 0, 0))
    assert store.vectors.nearest(find_space(store), query, 10) == [(east, 1.0), (between, 0.5), (west, -1.0)]
    assert store.vectors.nearest(find_space(store), query, 1) == [(east, 1.0)]
    assert store.vectors.cosines(find_space(store), query, [west, 999, between]) == {west: -1.0, between: 0.5}


def test_a_cosine_is_right_to_two_places_although_a_number_is_a_byte(open_vectors: OpenStore) -> None:
    store = open_vectors()
    between = put(store, "between.md", (0.6, 0.8, 0, 0))
    found = store.vectors.cosines(find_space(store), pack((1, 0, 0, 0)), [between])
    assert found[between] == pytest.approx(0.6, abs=0.005)


def test_the_vectors_of_chunks_are_given_as_signed_bytes(open_vectors: OpenStore) -> None:
    store = open_vectors()
    west, bare = put(store, "west.md", (-1, 0, 0, 0)), put(store, "bare.md", None)
    between = put(store, "between.md", (0.5, 0.5, -0.5, 0.5))
    found = store.vectors.vectors_of(find_space(store), [between, bare, 999, west])
    assert found == {west: pack_passages((-127, 0, 0, 0)), between: pack_passages((127, 127, -127, 127))}
    assert store.vectors.vectors_of(find_space(store), []) == {}


def test_a_space_without_vectors_finds_nothing(open_vectors: OpenStore) -> None:
    store = open_vectors()
    store.vectors.ensure_space(SPACE)
    query = pack((1, 0, 0, 0))
    assert store.vectors.nearest(find_space(store), query, 5) == []
    assert store.vectors.cosines(find_space(store), query, [1]) == {}
    assert store.vectors.passage_cosines(find_space(store), query, [1]) == {}


def test_the_cosine_of_every_passage_is_found_in_order(open_vectors: OpenStore) -> None:
    store = open_vectors()
    one = put(store, "a.md", (1, 0, 0, 0), pack_passages((0, 127, 0, 0), (127, 0, 0, 0), (127, 0, 0, 0)))
    none = put(store, "b.md", (1, 0, 0, 0))
    zero = put(store, "c.md", (0, 0, 0, 0), pack_passages((0, 0, 0, 0)))
    found = store.vectors.passage_cosines(find_space(store), pack((1, 0, 0, 0)), [one, none, zero])
    # A number of a passage's vector may be rounded to two bits.
    assert [round(cosine) for cosine in found[one]] == [0, 1, 1]
    assert found.keys() == {one, zero}
    assert list(found[zero]) == [0.0]


def test_the_best_of_several_vectors_of_a_chunk_counts(open_vectors: OpenStore) -> None:
    store = open_vectors()
    one, other = put(store, "a.md", None), put(store, "b.md", None)
    space = find_space(store)
    made = {one: ((0, 127, 0, 0), (127, 0, 0, 0), (-127, 0, 0, 0)), other: ((127, 127, 127, 127),)}
    store.vectors.put(space.id, [(chunk, Embedding(b"", pack_passages(*made[chunk]))) for chunk in made])
    query = pack((1, 0, 0, 0))
    assert store.vectors.nearest(space, query, 10) == [(one, 1.0), (other, 0.5)]
    assert store.vectors.nearest(space, pack((-1, 0, 0, 0)), 1) == [(one, 1.0)]
    assert store.vectors.cosines(space, query, [other, one, 999]) == {other: 0.5, one: 1.0}
    assert store.vectors.vector_cosines(space, query, [other, one]) == {other: [0.5], one: [0.0, 1.0, -1.0]}
    assert store.vectors.passage_cosines(space, query, [one, other]) == {}
    assert store.vectors.vectors_of(space, [one]) == {one: pack_passages(*made[one])}
    assert (store.chunks.count(space.id), store.vectors.pending(space.id, 0, 10)) == (2, [])
    reader = open_vectors()
    store.documents.remove({"memory": ["a.md"]})
    for each in (store, reader):
        assert each.vectors.nearest(space, query, 10) == [(other, 0.5)]
    assert store.chunks.count(space.id) == 1


def test_a_vector_that_is_replaced_is_seen_by_others(open_vectors: OpenStore) -> None:
    reader, writer = open_vectors(), open_vectors()
    chunk = put(writer, "a.md", (1, 0, 0, 0))
    query = pack((0, 1, 0, 0))
    assert reader.vectors.nearest(find_space(reader), query, 5) == [(chunk, 0.0)]
    writer.vectors.put(find_space(writer).id, [(chunk, Embedding(pack((0, 1, 0, 0))))])
    assert reader.vectors.nearest(find_space(reader), query, 5) == [(chunk, 1.0)]


def test_a_reader_in_a_snapshot_sees_one_state_and_afterwards_the_new_one(open_vectors: OpenStore) -> None:
    reader, writer = open_vectors(), open_vectors()
    chunk = put(writer, "a.md", (1, 0, 0, 0))
    query = pack((1, 0, 0, 0))
    with reader.chunks.snapshot():
        assert reader.vectors.nearest(find_space(reader), query, 5) == [(chunk, 1.0)]
        later = put(writer, "b.md", (1, 0, 0, 0))
        assert reader.vectors.nearest(find_space(reader), query, 5) == [(chunk, 1.0)]
    assert reader.vectors.nearest(find_space(reader), query, 5) == [(chunk, 1.0), (later, 1.0)]


def test_a_space_that_was_replaced_meanwhile_is_no_damage(open_vectors: OpenStore) -> None:
    store = open_vectors()
    chunk = put(store, "a.md", (1, 0, 0, 0))
    old, query = find_space(store), pack((1, 0, 0, 0))
    store.vectors.nearest(old, query, 5)
    store.vectors.mark_filled(store.vectors.ensure_space(OTHER).id, store.vectors.spaces()[0].texts)
    with pytest.raises(StoreUnavailable, match="replaced"):
        store.vectors.nearest(old, query, 5)
    with pytest.raises(StoreBusy, match="replaced"):
        store.vectors.put(old.id, [(chunk, Embedding(query))])
    with pytest.raises(StoreBusy, match="replaced"):
        store.vectors.pending(old.id, 0, 5)
    with pytest.raises(StoreBusy, match="replaced"):
        store.vectors.mark_filled(old.id, store.vectors.spaces()[0].texts)
    assert [found.space for found in store.vectors.spaces()] == [OTHER]


@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_with_a_document_its_vectors_and_windows_go(open_vectors: OpenStore, way: str) -> None:
    store = open_vectors()
    gone = put(store, "a.md", (1, 0, 0, 0), pack_passages((1, 0, 0, 0)))
    kept = put(store, "b.md", (0, 1, 0, 0), pack_passages((0, 1, 0, 0)))
    if way == "removed":
        store.documents.remove({"memory": ["a.md"]})
    else:
        store.documents.put([indexed("a.md", "other text")], "r")
    space, query = find_space(store), pack((1, 0, 0, 0))
    assert store.chunks.count(space.id) == 1
    assert store.vectors.passage_cosines(space, query, [gone, kept]).keys() == {kept}
    assert [chunk for chunk, _ in store.vectors.nearest(space, query, 5)] == [kept]


def test_a_vector_of_a_chunk_that_is_gone_is_not_stored(open_vectors: OpenStore) -> None:
    store = open_vectors()
    chunk = put(store, "a.md", None)
    store.documents.remove({"memory": ["a.md"]})
    store.vectors.put(find_space(store).id, [(chunk, Embedding(pack((1, 0, 0, 0)), pack_passages((1, 0, 0, 0))))])
    assert store.chunks.count(find_space(store).id) == 0
    assert store.vectors.passage_cosines(find_space(store), pack((1, 0, 0, 0)), [chunk]) == {}


def test_numbers_of_chunks_are_never_given_twice(open_store: OpenStore) -> None:
    store = open_store()
    first = put(store, "a.md", (1, 0, 0, 0))
    store.documents.remove({"memory": ["a.md"]})
    second = put(store, "b.md", None)
    assert second > first
    assert store.chunks.count(find_space(store).id) == 0


def test_chunks_without_a_vector_come_with_their_whole_text(open_store: OpenStore) -> None:
    store = open_store()
    text = "\n".join(f"line {number} with a few words in it" for number in range(60))
    item = indexed("a.md", text, tokens=60)
    store.documents.put([item], "r")
    number = store.vectors.ensure_space(SPACE).id
    whole = store.vectors.pending(number, 0, 100)
    assert len(whole) > 3
    assert [chunk.text for chunk in whole] == [made.chunk.text for made in item[1]]
    one_by_one: list[PendingChunk] = []
    while found := store.vectors.pending(number, one_by_one[-1].id if one_by_one else 0, 1):
        one_by_one += found
    assert one_by_one == whole
    store.vectors.put(number, [(whole[1].id, Embedding(pack((1, 0, 0, 0))))])
    assert store.vectors.pending(number, 0, 100) == [whole[0], *whole[2:]]


def test_a_space_is_filled_until_a_text_comes(open_store: OpenStore) -> None:
    store = open_store()
    put(store, "a.md", (1, 0, 0, 0))
    assert (find_space(store).is_filled, find_space(store).was_filled) == (False, False)
    store.vectors.mark_filled(find_space(store).id, store.vectors.spaces()[0].texts)
    assert (find_space(store).is_filled, find_space(store).was_filled) == (True, True)
    put(store, "b.md", None)
    assert (find_space(store).is_filled, find_space(store).was_filled) == (False, True)
    store.documents.remove({"memory": ["b.md"]})
    store.vectors.mark_filled(find_space(store).id, store.vectors.spaces()[0].texts)
    store.documents.remove({"memory": ["a.md"]})
    assert find_space(store).is_filled


def test_texts_that_came_while_a_space_was_filled_leave_it_unfilled(open_store: OpenStore) -> None:
    store = open_store()
    put(store, "a.md", (1, 0, 0, 0))
    before = store.vectors.spaces()[0].texts
    put(store, "b.md", None)
    store.vectors.mark_filled(find_space(store).id, before)
    assert not find_space(store).is_filled


def test_a_filled_space_replaces_the_others(open_store: OpenStore) -> None:
    store = open_store()
    chunk = put(store, "a.md", (1, 0, 0, 0), pack_passages((1, 0, 0, 0)))
    old = find_space(store)
    store.vectors.mark_filled(old.id, store.vectors.spaces()[0].texts)
    new = store.vectors.ensure_space(OTHER).id
    assert [found.space for found in store.vectors.spaces()] == [OTHER, SPACE]
    store.vectors.put(new, [(chunk, Embedding(pack((0, 1, 0, 0))))])
    store.vectors.mark_filled(new, store.vectors.spaces()[0].texts)
    assert [found.space for found in store.vectors.spaces()] == [OTHER]
    assert store.vectors.ensure_space(SPACE).id == old.id
    assert (find_space(store).is_filled, find_space(store).was_filled, store.chunks.count(old.id)) == (False, False, 0)


def test_embeddings_are_remembered_by_text_and_space(open_store: OpenStore) -> None:
    store = open_store()
    one, two = store.vectors.ensure_space(SPACE).id, store.vectors.ensure_space(OTHER).id
    store.cache.put(one, {b"a": Embedding(b"1", b"w"), b"b": Embedding(b"2")}, (), None)
    store.cache.put(two, {b"a": Embedding(b"3")}, (), None)
    assert store.cache.get(one, [b"a", b"c"]) == {b"a": Embedding(b"1", b"w")}
    assert store.cache.get(two, [b"a", b"b"]) == {b"a": Embedding(b"3")}
    assert (store.admin.content_sizes().cached, store.admin.content_sizes().cache) == (3, 4)


def test_the_longest_unused_embedding_goes_first(open_store: OpenStore) -> None:
    store = open_store()
    space = store.vectors.ensure_space(SPACE).id
    for name in (b"a", b"b", b"c"):
        store.cache.put(space, {name: Embedding(name)}, (), 3)
    store.cache.put(space, {}, [b"a"], 3)
    store.cache.put(space, {b"d": Embedding(b"d")}, (), 3)
    assert store.cache.get(space, [b"a", b"b", b"c", b"d"]).keys() == {b"a", b"c", b"d"}
    assert store.admin.content_sizes().cached == 3


def test_spaces_of_a_provider_can_be_kept_when_another_is_filled(open_store: OpenStore) -> None:
    store = open_store()
    elsewhere = SPACE._replace(provider="elsewhere", fingerprint="f3")
    for space in (SPACE, elsewhere, OTHER):
        store.vectors.ensure_space(space)
    store.vectors.mark_filled(find_space(store, OTHER).id, store.vectors.spaces()[0].texts, keep="elsewhere")
    assert [found.space for found in store.vectors.spaces()] == [OTHER, elsewhere]


def test_the_mean_cosine_is_that_of_all_chunks(open_vectors: OpenStore) -> None:
    store = open_vectors()
    query = pack((1, 0, 0, 0))
    store.vectors.ensure_space(SPACE)
    assert store.vectors.mean_cosine(find_space(store), query) == (0.0, 0)
    for name, vector in {"a": (1, 0, 0, 0), "b": (0, 1, 0, 0), "c": (0.5, 0.5, 0.5, 0.5)}.items():
        put(store, name, vector)
    mean, count = store.vectors.mean_cosine(find_space(store), query)
    assert mean == pytest.approx(0.5)
    assert count == 3


def test_jobs_are_recorded_until_they_are_dropped(open_store: OpenStore) -> None:
    store = open_store()
    first = Job("one", "f1", "file", "", 2.0, (b"a" * 32, b"b" * 32))
    later = Job("two", "f1", "file", "id", 3.0, (b"c" * 32,))
    for job in (later, first, Job("three", "f2", "file", "id", 1.0, ())):
        store.cache.put_job(job.tag, job)
    confirmed = first._replace(id="known")
    store.cache.put_job(confirmed.tag, confirmed)
    other = open_store()
    assert other.cache.jobs("f1") == [confirmed, later]
    store.cache.put_job("one", None)
    store.cache.put_job("one", None)
    assert (other.cache.jobs("f1"), len(other.cache.jobs("f2"))) == ([later], 1)
