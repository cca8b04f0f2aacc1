"""The digest of a part of a conversation: what it shows, what it quotes, and what it never lets through."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.sessions.digest import (
    Origin,
    Outline,
    extend_outline,
    find_mark,
    find_sections,
    hide_digests,
    hide_entries,
    merge_digests,
    render_section,
)
from mdrecall.text.redact import redact
from mdrecall.types.transcripts import HostRecord, Step

ORIGIN = Origin("claude-code", "5f0c1234-aaaa", "/home/ada/shop", "shop@main")


def at(number: int, *steps: Step, time: str = "09:00") -> HostRecord:
    return HostRecord(number, number * 100, f"2026-02-10T{time}:00Z", steps)


def digest(*records: HostRecord, origin: Origin = ORIGIN) -> str:
    return render(extend_outline(Outline(), records, origin, redact), origin)


def render(outline: Outline, origin: Origin = ORIGIN) -> str:
    return render_section(outline, origin, lambda time: time[:16].replace("T", " "))


#: Says enough to be an outcome.
DONE = "The whole work is finished, tested and written down."


def asked(text: str) -> Step:
    return Step("user", text)


def said(text: str) -> Step:
    return Step("assistant", text)


def command(text: str, call: str = "c1") -> Step:
    return Step("call", text, call=call)


def result(text: str = "", *, is_ok: bool | None = True, call: str = "c1") -> Step:
    return Step("result", text, call=call, is_ok=is_ok)


def test_a_section_has_a_title_the_outcome_wishes_decisions_open_ends_folders_and_commits() -> None:
    edit = Step("call", files=("/home/ada/shop/src/db/pool.py", "/home/ada/shop/src/db/queue.py"), call="e")
    text = digest(
        at(12, asked("fix the pool of connections")),
        at(13, said("I will look at it, we use it everywhere.")),
        at(14, edit),
        at(15, edit, Step("call", files=("/etc/hosts", "/home/ada/.claude/plans/x.md"), call="h")),
        at(16, command("pytest -q", "a")),
        at(17, result(is_ok=False, call="a")),
        at(18, said("The proxy times out with 20 of them, so we keep 12 connections.")),
        at(19, asked("No, the timeout should be read from the settings. Then commit it.")),
        at(20, command("cd x && git commit -am 'Keep 12'", "g")),
        at(21, result("[main a828e60] Keep 12 connections\n 1 file changed", call="g")),
        at(88, said("All done! The timeout of the pool is read from the settings now. The retry test still fails.")),
        at(161, time="09:40"),
    )
    assert text == (
        "## Session 09:00–09:40 shop@main: fix the pool of connections\n"
        "- Outcome: The timeout of the pool is read from the settings now. (in src/db (2), /etc/hosts)\n"
        "- Wanted: No, the timeout should be read from the settings.\n"
        "- Decided: The proxy times out with 20 of them, so we keep 12 connections.\n"
        "- Open: The retry test still fails.\n"
        "- Commits: a828e60 Keep 12 connections\n"
        "<!-- mdrecall:digest host=claude-code session=5f0c1234-aaaa lines=12-161 -->\n"
    )


def test_an_outline_that_grows_record_by_record_becomes_the_same_section() -> None:
    records = [
        at(1, asked("mend the retry loop of the queue")),
        at(2, command("git commit -m x", "g"), Step("call", files=("/home/ada/shop/a.py",))),
        at(3, result("[main a828e60] Mend it", call="g")),
        at(4, said("The retry loop of the queue waits longer now.")),
        at(5, asked("We never want more than five tries.")),
        at(6, said("The retry loop of the queue gives up after five tries now. It still needs a test.")),
    ]
    outline = Outline()
    for record in records:
        outline = extend_outline(outline, [record], ORIGIN, redact)
    assert render(outline) == digest(*records)
    assert outline.calls == ()


@pytest.mark.parametrize(
    ("requests", "title"),
    [
        (["/review 12", "yes", "mend the retry loop"], ": mend the retry loop"),
        (["why is the retry loop slow?"], ": why is the retry loop slow?"),
        (["mend the retry loop", "paint the barn red"], ": mend the retry loop"),
        (["Do this plan:\n\n# Plan: new queue\n\nWe never want more."], ": Do this plan: Plan: new queue"),
        (["再試行のループを直してください。"], ": 再試行のループを直してください。"),
        (["go on"], ""),
        (["address 30 of the review", "yes", "mend the retry loop", "paint the barn red"],
         ": address 30 of the review; mend the retry loop"),
        (["address 30 of the review", "address 31 of the review"], ": address 30 of the review"),
        (["why does https://www.shop.example/a?b=1 answer so late?"], ": why does shop.example answer so late?"),
    ],
)  # fmt: skip
def test_the_title_is_the_first_request_that_says_something(requests: list[str], title: str) -> None:
    text = digest(*(at(number, asked(each)) for number, each in enumerate(requests, 1)), at(9, said(DONE)))
    assert text.partition("\n")[0] == f"## Session 09:00 shop@main{title}"


def test_a_command_with_what_it_is_about_begins_the_title_and_ends_a_turn() -> None:
    review = Step("call", "/review 12")
    text = digest(at(1, said(DONE)), at(2, review), at(3, asked("mend the retry loop")), at(4, said("Ok.")))
    assert text.startswith("## Session 09:00 shop@main: /review 12; mend the retry loop\n- Outcome: ")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("Done.", ""),
        (
            "Done. The retry loop of the queue waits for a second now.",
            "The retry loop of the queue waits for a second now.",
        ),
        ("The build is green again for all tests.\n\n- The retry loop backs off", "The retry loop backs off"),
        ("The old parser reads five dates per second.\n\n- Bumped the linter", "The old parser reads five dates"),
        (
            "# The retry loop of the queue\n\n- `wait()` in the retry loop of the queue sleeps",
            "`wait()` in the retry loop",
        ),
        ("Here it is:\n```\nretry loop of the queue, now with a wait\n```", ""),
        ("Shall I mend the retry loop of the queue as well?", ""),
        ("再試行のループは一秒待つようになりました。", "再試行のループは一秒待つようになりました。"),
    ],
)
def test_the_outcome_is_what_the_last_answer_says_about_the_request(answer: str, outcome: str) -> None:
    text = digest(at(1, asked("mend the retry loop of the queue 再試行のループ")), at(2, said(answer)))
    assert text.count("- Outcome: ") == bool(outcome)
    assert f"- Outcome: {outcome}" in text or not outcome


def test_what_an_agent_says_before_a_call_is_neither_an_outcome_nor_a_decision() -> None:
    text = digest(
        at(1, asked("speed up the index")),
        at(2, said("We decided to look at the index of the database first.")),
        at(3, command("ls")),
        at(4, said("The index of the database was missing and is there now.")),
    )
    assert "- Outcome: The index of the database was missing and is there now." in text
    assert "We decided" not in text


def test_an_open_end_of_an_earlier_answer_is_forgotten_and_one_of_the_person_is_not() -> None:
    text = digest(
        at(1, asked("The login page is not done yet.")),
        at(2, said("The retry test of the queue still fails.")),
        at(3, asked("mend it")),
        at(4, said("It passes.")),
    )
    assert "- Open: The login page is not done yet." in text
    assert "still fails" not in text


@pytest.mark.parametrize(
    "sentence",
    [
        "We don't want a file of its own for the helpers.",
        "The footer should say filter by agent, not agent.",
        "rather than a flag, use the settings file",
        "Bitte nicht die alten Tests ändern, nur die neuen.",
        "Die Zeit soll aus den Einstellungen kommen.",
        "Il ne faut pas toucher aux anciens tests.",
        "Hay que leer el tiempo de los ajustes.",
        "Bisogna leggere il tempo dalle impostazioni.",
        "O tempo deveria vir das configurações.",
        "De tijd moet uit de instellingen komen.",
        "不要再用旧的解析器。",
        "環境変数ではなく設定ファイルを使う。",
        "환경 변수 대신 설정 파일을 써 주세요.",
    ],
)
def test_orders_that_correct_or_bind_are_kept_from_the_person_and_not_from_the_agent(sentence: str) -> None:
    assert f"- Wanted: {sentence}" in digest(at(1, asked("mend the queue")), at(2, asked(sentence)))
    assert "- Wanted" not in digest(at(1, asked("mend the queue")), at(2, said(sentence)))


@pytest.mark.parametrize(
    "text",
    [
        "Don't touch the other commands for now.",
        "Don't do that.",
        "I don't understand these numbers of yours.",
        "Tell me what you think we should do about the queue.",
        "why should we never use the old queue again?",
        "It should not if they gave the argument.",
        "> we never want the old queue again",
        "```\nwe never want the old queue again\n```",
        "Erst mal soll die Zeit aus den Einstellungen kommen.",
    ],
)
def test_what_binds_nobody_later_is_not_kept_as_a_wish(text: str) -> None:
    assert "- Wanted" not in digest(at(1, asked("mend the queue")), at(2, asked(text)))


def test_of_many_wishes_the_last_ones_are_kept_and_each_once() -> None:
    wishes = [f"The button number {number} should be red." for number in range(9)]
    text = digest(
        at(1, asked("mend the queue")), *(at(2 + number, asked(each)) for number, each in enumerate(wishes * 2))
    )
    assert [line for line in text.split("\n") if "Wanted" in line] == [f"- Wanted: {each}" for each in wishes[3:]]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("Decided", "Wir nehmen Postgres statt MySQL für die Bestellungen."),
        ("Open", "Der Test für die Kasse schlägt immer noch fehl."),
        ("Decided", "On a décidé de garder l'ancien format."),
        ("Open", "Le test du panier échoue encore parfois."),
        ("Decided", "A partir de ahora usamos siempre el puerto 5433."),
        ("Open", "El despliegue todavía no funciona en producción."),
        ("Decided", "Abbiamo deciso di tenere la vecchia coda."),
        ("Open", "La migrazione fallisce ancora ogni tanto."),
        ("Decided", "Usamos o cache local em vez de Redis."),
        ("Open", "O teste de carga ainda não passa."),
        ("Decided", "We gebruiken voortaan de nieuwe wachtrij."),
        ("Open", "De migratie moet nog getest worden."),
        ("Decided", "Мы решили оставить старый формат."),
        ("Open", "Тест корзины ещё не проходит."),
        ("Decided", "我们决定保留旧的解析器。"),
        ("Open", "重试的测试还没通过。"),
        ("Decided", "今後の設定は環境変数ではなくファイルに置く。"),
        ("Open", "再試行のテストはまだ失敗する。"),
        ("Decided", "앞으로는 항상 새 큐를 사용한다."),
        ("Open", "재시도 테스트가 아직 실패한다."),
    ],
)
def test_decisions_and_open_ends_are_found_in_the_languages_that_mdrecall_knows(kind: str, sentence: str) -> None:
    text = digest(at(1, asked("mend the queue")), at(2, asked(f"Ok.\n\n- {sentence}\n")))
    assert f"- {kind}: {sentence}" in text


def test_secrets_are_masked_wherever_they_stand() -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
    text = digest(
        at(1, asked(f"{'please ' * 30} use {secret} for it")),
        at(2, asked(f"We decided that the key is {secret} from now on.")),
        at(3, command(f"curl -H 'Authorization: Bearer {secret}' https://example.com -d {'x' * 40}")),
        at(4, command("git commit -m x", "g"), result(f"[main a828e60] use {secret}", call="g")),
        at(5, Step("call", files=(f"/tmp/{secret}",))),
        at(6, said(f"The key for the requests is {secret} now.")),
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


def test_a_long_part_stays_a_short_section_and_a_short_outline() -> None:
    records = [
        at(
            number,
            asked(f"question {number} " + "word " * 100),
            said(f"We decided number {number} because " + "of this " * 40 + "."),
            asked(f"We never want {number} " + "of this " * 40 + "."),
            command(f"git commit {number}", f"c{number}"),
            Step("call", files=(f"folder-{number}/{'x' * 300}.py",)),
        )
        for number in range(1, 500)
    ]
    outline = extend_outline(Outline(), records, ORIGIN, redact)
    assert len(render(outline)) < 6_000
    assert len(repr(outline)) < 120_000


def test_a_part_over_midnight_names_both_days_and_one_without_times_none() -> None:
    late = HostRecord(1, 1, "2026-02-09T23:50:00Z", (asked("mend the queue"), said(DONE)))
    assert digest(late, at(2, time="00:20")).startswith("## Session 2026-02-09 23:50–2026-02-10 00:20 shop@main: ")
    assert digest(late._replace(at="")).startswith("## Session shop@main: mend the queue\n")


def test_the_mark_of_a_session_is_the_last_line_of_all_its_digests_in_a_note() -> None:
    one = "<!-- mdrecall:digest host=codex session=a lines=1-10 -->"
    note = f"{one}\r\n\n{one.replace('1-10', '11-30')}\n{one.replace('codex', 'qwen').replace('1-10', '1-99')}\n"
    assert find_mark(note, "codex", "a") == 30
    assert find_mark(note, "codex", "b") == 0
    assert find_mark(f"quoted {one}\n", "codex", "a") == 0
    assert find_mark(one.replace("10", "9" * 5000), "codex", "a") == 0


def test_the_sections_of_a_note_are_found_and_nothing_of_the_person_is_in_one() -> None:
    one = digest(
        at(1, said("The pool keeps twelve open connections for requests.")),
        origin=ORIGIN._replace(project="github.com/ada/my shop"),
    )
    two = digest(
        at(2, said("The queue keeps twelve open connections for requests.")), origin=ORIGIN._replace(session="b")
    ).replace("- ", "### mine\n- ", 1)
    note = f"# Tuesday\n\nbefore\n\n{one}after the mark\n\n{two}"
    first, second = find_sections(note.replace("\n", "\r\n"))
    assert (first.host, first.session, first.project) == ("claude-code", "5f0c1234-aaaa", "github.com/ada/my%20shop")
    assert first.is_of(["x", "github.com/ada/my shop"])
    assert not second.is_of(["github.com/ada/my shop"])
    assert first.heading.startswith("## Session 09:00 shop@main")
    assert first.lines == ("- Outcome: The pool keeps twelve open connections for requests.",)
    assert second.lines == ("### mine", "- Outcome: The queue keeps twelve open connections for requests.")
    assert note.split("\n")[first.last] == "after the mark"
    assert find_sections("no digest") == []
    hidden = hide_digests(note, ["github.com/ada/my shop"])
    assert [line for line in hidden.split("\n") if line] == [
        "# Tuesday", "before", first.heading, *first.lines, "after the mark"
    ]  # fmt: skip


def old_digest(time: str, numbers: str, *items: str, session: str = "5f0c1234-aaaa") -> str:
    mark = f"<!-- mdrecall:digest host=claude-code session={session} project=p lines={numbers} -->"
    return "\n".join((f"## Session {time} shop@main (claude-code {session[:8]}…)", *items, mark)) + "\n"


def test_the_sections_of_earlier_versions_become_one_and_the_lines_of_the_person_stay() -> None:
    one = old_digest(
        "09:00–09:10",
        "1-9",
        '- Asked: "fix the pool" (L1)',
        "- Files changed: src/db/pool.py (2), src/db/queue.py (1)",
        "- Commands: `pytest -q` (2, last ok)",
        '- Commits: a828e60 "Keep 12 connections", a828e61 "Mend it"',
    )
    two = old_digest(
        "09:20",
        "10-20",
        '- Asked: "The queue should be mended as well." (L10)',
        '- Said: "We decided to keep 12 connections." (L11)',
        '- Said: "It is slow because of the index." (L12)',
        '- Open: "The retry test still fails." (L20)',
    )
    other = old_digest("09:15", "1-3", '- Asked: "paint the barn" (L1)', session="b")
    mixed = old_digest("10:00", "21-30", '- Asked: "x" (L21)', "a line of mine")
    new = digest(at(31, asked("water the garden"), said(DONE)))
    note = f"# Tuesday\n\nmine\n\n{one}\n{other}\nmine too\n\n{two}\n{mixed}\n{new}"
    merged = merge_digests(note)
    assert merged == (
        "# Tuesday\n\nmine\n\n"
        "## Session 09:15 shop@main: paint the barn\n"
        "<!-- mdrecall:digest host=claude-code session=b project=p lines=1-3 -->\n\nmine too\n\n"
        "## Session 09:00–09:20 shop@main: fix the pool\n"
        "- Wanted: The queue should be mended as well.\n"
        "- Decided: We decided to keep 12 connections.\n"
        "- Open: The retry test still fails.\n"
        "- Files: src/db (2)\n"
        "- Commits: a828e60 Keep 12 connections, a828e61 Mend it\n"
        "<!-- mdrecall:digest host=claude-code session=5f0c1234-aaaa project=p lines=1-20 -->\n\n"
        f"{mixed}\n{new}"
    )
    assert merge_digests(merged) == merged
    assert find_mark(merged, "claude-code", "5f0c1234-aaaa") == 31


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
    assert all(item.startswith("- ") for item in items)
    assert len(text.splitlines()) == len(items) + 2
    assert find_mark(text, "claude-code", "5f0c1234-aaaa") == len(records)
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)
    assert mark.endswith(f"lines=1-{len(records)} -->")


def test_an_answer_is_its_last_four_pieces() -> None:
    pieces = [said(f"We keep {number} connections.") for number in range(5)]
    text = digest(at(1, asked("go on")), *(at(2 + number, piece) for number, piece in enumerate(pieces)))
    assert re.findall(r"We keep (\d)", text) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (["a.py"], "a.py"),
        (["a.py", "b.py"], ". (2)"),
        (["src/a.py", "src/b.py", "src/a.py", "docs/x.md"], "src (2), docs/x.md"),
        (["/srv/other/shop/src/deep/a.py", "/srv/b.py"], "…/src/deep/a.py, /srv/b.py"),
        ([os.path.expanduser("~/else/where/a/b/c.py"), os.path.expanduser("~/.claude/x.md")], "~/else/where/a/b/c.py"),
        ([f"f{number}/a.py" for number in range(5)], "f0/a.py, f1/a.py, f2/a.py, 2 more"),
    ],
)
def test_files_are_named_by_their_folders(files: list[str], shown: str) -> None:
    paths = tuple(file if file.startswith("/") else f"/home/ada/shop/{file}" for file in files)
    assert f"- Files: {shown}\n" in digest(at(1, Step("call", files=paths)))


def test_superseded_lines_are_hidden_and_the_others_keep_their_numbers() -> None:
    note = (
        "# Facts\n"
        "- Maria lives in Porto. <!-- status: superseded | by: MEMORY.md | on: 2026-11-16 -->\n"
        "  with her brother\n"
        "- Maria lives in Lisbon. <!-- trigger: maria -->\n"
        "<!-- observed: 2026-01-01 | status: superseded -->\n"
        "- likes tea\n"
        "<!-- observed: 2026-02-01 | status: active -->\n"
        "- likes coffee\n"
    )
    assert hide_entries(note, lambda marks: marks.is_superseded)[0].split("\n") == [
        "# Facts", "", "", "- Maria lives in Lisbon.", "", "", "", "- likes coffee", "",
    ]  # fmt: skip
    assert hide_entries("- plain\n", lambda marks: marks.is_superseded)[0] == "- plain\n"
