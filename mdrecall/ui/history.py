"""The history of a note in a git repository: its commits, what each has changed, and the text as it was then."""

import hashlib
import os

from mdrecall.errors import FileMissing
from mdrecall.life.curate import Curator, NoteContent
from mdrecall.ui.edit import show_difference
from mdrecall.ui.git import Version, read_blob, read_history
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.parts import split_note
from mdrecall.ui.read import show_raw
from mdrecall.ui.visit import Page, Visit, require_owner

#: Stands for the file as it is on the disk, in the place of a commit.
_NOW = "now"
#: As much of a commit's name as people write.
_SHORT_NAME = 10


def show_history(visit: Visit) -> Page:
    """Return the commits that have changed a note, or what one of them has changed."""
    # What was taken out of a note on purpose is still in its history.
    require_owner(visit, "The history of a note")
    note = Curator(visit.memory).read(visit.query.get("path", ""))
    history = read_history(note.place.full_path, os.environ)
    versions = list(history.versions)
    if versions and not _is_content(versions[0].blob, note.data):
        changed = int(note.place.found.st_mtime)
        path = versions[0].path
        versions.insert(0, Version(_NOW, changed, "", "Not committed yet", path, path, "", versions[0].blob, False))
    if wanted := visit.query.get("commit", ""):
        return _show_version(visit, note, versions, wanted)
    title = f"History of {note.place.path}"
    back = tag("p", tag("a", "Back to the note", href=visit.url("note", path=note.place.path)))
    return Page(title, join(tag("h1", title), back, _list(visit, note, versions, history.problem)), "notes")


def _list(visit: Visit, note: NoteContent, versions: list[Version], problem: str) -> Html:
    if not versions:
        return tag("p", "This note was never committed, so it has no history yet.", class_="quiet")
    rows = (_show_row(visit, note.place.path, version) for version in versions)
    shallow = "This is a shallow clone: older commits are not on this machine." if versions[-1].is_cut else ""
    missing = (tag("p", reason, class_="warning") for reason in (problem, shallow) if reason)
    return join(tag("ul", rows, class_="places", aria_label="Commits"), missing)


def _show_row(visit: Visit, path: str, version: Version) -> Html:
    link = tag("a", version.subject or "(no message)", href=visit.url("history", path=path, commit=version.commit))
    return tag("li", link, tag("div", _show_facts(visit, version), class_="quiet"))


def _show_facts(visit: Visit, version: Version, name: str = "") -> Html:
    facts = filter(None, (version.author, name, _describe(version)))
    return join(visit.show_time(version.seconds), (f" · {fact}" for fact in facts))


def _show_version(visit: Visit, note: NoteContent, versions: list[Version], wanted: str) -> Page:
    """Return what a commit has changed in a note, and the whole text after it."""
    path = note.place.path
    place = next((place for place, version in enumerate(versions) if version.commit == wanted), None)
    if place is None:
        # Nothing else of the repository is shown: it may hold more than notes.
        raise FileMissing(f"The history of {path} has no commit {wanted[:80]!r}.", path=path)
    version = versions[place]
    old, new = _read(visit, note, version.old_blob), _read(visit, note, version.blob)
    if version.commit == _NOW:
        new = note
    name = "" if version.commit == _NOW else version.commit[:_SHORT_NAME]
    steps = ((place + 1, "← Before"), (place - 1, "After →"))
    links = [tag("a", "All commits", href=visit.url("history", path=path), class_="button plain")]
    links += (
        tag("a", title, href=visit.url("history", path=path, commit=versions[other].commit), class_="button plain")
        for other, title in steps
        if 0 <= other < len(versions)
    )
    facts = _show_facts(visit, version, name)
    part, *others = split_note(new.text)
    title = version.subject or "(no message)"
    body = join(
        tag("h1", title),
        tag("p", tag("a", path, href=visit.url("note", path=path)), " · ", facts, class_="quiet"),
        tag("div", links, class_="row actions"),
        tag("h2", "What changed"),
        show_difference(old.text, new.text, ("before", "after")),
        tag("h2", "The text as it was then"),
        show_raw(part.text),
        tag("p", f"{others[-1].last - part.last:,} more lines are not shown.", class_="quiet") if others else None,
    )
    return Page(title[:80], body, "notes")


def _read(visit: Visit, note: NoteContent, blob: str) -> NoteContent:
    """Return the note with the content that it had in a commit."""
    max_bytes = visit.memory.settings.mdrecall.max_file_bytes
    return NoteContent(note.place, read_blob(note.place.full_path, blob, os.environ, max_bytes))


def _describe(version: Version) -> str:
    """Return what has become of the file itself; empty if only its text has changed."""
    if not version.old_path:
        return "" if version.is_cut else "added"
    if version.commit != _NOW and not version.blob:
        return "removed"
    return f"moved from {version.old_path}" if version.path != version.old_path else ""


def _is_content(blob: str, data: bytes) -> bool:
    """True if git calls a content by this name."""
    kind = "sha1" if len(blob) == 40 else "sha256"
    return hashlib.new(kind, b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest() == blob
