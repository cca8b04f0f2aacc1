"""The generated notebook: the same seed makes the same notes, its questions are fair, and a small one is answered."""

from collections import Counter

import pytest

from benchmarks.notebook import (
    GOALS,
    HARD_NOTES,
    NOW,
    Ask,
    Notebook,
    Place,
    ask_all,
    generate,
    generate_hard,
    generate_small,
    summarize,
)
from benchmarks.notebook_text import DAYS, FOREIGN_FACTS, HARD_QUESTIONS, PARAPHRASES, SMALL
from mdrecall.search.query import parse_query
from mdrecall.text.words import Analyser


def test_the_same_seed_makes_the_same_notebook_and_another_seed_another() -> None:
    assert generate(1) == generate(1)
    assert generate_hard(1) == generate_hard(1)
    assert generate(1).notes != generate(2).notes


def test_a_notebook_has_a_year_of_notes_and_every_kind_of_question() -> None:
    notebook = generate(0)
    days = [path for path in notebook.notes if path.startswith("memory/20")]
    assert 300 < len(days) < 366
    assert max(days) == f"memory/{NOW.date().replace(day=1).isoformat()}.md"
    small = [ask for code in SMALL for ask in generate_small(0, code).asks]
    kinds = Counter(ask.kind for ask in [*notebook.asks, *generate_hard(0).asks, *small])
    assert set(kinds) == {kind for goal in GOALS for kind in goal.kinds}
    assert min(kinds.values()) >= 12
    assert set(DAYS) == {"en", *FOREIGN_FACTS}


def test_every_place_is_one_line_of_the_notes_and_no_question_is_asked_twice() -> None:
    for notebook in (generate(3), generate_hard(3), *(generate_small(3, code) for code in SMALL)):
        for ask in notebook.asks:
            for place in ask.places:
                assert place.path in notebook.notes, ask
                if place.line:
                    everywhere = "".join(notebook.notes.values())
                    assert everywhere.count(f"- {place.line}\n") == 1, ask
        assert Counter(ask.query for ask in notebook.asks).most_common(1)[0][1] == 1


@pytest.mark.parametrize(("note", "question"), PARAPHRASES)
def test_a_paraphrase_shares_no_content_word_with_its_note(note: str, question: str) -> None:
    content = {term.text for term in parse_query(question) if not term.stop}
    assert content
    assert not content & Analyser().terms(note)


def test_hard_questions_stand_whole_in_forty_notes_with_another_identifier() -> None:
    notebook = generate_hard(0)
    for question in HARD_QUESTIONS.values():
        opening = question.partition("{id}")[0]
        assert sum(opening in note for note in notebook.notes.values()) == HARD_NOTES
    for ask in notebook.asks:
        assert not any(ask.query in note for note in notebook.notes.values())


def test_a_small_notebook_is_answered_sensibly() -> None:
    small = generate(0, days=30, instances=1)
    kinds = {"identifier", "languages", "natural"}
    outcomes = list(ask_all(Notebook(small.notes, [ask for ask in small.asks if ask.kind in kinds]), {}))
    shares = {(kind, figure): share for kind, figure, _, share, _ in summarize(outcomes)}
    assert shares["identifier", "right@1"] == 1
    assert shares["languages", "right@1"] > 0.8
    assert shares["natural", "right@1"] > 0.6
    assert shares["single facts", "recall"] > shares["single facts", "precision"] > 0


def test_an_answer_is_judged_by_its_own_kind() -> None:
    lines = {"memory/2026-01-02.md": "The walrus sleeps on the ice.", "memory/2026-02-02.md": "The walrus likes clams."}
    notes = {path: f"# Log\n\n- {line}\n" for path, line in lines.items()}
    sleeps, likes = (Place(path, line) for path, line in lines.items())
    query = "where does the walrus sleep?"
    asks = [
        Ask("natural", query, (sleeps,)),
        Ask("natural", query, (likes,)),
        Ask("changed", query, (likes, sleeps)),
        Ask("changed", query, (sleeps, likes)),
        Ask("look-alike", query, (sleeps, likes)),
        Ask("list", "walrus", (sleeps, likes)),
        Ask("absent", "quantum chromodynamics", ()),
        Ask("near miss", query, ()),
    ]
    outcomes = list(ask_all(Notebook(notes, asks), {}))
    assert [outcome["right"] for outcome in outcomes] == [True, False, True, False, True, True, True, False]
    assert (outcomes[5]["precision"], outcomes[5]["recall"]) == (1, 1)
    assert outcomes[5]["lines"] > outcomes[6]["lines"] > 0
