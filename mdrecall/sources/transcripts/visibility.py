"""The transcripts that a conversation may see: the one place where the rules of visibility are applied."""

from collections.abc import Iterable

from mdrecall.config.settings import Settings
from mdrecall.core.conversation.visibility import Party, Rules, explain_withheld, parse, read_party, why_hidden
from mdrecall.errors import FileMissing
from mdrecall.interfaces import TranscriptReader
from mdrecall.sources.transcripts.host_reader import is_host_path
from mdrecall.types import EVERYTHING, Conversation, Listing, Visible


def find_visible(settings: Settings, reader: TranscriptReader, session_key: str, session: str = "") -> Visible:
    """Return what a conversation may see; with ``session``, a session key or id, only of that one.

    A person without a session key sees everything, so nothing is read for them.
    """
    if not session_key.strip() and not session:
        return EVERYTHING
    found = list(_describe_all(reader, reader.scan()))
    visible, withheld = filter_visible(settings, found, session_key)
    chosen = visible if not session else [each for each in visible if is_named(each, session, session_key)]
    return Visible(frozenset(each.path for each in chosen), withheld)


def filter_visible(
    settings: Settings, conversations: Iterable[Conversation], session_key: str
) -> tuple[list[Conversation], str]:
    """Return the conversations that one may see, and a sentence if that is not all of them."""
    found = list(conversations)
    if not session_key.strip():
        return found, ""
    rules = read_rules(settings)
    asking = _read_requester(found, session_key, rules)
    visible = [each for each in found if not why_hidden(asking, _read_source(each, rules), rules)]
    return visible, explain_withheld(asking, rules) if len(visible) < len(found) else ""


def find_readable(
    settings: Settings, reader: TranscriptReader, name: str, session_key: str = "", session_id: str = ""
) -> Conversation:
    """Return a conversation by its session key, id, file name or path; with ``session_id``, its transcript of that id.

    Of several transcripts of one conversation it is the one that changed last. Raise ``FileMissing`` if there is none.
    One that may not be seen is as missing as one that does not exist.
    """
    listing = reader.scan()
    path = reader.find(session_id or name, listing)
    if path and not session_key.strip() and not session_id:
        return reader.describe(path, listing.stamps[path])
    visible, _ = filter_visible(settings, _describe_all(reader, listing), session_key)
    named = [each for each in visible if is_named(each, name, session_key) or (each.path == path and not session_id)]
    named = [each for each in named if not session_id or each.path == path]
    if named:
        return max(named, key=lambda each: (not each.archived, each.changed_s))
    may_see = " that this conversation may see" if session_key.strip() else ""
    hint = "Give the id, the file name or the path of a session from the list of sessions."
    raise FileMissing(f"There is no transcript {name}{may_see}.", path=name, hint=hint)


def is_named(conversation: Conversation, name: str, session_key: str = "") -> bool:
    """True if a name means a conversation: its session key, ``current`` for one's own, its id, path or file name."""
    if name in (conversation.session, conversation.path, conversation.path.rpartition("/")[2]):
        return True
    wanted, own = parse(session_key if name == "current" else name), parse(conversation.session_key)
    return wanted.rest == own.rest != "" and wanted.agent in ("", own.agent)


def is_private(settings: Settings, conversation: Conversation) -> bool:
    """True if a conversation is known to be with one person."""
    return _read_source(conversation, read_rules(settings)).audience == "private"


def read_rules(settings: Settings) -> Rules:
    """Return the rules in the settings."""
    remembers = settings.memory_search.remember_across_conversations
    return Rules(
        settings.agent_id,
        settings.mdrecall.sessions.visibility == "openclaw",
        settings.session.dm_scope == "main" if remembers is None else remembers,
        settings.tools.sessions.visibility,
        settings.tools.agent_to_agent.enabled,
        settings.tools.agent_to_agent.allow,
    )


def _describe_all(reader: TranscriptReader, listing: Listing) -> Iterable[Conversation]:
    """Yield every transcript; one of a coding agent without its title, which would have to be read."""
    for path, stamp in listing.stamps.items():
        if is_host_path(path):
            host, _, session = path.removeprefix("sessions/").removesuffix(".jsonl").partition("/")
            yield Conversation(session, path, stamp[0], stamp[1] / 1e9, False, host)
        else:
            yield reader.describe(path, stamp)


def _read_requester(conversations: Iterable[Conversation], session_key: str, rules: Rules) -> Party:
    """Return the conversation that asks, with what its transcripts say about it; the strictest of them counts."""
    own = (each for each in conversations if each.chat_type and is_named(each, session_key))
    known = [read_party(session_key, rules.agent, chat_type=each.chat_type) for each in own]
    return max(known, key=lambda party: party.strictness, default=read_party(session_key, rules.agent))


def _read_source(conversation: Conversation, rules: Rules) -> Party:
    return read_party(
        conversation.session_key,
        rules.agent,
        chat_type=conversation.chat_type,
        parent_key=conversation.parent_key,
        is_owners=bool(conversation.host) or conversation.chat_type == "direct",
    )
