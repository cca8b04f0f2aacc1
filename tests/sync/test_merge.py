"""The merge of trees: what it promises for any text."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from mdrecall.sync.merge import find_renames, join_note, merge_trees, merge_unfinished, split_note
from mdrecall.text.annotations import find_versions
from tests.conftest import examples

PIECES: tuple[Callable[[int], str], ...] = (
    lambda n: f"# Title {n}",
    lambda n: f"## Part {n % 3}",
    lambda n: f"- item {n}",
    lambda n: f"- item {n}\n  more of it\n\n  and a paragraph\n  - nested {n}",
    lambda n: f"  - indented {n}",
    lambda n: f"- [ ] task {n}\n<!-- by claude -->",
    lambda n: f"{n}. numbered",
    lambda n: f"A paragraph {n}.\nWith a second line.",
    lambda n: f"A paragraph {n}.\n<!-- superseded by: x -->",
    lambda n: f"```sh\n# no heading {n}\n\n- no item\n```",
    lambda n: f"~~~\nopen {n}",
    lambda n: f"- item {n}\n  ```\n# code\n  ```",
    lambda n: f"| a | b |\n| --- | --- |\n| {n} | 2 |",
    lambda n: f"<!-- a comment of its own {n} -->",
    lambda n: f"    indented code {n}",
    lambda n: f"> quoted {n}\n> twice",
    lambda n: f"Setext {n}\n======",
    lambda n: "- the same",
    lambda n: "***",
)


def make_note(draw: random.Random, numbers: list[int]) -> list[str]:
    return [PIECES[number % len(PIECES)](number) for number in numbers]


def write_note(draw: random.Random, pieces: list[str]) -> bytes:
    """Return pieces as a note, with blank lines where Markdown needs them, and here and there."""
    parts: list[str] = []
    for piece in pieces:
        closed = piece + "\n~~~" if piece.startswith("~~~") and piece is not pieces[-1] else piece
        is_tight = parts and piece.startswith("- ") and parts[-1].startswith("- ") and "\n" not in parts[-1].strip("\n")
        parts += ["" if is_tight and draw.random() < 0.7 else "\n" if parts else "", closed + "\n"]
    return "".join(parts).encode()


def edit(draw: random.Random, pieces: list[str]) -> list[str]:
    """Return pieces after some additions, deletions and edits."""
    pieces = list(pieces)
    for _ in range(draw.randint(0, 4)):
        place = draw.randint(0, len(pieces))
        if draw.random() < 0.6 or not pieces:
            pieces.insert(place, PIECES[draw.randrange(len(PIECES))](draw.randint(100, 10_000)))
        elif draw.random() < 0.5:
            del pieces[place % len(pieces)]
        else:
            pieces[place % len(pieces)] += f" edited {draw.randint(0, 999)}"
    return pieces


def keys_of(data: bytes) -> list[str]:
    return [entry.key for entry in split_note(data).body]


def draw_triples(count: int) -> list[tuple[int, bytes, bytes, bytes]]:
    found = []
    for seed in range(count):
        draw = random.Random(seed)
        base = [PIECES[draw.randrange(len(PIECES))](draw.randint(0, 99)) for _ in range(draw.randint(0, 8))]
        notes = (write_note(draw, pieces) for pieces in (base, edit(draw, base), edit(draw, base)))
        found.append((seed, *notes))
    return found  # type: ignore[return-value]


def test_any_merge_keeps_what_it_promises() -> None:
    for seed, base, ours, theirs in draw_triples(examples(1500)):
        for data in (base, ours, theirs):
            note = split_note(data)
            assert note.style
            assert join_note(note.front, note.body, note.style) == data, seed
        trees = [{"n.md": data} for data in (base, ours, theirs)]
        merged = merge_trees(*trees)
        assert merged == merge_trees(trees[0], trees[2], trees[1]), seed
        assert merge_trees(trees[0], trees[1], trees[0]) == trees[1]
        assert merge_trees(trees[0], trees[0], trees[2]) == trees[2]
        assert merge_trees(trees[0], trees[1], trees[1]) == trees[1]
        assert merge_trees(merged, merged, trees[0]) == trees[0]
        found = Counter(keys_of(merged.get("n.md", b"")))
        known, mine, yours = (Counter(keys_of(data)) for data in (base, ours, theirs))
        for key in known | mine | yours | found:
            counts = known[key], mine[key], yours[key]
            # Headings of one text below different headings are different headings.
            if not key.startswith("#"):
                both = max(counts[1:]) if min(counts[1:]) > known[key] else min(counts[1:])
                one_sided = counts[1] + counts[2] - counts[0]
                wanted = both if (counts[1] - counts[0]) * (counts[2] - counts[0]) > 0 else one_sided
                assert found[key] == wanted, (seed, key)
            assert found[key] or not (mine[key] > known[key] or yours[key] > known[key]), (seed, key)


def merge(base: str, ours: str, theirs: str) -> str:
    trees = [{"n.md": text.encode()} for text in (base, ours, theirs)]
    return merge_trees(*trees)["n.md"].decode()


def test_both_append() -> None:
    merged = merge("# Day\n\n- one\n", "# Day\n\n- one\n- two\n", "# Day\n\n- one\n- three\n")
    assert merged in ("# Day\n\n- one\n- two\n- three\n", "# Day\n\n- one\n- three\n- two\n")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "versions"),
    [
        ("- port 80\n", "- port 81\n", "- port 82\n", {"- port 81", "- port 82"}),
        ("- a 0\n- b\n", "- n\n- a 1\n- b\n", "- a 2\n- b\n", {"- a 1", "- a 2"}),
        ("- my tea\n", "- new\n- my red tea\n", "- my tea, green\n", {"- my red tea", "- my tea, green"}),
        ("One\ntwo\n", "One\nthree\n", "One\nfour\n<!-- by claude -->\n", {"three", "four"}),
        ("- a\n", "- a\n  b\n", "- a\n  b\n  c\n", {"  b", "  c"}),
        ("- x\n- y\n", "- p\n- q\n", "- r\n- s\n", {"- p", "- q", "- r", "- s"}),
        ("- a\n", "- a\n- b\n", "- a\n- c\n", set()),
        ("- a\n", "- b\n- c\n", "- c\n", set()),
        ("- a\n- b\n", "- a1\n- b\n", "- a\n- b1\n", set()),
        ("- a\n", "- b\n", "- b\n", set()),
        ("- a\n", "- b\n", "", set()),
        ("- a\n", "- b\n", "Text.\n", set()),
        ("---\nday: 1\n---\n- a\n", "---\nday: 2\n---\n- a\n", "---\nday: 3\n---\n- a\n", set()),
    ],
)
def test_an_edit_on_both_sides_keeps_both_versions_and_says_so(
    base: str, ours: str, theirs: str, versions: set[str]
) -> None:
    lines = merge(base, ours, theirs).splitlines()
    assert merge(base, theirs, ours).splitlines() == lines
    pairs = [*find_versions(lines)]
    assert {lines[number - 1] for pair in pairs for number in pair} == versions
    assert versions <= {*lines} - {*base.splitlines()}
    for line in versions:
        # Whoever changes one of the two has decided.
        assert len([*find_versions([each for each in lines if each != line])]) < len(pairs)


def test_an_edit_stays_though_the_other_side_deleted_the_entry() -> None:
    assert merge("- a\n- port 80\n", "- a\n- port 81\n", "- a\n") == "- a\n- port 81\n"


def test_a_comment_that_moves_to_the_line_above_is_not_an_edit_of_that_line() -> None:
    base = "- a\n- b\n<!-- by claude -->\n"
    left = "- a\n<!-- by claude -->\n"
    assert merge(base, left, "- b\n<!-- by claude -->\n") == ""
    assert merge(base, left, "- a2\n- b\n<!-- by claude -->\n") == "- a2\n"
    assert merge(base, left, base + "- c\n") == left + "- c\n"


def test_who_wrote_a_line_is_known_if_one_side_says_so() -> None:
    for ours, theirs in (("- a\n<!-- by claude -->\n", "- a\n"), ("- a\n<!-- by x -->\n", "- a\n<!-- by claude -->\n")):
        for sides in ((ours, theirs), (theirs, ours)):
            assert merge(theirs, *sides) == ours


def test_equal_headings_below_different_digests_stay_with_their_digest() -> None:
    base = "# Day\n"
    ours = base + "\n## Red\n\n### Decisions\n\n- red one\n"
    theirs = base + "\n## Blue\n\n### Decisions\n\n- blue one\n"
    merged = merge(base, ours, theirs)
    assert "## Red\n\n### Decisions\n\n- red one\n" in merged
    assert "## Blue\n\n### Decisions\n\n- blue one\n" in merged


def test_the_same_heading_added_on_both_sides_stays_once() -> None:
    merged = merge("# Day\n", "# Day\n\n## Notes\n\n- one\n", "# Day\n\n## Notes\n\n- two\n")
    assert merged.count("## Notes") == 1
    assert {"- one", "- two"} <= {*merged.splitlines()}


def test_a_heading_that_two_sides_moved_to_one_note_stays_once() -> None:
    """Both renamed a note, and one of them has a title above what was in it."""
    moved, below = "## Digest\n\n### Decisions\n\n- one\n", "# Topic\n\nA paragraph.\n\n"
    assert merge("", moved, below + moved) == merge("", below + moved, moved) == below + moved


def test_an_edited_heading_keeps_what_the_other_side_added_below() -> None:
    base = "# Old\n\n## Part\n\n- one\n"
    merged = merge(base, "# New\n\n## Part\n\n- one\n", base + "- two\n")
    assert merged == "# New\n\n## Part\n\n- one\n- two\n"


def test_front_matter_is_merged_field_by_field_and_no_value_is_lost() -> None:
    base = "---\ntags: [a]\nowner: ana\n---\nText.\n"
    merged = merge(base, base.replace("[a]", "[b]"), base.replace("owner: ana", "owner: bo\nday: 1"))
    assert merged == "---\ntags: [b]\nowner: bo\nday: 1\n---\nText.\n"
    both = merge(base, base.replace("[a]", "[b]"), base.replace("[a]", "[c]"))
    assert sorted(both.splitlines()[1:3]) in (["# tags: [b]", "tags: [c]"], ["# tags: [c]", "tags: [b]"])


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_line_ends_and_a_byte_order_mark_stay(mark: bytes, end: bytes) -> None:
    base, ours, theirs = (
        mark + end.join(lines) for lines in ([b"- a", b""], [b"- a", b"- b", b""], [b"- 0", b"- a", b""])
    )
    assert merge_trees({"n.md": base}, {"n.md": ours}, {"n.md": theirs}) == {
        "n.md": mark + end.join([b"- 0", b"- a", b"- b", b""])
    }


def test_a_note_without_a_final_line_end_keeps_its_lines_apart() -> None:
    assert sorted(merge("- a", "- a\n- b", "- a\n- c").splitlines()) == ["- a", "- b", "- c"]


def test_bytes_that_are_not_text_survive() -> None:
    base, ours, theirs = b"- a\n", b"- a\n- \xff\xfe caf\xe9\n", b"- a\n- b\n"
    merged = merge_trees({"n.md": base}, {"n.md": ours}, {"n.md": theirs})["n.md"]
    assert sorted(merged.split(b"\n")) == sorted([b"- a", b"- \xff\xfe caf\xe9", b"- b", b""])


def test_utf_16_is_merged_as_text() -> None:
    notes = [{"n.md": text.encode("utf-16")} for text in ("- a\n", "- a\n- ü\n", "- 0\n- a\n")]
    assert merge_trees(*notes)["n.md"].decode("utf-16") == "- 0\n- a\n- ü\n"


def test_a_large_note_is_merged_whole() -> None:
    lines = [f"- line {number} of a note of a megabyte {'with much to say ' * 30}\n" for number in range(2_000)]
    base = "".join(lines).encode()
    merged = merge_trees({"n.md": base}, {"n.md": base + b"- ours\n"}, {"n.md": b"- theirs\n" + base})
    assert merged == {"n.md": b"- theirs\n" + base + b"- ours\n"}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        # What is added follows a renamed note; one that both renamed gets the smaller name.
        ({"a": "one two"}, {"b": "one two"}, {"a": "one two three"}, {"b": "one two three"}),
        ({"a": "one two"}, {"c": "one two 3"}, {"b": "0 one two"}, {"b": "0 one two 3"}),
        # What one side moved and the other deleted is deleted.
        ({"a": "one two", "b": "x"}, {"a": "one", "b": "x two"}, {"a": "one", "b": "x"}, {"a": "one", "b": "x"}),
        # A deleted note stays deleted but for what was added to it.
        ({"a": "one two"}, {}, {"a": "one two"}, {}),
        ({"a": "one two"}, {}, {"a": "one two new"}, {"a": "new"}),
    ],
)
def test_notes_that_are_renamed_moved_and_deleted(
    base: dict[str, str], ours: dict[str, str], theirs: dict[str, str], merged: dict[str, str]
) -> None:
    trees = ({f"{name}.md": list_items(text) for name, text in tree.items()} for tree in (base, ours, theirs, merged))
    one, mine, yours, wanted = trees
    assert merge_trees(one, mine, yours) == merge_trees(one, yours, mine) == wanted


def list_items(text: str) -> bytes:
    return "".join(f"- {word}\n" for word in text.split()).encode()


def test_a_note_that_was_renamed_when_its_sync_was_killed_keeps_what_was_edited_since() -> None:
    before, target = {"a.md": b"- one\n- two\n"}, {"b.md": b"- one\n- two\n- 3\n"}
    assert find_renames(before, target) == {"a.md": "b.md"}
    renamed, new, both = {"a.md": "b.md"}, {"a.md": b"- new\n"}, ["a.md", "b.md"]
    # The note has its new name, and either its old or its new content. Somebody may have made one by its old name.
    for above in ({}, new):
        after: dict[str, bytes] = {**above, "b.md": b"- one\n- 3\n"}
        assert merge_unfinished(both[:1], renamed, before, {**above, "b.md": b"- one\n"}, target) == after
        assert merge_unfinished(both, renamed, before, after, target) == after
        assert merge_unfinished(both, renamed, before, {**above, **target}, target) == {**above, **target}
    assert merge_unfinished([], renamed, before, {"b.md": b"- one\n"}, target) == {"b.md": b"- one\n- 3\n"}


def test_a_note_that_was_not_removed_yet_is_not_a_new_one_though_an_agent_has_edited_it() -> None:
    before, target = {"a.md": b"- one\n- two\n"}, {"b.md": b"- one\n- two\n- 3\n"}
    assert merge_unfinished(["b.md"], {}, before, {"a.md": b"- one\n"} | target, target) == {"b.md": b"- one\n- 3\n"}


def test_what_both_moved_stays_once() -> None:
    base = {"a.md": b"- one\n- two\n", "b.md": b"- x\n", "c.md": b"- y\n"}
    ours = {"a.md": b"- one\n", "b.md": b"- x\n- two\n", "c.md": b"- y\n"}
    theirs = {"a.md": b"- one\n", "b.md": b"- x\n", "c.md": b"- y\n- two\n"}
    merged = merge_trees(base, ours, theirs)
    assert b"".join(merged.values()).count(b"- two") == 1


def test_equal_notes_of_two_folders_without_a_base_are_there_once() -> None:
    ours = {"MEMORY.md": b"# Facts\n\n- tea\n- blue\n", "a.md": b"- x\n"}
    theirs = {"MEMORY.md": b"# Facts\n\n- tea\n- red\n", "b.md": b"- y\n"}
    merged = merge_trees({}, ours, theirs)
    assert sorted(merged) == ["MEMORY.md", "a.md", "b.md"]
    assert sorted(merged["MEMORY.md"].splitlines()) == sorted([b"# Facts", b"", b"- tea", b"- blue", b"- red"])


def test_lines_of_what_was_forgotten_are_never_lost() -> None:
    path = ".mdrecall/forgotten/0.jsonl"
    merged = merge_trees({path: b"0\n1\n"}, {path: b"0\n1\n2\n"}, {path: b"0\n3\n"})
    assert sorted(merged[path].splitlines()) == [b"0", b"1", b"2", b"3"]
    assert merged[path].startswith(b"0\n")
    assert merge_trees({path: b"0\n"}, {path: b"0\n"}, {}) == {path: b"0\n"}
