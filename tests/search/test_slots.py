"""What a question asks for, and if a passage holds such a thing."""

import pytest

from mdrecall.search.query import drop_question_words, find_stems
from mdrecall.search.slots import find_kind, holds_asked


@pytest.mark.parametrize(
    ("question", "there", "missing"),
    [
        ("How much was the new stove?", "The new stove was 420 euros.", "The new stove is black."),
        ("How many people signed up?", "Twelve people signed up.", "People signed up late, on 2026-03-01."),
        ("When is the piano lesson?", "Piano lesson on Thursday.", "The piano lesson is with Olga."),
        ("Who watered the lemon tree?", "Olga watered the lemon tree.", "The lemon tree was watered."),
        ("Who has the ladder?", "The ladder is with the upstairs neighbour.", "The ladder is back."),
        ("Who wrote the parser?", "Tom wrote the parser.", "The parser keeps 14 days."),
        ("How old is Dr. Sorel?", "Dr. Sorel is 61.", "Dr. Sorel came back."),
        ("Where is the ladder?", "The ladder is in the shed.", "The ladder is broken."),
        ("Why was the ferry late?", "The ferry was late because of fog.", "The ferry was late again."),
        ("Was kostet die Leiter?", "Die Leiter kostet 80 Euro.", "Die Leiter ist neu."),
        ("Wann kommt der Ofen?", "Der Ofen kommt am Dienstag.", "Der Ofen kommt doch."),
        ("Combien coûte le four ?", "Le four coûte deux cents euros.", "Le four est noir."),
        ("¿Por qué cerró el museo?", "El museo cerró por las obras.", "El museo cerró ayer."),
        ("修屋顶花了多少钱？", "修屋顶花了八百元。", "修屋顶的师傅来了。"),
        ("試合はいつですか？", "試合は土曜日の朝だ。", "試合はとても良かった。"),
    ],
)
def test_a_line_that_lacks_what_is_asked_for_is_told_from_one_that_holds_it(
    question: str, there: str, missing: str
) -> None:
    kind, stems = find_kind(question), find_stems(drop_question_words(question))
    assert kind
    assert holds_asked(f"- Sent 3 letters to Olga in Rome.\n- {there}", kind, stems)
    assert not holds_asked(f"- Sent 3 letters to Olga in Rome.\n- {missing}", kind, stems)


@pytest.mark.parametrize(
    "query",
    ["deploy window", "what did we decide?", "the day when it rained", "Hello! How many are there?", "why " * 60],
)
def test_most_queries_ask_for_no_such_thing(query: str) -> None:
    assert not find_kind(query)


def test_a_kind_that_a_script_does_not_show_is_taken_to_be_there() -> None:
    kind = find_kind("谁修了屋顶？")
    assert kind
    assert holds_asked("屋顶修好了。", kind, find_stems("修了屋顶"))


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("房租是多少？", "房租 ？"),
        ("我的自行车在哪儿？", "我的自行车 ？"),
        ("何？", "何？"),
        ("what is it?", "what is it?"),
    ],
)
def test_question_words_are_left_out_where_words_have_no_spaces(query: str, rest: str) -> None:
    assert drop_question_words(query) == rest
