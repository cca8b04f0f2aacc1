"""A changed fact is recognised in many languages, and things that only look alike are not taken for one."""

import pytest

from mdrecall.text.statements import Change, find_change, read_statement, read_statements
from tests.text.changed_facts import CHANGED, GROUP, NOT_CHANGED

# What is told of each of CHANGED, in their order; with ``<>`` the same is told the other way round.
TOLD = """
name Porto > Lisbon May
number 8080 <> 9443
date 3 14:00 <> 10 9:30
name Carol <> Dave
name We use Jira for task tracking. > Linear
negation  <>
state broken <> repaired
number blue-heron-42 <> green-otter-77
number 950 > 1 020 July
date Friday <> Tuesday
number 4 <> 11
name Siemens München <> Bosch Stuttgart
number 4471 <> 9035
date lunes 10 <> jueves 12
name Torino Garibaldi <> Bologna Zamboni
state rood <> blauw
name Казани <> Самаре
number 13800001111 <> 13922223333
state 東京駅 <> 横浜駅
date 금 3 <> 월 10
name Priya Raman <> Elena Costa
date 02:00 <> 04:30
negation  <>
name Darjeeling <> Sencha days
number 100 <> 250
state hold <> active
state climbing hall > swimming pool
number 14 <> 16 upgrade
name Allianz > HUK January
date 7:15 <> 7:40
number 60 > Juni 75
state kaputt <> repariert
name Lyon <> Nantes
number 2580 <> 1397
number 8h 1 <> 11h 2
date torsdag <> måndag
number 5000 <> 7000
name MySQL > PostgreSQL
number 14 <> 10 9
state 부산 <> 대구
number third <> fifth
name Weber <> Klein
date May <> June
name Volvo <> Skoda
nothing
name Petrov <> Adeyemi
name Weber <> Klein
number dritten <> fünften
state 王 <> 陈
number 三 階 <> 五 階
state basement <> library
state swordfish <> marigold
number quarter nine <> half ten
name Duarte <> Lindqvist
name Sommer <> Winter
name Morel <> Girard
number segundo <> cuarto
number 二 <> 六
state 佐藤 <> 高橋
state 삼층 <> 오층
"""

# Pairs at the limits of the rules, in the same form.
LIMITS = """
办公室在三楼。 | 办公室在五楼。 | number 三 <> 五
The office is small and old. | The office is large and very new. | nothing
My dentist is Anna. | My dentist is Ben. | name Anna <> Ben
My dentist was Anna. | My dentist was Ben. | nothing
Dentist: Anna | Dentist: Ben | name Anna <> Ben
Note: Anna | Note: Ben | nothing
Anna's dog is brown. | Anna's dog is black. | nothing
My dog is Rex. | My dog is Bello. | nothing
My dog is Rex. | My dog is now Bello. | nothing
My dog is in the garden. | My dog is in the kitchen. | state garden <> kitchen
The rent is 900 EUR. | The rent is 950 EUR. | number 900 <> 950
The rent is 900 EUR. | The rent is low. | nothing
The rent is 900 EUR. | The rent changed to low. | nothing
As of July, the rent of the flat is 900. | As of August, the rent of the flat is 950. | number 900 <> 950
The garden shed is not public. | The garden shed is public. | negation  <>
The garden shed is not cheap. | The garden shed is public. | nothing
The garden shed is not open to visitors. | The garden shed is open to visitors on Mondays. | negation  <>
Carol owns the billing service. | Dave owns the billing service. | name Carol <> Dave
Carol likes the billing service. | Dave likes the billing service. | nothing
carol owns the billing service. | dave owns the billing service. | nothing
Rosa baked bread for the market. | Rosa moved bread to the fair. | nothing
Rosa baked bread for the market. | Rosa baked cake for the market. | nothing
The phase 2 budget report is done. | The phase 3 budget report is done. | nothing
The budget of phase 2 | The budget of phase 3 | nothing
The garden house wall is red. | The garden house wall is green. | state red <> green
The garden house wall is red. | The garden house wall is broken. | nothing
The garden house wall is Herr Braun. | The garden house wall is Herr Rot. | name Braun <> Rot
The team lunch costs 12 EUR in Berlin. | The team lunch costs 14 EUR in Paris. | nothing
The team lunch is 30 minutes. | The team lunch is 45 minutes. | number 30 <> 45
The garden club meets Anna. | The garden club meets. | nothing
The garden club meets Anna. | The garden club meets Ben at noon. | nothing
Our office wall clock is blue. | Our office wall clock is very old and made of dark oak. | nothing
私の歯医者は田中先生です。 | 私の歯医者は鈴木先生です。 | nothing
내 비밀번호는 사과이다. | 내 비밀번호는 바나나이다. | state 사과 <> 바나나
Timezone: Europe/Berlin | Timezone: Asia/Tokyo | name Europe Berlin <> Asia Tokyo
The car is in Berlin. | The car is in Paris. | name Berlin <> Paris
The car is on the street. | The car is behind the house. | state street <> house
The shop opens at 9 am. | The shop opens at 10 am. | number 9 <> 10
The shop floor lamp is on. | The shop floor lamp is off. | nothing
The shop floor lamp is good. | The shop floor lamp is bad. | state good <> bad
The shop floor lamp cost much. | The shop floor lamp cost little. | nothing
My password is blue horse battery staple. | My password is green sheep charger. | nothing
The garden shed is locked without reason. | The garden shed is locked. | nothing
我的密码是苹果。 | 我的密码是香蕉。 | state 苹果 <> 香蕉
我们的办公室在北京。 | 我们的办公室在上海。 | state 北京 <> 上海
会议室在一楼 | 会议室在Berlin | nothing
Carol owns 12. | Dave owns 12. | nothing
Carol baker is the owner of the shop. | Dave miller is the owner of the shop. | nothing
Anna eats fish, eggs, bread, cheese and rice. | Anna does not eat fish. | nothing
Anna eats fish, eggs and rice. | Anna does not eat fish. | negation  <>
Shop board: Anna Ben Carl Dora | Shop board: Emil Fay Gus Hal | name Anna Ben Carl Dora <> Emil Fay Gus Hal
Shop board: Anna Ben Carl Dora Eve | Shop board: Emil Fay Gus Hal | nothing
Shop board: Emil Fay Gus Hal | Shop board: Anna Ben Carl Dora Eve | name Emil Fay Gus Hal > Anna Ben Carl Dora Eve
The fence colour is dark wet moss. | The fence colour is light dry sand. | state dark wet moss <> light dry sand
The fence colour is dark wet old moss. | The fence colour is light dry sand. | nothing
Rent: 900 | Rent is now 950 | nothing
Is the shop open? | The shop is not open. | nothing
The garden shed 2 is red. | The garden shed 3 is red. | nothing
The meeting room is in Oslo. | The meeting room is under the roof. | nothing
On Monday with 5 helpers the garden shed is red. | The garden shed is green. | nothing
Sunday and Monday the garden shed is not public. | The garden shed is public. | nothing
Office opens at green. | Office costs red. | nothing
"""


def compare(old: str, new: str) -> Change | None:
    first, second = read_statement(old), read_statement(new)
    return find_change(first, second) if first and second else None


@pytest.mark.parametrize("first", [0, GROUP, 2 * GROUP], ids=("open", "held-back", "one-word"))
def test_changed_facts_are_recognised(first: int) -> None:
    missed = [pair.old for pair in CHANGED[first : first + GROUP] if compare(pair.old, pair.new) is None]
    assert len(missed) <= 1, missed


@pytest.mark.parametrize("first", [0, GROUP, 2 * GROUP], ids=("open", "held-back", "one-word"))
def test_what_only_looks_alike_is_no_change(first: int) -> None:
    wrong = [pair for pair in NOT_CHANGED[first : first + GROUP] if compare(*pair) or compare(pair[1], pair[0])]
    assert not wrong


def tell(old: str, new: str) -> str:
    """Return what is told of two statements, in the form of the lists above."""
    change, back = compare(old, new), compare(new, old)
    sign = "<>" if change and back == (change.kind, change.new, change.old) else ">"
    return f"{change.kind} {change.old} {sign} {change.new}".rstrip() if change else "nothing"


def test_what_is_told_of_a_change_stays_the_same() -> None:
    assert [tell(pair.old, pair.new) for pair in CHANGED] == TOLD.strip().split("\n")


def test_a_change_has_one_value_of_the_same_kind_on_each_side() -> None:
    rows = [row.split(" | ") for row in LIMITS.strip().split("\n")]
    assert [(old, new, tell(old, new)) for old, new, _ in rows] == [(old, new, told) for old, new, told in rows]


def test_one_word_is_a_subject_under_the_same_heading_or_if_both_are_ones_own() -> None:
    def tell_under(old: str, new: str, *topics: str) -> str:
        (first,), (second,) = (read_statements(text, topic) for text, topic in zip((old, new), topics, strict=True))
        change = find_change(first, second)
        return f"{change.kind} {change.old} > {change.new}" if change else "nothing"

    own = ("My password is blue horse battery.", "My password is green sheep charger.")
    assert tell_under(*own, "home", "work") == "state blue horse battery > green sheep charger"
    assert tell_under("The car is red.", "The car is green.", "home", "home") == "state red > green"
    assert tell_under("The car is red.", "The car is green.", "home", "work") == "nothing"
    assert tell_under("The car is red.", "My car is green.", "home", "work") == "nothing"


def test_facts_about_different_things_do_not_change_each_other() -> None:
    facts = [(place, read_statement(text)) for place, pair in enumerate(CHANGED) for text in (pair.old, pair.new)]
    wrong = [(one, two) for n, one in facts for m, two in facts if n != m and one and two and find_change(one, two)]
    assert not wrong


def test_what_happened_on_two_days_is_no_change() -> None:
    assert compare("Rosa baked bread on Monday.", "Rosa baked bread on Friday.") is None


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("The rent of the shop is 900.", "The rent of the shop is 950.", "number"),
        ("The shop opens on Monday.", "The shop opens on Friday.", "date"),
        ("The shop opens at 7:30.", "The shop opens at 8:15.", "date"),
        ("The call with Rosa is at 10:30.", "The call with Rosa is on Monday.", "date"),
        ("The shop belongs to Rosa.", "The shop belongs to Hugo.", "name"),
        ("The coffee machine is broken.", "The coffee machine is fixed.", "state"),
        ("The shop sells fresh bread.", "The shop does not sell fresh bread.", "negation"),
        ("这家商店卖新鲜面包。", "这家商店不卖新鲜面包。", "negation"),
        ("Timezone: Europe/Berlin", "Timezone: Asia/Tokyo", "name"),
    ],
)
def test_the_kind_of_a_change_is_told(old: str, new: str, kind: str) -> None:
    change = compare(old, new)
    assert change
    assert change.kind == kind


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Lease of the flat: two years", "Lease of the flat: 900 euros"),
        ("The garden shop is green and sells fresh tea.", "The garden shop sells fresh tea in blue."),
    ],
    ids=["two units", "values in different places"],
)
def test_what_may_hold_beside_the_other_is_no_change(old: str, new: str) -> None:
    assert compare(old, new) is None


def test_the_values_are_told_as_written() -> None:
    assert compare("The shop belongs to Rosa Marin.", "The shop belongs to Hugo.") == Change(
        "name", "Rosa Marin", "Hugo"
    )


def test_list_marks_times_speakers_and_comments_are_no_part_of_a_statement() -> None:
    old = "- [2026-03-01 09:12] User: The shop belongs to Rosa."
    new = "* **The shop** belongs to Hugo. <!-- trigger: shop -->"
    assert compare(old, new) == Change("name", "Rosa", "Hugo")


def test_a_line_of_several_sentences_is_several_statements() -> None:
    line = "The shop belongs to Rosa. It opens on the 4. of May, says Dr. Weiss. 店铺在一楼。停车场在后面。"
    assert [statement.text for statement in read_statements(line)] == [
        "The shop belongs to Rosa.",
        "It opens on the 4. of May, says Dr. Weiss.",
        "店铺在一楼。",
        "停车场在后面。",
    ]


@pytest.mark.parametrize("text", ["", "   ", "---", "<!-- only a comment -->", "the of and", "x" * 5_000, "a " * 400])
def test_what_says_nothing_or_too_much_is_not_compared(text: str) -> None:
    assert compare(text, "The shop belongs to Rosa.") is None
    assert compare("The shop belongs to Rosa.", text) is None


def test_a_statement_does_not_change_itself() -> None:
    for pair in CHANGED:
        assert compare(pair.old, pair.old) is None
        assert compare(pair.new, pair.new) is None


# A statement, its units with their roles, its weight, and what else is told of it. Longer ones are cut over two lines.
UNITS = """
- [2026-03-01 09:12] User: The shop belongs to Rosa. |
    link:the word:shop word:belong link:to name:rosa | 3
Dr Weiss moved to Lisbon in May 2024. |
    cue:dr name:weiss verb:=live link:to name:lisbon link:in date:may number:2024 | 3.5
Meine Frau ist krank. | link:meine name:frau strong:ist word:krank | 2
Frau Weber isst kein Fleisch. | cue:frau name:weber word:isst link:kein name:fleisch | 3 denied
Fleisch sans sel | word:fleisch link:sans word:sel | 2 denied
O carro está no jardim da casa. |
    link:o word:carro strong:esta link:no word:jardim link:da word:casa | 3
Anna doesn't eat fish any more. |
    word:anna link:does link:not word:eat word:fish link:any link:more | 3 denied
**Wifi** password: `blue-heron-42` | word:wifi word:password strong:: number:blue-heron-42 | 2.5
Rent = 1,020 EUR a month | word:rent strong:: number:1 number:020 unit:eur link:a unit:month | 2
May is the best time. | link:may strong:is link:the word:best word:time | 2
Mails go to anna@example.org at 14:00 |
    word:mail link:go link:to word:anna@example.org link:at number:14:00 | 2.5
Rosa baked bread. | word:rosa word:bake word:bread | 3 event
Rosa paid the plumber | word:rosa word:paid link:the word:plumber | 3 event
Is the shop open? | strong:is link:the word:shop word:open | 2 no claim
- [ ] call the bank | word:call link:the word:bank | 2 no claim
[Photo of the shop] | word:photo link:of link:the word:shop | 2 no claim
{"shop": 1} | word:shop strong:: number:1 | 1.5 no claim
李雷的手机号码是13800001111。 |
    char:李 char:雷 link:的 char:手 char:机 char:号 char:码 strong:是 number:13800001111 | 4
我们团队的数据库改成PostgreSQL了。 |
    link:我 link:们 char:团 char:队 link:的 char:数 char:据 char:库 cue:改成 name:postgresql link:了 | 3.5
歯医者は3月9時に変更。 |
    char:歯 char:医 char:者 strong:は number:3 date:月 number:9 date:時 link:に cue:変更 | 3.5
会議は楽しかった。 | char:会 char:議 strong:は char:楽 char:し char:か char:っ char:た | 3.5 event
我不吃鱼。 | link:我 char:不 char:吃 char:鱼 | 1.5 denied
주간 회의는 월요일 10시에 한다. |
    char:주 char:간 char:회 char:의 strong:는 date:월 date:요 date:일 number:10 date:시 link:에 char:한 char:다 | 4
서울에 산다 | char:서 char:울 link:에 char:산 char:다 | 2
Mon médecin est le Dr Morel. | link:mon word:medecin strong:est link:le cue:dr name:morel | 2
1. Second: third floor | number:second strong:: number:third unit:floor | 1
"""


def test_a_statement_is_cut_into_units_with_roles() -> None:
    rows = [row.split(" | ") for row in UNITS.strip().replace(" |\n    ", " | ").split("\n")]
    read = []
    for text, *_ in rows:
        statement = read_statement(text)
        assert statement
        flags = {"denied": statement.is_denied, "event": statement.is_event, "no claim": not statement.is_claim}
        told = " ".join([f"{statement.weight:g}", *(name for name, is_so in flags.items() if is_so)])
        read.append([text, " ".join(f"{unit.role}:{unit.key}" for unit in statement.units), told])
    assert read == rows


@pytest.mark.parametrize(("chars", "count"), [(300, 1), (301, 0)])
def test_a_long_statement_says_too_much(chars: int, count: int) -> None:
    assert len(read_statements("x" * chars)) == count
    assert (read_statement("x" * chars) is not None) == bool(count)


def test_a_heading_with_a_number_is_no_topic() -> None:
    assert [read_statements("The shop is open.", topic)[0].topic for topic in (" Shóps ", "2024-03-01")] == [
        "shops",
        "",
    ]
