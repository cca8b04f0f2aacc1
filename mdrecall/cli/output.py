"""Output for people and for programs: colour and progress on a terminal, JSON on request, remedies for errors.

The parts below the doors name no flag and no command, because a Python program or a model may read their messages as
well. The tables here have the command-line words, keyed by the reason of an empty answer and by the class of an error.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from mdrecall import errors
from mdrecall.errors import RecallError
from mdrecall.types.documents import Issue
from mdrecall.types.search import Reason, SearchAnswer
from mdrecall.types.sync import Progress, ProgressCallback

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
#: Seconds between two drawings of the progress line: often enough to look alive, rarely enough to cost nothing.
_REDRAW_S = 0.1
#: The width of a terminal, unless somebody has made it wider.
_COLUMNS = 80
#: Characters of the progress bar: with both labels and times the line still fits into 80 columns.
_BAR_WIDTH = 24
#: Characters that a terminal shows as they are, though ``str.isprintable`` is False: a tab, blanks of other widths, and
#: the joiners in Persian words and in emoji.
_HARMLESS = frozenset("\t\xa0\u2002\u2003\u2009\u202f\u3000\u200c\u200d")


def style(text: str, *names: str, stream: TextIO | None = None) -> str:
    """Return the text in a style if ``stream`` (standard output) is a terminal with styles; NO_COLOR forbids it."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not (stream or sys.stdout).isatty()
    return text if is_plain or not text else f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output; on a terminal, control characters beyond ASCII are escaped, too."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=2)
    if sys.stdout.isatty() and not text.replace("\n", "").isprintable():
        text = "".join(char if char == "\n" or char == printable(char) else json.dumps(char)[1:-1] for char in text)
    print(text)


def show(
    options: argparse.Namespace,
    record: Any,
    *lines: str,
    notes: Iterable[str] = (),
    warnings: Iterable[str] = (),
    code: int = 0,
) -> int:
    """Print a record as JSON if the options ask for it, else lines for people; return the exit code.

    ``notes`` and ``warnings`` go to standard error. An empty line is left out.
    """
    if options.json:
        print_json(record)
        return code
    for line in filter(None, lines):
        print(line)
    for note in filter(None, notes):
        print(note, file=sys.stderr)
    print_issues(Issue("", warning) for warning in warnings if warning)
    return code


def count_rows(text: str) -> int:
    """Return how many lines of a terminal with 80 columns a text fills; where it is wider, they are fewer."""
    from unicodedata import east_asian_width

    lines = re.sub("\x1b\\[[0-9;]*m", "", text).split("\n")
    widths = (len(line) + sum(east_asian_width(char) in "WF" for char in line if char > "\x7f") for line in lines)
    return sum(max(1, -(-width // _COLUMNS)) for width in widths)


def print_text(text: str) -> None:
    """Print a text byte for byte, but on a terminal without its control characters."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(text)


def error_to_json(error: RecallError, hint: str) -> dict[str, Any]:
    """Return an error as every command prints it with ``--json``."""
    return {"error": {"type": type(error).__name__, "message": str(error), "hint": hint}}


def print_error(error: RecallError, hint: str, *, as_json: bool) -> None:
    """Print an error and its hint on standard error; with ``as_json`` also as an object on standard output."""
    if as_json:
        print_json(error_to_json(error, hint))
    for line in error.problems if isinstance(error, errors.ConfigError | errors.QuestionsError) else (str(error),):
        print(f"{style('mdrecall:', 'red', stream=sys.stderr)} {printable(line)}", file=sys.stderr)
    if hint:
        print(f"          {printable(hint)}", file=sys.stderr)


def print_issues(issues: Iterable[Issue], limit: int = 20) -> None:
    """Print problems with files on standard error, at most ``limit`` of them."""
    texts = [one.problem if one.problem.startswith(one.path) else f"{one.path} {one.problem}" for one in issues]
    for text in texts[:limit]:
        print_warning(text)
    if len(texts) > limit:
        print(f"  … and {len(texts) - limit:,} more", file=sys.stderr)


def print_parts(parts: Mapping[str, str]) -> None:
    """Print what mdrecall does in a coding agent, a line for each part."""
    for name, line in parts.items():
        print(f"  {name.capitalize() + ':':14} {shorten_home(line)}")


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    print(f"{style('!', 'yellow', stream=sys.stderr)} {shorten_home(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """Replace control characters, which could move the cursor or fake a line; a line may end as on Windows."""
    text = text.removesuffix("\r")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _HARMLESS else "\ufffd" for char in text)


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return ``1 file`` or ``2,000 files``; ``nouns`` is the plural if it is not the noun with an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def shorten_home(text: str) -> str:
    """Return a path or a text as it is printed: ``~`` for the home folder, and no control characters."""
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    text = printable(text)
    return re.sub(rf"(?<![^\s(]){re.escape(home)}", lambda _: f"~{os.sep}", text) if len(home) > 1 else text


def confirm_deletion(question: str, options: argparse.Namespace, nothing: str = "Nothing was deleted") -> bool:
    """True if ``--yes`` is given or a person agrees; raise if there is no terminal to ask on."""
    if options.yes:
        return True
    if options.json or not (sys.stdin and sys.stdin.isatty()):
        message = f"{nothing}: there is no terminal to confirm on."
        raise errors.ConfirmationMissing(message, hint="Add --yes to delete without asking.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _draw_progress(label: str, progress: Progress, elapsed_s: float) -> str:
    """Return the line: a job that describes itself in more than one word keeps its own label."""
    done, total = progress.completed, progress.total
    full = done * _BAR_WIDTH // total
    bar = f"[{'█' * full}{'·' * (_BAR_WIDTH - full)}] {done:,}/{total:,}"
    if " " in progress.label:
        return f"{printable(progress.label)} {bar}"
    if not done:
        return f"{label} {bar} "
    spent, left = int(elapsed_s), int(elapsed_s / done * (total - done))
    return f"{label} {bar} · {spent // 60}:{spent % 60:02d} · {left // 60}:{left % 60:02d} left"


@contextmanager
def progress_line(label: str) -> Iterator[ProgressCallback | None]:
    """Yield a callback that draws a progress line on standard error, or None without a terminal.

    The line is erased at the end.
    """
    if not (sys.stderr and sys.stderr.isatty()):
        yield None
        return
    start = drawn_at = time.monotonic()
    last_label = ""

    def draw(progress: Progress) -> None:
        nonlocal drawn_at, last_label
        now = time.monotonic()
        has_new_label = " " in progress.label and progress.label != last_label
        if (has_new_label or now - drawn_at >= _REDRAW_S) and progress.total:
            drawn_at, last_label = now, progress.label
            sys.stderr.write(f"\r\x1b[K{_draw_progress(label, progress, now - start)}")
            sys.stderr.flush()

    try:
        yield draw
    finally:
        if drawn_at > start:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


REMEDY_BY_REASON: dict[Reason, str] = {
    "": "",
    "no_match": "",
    "below_min_score": "To see every match, add --min-score 0.",
    "index_empty": "To search another folder, add --workspace.",
    "no_searchable_words": "",
    "scope_denied": "Run `mdrecall config show` to see the scope, memory.qmd.scope.",
}
STALE_REMEDY = "Run `mdrecall index` to update the index."


#: The command whose folder is not the workspace.
DEMO = "search --demo"
SHOW_SESSION = "Run `mdrecall sessions show` with its name."
_PROVIDERS = "config providers"
_LIST_SESSIONS = "Run `mdrecall sessions list` to see the sessions."
#: What to do about an error of a class, the command that it is for, if it is for one only, and the command that it is
#: not for, because that is the remedy itself. The first that fits is taken.
_BY_ERROR: tuple[tuple[type[RecallError], str, str, str], ...] = (
    (errors.ConfigError, "Run `mdrecall config check` to check the whole configuration.", "", "config"),
    (errors.WorkspaceError, "Use --workspace to choose one.", "", DEMO),
    (errors.NothingToWrite, "For example: mdrecall note Ana prefers tea", "note", ""),
    (errors.FileMissing, _LIST_SESSIONS, "sessions", ""),
    (errors.PathOutside, _LIST_SESSIONS, "sessions", ""),
    (errors.TranscriptRefused, SHOW_SESSION, "get", ""),
    (errors.CorruptIndex, "Run `mdrecall index --force` to rebuild the index from the notes.", "", ""),
    (errors.EmbedderError, f"Run `mdrecall {_PROVIDERS}` to see which providers can be used.", "", _PROVIDERS),
    (errors.PluginError, "Run `mdrecall doctor` to check the plugin.", "", ""),
)


def add_remedy(answer: SearchAnswer) -> SearchAnswer:
    """Return the answer with the command-line remedy at the end of its ``action``."""
    return answer.replace(action=f"{answer.action} {REMEDY_BY_REASON[answer.reason]}".strip())


def hint_for(error: RecallError, options: argparse.Namespace) -> str:
    """Return the hint of an error with its command-line remedy."""
    for kind, remedy, only, but in _BY_ERROR:
        if isinstance(error, kind) and only in ("", options.command) and options.command != but:
            return f"{error.hint} {remedy}".strip()
    return error.hint
