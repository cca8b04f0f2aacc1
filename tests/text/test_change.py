"""A changed fact is recognised in many languages, and lines that only look alike are not taken for one."""

import pytest

from mdrecall.text import change as reader
from mdrecall.text.change import Change, Claim, find_beginnings, find_change, may_change, read_claim, read_claims
from tests.text.changed_facts import CHANGED, GROUP, NOT_CHANGED

# Pairs at the limits of the rules, and what is told of them; ``?`` for what only the order of an answer depends on.
LIMITS = """
办公室在三楼。 | 办公室在五楼。 | value 三楼 > 五楼
My dentist is Anna. | My dentist is Ben. | name? Anna > Ben
My dentist was Anna. | My dentist was Ben. | nothing
Dentist: Anna | Dentist: Ben | name? Anna > Ben
My dog is Rex. | My dog is now Bello. | name Rex > Bello
The rent is 900 EUR. | The rent is 950 EUR. | value? 900 > 950
The rent is 900 EUR. | The rent was raised to 950 EUR. | value 900 > 950
The rent is 900 EUR. | The rent is low. | nothing
Lunch with Ana at Noma. | Lunch with Ben at Tantris. | nothing
As of July, the rent of the flat is 900. | As of August, the rent of the flat is 950. | value 900 > 950
The garden shed is not public. | The garden shed is public. | negation  >
The garden shed is not cheap. | The garden shed is public. | nothing
The garden shed is not open to visitors. | The garden shed is open to visitors on Mondays. | negation  >
Carol owns the billing service. | Dave owns the billing service. | name? Carol > Dave
Carol owns the billing service. | Dave took over the billing service from Carol. | name Carol > Dave
Carol owns the billing service. | Dave took over the billing service. | name Carol > Dave
Rosa baked bread for the market. | Rosa baked cake for the market. | nothing
The phase 2 budget report is done. | The phase 3 budget report is done. | nothing
Project Apollo phase 1 | Project Apollo phase 2 | value? 1 > 2
The team lunch costs 12 EUR in Berlin. | The team lunch costs 14 EUR in Paris. | nothing
The team lunch takes 30 minutes. | The team lunch takes 45 minutes. | value 30 > 45
The pool has 20 chairs. | The pool has 12 lamps. | nothing
The garden club meets Anna. | The garden club meets. | nothing
The staging host is "alpha one". | The staging host is "beta two". | value alpha one > beta two
我的密码是苹果。 | 我的密码是香蕉。 | word? 苹果 > 香蕉
Timezone: Europe/Berlin | Timezone: Asia/Tokyo | name? Europe/Berlin > Asia/Tokyo
The shop opens at 9 am. | The shop opens at 10 am. | value 9 > 10
Anna eats fish, eggs, bread, cheese and rice. | Anna does not eat fish. | nothing
Is the shop open? | The shop is not open. | nothing
The garden shed 2 is red. | The garden shed 3 is red. | nothing
Old: see src/a.py and src/b.py | Old: see src/c.py and src/d.py | nothing
Body weight of the dog: 81.2 kg | Body weight of the dog: 80.6 kg | nothing
The phone of Ben Ruiz is 14. | The phone of Ana Ruiz is 14. | nothing
The garden is in Oslo. | The office is in Oslo. | nothing
Carol Marsh owns the garden shed. | Ben owns the garden shed. | name? Carol Marsh > Ben
Tobias has moved and lives in Bilbao. | Ravi has moved and lives in Tallinn. | nothing
Maria lives in Lisbon. | Nina moved to Lisbon. | nothing
Odile is our contact at Solmar. | Bruno is our contact at Solmar. | name Odile > Bruno
The linter is clean and tests pass. | All tests pass and no linter issues. | nothing
We use Jira for task tracking. | We moved task tracking from Jira to Linear. | name Jira > Linear
The internal wiki is called Atlas. | The internal wiki Atlas was renamed to Compass. | name Atlas > Compass
Netflix: 12.99 a month. | Netflix went up to 15.49 a month. | value 12.99 > 15.49
Standup is at 9:30 on weekdays. | Standup moved to 10:00. | value 9:30 > 10:00
The standup is at 9:30. | Paul moved to Bath. | nothing
I take 50 mg of sertraline every morning. | The doctor increased sertraline to 75 mg. | value 50 > 75
I take 50 mg of sertraline. | The doctor increased ibuprofen to 75 mg. | nothing
Falcon deadline: 1 September | The deadline of Falcon was pushed to 15 October. | date 1 September > 15 October
The default branch is master. | Renamed the default branch to main today. | word master > main
The default branch is master. | Pushed the default branch to origin. | nothing
The landlord is Mr Kowalski. | Met the new landlord, Mrs Lindgren. | name? Kowalski > Lindgren
The landlord is Mr Kowalski. | Met the landlord, Mrs Lindgren. | nothing
Odile works at Orbit. | Odile switched the build from Jenkins to Drone. | nothing
Juniper has 5 servers. | Juniper switched to 3 sprints a month. | nothing
Odile lives in Bilbao. | Odile took over the newsletter of Pinecrest. | nothing
The cache holds 4 GB. | The cache was bumped to 8 GB. | value 4 > 8
The nanny comes on Monday. | Nanny cut down to Tuesdays. | date Monday > Tuesdays
The SLA with Orbit is 99.5 percent. | SLA with Orbit renegotiated: 99.9 percent. | value 99.5 > 99.9
Backups: owned by team Blue. | Backups were handed over to team Green. | name Blue > Green
The savings goal is 15 dollars. | Raised the savings goal to 18 dollars. | value 15 > 18
The team eats 3 pizzas. | The team walks to 4 shops. | nothing
I weigh 84 kg. | I weigh 81 kg. | value? 84 > 81
Preferred airline: KLM. | Preferred airline: Finnair. | name KLM > Finnair
On-call lead: Dana. | Farid is on-call lead. | name? Dana > Farid
Team lead is Otto. | Yusra became team lead. | name Otto > Yusra
Ben leads the sales team since the merger. | Ida leads the legal team since the merger. | nothing
Interviewed a candidate for the sales team. | Ida leads the sales team since the merger. | nothing
The standup was moved to 10. | The standup was moved to 14. | value 10 > 14
Moved the standup from 9:30 to 10:00. | The standup is now at 9:15. | value 10:00 > 9:15
The password manager is 1Password. | The password manager is Bitwarden. | name 1Password > Bitwarden
The spare key is kept in the Lada. | The spare key is in the Volvo. | name Lada > Volvo
The report is reviewed by Anna. | The report is written by Tom. | nothing
My dentist is Dr. Ahmed. | First appointment with my new dentist, Dr. Brandt. | name? Ahmed > Brandt
My dentist is Dr. Ahmed. | First appointment with Anna's new dentist, Dr. Brandt. | nothing
The sprint lasts two weeks. | Sprints last three weeks as of today. | value two > three
The areas of focus are Lyon. | The focus areas are Nice. | name Lyon > Nice
Staging: stage.acme.dev | Staging is now at staging.acme.io | value stage.acme.dev > staging.acme.io
Allergic to nuts: Dana. | Allergic to milk: Farid. | nothing
Bins go out on Tuesday night. | Bins go out on Sunday night from March. | date? Tuesday > Sunday
Atlas uses RabbitMQ for events. | Atlas now uses NATS instead of RabbitMQ. | name RabbitMQ > NATS
Tante Gerda wohnt in Kassel. | Tante Gerda ist nach Fulda gezogen. | name Kassel > Fulda
Das Passwort vom Gäste-WLAN ist Amsel77. | Gäste-WLAN hat ein neues Passwort: Zeisig12. | value Amsel77 > Zeisig12
表姐住在苏州。 | 表姐搬到杭州了。 | word 苏州 > 杭州
房租每月四千二百元。 | 房租涨到每月四千五百元。 | value 四千二百元 > 四千五百元
姉は奈良に住んでいる。 | 姉は神戸に引っ越した。 | word 奈良 > 神戸
Our till is Lightspeed. | Switched the till from Lightspeed to Orderbird: its fee rose. | name Lightspeed > Orderbird
Our accountant is Eva Brandl. | Changed the accountant: Eva Brandl retires, Otto took over. | name Eva Brandl > Otto
学费每小时二十五欧元 | 学费涨到二十八欧元。 | value 二十五 > 二十八
`waitMs` (5): Time that a search waits for changed files. | `sizeMs` (9): Time that a search waits. | nothing
Severity of the outage: P2 | Severity of the outage: P2 (degraded but not down) | nothing
Fee: $9/mo per seat (team plan), free for solo devs | The fee is now $12/mo per seat (team plan). | value 9/mo > 12/mo
The dog show of the club: 20 dogs | The dog show of the club: 3 March | date? 20 > 3 March
Rent of the garage: 60 a month | Rent of the garage: June 75 a month | date 60 > June 75
Maya wants to show: cycle time, load, tags, CLI | Maya: cycle time is done, load and tags too, MVP | name? CLI > MVP
We use Jira for tasks. | Jira and Slack for tasks are pushed to March. | nothing
Wishes of the session, at most 400 tokens | A wish for every session: "always", "never". | value? 400 > always" "never
Now let me read the source files again. | Now let me read the test files again. | nothing
"""


def read(text: str, heading: str = "", path: str = "memory/2026-02-03.md") -> Claim | None:
    return next(iter(read_claims(text, heading, path)), None)


def compare(old: str, new: str) -> Change | None:
    older, newer = read(old), read(new, path="memory/2026-05-04.md")
    return find_change(older, newer) if older and newer else None


def is_sure(old: str, new: str) -> bool:
    change = compare(old, new)
    return change is not None and change.is_sure


@pytest.mark.parametrize("first", [0, GROUP, 2 * GROUP], ids=("first", "second", "one-word"))
def test_changes_in_the_notes_of_two_days_are_recognised(first: int) -> None:
    missed = [pair.old for pair in CHANGED[first : first + GROUP] if not compare(pair.old, pair.new)]
    assert len(missed) <= 0.15 * GROUP, missed
    assert [pair for pair in NOT_CHANGED[first : first + GROUP] if is_sure(*pair) or is_sure(*reversed(pair))] == []


def tell(old: str, new: str) -> str:
    change = compare(old, new)
    return f"{change.kind}{'' if change.is_sure else '?'} {change.old} > {change.new}".rstrip() if change else "nothing"


def test_a_line_that_changes_a_claim_is_never_left_unread() -> None:
    changes = [(pair.old, pair.new) for pair in CHANGED if compare(pair.old, pair.new)]
    assert len(changes) > 40
    for old, new in changes:
        assert may_change(new, find_beginnings(read_claims(old))), (old, new)
    assert not may_change("The pool has 20 chairs.", find_beginnings(read_claims("Ana lives in Lisbon.")))


def test_a_change_has_one_value_of_the_same_kind_on_each_side() -> None:
    rows = [row.split(" | ") for row in LIMITS.strip().split("\n")]
    assert [(old, new, tell(old, new)) for old, new, _ in rows] == [(old, new, told) for old, new, told in rows]


def test_the_heading_and_the_file_tell_what_a_short_line_is_about() -> None:
    def tell_at(*places: tuple[str, str]) -> bool | None:
        old, new = (read(text, *place) for text, place in zip(("Rent: 900", "Rent: 950"), places, strict=True))
        assert old
        assert new
        change = find_change(old, new)
        return change.is_sure if change else None

    day = "memory/2026-02-03.md"
    assert tell_at(("", "MEMORY.md"), ("", day)) is True
    assert tell_at(("Flat", "MEMORY.md"), ("Flat", day)) is True
    assert tell_at(("Flat", "MEMORY.md"), ("Office", day)) is None
    assert tell_at(("", "homes/flat.md"), ("", "homes/office.md")) is None
    # Two notes of days may be a log.
    assert tell_at(("", day), ("", day)) is False


def test_facts_about_different_things_do_not_change_each_other() -> None:
    facts = [(place, read(text)) for place, pair in enumerate(CHANGED) for text in (pair.old, pair.new)]
    changes = [(n, m, find_change(one, two)) for n, one in facts for m, two in facts if n != m and one and two]
    assert [change for *_, change in changes if change and change.is_sure] == []


def test_a_claim_does_not_change_itself() -> None:
    for pair in CHANGED:
        assert compare(pair.old, pair.old) is None


def test_list_marks_times_speakers_and_comments_are_no_part_of_a_claim() -> None:
    old = "- [2026-03-01 09:12] User: The shop belongs to Rosa."
    new = "* **The shop** belongs to Hugo. <!-- trigger: shop -->"
    assert compare(old, new) == Change("name", "Rosa", "Hugo")


def test_a_line_of_several_sentences_is_several_claims() -> None:
    line = "The shop belongs to Rosa. It opens on the 4. of May, says Dr. Weiss. 店铺在一楼。停车场在后面。"
    assert [claim.text for claim in read_claims(line)] == [
        "The shop belongs to Rosa.",
        "It opens on the 4. of May, says Dr. Weiss.",
        "店铺在一楼。",
        "停车场在后面。",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "---", "<!-- only a comment -->", "x" * 301, "# The shop belongs to Rosa", "- [ ] call the shop",
        "[Photo of the shop]", '{"shop": 1}', "Is the shop open?", "The shop sells:", 'print("the shop")',
        "src/shop.py and src/till.py",
    ],
)  # fmt: skip
def test_headings_tasks_questions_data_and_lists_of_files_claim_nothing(text: str) -> None:
    assert read_claims(text) == []


def test_words_that_say_nothing_are_no_claim() -> None:
    assert read_claim("the of and") is None
    assert read_claim("The shop") is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The build took 14 minutes.", True),
        ("Deployed the shop.", True),
        ("The branch is called main.", False),
        ("The shop is open today.", True),
        ("今天跑了五公里。", True),
        ("The shop opens at 9.", False),
    ],
)
def test_what_was_so_on_one_day_is_an_event(text: str, expected: bool) -> None:
    claim = read(text)
    assert claim
    assert reader.is_event(claim) == expected
