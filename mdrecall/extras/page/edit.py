"""Change notes: edit, add to the day, write a new one, delete, restore. What somebody has typed is never lost.

If a note has changed meanwhile, nothing is written, and the page shows both versions with the text still in the form.
"""

import logging
import re
from difflib import unified_diff
from itertools import islice

from mdrecall.errors import FileBusy, FileChanged, FileMissing, RecallError
from mdrecall.extras.page.html import Html, hide, join, read_title, render_note, split_note, tag
from mdrecall.extras.page.page import Answer, Page, Redirect, Visit, error_page, require_owner, show_list, show_row
from mdrecall.extras.page.read import make_urls
from mdrecall.life.curate import Curator, DeletedNote, find_deleted, list_deleted, remove_deleted
from mdrecall.notes.editing import change_error, replace_content

_log = logging.getLogger(__name__)
#: Comparing two texts takes time that grows with the product of their lines.
_MAX_COMPARED = 4_000
#: What is shown of a difference: with the form below it, a page stays light.
_MAX_LINES, _MAX_LINE_CHARS = 500, 120
_MIN_ROWS, _MAX_ROWS = 12, 40
#: The box of a task at the beginning of a line, after the marks of quotes and lists.
_TASK = re.compile(rb"[\s>]*(?:(?:[-+*]|\d{1,9}[.)])\s+)*\[([ xX])\]\s")


def get_edit(visit: Visit) -> Page:
    """Return the page on which a note is edited."""
    note = Curator(visit.memory).read(visit.query.get("path", ""))
    title, about = f"Edit {read_title(note.text, note.path)}", tag("p", note.path, class_="about quiet mono")
    return Page(title, join(tag("h1", title), about, _edit_form(visit, note.path, note.text, note.hash)), "notes")


def get_new(visit: Visit) -> Page:
    """Return the page on which a note is written."""
    return Page("New note", join(tag("h1", "New note"), _edit_form(visit, visit.query.get("path", ""), "")), "notes")


def post_edit(visit: Visit) -> Answer:
    """Replace the text of a note if it is still the one that was read; without a hash, write a new one."""
    path, text, known = (visit.form.get(name, "") for name in ("path", "text", "hash"))
    curator = Curator(visit.memory)
    try:
        if known:
            curator.save(path, text, known)
        else:
            path = curator.create(path, text, visit.now)
    except (FileChanged, FileMissing):
        return _show_conflict(visit, curator, path, text)
    except RecallError as error:
        form = _edit_form(visit, path, text, known)
        return _show_again(visit, f"Edit {path}" if known else "New note", error, form)
    return finish(visit, "note", path=path, done="saved")


def post_preview(visit: Visit) -> Html:
    """Return the beginning of a text that is being edited as HTML, for a page that shows it beside the form."""
    path, part = visit.form.get("path", ""), split_note(visit.form.get("text", ""))[0]
    rendered = render_note(part.text, make_urls(visit, path), None)
    return tag("p", "This is too complex to render.", class_="quiet") if rendered is None else rendered


def post_task(visit: Visit) -> Answer:
    """Tick a task of a note, or take the tick off: a single character changes. Nothing does if the note has changed."""
    path, known, number = visit.form.get("path", ""), visit.form.get("hash", ""), visit.number("line")
    try:
        note = Curator(visit.memory).read(path)
        lines = note.data.split(b"\n")
        found = _TASK.match(lines[number - 1]) if 0 < number <= len(lines) and note.hash == known else None
        if found is None:
            raise change_error(path)
        place = len(b"\n".join([*lines[: number - 1], b""])) + found.start(1)
        content = note.data[:place] + (b"x" if found[1] == b" " else b" ") + note.data[place + 1 :]
        replace_content(note.root, note.inside, content, known)
    except (FileChanged, FileMissing) as error:
        return _show_again(visit, "This note has changed in the meantime", error)
    if visit.form.get("back") == "home":
        return finish(visit, "home", done="ticked")
    return finish(visit, "note", path=path, page=visit.number("page") or None, anchor=f"L{number}")


def post_append(visit: Visit) -> Answer:
    """Add a text at the end of a note."""
    path, text = visit.form.get("path", ""), visit.form.get("text", "")
    try:
        added = visit.memory.append(text, file=path or None, now=visit.now, session_key=visit.session_key)
        if not added.bytes:
            raise FileBusy(f"{added.path} already has this text.", path=added.path, hint="Nothing was added.")
    except RecallError as error:
        form = _text_form(visit, "append", text, path, hide(path=path))
        return _show_again(visit, "Add to a note", error, form)
    lines = {"from": added.start_line, "to": added.end_line, "anchor": f"L{added.start_line}"}
    return finish(visit, "note", path=added.path, done="appended", **lines)


def post_delete(visit: Visit) -> Redirect:
    """Move a note to the trash."""
    path, known = visit.form.get("path", ""), visit.form.get("hash", "")
    Curator(visit.memory).delete(path, known, visit.now)
    return finish(visit, "trash", done="deleted")


def finish(visit: Visit, view: str, **params: str | int | None) -> Redirect:
    """Bring the index up to date after a change, and lead to a view."""
    try:
        visit.memory.sync()
    except RecallError as error:
        # The note itself is written; the next search looks for changes again.
        _log.warning("The index could not be brought up to date: %s", error)
    return Redirect(visit.url(view, **params))


def _show_again(visit: Visit, title: str, error: RecallError, form: Html | None = None) -> Page:
    """Return a form with what was typed into it, why it was not saved, and a link to the note that is there."""
    url = visit.url("note", path=error.path) if isinstance(error, FileBusy | FileChanged) else ""
    link = tag("p", tag("a", "Open the note as it is now", href=url)) if url else None
    return error_page(error, 409 if url else 400, link, form, title=title, section="notes")


def _show_conflict(visit: Visit, curator: Curator, path: str, text: str) -> Page:
    """Return a page with both versions of a note that has changed since it was read."""
    try:
        now = curator.read(path)
        title = f"{read_title(now.text, path)} has changed in the meantime"
        message = (
            "Somebody else has changed this note since you opened it, so nothing was saved. Your text is below. Copy"
            " what you need from the other version into it, then save."
        )
        form = join(tag("h2", "Your text"), _edit_form(visit, now.path, text, now.hash))
        rest = join(tag("h2", "What is different"), show_difference(now.text, text), form)
    except FileMissing:
        title, rest = f"{path} is gone", _edit_form(visit, path, text)
        message = "The note is not there any more. Nothing was written."
    return Page(title, join(tag("h1", title), tag("p", message, class_="warning", role="alert"), rest), "notes", 409)


def show_difference(old: str, new: str) -> Html:
    """Return two texts as one, the lines marked that only one of them has."""
    one, two = (text.replace("\r\n", "\n").split("\n") for text in (old, new))
    if len(one) + len(two) > _MAX_COMPARED:
        return tag("p", "The texts are too long to be compared here.", class_="quiet")
    # The first lines name the texts and the place.
    found = islice(unified_diff(one, two, n=_MAX_COMPARED, lineterm=""), 3, _MAX_LINES + 3)
    kinds = {"-": ("del", "on the disk"), "+": ("ins", "yours")}
    lines = [
        tag(element, f"{line[1 : _MAX_LINE_CHARS + 1]}\n", title=whose)
        for line in found
        for element, whose in (kinds.get(line[0], ("span", None)),)
    ]
    legend = tag("p", tag("del", "on the disk"), " ", tag("ins", "yours"))
    shown = tag("pre", lines, class_="difference", tabindex=0, role="region", aria_label="Differences")
    return join(legend, shown) if lines else tag("p", "The text is the same.", class_="quiet")


def _edit_form(visit: Visit, path: str, text: str, known: str = "") -> Html:
    """Return the form of a note; one without a hash is new, and asks for a name."""
    if known:
        return _text_form(visit, "edit", text, path, hide(path=path, hash=known))
    name = tag("input", name="path", value=path, required=True, size=50, autocomplete="off", spellcheck="false")
    hint = tag("p", "For example people/priya. Folders that do not exist are created.", class_="quiet")
    return _text_form(visit, "edit", text, "", tag("p", tag("label", "Name ", name)), hint)


def _text_form(visit: Visit, view: str, text: str, path: str, *fields: Html) -> Html:
    """Return a form with a text and its preview, and the way back to its note."""
    rows = min(_MAX_ROWS, max(_MIN_ROWS, text.count("\n") + 2))
    # A browser leaves out the first line end of a text field.
    field = tag("textarea", f"\n{text}", name="text", rows=rows, aria_label="Text", data_guard=True, spellcheck="true")
    back = tag("a", "Cancel", href=visit.url("note" if path else "notes", path=path), class_="button plain")
    shown = tag("div", field, class_="beside-text", data_preview=visit.url("preview"))
    return visit.form_tag(view, fields, shown, tag("p", tag("button", "Save"), back, class_="row"))


#: More are not listed at once; restoring or removing some shows the next.
_MAX_LISTED = 100


def get_trash(visit: Visit) -> Page:
    """Return the page of the notes that were deleted."""
    require_owner(visit, "The trash")
    notes = list_deleted(visit.memory.settings.workspace)
    rows = [_show_deleted(visit, note) for note in notes[:_MAX_LISTED]]
    more = f" And {len(notes) - len(rows):,} more." if len(notes) > len(rows) else ""
    about = f"They stay here until you remove them for good.{more}" if rows else "The trash is empty."
    listed = show_list("", rows, aria_label="Deleted notes")
    return Page("Trash", join(tag("h1", "Deleted notes"), tag("p", about, class_="quiet where"), listed), "notes")


def _show_deleted(visit: Visit, note: DeletedNote) -> Html:
    restore = visit.button("restore", "Restore", id=note.inside)
    remove = visit.button("trash", "Remove for good", "danger", id=note.inside)
    return show_row(note.path, join("deleted ", visit.show_time(note.at)), restore, remove)


def post_restore(visit: Visit) -> Redirect:
    """Put a deleted note back where it was."""
    path = Curator(visit.memory).restore(visit.form.get("id", ""))
    return finish(visit, "note", path=path, done="restored")


def post_trash(visit: Visit) -> Redirect:
    """Remove a deleted note from the trash."""
    workspace = visit.memory.settings.workspace
    remove_deleted(workspace, find_deleted(workspace, visit.form.get("id", "")))
    return Redirect(visit.url("trash", done="removed"))
