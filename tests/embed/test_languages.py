"""Words of other languages in the offline table: word files, cutting, and what a text in each language is close to."""

import hashlib
import json
import os
import subprocess
import sys
from array import array
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdrecall.embed.offline import OfflineEmbedder, embedder, languages, word_file, word_vectors
from mdrecall.embed.offline.languages import Found, split_compound
from mdrecall.embed.offline.translation import _scan, _scan_numpy
from mdrecall.embed.offline.word_file import PIECES, Card, WordFile, hash_word, word_length
from mdrecall.embed.offline.word_vectors import RUN_CHARS, Cutter
from mdrecall.errors import ModelFileError
from mdrecall.text.words import fold
from mdrecall.types.documents import EmbedInput
from tests.conftest import examples
from training import languages as making
from training.add_language import add_language
from training.glosses import Entry, Table, make_word_file, pack_record

WORDS = Path(embedder.__file__).parent / "words"
OFFLINE = OfflineEmbedder()
TABLE = Table(*OFFLINE.gloss_table())
CARD = Card("xx", "Test", "latin", 0, 0, "", "a test", "none")
KOREAN = Card("ko", "Korean", "hangul", 0, 0, "", "a test", "none")


def cosine(left: str, right: str) -> float:
    one, other = (array("f", OFFLINE.embed_query(text, {})) for text in (left, right))
    return float(numpy.dot(one, other))


def make_file(folder: Path, entries: list[Entry], card: Card = CARD) -> WordFile:
    path = folder / f"{card.language}.words"
    path.write_bytes(make_word_file(entries, TABLE, card))
    return WordFile(str(path))


# --- word files


@pytest.mark.parametrize("path", sorted(WORDS.glob("*.words")), ids=lambda path: path.stem)
def test_a_word_file_is_the_one_that_its_card_and_the_list_describe(path: Path) -> None:
    file = WordFile(str(path))
    content = path.read_bytes()[file.start :]
    assert hashlib.sha256(content).hexdigest() == file.card.digest
    assert file.start % 4 == 0
    hashes = list(file.hashes)
    assert hashes == sorted(set(hashes))
    listed = {entry["language"]: entry for entry in json.loads((WORDS / "languages.json").read_text())}
    assert listed[path.stem] == file.card._asdict()
    assert "CC BY-SA" in file.card.licence
    assert file.card.source


def test_a_word_says_what_its_glosses_say(tmp_path: Path) -> None:
    file = make_file(tmp_path, [Entry("zahnarzt", ["dentist"], 4.0), Entry("hund", ["dog", "hound"], 5.0)])
    pieces = TABLE.pieces
    zahnarzt, hund = (file.read(file.find(word)) for word in ("zahnarzt", "hund"))
    assert [piece for piece, _ in zahnarzt[0]] == list(pieces["dentist"])
    assert hund[0][0][0] == pieces["dog"][0]
    assert len(hund[0]) <= PIECES
    assert zahnarzt[1] > hund[1]
    assert file.find("katze") == -1


def test_the_vector_of_a_word_is_as_long_as_its_frequency_says(tmp_path: Path) -> None:
    table = TABLE
    file = make_file(tmp_path, [Entry("selten", ["rare"], 2.0), Entry("oft", ["frequently"], 6.0)])
    for word, frequency in (("selten", 2.0), ("oft", 6.0)):
        read = file.read(file.find(word))
        total = sum(table.rows[piece] * weight for piece, weight in read[0])
        assert numpy.linalg.norm(total) == pytest.approx(word_length((9 - frequency) * 2.3026), rel=0.05)


def test_a_word_without_glosses_is_known_and_says_nothing(tmp_path: Path) -> None:
    file = make_file(tmp_path, [Entry("und", [], 7.0), Entry("xyzzy", ["…"], 3.0)])
    assert file.read(file.find("und"))[0] == ()
    assert file.find("xyzzy") == -1


@given(st.lists(st.tuples(st.integers(0, 30521), st.integers(1, 15)), max_size=PIECES), st.floats(0.01, 50))
def test_a_record_keeps_pieces_and_weights(pieces: list[tuple[int, int]], scale: float) -> None:
    class Stored(WordFile):
        records = memoryview(pack_record(pieces, scale, 12.3))

    read = Stored("").read(0)
    assert [piece for piece, _ in read[0]] == [piece for piece, _ in pieces]
    assert [weight for _, weight in read[0]] == pytest.approx([scale * weight for _, weight in pieces], rel=0.03)
    assert read[1] == pytest.approx(12.3)


@pytest.mark.parametrize("damage", ["cut", "card", "format", "empty", "missing"])
def test_a_damaged_word_file_is_named_with_the_way_out(tmp_path: Path, damage: str) -> None:
    file = make_file(tmp_path, [Entry("hund", ["dog"], 5.0)])
    path = Path(file.path)
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut": content[:-1],
            "card": b"[]\n" + content,
            "format": content.replace(b'"format": 2', b'"format": 9'),
            "empty": b"",
            "missing": b"",
        }[damage]
    )
    if damage == "missing":
        path.unlink()
    with pytest.raises(ModelFileError, match=r"xx\.words") as error:
        WordFile(str(path)).find("hund")
    assert "remove the file" in str(error.value.hint)


# --- cutting

CHINESE, JAPANESE = (Cutter(WordFile(str(WORDS / f"{language}.words"))) for language in ("zh", "ja"))


@pytest.mark.parametrize(
    ("cutter", "text", "words"),
    [
        (CHINESE, "明天下午开会讨论预算", ["明天", "下午", "开会", "讨论", "预算"]),
        (CHINESE, "資料庫備份", ["資料庫", "備份"]),
        (JAPANESE, "会議の予約を取り消しました", ["会議", "予約", "取り消し"]),
        (JAPANESE, "猫にえさをやる", ["猫", "えさ"]),
    ],
)
def test_text_is_cut_into_words(cutter: Cutter, text: str, words: list[str]) -> None:
    cut = [word for word, _ in cutter.cut(text)[0]]
    assert "".join(cut) == text
    assert set(words) <= set(cut)


characters = st.sampled_from("会議预算数据库备份的了是我们在東京大学へ行きますノート猫は龘々〇 a1，。\n")


@settings(deadline=None)
@given(st.lists(st.text(characters, max_size=90), min_size=1, max_size=6))
def test_one_text_and_many_are_cut_alike(texts: list[str]) -> None:
    for cutter in (CHINESE, JAPANESE):
        one_by_one = [(owner, *word) for owner, text in enumerate(texts) for word in cutter.cut(text)[0]]
        owners, records, lengths = cutter.cut_many(texts)
        assert owners.tolist() == [owner for owner, _, _ in one_by_one]
        numbers = [number if number >= 0 else -ord(word) for _, word, number in one_by_one]
        assert records.tolist() == numbers
        assert lengths.tolist() == [len(word) for _, word, _ in one_by_one]


def test_a_run_without_end_is_cut_in_pieces() -> None:
    cut, _ = CHINESE.cut("数据库" * 10_000)
    assert max(len(word) for word, _ in cut) <= RUN_CHARS
    assert sum(len(word) for word, _ in cut) == 30_000


@settings(deadline=None, max_examples=examples(15))
@given(st.text(characters, min_size=1, max_size=200))
def test_a_query_and_a_note_in_other_scripts_have_the_same_vector(text: str) -> None:
    query = array("f", OFFLINE.embed_query(text, {}))
    note = array("f", OFFLINE.embed_chunks([EmbedInput("", text)])[0].vector)
    assert query.tolist() == pytest.approx(note.tolist(), abs=1e-4)


@pytest.mark.parametrize("most", [16_000, 40])
def test_a_note_has_the_same_vector_alone_and_beside_others(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(word_vectors, "MAX_WORDS", most)
    monkeypatch.setattr(languages, "_CHARS_AT_ONCE", 40)
    texts = [
        "数据库每天凌晨两点自动备份。",
        "猫は牛乳を飲むとお腹をこわす。",
        "龘 会議は火曜日 cats",
        "备份文件保留三十天 backup",
    ]
    inputs = [EmbedInput("备忘", text + other) for text in texts for other in texts]
    assert OFFLINE.embed_chunks(inputs) == [OFFLINE.embed_chunks([one])[0] for one in inputs]


# --- languages


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The server is backed up every night.", Found()),
        ("We met in Los Angeles, de facto the capital of film.", Found()),
        ("Wann ist der nächste Termin beim Zahnarzt?", Found("de")),
        ("Zahnarzt Rechnung", Found("de")),
        ("Quand est le prochain rendez-vous chez le dentiste ?", Found("fr")),
        ("¿Cuándo vence el contrato de alquiler?", Found("es")),
        ("Quando devo pagare l'affitto della casa?", Found("it")),
        ("备份数据库 with rsync", Found("", "zh")),
        ("会議室の予約", Found("", "ja")),
        ("予約確認", Found("", "ja")),
        ("预约确认", Found("", "zh")),
        ("Пароль от сервера", Found()),
        ("", Found()),
    ],
)
def test_the_language_of_a_text_is_found(text: str, found: Found) -> None:
    assert OFFLINE._languages.find(fold(text)) == found


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("when do I see the dentist", "周五下午三点看牙医", "车子的保险下个月到期"),
        ("数据库多久备份一次", "The database is backed up every night at two.", "Lunch is at noon in the canteen."),
        ("what is the cat allergic to", "猫は鶏肉アレルギーがあります", "会議は来週の火曜日に変更されました"),
        ("会議はいつですか", "The meeting was moved to Tuesday.", "The cat cannot eat chicken."),
        ("Wann muss ich zum Zahnarzt?", "Dentist appointment on Friday at three.", "The car needs new tires."),
        ("how much is the rent", "Die Miete beträgt 900 Euro im Monat.", "Der Hund muss zum Tierarzt."),
        ("car insurance", "Die Autoversicherung wurde gekündigt.", "Wir haben den Zahnarzttermin verschoben."),
        ("when is the rent due", "Le loyer est dû le premier du mois.", "Le chien n'aime pas les chats."),
        ("the dog's food", "La comida del perro está en la cocina.", "La factura del dentista está pagada."),
        ("пароль от сервера", "The server password is in the safe.", "My sister's birthday is in May."),
    ],
)
def test_an_answer_in_another_language_is_closer_than_another_note(question: str, answer: str, other: str) -> None:
    assert cosine(question, answer) > cosine(question, other) + 0.1


def test_a_word_is_closest_to_itself_and_simplified_is_close_to_traditional() -> None:
    assert cosine("汽车", "汽车") > cosine("汽车", "车辆") > cosine("汽车", "牙医")
    assert cosine("会议记录", "會議記錄") > 0.6


def test_a_compound_means_its_parts() -> None:
    german = WordFile(str(WORDS / "de.words"))
    assert split_compound(german, "zahnarzttermin") == [german.find("zahnarzt"), german.find("termin")]
    first, last = split_compound(german, "versicherungsvertrag")
    assert last == german.find("vertrag")
    assert german.read(first)[0][0][0] == german.read(german.find("versicherung"))[0][0][0]
    assert split_compound(german, "qwertzuiop") == []


def test_a_word_without_end_is_no_compound(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []

    def count_hash(word: str) -> int:
        hashed.append(len(word))
        return hash_word(word)

    monkeypatch.setattr(word_file, "hash_word", count_hash)
    embedder = OfflineEmbedder()
    assert embedder._languages.find("x" * 100_000) == Found()
    assert embedder._languages.find("dampfschiff" * 8 + "q") == Found()
    assert sum(hashed) < 10_000
    assert embedder._languages.find("hauswand " * 3) == Found("de")


def test_a_file_that_the_user_added_is_read_and_changes_the_fingerprint(tmp_path: Path) -> None:
    make_file(tmp_path, [Entry("회의", ["meeting"], 5.0), Entry("예약", ["reservation"], 4.0)], KOREAN)
    with_korean = OfflineEmbedder(str(tmp_path))
    assert with_korean.fingerprint != OFFLINE.fingerprint
    assert "hangul" in (with_korean.traits.scripts or ())
    asked, near, far = (
        array("f", with_korean.embed_query(text, {})) for text in ("when is the meeting", "회의는 화요일", "예약")
    )
    assert numpy.dot(asked, near) > numpy.dot(asked, far) + 0.2


# --- translated words


def share(query: str, text: str) -> float:
    return OFFLINE.translated_shares(query, [text])[0]


@pytest.mark.parametrize(
    ("query", "text", "other"),
    [
        ("when is my dentist appointment", "周五下午三点去看牙医", "汽车保险下个月到期"),
        ("what are the cats allergic to", "小猫对鸡肉过敏", "会议改到星期二"),
        ("when does the certificate expire", "証明書は十一月に期限が切れる", "庭のトマトに水をやる"),
        ("牙医预约在哪一天", "Dentist moved me to Thursday.", "Lunch is at noon."),
        ("会議の議事録", "Sam takes the minutes of the meeting.", "The cat cannot eat chicken."),
        ("How many sacks did NFL players register?", "NFL 的活跃领袖", "黑豹队的防线"),
    ],
)
def test_a_text_in_another_script_holds_the_words_of_a_query(query: str, text: str, other: str) -> None:
    assert share(query, text) > share(query, other) + 0.2


def test_frequent_words_are_not_translated() -> None:
    assert share("what is it that you have", "这是什么，你有的是它") == 0.0
    assert share("", "这是什么") == 0.0
    assert OFFLINE.translated_shares("dentist", []) == []


def test_a_single_character_counts_less_than_a_word() -> None:
    assert 0 < share("cat", "猫在哪里") < share("dentist", "牙医在哪里")


@settings(deadline=None)
@given(st.lists(st.text(characters, max_size=90), min_size=1, max_size=5), st.integers(1, 8))
def test_texts_are_scanned_alike_with_and_without_numpy(texts: list[str], longest: int) -> None:
    wanted: dict[int, list[int]] = {hash_word(word): [] for word in ("会議", "备份", "数据库", "猫", "東京大学")}
    assert set(_scan(texts, wanted, longest)) == set(_scan_numpy(texts, wanted, longest))


def test_a_language_in_hangul_is_translated_with_its_endings(tmp_path: Path) -> None:
    make_file(tmp_path, [Entry("회의", ["meeting"], 4.5), Entry("예약", ["reservation"], 4.0)], KOREAN)
    korean = OfflineEmbedder(str(tmp_path))
    notes = ["회의는 화요일로 바뀌었다", "예약을 취소했다"]
    first, second = korean.translated_shares("when is the meeting", notes)
    assert first > second == 0
    assert korean.translated_shares("예약을 취소해 주세요", ["the reservation", "the meeting"]) == [1.0, 0.0]


def test_a_dictionary_of_korean_knows_particles_and_inflected_forms(tmp_path: Path) -> None:
    dictionary = tmp_path / "ko.tsv"
    dictionary.write_text(
        "마시다\tto drink\t4.6\n먹다\tto eat\t5\n물\twater\t5\n회의\tmeeting\t4.5\n", encoding="utf-8"
    )
    add_language(str(dictionary), "ko", str(tmp_path / "languages"), TABLE)
    languages = OfflineEmbedder(str(tmp_path / "languages"))._languages
    file = languages.files["ko"]
    pieces = TABLE.pieces
    for word, gloss in {"마셨습니다": "drink", "먹었다": "eat", "물을": "water", "회의에서는": "meeting"}.items():
        assert [file.read(number)[0][0][0] for number in languages._numbers(file, word)] == list(pieces[gloss])
    assert languages._numbers(file, "물리학") == []


def test_a_query_is_translated_without_numpy() -> None:
    code = """
import sys
from mdrecall.embed.offline import OfflineEmbedder
print(OfflineEmbedder().translated_shares("dentist", ["周五看牙医", "汽车"]), "numpy" in sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert shown == f"{OFFLINE.translated_shares('dentist', ['周五看牙医', '汽车'])} False"


# --- making word files


def test_the_common_direction_is_that_of_the_included_files() -> None:
    files = [WordFile(str(path)) for path in sorted(WORDS.glob("*.words"))]
    assert making.find_common(files, TABLE.rows) == (WORDS / "common.i8").read_bytes()


def test_the_same_dictionary_gives_the_same_bytes() -> None:
    code = """
import hashlib, random
from pathlib import Path
from mdrecall.embed.offline import OfflineEmbedder
from training.glosses import Table, make_word_file
from training import dictionaries, languages
lines = [f"{word} {word} [x] /meaning {place}; {gloss}/" for place, (word, gloss) in enumerate(
    (chr(0x4e00 + first) + chr(0x4e00 + second), gloss)
    for first in range(30) for second in range(20) for gloss in ("dog", "to bark")
)]
dictionaries.read_files = lambda *_: ["\\n".join([*lines, "龘龍 龘龙 [x] /variant of 龍龘|龙龘/"]).encode()]
languages.read_frequencies = lambda *_: {}
card, entries = languages.chinese(Path())
random.shuffle(entries)
print(hashlib.sha256(make_word_file(entries, Table(*OfflineEmbedder().gloss_table()), card)).hexdigest())
"""
    made = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(embedder.__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1
