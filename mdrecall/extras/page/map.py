"""The map: notes at places by their meaning, and the people, projects, tags and names in them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote

from mdrecall.extras.page.page import Html, Page, Visit, join, tag
from mdrecall.types.note_map import NoteMap, NotePoint, Topic

#: With the lists below, the style and the script, a page stays under 150 KB.
_MAX_BYTES = 80_000
#: What a point takes beside its address and its title.
_POINT_BYTES = 75
#: Longer titles are cut, so that a few do not leave room for fewer points.
_MAX_TITLE_CHARS = 60
#: A list of more is not read.
_LISTED = 20
#: From how many bytes on a note is drawn in the second and the third size: a paragraph, a page, a long note.
_SIZES = (1_000, 4_000)
#: What stands out on the map: its kind, its name and its notes.
Choice: TypeAlias = tuple[str, str, frozenset[str]]
_NOTHING: Choice = ("", "", frozenset())
_KINDS = {"person": "People", "project": "Projects", "tag": "Tags", "name": "Names in links and headings"}
#: The outline of each group around the origin, for a radius of 1: circle, square, diamond, two triangles, cross, ring.
_SHAPES = (
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0",
    "M-.9-.9h1.8v1.8h-1.8z",
    "M0-1.2 1.2 0 0 1.2-1.2 0z",
    "M0-1.15 1.1.85H-1.1z",
    "M0 1.15 1.1-.85H-1.1z",
    "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0M-.5 0a.5.5 0 1 1 1 0a.5.5 0 1 1-1 0",
)
#: How many groups a map can tell apart; the last is for all others.
GROUPS = len(_SHAPES)
_RADII = (6, 8, 11)
_MAP_WIDTH, _MAP_HEIGHT, _MAP_MARGIN = 1000, 640, 20


def show_map(visit: Visit) -> Page:
    """Return the page with the map and the lists."""
    found = visit.memory.note_map()
    groups = _group_folders(found.points)
    choice = _read_choice(visit.query.get("show", ""), found)
    points = _choose_points(visit, found.points, choice)
    body = join(
        tag("h1", "Map"),
        _draw_map(visit, found, points, groups, choice) if points else _explain_empty(visit, found),
        [_list_topics(visit, kind, found.topics, choice) for kind in _KINDS],
    )
    return Page("Map", body, "map")


def _explain_empty(visit: Visit, found: NoteMap) -> Html:
    if not visit.memory.notes():
        return tag("p", "There are no notes yet. Write one, and it appears here.")
    reason = found.reason if found.notes else "The notes are not indexed yet. Load this page again in a moment."
    hint = tag("p", "The page ", tag("a", "State", href=visit.url("state")), " says which embedder is used and why.")
    return tag("div", tag("p", f"There is no map. {reason}", role="status"), hint, class_="panel")


def _draw_map(visit: Visit, found: NoteMap, points: list[NotePoint], groups: Mapping[str, int], choice: Choice) -> Html:
    sizes = {note.path: note.bytes for note in visit.memory.notes()}
    drawn: list[list[Html]] = [[] for _ in range(GROUPS)]
    for point in points:
        group = groups.get(top_folder(point.path), GROUPS - 1)
        shape = f"s{group}{sum(sizes.get(point.path, 0) >= least for least in _SIZES)}"
        title, url = point.title[:_MAX_TITLE_CHARS], visit.url("note", path=point.path)
        drawn[group].append(draw_point(point.x, point.y, shape, title, url, is_chosen=point.path in choice[2]))
    has_chosen = any(point.path in choice[2] for point in points)
    said = "Notes that lie close together are similar in meaning. A larger mark is a longer note."
    caption = "Point at a mark to see its note. With the keyboard, use the arrow keys."
    return join(
        tag("p", f"{said} {_count(found, points)}"),
        _name_choice(visit, choice),
        tag("figure", draw_points(drawn, f"Map of {len(points):,} notes", has_chosen=has_chosen),
            tag("figcaption", caption, class_="quiet", data_label=True), class_="panel"),
        _draw_legend(visit, found.points, groups),
    )  # fmt: skip


def _count(found: NoteMap, points: list[NotePoint]) -> str:
    if len(points) == found.notes:
        return f"All {found.notes:,} notes are drawn."
    return f"{len(points):,} of {found.notes:,} notes are drawn, chosen evenly."


def _name_choice(visit: Visit, choice: Choice) -> Html | None:
    kind, name, paths = choice
    if not kind:
        return None
    link = tag("a", "Show all alike", href=visit.url("map"))
    count = len(paths)
    said = "1 note stands out" if count == 1 else f"{count:,} notes stand out"
    return tag("p", f"{said}: {kind} ", tag("strong", name), ". ", link)


def top_folder(path: str) -> str:
    """Return the folder that a note is coloured by: the first, or the second if the first is ``memory``."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 2 if folders[:1] == ["memory"] else 1])


def _group_folders(points: Iterable[NotePoint]) -> dict[str, int]:
    """Return the folders with most notes, each with its group; the last group is for all others."""
    counts = Counter(top_folder(point.path) for point in points)
    commonest = sorted(counts, key=lambda folder: (-counts[folder], folder))
    return {folder: group for group, folder in enumerate(commonest[: GROUPS - 1])}


def _draw_legend(visit: Visit, points: Iterable[NotePoint], groups: Mapping[str, int]) -> Html:
    counts = Counter(groups.get(top_folder(point.path), GROUPS - 1) for point in points)
    entries = [
        tag("a", draw_mark(group), f"{folder or 'no folder'} ({counts[group]:,})",
            href=visit.url("map", show=f"folder:{folder}"))
        for folder, group in groups.items()
    ]  # fmt: skip
    if counts[GROUPS - 1]:
        entries.append(tag("span", draw_mark(GROUPS - 1), f"other folders ({counts[GROUPS - 1]:,})"))
    return tag("nav", entries, class_="legend", aria_label="Folders")


def _read_choice(show: str, found: NoteMap) -> Choice:
    """Return what stands out: a topic or a folder that the address names."""
    kind, _, name = show.partition(":")
    if kind == "folder":
        paths = frozenset(point.path for point in found.points if top_folder(point.path) == name)
        return (kind, name or "no folder", paths) if paths else _NOTHING
    topic = next((each for each in found.topics if (each.kind, each.name) == (kind, name)), None)
    return (kind, name, frozenset(topic.paths)) if topic else _NOTHING


def _choose_points(visit: Visit, points: tuple[NotePoint, ...], choice: Choice) -> list[NotePoint]:
    """Return as many points as a page can hold, those that stand out first and the others evenly."""
    address = len(visit.url("note", path="x"))
    costs = [
        _POINT_BYTES + address + len(quote(point.path, safe="")) + len(point.title[:_MAX_TITLE_CHARS].encode())
        for point in points
    ]
    room = len(points) * _MAX_BYTES // max(sum(costs), 1)
    if room >= len(points):
        return list(points)
    chosen = _choose_evenly([point for point in points if point.path in choice[2]], room)
    others = [point for point in points if point.path not in choice[2]]
    return chosen + _choose_evenly(others, room - len(chosen))


def _choose_evenly(points: list[NotePoint], most: int) -> list[NotePoint]:
    if len(points) <= most:
        return points
    return [points[number * len(points) // most] for number in range(most)]


def _list_topics(visit: Visit, kind: str, topics: Iterable[Topic], choice: Choice) -> Html | None:
    own = [topic for topic in topics if topic.kind == kind][:_LISTED]
    if not own:
        return None
    entries = (tag("li", _link_topic(visit, topic, is_chosen=(kind, topic.name) == choice[:2])) for topic in own)
    return tag("section", tag("h2", _KINDS[kind]), tag("ul", entries, class_="topics"))


def _link_topic(visit: Visit, topic: Topic, *, is_chosen: bool) -> Html:
    is_tag = topic.kind == "tag"
    url = visit.url("search", tag=topic.name) if is_tag else visit.url("search", q=topic.name)
    count = len(topic.paths)
    label = f"Show {count:,} {'note' if count == 1 else 'notes'} about {topic.name} on the map"
    return join(
        tag("a", f"#{topic.name}" if is_tag else topic.name, href=url),
        " ",
        tag("a", f"{count:,}", href=visit.url("map", show=f"{topic.kind}:{topic.name}"), aria_label=label,
            aria_current="true" if is_chosen else None, class_="count"),
    )  # fmt: skip


def draw_points(groups: Sequence[Sequence[Html]], title: str, *, has_chosen: bool) -> Html:
    """Return points that are links, each group in its colour and shape; chosen ones stand out from the others."""
    shapes = (
        tag("path", id=f"s{group}{size}", d=shape, transform=f"scale({radius})")
        for group, shape in enumerate(_SHAPES)
        for size, radius in enumerate(_RADII)
    )
    return tag(
        "svg",
        tag("defs", shapes),
        (tag("g", points, class_=f"group{group}") for group, points in enumerate(groups)),
        viewBox=f"0 0 {_MAP_WIDTH} {_MAP_HEIGHT}",
        class_="map some" if has_chosen else "map",
        role="group",
        aria_label=title,
        data_arrows="a",
    )


def draw_point(x: float, y: float, shape: str, title: str, url: str, *, is_chosen: bool) -> Html:
    """Return a link at a place, whose numbers are from 0 to 1."""
    across = _MAP_MARGIN + x * (_MAP_WIDTH - 2 * _MAP_MARGIN)
    down = _MAP_MARGIN + y * (_MAP_HEIGHT - 2 * _MAP_MARGIN)
    mark = tag("use", href=f"#{shape}", x=round(across), y=round(down))
    return tag("a", mark, href=url, aria_label=title, class_="on" if is_chosen else None)


def draw_mark(group: int) -> Html:
    """Return the shape of a group, for a legend."""
    shape = tag("path", d=_SHAPES[group])
    return tag("svg", shape, viewBox="-1.3 -1.3 2.6 2.6", class_=f"mark group{group}", aria_hidden="true")
