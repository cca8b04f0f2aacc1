"""Readers: from one file of a package to sections of plain English text.

Every reader takes a :class:`File` and gives its sections in order. The text may still hold lines that are no prose
(code, tables, lists of names); ``training.corpus`` throws those out.
"""

import ast
import html
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple


class File(NamedTuple):
    """A file of a package, decompressed."""

    name: str
    data: bytes

    def text(self) -> str:
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            text = self.data.decode("latin-1")
        return text.replace("\r", "")


class Section(NamedTuple):
    """The paragraphs under one heading; in a dictionary entry the heading is a word, and they define it."""

    heading: str
    paragraphs: list[str]
    entry: bool = False


Reader = Callable[[File], Iterator[Section]]

_BLANK = re.compile(r"\n\s*\n")
_TAG = re.compile(r"<[^<>]{1,200}>")
_ESCAPED = re.compile(r'\\(["\'\\])')


def paragraphs(text: str) -> list[str]:
    return [block for block in _BLANK.split(text) if block.strip()]


def book(file: File) -> Iterator[Section]:
    """Read plain text with blank lines between paragraphs, or one paragraph per line."""
    text = file.text()
    yield Section("", paragraphs(text) if text.count("\n\n") > 5 else text.split("\n"))


# --- markup: HTML, Mallard and DocBook


_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "title"})
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "big",
        "cite",
        "code",
        "dfn",
        "em",
        "emphasis",
        "font",
        "i",
        "img",
        "input",
        "kbd",
        "link",
        "literal",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "tt",
        "u",
        "var",
        "wbr",
        "app",
        "cmd",
        "file",
        "gui",
        "guiseq",
        "key",
        "keyseq",
        "sys",
        "output",
        "media",
        "desc",
    ]
)
_UNREAD = frozenset({"script", "style", "pre", "nav", "header", "footer", "code-block", "screen", "info", "svg"})
_UNREAD_CLASSES = frozenset(
    [
        "navheader",
        "navfooter",
        "headerlink",
        "sphinxsidebar",
        "related",
        "toc",
        "footer",
        "literallayout",
        "programlisting",
        "screen",
        "breadcrumbs",
        "docnav",
        "toplang",
        "bottomlang",
        "listingblock",
    ]
)
_NUMBER = re.compile(r"^(?:Chapter|Appendix|Section)?\s*[A-Z]?[\d.]+\.?\s+(?=\S)|\s*[¶#]\s*$")


class _Markup(HTMLParser):
    """Splits at every element that is not inline; the text between two splits is a paragraph."""

    def __init__(self) -> None:
        super().__init__()
        self.sections = [Section("", [])]
        self._words: list[str] = []
        self._unread = ""
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._unread:
            self._depth += tag == self._unread
        elif tag in _UNREAD or not _UNREAD_CLASSES.isdisjoint((dict(attrs).get("class") or "").split()):
            if tag not in _INLINE:
                self._cut()
            self._unread, self._depth = tag, 1
        elif tag not in _INLINE:
            self._cut()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._unread and tag not in _INLINE:
            self._cut()

    def handle_endtag(self, tag: str) -> None:
        if self._unread:
            self._depth -= tag == self._unread
            if not self._depth:
                self._unread = ""
        elif tag in _HEADINGS:
            self.sections.append(Section(_NUMBER.sub("", " ".join("".join(self._words).split())), []))
            self._words = []
        elif tag not in _INLINE:
            self._cut()

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self._words.append(data)

    def close(self) -> None:
        super().close()
        self._cut()

    def _cut(self) -> None:
        text = "".join(self._words)
        self._words = []
        if text.strip():
            self.sections[-1].paragraphs.append(text)


def markup(file: File) -> Iterator[Section]:
    parser = _Markup()
    parser.feed(file.text())
    parser.close()
    yield from parser.sections


# --- plain documentation: reStructuredText, Markdown, POD, man pages


_MARKS = (
    (re.compile(r":[\w:+-]+:`~?!?([^`<]*?)(?:\s*<[^>]*>)?`"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*<[^>]+>`_*"), r"\1"),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r":?`{1,3}[~!]?([^`]+)`{1,3}_*"), r"\1"),
    (re.compile(r"\*\*?([^*\n]+)\*\*?"), r"\1"),
    (re.compile(r"\b[A-Z]\(([^)]*)\)"), r"\1"),
    (_TAG, ""),
)


def plain(text: str) -> str:
    """Return the text without the markup of reStructuredText, Markdown and Ansible's documentation."""
    for mark, instead in _MARKS:
        text = mark.sub(instead, text)
    return text.replace("::", ":")


_DOC_END = re.compile(
    r"\n\s*(?:Parameters|Returns?|Args|Arguments|Kwargs|Examples?|Raises|Yields|Notes?|See Also|Usage)\b:?\s*\n"
    r"|(?:^|\n)\s*:\w+|\n\s*>>>|\n\s*CLI Example"
)
_NOT_TEXT = (">>>", "..", "$", "|", "+-", "@")
_ANSIBLE = re.compile(r"^DOCUMENTATION\s*=\s*r?(?:'''|\"\"\")(.*?)(?:'''|\"\"\")", re.S | re.M)
_ANSIBLE_TITLE = re.compile(r"^short_description:\s*(.*)", re.M)
_ANSIBLE_ITEM = re.compile(r"^\s*-\s+([A-Z].{30,}(?:\n\s{6,}(?!\w+:)[A-Za-z].*)*)", re.M)


def docstrings(file: File) -> Iterator[Section]:
    """Read the docstrings of a Python file, and the documentation in an Ansible module."""
    text = file.text()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(ast.get_docstring(node) or "")
    for match in _ANSIBLE.finditer(text):
        title = _ANSIBLE_TITLE.search(match[1])
        yield Section(title[1] if title else "", [plain(item) for item in _ANSIBLE_ITEM.findall(match[1])])


def _docstring(text: str) -> Iterator[Section]:
    blocks = paragraphs(_DOC_END.split(text)[0])
    told = [plain(block) for block in blocks if not block.lstrip().startswith(_NOT_TEXT)]
    if told:
        first, *rest = told
        yield Section(first, rest) if len(first) < 120 and rest else Section("", told)


_POD_INDEX = re.compile(r"[XZ]<[^<>]*>")
_POD_MARK = re.compile(r"[A-Z](?:<<+ | ?<)(?:[^<>|]*\|)?([^<>]*?)(?: >>+|>)")


def pod(file: File) -> Iterator[Section]:
    section = Section("", [])
    for block in paragraphs(file.text()):
        told = _POD_MARK.sub(r"\1", _POD_MARK.sub(r"\1", _POD_INDEX.sub("", block)))
        if told.startswith("=head"):
            yield section
            section = Section(told.partition(" ")[2], [])
        elif not told.startswith(("=", " ", "\t")):
            section.paragraphs.append(told)
    yield section


_MAN_CODE = re.compile(r"^\.(?:nf|EX)\n.*?^\.(?:fi|EE)\n|^[.']\\\"[^\n]*\n|^\.TS\n.*?^\.TE\n", re.S | re.M)
_MAN_FONT = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\s[-+]?\d|\\[&|^/%,:]")
_MAN_CHARACTERS = (
    ("\\-", "-"),
    ("\\(aq", "'"),
    ("\\(cq", "'"),
    ("\\(em", " - "),
    ("\\(lq", '"'),
    ("\\(rq", '"'),
    ("\\e", "\\"),
)
_MAN_REQUEST = re.compile(r"^[.'](\w+)\s*(.*)")
_MAN_WORDS = frozenset({"B", "I", "SM", "SB"})
_MAN_JOINED = frozenset({"BR", "RB", "IR", "RI", "BI", "IB"})
_MAN_UNREAD = frozenset({"NAME", "SYNOPSIS", "COPYRIGHT", "COLOPHON", "SEE ALSO", "AUTHORS", "ATTRIBUTES", "VERSIONS"})


def man(file: File) -> Iterator[Section]:
    """Read each part of a manual page under the page's one-line description."""
    parts = [("", [""])]
    text = _MAN_FONT.sub("", _MAN_CODE.sub("\n", file.text()))
    for mark, instead in _MAN_CHARACTERS:
        text = text.replace(mark, instead)
    for line in text.split("\n"):
        request = _MAN_REQUEST.match(line)
        if not request:
            parts[-1][1][-1] += " " + line
        elif request[1] in ("SH", "SS"):
            parts.append((request[2].strip('"'), [""]))
        elif request[1] in _MAN_WORDS:
            parts[-1][1][-1] += " " + request[2].replace('"', "")
        elif request[1] in _MAN_JOINED:
            parts[-1][1][-1] += " " + request[2].replace(" ", "").replace('"', "")
        else:
            parts[-1][1].append("")
    name = next((" ".join(told).strip() for title, told in parts if title == "NAME"), "")
    for title, told in parts[1:]:
        if title not in _MAN_UNREAD:
            yield Section(name if title == "DESCRIPTION" else f"{name.partition(' - ')[0]} {title.lower()}", told)


# --- word books


_DICT_NOISE = re.compile(r"\\[^\\]{1,80}\\|\[[^\[\]]{0,400}\]|\((?:\d{4}-\d\d-\d\d|\?)\)|(?<=\s)/[^/\n]{2,40}/,?|[{}]")
_DICT_SAID = re.compile(r"^[\s,]*(?:\([^()]{0,80}\)\s*,)?[ ,]*")
_DICT_KINDS = r"(?:n|a|adj|v\. ?t|v\. ?i|vt|vi|v|adv|prep|interj|p\. ?p|p\. ?a)"
_DICT_KIND = re.compile(rf"^[^\n]{{0,120}}?\b{_DICT_KINDS}\.(?:,\s?{_DICT_KINDS}\.)*(?:;[^.\n]*\.)?\s+")
_DICT_ITEM = re.compile(r"\n\s*\n|\n\s+(?=(?:\d+\.|\([a-z]\))\s)")
_DICT_START = re.compile(r"^\s*(?:(?:\d+\.|\([a-z]\))\s+)?(?:(?:<[^<>]+>|\([A-Z][\w .&]+\))\s+)*")
_DICT_AFTER = re.compile(r"\s+--\s?.*$", re.S)
_DICT_QUOTE = " " * 10
_DICT_ASIDE = ("Syn:", "See", "Note:")


def dictionary(file: File) -> Iterator[Section]:
    """Read a dictd file: the unindented line of an entry is its word; quotations are indented the most."""
    for entry in re.split(r"\n(?=\S)", file.text()):
        word = re.split(r"[\\(,\n\[]", entry, maxsplit=1)[0]
        if word.startswith("00-database"):
            continue
        body = _DICT_KIND.sub("", _DICT_SAID.sub("", _DICT_NOISE.sub("", entry[len(word) :])), count=1)
        told = [item for item in _DICT_ITEM.split(body) if not item.startswith(_DICT_QUOTE)]
        items = [_DICT_AFTER.sub("", _DICT_START.sub("", item)) for item in told]
        yield Section(word.strip(), [item for item in items if not item.startswith(_DICT_ASIDE)], entry=True)


_QUOTED = re.compile(r';?\s*"[^"]*"[^;]*')


def wordnet(file: File) -> Iterator[Section]:
    """Read WordNet: one set of synonyms per line, with their meaning and examples."""
    for line in file.text().split("\n"):
        fields, bar, gloss = line.partition("|")
        if not bar or line.startswith("  "):
            continue
        parts = fields.split()
        words = [parts[4 + 2 * n].replace("_", " ").partition("(")[0] for n in range(int(parts[3], 16))]
        meaning = _QUOTED.sub("", gloss).strip("; \n")
        yield Section(", ".join(words), [meaning], entry=True)
        for example in re.findall(r'"([^"]{30,})"', gloss):
            yield Section(meaning, [example])


def wordset(file: File) -> Iterator[Section]:
    for word, entry in json.loads(file.data).items():
        for meaning in entry.get("meanings", []):
            told = [meaning.get("def") or "", meaning.get("example") or ""]
            yield Section(word, [text for text in told if text], entry=True)


def factbook(file: File) -> Iterator[Section]:
    """Read a country's introduction under its name, and its longer notes, some of which belong to another country."""
    country = json.loads(file.data)
    introduction = country.pop("introduction", "") or ""
    yield Section(f"history of {country.get('name', '')}", [introduction])
    for text in strings(country):
        if len(text) >= 60:
            yield Section("", [text])


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def fortunes(file: File) -> Iterator[Section]:
    for saying in re.split(r"\n%+\n", re.sub(r".\x08", "", file.text())):
        asked = re.match(r"\s*Q:\s*(.*?)\n\s*A:\s*(.*)", saying, re.S)
        told = re.sub(r"\n\s*--.*", "", saying, flags=re.S)
        yield Section(asked[1], [asked[2]]) if asked else Section("", paragraphs(told))


# --- encyclopedias and commentaries


_UNSPACED = (
    (re.compile(r" @([-,.])@ "), r"\1"),
    (re.compile(r" ([.,;:!?)\]%])"), r"\1"),
    (re.compile(r"([(\[$]) "), r"\1"),
    (re.compile(r" (n't|'(?:s|re|ve|ll|d|t|m))\b"), r"\1"),
    (re.compile(r'" ([^"]*?) "'), r'"\1"'),
    (re.compile(r"(\w) ' "), r"\1' "),
)


def wikitext(file: File) -> Iterator[Section]:
    """Read Wikipedia articles of the WikiText collection, which has a space before every punctuation mark."""
    section = Section("", [])
    title = ""
    for spaced in file.text().split("\n"):
        line = spaced
        for sign, instead in _UNSPACED:
            line = sign.sub(instead, line)
        heading = re.match(r"^ ?((?:= )+)(.*?) =", line)
        if heading:
            yield section
            title = heading[2] if heading[1] == "= " else title
            section = Section(title if heading[1] == "= " else f"{title} {heading[2].lower()}", [])
        else:
            section.paragraphs.append(line)
    yield section


_PAGE = re.compile(r"<title>([^<:]*)</title>.*?<text[^>]*>(.*?)</text>", re.S)
_WIKI_MARKS = (
    (re.compile(r"<!--.*?-->|<ref[^>]*/>|<ref.*?</ref>|<(math|gallery|timeline).*?</\1>", re.S), ""),
    *((re.compile(r"\{\{[^{}]*\}\}"), "") for _ in range(4)),
    (re.compile(r"\{\|.*?\|\}", re.S), ""),
    (re.compile(r"\[\[(?:File|Image):[^\[\]]*(?:\[\[[^\]]*\]\][^\[\]]*)*\]\]"), ""),
    (re.compile(r"\[\[(?:[^\]|]*\|)?([^\]]*)\]\]"), r"\1"),
    (re.compile(r"\[https?:\S+ ?([^\]]*)\]"), r"\1"),
    (re.compile(r"'{2,}|<[^>]+>"), ""),
)


def wikipedia(file: File) -> Iterator[Section]:
    """Read the articles of a MediaWiki dump."""
    for title, text in _PAGE.findall(file.text()):
        told = html.unescape(html.unescape(text))
        for mark, instead in _WIKI_MARKS:
            told = mark.sub(instead, told)
        lines = [line for line in told.split("\n") if len(line) > 100 and line[0] not in "*|=:;#{}! "]
        yield Section(title, lines)


_SWORD_BREAK = re.compile(r"</?(?:p|br|lb|div|milestone|title|list|item)\b[^>]*>|\0", re.I)


def sword(file: File) -> Iterator[Section]:
    """Read a compressed commentary of the SWORD project: zlib streams with zeros between them."""
    rest = file.data
    while rest:
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(rest)
        except zlib.error:
            return
        rest = stream.unused_data.lstrip(b"\0")
        text = _SWORD_BREAK.sub("\n\n", File("", data).text())
        yield Section("", paragraphs(html.unescape(re.sub(r"<[^>]+>", "", text))))


# --- games


_WML_NAME = re.compile(r'\bname\s*=\s*_\s*"([^"]+)"')
_WML_TEXT = re.compile(r'\b(?:message|story|description|summary|note|text)\s*=\s*_\s*"((?:[^"]|"")+)"')
_WML_NOISE = re.compile(r"<[^>]+>|\{[^}]*\}|\$[\w.|]+")


def wesnoth(file: File) -> Iterator[Section]:
    text = file.text()
    name = _WML_NAME.search(text)
    told = [_WML_NOISE.sub("", match.replace('""', '"')) for match in _WML_TEXT.findall(text)]
    blocks = [block for one in told for block in paragraphs(one) if not block.startswith("Death of")]
    yield Section(name[1].rpartition("^")[2] if name else "", blocks)


_SKY_NAME = re.compile(r'^(?:mission|planet|ship|outfit|\tname) [`"]([^`"]+)')
_SKY_TEXT = re.compile(r'`([^`]{12,})`|\bdescription\s+"([^"]{20,})"')


def endless_sky(file: File) -> Iterator[Section]:
    section = Section("", [])
    for line in file.text().split("\n"):
        named = _SKY_NAME.match(line)
        if named:
            yield section
            section = Section(_TAG.sub("somewhere", named[1]), [])
        else:
            section.paragraphs.extend(_TAG.sub("someone", one or two).strip() for one, two in _SKY_TEXT.findall(line))
    yield section


_NAEV_XML = re.compile(r"<(?:description|bar)>(.*?)</", re.S)
_NAEV_NAME = re.compile(r'<(?:asset|ship|outfit)\b[^>]*\bname="([^"]+)"')
_NAEV_LUA = re.compile(r'\b_\(\s*(?:\[\[(.*?)\]\]|"((?:[^"\\]|\\.)*)")', re.S)
_NAEV_NOISE = re.compile(r"#\w|\{\w+\}|%[sd]")


def naev(file: File) -> Iterator[Section]:
    text = file.text()
    if file.name.endswith(".xml"):
        name = _NAEV_NAME.search(text)
        told = [html.unescape(one) for one in _NAEV_XML.findall(text)]
    else:
        name = None
        told = [_ESCAPED.sub(r"\1", one or two).replace("\\n", "\n") for one, two in _NAEV_LUA.findall(text)]
    blocks = [block for one in told for block in paragraphs(_NAEV_NOISE.sub("it", one))]
    yield Section(name[1] if name else "", blocks)


_CRAWL_NOISE = re.compile(r"^(?:#|w:\d|:).*$|<[^<>]+>", re.M)
_CRAWL_KIND = re.compile(r"\s+(?:spell|ability|card|status)$")


def crawl(file: File) -> Iterator[Section]:
    for entry in re.split(r"^%%%%\s*$", file.text(), flags=re.M):
        told = _CRAWL_NOISE.sub("", re.sub(r"\{\{.*?\}\}", "", entry, flags=re.S)).strip()
        name, _, body = re.sub(r"@[\w ]+@", "it", told).partition("\n")
        yield Section(_CRAWL_KIND.sub("", name), paragraphs(body), entry="_" not in name)


def messages(file: File) -> Iterator[Section]:
    """Read the English side of a compiled gettext catalogue."""
    order = "<" if file.data[:4] == b"\xde\x12\x04\x95" else ">"
    count, table = struct.unpack(f"{order}II", file.data[8:16])
    for row in range(count):
        length, start = struct.unpack_from(f"{order}II", file.data, table + 8 * row)
        text = file.data[start : start + length].decode("utf-8", "replace").split("\0")[0].split("\x04")[-1]
        if len(text) >= 60 and "%" not in text:
            yield Section("", paragraphs(_TAG.sub("someone", text)))
