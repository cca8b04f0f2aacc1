"""Which lines of a note can stand in long-term memory by themselves."""

import pytest

from mdrecall.life.promotion import Entry, adds_nothing, explain_unfit, find_content, find_entries, strip_clock

#: Lines of the kinds that people found in their long-term memory: made up, one per kind that was reported.
JUNK = [
    "## Priya's decision",
    "# 2026-11-14 late talk",
    "| host | port | state |",
    "| --- | --- | --- |",
    "Candidate: User: System: [2026-04-10 15:04:28 GMT+8] Model switched to a larger one.",
    "Candidate: the greenhouse pump was replaced confidence: 0.62 evidence: memory/2026-04-10.md:3-3 status: staged",
    "Reflections: Theme: `assistant` kept surfacing across 12 memories.; confidence: 0.91",
    "Possible Lasting Truths: the pump needs a filter [confidence: 0.58 evidence: memory/2026-04-10.md:3-3]",
    "sudo apt remove shaderc && git clone https://example.com/x.git",
    "cmake --build build -j$(nproc) --target glslc",
    "git push origin main --force",
    "npm run build 2>&1 | tee /tmp/build.log",
    "$ ls -la /srv/www",
    "`docker compose up -d`",
    "/home/sam/projects/greenhouse/config/settings.yaml",
    "memory/2026-11-14-late-talk.md",
    "[score=0.850 signals=5 recalls=0 avg=0.620 source=memory/2026-04-10.md:1-4]",
    "Watered the beds [score=0.850 recalls=0 avg=0.620 source=memory/2026-04-10.md:1-4]",
    "<!-- openclaw-memory-promotion:memory:memory/2026-04-10.md:1:4 -->",
    "HEARTBEAT_OK",
    "Heartbeat: checked the mail and the calendar, nothing needs attention.",
    "No new messages since the last check of the inbox.",
    "All quiet on the server during the night, as it should be.",
    "Cron delivery: the daily news report was sent to the channel.",
    "User: can you please write the summary of the meeting for me",
    "Assistant: Of course, here is the summary of the meeting.",
    "System: [2026-11-14 03:00:01] the scheduled task has started",
    "2026-11-14 03:00:01 INFO worker started with pid 4711",
    "[cron:nightly] run the review of the day",
    "Session Key: agent:main:main Session ID: 4f1d-22",
    "Save important context from this session to the daily memory file. STRICT RULES: append only",
    "Write a dream diary entry from these memory fragments",
    '{"enabled": true, "port": 8080}',
    "maxRetries = 5",
    "agents.defaults.timeout: 30",
    "Things to do tomorrow:",
    "What was the name of the plumber again?",
    "[ ] call the plumber about the pump in the greenhouse",
    "Decision",
    "Weekly Planning Meeting Notes",
    "Garden Centre visit Berlin.",
    "4711 8080 22 443 / 10.0.0.1 / 10.0.0.2",
    "https://example.com/a/very/long/address",
    "TypeError: cannot read the property of nothing at all",
    "a1b2c3d4e5f6 deployed",
    "![the greenhouse](images/greenhouse.png)",
    "[the plan](plans/2026.md)",
]
STATEMENTS = [
    "Priya prefers tea to coffee.",
    "The greenhouse pump must be replaced before winter",
    "We use `uv` for packages because pip was too slow",
    "Decided to keep the backup server in Oslo",
    "Deploys happen on Tuesdays, never on Fridays.",
    "The staging database is db-stage-2 on port 5433.",
    "Sam's landlord is called Ortiz and answers only to letters",
    "Die Heizung wird jeden Herbst von Firma Kranz gewartet",
    "Le code du portail change chaque premier lundi du mois",
    "El contrato con la imprenta termina en marzo",
    "Сервер резервных копий стоит в Осло с весны",
    "备份服务器从三月起放在奥斯陆的机房里",
    "バックアップは毎週日曜日の夜に実行される",
    "백업 서버는 오슬로에 있고 매주 일요일에 실행된다",
    "The heartbeat of the agent runs every 30 minutes",
    "[Priya](people/priya.md) prefers tea to coffee",
    "[[people/priya|Priya]] is allergic to nuts",
    'Sam said "never again", and meant the ferry',
    "The session key is rotated every Monday",
    "Make sure that /srv/backup is mounted before the update",
    "No backup is made on Sundays because the disk is cleaned then",
]


@pytest.mark.parametrize("line", JUNK)
def test_junk_is_no_statement(line: str) -> None:
    assert explain_unfit(line)


@pytest.mark.parametrize("line", STATEMENTS)
def test_a_statement_can_stand_alone(line: str) -> None:
    assert explain_unfit(line) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Tea is good", "it is too short for a statement"),
        ("Tea is very good", ""),
        ("备份服务器在奥", "it is too short for a statement"),
        ("备份服务器在奥斯", ""),
        ("Anna Runs with Priya In Oslo", ""),
        ("Anna Runs and Priya Is In Oslo", "it is a title, not a statement"),
        ("red green blue grey pink", "it is a title, not a statement"),
        ("red green blue grey pink gold", ""),
        ("red green blue Grey Pink Gold", "it is a title, not a statement"),
        ("Red Green Blue Grey Pink gold.", ""),
        ("Red Green Blue Grey Pink Gold.", "it is a title, not a statement"),
        ("we saw 55501 and 22331 or 44556 + 77889", "it is mostly numbers and signs"),
        ("call Anna at noon: 555", ""),
    ],
)
def test_how_little_is_no_statement(text: str, reason: str) -> None:
    assert explain_unfit(text) == reason


NOTE = """\
---
title: late talk
---
# 2026-11-14 late talk

Priya prefers tea
to coffee. <!-- trigger: tea -->

- The pump must be
  replaced before winter.
  - The filter fits both pumps.
- 21:10 decided to keep Oslo <!-- status: superseded | by: MEMORY.md | on: 2026-11-16 -->

<!-- observed: 2026-11-01 | status: superseded -->
- The old server was in Bergen.
- The new one is in Oslo.

| a | b |
| --- | --- |

```sh
make all
```

    indented code

<!-- openclaw:dreaming:light:start -->
- generated text that nobody wrote
<!-- openclaw:dreaming:light:end -->
***
> Somebody else said this in a letter
"""


def test_entries_are_items_and_paragraphs_with_their_lines() -> None:
    assert find_entries(NOTE.split("\n")) == [
        Entry(6, 7, "Priya prefers tea to coffee."),
        Entry(9, 10, "The pump must be replaced before winter."),
        Entry(11, 11, "The filter fits both pumps."),
        Entry(12, 12, "21:10 decided to keep Oslo", is_superseded=True),
        Entry(15, 15, "The old server was in Bergen.", is_superseded=True),
        Entry(16, 16, "The new one is in Oslo."),
        Entry(31, 31, "> Somebody else said this in a letter"),
    ]


def test_a_paragraph_is_cut_after_a_line_that_ends_a_sentence() -> None:
    lines = ["The move is on 3 December. Lena", "does the dry run. <!-- x -->", "Nobody deploys on", "Fridays."]
    lines += ["- An item that ends here.", "  It goes on here.", "後で決める。", "明日話す"]
    assert [(entry.start_line, entry.end_line) for entry in find_entries(lines)] == [(1, 2), (3, 4), (5, 8)]
    assert [entry.start_line for entry in find_entries(lines[6:])] == [1, 2]


def test_an_empty_note_has_no_entries_and_a_huge_line_is_one() -> None:
    assert find_entries([]) == find_entries([""]) == []
    huge = "x | " * 100_000
    assert [entry.end_line for entry in find_entries([huge])] == [1]
    assert explain_unfit(huge)
    assert explain_unfit("<!--" * 100_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("09:30 decided to go", "decided to go"),
        ("[09:30:12] - decided", "decided"),
        ("9:30: decided", "decided"),
        ("12:30", "12:30"),
        ("At 9:30 we go", "At 9:30 we go"),
        ("9:30–10:15 Meeting with Priya", "Meeting with Priya"),
        ("[9:30 - 10:15] Meeting with Priya", "Meeting with Priya"),
        ("9:30am: the pump stopped", "the pump stopped"),
        ("9:30 PM the pump stopped", "the pump stopped"),
        ("9:30 Uhr Treffen mit Priya", "Treffen mit Priya"),
        ("9:30 2 pumps stopped", "2 pumps stopped"),
        ("9:30会议", "会议"),
        ("9:30x is no time", "9:30x is no time"),
    ],
)
def test_the_time_of_day_in_front_is_left_out(text: str, expected: str) -> None:
    assert strip_clock(text) == expected


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("Priya prefers tea.", "Priya prefers tea to coffee.", True),
        ("Priya prefers tea to coffee.", "Priya prefers tea.", False),
        ("The backup runs on Sunday.", "Backups run on Sundays", True),
        ("Do not use the blue pump.", "Use the blue pump.", False),
        ("Use the blue pump.", "Do not use the blue pump.", False),
        ("The server listens on port 9090.", "The server listens on port 8080.", False),
        ("The nightly backup of the customer data runs on the server in Oslo.",
         "The nightly backup of the customer data runs on the server in Bergen.", False),
        ("备份服务器在奥斯陆", "备份服务器在奥斯陆。", True),
        ("the and of", "anything", False),
        ("a1 b2 c3 d4 e5 f6 g7 h8 i9 j0", "a1 b2 c3 d4 e5 f6 g7 h8 i9", True),
        ("a1 b2 c3 d4 e5 f6 g7 h8 i9", "a1 b2 c3 d4 e5 f6 g7 h8", False),
    ],
)  # fmt: skip
def test_a_text_adds_nothing_if_its_words_are_known_and_nothing_is_negated(
    text: str, known: str, expected: bool
) -> None:
    assert adds_nothing(find_content(text), find_content(known)) is expected
