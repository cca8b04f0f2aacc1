"""Forget something: see every place that holds it, then remove or mask it there, and keep it from coming back.

What is to be forgotten is sent in a form and never in an address, which a browser would remember.
"""

from collections.abc import Sequence

from mdrecall.errors import QueryError
from mdrecall.extras.page.page import Answer, Child, Html, Page, Redirect, Visit, hide, join, plural, require_owner, tag
from mdrecall.life.forget import ForgetPlan, ForgetRequest, Forgetting, Forgotten
from mdrecall.life.forget_places import Place
from mdrecall.text.words import fold

_TITLE = "Forget"
#: More notes that have it in their name are about other things.
_MAX_FOUND = 8
_MAX_LISTED = 100
_KINDS = {
    "note": "Notes",
    "deletion": "Deleted notes",
    "host": "Files that coding agents keep",
    "transcript": "Conversations",
    "copy": "Copies of conversations",
    "state": "Files of mdrecall",
    "memory": "Long-term memories",
}


def show_forget(visit: Visit) -> Page:
    """Return the page that asks what to forget, with what was forgotten."""
    forgotten = _open(visit).list_forgotten()
    path = visit.query.get("path", "")
    return Page(_TITLE, join(tag("h1", _TITLE), _ask(visit, "", path), _show_forgotten(visit, forgotten)), "forget")


def preview(visit: Visit) -> Page:
    """Return the page with every place that would be cleared; nothing is changed."""
    try:
        plan = _open(visit).plan(_read_request(visit), visit.now)
    except QueryError as error:
        problem = tag("p", f"{error} {error.hint}", class_="problem", role="alert")
        form = _ask(visit, visit.form.get("text", ""), visit.form.get("path", ""))
        return Page(_TITLE, join(tag("h1", _TITLE), problem, form), "forget", 400)
    return _show_plan(visit, plan)


def forget(visit: Visit) -> Answer:
    """Forget what the page has shown; if the places are others by now, show them first."""
    forgetting = _open(visit)
    plan = forgetting.plan(_read_request(visit), visit.now)
    if visit.form.get("token", "") != plan.token:
        return _show_plan(visit, plan, has_changed=True)
    report = forgetting.apply(plan, visit.now)
    return Redirect(visit.url("forget", done="forgotten" if report.is_complete else "unfinished"))


def finish(visit: Visit) -> Redirect:
    """Finish what an earlier run has left."""
    return Redirect(visit.url("forget", done="forgotten" if _open(visit).finish() else "unfinished"))


def undo(visit: Visit) -> Redirect:
    """Let something come back that was forgotten."""
    restored = _open(visit).undo(visit.form.get("id", ""))
    return Redirect(visit.url("forget", done="restored" if restored else "allowed"))


def _open(visit: Visit) -> Forgetting:
    from mdrecall.plugins import open_forgetting

    require_owner(visit, "Forgetting")
    return open_forgetting(visit.memory)


def _read_request(visit: Visit) -> ForgetRequest:
    form = visit.form
    text, path = form.get("text", "").strip(), form.get("path", "").strip()
    days = visit.memory.settings.mdrecall.forget.trash_days if form.get("keep") else 0
    texts, paths = (text,) if text else (), (path,) if path and not text else ()
    return ForgetRequest(texts, paths, is_masked=form.get("how") == "mask", trash_days=days)


def _ask(visit: Visit, text: str, path: str) -> Html:
    days = visit.memory.settings.mdrecall.forget.trash_days
    if path and not text:
        what = tag("p", "Everything in ", tag("strong", path), hide(path=path))
    else:
        field = tag("input", name="text", value=text, required=True, size=50, autocomplete="off", spellcheck="false")
        what = tag("p", tag("label", "What to forget ", field))
    about = "A name, a number, a phrase. Every sentence that contains it is removed: from notes, from what is found of"
    note = tag("p", f"{about} conversations, and from long-term memories.", class_="quiet")
    ways = (("remove", "remove the sentences"), ("mask", "write [forgotten] in their place"))
    choices = [
        tag("label", tag("input", type="radio", name="how", value=value, checked=value == "remove"), f" {title}")
        for value, title in ways
    ]
    kept = f" keep what is removed for {days} days, so that you can undo it"
    keep = tag("label", tag("input", type="checkbox", name="keep", value="1"), kept)
    options = tag("fieldset", tag("legend", "In notes"), choices, keep, class_="row")
    hint = tag("span", "This changes nothing yet.", class_="quiet")
    button = tag("p", tag("button", "Show every place"), hint, class_="row")
    return visit.form_tag("forget", what, None if path and not text else note, options, tag("div", button))


def _show_plan(visit: Visit, plan: ForgetPlan, *, has_changed: bool = False) -> Page:
    count = len(plan.places) + plan.more
    title = f"{count:,} {'place holds' if count == 1 else 'places hold'} it" if count else "No place holds it"
    notice = "The places have changed since you saw them. Nothing was done; look again." if has_changed else ""
    fields = {name: visit.form.get(name, "") for name in ("text", "path", "how", "keep")}
    button = tag("button", f"Forget it in {count:,} places" if count > 1 else "Forget it", class_="danger")
    back = tag("a", "Cancel", href=visit.url("forget"), class_="button plain")
    warnings = dict.fromkeys(place.warning for place in plan.places if place.warning)
    act = tag("div", button, back, class_="row") if plan.has_work else tag("p", "It was forgotten before.")
    body = join(
        tag("h1", title),
        tag("p", notice, class_="problem", role="alert") if notice else None,
        [_show_places(visit, kind, [each for each in plan.places if each.kind == kind]) for kind in _KINDS],
        tag("p", f"And {plan.more:,} more places.", class_="quiet") if plan.more else None,
        tag("ul", (tag("li", each) for each in warnings), class_="warning") if warnings else None,
        visit.form_tag("forget-apply", hide(**fields, token=plan.token), act, class_="decide"),
        _show_named(visit),
        tag("p", "What says it in other words stays. Search for it, and forget its note or edit it.", class_="quiet"),
    )
    return Page(_TITLE, body, "forget", 409 if has_changed else 200)


def _show_places(visit: Visit, kind: str, places: Sequence[Place]) -> Html | None:
    rows = []
    for each in places:
        text = tag("div", each.text, class_="passage") if each.text else None
        rows.append(tag("li", _name_place(visit, each), tag("span", f" · {each.action}", class_="quiet"), text))
    return _show_section(f"{_KINDS[kind]} ({len(places):,})", rows)


def _show_section(title: str, rows: Sequence[Html]) -> Html | None:
    return tag("section", tag("h2", title), tag("ul", rows), class_="places") if rows else None


def _name_place(visit: Visit, place: Place) -> Child:
    lines = {"from": place.start_line or None, "to": place.end_line or None, "anchor": f"L{place.start_line}"}
    name = f"{place.path}, line {place.start_line}" if place.start_line else place.path
    if place.kind == "note":
        return tag("a", name, href=visit.url("note", path=place.path, **lines))
    if place.kind == "transcript":
        return tag("a", name, href=visit.url("conversation", session=place.path, record=place.start_line or None))
    return name


def _show_named(visit: Visit) -> Html | None:
    """Return the notes that have it in their name, which only goes with the note, each with a button to forget it."""
    words = fold(visit.form.get("text", "").strip())
    named = [note.path for note in visit.memory.notes() if words and words in fold(note.path)][:_MAX_FOUND]
    kept = {name: visit.form.get(name, "") for name in ("how", "keep")}
    button = tag("button", "Forget this note", class_="plain")
    rows = []
    for path in named:
        offer = visit.form_tag("forget", hide(path=path, **kept), button)
        rows.append(tag("li", tag("a", path, href=visit.url("note", path=path)), offer))
    return _show_section("Notes that have it in their name", rows)


def _show_forgotten(visit: Visit, forgotten: Sequence[Forgotten]) -> Html | None:
    if not forgotten:
        return None
    rows = (_show_entry(visit, entry) for entry in forgotten[:_MAX_LISTED])
    entries = tag("ul", rows, class_="places", aria_label="What was forgotten")
    note = "Only hashes are kept, by which it is recognised if it comes back."
    unfinished = None
    if not all(entry.is_done for entry in forgotten) and visit.can_change:
        unfinished = visit.form_tag("forget-finish", tag("button", "Finish what was broken off"))
    return join(tag("h2", "What was forgotten"), tag("p", note, class_="quiet"), unfinished, entries)


def _show_entry(visit: Visit, entry: Forgotten) -> Html:
    parts = ((entry.phrases, "text"), (entry.notes, "note"), (entry.sessions, "conversation"))
    what = ", ".join(plural(count, noun) for count, noun in parts if count)
    state = f"kept until {entry.kept_until}" if entry.kept_until else "nothing kept"
    when = visit.show_time(entry.at)
    title = "Undo" if entry.kept_until else "Let it come back"
    button = tag("button", title, class_="plain")
    form = visit.form_tag("forget-undo", hide(id=entry.id), button) if visit.can_change else None
    return tag("li", when, f" · {what} · {state if entry.is_done else 'unfinished'}", form)
