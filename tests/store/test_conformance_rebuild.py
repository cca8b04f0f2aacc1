"""A rebuilt index replaces the old one while others use it, in every store."""

import threading

from mdrecall.interfaces import Store
from mdrecall.types.documents import Embedding, Job
from tests.store.stores import OTHER, SPACE, OpenStore, chunk_ids, found_in, indexed, rebuild

#: A word that every document has in its title.
ALL = "md"
VECTOR = b"\0\0\x80?" + bytes(12)


def test_an_open_reader_sees_the_old_index_to_its_end_and_then_the_new_one(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    store.documents.put([indexed("a.md", "walrus"), indexed("b.md", "walrus")], "r")
    looked, rebuilt = threading.Barrier(3), threading.Barrier(3)
    seen: list[tuple[set[str], int]] = []

    def read(reader: Store) -> None:
        with reader.chunks.snapshot():
            seen.append((found_in(reader, "walrus"), reader.chunks.count()))
            looked.wait(20)
            rebuilt.wait(20)
            seen.append((found_in(reader, "walrus"), reader.chunks.count()))
        seen.append((found_in(reader, "walrus"), reader.chunks.count()))

    threads = [threading.Thread(target=read, args=(reader,)) for reader in (store, other)]
    for thread in threads:
        thread.start()
    looked.wait(20)
    rebuild(store, c="walrus", d="seal", e="whale")
    rebuilt.wait(20)
    for thread in threads:
        thread.join()
    old, new = ({"a.md", "b.md"}, 2), ({"c.md"}, 3)
    assert sorted(seen, key=lambda entry: entry[1]) == [old] * 4 + [new] * 2


def test_readers_see_one_whole_index_or_the_other(open_store: OpenStore) -> None:
    store = open_store()
    versions = [{f"{name}{number}.md" for number in range(20)} for name in "abcdef"]

    def notes(version: int) -> dict[str, str]:
        return {path.removesuffix(".md"): "walrus" for path in versions[version]}

    rebuild(store, **notes(0))
    over = threading.Event()
    wrong: list[set[str]] = []

    def read(reader: Store) -> None:
        while not over.is_set():
            with reader.chunks.snapshot():
                found = found_in(reader, "walrus")
            if found not in versions:
                wrong.append(found)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in (store, open_store(), open_store())]
    for thread in threads:
        thread.start()
    for version in range(1, len(versions)):
        rebuild(store, **notes(version))
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert found_in(store, "walrus") == versions[-1]


def test_kept_embeddings_survive(open_store: OpenStore) -> None:
    store = open_store()
    first, second = store.vectors.ensure_space(SPACE).id, store.vectors.ensure_space(OTHER).id
    store.cache.put(first, {b"a": Embedding(b"1", b"w"), b"b": Embedding(b"2")}, (), None)
    store.cache.put(second, {b"a": Embedding(b"3")}, (), None)
    with store.rebuild() as (_, publish):
        store.cache.put(second, {b"late": Embedding(b"4")}, (), None)
        publish()
    assert store.cache.get(first, [b"a", b"b"]) == {b"a": Embedding(b"1", b"w"), b"b": Embedding(b"2")}
    assert store.cache.get(second, [b"a", b"late"]) == {b"a": Embedding(b"3"), b"late": Embedding(b"4")}
    assert store.admin.content_sizes().cached == 4


def test_the_longest_unused_embedding_still_goes_first_after_a_rebuild(open_store: OpenStore) -> None:
    store = open_store()
    space = store.vectors.ensure_space(SPACE).id
    for name in (b"d", b"c", b"b"):
        store.cache.put(space, {name: Embedding(name)}, (), 3)
    rebuild(store)
    store.cache.put(space, {b"a": Embedding(b"a")}, (), 3)
    assert store.cache.get(space, [b"a", b"b", b"c", b"d"]).keys() == {b"a", b"b", b"c"}


def test_spaces_keep_their_numbers(open_store: OpenStore) -> None:
    store = open_store()
    old, new = store.vectors.ensure_space(OTHER).id, store.vectors.ensure_space(SPACE).id
    store.vectors.mark_filled(new, store.vectors.spaces()[0].texts)
    with store.rebuild() as (fresh, publish):
        assert fresh.vectors.spaces() == []
        assert fresh.vectors.ensure_space(SPACE).id == new
        assert fresh.vectors.ensure_space(OTHER).id == old
        fresh.vectors.mark_filled(new, fresh.vectors.spaces()[0].texts)
        publish()
    (space,) = store.vectors.spaces()
    assert (space.id, space.space, space.is_filled, space.was_filled) == (new, SPACE, True, True)
    assert store.vectors.ensure_space(OTHER).id == old


def test_numbers_of_chunks_are_never_given_again(open_store: OpenStore) -> None:
    store = open_store()
    store.documents.put([indexed("a.md", "walrus"), indexed("b.md", "penguin")], "r")
    given = [set(chunk_ids(store, ALL))]
    for _ in range(2):
        with store.rebuild() as (fresh, publish):
            store.documents.put([indexed("late.md", "while the other one is built")], "r")
            given.append(set(chunk_ids(store, ALL)) - set().union(*given))
            fresh.documents.put([indexed("a.md", "walrus"), indexed("c.md", "whale")], "r")
            publish()
        given.append(set(chunk_ids(store, ALL)))
        store.documents.put([indexed("d.md", "afterwards")], "r")
        given.append(set(chunk_ids(store, ALL)) - given[-1])
    assert [len(numbers) for numbers in given] == [2, 1, 2, 1, 1, 2, 1]
    assert len(set().union(*given)) == 10


def test_nobody_who_filled_the_old_index_can_call_the_new_one_filled(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    space = store.vectors.ensure_space(SPACE).id
    for number in range(5):
        store.documents.put([indexed(f"{number}.md", "walrus")], "r")
    texts, chunks = store.vectors.spaces()[0].texts, chunk_ids(store, "walrus")
    with other.rebuild() as (fresh, publish):
        fresh.vectors.ensure_space(SPACE)
        fresh.documents.put([indexed("a.md", "seal")], "r")
        publish()
    store.vectors.put(space, [(number, Embedding(VECTOR)) for number in chunks])
    store.vectors.mark_filled(space, texts)
    (found,) = store.vectors.spaces()
    assert (found.id, found.is_filled, store.chunks.count(space)) == (space, False, 0)
    ((chunk, *_),) = store.vectors.pending(space, 0, 10)
    store.vectors.put(space, [(chunk, Embedding(VECTOR))])
    store.vectors.mark_filled(space, store.vectors.spaces()[0].texts)
    assert store.vectors.spaces()[0].is_filled


def test_a_filled_index_is_filled_when_it_is_published(open_store: OpenStore) -> None:
    store = open_store()
    for number in range(5):
        store.documents.put([indexed(f"{number}.md", "walrus")], "r")
    store.vectors.ensure_space(SPACE)
    with store.rebuild() as (fresh, publish):
        space = fresh.vectors.ensure_space(SPACE).id
        fresh.documents.put([indexed("a.md", "seal")], "r")
        ((chunk, *_),) = fresh.vectors.pending(space, 0, 10)
        fresh.vectors.put(space, [(chunk, Embedding(VECTOR))])
        fresh.vectors.mark_filled(space, fresh.vectors.spaces()[0].texts)
        publish()
    assert store.vectors.spaces()[0].is_filled
    store.documents.put([indexed("b.md", "whale")], "r")
    assert not store.vectors.spaces()[0].is_filled


def test_a_rebuilt_index_is_what_everyone_sees(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    store.documents.put([indexed("a.md", "walrus"), indexed("b.md", "penguin")], "r")
    assert found_in(other, "walrus") == {"a.md"}
    rebuild(store, a="seal", c="whale")
    for reader in (store, other, open_store()):
        assert found_in(reader, "walrus penguin") == set()
        assert found_in(reader, "seal") == {"a.md"}
        assert found_in(reader, "whale") == {"c.md"}
        assert reader.admin.check() == ()


def test_a_rebuild_that_is_not_published_changes_nothing(open_store: OpenStore) -> None:
    store = open_store()
    store.documents.put([indexed("a.md", "walrus")], "r")
    with store.rebuild() as (fresh, _):
        fresh.documents.put([indexed("a.md", "seal")], "r")
        assert found_in(store, "walrus") == {"a.md"}
    assert (found_in(store, "walrus"), found_in(store, "seal")) == ({"a.md"}, set())
    rebuild(store, a="seal")
    assert found_in(store, "seal") == {"a.md"}


def test_jobs_survive_a_rebuild(open_store: OpenStore) -> None:
    store = open_store()
    job = Job("tag", "f1", "file", "id", 1.0, (b"a" * 32,))
    store.cache.put_job(job.tag, job)
    rebuild(store, a="seal")
    assert store.cache.jobs("f1") == [job]


def test_a_recreated_index_is_empty_and_can_be_used(open_store: OpenStore) -> None:
    store = open_store()
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.admin.recreate()
    assert (store.chunks.count(), found_in(store, "walrus")) == (0, set())
    store.documents.put([indexed("b.md", "walrus")], "r")
    assert found_in(open_store(), "walrus") == {"b.md"}


def test_a_destroyed_index_is_gone_and_is_made_again_at_the_next_use(open_store: OpenStore) -> None:
    store = open_store()
    store.documents.put([indexed("a.md", "walrus")], "r")
    store.admin.destroy()
    assert sum(size for _, size in store.admin.sizes()) == 0
    assert open_store().chunks.count() == 0
