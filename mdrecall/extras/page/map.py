"""The map: notes at places by their meaning, and their tags."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from mdrecall.extras.page.page import Html, Page, Visit, join, tag
from mdrecall.types.note_map import NoteMap, NotePoint

#: With the lists below, the style and the script, a page stays under 150 KB.
_MAX_BYTES = 80_000
#: What a point takes beside its address and its title.
_POINT_BYTES = 75
#: Longer titles are cut, so that a few do not leave room for fewer points.
_MAX_TITLE_CHARS = 60
#: From how many bytes on a note is drawn in the second and the third size: a paragraph, a page, a long note.
_SIZES = (1_000, 4_000)
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
    """Return the page with the map and the tags."""
    found = visit.memory.note_map()
    groups = _group_folders(found.points)
    points = _choose_points(visit, found.points)
    body = join(
        tag("h1", "Map"),
        _draw_map(visit, found, points, groups) if points else _explain_empty(visit, found),
        _list_tags(visit, found) if found.tags else None,
    )
    return Page("Map", body, "map")


def _explain_empty(visit: Visit, found: NoteMap) -> Html:
    if not visit.memory.notes():
        return tag("p", "There are no notes yet. Write one, and it appears here.")
    reason = found.reason if found.notes else "The notes are not indexed yet. Load this page again in a moment."
    hint = tag("p", "The page ", tag("a", "State", href=visit.url("state")), " says which embedder is used and why.")
    return tag("div", tag("p", f"There is no map. {reason}", role="status"), hint, class_="panel")


def _draw_map(visit: Visit, found: NoteMap, points: list[NotePoint], groups: Mapping[str, int]) -> Html:
    sizes = {note.path: note.bytes for note in visit.memory.notes()}
    drawn: list[list[Html]] = [[] for _ in range(GROUPS)]
    for point in points:
        group = groups.get(top_folder(point.path), GROUPS - 1)
        shape = f"s{group}{sum(sizes.get(point.path, 0) >= least for least in _SIZES)}"
        title, url = point.title[:_MAX_TITLE_CHARS], visit.url("note", path=point.path)
        drawn[group].append(draw_point(point.x, point.y, shape, title, url))
    said = "Notes that lie close together are similar in meaning. A larger mark is a longer note."
    caption = "Point at a mark to see its note. With the keyboard, use the arrow keys."
    label = tag("figcaption", caption, class_="quiet", data_label=True)
    return join(
        tag("p", f"{said} {_count(found, points)}"),
        tag("figure", draw_points(drawn, f"Map of {len(points):,} notes"), label, class_="panel"),
        _draw_legend(found.points, groups),
    )


def _count(found: NoteMap, points: list[NotePoint]) -> str:
    if len(points) == found.notes:
        return f"All {found.notes:,} notes are drawn."
    return f"{len(points):,} of {found.notes:,} notes are drawn, chosen evenly."


def top_folder(path: str) -> str:
    """Return the folder that a note is coloured by: the first, or the second if the first is ``memory``."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 2 if folders[:1] == ["memory"] else 1])


def _group_folders(points: Iterable[NotePoint]) -> dict[str, int]:
    """Return the folders with most notes, each with its group; the last group is for all others."""
    counts = Counter(top_folder(point.path) for point in points)
    commonest = sorted(counts, key=lambda folder: (-counts[folder], folder))
    return {folder: group for group, folder in enumerate(commonest[: GROUPS - 1])}


def _draw_legend(points: Iterable[NotePoint], groups: Mapping[str, int]) -> Html:
    counts = Counter(groups.get(top_folder(point.path), GROUPS - 1) for point in points)
    names = {group: folder or "no folder" for folder, group in groups.items()} | {GROUPS - 1: "other folders"}
    entries = (
        tag("span", draw_mark(group), f"{name} ({counts[group]:,})") for group, name in names.items() if counts[group]
    )
    return tag("p", entries, class_="legend")


def _choose_points(visit: Visit, points: tuple[NotePoint, ...]) -> list[NotePoint]:
    """Return as many points as a page can hold, evenly chosen."""
    address = len(visit.url("note", path="x"))
    costs = [
        _POINT_BYTES + address + len(quote(point.path, safe="")) + len(point.title[:_MAX_TITLE_CHARS].encode())
        for point in points
    ]
    most = min(len(points), len(points) * _MAX_BYTES // max(sum(costs), 1))
    return [points[number * len(points) // most] for number in range(most)]


def _list_tags(visit: Visit, found: NoteMap) -> Html:
    entries = (
        tag("li", tag("a", f"#{name}", href=visit.url("search", tag=name)), f" {count:,}") for name, count in found.tags
    )
    return tag("section", tag("h2", "Tags"), tag("ul", entries, class_="topics"))


def draw_points(groups: Sequence[Sequence[Html]], title: str) -> Html:
    """Return points that are links, each group in its colour and shape."""
    shapes = (
        tag("path", id=f"s{group}{size}", d=shape, transform=f"scale({radius})")
        for group, shape in enumerate(_SHAPES)
        for size, radius in enumerate(_RADII)
    )
    drawn = tag("defs", shapes), (tag("g", points, class_=f"group{group}") for group, points in enumerate(groups))
    box = f"0 0 {_MAP_WIDTH} {_MAP_HEIGHT}"
    return tag("svg", drawn, viewBox=box, class_="map", role="group", aria_label=title, data_arrows="a")


def draw_point(x: float, y: float, shape: str, title: str, url: str) -> Html:
    """Return a link at a place, whose numbers are from 0 to 1."""
    across = _MAP_MARGIN + x * (_MAP_WIDTH - 2 * _MAP_MARGIN)
    down = _MAP_MARGIN + y * (_MAP_HEIGHT - 2 * _MAP_MARGIN)
    mark = tag("use", href=f"#{shape}", x=round(across), y=round(down))
    return tag("a", mark, href=url, aria_label=title)


def draw_mark(group: int) -> Html:
    """Return the shape of a group, for a legend."""
    shape = tag("path", d=_SHAPES[group])
    return tag("svg", shape, viewBox="-1.3 -1.3 2.6 2.6", class_=f"mark group{group}", aria_hidden="true")
