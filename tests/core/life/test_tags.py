"""The words that a text is about."""

import pytest

from mdrecall.core.life.promotion import choose_triggers, find_tags


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The greenhouse pump was bought from Ortiz in 2024", ("ortiz", "greenhouse", "bought")),
        ("The staging database is db-stage-2 on port 5433.", ("db-stage-2", "database", "staging")),
        ("See memory/2026-11-14-late-talk.md and https://example.com/x for it", ()),
        ("Run `make all` on the 2026-11-14 at 10:30", ()),
        ("备份服务器在奥斯陆", ()),
        ("バックアップは日曜日の夜", ("バックアップ", "日曜日")),
        ("it is so", ()),
        ("", ()),
    ],
)
def test_triggers_are_names_and_long_words_but_no_paths_dates_or_commands(text: str, expected: tuple[str, ...]) -> None:
    assert choose_triggers(text) == expected


def test_there_are_at_most_eight_tags() -> None:
    words = "alder birch cedar dogwood elder ginkgo hazel juniper larch maple"
    assert len(find_tags(words)) == 8
    assert set(find_tags("tea and Priya")) == {"tea", "priya"}
    assert find_tags("茶 is in the kitchen") == ("kitchen",)
