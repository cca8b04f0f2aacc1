"""Every error that mdrecall raises on purpose.

RecallError
├── ConfigError            a configuration file or setting cannot be used
├── WorkspaceError         the workspace is missing or not a folder
├── MemoryDisabled         the configuration switches this agent's memory off
├── MemoryClosed           it was closed, and is asked again
├── QueryError             the query is blank, or its lowest score no number
├── ConfirmationMissing    something would be deleted, and nobody agreed to it
├── QuestionsError         the questions of an evaluation cannot be used
├── ReadError              a file will not be read
│   ├── PathOutside            not one of the memory files
│   ├── NotMarkdown            the name does not end in .md
│   ├── SymlinkRefused         a symbolic link stands on the way
│   ├── NotAFile               a folder, pipe, socket or device
│   ├── FileTooLarge           larger than the configured limit
│   ├── FileMissing            nothing there
│   └── FileUnreadable         the system refuses
├── WriteError             a note will not be written
│   ├── PathRefused            not a note that may be written
│   ├── NothingToWrite         the text is blank
│   ├── FileBusy               another process keeps the file
│   └── FileUnwritable         a link on the way, a full disk, or no permission
├── SessionsError          sessions.json cannot be used
├── ArgumentError          an argument of a tool is missing or of the wrong kind
├── PluginError            a plugin cannot be used
├── PackageMissing         a Python package that is only needed here is not installed
├── BackendUnavailable     a backend cannot answer now; another one may
│   ├── BackendNotReady        it is still making its first index
│   ├── ProgramMissing         its program is not there or cannot be started
│   ├── ProgramTimedOut        its program took longer than it may, and was killed
│   ├── ProgramStopped         its program was killed because nobody waits for it any more
│   ├── ProgramBusy            its database is locked by another process
│   ├── ProgramFailed          its program ended with an error
│   └── ProgramUnreadable      what its program said is not an answer
├── EmbedderError          texts cannot be turned into vectors
│   ├── EmbedderUnavailable    a package is missing, or a server cannot be reached
│   ├── KeyRefused             a key is missing, or the provider does not take it
│   ├── RateLimited            the provider accepts no more requests for now
│   │   └── QuotaExhausted         the account's quota is used up; waiting does not help
│   ├── InputRefused           a text is too long or otherwise not taken
│   ├── WrongAnswer            a server's answer is not what was asked for
│   │   └── NotThere               it does not know the address, model, job or file
│   ├── JobFailed              a batch job has failed, expired, or taken too long
│   └── ModelFileError         a model's file is missing, damaged, or another one
└── StoreError             the index cannot be used
    ├── NewerIndex             written by a later mdrecall; left as it is
    ├── ForeignDatabase        not an mdrecall index; left as it is
    ├── CorruptIndex           damaged; it will be set aside and rebuilt
    ├── StoreBusy              another process keeps writing
    └── StoreUnavailable       disk full, read-only, or no permission

The message says what is wrong and names the thing; ``hint`` says the way out.
"""

from collections.abc import Iterable


class RecallError(Exception):
    """Anything that mdrecall could not do, with the way out in ``hint``."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def message_with_hint(error: RecallError) -> str:
    """What is wrong and the way out, as one text."""
    return f"{error} {error.hint}".strip()


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one if any is near, and all of them."""
    import difflib

    names = list(known)
    by_folded = {other.lower(): other for other in names}
    listed = ", ".join(names)
    close = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return f"; did you mean {by_folded[close[0]]}? Known here: {listed}" if close else f"; known here: {listed}"


class ConfigError(RecallError):
    """A configuration file or setting cannot be used; ``problems`` lists everything that is wrong."""

    def __init__(self, message: str, *, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems or (message,)


class WorkspaceError(RecallError):
    """The workspace is missing or not a folder."""


class MemoryDisabled(RecallError):
    """The configuration switches this agent's memory off."""


class MemoryClosed(RecallError):
    """The memory was closed, and is asked something again."""


class QueryError(RecallError):
    """The query is blank, or its lowest score is not a number."""


class ConfirmationMissing(RecallError):
    """Something would be deleted, and nobody has agreed to it."""


class QuestionsError(RecallError):
    """The questions of an evaluation cannot be used; ``problems`` names every line that is wrong."""

    def __init__(self, message: str, *, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems or (message,)


class ReadError(RecallError):
    """A file will not be read; ``path`` is what was asked for."""

    def __init__(self, message: str, *, path: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class PathOutside(ReadError):
    """The path is not one of the memory files."""


class NotMarkdown(ReadError):
    """The name does not end in .md."""


class SymlinkRefused(ReadError):
    """A symbolic link stands on the way to the file."""


class NotAFile(ReadError):
    """A folder, pipe, socket or device stands at the path."""


class FileTooLarge(ReadError):
    """The file is larger than the configured limit."""


class FileMissing(ReadError):
    """Nothing stands at the path."""


class FileUnreadable(ReadError):
    """The system refuses to open or read the file."""


class WriteError(RecallError):
    """A note will not be written; ``path`` is the file that was meant."""

    def __init__(self, message: str, *, path: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class PathRefused(WriteError):
    """The path is not that of a note that may be written."""


class NothingToWrite(WriteError):
    """The text is blank."""


class FileBusy(WriteError):
    """Another process keeps the file for itself."""


class FileUnwritable(WriteError):
    """A link stands on the way, the disk is full, or the system refuses."""


class SessionsError(RecallError):
    """``sessions.json`` cannot be read or written, or another process keeps it; it is left as it is."""


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
    """A Python package that is only needed for this is not installed; ``extra`` is what installs it."""

    def __init__(self, message: str, *, extra: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.extra = extra


class BackendUnavailable(RecallError):
    """A backend cannot answer now; what was asked of it can be asked of another one."""


class BackendNotReady(BackendUnavailable):
    """A backend is still making its first index."""


class ProgramMissing(BackendUnavailable):
    """The program of a backend is not there or cannot be started."""


class ProgramTimedOut(BackendUnavailable):
    """The program of a backend took longer than it may; it was killed with all that it had started."""


class ProgramStopped(BackendUnavailable):
    """The program of a backend was killed, or not started, because nobody waits for it any more."""


class ProgramBusy(BackendUnavailable):
    """The database of a backend's program is locked by another process."""


class ProgramFailed(BackendUnavailable):
    """The program of a backend ended with an error; ``code`` and ``output`` are what it left."""

    def __init__(self, message: str, *, hint: str = "", code: int = 0, output: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.output = output


class ProgramUnreadable(BackendUnavailable):
    """What the program of a backend said is not an answer."""


class EmbedderError(RecallError):
    """Texts cannot be turned into vectors."""


class EmbedderUnavailable(EmbedderError):
    """A package that the embedder needs is missing, or a server cannot be reached."""


class KeyRefused(EmbedderError):
    """A key is missing, or the provider does not take it."""


class RateLimited(EmbedderError):
    """The provider accepts no more requests for now."""


class QuotaExhausted(RateLimited):
    """The account's quota is used up or its billing is inactive, so waiting does not help."""


class WrongAnswer(EmbedderError):
    """A server's answer is not what was asked for; none of it is used."""


class NotThere(WrongAnswer):
    """A server does not know the address, model, job or file that it was asked for."""


class JobFailed(EmbedderError):
    """A batch job has failed, expired, or taken too long."""


class InputRefused(EmbedderError):
    """The embedder does not take a text; a shorter one may do."""


class ModelFileError(EmbedderError):
    """A model's file is missing, damaged, or another one than expected."""


class StoreError(RecallError):
    """The index cannot be used."""


class NewerIndex(StoreError):
    """The index was written by a later mdrecall and is left as it is."""


class ForeignDatabase(StoreError):
    """The file is not an mdrecall index and is left as it is."""


class CorruptIndex(StoreError):
    """The index is damaged; it is set aside and rebuilt."""


class StoreBusy(StoreError):
    """Another process keeps writing to the index."""


class StoreUnavailable(StoreError):
    """The disk is full, read-only, or closed to this user."""
