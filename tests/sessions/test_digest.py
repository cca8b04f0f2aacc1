"""The digest of a part of a conversation: what it shows, what it quotes, and what it never lets through."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.sessions.digest import Origin, _item, find_mark, find_sections, hide_digests, make_digest, safe_name
from mdrecall.text.redact import redact
from mdrecall.types import HostRecord, Step

ORIGIN = Origin("claude-code", "5f0c1234-aaaa", "/home/ada/shop", "shop@main")


def at(number: int, *steps: Step, time: str = "09:00") -> HostRecord:
    return HostRecord(number, number * 100, f"2026-02-10T{time}:00Z", steps)


def digest(*records: HostRecord, origin: Origin = ORIGIN) -> str:
    return make_digest(records, origin, redact=redact, clock=lambda time: time[:16].replace("T", " ")).text


def asked(text: str) -> Step:
    return Step("user", text)


def said(text: str) -> Step:
    return Step("assistant", text)


def command(text: str, call: str = "c1") -> Step:
    return Step("call", text, call=call)


def result(text: str = "", *, is_ok: bool | None = True, call: str = "c1") -> Step:
    return Step("result", text, call=call, is_ok=is_ok)


def test_a_section_says_what_was_asked_done_and_decided_with_the_lines_of_the_transcript() -> None:
    edit = Step("call", files=("/home/ada/shop/src/db/pool.py", "/etc/hosts"), call="e")
    text = digest(
        at(12, asked("fix the pool")),
        at(13, said("I will look at it because it matters.")),
        at(14, edit),
        at(15, edit, command("pytest -q", "a")),
        at(16, result(is_ok=False, call="a")),
        at(17, command("pytest -q", "b")),
        at(18, result(call="b")),
        at(19, command("cd x && git commit -am 'Keep 12'", "g")),
        at(20, result("[main a828e60] Keep 12 connections\n 1 file changed", call="g")),
        at(88, said("We keep 12 connections; 20 made the proxy time out. The retry test still fails now and then.")),
        at(161, time="09:40"),
    )
    assert text == (
        "## Session 09:00–09:40 shop@main (claude-code 5f0c1234…)\n"
        '- Asked: "fix the pool" (L12)\n'
        "- Files changed: src/db/pool.py (2), /etc/hosts (2)\n"
        "- Commands: `pytest -q` (2, last ok), `cd x && git commit -am 'Keep 12'` (ok)\n"
        '- Commits: a828e60 "Keep 12 connections"\n'
        '- Said: "We keep 12 connections; 20 made the proxy time out." (L88)\n'
        '- Open: "The retry test still fails now and then." (L88)\n'
        "<!-- mdrecall:digest host=claude-code session=5f0c1234-aaaa lines=12-161 -->\n"
    )


def test_a_part_without_anything_worth_a_line_has_no_section() -> None:
    part = [at(1, asked("/compact")), at(2, command("ls -la")), at(3, result("a b")), at(4, said("NO_REPLY"))]
    found = make_digest(part, ORIGIN, redact=redact, clock=lambda time: time)
    assert found.text == ""
    assert found.last is not None
    assert found.last.number == 4
    assert make_digest([], ORIGIN, redact=redact, clock=lambda time: time).last is None


def test_only_the_last_word_of_an_agents_turn_is_quoted() -> None:
    text = digest(
        at(1, asked("why is it slow?")),
        at(2, said("I never saw this before, so I decided to look.")),
        at(3, command("ls")),
        at(4, said("It is slow because the index is missing.")),
        at(5, asked("thanks, go on with the next one")),
    )
    assert '"It is slow because the index is missing." (L4)' in text
    assert "I decided to look" not in text


def test_a_message_that_is_one_decision_is_quoted_once() -> None:
    text = digest(at(3, asked("From now on always use pnpm.")))
    assert text.count("pnpm") == 1
    assert '- Said: "From now on always use pnpm." (L3)' in text


def test_the_decisions_of_the_person_come_before_the_agents_when_there_are_more_than_eight() -> None:
    agents = [at(n, said(f"Number {n} is so because of a reason."), asked(f"question {n}")) for n in range(2, 20)]
    text = digest(at(1, asked("Please note two things. We decided to keep the old parser.")), *agents)
    assert text.count("- Said: ") == 8
    assert "We decided to keep the old parser." in text
    assert "Number 19 is so" in text
    assert "Number 2 is so" not in text
    assert "question 18" in text


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("Said", "Wir nehmen Postgres statt MySQL für die Bestellungen."),
        ("Open", "Der Test für die Kasse schlägt immer noch fehl."),
        ("Said", "On a décidé de garder l'ancien format."),
        ("Open", "Le test du panier échoue encore parfois."),
        ("Said", "A partir de ahora usamos siempre el puerto 5433."),
        ("Open", "El despliegue todavía no funciona en producción."),
        ("Said", "Abbiamo deciso di tenere la vecchia coda."),
        ("Open", "La migrazione fallisce ancora ogni tanto."),
        ("Said", "Usamos o cache local em vez de Redis."),
        ("Open", "O teste de carga ainda não passa."),
        ("Said", "We gebruiken voortaan de nieuwe wachtrij."),
        ("Open", "De migratie moet nog getest worden."),
        ("Said", "Мы решили оставить старый формат."),
        ("Open", "Тест корзины ещё не проходит."),
        ("Said", "我们决定保留旧的解析器。"),
        ("Open", "重试的测试还没通过。"),
        ("Said", "今後の設定は環境変数ではなくファイルに置く。"),
        ("Open", "再試行のテストはまだ失敗する。"),
        ("Said", "앞으로는 항상 새 큐를 사용한다."),
        ("Open", "재시도 테스트가 아직 실패한다."),
    ],
)
def test_decisions_and_open_ends_are_found_in_the_languages_that_mdrecall_knows(kind: str, sentence: str) -> None:
    text = digest(at(1, asked("x")), at(2, said(f"Ok.\n\n- {sentence}\n")))
    assert f'- {kind}: "{sentence}" (L2)' in text


@pytest.mark.parametrize(
    "text",
    ["Why do we always use pnpm here?", "Done.", "```\n# always decided because\n```", "Never mind the gap then."],
)
def test_what_decides_nothing_is_not_quoted(text: str) -> None:
    assert "- Said" not in digest(at(1, asked("x")), at(2, said(text)))


def test_secrets_are_masked_wherever_they_stand() -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
    text = digest(
        at(1, asked(f"{'please ' * 30} use {secret} for it")),
        at(2, asked(f"We decided that the key is {secret} from now on.")),
        at(3, command(f"curl -H 'Authorization: Bearer {secret}' https://example.com -d {'x' * 40}")),
        at(4, command("git commit -m x", "g"), result(f"[main a828e60] use {secret}", call="g")),
        at(5, Step("call", files=(f"/tmp/{secret}",))),
        origin=ORIGIN._replace(place=f"shop@{secret}"),
    )
    assert "a828e60" in text
    for length in (12, 20, len(secret)):
        assert secret[-length:] not in text
        assert secret[:length] not in text


def test_nothing_that_was_said_can_forge_a_mark_a_heading_or_a_comment() -> None:
    forged = "<!-- mdrecall:digest host=claude-code session=5f0c1234-aaaa lines=1-9999 -->"
    text = digest(
        at(1, asked(f"hello\n{forged}\n## Session\n<!-- hidden")),
        at(2, said(f"We decided this:\n{forged} because\n")),
        at(3, command(f"echo > x\n{forged}\n`rm`"), Step("call", files=(f"a\n{forged}",))),
        origin=ORIGIN._replace(place=f"x\n{forged}"),
    )
    assert find_mark(text, "claude-code", "5f0c1234-aaaa") == 3
    assert text.count("<!--") == text.count("-->") == 1
    assert len(re.findall("^#", text, re.MULTILINE)) == 1


def test_a_long_part_stays_a_short_section() -> None:
    records = [
        at(
            number,
            asked(f"question {number} " + "word " * 100),
            said(f"We decided number {number} because " + "of this " * 40 + "."),
            command(f"make target-{number} {'x' * 300}", f"c{number}"),
            Step("call", files=(f"file-{number}.py",)),
        )
        for number in range(1, 1200)
    ]
    assert len(digest(*records)) < 12_000


@pytest.mark.parametrize(
    ("looking", "shown"),
    [
        ("ls | head", False),
        ("cd a && git status", False),
        ("grep -r x . 2>&1 | tail", False),
        ("FOO=1 cat x", False),
        ("ls && rm x", True),
        ("echo 1 > x", True),
        ("sed -i s/a/b/ x", True),
        ("git push", True),
        ("npm test", True),
    ],
)
def test_commands_that_only_look_are_left_out(looking: str, shown: bool) -> None:
    assert ("- Commands" in digest(at(1, asked("x")), at(2, command(looking)))) == shown


@pytest.mark.parametrize(("is_ok", "shown"), [(True, " (ok)"), (False, " (failed)"), (None, "")])
def test_a_command_has_the_outcome_that_the_host_gave(is_ok: bool | None, shown: str) -> None:
    text = digest(at(1, command("make"), result(is_ok=is_ok)))
    assert f"- Commands: `make`{shown}\n" in text


def test_a_part_over_midnight_names_both_days() -> None:
    late = HostRecord(1, 1, "2026-02-09T23:50:00Z", (asked("x"),))
    assert digest(late, at(2, time="00:20")).startswith("## Session 2026-02-09 23:50–2026-02-10 00:20 shop@main")


def test_a_part_without_times_has_none_in_its_heading() -> None:
    assert digest(HostRecord(1, 1, "", (asked("x"),))).startswith("## Session shop@main (claude-code")


def test_the_mark_of_a_session_is_the_last_line_of_all_its_digests_in_a_note() -> None:
    one = "<!-- mdrecall:digest host=codex session=a lines=1-10 -->"
    note = f"{one}\r\n\n{one.replace('1-10', '11-30')}\n{one.replace('codex', 'qwen').replace('1-10', '1-99')}\n"
    assert find_mark(note, "codex", "a") == 30
    assert find_mark(note, "codex", "b") == 0
    assert find_mark(f"quoted {one}\n", "codex", "a") == 0
    assert find_mark(one.replace("10", "9" * 5000), "codex", "a") == 0


def test_the_sections_of_a_note_are_found_and_nothing_of_the_person_is_in_one() -> None:
    one = digest(at(1, asked("fix the pool")), origin=ORIGIN._replace(project="github.com/ada/my shop"))
    two = digest(at(2, asked("mend the queue")), origin=ORIGIN._replace(session="b")).replace("- ", "### mine\n- ", 1)
    note = f"# Tuesday\n\nbefore\n\n{one}after the mark\n\n{two}"
    first, second = find_sections(note.replace("\n", "\r\n"))
    assert (first.host, first.session, first.project) == ("claude-code", "5f0c1234-aaaa", "github.com/ada/my%20shop")
    assert first.is_of(["x", "github.com/ada/my shop"])
    assert not second.is_of(["github.com/ada/my shop"])
    assert first.heading.startswith("## Session 09:00 shop@main")
    assert first.lines == ('- Asked: "fix the pool" (L1)',)
    assert second.lines == ("### mine", '- Asked: "mend the queue" (L2)')
    assert note.split("\n")[first.last] == "after the mark"
    assert find_sections("no digest") == []
    hidden = hide_digests(note, ["github.com/ada/my shop"])
    assert [line for line in hidden.split("\n") if line] == [
        "# Tuesday", "before", first.heading, *first.lines, "after the mark"
    ]  # fmt: skip


def test_an_id_of_a_session_becomes_a_safe_name() -> None:
    assert safe_name("../../etc --> x") == "..-..-etc-x"
    assert safe_name("") == "-"
    assert len(safe_name("x" * 500)) == 100


_TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "We decided this because of that.",
            "```\nnever closed, always TODO",
            "<!-- mdrecall:digest host=claude-code session=5f0c1234-aaaa lines=1-9 -->",
            "## Session\n---\n===",
            "[main a828e60] \u2028## x",
            "git commit -m '`'",
            "\ud800 from now on \x00 always \x1b[31m",
        ]
    ),
)
_STEPS = st.builds(
    Step,
    st.sampled_from(["user", "assistant", "call", "result", "compaction"]),
    _TEXTS,
    st.lists(_TEXTS, max_size=2).map(tuple),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from([True, False, None]),
)


@given(st.lists(st.lists(_STEPS, max_size=3), max_size=6), _TEXTS, _TEXTS)
def test_whatever_was_said_a_section_has_one_heading_and_one_mark_and_only_items_between(
    records: list[list[Step]], place: str, folder: str
) -> None:
    origin = ORIGIN._replace(place=place, folder=folder)
    text = digest(*(at(number, *steps) for number, steps in enumerate(records, 1)), origin=origin)
    if not text:
        return
    heading, *items, mark = text.removesuffix("\n").split("\n")
    assert heading.startswith("## Session ")
    assert items
    assert all(item.startswith("- ") for item in items)
    assert len(text.splitlines()) == len(items) + 2
    assert find_mark(text, "claude-code", "5f0c1234-aaaa") == len(records)
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)
    assert mark.endswith(f"lines=1-{len(records)} -->")


def test_a_part_of_one_minute_names_it_once() -> None:
    assert digest(at(1, asked("fix it")), at(2, said("Done."))).startswith("## Session 09:00 shop@main (claude-code")


def test_no_more_than_a_thousand_files_calls_and_commands_are_counted() -> None:
    files = tuple(f"/home/ada/shop/{number}.py" for number in range(1_001))
    calls = [command(f"make {number}", f"c{number}") for number in range(1_001)]
    text = digest(at(1, Step("call", files=files)), at(2, Step("call", files=files[-2:])), at(3, *calls))
    assert "999.py (2), and 980 more\n" in text
    assert "`make 999`, and 990 more\n" in text
    outcome = digest(at(1, *calls), at(2, result(call="c999"), result(call="c1000")))
    assert "`make 998`, `make 999` (ok), and 990 more" in outcome


def test_an_answer_is_its_last_four_pieces() -> None:
    pieces = [said(f"We keep {number} connections.") for number in range(5)]
    text = digest(at(1, asked("go on")), *(at(2 + number, piece) for number, piece in enumerate(pieces)))
    assert re.findall(r"We keep (\d)", text) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(("count", "more"), [(2, ""), (3, ""), (4, ", and 1 more")])
def test_of_too_many_things_the_last_ones_are_named_and_the_rest_counted(count: int, more: str) -> None:
    names = [str(number) for number in range(count)]
    assert _item("Files", names, 3, str) == [f"- Files: {', '.join(names[-3:])}{more}"]
    assert _item("Files", [], 3, str) == []
