from mdrecall.core.conversation.digest import note_name


def test_the_name_of_a_note_has_the_day_and_a_few_words() -> None:
    assert note_name("2026-02-10", "The Walrus & Co!") == "2026-02-10-the-walrus-co.md"
    assert note_name("2026-02-10", " -_- ") == "2026-02-10.md"
    assert note_name("2026-02-10", "word " * 20) == f"2026-02-10-{'word-' * 7}word.md"
