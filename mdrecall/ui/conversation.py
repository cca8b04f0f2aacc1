"""A conversation: what was said in it, without secrets, a page at a time."""

from mdrecall.types.transcripts import TranscriptRecord
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.visit import Page, Visit

#: How many messages a page shows, and how many characters of them in all, so that it stays light.
_MESSAGES, _MAX_CHARS = 50, 40_000
#: A message may hold a whole file; all of it is one click away.
_MAX_MESSAGE_CHARS = 4_000


def show_conversation(visit: Visit) -> Page:
    """Return messages of a conversation: one, those around a record, or the last ones before an offset."""
    session = visit.query.get("session", "")
    offset, record, only = (_number(visit, name) for name in ("offset", "record", "only"))
    limit = 1 if only else _MESSAGES
    found = visit.memory.read_messages(
        session, limit=limit, offset=offset, record=only or record or None, session_key=visit.session_key
    )
    about = found.conversation
    facts = (about.host or about.channel, about.folder, about.branch, f"{found.total:,} messages")
    most = _MAX_CHARS if only else _share_room([len(message.text) for message in found.messages])
    messages = (_show_message(visit, message, most, is_cited=message.number == record) for message in found.messages)
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


def _share_room(lengths: list[int]) -> int:
    """Return how many characters of a message are shown, so that all of them fit on a page."""
    most = _MAX_MESSAGE_CHARS
    while sum(min(length, most) for length in lengths) > _MAX_CHARS:
        most //= 2
    return most


def _show_message(visit: Visit, message: TranscriptRecord, most: int, *, is_cited: bool) -> Html:
    head = tag("p", tag("strong", message.speaker), f" {message.day}", class_="quiet first")
    text, rest = message.text, None
    if len(text) > most:
        url = visit.url("conversation", session=visit.query.get("session"), only=message.number)
        # A message that is shown alone has no page with more of it.
        link = tag("a", "Show all of it", href=url) if most < _MAX_CHARS else None
        text, rest = f"{text[:most]}…", tag("p", f"{len(message.text):,} characters. ", link, class_="quiet")
    body = tag("p", text, class_="passage")
    return tag("article", head, body, rest, class_="panel notice" if is_cited else "panel")


def _number(visit: Visit, name: str) -> int:
    given = visit.query.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
