"""What the functions for conversations return for inputs of every kind, one line for each."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

from mdrecall.sessions import digest, flush
from mdrecall.sessions.digest import Origin, Outline, extend_outline, find_mark, render_section, safe_name
from mdrecall.sessions.messages import (
    Message,
    combine_scores,
    is_silent,
    share_budget,
    strip_memory,
    visible_text,
    wrap_memory,
)
from mdrecall.sessions.visibility import Rules, explain_withheld, read_party, why_hidden
from mdrecall.types.transcripts import HostRecord, Step, TranscriptRecord
from tests.text.test_index_format import make_notes

TURNS: tuple[dict[str, Any], ...] = (
    {},
    {"context_window": 200_000, "total_tokens": 175_999},
    {"context_window": 200_000, "total_tokens": 176_000},
    {"context_window": 200_000, "total_tokens": 181_000, "total_is_fresh": False},
    {"context_window": 200_000, "prompt_tokens": 170_000, "output_tokens": 5_000, "estimated_tokens": 1_000},
    {"context_window": 200_000, "prompt_tokens": 170_000, "output_tokens": -5, "estimated_tokens": -1},
    {"context_window": 8_000, "total_tokens": 5_000},
    {"context_window": 0, "total_tokens": 5_000},
    {"transcript_bytes": 3_000_000},
    {"transcript_bytes": 2_097_152, "compaction_count": 2},
    {"total_tokens": 10**6, "is_heartbeat": True},
    {"total_tokens": 10**6, "is_cli_provider": True},
    {"total_tokens": 10**6, "is_sandboxed": True},
    {"total_tokens": 10**6, "is_sandboxed": True, "workspace_access": "ro"},
)
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"enabled": False},
    {"reserve_tokens": 50_000, "soft_threshold_tokens": 100},
    {"reserve_tokens": 1, "reserve_tokens_floor": 30_000, "force_bytes": 0},
)
HISTORIES: tuple[dict[str, Any], ...] = (
    {},
    {"has_entry": False},
    {"flushed_count": 2, "flushed_bytes": 1_000_000},
    {"flushed_bytes": 5_000_000, "attempts": 9, "attempts_count": 2},
)
SESSION_KEYS = (
    "",
    "agent:x:main",
    "agent:x:telegram:direct:1",
    "agent:x:telegram:direct:2",
    "agent:x:slack:group:7",
    "agent:y:main",
    "agent:x:subagent:9",
    "explicit:me",
    "cron:1",
)
SAID = (
    "Please fix the login. We decided to keep 12 connections.",
    "I will never use tabs again; remember that. TODO: write the docs.",
    "Done. Still open: the tests of the pool fail.",
    "/compact",
    "x " * 400,
)
COMMANDS = (
    "ls -la",
    "pytest -q",
    "git commit -m x",
    "cd a && make",
    "sed -i s/a/b/ f",
    "A=1 npm test",
    "echo x > f",
    "cat f | sort",
)
MESSAGES = (
    "Tell me about the shops in Berlin",
    "boats",
    "der Zahnarzttermin morgen",
    "備份在哪裡",
    "",
    "a shop, a boat!",
)
PHRASES = ("shop", "shops", "the boat", "Zahnarzt", "berlin shop", "備份", "xy", "zahnarzttermine", "", "boat house")


def record_flush() -> Iterator[str]:
    """Yield when a session is flushed, and what the model is asked."""
    for rule, turn in product(RULES, TURNS):
        rules, now = flush.Rules(**rule), flush.Turn(**turn)
        found = [flush.decide(rules, now, flush.FlushHistory(**history)) for history in HISTORIES]
        limit = flush.threshold(rules, now.context_window)
        decisions = " | ".join(f"{one.run} {one.why} {one.trigger}".rstrip() for one in found)
        yield f"{limit} {flush.projected_tokens(now)}: {decisions}"
    for hour, day in product((0, 9, 12, 13, 23), (1, 2, 3, 4, 10, 11, 12, 13, 14, 21, 22, 23, 24, 31)):
        moment = datetime(2026, 1 + day % 12, day, hour, day, tzinfo=UTC)
        words = [flush.time_words(moment, twelve_hours=twelve) for twelve in (False, True)]
        yield f"{flush.daily_path(moment)} {words}"
    for user, system in (
        (None, None),
        ("Store it.", " "),
        ("Only append. NO_REPLY if nothing. YYYY-MM-DD", "Be brief."),
    ):
        asked = flush.make_prompts(moment, user=user, system=system, extra_system=" more ", twelve_hours=bool(user))
        yield f"{asked}"
    tried = flush.count_attempt(flush.count_attempt(flush.FlushHistory(), 1), 1)
    yield f"{tried} {flush.count_attempt(tried, 2)} {flush.record_flush(tried, 3, 4)}"


def record_digests() -> Iterator[str]:
    """Yield digests of made-up sessions, line by line."""
    origin = Origin("claude-code", "3f2a-99/odd name", "/home/ada/shop/", "shop@main")
    for count in (0, 1, 3, 9, 40):
        numbers = range(count)
        records = [HostRecord(at + 1, None, f"2026-02-10T09:{at:02d}", tuple(_steps(at))) for at in numbers]
        outline = extend_outline(Outline(), records, origin, str.upper)
        text = render_section(outline, origin, lambda at: at.replace("T", " ") if at else "")
        yield from (f"{count}: {line}" for line in text.split("\n"))
        yield f"{count} {outline.number} {outline.at} {find_mark(text, 'claude-code', origin.session)}"
    yield f"{safe_name('a/b c')} {safe_name('')} {len(safe_name('x' * 200))}"
    yield f"{find_mark('<!-- mdrecall:digest host=a session=b lines=1-7 -->', 'a', 'b')} {find_mark('', 'a', 'b')}"


def _steps(number: int) -> Iterator[Step]:
    yield Step("user", SAID[number % 5])
    command = COMMANDS[number % 8]
    files = (f"/home/ada/shop/src/f{number}.py", "/etc/hosts")[: number % 3]
    yield Step("call", command, files, call=f"c{number}")
    output = f"[main a828e6{number % 10}] Keep {number} connections" if "commit" in command else "ok"
    yield Step("result", output, call=f"c{number}", is_ok=(True, False, None)[number % 3])
    yield Step("assistant", SAID[(number + 2) % 5])
    yield Step("assistant", "That was it.")


def record_digest() -> Iterator[str]:
    """Yield what a session reads first, and what is kept of a conversation."""
    wanted = ((100, 0.5), (300, 0.3), (50, 0.2), (400, 0.1))
    for count, budget in product(range(5), (0, 99, 400, 2000)):
        yield str(share_budget(wanted[:count], budget))
    for number, (path, text) in enumerate(make_notes(12)):
        for room in (0, 60, 400, 5_000):
            end = digest.excerpt("b.md", text, room, from_end=True)
            parts = [*digest.excerpt_ends(path, text, room), end]
            shown = digest.render(parts).split("\n")
            lines = [(part.first_line, part.last_line, part.total_lines, part.is_whole) for part in parts]
            yield f"{number} {room} {lines} {[line for line in shown if line.startswith(('[', '## '))]}"
        plain, _ = digest.hide_entries(text, lambda marks: marks.is_superseded)
        yield f"{number} {sum(not line for line in plain.split(chr(10)))}"
    names = ("", "Late talk!", "x" * 99, "--", "Über  das/Haus")
    yield " ".join(digest.note_name("2026-02-10", slug) for slug in names)
    said = [TranscriptRecord(number, None, 1, "User", f"m{number}") for number in range(3)]
    yield digest.note_text(said, when="now", key="k", session="", source="s")
    yield digest.note_text([], when="now", key="k", session="", source="s")


def record_visibility() -> Iterator[str]:
    """Yield which conversations see which."""
    rules = (
        Rules("x"),
        Rules("X", one_person=False),
        *(Rules("x", by_openclaw=True, visibility=name) for name in ("self", "tree", "agent", "all")),
        Rules("x", by_openclaw=True, agents_see_each_other=False),
        Rules("x", by_openclaw=True, allowed_agents=("x", "Y*")),
        Rules("x", by_openclaw=True, allowed_agents=("z",)),
    )
    parties = [read_party(key, "x") for key in SESSION_KEYS]
    parties += [read_party("explicit:me", "x", chat_type=kind) for kind in ("DM", "group", "odd")]
    parties += [
        read_party("agent:x:subagent:1", "x", parent_key="agent:x:main"),
        read_party("", "x", is_owners=True),
    ]
    yield from (f"{party.name!r} {party.agent} {party.audience} {party.person} {party.is_person}" for party in parties)
    for requester in parties:
        for one in rules:
            hidden = " ".join(why_hidden(requester, source, one).replace(" ", "-") or "+" for source in parties)
            yield f"{hidden} | {explain_withheld(requester, one)}"


def record_words() -> Iterator[str]:
    """Yield which phrases messages bring to mind, and what a person sees of an answer."""
    for text in MESSAGES:
        message = Message(text)
        scores = [f"{phrase}={message.score_phrase(phrase):.4g}" for phrase in PHRASES]
        yield f"{text} {scores} {message.score_triggers(PHRASES[:3]):.4g} {message.score_triggers(()):.4g}"
    yield str([round(combine_scores(one, two), 4) for one, two in product((0.0, 0.3, 1.0), repeat=2)])
    for text in ("NO_REPLY", " NO_REPLY \n", "NO_REPLY.", "Hello NO_REPLY", "no_reply", "Hi\nNO_REPLY", ""):
        yield f"{text!r} {is_silent(text)} {visible_text(text)!r}"
    wrapped = wrap_memory("b", "w0rd")
    for text in ("a", f"{wrapped}c", f"c{wrapped}", wrap_memory(wrapped, "w0rd"), f"x\n{wrapped}"):
        yield f"{text!r} {strip_memory(text)!r}"


CONVERSATIONS: dict[str, Callable[[], Iterator[str]]] = {
    "digests": record_digests,
    "flush": record_flush,
    "session-notes": record_digest,
    "visibility": record_visibility,
    "words": record_words,
}
