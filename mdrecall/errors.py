"""Every error that mdrecall raises on purpose; ``docs/errors.md`` draws them as a tree.

The message says what is wrong, and ``hint`` what to do about it. A caller would act differently on the names in
``__all__``, which are public. The others say more exactly what happened: in reports, and in an answer as its type.
"""

from collections.abc import Callable, Iterable

__all__ = [
    "ArgumentError", "BackendUnavailable", "ConfigError", "EmbedderError", "FileBusy", "FileMissing", "MemoryClosed",
    "MemoryDisabled", "PackageMissing", "PathOutside", "PluginError", "QueryError", "QuestionsError", "ReadError",
    "RecallError", "ScopeDenied", "StoreBusy", "StoreError", "WorkspaceError", "WriteError",
]  # fmt: skip


class RecallError(Exception):
    """The base of all errors; ``hint`` says what to do."""

    def __init__(self, message: str, *, hint: str | Callable[[], str] = "") -> None:
        """A hint that takes long to find is a function, which is called only if somebody reads it."""
        super().__init__(message)
        self._hint = hint

    @property
    def hint(self) -> str:
        return self._hint if isinstance(self._hint, str) else self._hint()


def message_with_hint(error: RecallError) -> str:
    """Return the message of an error and its hint as one text."""
    return join_sentences(str(error), error.hint)


def join_sentences(message: str, advice: str) -> str:
    """Return a message and what to do about it as one text; OpenClaw's own messages end without a full stop."""
    if not advice:
        return message
    return f"{message} {advice}" if message.endswith((".", "!", "?", ":")) else f"{message}. {advice}"


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one if any is near, and all of them."""
    import difflib

    by_folded = {other.lower(): other for other in known}
    listed = ", ".join(by_folded.values())
    close = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return f"; did you mean {by_folded[close[0]]}? Known here: {listed}" if close else f"; known here: {listed}"


def install_command(name: str, *, upgrade: bool = False) -> str:
    """Return the command that installs a package, or the packages of an extra, for the Python that is running.

    The packages of an extra are named one by one: pip does not know where mdrecall itself came from.
    """
    import re
    import sys
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.util import find_spec

    from mdrecall import platform

    try:
        extra = re.compile(rf";.*\bextra == ['\"]{re.escape(name)}['\"]")
        wanted = [text.partition(";")[0].strip() for text in requires("mdrecall") or () if extra.search(text)] or [name]
    except PackageNotFoundError:
        # It runs from a clone that is not installed. pip finds the extra there.
        wanted = [f"{__file__.rpartition('/mdrecall/')[0]}[{name}]"]
    is_there = find_spec("pip") is not None
    pip = [sys.executable, "-m", "pip", "install"] if is_there else ["uv", "pip", "install", "-p", sys.executable]
    return platform.join_command([*pip, *(["-U"] if upgrade else []), *wanted])


class ConfigError(RecallError):
    """A configuration file or setting cannot be used; ``problems`` lists every problem."""

    def __init__(self, message: str, *, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems or (message,)


class WorkspaceError(RecallError):
    """The workspace is missing or not a folder."""

    def __init__(self, message: str, *, hint: str = "", is_openclaws: bool = False) -> None:
        """``is_openclaws`` says that OpenClaw names the folder, and makes it when the agent is first used."""
        super().__init__(message, hint=hint)
        self.is_openclaws = is_openclaws


class MemoryDisabled(RecallError):
    """The configuration switches this agent's memory off."""


class MemoryClosed(RecallError):
    """A call to a memory that was closed."""


class QueryError(RecallError):
    """The query is blank, or a day or the minimum score is wrong; ``name`` is the part of the request."""

    def __init__(self, message: str, *, hint: str = "", name: str = "query") -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ConfirmationMissing(RecallError):
    """Something would be deleted, and nobody has confirmed it."""


class QuestionsError(RecallError):
    """The questions of an evaluation cannot be used; ``problems`` names every line that is wrong."""

    def __init__(self, message: str, *, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems or (message,)


class ReadError(RecallError):
    """A file cannot be read; ``path`` is the requested path."""

    def __init__(self, message: str, *, path: str, hint: str | Callable[[], str] = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class PathOutside(ReadError):
    """The path is not one of the memory files."""


class TranscriptRefused(PathOutside):
    """The path is that of a transcript, which is not a memory file."""


class ScopeDenied(ReadError):
    """The conversation that asks may not use this memory."""


class NotMarkdown(ReadError):
    """The name does not end in .md, or the file is not text."""


class SymlinkRefused(ReadError):
    """A symbolic link is part of the path to the file."""


class NotAFile(ReadError):
    """The path is a folder, pipe, socket or device."""


class FileTooLarge(ReadError):
    """The file is larger than the configured limit."""


class FileMissing(ReadError):
    """There is no file at the path."""


class FileUnreadable(ReadError):
    """The system does not allow opening or reading the file."""


class WriteError(RecallError):
    """A note cannot be written; ``path`` is the file."""

    def __init__(self, message: str, *, path: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class PathRefused(WriteError):
    """The path is not a note that may be written."""


class NothingToWrite(WriteError):
    """The text is blank."""


class FileBusy(WriteError):
    """Another process has locked the file."""


class FileChanged(WriteError):
    """The file is no longer the one that was read; nothing was written."""


class FileUnwritable(WriteError):
    """A link is part of the path, the disk is full, or the system does not allow it."""


class SessionsError(RecallError):
    """``sessions.json`` cannot be read or written, or another process has locked it; it is not changed."""


class SyncError(RecallError):
    """The memory cannot be synced with other machines now."""


class ArgumentError(RecallError):
    """An argument of a tool is missing or of the wrong kind; ``name`` is the argument."""

    def __init__(self, message: str, *, name: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.name = name


class PluginError(RecallError):
    """A plugin cannot be used; ``plugin`` is its id."""

    def __init__(self, message: str, *, plugin: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.plugin = plugin


class PackageMissing(RecallError):
    """An optional Python package is not installed; ``extra`` names the extra that installs it."""

    def __init__(self, message: str, *, extra: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.extra = extra


class BackendUnavailable(RecallError):
    """A backend cannot answer now; the same call may be made to another one."""


class BackendNotReady(BackendUnavailable):
    """A backend is still building its first index."""


class ProgramMissing(BackendUnavailable):
    """The program of a backend is not installed or cannot be started."""


class ProgramTimedOut(BackendUnavailable):
    """The program of a backend exceeded its time limit; it was killed with all processes that it had started."""


class ProgramStopped(BackendUnavailable):
    """The program of a backend was killed, or not started, because nobody waits for it any more."""


class ProgramBusy(BackendUnavailable):
    """The database of a backend's program is locked by another process."""


class ProgramFailed(BackendUnavailable):
    """The program of a backend ended with an error; ``code`` is its exit code, ``output`` what it printed."""

    def __init__(self, message: str, *, hint: str = "", code: int = 0, output: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.output = output


class ProgramUnreadable(BackendUnavailable):
    """The output of a backend's program is not an answer."""


class EmbedderError(RecallError):
    """Texts cannot be embedded."""


class EmbedderUnavailable(EmbedderError):
    """A package that the embedder needs is missing, or a server cannot be reached."""


class KeyRefused(EmbedderError):
    """A key is missing, or the provider rejects it."""


class RateLimited(EmbedderError):
    """The provider accepts no more requests for now."""


class QuotaExhausted(RateLimited):
    """The account's quota is used up or its billing is inactive, so waiting does not help."""


class WrongAnswer(EmbedderError):
    """A server's answer is not what was requested; none of it is used."""


class NotThere(WrongAnswer):
    """A server does not know the requested address, model, job or file."""


class InputRefused(EmbedderError):
    """The embedder rejects a text; a shorter one may work."""


class ModelFileError(EmbedderError):
    """A model's file is missing, damaged, or not the expected one."""


class StoreError(RecallError):
    """The index cannot be used."""


class NewerIndex(StoreError):
    """The index was written by a later mdrecall and is not changed."""


class ForeignDatabase(StoreError):
    """The file is not an mdrecall index and is not changed."""


class CorruptIndex(StoreError):
    """The index is damaged; it is quarantined and rebuilt."""


class StoreBusy(StoreError):
    """Another process is writing to the index."""


class StoreUnavailable(StoreError):
    """The disk is full or read-only, or this user has no permission."""


#: What a bug raises on a text that nobody has thought of: it costs that text, and not the run that met it.
BUGS = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
