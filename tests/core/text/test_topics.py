"""What notes are about: by their folders, tags, headings, links and names."""

from mdrecall.core.text.notes import NoteNames, find_topics, note_title
from mdrecall.types import Fields, Link


def note(
    path: str, *headings: str, title: str = "", tags: tuple[str, ...] = (), links: tuple[str, ...] = ()
) -> NoteNames:
    fields = Fields(title, tags, (), tuple(Link(1, target) for target in links))
    return path, fields, headings


def found(*notes: NoteNames, kind: str) -> dict[str, tuple[str, ...]]:
    return {topic.name: topic.paths for topic in find_topics(notes) if topic.kind == kind}


def test_a_person_has_a_note_in_a_folder_of_people_and_is_found_by_links_headings_and_file_names() -> None:
    notes = (
        note("memory/people/ada-lovelace.md"),
        note("memory/2026-02-10.md", "Tuesday", links=("people/ada-lovelace.md#Work|her",)),
        note("memory/2026-02-11.md", "Ada Lovelace"),
        note("memory/2026-02-12-ada-lovelace.md"),
        note("memory/2026-02-13.md", "Bob"),
    )
    paths = ("memory/people/ada-lovelace.md", *(f"memory/2026-02-{day}.md" for day in (10, 11)))
    assert found(*notes, kind="person") == {"Ada Lovelace": (*paths, "memory/2026-02-12-ada-lovelace.md")}


def test_a_tag_in_the_singular_makes_a_project_and_one_in_the_plural_does_not() -> None:
    notes = note("heron.md", title="Heron", tags=("project",)), note("MEMORY.md", tags=("projects", "people"))
    assert found(*notes, kind="project") == {"Heron": ("heron.md",)}
    assert found(*notes, kind="person") == {}


def test_aliases_count_as_names() -> None:
    ada = "people/ada.md", Fields(aliases=("The Countess",)), ()
    assert found(ada, note("x.md", links=("the countess",)), kind="person") == {"ada": ("people/ada.md", "x.md")}


def test_tags_are_counted_once_a_note_in_any_case_the_commonest_first() -> None:
    notes = note("a.md", tags=("Idea", "idea", "home")), note("b.md", tags=("idea",))
    assert list(found(*notes, kind="tag").items()) == [("Idea", ("a.md", "b.md")), ("home", ("a.md",))]


def test_a_heading_or_link_of_several_notes_is_a_name_and_a_day_is_none() -> None:
    notes = [note(f"memory/2026-02-1{day}.md", "2026-02-10", "Retro", "Once") for day in (0,)]
    notes += [note("b.md", "Retro", "2026-02-10"), note("c.md", links=("retro",))]
    assert list(found(*notes, kind="name").values()) == [("memory/2026-02-10.md", "b.md", "c.md")]


def test_lists_are_bounded() -> None:
    notes = [note(f"{number}.md", tags=(f"t{number}",)) for number in range(500)]
    assert len(find_topics(notes)) == 40


def test_the_title_of_a_note_is_its_own_else_its_heading_else_its_name() -> None:
    assert note_title(note("a/b.md", "Head", title="Own")) == "Own"
    assert note_title(note("a/b.md", "Head")) == "Head"
    assert note_title(note("a/b.md")) == "b"
