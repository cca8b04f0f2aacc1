"""Forget something: see every place that holds it, then remove or mask it there, and keep it from coming back.

What is to be forgotten is sent in a form and never in an address, which a browser would remember.
"""

from collections.abc import Sequence, Set
from contextlib import suppress
from datetime import timedelta

from mdrecall.config.environment import shorten
from mdrecall.errors import ArgumentError, QueryError, RecallError
from mdrecall.extras.page.html import Child, Html, hide, join, mark, plural, show_day, strip_lines, tag
from mdrecall.extras.page.page import Answer, Page, Redirect, Visit, error_page, require_owner, show_list, show_row
from mdrecall.life.forget import ForgetPlan, ForgetRequest, Forgetting, Forgotten
from mdrecall.life.forget_places import Place
from mdrecall.life.journal import empty_expired
from mdrecall.text.tombstones import find_runs, join_spans, read_phrase
from mdrecall.text.words import fold

_TITLE = "Forget"
#: More notes that have it in their name are about other things.
_MAX_FOUND = 8
_MAX_LISTED = 100
#: As much of a text as its name in a heading.
_MAX_NAMED = 80
#: A form may have 200 fields.
_MAX_BOXES = 150
#: The beginning of a field that leaves a place out; the rest is its citation.
_LEAVE = "leave "
_KINDS = {
    "note": "Notes",
    "deletion": "Deleted notes",
    "host": "Files that coding agents keep",
    "transcript": "Conversations",
    "copy": "Copies of conversations",
    "state": "Files of mdrecall",
    "memory": "Long-term memories",
}
#: The places whose lines can be forgotten alone, and those of which nothing is kept for an undo.
_CHOOSABLE, _NOT_KEPT = frozenset(("note", "host")), frozenset(("copy", "state", "memory"))


def get_forget(visit: Visit) -> Page:
    """Return the page that asks what to forget, with what was forgotten."""
    forgetting = _open(visit)
    if visit.can_change:
        # What can be undone until a day is not kept longer, and what was broken off is finished.
        empty_expired(visit.memory.settings.index_path, f"{visit.now:%Y-%m-%d}")
        with suppress(RecallError):
            if not all(entry.is_done for entry in forgetting.list_forgotten()):
                forgetting.finish()
    rest = _show_forgotten(visit, forgetting.list_forgotten())
    return Page(_TITLE, join(tag("h1", _TITLE), _ask(visit, "", visit.query.get("path", "")), rest), "forget")


def post_forget(visit: Visit) -> Page:
    """Return the page with every place that would be cleared; nothing is changed."""
    try:
        plan = _open(visit).plan(_read_request(visit), visit.now)
    except QueryError as error:
        form = _ask(visit, visit.form.get("text", ""), visit.form.get("path", ""))
        return error_page(error, 400, form, title=_TITLE, section="forget")
    return _show_plan(visit, plan)


def post_forget_apply(visit: Visit) -> Answer:
    """Forget what the page has shown; if the places are others by now, or some are left out, show them first."""
    forgetting = _open(visit)
    plan = forgetting.plan(_read_request(visit), visit.now)
    if visit.form.get("token", "") != plan.token:
        return _show_plan(visit, plan, has_changed=True)
    if left_out := {name.removeprefix(_LEAVE) for name in visit.form if name.startswith(_LEAVE)}:
        return _leave_out(visit, forgetting, plan, left_out)
    is_complete = forgetting.apply(plan, visit.now)
    return Redirect(visit.url("forget", done="forgotten" if is_complete else "unfinished"))


def _leave_out(visit: Visit, forgetting: Forgetting, plan: ForgetPlan, left_out: Set[str]) -> Page:
    """Return the page that asks to forget only some lines of notes, and says where the text stays."""
    chosen = [each.citation for each in plan.places if each.kind in _CHOOSABLE and each.citation not in left_out]
    if not chosen:
        raise ArgumentError("Every line was left out.", name="leave", hint="Go back, and leave fewer of them out.")
    visit = visit._replace(form={"path": "\n".join(dict.fromkeys(chosen)), "gone": visit.form.get("gone", "")})
    part = forgetting.plan(_read_request(visit), visit.now)
    cleared = {each.citation for each in part.places}
    return _show_plan(visit, part, stays=[each for each in plan.places if each.citation not in cleared])


def post_forget_undo(visit: Visit) -> Redirect:
    """Let something come back that was forgotten."""
    restored = _open(visit).undo(visit.form.get("id", ""))
    return Redirect(visit.url("forget", done="restored" if restored else "allowed"))


def _open(visit: Visit) -> Forgetting:
    from mdrecall.plugins import open_forgetting

    require_owner(visit, "Forgetting")
    return open_forgetting(visit.memory)


def _read_request(visit: Visit) -> ForgetRequest:
    form = visit.form
    text, path = form.get("text", "").strip(), form.get("path", "")
    days = 0 if form.get("gone") else visit.memory.settings.mdrecall.forget.trash_days
    texts, paths = (text,) if text else (), () if text else tuple(filter(None, map(str.strip, path.split("\n"))))
    return ForgetRequest(texts, paths, trash_days=days)


def _ask(visit: Visit, text: str, path: str) -> Html:
    days = visit.memory.settings.mdrecall.forget.trash_days
    field = tag("input", name="text", value=text, required=True, size=50, autocomplete="off", spellcheck="false",
                placeholder="A name, a number, a phrase")  # fmt: skip
    about = "Every sentence that contains it goes: from notes, from what is found of conversations, and from long-term"
    what = join(tag("p", tag("label", "What to forget ", field)), tag("p", f"{about} memories.", class_="quiet"))
    if path and not text:
        what = tag("p", "Everything in ", tag("strong", path), hide(path=path))
    box = tag("input", type="checkbox", name="gone", value="1")
    undo = tag("p", tag("label", box, " Forget it at once and for good"))
    kept = f"Otherwise, what is removed from notes is kept for {days} days, so that you can undo it."
    button = tag("p", tag("button", "Show every place"), tag("span", "This changes nothing yet.", class_="quiet"),
                 class_="row")  # fmt: skip
    return visit.form_tag("forget", what, undo, tag("p", kept, class_="quiet"), button, class_="narrow")


def _show_plan(visit: Visit, plan: ForgetPlan, *, has_changed: bool = False, stays: Sequence[Place] = ()) -> Page:
    count, text, path = len(plan.places) + plan.more, visit.form.get("text", "").strip(), visit.form.get("path", "")
    what = f"“{text[:_MAX_NAMED]}”" if text else path if "\n" not in path else "these lines"
    title = f"Forget {what}: {plural(count, 'place')}" if count else f"No place holds {what}"
    notice = "The places have changed since you saw them. Nothing was done; look again." if has_changed else ""
    fields = {name: visit.form.get(name, "") for name in ("text", "path", "gone")}
    said = f"Forget it in {count:,} places" if count > 1 else "Forget it" if count else "Keep it from coming back"
    button = tag("button", said, class_="danger")
    back = tag("a", "Cancel", href=visit.url("forget"), class_="button plain")
    warnings, home = plan.warnings, visit.memories.describe(visit.name).loaded.home
    act = tag("div", button, back, class_="row") if plan.has_work else tag("p", "It was forgotten before.")
    lines = sum(each.kind in _CHOOSABLE for each in plan.places)
    can_choose = bool(text) and 0 < lines <= _MAX_BOXES and count > 1 and not plan.more
    leave = "To leave lines of notes out, tick them. The next page then shows what goes, and where it stays."
    form = visit.form_tag(
        "forget-apply",
        hide(**fields, token=plan.token),
        [_show_places(visit, kind, [each for each in plan.places if each.kind == kind], can_choose) for kind in _KINDS],
        tag("p", f"And {plan.more:,} more places.", class_="quiet") if plan.more else None,
        tag("ul", (tag("li", each.replace(home, "~")) for each in warnings), class_="warning") if warnings else None,
        tag("div", act, class_="decide"),
    )
    body = join(
        tag("h1", title),
        tag("p", notice, class_="problem", role="alert") if notice else None,
        tag("p", _say_undo(visit, plan)) if count else None,
        tag("p", leave, class_="quiet") if can_choose else None,
        _show_stays(visit, stays),
        form,
        _show_named(visit),
        tag("p", "What says it in other words stays. Search for it, and forget its note or edit it.", class_="quiet"),
    )
    return Page(_TITLE, body, "forget", 409 if has_changed else 200)


def _say_undo(visit: Visit, plan: ForgetPlan) -> str:
    """Return what can be undone until when, and what is not cleared at all."""
    said = "This cannot be undone: no text is kept."
    if plan.trash_days:
        until = show_day(f"{visit.now + timedelta(days=plan.trash_days):%Y-%m-%d}")
        said = f"You can undo this until {until}: what is removed from notes is kept beside the index."
        lost = [title for kind, title in _KINDS.items() if kind in _NOT_KEPT & {each.kind for each in plan.places}]
        said += f" Undo does not bring back: {', '.join(lost).lower()}." if lost else ""
    return f"{said} Version control such as git, your backups and other programs may still hold it."


def _show_stays(visit: Visit, places: Sequence[Place]) -> Html | None:
    """Return the places that are left out, and those that cannot be cleared without them."""
    title = f"Stays ({len(places):,}): only whole lines of notes can be forgotten one by one"
    return show_list(title, (show_row(strip_lines(each.text), _name_place(visit, each)) for each in places))


def _show_places(visit: Visit, kind: str, places: Sequence[Place], can_choose: bool) -> Html | None:
    rows = []
    for each in places:
        box = tag("input", type="checkbox", name=f"{_LEAVE}{each.citation}", value="1")
        leave = tag("label", box, " Leave it out") if can_choose and kind in _CHOOSABLE else None
        action = "" if each.action == "remove" else f" · {each.action}"
        text = _mark(strip_lines(each.text), visit.form.get("text", ""))
        rows.append(show_row(text, join(_name_place(visit, each), action), leave))
    return show_list(f"{_KINDS[kind]} ({len(places):,})", rows)


def _mark(text: str, phrase: str) -> Html:
    """Return the text of a place in which the words to forget are marked."""
    runs = read_phrase(phrase)
    spans = find_runs(text, lambda first: [len(run) for run in runs if run[0] == first], runs.__contains__)
    return mark(text, join_spans(spans))


def _name_place(visit: Visit, place: Place) -> Child:
    lines = {"from": place.start_line or None, "to": place.end_line or None, "anchor": f"L{place.start_line}"}
    name = f"{place.path}, line {place.start_line}" if place.start_line else place.path
    if place.kind == "note":
        return tag("a", name, href=visit.url("note", path=place.path, **lines))
    if place.kind == "transcript":
        return tag("a", name, href=visit.url("conversation", session=place.path, record=place.start_line or None))
    return shorten(name, visit.memories.describe(visit.name).loaded.home)


def _show_named(visit: Visit) -> Html | None:
    """Return the notes that have it in their name, which only goes with the note, each with a button to forget it."""
    words = fold(visit.form.get("text", "").strip())
    named = [note.path for note in visit.memory.notes() if words and words in fold(note.path)][:_MAX_FOUND]
    gone, rows = visit.form.get("gone", ""), []
    for path in named:
        link = tag("a", path, href=visit.url("note", path=path))
        rows.append(show_row(link, None, visit.button("forget", "Forget this note", path=path, gone=gone)))
    return show_list("Notes that have it in their name", rows)


def _show_forgotten(visit: Visit, forgotten: Sequence[Forgotten]) -> Html | None:
    note = tag("p", "By the hashes that are kept, it is recognised if it comes back.", class_="quiet")
    rows = (_show_entry(visit, entry) for entry in forgotten[:_MAX_LISTED])
    return show_list("What was forgotten", rows, note, aria_label="What was forgotten")


def _show_entry(visit: Visit, entry: Forgotten) -> Html:
    parts = ((entry.phrases, "text"), (entry.notes, "note"), (entry.sessions, "conversation"))
    what = ", ".join(plural(count, noun) for count, noun in parts if count)
    state = f"can be undone until {show_day(entry.kept_until)}" if entry.kept_until else "nothing kept"
    undo = "Undo" if entry.kept_until else "Let it come back"
    about = join(visit.show_time(entry.at), " · ", state if entry.is_done else "unfinished")
    return show_row(what, about, visit.button("forget-undo", undo, id=entry.id))
