"""Change notes: edit, add to the day, write a new one, move, delete, restore. What somebody has typed is never lost.

If a note has changed meanwhile, nothing is written, and the page shows both versions with the text still in the form.
"""

import logging
from bisect import bisect_right
from difflib import SequenceMatcher
from itertools import accumulate, islice

from mdrecall.errors import FileBusy, FileChanged, FileMissing, RecallError
from mdrecall.extras.page.markdown import MAX_WEIGHT
from mdrecall.extras.page.page import Answer, Html, Page, Redirect, Visit, join, require_owner, tag
from mdrecall.life.curate import (
    Curator,
    DeletedNote,
    NoteContent,
    count_same,
    find_deleted,
    list_deleted,
    remove_deleted,
)

_log = logging.getLogger(__name__)
#: Comparing two texts takes time that grows with the product of their lines; more than this nobody reads either.
_MAX_COMPARED = 1500
#: Lines around a difference, so that one sees where it is.
_CONTEXT = 2
_MIN_ROWS, _MAX_ROWS = 12, 40


def show_edit(visit: Visit) -> Page:
    """Return the page on which a note is edited."""
    note = Curator(visit.memory).read(visit.query.get("path", ""))
    title = f"Edit {note.place.path}"
    return Page(title, join(tag("h1", title), _edit_form(visit, note.place.path, note.text, note.hash)), "notes")


def save_note(visit: Visit) -> Answer:
    """Replace the text of a note, if it is still the one that was read."""
    path, text, known = (visit.form.get(name, "") for name in ("path", "text", "hash"))
    curator = Curator(visit.memory)
    try:
        curator.save(path, text, known)
    except (FileChanged, FileMissing):
        return _show_conflict(visit, curator, path, text)
    except RecallError as error:
        return _show_again(visit, f"Edit {path}", error, _edit_form(visit, path, text, known))
    return finish(visit, "note", path=path, done="saved")


def show_new(visit: Visit) -> Page:
    """Return the page on which a note is written."""
    form = _new_form(visit, visit.query.get("path", ""), "")
    return Page("New note", join(tag("h1", "New note"), form), "notes")


def create_note(visit: Visit) -> Answer:
    """Write a new note; one that exists is not replaced."""
    path, text = visit.form.get("path", ""), visit.form.get("text", "")
    try:
        created = Curator(visit.memory).create(path, text, visit.now)
    except RecallError as error:
        return _show_again(visit, "New note", error, _new_form(visit, path, text))
    return finish(visit, "note", path=created, done="saved")


def show_append(visit: Visit) -> Page:
    """Return the page on which something is added to a note, today's if no other one is named."""
    form = _append_form(visit, visit.query.get("path", ""), "")
    return Page("Add to a note", join(tag("h1", "Add to a note"), form), "notes")


def append_text(visit: Visit) -> Answer:
    """Add a text at the end of a note."""
    path, text = visit.form.get("path", ""), visit.form.get("text", "")
    try:
        added = visit.memory.append(text, file=path or None, now=visit.now, session_key=visit.session_key)
        if not added.bytes:
            raise FileBusy(f"{added.path} already has this text.", path=added.path, hint="Nothing was added.")
    except RecallError as error:
        return _show_again(visit, "Add to a note", error, _append_form(visit, path, text))
    lines = {"from": added.start_line, "to": added.end_line, "anchor": f"L{added.start_line}"}
    return finish(visit, "note", path=added.path, done="appended", **lines)


def show_move(visit: Visit) -> Page:
    """Return the page on which a note gets another name or folder."""
    note = Curator(visit.memory).read(visit.query.get("path", ""))
    form = _move_form(visit, note.place.path, note.place.path, note.hash)
    return Page("Move a note", join(tag("h1", f"Move {note.place.path}"), form), "notes")


def move_note(visit: Visit) -> Answer:
    """Move a note; another one is not replaced."""
    path, target, known = (visit.form.get(name, "") for name in ("path", "target", "hash"))
    try:
        moved = Curator(visit.memory).move(path, target, known, visit.now)
    except RecallError as error:
        return _show_again(visit, f"Move {path}", error, _move_form(visit, path, target, known))
    return finish(visit, "note", path=moved, done="moved")


def show_delete(visit: Visit) -> Page:
    """Return the page that asks whether a note is to be deleted."""
    note = Curator(visit.memory).read(visit.query.get("path", ""))
    path = note.place.path
    text = "It moves to the trash of this workspace, where searches do not find it. You can restore it from there."
    buttons = tag(
        "p",
        tag("button", "Delete", class_="danger"),
        tag("a", "Keep it", href=visit.url("note", path=path), class_="button plain"),
        class_="row",
    )
    form = visit.form_tag("delete", _hidden("path", path), _hidden("hash", note.hash), tag("p", text), buttons)
    return Page("Delete a note", join(tag("h1", f"Delete {path}?"), form), "notes")


def delete_note(visit: Visit) -> Redirect:
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


def _show_again(visit: Visit, title: str, error: RecallError, form: Html) -> Page:
    """Return a form with what was typed into it, and why it was not saved."""
    taken = tag("a", "Open it", href=visit.url("note", path=error.path)) if isinstance(error, FileBusy) else None
    problem = tag("p", f"{error} ", tag("span", error.hint), " ", taken, class_="problem", role="alert")
    status = 409 if isinstance(error, FileBusy | FileChanged) else 400
    return Page(title, join(tag("h1", title), problem, form), "notes", status)


def _show_conflict(visit: Visit, curator: Curator, path: str, text: str) -> Page:
    """Return a page with both versions of a note that has changed since it was read."""
    title = f"{path} has changed in the meantime"
    try:
        now = curator.read(path)
    except FileMissing:
        problem = tag("p", "The note is not there any more. Nothing was written.", class_="problem", role="alert")
        form = _new_form(visit, path, text)
        return Page(title, join(tag("h1", title), problem, form), "notes", 409)
    message = (
        "Somebody else has changed this note since you opened it, so nothing was saved. Your text is below. Copy what"
        " you need from the other version into it, then save."
    )
    return Page(
        title,
        join(
            tag("h1", title),
            tag("p", message, class_="problem", role="alert"),
            tag("h2", "What is different"),
            show_difference(now.text, text, ("on the disk", "yours")),
            tag("h2", "Your text"),
            _edit_form(visit, now.place.path, text, now.hash),
            tag("h2", "The version on the disk"),
            _show_version(now),
        ),
        "notes",
        409,
    )


def show_difference(old: str, new: str, names: tuple[str, str]) -> Html:
    """Return the lines in which two texts differ."""
    one, two = old.replace("\r\n", "\n").split("\n"), new.replace("\r\n", "\n").split("\n")
    same = count_same(one, two)
    tail = count_same(one[same:][::-1], two[same:][::-1])
    before, after = one[max(0, same - _CONTEXT) : same], one[len(one) - tail :][:_CONTEXT]
    one, two = one[same : len(one) - tail], two[same : len(two) - tail]
    lines = [_show_line(" ", line) for line in before]
    if len(one) + len(two) > _MAX_COMPARED:
        lines.append(_show_line(" ", f"… {len(one):,} lines became {len(two):,} lines …"))
    else:
        for kind, a, b, c, d in SequenceMatcher(None, one, two).get_opcodes():
            if kind == "equal":
                lines += [_show_line(" ", line) for line in _shorten(one[a:b])]
                continue
            lines += [_show_line("-", line) for line in one[a:b]]
            lines += [_show_line("+", line) for line in two[c:d]]
    lines += [_show_line(" ", line) for line in after]
    if not one and not two:
        return tag("p", "The text is the same.", class_="quiet")
    legend = tag("p", f"− {names[0]}, + {names[1]}", class_="quiet")
    fitting = bisect_right(list(accumulate(len(line.encode(errors="replace")) for line in lines)), MAX_WEIGHT // 2)
    if fitting < len(lines):
        lines[fitting:] = [_show_line(" ", f"… {len(lines) - fitting:,} more lines …")]
    return join(legend, tag("pre", lines, class_="difference", tabindex=0, role="region", aria_label="Differences"))


def _shorten(same: list[str]) -> list[str]:
    """Return the first and last of some lines that are the same in both texts."""
    left_out = len(same) - 2 * _CONTEXT
    if left_out < 2:
        return same
    return [*same[:_CONTEXT], f"… {left_out:,} lines are the same …", *same[-_CONTEXT:]]


def _show_line(sign: str, line: str) -> Html:
    elements = {"-": "del", "+": "ins"}
    return tag(elements.get(sign, "span"), f"{'−' if sign == '-' else sign} {line}\n")


def _show_version(note: NoteContent) -> Html:
    shown = "\n".join(islice(note.text.split("\n"), _MAX_COMPARED))
    return tag("pre", shown, tabindex=0, role="region", aria_label="The version on the disk")


def _edit_form(visit: Visit, path: str, text: str, known: str) -> Html:
    back = tag("a", "Cancel", href=visit.url("note", path=path), class_="button plain")
    buttons = tag("p", tag("button", "Save"), back, class_="row")
    return visit.form_tag("edit", _hidden("path", path), _hidden("hash", known), _text_field(text), buttons)


def _new_form(visit: Visit, path: str, text: str) -> Html:
    name = tag("input", name="path", value=path, required=True, size=50, autocomplete="off", spellcheck="false")
    hint = tag("p", "For example people/priya. Folders that do not exist are created.", class_="quiet")
    buttons = tag("p", tag("button", "Save"), class_="row")
    return visit.form_tag("new", tag("p", tag("label", "Name ", name)), hint, _text_field(text), buttons)


def _append_form(visit: Visit, path: str, text: str) -> Html:
    name = tag("input", name="path", value=path, size=40, autocomplete="off", spellcheck="false")
    label = tag("p", tag("label", "Note ", name), tag("span", " leave empty to add to today’s note", class_="quiet"))
    return visit.form_tag("append", label, _text_field(text), tag("p", tag("button", "Add"), class_="row"))


def _move_form(visit: Visit, path: str, target: str, known: str) -> Html:
    name = tag("input", name="target", value=target, required=True, size=60, autocomplete="off", spellcheck="false")
    hint = tag("p", "Links in other notes that name its path are not changed.", class_="quiet")
    back = tag("a", "Cancel", href=visit.url("note", path=path), class_="button plain")
    buttons = tag("p", tag("button", "Move"), back, class_="row")
    label = tag("p", tag("label", "New name or path ", name))
    return visit.form_tag("move", _hidden("path", path), _hidden("hash", known), label, hint, buttons)


def _text_field(text: str) -> Html:
    rows = min(_MAX_ROWS, max(_MIN_ROWS, text.count("\n") + 2))
    # A browser leaves out the first line end of a text field.
    return tag("textarea", f"\n{text}", name="text", rows=rows, aria_label="Text", data_guard=True, spellcheck="true")


def _hidden(name: str, value: str) -> Html:
    return tag("input", type="hidden", name=name, value=value)


#: More are not listed at once; restoring or removing some shows the next.
_MAX_LISTED = 100


def show_trash(visit: Visit) -> Page:
    """Return the page of the notes that were deleted."""
    require_owner(visit, "The trash")
    notes = list_deleted(visit.memory.settings.workspace)
    heading = tag("h1", "Deleted notes")
    if not notes:
        return Page("Trash", join(heading, tag("p", "The trash is empty.", class_="quiet")), "notes")
    rows = (_show_row(visit, note) for note in notes[:_MAX_LISTED])
    more = len(notes) - _MAX_LISTED
    rest = tag("p", f"And {more:,} more.", class_="quiet") if more > 0 else None
    return Page("Trash", join(heading, tag("ul", rows, class_="places", aria_label="Deleted notes"), rest), "notes")


def restore_note(visit: Visit) -> Redirect:
    """Put a deleted note back where it was."""
    path = Curator(visit.memory).restore(visit.form.get("id", ""))
    return finish(visit, "note", path=path, done="restored")


def remove_for_good(visit: Visit) -> Redirect:
    """Remove a deleted note from the trash."""
    workspace = visit.memory.settings.workspace
    remove_deleted(workspace, find_deleted(workspace, visit.form.get("id", "")))
    return Redirect(visit.url("trash", done="removed"))


def _show_row(visit: Visit, note: DeletedNote) -> Html:
    chosen = tag("input", type="hidden", name="id", value=note.inside)
    restore = visit.form_tag("restore", chosen, tag("button", "Restore", class_="plain"))
    remove = visit.form_tag("trash", chosen, tag("button", "Remove for good", class_="danger"))
    when = visit.show_time(note.at)
    facts = tag("div", "deleted ", when, f" · {note.bytes:,} bytes", class_="quiet")
    return tag("li", note.path, facts, tag("div", restore, remove, class_="row") if visit.can_change else None)
