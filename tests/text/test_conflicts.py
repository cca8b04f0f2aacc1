"""Contradictions are found among many statements by their rare words; the work is bounded."""

from mdrecall.text.days import Place
from mdrecall.text.statements import Claim, Conflicts, find_conflicts, read_statement


def claim(text: str, day: int | None, *, path: str = "", line: int = 1, changed_day: int = 0) -> Claim:
    statement = read_statement(text)
    assert statement
    return Claim(statement, Place(path or f"memory/{day}.md", line, day, changed_day))


def texts(conflicts: Conflicts) -> list[tuple[str, str]]:
    return [(one.old.statement.text, one.new.statement.text) for one in conflicts.found]


def test_the_newer_one_is_known_by_its_day_wherever_it_stands() -> None:
    old, new = claim("The shop belongs to Rosa", 10), claim("The shop belongs to Hugo", 20)
    for claims in ([old, new], [new, old]):
        (conflict,) = find_conflicts(claims).found
        assert (conflict.old, conflict.new, conflict.is_ordered) == (old, new, True)


def test_a_note_without_a_day_is_older_than_a_day_after_its_last_change() -> None:
    undated = claim("The shop belongs to Rosa", None, path="MEMORY.md", changed_day=10)
    (conflict,) = find_conflicts([undated, claim("The shop belongs to Hugo", 20)]).found
    assert conflict.is_ordered
    (conflict,) = find_conflicts([undated, claim("The shop belongs to Hugo", 5)]).found
    assert not conflict.is_ordered


def test_the_number_of_comparisons_is_bounded() -> None:
    claims = [claim(f"Shelf {number} of the shop holds {number} jars of plum jam", 1) for number in range(15)]
    claims += [claim("The shop belongs to Rosa", 10), claim("The shop belongs to Hugo", 20)]
    assert not find_conflicts(claims, max_compared=10).is_complete
    whole = find_conflicts(claims)
    assert whole.is_complete
    assert texts(whole) == [("The shop belongs to Rosa", "The shop belongs to Hugo")]


def test_statements_without_a_rare_word_in_common_are_not_compared() -> None:
    """A word of hundreds of statements would make every pair a candidate."""
    claims = [claim(f"The shop sells item{number} today", 1) for number in range(500)]
    assert find_conflicts(claims, max_compared=0) == Conflicts(())


def test_what_is_said_twice_is_listed_once() -> None:
    claims = [claim("The shop belongs to Rosa", day) for day in (1, 2, 3)] + [claim("The shop belongs to Hugo", 9)]
    assert texts(find_conflicts(claims)) == [("The shop belongs to Rosa", "The shop belongs to Hugo")]
