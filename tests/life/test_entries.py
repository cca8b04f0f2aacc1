"""Which lines of a note can stand in long-term memory by themselves; the record has each rule, and the scores."""

import pytest

from mdrecall.life.promotion import adds_nothing, explain_unfit, find_content, find_entries, shorten_statement

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


def test_an_empty_note_has_no_entries_and_a_huge_line_is_one() -> None:
    assert find_entries([]) == find_entries([""]) == []
    huge = "x | " * 100_000
    assert [entry.end_line for entry in find_entries([huge])] == [1]
    assert explain_unfit(huge)
    assert explain_unfit("<!--" * 100_000)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 640, "x" * 640),
        (f"{'x' * 353}! {'y' * 400}", f"{'x' * 353}!"),
        (f"{'x' * 350}! {'y' * 400}", f"{'x' * 350}! {'y' * 288}..."),
        (f"{'x' * 416} {'y' * 400}", f"{'x' * 416}..."),
        (f"{'x' * 415} {'y' * 400}", f"{'x' * 415} {'y' * 224}..."),
        (f"{'x' * 639} {'y' * 400}", f"{'x' * 639}..."),
    ],
    ids=["fits", "sentence", "short sentence", "word", "short word", "at the end"],
)
def test_a_long_text_ends_after_a_sentence_or_a_word_if_most_of_it_is_left(text: str, kept: str) -> None:
    assert shorten_statement(text) == kept


def test_a_text_adds_nothing_if_nine_tenths_of_its_words_are_known() -> None:
    words = ["a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8", "i9", "j0"]
    ten, nine, eight = (find_content(" ".join(words[:count])) for count in (10, 9, 8))
    assert adds_nothing(ten, nine)
    assert not adds_nothing(nine, eight)
