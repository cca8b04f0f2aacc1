"""Stop words: which words of a query say little, in its language."""

import pytest

from mdrecall.search.query import MAX_TERMS, parse_query
from mdrecall.text import words as analyser
from mdrecall.text.words import find_stop_words, fold, surface_words, tokens


def content(query: str) -> list[str]:
    """Return the words of a query that are not stop words."""
    words = [word for token in tokens(query) for word in surface_words(token)]
    return [word for word in words if word not in find_stop_words(words)]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("hvad er prisen for hotellet", ["prisen", "hotellet"]),
        ("hvor er min hund", ["hund"]),
        ("vad heter min hund", ["heter", "hund"]),
        ("hva er passordet til serveren", ["passordet", "serveren"]),
        ("missä minun avaimet ovat", ["avaimet"]),
        ("wat is de prijs van het huis", ["prijs", "huis"]),
        ("gdzie jest mój paszport", ["paszport"]),
        ("benim pasaportum nerede", ["pasaportum"]),
        ("onde está o meu passaporte", ["passaporte"]),
        ("donde está mi pasaporte", ["pasaporte"]),
        ("wer hat die Rechnung bezahlt", ["rechnung", "bezahlt"]),
        ("quel est le mot de passe", ["mot", "passe"]),
        ("dove sono le chiavi", ["chiavi"]),
        ("где мой паспорт", ["паспорт"]),
        ("मेरा पासपोर्ट कहाँ है", ["पासपोर्ट"]),
        ("أين جواز السفر", ["جواز", "السفر"]),
        ("που είναι το διαβατήριο", ["διαβατηριο"]),
    ],
)
def test_each_language_has_its_stop_words(query: str, left: list[str]) -> None:
    assert content(query) == left


@pytest.mark.parametrize("word", ["away", "down", "off", "out", "over", "up"])
def test_a_word_that_may_be_all_that_is_asked_is_no_stop_word(word: str) -> None:
    assert content(f"why was it {word}?") == [word]


@pytest.mark.parametrize(
    "days",
    [
        "yesterday today tomorrow", "ayer hoy mañana", "ontem hoje amanhã", "gestern heute morgen", "ieri oggi domani",
        "hier aujourd'hui demain", "gisteren vandaag morgen", "igår idag imorgen", "igår idag imorgon",
        "eilen tänään huomenna", "wczoraj dzisiaj jutro", "dün bugün yarın", "kemarin hari ini besok",
        "hôm qua hôm nay", "вчера сегодня завтра", "вчора сьогодні завтра", "χθες χτες σήμερα αύριο", "אתמול היום מחר",
        "دیروز امروز فردا", "कल आज", "أمس بالأمس الأمس وأمس البارحة اليوم واليوم غداً الغد بالغد",
    ],
)  # fmt: skip
def test_words_for_days_near_today_are_stop_words(days: str) -> None:
    assert content(f"{days} xyz") == ["xyz"]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("how old is my son", ["old", "son"]),
        ("son birthday", ["son", "birthday"]),
        ("die casting supplier", ["die", "casting", "supplier"]),
        ("the war room", ["war", "room"]),
        ("sin tax", ["sin", "tax"]),
        ("man dog photo", ["man", "dog", "photo"]),
        ("the car door at the end of the pier", ["car", "door", "end", "pier"]),
        ("when did my son swim in the sea", ["son", "swim", "sea"]),
        ("is the pendant for her or him", ["pendant"]),
        ("Hui birthday", ["hui", "birthday"]),
    ],
)
def test_a_stop_word_of_another_language_is_none_in_english(query: str, left: list[str]) -> None:
    assert content(query) == left


def test_every_stop_word_is_written_as_the_analyser_folds_it() -> None:
    texts = (text for name, text in vars(analyser).items() if name.isupper() and isinstance(text, str))
    lists = [text for text in (*texts, *analyser._LATIN_WORDS.values()) if text.startswith("\n")]
    assert len(lists) > 15
    assert [word for text in lists for word in text.split() if fold(word) != word] == []


def test_a_long_query_of_stop_words_only_still_has_terms() -> None:
    words = " ".join(analyser._ENGLISH.split()[: MAX_TERMS + 20])
    assert len(parse_query(words)) == MAX_TERMS
