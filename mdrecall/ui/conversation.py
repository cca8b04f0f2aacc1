"""A conversation: what was said in it, without secrets, a page at a time."""

from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.visit import Page, Visit

#: As many messages as one reads in a go.
_MESSAGES = 50
#: A message may hold a whole file; the rest of it is one click away in the transcript itself.
_MAX_CHARS = 4_000


def show_conversation(visit: Visit) -> Page:
    """Return messages of a conversation: those around a record, else the last ones before an offset."""
    session = visit.query.get("session", "")
    offset, record = _number(visit, "offset"), _number(visit, "record")
    found = visit.memory.read_messages(
        session, limit=_MESSAGES, offset=offset, record=record or None, session_key=visit.session_key
    )
    about = found.conversation
    facts = (about.host or about.channel, about.folder, about.branch, f"{found.total:,} messages")
    messages = (
        _show_message(message.speaker, message.text, message.day, is_cited=message.number == record)
        for message in found.messages
    )
    before = found.total - found.after - len(found.messages)
    older, newer = found.after + len(found.messages), max(0, found.after - _MESSAGES)
    links = tag(
        "nav",
        tag("a", "← Earlier", href=visit.url("conversation", session=session, offset=older)) if before > 0 else None,
        tag("a", "Later →", href=visit.url("conversation", session=session, offset=newer)) if found.after else None,
        class_="row",
        aria_label="Messages",
    )
    title = about.title or about.session_key or about.session
    body = join(
        tag("h1", title),
        tag("p", " · ".join(filter(None, facts)), class_="quiet"),
        tag("p", "Secrets are masked.", class_="quiet") if found.is_redacted else None,
        links,
        messages,
        links,
    )
    return Page(title[:80], body, "timeline")


def _show_message(speaker: str, text: str, day: str, *, is_cited: bool) -> Html:
    cut = f"{text[:_MAX_CHARS]}…" if len(text) > _MAX_CHARS else text
    head = tag("p", tag("strong", speaker), f" {day}", class_="quiet first")
    return tag("article", head, tag("p", cut, class_="first"), class_="panel notice" if is_cited else "panel")


def _number(visit: Visit, name: str) -> int:
    given = visit.query.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
