"""How much of a text is in which script."""

import pytest

from mdrecall.text.words import is_mostly_unspaced, script_share


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("plain words 12", 1),
        ("Café Zürich", 1),
        ("深色模式", 0),
        ("ab 深色", 0.5),
        ("…", 0),
        ("", 1),
        ("привет abc", 1 / 3),
    ],
)
def test_how_much_of_a_text_is_latin(text: str, share: float) -> None:
    assert script_share(text, ("latin",)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "scripts", "share"),
    [
        ("深色模式", ("han",), 1),
        ("深色 ab", ("han", "latin"), 1),
        ("ダークモード 設定", ("kana",), 2 / 3),
        ("안녕 ab", ("hangul",), 0.5),
        ("Привет мир", ("cyrillic",), 1),
        ("καλημέρα", ("greek", "latin"), 1),
        ("สวัสดี ab", ("latin", "han", "kana", "hangul", "cyrillic", "greek"), 0.25),
    ],
)
def test_scripts_add_up(text: str, scripts: tuple[str, ...], share: float) -> None:
    assert script_share(text, scripts) == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize(
    ("text", "is_so"), [("备份", True), ("how to 备份", False), ("会议室 at 9", True), ("", False)]
)
def test_a_text_of_mostly_chinese_or_japanese_is_told(text: str, is_so: bool) -> None:
    assert is_mostly_unspaced(text) is is_so
