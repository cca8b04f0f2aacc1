"""What functions of many rules return for inputs of every kind, one line for each."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from mdrecall.extras.page import timeline
from mdrecall.life.promotion import Choice, Record, explain_refusal, importance_of, passes_gates, rank
from mdrecall.mcp_server import config_text
from mdrecall.search.query import parse_query, read_naming
from mdrecall.sessions.visibility import explain_denial, parse
from mdrecall.text.days import day_number
from mdrecall.text.markdown import cut_units, heading_above, shorten, show_around, split_passages
from mdrecall.text.tombstones import (
    cut_line,
    join_spans,
    mask_spans,
    split_units,
    widen_to_sentences,
)
from tests.record.answer_functions import ANSWER_FUNCTIONS
from tests.record.conversation_functions import CONVERSATIONS
from tests.record.reading_functions import READINGS
from tests.text.test_index_format import make_notes
from tests.text.test_phrases import find_phrase

SERVER = {"command": "mdrecall", "args": ["mcp"]}
CONFIGS = (
    "",
    " \n",
    "{}",
    '{"a": 1}\n',
    '{"mcpServers": {}}',
    '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n',
    '{\n\t"mcpServers": {\n\t\t"mdrecall": {"command": "old", "env": {"A": "1"}},\n\t\t"z": {}\n\t},\n\t"b": [1, 2]\n}',
    '{\n  // a comment\n  "mcpServers": {\n    "mdrecall": {"command": "old",},\n  },\n}\n',
    '{"mcpServers": {"mdrecall": {/* kept */ "command": "old"}}}',
    '{"mcpServers": {"a": {}, "mdrecall": {}, "b": {}}, "hooks": {"Stop": [{"ours": 1}, {"x": 2}], "Start": []}}',
    '{"hooks": {"Stop": [{"ours": 1}]}, "c": "}"}',
    '{\n  "hooks": {\n    "Stop": [\n      {"x": 2}, // last\n    ],\n  },\n}\n',
    '{"mcpServers": {"a": {}, "mdrecall": {}}}',
    '{"mcpServers": {"a": {}, "mdrecall": {},}, "hooks": {"Stop": [{"x": 2}, {"ours": 1}]}}',
    '{"mcpServers": 3}',
    "[1]",
    "{",
    '{"a": 1, "a": 2}',
    '\ufeff{"a": "\\u00e9 \\" //"}',
    "[mcpServers.mdrecall]\ncommand = \"old\"\nenv = {A = '1'}\n\n[other]\nx = 1\n",
    '# mine\n[mcpServers.z]\ncommand = "z"',
)
KEYS = (
    "",
    " ",
    "main",
    "agent:main:main",
    "agent:Main:MAIN",
    "agent:main",
    "agent",
    "agent:x:telegram:direct:42",
    "telegram:dm:42",
    "agent:x:slack:group:7:thread:9",
    "slack:channel:c1:topic:3",
    "agent:x:subagent:abc",
    "agent:x:main:thread:5",
    "cron:nightly",
    "hook:mail",
    "agent:x:acp:1",
    "agent:x:dashboard:me",
    "dashboard",
    "explicit:me",
    "explicit:cron",
    "agent:x:discord:acct:group:5",
    "whatsapp:1@g.us",
    "a:b:c:d",
    "thread:1",
    "agent:x:home",
    "x:group:",
    ":::",
    "agent::x",
)
SCOPES: tuple[dict[str, Any], ...] = (
    {},
    {"default": "deny"},
    {"default": "deny", "rules": [{"action": "allow", "match": {"chatType": "DM"}}]},
    {"rules": [{"action": "deny", "match": {"channel": "Slack"}}, {"action": "deny", "match": {"keyPrefix": "main"}}]},
    {
        "rules": [
            {"action": "deny", "match": {"keyPrefix": "agent:x:"}},
            {"action": "deny", "match": {"channel": "cli"}},
        ]
    },
    {"default": "deny", "rules": [{"action": "allow", "match": {"rawKeyPrefix": "agent:main", "chatType": "direct"}}]},
    {"rules": [{"action": "deny"}]},
)
TEXTS = (
    "The boat is blue. It leaks! Does it? Yes",
    "- [x] The boat is blue <!-- id -->\n- Another boat.\n",
    "# The boat\n\nA long line about the boat that goes on and on until it is wrapped by an editor\nat the boat. End.",
    "船是蓝色的。另一艘船很旧！\n船の色は青い。boatと船",
    "Éclair boat's BOAT-7 boat_x, x-boat\n> quoted boat\n1. boat",
    "船是蓝色的而且很旧但是它还能在海上航行很多年因为船主每年都修理它并且给它涂上新的油漆所以它看起来\n像新的船。完",
    "no such thing here\n\nboat",
)
QUERIES = (
    "DEC-0054",
    "where is DEC-0054?",
    '"the quoted phrase" here',
    "“wide quotes” and «other ones»",
    "「引用」",
    "notes/server.md",
    "server.md",
    "the server note",
    "late talk",
    "late-talk.md",
    "2026-11-14",
    "7f3a9c1",
    "deadbeef",
    "12345",
    "1234",
    "3rd 5pm 10gb",
    "v1.2.3",
    "E_CONN_RESET",
    "parse_user_id",
    "memorySearch",
    "C++",
    "ab1",
    "user@example.org",
    "src/app/main.py",
    "HTTP 404",
    "a",
)
PATHS = (
    "notes/server.md",
    "memory/2026-11-14-late-talk.md",
    "memory/2026-11-14.md",
    "src/app/main.py",
    "DEC-0054.md",
    "a.md",
)


def record_configs() -> Iterator[str]:
    """Yield what becomes of configuration files, or why they are left alone."""
    kinds = [config_text.Place(kind, "mcpServers", "mdrecall") for kind in ("json", "toml")]
    nested = config_text.Place("json", "mcp.servers", "mdrecall")
    calls: list[Callable[[str], Any]] = []
    for place in (*kinds, nested):
        calls += [
            partial(config_text.put, place=place, values=SERVER),
            partial(config_text.remove, place=place),
            partial(_remove_all, place=place),
        ]
    calls += [
        lambda text: config_text.set_value(text, ("a", "b"), [1]),
        lambda text: config_text.set_value(text, ("mcpServers",), {"new": True}),
        lambda text: config_text.remove_value(text, ("mcpServers", "mdrecall")),
        lambda text: config_text.append_items(text, "hooks", {"Stop": {"ours": 1}, "New": {"ours": 2}}),
        lambda text: config_text.remove_items(text, "hooks", lambda item: "ours" in item),
        lambda text: config_text.list_items(text, "hooks", lambda item: "ours" in item),
    ]
    for (at, text), (number, call) in product(enumerate(CONFIGS), enumerate(calls)):
        try:
            after = call(text)
        except (ValueError, KeyError) as error:
            # What Python says of wrong TOML differs from one version to the next.
            yield f"{at}.{number} {type(error).__name__}: {str(error).partition('TOML:')[0]}"
        else:
            if after != text:
                yield f"{at}.{number} {json.dumps(after, ensure_ascii=False)}"


def _remove_all(text: str, place: config_text.Place) -> str:
    return config_text.remove_empty(config_text.remove(text, place), place)


def record_session_keys() -> Iterator[str]:
    """Yield how session keys are read, and what they may do."""
    for key in KEYS:
        found = parse(key)
        said = (found.chat_type, found.is_private, found.is_main_of("main"), found.belongs_to("x"))
        yield f"{key!r} {tuple(found)} {said}"
        yield "  " + " ".join(explain_denial(scope, key) or "+" for scope in SCOPES)


def record_phrases() -> Iterator[str]:
    """Yield where a phrase stands, and what is left of a text without it."""
    for text, phrase in product(TEXTS, ("boat", "the boat", "船", "boat 7", "!")):
        spans = find_phrase(text, phrase)
        wide = widen_to_sentences(text, spans)
        left = mask_spans(text, wide, "~")
        lines = [cut_line(line) for line in mask_spans(text, wide, "").split("\n")]
        yield f"{phrase} {[tuple(one) for one in spans]} {[tuple(one) for one in wide]} {left!r} {lines}"
    yield from (" ".join(f"{unit}:{start}-{end}" for unit, start, end in split_units(text)) for text in TEXTS)
    yield str([tuple(one) for one in join_spans(((5, 9), (0, 3), (2, 4), (9, 11), (6, 8)))])


def record_names() -> Iterator[str]:
    """Yield what queries name, and which files."""
    for query in QUERIES:
        found = read_naming(query, parse_query(query))
        bonus = " ".join(f"{found.file_bonus(path):g}" for path in PATHS)
        headings = " ".join(
            f"{found.heading_bonus(heading):g}" for heading in ("Late talk", "DEC-0054", "The server note")
        )
        phrases = found.find_phrases("Here the Quoted   phrase stands, and wide quotes")
        shown = (sorted(found.identifiers), found.phrases, found.whole, sorted(found.files), found.file)
        yield f"{query!r} {shown} files {bonus} headings {headings} phrases {phrases}"


def record_snippets() -> Iterator[str]:
    """Yield what is shown around passages, with more room and with less."""
    rooms = ((700, 700), (120, 120), (60, 300), (500, 40))
    for number, (_, text) in enumerate(make_notes(30)):
        passages = split_passages(text)
        passage = passages[number % len(passages)]
        for room, limit in rooms[number % 2 :: 2]:
            shown, first, last = show_around(text, passage, room, frozenset({number % 7}), limit)
            yield f"{number} {room} {limit}: {first}-{last} {len(shown)} {shown[:12]!r} {shown[-12:]!r}"
        yield f"{number} {heading_above(('# Top', '## Below'), text, passage)!r}"
    for text in ("abc", "a🫖b", "🫖🫖"):
        yield " ".join(f"{cut_units(text, most)}/{shorten(text, most)}" for most in range(1, 6))


def record_promotion() -> Iterator[str]:
    """Yield the scores of records, and why they are not promoted."""
    now, day = 1_800_000_000_000.0, 86_400_000.0
    days = [f"2026-11-{number:02d}" for number in range(1, 9)]
    records = [
        Record(
            key=f"k{number}", path=f"memory/{number % 3}.md", start_line=number, end_line=number,
            recalls=number % 5, daily=number % 3, total_score=number * 0.4,
            queries=dict.fromkeys("abcdef"[: number % 6], 0.0),
            last_ms=0.0 if number == 7 else now - number * 3 * day, days=tuple(days[: number % 7]),
            recall_days=tuple(days[: number % 4]), tags=("a", "b", "c")[: number % 4],
            origin="untrusted" if number == 9 else "",
        )
        for number in range(1, 16)
    ]  # fmt: skip
    gates = (Choice(), Choice(0.2, 1, 1, None, 0), Choice(0.4, 2, 2, 20.0, 1))
    for half_life in (14.0, 30.0):
        for found in rank(records, now, half_life):
            parts = " ".join(f"{part:.4f}" for part in found.components.values())
            passed = "".join("+" if passes_gates(found, gate) else "-" for gate in gates)
            refused = " / ".join(explain_refusal(found, gate) for gate in gates)
            line = f"{found.record.key} {found.score:.4f} {found.age_days:g} {parts} {importance_of(found.score)}"
            yield f"{line} {passed} {refused}"


def record_charts() -> Iterator[str]:
    """Yield pictures, each in SVG."""
    for year, month, today in ((2026, 2, 739_664), (2024, 2, 1), (2025, 6, 739_400)):
        first = day_number(year, month, 1) or 1
        days = {first + at: (at % 5, f"day {at}", f"?day={at}") for at in (0, 5, 12)[: 1 + today % 3]}
        yield str(timeline.draw_month(year, month, days, today))
    yield str(timeline.divide_into_quarters({1: 5.0, 2: 5.0, 3: 1.0, 4: 9.0, 5: 7.0, 6: 2.0, 7: 3.0, 8: 4.0}))


RECORDED: dict[str, Callable[[], Iterator[str]]] = {
    **CONVERSATIONS,
    **ANSWER_FUNCTIONS,
    **READINGS,
    "charts": record_charts,
    "configs": record_configs,
    "names": record_names,
    "phrases": record_phrases,
    "promotion": record_promotion,
    "session-keys": record_session_keys,
    "snippets": record_snippets,
}
