"""HTML from Python values, with all text escaped, and from Markdown, where each line keeps its number.

Every element of a note comes from a fixed list. Nothing in it is loaded or run: HTML is shown as text, a picture as its
address, and a link leads to another note or, marked as such, to a website. A long note is shown in parts, so that no
page is heavy.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from datetime import date
from functools import cache
from html import escape
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union
from urllib.parse import unquote

from mdrecall.patterns import drop_ending, is_note_file
from mdrecall.text.annotations import read_annotations
from mdrecall.text.notes import read_front_matter

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

Child: TypeAlias = Union["Html", str, int, float, Iterable["Child"], None]
Attribute: TypeAlias = str | int | float | bool | None
#: Elements that have no end tag.
_VOID = frozenset(("br", "col", "hr", "img", "input", "link", "meta", "wbr"))


class Html(str):
    """Text that is HTML, and is not escaped again. Only ``tag``, ``join`` and the Markdown renderer make it."""

    __slots__ = ()


def tag(element: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. ``class_`` is the attribute ``class``, ``data_path`` is ``data-path``.

    An attribute that is True stands without a value; one that is None or False is left out.
    """
    start = f"<{element}"
    for key, value in attributes.items():
        if value is not None and value is not False:
            name = key.rstrip("_").replace("_", "-")
            start += f" {name}" if value is True else f' {name}="{escape(str(value))}"'
    return Html(f"{start}>" if element in _VOID else f"{start}>{_render(children)}</{element}>")


def join(*children: Child) -> Html:
    """Return several pieces as one; lists are taken apart, and None is nothing."""
    return Html(_render(children))


def separate(between: Child, pieces: Iterable[Child]) -> Html:
    """Return pieces with something between each two of them."""
    return join((between if place else None, piece) for place, piece in enumerate(pieces))


def _render(children: Iterable[Child]) -> str:
    pieces: list[str] = []
    for child in children:
        if isinstance(child, Html):
            pieces.append(child)
        elif isinstance(child, str | int | float):
            pieces.append(escape(str(child)))
        elif child is not None:
            pieces.append(_render(child))
    return "".join(pieces)


def hide(**fields: str) -> Html:
    """Return the fields of a form that nobody sees."""
    return join(tag("input", type="hidden", name=name, value=value) for name, value in fields.items())


def show_day(day: str, year: int = 0) -> str:
    """Return a day for people, ``Sat 14 Mar 2026``, without the year if it is this one; other texts stay."""
    with suppress(ValueError):
        weekday, month, number, _, its_year = date.fromisoformat(day).ctime().split()
        return f"{weekday} {number} {month}" + f" {its_year}" * (its_year != str(year))
    return day


def show_code(text: str) -> Html:
    """Return a sentence in which what stands between backticks is code."""
    return join(tag("code", part) if place % 2 else part for place, part in enumerate(text.split("`")))


def plural(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


#: Deeper than anybody nests lists; the parser leaves out what is nested deeper than it may go.
_MAX_NESTING = 50
#: Ordinary text takes less than two steps a character. A text that needs more was made to keep a parser busy.
_STEPS_PER_CHAR, _FREE_STEPS = 3, 10_000
#: A longer comment is shown as text, so that nobody searches for its end again and again.
_MAX_COMMENT_CHARS = 4000
_MAX_SLUG_CHARS = 100
_ELEMENTS = {"bullet_list": "ul", "list_item": "li"}
_ELEMENTS |= {name: name for name in ("blockquote", "thead", "tbody", "tr", "em", "strong", "s")}
_ALIGN = {"text-align:center": "center", "text-align:right": "right-aligned"}
#: More of a comment hides the text beside it.
_MAX_LABEL_CHARS = 300
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]\n]{1,400})\]\]")
_TASK = re.compile(r"\[([ xX])\]\s")
#: What is not read: the marks before a line, comments, emphasis, code, and links around their text.
_MARKS = re.compile(
    r"^\s*(?:(?:[-+>*]|#{1,6}|\d{1,9}[.)])\s+)*(?:\[[ xX]\]\s)?"
    r"|<!--.*?-->|\*+|`+|!?\[\[(?:[^\[\]|]*\|)?|\]\]|!?\[(?=[^\[\]]*\]\()|\]\([^()\s]*\)"
)
#: What is around the cells of a table's row, and the row below its head.
_CELLS = re.compile(r"\s*\|(?:[\s|:-]*\|)?\s*")
#: Where another paragraph, heading or item begins.
_NEXT = re.compile(r"\n(?=[^\S\n]*(?:\n|(?:[-+*]|#{1,6}|\d{1,9}[.)])[^\S\n]))")
#: As much of a line as stands for it, and as much as is searched for marks where all of it is shown.
_MAX_LINE_CHARS, _MAX_TEXT_CHARS = 200, 2_000
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_EXTERNAL = ("http", "https", "mailto")


class NoteUrls(NamedTuple):
    """Where the links of a note lead."""

    path: str
    """The path of the note itself."""
    note: Callable[[str, str], str]
    """Returns the address of a note by its path, and a place in it."""
    name: Callable[[str], str]
    """Returns the address that finds the note that somebody calls by a name."""


#: Returns a text of a passage with the words of the query marked.
Mark: TypeAlias = Callable[[str], Html]


class _TooComplex(Exception):
    """The text takes longer to parse than any note that somebody has written."""


#: The id of the form that the boxes of tasks belong to.
TASKS = "tasks"


def render_note(text: str, urls: NoteUrls, cited: tuple[int, int] | None, first: int = 1, fence: str = "", *,
                title: str = "", can_tick: bool = False) -> Html | None:  # fmt: skip
    """Return a note as HTML; None if it is too complex, and should be shown as it is.

    A part of a note begins at the line ``first``, perhaps in a code block that ``fence`` has opened. If the note
    begins with its ``title``, which the page shows already, that heading is hidden. With ``can_tick``, the box of a
    task is a button of the form ``TASKS`` that sends the number of its line.
    """
    text = text.replace("\r\n", "\n").replace("\r", " ")
    front_lines = read_front_matter(text)[1] if first == 1 else 0
    skipped = first - 1 + front_lines
    text = text.split("\n", front_lines)[front_lines]
    if fence:
        skipped -= 1
        text = f"{fence}\n{text}"
    tokens = _parse(text)
    if tokens is None:
        return None
    _name_headings(tokens)
    if title and tokens and tokens[0].tag == "h1" and show_day(strip_markup(tokens[1].content)) == title:
        tokens[0].meta["is_title"] = not meets(cited, skipped + 1, skipped + (tokens[0].map or [0, 1])[1])
    renderer = _Renderer(urls, cited, skipped, can_tick=can_tick)
    return renderer.render(tokens)


def render_passage(text: str, urls: NoteUrls, mark: Mark, matching: Set[int]) -> Html:
    """Return a passage as HTML. Its lines have no numbers, and those that do not match stand back."""
    tokens = _parse(text)
    return tag("p", mark(text)) if tokens is None else _PassageRenderer(urls, mark, matching).render(tokens)


def meets(cited: tuple[int, int] | None, first: int, last: int) -> bool:
    """True if one of these lines is cited."""
    return cited is not None and first <= cited[1] and last >= cited[0]


def slug(heading: str) -> str:
    """Return the id of a heading."""
    return "h-" + re.sub(r"\W+", "-", heading[:_MAX_SLUG_CHARS].casefold()).strip("-")


def strip_markup(line: str, most: int = _MAX_LINE_CHARS) -> str:
    """Return the beginning of a line as people read it, without the marks of Markdown and without comments."""
    line = _CELLS.sub(" ", line[:most]) if line.startswith("|") else line[:most]
    return _MARKS.sub("", line).strip()


def strip_lines(text: str) -> str:
    """Return the lines of a text as one, as people read them, with a dot between paragraphs, headings and items."""
    parts = (map(strip_markup, part.split("\n"), repeat(_MAX_TEXT_CHARS)) for part in _NEXT.split(text))
    return " · ".join(filter(None, (" ".join(filter(None, lines)) for lines in parts)))


def mark(text: str, spans: Iterable[tuple[int, int]]) -> Html:
    """Return a text in which these parts are marked."""
    pieces: list[Child] = []
    done = 0
    for start, end in spans:
        pieces += text[done:start], tag("mark", text[start:end])
        done = end
    return join(pieces, text[done:])


def cut(text: str, most: int) -> str:
    """Return at most this many characters of a text."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def read_title(text: str, path: str) -> str:
    """Return the title of a note: that of its front matter, the heading it begins with, or the name of its file."""
    values, skipped = read_front_matter(text)
    start = text.split("\n", skipped)[-1].lstrip().partition("\n")[0]
    heading = strip_markup(start) if start.startswith("# ") else ""
    name = drop_ending(posixpath.basename(path))
    return show_day((next(iter(values.get("title", ())), heading) or name)[:_MAX_LINE_CHARS])


def _parse(text: str) -> "list[Token] | None":
    """Return the tokens of a text; None if it is too complex."""
    try:
        tokens = _make_parser().parse(text, {"steps": _FREE_STEPS + _STEPS_PER_CHAR * len(text)})
    except (_TooComplex, RecursionError):
        return None
    _find_tasks(tokens)
    return None if any(token.level >= _MAX_NESTING - 1 for token in tokens) else tokens


@cache
def _make_parser() -> "MarkdownIt":
    """Return the parser, which takes longer to make than to use."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.before("table", "count", _count, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.block.ruler.before("table", "comment", _read_comment_block)
    parser.inline.ruler.before("text", "count", _count)
    parser.inline.ruler.before("link", "wiki_link", _read_wiki_link)
    parser.inline.ruler.before("autolink", "comment", _read_comment)
    return parser


def _count(state: "StateBlock | StateInline", *_: object) -> bool:
    """Match nothing; end the parse when it has taken too many steps."""
    state.env["steps"] -= 1
    if state.env["steps"] < 0:
        raise _TooComplex
    return False


def _read_comment_block(state: "StateBlock", first: int, last: int, silent: bool) -> bool:
    """Read a comment that begins a line and may hold blank lines."""
    start = state.bMarks[first] + state.tShift[first]
    if not state.src.startswith("<!--", start) or silent or state.is_code_block(first):
        return False
    end = state.src.find("-->", start + 4, start + _MAX_COMMENT_CHARS)
    line = first
    while end >= 0 and line < last and state.eMarks[line] < end:
        line += 1
    if end < 0 or line >= last or state.src[end + 3 : state.eMarks[line]].strip():
        return False
    token = state.push("comment", "", 0)
    token.content, token.map = state.src[start + 4 : end], [first, line + 1]
    state.line = line + 1
    return True


def _read_comment(state: "StateInline", silent: bool) -> bool:
    if not state.src.startswith("<!--", state.pos):
        return False
    end = state.src.find("-->", state.pos + 4, min(state.posMax, state.pos + _MAX_COMMENT_CHARS))
    if end < 0:
        return False
    if not silent:
        state.push("comment", "", 0).content = state.src[state.pos + 4 : end]
    state.pos = end + 3
    return True


def _read_wiki_link(state: "StateInline", silent: bool) -> bool:
    found = _WIKI_LINK.match(state.src, state.pos, state.posMax)
    if found is None or state.linkLevel:
        return False
    if not silent:
        state.push("wiki_link", "", 0).content = found[1].replace("\\|", "|").strip()
    state.pos = found.end()
    return True


def _find_tasks(tokens: "Sequence[Token]") -> None:
    """Move the box of a task from the text of its list item to a mark that says if it is done."""
    for item, inner in zip(tokens, tokens[2:], strict=False):
        if item.type != "list_item_open" or not inner.children or inner.children[0].type != "text":
            continue
        text = inner.children[0]
        if found := _TASK.match(text.content):
            inner.meta["is_done"] = found[1] != " "
            text.content = text.content[found.end() :]


def _name_headings(tokens: "Sequence[Token]") -> None:
    """Give each heading an id, by which links lead to it; of two that are the same, the first has it."""
    names: set[str] = set()
    for heading, inner in pairwise(tokens):
        if heading.type == "heading_open" and (name := slug(inner.content)) not in names:
            names.add(name)
            heading.meta["id"] = name


class _Renderer:
    """Turns the tokens of one note into HTML."""

    def __init__(self, urls: NoteUrls, cited: tuple[int, int] | None, skipped: int, *, can_tick: bool) -> None:
        self._urls = urls
        self._cited = cited
        self._can_tick = can_tick
        self._skipped = skipped
        """How many lines precede the first one that was parsed."""
        self._numbered: set[int] = set()

    def render(self, tokens: "Sequence[Token]") -> Html:
        """Return blocks, or the pieces of a line, as HTML."""
        content: list[list[Child]] = [[]]
        opened: list[Token] = []
        for token in tokens:
            if token.nesting > 0:
                opened.append(token)
                content.append([])
            elif token.nesting < 0:
                children = content.pop()
                content[-1].append(self._wrap(opened.pop(), children))
            else:
                content[-1].append(self._show(token))
        return join(content)

    def _wrap(self, token: "Token", children: list[Child]) -> Html:
        """Return an element with its content."""
        match token.type.removesuffix("_open"):
            case "paragraph":
                return tag("p", children, class_="tight" if token.hidden else None)
            case "heading":
                return self._heading(token, children)
            case "link":
                return self._link(str(token.attrGet("href") or ""), children)
            case "ordered_list":
                start = token.attrGet("start")
                return tag("ol", children, start=int(start) if start is not None else None)
            case "table":
                table = tag("table", children)
                return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table")
            case "th" | "td" as cell:
                return tag(cell, children, class_=_ALIGN.get(str(token.attrGet("style"))))
            case kind:
                return tag(_ELEMENTS.get(kind, "span"), children)

    def _heading(self, token: "Token", children: list[Child]) -> Html:
        # The title of the page is the only heading of the first level.
        level = min(int(token.tag[1]) + 1, 6)
        return tag(f"h{level}", children, id=token.meta.get("id"), hidden=token.meta.get("is_title"))

    def _show(self, token: "Token") -> Child:
        """Return what has no end of its own: a text, a break, a picture, a block of code, the content of a block."""
        match token.type:
            case "inline":
                return self._show_lines(token)
            case "code_inline":
                return tag("code", self._text(token.content))
            case "fence" | "code_block":
                return self._show_code(token)
            case "hr":
                return join(self._line(*self._lines_of(token)), tag("hr"))
            case "image":
                # Its description and address: it is not loaded, because the address may be a website's.
                return tag("span", "Picture: ", token.content, f" ({token.attrGet('src')})", class_="picture quiet")
            case "wiki_link":
                return self._wiki_link(token.content)
            case "comment" if token.map:
                return tag("p", self._line(*self._lines_of(token)), _label_comment(token.content), class_="tight")
            case "comment":
                return _label_comment(token.content)
            case "softbreak" | "hardbreak":
                return tag("br")
        return self._text(token.content)

    def _text(self, text: str) -> Child:
        return text

    def _show_lines(self, token: "Token") -> Html:
        """Return the content of a block, each of its lines with its number, and the cited ones marked."""
        first, _ = self._lines_of(token)
        pieces: list[Child] = []
        start, line, depth, since = first, first, 0, 0
        children = token.children or []
        for place, child in enumerate([*children, None]):
            is_break = child is not None and child.type in ("softbreak", "hardbreak")
            if child is None or (is_break and not depth):
                content = self.render(children[since:place])
                if "is_done" in token.meta and not since:
                    content = join(show_box(line, TASKS, self._can_tick, is_done=token.meta["is_done"]), content)
                pieces += [tag("br") if pieces else None, self._line(start, line, content)]
                start, since = line + 1, place + 1
            if child is not None:
                depth += child.nesting
                line += is_break or (child.type == "comment" and child.content.count("\n"))
        return join(pieces)

    def _line(self, first: int, last: int, content: Child = None) -> Html:
        """Return the content of a line with its number; the first one that has the number can be linked to."""
        is_new = first not in self._numbered
        self._numbered.add(first)
        element = "mark" if content is not None and meets(self._cited, first, last) else "span"
        return tag(element, content, class_="cited" if element == "mark" else None, id=f"L{first}" if is_new else None)

    def _lines_of(self, token: "Token") -> tuple[int, int]:
        """Return the first and last line of a token, as they are in the file."""
        first, end = token.map or [0, 1]
        return first + 1 + self._skipped, end + self._skipped

    def _show_code(self, token: "Token") -> Html:
        first = self._lines_of(token)[0] + (token.type == "fence")
        lines = enumerate(token.content.removesuffix("\n").split("\n"), first)
        shown = (self._line(number, number, self._text(f"{line}\n")) for number, line in lines)
        return tag("pre", tag("code", shown), tabindex=0)

    def _wiki_link(self, target: str) -> Html:
        place, _, alias = target.partition("|")
        name, _, heading = place.partition("#")
        shown = alias.strip() or place.strip().lstrip("#")
        if not name.strip():
            return tag("a", shown, href=f"#{slug(heading)}")
        return tag("a", self._text(shown), href=self._urls.name(name.strip()), class_="wiki")

    def _link(self, href: str, children: list[Child]) -> Html:
        found = _SCHEME.match(href)
        if found and found[1].lower() in _EXTERNAL:
            arrow = tag("span", " ↗", aria_hidden="true")
            how = {"target": "_blank", "rel": "noopener noreferrer", "class_": "external", "title": href}
            return tag("a", children, arrow, href=href, **how)
        target, _, heading = unquote(href).partition("#")
        if not target and heading and not found:
            return tag("a", children, href=f"#{slug(heading)}")
        if found or target.startswith("//") or not is_note_file(target):
            return tag("span", children, tag("span", f" ({href})", class_="quiet") if href else None)
        folder = "" if target.startswith("/") else posixpath.dirname(self._urls.path)
        path = posixpath.normpath(posixpath.join(folder, target.lstrip("/") if not folder else target))
        return tag("a", children, href=self._urls.note(path, slug(heading) if heading else ""), class_="wiki")


class _PassageRenderer(_Renderer):
    """Turns the tokens of a passage into HTML: its headings are not those of the page, and its words are marked."""

    def __init__(self, urls: NoteUrls, mark: Mark, matching: Set[int]) -> None:
        super().__init__(urls, None, 0, can_tick=False)
        self._mark = mark
        self._matching = matching

    def _text(self, text: str) -> Child:
        return self._mark(text)

    def _line(self, first: int, last: int, content: Child = None) -> Html:
        is_context = self._matching.isdisjoint(range(first, last + 1))
        return tag("span", content, class_="context") if is_context else join(content)

    def _heading(self, token: "Token", children: list[Child]) -> Html:
        return tag("p", tag("strong", children))


def show_box(line: int, form: str | None = None, can_tick: bool = True, *, is_done: bool) -> Html:
    """Return the box of a task, which sends the number of its line with the form that it is in, or with another one."""
    label, state = ("done", "true") if is_done else ("to do", "false")
    return tag("button", role="checkbox", aria_checked=state, aria_label=label, name="line", value=line, form=form,
               disabled=not can_tick, class_="task")  # fmt: skip


def _label_comment(content: str) -> Html:
    """Return a comment as a label: agents read it, so people see it too. Of a mark of ours its kind is enough."""
    text = " ".join(content.split())
    is_old = read_annotations(f"<!--{content}-->")[1].is_superseded
    shown = text.partition(" ")[0] if text.startswith("mdrecall:") else text[:_MAX_LABEL_CHARS]
    return tag("span", shown, class_="label old" if is_old else "label")


#: The characters of a part, and for how many each line counts: as HTML, with all else, a page then stays below 150 KB.
PART_CHARS, _LINE_CHARS = 20_000, 20
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


class Part(NamedTuple):
    """Lines of a note."""

    text: str
    first: int
    last: int
    fence: str
    """What has opened the code block in which the part begins; empty if it begins in none."""


def split_note(text: str) -> list[Part]:
    """Return the parts of a note; a short one is a single part. A part ends before a heading if there is one."""
    parts: list[Part] = []
    lines: list[str] = []
    number = first = 1
    chars, opened, fence = 0, "", ""
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        most = PART_CHARS // 2 if line.startswith("#") and not opened else PART_CHARS
        # A line that is longer than a part goes on in the next one.
        for start in range(0, len(line) or 1, PART_CHARS):
            piece = line[start : start + PART_CHARS]
            if lines and chars + len(piece) > most:
                parts.append(Part("\n".join(lines), first, number if start else number - 1, fence))
                lines, chars = [], 0
            if not lines:
                first, fence = number, opened
            lines.append(piece)
            chars += len(piece) + _LINE_CHARS
        found = _FENCE.match(line)
        if found and not opened:
            opened = found[1]
        elif found and found[1].startswith(opened) and not line[found.end() :].strip():
            opened = ""
    return [*parts, Part("\n".join(lines), first, number, fence)]


def find_line(parts: list[Part], line: int) -> int:
    """Return the index of the part that holds a line; the last one if the note has fewer."""
    return next((index for index, part in enumerate(parts) if line <= part.last), len(parts) - 1)
