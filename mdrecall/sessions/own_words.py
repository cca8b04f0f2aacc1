"""The words that a person has written by hand, apart from what else a prompt holds.

People paste logs, code, tables, reviews and images, and a command expands to pages of text. Nobody said any of that:
memory does not keep it as a person's words, and does not search for it.
"""

from mdrecall.patterns import compile_later
from mdrecall.sessions.messages import strip_memory

#: A longer text was pasted, or is the expansion of a command.
MAX_CHARS = 3_000
#: A line with a smaller share of letters is the output of a program.
_LEAST_LETTERS = 0.5
# What begins a line that was copied: a quotation, a row of a table, a bracket, an element.
_COPIED = compile_later(r"[>|{}]|</?\w[^>]*>")
# What begins a line of a program's output: a difference, the prompt of a shell, a time, a place in a stack trace, the
# marks of progress. Lines between two of these are output too.
_PRINTED = compile_later(
    r"[$%]|[+-]{3} |@@|\[?\d{1,4}[-/:]\d\d[-/:]\d\d|\d\d:\d\d|at \S+[(:]|File \"|Traceback "
    r"|[\u2190-\u2bff\U0001f000-\U0001faff]"
)
_HEADING = compile_later(r"#{1,6} \S")
_PLACEHOLDER = compile_later(r"\[(?:Image|Pasted text)[^\]]{0,200}\]")
_COMMANDS = ("/", "!", "<", "[Request interrupted")
_FENCES = ("```", "~~~")
_SWITCH = compile_later(r"(?i)/?memory (on|off)\.?")


def find_switch(message: str) -> str:
    """Return ``on`` or ``off`` if a message does nothing but switch memory on or off for its session; else nothing."""
    found = _SWITCH.fullmatch(strip_memory(message).strip())
    return found[1].lower() if found else ""


def split_words(text: str) -> tuple[str, str]:
    """Return a person's own words in a message, and the rest of it."""
    said = strip_memory(text).strip()
    if said.startswith(_COMMANDS):
        return "", said
    own: list[str] = []
    rest: list[str] = []
    is_code = False
    lines = [_PLACEHOLDER.sub("", line).strip() for line in said.split("\n")]
    printed = [number for number, line in enumerate(lines) if _PRINTED.match(line)]
    output = range(printed[0], printed[-1] + 1) if printed else range(0)
    # Nobody types a heading into a prompt: what follows it is a plan or a command's text.
    end = next((number for number, line in enumerate(lines) if _HEADING.match(line)), len(lines))
    for number, bare in enumerate(lines):
        is_fence = bare.startswith(_FENCES)
        is_own = number < end and number not in output and not is_code and not is_fence and _is_written(bare)
        (own if is_own else rest).append(bare)
        is_code ^= is_fence
    written = "\n".join(filter(None, own))
    return (written, "\n".join(filter(None, rest))) if len(written) <= MAX_CHARS else ("", said)


def _is_written(line: str) -> bool:
    """True if a line looks like somebody's sentence."""
    if not line or _COPIED.match(line):
        return False
    return sum(char.isalpha() or char.isspace() for char in line) >= _LEAST_LETTERS * len(line)
