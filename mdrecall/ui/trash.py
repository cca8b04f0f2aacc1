"""The trash: notes that were deleted, to be restored or removed for good."""

from mdrecall.life.curate import Curator
from mdrecall.life.deleted import DeletedNote, find_deleted, list_deleted, remove_deleted
from mdrecall.ui.edit import finish
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.visit import Page, Redirect, Visit, require_owner

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
