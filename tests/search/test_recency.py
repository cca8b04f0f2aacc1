"""What the times of a query mean for notes, on Thursday 12 March 2026."""

from datetime import date

import pytest

from mdrecall.errors import QueryError
from mdrecall.search.query import read_limits, read_times
from mdrecall.search.recency import prefer_current, prefer_newest
from mdrecall.text.markdown import split_passages
from tests.search.test_stages import candidate, context, ids

TODAY = date(2026, 3, 12).toordinal()


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def test_limits_that_no_day_is_within_are_refused() -> None:
    assert read_limits(None, None, TODAY) is None
    with pytest.raises(QueryError, match="No day is since 2026-03-02 and until 2026-03-01") as refused:
        read_limits("2026-03-02", "2026-03-01", TODAY)
    assert refused.value.name == "until"
    with pytest.raises(QueryError, match=r"since: 'soonx{76}' is not a date") as unknown:
        read_limits("soon" + "x" * 90, None, TODAY)
    assert unknown.value.name == "since"
    with pytest.raises(QueryError, match="until: 'soon' is not a date"):
        read_limits(None, "soon", TODAY)


def test_the_newest_of_near_equals_comes_first_and_others_keep_their_places() -> None:
    asked = context("current walrus")._replace(times=read_times("current walrus", TODAY))
    paths = [f"memory/2026-01-0{number}.md" for number in range(1, 9)]
    worths = (1.0, 0.9, 0.6, 0.59, 0.8, 0.7, 0.95, 0.94)
    entries = [
        candidate(number, path=path, worth=worth, score=worth)
        for number, (path, worth) in enumerate(zip(paths, worths, strict=True), 1)
    ]
    ranked = prefer_newest(entries, asked)
    # The fourth is not nearly as good as the best, and the last two are after the first six.
    assert (ids(ranked)[3], ids(ranked)[6:]) == (4, [7, 8])
    by_number = {entry.chunk.id: entry for entry in ranked}
    factors = {number: round(entry.recency, 3) for number, entry in by_number.items()}
    assert factors == {1: 0.741, 2: 0.806, 3: 0.87, 4: 1.0, 5: 0.935, 6: 1.0, 7: 1.0, 8: 1.0}
    assert by_number[1].worth == pytest.approx(1 / 1.35)
    assert ids(prefer_newest(entries, asked._replace(times=read_times("walrus", TODAY)))) == list(range(1, 9))
    assert prefer_newest(entries[:1], asked) == entries[:1]


@pytest.mark.parametrize(("others", "first"), [(1, 99), (2, 99), (11, 0)])
def test_only_so_many_sentences_are_read_to_find_a_change(others: int, first: int) -> None:
    said = [f"The boat of {name} has a blue walrus flag." for name in ("Anna", "Ben", "Carol")]
    lines = ["The walrus flag costs 40 euros.", *["\n".join(said)] * others, "The walrus flag costs 55 euros."]
    numbers = (*range(others + 1), 99)
    entries = [
        candidate(number, text=text, path=f"memory/2026-01-{place:02}.md", passage=split_passages(text)[0])
        for place, (number, text) in enumerate(zip(numbers, lines, strict=True), 1)
    ]
    assert ids(prefer_current(entries, context("walrus flag", max_results=20)))[0] == first
