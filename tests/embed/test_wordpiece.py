"""WordPiece gives the numbers that the package ``tokenizers`` gives, on thousands of lines in many scripts.

The numbers are recorded as a checksum a line. To record them again, where ``tokenizers`` is installed:
``python -m tests.embed.test_wordpiece``.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

import mdrecall
from mdrecall.embed.offline.wordpiece import WordPiece

VOCABULARY = Path(mdrecall.__file__).parent.joinpath("embed/offline/pieces.txt").read_text("utf-8")
RECORDED = Path(__file__).with_name("wordpieces.crc32")
MOST = 128
LINES = 6_000

SENTENCES = """
The boiler's pressure dropped to 0.8 bar on 2026-03-04, so I re-filled it (again!).
def read_file(path: str, *, retries=3) -> bytes: return open(path, "rb").read()  # DEC-0054
Zürich — das Gespräch mit Frau Müßig über die Straßenbahn fällt aus.
L'été dernier, nous avons mangé à « L'Œuf » près de l'église Saint-Étienne…
El niño preguntó: ¿cuándo llega el camión? ¡Mañana!
Przyjęcie u Łukasza zacznie się o dziewiętnastej, proszę wziąć żółty kubek.
Nguyễn Thị Hương hẹn gặp lúc 5 giờ chiều ở quán cà phê.
İstanbul'da ışık ve ğüneş; IĞDIR'a gidiyoruz.
Ο ΟΔΥΣΣΕΥΣ γύρισε στο σπίτι του· ΣΑΣ ευχαριστώ.
Съешь ещё этих мягких французских булок, да выпей чаю. Їжак і ґава, ЎЗБЕКИСТОН.
Հայերենը գրվում է իր այբուբենով։ ԵՐԵՎԱՆ
ქართული ანბანი, ᲗᲑᲘᲚᲘᲡᲘ
שָׁלוֹם, מה שלומך? בְּרֵאשִׁית
مَرْحَبًا، كيف حالك؟ السلام عليكم ورحمة الله ـــ ١٢٣
یادداشت‌های روزانه را می‌نویسم. پاکستان میں اردو۔
नमस्ते, आप कैसे हैं? हिन्दी में क्षेत्र १२३ लिखा है।
আমি বাংলায় গান গাই। ਪੰਜਾਬੀ ਵਿੱਚ ਲਿਖੋ। ગુજરાતી લખો
தமிழ் ஒரு செம்மொழி. తెలుగు భాష ಕನ್ನಡ ಭಾಷೆ മലയാളം സിංහල
ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ ພາສາລາວ မြန်မာဘာသာ ភាសាខ្មែរ
བོད་སྐད་ཡིག་ ᠮᠣᠩᠭᠣᠯ ትግርኛ አማርኛ፡ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ
会議は三月四日の午後二時からです。コーヒーを買う。ﾊﾝｶｸ ｶﾀｶﾅ ぱぴぷぺぽ ガギグ
我们明天去北京大学图书馆，好吗？臺灣的豆漿！㐀㐁 豈更 𠀀𠮷
회의는 내일 오후 세 시에 시작합니다. 한국어 각 갂 ㄱㄴㄷ
A\u030a\u0301 e\u0301 ﬁne ﬂow ½ ² ™ ℃ Ω K Å ǅ ß ẞ ŉ
👩‍👩‍👧 👍🏽 🇩🇪 ☕️ → ⇒ ∑ ≤ ∞ ♥ § ¶ † ‡ • … ‰ ′ ″ ‹ ›
tab\there\x0bvertical\x0cform\x1cfile\x1funit\x7fdelete\u0085next\u00a0space\u200bzero\ufeffmark\u00adsoft\u2028line
[CLS] [SEP] [MASK] [UNK] [PAD] [unused1] ##ing ##s # # ing `code` ~~gone~~ $5 5% a+b=c <tag> {x} |y| ^z
https://example.org/a_b?c=d&e=f#g user.name+tag@example.co.uk C:\\\\Users\\\\x 0xDEADBEEF 3.14e-10
""".strip().splitlines()

#: First and last code points whose treatment is the same in every version of Unicode since BERT's.
SCRIPTS = (
    *((0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x250, 0x2FF), (0x300, 0x36F), (0x391, 0x3A1), (0x3A3, 0x3FF)),
    *((0x400, 0x52F), (0x531, 0x556), (0x561, 0x587), (0x591, 0x5C7), (0x5D0, 0x5EA), (0x620, 0x6FF), (0x904, 0x97F)),
    *((0x985, 0x98C), (0xA15, 0xA28), (0xA93, 0xAA8), (0xB95, 0xB95), (0xBAE, 0xBB9), (0xE01, 0xE3A), (0x10A0, 0x10C5)),
    *((0x10D0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x1248), (0x1E00, 0x1EFF), (0x1F00, 0x1F15), (0x2000, 0x2064)),
    *((0x2070, 0x2071), (0x20A0, 0x20BE), (0x2100, 0x218B), (0x2190, 0x23FA), (0x2460, 0x27BF), (0x3001, 0x303F)),
    *((0x3041, 0x3096), (0x30A0, 0x30FF), (0x3400, 0x34FF), (0x4E00, 0x9FBB), (0xAC00, 0xD7A3), (0xE000, 0xE0FF)),
    *((0xF900, 0xFA6D), (0xFB00, 0xFB06), (0xFE30, 0xFE4F), (0xFF01, 0xFFBE), (0x1F300, 0x1F5FF), (0x20000, 0x200FF)),
    *((0x2A700, 0x2A7FF), (0x2B820, 0x2B8FF), (0x2B920, 0x2B9FF)),
)


def make_lines() -> Iterator[str]:
    """Yield the same lines on every machine: sentences, then pieces and characters by chance."""
    yield from SENTENCES
    random, pieces = Random(38), [piece.removeprefix("##") for piece in VOCABULARY.split("\n")[103:-1]]
    for number in range(LINES - len(SENTENCES)):
        first, last = SCRIPTS[number % len(SCRIPTS)]
        words = [_make_word(random, pieces, first, last) for _ in range(random.randrange(1, 14))]
        yield random.choice((" ", " ", " ", "", ", ", "\t", "\u3000", "\u00ad", "-")).join(words)


def _make_word(random: Random, pieces: Sequence[str], first: int, last: int) -> str:
    kind = random.randrange(6)
    if kind == 0:
        return random.choice(pieces) + random.choice(("", "\u0301", "\u0327\u0323", "\u200d", "\x00", "\ufffd"))
    if kind == 1:
        return random.choice(pieces).upper() + random.choice(pieces)
    if kind == 2:
        return random.choice(pieces) + chr(random.randint(first, last)) + random.choice(pieces)
    if kind == 3 and not random.randrange(8):
        return random.choice(pieces) * random.randrange(10, 60)
    return "".join(chr(random.randint(first, last)) for _ in range(random.randrange(1, 9)))


def checksum(numbers: Sequence[int]) -> int:
    return zlib.crc32(",".join(map(str, numbers)).encode())


@pytest.fixture(scope="module")
def wordpiece() -> WordPiece:
    return WordPiece(VOCABULARY)


def test_pieces_are_those_of_the_real_tokenizer(wordpiece: WordPiece) -> None:
    recorded = RECORDED.read_bytes()
    assert len(recorded) == 4 * LINES
    wrong = [
        line
        for number, line in enumerate(make_lines())
        if checksum(wordpiece.encode(line, MOST)).to_bytes(4, "little") != recorded[4 * number : 4 * number + 4]
    ]
    assert wrong == []


def test_a_known_sentence_has_its_known_pieces(wordpiece: WordPiece) -> None:
    names = VOCABULARY.split("\n")
    found = [names[number] for number in wordpiece.encode("Rebooted the NAS: it's fine.", MOST)]
    assert found == ["[CLS]", "re", "##boot", "##ed", "the", "nas", ":", "it", "'", "s", "fine", ".", "[SEP]"]


def test_a_long_text_is_cut_and_keeps_both_special_pieces(wordpiece: WordPiece) -> None:
    numbers = wordpiece.encode("word " * 1_000, MOST)
    assert (len(numbers), numbers[0], numbers[-1]) == (MOST, 101, 102)
    assert wordpiece.encode("", MOST) == [101, 102]


def test_half_a_surrogate_pair_is_no_word(wordpiece: WordPiece) -> None:
    assert wordpiece.encode("a\ud83db", MOST) == wordpiece.encode("ab", MOST)


def record() -> None:
    """Write the checksums of the lines by the real tokenizer."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbers = {piece: number for number, piece in enumerate(VOCABULARY.split("\n")[:-1])}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # The special pieces are added here: in a text, "[SEP]" is a word like any other.
    found = (checksum([101, *tokenizer.encode(line).ids[: MOST - 2], 102]) for line in make_lines())
    RECORDED.write_bytes(b"".join(each.to_bytes(4, "little") for each in found))


if __name__ == "__main__":
    record()
