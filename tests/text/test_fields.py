"""Front matter, tags and links of notes."""

import pytest

from mdrecall.text.annotations import pack_values, unpack_fields
from mdrecall.text.notes import LinkTable, NoteLink, read_fields
from mdrecall.types.documents import NO_FIELDS, Fields, Link

FRONT_MATTER = [
    ("---\ntitle: Trip to Porto\n---\nx", Fields(title="Trip to Porto")),
    ('---\ntitle: "Trip: to Porto" \n---\n', Fields(title="Trip: to Porto")),
    ("---\ntags: [work, 'a b', \"c\"]\n---\n", Fields(tags=("work", "a", "b", "c"))),
    ("---\ntags: work, travel\n---\n", Fields(tags=("work", "travel"))),
    ("---\ntags:\n  - work\n  - '#travel/europe'\n---\n", Fields(tags=("work", "travel/europe"))),
    ("---\ntag: one\naliases:\n- Ana\n- Ana M.\n---\n", Fields(tags=("one",), aliases=("Ana", "Ana M."))),
    ("---\nalias: 安娜\ntags: [工作]\n---\n", Fields(tags=("工作",), aliases=("安娜",))),
    ("---\ntags: [] # none\ntitle:\n---\n", NO_FIELDS),
    ("---\ntitle: a # comment\n# a comment\n\nmore: |\n  block #no\n  tags: x\n---\n", Fields(title="a")),
    ("---\nTitle: A\nTAGS: [x]\n---\n", Fields(title="A", tags=("x",))),
    ("---\ntitle: never closed\n", NO_FIELDS),
    ("---\nthis is no yaml\ntitle: a\n---\n", NO_FIELDS),
    ("--- title: a\n---\n", NO_FIELDS),
    ("text\n---\ntitle: a\n---\n", NO_FIELDS),
    ("---\n- a\n- list\n---\n", NO_FIELDS),
    ("---\n: \n---\n", NO_FIELDS),
    (
        "---\ntitle: 'Ana''s trip: a long\n  way to Porto'\ntags: [a,\n  b]\n---\n",
        Fields(title="Ana's trip: a long way to Porto", tags=("a", "b")),
    ),
    ("---\nby:\n  name: Ana\ntitle: Trip\n  to Porto\n---\n", Fields(title="Trip to Porto")),
    ("---\r\ntitle: windows\r\n---\r\n", Fields(title="windows")),
    ("---\ntitle: a\nno key\n---\n", NO_FIELDS),
    ("---\n  indented\ntitle: a\n---\n", NO_FIELDS),
    ("---\ntitle: '\n---\n", Fields(title="'")),
    ('---\ntitle: \'a\' # b\naliases: ["a\\"b", ~]\nalias: ~\n---\n', Fields(title="a", aliases=('a"b', "~"))),
]


@pytest.mark.parametrize(("text", "fields"), FRONT_MATTER)
def test_front_matter_is_read_as_fields_and_else_is_text(text: str, fields: Fields) -> None:
    assert read_fields(text) == fields


TAGS = [
    ("about #work and #travel/europe.", ("work", "travel/europe")),
    ("#at-the-start, (#not) x#not https://a.b/#not [a](#not)", ("at-the-start",)),
    ("# Heading\n## Another\n#tag", ("tag",)),
    ("issue #123 but #2026-plan", ("2026-plan",)),
    ("`#code` and ``#more `code` `` here #real", ("real",)),
    ("```\n#code\n```\n#real", ("real",)),
    ("#工作，#旅行/日本。 #हिन्दी #café #Ελλάδα", ("工作", "हिन्दी", "café", "Ελλάδα")),
    ("#a #b #a", ("a", "b")),
    ("## #in-heading", ("in-heading",)),
    ("---\ntags: [x]\n# no tag\n---\n#y", ("x", "y")),
    ("#-- #/ #_", ()),
    ("`code`#glued", ("glued",)),
    ("---\ntitle: a\n---\n#first", ("first",)),
    ("```\n#code\n```\n\n# Heading #real\n", ("real",)),
    (" ".join(f"#t{number}" for number in range(501)), tuple(f"t{number}" for number in range(500))),
]


@pytest.mark.parametrize(("text", "tags"), TAGS)
def test_tags_of_any_script_are_found_outside_of_code_and_headings(text: str, tags: tuple[str, ...]) -> None:
    assert read_fields(text).tags == tags


def test_links_are_found_with_their_lines_outside_of_code() -> None:
    text = (
        "See [[Ana]] and ![[people/Bob#Work|Bobby]].\n`[[code]]`\n```\n[[code]]\n```\n"
        '[a](other%20note.md#x) [b](https://a.b/c.md) [c](<d.md> "title") [[]] [[Last]]\n'
    )
    assert read_fields(text).links == (
        Link(1, "Ana"),
        Link(1, "people/Bob#Work|Bobby"),
        Link(6, "other note.md#x"),
        Link(6, "d.md"),
        Link(6, "Last"),
    )


def test_fields_come_back_as_they_were_stored_and_are_bounded() -> None:
    fields = Fields("t", ("a",), ("b", "ü"), (Link(3, "x#y|z"),))
    assert unpack_fields(pack_values(fields)) == fields
    assert (pack_values(NO_FIELDS), unpack_fields("")) == ("", NO_FIELDS)
    assert unpack_fields('{"mood":1,"tags":["a"]}') == Fields(tags=("a",))
    many = read_fields(" ".join(f"#t{number}" for number in range(5000)) + "\n" + "[[x]]\n" * 9000)
    assert (len(many.tags), len(many.links)) == (500, 2000)
    assert len(read_fields("#" + "x" * 10_000).tags[0]) == 200


def test_strange_text_is_read_in_reasonable_time() -> None:
    for text in ("`" * 100_000, "[[" * 50_000, "[a](" * 50_000, "#" * 100_000, "---\n" + "a: [" * 50_000 + "\n---\n"):
        read_fields(text)


NOTES = {
    "people/ana.md": Fields(aliases=("Ana Morais",), links=(Link(2, "porto"), Link(4, "Nowhere#x|there"))),
    "places/porto.md": Fields(title="The city of Porto", links=(Link(1, "Ana Morais|her"), Link(9, "#Food"))),
    "work/porto.md": Fields(links=(Link(3, "../people/ana.md"), Link(5, "places/porto#Food"))),
    **dict.fromkeys(("work/raj-patel.md", "work/raj_von_patel.md", "work/raj von patel.md"), Fields()),
    "work/plan.md": Fields(links=(Link(1, "porto"), Link(2, "PEOPLE/Ana"), Link(3, "the city of porto"))),
}


def test_links_are_resolved_by_path_name_alias_and_title_the_nearest_first() -> None:
    table = LinkTable(NOTES.items())
    ana = table.links_of("people/ana.md")
    assert ana.links == (
        NoteLink("people/ana.md", 2, "places/porto.md"),
        NoteLink("people/ana.md", 4, "Nowhere", "x", "there", is_broken=True),
    )
    assert [(link.path, link.line, link.alias) for link in ana.backlinks] == [
        ("places/porto.md", 1, "her"),
        ("work/plan.md", 2, ""),
        ("work/porto.md", 3, ""),
    ]
    assert table.links_of("places/porto.md").links[1] == NoteLink("places/porto.md", 9, "places/porto.md", "Food")
    assert [link.target for link in table.links_of("work/plan.md").links] == [
        "work/porto.md", "people/ana.md", "places/porto.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("people/ana.md", "people/ana.md"),
        ("people/ana", "people/ana.md"),
        ("ANA", "people/ana.md"),
        ("ana morais", "people/ana.md"),
        ("porto", "places/porto.md"),
        ("Raj Patel", "work/raj-patel.md"),
        ("Raj von Patel", "work/raj von patel.md"),
        ("raj_von_patel", "work/raj_von_patel.md"),
        ("nobody", None),
        ("", None),
    ],
)
def test_a_note_is_found_by_what_people_call_it(name: str, path: str | None) -> None:
    assert LinkTable(NOTES.items()).find(name) == path
