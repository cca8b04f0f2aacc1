import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.core.conversation.flush import Moment, Prompts, make_prompts, make_request, time_words


def moment(zone: str = "UTC", at: datetime = datetime(2026, 2, 16, 15, 0, tzinfo=UTC)) -> Moment:
    here = at.astimezone(ZoneInfo(zone))
    return Moment(here.year, here.month, here.day, here.weekday(), here.hour, here.minute, zone)


def test_the_time_is_written_as_openclaw_writes_it() -> None:
    assert time_words(moment("America/New_York"), twelve_hours=True) == "Monday, February 16th, 2026 — 10:00 AM"
    assert time_words(moment("Asia/Tokyo"), twelve_hours=False) == "Tuesday, February 17th, 2026 — 00:00"


@pytest.mark.parametrize(
    ("hour", "words"),
    [(0, "12:05 AM"), (1, "1:05 AM"), (11, "11:05 AM"), (12, "12:05 PM"), (13, "1:05 PM"), (23, "11:05 PM")],
)
def test_twelve_hours_have_no_zero(hour: int, words: str) -> None:
    assert time_words(moment()._replace(hour=hour, minute=5), twelve_hours=True).endswith(f"— {words}")


@pytest.mark.parametrize(
    ("day", "words"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"),
     (22, "22nd"), (23, "23rd"), (30, "30th"), (31, "31st")],
)  # fmt: skip
def test_days_are_counted(day: int, words: str) -> None:
    assert f" {words}, " in time_words(moment()._replace(day=day), twelve_hours=False)


def asked(**custom: str) -> Prompts:
    return make_prompts(moment("America/New_York"), **custom)  # type: ignore[arg-type]


def test_the_built_in_prompts_say_what_has_to_be_said() -> None:
    found = asked()
    assert found.path == "memory/2026-02-16.md"
    for text in (found.system, found.user):
        assert "memory/2026-02-16.md" in text
        assert "YYYY" not in text
        assert "NO_REPLY" in text
        assert "ppend" in text
        assert "read-only" in text
        assert "MEMORY.md, SOUL.md, TOOLS.md and AGENTS.md" in text
    assert "compact" in found.user
    assert found.user.splitlines()[-1] == "Current time: Monday, February 16th, 2026 — 10:00 (America/New_York)"
    assert "Current time" not in found.system


def test_the_date_is_the_users_and_not_the_machines() -> None:
    assert make_prompts(moment("Asia/Tokyo")).path == "memory/2026-02-17.md"
    assert "memory/2026-02-17.md" in make_prompts(moment("Asia/Tokyo")).system


def test_a_custom_prompt_gets_what_it_lacks() -> None:
    found = asked(user="Save things on YYYY-MM-DD.", system="Flush.")
    assert found.user.startswith("Save things on 2026-02-16.\n\nThe only file to write to is memory/2026-02-16.md")
    assert found.system.startswith("Flush.\n\n")
    for text in (found.user, found.system):
        assert all(word in text for word in ("memory/2026-02-16.md", "Append", "read-only", "NO_REPLY"))


def test_a_custom_prompt_that_has_everything_is_left_as_it_is() -> None:
    whole = "Append to memory/YYYY-MM-DD.md, MEMORY.md is read only, or NO_REPLY. Current time: now"
    assert asked(user=f"  {whole}\n").user == whole.replace("YYYY-MM-DD", "2026-02-16")


@pytest.mark.parametrize("blank", ["", "  \n "])
def test_a_blank_prompt_is_the_built_in_one(blank: str) -> None:
    assert asked(user=blank, system=blank) == asked()


def test_the_system_prompt_follows_what_the_run_has_anyway() -> None:
    assert asked(extra_system=" You are Ada.\n", system="Flush.").system.startswith("You are Ada.\n\nFlush.")


@given(st.text(), st.text())
def test_whatever_a_custom_prompt_says_the_hints_and_the_date_are_in_it(user: str, system: str) -> None:
    found = asked(user=user, system=system)
    for text in (found.user, found.system):
        assert "NO_REPLY" in text
        assert re.search(r"memory/\d{4}-\d\d-\d\d\.md", text)
        assert re.search("append", text, re.IGNORECASE)
        assert "YYYY-MM-DD" not in text
    assert found.user.count("Current time:") >= 1


def test_a_request_to_a_model_in_another_folder_names_the_tool_the_one_file_and_the_way_to_say_nothing() -> None:
    request = make_request(moment(), "/home/ada/notes/")
    assert "memory_append tool" in request
    assert "/home/ada/notes/memory/2026-02-16.md and to no other file" in request
    assert "reply with NO_REPLY" in request


def test_a_custom_prompt_takes_the_place_of_the_request_and_keeps_the_file() -> None:
    request = make_request(moment(), "/home/ada/notes", user="Note the birds you saw.")
    assert request.startswith("Note the birds you saw.")
    assert "NO_REPLY" in request
    assert request.endswith("\nThe file to write to: /home/ada/notes/memory/2026-02-16.md")
