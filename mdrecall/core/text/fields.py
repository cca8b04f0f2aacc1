"""What a note says about itself: title, tags and aliases in its front matter, ``#tags`` and links in its text.

Front matter is read as the part of YAML that notes use: a word, a text in quotes, a list in brackets or of lines.
Front matter that does not look like that is just text.
"""

import re
from collections.abc import Iterator
from typing import Any

from mdrecall.core.text.headings import read_lines
from mdrecall.named_tuple import NamedTuple
from mdrecall.patterns import compile_later
from mdrecall.types import NO_FIELDS, Fields, Link

# Longer front matter is a document of its own.
_MAX_FRONT_LINES = 200
# Nobody gives a note more tags or aliases, or longer ones; links are bounded so that no note fills the index.
_MAX_NAMES, _MAX_NAME_CHARS, _MAX_LINKS = 500, 200, 2_000
_KEY = compile_later(r"([^\s:#\[\]{}\"'-][^:#\[\]{}\"']{0,80}?)[ \t]*:(?:[ \t]+(.*)|)$")
_COMMENT = compile_later(r"(?:^|[ \t])#.*$")
# As in Obsidian, a tag follows a blank. It may hold letters of any script, digits, hyphens, underscores and slashes.
# The sign comes first in the pattern, because that is what `re` can skip to.
_TAG = compile_later(
    r"#(?<!\S#)([^\s\x00-\x2c.\x3a-\x40\x5b-\x5e`\x7b-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u2000-\u206f\u3000-\u3004"
    r"\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff3e\uff5b-\uff65]+)"
)
_CODE = compile_later(r"``.*?``|`[^`]*`")
_WIKI_LINK = compile_later(r"\[\[([^\[\]\n]{1,400})\]\]")
_LINK = compile_later(
    r"\[[^\[\]\n]{0,200}\]\(<?([^()<>\s]{1,400}\.md(?:#[^()<>\s]{0,200})?)>?(?:[ \t]+\"[^\"\n]*\")?\)"
)
_SCHEME = compile_later(r"[A-Za-z][A-Za-z0-9+.-]+:")


class FrontMatter(NamedTuple):
    """The front matter of a note."""

    values: dict[str, list[str]]
    """The values of each key, in lower case."""
    lines: int
    """How many lines it takes up, with the rules around it."""


def read_fields(text: str) -> Fields:
    """Return what a note says about itself."""
    front = read_front_matter(text)
    values = front.values
    has_signs = _has_signs(text)
    if not values and not has_signs:
        return NO_FIELDS
    tags, links = _read_body(text, front.lines) if has_signs else ([], [])
    own = [tag.strip().lstrip("#") for key in ("tags", "tag") for one in values.get(key, ()) for tag in _words_of(one)]
    return Fields(
        title=next(iter(values.get("title", ())), "")[:_MAX_NAME_CHARS],
        tags=_distinct(tag for tag in (*own, *tags) if tag),
        aliases=_distinct(alias for key in ("aliases", "alias") for alias in values.get(key, ()) if alias),
        links=tuple(links),
    )


def read_front_matter(text: str) -> FrontMatter:
    """Return the front matter of a note; nothing if it has none, or none that can be read."""
    nothing = FrontMatter({}, 0)
    if not text.startswith("---"):
        return nothing
    lines = text.split("\n", _MAX_FRONT_LINES)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if lines[0].rstrip() != "---" or not end:
        return nothing
    written: dict[str, list[str]] = {}
    key = ""
    for line in lines[1:end]:
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if found := _KEY.match(line.rstrip()):
            key = found[1].strip().lower()
            written[key] = [found[2] or ""]
        elif key and (bare.startswith("- ") or bare == "-"):
            written[key].append(bare[1:].strip())
        elif not key or not line[:1].isspace():
            return nothing
        elif written[key][-1].strip(" |>+-"):
            # Programs that write YAML break long texts over several lines.
            written[key][-1] += f" {bare}"
    values = {key: [value for one in parts for value in _read_values(one)] for key, parts in written.items()}
    return FrontMatter(values, end + 1)


def pack_fields(fields: Fields) -> str:
    """Return fields as they are stored: JSON without what is empty, or nothing."""
    if fields == NO_FIELDS:
        return ""
    import json

    said = {name: value for name, value in fields._asdict().items() if value}
    return json.dumps(said, separators=(",", ":"))


def unpack_fields(stored: str) -> Fields:
    """Return stored fields. What a newer version may have added is ignored."""
    if not stored:
        return NO_FIELDS
    import json

    said: dict[str, Any] = json.loads(stored)
    links = tuple(Link(*link) for link in said.get("links", ()))
    names = {name: tuple(said.get(name, ())) for name in ("tags", "aliases")}
    return Fields(title=said.get("title", ""), links=links, **names)


def _has_signs(text: str) -> bool:
    """True if a text may have tags or links. Between code and a tag there need not be a blank."""
    if "[[" in text or "](" in text:
        return True
    at = text.find("#")
    if at < 0 or "`" in text:
        return at >= 0
    while at >= 0 and not _TAG.match(text, at):
        at = text.find("#", at + 1)
    return at >= 0


def _read_body(text: str, skipped: int) -> tuple[list[str], list[Link]]:
    """Return the tags and links of a text, without those in code."""
    tags: list[str] = []
    links: list[Link] = []
    lines = text.split("\n")
    structure = read_lines(lines) if "```" in text or "~~~" in text else None
    for number, line in enumerate(lines[skipped:], skipped + 1):
        if "#" not in line and "[" not in line:
            continue
        if structure and structure[number - 1].heading and not structure[number - 1].level:
            continue
        plain = _CODE.sub(" ", line) if "`" in line else line
        if len(tags) < _MAX_NAMES:
            tags += (tag for tag in map(_clean_tag, _TAG.findall(plain)) if tag)
        if len(links) < _MAX_LINKS and "[" in plain:
            links += (Link(number, target) for target in _find_links(plain))
    return tags, links


def _find_links(line: str) -> Iterator[str]:
    """Yield the links of a line to notes, each as ``target#heading|alias`` or a part of it."""
    for found in _WIKI_LINK.findall(line):
        yield found.replace("\\|", "|").strip()
    for found in _LINK.findall(line):
        if not _SCHEME.match(found):
            from urllib.parse import unquote

            yield unquote(found)


def _clean_tag(tag: str) -> str:
    """Return a tag without hyphens and slashes at its end; empty if it is only a number, such as that of an issue."""
    tag = tag.rstrip("/-_")[:_MAX_NAME_CHARS]
    return "" if tag.isdigit() else tag


def _words_of(value: str) -> list[str]:
    """Return the tags in one value: ``a, b`` and ``a b`` are two, because no tag holds a blank."""
    return [word for part in value.split(",") for word in part.split()]


def _read_values(value: str) -> list[str]:
    value = value.strip()
    if value.startswith("["):
        inside = value[1:].partition("]")[0]
        parts = re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'|([^,\"']+)", inside)
        return [one for double, single, bare in parts if (one := (_unescape(double) or single or bare).strip())]
    if len(value) > 1 and value[0] in "\"'" and (end := value.rfind(value[0])) > 0:
        return [value[1:end].replace("''", "'") if value[0] == "'" else _unescape(value[1:end])]
    bare = _COMMENT.sub("", value).strip()
    return [bare] if bare and bare not in ("|", ">", "null", "~") else []


def _unescape(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name[:_MAX_NAME_CHARS] for name in names))[:_MAX_NAMES]
